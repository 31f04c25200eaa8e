/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device and interface addresses: packing, validation, reachability.
 * Pure: libc only.
 */
#include "core/conn/addr.h"
#include "core/le.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define VQP_ADDR_PKEY_FULL    0x8000u /* membership bit */
#define VQP_ADDR_PKEY_DEFAULT 0xffffu

/* The first byte */
#define VQP_ADDR_KIND(_head)      ((_head) & 7)
#define VQP_ADDR_NUM_RAILS(_head) ((((_head) >> 3) & 3) + 1)
#define VQP_ADDR_HAS_PKEY         0x20u
#define VQP_ADDR_IS_LOCAL         0x40u
#define VQP_ADDR_FORMAT           0x80u

#define VQP_IFACE_ID_HASH_BITS 24

static const struct {
    uint8_t link;
    uint8_t gid_type;
    uint8_t has_gid;
} vqp_addr_kinds[] = {
    [VQP_ADDR_IB]          = {VQP_LINK_IB, VQP_GID_IB, 0},
    [VQP_ADDR_IB_GID]      = {VQP_LINK_IB, VQP_GID_IB, 1},
    [VQP_ADDR_ROCE_V1]     = {VQP_LINK_ETH, VQP_GID_ROCE_V1, 1},
    [VQP_ADDR_ROCE_V2_IP4] = {VQP_LINK_ETH, VQP_GID_ROCE_V2_IP4, 1},
    [VQP_ADDR_ROCE_V2_IP6] = {VQP_LINK_ETH, VQP_GID_ROCE_V2_IP6, 1}
};

#define VQP_ADDR_NUM_KINDS \
    (sizeof(vqp_addr_kinds) / sizeof(vqp_addr_kinds[0]))

/* The first half of a GID, which is in network order */
static uint64_t vqp_addr_gid_prefix(const uint8_t *gid)
{
    uint64_t prefix = 0;
    unsigned i;

    for (i = 0; i < 8; ++i) {
        prefix = (prefix << 8) | gid[i];
    }

    return prefix;
}

static void vqp_addr_gid_set_prefix(uint8_t *gid, uint64_t prefix)
{
    unsigned i;

    for (i = 0; i < 8; ++i) {
        gid[i] = (uint8_t)(prefix >> (56 - (8 * i)));
    }
}

/* Can all prefixes be omitted? */
static int vqp_addr_is_local(const vqp_dev_addr_t *addr)
{
    const vqp_dev_addr_rail_t *rail;
    unsigned i;

    for (i = 0; i < addr->num_rails; ++i) {
        rail = &addr->rails[i];
        if ((addr->has_gid ? vqp_addr_gid_prefix(rail->gid) :
                             rail->subnet_prefix) != VQP_ADDR_LOCAL_PREFIX) {
            return 0;
        }
    }

    return addr->gid_type != VQP_GID_ROCE_V2_IP4;
}

static unsigned vqp_addr_head(const vqp_dev_addr_t *addr)
{
    unsigned kind = 1;

    while ((kind < VQP_ADDR_NUM_KINDS - 1) &&
           ((vqp_addr_kinds[kind].gid_type != addr->gid_type) ||
            (vqp_addr_kinds[kind].has_gid != addr->has_gid))) {
        ++kind;
    }

    return kind | ((addr->num_rails - 1u) << 3) |
           ((addr->pkey == VQP_ADDR_PKEY_DEFAULT) ? 0 : VQP_ADDR_HAS_PKEY) |
           (vqp_addr_is_local(addr) ? VQP_ADDR_IS_LOCAL : 0) | VQP_ADDR_FORMAT;
}

/* Packed bytes of a GID, or of the prefix in its place */
static unsigned vqp_addr_gid_len(unsigned head)
{
    unsigned prefix_len = (head & VQP_ADDR_IS_LOCAL) ? 0 : 8;

    switch (VQP_ADDR_KIND(head)) {
    case VQP_ADDR_IB:
        return prefix_len;
    case VQP_ADDR_ROCE_V2_IP4:
        return 4;
    default:
        return prefix_len + 8;
    }
}

static size_t vqp_addr_len(unsigned head)
{
    unsigned lid_len = (VQP_ADDR_KIND(head) <= VQP_ADDR_IB_GID) ? 2 : 0;

    return 1 + ((head & VQP_ADDR_HAS_PKEY) ? 2 : 0) +
           (VQP_ADDR_NUM_RAILS(head) * (lid_len + vqp_addr_gid_len(head)));
}

size_t vqp_dev_addr_len(const vqp_dev_addr_t *addr)
{
    return vqp_addr_len(vqp_addr_head(addr));
}

size_t vqp_iface_addr_len(const vqp_dev_addr_t *dev)
{
    return vqp_dev_addr_len(dev) + 5 + (3 * (size_t)dev->num_rails);
}

size_t vqp_dev_addr_pack(const vqp_dev_addr_t *addr, void *buf)
{
    unsigned head    = vqp_addr_head(addr);
    unsigned gid_len = vqp_addr_gid_len(head);
    uint8_t *pos     = buf;
    const vqp_dev_addr_rail_t *rail;
    unsigned i;

    vqp_le_put(&pos, head, 1);
    if (head & VQP_ADDR_HAS_PKEY) {
        vqp_le_put(&pos, addr->pkey, 2);
    }

    for (i = 0; i < addr->num_rails; ++i) {
        rail = &addr->rails[i];
        if (addr->link == VQP_LINK_IB) {
            vqp_le_put(&pos, rail->lid, 2);
        }

        if (addr->has_gid) {
            memcpy(pos, rail->gid + VQP_GID_LEN - gid_len, gid_len);
            pos += gid_len;
        } else {
            vqp_le_put(&pos, rail->subnet_prefix, gid_len);
        }
    }

    return (size_t)(pos - (uint8_t*)buf);
}

static void vqp_dev_addr_unpack_rail(const uint8_t **pos, unsigned head,
                                     const vqp_dev_addr_t *addr,
                                     vqp_dev_addr_rail_t *rail)
{
    unsigned gid_len = vqp_addr_gid_len(head);

    if (addr->link == VQP_LINK_IB) {
        rail->lid           = (uint16_t)vqp_le_get(pos, 2);
        rail->subnet_prefix = VQP_ADDR_LOCAL_PREFIX;
    }

    if (!addr->has_gid) {
        if (gid_len > 0) {
            rail->subnet_prefix = vqp_le_get(pos, gid_len);
        }
        return;
    }

    if (addr->gid_type == VQP_GID_ROCE_V2_IP4) {
        rail->gid[10] = rail->gid[11] = 0xff;
    } else {
        vqp_addr_gid_set_prefix(rail->gid, VQP_ADDR_LOCAL_PREFIX);
    }

    memcpy(rail->gid + VQP_GID_LEN - gid_len, *pos, gid_len);
    *pos += gid_len;
    if (addr->link == VQP_LINK_IB) {
        rail->subnet_prefix = vqp_addr_gid_prefix(rail->gid);
    }
}

vqp_status_t vqp_dev_addr_unpack(const void *buf, size_t len,
                                 vqp_dev_addr_t *addr)
{
    const uint8_t *pos = buf;
    unsigned i, head, kind;

    if (len < 1) {
        return VQP_ERR_PROTOCOL;
    }

    head = (unsigned)vqp_le_get(&pos, 1);
    kind = VQP_ADDR_KIND(head);
    if (!(head & VQP_ADDR_FORMAT) || (kind == 0) ||
        (kind >= VQP_ADDR_NUM_KINDS)) {
        return VQP_ERR_UNSUPPORTED;
    }

    if (len < vqp_addr_len(head)) {
        return VQP_ERR_PROTOCOL;
    }

    memset(addr, 0, sizeof(*addr));
    addr->link      = vqp_addr_kinds[kind].link;
    addr->gid_type  = vqp_addr_kinds[kind].gid_type;
    addr->has_gid   = vqp_addr_kinds[kind].has_gid;
    addr->num_rails = (uint8_t)VQP_ADDR_NUM_RAILS(head);
    addr->pkey      = (head & VQP_ADDR_HAS_PKEY) ?
                      (uint16_t)vqp_le_get(&pos, 2) : VQP_ADDR_PKEY_DEFAULT;
    for (i = 0; i < addr->num_rails; ++i) {
        vqp_dev_addr_unpack_rail(&pos, head, addr, &addr->rails[i]);
    }

    /* an address has exactly one encoding */
    return (vqp_addr_head(addr) == head) ? VQP_OK : VQP_ERR_PROTOCOL;
}

/* FNV-1a of the address of the first rail's port */
static uint64_t vqp_iface_id_hash(const vqp_dev_addr_t *dev)
{
    const vqp_dev_addr_rail_t *rail = &dev->rails[0];
    uint64_t hash                   = 0xcbf29ce484222325ull;
    uint8_t text[VQP_GID_LEN];
    uint8_t *pos = text;
    unsigned i;

    memset(text, 0, sizeof(text));
    if (dev->has_gid) {
        memcpy(text, rail->gid, sizeof(text));
    } else {
        vqp_le_put(&pos, rail->subnet_prefix, 8);
        vqp_le_put(&pos, rail->lid, 2);
    }

    for (i = 0; i < sizeof(text); ++i) {
        hash = (hash ^ text[i]) * 0x100000001b3ull;
    }

    return (hash ^ (hash >> 32)) & ((1ull << VQP_IFACE_ID_HASH_BITS) - 1);
}

uint64_t vqp_iface_id(const vqp_dev_addr_t *dev, uint64_t unique)
{
    return (unique << VQP_IFACE_ID_HASH_BITS) | vqp_iface_id_hash(dev);
}

size_t vqp_iface_addr_pack(const vqp_iface_addr_t *addr, void *buf)
{
    uint8_t *pos = (uint8_t*)buf + vqp_dev_addr_pack(&addr->dev, buf);
    unsigned i;

    vqp_le_put(&pos, addr->id >> VQP_IFACE_ID_HASH_BITS, 5);
    for (i = 0; i < addr->dev.num_rails; ++i) {
        vqp_le_put(&pos, addr->ud_qpn[i], 3);
    }

    return (size_t)(pos - (uint8_t*)buf);
}

vqp_status_t vqp_iface_addr_unpack(const void *buf, size_t len,
                                   vqp_iface_addr_t *addr)
{
    const uint8_t *pos;
    vqp_status_t status;
    uint64_t unique;
    unsigned i;

    memset(addr, 0, sizeof(*addr));
    status = vqp_dev_addr_unpack(buf, len, &addr->dev);
    if (status != VQP_OK) {
        return status;
    }

    if (len < vqp_iface_addr_len(&addr->dev)) {
        return VQP_ERR_PROTOCOL;
    }

    pos    = (const uint8_t*)buf + vqp_dev_addr_len(&addr->dev);
    unique = vqp_le_get(&pos, 5);
    if (unique == 0) {
        return VQP_ERR_PROTOCOL;
    }

    addr->id = vqp_iface_id(&addr->dev, unique);
    for (i = 0; i < addr->dev.num_rails; ++i) {
        addr->ud_qpn[i] = (uint32_t)vqp_le_get(&pos, 3);
        if (addr->ud_qpn[i] == 0) {
            return VQP_ERR_PROTOCOL;
        }
    }

    return VQP_OK;
}

static const char *vqp_link_name(unsigned link)
{
    return (link == VQP_LINK_IB) ? "InfiniBand" : "Ethernet";
}

static const char *vqp_gid_type_name(unsigned type)
{
    switch (type) {
    case VQP_GID_IB:
        return "InfiniBand";
    case VQP_GID_ROCE_V1:
        return "RoCEv1";
    case VQP_GID_ROCE_V2_IP4:
        return "RoCEv2/IPv4";
    case VQP_GID_ROCE_V2_IP6:
        return "RoCEv2/IPv6";
    default:
        return "unknown";
    }
}

__attribute__((format(printf, 3, 4)))
static int vqp_addr_no(char *why, size_t size, const char *fmt, ...)
{
    va_list ap;

    if ((why != NULL) && (size > 0)) {
        va_start(ap, fmt);
        vsnprintf(why, size, fmt, ap);
        va_end(ap);
    }

    return 0;
}

/* Path i connects rail i of each side, modulo their numbers: the subnets of all such pairs
 * must be equal */
static int vqp_addr_same_subnets(const vqp_dev_addr_t *local,
                                 const vqp_dev_addr_t *remote, char *why,
                                 size_t size)
{
    const vqp_dev_addr_rail_t *near_rail, *far_rail;
    unsigned i;

    for (i = 0; i < (unsigned)local->num_rails * remote->num_rails; ++i) {
        near_rail = &local->rails[i % local->num_rails];
        far_rail  = &remote->rails[i % remote->num_rails];
        if (near_rail->subnet_prefix != far_rail->subnet_prefix) {
            return vqp_addr_no(why, size,
                               "subnet differs: local prefix 0x%016" PRIx64
                               ", remote 0x%016" PRIx64,
                               near_rail->subnet_prefix,
                               far_rail->subnet_prefix);
        }
    }

    return 1;
}

int vqp_dev_addr_reachable(const vqp_dev_addr_t *local,
                           const vqp_dev_addr_t *remote, char *why, size_t size)
{
    vqp_addr_no(why, size, "%s", "");

    if (local->link != remote->link) {
        return vqp_addr_no(why, size,
                           "link layer differs: local %s, remote %s",
                           vqp_link_name(local->link),
                           vqp_link_name(remote->link));
    }

    if (local->gid_type != remote->gid_type) {
        return vqp_addr_no(why, size, "GID type differs: local %s, remote %s",
                           vqp_gid_type_name(local->gid_type),
                           vqp_gid_type_name(remote->gid_type));
    }

    if ((local->pkey ^ remote->pkey) & (VQP_ADDR_PKEY_FULL - 1)) {
        return vqp_addr_no(why, size,
                           "partition differs: local pkey 0x%04x, remote "
                           "0x%04x", local->pkey, remote->pkey);
    }

    if (!((local->pkey | remote->pkey) & VQP_ADDR_PKEY_FULL)) {
        return vqp_addr_no(why, size,
                           "both are limited members of partition 0x%04x",
                           local->pkey);
    }

    return (local->link != VQP_LINK_IB) ||
           vqp_addr_same_subnets(local, remote, why, size);
}
