/*
 * The sender: cutting accepted ops into frags. See tx.h. Order of dispatch is
 * control, AM, RMA; numbers (fsn) are given here, in AM order. Pure: libc only.
 */
#include "core/emit.h"
#include "core/mark.h"

/* Consume the next frag->length bytes of a source of several pieces */
static void vqp_tx_gather_pieces(vqp_op_t *op, vqp_frag_t *frag)
{
    const vqp_iov_t *iov = vqp_op_iov(op);
    uint64_t left        = frag->length;
    unsigned rail        = frag->path->rail;
    const vqp_iov_t *piece;
    uint64_t length;

    while (left > 0) {
        piece  = &iov[op->iov_idx];
        length = vqp_min(left, piece->length - op->g.iov_off);
        vqp_mark_if(left < piece->length - op->g.iov_off,
                    DISPATCH_GATHER_SPLIT);
        if (length > 0) {
            frag->sge[frag->nsge].addr   = piece->addr + op->g.iov_off;
            frag->sge[frag->nsge].length = (uint32_t)length;
            frag->sge[frag->nsge].lkey   = piece->lkeys[rail];
            ++frag->nsge;
            left          -= length;
            op->g.iov_off += length;
        }

        if (op->g.iov_off == piece->length) {
            ++op->iov_idx;
            op->g.iov_off = 0;
        }
    }
}

/* Consume the next frag->length bytes of the op's source */
static inline void vqp_tx_gather(vqp_op_t *op, vqp_frag_t *frag)
{
    if (vqp_unlikely(op->niov != 1)) {
        vqp_tx_gather_pieces(op, frag);
        return;
    }

    frag->nsge          = 1;
    frag->sge[0].addr   = op->g.iov[0].addr + op->offset;
    frag->sge[0].length = frag->length;
    frag->sge[0].lkey   = op->g.iov[0].lkeys[frag->path->rail];
}

/* An empty immediate on each path that has an unconfirmed put, get or atomic:
 * the window then holds the AM back until all of them have executed.
 * Returns 0 while something is lacking. */
static int
vqp_tx_dispatch_fence(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    vqp_path_t *path;
    vqp_frag_t *frag;
    uint32_t i;

    if ((tx->rma.post != tx->rma.tail) &&
        (vqp_seq_diff(vqp_opring_at(&tx->rma, tx->rma.post)->seq, op->seq) <
         0)) {
        vqp_mark(DISPATCH_FENCE_WAITS_RMA);
        tx->am_fenced = 1;
        return 0; /* an earlier one is not wholly dispatched yet */
    }

    if (tx->num_paths == 1) {
        return 1; /* the RC order of the path says it all */
    }

    if (!tx->fence_started) {
        tx->fence_started = 1;
        tx->fence_paths   = 0;
        for (i = 0; i < tx->num_paths; ++i) {
            if (tx->paths[i].rma > 0) {
                tx->fence_paths |= 1ul << i;
            }
        }
        tx->fsn_reserved -= tx->num_paths -
                            (uint32_t)__builtin_popcountl(tx->fence_paths);
        vqp_mark_if(tx->fence_paths == 0, DISPATCH_FENCE_EMPTY);
    }

    while (tx->fence_paths != 0) {
        path = &tx->paths[__builtin_ctzl(tx->fence_paths)];
        if (vqp_batch_is_full(batch) || !vqp_path_has_room(path, UINT64_MAX) ||
            !vqp_path_has_imm(path)) {
            vqp_mark(DISPATCH_FENCE_WAITS_ROOM);
            return 0;
        }

        frag = vqp_tx_emit(tx, batch, path, NULL, VQP_OP_NONE, VQP_KIND_FENCE,
                           tx->am.post, 0, 0);
        vqp_tx_empty(tx, frag);
        vqp_tx_immediate(tx, frag, vqp_tx_next_fsn(tx), 0);
        if (path->reads > 0) {
            vqp_mark(DISPATCH_FENCE_READS);
            frag->flags |= VQP_FRAG_FENCE;
        }

        --tx->fsn_reserved;
        ++tx->loose;
        ++tx->stats->fences;
        tx->fence_paths &= tx->fence_paths - 1;
    }

    tx->fence_started = 0;
    op->flags        &= (uint8_t)~VQP_OP_FENCE;
    return 1;
}

/* The first frag of an op behind a fence waits for earlier READs and atomics of
 * its path; the rest of the op follows it */
static void vqp_tx_fence_frag(vqp_op_t *op, vqp_frag_t *frag)
{
    if (frag->path->reads > 0) {
        frag->flags |= VQP_FRAG_FENCE;
    }
    op->flags &= (uint8_t)~VQP_OP_FENCE;
}

/* The path that the next frag goes to, or NULL */
static inline vqp_path_t *
vqp_tx_choose(vqp_tx_t *tx, uint32_t length, uint64_t left, unsigned needs,
              unsigned rail)
{
    const vqp_want_t want = {tx->cfg.path_cap, length, left, tx->now, needs,
                             rail};

    return vqp_sched_choose((vqp_sched_t)tx->cfg.sched,
                            tx->uneven ? 0 : tx->turn_cap, tx->paths,
                            tx->num_paths, &tx->next_path, &want);
}

/* One frag of an AM. Returns 0 if no path can take it now. */
static inline int
vqp_tx_dispatch_am_frag(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    uint64_t left   = op->length - op->offset;
    uint32_t length = (uint32_t)vqp_min(left, 1ul << op->frag_shift);
    int bare        = op->flags & VQP_OP_TAIL;
    uint32_t flags;
    vqp_path_t *path;
    vqp_frag_t *frag;

    /* a path that a tail AM uses will carry an immediate of it */
    path = vqp_tx_choose(tx, length, left,
                         (bare == VQP_OP_BARE) ? 0 : VQP_NEED_IMM, 0);
    if (vqp_unlikely(path == NULL)) {
        vqp_mark(DISPATCH_AM_NO_PATH);
        return 0;
    }

    frag = vqp_tx_emit(tx, batch, path, op,
                       vqp_opring_index(&tx->am, op) | VQP_OP_AM, VQP_KIND_AM,
                       op->offset, length, op->flags & VQP_OP_SIGNAL);
    frag->raddr = op->raddr + op->offset;
    frag->rkey  = op->rkeys[path->peer_rail];
    vqp_tx_gather(op, frag);
    if (op->flags & VQP_OP_INLINE) {
        frag->flags |= VQP_FRAG_INLINE;
    }

    if (vqp_unlikely(op->flags & VQP_OP_FENCE)) {
        vqp_tx_fence_frag(op, frag); /* single path, see dispatch_fence */
    }

    if (!bare) {
        flags = (left == length) ? vqp_tx_last_flags(op) : 0;
        vqp_tx_immediate(tx, frag, vqp_tx_next_fsn(tx), flags);
        --tx->fsn_reserved;
    } else if (bare == VQP_OP_TAIL) {
        tx->tail_paths |= 1ul << path->index;
    } else if (op->offset == 0) {
        op->fsn = vqp_tx_next_fsn(tx);
        --tx->fsn_reserved;
    }

    ++op->pending;
    op->offset += length;
    return 1;
}

/* All frags of a tail AM are out: an immediate on each path that has one, with
 * the path's last frag if that is in this batch, else empty. RC order says that
 * the rest of the path's frags is there before it. Returns 0 while something is
 * lacking. */
static int
vqp_tx_dispatch_tail(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    vqp_path_t *path;
    vqp_frag_t *frag;

    if (!tx->tail_held) {
        /* counted as a frag, so that the op does not end before they are out */
        tx->tail_held = 1;
        ++op->pending;
        tx->fsn_reserved -= vqp_tx_tail_fsns(tx, op) -
                            (uint32_t)__builtin_popcountl(tx->tail_paths);
    }

    do {
        path = &tx->paths[__builtin_ctzl(tx->tail_paths)];
        frag = path->batch_last;
        if (!vqp_path_has_imm(path)) {
            return 0;
        }

        if (!vqp_batch_has(batch, frag, path, op)) {
            if (vqp_batch_is_full(batch) ||
                !vqp_path_has_room(path, UINT64_MAX)) {
                vqp_mark(DISPATCH_TAIL_NO_ROOM);
                return 0;
            }

            vqp_mark(DISPATCH_TAIL_EMPTY);
            frag = vqp_tx_emit(tx, batch, path, op,
                               vqp_opring_index(&tx->am, op) | VQP_OP_AM,
                               VQP_KIND_NOTIFY, op->length, 0,
                               op->flags & VQP_OP_SIGNAL);
            vqp_tx_empty(tx, frag);
            ++op->pending;
        }

        tx->tail_paths &= tx->tail_paths - 1;
        vqp_tx_immediate(tx, frag, vqp_tx_next_fsn(tx),
                         (tx->tail_paths == 0) ? vqp_tx_last_flags(op) : 0);
        --tx->fsn_reserved;
    } while (tx->tail_paths != 0);

    tx->tail_held = 0;
    --op->pending; /* the last immediate is on the way */
    return 1;
}

static void vqp_tx_dispatch_am(vqp_tx_t *tx, vqp_batch_t *batch)
{
    vqp_op_t *op;

    while (tx->am.post != tx->am.tail) {
        op = vqp_opring_at(&tx->am, tx->am.post);
        if (vqp_unlikely(op->flags & VQP_OP_FENCE) && (op->offset == 0) &&
            !vqp_tx_dispatch_fence(tx, batch, op)) {
            return;
        }

        while (op->offset < op->length) {
            if (vqp_batch_is_full(batch) ||
                !vqp_tx_dispatch_am_frag(tx, batch, op)) {
                return;
            }
        }

        if (vqp_unlikely(tx->tail_paths != 0) &&
            !vqp_tx_dispatch_tail(tx, batch, op)) {
            return;
        }

        ++tx->am.post;
    }
}

/* May an op behind a fence go? On one path RC order does it, after the AMs that
 * were accepted earlier; else all from before the fence has to be confirmed. */
static int vqp_tx_fence_passed(vqp_tx_t *tx, const vqp_op_t *op)
{
    uint32_t am = (tx->num_paths == 1) ? tx->am.post : tx->am.head;

    if ((vqp_seq_diff(am, op->fence_am) >= 0) &&
        ((tx->num_paths == 1) || (tx->rma.head == tx->rma.post))) {
        tx->rma_held = 0;
        return 1;
    }

    if ((tx->num_paths > 1) && !tx->rma_held) {
        vqp_mark(DISPATCH_HELD_RMA);
        tx->rma_held = 1; /* once: what comes later is not waited for */
        vqp_tx_kick(tx);
    }

    return 0;
}

static inline void vqp_tx_rma_source(vqp_tx_t *tx, vqp_op_t *op,
                                     vqp_frag_t *frag)
{
    vqp_path_t *path = frag->path;

    switch (op->kind) {
    case VQP_KIND_PUT:
        ++path->rma;
        if (op->flags & VQP_OP_INLINE) {
            frag->flags         |= VQP_FRAG_INLINE;
            frag->nsge           = 1;
            frag->sge[0].addr    = (uintptr_t)op->data;
            frag->sge[0].length  = frag->length;
            frag->sge[0].lkey    = 0;
            return;
        }
        vqp_tx_gather(op, frag);
        return;
    case VQP_KIND_GET:
        ++path->rma;
        ++path->reads;
        frag->opcode = VQP_WR_READ;
        vqp_tx_gather(op, frag);
        return;
    case VQP_KIND_CHECK:
        vqp_tx_empty(tx, frag);
        return;
    default: /* atomics */
        ++path->rma;
        ++path->reads;
        frag->opcode        = (op->kind == VQP_KIND_FADD) ? VQP_WR_FADD :
                                                            VQP_WR_CSWAP;
        frag->nsge          = 1;
        frag->sge[0].addr   = (uintptr_t)vqp_tx_amo_cell(tx, path, frag->pos);
        frag->sge[0].length = sizeof(uint64_t);
        frag->sge[0].lkey   = tx->cfg.local_lkeys[path->rail];
        return;
    }
}

/* Two devices are not atomic to each other: all atomics to one memory go to one
 * rail of the peer */
static inline unsigned
vqp_tx_rma_needs(const vqp_tx_t *tx, const vqp_op_t *op)
{
    switch (op->kind) {
    case VQP_KIND_GET:
        return VQP_NEED_READ;
    case VQP_KIND_FADD:
    case VQP_KIND_CSWAP:
        return VQP_NEED_READ | tx->amo_needs;
    default:
        return 0;
    }
}

/* One frag of a put, get, atomic or check. Returns 0 if no path can take it. */
static inline int
vqp_tx_dispatch_rma_frag(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    uint64_t left   = op->length - op->offset;
    uint32_t length = (uint32_t)vqp_min(left, 1ul << op->frag_shift);
    unsigned needs  = vqp_tx_rma_needs(tx, op);
    vqp_path_t *path;
    vqp_frag_t *frag;

    path = vqp_tx_choose(tx, length, left, needs, op->amo.rail);
    if (vqp_unlikely(path == NULL)) {
        vqp_mark(DISPATCH_RMA_NO_PATH);
        return 0;
    }

    vqp_mark_if(needs && (path->reads + 1 >= path->reads_max),
                DISPATCH_LAST_READ);
    /* who takes the path's last READ credit gets a CQE, as in emit */
    frag = vqp_tx_emit(tx, batch, path, op, vqp_opring_index(&tx->rma, op),
                       op->kind, op->offset, length,
                       (op->flags & VQP_OP_SIGNAL) ||
                       (needs && (path->reads + 1 >= path->reads_max)));
    if (vqp_likely(op->kind != VQP_KIND_CHECK)) {
        frag->raddr = op->raddr + op->offset;
        frag->rkey  = op->rkeys[path->peer_rail];
    }

    if (vqp_unlikely(op->flags & VQP_OP_FENCE)) {
        vqp_tx_fence_frag(op, frag);
    }

    vqp_tx_rma_source(tx, op, frag);
    ++op->pending;
    op->offset += length;
    return 1;
}

static void vqp_tx_dispatch_rma(vqp_tx_t *tx, vqp_batch_t *batch)
{
    vqp_op_t *op;

    while (tx->rma.post != tx->rma.tail) {
        op = vqp_opring_at(&tx->rma, tx->rma.post);
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

void vqp_tx_dispatch(vqp_tx_t *tx, vqp_batch_t *batch,
                     const vqp_credit_t *credit)
{
    uint32_t post;

    batch->count = 0;
    if (vqp_unlikely(tx->failed)) {
        return;
    }

    if (vqp_unlikely(tx->slow != 0)) {
        if (tx->slow & VQP_TX_CONTROL) {
            vqp_tx_dispatch_control(tx, batch, credit);
        }
        if (tx->slow & VQP_TX_NOTIFY) {
            vqp_tx_dispatch_notify(tx, batch);
        }
    }

    if (vqp_unlikely(tx->uneven) &&
        (tx->now - tx->paced > VQP_PACE_FORGET)) {
        tx->uneven = 0;
        tx->plain  = !tx->cfg.no_fast;
    }

    do { /* again, if what an AM waited for is out now */
        tx->am_fenced = 0;
        post          = tx->rma.post;
        vqp_tx_dispatch_am(tx, batch);
        vqp_tx_dispatch_rma(tx, batch);
        vqp_mark_if(tx->am_fenced && (tx->rma.post != post), DISPATCH_AGAIN);
    } while (vqp_unlikely(tx->am_fenced) && (tx->rma.post != post));

    /* Last: frags of this batch may bring the CQEs that are wanted, or may have
     * been found to wait for some */
    if (vqp_unlikely(tx->slow & VQP_TX_KICK)) {
        vqp_tx_dispatch_kick(tx, batch);
    }

    if (vqp_unlikely(tx->slow & VQP_TX_PROBE)) {
        vqp_tx_dispatch_probe(tx, batch);
    }

    vqp_mark_if(vqp_batch_is_full(batch), BATCH_FULL);
}
