/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: atomics without a completion of which nobody knows whether the peer has
 * executed them. A flush says so, as it is all that their user waits for. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_LOST_H
#define VQP_CORE_DATA_LOST_H

#include "core/data/tx.h"

/** Flushes of an endpoint, and those of the interface, report what was lost apart. */
enum {
    VQP_LOST_ENDPOINT  = 1 << 0, /* barriers with VQP_OP_BUFFER */
    VQP_LOST_INTERFACE = 1 << 1  /* those without */
};

/**
 * The op is about to end, and it is unknown whether it was executed. The next barrier
 * behind it, of each of the two kinds of flush, ends with VQP_ERR_UNDECIDED. Where there
 * is none yet, the next one to come does.
 *
 * @param [in] op  An op of the RMA ring without a user.
 */
void vqp_tx_lost(vqp_tx_t *tx, const vqp_op_t *op);

/** Which of @a kinds (VQP_LOST_*) have to report a loss, in a flush without a barrier.
 *  They are reported with this. */
static inline unsigned vqp_tx_take_lost(vqp_tx_t *tx, unsigned kinds)
{
    unsigned lost = tx->lost & kinds;

    tx->lost = (uint8_t)(tx->lost & ~lost);
    return lost;
}

/** A barrier is accepted: it ends with VQP_ERR_UNDECIDED if it has to report a loss. */
void vqp_tx_barrier_take_lost(vqp_tx_t *tx, vqp_op_t *op);

#endif
