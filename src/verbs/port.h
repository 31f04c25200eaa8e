/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One port of a device: state, link, speed, partition keys.
 * May call libibverbs.
 */
#ifndef VQP_IB_PORT_H
#define VQP_IB_PORT_H

#include "verbs/dev.h"

typedef enum {
    VQP_IB_LINK_IB  = 0,
    VQP_IB_LINK_ETH = 1
} vqp_ib_link_t;

/* Partition key that every port has, full membership */
#define VQP_IB_PKEY_DEFAULT    0xffff
#define VQP_IB_PKEY_MEMBERSHIP 0x8000
/* As a wanted key: take the first valid one */
#define VQP_IB_PKEY_ANY        0

typedef struct vqp_ib_port {
    uint8_t       num;
    uint8_t       active;      /* usable now: ACTIVE or ACTIVE_DEFER */
    uint8_t       state;       /* enum ibv_port_state */
    uint8_t       grh_required;/* the fabric requires a GRH on each packet */
    uint8_t       lmc;
    uint8_t       sm_sl;
    vqp_ib_link_t link;
    uint16_t      lid;         /* 0 on Ethernet */
    uint16_t      pkey_tbl_len;
    int           gid_tbl_len;
    uint32_t      mtu;         /* active MTU, bytes */
    uint32_t      max_msg;     /* bytes of the longest RC message */
    unsigned      lanes;       /* 1, 2, 4, 8, 12 */
    double        bandwidth;   /* data bytes/s of the link: lanes x signal rate
                                  x encoding, without packet headers */
    double        latency;     /* seconds, one way, estimated by speed */
    const char    *speed_name; /* SDR .. XDR; static */
} vqp_ib_port_t;

/**
 * Read a port. Any thread.
 *
 * @param num  1..dev->num_ports
 * @return VQP_OK, also when the port is down; VQP_ERR_INVALID_PARAM,
 *         VQP_ERR_IO (logged).
 */
vqp_status_t vqp_ib_port_query(const vqp_ib_dev_t *dev, uint8_t num,
                               vqp_ib_port_t *port);

/**
 * Fill lanes, speed_name, bandwidth and latency from the codes that devices
 * report; port->link is read. Pure; part of @ref vqp_ib_port_query.
 *
 * @return 0 when a code is unknown: the least was assumed (SDR, one lane).
 */
int vqp_ib_port_set_speed(vqp_ib_port_t *port, unsigned speed_code,
                          unsigned width_code);

/** Whether the port is active now; false if the query fails, which is logged at @a level.
 *  Any thread. */
int vqp_ib_port_is_active(const vqp_ib_dev_t *dev, uint8_t num,
                          vqp_ib_log_level_t level);

/**
 * Payload bytes/s that one direction of the port can carry in packets of
 * @a mtu payload bytes, after all headers, and not more than the device's PCIe
 * link (if it is known).
 */
double vqp_ib_port_payload_bandwidth(const vqp_ib_dev_t *dev,
                                     const vqp_ib_port_t *port, uint32_t mtu);

/**
 * Find a partition key in the port's table. Any thread.
 *
 * @param wanted   Key to find, its membership bit ignored (full membership
 *                 wins); VQP_IB_PKEY_ANY: the first valid one, full members
 *                 before limited ones.
 * @param index_p  Index for the QP attributes.
 * @param pkey_p   The key as it stands in the table.
 * @return VQP_OK; VQP_ERR_NO_DEVICE: not in the table (logged).
 */
vqp_status_t vqp_ib_port_find_pkey(const vqp_ib_dev_t *dev,
                                   const vqp_ib_port_t *port, uint16_t wanted,
                                   uint16_t *index_p, uint16_t *pkey_p);

/** Bytes of an enum ibv_mtu value; 0 when it is none */
uint32_t vqp_ib_mtu_bytes(enum ibv_mtu mtu);

/** The largest enum ibv_mtu that is not above @a bytes (at least 256) */
enum ibv_mtu vqp_ib_mtu_enum(uint32_t bytes);

#endif
