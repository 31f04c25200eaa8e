/*
 * The sender: splitting accepted ops into frags. See tx.h. Order of dispatch is
 * control, AM, RMA; fsns are given here, in AM order. Pure: libc only.
 */
#include "core/control.h"
#include "core/cover.h"

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
        vqp_cover_if(left < piece->length - op->g.iov_off,
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

/* The paths that need a fence frag: those with an unconfirmed put, get or
 * atomic */
static void vqp_tx_start_fence(vqp_tx_t *tx)
{
    uint32_t i;

    tx->fence.started = 1;
    tx->fence.paths   = 0;
    for (i = 0; i < tx->num_paths; ++i) {
        if ((tx->paths[i].rma > 0) || vqp_path_has_replay(&tx->paths[i])) {
            tx->fence.paths |= 1ul << i;
        }
    }

    tx->fc.fsn_reserved -= tx->num_paths -
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
    uint16_t id = vqp_opring_index(&tx->am, op) | VQP_OP_AM;
    vqp_path_t *path;
    vqp_frag_t *frag;

    if (vqp_seq_diff(tx->rma.post, op->am.fence_at) < 0) {
        vqp_cover(DISPATCH_FENCE_WAITS_RMA);
        tx->fence.waits = 1;
        return 0;
    }

    if (tx->num_paths == 1) {
        return 1; /* the RC order of the path is enough */
    }

    if (!tx->fence.started) {
        vqp_tx_start_fence(tx);
    }

    while (tx->fence.paths != 0) {
        path = &tx->paths[__builtin_ctzl(tx->fence.paths)];
        if (vqp_batch_is_full(batch) || !vqp_path_has_room(path, UINT64_MAX)) {
            vqp_cover(DISPATCH_FENCE_WAITS_ROOM);
            return 0;
        }

        frag = vqp_tx_emit_empty(tx, batch, path, op, id, VQP_KIND_FENCE,
                                 op->flags & VQP_OP_SIGNAL);
        vqp_frag_add_imm(frag, vqp_tx_next_fsn(tx), 0);
        if (path->reads > 0) {
            vqp_cover(DISPATCH_FENCE_READS);
            frag->flags |= VQP_FRAG_FENCE;
            vqp_path_note_fence(path, frag->slot);
        }

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
    if (frag->path->reads > 0) {
        frag->flags |= VQP_FRAG_FENCE;
        vqp_path_note_fence(frag->path, frag->slot);
    }
    op->flags &= (uint16_t)~VQP_OP_FENCE;
}

/* The path that the next frag goes to, or NULL: the next one in turn if that has
 * room and the paths are symmetric, else the scheduler's choice */
static inline vqp_path_t *
vqp_tx_choose(vqp_tx_t *tx, uint32_t length, uint64_t left, unsigned needs,
              unsigned rail)
{
    const vqp_want_t want = {tx->cfg.path_cap, length, left, tx->clock.now,
                             needs, rail};
    vqp_path_t *path      = &tx->paths[tx->next_path];

    if (vqp_likely((path->bytes < tx->limits.turn_cap) &&
                   !(tx->slow & VQP_TX_ASYMMETRIC) &&
                   vqp_sched_fits(path, &want) &&
                   vqp_sched_is_turn(tx->paths, path, length))) {
        tx->next_path = path->next;
    } else {
        path = vqp_sched_pick((vqp_sched_t)tx->cfg.sched, tx->paths,
                              tx->num_paths, &tx->next_path, &want,
                              &tx->clock.deferred);
    }

    if (vqp_likely(path != NULL) && (path->budget.frags == 0)) {
        vqp_tx_refill(tx, path);
    }

    return path;
}

/* One frag of an AM. Returns 0 if no path can take it now. */
static inline int
vqp_tx_dispatch_am_frag(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    uint64_t left   = op->length - op->offset;
    uint32_t length = (uint32_t)vqp_min(left, 1ul << op->frag_shift);
    uint32_t flags  = (left == length) ? vqp_tx_last_flags(op) : 0;
    vqp_path_t *path;
    vqp_frag_t *frag;

    path = vqp_tx_choose(tx, length, left, 0, 0);
    if (vqp_unlikely(path == NULL)) {
        vqp_cover(DISPATCH_AM_NO_PATH);
        return 0;
    }

    frag = vqp_tx_emit_inline(tx, batch, path, op,
                              vqp_opring_index(&tx->am, op) | VQP_OP_AM,
                              VQP_KIND_AM, op->offset, length,
                              op->flags & VQP_OP_SIGNAL);
    frag->raddr  = op->raddr + op->offset;
    frag->rkey   = tx->cfg.ring_rkeys[path->peer_rail];
    frag->flags |= vqp_tx_signal_am(tx, path, op->am.ring_end, frag->flags);
    vqp_tx_gather(op, frag);
    if (op->flags & VQP_OP_INLINE) {
        frag->flags |= VQP_FRAG_INLINE;
    }

    if (vqp_unlikely(op->flags & VQP_OP_FENCE)) {
        vqp_tx_fence_frag(op, frag); /* one path, see dispatch_fence */
    }

    if (op->flags & VQP_OP_TAIL) {
        tx->announce.tail_paths |= 1ul << path->index;
    } else if (op->flags & VQP_OP_SPRAY) {
        if (op->offset == 0) {
            op->am.fsn = vqp_tx_next_fsn(tx);
            --tx->fc.fsn_reserved;
        }
    } else {
        vqp_frag_add_imm(frag, vqp_tx_next_fsn(tx), flags);
        --tx->fc.fsn_reserved;
    }

    ++op->pending;
    op->offset += length;
    return 1;
}

/* Count one more frag of the tail AM until its immediates are dispatched, so that
 * it does not end earlier */
static void vqp_tx_hold_tail(vqp_tx_t *tx, vqp_op_t *op)
{
    tx->announce.tail_held = 1;
    ++op->pending;
    tx->fc.fsn_reserved -=
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
    return vqp_tx_emit_empty(tx, batch, path, op,
                             vqp_opring_index(&tx->am, op) | VQP_OP_AM,
                             VQP_KIND_NOTIFY, op->flags & VQP_OP_SIGNAL);
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

    if (!tx->announce.tail_held) {
        vqp_tx_hold_tail(tx, op);
    }

    do {
        path = &tx->paths[__builtin_ctzl(*paths)];
        if (!path->up ||
            ((frag = vqp_tx_tail_frag(tx, batch, op, path)) == NULL)) {
            return 0;
        }

        *paths &= *paths - 1;
        vqp_frag_add_imm(frag, vqp_tx_next_fsn(tx),
                         (*paths == 0) ? vqp_tx_last_flags(op) : 0);
        --tx->fc.fsn_reserved;
    } while (*paths != 0);

    tx->announce.tail_held = 0;
    --op->pending; /* the last immediate is in flight */
    return 1;
}

/* A control message is sent before an AM that waits. Replace the credit in the
 * record by that of the control message. It is not new to the peer, but not so
 * old that the peer would take it for credit beyond what was sent. */
static void vqp_tx_update_credit(const vqp_tx_t *tx, const vqp_op_t *op)
{
    vqp_record_t *record = (vqp_record_t*)(tx->cfg.mirror +
                                           (op->raddr - tx->cfg.ring_raddr));

    record->credit_ring = tx->fc.control.ring;
    record->credit_fsn  = tx->fc.control.fsn;
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
    uint32_t am = (tx->num_paths == 1) ? tx->am.post : tx->am.head;

    if ((vqp_seq_diff(am, op->rma.fence_at) >= 0) &&
        ((tx->num_paths == 1) || (tx->rma.head == tx->rma.post))) {
        return 1;
    }

    vqp_cover_if(tx->num_paths > 1, DISPATCH_HELD_RMA);
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
    default: /* atomics */
        ++path->rma;
        ++path->reads;
        frag->opcode        = (op->kind == VQP_KIND_FADD) ? VQP_WR_FADD :
                                                            VQP_WR_CSWAP;
        frag->nsge          = 1;
        frag->sge[0].addr   = (uintptr_t)vqp_tx_amo_cell(tx, path, frag->slot);
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
        return VQP_NEED_READ | tx->limits.amo_needs;
    default:
        return 0;
    }
}

/* One frag of a put, get or atomic. Returns 0 if no path can take it. */
static inline int
vqp_tx_dispatch_rma_frag(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    uint64_t left   = op->length - op->offset;
    uint32_t length = (uint32_t)vqp_min(left, 1ul << op->frag_shift);
    unsigned needs  = vqp_likely(op->kind == VQP_KIND_PUT) ?
                              0 : vqp_tx_rma_needs(tx, op);
    vqp_path_t *path;
    vqp_frag_t *frag;

    path = vqp_tx_choose(tx, length, left, needs, op->amo.rail);
    if (vqp_unlikely(path == NULL)) {
        vqp_cover(DISPATCH_RMA_NO_PATH);
        return 0;
    }

    vqp_cover_if(needs && (path->reads + 1 >= path->reads_max),
                DISPATCH_LAST_READ);
    /* the frag that takes the last READ credit gets a CQE */
    frag = vqp_tx_emit_inline(tx, batch, path, op,
                              vqp_opring_index(&tx->rma, op), op->kind,
                              op->offset, length,
                              (op->flags & VQP_OP_SIGNAL) ||
                              (needs &&
                               (path->reads + 1 >= path->reads_max)));
    frag->raddr = op->raddr + op->offset;
    frag->rkey  = op->rma.rkeys[path->peer_rail];

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
        if (vqp_unlikely(op->kind == VQP_KIND_BARRIER)) {
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

void vqp_tx_dispatch(vqp_tx_t *tx, vqp_batch_t *batch,
                     const vqp_credit_t *credit)
{
    uint32_t post;

    tx->clock.deferred = 0;
    if (vqp_unlikely(tx->slow & VQP_TX_CONTROL)) {
        vqp_tx_dispatch_control(tx, batch, credit);
    }

    if (vqp_unlikely(tx->slow & VQP_TX_NOTIFY)) {
        vqp_tx_dispatch_notify(tx, batch);
    }

    if (vqp_unlikely(tx->slow & VQP_TX_ASYMMETRIC) &&
        (tx->clock.now - tx->clock.rated > VQP_RATE_FORGET)) {
        tx->slow &= ~(uint32_t)VQP_TX_ASYMMETRIC;
    }

    do { /* again, if what an AM waited for is dispatched now */
        tx->fence.waits = 0;
        post            = tx->rma.post;
        vqp_tx_dispatch_am(tx, batch);
        vqp_tx_dispatch_rma(tx, batch);
        vqp_cover_if(tx->fence.waits && (tx->rma.post != post), DISPATCH_AGAIN);
    } while (vqp_unlikely(tx->fence.waits) && (tx->rma.post != post));

    /* Last, since frags of this batch may bring the CQEs that are needed */
    if (vqp_unlikely(tx->slow & (VQP_TX_NOP | VQP_TX_PROBE))) {
        vqp_tx_dispatch_nops(tx, batch);
    }

    vqp_cover_if(vqp_batch_is_full(batch), BATCH_FULL);
}
