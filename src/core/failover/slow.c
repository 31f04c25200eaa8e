/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection of slow paths, see slow.h. Pure: libc only. */
#include "core/failover/slow.h"

#include "core/failover/move.h"

#define VQP_SLOW_RATIO 4ul /* a path is slow if it costs that many times more */

/* With rr no rates are measured when frags are posted: measure what is in flight
 * now, if it is much. Frags without a CQE to come end the interval: they may wait for
 * later ones */
static void vqp_slow_measure(vqp_t *vqp, vqp_path_t *path, uint64_t now)
{
    if (vqp->tx.cfg.sched == VQP_SCHED_LEFT) {
        return;
    }

    if (!vqp_path_awaits_cqe(path)) {
        path->rate.start = 0;
    } else if ((path->rate.start == 0) && (path->bytes >= VQP_RATE_SAMPLE)) {
        vqp_rate_begin(&path->rate, now);
    }
}

static int vqp_slow_is_sibling(const vqp_path_t *path, const vqp_path_t *other)
{
    return (path != other) && !vqp_path_is_off(other) && (path->rail == other->rail) &&
           (path->peer_rail == other->peer_rail);
}

static int vqp_slow_has_sibling(const vqp_t *vqp, const vqp_path_t *path)
{
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        if (vqp_slow_is_sibling(path, &vqp->tx.paths.list[i])) {
            return 1;
        }
    }

    return 0;
}

/* The median of the known costs of the paths that this one is compared with, the upper
 * one if their number is even; 0: none is known */
static uint32_t
vqp_slow_median(const vqp_t *vqp, const vqp_path_t *path, uint64_t now)
{
    int has_sibling = vqp_slow_has_sibling(vqp, path);
    uint32_t costs[VQP_MAX_PATHS];
    unsigned count  = 0;
    const vqp_path_t *other;
    uint32_t cost, i;
    unsigned j;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        other = &vqp->tx.paths.list[i];
        cost  = other->up ? vqp_rate_recent(&other->rate, now) : 0;
        if ((cost == 0) || (other == path) ||
            (has_sibling && !vqp_slow_is_sibling(path, other))) {
            continue;
        }

        for (j = count++; (j > 0) && (costs[j - 1] > cost); --j) {
            costs[j] = costs[j - 1];
        }
        costs[j] = cost;
    }

    return (count == 0) ? 0 : costs[count / 2];
}

/* Add to the time for which the path was slow. Time without traffic does not count */
static void
vqp_slow_count(vqp_t *vqp, vqp_path_t *path, uint32_t best, uint64_t now,
               uint64_t elapsed)
{
    uint32_t cost   = vqp_rate_recent(&path->rate, now);
    uint32_t median = vqp_slow_median(vqp, path, now);

    if ((cost == 0) || (median == 0)) {
        return;
    }

    if ((cost <= VQP_SLOW_RATIO * best) || (cost <= VQP_SLOW_RATIO * median)) {
        vqp_cover_if(path->fo.slow != 0, SLOW_ENDS);
        path->fo.slow = 0;
    } else if (path->fo.has_progress || path->fo.is_stalled) {
        path->fo.slow += elapsed;
    }
}

/* Request another flow. The time until the next one doubles if the path was slow again
 * soon */
static void vqp_slow_move(vqp_t *vqp, vqp_path_t *path, uint64_t now)
{
    vqp_failover_t *fo = &path->fo;
    int is_again       = (fo->slow_wait != 0) &&
                         (now - fo->slow_next < fo->slow_wait);

    vqp_cover_if(is_again, SLOW_AGAIN);
    fo->slow_wait  = is_again ? vqp_min(2 * fo->slow_wait, vqp->failover.slow_max) :
                                vqp->failover.slow_first;
    fo->slow_next  = now + fo->slow_wait;
    vqp->slow_next = now + vqp->failover.slow_first;
    if (vqp->failover.rehash && !fo->rehashed) {
        fo->rehashed = 1;
        vqp_path_post(vqp, path, VQP_PATH_TODO_REHASH);
    } else {
        vqp_path_request_move(vqp, path);
    }
}

void vqp_path_rehashed(vqp_t *vqp, vqp_path_t *path, vqp_status_t status)
{
    vqp_failover_t *fo = &path->fo;

    if (status == VQP_OK) {
        vqp_cover(SLOW_REHASH);
        ++vqp->stats.rehashes;
        fo->slow = 0;
        return;
    }

    if (status == VQP_ERR_UNSUPPORTED) {
        vqp->failover.rehash = 0; /* now and later */
    }
    if ((fo->state == VQP_PATH_UP) && (fo->mover == VQP_MOVER_NONE)) {
        vqp_cover(SLOW_REHASH_FAILED);
        vqp_path_request_move(vqp, path);
    }
}

void vqp_slow_look(vqp_t *vqp, uint64_t now, uint64_t elapsed)
{
    uint32_t best      = UINT32_MAX;
    vqp_path_t *chosen = NULL;
    vqp_path_t *path;
    uint32_t cost, i;

    /* One move at a time: it changes the rates of the other paths, as a failure does */
    if ((vqp->failover.slow == 0) || (vqp->state != VQP_STATE_LIVE) ||
        !vqp->tx.paths.settled) {
        return;
    }

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        vqp_slow_measure(vqp, path, now);
        cost = vqp_rate_recent(&path->rate, now);
        best = (cost != 0) ? vqp_min(best, cost) : best;
    }

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        vqp_slow_count(vqp, path, best, now, elapsed);
        if ((path->fo.slow >= vqp->failover.slow) && (now >= path->fo.slow_next) &&
            ((chosen == NULL) || (path->fo.slow > chosen->fo.slow))) {
            chosen = path;
        }
    }

    if ((chosen != NULL) && (now >= vqp->slow_next)) {
        vqp_slow_move(vqp, chosen, now);
    }
}
