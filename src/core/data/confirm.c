/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: the end of ops and their reporting, slow path. The part that every
 * completion runs is in confirm.h. Pure: libc only.
 */
#include "core/data/confirm.h"

#include "core/data/lost.h"
#include "core/data/place.h"

#include <string.h>

void vqp_tx_retire_other(vqp_tx_t *tx, vqp_path_t *path,
                         const vqp_inflight_t *entry, vqp_status_t status)
{
    vqp_op_t *op;

    switch (entry->kind) {
    case VQP_KIND_FADD:
    case VQP_KIND_CSWAP:
        op = vqp_tx_op_of(tx, entry->op);
        if ((status == VQP_OK) && (op->amo.result != NULL)) {
            memcpy(op->amo.result, vqp_tx_amo_cell(tx, op), sizeof(uint64_t));
        }
        /* fall through */
    case VQP_KIND_GET:
        --path->reads;
        --path->rma;
        break;
    case VQP_KIND_CREDIT:
        --tx->credit_updates;
        break;
    default:
        break;
    }
}

int vqp_tx_op_ended(vqp_tx_t *tx, vqp_op_t *op, uint16_t id)
{
    vqp_cover_if(vqp_tx_oldest(tx) != op->seq, CONFIRM_OUT_OF_ORDER);
    if (vqp_likely(!tx->cfg.comp_post)) {
        return vqp_tx_end(tx, op, id);
    }

    /* Ops are reported by number. Older ops of other paths may have no CQE of
     * their own, and must not delay an op that is waited for */
    op->flags |= VQP_OP_DONE;
    vqp_cover_if(op->status != VQP_OK, CONFIRM_ERROR);
    if ((op->user_kind != 0) && !tx->failed &&
        (vqp_tx_oldest(tx) != op->seq)) {
        vqp_cover(CONFIRM_POST_RECLAIM);
        vqp_tx_reclaim(tx);
    }

    return 1;
}

/* Are immediates of the tail AM not dispatched yet? */
static inline int vqp_tx_owes_tail(vqp_tx_t *tx, const vqp_op_t *op)
{
    return vqp_unlikely(tx->announce.tail_ready) &&
           (op == vqp_opring_at(&tx->am, tx->am.post));
}

int vqp_tx_last_frag_done(vqp_tx_t *tx, vqp_op_t *op, uint16_t id)
{
    if ((op->flags & VQP_OP_DONE) || (op->kind == VQP_KIND_BARRIER)) {
        return 1; /* a barrier ends at the head of its ring */
    }

    if (vqp_unlikely(tx->failed)) {
        return vqp_tx_op_ended(tx, op, id);
    }

    if ((op->offset != op->length) || vqp_tx_owes_tail(tx, op)) {
        return 0; /* the rest is not posted yet */
    }

    if ((op->flags & (VQP_OP_SPRAY | VQP_OP_ANNOUNCED)) == VQP_OP_SPRAY) {
        vqp_tx_push(tx, &tx->announce.head, &tx->announce.tail, id);
        tx->slow |= VQP_TX_NOTIFY;
        return 0;
    }

    return vqp_tx_op_ended(tx, op, id);
}

void vqp_tx_rate_changed(vqp_tx_t *tx)
{
    if (tx->cfg.sched != VQP_SCHED_LEFT) {
        return; /* it chooses without rates */
    }

    if (vqp_sched_is_symmetric(tx->paths.list, tx->paths.count, tx->clock.now)) {
        tx->slow &= ~(uint32_t)VQP_TX_ASYMMETRIC;
    } else {
        tx->slow |= VQP_TX_ASYMMETRIC;
    }
    tx->clock.rated = tx->clock.now;
}

/* ---- barriers ---- */

/* The newest credit update of the path with an AM before @a am_tail behind it: that
 * AM has a later fsn, and the peer can not deliver it without the update. NULL if
 * there is none. */
static vqp_inflight_t *
vqp_tx_needed_in(vqp_path_t *path, uint16_t begin, uint16_t end,
                 uint32_t am_tail)
{
    vqp_inflight_t *entry;

    for (; end != begin; --end) {
        entry = vqp_path_at(path, (uint16_t)(end - 1));
        if ((entry->kind == VQP_KIND_CREDIT) &&
            (vqp_seq_diff(am_tail, entry->am_post) > 0)) {
            return entry;
        }
    }

    return NULL;
}

static vqp_inflight_t *vqp_tx_needed_credit(vqp_path_t *path, uint32_t am_tail)
{
    vqp_inflight_t *entry = vqp_tx_needed_in(path, path->head, path->tail,
                                             am_tail);

    return (entry != NULL) ? entry :
           vqp_tx_needed_in(path, path->fo.replay, path->fo.replay_end, am_tail);
}

/* All ops before the barrier have ended. The AMs among them may wait at the peer
 * for credit updates with an earlier fsn: these become frags of the barrier. */
static void vqp_tx_barrier_arm(vqp_tx_t *tx, vqp_op_t *op)
{
    vqp_inflight_t *entry;
    uint32_t i;

    op->flags |= VQP_OP_ARMED;
    for (i = 0; (i < tx->paths.count) && (tx->credit_updates != 0); ++i) {
        entry = vqp_tx_needed_credit(&tx->paths.list[i], op->barrier.am_end);
        if (entry != NULL) {
            entry->op = vqp_opring_index(&tx->rma, op);
            ++op->pending;
        }
    }

    if (op->pending != 0) {
        vqp_cover(BARRIER_CREDIT);
        vqp_tx_reclaim(tx);
    }
}

/* End the barrier at the head of the RMA ring if it has nothing to wait for.
 * Returns 1 if its slot is free. */
static int vqp_tx_barrier_try(vqp_tx_t *tx)
{
    vqp_op_t *op = vqp_opring_at(&tx->rma, tx->rma.head);

    if ((op->kind != VQP_KIND_BARRIER) || (op->flags & VQP_OP_DONE) ||
        (vqp_seq_diff(tx->am.head, op->barrier.am_end) < 0)) {
        return 0;
    }

    if (!tx->failed && (op->flags & VQP_OP_PROBE) &&
        (tx->rma.post == tx->rma.head)) {
        return 0; /* dispatch sends a nop, unless something else is in flight */
    }

    if (!tx->failed && !(op->flags & VQP_OP_ARMED)) {
        vqp_tx_barrier_arm(tx, op);
    }

    if (op->pending != 0) {
        return 0;
    }

    --tx->barriers;
    tx->closed |= !!(op->flags & VQP_OP_CLOSE);
    if (tx->rma.post == tx->rma.head) {
        ++tx->rma.post; /* it is not dispatched yet */
    }
    (void)vqp_tx_op_ended(tx, op, vqp_opring_index(&tx->rma, op));
    return op->kind == VQP_KIND_FREE;
}

void vqp_tx_try_barriers(vqp_tx_t *tx)
{
    while (!vqp_opring_is_empty(&tx->rma) && vqp_tx_barrier_try(tx)) {
        vqp_tx_advance(tx, &tx->rma);
    }
}

int vqp_tx_may_barrier(const vqp_tx_t *tx)
{
    return vqp_opring_takes(&tx->rma);
}

int vqp_tx_barrier(vqp_tx_t *tx, unsigned flags, void *user, uint8_t user_kind,
                   vqp_status_t status)
{
    vqp_op_t *op;

    if (!tx->failed) {
        vqp_tx_reclaim(tx);
    }

    if (!(flags & VQP_OP_CLOSE) && !vqp_opring_make_room(&tx->rma)) {
        return 0;
    }

    vqp_assert(vqp_opring_count(&tx->rma) <= tx->rma.mask);
    op = vqp_opring_at(&tx->rma, tx->rma.tail);
    vqp_tx_accept(tx, op, 0, 0);
    op->kind         = VQP_KIND_BARRIER;
    op->flags        = (uint16_t)flags;
    op->length       = 0;
    op->user         = user;
    op->user_kind    = user_kind;
    op->barrier.am_end = tx->am.tail;
    ++tx->rma.tail;
    ++tx->barriers;
    if (tx->failed) {
        tx->rma.post = tx->rma.tail; /* nothing is dispatched any more */
        op->status   = (int8_t)status;
    } else if (vqp_unlikely(tx->lost != 0)) {
        vqp_tx_barrier_take_lost(tx, op);
    }

    vqp_tx_try_barriers(tx); /* there may be nothing to wait for */
    return 1;
}

int vqp_tx_is_flushed(const vqp_tx_t *tx)
{
    uint32_t i;

    if (!vqp_opring_is_empty(&tx->am) || !vqp_opring_is_empty(&tx->rma)) {
        return 0;
    }

    for (i = 0; (i < tx->paths.count) && (tx->credit_updates != 0) && !tx->failed;
         ++i) {
        if (vqp_tx_needed_credit(&tx->paths.list[i], tx->am.tail) != NULL) {
            return 0;
        }
    }

    return 1;
}

/* ---- completions in posting order ---- */

/* The ring whose oldest op has the lower number, or NULL if both are empty */
static vqp_opring_t *vqp_tx_older_ring(vqp_tx_t *tx)
{
    if (vqp_opring_is_empty(&tx->am)) {
        return vqp_opring_is_empty(&tx->rma) ? NULL : &tx->rma;
    }

    if (vqp_opring_is_empty(&tx->rma)) {
        return &tx->am;
    }

    return (vqp_seq_diff(vqp_opring_at(&tx->am, tx->am.head)->seq,
                         vqp_opring_at(&tx->rma, tx->rma.head)->seq) < 0) ?
                   &tx->am : &tx->rma;
}

vqp_op_t *vqp_tx_next_in_order(vqp_tx_t *tx)
{
    vqp_opring_t *ring;
    vqp_op_t *op;

    while (((ring = vqp_tx_older_ring(tx)) != NULL) &&
           ((op = vqp_opring_at(ring, ring->head))->flags & VQP_OP_DONE)) {
        if (op->user_kind != 0) {
            return op;
        }
        op->kind = VQP_KIND_FREE;
        vqp_tx_advance(tx, ring);
        vqp_tx_try_barriers(tx);
    }

    return NULL;
}

uint32_t vqp_tx_oldest(const vqp_tx_t *tx)
{
    vqp_opring_t *ring = vqp_tx_older_ring((vqp_tx_t*)tx);

    return (ring == NULL) ? tx->seq : vqp_opring_at(ring, ring->head)->seq;
}
