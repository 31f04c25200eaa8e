/*
 * A path whose flow has a slow link is moved to another flow, while operations are
 * under way: see flow_fixture.h.
 */
#include "flow_fixture.h"

#include <regex>

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

    /* Source ports of the paths, as they were connected; of the one that got another */
    static std::set<std::string> old_ports()
    {
        std::string text = log_capture::text();
        std::regex line("UDP source port ([0-9]+) on RoCEv2");
        std::set<std::string> ports;

        for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i) {
            ports.insert((*i)[1]);
        }
        EXPECT_FALSE(ports.empty());
        return ports;
    }

    static std::string new_port()
    {
        std::string text = log_capture::text();
        std::smatch found;

        EXPECT_TRUE(std::regex_search(text, found,
                                      std::regex("has UDP source port ([0-9]+) now")));
        return found[1];
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
    EXPECT_GT(stats_sum(stats.name, "moves") + stats_sum(stats.name, "rehashes"), 0u);
    EXPECT_EQ(0u, stats_sum(stats.name, "replayed"));
    EXPECT_EQ(0u, stats_sum(stats.name, "silences"));
}

TEST_F(slow_flow, gets_another_source_port_while_it_is_used)
{
    char value[32] = "off";

    (void)vqp_fabric()->option("LAG", value, sizeof(value));
    if (strcmp(value, "hash")) {
        GTEST_SKIP() << "needs an mlx5 device";
    }
    log_capture log(UCS_LOG_LEVEL_DEBUG);
    start();
    unsigned link = *links().begin();
    EXPECT_FALSE(stream([] { return false; }, 0.01));
    act("rate path=" + std::to_string(link) + " to=400");
    EXPECT_TRUE(stream([&] { return log_capture::has("has UDP source port"); }, 20));
    EXPECT_FALSE(log_capture::has("another flow label"));
    EXPECT_EQ(0u, old_ports().count(new_port()));
    EXPECT_TRUE(stream([&] { return links().count(link) == 0; }, 20));
    finish();
    EXPECT_GT(stats_sum(stats.name, "rehashes"), 0u);
    EXPECT_EQ(0u, stats_sum(stats.name, "replayed"));
}

TEST_F(slow_flow, that_can_not_get_another_source_port_is_moved)
{
    char value[32] = "off";

    (void)vqp_fabric()->option("LAG", value, sizeof(value));
    if (strcmp(value, "hash")) {
        GTEST_SKIP() << "needs an mlx5 device";
    }
    start();
    unsigned link = *links().begin();
    faults("call verb=modify_qp_udp_sport count=all errno=EOPNOTSUPP");
    EXPECT_FALSE(stream([] { return false; }, 0.01));
    act("rate path=" + std::to_string(link) + " to=400");
    EXPECT_TRUE(stream([&] { return links().count(link) == 0; }, 20));
    finish();
    EXPECT_EQ(0u, stats_sum(stats.name, "rehashes"));
    EXPECT_GT(stats_sum(stats.name, "moves"), 0u);
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
