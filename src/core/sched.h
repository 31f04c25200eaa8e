/*
 * Which path takes the next frag. Pure: libc only. A path can be chosen only if
 * it has room and the credit that the frag spends.
 */
#ifndef VQP_CORE_SCHED_H
#define VQP_CORE_SCHED_H

#include "core/path.h"

typedef enum {
    VQP_SCHED_RR,    /* in turn, over the paths with room */
    VQP_SCHED_LEAST, /* fewest bytes in flight */
    VQP_SCHED_LEFT,  /* through with it first, by the paths' measured pace */
    VQP_SCHED_FIXED  /* the first path that is up and has receives at the peer:
                        for comparison */
} vqp_sched_t;

enum {
    VQP_NEED_IMM  = 1 << 0, /* a receive of the peer */
    VQP_NEED_READ = 1 << 1, /* a READ credit */
    VQP_NEED_RAIL = 1 << 2  /* to go to a certain rail of the peer */
};

/** What a frag wants of a path. */
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
    return vqp_path_has_room(path, want->cap) &&
           (!(want->needs & VQP_NEED_IMM) || vqp_path_has_imm(path)) &&
           (!(want->needs & VQP_NEED_READ) ||
            (path->reads < path->reads_max)) &&
           (!(want->needs & VQP_NEED_RAIL) || (path->peer_rail == want->rail));
}

/**
 * Choose a path.
 *
 * @param [inout] next  Where the search starts; moved behind the choice.
 *
 * @return NULL if no path may take it now, or if it is better to wait for one
 *         that is full: a completion of that one will come.
 */
vqp_path_t *vqp_sched_pick(vqp_sched_t sched, vqp_path_t *paths,
                           uint32_t num_paths, uint32_t *next,
                           const vqp_want_t *want);

/**
 * Is no path's pace, as far as it is known, a quarter above another's? Then all
 * of them in turn is as good as VQP_SCHED_LEFT, while little is in flight.
 */
int vqp_sched_is_even(const vqp_path_t *paths, uint32_t num_paths,
                      uint64_t now);

/**
 * Has the next path in turn no more in flight than the one after it will have?
 * Else frags of unequal length come round to the same paths again and again: so
 * do messages of two frags, the second of them short, over four paths.
 */
static inline int
vqp_sched_is_turn(const vqp_path_t *paths, const vqp_path_t *path,
                  uint64_t length)
{
    return path->bytes <= paths[path->next].bytes + length;
}

/**
 * The same, with the common case inline: the next path has room.
 *
 * @param [in] turn  Bytes in flight on a path up to which all of them in turn is
 *                   as good as what @a sched would find out.
 */
static inline vqp_path_t *
vqp_sched_choose(vqp_sched_t sched, uint64_t turn, vqp_path_t *paths,
                 uint32_t num_paths, uint32_t *next, const vqp_want_t *want)
{
    vqp_path_t *path = &paths[*next];

    if (vqp_likely((path->bytes < turn) && vqp_sched_fits(path, want) &&
                   vqp_sched_is_turn(paths, path, want->length))) {
        *next = path->next;
        return path;
    }

    return vqp_sched_pick(sched, paths, num_paths, next, want);
}

#endif
