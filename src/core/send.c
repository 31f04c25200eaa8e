/* The frags of a put that is spread over the paths; see send.h. Pure: libc only. */
#include "core/send.h"

int vqp_tx_spread_next(vqp_tx_t *tx, vqp_op_t *op, vqp_sge_t *sge,
                       vqp_frag_t *frag)
{
    vqp_path_t *path = &tx->paths[tx->next_path];
    uint32_t length  = (uint32_t)vqp_min(op->length - op->offset,
                                         1ul << op->frag_shift);

    if (op->offset == op->length) {
        tx->rma.post = tx->rma.tail;
        return 0;
    }

    if (vqp_unlikely(!vqp_path_has_room(path, tx->limits.fast_cap) ||
                     !vqp_sched_is_turn(tx->paths, path, length))) {
        return 0;
    }

    vqp_tx_send_rma_frag(tx, path, op, VQP_KIND_PUT, op->offset, length, 0,
                         op->flags & VQP_OP_SIGNAL, 0, sge, frag);
    op->offset += length;
    ++op->pending;
    return 1;
}
