/*
 * Detection of slow paths: a path works, and its rate is below a quarter of that of its
 * siblings for a while. Its flow may share a link with others, or use a slower link. It
 * is moved to another flow (move.h). Part of the failover; all times in ns. Pure: libc
 * only.
 *
 * Siblings are the paths between the same two rails. A path without siblings is compared
 * with all other paths. Then another flow may not help, since the rail may be slow.
 * Each move is a trial: if the path is slow again soon, the time until its next move
 * doubles.
 */
#ifndef VQP_CORE_FAILOVER_SLOW_H
#define VQP_CORE_FAILOVER_SLOW_H

#include "core/vqp_def.h"

/**
 * Part of a look at the paths, see silence.h: request the move of the slowest path if one
 * is due.
 *
 * @param [in] elapsed  ns since the last look, as far as they count.
 */
void vqp_slow_look(vqp_t *vqp, uint64_t now, uint64_t elapsed);

#endif
