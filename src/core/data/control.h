/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frags that carry no data of an op: credit updates, notifies, nops. For dispatch.c,
 * and for the end of a vqp. Pure: libc only.
 *
 * Credit updates and nops are the control that VQP_CONTROL_RESERVE is for.
 */
#ifndef VQP_CORE_DATA_CONTROL_H
#define VQP_CORE_DATA_CONTROL_H

#include "core/data/place.h"

/**
 * Send a credit update if the reserve for control has room; else VQP_TX_CREDIT stays
 * in tx->slow.
 */
void vqp_tx_dispatch_credit(vqp_tx_t *tx, vqp_batch_t *batch,
                             const vqp_credit_t *credit);

/** Fill in the addresses of a credit update that was emitted, and write @a credit to the
 *  cell that it sends. */
void vqp_tx_fill_credit(vqp_tx_t *tx, vqp_frag_t *frag,
                         const vqp_credit_t *credit);

/** Send the notifies of sprayed messages whose data is confirmed. */
void vqp_tx_dispatch_notify(vqp_tx_t *tx, vqp_batch_t *batch);

/** Send a nop on each path whose newest frag is unsignaled, and with VQP_TX_WITNESS on
 *  each idle path that takes frags. */
void vqp_tx_dispatch_nops(vqp_tx_t *tx, vqp_batch_t *batch);

/**
 * Dispatch a barrier with VQP_OP_PROBE: send a nop on any path, unless something is in
 * flight already.
 *
 * @return 0 if no path has room.
 */
int vqp_tx_dispatch_probe(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op);

/** Add a nop on the path to the batch, which is not full. */
void vqp_tx_emit_nop(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path);

/**
 * Add a write of a path MTU to the peer's scratch, which probes the path, to the batch,
 * which is not full. Without a scratch, or without failover, a nop.
 */
void vqp_tx_emit_probe(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path);

/**
 * Add a nop for each queue pair of a failed sender that needs it, after the queue pairs
 * were moved to ERR: frags that were acknowledged without a CQE get none in this state.
 * Call it after vqp_tx_abandon(), and post, until the batch is empty. A path's depth is
 * exceeded by one at most. A path that can not take its nop is abandoned from its head on.
 */
void vqp_tx_drain_nops(vqp_tx_t *tx, vqp_batch_t *batch);

#endif
