/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow labels of paths, see entropy.h. Pure: libc only. */
#include "core/conn/entropy.h"

/* The mixing step of splitmix64 */
static uint64_t vqp_entropy_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* A permutation of the 14-bit numbers that the salt selects: a Feistel network
 * of four rounds over halves of 7 bits. So the results are distinct, and look
 * random. */
static uint32_t vqp_entropy_permute(uint64_t salt, uint32_t value)
{
    uint32_t left  = value >> 7;
    uint32_t right = value & 0x7f;
    uint32_t swap;
    unsigned round;

    for (round = 0; round < 4; ++round) {
        swap  = left ^ (vqp_entropy_mix(salt + (round << 7) + right) & 0x7f);
        left  = right;
        right = swap;
    }

    return (left << 7) | right;
}

uint32_t vqp_entropy_label(uint64_t salt, unsigned index)
{
    uint64_t key  = vqp_entropy_mix(salt);
    uint32_t port = vqp_entropy_permute(key, index & 0x3fff);
    uint32_t high = (uint32_t)(key >> 58);

    if ((high == 0) && (port == 0)) {
        high = 1; /* the same port, by a label that is not zero */
    }

    return (high << 14) | (port ^ high);
}
