/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers of an interface: which of its vqps is due first. A pairing heap; its nodes
 * are embedded in their owners, so setting a timer needs no memory. Pure: libc only; time
 * is nanoseconds of any monotonic clock. Not thread-safe.
 */
#ifndef VQP_CORE_TIMERS_H
#define VQP_CORE_TIMERS_H

#include <stddef.h>
#include <stdint.h>

#define VQP_TIMER_NEVER UINT64_MAX

/** One timer. All zero: it is not set. It must stay where it is while it is set. */
typedef struct vqp_timer {
    uint64_t          due;    /* ns */
    struct vqp_timer *child;  /* the first of those that are due later */
    struct vqp_timer *next;   /* the next child of the same parent */
    struct vqp_timer *prev;   /* the one before it, or the parent */
    int               is_set;
} vqp_timer_t;

/** All zero: no timer is set. */
typedef struct vqp_timers {
    vqp_timer_t *root; /* the first that is due, or NULL */
} vqp_timers_t;

/**
 * Set a timer, or change it. O(1) if it was not set, else O(log n) amortized.
 *
 * @param [in] due  ns; VQP_TIMER_NEVER: it is not set any more.
 */
void vqp_timers_set(vqp_timers_t *timers, vqp_timer_t *timer, uint64_t due);

/** When the first timer is due; VQP_TIMER_NEVER: none is set. */
static inline uint64_t vqp_timers_next(const vqp_timers_t *timers)
{
    return (timers->root == NULL) ? VQP_TIMER_NEVER : timers->root->due;
}

/** Take out the first timer if it is due. @return It, or NULL. */
vqp_timer_t *vqp_timers_pop(vqp_timers_t *timers, uint64_t now);

#endif
