/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: splitting accepted ops into frags. See tx.h. Order of dispatch is
 * credit update, AM, RMA; fsns are given here, in AM order. Pure: libc only.
 */
#include "core/data/am.h"
#include "core/data/control.h"
#include "core/data/pack.h"
#include "core/data/pathcap.h"
#include "core/cover.h"

/* The paths that need a fence frag: those with an unconfirmed put, get or
 * atomic */
static void vqp_tx_start_fence(vqp_tx_t *tx)
{
    uint32_t i;

    tx->fence.started = 1;
    tx->fence.paths   = 0;
    for (i = 0; i < tx->paths.count; ++i) {
        if ((tx->paths.list[i].rma > 0) || vqp_path_has_replay(&tx->paths.list[i])) {
            tx->fence.paths |= 1ul << i;
        }
    }

    tx->fc.fsn_reserved -= tx->paths.count -
                           (uint32_t)__builtin_popcountl(tx->fence.paths);
    vqp_cover_if(tx->fence.paths == 0, DISPATCH_FENCE_EMPTY);
}

/* An empty immediate on each path that needs one, behind the last frag of all ops
 * before the fence: the window then holds the AM back until they have executed.
 * The immediates are frags of the AM, which is not confirmed without them.
 * Returns 0 while something is lacking. */
static int
vqp_tx_dispatch_fence(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    vqp_path_t *path;
    vqp_frag_t *frag;

    if (vqp_seq_diff(tx->rma.post, op->am.fence_at) < 0) {
        vqp_cover(DISPATCH_FENCE_WAITS_RMA);
        tx->fence.waits = 1;
        return 0;
    }

    if (tx->paths.count == 1) {
        return 1; /* the RC order of the path is enough */
    }

    if (!tx->fence.started) {
        vqp_tx_start_fence(tx);
    }

    while (tx->fence.paths != 0) {
        path = &tx->paths.list[__builtin_ctzl(tx->fence.paths)];
        if (vqp_batch_is_full(batch) || !vqp_path_has_room(path, UINT64_MAX)) {
            vqp_cover(DISPATCH_FENCE_WAITS_ROOM);
            return 0;
        }

        vqp_cover_if(path->reads > 0, DISPATCH_FENCE_READS);
        frag = vqp_tx_emit_empty(tx, batch, path, op, VQP_KIND_FENCE,
                                 op->flags & VQP_OP_SIGNAL);
        vqp_frag_add_imm(frag, vqp_tx_next_fsn(tx), 0);
        vqp_frag_add_fence(frag);

        ++op->pending;
        --tx->fc.fsn_reserved;
        ++tx->stats->fences;
        tx->fence.paths &= tx->fence.paths - 1;
    }

    tx->fence.started = 0;
    op->flags        &= (uint16_t)~VQP_OP_FENCE;
    return 1;
}

/* The first frag of an op behind a fence waits for earlier READs and atomics of
 * its path; the rest of the op follows it */
static void vqp_tx_fence_frag(vqp_op_t *op, vqp_frag_t *frag)
{
    vqp_frag_add_fence(frag);
    op->flags &= (uint16_t)~VQP_OP_FENCE;
}

/* One frag of an AM. Returns 0 if no path can take it now. */
static inline int
vqp_tx_dispatch_am_frag(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    vqp_frag_t *frag = vqp_tx_emit_next(tx, batch, op);
    uint64_t end;

    if (vqp_unlikely(frag == NULL)) {
        return 0;
    }

    end = op->offset + frag->length;
    vqp_tx_fill_am(tx, op, op->offset, frag);
    if (vqp_unlikely(op->flags & VQP_OP_FENCE)) {
        vqp_tx_fence_frag(op, frag); /* one path, see dispatch_fence */
    }

    if (op->flags & VQP_OP_TAIL) {
        tx->announce.tail_paths |= 1ul << frag->path->index;
    } else if (op->flags & VQP_OP_SPRAY) {
        if (op->offset == 0) {
            op->am.fsn = vqp_tx_next_fsn(tx);
            --tx->fc.fsn_reserved;
        }
    } else {
        vqp_frag_add_imm(frag, vqp_tx_next_fsn(tx),
                         (end == op->length) ? vqp_tx_last_flags(op) : 0);
        --tx->fc.fsn_reserved;
    }

    ++op->pending;
    op->offset = end;
    return 1;
}

/* The paths are known that the tail AM has used: it needs no other fsns */
static void vqp_tx_start_tail(vqp_tx_t *tx, const vqp_op_t *op)
{
    tx->announce.tail_ready = 1;
    tx->fc.fsn_reserved    -=
            vqp_tx_tail_fsns(tx, op) -
            (uint32_t)__builtin_popcountl(tx->announce.tail_paths);
}

/* The frag of the path that carries the immediate of the tail AM: the last one of
 * the AM, if that is in this batch, else an empty one. NULL if there is no room. */
static vqp_frag_t *
vqp_tx_tail_frag(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op,
                 vqp_path_t *path)
{
    if (vqp_batch_has(batch, path->batch_last, path, op) &&
        (path->batch_last->opcode == VQP_WR_WRITE)) {
        return path->batch_last; /* else its fence is sent again in this batch */
    }

    if (vqp_batch_is_full(batch) || !vqp_path_has_room(path, UINT64_MAX)) {
        vqp_cover(DISPATCH_TAIL_NO_ROOM);
        return NULL;
    }

    vqp_cover(DISPATCH_TAIL_EMPTY);
    ++op->pending;
    return vqp_tx_emit_empty(tx, batch, path, op, VQP_KIND_NOTIFY,
                             op->flags & VQP_OP_SIGNAL);
}

/* All frags of a tail AM are dispatched: send an immediate on each path that has
 * carried one. By RC order the other frags of the path are executed before it.
 * Returns 0 while something is lacking. */
static int
vqp_tx_dispatch_tail(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    uint64_t *paths = &tx->announce.tail_paths;
    vqp_path_t *path;
    vqp_frag_t *frag;

    if (!tx->announce.tail_ready) {
        vqp_tx_start_tail(tx, op);
    }

    do {
        path = &tx->paths.list[__builtin_ctzl(*paths)];
        if (!path->up ||
            ((frag = vqp_tx_tail_frag(tx, batch, op, path)) == NULL)) {
            return 0;
        }

        *paths &= *paths - 1;
        vqp_frag_add_imm(frag, vqp_tx_next_fsn(tx),
                         (*paths == 0) ? vqp_tx_last_flags(op) : 0);
        --tx->fc.fsn_reserved;
    } while (*paths != 0);

    tx->announce.tail_ready = 0;
    return 1;
}

/* A credit update is sent before an AM that waits. Replace the credit in the
 * record by that of the credit update. It is not new to the peer, but not so
 * old that the peer would take it for credit beyond what was sent. */
static void vqp_tx_update_credit(const vqp_tx_t *tx, vqp_op_t *op)
{
    vqp_record_t *record = (vqp_record_t*)(uintptr_t)vqp_op_iov(op)->addr;

    record->credit_ring = tx->fc.last_update.ring;
    record->credit_fsn  = tx->fc.last_update.fsn;
}

static void vqp_tx_dispatch_am(vqp_tx_t *tx, vqp_batch_t *batch)
{
    vqp_op_t *op;

    while (tx->am.post != tx->am.tail) {
        op = vqp_opring_at(&tx->am, tx->am.post);
        if (vqp_unlikely(op->flags & VQP_OP_HELD) && vqp_tx_holds(tx, op)) {
            return;
        }

        if (vqp_unlikely(op->flags & VQP_OP_FENCE) && (op->offset == 0) &&
            !vqp_tx_dispatch_fence(tx, batch, op)) {
            return;
        }

        if (vqp_unlikely(tx->fc.am_outdated != 0) && (op->offset == 0)) {
            vqp_tx_update_credit(tx, op);
        }

        while (op->offset < op->length) {
            if (vqp_batch_is_full(batch) ||
                !vqp_tx_dispatch_am_frag(tx, batch, op)) {
                return;
            }
        }

        if (vqp_unlikely(tx->announce.tail_paths != 0) &&
            !vqp_tx_dispatch_tail(tx, batch, op)) {
            return;
        }

        ++tx->am.post;
        if (vqp_unlikely(tx->fc.am_outdated != 0)) {
            --tx->fc.am_outdated;
        }
    }
}

/* May an op behind a fence go? On one path RC order is enough, after the AMs that
 * were accepted earlier; else all from before the fence has to be confirmed. */
static int vqp_tx_fence_passed(const vqp_tx_t *tx, const vqp_op_t *op)
{
    uint32_t am = (tx->paths.count == 1) ? tx->am.post : tx->am.head;

    if ((vqp_seq_diff(am, op->rma.fence_at) >= 0) &&
        ((tx->paths.count == 1) || (tx->rma.head == tx->rma.post))) {
        return 1;
    }

    vqp_cover_if(tx->paths.count > 1, DISPATCH_HELD_RMA);
    return 0;
}

/* One frag of a put, get or atomic. Returns 0 if no path can take it. */
static inline int
vqp_tx_dispatch_rma_frag(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    vqp_frag_t *frag = vqp_tx_emit_next(tx, batch, op);

    if (vqp_unlikely(frag == NULL)) {
        return 0;
    }

    if (vqp_unlikely(op->flags & VQP_OP_FENCE)) {
        vqp_tx_fence_frag(op, frag);
    }

    vqp_tx_fill_rma(tx, op, (vqp_kind_t)op->kind, op->flags & VQP_OP_INLINE,
                    0, frag->path, op->offset, frag->length, frag->sge, frag);
    ++op->pending;
    op->offset += frag->length;
    return 1;
}

static void vqp_tx_dispatch_rma(vqp_tx_t *tx, vqp_batch_t *batch)
{
    vqp_op_t *op;

    while (tx->rma.post != tx->rma.tail) {
        op = vqp_opring_at(&tx->rma, tx->rma.post);
        if (vqp_unlikely(op->kind == VQP_KIND_BARRIER)) {
            if ((op->flags & VQP_OP_PROBE) &&
                (vqp_batch_is_full(batch) ||
                 !vqp_tx_dispatch_probe(tx, batch, op))) {
                return;
            }
            ++tx->rma.post; /* it waits at the head of the ring */
            continue;
        }

        if (vqp_unlikely(op->flags & VQP_OP_FENCE) && (op->offset == 0) &&
            !vqp_tx_fence_passed(tx, op)) {
            return;
        }

        do {
            if (vqp_batch_is_full(batch) ||
                !vqp_tx_dispatch_rma_frag(tx, batch, op)) {
                return;
            }
        } while (op->offset < op->length);

        ++tx->rma.post;
    }
}

/* What goes ahead of ops, and the end of a verdict on the rates */
static void vqp_tx_dispatch_first(vqp_tx_t *tx, vqp_batch_t *batch,
                                  const vqp_credit_t *credit)
{
    if (tx->slow & VQP_TX_CREDIT) {
        vqp_tx_dispatch_credit(tx, batch, credit);
    }

    if (tx->slow & VQP_TX_NOTIFY) {
        vqp_tx_dispatch_notify(tx, batch);
    }

    if ((tx->slow & VQP_TX_ASYMMETRIC) &&
        (tx->clock.now - tx->clock.rated > VQP_RATE_FORGET)) {
        tx->slow &= ~(uint32_t)VQP_TX_ASYMMETRIC;
    }
}

void vqp_tx_dispatch(vqp_tx_t *tx, vqp_batch_t *batch,
                     const vqp_credit_t *credit)
{
    uint32_t post;

    tx->clock.deferred = 0;
    tx->pack.is_held   = 0;
    vqp_pathcap_look(tx);
    if (vqp_unlikely(tx->slow & (VQP_TX_CREDIT | VQP_TX_NOTIFY |
                                 VQP_TX_ASYMMETRIC))) {
        vqp_tx_dispatch_first(tx, batch, credit);
    }

    do { /* again, if what an AM waited for is dispatched now */
        tx->fence.waits = 0;
        post            = tx->rma.post;
        vqp_tx_dispatch_am(tx, batch);
        vqp_tx_dispatch_rma(tx, batch);
        vqp_cover_if(tx->fence.waits && (tx->rma.post != post), DISPATCH_AGAIN);
    } while (vqp_unlikely(tx->fence.waits) && (tx->rma.post != post));

    /* Last, since frags of this batch may bring the CQEs that are needed */
    if (vqp_unlikely(tx->slow & (VQP_TX_NOP | VQP_TX_WITNESS))) {
        vqp_tx_dispatch_nops(tx, batch);
    }

    vqp_pathcap_note(tx);
    vqp_cover_if(vqp_batch_is_full(batch), BATCH_FULL);
}
