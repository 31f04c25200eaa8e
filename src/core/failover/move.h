/*
 * Moving a path that works to another flow: to a new queue pair, whose flow label is
 * another one. Part of the failover; failover.h has the states that follow. Pure:
 * libc only.
 *
 * The path goes down with nothing in flight on either side, so nothing is sent again,
 * and no atomic loses its answer. The side that wants it says PATH_DOWN with LEAVING,
 * once, and goes on using the path. The peer answers likewise when it gets to it:
 *
 *     LEAVE     takes no frags any more; says PATH_DOWN with LEAVING, and with DRAINED
 *               too when nothing of its own is in flight
 *     QUIESCE   when both sides have said so
 *
 * So a peer that computes does not keep the side that asks from using the path. The side
 * that was asked uses its other paths until then.
 */
#ifndef VQP_CORE_FAILOVER_MOVE_H
#define VQP_CORE_FAILOVER_MOVE_H

#include "core/failover/failover_int.h"

/** Ask the peer to move the path, which is UP. It may never be moved. */
void vqp_path_ask_to_move(vqp_t *vqp, vqp_path_t *path);

/** The peer's PATH_DOWN with LEAVING, of the path's generation. */
void vqp_path_on_leaving(vqp_t *vqp, vqp_path_t *path, const vqp_path_msg_t *msg);

/** What the message says beside its header: the path is in LEAVE, or the peer is
 *  asked. */
void vqp_path_leaving_message(vqp_path_t *path, vqp_path_msg_t *msg);

/** Of paths in LEAVE: see that what is in flight comes back; then say so. */
void vqp_paths_leave(vqp_t *vqp, vqp_batch_t *batch);

#endif
