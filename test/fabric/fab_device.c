/*
 * Devices and contexts: their lists, attributes, and the table of operations
 * that verbs.h calls without libibverbs. May call libc.
 */
#include "fab_device.h"
#include "fab_async.h"
#include "fab_control.h"
#include "fab_cq.h"
#include "fab_ctx.h"
#include "fab_exec.h"
#include "fab_fault.h"
#include "fab_gid.h"
#include "fab_violations.h"
#include "fab_rq.h"
#include "fab_sysfs.h"
#include "fab_verbs.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What stands where a provider of libibverbs has its operations */
static const char fab_device_ops[] = "fabric";

uint32_t fab_dead_devs;

static struct fab_device fab_devices[FAB_CONFIG_MAX_DEVICES];
static char fab_device_names[FAB_CONFIG_MAX_DEVICES][8];
static pthread_once_t fab_device_once = PTHREAD_ONCE_INIT;
static pthread_once_t fab_init_once   = PTHREAD_ONCE_INIT;

static void fab_device_setup(void)
{
    char error[256];
    unsigned i;

    fab_config_init();
    if (fab_gid_init(error, sizeof(error)) != 0) {
        fab_log("%s", error);
        _exit(2);
    }

    for (i = 0; i < FAB_CONFIG_MAX_DEVICES; ++i) {
        snprintf(fab_device_names[i], sizeof(fab_device_names[i]), "fab%u", i);
    }
}

void fab_device_init(void)
{
    pthread_once(&fab_device_once, fab_device_setup);
}

static void fab_device_setup_list(const char *root)
{
    int has_rc = (fab_config.profile != FAB_PROFILE_EFA);
    struct fab_device *device;
    unsigned i;

    for (i = 0; i < fab_config.devices; ++i) {
        device        = &fab_devices[i];
        device->ops   = fab_device_ops;
        device->index = i;

        device->ibv.node_type      = has_rc ? IBV_NODE_CA : IBV_NODE_UNSPECIFIED;
        device->ibv.transport_type = has_rc ? IBV_TRANSPORT_IB :
                                              IBV_TRANSPORT_UNSPECIFIED;
        snprintf(device->ibv.name, sizeof(device->ibv.name), "%s",
                 fab_dev_name(i));
        snprintf(device->ibv.dev_name, sizeof(device->ibv.dev_name), "uverbs%u",
                 i);
        snprintf(device->ibv.dev_path, sizeof(device->ibv.dev_path),
                 "%s/sys/class/infiniband_verbs/uverbs%u", root, i);
        snprintf(device->ibv.ibdev_path, sizeof(device->ibv.ibdev_path),
                 "%s/sys/class/infiniband/%s", root, fab_dev_name(i));
    }
}

static void fab_init_all(void)
{
    const char *root;

    fab_device_init();
    root = fab_sysfs_root();
    if ((root == NULL) || (fab_violations_set(fab_config.violations) != 0)) {
        if (root != NULL) {
            fab_log(
                "VQP_FABRIC_VIOLATIONS=%s: must be off, warn, fail or abort",
                fab_config.violations);
        }
        _exit(2);
    }

    fab_fault_init(fab_config.faults, fab_config.seed);
    fab_device_setup_list(root);
}

void fab_init(void)
{
    pthread_once(&fab_init_once, fab_init_all);
}

const char *fab_dev_name(unsigned dev)
{
    return fab_device_names[dev];
}

char *fab_device_pci_name(unsigned index, char *buf, size_t size)
{
    snprintf(buf, size, "fab0:%02x:00.0", index);
    return buf;
}

int fab_device_find(const char *name)
{
    unsigned i;

    for (i = 0; i < fab_config.devices; ++i) {
        if (!strcmp(fab_dev_name(i), name)) {
            return (int)i;
        }
    }

    return -1;
}

fab_off_t fab_context_ctx(struct ibv_context *context)
{
    return fab_off(fab_context_of(context)->ctx);
}

unsigned fab_context_dev(struct ibv_context *context)
{
    return fab_context_of(context)->device;
}

struct ibv_device **fab_device_get_list(int *num)
{
    struct ibv_device **list;
    unsigned i;

    fab_init();
    list = calloc(fab_config.devices + 1, sizeof(*list));
    if (list == NULL) {
        errno = ENOMEM;
        return NULL;
    }

    for (i = 0; i < fab_config.devices; ++i) {
        list[i] = &fab_devices[i].ibv;
    }

    if (num != NULL) {
        *num = (int)fab_config.devices;
    }

    return list;
}

static struct ibv_cq_ex *fab_device_create_cq_ex(struct ibv_context *context,
                                                 struct ibv_cq_init_attr_ex *attr)
{
    if (fab_verbs_enter(FAB_CALL_CREATE_CQ) != 0) {
        return NULL;
    }

    return fab_verbs_made(FAB_OBJ_CQ, fab_cq_create_ex(context, attr));
}

static void fab_device_set_ops(struct verbs_context *verbs)
{
    struct ibv_context_ops *ops = &verbs->context.ops;

    ops->poll_cq       = fab_cq_poll;
    ops->req_notify_cq = fab_cq_req_notify;
    ops->post_srq_recv = fab_srq_post_recv;
    ops->post_send     = fab_post_send;
    ops->post_recv     = fab_post_recv;

    verbs->query_port      = fab_device_query_port;
    verbs->query_device_ex = fab_device_query;
    verbs->create_cq_ex    = fab_device_create_cq_ex;
    verbs->sz              = sizeof(*verbs);
    verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

struct ibv_context *fab_device_open(struct ibv_device *device)
{
    struct fab_context *fab;
    struct ibv_context *context;
    int ret;

    ret = fab_world_attach();
    if (ret != 0) {
        goto err;
    }

    fab = calloc(1, sizeof(*fab));
    if (fab == NULL) {
        ret = ENOMEM;
        goto err;
    }

    fab->device     = ((struct fab_device*)device)->index;
    context         = &fab->verbs.context;
    context->device = device;
    /* Some close it, or wait on it: one that is open and never readable */
    context->cmd_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (context->cmd_fd < 0) {
        ret = errno;
        goto err_free;
    }

    context->num_comp_vectors = 1;
    pthread_mutex_init(&context->mutex, NULL);
    fab_device_set_ops(&fab->verbs);
    ret = fab_async_open(context);
    if (ret != 0) {
        goto err_close;
    }

    fab_control_count(FAB_OBJ_CONTEXT, 1);
    return context;

err_close:
    pthread_mutex_destroy(&context->mutex);
    close(context->cmd_fd);
err_free:
    free(fab);
err:
    errno = ret;
    return NULL;
}

int fab_device_close(struct ibv_context *context)
{
    fab_async_close(context);
    pthread_mutex_destroy(&context->mutex);
    close(context->cmd_fd);
    free(fab_context_of(context));
    fab_control_count(FAB_OBJ_CONTEXT, -1);
    return 0;
}

static void fab_device_fill(unsigned index, struct ibv_device_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%s", FAB_DEVICE_FW);
    attr->node_guid           = htobe64(fab_gid_guid(index, 0));
    attr->sys_image_guid      = attr->node_guid;
    attr->max_mr_size         = UINT64_MAX;
    attr->page_size_cap       = 0xfffff000;
    attr->vendor_id           = (fab_config.profile == FAB_PROFILE_BNXT) ?
                                        FAB_DEVICE_BROADCOM : FAB_DEVICE_VENDOR;
    attr->vendor_part_id      = FAB_DEVICE_PART;
    attr->max_qp              = (int)fab_config.max_qp;
    attr->max_qp_wr           = (int)fab_config.max_qp_wr;
    attr->device_cap_flags    = IBV_DEVICE_SHUTDOWN_PORT |
                                IBV_DEVICE_SYS_IMAGE_GUID |
                                IBV_DEVICE_RC_RNR_NAK_GEN |
                                IBV_DEVICE_PORT_ACTIVE_EVENT;
    attr->max_sge             = (int)fab_config.max_sge;
    attr->max_sge_rd          = (int)fab_config.max_sge;
    attr->max_cq              = (int)fab_config.max_cq;
    attr->max_cqe             = (int)fab_config.max_cqe;
    attr->max_mr              = (int)fab_config.max_mr;
    attr->max_pd              = 1 << 24;
    attr->max_qp_rd_atom      = (int)fab_config.max_rd_atomic;
    attr->max_qp_init_rd_atom = (int)fab_config.max_rd_atomic;
    attr->max_res_rd_atom     = (int)fab_config.max_rd_atomic *
                                (int)fab_config.max_qp;
    attr->max_ah              = INT32_MAX;
    attr->max_srq             = (int)fab_config.max_srq;
    attr->max_srq_wr          = (int)fab_config.max_srq_wr;
    attr->max_srq_sge         = (int)fab_config.max_srq_sge;
    attr->max_pkeys           = 1;
    attr->local_ca_ack_delay  = 16;
    attr->phys_port_cnt       = (uint8_t)fab_config.ports;
    switch (fab_config.atomics) {
    case FAB_ATOMICS_NONE:
        attr->atomic_cap = IBV_ATOMIC_NONE;
        break;
    case FAB_ATOMICS_HCA:
        attr->atomic_cap = IBV_ATOMIC_HCA;
        break;
    case FAB_ATOMICS_GLOB:
        attr->atomic_cap = IBV_ATOMIC_GLOB;
        break;
    }
}

int fab_device_query(struct ibv_context *context,
                     const struct ibv_query_device_ex_input *input,
                     struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr_ex all;
    int err;

    err = fab_fault_call(FAB_CALL_QUERY_DEVICE);
    if (err != 0) {
        return err;
    }

    if (((input != NULL) && (input->comp_mask != 0)) ||
        (size < sizeof(all.orig_attr))) {
        return EINVAL;
    }

    memset(&all, 0, sizeof(all));
    fab_device_fill(fab_context_dev(context), &all.orig_attr);
    all.phys_port_cnt_ex = (uint32_t)fab_config.ports;
    memset(attr, 0, size);
    memcpy(attr, &all, (size < sizeof(all)) ? size : sizeof(all));
    return 0;
}

static uint8_t fab_device_width_code(void)
{
    switch (fab_config.width) {
    case 1:
        return 1;
    case 4:
        return 2;
    case 8:
        return 4;
    case 12:
        return 8;
    default:
        return 16; /* 2 lanes came last */
    }
}

static enum ibv_mtu fab_device_mtu_code(void)
{
    enum ibv_mtu mtu = IBV_MTU_256;
    uint64_t bytes;

    for (bytes = 256; bytes < fab_config.mtu; bytes <<= 1) {
        ++mtu;
    }

    return mtu;
}

static void fab_device_fill_port(unsigned index, unsigned port,
                                 struct ibv_port_attr *attr)
{
    static const uint8_t speeds[] = {
        [FAB_SPEED_SDR] = 1,  [FAB_SPEED_DDR] = 2,  [FAB_SPEED_QDR] = 4,
        [FAB_SPEED_FDR] = 16, [FAB_SPEED_EDR] = 32, [FAB_SPEED_HDR] = 64,
        [FAB_SPEED_NDR] = 128
    };
    int eth  = (fab_config.link == FAB_LINK_ETHERNET);
    int down = __atomic_load_n(&fab_world->devs[index].ports[port - 1].down,
                               __ATOMIC_RELAXED) != 0;

    memset(attr, 0, sizeof(*attr));
    attr->state          = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    attr->phys_state     = down ? 3 : 5; /* disabled, link up */
    attr->max_mtu        = IBV_MTU_4096;
    attr->active_mtu     = fab_device_mtu_code();
    attr->gid_tbl_len    = (int)fab_config.gid_tbl_len;
    attr->port_cap_flags = FAB_DEVICE_PORT_CAP;
    attr->max_msg_sz     = (uint32_t)fab_config.max_msg;
    attr->pkey_tbl_len   = 1;
    attr->lid            = fab_gid_lid(index, port);
    attr->sm_lid         = eth ? 0 : 1;
    attr->max_vl_num     = 1;
    attr->active_width   = fab_device_width_code();
    attr->active_speed   = speeds[fab_config.speed];
    attr->link_layer     = eth ? IBV_LINK_LAYER_ETHERNET :
                                 IBV_LINK_LAYER_INFINIBAND;
    attr->flags          = eth ? IBV_QPF_GRH_REQUIRED : 0;
}

int fab_device_query_port(struct ibv_context *context, uint8_t port,
                          struct ibv_port_attr *attr, size_t size)
{
    struct ibv_port_attr all;
    int err;

    err = fab_fault_call(FAB_CALL_QUERY_PORT);
    err = (err != 0) ? err : fab_context_dead(context);
    if (err != 0) {
        return err;
    }

    if ((port < 1) || (port > fab_config.ports)) {
        return EINVAL;
    }

    fab_device_fill_port(fab_context_dev(context), port, &all);
    memset(attr, 0, size);
    memcpy(attr, &all, (size < sizeof(all)) ? size : sizeof(all));
    return 0;
}

int fab_device_set(const char *device, int works)
{
    unsigned port;
    int index, ret;

    fab_init();
    index = fab_device_find(device);
    ret   = (index < 0) ? ENODEV : fab_world_attach();
    if (ret != 0) {
        return ret;
    }

    fab_verbose(1, "%s %s", device, works ? "works" : "has failed");
    if (works) {
        __atomic_fetch_and(&fab_dead_devs, ~(1u << index), __ATOMIC_ACQ_REL);
    } else {
        __atomic_fetch_or(&fab_dead_devs, 1u << index, __ATOMIC_ACQ_REL);
        fab_async_raise_port((uint32_t)index, 0, IBV_EVENT_DEVICE_FATAL);
    }

    for (port = 1; (port <= fab_config.ports) && (ret == 0); ++port) {
        ret = fab_port_set(device, port, works);
    }

    return ret;
}

/* The index of the device. @return 0 or an errno */
static int fab_port_find(const char *device, unsigned port, int *index)
{
    fab_init();
    *index = fab_device_find(device);
    if (*index < 0) {
        return ENODEV;
    }

    return ((port < 1) || (port > fab_config.ports)) ? EINVAL : fab_world_attach();
}

int fab_port_set(const char *device, unsigned port, int up)
{
    uint32_t down = !up;
    int index, ret;

    ret = fab_port_find(device, port, &index);
    if (ret != 0) {
        return ret;
    }

    if (__atomic_exchange_n(&fab_world->devs[index].ports[port - 1].down, down,
                            __ATOMIC_ACQ_REL) != down) {
        fab_verbose(1, "%s:%u is %s", device, port, up ? "up" : "down");
        fab_sysfs_set_port(index, port, up);
        fab_async_raise_port(index, port,
                             up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
    }

    return 0;
}

int fab_port_move_gids(const char *device, unsigned port, uint64_t moved)
{
    int index, ret;

    ret = fab_port_find(device, port, &index);
    if (ret != 0) {
        return ret;
    }

    if (fab_config.link != FAB_LINK_ETHERNET) {
        return EINVAL;
    }

    if (__atomic_exchange_n(&fab_world->devs[index].ports[port - 1].gids_moved,
                            moved, __ATOMIC_ACQ_REL) != moved) {
        fab_verbose(1, "%s:%u: GIDs are %llu further on", device, port,
                    (unsigned long long)moved);
        fab_sysfs_set_gids(index, port);
        fab_async_raise_port(index, port, IBV_EVENT_GID_CHANGE);
    }

    return 0;
}
