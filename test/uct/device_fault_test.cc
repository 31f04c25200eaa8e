/*
 * What a device does that no code asks for, made by the software fabric: a chain
 * of work requests that is refused half way, completions of another queue pair
 * of a path, requests that were executed and not acknowledged.
 */
#include "uct_fixture.h"

extern "C" {
#include "verbs/wrid.h"
}

#include "test/fabric/fabric.h"

#include <stdlib.h>
#include <tuple>

class device_fault : public uct_test {
protected:
    void start(const options &config)
    {
        options all = config;

        all["STATS_FILE"] = stats.name;
        open(all);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        other  = std::make_unique<endpoint>(*a, *b);
        EXPECT_EQ(UCS_OK, other->flush());
        settle();
    }

    void TearDown() override
    {
        if (vqp_fabric() != NULL) {
            vqp_fabric()->faults(NULL, NULL, 0);
        }
        ab.reset();
        other.reset();
        source.reset();
        target.reset();
        uct_test::TearDown();
    }

    void put(endpoint &ep, size_t length, completion *comp)
    {
        uct_iov_t iov = source->iov(0, length);

        EXPECT_EQ(UCS_INPROGRESS, ep.retry([&] {
            return uct_ep_put_zcopy(ep, &iov, 1, target->addr(),
                                    target->rkey(), comp ? &comp->super : NULL);
        }));
    }

    /* What is posted is executed at once */
    static bool is_immediate()
    {
        const char *mode = getenv("VQP_FABRIC_MODE");

        return (mode == NULL) || (strcmp(mode, "immediate") == 0);
    }

    /* The endpoint of this test has failed once, the other one has not */
    void expect_failed_alone()
    {
        completion comp;

        EXPECT_TRUE(until([&] { return ab->errors > 0; }));
        run_for(0.01);
        EXPECT_EQ(1u, ab->errors);
        EXPECT_EQ(0u, other->errors);
        faults("");
        put(*other, 10000, &comp);
        EXPECT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_EQ(UCS_OK, comp.status);
    }

    /* Counters that both interfaces wrote when they closed */
    uint64_t counted(const std::string &name)
    {
        ab.reset();
        other.reset();
        source.reset();
        target.reset();
        b.reset();
        a.reset();
        return stats_sum(stats.name, name);
    }

    static constexpr size_t size = 1 << 20;
    temp_file stats;
    std::unique_ptr<memory> source, target;
    std::unique_ptr<endpoint> other; /* of the same interface */
};

#define NEED_FABRIC() \
    if (vqp_fabric() == NULL) { \
        GTEST_SKIP() << "faults are made by the software fabric"; \
    }

/* ---- a chain is refused half way, and the endpoint fails with its path ---- */

class chain_fault : public device_fault,
                    public ::testing::WithParamInterface<
                            std::tuple<unsigned, unsigned>> {
protected:
    /* The n-th chain of more than k is refused behind k */
    void arm()
    {
        unsigned k = std::get<0>(GetParam()), nth = std::get<1>(GetParam());

        faults("chain after=" + std::to_string(k) +
               " nth=" + std::to_string(nth));
    }
};

/* Behind a fence they wait for what is on several paths, and go out at once */
TEST_P(chain_fault, atomics_complete_once_and_are_executed_once)
{
    static constexpr unsigned count = 24;
    std::vector<std::unique_ptr<completion>> comps;
    uint64_t results[count];
    unsigned executed = 0;
    char depth[16]    = "";

    NEED_FABRIC();
    start(no_failover({{"NUM_PATHS", "2"}}));
    SKIP_WITHOUT_ATOMICS(*a);
    ASSERT_EQ(0, vqp_fabric()->option("MAX_RD_ATOMIC", depth, sizeof(depth)));
    if (std::string(depth) == "1") {
        GTEST_SKIP() << "one atomic at a time makes no chain";
    }
    put(*ab, 200000, NULL);
    EXPECT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
    memset(target->data + 300000, 0, count * 8);
    for (unsigned i = 0; i < count; ++i) {
        comps.push_back(std::make_unique<completion>());
        ASSERT_EQ(UCS_INPROGRESS, uct_ep_atomic64_fetch(
                *ab, UCT_ATOMIC_OP_ADD, 1, &results[i],
                target->addr(300000 + 8 * i), target->rkey(),
                &comps.back()->super));
    }
    arm();
    expect_failed_alone();
    ASSERT_TRUE(until([&] {
        bool all = true;

        for (auto &comp : comps) {
            all = all && (comp->calls > 0);
        }
        return all;
    }));
    run_for(0.01);
    for (unsigned i = 0; i < count; ++i) {
        uint64_t cell = ((uint64_t*)(target->data + 300000))[i];

        EXPECT_EQ(1, comps[i]->calls) << i;
        if (comps[i]->status == UCS_OK) {
            EXPECT_EQ(1u, cell) << i;
        } else if (is_immediate()) { /* else it may be under way */
            EXPECT_EQ(0u, cell) << i;
        } else {
            EXPECT_LE(cell, 1u) << i;
        }
        executed += cell;
    }
    /* the fault was in the middle: some were not executed, and some were */
    EXPECT_LT(executed, count);
    if (is_immediate()) {
        EXPECT_GE(executed, std::get<0>(GetParam()));
    }
}

TEST_P(chain_fault, messages_arrive_up_to_one_of_them_in_order)
{
    unsigned got = 0, sent = 0;
    std::string bad;

    NEED_FABRIC();
    start(no_failover({{"NUM_PATHS", "2"}, {"TX_QUEUE_LEN", "16"}}));
    use_all_slots();
    b->on_am(1, [&](const char *data, size_t length) {
        uint64_t value;

        memcpy(&value, data, 8);
        bad += ((value == got) && (length == 8)) ? "" :
               (std::to_string(value) + " ");
        ++got;
        return UCS_OK;
    });
    while (uct_ep_am_short(*ab, 1, sent, NULL, 0) == UCS_OK) {
        ++sent;
    }
    ASSERT_GT(sent, 32u); /* more than the queues take: they wait */
    arm();
    expect_failed_alone();
    run_for(0.01);
    EXPECT_EQ("", bad);
    EXPECT_LT(got, sent);
}

TEST_P(chain_fault, a_large_put_completes_once_with_an_error)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);
    uct_iov_t iov[2];
    completion comp, behind;

    NEED_FABRIC();
    start(no_failover({{"NUM_PATHS", "2"}, {"FRAG_SIZE", "4k"},
                       {"MIN_FRAG", "4k"}}));
    source->fill(1);
    target->fill(2);
    iov[0] = source->iov(0, 100000);
    iov[1] = source->iov(100000, 200000);
    arm();
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_put_zcopy(*ab, iov, 2, target->addr(),
                                               target->rkey(), &comp.super));
    ucs_status_t status = uct_ep_put_zcopy(*ab, iov, 2, target->addr(500000),
                                           target->rkey(), &behind.super);
    expect_failed_alone();
    EXPECT_TRUE(until([&] { return comp.calls > 0; }));
    run_for(0.01);
    EXPECT_EQ(1, comp.calls);
    EXPECT_EQ(UCS_ERR_IO_ERROR, comp.status);
    EXPECT_NE(std::string::npos, log.errors().find("ibv_post_send on ")) << log.text();
    EXPECT_EQ((status == UCS_INPROGRESS) ? 1 : 0, behind.calls);
    /* of each byte either the old or the new one is there, and none behind */
    for (size_t i = 10000; i < 300000; ++i) {
        ASSERT_TRUE((target->data[i] == pattern(1, i)) ||
                    (target->data[i] == pattern(2, i))) << i;
    }
    for (size_t i = 300000; i < 500000; ++i) {
        ASSERT_EQ(pattern(2, i), target->data[i]) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(
        vqp, chain_fault,
        ::testing::Combine(::testing::Values(0u, 1u, 5u),
                           ::testing::Values(1u, 2u)),
        [](const ::testing::TestParamInfo<std::tuple<unsigned, unsigned>> &i) {
            return "behind_" + std::to_string(std::get<0>(i.param)) +
                   "_of_chain_" + std::to_string(std::get<1>(i.param));
        });

/* ---- completions of another queue pair ---- */

class stale_completion : public device_fault {
protected:
    /* Puts, gets and messages both ways, while completions come a second time
     * with these bits changed and this status. Everything works, and they are
     * counted. */
    void run(const std::string &dir, uint64_t bits, const std::string &as)
    {
        unsigned got = 0, returned = 0;
        uint64_t hits;

        start({{"NUM_PATHS", "2"}});
        connect_back();
        EXPECT_EQ(UCS_OK, ba->flush());
        b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
        a->on_am(1, [&](const char *, size_t) { ++returned; return UCS_OK; });
        faults("duplicate count=all dir=" + dir + " as=" + as +
               " xor=" + std::to_string(bits));
        for (unsigned i = 0; i < 200; ++i) {
            completion comp;

            put(*ab, (i % 10) * 10000 + 1, &comp);
            EXPECT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_am_short(*ab, 1, i, NULL, 0);
            }));
            EXPECT_EQ(UCS_OK, ba->retry([&] {
                return uct_ep_am_short(*ba, 1, i, NULL, 0);
            }));
            ASSERT_TRUE(until([&] {
                return (comp.calls > 0) && (got > i) && (returned > i);
            })) << i;
            EXPECT_EQ(1, comp.calls);
            EXPECT_EQ(UCS_OK, comp.status);
        }
        EXPECT_EQ(UCS_OK, ab->flush());
        EXPECT_EQ(UCS_OK, ba->flush());
        run_for(0.01);
        EXPECT_EQ(200u, got);
        EXPECT_EQ(200u, returned);
        EXPECT_EQ(0u, a->errors + b->errors);
        hits = vqp_fabric()->fault_hits();
        faults("");
        EXPECT_GT(hits, 200u);
        ba.reset();
        EXPECT_EQ(hits, counted("stale"));
    }
};

TEST_F(stale_completion, a_flushed_send_fails_nothing)
{
    NEED_FABRIC();
    run("send", vqp_ib_wrid(0, 0, 1), "WR_FLUSH_ERR");
}

TEST_F(stale_completion, a_send_that_timed_out_fails_nothing)
{
    NEED_FABRIC();
    run("send", vqp_ib_wrid(0, 0, 0x8000), "RETRY_EXC_ERR");
}

TEST_F(stale_completion, a_flushed_receive_fails_nothing)
{
    NEED_FABRIC();
    run("recv", vqp_ib_wrid(0, 0, 1), "WR_FLUSH_ERR");
}

TEST_F(stale_completion, a_receive_is_not_counted_twice)
{
    NEED_FABRIC();
    run("recv", vqp_ib_wrid(0, 0, 0x100), "SUCCESS");
}

TEST_F(stale_completion, of_a_path_that_is_not_there)
{
    NEED_FABRIC();
    run("send", vqp_ib_wrid(0, 63, 0), "SUCCESS");
}

TEST_F(stale_completion, of_a_vqp_that_is_not_there)
{
    NEED_FABRIC();
    run("send", vqp_ib_wrid(1 << 20, 0, 0), "WR_FLUSH_ERR");
}

TEST_F(stale_completion, a_receive_of_a_vqp_that_is_not_there)
{
    NEED_FABRIC();
    run("recv", vqp_ib_wrid(1 << 20, 0, 0), "SUCCESS");
}

/* Two puts. The completion of the second one is lost. In every second round, a
 * completion of another queue pair reports its slot as complete */
TEST_F(stale_completion, confirms_nothing)
{
    NEED_FABRIC();
    start({{"NUM_PATHS", "1"}});
    for (unsigned round = 0; round < 8; ++round) {
        completion first, second, third;

        faults("withhold dir=send nth=2; duplicate dir=send nth=1 xor=" +
               std::to_string(vqp_ib_wrid(0, 0, 1) | 1));
        put(*ab, 8, &first);
        put(*ab, 8, &second);
        ASSERT_TRUE(until([&] { return first.calls == 1; }));
        run_for(0.01);
        EXPECT_EQ(2u, vqp_fabric()->fault_hits());
        EXPECT_EQ(0, second.calls) << round;
        faults("");
        put(*ab, 8, &third);
        EXPECT_TRUE(until([&] { return third.calls == 1; }));
        EXPECT_EQ(1, second.calls) << round;
    }
    EXPECT_EQ(8u, counted("stale"));
}
