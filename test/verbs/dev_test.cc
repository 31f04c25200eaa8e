/*
 * Devices, ports, GIDs: what is found is what is there.
 */
#include "verbs_fixture.h"

#include "test/fabric/fabric.h"

#include <algorithm>
#include <functional>

using dev = verbs_test;

TEST_F(dev, unknown_name_is_no_device_and_the_message_names_it)
{
    log_capture log;
    vqp_ib_dev_t other;

    EXPECT_EQ(VQP_ERR_NO_DEVICE, vqp_ib_dev_open(&other, "nosuch_0"));
    EXPECT_TRUE(log.has("nosuch_0"));
}

TEST_F(dev, limits_are_filled)
{
    EXPECT_GE(a->dev.num_ports, 1);
    EXPECT_GT(a->dev.caps.max_qp_wr, 1000u);
    EXPECT_GT(a->dev.caps.max_cqe, 1000u);
    EXPECT_GT(a->dev.caps.max_sge, 1u);
    EXPECT_GT(a->dev.caps.max_mr_size, 1ull << 30);
    EXPECT_GE(a->dev.caps.max_qp_rd_atom, 1);
    EXPECT_GE(a->dev.caps.max_init_rd_atom, 1);
}

TEST_F(dev, id_is_stable_and_differs_between_devices)
{
    rail again(a->dev.name);

    EXPECT_STREQ(a->dev.id, again.dev.id);
    EXPECT_EQ(a->dev.node_guid, again.dev.node_guid);
    if (strcmp(a->dev.name, b->dev.name)) {
        EXPECT_STRNE(a->dev.id, b->dev.id);
    }
}

TEST_F(dev, async_descriptor_does_not_block)
{
    vqp_ib_async_t event;

    EXPECT_EQ(VQP_INPROGRESS, vqp_ib_async_get(&a->dev, &event));
}

TEST_F(dev, port_outside_the_device_is_refused)
{
    log_capture log;
    vqp_ib_port_t port;

    EXPECT_EQ(VQP_ERR_INVALID_PARAM, vqp_ib_port_query(&a->dev, 0, &port));
    EXPECT_EQ(VQP_ERR_INVALID_PARAM,
              vqp_ib_port_query(&a->dev, a->dev.num_ports + 1, &port));
    EXPECT_TRUE(log.has(a->dev.name));
}

TEST_F(dev, active_port_has_speed_and_mtu)
{
    const vqp_ib_port_t &port = a->port;
    double payload;

    ASSERT_TRUE(port.active);
    EXPECT_TRUE(vqp_ib_port_is_active(&a->dev, port.num, VQP_IB_LOG_ERROR));
    EXPECT_GE(port.mtu, 256u);
    EXPECT_LE(port.mtu, 4096u);
    EXPECT_GE(port.max_msg, 1u << 20);
    EXPECT_GT(port.bandwidth, 1e8);
    EXPECT_GT(port.latency, 0);

    payload = vqp_ib_port_payload_bandwidth(&a->dev, &port, port.mtu);
    EXPECT_LT(payload, port.bandwidth);
    EXPECT_GT(payload, port.bandwidth / 2);
    EXPECT_LT(vqp_ib_port_payload_bandwidth(&a->dev, &port, 256), payload);
}

TEST_F(dev, default_pkey_is_found_and_an_absent_one_is_named)
{
    log_capture log;
    uint16_t index = 99, pkey = 0;

    EXPECT_EQ(VQP_OK, vqp_ib_port_find_pkey(&a->dev, &a->port,
                                            VQP_IB_PKEY_ANY, &index, &pkey));
    EXPECT_LT(index, a->port.pkey_tbl_len);
    EXPECT_NE(0, pkey & ~VQP_IB_PKEY_MEMBERSHIP);

    EXPECT_EQ(VQP_OK, vqp_ib_port_find_pkey(&a->dev, &a->port,
                                            pkey & ~VQP_IB_PKEY_MEMBERSHIP,
                                            &index, &pkey));
    EXPECT_EQ(VQP_ERR_NO_DEVICE,
              vqp_ib_port_find_pkey(&a->dev, &a->port, 0x1234, &index, &pkey));
    EXPECT_TRUE(log.has("0x1234"));
}

/* An address of the kind that routers forward goes before a link-local one */
TEST_F(dev, chosen_gid_is_the_best_in_the_table)
{
    auto is_v2_ipv4 = [](const vqp_ib_gid_t &gid) {
        return (gid.type == VQP_IB_GID_ROCE_V2) && gid.is_ipv4;
    };
    auto is_v2_global = [](const vqp_ib_gid_t &gid) {
        return (gid.type == VQP_IB_GID_ROCE_V2) && !gid.is_ipv4 && (gid.raw[0] != 0xfe);
    };
    auto is_v2 = [](const vqp_ib_gid_t &gid) { return gid.type == VQP_IB_GID_ROCE_V2; };
    std::vector<vqp_ib_gid_t> all;
    vqp_ib_gid_t gid;

    if (a->port.link == VQP_IB_LINK_IB) {
        EXPECT_EQ(0, a->gid.index);
        return;
    }

    for (int i = 0; i < a->port.gid_tbl_len; ++i) {
        if (vqp_ib_gid_query(&a->dev, &a->port, i, &gid) == VQP_OK) {
            EXPECT_TRUE(!is_v2_ipv4(gid) || (gid.ifindex != 0));
            all.push_back(gid);
        }
    }

    ASSERT_FALSE(all.empty());
    for (const std::function<bool(const vqp_ib_gid_t&)> &is_good :
         {std::function<bool(const vqp_ib_gid_t&)>(is_v2_ipv4), {is_v2_global}, {is_v2}}) {
        if (std::any_of(all.begin(), all.end(), is_good)) {
            EXPECT_TRUE(is_good(a->gid));
            break;
        }
    }
}

TEST_F(dev, configured_gid_index_is_taken_or_refused_by_name)
{
    log_capture log;
    vqp_ib_gid_t gid;

    EXPECT_EQ(VQP_OK, vqp_ib_gid_select(&a->dev, &a->port, a->gid.index, &gid));
    EXPECT_EQ(0, memcmp(gid.raw, a->gid.raw, sizeof(gid.raw)));

    for (int bad : {-2, 200, 256, 100000}) {
        log.text().clear();
        EXPECT_EQ(VQP_ERR_NO_DEVICE,
                  vqp_ib_gid_select(&a->dev, &a->port, bad, &gid));
        EXPECT_TRUE(log.has("GID index " + std::to_string(bad)));
    }
}

/* By its value and its type: the table has other GIDs at the old index */
TEST_F(dev, gid_that_moves_is_found_again)
{
    char gone[32];
    uint8_t index = 0;

    if ((vqp_fabric() == nullptr) || (a->port.link == VQP_IB_LINK_IB)) {
        GTEST_SKIP() << "the software fabric moves the GIDs of Ethernet";
    }

    ASSERT_EQ(VQP_OK, vqp_ib_gid_find(&a->dev, &a->port, &a->gid, &index));
    EXPECT_EQ(a->gid.index, index);
    ASSERT_EQ(0, vqp_fabric()->act("gids to=1", nullptr, 0));
    ASSERT_EQ(VQP_OK, vqp_ib_gid_find(&a->dev, &a->port, &a->gid, &index));
    EXPECT_EQ(a->gid.index + 1, index);

    snprintf(gone, sizeof(gone), "gids to=%d", a->port.gid_tbl_len);
    ASSERT_EQ(0, vqp_fabric()->act(gone, nullptr, 0));
    EXPECT_EQ(VQP_ERR_NO_DEVICE, vqp_ib_gid_find(&a->dev, &a->port, &a->gid, &index));
    ASSERT_EQ(0, vqp_fabric()->act("gids to=0", nullptr, 0));
    ASSERT_EQ(VQP_OK, vqp_ib_gid_find(&a->dev, &a->port, &a->gid, &index));
    EXPECT_EQ(a->gid.index, index);
}

namespace {

/* Data Gbit/s of a port with these codes */
double gbits(vqp_ib_link_t link, unsigned speed, unsigned width)
{
    vqp_ib_port_t port = {};

    port.link = link;
    EXPECT_TRUE(vqp_ib_port_set_speed(&port, speed, width));
    return port.bandwidth * 8 / 1e9;
}

} // namespace

TEST(port_speed, is_lanes_times_rate_less_encoding)
{
    EXPECT_NEAR(8, gbits(VQP_IB_LINK_IB, 1, 2), 0.1);     /* 4x SDR */
    EXPECT_NEAR(16, gbits(VQP_IB_LINK_IB, 2, 2), 0.1);    /* 4x DDR */
    EXPECT_NEAR(32, gbits(VQP_IB_LINK_IB, 4, 2), 0.1);    /* 4x QDR */
    EXPECT_NEAR(40, gbits(VQP_IB_LINK_ETH, 4, 2), 0.1);   /* 40GbE */
    EXPECT_NEAR(10, gbits(VQP_IB_LINK_ETH, 4, 1), 0.1);   /* 10GbE */
    EXPECT_NEAR(54.5, gbits(VQP_IB_LINK_IB, 16, 2), 0.1); /* 4x FDR */
    EXPECT_NEAR(100, gbits(VQP_IB_LINK_ETH, 32, 2), 0.1); /* 4x EDR */
    EXPECT_NEAR(100, gbits(VQP_IB_LINK_IB, 64, 16), 0.1); /* 2x HDR */
    EXPECT_NEAR(388, gbits(VQP_IB_LINK_IB, 128, 2), 1);   /* 4x NDR */
    EXPECT_NEAR(776, gbits(VQP_IB_LINK_IB, 256, 2), 1);   /* 4x XDR */
}

TEST(port_speed, unknown_codes_assume_the_least)
{
    vqp_ib_port_t port = {};

    EXPECT_FALSE(vqp_ib_port_set_speed(&port, 3, 2));
    EXPECT_STREQ("SDR", port.speed_name);
    EXPECT_EQ(4u, port.lanes);
    EXPECT_FALSE(vqp_ib_port_set_speed(&port, 64, 3));
    EXPECT_EQ(1u, port.lanes);
}

TEST(port_speed, pci_link_is_the_upper_limit)
{
    vqp_ib_port_t port = {};
    vqp_ib_dev_t hca   = {};

    vqp_ib_port_set_speed(&port, 128, 2);
    EXPECT_GT(vqp_ib_port_payload_bandwidth(&hca, &port, 4096), 40e9);
    hca.pci_bw = 28e9;
    EXPECT_EQ(28e9, vqp_ib_port_payload_bandwidth(&hca, &port, 4096));
}

TEST(mtu, bytes_and_codes_agree)
{
    EXPECT_EQ(256u, vqp_ib_mtu_bytes(IBV_MTU_256));
    EXPECT_EQ(4096u, vqp_ib_mtu_bytes(IBV_MTU_4096));
    EXPECT_EQ(0u, vqp_ib_mtu_bytes((enum ibv_mtu)0));
    EXPECT_EQ(0u, vqp_ib_mtu_bytes((enum ibv_mtu)6));
    EXPECT_EQ(IBV_MTU_256, vqp_ib_mtu_enum(1));
    EXPECT_EQ(IBV_MTU_1024, vqp_ib_mtu_enum(1024));
    EXPECT_EQ(IBV_MTU_1024, vqp_ib_mtu_enum(2047));
    EXPECT_EQ(IBV_MTU_4096, vqp_ib_mtu_enum(9000));
}

TEST(log, none_is_silent_and_errno_survives)
{
    log_capture log;

    errno = EXDEV;
    vqp_ib_log(VQP_IB_LOG_NONE, "not to be seen");
    vqp_ib_error("number %d", 5);
    EXPECT_EQ(EXDEV, errno);
    EXPECT_EQ("number 5\n", log.text());
}
