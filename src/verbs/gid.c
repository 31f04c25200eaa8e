/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GIDs of a port: reading the table, choosing an index.
 * May call libibverbs and read sysfs.
 */
#include "verbs/gid.h"
#include "verbs/av.h"
#include "verbs/sysfs.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <string.h>

static int vqp_ib_gid_is_zero(const uint8_t raw[16])
{
    static const uint8_t zero[16];

    return !memcmp(raw, zero, sizeof(zero));
}

static int vqp_ib_gid_is_ipv4(const uint8_t raw[16])
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return !memcmp(raw, prefix, sizeof(prefix));
}

static vqp_ib_gid_type_t
vqp_ib_gid_read_type(const vqp_ib_dev_t *dev, const vqp_ib_port_t *port,
                     unsigned index)
{
    char buf[32];

    if (port->link == VQP_IB_LINK_IB) {
        return VQP_IB_GID_IB;
    }

    /* An old kernel without this file has version 1 only */
    if ((vqp_ib_sysfs_read(buf, sizeof(buf), "%s/ports/%u/gid_attrs/types/%u",
                           dev->ctx->device->ibdev_path, port->num,
                           index) > 0) &&
        !strcmp(buf, "RoCE v2")) {
        return VQP_IB_GID_ROCE_V2;
    }

    return VQP_IB_GID_ROCE_V1;
}

vqp_status_t vqp_ib_gid_query(const vqp_ib_dev_t *dev,
                              const vqp_ib_port_t *port, unsigned index,
                              vqp_ib_gid_t *gid)
{
    char ndev[IF_NAMESIZE];
    union ibv_gid raw;

    if ((index > VQP_IB_GID_INDEX_MAX) || ((int)index >= port->gid_tbl_len) ||
        (ibv_query_gid(dev->ctx, port->num, (int)index, &raw) != 0) ||
        vqp_ib_gid_is_zero(raw.raw)) {
        return VQP_ERR_NO_DEVICE;
    }

    memset(gid, 0, sizeof(*gid));
    memcpy(gid->raw, raw.raw, sizeof(gid->raw));
    gid->index   = (uint8_t)index;
    gid->type    = vqp_ib_gid_read_type(dev, port, index);
    gid->is_ipv4 = (gid->type != VQP_IB_GID_IB) &&
                   vqp_ib_gid_is_ipv4(raw.raw);
    if ((port->link == VQP_IB_LINK_ETH) &&
        (vqp_ib_sysfs_read(ndev, sizeof(ndev), "%s/ports/%u/gid_attrs/ndevs/%u",
                           dev->ctx->device->ibdev_path, port->num,
                           index) > 0)) {
        gid->ifindex = if_nametoindex(ndev);
    }

    return VQP_OK;
}

/* fe80::/10: no router forwards it */
static int vqp_ib_gid_is_link_local(const uint8_t raw[16])
{
    return (raw[0] == 0xfe) && ((raw[1] & 0xc0) == 0x80);
}

#define VQP_IB_GID_RANKS 5u

/* Lower is better */
static unsigned vqp_ib_gid_rank(const vqp_ib_gid_t *gid)
{
    if (gid->type != VQP_IB_GID_ROCE_V2) {
        return gid->is_ipv4 ? 3 : 4;
    }

    return gid->is_ipv4 ? 0 : vqp_ib_gid_is_link_local(gid->raw) ? 2 : 1;
}

/* The interface of a table's entry may be down or have another address: query the
 * device */
static int vqp_ib_gid_is_usable(const vqp_ib_dev_t *dev,
                                const vqp_ib_port_t *port,
                                const vqp_ib_gid_t *gid)
{
    vqp_ib_av_t av = {
        .port       = port->num,
        .sgid_index = gid->index,
        .is_global  = 1,
        .hop_limit  = 64
    };
    struct ibv_ah_attr attr;
    struct ibv_ah *ah;

    memcpy(av.dgid, gid->raw, sizeof(av.dgid));
    vqp_ib_av_fill(&av, &attr);
    ah = ibv_create_ah(dev->pd, &attr);
    if (ah == NULL) {
        return 0;
    }

    ibv_destroy_ah(ah);
    return 1;
}

static vqp_status_t vqp_ib_gid_choose_roce(const vqp_ib_dev_t *dev,
                                           const vqp_ib_port_t *port,
                                           vqp_ib_gid_t *best)
{
    unsigned best_rank = VQP_IB_GID_RANKS;
    vqp_ib_gid_t gid;
    unsigned rank;
    int index;

    for (index = 0; (index < port->gid_tbl_len) && (best_rank > 0); ++index) {
        if (vqp_ib_gid_query(dev, port, (unsigned)index, &gid) != VQP_OK) {
            continue;
        }

        rank = vqp_ib_gid_rank(&gid);
        if ((rank < best_rank) && vqp_ib_gid_is_usable(dev, port, &gid)) {
            best_rank = rank;
            *best     = gid;
        }
    }

    return (best_rank < VQP_IB_GID_RANKS) ? VQP_OK : VQP_ERR_NO_DEVICE;
}

vqp_status_t vqp_ib_gid_select(const vqp_ib_dev_t *dev,
                               const vqp_ib_port_t *port, int wanted,
                               vqp_ib_gid_t *gid)
{
    char str[VQP_IB_GID_STR_MAX];
    vqp_status_t status;

    if (wanted != VQP_IB_GID_AUTO) {
        status = (wanted < 0) ? VQP_ERR_NO_DEVICE :
                 vqp_ib_gid_query(dev, port, (unsigned)wanted, gid);
        if (status != VQP_OK) {
            vqp_ib_error("%s:%u: GID index %d, as configured, is empty or not "
                         "below %d", dev->name, port->num, wanted,
                         vqp_min(port->gid_tbl_len, VQP_IB_GID_INDEX_MAX + 1));
            return status;
        }
    } else if (port->link == VQP_IB_LINK_IB) {
        status = vqp_ib_gid_query(dev, port, 0, gid);
    } else {
        status = vqp_ib_gid_choose_roce(dev, port, gid);
    }

    if (status != VQP_OK) {
        vqp_ib_diag("%s:%u: no usable GID among %d entries; is the network "
                    "interface up, with an address?", dev->name, port->num,
                    port->gid_tbl_len);
        return status;
    }

    vqp_ib_debug("%s:%u: GID index %u, %s, %s", dev->name, port->num,
                 gid->index, vqp_ib_gid_str(gid->raw, str, sizeof(str)),
                 vqp_ib_gid_type_str(gid->type));
    return VQP_OK;
}

/* The type is a file: read it only if the value is equal */
static int vqp_ib_gid_is_at(const vqp_ib_dev_t *dev, const vqp_ib_port_t *port,
                            const vqp_ib_gid_t *gid, int index)
{
    union ibv_gid raw;

    return (ibv_query_gid(dev->ctx, port->num, index, &raw) == 0) &&
           !memcmp(raw.raw, gid->raw, sizeof(gid->raw)) &&
           (vqp_ib_gid_read_type(dev, port, (unsigned)index) == gid->type);
}

vqp_status_t vqp_ib_gid_find(const vqp_ib_dev_t *dev, const vqp_ib_port_t *port,
                             const vqp_ib_gid_t *gid, uint8_t *index)
{
    int count = vqp_min(port->gid_tbl_len, VQP_IB_GID_INDEX_MAX + 1);
    int i;

    if (vqp_ib_gid_is_at(dev, port, gid, gid->index)) {
        *index = gid->index;
        return VQP_OK;
    }

    for (i = 0; i < count; ++i) {
        if (vqp_ib_gid_is_at(dev, port, gid, i)) {
            *index = (uint8_t)i;
            return VQP_OK;
        }
    }

    return VQP_ERR_NO_DEVICE;
}

const char *vqp_ib_gid_str(const uint8_t raw[16], char *buf, size_t size)
{
    if (inet_ntop(AF_INET6, raw, buf, (socklen_t)size) == NULL) {
        buf[0] = '\0';
    }

    return buf;
}

const char *vqp_ib_gid_type_str(vqp_ib_gid_type_t type)
{
    switch (type) {
    case VQP_IB_GID_IB:
        return "InfiniBand";
    case VQP_IB_GID_ROCE_V1:
        return "RoCE v1";
    case VQP_IB_GID_ROCE_V2:
        return "RoCE v2";
    }

    return "unknown";
}
