/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control datagrams: encoding, and decoding with full validation.
 * Pure: libc only. All fields are read and written byte by byte through a cursor, so
 * neither alignment nor the host's byte order matters.
 */
#include "core/conn/wire.h"
#include "core/le.h"

#include "core/seq.h"

#include <string.h>

#define VQP_WIRE_PATH_DOWN_LEN 16
#define VQP_WIRE_PATH_UP_LEN   16
#define VQP_WIRE_24_BITS       0xffffffu

static inline int vqp_wire_is_pow2(uint32_t value)
{
    return (value != 0) && ((value & (value - 1)) == 0);
}

const char *vqp_wire_type_name(unsigned type)
{
    switch (type) {
#define VQP_WIRE_TYPE_CASE(_name, _value) \
    case _value: \
        return #_name;
        VQP_WIRE_TYPES(VQP_WIRE_TYPE_CASE)
#undef VQP_WIRE_TYPE_CASE
    default:
        return "unknown";
    }
}

static int vqp_wire_rail_is_valid(const vqp_wire_rail_t *rail)
{
    static const uint8_t zero[VQP_GID_LEN];
    int has_gid = memcmp(rail->gid, zero, sizeof(zero)) != 0;

    if ((rail->ud_qpn == 0) || (rail->ud_qpn > VQP_WIRE_24_BITS) ||
        (rail->mtu < 1) || (rail->mtu > 5)) {
        return 0;
    }

    switch (rail->link) {
    case VQP_LINK_IB:
        return (rail->lid != 0) || has_gid;
    case VQP_LINK_ETH:
        return (rail->lid == 0) && has_gid;
    default:
        return 0;
    }
}

vqp_status_t vqp_wire_info_check(const vqp_wire_info_t *info)
{
    unsigned i;

    if (!vqp_wire_is_pow2(info->ring_size) ||
        (info->ring_size < VQP_WIRE_MIN_RING) ||
        (info->ring_size > VQP_WIRE_MAX_RING) ||
        (info->ring_addr == 0) ||
        (info->ring_addr > (UINT64_MAX - info->ring_size)) ||
        (info->cell_addr == 0) || ((info->cell_addr & 7) != 0) ||
        (info->scratch_addr > (UINT64_MAX - VQP_SCRATCH_SIZE))) {
        return VQP_ERR_PROTOCOL;
    }

    if (!vqp_wire_is_pow2(info->fsn_window) || (info->fsn_window < 2) ||
        (info->fsn_window > VQP_WIRE_MAX_WINDOW) ||
        (info->first_fsn > VQP_FSN_MASK) || (info->rx_depth == 0) ||
        (info->rx_depth > VQP_WIRE_MAX_RX_DEPTH)) {
        return VQP_ERR_PROTOCOL;
    }

    if ((info->num_rails < 1) || (info->num_rails > VQP_MAX_RAILS) ||
        (info->num_paths < 1) || (info->num_paths > VQP_MAX_PATHS) ||
        (info->max_paths > VQP_MAX_PATHS) ||
        ((info->max_paths != 0) && (info->max_paths < info->num_paths))) {
        return VQP_ERR_PROTOCOL;
    }

    for (i = 0; i < info->num_rails; ++i) {
        if (!vqp_wire_rail_is_valid(&info->rails[i])) {
            return VQP_ERR_PROTOCOL;
        }
    }

    for (i = 0; i < info->num_paths; ++i) {
        if ((info->paths[i].qpn == 0) ||
            (info->paths[i].qpn > VQP_WIRE_24_BITS) ||
            (info->paths[i].psn > VQP_WIRE_24_BITS) ||
            (info->paths[i].rail >= info->num_rails)) {
            return VQP_ERR_PROTOCOL;
        }
    }

    return VQP_OK;
}

static void vqp_wire_put_info(uint8_t **pos, const vqp_wire_info_t *info)
{
    const vqp_wire_rail_t *rail;
    unsigned i;

    vqp_le_put(pos, info->ring_addr, 8);
    vqp_le_put(pos, info->cell_addr, 8);
    vqp_le_put(pos, info->ring_size, 4);
    vqp_le_put(pos, info->fsn_window, 4);
    vqp_le_put(pos, info->first_fsn, 4);
    vqp_le_put(pos, info->rx_depth, 4);
    vqp_le_put(pos, info->max_reads, 1);
    vqp_le_put(pos, info->num_rails, 1);
    vqp_le_put(pos, info->num_paths, 1);
    vqp_le_put(pos, info->max_paths, 1);
    vqp_le_put(pos, info->key_layout, 2);
    vqp_le_put(pos, 0, 2);
    vqp_le_put(pos, info->scratch_addr, 8);

    for (i = 0; i < info->num_rails; ++i) {
        rail = &info->rails[i];
        vqp_le_put(pos, rail->ud_qpn, 4);
        vqp_le_put(pos, rail->lid, 2);
        vqp_le_put(pos, rail->mtu, 1);
        vqp_le_put(pos, rail->link, 1);
        memcpy(*pos, rail->gid, VQP_GID_LEN);
        *pos += VQP_GID_LEN;
        vqp_le_put(pos, rail->ring_rkey, 4);
        vqp_le_put(pos, rail->scratch_rkey, 4);
    }

    for (i = 0; i < info->num_paths; ++i) {
        vqp_le_put(pos, info->paths[i].qpn, 4);
        vqp_le_put(pos, info->paths[i].psn, 3);
        vqp_le_put(pos, info->paths[i].rail, 1);
    }
}

static vqp_status_t vqp_wire_get_info(const uint8_t *pos, size_t len,
                                      vqp_wire_info_t *info)
{
    vqp_wire_rail_t *rail;
    unsigned i;

    if (len < VQP_WIRE_INFO_LEN) {
        return VQP_ERR_PROTOCOL;
    }

    info->ring_addr  = vqp_le_get(&pos, 8);
    info->cell_addr  = vqp_le_get(&pos, 8);
    info->ring_size  = (uint32_t)vqp_le_get(&pos, 4);
    info->fsn_window = (uint32_t)vqp_le_get(&pos, 4);
    info->first_fsn  = (uint32_t)vqp_le_get(&pos, 4);
    info->rx_depth   = (uint32_t)vqp_le_get(&pos, 4);
    info->max_reads  = (uint8_t)vqp_le_get(&pos, 1);
    info->num_rails  = (uint8_t)vqp_le_get(&pos, 1);
    info->num_paths  = (uint8_t)vqp_le_get(&pos, 1);
    info->max_paths  = (uint8_t)vqp_le_get(&pos, 1);
    info->key_layout = (uint16_t)vqp_le_get(&pos, 2);
    pos             += 2;
    info->scratch_addr = vqp_le_get(&pos, 8);

    /* Validate the numbers before they are used */
    if ((info->num_rails > VQP_MAX_RAILS) ||
        (info->num_paths > VQP_MAX_PATHS) ||
        (len != (VQP_WIRE_INFO_LEN +
                 ((size_t)info->num_rails * VQP_WIRE_RAIL_LEN) +
                 ((size_t)info->num_paths * VQP_WIRE_PATH_LEN)))) {
        return VQP_ERR_PROTOCOL;
    }

    for (i = 0; i < info->num_rails; ++i) {
        rail         = &info->rails[i];
        rail->ud_qpn = (uint32_t)vqp_le_get(&pos, 4);
        rail->lid    = (uint16_t)vqp_le_get(&pos, 2);
        rail->mtu    = (uint8_t)vqp_le_get(&pos, 1);
        rail->link   = (uint8_t)vqp_le_get(&pos, 1);
        memcpy(rail->gid, pos, VQP_GID_LEN);
        pos            += VQP_GID_LEN;
        rail->ring_rkey = (uint32_t)vqp_le_get(&pos, 4);
        rail->scratch_rkey = (uint32_t)vqp_le_get(&pos, 4);
    }

    for (i = 0; i < info->num_paths; ++i) {
        info->paths[i].qpn  = (uint32_t)vqp_le_get(&pos, 4);
        info->paths[i].psn  = (uint32_t)vqp_le_get(&pos, 3);
        info->paths[i].rail = (uint8_t)vqp_le_get(&pos, 1);
    }

    return vqp_wire_info_check(info);
}

static void vqp_wire_put_path_down(uint8_t **pos,
                                   const vqp_wire_path_down_t *down)
{
    vqp_le_put(pos, down->path, 1);
    vqp_le_put(pos, down->source, 1);
    vqp_le_put(pos, down->fails, 1);
    vqp_le_put(pos, down->rail, 1);
    vqp_le_put(pos, down->count, 4);
    vqp_le_put(pos, down->imms, 4);
    vqp_le_put(pos, 0, 4);
}

static vqp_status_t vqp_wire_get_path_down(const uint8_t *pos, size_t len,
                                           vqp_wire_path_down_t *down)
{
    if (len != VQP_WIRE_PATH_DOWN_LEN) {
        return VQP_ERR_PROTOCOL;
    }

    down->path   = (uint8_t)vqp_le_get(&pos, 1);
    down->source = (uint8_t)vqp_le_get(&pos, 1);
    down->fails  = (uint8_t)vqp_le_get(&pos, 1);
    down->rail   = (uint8_t)vqp_le_get(&pos, 1);
    down->count  = (uint32_t)vqp_le_get(&pos, 4);
    down->imms   = (uint32_t)vqp_le_get(&pos, 4);

    if ((down->path >= VQP_MAX_PATHS) || (down->source >= VQP_WIRE_SOURCES) ||
        (down->count > VQP_WIRE_24_BITS) || (down->imms > VQP_WIRE_24_BITS) ||
        (down->rail > VQP_MAX_RAILS)) {
        return VQP_ERR_PROTOCOL;
    }

    return VQP_OK;
}

static void vqp_wire_put_path_up(uint8_t **pos, const vqp_wire_path_up_t *up)
{
    vqp_le_put(pos, up->path, 1);
    vqp_le_put(pos, up->rail, 1);
    vqp_le_put(pos, up->first, 1);
    vqp_le_put(pos, 0, 1);
    vqp_le_put(pos, up->qpn, 4);
    vqp_le_put(pos, up->psn, 4);
    vqp_le_put(pos, 0, 4);
}

static vqp_status_t vqp_wire_get_path_up(const uint8_t *pos, size_t len,
                                         vqp_wire_path_up_t *up)
{
    if (len != VQP_WIRE_PATH_UP_LEN) {
        return VQP_ERR_PROTOCOL;
    }

    up->path  = (uint8_t)vqp_le_get(&pos, 1);
    up->rail  = (uint8_t)vqp_le_get(&pos, 1);
    up->first = (uint8_t)vqp_le_get(&pos, 1);
    pos      += 1;
    up->qpn   = (uint32_t)vqp_le_get(&pos, 4);
    up->psn   = (uint32_t)vqp_le_get(&pos, 4);

    if ((up->path >= VQP_MAX_PATHS) || (up->rail >= VQP_MAX_RAILS) ||
        (up->first > VQP_MAX_RAILS) ||
        (up->qpn == 0) || (up->qpn > VQP_WIRE_24_BITS) ||
        (up->psn > VQP_WIRE_24_BITS)) {
        return VQP_ERR_PROTOCOL;
    }

    return VQP_OK;
}

size_t vqp_wire_encode(const vqp_wire_header_t *hdr, const void *body,
                       void *buf)
{
    uint8_t *start = buf;
    uint8_t *pos   = start;
    uint8_t *length;

    vqp_le_put(&pos, VQP_WIRE_MAGIC, 4);
    vqp_le_put(&pos, VQP_WIRE_VERSION, 1);
    vqp_le_put(&pos, hdr->type, 1);
    length = pos;
    pos   += 2;
    vqp_le_put(&pos, hdr->features, 4);
    vqp_le_put(&pos, hdr->number, 4);
    vqp_le_put(&pos, hdr->src_iface, 8);
    vqp_le_put(&pos, hdr->dst_iface, 8);
    vqp_le_put(&pos, hdr->src_cookie, 8);
    vqp_le_put(&pos, hdr->dst_cookie, 8);
    vqp_le_put(&pos, hdr->flags, 2);
    vqp_le_put(&pos, 0, 2);
    vqp_le_put(&pos, hdr->serial, 4);

    switch (hdr->type) {
    case VQP_WIRE_REQ:
    case VQP_WIRE_REP:
        vqp_wire_put_info(&pos, body);
        break;
    case VQP_WIRE_PATH_DOWN:
        vqp_wire_put_path_down(&pos, body);
        break;
    case VQP_WIRE_PATH_UP:
        vqp_wire_put_path_up(&pos, body);
        break;
    default:
        break;
    }

    vqp_le_put(&length, (uint64_t)(pos - start), 2);
    return (size_t)(pos - start);
}

/* The fields of the header behind type and length */
static void vqp_wire_get_header(const uint8_t *pos, vqp_wire_header_t *hdr)
{
    hdr->features   = (uint32_t)vqp_le_get(&pos, 4);
    hdr->number     = (uint32_t)vqp_le_get(&pos, 4);
    hdr->src_iface  = vqp_le_get(&pos, 8);
    hdr->dst_iface  = vqp_le_get(&pos, 8);
    hdr->src_cookie = vqp_le_get(&pos, 8);
    hdr->dst_cookie = vqp_le_get(&pos, 8);
    hdr->flags      = (uint16_t)vqp_le_get(&pos, 2);
    pos            += 2;
    hdr->serial     = (uint32_t)vqp_le_get(&pos, 4);
}

/* Has the header the cookies and the serial number that its type requires? */
static int vqp_wire_header_is_valid(const vqp_wire_header_t *hdr)
{
    if ((hdr->number == 0) || (hdr->number > VQP_WIRE_NUMBER_MAX) ||
        (hdr->src_iface == 0) || (hdr->dst_iface == 0)) {
        return 0;
    }

    switch (hdr->type) {
    case VQP_WIRE_REQ:
        /* A connected sender has the receiver's cookie */
        return (hdr->src_cookie != 0) &&
               ((hdr->dst_cookie != 0) ||
                !(hdr->flags & VQP_WIRE_FLAG_HAVE_YOURS));
    case VQP_WIRE_RST:
        return (hdr->src_cookie != 0) || (hdr->dst_cookie != 0);
    case VQP_WIRE_BYE:
    case VQP_WIRE_BYE_ACK:
        return (hdr->src_cookie != 0) && (hdr->dst_cookie != 0) &&
               (hdr->serial != 0);
    default:
        return (hdr->src_cookie != 0) && (hdr->dst_cookie != 0);
    }
}

vqp_status_t vqp_wire_decode(const void *buf, size_t len, vqp_wire_msg_t *msg)
{
    const uint8_t *pos = buf;
    unsigned version, type, length;

    if ((len < VQP_WIRE_HEADER_LEN) || (len > VQP_WIRE_MAX_LEN) ||
        (vqp_le_get(&pos, 4) != VQP_WIRE_MAGIC)) {
        return VQP_ERR_PROTOCOL;
    }

    version = (unsigned)vqp_le_get(&pos, 1);
    type    = (unsigned)vqp_le_get(&pos, 1);
    length  = (unsigned)vqp_le_get(&pos, 2);
    if (length != len) {
        return VQP_ERR_PROTOCOL;
    }

    if ((version != VQP_WIRE_VERSION) || (type == 0) ||
        (type >= VQP_WIRE_TYPE_LAST)) {
        return VQP_ERR_UNSUPPORTED;
    }

    msg->hdr.type = (vqp_wire_type_t)type;
    vqp_wire_get_header(pos, &msg->hdr);
    if (!vqp_wire_header_is_valid(&msg->hdr)) {
        return VQP_ERR_PROTOCOL;
    }

    pos  = (const uint8_t*)buf + VQP_WIRE_HEADER_LEN;
    len -= VQP_WIRE_HEADER_LEN;
    switch (msg->hdr.type) {
    case VQP_WIRE_REQ:
    case VQP_WIRE_REP:
        return vqp_wire_get_info(pos, len, &msg->info);
    case VQP_WIRE_PATH_DOWN:
        return vqp_wire_get_path_down(pos, len, &msg->path_down);
    case VQP_WIRE_PATH_UP:
        return vqp_wire_get_path_up(pos, len, &msg->path_up);
    default:
        return (len == 0) ? VQP_OK : VQP_ERR_PROTOCOL;
    }
}
