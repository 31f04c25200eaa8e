/*
 * The source of a datagram: the forms of the 40 bytes before it.
 */
#include "verbs_fixture.h"

namespace {

const uint8_t ipv4_source[16] = {0, 0, 0, 0, 0, 0, 0, 0,
                                 0, 0, 0xff, 0xff, 10, 77, 0, 1};

/* 10.77.0.1 -> 10.77.0.2; length and checksum are not filled on loopback */
void put_ipv4(uint8_t *grh, uint8_t checksum)
{
    const uint8_t header[20] = {0x45, 106, 0, 52, 0,  0,  0x40, 0, 64, 17,
                                checksum, checksum, 10, 77, 0, 1, 10, 77, 0, 2};

    memcpy(grh + 20, header, sizeof(header));
}

} // namespace

TEST(grh, ipv4_source_whatever_precedes_it_and_whatever_its_checksum)
{
    uint8_t grh[VQP_IB_GRH_LEN], gid[16];

    for (int garbage : {0x00, 0x45, 0x60, 0xff}) {
        for (int checksum : {0x00, 0x7e}) {
            memset(grh, garbage, sizeof(grh));
            put_ipv4(grh, checksum);
            vqp_ib_grh_source(grh, 1, gid);
            EXPECT_EQ(0, memcmp(gid, ipv4_source, 16));
        }
    }
}

TEST(grh, other_ports_have_the_source_in_front)
{
    uint8_t grh[VQP_IB_GRH_LEN], gid[16];

    memset(grh, 7, sizeof(grh));
    put_ipv4(grh, 0); /* a destination that looks like an IPv4 header */
    vqp_ib_grh_source(grh, 0, gid);
    EXPECT_EQ(0, memcmp(gid, grh + 8, 16));
}
