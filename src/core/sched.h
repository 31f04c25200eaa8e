/*
 * Which path takes the next frag. Pure: libc only. A path can be chosen only if
 * it has room and the credit that the frag spends.
 */
#ifndef VQP_CORE_SCHED_H
#define VQP_CORE_SCHED_H

#include "core/path.h"

typedef enum {
    VQP_SCHED_RR,   /* in turn, over the paths with room */
    VQP_SCHED_LEAST /* fewest bytes in flight */
} vqp_sched_t;

enum {
    VQP_NEED_IMM  = 1 << 0, /* a receive of the peer */
    VQP_NEED_READ = 1 << 1  /* a READ credit */
};

/**
 * Choose a path.
 *
 * @param [inout] next  Where the search starts; moved behind the choice.
 * @param [in]    cap   Bytes in flight at which a path is full.
 * @param [in]    needs VQP_NEED_* of the frag.
 *
 * @return NULL if no path may take it now.
 */
vqp_path_t *vqp_sched_pick(vqp_sched_t sched, vqp_path_t *paths,
                           uint32_t num_paths, uint32_t *next, uint64_t cap,
                           unsigned needs);

#endif
