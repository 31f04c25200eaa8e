/* Wrap-safe arithmetic: every compare holds across the wrap. */
#include <gtest/gtest.h>

extern "C" {
#include "core/seq.h"
}

namespace {

TEST(seq, fsn_has_24_bits) {
    EXPECT_EQ(0xffffffu, VQP_FSN_MASK);
    EXPECT_EQ(0u, vqp_fsn_add(VQP_FSN_MASK, 1));
    EXPECT_EQ(4u, vqp_fsn_add(VQP_FSN_MASK, 5));
    EXPECT_EQ(VQP_FSN_MASK, vqp_fsn_add(0, VQP_FSN_MASK));
}

TEST(seq, fsn_distance_is_signed_and_wraps) {
    EXPECT_EQ(0, vqp_fsn_diff(5, 5));
    EXPECT_EQ(3, vqp_fsn_diff(8, 5));
    EXPECT_EQ(-3, vqp_fsn_diff(5, 8));
    EXPECT_EQ(1, vqp_fsn_diff(0, VQP_FSN_MASK));
    EXPECT_EQ(-1, vqp_fsn_diff(VQP_FSN_MASK, 0));
}

TEST(seq, fsn_distance_is_exact_to_half_the_numbers) {
    const int32_t half = 1 << (VQP_FSN_BITS - 1);

    for (uint32_t base : {0u, 1u, 0x7fffffu, 0x800000u, VQP_FSN_MASK}) {
        for (int32_t d : {0, 1, 2, 1000, half - 1}) {
            EXPECT_EQ(d, vqp_fsn_diff(vqp_fsn_add(base, d), base));
            EXPECT_EQ(-d, vqp_fsn_diff(base, vqp_fsn_add(base, d)));
        }
    }
}

TEST(seq, position_distance_wraps_at_32_bits) {
    EXPECT_EQ(16, vqp_seq_diff(8, 0xfffffff8u));
    EXPECT_EQ(-16, vqp_seq_diff(0xfffffff8u, 8));
    EXPECT_EQ(INT32_MAX, vqp_seq_diff(0x7fffffffu, 0));
    EXPECT_LT(vqp_seq_diff(0xffffffffu, 0), 0);
}

} /* namespace */
