/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which path takes the next frag. Pure: libc only. A path can be chosen only if
 * it has room and the credit that the frag spends.
 */
#ifndef VQP_CORE_DATA_SCHED_H
#define VQP_CORE_DATA_SCHED_H

#include "core/data/path.h"

typedef enum {
    VQP_SCHED_RR,  /* in turn, over the paths with room */
    VQP_SCHED_LEFT /* least expected finish time, by the measured rates */
} vqp_sched_t;

enum {
    VQP_NEED_RAIL    = 1 << 0, /* to go to a certain rail of the peer */
    VQP_NEED_CONTROL = 1 << 1  /* no more than the reserve for control: in turn */
};

/** What a frag needs of a path. */
typedef struct vqp_want {
    uint64_t cap;    /* bytes in flight at which a path is full */
    uint64_t length; /* of the frag */
    uint64_t left;   /* of its op, from the frag on */
    uint64_t now;    /* ns; left only */
    unsigned needs;  /* VQP_NEED_* */
    unsigned rail;   /* with VQP_NEED_RAIL */
} vqp_want_t;

/** May the path take it? */
static inline int
vqp_sched_fits(const vqp_path_t *path, const vqp_want_t *want)
{
    if (vqp_likely(want->needs == 0)) {
        return vqp_path_has_room(path, want->cap);
    }

    return ((want->needs & VQP_NEED_CONTROL) ?
                    vqp_path_has_reserve(path) :
                    vqp_path_has_room(path, want->cap)) &&
           (!(want->needs & VQP_NEED_RAIL) || (path->peer_rail == want->rail));
}

/**
 * Choose a path.
 *
 * @param [inout] next      Where the search starts; moved behind the choice.
 * @param [out]   deferred  Set to 1 if a path would fit, and it is better to wait
 *                          for a busy one; else not changed. NULL: do not wait.
 *
 * @return NULL if no path may take it now. If deferred: either a completion of the
 *         busy path comes, or that path is late; call again from time to time.
 */
vqp_path_t *vqp_sched_pick(vqp_sched_t sched, vqp_path_t *paths,
                           uint32_t num_paths, uint32_t *next,
                           const vqp_want_t *want, uint8_t *deferred);

/**
 * Are all known costs of the paths within a quarter of each other? Then, while
 * little is in flight, all paths in turn is as good as VQP_SCHED_LEFT.
 */
int vqp_sched_is_symmetric(const vqp_path_t *paths, uint32_t num_paths,
                           uint64_t now);

/**
 * Has the next path in turn no more in flight than the one after it will have?
 * Otherwise frags of unequal length would use the same paths repeatedly: for
 * example messages of two frags, the second of them short, over four paths.
 */
static inline int
vqp_sched_is_turn(const vqp_path_t *paths, const vqp_path_t *path,
                  uint64_t length)
{
    return path->bytes <= paths[path->next].bytes + length;
}

#endif
