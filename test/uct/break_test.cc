/* uct_vqp_ep_break_path(): a path fails on purpose, for vqp-run --accept and debuggers. */
#include "failover_fixture.h"

extern "C" {
#include "uct/vqp_break.h"
#include <uct/base/uct_iface.h>
}

class break_test : public failover_fixture {
protected:
    void SetUp() override
    {
        failover_fixture::SetUp();
        break_path = exported<decltype(break_path)>("uct_vqp_ep_break_path");
        ASSERT_TRUE(break_path != NULL);
    }

    decltype(&uct_vqp_ep_break_path) break_path;
};

TEST_F(break_test, each_path_goes_down_and_comes_back)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({});
    for (unsigned path = 0; path < 4; ++path) {
        messages(100);
        ASSERT_EQ(UCS_OK, break_path(*ab, path)) << path;
        messages(100);
        EXPECT_TRUE(until([&] { return ups() == 2 * (path + 1); })) << ups();
    }
    expect_survived();
    EXPECT_EQ(2 * 4u, stats_sum(stats.name, "path_downs")) << "of both sides";
}

/* What is in flight on it is flushed, and sent again */
TEST_F(break_test, in_the_middle_of_atomics)
{
    start({});
    if (!counts()) {
        GTEST_SKIP() << "the device does not count what it executes";
    }

    memset(target->data, 0, sizeof(uint64_t));
    for (unsigned i = 0; a->has_atomics() && (i < 400); ++i) {
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1, target->addr(),
                                        target->rkey());
        }));
        if ((i % 100) == 50) {
            EXPECT_EQ(UCS_OK, break_path(*ab, i / 100));
        }
    }
    ASSERT_EQ(UCS_OK, ab->flush());
    expect_added(a->has_atomics() ? 400 : 0);
}

TEST_F(break_test, there_is_no_such_path)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({{"NUM_PATHS", "2"}});
    EXPECT_EQ(UCS_ERR_NO_ELEM, break_path(*ab, 2));
    EXPECT_EQ(UCS_OK, break_path(*ab, 1));
    EXPECT_TRUE(until([] { return log_capture::has("is down"); }));
    EXPECT_EQ(UCS_ERR_NO_ELEM, break_path(*ab, 1)) << "it is not UP now";
    settle();
}

TEST_F(break_test, endpoint_of_another_transport)
{
    uct_base_iface_t other = {};
    uct_ep_t ep            = {&other.super};

    EXPECT_EQ(UCS_ERR_INVALID_PARAM, break_path(&ep, 0));
}

TEST_F(break_test, without_failover_the_endpoint_fails)
{
    log_capture log;

    open(no_failover());
    settle();
    if (break_path(*ab, 0) != UCS_OK) {
        FAIL() << "a path without failover is UP, too";
    }
    EXPECT_TRUE(until([&] { return ab->errors == 1; }));
    EXPECT_EQ(UCS_ERR_NO_ELEM, break_path(*ab, 1)) << "the endpoint has failed";
}
