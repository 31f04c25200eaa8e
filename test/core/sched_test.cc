/* The schedulers: who takes the next frag. */
#include <gtest/gtest.h>

extern "C" {
#include "core/sched.h"
}

namespace {

class sched : public ::testing::Test {
protected:
    static constexpr unsigned NUM = 4;

    void SetUp() override {
        for (unsigned i = 0; i < NUM; ++i) {
            m_paths[i].index     = (uint8_t)i;
            m_paths[i].up        = 1;
            m_paths[i].depth     = 16;
            m_paths[i].imms_max  = 16;
            m_paths[i].reads_max = 4;
        }
    }

    /* Index of the choice, -1 for none */
    int pick(vqp_sched_t policy, unsigned needs = 0, uint64_t cap = 1000) {
        vqp_path_t *path = vqp_sched_pick(policy, m_paths, NUM, &m_next, cap,
                                          needs);

        return (path == nullptr) ? -1 : path->index;
    }

    vqp_path_t m_paths[NUM] {};
    uint32_t   m_next = 0;
};

TEST_F(sched, rr_rotates) {
    for (int i = 0; i < 9; ++i) {
        EXPECT_EQ(i % (int)NUM, pick(VQP_SCHED_RR));
    }
}

TEST_F(sched, rr_skips_who_has_no_room) {
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

TEST_F(sched, least_takes_the_fewest_bytes) {
    m_paths[0].bytes = 30;
    m_paths[1].bytes = 20;
    m_paths[2].bytes = 10;
    m_paths[3].bytes = 40;
    EXPECT_EQ(2, pick(VQP_SCHED_LEAST));
    EXPECT_EQ(3u, m_next);
    EXPECT_EQ(2, pick(VQP_SCHED_LEAST));
}

TEST_F(sched, least_rotates_over_equals) {
    for (int i = 0; i < 9; ++i) {
        EXPECT_EQ(i % (int)NUM, pick(VQP_SCHED_LEAST));
    }

    for (vqp_path_t &path : m_paths) {
        path.bytes = 7;
    }
    EXPECT_EQ(1, pick(VQP_SCHED_LEAST));
    EXPECT_EQ(2, pick(VQP_SCHED_LEAST));
}

TEST_F(sched, least_skips_who_lacks_credit) {
    m_paths[0].imms = 14;
    m_paths[1].bytes = m_paths[2].bytes = m_paths[3].bytes = 5;
    EXPECT_EQ(1, pick(VQP_SCHED_LEAST, VQP_NEED_IMM));
    m_next = 0;
    EXPECT_EQ(0, pick(VQP_SCHED_LEAST));
}

TEST_F(sched, needs_are_respected) {
    for (vqp_path_t &path : m_paths) {
        path.imms  = 16 - VQP_CONTROL_RESERVE;
        path.reads = path.reads_max;
    }

    for (vqp_sched_t policy : {VQP_SCHED_RR, VQP_SCHED_LEAST}) {
        EXPECT_EQ(-1, pick(policy, VQP_NEED_IMM));
        EXPECT_EQ(-1, pick(policy, VQP_NEED_READ));
        EXPECT_GE(pick(policy), 0);
    }

    m_paths[3].imms = 0;
    m_paths[2].reads = 0;
    EXPECT_EQ(3, pick(VQP_SCHED_RR, VQP_NEED_IMM));
    EXPECT_EQ(2, pick(VQP_SCHED_RR, VQP_NEED_READ));
    EXPECT_EQ(-1, pick(VQP_SCHED_RR, VQP_NEED_IMM | VQP_NEED_READ));
}

TEST_F(sched, nobody_when_all_are_full_or_down) {
    for (vqp_path_t &path : m_paths) {
        path.up = 0;
    }

    m_next = 2;
    EXPECT_EQ(-1, pick(VQP_SCHED_RR));
    EXPECT_EQ(-1, pick(VQP_SCHED_LEAST));
    EXPECT_EQ(2u, m_next);
}

TEST_F(sched, one_path_is_always_the_choice) {
    uint32_t next = 0;

    EXPECT_EQ(m_paths, vqp_sched_pick(VQP_SCHED_RR, m_paths, 1, &next, 1, 0));
    EXPECT_EQ(0u, next);
}

} /* namespace */
