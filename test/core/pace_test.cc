/* How fast a path is: what counts as a measurement and what does not. */
#include <gtest/gtest.h>

extern "C" {
#include "core/pace.h"
}

namespace {

constexpr uint64_t NOW  = 5000000000;
constexpr uint64_t UNIT = 1ul << VQP_PACE_UNIT_SHIFT;

class pace : public ::testing::Test {
protected:
    vqp_pace_t m_pace {};
};

TEST_F(pace, is_not_known_at_first) {
    EXPECT_EQ(0u, vqp_pace_cost(&m_pace, NOW));
}

TEST_F(pace, a_busy_interval_tells) {
    vqp_pace_begin(&m_pace, NOW);
    vqp_pace_confirmed(&m_pace, UNIT, 1, 0, NOW + 3000);
    EXPECT_EQ(3000u, vqp_pace_cost(&m_pace, NOW + 3000));
    vqp_pace_confirmed(&m_pace, 2 * UNIT, 1, 0, NOW + 3000 + 14000);
    EXPECT_EQ((3u * 3000 + 7000) / 4, vqp_pace_cost(&m_pace, NOW + 17000));
}

TEST_F(pace, small_confirmations_add_up) {
    vqp_pace_begin(&m_pace, NOW);
    for (unsigned i = 1; i <= 16; ++i) {
        EXPECT_EQ(0u, vqp_pace_cost(&m_pace, NOW));
        vqp_pace_confirmed(&m_pace, UNIT / 16, 1, 0, NOW + i * 100);
    }
    EXPECT_EQ(1600u, vqp_pace_cost(&m_pace, NOW + 1600));
}

TEST_F(pace, an_interval_that_ended_idle_can_only_be_an_upper_bound) {
    vqp_pace_begin(&m_pace, NOW);
    vqp_pace_confirmed(&m_pace, UNIT, 0, 0, NOW + 3000);
    EXPECT_EQ(0u, vqp_pace_cost(&m_pace, NOW + 3000));

    vqp_pace_begin(&m_pace, NOW);
    vqp_pace_confirmed(&m_pace, UNIT, 1, 0, NOW + 4000);
    vqp_pace_begin(&m_pace, NOW + 10000);
    vqp_pace_confirmed(&m_pace, UNIT, 0, 0, NOW + 90000); /* polled late */
    EXPECT_EQ(4000u, vqp_pace_cost(&m_pace, NOW + 90000));
    vqp_pace_begin(&m_pace, NOW + 100000);
    vqp_pace_confirmed(&m_pace, UNIT, 0, 0, NOW + 102000);
    EXPECT_EQ(3500u, vqp_pace_cost(&m_pace, NOW + 102000));
}

/* It was not through when somebody looked, and was when he looked again */
TEST_F(pace, an_idle_interval_took_as_long_as_somebody_looked_in_vain) {
    vqp_pace_begin(&m_pace, NOW);
    vqp_pace_confirmed(&m_pace, UNIT, 0, NOW + 3000, NOW + 90000);
    EXPECT_EQ(3000u, vqp_pace_cost(&m_pace, NOW + 90000));

    /* the latency is in it: it does not outweigh what is known better */
    vqp_pace_begin(&m_pace, NOW + 200000);
    vqp_pace_confirmed(&m_pace, UNIT, 0, NOW + 207000, NOW + 290000);
    EXPECT_EQ(3000u, vqp_pace_cost(&m_pace, NOW + 290000));
}

TEST_F(pace, who_looked_before_the_interval_saw_nothing_of_it) {
    vqp_pace_begin(&m_pace, NOW);
    vqp_pace_confirmed(&m_pace, UNIT, 0, NOW, NOW + 90000);
    EXPECT_EQ(0u, vqp_pace_cost(&m_pace, NOW + 90000));
    vqp_pace_begin(&m_pace, NOW + 100000);
    vqp_pace_confirmed(&m_pace, UNIT, 0, NOW + 90000, NOW + 190000);
    EXPECT_EQ(0u, vqp_pace_cost(&m_pace, NOW + 190000));
}

TEST_F(pace, is_forgotten) {
    vqp_pace_begin(&m_pace, NOW);
    vqp_pace_confirmed(&m_pace, UNIT, 1, 0, NOW + 3000);
    EXPECT_EQ(3000u, vqp_pace_cost(&m_pace, NOW + VQP_PACE_FORGET));
    EXPECT_EQ(0u, vqp_pace_cost(&m_pace, NOW + 3000 + VQP_PACE_FORGET));
}

TEST_F(pace, bounds) {
    vqp_pace_begin(&m_pace, NOW);
    vqp_pace_confirmed(&m_pace, 1ul << 40, 1, 0, NOW); /* no time at all */
    EXPECT_EQ(1u, vqp_pace_cost(&m_pace, NOW));
    m_pace.cost = 0;
    vqp_pace_begin(&m_pace, NOW);
    vqp_pace_confirmed(&m_pace, UNIT, 1, 0, NOW + (1ul << 40));
    EXPECT_EQ(UINT32_MAX, vqp_pace_cost(&m_pace, NOW + (1ul << 40)));
    EXPECT_EQ(10ul * UINT32_MAX, vqp_pace_finish(UINT32_MAX, 10 * UNIT));
}

} /* namespace */
