/*
 * How dispatch hands out frags; private to dispatch.c and control.c. Pure: libc
 * only.
 */
#ifndef VQP_CORE_EMIT_H
#define VQP_CORE_EMIT_H

#include "core/tx.h"

static inline int vqp_batch_is_full(const vqp_batch_t *batch)
{
    return batch->count == VQP_BATCH_MAX;
}

/* Take the path's next send queue place for a frag. @a signal asks for a CQE:
 * then an earlier frag of the same op in this batch, on the same path, needs
 * none, since a CQE confirms everything before it. */
static inline vqp_frag_t *
vqp_tx_emit(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path, vqp_op_t *op,
            uint16_t name, uint8_t kind, uint64_t offset, uint32_t length,
            int signal)
{
    vqp_frag_t *frag      = &batch->frags[batch->count++];
    vqp_frag_t *last      = path->batch_last;
    uint16_t pos          = path->tail++;
    vqp_inflight_t *entry = vqp_path_at(path, pos);

    entry->offset = offset;
    entry->length = length;
    entry->op     = name;
    entry->kind   = kind;
    path->bytes  += length;

    frag->path   = path;
    frag->op     = op;
    frag->pos    = pos;
    frag->flags  = 0;
    frag->opcode = VQP_WR_WRITE;
    frag->kind   = kind;
    frag->nsge   = 0;
    frag->length = length;

    if (vqp_likely((op != NULL) && (kind != VQP_KIND_NOTIFY))) {
        ++path->stats.frags;
        path->stats.bytes += length;
    }

    /* The frag that fills the path is signaled in any case: nothing that comes
     * after it could confirm it */
    if (signal || (++path->unsignaled >= tx->cfg.signal_every) ||
        (path->bytes >= tx->cfg.path_cap)) {
        frag->flags            = VQP_FRAG_SIGNALED;
        path->unsignaled       = 0;
        path->unsignaled_bytes = 0;
        if ((op != NULL) && (last < frag) && (last >= batch->frags) &&
            (last->path == path) && (last->op == op)) {
            last->flags &= (uint8_t)~VQP_FRAG_SIGNALED;
        }
    }

    path->batch_last = frag;
    return frag;
}

static inline void
vqp_tx_immediate(vqp_tx_t *tx, vqp_frag_t *frag, uint32_t fsn, uint32_t flags)
{
    vqp_path_t *path = frag->path;

    frag->opcode                                 = VQP_WR_WRITE_IMM;
    frag->imm                                    = fsn | flags;
    tx->fsn_path[fsn & (tx->cfg.fsn_window - 1)] = path->index;
    ++path->imms;
    ++path->stats.imms;
}

static inline uint32_t vqp_tx_next_fsn(vqp_tx_t *tx)
{
    uint32_t fsn = tx->fsn_next;

    tx->fsn_next = vqp_fsn_add(fsn, 1);
    return fsn;
}

/* An empty write or immediate; it goes to the peer's ring, touching nothing */
static inline void vqp_tx_empty(vqp_tx_t *tx, vqp_frag_t *frag)
{
    frag->raddr = tx->cfg.ring_raddr;
    frag->rkey  = tx->cfg.ring_rkeys[frag->path->peer_rail];
}

/**
 * Tell the peer the credit, if the reserve for control has room; else the wish
 * stays in tx->slow.
 */
void vqp_tx_dispatch_control(vqp_tx_t *tx, vqp_batch_t *batch,
                             const vqp_credit_t *credit);

/** Get a CQE behind what each path has posted without one. */
void vqp_tx_dispatch_kick(vqp_tx_t *tx, vqp_batch_t *batch);

/** Send the notifies of sprayed messages whose data is acknowledged. */
void vqp_tx_dispatch_notify(vqp_tx_t *tx, vqp_batch_t *batch);

#endif
