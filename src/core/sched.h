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

/** May the path take a frag that needs this? */
static inline int
vqp_sched_fits(const vqp_path_t *path, uint64_t cap, unsigned needs)
{
    return vqp_path_has_room(path, cap) &&
           (!(needs & VQP_NEED_IMM) || vqp_path_has_imm(path)) &&
           (!(needs & VQP_NEED_READ) || (path->reads < path->reads_max));
}

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

/** The same, with the common case inline: rr, and the next path has room. */
static inline vqp_path_t *
vqp_sched_choose(vqp_sched_t sched, vqp_path_t *paths, uint32_t num_paths,
                 uint32_t *next, uint64_t cap, unsigned needs)
{
    vqp_path_t *path = &paths[*next];

    if (vqp_likely((sched == VQP_SCHED_RR) &&
                   vqp_sched_fits(path, cap, needs))) {
        *next = (*next + 1 == num_paths) ? 0 : *next + 1;
        return path;
    }

    return vqp_sched_pick(sched, paths, num_paths, next, cap, needs);
}

#endif
