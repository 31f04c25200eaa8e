/*
 * The 40 bytes before each received datagram. libc only.
 */
#include "verbs/grh.h"

#include <string.h>

#define VQP_IB_GRH_IPV4_OFFSET 20
#define VQP_IB_GRH_IPV4_LEN    20
#define VQP_IB_GRH_IPV4_SOURCE 12 /* in the IPv4 header */
#define VQP_IB_GRH_SOURCE      8

/*
 * The 20 bytes before an IPv4 header are undefined, so the version nibble of
 * the first byte decides nothing: the checksum of the IPv4 header does.
 */
static int vqp_ib_grh_is_ipv4(const uint8_t *ip)
{
    uint32_t sum = 0;
    unsigned i;

    if (ip[0] != 0x45) {
        return 0;
    }

    for (i = 0; i < VQP_IB_GRH_IPV4_LEN; i += 2) {
        sum += ((uint32_t)ip[i] << 8) | ip[i + 1];
    }

    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return sum == 0xffff;
}

void vqp_ib_grh_source(const uint8_t grh[VQP_IB_GRH_LEN], int is_eth,
                       uint8_t gid[16])
{
    const uint8_t *ip = grh + VQP_IB_GRH_IPV4_OFFSET;

    if (is_eth && vqp_ib_grh_is_ipv4(ip)) {
        memset(gid, 0, 16);
        gid[10] = 0xff;
        gid[11] = 0xff;
        memcpy(&gid[12], ip + VQP_IB_GRH_IPV4_SOURCE, 4);
    } else {
        memcpy(gid, grh + VQP_IB_GRH_SOURCE, 16);
    }
}
