/*
 * Peers whose address does not resolve on one rail of two, at first or for a time. The
 * software fabric makes the fault: a call that resolves an address blocks, and fails.
 */
#include "failover_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

const char *const dead_rail = "resolve dev=fab1 count=all stall=1s";

class resolve_test : public bonded_failover_fixture {
protected:
    /* With a fault that begins before they connect */
    void start(const std::string &script)
    {
        options config{{"FAILOVER", "y"}, {"NUM_PATHS", "4"},
                       {"STATS_FILE", stats.name}};

        a = std::make_unique<node>("bond0", config);
        b = std::make_unique<node>("bond0", config);
        for (node *each : {a.get(), b.get()}) {
            each->on_am(settle_id, [this](const char *, size_t) {
                ++settled;
                return UCS_OK;
            });
        }
        faults(script);
        ab     = std::make_unique<endpoint>(*a, *b);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
    }

    /* Calls that resolve an address block until there are other faults; meanwhile an
     * operation is done. None of the calls is this thread's */
    void goes_on_while_calls_block(const std::string &script)
    {
        unsigned before = vqp_fabric()->stalls_here();

        faults("resolve dev=fab1 count=all");
        EXPECT_TRUE(until([] { return vqp_fabric()->stalled() == 0; }));
        faults("resolve dev=fab1 count=all stall=5s" + script);
        EXPECT_TRUE(until([&] {
            put_all();
            return (vqp_fabric()->stalled() > 0) ||
                   (vqp_fabric()->stalls_here() > before);
        }));
        put_all();
        EXPECT_EQ(before, vqp_fabric()->stalls_here());
    }

    static uint64_t bytes_of(const char *device)
    {
        vqp_fabric_traffic_t traffic = {};

        EXPECT_EQ(0, vqp_fabric()->port_traffic(device, 1, &traffic));
        return traffic.bytes;
    }

    void put_all()
    {
        uct_iov_t iov;

        source->fill(1);
        memset(target->data, 0, size);
        for (size_t at = 0; at < size; at += size / 64) {
            iov = source->iov(at, size / 64);
            ASSERT_GE(ab->retry([&] {
                return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(at),
                                        target->rkey(), NULL);
            }), UCS_OK);
        }
        ASSERT_EQ(UCS_OK, ab->flush());
        EXPECT_EQ(0, memcmp(source->data, target->data, size));
    }

    uint64_t total(const char *counter)
    {
        close();
        return stats_sum(stats.name, counter);
    }
};

TEST_F(resolve_test, endpoint_connects_over_the_other_rail)
{
    start(dead_rail);
    settle(); /* when the kernel has found out, on both sides */
    for (unsigned i = 0; i < 10; ++i) {
        put_all();
    }
    adds(100);
    goes_on_while_calls_block("");
    EXPECT_EQ(0u, ab->errors);
    faults("");
    EXPECT_GE(total("path_downs"), 2u);
}

TEST_F(resolve_test, dead_rail_is_used_when_it_is_there)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start("resolve dev=fab1 count=all stall=20ms");
    settle();
    put_all();
    faults("");
    EXPECT_TRUE(until([&] { /* a second until it is looked for again */
        uint64_t before = bytes_of("fab1");

        put_all();
        return bytes_of("fab1") >= before + size / 4;
    }));
    EXPECT_TRUE(until([&] { return ups() >= 4; })); /* two paths of two sides */
    EXPECT_EQ(0u, ab->errors);
    EXPECT_GE(total("path_ups"), 4u);
}

TEST_F(resolve_test, rebuilt_path_waits_for_the_address)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start("");
    settle();
    usleep(1100000); /* an answer is used for a second */
    goes_on_while_calls_block("; wr dev=fab1 count=4 status=RETRY_EXC_ERR");
    EXPECT_EQ(0u, ab->errors);
    faults("");
    EXPECT_TRUE(until([&] { return ups() > 0; }));
    put_all();
    EXPECT_GT(total("path_ups"), 0u);
}

TEST_F(resolve_test, without_any_address_the_connection_times_out)
{
    options config{{"FAILOVER", "y"}, {"CONNECT_TIMEOUT", "1s"}};

    a = std::make_unique<node>("bond0", config);
    b = std::make_unique<node>("bond0", config);
    faults("resolve count=all stall=100ms");
    ab = std::make_unique<endpoint>(*a, *b);
    EXPECT_TRUE(until([&] { return ab->errors > 0; }));
    EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, ab->error);
}

} /* namespace */
