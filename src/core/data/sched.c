/* SPDX-License-Identifier: BSD-3-Clause */
/* Path schedulers, see sched.h. Pure: libc only. */
#include "core/data/sched.h"

#include "core/cover.h"

/* Walks all paths once, from *next on */
#define vqp_sched_for_each(_path, _i, _paths, _num_paths, _next) \
    for ((_i) = 0, (_path) = &(_paths)[_next]; (_i) < (_num_paths); \
         ++(_i), (_path) = ((_path)->index + 1u == (_num_paths)) ? \
                                   (_paths) : (_path) + 1)

static vqp_path_t *vqp_sched_rr(vqp_path_t *paths, uint32_t num_paths,
                                uint32_t next, const vqp_want_t *want)
{
    vqp_path_t *path;
    uint32_t i;

    vqp_sched_for_each(path, i, paths, num_paths, next) {
        if (vqp_sched_fits(path, want)) {
            return path;
        }
    }

    return NULL;
}

/* The lowest cost that is known, or 1 ns per byte: any that tells bytes apart */
static uint32_t vqp_sched_best_cost(const vqp_path_t *paths, uint32_t num_paths,
                                    uint64_t now)
{
    uint32_t best = UINT32_MAX;
    uint32_t cost, i;

    for (i = 0; i < num_paths; ++i) {
        cost = vqp_rate_cost(&paths[i].rate, now);
        if ((cost != 0) && (cost < best)) {
            best = cost;
        }
    }

    return (best == UINT32_MAX) ? 1u << VQP_RATE_UNIT_SHIFT : best;
}

int vqp_sched_is_symmetric(const vqp_path_t *paths, uint32_t num_paths,
                      uint64_t now)
{
    uint64_t low  = UINT32_MAX;
    uint64_t high = 0;
    uint32_t i, cost;

    for (i = 0; i < num_paths; ++i) {
        cost = vqp_rate_cost(&paths[i].rate, now);
        if (cost != 0) {
            low  = vqp_min(low, (uint64_t)cost);
            high = vqp_max(high, (uint64_t)cost);
        }
    }

    return high * 4 <= low * 5;
}

/* May the path take the frag when it has room? */
static inline int vqp_sched_may(const vqp_path_t *path, const vqp_want_t *want)
{
    return path->up && (!(want->needs & VQP_NEED_RAIL) ||
                        (path->peer_rail == want->rail));
}

/* Would all paths together, each at its rate, finish what they have and all that
 * is left of the op before @a finish ns are over? */
static int vqp_sched_too_late(const vqp_path_t *paths, uint32_t num_paths,
                              uint64_t finish, const vqp_want_t *want)
{
    uint64_t bytes = want->left;
    uint64_t rate  = 0;
    uint32_t i;

    for (i = 0; i < num_paths; ++i) {
        if (vqp_sched_may(&paths[i], want) &&
            (vqp_rate_cost(&paths[i].rate, want->now) != 0)) {
            bytes += paths[i].bytes;
            rate  += paths[i].rate.inverse;
        }
    }

    /* limited to half a second, so that the product fits 64 bits */
    return (vqp_min(finish, 1ul << 29) * rate) >
           (bytes << (VQP_RATE_INV_SHIFT - VQP_RATE_UNIT_SHIFT));
}

/* The least expected finish time. A path whose rate is unknown or expired counts
 * as equal to the best, so that it is tried. While other paths are full, a slow
 * one gets a frag only if the op does not have to wait for it. A full path that
 * is late is not waited for: it may have stopped. Of one that is not being measured
 * nobody would see that it is late. */
static vqp_path_t *
vqp_sched_left(vqp_path_t *paths, uint32_t num_paths, uint32_t next,
               const vqp_want_t *want, uint8_t *deferred)
{
    uint32_t best_cost = vqp_sched_best_cost(paths, num_paths, want->now);
    uint64_t one_frag  = vqp_rate_finish(best_cost, want->length);
    uint64_t first     = UINT64_MAX;
    vqp_path_t *best   = NULL;
    int is_other_full  = 0;
    vqp_path_t *path;
    uint32_t cost, i;
    uint64_t finish;

    vqp_sched_for_each(path, i, paths, num_paths, next) {
        cost = vqp_rate_cost(&path->rate, want->now);
        if (vqp_sched_fits(path, want)) {
            finish = vqp_rate_finish(cost ? cost : best_cost,
                                     path->bytes + want->length);
            if (finish < first) {
                first = finish;
                best  = path;
            }
        } else if (vqp_sched_may(path, want) && (cost != 0) &&
                   (path->rate.start != 0) && (deferred != NULL) &&
                   !vqp_rate_is_late(&path->rate, path->bytes, want->now)) {
            is_other_full = 1;
        }
    }

    /* A frag is not split further: a path that is late by less than one frag is
     * in time. Otherwise equal paths would wait for each other because of small
     * differences of their measured rates */
    if (!is_other_full || (best == NULL) ||
        !vqp_sched_too_late(paths, num_paths, first - one_frag, want)) {
        return best;
    }

    vqp_cover(SCHED_DEFERRED);
    *deferred = 1;
    return NULL;
}

vqp_path_t *vqp_sched_pick(vqp_sched_t sched, vqp_path_t *paths,
                           uint32_t num_paths, uint32_t *next,
                           const vqp_want_t *want, uint8_t *deferred)
{
    vqp_path_t *best = (sched == VQP_SCHED_LEFT) ?
            vqp_sched_left(paths, num_paths, *next, want, deferred) :
            vqp_sched_rr(paths, num_paths, *next, want);

    if (best != NULL) {
        *next = best->next;
    }

    return best;
}
