/* Samples of the latency of paths: which work request, when it is complete, and the
 * buckets. */
#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include "core/telemetry/latency.h"
}

namespace {

class latency : public ::testing::Test {
protected:
    latency()
    {
        for (unsigned i = 0; i < 4; ++i) {
            paths[i].index    = (uint8_t)i;
            paths[i].fo.state = VQP_PATH_UP;
            paths[i].qp_tag   = 7;
        }
        tx.paths.count = 1;
    }

    /* A work request that was posted on a path */
    void add(unsigned path, bool is_signaled)
    {
        vqp_frag_t *frag = &batch.frags[batch.count++];

        frag->path  = &paths[path];
        frag->slot  = paths[path].tail++;
        frag->flags = is_signaled ? VQP_FRAG_SIGNALED : 0;
    }

    bool begin(uint64_t now = 1)
    {
        return vqp_sampler_begin(&sampler, &tx, &batch, now);
    }

    unsigned calls_until_chosen()
    {
        unsigned calls = 0;

        do {
            ++calls;
            vqp_sampler_choose(&sampler, &tx);
        } while (!(tx.slow & VQP_TX_SAMPLE));

        return calls;
    }

    vqp_path_t paths[4]   = {};
    vqp_batch_t batch     = {};
    vqp_sampler_t sampler = {};
    vqp_tx_t tx           = {};
};

TEST_F(latency, the_first_call_chooses_and_then_one_of_151)
{
    add(0, true);
    EXPECT_EQ(1u, calls_until_chosen());
    EXPECT_TRUE(begin());
    EXPECT_EQ(0u, tx.slow);
    EXPECT_EQ(151u, calls_until_chosen());
}

TEST_F(latency, a_batch_that_can_not_be_sampled_leaves_that_to_the_next_one)
{
    add(0, false);
    EXPECT_EQ(1u, calls_until_chosen());
    EXPECT_FALSE(begin());
    EXPECT_EQ((uint32_t)VQP_TX_SAMPLE, tx.slow);
    add(0, true);
    EXPECT_TRUE(begin());
    EXPECT_EQ(0u, tx.slow);
}

TEST_F(latency, ends_when_the_request_itself_is_confirmed)
{
    tx.paths.count = 2;
    add(1, false);
    add(1, true);
    add(1, false);
    ASSERT_TRUE(begin());
    EXPECT_EQ(0, vqp_sampler_look(&sampler));
    paths[1].head = 1;
    EXPECT_EQ(0, vqp_sampler_look(&sampler));
    EXPECT_NE(nullptr, sampler.path);
    paths[1].head = 2;
    EXPECT_EQ(1, vqp_sampler_look(&sampler));
    EXPECT_EQ(nullptr, sampler.path);
}

TEST_F(latency, slots_may_wrap_around)
{
    paths[0].head = paths[0].tail = 0xffff;
    add(0, true);
    ASSERT_TRUE(begin());
    EXPECT_EQ(0, vqp_sampler_look(&sampler));
    paths[0].head = 0;
    EXPECT_EQ(1, vqp_sampler_look(&sampler));
}

/* Two senders were chosen before either had an op */
TEST_F(latency, one_request_is_sampled_at_a_time)
{
    add(0, true);
    ASSERT_TRUE(begin());
    tx.slow = VQP_TX_SAMPLE;
    EXPECT_FALSE(begin(2));
    EXPECT_EQ(0u, tx.slow);
    EXPECT_EQ(1u, sampler.since);
}

/* What it still posts may have no completion: then nothing would be sampled any more */
TEST_F(latency, a_sender_that_has_failed_is_not_sampled)
{
    add(0, true);
    tx.failed = 1;
    vqp_sampler_choose(&sampler, &tx);
    EXPECT_EQ(0u, tx.slow);
    tx.slow = VQP_TX_SAMPLE; /* chosen before it failed */
    EXPECT_FALSE(begin());
    EXPECT_EQ(0u, tx.slow);
    EXPECT_EQ(nullptr, sampler.path);
}

TEST_F(latency, paths_of_a_batch_take_turns)
{
    std::vector<unsigned> turns;

    tx.paths.count = 4;
    for (unsigned path : {2u, 0u, 3u, 1u, 2u, 3u}) {
        add(path, true);
    }
    for (unsigned i = 1; i < 7; ++i) {
        ASSERT_TRUE(begin(i));
        turns.push_back(sampler.path->index);
        for (auto &path : paths) {
            path.head = path.tail;
        }
        EXPECT_EQ(1, vqp_sampler_look(&sampler));
    }
    EXPECT_EQ((std::vector<unsigned>{1, 2, 3, 0, 1, 2}), turns);
}

/* Ops of one frag: the path that is next has its turn when an op takes it */
TEST_F(latency, batches_pass_until_one_has_the_next_path)
{
    std::vector<unsigned> turns;

    tx.paths.count = 4;
    for (unsigned i = 0; turns.size() < 6; ++i) {
        tx.slow     = VQP_TX_SAMPLE;
        batch.count = 0;
        add(3 * i % 4, true);
        if (begin(i)) {
            turns.push_back(sampler.path->index);
            EXPECT_EQ(0u, tx.slow);
            sampler.path->head = sampler.path->tail;
            EXPECT_EQ(1, vqp_sampler_look(&sampler));
        } else {
            EXPECT_EQ((uint32_t)VQP_TX_SAMPLE, tx.slow);
        }
    }
    EXPECT_EQ((std::vector<unsigned>{1, 2, 3, 0, 1, 2}), turns);
}

TEST_F(latency, a_path_that_is_down_has_no_turn)
{
    unsigned passed = 0;

    tx.paths.count = 4;
    add(3, true);
    while (!begin()) {
        ++passed;
    }
    EXPECT_EQ((unsigned)VQP_LATENCY_TRIES, passed);
    EXPECT_EQ(&paths[3], sampler.path);
}

TEST_F(latency, the_only_path_is_sampled_each_time)
{
    add(0, true);
    for (unsigned i = 1; i < 3; ++i) {
        ASSERT_TRUE(begin(i));
        paths[0].head = 1;
        EXPECT_EQ(1, vqp_sampler_look(&sampler));
    }
}

TEST_F(latency, of_a_queue_pair_that_failed_there_is_no_sample)
{
    add(0, true);
    ASSERT_TRUE(begin());
    paths[0].head     = 1; /* trimmed: the peer has counted it */
    paths[0].fo.state = VQP_PATH_QUIESCE;
    EXPECT_EQ(0, vqp_sampler_look(&sampler));
    EXPECT_EQ(nullptr, sampler.path);

    paths[0].head     = 0;
    paths[0].fo.state = VQP_PATH_UP;
    ASSERT_TRUE(begin());
    paths[0].head   = 1;
    paths[0].qp_tag = 8; /* rebuilt since the last look */
    EXPECT_EQ(0, vqp_sampler_look(&sampler));
    EXPECT_EQ(nullptr, sampler.path);
}

TEST_F(latency, a_silent_path_does_not_hold_up_others)
{
    add(0, true);
    ASSERT_TRUE(begin());
    paths[0].fo.state = VQP_PATH_SILENT;
    EXPECT_EQ(0, vqp_sampler_look(&sampler));
    EXPECT_EQ(nullptr, sampler.path);
}

TEST_F(latency, buckets_are_powers_of_two)
{
    static const struct {
        uint64_t ns;
        unsigned bucket;
    } cases[] = {{0, 0},        {1, 0},         {1000, 0},         {1001, 1},
                 {2000, 1},     {2001, 2},      {4000, 2},         {1024000, 10},
                 {1024001, 11}, {16384000, 14}, {16384001, 15},    {UINT64_MAX / 2, 15}};

    for (const auto &item : cases) {
        vqp_latency_t result = {};

        vqp_latency_add(&result, item.ns);
        for (unsigned i = 0; i < VQP_LATENCY_BUCKETS; ++i) {
            EXPECT_EQ((i == item.bucket) ? 1u : 0u, result.buckets[i])
                    << item.ns << " ns, bucket " << i;
        }
        EXPECT_EQ((item.ns + 500) / 1000, result.sum);
    }
}

} // namespace
