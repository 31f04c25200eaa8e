/* SPDX-License-Identifier: BSD-3-Clause */
/* The budget of a path, and frags in a batch; see place.h. Pure: libc only. */
#include "core/data/place.h"

#include "core/cover.h"
#include "core/data/pathcap.h"

unsigned vqp_tx_spend_last(const vqp_tx_t *tx, vqp_path_t *path,
                           uint32_t length)
{
    uint16_t unsignaled = (uint16_t)(path->tail - path->signaled);
    int is_covered      = path->budget.frags != 0;
    unsigned flags      = 0;

    /* Without a budget (the frag is out of the reserve) the path may continue for
     * a while. The bytes are few then, or the path is full */
    if (is_covered || (unsignaled >= tx->cfg.signal_every) ||
        (path->bytes >= tx->limits.path_cap) ||
        (vqp_path_outstanding(path) + VQP_CONTROL_RESERVE >= path->depth) ||
        (length >= tx->limits.max_unsignaled)) {
        path->signaled = path->tail;
        flags          = VQP_FRAG_SIGNALED | VQP_FRAG_FORCE_SIGNAL;
    }

    vqp_tx_refill(tx, path);
    return flags;
}

unsigned vqp_tx_force_am_signal(const vqp_tx_t *tx, vqp_path_t *path,
                                uint32_t end)
{
    path->ring_signaled = end;
    path->signaled      = path->tail;
    vqp_tx_refill(tx, path);
    return VQP_FRAG_SIGNALED | VQP_FRAG_FORCE_SIGNAL;
}

vqp_path_t *vqp_tx_find_path(vqp_tx_t *tx, const vqp_want_t *want)
{
    vqp_path_t *path = vqp_tx_path_in_turn(tx, want->length);

    if ((path != NULL) && vqp_sched_fits(path, want)) {
        tx->paths.next = path->next;
    } else {
        path = vqp_sched_pick((want->needs & VQP_NEED_CONTROL) ?
                                      VQP_SCHED_RR : (vqp_sched_t)tx->cfg.sched,
                              tx->paths.list, tx->paths.count, &tx->paths.next, want,
                              &tx->clock.deferred);
    }

    if (vqp_likely(path != NULL) && (path->budget.frags == 0)) {
        vqp_tx_refill(tx, path);
    }

    return path;
}

/* vqp_tx_find_path() for the next frag of the op */
static vqp_path_t *
vqp_tx_find_for(vqp_tx_t *tx, const vqp_op_t *op, uint32_t length)
{
    vqp_want_t want = {.cap    = tx->limits.path_cap,
                       .left   = op->length - op->offset,
                       .length = length,
                       .now    = tx->clock.now};

    if (op->kind >= VQP_KIND_FADD) {
        /* Two devices are not atomic to each other: all atomics to one memory go
         * to one rail of the peer */
        want.needs = tx->limits.amo_needs;
        want.rail  = op->amo.rail;
    }

    return vqp_tx_find_path(tx, &want);
}

void vqp_tx_gather_pieces(vqp_op_t *op, uint64_t offset, vqp_frag_t *frag)
{
    const vqp_iov_t *piece = vqp_op_iov(op);
    uint64_t left          = frag->length;
    uint64_t length;

    for (; left > 0; ++piece) {
        if (offset >= piece->length) {
            offset -= piece->length;
            continue;
        }

        length = vqp_min(left, piece->length - offset);
        vqp_cover_if(left < piece->length - offset, DISPATCH_GATHER_SPLIT);
        frag->sge[frag->nsge].addr   = piece->addr + offset;
        frag->sge[frag->nsge].length = (uint32_t)length;
        frag->sge[frag->nsge].lkey   = piece->lkeys[frag->path->rail];
        ++frag->nsge;
        left  -= length;
        offset = 0;
    }
}

void vqp_tx_fill_am(const vqp_tx_t *tx, vqp_op_t *op, uint64_t offset,
                    vqp_frag_t *frag)
{
    vqp_tx_fill_am_target(tx, vqp_tx_ring_of(tx, op), frag->path, op,
                          op->raddr + offset, frag);
    if (op->flags & VQP_OP_INLINE) {
        frag->flags |= VQP_FRAG_INLINE;
    }
    vqp_tx_gather(op, frag->path, offset, frag->length, 0, frag, frag->sge);
}

static inline uint16_t vqp_tx_id_of(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return (op == NULL)              ? VQP_OP_NONE :
           (op->kind == VQP_KIND_AM) ? vqp_opring_index(&tx->am, op) | VQP_OP_AM :
                                       vqp_opring_index(&tx->rma, op);
}

static inline int
vqp_tx_is_newest(const vqp_batch_t *batch, const vqp_frag_t *frag,
                 const vqp_path_t *path, const vqp_op_t *op)
{
    return (frag >= batch->frags) && (frag < &batch->frags[batch->count]) &&
           (frag->path == path) && (frag->op == op);
}

int vqp_batch_has(const vqp_batch_t *batch, const vqp_frag_t *frag,
                  const vqp_path_t *path, const vqp_op_t *op)
{
    return vqp_tx_is_newest(batch, frag, path, op);
}

static VQP_ALWAYS_INLINE vqp_frag_t *
vqp_tx_add(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path, vqp_op_t *op,
           vqp_kind_t kind, uint64_t offset, uint32_t length, int signal)
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

    vqp_tx_place(tx, path, op, vqp_tx_id_of(tx, op), kind, offset, length, 0,
                 signal || vqp_unlikely(tx->slow & VQP_TX_SAMPLE), batch->sge[index], frag);
    frag->opcode = VQP_WR_WRITE;
    frag->nsge   = 0;

    /* last may be of an earlier batch, in the memory of this frag */
    if ((frag->flags & VQP_FRAG_SIGNALED) && (op != NULL) &&
        vqp_tx_is_newest(batch, last, path, op) &&
        !(last->flags & VQP_FRAG_FORCE_SIGNAL)) {
        last->flags &= ~(unsigned)VQP_FRAG_SIGNALED;
    }

    ++batch->count;
    path->batch_last = frag;
    return frag;
}

vqp_frag_t *vqp_tx_emit(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path,
                        vqp_op_t *op, vqp_kind_t kind, uint64_t offset,
                        uint32_t length, int signal)
{
    return vqp_tx_add(tx, batch, path, op, kind, offset, length, signal);
}

vqp_frag_t *vqp_tx_emit_next(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    vqp_kind_t kind = (vqp_kind_t)op->kind;
    int signal      = op->flags & VQP_OP_SIGNAL;
    uint32_t length = (uint32_t)vqp_min(op->length - op->offset,
                                        1ul << op->frag_shift);
    vqp_path_t *path;

    path = (kind < VQP_KIND_FADD) ? vqp_tx_path_in_turn(tx, length) : NULL;
    if (vqp_likely((path != NULL) && (path->budget.frags != 0))) {
        tx->paths.next = path->next;
    } else {
        path = vqp_tx_find_for(tx, op, length);
        if (vqp_unlikely(path == NULL)) {
            vqp_cover_if(kind == VQP_KIND_AM, DISPATCH_AM_NO_PATH);
            vqp_cover_if(kind != VQP_KIND_AM, DISPATCH_RMA_NO_PATH);
            return NULL;
        }
    }

    return vqp_tx_add(tx, batch, path, op, kind, op->offset, length, signal);
}

vqp_frag_t *vqp_tx_emit_empty(vqp_tx_t *tx, vqp_batch_t *batch,
                              vqp_path_t *path, vqp_op_t *op, vqp_kind_t kind,
                              int signal)
{
    vqp_frag_t *frag = vqp_tx_emit(tx, batch, path, op, kind, 0, 0, signal);

    frag->raddr = tx->cfg.cells_raddr;
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

void vqp_frag_add_fence(vqp_frag_t *frag)
{
    if (frag->path->reads > 0) {
        frag->flags |= VQP_FRAG_FENCE;
        vqp_path_note_fence(frag->path, frag->slot);
    }
}

void vqp_tx_link_paths(vqp_tx_t *tx)
{
    uint32_t i, j, next;
    vqp_path_t *path;

    vqp_pathcap_restart(tx);
    tx->paths.settled = 1;
    tx->paths.has_off = 0;
    for (i = 0; i < tx->paths.count; ++i) {
        path               = &tx->paths.list[i];
        path->up           = (path->fo.state == VQP_PATH_UP) && !path->fo.parked &&
                             !vqp_path_has_replay(path);
        tx->paths.has_off |= vqp_path_is_off(path);
        tx->paths.settled &= vqp_path_is_settled(path);
    }
    vqp_tx_set_shares(tx);

    for (i = 0; i < tx->paths.count; ++i) {
        next = i;
        for (j = 0; j < tx->paths.count; ++j) {
            next = (next + 1 == tx->paths.count) ? 0 : next + 1;
            if (tx->paths.list[next].up) {
                break;
            }
        }
        tx->paths.list[i].next = (uint8_t)next;
        vqp_tx_refill(tx, &tx->paths.list[i]);
    }

    if (!tx->paths.list[tx->paths.next].up) {
        tx->paths.next = tx->paths.list[tx->paths.next].next;
    }
}
