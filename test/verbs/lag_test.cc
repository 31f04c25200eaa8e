/*
 * Bonded ports of mlx5 devices: the calls of libmlx5, found or not, and queue pairs that
 * are assigned to member ports. Most need the fabric with the profile mlx5-lag:
 * contrib/fabric-run --devices 2 --profile mlx5-lag; other devices have no member ports.
 */
#include "qp_end.h"

extern "C" {
#include "verbs/lag.h"
}

#include "test/fabric/fabric.h"

#include <dlfcn.h>
#include <memory>

class mlx5 : public ::testing::Test {
protected:
    static bool load(const char *library)
    {
        vqp_ib_mlx5_t calls;
        bool is_there = vqp_ib_mlx5_load(&calls, library) != 0;

        EXPECT_EQ(is_there, calls.query_device != nullptr);
        EXPECT_EQ(is_there && (library != nullptr), calls.handle != nullptr);
        vqp_ib_mlx5_close(&calls);
        return is_there;
    }
};

TEST_F(mlx5, library_without_the_calls_has_none)
{
    EXPECT_FALSE(load("libc.so.6"));
}

TEST_F(mlx5, library_that_the_process_does_not_have_is_not_loaded)
{
    EXPECT_FALSE(load("no_such_library.so"));
}

TEST_F(mlx5, calls_are_found_in_the_provider_that_the_process_has)
{
    bool before = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr;

    EXPECT_EQ(before, load("libmlx5.so.1"));
    /* it stays: libibverbs knows it from now on */
    if (dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NODELETE) == nullptr) {
        GTEST_SKIP() << "there is no libmlx5";
    }
    EXPECT_TRUE(load("libmlx5.so.1"));
}

class lag : public verbs_test {
protected:
    void SetUp() override
    {
        verbs_test::SetUp();
        if (a == nullptr) {
            return;
        }
        x = std::make_unique<qp_end>(a);
        y = std::make_unique<qp_end>(b);
        x->connect(*y, 1, 2);
        y->connect(*x, 2, 1);
    }

    void TearDown() override
    {
        if (vqp_fabric() != nullptr) {
            vqp_fabric()->faults(NULL, NULL, 0);
        }
        y.reset();
        x.reset();
        verbs_test::TearDown();
    }

    static std::string option(const char *name)
    {
        char value[32] = "off";

        if (vqp_fabric() != nullptr) {
            EXPECT_EQ(0, vqp_fabric()->option(name, value, sizeof(value)));
        }
        return value;
    }

    static void faults(const char *script)
    {
        char error[128] = "";

        ASSERT_EQ(0, vqp_fabric()->faults(script, error, sizeof(error))) << error;
    }

    bool is_in_mode(const char *mode) { return option("LAG") == mode; }

    vqp_ib_lag_mode_t probe()
    {
        vqp_ib_qp_conn_t conn = {};
        uint16_t index, pkey;

        memcpy(conn.av.dgid, a->gid.raw, 16);
        conn.av.port       = a->port.num;
        conn.av.sgid_index = a->gid.index;
        conn.av.is_global  = 1;
        conn.av.hop_limit  = 64;
        conn.mtu           = vqp_ib_mtu_enum(a->port.mtu);
        conn.timeout       = 14;
        EXPECT_EQ(VQP_OK, vqp_ib_port_find_pkey(&a->dev, &a->port, 0, &index, &pkey));
        return vqp_ib_lag_probe(&a->dev, x->cq(), index, &conn);
    }

    vqp_status_t pin(uint8_t number, vqp_ib_lag_port_t *port)
    {
        return vqp_ib_lag_pin(&a->dev, &x->qp, number, VQP_IB_LOG_WARN, port);
    }

    std::unique_ptr<qp_end> x, y;
};

TEST_F(lag, other_devices_have_no_member_ports)
{
    vqp_ib_lag_port_t port;

    if (!is_in_mode("off")) {
        GTEST_SKIP() << "of a device without bonded ports";
    }
    if (vqp_fabric() != nullptr) {
        EXPECT_EQ(0u, a->dev.mlx5.num_ports);
    }
    if (a->dev.mlx5.num_ports == 0) {
        EXPECT_EQ(VQP_IB_LAG_NONE, probe());
        EXPECT_EQ(VQP_ERR_UNSUPPORTED, vqp_ib_lag_query(&a->dev, &x->qp, &port));
        EXPECT_EQ(0, port.configured);
        EXPECT_EQ(VQP_ERR_UNSUPPORTED, vqp_ib_lag_set_sport(&a->dev, &x->qp, 50000));
    }
}

TEST_F(lag, mode_is_found_and_the_probe_leaves_nothing)
{
    vqp_fabric_objects_t before, after;

    if (is_in_mode("off")) {
        GTEST_SKIP() << "needs bonded ports";
    }
    vqp_fabric()->objects(&before);
    EXPECT_EQ(is_in_mode("affinity") ? VQP_IB_LAG_AFFINITY : VQP_IB_LAG_HASH, probe());
    vqp_fabric()->objects(&after);
    EXPECT_EQ(before.qps, after.qps);
}

TEST_F(lag, mode_is_hash_if_the_device_can_not_be_asked)
{
    if (!is_in_mode("affinity")) {
        GTEST_SKIP() << "needs queue pairs that are assigned to ports";
    }
    faults("call verb=query_qp_lag_port errno=EPERM");
    EXPECT_EQ(VQP_IB_LAG_HASH, probe());
    faults("call verb=create_qp errno=ENOMEM");
    log_capture log;
    EXPECT_EQ(VQP_IB_LAG_HASH, probe());
}

TEST_F(lag, queue_pair_is_assigned_and_says_so)
{
    vqp_ib_lag_port_t port, read;

    if (!is_in_mode("affinity")) {
        GTEST_SKIP() << "needs queue pairs that are assigned to ports";
    }
    for (unsigned i = 0; i < 4; ++i) {
        uint8_t number = (uint8_t)(1 + (i % VQP_IB_LAG_MOVABLE));

        EXPECT_EQ(VQP_OK, pin(number, &port));
        EXPECT_EQ(number, port.configured);
        EXPECT_EQ(number, port.active);
        EXPECT_EQ(VQP_OK, vqp_ib_lag_query(&a->dev, &x->qp, &read));
        EXPECT_EQ(number, read.configured);
    }
}

TEST_F(lag, failure_names_the_queue_pair_and_the_traffic_goes_on)
{
    vqp_ib_lag_port_t port;
    char qpn[16];

    if (!is_in_mode("affinity")) {
        GTEST_SKIP() << "needs queue pairs that are assigned to ports";
    }
    snprintf(qpn, sizeof(qpn), "QP 0x%x", x->qp.qpn);
    faults("call verb=modify_qp_lag_port nth=1 errno=EPERM");
    log_capture log;
    EXPECT_EQ(VQP_ERR_IO, pin(1, &port));
    EXPECT_EQ(0, port.configured);
    EXPECT_TRUE(log.has(a->dev.name)) << log.text();
    EXPECT_TRUE(log.has(qpn)) << log.text();
    x->write_imm(*y, 1, 8);
    EXPECT_EQ(IBV_WC_SUCCESS, x->wait_wc().status);
}

TEST_F(lag, port_that_was_set_and_can_not_be_read_counts)
{
    vqp_ib_lag_port_t port;

    if (!is_in_mode("affinity")) {
        GTEST_SKIP() << "needs queue pairs that are assigned to ports";
    }
    faults("call verb=query_qp_lag_port errno=EPERM");
    EXPECT_EQ(VQP_OK, pin(2, &port));
    EXPECT_EQ(2, port.configured);
    EXPECT_EQ(0, port.active);
}

static int keep_port(struct ibv_qp*, uint8_t) { return 0; }

TEST_F(lag, port_that_the_device_does_not_take_is_an_error)
{
    vqp_ib_lag_port_t before, port;

    if (!is_in_mode("affinity")) {
        GTEST_SKIP() << "needs queue pairs that are assigned to ports";
    }
    ASSERT_EQ(VQP_OK, vqp_ib_lag_query(&a->dev, &x->qp, &before));
    a->dev.mlx5.modify_qp_lag_port = keep_port;
    log_capture log;
    EXPECT_EQ(VQP_ERR_IO, pin((uint8_t)(1 + before.configured % 2), &port));
    EXPECT_EQ(before.configured, port.configured);
    EXPECT_TRUE(log.has("has port " + std::to_string(before.configured)));
}

TEST_F(lag, source_port_is_changed)
{
    if (is_in_mode("off")) {
        GTEST_SKIP() << "needs an mlx5 device";
    }
    EXPECT_EQ(VQP_OK, vqp_ib_lag_set_sport(&a->dev, &x->qp, 50000));
    faults("call verb=modify_qp_udp_sport errno=EIO");
    EXPECT_EQ(VQP_ERR_IO, vqp_ib_lag_set_sport(&a->dev, &x->qp, 50001));
    a->dev.mlx5.modify_qp_udp_sport = nullptr;
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, vqp_ib_lag_set_sport(&a->dev, &x->qp, 50001));
    faults("");
    x->write_imm(*y, 1, 8);
    EXPECT_EQ(IBV_WC_SUCCESS, x->wait_wc().status);
}
