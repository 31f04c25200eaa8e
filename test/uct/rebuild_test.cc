/* Many paths are rebuilt over a port that was down: what that costs */
#include "failover_fixture.h"

namespace {

class rebuilds : public bonded_failover_fixture {
protected:
    static constexpr unsigned NUM    = 80;
    static constexpr double   WINDOW = 10e-3; /* s */
    static constexpr unsigned BUDGET = 32;    /* queue pairs in a window */

    /* Endpoints with a path on each of two ports, of which one is down now */
    void start_down()
    {
        options config{{"FAILOVER", "y"}, {"NUM_PATHS", "2"}};

        a = std::make_unique<node>("bond0", config);
        b = std::make_unique<node>("bond0", config);
        listen();
        for (unsigned i = 0; i < NUM; ++i) {
            m_eps.push_back(std::make_unique<endpoint>(*a, *b));
        }
        use_all();
        count_calls();
        set_port(0);
        /* Each side gives up all paths over that port; most are down soon */
        ASSERT_TRUE(until([] { return calls("modify_qp") >= 2 * NUM; }));
        run_for(20e-3);
    }

    void TearDown() override
    {
        m_eps.clear();
        bonded_failover_fixture::TearDown();
    }

    static void set_port(int up)
    {
        ASSERT_EQ(0, vqp_fabric()->port("fab1", 1, up));
    }

    void use_all()
    {
        for (auto &ep : m_eps) {
            ASSERT_EQ(UCS_OK, ep->retry([&] {
                return uct_ep_am_short(*ep, settle_id, 0, NULL, 0);
            }));
            ASSERT_EQ(UCS_OK, ep->flush());
        }
    }

    /* They are counted only while there are rules */
    static void count_calls() { faults("call verb=query_port nth=1000000"); }

    static uint64_t calls(const char *verb) { return vqp_fabric()->calls(verb); }

    std::vector<std::unique_ptr<endpoint>> m_eps;
};

/* The interfaces of both sides ask for their two ports, not each path */
TEST_F(rebuilds, one_query_of_a_port_that_is_down_is_enough_for_all)
{
    ASSERT_NO_FATAL_FAILURE(start_down());
    count_calls();
    double begin = now();
    run_for(0.2);
    double windows = (now() - begin) / WINDOW;
    EXPECT_GT(calls("query_port"), 0u);
    EXPECT_LE((double)calls("query_port"), 2 * 2 * (windows + 1));
    EXPECT_EQ(0u, calls("create_qp"));
    set_port(1);
    use_all();
}

TEST_F(rebuilds, an_interface_makes_so_many_queue_pairs_in_10_ms)
{
    double first = 0, next = 0;

    ASSERT_NO_FATAL_FAILURE(start_down());
    count_calls();
    set_port(1);
    ASSERT_TRUE(until([&] {
        if (calls("create_qp") == 0) {
            first = now(); /* before they are made */
        }
        next = now();
        return calls("create_qp") > 2 * BUDGET; /* of two interfaces */
    }));
    EXPECT_GE(next - first, WINDOW);
    use_all();
}

/* The queue pairs of all second paths are wanted at once. A path that is not added at the
 * first attempt would not be until there is load */
TEST_F(rebuilds, an_interface_with_many_to_make_refuses_no_path)
{
    options config{{"FAILOVER", "y"}, {"NUM_PATHS", "2"}, {"MIN_PATHS", "1"}};
    options more = config;

    more["MIN_PATHS"] = "2";
    a = std::make_unique<node>("bond0", config);
    b = std::make_unique<node>("bond0", more);
    listen();
    int control = count_qps();
    for (unsigned i = 0; i < NUM; ++i) {
        m_eps.push_back(std::make_unique<endpoint>(*a, *b));
    }
    use_all();
    EXPECT_TRUE(until([&] { return count_qps() - control == 2 * 2 * (int)NUM; }))
            << count_qps() - control;
    use_all();
}

} /* namespace */
