/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flow label of each path, for networks that select a link by a hash of the packet's
 * header. Pure: libc only.
 *
 * With RoCEv2, devices derive the UDP source port from a queue pair's flow label. On
 * InfiniBand and in IPv6 the label itself is hashed.
 */
#ifndef VQP_CORE_CONN_ENTROPY_H
#define VQP_CORE_CONN_ENTROPY_H

#include "core/status.h"

#define VQP_ENTROPY_LABEL_MAX 0xfffffu /* 20 bits */
#define VQP_ENTROPY_PORT_MIN  0xc000u  /* dynamic ports: 14 bits vary */

/**
 * The flow label of a path.
 *
 * @param [in] salt   Random, different for each connection and side.
 * @param [in] index  Of the flow; modulo 2^14.
 *
 * @return Not zero: for a label of zero the device chooses the port. Labels of
 *         one salt give distinct ports. The ports are pseudo-random: with
 *         consecutive ports some hash functions put all paths of every endpoint
 *         on one link.
 */
uint32_t vqp_entropy_label(uint64_t salt, unsigned index);

/** The UDP source port that devices derive from a label. */
static inline uint16_t vqp_entropy_port(uint32_t label)
{
    return (uint16_t)(VQP_ENTROPY_PORT_MIN |
                      ((label & 0x3fff) ^ ((label >> 14) & 0x3f)));
}

#endif
