/* SPDX-License-Identifier: BSD-3-Clause */
/* Little-endian numbers of any width in a byte stream. Pure: libc only. */
#ifndef VQP_CORE_LE_H
#define VQP_CORE_LE_H

#include <stdint.h>

/** Write the low @a bytes bytes of @a value; moves @a pos behind them. */
static inline void vqp_le_put(uint8_t **pos, uint64_t value, unsigned bytes)
{
    unsigned i;

    for (i = 0; i < bytes; ++i) {
        *(*pos)++ = (uint8_t)(value >> (8 * i));
    }
}

/** Read a number of @a bytes bytes, which the caller has checked to exist. */
static inline uint64_t vqp_le_get(const uint8_t **pos, unsigned bytes)
{
    uint64_t value = 0;
    unsigned i;

    for (i = 0; i < bytes; ++i) {
        value |= (uint64_t)*(*pos)++ << (8 * i);
    }

    return value;
}

#endif
