/* Which immediates are valid: 24 bits fsn, and six combinations of flags. */
#include <gtest/gtest.h>

extern "C" {
#include "core/data/imm.h"
}

namespace {

TEST(imm, fsn_and_flags_share_32_bits) {
    EXPECT_EQ(0u, (uint32_t)VQP_IMM_FLAGS & VQP_FSN_MASK);
    EXPECT_EQ(0x123456u, vqp_imm_fsn(0x123456u | VQP_IMM_LAST));
    EXPECT_EQ(VQP_FSN_MASK, vqp_imm_fsn(0xffffffffu));
}

TEST(imm, only_six_combinations_of_flags_are_valid) {
    unsigned valid = 0;

    for (uint32_t flags = 0; flags < 256; ++flags) {
        uint32_t imm = (flags << VQP_FSN_BITS) | 77;

        if (!vqp_imm_is_valid(imm)) {
            continue;
        }

        ++valid;
        EXPECT_TRUE((imm == 77) || (imm == (77 | VQP_IMM_LAST)) ||
                    (imm == (77 | VQP_IMM_LAST | VQP_IMM_WRAP)) ||
                    (imm == (77 | VQP_IMM_LAST | VQP_IMM_CONTROL)) ||
                    (imm == (77 | VQP_IMM_LAST | VQP_IMM_WRAP | VQP_IMM_CONTROL)) ||
                    (imm == (77 | VQP_IMM_CREDIT))) << flags;
    }

    EXPECT_EQ(6u, valid);
}

TEST(imm, every_fsn_is_valid) {
    EXPECT_TRUE(vqp_imm_is_valid(0));
    EXPECT_TRUE(vqp_imm_is_valid(VQP_FSN_MASK));
    EXPECT_TRUE(vqp_imm_is_valid(VQP_FSN_MASK | VQP_IMM_LAST));
}

} /* namespace */
