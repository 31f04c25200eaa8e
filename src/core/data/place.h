/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A frag: the path that it goes to, its slot there, and its work request. For the
 * fast path, for dispatch and for replays. Private to the sender. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_PLACE_H
#define VQP_CORE_DATA_PLACE_H

#include "core/data/tx.h"

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

/**
 * A frag takes the next slot of the path: fill its place in flight, and what all work
 * requests have in common. Opcode, source and target are left to the caller.
 *
 * @param [in]  op      Whose frag it is, or NULL with VQP_OP_NONE as @a id.
 * @param [in]  offset  Of the frag in its op.
 * @param [in]  flags   VQP_INFLIGHT_*.
 * @param [in]  signal  The op needs a CQE of its own. A whole put that finds its path
 *                      idle has one in any case: a flush behind it then needs no nop.
 * @param [in]  sge     Elements for the source.
 * @param [out] frag    The work request.
 */
static VQP_ALWAYS_INLINE void
vqp_tx_place(const vqp_tx_t *tx, vqp_path_t *path, vqp_op_t *op, uint16_t id,
             vqp_kind_t kind, uint64_t offset, uint32_t length, unsigned flags,
             int signal, vqp_sge_t *sge, vqp_frag_t *frag)
{
    uint16_t slot         = path->tail++;
    vqp_inflight_t *entry = vqp_path_at(path, slot);
    unsigned signaled     = 0;

    if ((kind >= VQP_KIND_PUT) && (kind <= VQP_KIND_CSWAP)) {
        entry->offset    = offset;
    } else {
        entry->am_offset = (uint32_t)offset;
    }
    entry->length = length;
    entry->op     = id;
    entry->kind   = (uint8_t)kind;
    entry->flags  = (uint8_t)flags;
    path->bytes  += length;
    if (kind <= VQP_KIND_CSWAP) {
        ++path->stats.frags;
        path->stats.bytes += length;
    }

    if (vqp_likely((path->budget.frags > 1) &&
                   (length < path->budget.bytes))) {
        --path->budget.frags;
        path->budget.bytes -= length;
    } else {
        signaled = vqp_tx_spend_last(tx, path, length);
    }

    if (signal || ((kind == VQP_KIND_PUT) && (slot == path->head) &&
                   (length == op->length))) {
        signaled      |= VQP_FRAG_SIGNALED;
        path->signaled = path->tail;
    }

    frag->path   = path;
    frag->op     = op;
    frag->sge    = sge;
    frag->slot   = slot;
    frag->flags  = signaled;
    frag->kind   = kind;
    frag->length = length;
}

/* Add the pieces of @a op that hold the bytes of the frag, from @a offset on */
void vqp_tx_gather_pieces(vqp_op_t *op, uint64_t offset, vqp_frag_t *frag);

/** The source of a frag: any part of the pieces of its op. @a is_one, a constant, if the
 *  caller knows that there is one piece. */
static VQP_ALWAYS_INLINE void
vqp_tx_gather(vqp_op_t *op, const vqp_path_t *path, uint64_t offset,
              uint32_t length, int is_one, vqp_frag_t *frag, vqp_sge_t *sge)
{
    if (!is_one && vqp_unlikely(op->niov != 1)) {
        vqp_tx_gather_pieces(op, offset, frag);
        return;
    }

    frag->nsge  = 1;
    sge->addr   = op->g.iov[0].addr + offset;
    sge->length = length;
    sge->lkey   = op->g.iov[0].lkeys[path->rail];
}

/**
 * Source and target of a frag of a put, get or atomic.
 *
 * @param [in] kind       op->kind; a constant in the fast path.
 * @param [in] is_inline  A put that holds its data itself; likewise.
 * @param [in] is_fast    The fast path: there is one piece, and path->reads counts it.
 * @param [in] path       frag->path, and so on.
 */
static VQP_ALWAYS_INLINE void
vqp_tx_fill_rma(const vqp_tx_t *tx, vqp_op_t *op, vqp_kind_t kind,
                int is_inline, int is_fast, vqp_path_t *path, uint64_t offset,
                uint32_t length, vqp_sge_t *sge, vqp_frag_t *frag)
{
    /* by vqp_kind_t */
    static const uint8_t opcodes[] = {VQP_WR_WRITE, VQP_WR_WRITE, VQP_WR_READ,
                                      VQP_WR_FADD, VQP_WR_CSWAP};

    ++path->rma;
    if (!is_fast) {
        path->reads = (uint16_t)(path->reads + (kind != VQP_KIND_PUT));
    }
    frag->opcode = opcodes[kind];
    frag->raddr  = op->raddr + offset;
    frag->rkey   = op->rma.rkeys[path->peer_rail];
    if ((kind < VQP_KIND_FADD) && !is_inline) {
        vqp_tx_gather(op, path, offset, length, is_fast, frag, sge);
        return;
    }

    frag->nsge  = 1;
    sge->length = length;
    if (is_inline) {
        frag->flags |= VQP_FRAG_INLINE;
        sge->addr    = (uintptr_t)op->data;
        sge->lkey    = 0;
    } else {
        sge->addr = (uintptr_t)vqp_tx_amo_cell(tx, op);
        sge->lkey = tx->cfg.local_lkeys[path->rail];
    }
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

/** Target and signal of a frag of an AM; @a raddr in the peer's @a ring. */
static VQP_ALWAYS_INLINE void
vqp_tx_fill_am_target(const vqp_tx_t *tx, const vqp_tx_ring_t *ring,
                      vqp_path_t *path, const vqp_op_t *op, uint64_t raddr,
                      vqp_frag_t *frag)
{
    frag->raddr  = raddr;
    frag->rkey   = ring->rkeys[path->peer_rail];
    frag->flags |= vqp_tx_signal_am(tx, path, op->am.ring_end, frag->flags);
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
    /* Both flags are equally far from those of the immediate: test/core/op_test.cc */
    return VQP_IMM_LAST | ((op->flags & (uint32_t)(VQP_OP_WRAP | VQP_OP_CONTROL)) *
                           (VQP_IMM_WRAP / VQP_OP_WRAP));
}

/* ---- for dispatch: a frag in a batch ---- */

static inline int vqp_batch_is_full(const vqp_batch_t *batch)
{
    return batch->count == VQP_BATCH_MAX;
}

/** Is this the newest frag of the path, of that op, and in this batch? */
int vqp_batch_has(const vqp_batch_t *batch, const vqp_frag_t *frag,
                  const vqp_path_t *path, const vqp_op_t *op);

/**
 * The next path in turn, if it may take a frag of a put, get or AM, and if little enough is
 * in flight, on paths symmetric enough, that no choice is better. The caller moves
 * tx->paths.next.
 */
static VQP_ALWAYS_INLINE vqp_path_t *
vqp_tx_path_in_turn(const vqp_tx_t *tx, uint64_t length)
{
    vqp_path_t *path = &tx->paths.list[tx->paths.next];

    return vqp_likely(vqp_path_has_room(path, tx->limits.fast_cap) &&
                      !(tx->slow & VQP_TX_ASYMMETRIC) &&
                      vqp_sched_is_turn(tx->paths.list, path, length)) ? path : NULL;
}

/**
 * The path that the next frag goes to: the next one in turn if that may take it and
 * the paths are symmetric, else the scheduler's choice.
 *
 * @return NULL if none may take it now.
 */
vqp_path_t *vqp_tx_find_path(vqp_tx_t *tx, const vqp_want_t *want);

/**
 * Add a WRITE without a source to the batch, which is not full.
 *
 * @param [in] op      Whose frag it is, or NULL.
 * @param [in] signal  The op needs a CQE: an earlier frag of it in this batch, on
 *                     the same path, then needs none, since a CQE confirms
 *                     everything before it.
 */
vqp_frag_t *vqp_tx_emit(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path,
                        vqp_op_t *op, vqp_kind_t kind, uint64_t offset,
                        uint32_t length, int signal);

/**
 * Add the next frag of an AM, put, get or atomic to the batch, which is not full: as
 * vqp_tx_emit(), on a path of vqp_tx_find_path().
 *
 * @return NULL if no path may take it now.
 */
vqp_frag_t *vqp_tx_emit_next(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op);

/** The same without data: it goes to the peer's cells, and writes nothing. */
vqp_frag_t *vqp_tx_emit_empty(vqp_tx_t *tx, vqp_batch_t *batch,
                              vqp_path_t *path, vqp_op_t *op, vqp_kind_t kind,
                              int signal);

/** Source and target of a frag of an AM, from op->raddr on. */
void vqp_tx_fill_am(const vqp_tx_t *tx, vqp_op_t *op, uint64_t offset,
                    vqp_frag_t *frag);

/** Give a frag that was emitted already the immediate with @a fsn. */
void vqp_frag_add_imm(vqp_frag_t *frag, uint32_t fsn, uint32_t flags);

/** The frag waits for the READs and atomics before it on its path, if there are any. */
void vqp_frag_add_fence(vqp_frag_t *frag);

/** A path went down or came up: update the order of the paths, and which of them
 *  take frags. */
void vqp_tx_link_paths(vqp_tx_t *tx);

#endif
