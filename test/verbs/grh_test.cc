/*
 * Who sent a datagram: the three forms of the 40 bytes before it.
 */
#include "verbs_fixture.h"

namespace {

/* 10.77.0.1 -> 10.77.0.2, with a right checksum */
void put_ipv4(uint8_t *grh)
{
    static const uint8_t header[20] = {0x45, 0,   0,    52, 0, 0, 0x40,
                                       0,    64,  17,   0,  0, 10, 77,
                                       0,    1,   10,   77, 0, 2};
    uint32_t sum = 0;

    memcpy(grh + 20, header, sizeof(header));
    for (int i = 0; i < 20; i += 2) {
        sum += (header[i] << 8) | header[i + 1];
    }
    sum     = (sum & 0xffff) + (sum >> 16);
    sum     = ~sum & 0xffff;
    grh[30] = sum >> 8;
    grh[31] = sum & 0xff;
}

const uint8_t ipv4_source[16] = {0, 0, 0, 0, 0, 0, 0, 0,
                                 0, 0, 0xff, 0xff, 10, 77, 0, 1};

} // namespace

TEST(grh, ipv4_is_told_by_its_checksum_whatever_precedes_it)
{
    uint8_t grh[VQP_IB_GRH_LEN], gid[16];

    for (int garbage : {0x00, 0x60, 0xff}) {
        memset(grh, garbage, sizeof(grh));
        put_ipv4(grh);
        vqp_ib_grh_source(grh, 1, gid);
        EXPECT_EQ(0, memcmp(gid, ipv4_source, 16));
    }
}

TEST(grh, ipv6_whose_destination_looks_like_ipv4_stays_ipv6)
{
    uint8_t grh[VQP_IB_GRH_LEN], gid[16];

    memset(grh, 0, sizeof(grh));
    put_ipv4(grh);
    grh[0]   = 0x60;
    grh[31] ^= 1;
    vqp_ib_grh_source(grh, 1, gid);
    EXPECT_EQ(0, memcmp(gid, grh + 8, 16));
}

TEST(grh, infiniband_never_has_ipv4)
{
    uint8_t grh[VQP_IB_GRH_LEN], gid[16];

    memset(grh, 7, sizeof(grh));
    put_ipv4(grh);
    vqp_ib_grh_source(grh, 0, gid);
    EXPECT_EQ(0, memcmp(gid, grh + 8, 16));
}
