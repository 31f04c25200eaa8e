/*
 * A link of a rail, or the switch behind it, loses what RC sends although its port is active.
 * Control datagrams pass: they may take another way. The paths of the rail move to another
 * one when their probes fail.
 */
#include "failover_fixture.h"

namespace {

class rails : public bonded_failover_fixture {
protected:
    void start(options config)
    {
        config["FAILOVER"]   = "y";
        config["STATS_FILE"] = stats.name;
        config.emplace("TIMEOUT", "5ms");
        config.emplace("RETRY_COUNT", "1");
        a      = std::make_unique<node>("bond0", config);
        b      = std::make_unique<node>("bond0", config);
        listen();
        ab     = std::make_unique<endpoint>(*a, *b);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        settle();
    }

    /* What the queue pairs of the device request gets no answer */
    static void lose(const std::string &device)
    {
        faults("dark path=0/1 at=0s dev=" + device);
    }

    void put(uint8_t value)
    {
        uct_iov_t iov = source->iov(0, size);

        source->fill(value);
        ASSERT_GE(ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(), NULL);
        }), UCS_OK);
        ASSERT_EQ(UCS_OK, ab->flush());
        EXPECT_EQ(0, memcmp(source->data, target->data, size));
    }

    static unsigned moves(const std::string &from, const std::string &to)
    {
        return log_capture::count(("moves from " + from + ":1 to " + to + ":1").c_str());
    }
};

/* Both rails keep one path: it comes back with its rail. Atomics go to fab0 */
TEST_F(rails, paths_that_do_not_come_up_move_but_the_last_one_of_a_rail)
{
    (void)counts(); /* its log is not the test's */
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({{"NUM_PATHS", "6"}});
    lose("fab1");
    for (unsigned i = 0; ups() < 4; ++i) { /* two paths, at both sides */
        put((uint8_t)i);
        ASSERT_LT(i, 20000u);
    }
    EXPECT_EQ(4u, moves("fab1", "fab0"));
    put(77);
    adds(100);
    for (unsigned i = 0; i < 50; ++i) {
        put((uint8_t)i);
    }
    EXPECT_EQ(4u, ups());
    EXPECT_EQ(4u, moves("fab1", "fab0"));
    EXPECT_EQ(0u, moves("fab0", "fab1"));

    faults(""); /* the first probe of one side may pass and that of the other not */
    EXPECT_TRUE(until([&] { return ups() >= 6; }));
    put(78);
    expect_survived();
    EXPECT_EQ(4u, stats_sum(stats.name, "rail_moves"));
}

/* Atomics need fab0. They wait, and the path goes back until it works there */
TEST_F(rails, only_path_moves_at_once_and_goes_back_for_atomics)
{
    (void)counts(); /* its log is not the test's */
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({{"NUM_PATHS", "1"}});
    put(1);
    lose("fab0");
    put(2);
    EXPECT_TRUE(until([&] { return ups() == 2; }));
    EXPECT_EQ(2u, moves("fab0", "fab1"));
    if (!a->has_atomics()) {
        expect_survived();
        return;
    }

    memset(target->data, 0, sizeof(uint64_t));
    ASSERT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1, target->addr(),
                                    target->rkey());
    }));
    EXPECT_TRUE(until([&] { return log_capture::has("moved back to its first rails"); }));
    EXPECT_TRUE(until([&] { return moves("fab0", "fab1") >= 4; })); /* in vain */
    EXPECT_EQ(0u, *(uint64_t*)target->data);
    faults("");
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(1u, *(uint64_t*)target->data);
    adds(100);
    expect_survived();
}

/* The port of the only path goes down at both sides, and comes back after the path has moved */
TEST_F(rails, only_path_leaves_a_port_that_is_down)
{
    (void)counts(); /* its log is not the test's */
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({{"NUM_PATHS", "1"}});
    put(1);
    ASSERT_EQ(0, vqp_fabric()->port("fab0", 1, 0));
    put(2);
    EXPECT_EQ(2u, moves("fab0", "fab1"));
    ASSERT_EQ(0, vqp_fabric()->port("fab0", 1, 1));
    run_for(0.6); /* it might go back after 500 ms */
    put(3);
    EXPECT_EQ(0u, moves("fab1", "fab0"));
    expect_survived();
}

/* That of one path of two: it waits, and the other one has its frags */
TEST_F(rails, path_waits_for_its_port_while_another_one_works)
{
    (void)counts(); /* its log is not the test's */
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({{"NUM_PATHS", "2"}});
    put(1);
    ASSERT_EQ(0, vqp_fabric()->port("fab0", 1, 0));
    for (unsigned i = 0; i < 50; ++i) {
        put((uint8_t)i);
    }
    ASSERT_EQ(0, vqp_fabric()->port("fab0", 1, 1));
    EXPECT_TRUE(until([&] { return ups() == 2; }));
    put(2);
    adds(100);
    EXPECT_EQ(0u, moves("fab0", "fab1"));
    expect_survived();
}

/* Its device fails for good at one side */
TEST_F(rails, only_path_leaves_a_device_that_has_failed)
{
    (void)counts(); /* its log is not the test's */
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({{"NUM_PATHS", "1"}});
    put(1);
    ASSERT_EQ(0, vqp_fabric()->device("fab0", 0));
    put(2);
    EXPECT_EQ(2u, moves("fab0", "fab1"));
    expect_survived();
    ASSERT_EQ(0, vqp_fabric()->device("fab0", 1));
}

/* The rails of one side: those of the other one stay */
TEST_F(rails, of_one_side_alone)
{
    (void)counts(); /* its log is not the test's */
    log_capture log(UCS_LOG_LEVEL_DIAG);
    options config{{"FAILOVER", "y"}, {"STATS_FILE", stats.name},
                   {"NUM_PATHS", "1"}, {"TIMEOUT", "5ms"}, {"RETRY_COUNT", "1"}};

    a      = std::make_unique<node>("bond0", config);
    b      = std::make_unique<node>("fab1", config);
    listen();
    ab     = std::make_unique<endpoint>(*a, *b);
    source = std::make_unique<memory>(*a, size);
    target = std::make_unique<memory>(*b, size);
    settle();
    lose("fab0");
    put(1);
    EXPECT_EQ(1u, moves("fab0", "fab1"));
    adds(100);
    expect_survived();
    EXPECT_EQ(1u, stats_sum(stats.name, "rail_moves"));
}

} /* namespace */
