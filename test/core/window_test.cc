/* The reorder window: what may pass, and when. */
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

extern "C" {
#include "core/data/window.h"
}

namespace {

class window : public ::testing::Test {
protected:
    static constexpr uint32_t SIZE = 16;

    void start(uint32_t first, uint32_t size = SIZE) {
        m_map.assign(size, 0xee);
        vqp_window_init(&m_win, m_map.data(), size, first);
    }

    vqp_status_t insert(uint32_t imm) {
        return vqp_window_insert(&m_win, imm);
    }

    /* What the receiver does with an arrival: returns how many passed */
    unsigned arrive(uint32_t imm) {
        unsigned passed = vqp_window_in_order(&m_win, imm);

        if (!passed) {
            EXPECT_EQ(VQP_OK, insert(imm));
        }
        return passed + drain();
    }

    unsigned drain() {
        unsigned passed = 0;
        uint32_t flags;

        while (vqp_window_next(&m_win, &flags)) {
            m_flags.push_back(flags);
            ++passed;
        }
        return passed;
    }

    vqp_window_t          m_win {};
    std::vector<uint8_t>  m_map;
    std::vector<uint32_t> m_flags;
};

TEST_F(window, starts_empty) {
    uint32_t flags;

    start(5);
    EXPECT_EQ(5u, m_win.base);
    EXPECT_EQ(0u, m_win.ahead);
    EXPECT_FALSE(vqp_window_next(&m_win, &flags));
    EXPECT_EQ(0, *std::max_element(m_map.begin(), m_map.end()));
}

TEST_F(window, in_order_passes_without_the_map) {
    start(0);
    for (uint32_t fsn = 0; fsn < 3 * SIZE; ++fsn) {
        ASSERT_TRUE(vqp_window_in_order(&m_win, fsn | VQP_IMM_LAST));
    }
    EXPECT_EQ(3 * SIZE, m_win.base);
    EXPECT_EQ(0u, m_win.ooo_max);
    EXPECT_EQ(0, *std::max_element(m_map.begin(), m_map.end()));
}

TEST_F(window, out_of_order_waits_for_the_gap) {
    start(0);
    EXPECT_EQ(0u, arrive(2 | VQP_IMM_LAST));
    EXPECT_EQ(0u, arrive(1));
    EXPECT_EQ(2u, m_win.ahead);
    EXPECT_EQ(3u, arrive(0));
    EXPECT_EQ(3u, m_win.base);
    EXPECT_EQ(0u, m_win.ahead);
    EXPECT_EQ(2u, m_win.ooo_max);
}

TEST_F(window, what_closes_a_gap_is_in_order_too) {
    start(0);
    EXPECT_EQ(VQP_OK, insert(1));
    EXPECT_FALSE(vqp_window_in_order(&m_win, 2));
    EXPECT_TRUE(vqp_window_in_order(&m_win, 0));
    EXPECT_EQ(1u, m_win.base);
    EXPECT_EQ(1u, drain());
}

TEST_F(window, a_duplicate_before_its_delivery_is_not_in_order) {
    start(0);
    EXPECT_EQ(VQP_OK, insert(0));
    EXPECT_FALSE(vqp_window_in_order(&m_win, 0));
    EXPECT_EQ(VQP_INPROGRESS, insert(0));
    EXPECT_EQ(1u, drain());
}

TEST_F(window, flags_are_kept) {
    start(0);
    insert(0);
    insert(1 | VQP_IMM_LAST);
    insert(2 | VQP_IMM_LAST | VQP_IMM_WRAP);
    insert(3 | VQP_IMM_CREDIT);
    drain();
    EXPECT_EQ((std::vector<uint32_t>{0, VQP_IMM_LAST,
                                     VQP_IMM_LAST | VQP_IMM_WRAP,
                                     VQP_IMM_CREDIT}), m_flags);
}

TEST_F(window, duplicate_is_dropped) {
    start(0);
    EXPECT_EQ(VQP_OK, insert(3));
    EXPECT_EQ(VQP_INPROGRESS, insert(3));
    EXPECT_EQ(VQP_INPROGRESS, insert(3 | VQP_IMM_LAST));
    EXPECT_EQ(1u, m_win.ahead);
}

TEST_F(window, late_is_dropped_up_to_a_window_behind) {
    start(100);
    EXPECT_EQ(VQP_INPROGRESS, insert(99));
    EXPECT_EQ(VQP_INPROGRESS, insert(100 - SIZE));
    EXPECT_EQ(VQP_ERR_PROTOCOL, insert(99 - SIZE));
    EXPECT_EQ(100u, m_win.base);
}

TEST_F(window, a_number_outside_is_a_protocol_error) {
    start(100);
    EXPECT_EQ(VQP_OK, insert(100 + SIZE - 1));
    EXPECT_EQ(VQP_ERR_PROTOCOL, insert(100 + SIZE));
    EXPECT_EQ(VQP_ERR_PROTOCOL, insert(100 + (1u << 23)));
    EXPECT_EQ(1u, m_win.ahead);
}

TEST_F(window, malformed_immediates_are_refused) {
    start(0);
    EXPECT_EQ(VQP_ERR_PROTOCOL, insert(0 | VQP_IMM_WRAP));
    EXPECT_EQ(VQP_ERR_PROTOCOL, insert(0 | (1u << 31)));
    EXPECT_EQ(VQP_ERR_PROTOCOL, insert(0 | VQP_IMM_CREDIT | VQP_IMM_LAST));
    EXPECT_EQ(0u, m_win.ahead);
}

TEST_F(window, wraps_at_2_to_the_24_with_reordering) {
    start(VQP_FSN_MASK - 1);
    EXPECT_EQ(0u, arrive(1 | VQP_IMM_LAST));
    EXPECT_EQ(0u, arrive(VQP_FSN_MASK));
    EXPECT_EQ(2u, arrive(VQP_FSN_MASK - 1));
    EXPECT_EQ(VQP_INPROGRESS, insert(VQP_FSN_MASK));
    EXPECT_EQ(2u, arrive(0));
    EXPECT_EQ(2u, m_win.base);
}

TEST_F(window, first_number_is_reduced_to_24_bits) {
    start(0xff000003u);
    EXPECT_EQ(3u, m_win.base);
}

TEST_F(window, any_order_within_a_window_passes_in_order) {
    std::mt19937 rng(1);

    start(VQP_FSN_MASK - 1000, 64);
    for (unsigned round = 0; round < 100; ++round) {
        std::vector<uint32_t> order(64);
        uint32_t base   = m_win.base;
        unsigned passed = 0;

        for (uint32_t i = 0; i < order.size(); ++i) {
            order[i] = vqp_fsn_add(base, i);
        }
        std::shuffle(order.begin(), order.end(), rng);
        for (uint32_t fsn : order) {
            passed += arrive(fsn);
        }

        ASSERT_EQ(64u, passed);
        ASSERT_EQ(vqp_fsn_add(base, 64), m_win.base);
        ASSERT_EQ(0, *std::max_element(m_map.begin(), m_map.end()));
    }
    EXPECT_LE(m_win.ooo_max, 63u);
}

} /* namespace */
