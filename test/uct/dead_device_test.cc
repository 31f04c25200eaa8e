/*
 * Devices, or their completion queues, that fail for good while another device of the
 * bond works.
 */
#include "failover_fixture.h"

#include <infiniband/verbs.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
#include <algorithm>
#include <vector>

namespace {

class dead_device : public bonded_failover_fixture {
protected:
    void TearDown() override
    {
        bonded_failover_fixture::TearDown();
        if (vqp_fabric() != NULL) {
            vqp_fabric()->device("fab0", 1);
            vqp_fabric()->device("fab1", 1);
        }
    }

    /* The bond, and at the other side the bond or one of its devices */
    void start(const std::string &peer = "bond0", options config = {})
    {
        config.emplace("FAILOVER", "y");
        config.emplace("NUM_PATHS", "4");
        config.emplace("STATS_FILE", stats.name);
        a = std::make_unique<node>("bond0", config);
        b = std::make_unique<node>(peer, config);
        b->on_am(message, [this](const char *data, size_t length) {
            EXPECT_EQ(sizeof(sent), length);
            EXPECT_EQ(0, memcmp(&received, data, length));
            ++received;
            return UCS_OK;
        });
        listen();
        ab     = std::make_unique<endpoint>(*a, *b);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        settle();
    }

    /* Puts of all memory, between messages with numbers */
    void post_all(endpoint &ep, memory &from, memory &to)
    {
        uct_iov_t iov;

        for (size_t at = 0; at < size; at += size / 64) {
            iov = from.iov(at, size / 64);
            ASSERT_GE(ep.retry([&] {
                return uct_ep_put_zcopy(ep, &iov, 1, to.addr(at), to.rkey(),
                                        NULL);
            }), UCS_OK);
            ASSERT_EQ(UCS_OK, ep.retry([&] {
                return uct_ep_am_short(ep, message, sent, NULL, 0);
            }));
            ++sent;
        }
    }

    void expect_all(endpoint &ep, memory &from, memory &to)
    {
        ASSERT_EQ(UCS_OK, ep.flush());
        EXPECT_EQ(0, memcmp(from.data, to.data, size));
        EXPECT_TRUE(until([&] { return received == sent; })) << received;
    }

    void put_all(endpoint &ep, memory &from, memory &to)
    {
        from.fill((uint8_t)sent + 1);
        post_all(ep, from, to);
        expect_all(ep, from, to);
    }

    static void kill(const char *device)
    {
        ASSERT_EQ(0, vqp_fabric()->device(device, 0));
    }

    void survive_without(const char *device)
    {
        put_all(*ab, *source, *target);
        kill(device);
        for (unsigned i = 0; i < 5; ++i) {
            put_all(*ab, *source, *target);
        }
    }

    bool failed(endpoint &ep)
    {
        return until([&] { return ep.errors != 0; });
    }

    static constexpr uint8_t message = 7;
    uint64_t sent = 0, received = 0;
};

TEST_F(dead_device, of_both_sides_leaves_the_endpoint_on_the_other)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    start();
    survive_without("fab1");
    EXPECT_TRUE(until([&] { return log_capture::has("fab1:1 has failed for good"); }));
    adds(50);
    EXPECT_EQ("", log.errors());
    expect_survived();
}

TEST_F(dead_device, of_one_side_leaves_the_endpoint_on_the_other)
{
    start("fab0");
    survive_without("fab1");
    adds(50);
    expect_survived();
}

TEST_F(dead_device, of_the_receiver_leaves_the_endpoint_on_the_other)
{
    start("fab0");
    std::swap(a, b);
    ab     = std::make_unique<endpoint>(*a, *b);
    source = std::make_unique<memory>(*a, size);
    target = std::make_unique<memory>(*b, size);
    b->on_am(message, [this](const char *, size_t) {
        ++received;
        return UCS_OK;
    });
    survive_without("fab1");
    expect_survived();
}

/* Each op once: what the device had executed, or not, goes over the other one */
TEST_F(dead_device, in_the_middle_of_traffic_loses_nothing)
{
    start();
    source->fill(3);
    post_all(*ab, *source, *target);
    kill("fab1");
    post_all(*ab, *source, *target);
    expect_all(*ab, *source, *target);
    expect_survived();
}

TEST_F(dead_device, does_not_keep_endpoints_and_memory_from_being_made)
{
    start();
    kill("fab1");
    put_all(*ab, *source, *target);

    memory other_source(*a, size), other_target(*b, size);
    endpoint other(*a, *b);

    put_all(other, other_source, other_target);
    put_all(*ab, other_source, other_target);
    EXPECT_EQ(0u, other.errors);
}

TEST_F(dead_device, lets_the_side_sleep)
{
    int fd;

    start();
    ASSERT_EQ(UCS_OK, uct_iface_event_fd_get(a->iface, &fd));
    kill("fab1");
    put_all(*ab, *source, *target);
    ASSERT_TRUE(until([&] {
        return uct_iface_event_arm(a->iface, UCT_EVENT_SEND_COMP | UCT_EVENT_RECV) ==
               UCS_OK;
    }));
    struct pollfd pfd = {fd, POLLIN, 0};
    EXPECT_EQ(0, poll(&pfd, 1, 0)) << "something wakes it without need";
}

TEST_F(dead_device, as_the_last_one_ends_the_endpoint)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    start();
    kill("fab1");
    put_all(*ab, *source, *target);
    kill("fab0");
    EXPECT_TRUE(failed(*ab));
    EXPECT_EQ(UCS_ERR_IO_ERROR, ab->error);
    EXPECT_NE(std::string::npos, log.errors().find("fab0:1 has failed for good"));
}

TEST_F(dead_device, ends_the_endpoint_without_failover)
{
    start("fab0", {{"FAILOVER", "n"}}); /* the peer notices nothing, and sends no reset */
    kill("fab1");
    EXPECT_TRUE(failed(*ab));
    EXPECT_EQ(UCS_ERR_IO_ERROR, ab->error);
}

/* A reset is not repeated: it is sent to each rail. The retries would take a quarter of
 * an hour */
TEST_F(dead_device, does_not_hide_the_end_of_the_peer)
{
    start("bond0", {{"TIMEOUT", "100s"}, {"RETRY_COUNT", "7"}});
    endpoint ba(*b, *a);

    ASSERT_EQ(UCS_OK, ba.flush());
    kill("fab0");
    put_all(*ab, *source, *target);
    ab.reset();
    source.reset();
    a.reset();
    EXPECT_TRUE(until([&] {
        (void)uct_ep_am_short(ba, settle_id, 0, NULL, 0);
        return ba.errors != 0;
    }));
}

TEST_F(dead_device, does_not_delay_connecting)
{
    start("fab1");
    put_all(*ab, *source, *target);
    kill("fab0");
    put_all(*ab, *source, *target);
    {
        endpoint other(*a, *b);

        EXPECT_EQ(UCS_OK, other.flush());
    }
    close();
    EXPECT_EQ(0u, stats_sum(stats.name, "hs_retransmits"));
}

TEST_F(dead_device, as_the_last_one_ends_an_endpoint_that_connects)
{
    start();
    faults("lose op=SEND count=all"); /* control datagrams */
    endpoint other(*a, *b);
    kill("fab0");
    kill("fab1");
    EXPECT_TRUE(failed(other));
    EXPECT_EQ(UCS_ERR_IO_ERROR, other.error);
}

/* The failure of the other one waits for no completion of it */
TEST_F(dead_device, does_not_keep_a_failed_endpoint)
{
    start();
    kill("fab1");
    post_all(*ab, *source, *target);
    target.reset();
    b.reset();
    EXPECT_TRUE(until([&] { return ab->errors != 0; }));
    ab.reset();
}

class dead_queue : public dead_device {
protected:
    static std::vector<uint32_t> queue_pairs(const char *device)
    {
        std::vector<uint32_t> qpns(64);
        int num = vqp_fabric()->qps(device, qpns.data(), 64);

        qpns.resize(std::max(0, std::min(num, 64)));
        return qpns;
    }

    static bool has(const char *device, uint32_t qpn)
    {
        std::vector<uint32_t> qpns = queue_pairs(device);

        return std::find(qpns.begin(), qpns.end(), qpn) != qpns.end();
    }

    /* The completion queue of the newest queue pair fails. @return its number */
    static uint32_t raise(const char *device)
    {
        std::vector<uint32_t> qpns = queue_pairs(device);

        if (qpns.empty()) {
            ADD_FAILURE() << "no queue pair on " << device;
            return 0;
        }
        EXPECT_EQ(0, vqp_fabric()->qp_event(device, qpns[0], IBV_EVENT_CQ_ERR));
        return qpns[0];
    }
};

TEST_F(dead_queue, leaves_the_endpoint_on_the_other_device)
{
    uint32_t qpn;

    start();
    source->fill(3);
    post_all(*ab, *source, *target);
    {
        log_capture log(UCS_LOG_LEVEL_WARN);

        qpn = raise("fab1"); /* of b, which made its queue pairs last */
        for (double end = now() + wait_limit(); now() < end; b->progress()) {
            if (log_capture::has("fab1:1 has failed for good")) {
                break; /* another thread takes the event */
            }
        }
        EXPECT_TRUE(log_capture::has("fab1:1 has failed for good"));
    }
    /* It does not wait for the peer to end its queue pair: the device works, and in ERR
     * it could execute what comes after it was counted */
    for (double end = now() + wait_limit(); has("fab1", qpn) && (now() < end); ) {
        (void)b->progress();
    }
    EXPECT_FALSE(has("fab1", qpn));

    post_all(*ab, *source, *target);
    expect_all(*ab, *source, *target);
    expect_survived();
}

/* Its path has a queue pair that nobody polls */
TEST_F(dead_queue, ends_an_endpoint_that_connects_without_failover)
{
    start("bond0", {{"FAILOVER", "n"}});
    faults("lose op=SEND count=all"); /* control datagrams */
    endpoint other(*a, *b);
    raise("fab1");
    EXPECT_TRUE(failed(*ab));
    faults("");
    EXPECT_TRUE(failed(other));
    EXPECT_EQ(UCS_ERR_IO_ERROR, other.error);
}

} // namespace
