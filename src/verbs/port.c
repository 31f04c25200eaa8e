/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One port of a device: state, link, speed, partition keys.
 * May call libibverbs.
 */
#include "verbs/port.h"
#include "verbs/compat.h"
#include "verbs/grh.h"

#include <endian.h>
#include <string.h>

/* Header bytes around the payload of an RC packet */
#define VQP_IB_BTH_LEN       12
#define VQP_IB_RETH_LEN      16
#define VQP_IB_ICRC_LEN      4
#define VQP_IB_LRH_LEN       8
#define VQP_IB_VCRC_LEN      2
#define VQP_IB_UDP_LEN       8
#define VQP_IB_ETH_FRAME_LEN 38 /* header, checksum, preamble, gap */

/* On Ethernet, switches and the adapter add to the latency of each packet */
#define VQP_IB_ETH_LATENCY 200e-9

/* A speed per lane; the codes are those of the InfiniBand PortInfo */
typedef struct vqp_ib_speed {
    unsigned   code;
    const char *name;
    double     signal;    /* bits/s of one lane */
    double     encoding;  /* data bits per signal bit */
    double     latency;   /* seconds through such an adapter and a switch */
} vqp_ib_speed_t;

static const vqp_ib_speed_t vqp_ib_speeds[] = {
    {1,   "SDR",   2.5e9,      8.0 / 10.0,  5000e-9},
    {2,   "DDR",   5.0e9,      8.0 / 10.0,  2500e-9},
    {4,   "QDR",   10.0e9,     8.0 / 10.0,  1300e-9},
    {8,   "FDR10", 10.3125e9,  64.0 / 66.0, 700e-9},
    {16,  "FDR",   14.0625e9,  64.0 / 66.0, 700e-9},
    {32,  "EDR",   25.78125e9, 64.0 / 66.0, 600e-9},
    {64,  "HDR",   51.5625e9,  64.0 / 66.0, 600e-9},
    {128, "NDR",   100e9,      64.0 / 66.0, 600e-9},
    {256, "XDR",   200e9,      64.0 / 66.0, 600e-9}
};

/* 10 and 40 Gbit/s Ethernet report the QDR code, but encode 64 in 66 bits */
static const vqp_ib_speed_t vqp_ib_speed_10ge = {
    4, "10GbE", 10.3125e9, 64.0 / 66.0, 1300e-9
};

static const vqp_ib_speed_t *vqp_ib_port_find_speed(unsigned code,
                                                    vqp_ib_link_t link)
{
    size_t i;

    if ((code == vqp_ib_speed_10ge.code) && (link == VQP_IB_LINK_ETH)) {
        return &vqp_ib_speed_10ge;
    }

    for (i = 0; i < sizeof(vqp_ib_speeds) / sizeof(vqp_ib_speeds[0]); ++i) {
        if (vqp_ib_speeds[i].code == code) {
            return &vqp_ib_speeds[i];
        }
    }

    return NULL;
}

/* Codes of the InfiniBand PortInfo; 0: unknown */
static unsigned vqp_ib_port_find_lanes(unsigned code)
{
    switch (code) {
    case 1:
        return 1;
    case 2:
        return 4;
    case 4:
        return 8;
    case 8:
        return 12;
    case 16:
        return 2;
    default:
        return 0;
    }
}

int vqp_ib_port_set_speed(vqp_ib_port_t *port, unsigned speed_code,
                          unsigned width_code)
{
    const vqp_ib_speed_t *speed = vqp_ib_port_find_speed(speed_code,
                                                         port->link);
    unsigned lanes              = vqp_ib_port_find_lanes(width_code);
    int is_known                = (speed != NULL) && (lanes != 0);

    speed            = (speed == NULL) ? &vqp_ib_speeds[0] : speed;
    port->lanes      = vqp_max(lanes, 1u);
    port->speed_name = speed->name;
    port->bandwidth  = port->lanes * speed->signal * speed->encoding / 8.0;
    port->latency    = speed->latency;
    if (port->link == VQP_IB_LINK_ETH) {
        port->latency += VQP_IB_ETH_LATENCY;
    }

    return is_known;
}

static int vqp_ib_port_state_is_active(enum ibv_port_state state)
{
    return (state == IBV_PORT_ACTIVE) || (state == IBV_PORT_ACTIVE_DEFER);
}

vqp_status_t vqp_ib_port_query(const vqp_ib_dev_t *dev, uint8_t num,
                               vqp_ib_port_t *port)
{
    struct ibv_port_attr attr;
    int ret;

    if ((num < 1) || (num > dev->num_ports)) {
        vqp_ib_error("%s: there is no port %u, the device has %u", dev->name,
                     num, dev->num_ports);
        return VQP_ERR_INVALID_PARAM;
    }

    ret = ibv_query_port(dev->ctx, num, &attr);
    if (ret != 0) {
        vqp_ib_error("%s:%u: ibv_query_port() failed: %s", dev->name, num,
                     strerror(ret));
        return VQP_ERR_IO;
    }

    memset(port, 0, sizeof(*port));
    port->num          = num;
    port->state        = (uint8_t)attr.state;
    port->active       = vqp_ib_port_state_is_active(attr.state);
    port->link         = (attr.link_layer == IBV_LINK_LAYER_ETHERNET) ?
                         VQP_IB_LINK_ETH : VQP_IB_LINK_IB;
    port->grh_required = (port->link == VQP_IB_LINK_ETH) ||
                         !!(attr.flags & IBV_QPF_GRH_REQUIRED);
    port->lid          = attr.lid;
    port->lmc          = attr.lmc;
    port->sm_sl        = attr.sm_sl;
    port->pkey_tbl_len = attr.pkey_tbl_len;
    port->gid_tbl_len  = attr.gid_tbl_len;
    port->mtu          = vqp_ib_mtu_bytes(attr.active_mtu);
    port->max_msg      = attr.max_msg_sz;

    if (!vqp_ib_port_set_speed(port, vqp_ib_compat_port_speed(&attr),
                               attr.active_width)) {
        vqp_ib_debug("%s:%u: unknown speed code %u or width code %u, taken as "
                     "%u x %s", dev->name, num, vqp_ib_compat_port_speed(&attr),
                     attr.active_width, port->lanes, port->speed_name);
    }

    return VQP_OK;
}

int vqp_ib_port_is_active(const vqp_ib_dev_t *dev, uint8_t num,
                          vqp_ib_log_level_t level)
{
    struct ibv_port_attr attr;
    int ret = ibv_query_port(dev->ctx, num, &attr);

    if (ret != 0) {
        vqp_ib_log(level, "%s:%u: ibv_query_port() failed: %s", dev->name, num,
                   strerror(ret));
        return 0;
    }

    return vqp_ib_port_state_is_active(attr.state);
}

double vqp_ib_port_payload_bandwidth(const vqp_ib_dev_t *dev,
                                     const vqp_ib_port_t *port, uint32_t mtu)
{
    unsigned overhead = VQP_IB_BTH_LEN + VQP_IB_RETH_LEN + VQP_IB_ICRC_LEN;
    double bandwidth;

    if (port->link == VQP_IB_LINK_ETH) {
        overhead += VQP_IB_ETH_FRAME_LEN + VQP_IB_GRH_LEN + VQP_IB_UDP_LEN;
    } else {
        overhead += VQP_IB_LRH_LEN + VQP_IB_VCRC_LEN +
                    (port->grh_required ? VQP_IB_GRH_LEN : 0);
    }

    bandwidth = port->bandwidth * mtu / (mtu + overhead);
    if ((dev->pci_bw > 0) && (dev->pci_bw < bandwidth)) {
        bandwidth = dev->pci_bw;
    }

    return bandwidth;
}

/* Rank of a key of the table: 0 no match, 2 limited, 3 full member */
static int vqp_ib_port_rank_pkey(uint16_t pkey, uint16_t wanted)
{
    uint16_t base = pkey & ~VQP_IB_PKEY_MEMBERSHIP;

    if ((base == 0) || ((wanted != VQP_IB_PKEY_ANY) &&
                        (base != (wanted & ~VQP_IB_PKEY_MEMBERSHIP)))) {
        return 0;
    }

    return (pkey & VQP_IB_PKEY_MEMBERSHIP) ? 3 : 2;
}

vqp_status_t vqp_ib_port_find_pkey(const vqp_ib_dev_t *dev,
                                   const vqp_ib_port_t *port, uint16_t wanted,
                                   uint16_t *index_p, uint16_t *pkey_p)
{
    int best = 0;
    int rank, index;
    uint16_t pkey;
    __be16 be_pkey;

    for (index = 0; (index < port->pkey_tbl_len) && (best < 3); ++index) {
        if (ibv_query_pkey(dev->ctx, port->num, index, &be_pkey) != 0) {
            vqp_ib_debug("%s:%u: ibv_query_pkey(%d) failed", dev->name,
                         port->num, index);
            continue;
        }

        pkey = be16toh(be_pkey);
        rank = vqp_ib_port_rank_pkey(pkey, wanted);
        if (rank > best) {
            best     = rank;
            *index_p = (uint16_t)index;
            *pkey_p  = pkey;
        }
    }

    if (best > 0) {
        return VQP_OK;
    }

    if (wanted == VQP_IB_PKEY_ANY) {
        vqp_ib_error("%s:%u: no valid partition key among %u", dev->name,
                     port->num, port->pkey_tbl_len);
    } else {
        vqp_ib_error("%s:%u: partition key 0x%04x is not in the port's table",
                     dev->name, port->num, wanted);
    }

    return VQP_ERR_NO_DEVICE;
}

uint32_t vqp_ib_mtu_bytes(enum ibv_mtu mtu)
{
    if ((mtu < IBV_MTU_256) || (mtu > IBV_MTU_4096)) {
        return 0;
    }

    return 128u << mtu;
}

enum ibv_mtu vqp_ib_mtu_enum(uint32_t bytes)
{
    enum ibv_mtu mtu = IBV_MTU_4096;

    while ((mtu > IBV_MTU_256) && (vqp_ib_mtu_bytes(mtu) > bytes)) {
        mtu = (enum ibv_mtu)(mtu - 1);
    }

    return mtu;
}
