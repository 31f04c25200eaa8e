/*
 * Paths that are slow: a path works, and its rate has been less than a quarter of that
 * of its siblings for a while. Its flow may share a link with others, or have got a
 * link that is worse: it is moved to another flow (move.h). Part of the failover; all
 * times in ns. Pure: libc only.
 *
 * Siblings are the paths between the same two rails. Where there are none, all other
 * paths count: then another flow may not help, since a rail is slower than the others.
 * Each move is a trial. A path that is slow again soon after one is not moved before
 * twice the time has passed.
 */
#ifndef VQP_CORE_FAILOVER_SLOW_H
#define VQP_CORE_FAILOVER_SLOW_H

#include "core/vqp_def.h"

/**
 * A look at the paths, see silence.h: have the slowest one moved, if it is time.
 *
 * @param [in] elapsed  Time since the last look, as far as it counts.
 */
void vqp_slow_look(vqp_t *vqp, uint64_t now, uint64_t elapsed);

#endif
