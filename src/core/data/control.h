/*
 * What the sender sends besides the frags of ops: credit, notifies, nops. For
 * dispatch.c, and for the end of a vqp. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_CONTROL_H
#define VQP_CORE_DATA_CONTROL_H

#include "core/data/place.h"

/**
 * Advertise the credit, if the reserve for control has room; else the request
 * stays in tx->slow.
 */
void vqp_tx_dispatch_control(vqp_tx_t *tx, vqp_batch_t *batch,
                             const vqp_credit_t *credit);

/** Fill a control frag that was emitted: where from and to, and the cell. */
void vqp_tx_fill_control(vqp_tx_t *tx, vqp_frag_t *frag,
                         const vqp_credit_t *credit);

/** Send the notifies of sprayed messages whose data is confirmed. */
void vqp_tx_dispatch_notify(vqp_tx_t *tx, vqp_batch_t *batch);

/** Send a nop behind what each path has posted without a CQE, and with
 *  VQP_TX_WITNESS on each idle path that takes frags. */
void vqp_tx_dispatch_nops(vqp_tx_t *tx, vqp_batch_t *batch);

/**
 * The barrier with VQP_OP_PROBE is dispatched: a nop on any path, unless something is
 * in flight already.
 *
 * @return 0 if no path has room.
 */
int vqp_tx_dispatch_probe(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op);

/** A nop on the path, in the batch, which is not full. */
void vqp_tx_emit_nop(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path);

/**
 * Nops for the queue pairs of a failed sender, after they were moved to the error
 * state: frags that were acknowledged without a CQE get none in this state, and
 * would never end. One for each path that needs it; they exceed the path's depth
 * by one at most. After vqp_tx_abandon(); to be posted, until the batch is empty.
 * A path that can not take its nop is abandoned from its head on.
 */
void vqp_tx_drain_nops(vqp_tx_t *tx, vqp_batch_t *batch);

#endif
