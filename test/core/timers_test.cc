/* The heap of timers, beside a sorted set of the same timers. */
extern "C" {
#include "core/timers.h"
}

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

TEST(timers, of_none_nothing_is_due) {
    vqp_timers_t timers {};

    EXPECT_EQ(VQP_TIMER_NEVER, vqp_timers_next(&timers));
    EXPECT_EQ(nullptr, vqp_timers_pop(&timers, UINT64_MAX - 1));
}

TEST(timers, come_in_the_order_of_their_time_and_not_before) {
    vqp_timers_t timers {};
    vqp_timer_t a {}, b {}, c {};

    vqp_timers_set(&timers, &a, 30);
    vqp_timers_set(&timers, &b, 10);
    vqp_timers_set(&timers, &c, 20);
    EXPECT_EQ(10u, vqp_timers_next(&timers));
    EXPECT_EQ(nullptr, vqp_timers_pop(&timers, 9));
    EXPECT_EQ(&b, vqp_timers_pop(&timers, 10));
    EXPECT_FALSE(b.is_set);
    EXPECT_EQ(&c, vqp_timers_pop(&timers, 100));
    EXPECT_EQ(&a, vqp_timers_pop(&timers, 100));
    EXPECT_EQ(nullptr, vqp_timers_pop(&timers, 100));
}

TEST(timers, one_that_is_set_again_has_its_last_time) {
    vqp_timers_t timers {};
    vqp_timer_t a {}, b {};

    vqp_timers_set(&timers, &a, 10);
    vqp_timers_set(&timers, &b, 20);
    vqp_timers_set(&timers, &a, 30);
    vqp_timers_set(&timers, &a, 30);
    EXPECT_EQ(&b, vqp_timers_pop(&timers, 100));
    vqp_timers_set(&timers, &a, 5);
    EXPECT_EQ(5u, vqp_timers_next(&timers));
    vqp_timers_set(&timers, &a, VQP_TIMER_NEVER);
    vqp_timers_set(&timers, &a, VQP_TIMER_NEVER);
    EXPECT_EQ(VQP_TIMER_NEVER, vqp_timers_next(&timers));
}

/* Any operations: the same as a sorted set */
TEST(timers, are_what_a_sorted_set_is) {
    typedef std::pair<uint64_t, vqp_timer_t*> entry;

    std::mt19937_64 rng(1);
    std::vector<vqp_timer_t> all(300);
    vqp_timers_t timers {};
    std::set<entry> model;
    uint64_t now = 0;

    for (unsigned i = 0; i < 200000; ++i) {
        vqp_timer_t *timer = &all[rng() % all.size()];
        uint64_t due       = now + rng() % 1000;

        switch (rng() % 4) {
        case 0:
            now += rng() % 20;
            while ((timer = vqp_timers_pop(&timers, now)) != nullptr) {
                ASSERT_EQ(model.begin()->first, timer->due);
                ASSERT_EQ(1u, model.erase(entry(timer->due, timer)));
            }
            ASSERT_TRUE(model.empty() || (model.begin()->first > now));
            break;
        case 1:
            due = VQP_TIMER_NEVER;
            /* fall through */
        default:
            if (timer->is_set) {
                ASSERT_EQ(1u, model.erase(entry(timer->due, timer)));
            }
            vqp_timers_set(&timers, timer, due);
            if (due != VQP_TIMER_NEVER) {
                model.emplace(due, timer);
            }
            break;
        }
        ASSERT_EQ(model.empty() ? VQP_TIMER_NEVER : model.begin()->first,
                  vqp_timers_next(&timers));
    }
}
