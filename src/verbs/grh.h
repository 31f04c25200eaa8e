/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The 40 bytes before each received datagram. libc only.
 */
#ifndef VQP_IB_GRH_H
#define VQP_IB_GRH_H

#include <stdint.h>

#define VQP_IB_GRH_LEN 40

/**
 * Get the source GID of a datagram. Any thread.
 *
 * @param grh     The bytes as the device wrote them: an InfiniBand GRH, an
 *                IPv6 header, or 20 undefined bytes and an IPv4 header.
 * @param is_ipv4 The own GID is RoCEv2 over IPv4, and so are the peers'. It does
 *                not follow from the bytes: the first 20 are undefined, and a
 *                packet that never left the device may have no header checksum.
 * @param gid     Filled; for IPv4 ::ffff:a.b.c.d.
 */
void vqp_ib_grh_source(const uint8_t grh[VQP_IB_GRH_LEN], int is_ipv4,
                       uint8_t gid[16]);

#endif
