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
#ifndef VQP_CORE_REPLAY_H
#define VQP_CORE_REPLAY_H

#include "core/place.h"

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

/** A path went down or came up: update the order of the paths, and which of them
 *  take frags. */
void vqp_tx_link_paths(vqp_tx_t *tx);

#endif
