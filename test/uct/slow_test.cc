/*
 * A path whose flow has a slow link is moved to another flow, while operations are
 * under way: see flow_fixture.h.
 */
#include "flow_fixture.h"

namespace {

class slow_flow : public flow_fixture {
protected:
    static constexpr unsigned num_paths = 4;

    slow_flow() : flow_fixture(num_paths) {}

    static void act(const std::string &script)
    {
        char error[128] = "";

        ASSERT_EQ(0, vqp_fabric()->act(script.c_str(), error, sizeof(error)))
                << error;
    }

    void start(options config = {})
    {
        std::set<unsigned> taken;

        if (devices().size() < 2) {
            GTEST_SKIP() << "needs two devices";
        }
        config["NUM_PATHS"] = std::to_string(num_paths);
        /* connections that differ by their labels */
        for (unsigned tries = 0; (taken.size() < num_paths) && (tries < 200); ++tries) {
            close();
            failover_fixture::start(config);
            std::multiset<unsigned> all = links();
            taken = std::set<unsigned>(all.begin(), all.end());
        }
        ASSERT_EQ(num_paths, taken.size());
        prepare();
    }
};

TEST_F(slow_flow, that_has_a_slow_link_is_moved_to_another_one)
{
    start();
    if (IsSkipped()) {
        return;
    }
    unsigned link = *links().begin();
    EXPECT_FALSE(stream([] { return false; }, 0.01));
    act("rate path=" + std::to_string(link) + " to=400");
    /* it may get the same one again, and be moved again */
    EXPECT_TRUE(stream([&] { return links().count(link) == 0; }, 20));
    act("rate path=" + std::to_string(link) + " to=8000");
    finish();
    EXPECT_GT(stats_sum(stats.name, "moves"), 0u);
    EXPECT_EQ(0u, stats_sum(stats.name, "replayed"));
    EXPECT_EQ(0u, stats_sum(stats.name, "silences"));
}

TEST_F(slow_flow, that_was_set_stays)
{
    failover_fixture::start({{"NUM_PATHS", "8"}, {"SLOW_PATH", "1ms"},
                             {"PATH_ENTROPY", "1,2,3,4,5,6,7,8"}});
    prepare();
    act("rate path=" + std::to_string(*links().begin()) + " to=400");
    EXPECT_FALSE(stream([] { return false; }, 0.06));
    finish();
    EXPECT_EQ(0u, stats_sum(stats.name, "moves"));
}

TEST_F(slow_flow, stays_with_inf)
{
    start({{"SLOW_PATH", "inf"}});
    if (IsSkipped()) {
        return;
    }
    act("rate path=" + std::to_string(*links().begin()) + " to=400");
    EXPECT_FALSE(stream([] { return false; }, 0.06));
    finish();
    EXPECT_EQ(0u, stats_sum(stats.name, "moves"));
}

} /* namespace */
