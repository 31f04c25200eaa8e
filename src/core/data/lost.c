/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics that may be lost, see lost.h. Pure: libc only. */
#include "core/data/lost.h"

#include "core/cover.h"

/* Which flush the op is. 0 if it is none, or a barrier of the core's own */
static unsigned vqp_tx_flush_kind(const vqp_op_t *op)
{
    if ((op->kind != VQP_KIND_BARRIER) ||
        (op->flags & (VQP_OP_CLOSE | VQP_OP_PROBE))) {
        return 0;
    }

    return (op->flags & VQP_OP_BUFFER) ? VQP_LOST_ENDPOINT : VQP_LOST_INTERFACE;
}

void vqp_tx_lost(vqp_tx_t *tx, const vqp_op_t *op)
{
    unsigned kinds = VQP_LOST_ENDPOINT | VQP_LOST_INTERFACE;
    vqp_op_t *barrier;
    unsigned kind;
    uint32_t i;

    for (i = tx->rma.head; i != tx->rma.tail; ++i) {
        barrier = vqp_opring_at(&tx->rma, i);
        kind    = vqp_tx_flush_kind(barrier) & kinds;
        if ((kind != 0) && (vqp_seq_diff(barrier->seq, op->seq) > 0)) {
            vqp_cover(LOST_WAITS);
            vqp_op_set_status(barrier, VQP_ERR_UNDECIDED);
            kinds &= ~kind;
        }
    }

    tx->lost = (uint8_t)(tx->lost | kinds);
}

void vqp_tx_barrier_take_lost(vqp_tx_t *tx, vqp_op_t *op)
{
    if (vqp_tx_take_lost(tx, vqp_tx_flush_kind(op)) != 0) {
        vqp_cover(LOST_LATER);
        vqp_op_set_status(op, VQP_ERR_UNDECIDED);
    }
}
