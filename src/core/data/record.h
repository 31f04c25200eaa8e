/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header in front of every active message in the ring, and the credit cell
 * that a credit update writes. docs/protocol.md has the byte tables. Both
 * ends are little endian (the connection handshake checks it).
 */
#ifndef VQP_CORE_DATA_RECORD_H
#define VQP_CORE_DATA_RECORD_H

#include "core/seq.h"

typedef struct vqp_record {
    uint32_t length;      /* payload bytes that follow */
    uint8_t  am_id;
    uint8_t  flags;       /* VQP_RECORD_* */
    uint16_t reserved;    /* zero */
    uint32_t credit_ring; /* cumulative ring bytes the sender has consumed */
    uint32_t credit_fsn;  /* next fsn that the sender expects; credit is zero in a record
                             that is not the first one of its immediate */
} vqp_record_t;

enum {
    VQP_RECORD_MORE = 1u << 0 /* another record follows, closed by the same immediate */
};

enum {
    VQP_CELL_REQUEST = 1u << 0 /* the writer requests a credit update */
};

typedef struct vqp_cell {
    uint32_t credit_ring;
    uint32_t credit_fsn;
    uint32_t flags; /* VQP_CELL_* */
    uint32_t reserved;
} vqp_cell_t;

#define VQP_RECORD_ALIGN 16u
#define VQP_CELL_STRIDE  64u /* one cache line per path */

/**
 * Delayed credit is older than the newest credit by at most one ring for each fsn
 * of the window: no more can be sent while an immediate that carries credit is
 * delayed. Positions have 32 bits and fsns 24: they are compared within half of
 * this range.
 */
#define VQP_RING_WINDOW_MAX (1ull << 31) /* ring bytes x window */
#define VQP_FSN_WINDOW_MAX  2048u        /* its square is below 2^23 */

/**
 * A receiver advertises its credit when it has consumed this part of the ring, or of the
 * window. The sender can not use what is consumed and not advertised, for as long as the
 * receiver computes.
 */
#define VQP_CREDIT_SHARE 4

/** Credit that a receiver advertises to its peer. */
typedef struct vqp_credit {
    uint32_t ring; /* cumulative bytes consumed */
    uint32_t fsn;  /* next expected */
} vqp_credit_t;

static inline void vqp_record_fill(vqp_record_t *record, uint8_t am_id,
                                   uint32_t length, const vqp_credit_t *credit)
{
    record->length      = length;
    record->am_id       = am_id;
    record->flags       = 0;
    record->reserved    = 0;
    record->credit_ring = credit->ring;
    record->credit_fsn  = credit->fsn;
}

/** Ring bytes that a record with @a length bytes of payload takes. */
static inline uint32_t vqp_record_size(uint32_t length)
{
    return (length + (uint32_t)sizeof(vqp_record_t) + VQP_RECORD_ALIGN - 1) &
           ~(VQP_RECORD_ALIGN - 1);
}

/** The same for a length that the peer has written, which may have any value. */
static inline uint64_t vqp_record_size64(uint32_t length)
{
    return ((uint64_t)length + sizeof(vqp_record_t) + VQP_RECORD_ALIGN - 1) &
           ~(uint64_t)(VQP_RECORD_ALIGN - 1);
}

/** Largest payload for a ring: a record takes at most half of it. */
static inline uint32_t vqp_record_max_payload(uint32_t ring_size)
{
    return (ring_size / 2) - (uint32_t)sizeof(vqp_record_t);
}

#endif
