/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of slow paths: a path works, and its rate is below a quarter of that of its
 * siblings for a while. Its flow may share a link with others, or use a slower link. It
 * gets another flow: its owner changes the source port while the path is used
 * (VQP_EVENT_PATH_REHASH), or it is moved to another queue pair (move.h). The first is
 * tried once, if the owner can. It changes the flow of what this side sends only, so a path
 * that is slow again is moved: this changes the flow of the answers to READs, too. Part of
 * the failover; all times in ns. Pure: libc only.
 *
 * Siblings are the paths between the same two rails. A path without siblings is compared
 * with all other paths. Then another flow may not help, since the rail may be slow.
 * Each of both is a trial: if the path is slow again soon, the time until the next one
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

/**
 * VQP_EVENT_PATH_REHASH was done.
 *
 * @param [in] status  Other than VQP_OK: the path is moved. VQP_ERR_UNSUPPORTED: the owner
 *                     can not, now and later.
 */
void vqp_path_rehashed(vqp_t *vqp, vqp_path_t *path, vqp_status_t status);

#endif
