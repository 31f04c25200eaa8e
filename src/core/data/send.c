/* SPDX-License-Identifier: BSD-3-Clause */
/* The frags of a put that is spread over the paths; see send.h. Pure: libc only. */
#include "core/data/send.h"

int vqp_tx_spread_next(vqp_tx_t *tx, vqp_op_t *op, vqp_sge_t *sge,
                       vqp_frag_t *frag)
{
    uint32_t length = (uint32_t)vqp_min(op->length - op->offset,
                                        1ul << op->frag_shift);
    vqp_path_t *path;

    if (op->offset == op->length) {
        tx->rma.post = tx->rma.tail;
        return 0;
    }

    path = vqp_tx_path_in_turn(tx, length);
    if (vqp_unlikely(path == NULL)) {
        return 0;
    }

    tx->paths.next = path->next;
    vqp_tx_place(tx, path, op, vqp_opring_index(&tx->rma, op), VQP_KIND_PUT,
                 op->offset, length, 0, op->flags & VQP_OP_SIGNAL, sge, frag);
    vqp_tx_fill_rma(tx, op, VQP_KIND_PUT, 0, 1, path, op->offset, length, sge,
                    frag);
    op->offset += length;
    ++op->pending;
    return 1;
}
