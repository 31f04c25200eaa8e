/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both ends of a verified stream know: the messages, the contents of memory, and the
 * account that the sending end gives after each round. libc only.
 */
#ifndef VQP_TOOLS_ACCEPT_ROUND_H
#define VQP_TOOLS_ACCEPT_ROUND_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ACCEPT_ROUND_AM_ID 7
#define ACCEPT_ROUND_OPS   96          /* operations: each third is of one kind */
#define ACCEPT_ROUND_SIZE  (2ul << 20) /* bytes of the target of the puts */

/** What a message begins with; the payload follows from the number. */
typedef struct accept_am {
    uint64_t number;
    uint64_t length; /* of the payload */
} accept_am_t;

static inline unsigned char accept_am_byte(uint64_t number, size_t i)
{
    return (unsigned char)((number * 131u) + (i * 7u));
}

/** The account of a round: what the target must be, and what must have arrived. */
typedef struct accept_round {
    uint64_t seed;     /* of the source of the puts */
    uint64_t ams;      /* messages of all rounds */
    uint64_t sum;      /* of the atomics of all rounds */
    uint32_t num_puts;
    uint32_t reserved;
    struct {
        uint32_t offset;
        uint32_t size;
    } puts[ACCEPT_ROUND_OPS];
} accept_round_t;

/** xorshift64. @param [in,out] state  not 0 */
static inline uint64_t accept_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/** Fill the source of the puts of a round, of ACCEPT_ROUND_SIZE bytes. */
static inline void accept_round_fill(char *data, uint64_t seed)
{
    uint64_t value;
    size_t i;

    for (i = 0; i < ACCEPT_ROUND_SIZE; i += sizeof(value)) {
        value = accept_random(&seed);
        memcpy(data + i, &value, sizeof(value));
    }
}

#endif
