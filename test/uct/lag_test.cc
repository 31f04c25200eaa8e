/*
 * Paths on bonded ports of an mlx5 device. On the software fabric, where the bond gives
 * queue pairs ports by turns: contrib/fabric-run --devices 2 --profile mlx5-lag --mode timed
 * -o CLOCK=virtual -o PATH_RATE=8000 -o PORT_RATE=1000000; or by the hash: -o LAG=hash.
 */
#include "flow_fixture.h"

#include <regex>

namespace {

constexpr double link_rate = 1e9; /* bytes/s */

class lag_flow : public flow_fixture {
protected:
    lag_flow() : flow_fixture(2) {}

    void SetUp() override
    {
        char value[32] = "off";

        flow_fixture::SetUp();
        if (IsSkipped()) {
            return;
        }
        vqp_fabric()->option("LAG", value, sizeof(value));
        mode = value;
        if ((mode == "off") || (devices().size() < 2)) {
            GTEST_SKIP() << "needs two devices with bonded ports";
        }
        (void)counts(); /* it has a log_capture of its own, the first time */
    }

    void start_with(unsigned num_paths, options config)
    {
        config["NUM_PATHS"] = config["MIN_PATHS"] = std::to_string(num_paths);
        config.emplace("SLOW_PATH", "inf");
        failover_fixture::start(config);
        prepare();
    }

    uint32_t newest_qp()
    {
        uint32_t qpn = 0;

        EXPECT_GT(vqp_fabric()->qps(a->name.c_str(), &qpn, 1), 0);
        return qpn;
    }

    /* Of the path that was connected first */
    static unsigned oldest_link(const node &side)
    {
        vqp_fabric_path_t path {};
        uint32_t qpns[max_qps];
        int count = vqp_fabric()->qps(side.name.c_str(), qpns, max_qps);

        EXPECT_TRUE((count > 0) && (count <= (int)max_qps));
        EXPECT_EQ(0, vqp_fabric()->qp_path(side.name.c_str(), qpns[count - 1], &path));
        return path.link;
    }

    /* With two paths, whose ports on both sides are alike, or not */
    void start_with_ports(bool alike, const options &config)
    {
        for (unsigned tries = 0; tries < 64; ++tries) {
            close();
            start_with(2, config);
            if ((oldest_link(*a) == oldest_link(*b)) == alike) {
                return;
            }
        }
        FAIL() << "ports of both sides are always alike, or never";
    }

    /* The queue pair of the path that was connected last fails, and is replaced */
    void rebuild()
    {
        uint32_t old    = newest_qp();
        unsigned before = ups();

        ASSERT_EQ(0, vqp_fabric()->qp_error(a->name.c_str(), old));
        ASSERT_EQ(UCS_OK, ab->flush());
        adds(20);
        /* on both sides */
        ASSERT_TRUE(until([&] { return (ups() >= before + 2) && (newest_qp() != old); }))
                << log_capture::text();
    }

    /* Bytes per second of puts */
    double rate()
    {
        vqp_fabric_traffic_t before, after;
        const double seconds = 0.02;

        prepare();
        EXPECT_FALSE(stream([] { return false; }, seconds / 4));
        EXPECT_EQ(0, vqp_fabric()->port_traffic(a->name.c_str(), 1, &before));
        EXPECT_FALSE(stream([] { return false; }, seconds));
        EXPECT_EQ(0, vqp_fabric()->port_traffic(a->name.c_str(), 1, &after));
        wait_for_puts();
        return (double)(after.bytes - before.bytes) / seconds;
    }

    void wait_for_puts()
    {
        EXPECT_TRUE(until([&] {
            for (completion &comp : comps) {
                if (comp.calls == 0) {
                    return false;
                }
            }
            return true;
        }));
    }

    /* Of the paths of all connections, in the statistics */
    std::multiset<unsigned> reported()
    {
        std::string text = read_file(stats.name);
        std::regex field("\"lag_port\":([0-9]+)");
        std::multiset<unsigned> all;

        for (std::sregex_iterator i(text.begin(), text.end(), field), end; i != end; ++i) {
            all.insert((unsigned)std::stoul((*i)[1]));
        }
        return all;
    }

    /* How often a side has logged that it has a path back */
    static unsigned ups_of(const node &side)
    {
        std::string text = log_capture::text();
        std::regex line("\\(" + side.name + ":1, to iface [^\n]* is up again");

        return (unsigned)std::distance(
                std::sregex_iterator(text.begin(), text.end(), line),
                std::sregex_iterator());
    }

    /* Calls are counted while a rule is in force: one that fails none */
    static void count_pins()
    {
        faults("call verb=modify_qp_lag_port nth=1000000");
    }

    static uint64_t pins() { return vqp_fabric()->calls("modify_qp_lag_port"); }

    std::string mode;
};

/* ---- by turns ---- */

class lag_affinity : public lag_flow {
protected:
    void SetUp() override
    {
        lag_flow::SetUp();
        if (!IsSkipped() && (mode != "affinity")) {
            GTEST_SKIP() << "needs queue pairs that are assigned to ports";
        }
    }
};

TEST_F(lag_affinity, paths_take_turns_and_say_so)
{
    log_capture log(UCS_LOG_LEVEL_DEBUG);

    start_with(4, {});
    EXPECT_EQ((std::multiset<unsigned>{0, 0, 1, 1}), links());
    EXPECT_EQ(8u, log_capture::count("is assigned to member port"));
    EXPECT_TRUE(log_capture::has(a->name + " has 2 member ports (LAG), mode affinity: "
                                 "each path is assigned to one"));
    close();
    EXPECT_EQ((std::multiset<unsigned>{1, 1, 1, 1, 2, 2, 2, 2}), reported());
    EXPECT_TRUE(read_file(stats.name).find("\"lag\":\"affinity\",\"lag_ports\":2") !=
                std::string::npos);
}

TEST_F(lag_affinity, endpoints_with_one_path_take_turns)
{
    start_with(1, {});
    endpoint second(*a, *b), third(*a, *b), fourth(*a, *b);
    ASSERT_TRUE(until([&] { return links().size() == 4; }));
    for (endpoint *each : {&second, &third, &fourth}) {
        EXPECT_EQ(UCS_OK, each->flush());
    }
    EXPECT_EQ((std::multiset<unsigned>{0, 0, 1, 1}), links());
}

/* The first path of each process would have the same port */
TEST_F(lag_affinity, interfaces_begin_with_different_ports)
{
    std::set<unsigned> first;

    for (unsigned tries = 0; (first.size() < 2) && (tries < 64); ++tries) {
        close();
        start_with(1, {});
        ASSERT_EQ(1u, links().size());
        first.insert(*links().begin());
    }
    EXPECT_EQ(2u, first.size());
}

TEST_F(lag_affinity, rebuilt_path_has_its_port_again)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start_with(4, {});
    for (unsigned i = 0; i < 3; ++i) {
        rebuild();
        EXPECT_EQ((std::multiset<unsigned>{0, 0, 1, 1}), links());
    }
    expect_survived();
}

/* The port is up, and nothing of the path that it has comes back */
TEST_F(lag_affinity, path_leaves_a_port_that_drops_packets)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start_with(2, {{"TIMEOUT", "1ms"}, {"RETRY_COUNT", "2"}});
    EXPECT_EQ((std::multiset<unsigned>{0, 1}), links());
    faults("dark link=1 at=0s dev=" + a->name);
    EXPECT_TRUE(stream([&] {
        return (links() == std::multiset<unsigned>{0, 0}) && (ups() >= 2) &&
               (ups_of(*a) > 0);
    }, 2));
    faults("");
    wait_for_puts();
    expect_survived();
}

/* Which ports meet is chance. If both are bad, both sides leave theirs. If one is, its side
 * does, and the other one must not always come to a bad one then. */
TEST_F(lag_affinity, paths_leave_ports_of_both_sides_that_drop_packets)
{
    for (bool alike : {true, false}) {
        log_capture log(UCS_LOG_LEVEL_DIAG);

        start_with_ports(alike, {{"TIMEOUT", "1ms"}, {"RETRY_COUNT", "2"}});
        faults("dark link=1 at=0s");
        EXPECT_TRUE(stream([&] {
            return (links() == std::multiset<unsigned>{0, 0}) &&
                   (links(*b).count(1) <= (alike ? 0 : 1)) && (ups_of(*a) > 0) &&
                   (ups_of(*b) > 0);
        }, 2)) << alike;
        faults("");
        wait_for_puts();
        expect_survived();
    }
}

TEST_F(lag_affinity, two_paths_have_the_rate_of_two_ports)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start_with(2, {});
    EXPECT_GT(rate(), 1.9 * link_rate);
    for (unsigned i = 0; i < 2; ++i) {
        rebuild();
        EXPECT_GT(rate(), 1.9 * link_rate);
    }
    finish();
}

TEST_F(lag_affinity, without_assignment_paths_may_share_a_port)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);
    double least = 2 * link_rate;

    count_pins();
    start_with(2, {{"LAG", "hash"}});
    EXPECT_FALSE(log_capture::has("member ports (LAG)")); /* nobody has asked */
    for (unsigned i = 0; i < 2; ++i) {
        rebuild();
        least = std::min(least, rate());
    }
    EXPECT_LT(least, 1.1 * link_rate);
    EXPECT_EQ(0u, pins());
    finish();
    EXPECT_EQ((std::multiset<unsigned>{0, 0, 0, 0}), reported());
}

TEST_F(lag_affinity, port_that_can_not_be_set_is_one_warning)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    faults("call verb=modify_qp_lag_port count=all errno=EPERM");
    start_with(4, {});
    EXPECT_EQ(8u, pins());
    EXPECT_EQ(2u, log_capture::count("can not be assigned to member port")); /* a, b */
    messages(100);
    close();
    EXPECT_EQ((std::multiset<unsigned>{0, 0, 0, 0, 0, 0, 0, 0}), reported());
}

/* ---- by the hash ---- */

class lag_hash : public lag_flow {
protected:
    void SetUp() override
    {
        lag_flow::SetUp();
        if (!IsSkipped() && (mode != "hash")) {
            GTEST_SKIP() << "needs ports that are chosen by the hash";
        }
    }
};

TEST_F(lag_hash, auto_leaves_the_choice_to_the_hash)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    count_pins();
    start_with(4, {});
    EXPECT_EQ(0u, pins());
    EXPECT_TRUE(log_capture::has("2 member ports (LAG), mode hash"));
    messages(100);
    close();
    EXPECT_EQ((std::multiset<unsigned>{0, 0, 0, 0, 0, 0, 0, 0}), reported());
}

TEST_F(lag_hash, affinity_that_the_device_refuses_goes_on)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    count_pins();
    start_with(2, {{"LAG", "affinity"}});
    EXPECT_GT(pins(), 0u);
    EXPECT_TRUE(log_capture::has("can not be assigned to member port"));
    messages(100);
    close();
}

} /* namespace */
