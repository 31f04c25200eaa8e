/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One RDMA device: found, opened, with its protection domain and limits.
 * May call libibverbs and read sysfs.
 */
#include "verbs/dev.h"
#include "verbs/sysfs.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of a PCIe transaction: its usual payload, and header, sequence number,
 * checksums and framing around it */
#define VQP_IB_PCI_PAYLOAD  256
#define VQP_IB_PCI_OVERHEAD 28

/* Why vqp can not use the device; NULL: it can */
static const char *vqp_ib_dev_lacks(const struct ibv_device *device)
{
    switch (device->transport_type) {
    case IBV_TRANSPORT_IB: /* and RoCE */
        return NULL;
    case IBV_TRANSPORT_IWARP:
        return "iWARP has no UD queue pairs, and no immediates of writes";
    case IBV_TRANSPORT_UNKNOWN:
        return "libibverbs does not know its transport";
    default:
        return "it has a transport of its vendor (as EFA and usNIC), without RC queue "
               "pairs";
    }
}

/* The list is read several times in a process: one line for each device */
static int vqp_ib_dev_is_usable(const struct ibv_device *device, unsigned index)
{
    static uint64_t refused;
    const char *lacks = vqp_ib_dev_lacks(device);
    uint64_t bit      = 1ull << (index % 64);

    if (lacks == NULL) {
        return 1;
    }

    if (!(__atomic_fetch_or(&refused, bit, __ATOMIC_RELAXED) & bit)) {
        vqp_ib_diag("%s: vqp can not use this device: %s", device->name, lacks);
    }

    return 0;
}

vqp_status_t vqp_ib_dev_list_get(vqp_ib_dev_list_t *list)
{
    int i, num;

    list->count  = 0;
    list->usable = NULL;
    list->all    = ibv_get_device_list(&num);
    if (list->all == NULL) {
        if ((errno == ENOSYS) || (errno == ENOENT) || (errno == EPERM)) {
            vqp_ib_debug("no RDMA devices: %s", strerror(errno));
            return VQP_OK;
        }

        vqp_ib_error("ibv_get_device_list() failed: %s", strerror(errno));
        return (errno == ENOMEM) ? VQP_ERR_NO_MEMORY : VQP_ERR_IO;
    }

    list->usable = calloc((size_t)num + 1, sizeof(*list->usable));
    if (list->usable == NULL) {
        vqp_ib_error("failed to allocate a list of %d devices", num);
        ibv_free_device_list(list->all);
        list->all = NULL;
        return VQP_ERR_NO_MEMORY;
    }

    for (i = 0; i < num; ++i) {
        if (vqp_ib_dev_is_usable(list->all[i], (unsigned)i)) {
            list->usable[list->count++] = list->all[i];
        }
    }

    return VQP_OK;
}

void vqp_ib_dev_list_free(vqp_ib_dev_list_t *list)
{
    free(list->usable);
    if (list->all != NULL) {
        ibv_free_device_list(list->all);
    }

    memset(list, 0, sizeof(*list));
}

const char *vqp_ib_dev_list_name(const vqp_ib_dev_list_t *list, unsigned index)
{
    vqp_assert(index < list->count);
    return ibv_get_device_name(list->usable[index]);
}

int vqp_ib_dev_has_ud(const vqp_ib_dev_t *dev)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_UD,
        .cap     = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}
    };
    struct ibv_qp *qp;
    int has_ud;

    attr.send_cq = attr.recv_cq = ibv_create_cq(dev->ctx, 2, NULL, NULL, 0);
    if (attr.send_cq == NULL) {
        return 1;
    }

    qp     = ibv_create_qp(dev->pd, &attr);
    has_ud = (qp != NULL) || ((errno != EINVAL) && (errno != EOPNOTSUPP) &&
                              (errno != ENOSYS));
    if (!has_ud) {
        vqp_ib_diag("%s: vqp can not use this device: it has no UD queue pairs (%s)",
                    dev->name, strerror(errno));
    } else if (qp != NULL) {
        (void)ibv_destroy_qp(qp);
    }

    (void)ibv_destroy_cq(attr.send_cq);
    return has_ud;
}

static uint32_t vqp_ib_dev_positive(int value)
{
    return (value > 0) ? (uint32_t)value : 0;
}

static uint16_t vqp_ib_dev_rd_atom(int value)
{
    /* The queue pair attributes are 8 bits wide */
    return (uint16_t)vqp_min(vqp_ib_dev_positive(value), 255u);
}

static vqp_status_t vqp_ib_dev_query(vqp_ib_dev_t *dev)
{
    struct ibv_device_attr attr;
    int ret;

    ret = ibv_query_device(dev->ctx, &attr);
    if (ret != 0) {
        vqp_ib_error("%s: ibv_query_device() failed: %s", dev->name,
                     strerror(ret));
        return VQP_ERR_IO;
    }

    dev->node_guid             = be64toh(attr.node_guid);
    dev->sys_image_guid        = be64toh(attr.sys_image_guid);
    dev->vendor_id             = attr.vendor_id;
    dev->vendor_part_id        = attr.vendor_part_id;
    dev->num_ports             = attr.phys_port_cnt;
    dev->caps.max_mr_size      = attr.max_mr_size;
    dev->caps.max_qp           = vqp_ib_dev_positive(attr.max_qp);
    dev->caps.max_qp_wr        = vqp_ib_dev_positive(attr.max_qp_wr);
    dev->caps.max_sge          = vqp_ib_dev_positive(attr.max_sge);
    dev->caps.max_cq           = vqp_ib_dev_positive(attr.max_cq);
    dev->caps.max_cqe          = vqp_ib_dev_positive(attr.max_cqe);
    dev->caps.max_mr           = vqp_ib_dev_positive(attr.max_mr);
    dev->caps.max_ah           = vqp_ib_dev_positive(attr.max_ah);
    dev->caps.max_qp_rd_atom   = vqp_ib_dev_rd_atom(attr.max_qp_rd_atom);
    dev->caps.max_init_rd_atom = vqp_ib_dev_rd_atom(attr.max_qp_init_rd_atom);
    dev->caps.atomic_hca       = (attr.atomic_cap == IBV_ATOMIC_HCA) ||
                                 (attr.atomic_cap == IBV_ATOMIC_GLOB);
    dev->caps.atomic_glob      = (attr.atomic_cap == IBV_ATOMIC_GLOB);
    snprintf(dev->id, sizeof(dev->id), "%s-%016llx", dev->name,
             (unsigned long long)dev->node_guid);
    return VQP_OK;
}

/* Bytes/s of the PCIe link, less the packet overhead; 0: unknown */
static double vqp_ib_dev_pci_bw(const char *sysfs)
{
    char buf[32];
    double gts, encoding;
    int width;

    if ((vqp_ib_sysfs_read(buf, sizeof(buf), "%s/device/current_link_speed",
                           sysfs) < 0) ||
        (sscanf(buf, "%lf", &gts) != 1) ||
        (vqp_ib_sysfs_read(buf, sizeof(buf), "%s/device/current_link_width",
                           sysfs) < 0) ||
        (sscanf(buf, "%d", &width) != 1) || (gts <= 0) || (width <= 0)) {
        return 0;
    }

    /* Generations 1 and 2 send 10 bits per byte, later ones 130 per 128 */
    encoding = (gts < 6) ? (8.0 / 10.0) : (128.0 / 130.0);
    return (gts * 1e9 * encoding * width / 8.0) * VQP_IB_PCI_PAYLOAD /
           (VQP_IB_PCI_PAYLOAD + VQP_IB_PCI_OVERHEAD);
}

static void vqp_ib_dev_locate(vqp_ib_dev_t *dev)
{
    const char *sysfs = dev->ctx->device->ibdev_path;
    char buf[32], path[PATH_MAX], link[PATH_MAX];
    unsigned domain, bus, slot, function;
    const char *base;
    ssize_t len;

    dev->numa_node = -1;
    dev->pci_bw    = vqp_ib_dev_pci_bw(sysfs);
    if (vqp_ib_sysfs_read(buf, sizeof(buf), "%s/device/numa_node",
                          sysfs) > 0) {
        dev->numa_node = atoi(buf);
    }

    /* A virtual device has no parent, a sub-function one that is not PCI */
    snprintf(path, sizeof(path), "%s/device", sysfs);
    len = readlink(path, link, sizeof(link) - 1);
    if (len <= 0) {
        return;
    }

    link[len] = '\0';
    base      = strrchr(link, '/');
    base      = (base == NULL) ? link : (base + 1);
    if (sscanf(base, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4) {
        dev->pci.domain   = (uint16_t)domain;
        dev->pci.bus      = (uint8_t)bus;
        dev->pci.slot     = (uint8_t)slot;
        dev->pci.function = (uint8_t)function;
        dev->has_pci      = 1;
    }
}

static vqp_status_t vqp_ib_dev_open_ctx(vqp_ib_dev_t *dev, const char *name)
{
    vqp_ib_dev_list_t list;
    vqp_status_t status;
    unsigned i;

    status = vqp_ib_dev_list_get(&list);
    if (status != VQP_OK) {
        return status;
    }

    status = VQP_ERR_NO_DEVICE;
    for (i = 0; i < list.count; ++i) {
        if (!strcmp(vqp_ib_dev_list_name(&list, i), name)) {
            dev->ctx = ibv_open_device(list.usable[i]);
            status   = (dev->ctx != NULL) ? VQP_OK : VQP_ERR_IO;
            break;
        }
    }

    if (status == VQP_ERR_NO_DEVICE) {
        vqp_ib_error("%s: no RDMA device with RC and UD queue pairs has this "
                     "name", name);
    } else if (status != VQP_OK) {
        vqp_ib_error("%s: ibv_open_device() failed: %s", name, strerror(errno));
    }

    /* The list may be freed: an open context keeps its device */
    vqp_ib_dev_list_free(&list);
    return status;
}

static vqp_status_t vqp_ib_dev_set_nonblock(vqp_ib_dev_t *dev)
{
    int flags = fcntl(dev->ctx->async_fd, F_GETFL);

    if ((flags < 0) ||
        (fcntl(dev->ctx->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)) {
        vqp_ib_error("%s: failed to make the async event descriptor "
                     "nonblocking: %s", dev->name, strerror(errno));
        return VQP_ERR_IO;
    }

    return VQP_OK;
}

vqp_status_t vqp_ib_dev_open(vqp_ib_dev_t *dev, const char *name)
{
    vqp_status_t status;

    memset(dev, 0, sizeof(*dev));
    snprintf(dev->name, sizeof(dev->name), "%s", name);

    status = vqp_ib_dev_open_ctx(dev, name);
    if (status != VQP_OK) {
        return status;
    }

    status = vqp_ib_dev_set_nonblock(dev);
    if (status != VQP_OK) {
        goto err_close;
    }

    status = vqp_ib_dev_query(dev);
    if (status != VQP_OK) {
        goto err_close;
    }

    dev->pd = ibv_alloc_pd(dev->ctx);
    if (dev->pd == NULL) {
        vqp_ib_error("%s: ibv_alloc_pd() failed: %s", dev->name,
                     strerror(errno));
        status = (errno == ENOMEM) ? VQP_ERR_NO_MEMORY : VQP_ERR_IO;
        goto err_close;
    }

    vqp_ib_dev_locate(dev);
    vqp_ib_mlx5_open(&dev->mlx5, dev->ctx);
    vqp_ib_debug("%s: opened, %u ports, GUID %016llx, NUMA node %d", dev->name,
                 dev->num_ports, (unsigned long long)dev->node_guid,
                 dev->numa_node);
    return VQP_OK;

err_close:
    ibv_close_device(dev->ctx);
    return status;
}

void vqp_ib_dev_close(vqp_ib_dev_t *dev)
{
    int ret;

    vqp_ib_mlx5_close(&dev->mlx5);
    ret = ibv_dealloc_pd(dev->pd);
    if (ret != 0) {
        vqp_ib_warn("%s: ibv_dealloc_pd() failed: %s", dev->name,
                    strerror(ret));
    }

    ret = ibv_close_device(dev->ctx);
    if (ret != 0) {
        vqp_ib_warn("%s: ibv_close_device() failed: %s", dev->name,
                    strerror(errno));
    }

    dev->pd  = NULL;
    dev->ctx = NULL;
}

void vqp_ib_fork_init(void)
{
    int ret = ibv_fork_init();

    if (ret != 0) {
        vqp_ib_debug("ibv_fork_init() failed: %s; a fork() may lose registered "
                     "memory on kernels before 5.12", strerror(ret));
    }
}
