/*
 * Asynchronous events of a device: which endpoints fail by an event of a queue
 * pair, a completion queue, a port or the device, and which go on. The software
 * fabric raises them, by the number of a queue pair. Endpoints that are to fail by an
 * event of a path have no failover.
 */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <infiniband/verbs.h>
#include <set>
#include <stdlib.h>
#include <unistd.h>

class async_event : public uct_test {
protected:
    typedef std::set<uint32_t> numbers;

    void SetUp() override
    {
        uct_test::SetUp();
        if (!IsSkipped() && (vqp_fabric() == NULL)) {
            GTEST_SKIP() << "events are raised by the software fabric";
        }
        if (!IsSkipped() && (devices()[0].find("bond") == 0)) {
            GTEST_SKIP() << "needs unbonded devices";
        }
    }

    void TearDown() override
    {
        eps.clear();
        unsetenv("UCX_VQP_RAILS");
        uct_test::TearDown();
    }

    /* Numbers of all queue pairs of this process on a device */
    static numbers qpns(const std::string &device)
    {
        uint32_t all[64];
        int count = vqp_fabric()->all_qps(device.c_str(), all, 64);

        EXPECT_TRUE((count >= 0) && (count <= 64)) << count;
        return ((count < 0) || (count > 64)) ? numbers() : numbers(all, all + count);
    }

    static numbers less(const numbers &all, const numbers &some)
    {
        numbers rest;

        for (uint32_t qpn : all) {
            if (some.count(qpn) == 0) {
                rest.insert(qpn);
            }
        }
        return rest;
    }

    /* Connect one more endpoint. @return the numbers of its queue pairs on this
     * device, at both ends. */
    numbers connect(node &from, node &to, const std::string &device)
    {
        numbers before = qpns(device);

        eps.push_back(std::make_unique<endpoint>(from, to));
        EXPECT_EQ(UCS_OK, eps.back()->flush());
        return less(qpns(device), before);
    }

    static void raise(const std::string &device, uint32_t qpn, int type)
    {
        ASSERT_EQ(0, vqp_fabric()->qp_event(device.c_str(), qpn, type));
    }

    /* So many failures in all, and no more */
    bool failed(endpoint &ep, unsigned count = 1)
    {
        EXPECT_TRUE(until([&] { return ep.errors >= count; }));
        run_for(0.02);
        return ep.errors == count;
    }

    static bool works(endpoint &ep)
    {
        return (ep.retry([&] {
            return uct_ep_am_short(ep, settle_id, 0, NULL, 0);
        }) == UCS_OK) && (ep.flush() == UCS_OK) && (ep.errors == 0);
    }

    /* How often this is in warnings */
    static unsigned warnings(const std::string &part)
    {
        std::string all = log_capture::reasons();
        unsigned times  = 0;

        for (size_t at = 0; (at = all.find(part, at)) != all.npos; ++at) {
            ++times;
        }
        return times;
    }

    std::vector<std::unique_ptr<endpoint>> eps;
};

class async_qp_event : public async_event,
                       public ::testing::WithParamInterface<int> {
};

TEST_P(async_qp_event, fails_the_endpoint_that_uses_it_and_no_other)
{
    open(no_failover({{"NUM_PATHS", "3"}}));
    numbers first  = connect(*a, *b, a->name);
    numbers second = connect(*a, *b, a->name);

    ASSERT_GE(first.size(), 3u);
    raise(a->name, *first.rbegin(), GetParam());
    EXPECT_TRUE(failed(*eps[0]));
    EXPECT_TRUE(works(*eps[1]));
    raise(a->name, *second.begin(), GetParam());
    EXPECT_TRUE(failed(*eps[1]));
    EXPECT_TRUE(works(*ab));
}

/* The receives of such a queue pair are flushed, before the event or after it */
TEST_P(async_qp_event, gives_the_reason_that_a_flush_gives)
{
    open(no_failover({{"NUM_PATHS", "3"}}));
    if (a->name == b->name) {
        GTEST_SKIP() << "needs two devices";
    }

    numbers first  = connect(*a, *b, a->name);
    numbers second = connect(*a, *b, a->name);

    ASSERT_GE(second.size(), 3u);
    raise(a->name, *first.begin(), GetParam());
    ASSERT_EQ(0, vqp_fabric()->qp_error(a->name.c_str(), *second.begin()));
    EXPECT_TRUE(failed(*eps[0]));
    EXPECT_TRUE(failed(*eps[1]));
    EXPECT_EQ(eps[1]->error, eps[0]->error) << ucs_status_string(eps[0]->error);
}

INSTANTIATE_TEST_SUITE_P(
        vqp, async_qp_event,
        ::testing::Values(IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
                          IBV_EVENT_QP_ACCESS_ERR),
        [](const ::testing::TestParamInfo<int> &info) {
            return (info.param == IBV_EVENT_QP_FATAL) ? "fatal" :
                   (info.param == IBV_EVENT_QP_REQ_ERR) ? "request_error" :
                                                          "access_error";
        });

TEST_F(async_event, of_a_completion_queue_fails_all_endpoints)
{
    open();
    numbers first = connect(*a, *b, a->name);

    EXPECT_EQ(UCS_OK, ab->flush());
    raise(a->name, *first.begin(), IBV_EVENT_CQ_ERR);
    EXPECT_TRUE(failed(*eps[0]));
    EXPECT_TRUE(failed(*ab));
}

TEST_F(async_event, of_a_completion_queue_fails_no_other_interface)
{
    open();
    node other(0, {}, a.get());
    numbers first  = connect(*a, *b, a->name);
    numbers second = connect(other, *b, a->name);

    EXPECT_EQ(UCS_OK, ab->flush());
    raise(a->name, *second.rbegin(), IBV_EVENT_CQ_ERR);
    EXPECT_TRUE(failed(*eps[1]));
    EXPECT_TRUE(works(*eps[0]));
    EXPECT_TRUE(works(*ab));
    eps.pop_back();
}

TEST_F(async_event, of_the_device_fails_all_endpoints)
{
    open();
    numbers first = connect(*a, *b, a->name);

    EXPECT_EQ(UCS_OK, ab->flush());
    raise(a->name, *first.begin(), IBV_EVENT_DEVICE_FATAL);
    EXPECT_TRUE(failed(*eps[0]));
    EXPECT_TRUE(failed(*ab));
}

TEST_F(async_event, that_is_harmless_fails_nothing)
{
    open();
    numbers first = connect(*a, *b, a->name);

    for (int type : {IBV_EVENT_COMM_EST, IBV_EVENT_PORT_ACTIVE,
                     IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE,
                     IBV_EVENT_PKEY_CHANGE, IBV_EVENT_PATH_MIG}) {
        raise(a->name, *first.begin(), type);
    }
    usleep(20000); /* the async thread takes them */
    run_for(0.02);
    EXPECT_TRUE(works(*eps[0]));
    EXPECT_TRUE(works(*ab));
}

TEST_F(async_event, a_port_that_is_back_at_once_fails_nothing)
{
    open();
    settle();
    log_capture log(UCS_LOG_LEVEL_DIAG);
    ASSERT_EQ(0, vqp_fabric()->port(a->name.c_str(), 1, 0));
    ASSERT_EQ(0, vqp_fabric()->port(a->name.c_str(), 1, 1));
    usleep(50000); /* the async thread takes both events */
    run_for(0.02);
    EXPECT_FALSE(log.has("is down")) << log.text(); /* not a path either */
    EXPECT_EQ(0u, a->errors);
    EXPECT_TRUE(works(*ab));
}

TEST_F(async_event, of_the_control_queue_pair_rebuilds_it)
{
    {
        log_capture log(UCS_LOG_LEVEL_DIAG);

        a = std::make_unique<node>(0);
        for (uint32_t qpn : qpns(a->name)) { /* there are no others yet */
            raise(a->name, qpn, IBV_EVENT_QP_FATAL);
        }
        EXPECT_TRUE(until([] { return log_capture::has("is rebuilt"); }))
                << log_capture::text();
    }
    b = std::make_unique<node>(1);
    b->on_am(settle_id, [](const char *, size_t) { return UCS_OK; });
    connect(*a, *b, a->name);
    EXPECT_TRUE(works(*eps[0]));
}

/* Datagrams raise none for a while, and later ones come nevertheless */
TEST_F(async_event, of_the_control_queue_that_are_missing_are_made_up_for)
{
    for (std::string verb : {"req_notify_cq", "get_cq_event"}) {
        log_capture log(UCS_LOG_LEVEL_DIAG);

        a = std::make_unique<node>(0);
        b = std::make_unique<node>(1);
        b->on_am(settle_id, [](const char *, size_t) { return UCS_OK; });
        faults("call verb=" + verb + " count=all errno=EIO");
        connect(*a, *b, a->name);
        EXPECT_TRUE(works(*eps[0])) << verb;
        EXPECT_TRUE(until([&] { return log_capture::has(verb); }));
        EXPECT_GE(warnings(verb), 1u);
        EXPECT_LE(warnings(verb), 8u);
        run_for(0.3); /* the timers of connecting poll it, too */
        faults("");
        node c(0);
        connect(c, *b, c.name);
        EXPECT_TRUE(works(*eps[1])) << verb;
        EXPECT_EQ("", log_capture::errors());
        eps.clear();
    }
}

/* Two devices number their queue pairs alike */
TEST_F(async_event, of_a_rail_is_not_taken_for_one_of_another_rail)
{
    std::map<uint32_t, unsigned> on_first; /* number at a -> endpoint */
    uct_tl_resource_desc_t *ports;
    unsigned tried = 0;
    unsigned count;

    if (devices().size() < 2) {
        GTEST_SKIP() << "needs two devices";
    }

    std::string first = devices()[0], second = devices()[1];
    auto single        = std::make_unique<node>(0); /* numbers of the first only */
    setenv("UCX_VQP_RAILS", (first + ":1," + second + ":1").c_str(), 1);
    a = std::make_unique<node>("bond0", no_failover({{"NUM_PATHS", "2"}}));
    b = std::make_unique<node>("bond0", no_failover({{"NUM_PATHS", "2"}}));
    b->on_am(settle_id, [](const char *, size_t) { return UCS_OK; });
    std::vector<uint32_t> on_second;
    /* Enough that the numbers overlap, whatever earlier tests have made. a has the first one
     * of each pair. Of a half of the endpoints it is even on both devices or on none: to
     * list the ports takes a number. */
    for (unsigned i = 0; i < 28; ++i) {
        numbers before = qpns(second);

        on_first[*connect(*a, *b, first).begin()] = i;
        on_second.push_back(*less(qpns(second), before).begin());
        if (i == 13) {
            ASSERT_EQ(UCS_OK, uct_md_query_tl_resources(single->md, &ports, &count));
            uct_release_tl_resource_list(ports);
        }
    }

    for (unsigned i = 0; (i < on_second.size()) && (tried == 0); ++i) {
        auto twin = on_first.find(on_second[i]);

        if ((twin != on_first.end()) && (twin->second != i)) {
            raise(second, on_second[i], IBV_EVENT_QP_FATAL);
            EXPECT_TRUE(failed(*eps[i]));
            EXPECT_TRUE(works(*eps[twin->second]));
            ++tried;
        }
    }
    EXPECT_EQ(1u, tried);
    eps.clear();
    single.reset();
}

TEST_F(async_event, a_rail_that_a_connection_does_not_use_may_go_down)
{
    if (devices().size() < 2) {
        GTEST_SKIP() << "needs two devices";
    }

    std::string first = devices()[0], second = devices()[1];
    setenv("UCX_VQP_RAILS", (first + ":1," + second + ":1").c_str(), 1);
    a = std::make_unique<node>("bond0", no_failover({{"NUM_PATHS", "1"}}));
    b = std::make_unique<node>("bond0", no_failover({{"NUM_PATHS", "1"}}));
    b->on_am(settle_id, [](const char *, size_t) { return UCS_OK; });
    connect(*a, *b, first);
    EXPECT_TRUE(works(*eps[0]));
    ASSERT_EQ(0, vqp_fabric()->port(second.c_str(), 1, 0));
    usleep(50000); /* the async thread takes the event */
    run_for(0.02);
    EXPECT_TRUE(works(*eps[0]));
    ASSERT_EQ(0, vqp_fabric()->port(second.c_str(), 1, 1));
    ASSERT_EQ(0, vqp_fabric()->port(first.c_str(), 1, 0));
    EXPECT_TRUE(failed(*eps[0]));
    ASSERT_EQ(0, vqp_fabric()->port(first.c_str(), 1, 1));
}
