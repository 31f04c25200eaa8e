/*
 * Paths that fall silent: the device reports no error, or only after seconds. The
 * RC time-out is far longer here than a test.
 */
#include "failover_fixture.h"

#include <algorithm>
#include <poll.h>
#include <string.h>

namespace {

/* Executed, and never acknowledged: one queue pair that does not answer any more */
const char *const no_answers = "unacked nth=40 more=all";
/* One packet is lost: it is sent again after the RC time-out */
const char *const one_lost   = "lose nth=40";

class silence_test : public failover_fixture,
                     public ::testing::WithParamInterface<const char*> {
protected:
    void start(options config = {})
    {
        config["NUM_PATHS"] = GetParam();
        config.emplace("PATH_TIMEOUT", "1ms");
        config.emplace("TIMEOUT", "1000s");
        failover_fixture::start(config);
    }

    void expect_silent()
    {
        expect_survived();
        EXPECT_GT(stats_sum(stats.name, "silences"), 0u);
    }
};

TEST_P(silence_test, what_was_executed_without_an_answer_is_not_executed_again)
{
    start();
    faults(no_answers);
    adds(2000);
    expect_silent();
}

/* One path is in use: another one is added, and shows that the first one is at fault */
TEST_F(failover_fixture, the_only_path_is_given_up_for_its_silence)
{
    for (const char *fault : {no_answers, one_lost}) {
        start({{"NUM_PATHS", "4"}, {"MIN_PATHS", "1"}, {"PATH_TIMEOUT", "1ms"},
               {"TIMEOUT", "1000s"}});
        faults(fault);
        adds(2000);
        expect_survived();
        EXPECT_GT(stats_sum(stats.name, "silences"), 0u);
        EXPECT_GT(stats_sum(stats.name, "path_adds"), 0u);
    }
}

/* At the side that has noticed, and at the other one */
TEST_P(silence_test, the_log_says_why_a_path_is_down)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);
    start();
    faults(no_answers);
    adds(2000);
    expect_silent();
    EXPECT_TRUE(log.has("down: no completion in"));
    EXPECT_TRUE(log.has("down: the peer gave it up"));
}

TEST_P(silence_test, a_request_that_is_lost_is_executed_on_another_path)
{
    start();
    faults(one_lost);
    adds(2000);
    expect_silent();
}

/* Each waits for the one before: the window never gets full, and nothing that is in
 * flight has a completion of its own */
TEST_P(silence_test, a_message_that_is_lost_comes_although_no_other_one_is_sent)
{
    unsigned received = 0;

    start();
    b->on_am(3, [&](const char*, size_t) {
        ++received;
        return UCS_OK;
    });
    faults("lose nth=20; lose nth=60");
    for (unsigned i = 0; i < 100; ++i) {
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 3, i, NULL, 0);
        }));
        ASSERT_TRUE(until([&] { return received == i + 1; })) << i;
    }
    expect_silent();
}

TEST_P(silence_test, large_puts_and_gets_go_on)
{
    start();
    source->fill(1);
    for (unsigned i = 0; i < 4; ++i) {
        uct_iov_t iov = source->iov(0, size);
        completion &get = kept_completion();

        /* One at a time: while both paths have lost something, RC decides */
        faults("lose nth=" + std::to_string(10 + 5 * i));
        memset(target->data, 0, size);
        ASSERT_GE(ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(),
                                    target->rkey(), NULL);
        }), UCS_OK);
        ASSERT_EQ(UCS_OK, ab->flush());
        ASSERT_EQ(0, memcmp(source->data, target->data, size));
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_get_zcopy(*ab, &iov, 1, target->addr(),
                                    target->rkey(), &get.super);
        }));
        ASSERT_TRUE(until([&] { return get.calls == 1; }));
        ASSERT_EQ(UCS_OK, get.status);
    }
    expect_silent();
}

/* Nothing gets an answer for a while: no path is worse than another. A busy machine
 * may suspend the process after the first path that goes on, so the time is virtual */
TEST_P(silence_test, when_all_paths_are_silent_none_is_given_up)
{
    completion &comp = kept_completion();

    if (!has_virtual_clock()) {
        GTEST_SKIP() << "needs the virtual clock of the fabric";
    }
    /* the paths need not go on in the same moment */
    start({{"TIMEOUT", "70ms"}, {"PATH_TIMEOUT", "20ms"}});
    source->fill(1);
    uct_iov_t iov = source->iov(0, size);
    faults("lose count=all");
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(),
                                &comp.super);
    }));
    run_for(0.1);
    EXPECT_EQ(0u, comp.calls);
    faults("");
    ASSERT_TRUE(until([&] { return comp.calls == 1; }));
    EXPECT_EQ(UCS_OK, comp.status);
    EXPECT_EQ(0, memcmp(source->data, target->data, size));
    close();
    EXPECT_EQ(0u, stats_sum(stats.name, "path_downs"));
    EXPECT_EQ(0u, stats_sum(stats.name, "silences"));
}

/* RC sends it again. The peer could only agree to give the path up, and does not run: the
 * endpoint goes on as it would without failover */
TEST_P(silence_test, a_lost_packet_does_not_wait_for_a_peer_that_computes)
{
    double end  = now() + 60;
    /* Those of the path that lost it may be the last ones, whatever was posted later */
    auto all    = [&] {
        return std::all_of(completions.begin(), completions.end(),
                           [](const completion &comp) { return comp.calls == 1; });
    };
    uct_iov_t iov;

    log_capture log(UCS_LOG_LEVEL_DEBUG);
    start({{"TIMEOUT", "70ms"}});
    iov = source->iov(0, 64);
    faults(one_lost);
    for (unsigned i = 0; (i < 2000) && (now() < end); ++i) {
        completion &comp = kept_completion();
        while ((uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(),
                                 &comp.super) == UCS_ERR_NO_RESOURCE) &&
               (now() < end)) {
            a->progress();
        }
    }
    while (!all() && (now() < end)) {
        a->progress();
    }
    EXPECT_TRUE(all());
    for (const completion &comp : completions) {
        EXPECT_EQ(1, comp.calls);
        EXPECT_EQ(UCS_OK, comp.status);
    }

    /* The peer's async thread answers that the question is withdrawn */
    while (!log.has("SILENT -> UP") && (now() < end)) {
        a->progress();
    }
    EXPECT_TRUE(log.has("SILENT -> UP"));
    close();
    EXPECT_EQ(0u, stats_sum(stats.name, "path_downs"));
}

/* Without the option the RC time-out decides */
TEST_P(silence_test, with_inf_nothing_is_given_up)
{
    completion &comp = kept_completion();

    start({{"PATH_TIMEOUT", "inf"}, {"TIMEOUT", "270ms"}});
    faults("lose nth=3");
    uct_iov_t iov = source->iov(0, size);
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(),
                                &comp.super);
    }));
    ASSERT_TRUE(until([&] { return comp.calls == 1; }));
    close();
    EXPECT_EQ(0u, stats_sum(stats.name, "path_downs"));
}

/* Both sides sleep: nothing wakes them but a timer. Each has progress only when its
 * own descriptor is ready */
TEST_P(silence_test, a_side_that_sleeps_finds_a_silent_path)
{
    const unsigned events = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;
    unsigned received = 0, sleeps = 0;
    node *sides[2];
    double end;
    int fds[2];

    start({{"PROBE_INTERVAL", "1000s"}});
    sides[0] = a.get();
    sides[1] = b.get();
    b->on_am(3, [&](const char*, size_t) {
        ++received;
        return UCS_OK;
    });
    for (unsigned i = 0; i < 2; ++i) {
        ASSERT_EQ(UCS_OK, uct_iface_event_fd_get(sides[i]->iface, &fds[i]));
    }
    faults("lose nth=1");
    ASSERT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_am_short(*ab, 3, 0, NULL, 0);
    }));

    bool is_awake[2] = {true, true};
    for (end = now() + wait_limit(); received == 0; ++sleeps) {
        struct pollfd pfds[2];

        for (unsigned i = 0; i < 2; ++i) {
            pfds[i] = {fds[i], POLLIN, 0};
            if (is_awake[i]) {
                while ((sides[i]->progress() > 0) ||
                       (uct_iface_event_arm(sides[i]->iface, events) != UCS_OK)) {
                }
            }
        }
        ASSERT_TRUE((received > 0) || (now() < end)) << "nothing wakes it";
        ASSERT_GE(poll(pfds, 2, (received > 0) ? 0 : 1000), 0);
        for (unsigned i = 0; i < 2; ++i) {
            is_awake[i] = pfds[i].revents != 0;
        }
    }
    EXPECT_GT(sleeps, 0u);
    expect_silent();
}

std::string paths_name(const ::testing::TestParamInfo<const char*> &info)
{
    return std::string("paths_") + info.param;
}

INSTANTIATE_TEST_SUITE_P(all, silence_test,
                         ::testing::Values("2", "4", "8"), paths_name);

/* A device that does not count may be that of either side */
TEST_F(failover_fixture, auto_gives_up_silent_paths_if_both_sides_count)
{
    const char *const no_count = "call verb=query_qp count=all errno=EIO";

    if (!counts()) {
        GTEST_SKIP() << "needs a device that counts what it executes";
    }
    for (unsigned bad : {1, 2, 0}) {
        log_capture log(UCS_LOG_LEVEL_DIAG);
        options config{{"FAILOVER", "y"}, {"NUM_PATHS", "2"},
                       {"TIMEOUT", bad ? "70ms" : "1000s"},
                       {"STATS_FILE", stats.name}};

        faults((bad == 1) ? no_count : "");
        a = std::make_unique<node>(0, config);
        faults((bad == 2) ? no_count : "");
        b = std::make_unique<node>(0, config);
        faults(one_lost);
        ab     = std::make_unique<endpoint>(*a, *b);
        target = std::make_unique<memory>(*b, size);
        adds(500);
        faults("");
        close();
        EXPECT_EQ(bad == 0, stats_sum(stats.name, "silences") > 0) << bad;
    }
}

/* The call that gives the path up also says what was executed, although it polls many times
 * until all receives are flushed: the next one may be late */
TEST_F(failover_fixture, a_silent_path_costs_the_peer_one_call_of_progress)
{
    const unsigned count = 100;
    log_capture log(UCS_LOG_LEVEL_DIAG);
    completion &comp = kept_completion();
    double end;

    if (!counts()) {
        GTEST_SKIP() << "needs a device that counts what it executes";
    }
    start({{"NUM_PATHS", "2"}, {"MIN_PATHS", "2"}, {"PATH_TIMEOUT", "1ms"},
           {"TIMEOUT", "1000s"}, {"POLL_MAX", "2"}, {"FSN_WINDOW", "1024"}});
    use_all_slots(target.get());
    faults(one_lost);
    memset(target->data, 0, size);
    for (uint64_t i = 1; i <= count; ++i) {
        ASSERT_EQ(UCS_OK, uct_ep_put_short(*ab, &i, sizeof(i),
                                           target->addr(i * sizeof(i)),
                                           target->rkey()));
    }
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_flush(*ab, 0, &comp.super));
    for (end = now() + wait_limit(); !log.has("the peer gave it up") && (now() < end);) {
        run_for_one(*a, 10e-3); /* its question comes to the other side's thread */
        b->progress();
    }
    EXPECT_TRUE(log.has("the peer gave it up"));
    for (end = now() + wait_limit(10); (comp.calls == 0) && (now() < end);) {
        a->progress();
    }
    ASSERT_EQ(1, comp.calls);
    EXPECT_EQ(UCS_OK, comp.status);
    for (uint64_t i = 1; i <= count; ++i) {
        EXPECT_EQ(i, ((const uint64_t*)target->data)[i]);
    }
    faults("");
}

/* Nothing of a side that is idle comes or goes: the timer ends */
TEST_F(failover_fixture, an_idle_side_is_not_woken)
{
    const unsigned events = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;
    int fd;

    failover_fixture::start({{"NUM_PATHS", "4"}});
    ASSERT_EQ(UCS_OK, uct_iface_event_fd_get(a->iface, &fd));
    ASSERT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_am_short(*ab, settle_id, 0, NULL, 0);
    }));
    EXPECT_TRUE(until([&] {
        struct pollfd pfd = {fd, POLLIN, 0};

        while (a->progress() + b->progress() > 0) {
        }
        return (uct_iface_event_arm(a->iface, events) == UCS_OK) &&
               (poll(&pfd, 1, 200) == 0);
    }));
}

} /* namespace */
