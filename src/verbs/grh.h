/*
 * The 40 bytes before each received datagram. libc only.
 */
#ifndef VQP_IB_GRH_H
#define VQP_IB_GRH_H

#include <stdint.h>

#define VQP_IB_GRH_LEN 40

/**
 * Read who sent a datagram. Any thread.
 *
 * @param grh     The bytes as the device wrote them: an InfiniBand GRH, an
 *                IPv6 header, or 20 undefined bytes and an IPv4 header.
 * @param is_eth  The port is Ethernet: IPv4 is possible.
 * @param gid     Filled; for IPv4 ::ffff:a.b.c.d.
 */
void vqp_ib_grh_source(const uint8_t grh[VQP_IB_GRH_LEN], int is_eth,
                       uint8_t gid[16]);

#endif
