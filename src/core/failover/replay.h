/*
 * The sender: what is left of the frags of a path that failed (trim.h) is sent
 * again on one other path, or on the path itself once it is rebuilt. failover.h
 * decides when. Pure: libc only.
 *
 * The frags that wait keep their places in the path's inflight array, slots
 * [fo.replay, fo.replay_end), in posting order. They go to one path, in that order:
 * what relies on the order of a queue pair (a fence, the last immediate of a tail
 * AM, one path alone) finds it there again.
 */
#ifndef VQP_CORE_FAILOVER_REPLAY_H
#define VQP_CORE_FAILOVER_REPLAY_H

#include "core/data/place.h"

/**
 * Send again what waits for it, while there is room; clears VQP_TX_REPLAY when
 * nothing does.
 *
 * @param [in] credit  What a control message advertises.
 *
 * @return 1 if a control message, with @a credit, was among it.
 */
int vqp_tx_replay(vqp_tx_t *tx, vqp_batch_t *batch, const vqp_credit_t *credit);

/**
 * Does an atomic wait for a path to the one rail that atomics go to, and is none UP?
 * It holds up what is behind it.
 */
int vqp_tx_lacks_rail(vqp_tx_t *tx);

/**
 * The credits of its path that a frag takes are given back, with @a sign -1, while it
 * waits. A frag that is sent again on the same path takes them again, with 1.
 */
void vqp_replay_take(vqp_path_t *path, const vqp_inflight_t *entry, int sign);

/**
 * A frag that waits ends without a completion. It takes of its path what it took.
 *
 * @param is_behind_read  READs in front of it go again. If it waited for these, so does
 *                        what comes behind it, on one path: a nop takes its place.
 */
void vqp_replay_end(vqp_tx_t *tx, vqp_path_t *path, vqp_inflight_t *entry,
                    vqp_status_t status, int is_behind_read);

/** What the entry stood for has ended, but it keeps its place in the order of its path.
 *
 * @param [in] flags  VQP_INFLIGHT_*, of the nop.
 */
void vqp_replay_make_nop(vqp_inflight_t *entry, unsigned flags);

/** The vqp fails: what waits on the path ends with @a status. */
void vqp_replay_abandon(vqp_tx_t *tx, vqp_path_t *path, vqp_status_t status);

#endif
