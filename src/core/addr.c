/*
 * Device and interface addresses: packing, validation, reachability.
 * Pure: libc only.
 */
#include "core/addr.h"
#include "core/le.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define VQP_ADDR_PKEY_FULL 0x8000u /* membership bit */

/* First half of a GID, which is in network order */
static uint64_t vqp_addr_gid_prefix(const uint8_t *gid)
{
    uint64_t prefix = 0;
    unsigned i;

    for (i = 0; i < 8; ++i) {
        prefix = (prefix << 8) | gid[i];
    }

    return prefix;
}

/* The bytes of a GID that travel: of ::ffff:a.b.c.d the last four */
static inline unsigned vqp_addr_gid_len(const vqp_dev_addr_t *addr)
{
    return (addr->gid_type == VQP_GID_ROCE_V2_IP4) ? 4 : VQP_GID_LEN;
}

static size_t vqp_dev_addr_rail_len(const vqp_dev_addr_t *addr)
{
    size_t len = 1;

    if (addr->link == VQP_LINK_IB) {
        len += 2;
    }

    return len + (addr->has_gid ? vqp_addr_gid_len(addr) : 8);
}

size_t vqp_dev_addr_len(const vqp_dev_addr_t *addr)
{
    return 4 + (addr->num_rails * vqp_dev_addr_rail_len(addr));
}

size_t vqp_iface_addr_len(const vqp_dev_addr_t *dev)
{
    return vqp_dev_addr_len(dev) + 8 + (3 * (size_t)dev->num_rails);
}

size_t vqp_dev_addr_pack(const vqp_dev_addr_t *addr, void *buf)
{
    unsigned gid_len = vqp_addr_gid_len(addr);
    uint8_t *pos     = buf;
    const vqp_dev_addr_rail_t *rail;
    unsigned i;

    vqp_le_put(&pos, VQP_ADDR_VERSION, 1);
    vqp_le_put(&pos,
                 addr->link | ((unsigned)addr->gid_type << 2) |
                         ((unsigned)!!addr->has_gid << 5) |
                         ((unsigned)(addr->num_rails - 1) << 6),
                 1);
    vqp_le_put(&pos, addr->pkey, 2);

    for (i = 0; i < addr->num_rails; ++i) {
        rail = &addr->rails[i];
        vqp_le_put(&pos, rail->mtu, 1);
        if (addr->link == VQP_LINK_IB) {
            vqp_le_put(&pos, rail->lid, 2);
        }

        if (addr->has_gid) {
            memcpy(pos, rail->gid + VQP_GID_LEN - gid_len, gid_len);
            pos += gid_len;
        } else {
            vqp_le_put(&pos, rail->subnet_prefix, 8);
        }
    }

    return (size_t)(pos - (uint8_t*)buf);
}

static int vqp_dev_addr_head_is_valid(const vqp_dev_addr_t *addr)
{
    switch (addr->link) {
    case VQP_LINK_IB:
        return addr->gid_type == VQP_GID_IB;
    case VQP_LINK_ETH:
        return addr->has_gid && (addr->gid_type >= VQP_GID_ROCE_V1) &&
               (addr->gid_type <= VQP_GID_ROCE_V2_IP6);
    default:
        return 0;
    }
}

vqp_status_t vqp_dev_addr_unpack(const void *buf, size_t len,
                                 vqp_dev_addr_t *addr)
{
    const uint8_t *pos = buf;
    vqp_dev_addr_rail_t *rail;
    unsigned i, bits, gid_len;

    if (len < 4) {
        return VQP_ERR_PROTOCOL;
    }

    if (vqp_le_get(&pos, 1) != VQP_ADDR_VERSION) {
        return VQP_ERR_UNSUPPORTED;
    }

    memset(addr, 0, sizeof(*addr));
    bits            = (unsigned)vqp_le_get(&pos, 1);
    addr->link      = bits & 3;
    addr->gid_type  = (bits >> 2) & 7;
    addr->has_gid   = (bits >> 5) & 1;
    addr->num_rails = (uint8_t)((bits >> 6) + 1);
    addr->pkey      = (uint16_t)vqp_le_get(&pos, 2);
    if (!vqp_dev_addr_head_is_valid(addr) || (len < vqp_dev_addr_len(addr))) {
        return VQP_ERR_PROTOCOL;
    }

    gid_len = vqp_addr_gid_len(addr);
    for (i = 0; i < addr->num_rails; ++i) {
        rail      = &addr->rails[i];
        rail->mtu = (uint8_t)vqp_le_get(&pos, 1);
        if ((rail->mtu < 1) || (rail->mtu > 5)) {
            return VQP_ERR_PROTOCOL;
        }

        if (addr->link == VQP_LINK_IB) {
            rail->lid = (uint16_t)vqp_le_get(&pos, 2);
        }

        if (addr->has_gid) {
            if (gid_len < VQP_GID_LEN) {
                rail->gid[10] = rail->gid[11] = 0xff;
            }
            memcpy(rail->gid + VQP_GID_LEN - gid_len, pos, gid_len);
            pos += gid_len;
            if (addr->link == VQP_LINK_IB) {
                rail->subnet_prefix = vqp_addr_gid_prefix(rail->gid);
            }
        } else {
            rail->subnet_prefix = vqp_le_get(&pos, 8);
        }
    }

    return VQP_OK;
}

size_t vqp_iface_addr_pack(const vqp_iface_addr_t *addr, void *buf)
{
    uint8_t *pos = (uint8_t*)buf + vqp_dev_addr_pack(&addr->dev, buf);
    unsigned i;

    vqp_le_put(&pos, addr->id, 8);
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
    unsigned i;

    memset(addr, 0, sizeof(*addr));
    status = vqp_dev_addr_unpack(buf, len, &addr->dev);
    if (status != VQP_OK) {
        return status;
    }

    if (len < vqp_iface_addr_len(&addr->dev)) {
        return VQP_ERR_PROTOCOL;
    }

    pos      = (const uint8_t*)buf + vqp_dev_addr_len(&addr->dev);
    addr->id = vqp_le_get(&pos, 8);
    if (addr->id == 0) {
        return VQP_ERR_PROTOCOL;
    }

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

/* Path i goes from rail i of the one to rail i of the other, each modulo their
 * number: a subnet must be the same wherever two may meet */
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
