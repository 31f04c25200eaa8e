/* The schedulers: the path of the next frag. */
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

extern "C" {
#include "core/data/sched.h"
}

namespace {

class sched : public ::testing::Test {
protected:
    static constexpr unsigned NUM = 4;

    void SetUp() override {
        for (unsigned i = 0; i < NUM; ++i) {
            m_paths[i].index     = (uint8_t)i;
            m_paths[i].next      = (uint8_t)((i + 1) % NUM);
            m_paths[i].up        = 1;
            m_paths[i].depth     = 16;
        }
    }

    /* Index of the choice, -1 for none */
    int pick(vqp_sched_t policy, unsigned needs = 0, uint64_t cap = 1000) {
        const vqp_want_t want = {cap, 100, 100, m_now, needs, m_rail};
        vqp_path_t *path      = vqp_sched_pick(policy, m_paths, NUM, &m_next,
                                               &want, nullptr);

        return (path == nullptr) ? -1 : path->index;
    }

    vqp_path_t m_paths[NUM] {};
    uint32_t   m_next = 0;
    uint64_t   m_now  = 1000000000;
    unsigned   m_rail = 0;
};

TEST_F(sched, rr_rotates) {
    for (int i = 0; i < 9; ++i) {
        EXPECT_EQ(i % (int)NUM, pick(VQP_SCHED_RR));
    }
}

TEST_F(sched, rr_skips_paths_without_room) {
    m_paths[1].tail  = 14;
    m_paths[2].bytes = 1000;
    EXPECT_EQ(0, pick(VQP_SCHED_RR));
    EXPECT_EQ(3, pick(VQP_SCHED_RR));
    EXPECT_EQ(0, pick(VQP_SCHED_RR));
}

TEST_F(sched, rr_ignores_load) {
    m_paths[0].bytes = 999;
    EXPECT_EQ(0, pick(VQP_SCHED_RR));
}

TEST_F(sched, a_required_rail_of_the_peer_is_respected) {
    m_paths[1].peer_rail = m_paths[3].peer_rail = 1;
    m_rail               = 1;
    for (vqp_sched_t policy : {VQP_SCHED_RR, VQP_SCHED_LEFT}) {
        m_next = 0;
        EXPECT_EQ(1, pick(policy, VQP_NEED_RAIL));
        EXPECT_EQ(3, pick(policy, VQP_NEED_RAIL));
    }
    m_rail = 2;
    EXPECT_EQ(-1, pick(VQP_SCHED_RR, VQP_NEED_RAIL));
}

TEST_F(sched, no_path_when_all_are_full_or_down) {
    for (vqp_path_t &path : m_paths) {
        path.up = 0;
    }

    m_next = 2;
    EXPECT_EQ(-1, pick(VQP_SCHED_RR));
    EXPECT_EQ(-1, pick(VQP_SCHED_LEFT));
    EXPECT_EQ(2u, m_next);
}

TEST_F(sched, one_path_is_always_the_choice) {
    const vqp_want_t want = {1, 1, 1, 0, 0, 0};
    uint32_t next         = 0;

    m_paths[0].next = 0;
    EXPECT_EQ(m_paths, vqp_sched_pick(VQP_SCHED_RR, m_paths, 1, &next, &want,
                                      nullptr));
    EXPECT_EQ(0u, next);
}

/* ---- left ---- */

class left : public sched {
protected:
    static constexpr uint64_t CAP  = 256 << 10;
    static constexpr uint64_t FRAG = 64 << 10;

    /* What a path takes for 64 KiB, ns, above 0 */
    void cost(unsigned i, uint32_t ns) {
        vqp_rate_set(&m_paths[i].rate, ns, m_now);
    }

    /* Sends @a total bytes over paths that take so many ns for a frag; the rates
     * may change on the way. Returns when the last one is there. */
    uint64_t stream(uint64_t total, std::vector<uint64_t> ns,
                    vqp_sched_t policy = VQP_SCHED_LEFT,
                    std::vector<uint64_t> later = {}) {
        uint64_t sent = 0, done = 0, start = m_now;
        std::vector<uint64_t> free_at(NUM, m_now);
        std::deque<uint64_t> queue[NUM];

        while (done < total) {
            for (int i = 0; (sent < total) && ((i = choose(policy, total - sent)) >= 0);) {
                if (m_paths[i].bytes == 0) {
                    vqp_rate_begin(&m_paths[i].rate, m_now);
                }
                m_paths[i].bytes += FRAG;
                free_at[i] = std::max(free_at[i], m_now) + ns[i];
                queue[i].push_back(free_at[i]);
                sent += FRAG;
            }

            unsigned first = NUM;
            for (unsigned i = 0; i < NUM; ++i) {
                if (!queue[i].empty() &&
                    ((first == NUM) ||
                     (queue[i].front() < queue[first].front()))) {
                    first = i;
                }
            }
            if (first == NUM) {
                ADD_FAILURE() << "no path is busy, and no path takes a frag";
                return UINT64_MAX;
            }

            m_now = queue[first].front();
            queue[first].pop_front();
            m_paths[first].bytes -= FRAG;
            vqp_rate_confirmed(&m_paths[first].rate, FRAG,
                               m_paths[first].bytes,
                               m_is_watched ? m_now - 1 : 0, m_now, m_now);
            done += FRAG;
            if (!later.empty() && (done >= total / 2)) {
                ns.swap(later);
                later.clear();
            }
        }
        return m_now - start;
    }

    int choose(vqp_sched_t policy, uint64_t left = FRAG) {
        const vqp_want_t want = {CAP, FRAG, left, m_now, 0, 0};
        vqp_path_t *path;

        m_deferred = 0;
        path       = vqp_sched_pick(policy, m_paths, NUM, &m_next, &want,
                                    &m_deferred);
        return (path == nullptr) ? -1 : path->index;
    }

    /* Part of what all paths together could do */
    static double share(uint64_t total, const std::vector<uint64_t> &ns,
                        uint64_t took) {
        double rate = 0;

        for (uint64_t n : ns) {
            rate += (double)FRAG / n;
        }
        return total / rate / took;
    }

    bool    m_is_watched = false; /* polls continue */
    uint8_t m_deferred   = 0;
};

TEST_F(left, takes_the_least_expected_finish_time) {
    cost(0, 1000);
    cost(1, 500);
    cost(2, 4000);
    cost(3, 4000);
    m_paths[1].bytes = 2 * FRAG;
    EXPECT_EQ(0, choose(VQP_SCHED_LEFT)); /* 1000 against 1500 */
    m_paths[0].bytes = FRAG;
    EXPECT_EQ(1, choose(VQP_SCHED_LEFT)); /* 2000 against 1500 */
}

TEST_F(left, waits_for_a_full_one_that_finishes_sooner) {
    cost(0, 100);
    cost(1, 10000);
    cost(2, 10000);
    cost(3, 10000);
    m_paths[0].bytes = CAP;
    vqp_rate_begin(&m_paths[0].rate, m_now);
    EXPECT_EQ(-1, choose(VQP_SCHED_LEFT));
    EXPECT_TRUE(m_deferred);
    EXPECT_GE(choose(VQP_SCHED_LEFT, 100 * FRAG), 1); /* not for so much */
    EXPECT_FALSE(m_deferred);
    m_paths[0].up = 0;
    EXPECT_GE(choose(VQP_SCHED_LEFT), 1);
}

/* Short frags fill the send queue, and few bytes are in flight */
TEST_F(left, waits_for_one_whose_send_queue_is_full) {
    cost(0, 1000);
    cost(1, 10000);
    cost(2, 10000);
    cost(3, 10000);
    m_paths[0].tail  = m_paths[0].depth;
    m_paths[0].bytes = FRAG;
    EXPECT_GE(choose(VQP_SCHED_LEFT), 1); /* nobody would see that it has stopped */
    EXPECT_FALSE(m_deferred);
    vqp_rate_begin(&m_paths[0].rate, m_now);
    EXPECT_EQ(-1, choose(VQP_SCHED_LEFT));
    EXPECT_TRUE(m_deferred);
}

/* A replay has no other time at which it would try again */
TEST_F(left, does_not_wait_for_who_can_not) {
    const vqp_want_t want = {CAP, FRAG, FRAG, m_now, 0, 0};

    cost(0, 100);
    cost(1, 10000);
    m_paths[2].up = m_paths[3].up = 0;
    m_paths[0].bytes = CAP;
    vqp_rate_begin(&m_paths[0].rate, m_now);
    EXPECT_EQ(-1, choose(VQP_SCHED_LEFT));
    EXPECT_EQ(&m_paths[1], vqp_sched_pick(VQP_SCHED_LEFT, m_paths, NUM, &m_next,
                                          &want, nullptr));
}

TEST_F(left, is_not_deferred_where_no_path_has_room) {
    for (vqp_path_t &path : m_paths) {
        path.bytes = CAP;
    }
    cost(0, 100);
    EXPECT_EQ(-1, choose(VQP_SCHED_LEFT));
    EXPECT_FALSE(m_deferred);
}

/* The full one has stopped: no completion of it would start dispatch again, and
 * the op would wait while other paths are idle */
TEST_F(left, does_not_wait_for_a_full_one_that_is_late) {
    cost(0, 100);
    cost(1, 10000);
    cost(2, 10000);
    cost(3, 10000);
    m_paths[0].bytes = CAP;
    vqp_rate_begin(&m_paths[0].rate, m_now);
    EXPECT_EQ(-1, choose(VQP_SCHED_LEFT));
    m_now += VQP_RATE_LATE; /* not late before that, however fast it was */
    EXPECT_EQ(-1, choose(VQP_SCHED_LEFT));
    EXPECT_TRUE(m_deferred);
    m_now += 1;
    EXPECT_GE(choose(VQP_SCHED_LEFT), 1);
    EXPECT_FALSE(m_deferred);
}

TEST_F(left, late_is_four_times_what_its_bytes_should_take) {
    uint64_t expected = 4 * (CAP / FRAG) * 1000000;

    cost(0, 1000000);
    cost(1, 50000000);
    cost(2, 50000000);
    cost(3, 50000000);
    m_paths[0].bytes = CAP;
    vqp_rate_begin(&m_paths[0].rate, m_now);
    m_now += expected;
    EXPECT_EQ(-1, choose(VQP_SCHED_LEFT));
    m_now += 1;
    EXPECT_GE(choose(VQP_SCHED_LEFT), 1);
}

TEST_F(left, waits_although_a_full_one_alone_would_need_longer) {
    cost(0, 1000);
    cost(1, 1000);
    cost(2, 1000);
    cost(3, 10000);
    m_paths[0].bytes = m_paths[1].bytes = m_paths[2].bytes = CAP;
    for (unsigned i : {0, 1, 2}) {
        vqp_rate_begin(&m_paths[i].rate, m_now);
    }
    /* 24 frags at 3.1 for 1000 ns: 7700 ns, the slow one would take 10000 */
    EXPECT_EQ(-1, choose(VQP_SCHED_LEFT, 12 * FRAG));
    EXPECT_EQ(3, choose(VQP_SCHED_LEFT, 20 * FRAG));
    m_paths[3].bytes = FRAG;
    EXPECT_EQ(-1, choose(VQP_SCHED_LEFT, 20 * FRAG));
}

TEST_F(left, a_slow_path_gets_its_share_of_an_op_and_not_more) {
    std::vector<uint64_t> ns = {1000, 1000, 1000, 10000};

    stream(16 << 20, ns); /* has a measured rate now */
    for (uint64_t total = 1 << 20; total <= 16 << 20; total *= 2) {
        EXPECT_GE(share(total, ns, stream(total, ns)), 0.85) << total;
    }
}

/* Ops that give each path one frag: paths are never busy when one is confirmed */
TEST_F(left, learns_from_small_ops_when_polled) {
    std::vector<uint64_t> ns = {1000, 1000, 1000, 10000};

    m_is_watched = true;
    for (int i = 0; i < 4; ++i) {
        stream(NUM * FRAG, ns);
    }
    EXPECT_EQ(2000u, stream(NUM * FRAG, ns));
}

TEST_F(left, a_path_without_a_rate_counts_as_the_best) {
    cost(0, 1000);
    cost(1, 1000);
    cost(2, 1000);
    m_paths[0].bytes = m_paths[1].bytes = m_paths[2].bytes = FRAG;
    EXPECT_EQ(3, choose(VQP_SCHED_LEFT));
    m_paths[3].bytes = CAP; /* full, with an unknown rate */
    EXPECT_GE(choose(VQP_SCHED_LEFT), 0);
}

TEST_F(left, without_any_rate_takes_the_one_with_the_least_bytes) {
    m_paths[0].bytes = 2;
    m_paths[1].bytes = 1;
    m_paths[2].bytes = 3;
    m_paths[3].bytes = 2;
    EXPECT_EQ(1, choose(VQP_SCHED_LEFT));
}

TEST_F(left, does_not_wait_for_an_excluded_path) {
    const vqp_want_t want = {CAP, 8, 8, m_now, VQP_NEED_RAIL, 0};

    for (unsigned i = 0; i < NUM; ++i) {
        cost(i, (i == 0) ? 1000000 : 1000);
        m_paths[i].peer_rail = (i != 0);
        m_paths[i].bytes     = (i == 0) ? 0 : CAP;
    }
    EXPECT_EQ(m_paths, vqp_sched_pick(VQP_SCHED_LEFT, m_paths, NUM, &m_next,
                                      &want, nullptr));
}

TEST_F(left, rotates_over_equals) {
    for (int i = 0; i < 9; ++i) {
        EXPECT_EQ(i % (int)NUM, choose(VQP_SCHED_LEFT));
    }
}

TEST_F(left, equal_paths_give_their_sum) {
    std::vector<uint64_t> ns(NUM, 5000);

    EXPECT_GE(share(1 << 20, ns, stream(1 << 20, ns)), 0.95);
    EXPECT_GE(share(64 << 20, ns, stream(64 << 20, ns)), 0.99);
}

/* Measured rates always differ a little: the last frags of an op must not wait
 * for the path that seems to be slightly faster */
TEST_F(left, nearly_equal_paths_do_not_wait_for_each_other) {
    for (unsigned i = 0; i < NUM; ++i) {
        cost(i, 5000 + 100 * i);
        m_paths[i].bytes = CAP;
    }
    m_paths[NUM - 1].bytes = CAP - FRAG;
    EXPECT_EQ((int)NUM - 1, choose(VQP_SCHED_LEFT));
}

TEST_F(left, unequal_paths_give_their_sum_where_rr_does_not) {
    std::vector<uint64_t> ns = {8000, 4000, 2000, 1000};

    EXPECT_GE(share(64 << 20, ns, stream(64 << 20, ns)), 0.95);
    EXPECT_LE(share(64 << 20, ns, stream(64 << 20, ns, VQP_SCHED_RR)), 0.99);
}

TEST_F(left, a_path_that_slows_down_is_noticed) {
    std::vector<uint64_t> ns = {1000, 1000, 1000, 1000};
    std::vector<uint64_t> later = {1000, 1000, 1000, 10000};
    uint64_t ideal = (uint64_t)((128 << 20) / (4 * FRAG / 1000.0) +
                                (128 << 20) / (3.1 * FRAG / 1000.0));

    EXPECT_LE(stream(256 << 20, ns, VQP_SCHED_LEFT, later), ideal * 1.05);
}

TEST_F(left, a_path_that_got_faster_is_tried_again) {
    std::vector<uint64_t> ns = {100000, 100000, 100000, 10000000};

    stream(4 << 20, ns);
    m_now += VQP_RATE_FORGET;
    ns[3] = 100000;
    EXPECT_GE(share(64 << 20, ns, stream(64 << 20, ns)), 0.95);
}

} /* namespace */
