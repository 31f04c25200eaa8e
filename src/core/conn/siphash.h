/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-2-4 of 64-bit words: a keyed hash that can not be computed without the key, even
 * if many results are known. Written after the paper: Aumasson, Bernstein, "SipHash: a fast
 * short-input PRF", 2012. Pure: libc only.
 */
#ifndef VQP_CORE_CONN_SIPHASH_H
#define VQP_CORE_CONN_SIPHASH_H

#include <stdint.h>

static inline uint64_t vqp_siphash_rotl(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

static inline void vqp_siphash_rounds(uint64_t v[4], unsigned num)
{
    while (num-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1]  = vqp_siphash_rotl(v[1], 13) ^ v[0];
        v[3]  = vqp_siphash_rotl(v[3], 16) ^ v[2];
        v[0]  = vqp_siphash_rotl(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1]  = vqp_siphash_rotl(v[1], 17) ^ v[2];
        v[3]  = vqp_siphash_rotl(v[3], 21) ^ v[0];
        v[2]  = vqp_siphash_rotl(v[2], 32);
    }
}

/** The hash of @a num words, in little-endian byte order. */
static inline uint64_t vqp_siphash(const uint64_t key[2], const uint64_t *words,
                                   unsigned num)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull,
                     key[0] ^ 0x6c7967656e657261ull, key[1] ^ 0x7465646279746573ull};
    uint64_t word;
    unsigned i;

    for (i = 0; i <= num; ++i) { /* the last one is the length, in bytes */
        word  = (i < num) ? words[i] : ((uint64_t)(num * 8) << 56);
        v[3] ^= word;
        vqp_siphash_rounds(v, 2);
        v[0] ^= word;
    }

    v[2] ^= 0xff;
    vqp_siphash_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
