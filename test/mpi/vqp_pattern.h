/*
 * What the MPI and OpenSHMEM programs of the tests send: data that follow from a
 * seed, the sender, the receiver and the number of the message, so that each byte
 * can be checked where it arrives. libc only.
 */
#ifndef VQP_PATTERN_H
#define VQP_PATTERN_H

#include <stdint.h>
#include <string.h>

/* The mixing step of splitmix64: each bit of x affects each bit of the result */
static inline uint64_t vqp_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* The next number below limit, which is above 0 */
static inline uint64_t vqp_draw(uint64_t *random, uint64_t limit)
{
    *random += 0x9e3779b97f4a7c15ull;
    return vqp_mix(*random) % limit;
}

/* A size in 0..max, spread evenly over the orders of magnitude, so that each
 * protocol gets its share */
static inline size_t vqp_draw_size(uint64_t *random, size_t max)
{
    uint64_t limit = 2;
    int orders     = 1;

    while (limit < max) {
        limit *= 2;
        ++orders;
    }
    limit = 2ull << vqp_draw(random, orders);
    if (limit > max) {
        limit = max;
    }
    return vqp_draw(random, limit + 1);
}

/* The key of a message's data */
static inline uint64_t vqp_pattern_key(uint64_t seed, int src, int dst, int id)
{
    return vqp_mix(seed ^ vqp_mix(((uint64_t)src << 48) ^ ((uint64_t)dst << 32) ^
                                  (uint32_t)id));
}

/* Word i of the data; the bytes of the last, shorter one are its first */
static inline uint64_t vqp_pattern_word(uint64_t key, size_t i)
{
    return (key + i) * 0x9e3779b97f4a7c15ull;
}

static inline void vqp_pattern_fill(uint64_t key, void *buffer, size_t length)
{
    uint64_t word;
    size_t i;

    for (i = 0; i < length / 8; ++i) {
        word = vqp_pattern_word(key, i);
        memcpy((char*)buffer + i * 8, &word, 8);
    }
    word = vqp_pattern_word(key, i);
    memcpy((char*)buffer + i * 8, &word, length % 8);
}

/* The offset of the first word that is wrong, or length */
static inline size_t
vqp_pattern_check(uint64_t key, const void *buffer, size_t length)
{
    uint64_t word;
    size_t i, n;

    for (i = 0; i * 8 < length; ++i) {
        n    = (length - i * 8 < 8) ? length - i * 8 : 8;
        word = vqp_pattern_word(key, i);
        if (memcmp((const char*)buffer + i * 8, &word, n) != 0) {
            return i * 8;
        }
    }

    return length;
}

#endif
