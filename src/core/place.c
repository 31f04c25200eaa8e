/* The budget of a path, and frags in a batch; see place.h. Pure: libc only. */
#include "core/place.h"

void vqp_path_count_packets(vqp_path_t *path)
{
    uint16_t slot;

    for (slot = path->fo.wrs_seen; slot != path->tail; ++slot) {
        path->fo.packets += vqp_path_more_packets(path, vqp_path_at(path, slot));
    }
}

static inline void vqp_tx_new_budget(const vqp_tx_t *tx, vqp_path_t *path)
{
    uint32_t slots      = vqp_path_outstanding(path) + VQP_CONTROL_RESERVE;
    uint32_t unsignaled = (uint16_t)(path->tail - path->signaled);
    uint32_t signal_in  = (unsignaled < tx->cfg.signal_every) ?
                                  tx->cfg.signal_every - unsignaled : 1;
    uint64_t bytes;

    vqp_path_count_wrs(path); /* at least once in a round of tail */
    if (!path->up || (slots >= path->depth) ||
        (path->bytes >= tx->cfg.path_cap)) {
        vqp_path_stop(path);
        return;
    }

    bytes              = tx->cfg.path_cap - path->bytes;
    path->budget.bytes = (uint32_t)vqp_min(bytes,
                                           (uint64_t)tx->limits.max_unsignaled);
    path->budget.frags = vqp_min(signal_in, path->depth - slots);
}

void vqp_tx_refill(const vqp_tx_t *tx, vqp_path_t *path)
{
    vqp_tx_new_budget(tx, path);
}

unsigned vqp_tx_spend_last(const vqp_tx_t *tx, vqp_path_t *path,
                           uint32_t length)
{
    uint16_t unsignaled = (uint16_t)(path->tail - path->signaled);
    int is_covered      = path->budget.frags != 0;
    unsigned flags      = 0;

    /* Without a budget (the frag is out of the reserve) the path may continue for
     * a while. The bytes are few then, or the path is full */
    if (is_covered || (unsignaled >= tx->cfg.signal_every) ||
        (path->bytes >= tx->cfg.path_cap) ||
        (vqp_path_outstanding(path) + VQP_CONTROL_RESERVE >= path->depth) ||
        (length >= tx->limits.max_unsignaled)) {
        path->signaled = path->tail;
        flags          = VQP_FRAG_SIGNALED | VQP_FRAG_FORCE_SIGNAL;
    }

    vqp_tx_new_budget(tx, path);
    return flags;
}

unsigned vqp_tx_force_am_signal(const vqp_tx_t *tx, vqp_path_t *path,
                                uint32_t end)
{
    path->ring_signaled = end;
    path->signaled      = path->tail;
    vqp_tx_new_budget(tx, path);
    return VQP_FRAG_SIGNALED | VQP_FRAG_FORCE_SIGNAL;
}

vqp_frag_t *vqp_tx_emit(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path,
                        vqp_op_t *op, uint16_t id, uint8_t kind,
                        uint64_t offset, uint32_t length, int signal)
{
    return vqp_tx_emit_inline(tx, batch, path, op, id, kind, offset, length,
                              signal);
}

vqp_frag_t *vqp_tx_emit_empty(vqp_tx_t *tx, vqp_batch_t *batch,
                              vqp_path_t *path, vqp_op_t *op, uint16_t id,
                              uint8_t kind, int signal)
{
    vqp_frag_t *frag = vqp_tx_emit(tx, batch, path, op, id, kind,
                                   (op == NULL) ? 0 : op->length, 0, signal);

    frag->raddr = tx->cfg.ring_raddr;
    frag->rkey  = tx->cfg.ring_rkeys[path->peer_rail];
    return frag;
}

void vqp_frag_add_imm(vqp_frag_t *frag, uint32_t fsn, uint32_t flags)
{
    frag->opcode = VQP_WR_WRITE_IMM;
    frag->imm    = fsn | flags;
    vqp_path_note_imm(frag->path, frag->slot, frag->imm);
    ++frag->path->stats.imms;
}
