/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: replay the frags of a failed path that were not executed (trim.h) on one
 * other path, or on the path itself once it is rebuilt. failover.h decides when. Pure:
 * libc only.
 *
 * The frags that wait are in the slots [fo.replay, fo.replay_end) of the path's inflight
 * array, in posting order. All are replayed on one path, in that order: a fence, the last
 * immediate of a tail AM, and a vqp with one path rely on the order of a queue pair. If
 * that path fails before all were sent, those that it has not executed return in
 * front of the rest, to slots that nothing else has used meanwhile. So they need no other
 * memory, and may go to another path together. A path replays one other path at a time.
 */
#ifndef VQP_CORE_FAILOVER_REPLAY_H
#define VQP_CORE_FAILOVER_REPLAY_H

#include "core/data/place.h"

/**
 * Replay waiting frags as far as there is room. Clears VQP_TX_REPLAY when none waits and
 * all paths are UP.
 *
 * @param [in] credit  The credit that a credit update advertises.
 *
 * @return 1 if a credit update, with @a credit, was among them.
 */
int vqp_tx_replay(vqp_tx_t *tx, vqp_batch_t *batch, const vqp_credit_t *credit);

/**
 * The rail of the peer to which no path is UP, while an atomic waits for one. The ops behind
 * it wait too. VQP_RAIL_NONE: there is none.
 */
unsigned vqp_tx_lacked_rail(vqp_tx_t *tx);

/** Is there one? */
static inline int vqp_tx_lacks_rail(vqp_tx_t *tx)
{
    return vqp_tx_lacked_rail(tx) != VQP_RAIL_NONE;
}

/** The other path whose replay goes to @a to, and has not ended; else NULL. */
vqp_path_t *vqp_replay_source(vqp_tx_t *tx, const vqp_path_t *to);

/**
 * Return the path's credits that a frag has taken (@a sign -1), while it waits, or take
 * them again (@a sign 1).
 */
void vqp_replay_take(vqp_path_t *path, const vqp_inflight_t *entry, int sign);

/**
 * End a frag without a completion. The path's credits must be those that it has taken.
 *
 * @param [in] is_behind_read  READs in front of it are replayed. If the frag waited for
 *                             READs, a nop that waits for them takes its place: the
 *                             frags behind it rely on that.
 */
void vqp_replay_end(vqp_tx_t *tx, vqp_path_t *path, vqp_inflight_t *entry,
                    vqp_status_t status, int is_behind_read);

/**
 * Turn an entry whose frag has ended into a nop, which keeps its place.
 *
 * @param [in] flags  VQP_INFLIGHT_*, of the nop.
 */
void vqp_replay_make_nop(vqp_inflight_t *entry, unsigned flags);

/**
 * Give the path, with nothing in flight, an inflight array of @a entries: a power of two, at
 * least as many as it has. The frags that wait move to it.
 */
void vqp_replay_move(vqp_path_t *path, vqp_inflight_t *inflight, uint32_t entries);

/**
 * A new queue pair of the path is about to be used. Move the frags that wait right before
 * its first slot, and leave out those that have ended.
 *
 * So a path needs places for the depth of its queue and two more. At most depth frags wait.
 * The queue pair's first frag, a probe, takes one more place. A frag that the path replays
 * itself takes one at the tail, for the one that it has left. The last place is for the nop
 * that drains the path when it fails.
 */
void vqp_replay_pack(vqp_path_t *path);

/** The vqp fails: the frags of the path that wait for their replay end with @a status. */
void vqp_replay_abandon(vqp_tx_t *tx, vqp_path_t *path, vqp_status_t status);

#endif
