/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The 40 bytes before each received datagram. libc only.
 */
#include "verbs/grh.h"

#include <string.h>

#define VQP_IB_GRH_IPV4_OFFSET 20
#define VQP_IB_GRH_IPV4_SOURCE 12 /* in the IPv4 header */
#define VQP_IB_GRH_SOURCE      8

void vqp_ib_grh_source(const uint8_t grh[VQP_IB_GRH_LEN], int is_ipv4,
                       uint8_t gid[16])
{
    if (is_ipv4) {
        memset(gid, 0, 16);
        gid[10] = 0xff;
        gid[11] = 0xff;
        memcpy(&gid[12], grh + VQP_IB_GRH_IPV4_OFFSET + VQP_IB_GRH_IPV4_SOURCE,
               4);
    } else {
        memcpy(gid, grh + VQP_IB_GRH_SOURCE, 16);
    }
}
