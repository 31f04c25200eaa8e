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

static inline uint32_t vqp_tx_frags(uint64_t length, unsigned shift)
{
    return (uint32_t)((length + (1ul << shift) - 1) >> shift);
}

/** Immediates that a tail AM may take: one for each path it can use. */
static inline uint32_t
vqp_tx_tail_fsns(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return vqp_min(vqp_tx_frags(op->length, op->frag_shift), tx->num_paths);
}

/** Is this the newest frag of the path, and in this batch? */
static inline int vqp_batch_has(const vqp_batch_t *batch, const vqp_frag_t *frag,
                                const vqp_path_t *path, const vqp_op_t *op)
{
    return (frag >= batch->frags) && (frag < &batch->frags[batch->count]) &&
           (frag->path == path) && (frag->op == op);
}

/* Take the path's next send queue place for a frag. @a signal asks for a CQE:
 * then an earlier frag of the same op in this batch, on the same path, needs
 * none, since a CQE confirms everything before it. */
static inline vqp_frag_t *
vqp_tx_emit(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path, vqp_op_t *op,
            uint16_t name, uint8_t kind, uint64_t offset, uint32_t length,
            int signal)
{
    vqp_frag_t *frag      = &batch->frags[batch->count];
    vqp_frag_t *last      = path->batch_last;
    uint16_t pos          = path->tail++;
    vqp_inflight_t *entry = vqp_path_at(path, pos);

    entry->offset = offset;
    entry->length = length;
    entry->op     = name;
    entry->kind   = kind;
    entry->whole  = 0;
    if ((path->pace.start == 0) && (length > 0) &&
        (tx->cfg.sched == VQP_SCHED_LEFT)) {
        vqp_pace_begin(&path->pace, tx->now);
    }
    path->bytes     += length;
    path->free_frags = 0;

    frag->path   = path;
    frag->op     = op;
    frag->pos    = pos;
    frag->opcode = VQP_WR_WRITE;
    frag->kind   = kind;
    frag->nsge   = 0;
    frag->length = length;

    if (vqp_likely((op != NULL) && (kind != VQP_KIND_NOTIFY))) {
        ++path->stats.frags;
        path->stats.bytes += length;
    }

    frag->flags = (uint8_t)vqp_tx_signal(tx, path, kind, length, signal);
    if ((frag->flags & VQP_FRAG_SIGNALED) && (op != NULL) &&
        vqp_batch_has(batch, last, path, op) &&
        !(last->flags & VQP_FRAG_PACING)) {
        last->flags &= (uint8_t)~VQP_FRAG_SIGNALED;
    }

    ++batch->count;
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

/** Flags of the immediate that closes the AM. */
static inline uint32_t vqp_tx_last_flags(const vqp_op_t *op)
{
    return VQP_IMM_LAST | ((op->flags & VQP_OP_WRAP) ? VQP_IMM_WRAP : 0);
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

/** Send an empty write on some path. */
void vqp_tx_dispatch_probe(vqp_tx_t *tx, vqp_batch_t *batch);

/** Get a CQE behind what each path has posted without one. */
void vqp_tx_dispatch_kick(vqp_tx_t *tx, vqp_batch_t *batch);

/** Send the notifies of sprayed messages whose data is acknowledged. */
void vqp_tx_dispatch_notify(vqp_tx_t *tx, vqp_batch_t *batch);

#endif
