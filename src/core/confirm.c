/*
 * The sender: the end of ops and their reporting, where anything is out of the
 * ordinary; what every completion passes through is in confirm.h. Pure: libc
 * only.
 */
#include "core/confirm.h"
#include "core/mark.h"

/* Nothing of the op is in flight and nothing will be. Its place comes free with
 * vqp_tx_advance, which is left to the caller. */
static void vqp_tx_op_done(vqp_tx_t *tx, vqp_op_t *op, uint16_t name)
{
    op->flags |= VQP_OP_DONE;
    vqp_mark_if(vqp_tx_oldest(tx) != op->seq, CONFIRM_OUT_OF_ORDER);
    vqp_mark_if(op->status != VQP_OK, CONFIRM_ERROR);
    if (tx->cfg.comp_post) {
        /* pop_done goes by op number. Older ones of other paths may have no CQE
         * of their own, and must not hold up the one that somebody waits for */
        if ((op->user_kind != 0) && !tx->failed &&
            (vqp_tx_oldest(tx) != op->seq)) {
            vqp_mark(CONFIRM_POST_KICK);
            vqp_tx_kick(tx);
        }
        return;
    }

    if (op->user_kind == 0) {
        op->kind = VQP_KIND_FREE;
    } else {
        vqp_tx_push(tx, &tx->done_head, &tx->done_tail, name);
    }
}

void vqp_tx_last_frag_done(vqp_tx_t *tx, vqp_op_t *op, uint16_t name)
{
    if (op->flags & VQP_OP_DONE) {
        return;
    }

    if (vqp_unlikely(tx->failed)) {
        vqp_tx_op_done(tx, op, name);
        return;
    }

    if (op->offset != op->length) {
        return; /* the rest is not posted yet */
    }

    if ((op->flags & (VQP_OP_BARE | VQP_OP_NOTIFIED)) == VQP_OP_BARE) {
        vqp_tx_push(tx, &tx->notify_head, &tx->notify_tail, name);
        tx->slow |= VQP_TX_NOTIFY;
        return;
    }

    vqp_tx_op_done(tx, op, name);
}

void vqp_tx_paced(vqp_tx_t *tx)
{
    int is_even = vqp_sched_is_even(tx->paths, tx->num_paths, tx->now);

    tx->uneven = !is_even;
    tx->plain  = is_even && !tx->cfg.no_fast;
    tx->paced  = tx->now;
}

void vqp_tx_abandon(vqp_tx_t *tx, vqp_path_t *path, uint16_t pos,
                    vqp_status_t status)
{
    uint16_t tail = path->tail;
    uint16_t i;

    if ((uint16_t)(pos - path->head) >= vqp_path_outstanding(path)) {
        return; /* abandoned before */
    }

    vqp_mark(CONFIRM_ABANDON);
    path->tail = pos;
    for (i = pos; i != tail; ++i) {
        path->bytes -= vqp_path_at(path, i)->length;
        (void)vqp_tx_retire_one(tx, path, vqp_path_at(path, i), status);
    }
    vqp_tx_advance_both(tx);

    /* The CQE that the rest counted on may have been among them */
    path->unsignaled = 1;
    path->free_frags = 0;
}

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
        vqp_tx_release(tx, op);
    }

    return NULL;
}

uint32_t vqp_tx_oldest(const vqp_tx_t *tx)
{
    vqp_opring_t *ring = vqp_tx_older_ring((vqp_tx_t*)tx);

    return (ring == NULL) ? tx->seq : vqp_opring_at(ring, ring->head)->seq;
}

static void
vqp_tx_fail_ring(vqp_tx_t *tx, vqp_opring_t *ring, uint16_t which,
                 vqp_status_t status)
{
    uint32_t tail = ring->tail;
    vqp_op_t *op;
    uint32_t i;

    for (i = ring->head; i != tail; ++i) {
        op = vqp_opring_at(ring, i);
        if ((op->kind == VQP_KIND_FREE) || (op->flags & VQP_OP_DONE)) {
            continue;
        }

        /* wholly posted plain ops may still succeed; others can not */
        if ((op->pending == 0) || (op->offset != op->length) ||
            ((op->flags & (VQP_OP_BARE | VQP_OP_NOTIFIED)) == VQP_OP_BARE)) {
            vqp_mark_if(op->offset == 0, FAIL_UNPOSTED);
            vqp_mark_if((op->offset != 0) && (op->offset != op->length),
                        FAIL_HALF_POSTED);
            vqp_mark_if((op->offset == op->length) && (op->length != 0),
                        FAIL_SPRAY);
            vqp_op_set_status(op, status);
        } else {
            vqp_mark(FAIL_POSTED);
        }

        if (op->pending == 0) {
            vqp_tx_op_done(tx, op, vqp_opring_index(ring, op) | which);
        }
    }

    ring->post = tail;
}

/* A tail AM that owes immediates can not succeed, and waits for nothing */
static void vqp_tx_fail_tail(vqp_tx_t *tx, vqp_status_t status)
{
    vqp_op_t *op = vqp_opring_at(&tx->am, tx->am.post);

    if (tx->tail_held) {
        vqp_mark(FAIL_TAIL);
        tx->tail_held = 0;
        --op->pending;
        vqp_op_set_status(op, status);
    }
    tx->tail_paths = 0;
}

void vqp_tx_fail(vqp_tx_t *tx, vqp_status_t status)
{
    vqp_tx_fail_tail(tx, status);
    tx->failed       = 1;
    tx->slow         = 0;
    tx->fsn_reserved = 0;
    tx->notify_head  = VQP_OP_NONE;
    vqp_tx_fail_ring(tx, &tx->am, VQP_OP_AM, status);
    vqp_tx_fail_ring(tx, &tx->rma, 0, status);
    vqp_tx_advance_both(tx);
}

unsigned vqp_tx_outstanding(const vqp_tx_t *tx)
{
    unsigned count = 0;
    uint32_t i;

    for (i = 0; i < tx->num_paths; ++i) {
        count += vqp_path_outstanding(&tx->paths[i]);
    }

    return count;
}

static int vqp_tx_ring_uses_buffers(vqp_opring_t *ring)
{
    vqp_op_t *op;
    uint32_t i;

    for (i = ring->head; i != ring->tail; ++i) {
        op = vqp_opring_at(ring, i);
        if ((op->kind != VQP_KIND_FREE) && (op->flags & VQP_OP_BUFFER)) {
            return 1;
        }
    }

    return 0;
}

int vqp_tx_uses_buffers(const vqp_tx_t *tx)
{
    return vqp_tx_ring_uses_buffers((vqp_opring_t*)&tx->am) ||
           vqp_tx_ring_uses_buffers((vqp_opring_t*)&tx->rma);
}

static vqp_op_t *vqp_tx_skip_free(vqp_opring_t *ring, uint32_t *pos)
{
    while ((*pos != ring->tail) &&
           (vqp_opring_at(ring, *pos)->kind == VQP_KIND_FREE)) {
        ++*pos;
    }

    return (*pos == ring->tail) ? NULL : vqp_opring_at(ring, *pos);
}

vqp_op_t *vqp_tx_iter_next(vqp_tx_t *tx, vqp_tx_iter_t *iter)
{
    vqp_op_t *am  = vqp_tx_skip_free(&tx->am, &iter->am);
    vqp_op_t *rma = vqp_tx_skip_free(&tx->rma, &iter->rma);

    if ((am != NULL) &&
        ((rma == NULL) || (vqp_seq_diff(am->seq, rma->seq) < 0))) {
        ++iter->am;
        return am;
    }

    if (rma != NULL) {
        ++iter->rma;
    }

    return rma;
}
