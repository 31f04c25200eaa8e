/*
 * Paths that fail while operations are under way: the endpoint goes on, and each
 * operation is executed once. The software fabric makes the faults.
 */
#include "failover_fixture.h"

#include <string.h>

#include <algorithm>
#include <regex>
#include <tuple>

namespace {

/* One for sure, others by chance */
const char *const many_faults = "wr nth=20 status=RETRY_EXC_ERR; "
                                "wr p=0.001 status=RETRY_EXC_ERR; "
                                "unacked p=0.001 more=3";

/* Paths, notify policy, completion order */
typedef std::tuple<const char*, const char*, const char*> variant;

class failover_test : public failover_fixture,
                      public ::testing::WithParamInterface<variant> {
protected:
    void start()
    {
        failover_fixture::start({{"NUM_PATHS", std::get<0>(GetParam())},
                                 {"NOTIFY", std::get<1>(GetParam())},
                                 {"COMP_ORDER", std::get<2>(GetParam())}});
    }
};

/* ---- puts and gets ---- */

TEST_P(failover_test, puts_are_all_at_the_peer)
{
    const size_t length  = 3000; /* not a multiple of anything */
    const unsigned count = 3000, slots = 300;

    start();
    source->fill(1);
    memset(target->data, 0, size);
    faults(many_faults);
    for (unsigned i = 0; i < count; ++i) {
        size_t at     = (i % slots) * length;
        uct_iov_t iov = source->iov(at, length);

        ASSERT_GE(ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(at),
                                    target->rkey(), NULL);
        }), UCS_OK);
    }
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(0, memcmp(source->data, target->data, slots * length));
    expect_survived();
}

TEST_P(failover_test, short_puts_keep_their_order_on_a_fence)
{
    start();
    faults(many_faults);
    for (uint64_t i = 1; i <= 800; ++i) {
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_put_short(*ab, &i, sizeof(i), target->addr(),
                                    target->rkey());
        }));
        ASSERT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
        if ((i % 100) == 0) {
            ASSERT_EQ(UCS_OK, ab->flush());
            ASSERT_EQ(i, *(volatile uint64_t*)target->data);
        }
    }
    expect_survived();
}

TEST_P(failover_test, gets_bring_what_is_there_and_complete_once)
{
    const size_t length  = 5000;
    const unsigned count = 1500, slots = 100;
    unsigned calls = 0;

    start();
    target->fill(2);
    memset(source->data, 0, size);
    faults(many_faults);
    for (unsigned i = 0; i < count; i += slots) {
        std::vector<std::unique_ptr<completion>> comps;

        for (unsigned j = 0; j < slots; ++j) {
            uct_iov_t iov = source->iov(j * length, length);

            comps.push_back(std::make_unique<completion>(1, [&] { ++calls; }));
            ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
                return uct_ep_get_zcopy(*ab, &iov, 1, target->addr(j * length),
                                        target->rkey(), &comps[j]->super);
            }));
        }
        ASSERT_TRUE(until([&] { return calls == i + slots; }));
        EXPECT_EQ(0, memcmp(source->data, target->data, slots * length));
        memset(source->data, 0, size);
        for (auto &comp : comps) {
            EXPECT_EQ(UCS_OK, comp->status);
        }
    }
    expect_survived();
    EXPECT_EQ(count, calls);
}

/* ---- atomics ---- */

TEST_P(failover_test, adds_are_executed_once)
{
    start();
    faults(many_faults);
    adds(3000);
    expect_survived();
}

/* The value that an atomic has fetched can be lost; the atomic itself can not */
TEST_P(failover_test, fetches_are_executed_once_and_a_lost_value_is_an_error)
{
    const unsigned count = 2000;
    std::vector<uint64_t> results(count, UINT64_MAX);
    std::vector<bool> seen(count);
    unsigned calls = 0, lost = 0;

    start();
    SKIP_WITHOUT_ATOMICS(*a);
    memset(target->data, 0, 8);
    faults(many_faults);
    {
        std::vector<std::unique_ptr<completion>> comps;

        for (unsigned i = 0; i < count; ++i) {
            comps.push_back(std::make_unique<completion>(1, [&] { ++calls; }));
            ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
                return uct_ep_atomic64_fetch(*ab, UCT_ATOMIC_OP_ADD, 1,
                                             &results[i], target->addr(),
                                             target->rkey(),
                                             &comps[i]->super);
            }));
        }
        ASSERT_TRUE(until([&] { return calls == count; }));
        for (unsigned i = 0; i < count; ++i) {
            if (comps[i]->status == UCS_ERR_IO_ERROR) {
                ++lost;
                continue;
            }
            ASSERT_EQ(UCS_OK, comps[i]->status);
            ASSERT_LT(results[i], count);
            EXPECT_FALSE(seen[results[i]]);
            seen[results[i]] = true;
        }
    }
    expect_added(count);
    EXPECT_LE(missing, lost);
    expect_survived();
    EXPECT_EQ(lost, stats_sum(stats.name, "undecided"));
}

/* ---- active messages ---- */

TEST_P(failover_test, messages_come_once_and_in_order)
{
    const unsigned count = 3000;
    unsigned next = 0, bad = 0;

    start();
    b->on_am(1, [&](const char *data, size_t length) {
        unsigned number;

        memcpy(&number, data, sizeof(number));
        bad += (number != next++) ||
               (length != sizeof(number) + ((number * 37) % 8000));
        for (size_t i = sizeof(number); i < length; i += 61) {
            bad += data[i] != pattern(number, i);
        }
        return UCS_OK;
    });
    faults(many_faults);
    for (unsigned i = 0; i < count; ++i) {
        std::string text(sizeof(i) + ((i * 37) % 8000), '\0');
        bytes payload = {text.data(), text.size()};

        for (size_t j = 0; j < text.size(); ++j) {
            text[j] = pattern(i, j);
        }
        memcpy(&text[0], &i, sizeof(i));
        ASSERT_EQ((ssize_t)text.size(), ab->retry([&] {
            return uct_ep_am_bcopy(*ab, 1, pack_bytes, &payload, 0);
        }));
    }
    EXPECT_TRUE(until([&] { return next == count; }));
    EXPECT_EQ(0u, bad);
    expect_survived();
    EXPECT_EQ(count, next);
}

/* What a message announces is there before it, whatever path has died */
TEST_P(failover_test, a_message_behind_a_fence_comes_after_its_puts)
{
    const unsigned count = 80;
    const size_t length  = 40000;
    unsigned next = 0, bad = 0;

    start();
    b->on_am(2, [&](const char *data, size_t) {
        unsigned number;

        memcpy(&number, data, sizeof(number));
        bad += number != next++;
        for (size_t i = 0; i < length; i += 499) {
            bad += target->data[i] != (char)(number + i);
        }
        return UCS_OK;
    });
    faults(many_faults);
    for (unsigned i = 0; i < count; ++i) {
        uct_iov_t iov = source->iov(0, length);

        /* the source, and the target, are free again */
        ASSERT_EQ(UCS_OK, ab->flush());
        ASSERT_TRUE(until([&] { return next == i; }));
        for (size_t j = 0; j < length; ++j) {
            source->data[j] = (char)(i + j);
        }
        ASSERT_GE(ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(),
                                    target->rkey(), NULL);
        }), UCS_OK);
        ASSERT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 2, 0, &i, 0);
        }));
        (void)iov;
    }
    EXPECT_EQ(UCS_OK, ab->flush());
    expect_survived();
}

/* ---- what the failure meets ---- */

TEST_P(failover_test, a_flush_that_spans_a_failure_waits_for_all_of_it)
{
    start();
    source->fill(3);
    for (unsigned i = 0; i < 12; ++i) {
        uct_iov_t iov = source->iov(0, size);
        completion comp;

        memset(target->data, 0, size);
        faults("wr nth=" + std::to_string(1 + (i % 12)) +
               " status=RETRY_EXC_ERR");
        ASSERT_GE(ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(),
                                    target->rkey(), NULL);
        }), UCS_OK);
        if (uct_ep_flush(*ab, 0, &comp.super) == UCS_INPROGRESS) {
            ASSERT_TRUE(until([&] { return comp.calls == 1; }));
            ASSERT_EQ(UCS_OK, comp.status);
        }
        ASSERT_EQ(0, memcmp(source->data, target->data, size));
    }
    expect_survived();
}

TEST_P(failover_test, an_endpoint_that_closes_while_a_path_is_down_loses_nothing)
{
    unsigned received = 0;

    start();
    b->on_am(3, [&](const char*, size_t) {
        ++received;
        return UCS_OK;
    });
    for (unsigned i = 0; i < 20; ++i) {
        endpoint ep(*a, *b);
        uint64_t value = i;

        EXPECT_EQ(UCS_OK, ep.flush());
        faults("wr nth=2 status=RETRY_EXC_ERR");
        for (unsigned j = 0; j < 10; ++j) {
            ASSERT_EQ(UCS_OK, ep.retry([&] {
                return uct_ep_am_short(ep, 3, j, &value, sizeof(value));
            }));
        }
    }
    EXPECT_TRUE(until([&] { return received == 200; })) << received;
    expect_survived();
    EXPECT_EQ(200u, received);
}

/* What the responder can not execute is no fault of the request, until it comes again */
TEST_P(failover_test, a_responder_that_fails_takes_down_a_path_only)
{
    start();
    for (const char *status : {"REM_OP_ERR", "REM_INV_REQ_ERR", "REM_ABORT_ERR"}) {
        faults(std::string("wr nth=3 status=") + status);
        messages(20);
    }
    expect_survived();
}

/* The queue pair of the other side works on, but is given up: it is destroyed */
TEST_P(failover_test, a_queue_pair_that_does_not_go_to_ERR_is_destroyed)
{
    start();
    for (unsigned nth : {1, 2}) { /* the sender's, and the receiver's */
        faults("call verb=modify_qp nth=" + std::to_string(nth) +
               " errno=EIO; wr nth=3");
        messages(20);
    }
    faults("");
    expect_survived();
    expect_violations("qp_left");
}

/* An access that the peer refuses is no fault of a path */
TEST_P(failover_test, a_bad_key_fails_the_endpoint)
{
    completion comp;
    uct_iov_t iov;

    start();
    iov = source->iov(0, 100);
    target->revoke();
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_put_zcopy(*ab, &iov, 1, target->addr(),
                                               target->rkey(), &comp.super));
    EXPECT_TRUE(until([&] { return (comp.calls == 1) && (ab->errors == 1); }));
    EXPECT_NE(UCS_OK, comp.status);
    expect_violations("remote_key");
}

std::string variant_name(const ::testing::TestParamInfo<variant> &info)
{
    return std::string("paths_") + std::get<0>(info.param) + "_" +
           std::get<1>(info.param) + "_" + std::get<2>(info.param);
}

INSTANTIATE_TEST_SUITE_P(all, failover_test, ::testing::Values(
        variant("1", "auto", "any"), variant("2", "dqplb", "post"),
        variant("4", "auto", "any"), variant("4", "tail", "post"),
        variant("3", "spray", "any"), variant("8", "tail", "any")),
        variant_name);

/* Receives that were used before ERR are polled behind it. What is posted in ERR does not
 * come back with Soft-RoCE (profile rxe) */
TEST_F(failover_fixture, receives_are_not_posted_again_in_error_state)
{
    unsigned got = 0, back = 0;

    start({{"NUM_PATHS", "1"}});
    connect_back();
    a->on_am(2, [&](const char*, size_t) {
        ++back;
        return UCS_OK;
    });
    EXPECT_EQ(UCS_OK, ba->retry([&] { return uct_ep_am_short(*ba, 2, 0, NULL, 0); }));
    EXPECT_TRUE(until([&] { return back == 1; }));
    use_all_slots();
    b->on_am(1, [&](const char*, size_t) {
        if (++got == 1) {
            faults("call verb=post_send nth=1 errno=ENOMEM");
            EXPECT_EQ(UCS_OK, uct_ep_am_short(*ba, 2, 0, NULL, 0));
        }
        return UCS_OK;
    });

    log_capture log;

    for (unsigned i = 0; i < 100; ++i) {
        ASSERT_EQ(UCS_OK, uct_ep_am_short(*ab, 1, i, NULL, 0));
    }
    EXPECT_TRUE(until([&] { return (got == 100) && (back == 2); }));
    faults("");
    expect_survived();
}

/* At UCX's default level, at each side: that there is one, and when it is over */
TEST_F(failover_fixture, an_outage_that_lasts_is_a_warning)
{
    completion comp;
    uct_iov_t iov;
    size_t after;

    (void)counts();
    log_capture log(UCS_LOG_LEVEL_WARN);

    start({{"NUM_PATHS", "1"}, {"TIMEOUT", "5ms"}, {"RETRY_COUNT", "1"},
           {"OUTAGE_TIMEOUT", "20s"}});
    iov = source->iov(0, 5000);
    faults("lose op=RDMA_WRITE count=all");
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_put_zcopy(*ab, &iov, 1, target->addr(),
                                               target->rkey(), &comp.super));
    run_for(0.1);
    EXPECT_EQ(0u, log_capture::count("no path to iface")) << log.text();
    /* Time that the machine takes away from this process does not count */
    EXPECT_TRUE(until([] { return log_capture::count("no path to iface") == 2; }))
            << log.text();
    faults("");
    EXPECT_TRUE(until([&] { return comp.calls == 1; }));
    EXPECT_EQ(UCS_OK, comp.super.status);
    run_for(0.1);
    EXPECT_EQ(2u, log_capture::count("no path to iface")) << log.text();
    ASSERT_EQ(2u, log_capture::count("the outage of iface")) << log.text();
    after = log.text().find("is over, after ");
    ASSERT_NE(std::string::npos, after);
    EXPECT_GE(std::stod(log.text().substr(after + 15)), 500.0) << log.text();
    expect_survived();
}

/* At UCX's default level, once, at the side that has noticed it */
TEST_F(failover_fixture, the_first_fault_is_a_warning)
{
    (void)counts(); /* captures a log, once */
    log_capture log(UCS_LOG_LEVEL_WARN);

    start({{"NUM_PATHS", "1"}});
    for (unsigned i = 0; i < 5; ++i) {
        faults("wr nth=3 status=RETRY_EXC_ERR");
        adds(100);
    }
    EXPECT_EQ(1u, log_capture::count(" is down: ")) << log.text();
    EXPECT_EQ(0u, log_capture::count("is up again")) << log.text();
    expect_survived();
}

/* On Soft-RoCE packets were executed up to 13 ms after modify to ERR had returned. Only the
 * flush of a receive says that it is over: what is counted before is sent twice */
TEST_F(failover_fixture, a_queue_pair_that_goes_on_executing_in_ERR_is_counted_late)
{
    const unsigned count = 60;

    start({{"NUM_PATHS", "1"}});
    if (!a->has_atomics() || !counts()) {
        GTEST_SKIP() << "needs atomics that are executed once";
    }

    connect_back();
    for (unsigned round = 0; round < 3; ++round) {
        unsigned before = settled;

        memset(target->data, 0, sizeof(uint64_t));
        faults("linger for=20ms count=all; wr nth=1 op=RDMA_WRITE_WITH_IMM; "
               "unacked op=ATOMIC_FETCH_AND_ADD more=all");
        ASSERT_EQ(UCS_OK, ba->retry([&] {
            return uct_ep_am_short(*ba, settle_id, 0, NULL, 0);
        }));
        /* It gives up the path, and the sender does not know it */
        for (double end = now() + 5e-3; now() < end; ) {
            (void)b->progress();
        }
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1, target->addr(),
                                            target->rkey());
            }));
        }
        ASSERT_EQ(UCS_OK, ab->flush());
        expect_added(count);
        EXPECT_TRUE(until([&] { return settled == before + 1; }));
        faults("");
    }
    expect_survived();
}

/* Likely they have one cause */
TEST_F(failover_fixture, the_first_fault_of_many_paths_is_one_warning)
{
    (void)counts(); /* captures a log, once */
    log_capture log(UCS_LOG_LEVEL_WARN);

    start({{"NUM_PATHS", "4"}});
    for (unsigned i = 0; i < 4; ++i) {
        faults("wr nth=" + std::to_string(3 + i) + " status=RETRY_EXC_ERR");
        adds(100);
    }
    EXPECT_EQ(1u, log_capture::count(" is down: ")) << log.text();
    expect_survived();
}

/* Of two paths only the first has had its warning */
TEST_F(failover_fixture, a_fault_that_was_not_told_leaves_the_next_one_a_warning)
{
    auto fails = [&](unsigned nth) {
        faults("wr nth=" + std::to_string(3 + (nth % 16)) + " status=RETRY_EXC_ERR");
        adds(100);
    };

    if (!has_virtual_clock()) {
        GTEST_SKIP() << "needs the virtual clock of the fabric";
    }

    (void)counts(); /* captures a log, once */
    start({{"NUM_PATHS", "2"}});
    {
        log_capture log(UCS_LOG_LEVEL_DIAG);
        auto downs = [&](const char *path) {
            return std::regex_search(log_capture::text(),
                                     std::regex(std::string("path ") + path +
                                                " .* is down: Endpoint timeout"));
        };

        for (unsigned i = 0; (i < 100) && !(downs("0") && downs("1")); ++i) {
            fails(i);
        }
        ASSERT_TRUE(downs("0") && downs("1")) << log.text();
    }

    run_for(10.1); /* a warning of this kind each ten seconds */
    log_capture log(UCS_LOG_LEVEL_WARN);
    for (unsigned i = 0; (i < 100) && (log_capture::count(" is down: ") == 0); ++i) {
        fails(i);
    }
    EXPECT_EQ(1u, log_capture::count(" is down: "));
    expect_survived();
}

/* Path messages pass, so that the path is rebuilt again and again, and no data does; or no
 * full packet does, as on a link with a smaller MTU */
class failover_outage : public failover_fixture,
                        public ::testing::WithParamInterface<const char*> {
};

TEST_P(failover_outage, a_path_that_takes_no_data_is_none)
{
    completion comp;
    uct_iov_t iov;

    for (const char *num_paths : {"1", "2"}) {
        log_capture log(UCS_LOG_LEVEL_WARN);
        start({{"NUM_PATHS", num_paths}, {"TIMEOUT", "5ms"}, {"RETRY_COUNT", "1"},
               {"OUTAGE_TIMEOUT", "400ms"}});
        comp = completion();
        iov  = source->iov(0, 5000);
        faults(GetParam());
        ASSERT_EQ(UCS_INPROGRESS,
                  uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(),
                                   &comp.super));
        EXPECT_TRUE(until([&] { return (comp.calls == 1) && (ab->errors == 1); }));
        EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, ab->error);
        EXPECT_TRUE(log_capture::has("no path to iface")) << log.text();
        EXPECT_FALSE(log_capture::has("the outage of iface")) << log.text();
        faults("");
        close();
        EXPECT_GT(stats_sum(stats.name, "path_downs"), 2u);
        EXPECT_EQ(0u, stats_sum(stats.name, "path_ups"));
    }
}

INSTANTIATE_TEST_SUITE_P(all, failover_outage, ::testing::Values(
        "lose op=RDMA_WRITE count=all", "dark over=1000 at=0s"));

/* It is rebuilt, and its probe fails, as long as the link is like that */
TEST_F(failover_fixture, a_path_comes_up_when_full_packets_pass)
{
    uct_iov_t iov;

    (void)counts();
    log_capture log(UCS_LOG_LEVEL_DEBUG);

    start({{"NUM_PATHS", "1"}, {"TIMEOUT", "5ms"}, {"RETRY_COUNT", "1"}});
    iov = source->iov(0, 5000);
    faults("dark over=1000 at=0s");
    ASSERT_GE(uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(), NULL), UCS_OK);
    EXPECT_TRUE(until([&] { return log_capture::count("PROBE -> QUIESCE") >= 3; }));
    EXPECT_EQ(0u, ups());
    faults("");
    EXPECT_TRUE(until([&] { return ups() == 2; }));
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(0, memcmp(source->data, target->data, 5000));
    expect_survived();
}

/* Whichever call fails when the queue pairs of either side are connected */
TEST_F(failover_fixture, a_path_that_can_not_be_connected_begins_down)
{
    const unsigned paths = 4, inits = 2 * paths, calls = 4 * paths;

    for (unsigned nth = inits + 1; nth <= inits + calls; ++nth) {
        log_capture log(UCS_LOG_LEVEL_DIAG);
        options config{{"FAILOVER", "y"}, {"NUM_PATHS", std::to_string(paths)},
                       {"STATS_FILE", stats.name}};

        a = std::make_unique<node>(0, config);
        b = std::make_unique<node>(0, config);
        faults("call verb=modify_qp nth=" + std::to_string(nth) + " errno=EIO");
        ab = std::make_unique<endpoint>(*a, *b);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        adds(100);
        EXPECT_EQ(0u, ab->errors);
        EXPECT_TRUE(until([&] { return ups() == 2; })) << nth;
        faults("");
        adds(100);
        close();
        EXPECT_EQ(0u, stats_sum(stats.name, "undecided"));
    }
}

/* One side alone has the option: paths are not rebuilt */
TEST_F(uct_test, without_failover_on_both_sides_an_endpoint_fails_with_a_path)
{
    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "faults are made by the software fabric";
    }

    char error[128];
    completion comp;

    a = std::make_unique<node>(0, options({{"FAILOVER", "y"}}));
    b = std::make_unique<node>(0, no_failover());
    ab = std::make_unique<endpoint>(*a, *b);
    EXPECT_EQ(UCS_OK, ab->flush());
    memory source(*a, 1000), target(*b, 1000);
    uct_iov_t iov = source.iov(0, 1000);

    ASSERT_EQ(0, vqp_fabric()->faults("wr nth=1 status=RETRY_EXC_ERR", error,
                                      sizeof(error)));
    EXPECT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_put_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                &comp.super);
    }));
    EXPECT_TRUE(until([&] { return (comp.calls == 1) && (ab->errors == 1); }));
    vqp_fabric()->faults(NULL, NULL, 0);
}

/* ---- a peer that computes ---- */

/* All paths fail, and one side does not call progress for several times the time after
 * which a peer counts as dead */
TEST_F(failover_fixture, a_peer_that_computes_for_long_is_not_taken_for_dead)
{
    const unsigned count = 100;

    failover_fixture::start({{"NUM_PATHS", "2"}, {"OUTAGE_TIMEOUT", "0.4s"}});
    *(uint64_t*)target->data = 0;
    for (unsigned round = 0; round < 2; ++round) {
        uint32_t qpns[8];
        int qps = vqp_fabric()->qps(a->name.c_str(), qpns, 8);

        for (unsigned i = 0; i < count; ++i) {
            if (i == count / 2) {
                for (int q = 0; q < qps; ++q) {
                    EXPECT_EQ(0, vqp_fabric()->qp_error(a->name.c_str(), qpns[q]));
                }
            }
            ASSERT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1,
                                            target->addr(), target->rkey());
            }));
        }
        for (double end = now() + 1.2; now() < end;) {
            a->progress();
        }
        ASSERT_EQ(0u, ab->errors);
    }
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(2 * count, *(uint64_t*)target->data);
    expect_survived();
}

/* ---- flows ---- */

class failover_flow : public failover_fixture {
protected:
    /* Labels in the log, one for each queue pair that was connected */
    static std::vector<std::string> labels()
    {
        static const char *const what = "has flow label ";
        std::string text = log_capture::text();
        std::vector<std::string> all;

        for (size_t at = text.find(what); at != std::string::npos;
             at = text.find(what, at)) {
            at += strlen(what);
            all.push_back(text.substr(at, text.find(',', at) - at));
        }
        return all;
    }

    /* Connect, and let a path fail and come back. @return all labels of both sides. */
    std::vector<std::string> rebuilt(const char *entropy)
    {
        log_capture log(UCS_LOG_LEVEL_DEBUG);
        uint32_t qpn = 0;

        start({{"NUM_PATHS", "2"}, {"PATH_ENTROPY", entropy}});
        EXPECT_EQ(4u, labels().size());
        EXPECT_GT(vqp_fabric()->qps(a->name.c_str(), &qpn, 1), 0);
        EXPECT_EQ(0, vqp_fabric()->qp_error(a->name.c_str(), qpn));
        EXPECT_TRUE(until([&] { return labels().size() == 6; }));
        settle();
        return labels();
    }
};

TEST_F(failover_flow, of_a_path_that_is_rebuilt_is_another_one)
{
    std::vector<std::string> all = rebuilt("on");

    std::sort(all.begin(), all.end());
    EXPECT_EQ(all.end(), std::unique(all.begin(), all.end()));
}

TEST_F(failover_flow, that_is_set_stays)
{
    for (const std::string &label : rebuilt("5,6")) {
        EXPECT_TRUE((label == "0x5") || (label == "0x6")) << label;
    }
}

} /* namespace */
