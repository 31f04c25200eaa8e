/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many paths an endpoint uses: a trial shows whether one more pays. Part of the
 * failover; all times in ns. Pure: libc only.
 *
 * While the paths are full, the rate of all of them together is measured. A path is added
 * then. It is kept if the rate has risen: there is another link, or another
 * resource for each queue pair. If not, its flow shares a link with another one: it is
 * dropped, and the next path is tried, with another flow label; after some tries at growing
 * intervals. Paths that are not used for long are dropped.
 *
 *     STEADY    measure; add a path if a trial is due
 *     ADDING    the path is not UP yet
 *     TRIAL     it is UP: measure, and keep or drop it
 *
 * The paths of the handshake may be short: with a short send queue, which an idle endpoint
 * keeps. The first path that is added on the rails of a short one replaces it. That is no
 * trial: once the new path is UP the short one is dropped.
 *
 * Each side judges what it sends. It drops paths beyond the number that has paid for itself,
 * and agrees to drop those; so a path stays while one side needs it.
 */
#ifndef VQP_CORE_FAILOVER_ELASTIC_H
#define VQP_CORE_FAILOVER_ELASTIC_H

#include "core/vqp_def.h"

/** Initialize for a vqp without frags in flight: no look is due. */
void vqp_elastic_init(vqp_t *vqp);

/** The first frag was posted while none was in flight: look from now on, if the rule is on. */
static inline void vqp_elastic_start(vqp_t *vqp)
{
    if (vqp->failover.elastic != 0) {
        vqp->elastic.due = 0;
    }
}

/** Are the paths full with what any of them could take? An AM or put waits for room, or each
 *  path that is up has as much in flight as may keep it busy when there are several. */
int vqp_elastic_is_spread(const vqp_t *vqp);

/** Slots of the next queue pair of the path: all if it was off, since it is added under load
 *  then, or because it is needed; else as many as it had. */
static inline uint16_t vqp_path_next_depth(const vqp_t *vqp, const vqp_path_t *path)
{
    return (path->fo.unused || path->fo.added) ? vqp_max(vqp->depth, path->depth) :
                                                 path->depth;
}

/**
 * Look at the paths if a look is due: measure, and add or drop a path.
 *
 * @param [in] is_drained  All completions that had arrived were handled. If not, the time
 *                         since the last look does not count.
 */
void vqp_elastic_look(vqp_t *vqp, uint64_t now, int is_drained);

#endif
