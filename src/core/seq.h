/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrap-safe arithmetic on the sequence numbers of the protocol. Every compare
 * of an fsn, a ring position or an op number goes through this header: a simple
 * '<' on a number that wraps is wrong once in every wrap.
 */
#ifndef VQP_CORE_SEQ_H
#define VQP_CORE_SEQ_H

#include <stdint.h>

#define VQP_FSN_BITS 24
#define VQP_FSN_MASK ((1u << VQP_FSN_BITS) - 1)

/** Signed distance from fsn @a b to fsn @a a; exact while |a - b| < 2^23. */
static inline int32_t vqp_fsn_diff(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << (32 - VQP_FSN_BITS)) >> (32 - VQP_FSN_BITS);
}

/** fsn + n, modulo 2^24. */
static inline uint32_t vqp_fsn_add(uint32_t fsn, uint32_t n)
{
    return (fsn + n) & VQP_FSN_MASK;
}

/** Signed distance from @a b to @a a for 32-bit op numbers and positions. */
static inline int32_t vqp_seq_diff(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

#endif
