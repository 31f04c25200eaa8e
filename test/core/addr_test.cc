/*
 * The addresses of devices and interfaces, and which device reaches which.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "core/conn/addr.h"
}

namespace {

vqp_dev_addr_t roce_addr(unsigned num_rails = 1)
{
    vqp_dev_addr_t addr {};

    addr.link      = VQP_LINK_ETH;
    addr.gid_type  = VQP_GID_ROCE_V2_IP4;
    addr.has_gid   = 1;
    addr.num_rails = (uint8_t)num_rails;
    addr.pkey      = 0xffff;
    for (unsigned i = 0; i < num_rails; ++i) {
        addr.rails[i].gid[10] = 0xff;
        addr.rails[i].gid[11] = 0xff;
        addr.rails[i].gid[12] = 10;
        addr.rails[i].gid[15] = (uint8_t)(i + 1);
    }
    return addr;
}

vqp_dev_addr_t ip6_addr(int local)
{
    vqp_dev_addr_t addr = roce_addr();
    uint8_t *gid        = addr.rails[0].gid;

    addr.gid_type = VQP_GID_ROCE_V2_IP6;
    for (unsigned i = 0; i < sizeof(addr.rails[0].gid); ++i) {
        gid[i] = (uint8_t)(i + 1);
    }
    if (local) {
        memset(gid, 0, 8);
        gid[0] = 0xfe;
        gid[1] = 0x80;
    }
    return addr;
}

/* In a subnet with the default prefix, or in another */
vqp_dev_addr_t ib_addr(int has_gid, uint8_t subnet = 1)
{
    vqp_dev_addr_t addr {};

    addr.link                   = VQP_LINK_IB;
    addr.gid_type               = VQP_GID_IB;
    addr.has_gid                = (uint8_t)has_gid;
    addr.num_rails              = 1;
    addr.pkey                   = 0xffff;
    addr.rails[0].lid           = 0x1234;
    addr.rails[0].subnet_prefix = 0xfe80000000000000 | subnet;
    if (has_gid) {
        addr.rails[0].gid[0]  = 0xfe;
        addr.rails[0].gid[1]  = 0x80;
        addr.rails[0].gid[7]  = subnet;
        addr.rails[0].gid[15] = 0x99;
    }
    return addr;
}

std::string why_not(const vqp_dev_addr_t &a, const vqp_dev_addr_t &b)
{
    char why[128] = "?";
    int ok        = vqp_dev_addr_reachable(&a, &b, why, sizeof(why));

    EXPECT_EQ(ok, vqp_dev_addr_reachable(&b, &a, nullptr, 0));
    EXPECT_EQ(ok != 0, why[0] == '\0');
    return why;
}

} // namespace

TEST(addr, device_address_comes_back_as_it_was)
{
    vqp_dev_addr_t limited = roce_addr(2);

    limited.pkey = 0x7fff;
    for (const vqp_dev_addr_t &addr :
         {roce_addr(1), roce_addr(4), ip6_addr(0), ip6_addr(1), ib_addr(0),
          ib_addr(1), ib_addr(0, 0), ib_addr(1, 0), limited}) {
        std::vector<uint8_t> data(vqp_dev_addr_len(&addr));
        vqp_dev_addr_t back;

        ASSERT_LE(data.size(), (size_t)VQP_DEV_ADDR_MAX_LEN);
        ASSERT_EQ(data.size(), vqp_dev_addr_pack(&addr, data.data()));
        ASSERT_EQ(VQP_OK,
                  vqp_dev_addr_unpack(data.data(), data.size(), &back));
        EXPECT_EQ(0, memcmp(&addr, &back, sizeof(addr)));
        EXPECT_EQ(VQP_OK, vqp_dev_addr_unpack(data.data(), SIZE_MAX, &back));
    }

    vqp_dev_addr_t roce = roce_addr(), ip6 = ip6_addr(1), ib = ib_addr(1, 0);
    EXPECT_EQ(5u, vqp_dev_addr_len(&roce));
    EXPECT_EQ(9u, vqp_dev_addr_len(&ip6));
    EXPECT_EQ(11u, vqp_dev_addr_len(&ib));
    EXPECT_EQ(7u, vqp_dev_addr_len(&limited) - 4); /* of the second rail */
}

TEST(addr, interface_address_comes_back_as_it_was)
{
    for (unsigned rails = 1; rails <= VQP_MAX_RAILS; ++rails) {
        vqp_iface_addr_t addr, back;

        memset(&addr, 0, sizeof(addr));
        addr.dev = roce_addr(rails);
        addr.id  = vqp_iface_id(&addr.dev, 0x123456789a);
        for (unsigned i = 0; i < rails; ++i) {
            addr.ud_qpn[i] = 0xfffff0 + i;
        }

        std::vector<uint8_t> data(vqp_iface_addr_len(&addr.dev));
        ASSERT_LE(data.size(), (size_t)VQP_IFACE_ADDR_MAX_LEN);
        ASSERT_EQ(data.size(), vqp_iface_addr_pack(&addr, data.data()));
        ASSERT_EQ(VQP_OK,
                  vqp_iface_addr_unpack(data.data(), data.size(), &back));
        EXPECT_EQ(addr.id, back.id);
        EXPECT_EQ(0, memcmp(addr.ud_qpn, back.ud_qpn, sizeof(addr.ud_qpn)));
        EXPECT_EQ(0, memcmp(addr.dev.rails, back.dev.rails,
                            sizeof(addr.dev.rails)));
    }
}

TEST(addr, interface_ids_of_different_ports_and_interfaces_differ)
{
    vqp_dev_addr_t first = roce_addr(), second = roce_addr(), ib = ib_addr(0);

    second.rails[0].gid[15] = 2;
    EXPECT_NE(vqp_iface_id(&first, 1), vqp_iface_id(&first, 2));
    EXPECT_NE(vqp_iface_id(&first, 1), vqp_iface_id(&second, 1));
    EXPECT_NE(0u, vqp_iface_id(&first, 1));
    second = ib;
    second.rails[0].lid ^= 1;
    EXPECT_NE(vqp_iface_id(&ib, 1), vqp_iface_id(&second, 1));
    second = ib;
    second.rails[0].subnet_prefix ^= 1;
    EXPECT_NE(vqp_iface_id(&ib, 1), vqp_iface_id(&second, 1));

    /* the other rails and the partition do not matter */
    second            = roce_addr(2);
    second.pkey       = 0x8001;
    EXPECT_EQ(vqp_iface_id(&first, 1), vqp_iface_id(&second, 1));
}

TEST(addr, interface_address_fits_the_private_data_of_a_connection_manager)
{
    /* 56 bytes: 2 of UCX's RDMA CM, 11 of UCP's head, and around the address
     * 22 more, and 8 with a client's id (ucp_ep_params_t) */
    vqp_dev_addr_t roce = roce_addr(), ib = ib_addr(1, 0), two = roce_addr(2),
                   ip6 = ip6_addr(1);

    EXPECT_LE(vqp_iface_addr_len(&roce), 56u - 2 - 11 - 22 - 8);
    EXPECT_LE(vqp_iface_addr_len(&ib), 56u - 2 - 11 - 22);
    EXPECT_LE(vqp_iface_addr_len(&two), 56u - 2 - 11 - 22);
    EXPECT_LE(vqp_iface_addr_len(&ip6), 56u - 2 - 11 - 22);
}

TEST(addr, malformed_addresses_are_refused)
{
    vqp_dev_addr_t dev = roce_addr(2), back;
    std::vector<uint8_t> data(vqp_dev_addr_len(&dev));
    vqp_dev_addr_pack(&dev, data.data());

    for (size_t len = 0; len < data.size(); ++len) {
        std::unique_ptr<uint8_t[]> exact(new uint8_t[len]);
        std::copy(data.begin(), data.begin() + len, exact.get());
        EXPECT_EQ(VQP_ERR_PROTOCOL,
                  vqp_dev_addr_unpack(exact.get(), len, &back));
    }

    auto refused = [&](unsigned head) {
        std::vector<uint8_t> bad = data;
        bad[0]                   = (uint8_t)head;
        return vqp_dev_addr_unpack(bad.data(), bad.size(), &back);
    };
    ASSERT_EQ(0x8c, data[0]);
    EXPECT_EQ(VQP_OK, refused(0x8c));
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, refused(0x0c)); /* an earlier format */
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, refused(0x88)); /* unknown kinds */
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, refused(0x8e));
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, refused(0x8f));
    EXPECT_EQ(VQP_ERR_PROTOCOL, refused(0x94)); /* one more rail */
    EXPECT_EQ(VQP_ERR_PROTOCOL, refused(0xcc)); /* IPv4 has no prefix */

    /* what may be left out has to be */
    for (const vqp_dev_addr_t &addr : {ib_addr(1, 0), ip6_addr(1)}) {
        std::vector<uint8_t> lengthy(VQP_DEV_ADDR_MAX_LEN);
        vqp_dev_addr_t other = addr;
        other.rails[0].gid[7] ^= 1;
        other.rails[0].subnet_prefix ^= (addr.link == VQP_LINK_IB);
        size_t len = vqp_dev_addr_pack(&other, lengthy.data());
        ASSERT_EQ(VQP_OK, vqp_dev_addr_unpack(lengthy.data(), len, &back));
        lengthy[len - 9] ^= 1;
        EXPECT_EQ(VQP_ERR_PROTOCOL,
                  vqp_dev_addr_unpack(lengthy.data(), len, &back));
    }

    vqp_iface_addr_t iface, iface_back;
    memset(&iface, 0, sizeof(iface));
    iface.dev       = roce_addr();
    iface.id        = vqp_iface_id(&iface.dev, 1);
    iface.ud_qpn[0] = 1;
    std::vector<uint8_t> idata(vqp_iface_addr_len(&iface.dev));
    vqp_iface_addr_pack(&iface, idata.data());
    auto irefused = [&](size_t offset, unsigned value) {
        std::vector<uint8_t> bad = idata;
        bad[offset]              = (uint8_t)value;
        return vqp_iface_addr_unpack(bad.data(), bad.size(), &iface_back);
    };
    EXPECT_EQ(VQP_OK, irefused(5, 1));
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, irefused(0, 9));
    EXPECT_EQ(VQP_ERR_PROTOCOL, irefused(5, 0));  /* id */
    EXPECT_EQ(VQP_ERR_PROTOCOL, irefused(10, 0)); /* control queue pair */
    for (size_t len = 0; len < idata.size(); ++len) {
        std::unique_ptr<uint8_t[]> exact(new uint8_t[len]);
        std::copy(idata.begin(), idata.begin() + len, exact.get());
        EXPECT_EQ(VQP_ERR_PROTOCOL,
                  vqp_iface_addr_unpack(exact.get(), len, &iface_back));
    }
}

TEST(reachable, same_fabric)
{
    vqp_dev_addr_t a = roce_addr(), b = roce_addr();

    b.rails[0].gid[15] = 200; /* RoCEv2 is routed: any GID */
    EXPECT_EQ("", why_not(a, b));
    EXPECT_EQ("", why_not(ib_addr(0), ib_addr(1)));
}

TEST(reachable, link_layer_must_be_equal)
{
    EXPECT_EQ("link layer differs: local Ethernet, remote InfiniBand",
              why_not(roce_addr(), ib_addr(0)));
}

TEST(reachable, gid_type_must_be_equal)
{
    vqp_dev_addr_t a = roce_addr(), b = roce_addr();

    b.gid_type = VQP_GID_ROCE_V1;
    EXPECT_EQ("GID type differs: local RoCEv2/IPv4, remote RoCEv1",
              why_not(a, b));
    b.gid_type = VQP_GID_ROCE_V2_IP6;
    EXPECT_NE("", why_not(a, b));
    a.gid_type = b.gid_type = VQP_GID_ROCE_V1;
    EXPECT_EQ("", why_not(a, b));
}

TEST(reachable, infiniband_subnet_must_be_equal)
{
    vqp_dev_addr_t a = ib_addr(0), b = ib_addr(0);

    b.rails[0].subnet_prefix = 0xfe80000000000002;
    EXPECT_EQ("subnet differs: local prefix 0xfe80000000000001, remote "
              "0xfe80000000000002", why_not(a, b));
}

TEST(reachable, every_two_rails_that_may_meet_are_in_one_subnet)
{
    vqp_dev_addr_t a = ib_addr(0), b = ib_addr(0);

    a.num_rails              = 2;
    a.rails[1]               = a.rails[0];
    a.rails[1].subnet_prefix = 0xfe80000000000002;
    EXPECT_NE("", why_not(a, b)); /* path 1 would go from rail 1 to rail 0 */
    b.num_rails = 2;
    b.rails[1]  = a.rails[1];
    EXPECT_EQ("", why_not(a, b));
    std::swap(b.rails[0], b.rails[1]);
    EXPECT_NE("", why_not(a, b));
}

TEST(reachable, partition_must_be_equal_and_not_both_limited)
{
    vqp_dev_addr_t a = roce_addr(), b = roce_addr();

    b.pkey = 0x8001;
    EXPECT_EQ("partition differs: local pkey 0xffff, remote 0x8001",
              why_not(a, b));
    b.pkey = 0x7fff;
    EXPECT_EQ("", why_not(a, b));
    a.pkey = 0x7fff;
    EXPECT_EQ("both are limited members of partition 0x7fff", why_not(a, b));
}
