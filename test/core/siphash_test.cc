/* SipHash-2-4: vectors of the paper's reference implementation. */
#include <gtest/gtest.h>

extern "C" {
#include "core/conn/siphash.h"
}

/* Key 00 01 .. 0f, input 00 01 .. */
static const uint64_t key[]   = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
static const uint64_t words[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908,
                                 0x1716151413121110};

TEST(siphash, has_the_reference_results)
{
    EXPECT_EQ(0x726fdb47dd0e0e31u, vqp_siphash(key, words, 0));
    EXPECT_EQ(0x93f5f5799a932462u, vqp_siphash(key, words, 1));
    EXPECT_EQ(0x3f2acc7f57c29bdbu, vqp_siphash(key, words, 2));
    EXPECT_EQ(0xb8ad50c6f649af94u, vqp_siphash(key, words, 3));
}

TEST(siphash, depends_on_both_words_of_the_key)
{
    for (unsigned word = 0; word < 2; ++word) {
        for (unsigned bit = 0; bit < 64; ++bit) {
            uint64_t other[] = {key[0], key[1]};

            other[word] ^= (uint64_t)1 << bit;
            EXPECT_NE(vqp_siphash(key, words, 3), vqp_siphash(other, words, 3));
        }
    }
}
