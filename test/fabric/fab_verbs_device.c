/*
 * The functions of libibverbs about devices and addresses; see fab_verbs.h.
 */
#include "fab_verbs.h"
#include "fab_device.h"
#include "fab_gid.h"
#include "fab_ud.h"

#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_query_port

/* ---- devices ---- */

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    fab_init();
    if (fab_verbs_enter(FAB_CALL_GET_DEVICE_LIST) != 0) {
        return NULL;
    }

    return fab_device_get_list(num_devices);
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
    return (int)((struct fab_device*)device)->index;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    return htobe64(fab_gid_guid(((struct fab_device*)device)->index, 0));
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (fab_verbs_enter(FAB_CALL_OPEN_DEVICE) != 0) {
        return NULL;
    }

    return fab_device_open(device);
}

int ibv_close_device(struct ibv_context *context)
{
    int err = fab_verbs_enter(FAB_CALL_CLOSE_DEVICE);

    return (err != 0) ? err : fab_device_close(context);
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
    (void)cmd_fd;
    errno = EOPNOTSUPP;
    return NULL;
}

int ibv_fork_init(void)
{
    return 0; /* the memory of regions is ordinary memory here */
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    struct ibv_device_attr_ex all;
    int ret;

    ret = fab_device_query(context, NULL, &all, sizeof(all));
    if (ret == 0) {
        *attr = all.orig_attr;
    }

    return ret;
}

/* Of callers that were compiled before port_cap_flags2 */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
                   struct _compat_ibv_port_attr *attr)
{
    return fab_device_query_port(context, port_num,
                                 (struct ibv_port_attr*)attr,
                                 offsetof(struct ibv_port_attr,
                                          port_cap_flags2));
}

/* ---- addresses ---- */

/* 0, or the errno; the entry may be empty */
static int fab_verbs_gid(struct ibv_context *context, unsigned port, int index,
                         union ibv_gid *gid, enum fab_gid_type *type)
{
    int err = fab_verbs_enter(FAB_CALL_QUERY_GID);

    if (err != 0) {
        return err;
    }

    if ((port < 1) || (port > fab_config.ports) ||
        (fab_gid_get(fab_context_dev(context), port, index, gid, type) != 0)) {
        return EINVAL;
    }

    return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
                  union ibv_gid *gid)
{
    enum fab_gid_type type;
    int ret;

    ret = fab_verbs_gid(context, port_num, index, gid, &type);
    if (ret != 0) {
        errno = ret;
        return -1;
    }

    return 0;
}

static void fab_verbs_gid_entry(struct ibv_gid_entry *entry, size_t entry_size,
                                const union ibv_gid *gid,
                                enum fab_gid_type type, uint32_t port,
                                uint32_t index)
{
    struct ibv_gid_entry all;

    memset(&all, 0, sizeof(all));
    all.gid       = *gid;
    all.gid_index = index;
    all.port_num  = port;
    switch (type) {
    case FAB_GID_ROCE_V1:
        all.gid_type = IBV_GID_TYPE_ROCE_V1;
        break;
    case FAB_GID_ROCE_V2:
        all.gid_type = IBV_GID_TYPE_ROCE_V2;
        break;
    case FAB_GID_IB:
    case FAB_GID_EMPTY:
        all.gid_type = IBV_GID_TYPE_IB;
        break;
    }

    if (all.gid_type != IBV_GID_TYPE_IB) {
        all.ndev_ifindex = if_nametoindex(fab_config.ndev);
    }

    memcpy(entry, &all, (entry_size < sizeof(all)) ? entry_size : sizeof(all));
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
                      uint32_t gid_index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t entry_size)
{
    enum fab_gid_type type;
    union ibv_gid gid;
    int ret;

    if (flags != 0) {
        return EINVAL;
    }

    ret = fab_verbs_gid(context, port_num, (int)gid_index, &gid, &type);
    if (ret != 0) {
        return ret;
    }

    if (type == FAB_GID_EMPTY) {
        return ENODATA;
    }

    fab_verbs_gid_entry(entry, entry_size, &gid, type, port_num, gid_index);
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context,
                             struct ibv_gid_entry *entries, size_t max_entries,
                             uint32_t flags, size_t entry_size)
{
    enum fab_gid_type type;
    union ibv_gid gid;
    size_t count = 0;
    unsigned port;
    int index, ret;

    if (flags != 0) {
        return -EINVAL;
    }

    for (port = 1; port <= fab_config.ports; ++port) {
        for (index = 0; index < (int)fab_config.gid_tbl_len; ++index) {
            ret = fab_verbs_gid(context, port, index, &gid, &type);
            if (ret != 0) {
                return -ret;
            }

            if ((type == FAB_GID_EMPTY) || (count == max_entries)) {
                continue;
            }

            fab_verbs_gid_entry((struct ibv_gid_entry*)((char*)entries +
                                                        count * entry_size),
                                entry_size, &gid, type, port, (uint32_t)index);
            ++count;
        }
    }

    return (ssize_t)count;
}

/* No header has it, and ibv_devinfo and libmlx5 call it: 0 is version 1 or
 * InfiniBand, 1 is version 2 */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
                       unsigned int index, unsigned int *type);

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
                       unsigned int index, unsigned int *type)
{
    enum fab_gid_type gid_type;
    union ibv_gid gid;
    int ret;

    ret = fab_verbs_gid(context, port_num, (int)index, &gid, &gid_type);
    if (ret != 0) {
        errno = ret;
        return -1;
    }

    *type = (gid_type == FAB_GID_ROCE_V2);
    return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index,
                   __be16 *pkey)
{
    (void)context;
    if (fab_verbs_enter(FAB_CALL_QUERY_PKEY) != 0) {
        return -1;
    }

    if ((port_num < 1) || (port_num > fab_config.ports) || (index != 0)) {
        errno = EINVAL;
        return -1;
    }

    *pkey = htobe16(0xffff);
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num,
                       __be16 pkey)
{
    __be16 own;

    return ((ibv_query_pkey(context, port_num, 0, &own) == 0) &&
            (own == pkey)) ? 0 : -1;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    if (fab_verbs_enter_on(pd->context, FAB_CALL_CREATE_AH) != 0) {
        return NULL;
    }

    return fab_verbs_made(FAB_OBJ_AH, fab_ah_create(pd, attr));
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    int err = fab_verbs_enter(FAB_CALL_DESTROY_AH);

    return (err != 0) ? err : fab_verbs_gone(FAB_OBJ_AH, fab_ah_destroy(ah));
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num,
                        struct ibv_wc *wc, struct ibv_grh *grh,
                        struct ibv_ah_attr *ah_attr)
{
    return fab_ah_attr_from_wc(context, port_num, wc, grh, ah_attr);
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
                                     struct ibv_grh *grh, uint8_t port_num)
{
    struct ibv_ah_attr attr;

    if (fab_ah_attr_from_wc(pd->context, port_num, wc, grh, &attr) != 0) {
        return NULL;
    }

    return ibv_create_ah(pd, &attr);
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context,
                                struct ibv_ah_attr *attr,
                                uint8_t eth_mac[ETHERNET_LL_SIZE],
                                uint16_t *vid)
{
    (void)context;
    (void)attr;
    (void)eth_mac;
    (void)vid;
    errno = EOPNOTSUPP; /* there are no Ethernet frames here */
    return -1;
}
