/*
 * How a frag takes its slot on a path, for the fast path and for dispatch.
 * Private to the sender. Pure: libc only.
 */
#ifndef VQP_CORE_PLACE_H
#define VQP_CORE_PLACE_H

#include "core/tx.h"

/**
 * The budget of the path does not cover a frag that was just placed, or ends with
 * it: decide whether to signal the frag, and give the path a new budget. The
 * budget limits slots, bytes in flight, and the frags and bytes without a CQE.
 *
 * @param [in] length  Of the frag.
 *
 * @return VQP_FRAG_SIGNALED | VQP_FRAG_FORCE_SIGNAL, or 0.
 */
unsigned vqp_tx_spend_last(const vqp_tx_t *tx, vqp_path_t *path,
                           uint32_t length);

/** Give the path a new budget, since credits were returned or there is none. */
void vqp_tx_refill(const vqp_tx_t *tx, vqp_path_t *path);

/** Packets of a frag, beyond the first. */
static inline uint32_t
vqp_path_more_packets(const vqp_path_t *path, const vqp_inflight_t *entry)
{
    return (entry->length != 0) ? (entry->length - 1) >> path->mtu_shift : 0;
}

/* The packets of the frags that vqp_path_count_wrs() has not seen */
void vqp_path_count_packets(vqp_path_t *path);

/** Bring the work requests and packets of this incarnation up to date, before
 *  slots are taken again: path->fo.wrs, path->fo.packets. */
static inline void vqp_path_count_wrs(vqp_path_t *path)
{
    if (path->mtu_shift != 0) {
        vqp_path_count_packets(path);
    }

    path->fo.wrs     += (uint16_t)(path->tail - path->fo.wrs_seen);
    path->fo.wrs_seen = path->tail;
}

/** The state of the path has changed: end the budget, so the next frag is
 *  checked. */
static inline void vqp_path_stop(vqp_path_t *path)
{
    path->budget.frags = path->budget.bytes = 0;
}

/**
 * Take the next slot of the path for @a length bytes of an op.
 *
 * @param [in]  id      Of the op, or VQP_OP_NONE.
 * @param [in]  flags   VQP_INFLIGHT_*.
 * @param [in]  signal  The op needs a CQE of its own.
 * @param [out] signaled  VQP_FRAG_* that the frag gets.
 *
 * @return The slot.
 */
static VQP_ALWAYS_INLINE uint16_t
vqp_tx_place(const vqp_tx_t *tx, vqp_path_t *path, uint16_t id, uint8_t kind,
             uint64_t offset, uint32_t length, unsigned flags, int signal,
             unsigned *signaled)
{
    uint16_t slot         = path->tail++;
    vqp_inflight_t *entry = vqp_path_at(path, slot);

    entry->offset = offset;
    entry->length = length;
    entry->op     = id;
    entry->kind   = kind;
    entry->flags  = (uint8_t)flags;
    path->bytes  += length;
    *signaled     = 0;

    if (vqp_likely((path->budget.frags > 1) &&
                   (length < path->budget.bytes))) {
        --path->budget.frags;
        path->budget.bytes -= length;
    } else {
        *signaled = vqp_tx_spend_last(tx, path, length);
    }

    if (signal) {
        *signaled     |= VQP_FRAG_SIGNALED;
        path->signaled = path->tail;
    }

    return slot;
}

/* An AM is to be signaled for the mirror's sake. The budget begins anew with it. */
unsigned vqp_tx_force_am_signal(const vqp_tx_t *tx, vqp_path_t *path,
                                uint32_t end);

/**
 * The mirror bytes of AMs come back with CQEs only: an AM that ends at ring
 * position @a end gets one if the path had none for a share of the ring.
 *
 * @param [in] signaled  VQP_FRAG_* of vqp_tx_place().
 *
 * @return VQP_FRAG_* to be added.
 */
static inline unsigned
vqp_tx_signal_am(const vqp_tx_t *tx, vqp_path_t *path, uint32_t end,
                 unsigned signaled)
{
    if (signaled & VQP_FRAG_SIGNALED) {
        path->ring_signaled = end;
        return 0;
    }

    return vqp_likely(end - path->ring_signaled <=
                      tx->limits.am_max_unsignaled) ?
                   0 : vqp_tx_force_am_signal(tx, path, end);
}

static inline uint32_t vqp_tx_next_fsn(vqp_tx_t *tx)
{
    uint32_t fsn = tx->fc.fsn_next;

    tx->fc.fsn_next = vqp_fsn_add(fsn, 1);
    return fsn;
}

/** Flags of the immediate that closes the AM. */
static inline uint32_t vqp_tx_last_flags(const vqp_op_t *op)
{
    return VQP_IMM_LAST | ((op->flags & VQP_OP_WRAP) ? VQP_IMM_WRAP : 0);
}

/** Immediates that a tail AM may take: one for each path it can use. */
uint32_t vqp_tx_tail_fsns(const vqp_tx_t *tx, const vqp_op_t *op);

/** Give the op its number; the caller moves the cursors of its ring. */
static inline void
vqp_tx_accept(vqp_tx_t *tx, vqp_op_t *op, uint64_t offset, uint16_t pending)
{
    op->seq     = tx->seq++;
    op->offset  = offset;
    op->pending = pending;
    op->status  = VQP_OK;
    ++tx->stats->ops;
}

/* ---- for dispatch: a frag in a batch ---- */

static inline int vqp_batch_is_full(const vqp_batch_t *batch)
{
    return batch->count == VQP_BATCH_MAX;
}

/** Is this the newest frag of the path, of that op, and in this batch? */
static inline int
vqp_batch_has(const vqp_batch_t *batch, const vqp_frag_t *frag,
              const vqp_path_t *path, const vqp_op_t *op)
{
    return (frag >= batch->frags) && (frag < &batch->frags[batch->count]) &&
           (frag->path == path) && (frag->op == op);
}

/**
 * Add a WRITE without a source to the batch, which is not full.
 *
 * @param [in] op      Whose frag it is, or NULL with VQP_OP_NONE as @a id.
 * @param [in] signal  The op needs a CQE: an earlier frag of it in this batch, on
 *                     the same path, then needs none, since a CQE confirms
 *                     everything before it.
 */
static VQP_ALWAYS_INLINE vqp_frag_t *
vqp_tx_emit_inline(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path,
                   vqp_op_t *op, uint16_t id, uint8_t kind, uint64_t offset,
                   uint32_t length, int signal)
{
    unsigned index   = batch->count;
    vqp_frag_t *frag = &batch->frags[index];
    vqp_frag_t *last = path->batch_last;

    /* Frags without a CQE to come are seen to be confirmed at any later time: an
     * interval that began with them would hold the time the path was idle */
    if ((length > 0) && (tx->cfg.sched == VQP_SCHED_LEFT) &&
        ((path->rate.start == 0) || !vqp_path_awaits_cqe(path))) {
        vqp_rate_begin(&path->rate, tx->clock.now);
    }

    frag->path   = path;
    frag->op     = op;
    frag->sge    = batch->sge[index];
    frag->opcode = VQP_WR_WRITE;
    frag->nsge   = 0;
    frag->kind   = kind;
    frag->length = length;
    frag->slot   = vqp_tx_place(tx, path, id, kind, offset, length, 0, signal,
                                &frag->flags);
    if (kind <= VQP_KIND_CSWAP) {
        ++path->stats.frags;
        path->stats.bytes += length;
    }

    /* last may be of an earlier batch, in the memory of this frag */
    if ((frag->flags & VQP_FRAG_SIGNALED) && (op != NULL) &&
        vqp_batch_has(batch, last, path, op) &&
        !(last->flags & VQP_FRAG_FORCE_SIGNAL)) {
        last->flags &= ~(unsigned)VQP_FRAG_SIGNALED;
    }

    ++batch->count;
    path->batch_last = frag;
    return frag;
}

/** The same as a function: for control, and what is sent again. */
vqp_frag_t *vqp_tx_emit(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path,
                        vqp_op_t *op, uint16_t id, uint8_t kind,
                        uint64_t offset, uint32_t length, int signal);

/** The same without data: it goes to the peer's ring, and touches nothing. */
vqp_frag_t *vqp_tx_emit_empty(vqp_tx_t *tx, vqp_batch_t *batch,
                              vqp_path_t *path, vqp_op_t *op, uint16_t id,
                              uint8_t kind, int signal);

/** Give a frag that was emitted already the immediate with @a fsn. */
void vqp_frag_add_imm(vqp_frag_t *frag, uint32_t fsn, uint32_t flags);

#endif
