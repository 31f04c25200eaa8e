/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiver's reorder window over fsn: which immediates have arrived ahead
 * of the next expected one. An index, not a list: one byte per fsn, O(1) for
 * each arrival. No allocation: the caller gives the map.
 *
 * Invariant: every fsn in [base, base + size) is either absent (map byte 0) or
 * present with its flags; nothing outside is ever present.
 */
#ifndef VQP_CORE_DATA_WINDOW_H
#define VQP_CORE_DATA_WINDOW_H

#include "core/data/imm.h"
#include "core/status.h"

typedef struct vqp_window {
    uint32_t base;    /* next expected fsn */
    uint32_t mask;    /* size - 1, a power of two */
    uint32_t ahead;   /* fsns present beyond base: a gap exists while > 0 */
    uint32_t ooo_max; /* largest distance that an arrival ran ahead */
    uint8_t  *map;    /* size bytes */
} vqp_window_t;

#define VQP_WINDOW_PRESENT 0x80 /* never a flag of an immediate, see >> 24 */

/**
 * Start an empty window.
 *
 * @param [in] map   @a size bytes that outlive the window; cleared here.
 * @param [in] size  A power of two, at most 2^22.
 * @param [in] first The first fsn that the peer will use.
 */
void vqp_window_init(vqp_window_t *win, uint8_t *map, uint32_t size,
                     uint32_t first);

/**
 * Mark an immediate as arrived.
 *
 * @return VQP_OK, VQP_INPROGRESS when it is a late or duplicate one (to be
 *         dropped and counted), VQP_ERR_PROTOCOL when it is outside of the
 *         window or malformed: the peer is broken.
 */
vqp_status_t vqp_window_insert(vqp_window_t *win, uint32_t imm);

/**
 * Is an fsn missing that later ones wait for? Any thread may call it; the result
 * may be outdated when it returns.
 */
static inline int vqp_window_has_gap(const vqp_window_t *win)
{
    return __atomic_load_n(&win->ahead, __ATOMIC_RELAXED) > 0;
}

/**
 * Pass the next expected fsn if it has arrived.
 *
 * @param [out] flags  VQP_IMM_* flags of the passed immediate.
 *
 * @return 1 if the base moved by one, else 0.
 */
static inline int vqp_window_next(vqp_window_t *win, uint32_t *flags)
{
    uint8_t *slot = &win->map[win->base & win->mask];

    if (vqp_likely(win->ahead == 0) || (*slot == 0)) {
        return 0;
    }

    *flags    = (uint32_t)(*slot & ~VQP_WINDOW_PRESENT) << VQP_FSN_BITS;
    *slot     = 0;
    win->base = vqp_fsn_add(win->base, 1);
    __atomic_store_n(&win->ahead, win->ahead - 1, __ATOMIC_RELAXED);
    return 1;
}

/**
 * Take an immediate that is the next expected one; the map is looked at only
 * while others are ahead. What it lets pass is taken with @ref vqp_window_next.
 *
 * @return 1 if it was in order and the base has moved, 0 if
 *         @ref vqp_window_insert has to look at it.
 */
static inline int vqp_window_in_order(vqp_window_t *win, uint32_t imm)
{
    if ((vqp_imm_fsn(imm) != win->base) ||
        (vqp_unlikely(win->ahead != 0) &&
         (win->map[win->base & win->mask] != 0))) {
        return 0; /* the latter: it is here already, and not yet passed */
    }

    win->base = vqp_fsn_add(win->base, 1);
    return 1;
}

#endif
