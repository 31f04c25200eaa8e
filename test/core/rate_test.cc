/* How fast a path is: what counts as a measurement and what does not. */
#include <gtest/gtest.h>

extern "C" {
#include "core/data/rate.h"
}

namespace {

constexpr uint64_t NOW  = 5000000000;
constexpr uint64_t UNIT = 1ul << VQP_RATE_UNIT_SHIFT;

class rate : public ::testing::Test {
protected:
    /* The poll before was @a gap ns ago */
    void confirmed(uint64_t bytes, uint64_t left, uint64_t seen, uint64_t now, uint64_t gap = 0)
    {
        vqp_rate_confirmed(&m_rate, bytes, left, seen, now - gap, now);
    }

    vqp_rate_t m_rate {};
};

TEST_F(rate, is_not_known_at_first) {
    EXPECT_EQ(0u, vqp_rate_cost(&m_rate, NOW));
}

TEST_F(rate, a_busy_interval_is_a_measurement) {
    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT, 1, 0, NOW + 3000);
    EXPECT_EQ(3000u, vqp_rate_cost(&m_rate, NOW + 3000));
    confirmed(2 * UNIT, 1, 0, NOW + 3000 + 14000);
    EXPECT_EQ((3u * 3000 + 7000) / 4, vqp_rate_cost(&m_rate, NOW + 17000));
}

TEST_F(rate, small_confirmations_add_up) {
    vqp_rate_begin(&m_rate, NOW);
    for (unsigned i = 1; i <= 16; ++i) {
        EXPECT_EQ(0u, vqp_rate_cost(&m_rate, NOW));
        confirmed(UNIT / 16, 1, 0, NOW + i * 100);
    }
    EXPECT_EQ(1600u, vqp_rate_cost(&m_rate, NOW + 1600));
}

TEST_F(rate, an_interval_that_ended_idle_can_only_be_an_upper_bound) {
    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT, 0, 0, NOW + 3000);
    EXPECT_EQ(0u, vqp_rate_cost(&m_rate, NOW + 3000));

    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT, 1, 0, NOW + 4000);
    vqp_rate_begin(&m_rate, NOW + 10000);
    confirmed(UNIT, 0, 0, NOW + 90000); /* polled late */
    EXPECT_EQ(4000u, vqp_rate_cost(&m_rate, NOW + 90000));
    vqp_rate_begin(&m_rate, NOW + 100000);
    confirmed(UNIT, 0, 0, NOW + 102000);
    EXPECT_EQ(3500u, vqp_rate_cost(&m_rate, NOW + 102000));
}

/* The first poll found it incomplete, and a later one complete */
TEST_F(rate, an_idle_interval_lasts_until_the_last_empty_poll) {
    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT, 0, NOW + 3000, NOW + 90000);
    EXPECT_EQ(3000u, vqp_rate_cost(&m_rate, NOW + 90000));

    /* it includes the latency: it does not replace a better measurement */
    vqp_rate_begin(&m_rate, NOW + 200000);
    confirmed(UNIT, 0, NOW + 207000, NOW + 290000);
    EXPECT_EQ(3000u, vqp_rate_cost(&m_rate, NOW + 290000));
}

TEST_F(rate, an_empty_poll_before_the_interval_does_not_count) {
    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT, 0, NOW, NOW + 90000);
    EXPECT_EQ(0u, vqp_rate_cost(&m_rate, NOW + 90000));
    vqp_rate_begin(&m_rate, NOW + 100000);
    confirmed(UNIT, 0, NOW + 90000, NOW + 190000);
    EXPECT_EQ(0u, vqp_rate_cost(&m_rate, NOW + 190000));
}

/* Several confirmations at once, after a long time: the first poll finds a part of them and
 * the path still busy, the next one the rest in no time. Neither says how fast the path is */
TEST_F(rate, what_came_while_nobody_looked_is_no_measurement) {
    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT, UNIT, 0, NOW + 4000, 4000);
    confirmed(UNIT, UNIT, 0, NOW + 4100, 100);
    EXPECT_EQ(0u, vqp_rate_cost(&m_rate, NOW + 4100));
}

TEST_F(rate, an_interval_goes_on_until_it_is_four_gaps_long) {
    vqp_rate_begin(&m_rate, NOW);
    for (unsigned i = 1; i < VQP_RATE_GAPS; ++i) {
        confirmed(UNIT, UNIT, 0, NOW + i * 4000, 4000);
        EXPECT_EQ(0u, vqp_rate_cost(&m_rate, NOW + i * 4000));
    }
    confirmed(UNIT, UNIT, 0, NOW + 16000, 4000);
    EXPECT_EQ(4000u, vqp_rate_cost(&m_rate, NOW + 16000));
}

/* The end of an interval is the begin of the next one, and no more exact there */
TEST_F(rate, the_gap_before_an_interval_counts) {
    vqp_rate_begin(&m_rate, NOW);
    confirmed(4 * UNIT, UNIT, 0, NOW + 16000, 4000);
    ASSERT_EQ(4000u, vqp_rate_cost(&m_rate, NOW + 16000));
    confirmed(UNIT, UNIT, 0, NOW + 16100, 10);
    EXPECT_EQ(4000u, vqp_rate_cost(&m_rate, NOW + 16100));
    confirmed(3 * UNIT, UNIT, 0, NOW + 32000, 10);
    EXPECT_EQ(4000u, vqp_rate_cost(&m_rate, NOW + 32000));
}

/* After a pause of a second the path is not unknown for four */
TEST_F(rate, a_long_pause_is_forgotten_soon) {
    uint64_t end = NOW + 1000000000;

    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT, UNIT, 0, end, 1000000000);
    for (uint64_t last = end + 2 * VQP_RATE_LONG; end < last;) {
        EXPECT_EQ(0u, vqp_rate_cost(&m_rate, end));
        end += 10000;
        confirmed(2 * UNIT, UNIT, 0, end, 10);
        if (vqp_rate_cost(&m_rate, end) != 0) {
            break;
        }
    }
    EXPECT_EQ(5000u, vqp_rate_cost(&m_rate, end));
    EXPECT_LE(end, NOW + 1000000000 + VQP_RATE_LONG + 10000);
}

/* A poll that was long before the path got its first frag */
TEST_F(rate, a_gap_before_the_first_frag_does_not_count) {
    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT / 2, UNIT, 0, NOW + 1000, 1000000);
    confirmed(UNIT / 2, UNIT, 0, NOW + 4000, 10);
    EXPECT_EQ(4000u, vqp_rate_cost(&m_rate, NOW + 4000));
}

TEST_F(rate, is_forgotten) {
    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT, 1, 0, NOW + 3000);
    EXPECT_EQ(3000u, vqp_rate_cost(&m_rate, NOW + VQP_RATE_FORGET));
    EXPECT_EQ(0u, vqp_rate_cost(&m_rate, NOW + 3000 + VQP_RATE_FORGET));
}

TEST_F(rate, bounds) {
    vqp_rate_begin(&m_rate, NOW);
    confirmed(1ul << 40, 1, 0, NOW); /* no time at all */
    EXPECT_EQ(1u, vqp_rate_cost(&m_rate, NOW));
    m_rate.cost = 0;
    vqp_rate_begin(&m_rate, NOW);
    confirmed(UNIT, 1, 0, NOW + (1ul << 40));
    EXPECT_EQ(UINT32_MAX, vqp_rate_cost(&m_rate, NOW + (1ul << 40)));
    EXPECT_EQ(10ul * UINT32_MAX, vqp_rate_finish(UINT32_MAX, 10 * UNIT));
}

} /* namespace */
