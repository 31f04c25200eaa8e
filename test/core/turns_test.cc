/* Turns of paths that want a new queue pair: how many, in which order, how late. */
extern "C" {
#include "core/turns.h"
}

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

namespace {

class turns : public testing::Test {
protected:
    static constexpr uint64_t INTERVAL = 1000;
    static constexpr uint32_t QUOTA    = 8;
    static constexpr uint64_t START    = 5 * INTERVAL;

    turns() { vqp_turns_init(&m_turns, INTERVAL, QUOTA); }

    uint64_t take(vqp_turn_t &turn, vqp_turn_line_t line = VQP_TURN_SPARE) {
        return vqp_turns_take(&m_turns, line, &turn, m_now);
    }

    /* How many of the turns, in their order, may go now */
    unsigned take_all(std::deque<vqp_turn_t> &waiting, vqp_turn_line_t line) {
        unsigned count = 0;

        for (unsigned i = 0, all = waiting.size(); i < all; ++i) {
            vqp_turn_t turn = waiting.front();
            waiting.pop_front();
            if (take(turn, line) == 0) {
                ++count;
            } else {
                waiting.push_back(turn);
            }
        }
        return count;
    }

    vqp_turns_t m_turns;
    uint64_t    m_now = START;
};

} /* namespace */

TEST_F(turns, so_many_go_at_once_and_the_others_later) {
    std::vector<vqp_turn_t> all(3 * QUOTA, vqp_turn_t {});

    for (unsigned i = 0; i < all.size(); ++i) {
        EXPECT_EQ((i < QUOTA) ? 0 : m_now + ((1 + ((i - QUOTA) / QUOTA)) * INTERVAL),
                  take(all[i])) << i;
    }
    m_now += INTERVAL - 1;
    EXPECT_EQ(m_now + 1, take(all[QUOTA]));
    ++m_now;
    for (unsigned i = QUOTA; i < all.size(); ++i) {
        EXPECT_EQ((i < 2 * QUOTA) ? 0 : m_now + INTERVAL, take(all[i])) << i;
    }
}

/* Those that ask first in an interval are not before those that have waited */
TEST_F(turns, who_waits_goes_before_who_comes) {
    vqp_turn_t first {}, waits {};

    for (unsigned i = 0; i < QUOTA; ++i) {
        EXPECT_EQ(0u, take(first));
    }
    EXPECT_NE(0u, take(waits));
    m_now += INTERVAL;
    for (unsigned i = 0; i < QUOTA - 1; ++i) {
        EXPECT_EQ(0u, take(first));
    }
    vqp_turn_t late {};
    EXPECT_NE(0u, take(late));
    EXPECT_EQ(0u, take(waits));
}

/* A path that was dropped meanwhile */
TEST_F(turns, one_that_is_not_used_holds_up_nobody) {
    std::deque<vqp_turn_t> all(QUOTA + 1, vqp_turn_t {});
    vqp_turn_t last = all.back();

    EXPECT_EQ(QUOTA, take_all(all, VQP_TURN_SPARE));
    for (unsigned i = 0; i < QUOTA - 1; ++i) { /* never asked for again */
        vqp_turn_t dropped {};
        EXPECT_NE(0u, take(dropped));
    }
    EXPECT_NE(0u, take(last));
    m_now += INTERVAL;
    EXPECT_NE(0u, take(last));
    m_now += INTERVAL;
    EXPECT_EQ(0u, take(last));
}

/* An application that computes for a second finds what it finds after 10 ms */
TEST_F(turns, what_is_not_taken_is_not_saved) {
    std::deque<vqp_turn_t> all(4 * QUOTA, vqp_turn_t {});

    EXPECT_EQ(QUOTA, take_all(all, VQP_TURN_SPARE));
    m_now += 100 * INTERVAL;
    EXPECT_EQ(QUOTA, take_all(all, VQP_TURN_SPARE));
}

TEST_F(turns, the_needed_go_first_and_leave_a_quarter) {
    std::deque<vqp_turn_t> spare(4 * QUOTA, vqp_turn_t {});
    std::deque<vqp_turn_t> needed(2 * QUOTA, vqp_turn_t {});

    EXPECT_EQ(QUOTA, take_all(spare, VQP_TURN_SPARE));
    EXPECT_EQ(0u, take_all(needed, VQP_TURN_NEEDED));
    m_now += INTERVAL;
    EXPECT_EQ(QUOTA / 4, take_all(spare, VQP_TURN_SPARE));
    EXPECT_EQ(QUOTA - (QUOTA / 4), take_all(needed, VQP_TURN_NEEDED));
    m_now += INTERVAL;
    EXPECT_EQ(QUOTA - (QUOTA / 4), take_all(needed, VQP_TURN_NEEDED));
    EXPECT_EQ(QUOTA / 4, take_all(spare, VQP_TURN_SPARE));
    m_now += INTERVAL; /* a quarter is needed, and the rest is left */
    EXPECT_EQ(QUOTA - (QUOTA / 2), take_all(spare, VQP_TURN_SPARE));
    EXPECT_EQ(QUOTA / 2, take_all(needed, VQP_TURN_NEEDED));
    EXPECT_EQ(0u, take_all(spare, VQP_TURN_SPARE));
}

/* A quota without many in the other line is whole */
TEST_F(turns, the_needed_take_what_others_leave) {
    std::deque<vqp_turn_t> first(QUOTA, vqp_turn_t {}), needed(QUOTA, vqp_turn_t {});

    EXPECT_EQ(QUOTA, take_all(first, VQP_TURN_SPARE));
    EXPECT_EQ(0u, take_all(needed, VQP_TURN_NEEDED));
    m_now += INTERVAL;
    EXPECT_EQ(QUOTA, take_all(needed, VQP_TURN_NEEDED));
}

/* Numbers that wrap around, and turns that were held from long ago */
TEST_F(turns, wrap_around) {
    std::deque<vqp_turn_t> all(2 * QUOTA, vqp_turn_t {});
    vqp_turn_t old {5, 1};

    m_turns.lines[VQP_TURN_SPARE] = {UINT32_MAX - 2, UINT32_MAX - 2};
    EXPECT_EQ(QUOTA, take_all(all, VQP_TURN_SPARE));
    EXPECT_EQ(QUOTA, all.size());
    m_now += INTERVAL;
    EXPECT_EQ(QUOTA, take_all(all, VQP_TURN_SPARE));
    m_turns.lines[VQP_TURN_SPARE] = {0x90000000, 0x90000000};
    EXPECT_EQ(0u, take(old));
}

/* Any callers: an interval has at most the quota, and nobody waits for longer than all
 * that are ahead of him take */
TEST_F(turns, come_in_time_however_many_ask) {
    struct caller {
        vqp_turn_t turn {};
        uint64_t   next = START, since = 0;
    };
    std::mt19937_64 rng(7);
    std::vector<caller> all(40 * QUOTA);
    unsigned went = 0;

    for (; m_now < START + (300 * INTERVAL); m_now += INTERVAL / 10) {
        unsigned now = 0;

        for (auto &c : all) {
            vqp_turn_line_t line = (&c - &all[0] < QUOTA) ? VQP_TURN_NEEDED : VQP_TURN_SPARE;
            if (c.next > m_now) {
                continue;
            }
            if (!c.turn.is_held) {
                c.since = m_now;
            }
            c.next = take(c.turn, line);
            if (c.next == 0) {
                /* all are ahead, each needed one twice */
                EXPECT_LE(m_now - c.since, (all.size() / (QUOTA / 4)) * INTERVAL);
                ++now;
                c.next = m_now + (rng() % 50);
            }
        }
        EXPECT_LE(now, 2 * QUOTA); /* the end of an interval, and the next one */
        went += now;
    }
    EXPECT_GE(went, 299 * QUOTA);
    EXPECT_LE(went, 301 * QUOTA);
}
