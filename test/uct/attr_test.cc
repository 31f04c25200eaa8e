/*
 * What an interface says of itself: its bandwidth, which addresses it reaches and why
 * not, and which parameters and options it refuses.
 */
#include "uct_fixture.h"

#include "test/lib/option.h"

#include <uct/api/v2/uct_v2.h>
#include <uct/api/version.h>

#include <string.h>

class attr_test : public uct_test {
protected:
    /* Open one more interface with these parameters besides the necessary ones */
    ucs_status_t open_with(const uct_iface_params_t &more, const options &values = {})
    {
        std::string device        = a->name + ":1";
        uct_iface_params_t params = more;
        uct_iface_config_t *config;
        uct_iface_h iface;
        ucs_status_t status;

        EXPECT_EQ(UCS_OK, uct_md_iface_config_read(a->md, "vqp", NULL, NULL,
                                                   &config));
        for (const auto &value : values) {
            EXPECT_EQ(UCS_OK, vqp_option_set(config, value.first.c_str(),
                                             value.second.c_str()));
        }
        params.field_mask          |= UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                                      UCT_IFACE_PARAM_FIELD_DEVICE;
        params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
        params.mode.device.tl_name  = "vqp";
        params.mode.device.dev_name = device.c_str();
        status = uct_iface_open(a->md, a->worker, &params, config, &iface);
        uct_config_release(config);
        if (status == UCS_OK) {
            uct_iface_close(iface);
        }
        return status;
    }

    /* Open one with an alignment of active messages */
    ucs_status_t open_aligned(size_t alignment)
    {
        uct_iface_params_t params = {};

        params.field_mask   = UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT |
                              UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET;
        params.am_alignment = alignment;
        return open_with(params);
    }

    /* A device address of InfiniBand, LID 5: no fabric of Ethernet reaches it */
    const std::string far{"\xc1\x05\x00", 3};
};

/* UCP of UCX before 1.16 takes the difference for the length of a first, aligning, part */
TEST_F(attr_test, zero_copies_are_aligned_to_no_more_than_the_mtu)
{
    for (const char *mtu : {"256", "512", "1024", "default"}) {
        node one(0, {{"PATH_MTU", mtu}});

        EXPECT_LE(one.attr.cap.put.opt_zcopy_align, one.attr.cap.put.align_mtu) << mtu;
        EXPECT_LE(one.attr.cap.get.opt_zcopy_align, one.attr.cap.get.align_mtu) << mtu;
        EXPECT_LE(one.attr.cap.am.opt_zcopy_align, one.attr.cap.am.align_mtu) << mtu;
    }
}

/* Processes of a node share the ports: UCP divides by UCX_NUM_PPN */
TEST_F(attr_test, the_bandwidth_is_shared_by_processes)
{
    open();
    EXPECT_GT(a->attr.bandwidth.shared, 1e6);
    EXPECT_EQ(0, a->attr.bandwidth.dedicated);
}

/* UCP multiplies by the number of endpoints */
TEST_F(attr_test, the_latency_grows_with_the_queue_pairs_of_an_endpoint)
{
    node one(0, {{"NUM_PATHS", "1"}}), four(0, {{"NUM_PATHS", "4"}}), begins(0);

    EXPECT_GT(one.attr.latency.m, 0);
    EXPECT_DOUBLE_EQ(one.attr.latency.m, begins.attr.latency.m);
    EXPECT_DOUBLE_EQ(4 * one.attr.latency.m, four.attr.latency.m);
    EXPECT_DOUBLE_EQ(one.attr.latency.c, four.attr.latency.c);
}

/* From these UCP computes up to which length it copies, and from which on it sends
 * without a copy */
TEST_F(attr_test, estimates_differ_by_operation)
{
    open();
    auto estimate = [&](uct_ep_operation_t op) {
        uct_perf_attr_t perf = {};

        perf.field_mask         = UCT_PERF_ATTR_FIELD_OPERATION |
                                  UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE |
                                  UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE |
                                  UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD |
                                  UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD |
                                  UCT_PERF_ATTR_FIELD_RECV_OVERHEAD |
                                  UCT_PERF_ATTR_FIELD_BANDWIDTH |
                                  UCT_PERF_ATTR_FIELD_LATENCY;
        perf.operation          = op;
        perf.local_memory_type  = UCS_MEMORY_TYPE_HOST;
        perf.remote_memory_type = UCS_MEMORY_TYPE_HOST;
        EXPECT_EQ(UCS_OK, uct_iface_estimate_perf(a->iface, &perf));
        EXPECT_EQ(a->attr.overhead, perf.recv_overhead);
        EXPECT_EQ(a->attr.bandwidth.shared, perf.bandwidth.shared);
        EXPECT_EQ(a->attr.latency.m, perf.latency.m);
        return perf;
    };

    for (auto op : {UCT_EP_OP_AM_SHORT, UCT_EP_OP_PUT_SHORT}) {
        uct_ep_operation_t bcopy = (op == UCT_EP_OP_AM_SHORT) ?
                                   UCT_EP_OP_AM_BCOPY : UCT_EP_OP_PUT_BCOPY;
        uct_ep_operation_t zcopy = (op == UCT_EP_OP_AM_SHORT) ?
                                   UCT_EP_OP_AM_ZCOPY : UCT_EP_OP_PUT_ZCOPY;
        uct_perf_attr_t s = estimate(op), b = estimate(bcopy), z = estimate(zcopy);

        EXPECT_EQ(a->attr.overhead, s.send_pre_overhead);
        EXPECT_LT(s.send_pre_overhead, b.send_pre_overhead);  /* a copy */
        EXPECT_EQ(s.send_pre_overhead, z.send_pre_overhead);
        EXPECT_LT(s.send_post_overhead, z.send_post_overhead); /* a CQE */
        EXPECT_EQ(a->attr.latency.c, s.latency.c);
        EXPECT_LT(s.latency.c, b.latency.c); /* the device fetches the data */
        EXPECT_EQ(b.latency.c, z.latency.c);
    }
    EXPECT_EQ(estimate(UCT_EP_OP_GET_BCOPY).latency.c,
              estimate(UCT_EP_OP_GET_ZCOPY).latency.c);
    EXPECT_EQ(a->attr.latency.c, estimate(UCT_EP_OP_ATOMIC_FETCH).latency.c);
}

TEST_F(attr_test, an_alignment_that_is_no_power_of_two_is_refused)
{
    log_capture log;

    open();
    EXPECT_EQ(UCS_OK, open_aligned(64));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, open_aligned(48));
    EXPECT_TRUE(log.has("alignment of active messages of 48"));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, open_aligned(0));
}

TEST_F(attr_test, an_alignment_offset_without_an_alignment_is_refused)
{
    uct_iface_params_t params = {};
    log_capture log;

    open();
    params.field_mask = UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET;
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, open_with(params));
    EXPECT_TRUE(log.has("offset without an alignment"));
}

TEST_F(attr_test, an_endpoint_begins_with_the_paths_that_it_may_have)
{
    open();
    EXPECT_EQ(UCS_OK, open_with({}, {{"NUM_PATHS", "4"}, {"MIN_PATHS", "4"}}));
    for (const std::string value : {"0", "5"}) {
        log_capture log(UCS_LOG_LEVEL_ERROR);

        EXPECT_EQ(UCS_ERR_INVALID_PARAM,
                  open_with({}, {{"NUM_PATHS", "4"}, {"MIN_PATHS", value}}));
        EXPECT_EQ("UCX_VQP_MIN_PATHS=" + value + ": must be auto, or from 1 to "
                  "UCX_VQP_NUM_PATHS\n", log.text());
    }
}

/* Without failover an endpoint begins with all paths: the latency shows their number */
TEST_F(attr_test, auto_is_four_paths)
{
    auto growth = [](const std::string &num_paths) {
        return node(0, {{"NUM_PATHS", num_paths}, {"FAILOVER", "n"}}).attr.latency.m;
    };

    EXPECT_DOUBLE_EQ(growth("4"), growth("auto"));
    EXPECT_LT(growth("3"), growth("auto"));
    open();
    EXPECT_EQ(UCS_OK, open_with({}, {{"NUM_PATHS", "auto"}, {"MIN_PATHS", "4"}}));
    {
        log_capture log(UCS_LOG_LEVEL_ERROR);

        EXPECT_EQ(UCS_ERR_INVALID_PARAM,
                  open_with({}, {{"NUM_PATHS", "auto"}, {"MIN_PATHS", "5"}}));
        EXPECT_TRUE(log.has("UCX_VQP_MIN_PATHS=5")) << log.text();
    }
}

TEST_F(attr_test, values_that_are_no_number_of_paths_are_refused)
{
    open();
    for (const std::string value : {"0", "65", "4294967300"}) {
        log_capture log(UCS_LOG_LEVEL_ERROR);

        EXPECT_EQ(UCS_ERR_INVALID_PARAM, open_with({}, {{"NUM_PATHS", value}}));
        EXPECT_EQ("UCX_VQP_NUM_PATHS=" + value + ": must be auto, or from 1 to 64\n",
                  log.text());
    }
}

TEST_F(attr_test, auto_is_a_service_level)
{
    open();
    for (const std::string value : {"auto", "0", "15"}) {
        EXPECT_EQ(UCS_OK, open_with({}, {{"SL", value}}));
    }
    for (const std::string value : {"16", "4294967296"}) {
        log_capture log(UCS_LOG_LEVEL_ERROR);

        EXPECT_EQ(UCS_ERR_INVALID_PARAM, open_with({}, {{"SL", value}}));
        EXPECT_EQ("UCX_VQP_SL=" + value + ": must be auto, or from 0 to 15\n", log.text());
    }
}

TEST_F(attr_test, a_removed_scheduler_is_refused)
{
    open();
    for (const std::string name : {"least", "fixed"}) {
        log_capture log(UCS_LOG_LEVEL_ERROR);

        EXPECT_EQ(UCS_ERR_INVALID_PARAM, open_with({}, {{"SCHED", name}}));
        EXPECT_EQ("UCX_VQP_SCHED=" + name + ": must be rr or left; least and fixed "
                  "were removed, use left\n", log.text());
    }
}

/* UCX older than 1.15 does not call iface_is_reachable_v2 */
#if UCT_API >= UCT_VERSION(1, 15)
class reachable_test : public attr_test {
protected:
    /* Is it reachable? The reason why not is in `why`. */
    bool reachable()
    {
        params.field_mask        |= UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING |
                                    UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING_LENGTH;
        params.info_string        = why;
        params.info_string_length = sizeof(why);
        return uct_iface_is_reachable_v2(a->iface, &params);
    }

    void device(const std::string &address)
    {
        params.field_mask |= UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR;
        params.device_addr = (const uct_device_addr_t*)address.data();
    }

    void iface(const std::string &address)
    {
        params.field_mask |= UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR;
        params.iface_addr  = (const uct_iface_addr_t*)address.data();
    }

    uct_iface_is_reachable_params_t params = {};
    char why[64] = "unchanged";
};

TEST_F(reachable_test, the_reason_is_told)
{
    open();
    device(far);
    EXPECT_FALSE(reachable());
    EXPECT_NE(nullptr, strstr(why, "InfiniBand")) << why;
}

TEST_F(reachable_test, a_reachable_address_has_no_reason)
{
    open();
    std::string address = b->address();

    device(address);
    EXPECT_TRUE(reachable());
    EXPECT_STREQ("", why);
}

TEST_F(reachable_test, a_malformed_address_is_named)
{
    const std::string bad(256, '\xff');

    open();
    iface(bad);
    EXPECT_FALSE(reachable());
    EXPECT_NE(nullptr, strstr(why, "malformed")) << why;
}

TEST_F(reachable_test, no_address_is_named)
{
    open();
    EXPECT_FALSE(reachable());
    EXPECT_STREQ("no address is given", why);
}

TEST_F(reachable_test, a_short_buffer_is_not_exceeded)
{
    open();
    device(far);
    reachable();
    memset(why, 'x', sizeof(why));
    params.info_string_length = 4;
    EXPECT_FALSE(uct_iface_is_reachable_v2(a->iface, &params));
    EXPECT_EQ(3u, strlen(why));
    EXPECT_EQ('x', why[4]);
}

#if UCT_API >= UCT_VERSION(1, 18)
/* An address that ends before its last byte is not read beyond its end */
TEST_F(reachable_test, the_lengths_of_addresses_are_respected)
{
    open();
    std::string address = b->address();
    std::string behind  = address.substr(a->attr.device_addr_len);

    device(address);
    params.field_mask        |= UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR_LENGTH;
    params.device_addr_length = a->attr.device_addr_len;
    EXPECT_TRUE(reachable());
    params.device_addr_length = a->attr.device_addr_len - 1;
    EXPECT_FALSE(reachable());
    EXPECT_NE(nullptr, strstr(why, "malformed")) << why;

    iface(behind);
    params.field_mask       |= UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR_LENGTH;
    params.iface_addr_length = a->attr.iface_addr_len;
    EXPECT_TRUE(reachable());
    params.iface_addr_length = a->attr.iface_addr_len - 1;
    EXPECT_FALSE(reachable());
    EXPECT_NE(nullptr, strstr(why, "malformed")) << why;
}

/* UCX compares as many bytes as the own address has */
TEST_F(reachable_test, a_short_address_is_another_device)
{
    open();
    std::string own = a->address();

    device(own);
    std::string behind = own.substr(a->attr.device_addr_len);
    iface(behind);
    params.field_mask        |= UCT_IFACE_IS_REACHABLE_FIELD_SCOPE |
                                UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR_LENGTH;
    params.scope              = UCT_IFACE_REACHABILITY_SCOPE_DEVICE;
    params.device_addr_length = a->attr.device_addr_len;
    EXPECT_TRUE(reachable());
    params.device_addr_length = a->attr.device_addr_len - 1;
    EXPECT_FALSE(reachable());
    EXPECT_STREQ("it is another device", why);
}
#endif
#endif
