/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Move a path that works to another flow: to a new queue pair with another flow label.
 * Part of the failover; failover.h has the states that follow. Pure: libc only.
 *
 * The path goes down when nothing is in flight on either side. So nothing is replayed,
 * and no atomic loses its result. The requesting side sends PATH_DOWN with LEAVING once,
 * and goes on using the path. The peer enters LEAVE and answers when it calls progress, and
 * has the path UP, too:
 *
 *     LEAVE     takes no frags; sends PATH_DOWN with LEAVING, and with DRAINED too once
 *               nothing of its own is in flight
 *     QUIESCE   when both sides have sent DRAINED
 *
 * So a peer that computes does not keep the requesting side from using the path. The
 * side in LEAVE uses its other paths.
 *
 * A path is dropped by a move after which no side rebuilds it: LEAVING has UNUSED, too. The
 * peer ignores that if it wants more than would be left. Both sides may want
 * different things at once. A path that only one of them has dropped is rebuilt by the
 * other one. A side that has requested a drop and has too few other paths by the time when
 * the peer agrees rebuilds the path, too. So a path is always left.
 */
#ifndef VQP_CORE_FAILOVER_MOVE_H
#define VQP_CORE_FAILOVER_MOVE_H

#include "core/failover/failover_int.h"

/** Request the peer to move the path, which is UP. The peer need not do so. A request to
 *  drop it is withdrawn: the peer has not agreed, and may never do so. */
void vqp_path_request_move(vqp_t *vqp, vqp_path_t *path);

/**
 * Request the peer to drop the path. The peer need not do so.
 *
 * @return 1, or 0 if the path is not UP, or too few others are.
 */
int vqp_path_drop(vqp_t *vqp, vqp_path_t *path);

/** @return Number of paths but @a except that are UP, and that this side does not want to
 *          drop. */
unsigned vqp_paths_kept(const vqp_t *vqp, const vqp_path_t *except);

/** Handle the peer's PATH_DOWN with LEAVING, of the path's epoch. If the path is not UP on
 *  this side yet, vqp_paths_leave() does. */
void vqp_path_on_leaving(vqp_t *vqp, vqp_path_t *path, const vqp_path_msg_t *msg);

/** Fill in type, body and further flags of the message of a path that is in LEAVE, or
 *  that requests a move. */
void vqp_path_leaving_message(vqp_path_t *path, vqp_path_msg_t *msg);

/** Of each path in LEAVE: add the nop to @a batch that brings its last completion, or
 *  send DRAINED once it is empty. Of a path that has become UP: do what the peer has asked
 *  for until then. Call after vqp_path_drain(). */
void vqp_paths_leave(vqp_t *vqp, vqp_batch_t *batch);

/** Atomics lack a rail of the peer: vqp_paths_go_back() is due. */
void vqp_paths_need_rail(vqp_t *vqp);

/** Request that a path goes back to the rails that it was on first (rails.h), if atomics lack
 *  this rail of the peer. Each time when the timer runs. */
void vqp_paths_go_back(vqp_t *vqp, uint64_t now);

/** Request that a path goes back to a rail of this side that no path uses, if one is to
 *  (rails.h). Each time when the timer runs. */
void vqp_paths_look_for_missed(vqp_t *vqp, uint64_t now);

#endif
