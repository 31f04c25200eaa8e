/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address vector: how packets reach a port of a peer. Shared by RC and UD.
 */
#ifndef VQP_IB_AV_H
#define VQP_IB_AV_H

#include <infiniband/verbs.h>
#include <stdint.h>

typedef struct vqp_ib_av {
    uint8_t  dgid[16];
    uint32_t flow_label;  /* 20 bits; the UDP source port on RoCEv2 */
    uint16_t dlid;        /* InfiniBand only */
    uint8_t  port;        /* local */
    uint8_t  sgid_index;  /* local */
    uint8_t  is_global;   /* GRH: always on Ethernet; on InfiniBand when subnets
                             differ or the port requires it */
    uint8_t  sl;
    uint8_t  tclass;
    uint8_t  hop_limit;
} vqp_ib_av_t;

/** Convert @a av to the structure of verbs. Any thread. */
void vqp_ib_av_fill(const vqp_ib_av_t *av, struct ibv_ah_attr *attr);

#endif
