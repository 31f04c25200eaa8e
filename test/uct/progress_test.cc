/*
 * The return value of progress, destroyed endpoints in progress, and the
 * counters of known traffic.
 */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

class progress_test : public uct_test {
protected:
    void start(const options &config = {})
    {
        open(config);
        source = std::make_unique<memory>(*a, 4096);
        target = std::make_unique<memory>(*b, 4096);
        settle();
    }

    void TearDown() override
    {
        if (vqp_fabric() != NULL) {
            vqp_fabric()->faults(NULL, NULL, 0);
        }
        ab.reset();
        source.reset();
        target.reset();
        uct_test::TearDown();
    }

    ucs_status_t put(completion &comp)
    {
        uct_iov_t iov = source->iov(0, 1000);

        return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(),
                                &comp.super);
    }

    std::unique_ptr<memory> source, target;
};

/* A program that calls progress until it returns 0 must not stop between the parts of a
 * message that has arrived */
TEST_F(progress_test, counts_parts_of_messages)
{
    unsigned parts = 0, got = 0, count;
    completion comp;

    start({{"NUM_PATHS", "4"}, {"MIN_PATHS", "4"}, {"NOTIFY", "dqplb"}, {"MIN_FRAG", "1k"},
           {"POLL_MAX", "1"}});
    b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    uct_iov_t iov = source->iov(0, 4000);
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_am_zcopy(*ab, 1, NULL, 0, &iov, 1, 0, &comp.super);
    }));
    for (double end = now() + wait_limit(); (got == 0) && (now() < end);) {
        count  = b->progress();
        parts += count > 0;
        (void)a->progress();
    }
    EXPECT_EQ(1u, got);
    EXPECT_EQ(4u, parts);
    EXPECT_TRUE(until([&] { return comp.calls == 1; }));
}

/* UCP asks again at once after a call that returned something */
TEST_F(progress_test, counts_completions_and_messages)
{
    unsigned got = 0, count;

    start();
    b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    for (unsigned i = 0; i < 20; ++i) {
        completion comp, flushed;

        ASSERT_EQ(UCS_INPROGRESS, put(comp));
        for (double end = now() + wait_limit(); (comp.calls == 0) && (now() < end);) {
            count = a->progress();
            EXPECT_EQ(comp.calls > 0, count > 0);
            (void)b->progress();
        }
        ASSERT_EQ(1, comp.calls);

        ASSERT_EQ(UCS_OK, uct_ep_am_short(*ab, 1, i, NULL, 0));
        for (double end = now() + wait_limit(); (got == i) && (now() < end);) {
            count = b->progress();
            EXPECT_EQ(got > i, count > 0);
        }
        ASSERT_EQ(i + 1, got);

        ASSERT_EQ(UCS_OK, uct_ep_put_short(*ab, "x", 1, target->addr(),
                                           target->rkey()));
        ASSERT_EQ(UCS_INPROGRESS, uct_ep_flush(*ab, 0, &flushed.super));
        for (double end = now() + wait_limit(); (flushed.calls == 0) && (now() < end);) {
            count = a->progress();
            EXPECT_TRUE((flushed.calls == 0) || (count > 0));
            (void)b->progress();
        }
        ASSERT_EQ(1, flushed.calls);
    }
}

/* The memory is the user's again when the endpoint has been destroyed */
TEST_F(progress_test, nothing_is_written_for_an_endpoint_that_is_gone)
{
    static unsigned unpacked;
    uint64_t result = 7;
    completion fetch, get;

    start();
    unpacked = 0;
    SKIP_WITHOUT_ATOMICS(*a);
    memset(target->data, 0, 4096);
    ASSERT_EQ(UCS_INPROGRESS,
              uct_ep_atomic64_fetch(*ab, UCT_ATOMIC_OP_ADD, 1, &result,
                                    target->addr(), target->rkey(),
                                    &fetch.super));
    ASSERT_EQ(UCS_INPROGRESS,
              uct_ep_get_bcopy(*ab, [](void *, const void *, size_t) {
                  ++unpacked;
              }, NULL, 100, target->addr(), target->rkey(), &get.super));
    ab.reset();
    EXPECT_EQ(1, fetch.calls);
    EXPECT_EQ(UCS_ERR_CANCELED, fetch.status);
    EXPECT_EQ(1, get.calls);
    EXPECT_EQ(UCS_ERR_CANCELED, get.status);
    run_for(0.05);
    EXPECT_EQ(7u, result);
    EXPECT_EQ(0u, unpacked);
    EXPECT_EQ(1, fetch.calls);
    EXPECT_EQ(1, get.calls);
}

TEST_F(progress_test, counters_are_those_of_the_traffic)
{
    static constexpr unsigned count = 50;
    temp_file stats;
    unsigned got = 0;
    std::string text;

    start({{"NUM_PATHS", "1"}, {"STATS_FILE", stats.name}});
    b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    for (unsigned i = 0; i < count; ++i) {
        completion comp;

        ASSERT_EQ(UCS_INPROGRESS, put(comp));
        ASSERT_TRUE(until([&] { return comp.calls == 1; }));
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 1, i, NULL, 0);
        }));
    }
    ASSERT_TRUE(until([&] { return got == count; }));
    EXPECT_EQ(UCS_OK, ab->flush());
    ab.reset();
    source.reset();
    a->close();
    /* a message more to settle; both sides' lines are of this test */
    EXPECT_EQ(2 * count + 1, stats_sum(stats.name, "ops"));
    EXPECT_GE(stats_sum(stats.name, "tx_cqes"), count); /* one for each put */
    EXPECT_GE(stats_sum(stats.name, "bytes"), count * 1008u);
    EXPECT_EQ(0u, stats_sum(stats.name, "ams_rx"));
    target.reset();
    b->close();
    EXPECT_EQ(2 * count + 1, stats_sum(stats.name, "ops"));
    EXPECT_EQ(count + 1, stats_sum(stats.name, "ams_rx"));
    EXPECT_GE(stats_sum(stats.name, "rx_cqes"), count + 1);
    EXPECT_EQ(0u, stats_sum(stats.name, "stale"));
    EXPECT_EQ(0u, stats_sum(stats.name, "duplicates"));
}

/* A poll that fails now and then is no reason to give anybody up */
TEST_F(progress_test, polls_may_fail_but_for_many_in_a_row)
{
    unsigned got = 0;

    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "failures are made by the software fabric";
    }

    start();
    b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    {
        log_capture log;

        ASSERT_EQ(0, vqp_fabric()->faults("call verb=poll_cq every=7 errno=EIO",
                                          NULL, 0));
        for (unsigned i = 0; i < 300; ++i) {
            completion comp;

            ASSERT_EQ(UCS_INPROGRESS, put(comp)) << i;
            ASSERT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_am_short(*ab, 1, i, NULL, 0);
            })) << i;
            ASSERT_TRUE(until([&] { return comp.calls && (got > i); })) << i;
            ASSERT_EQ(UCS_OK, comp.status);
        }
        EXPECT_GT(vqp_fabric()->fault_hits(), 50u);
        vqp_fabric()->faults(NULL, NULL, 0);
    }
    EXPECT_EQ(0u, ab->errors);
}
