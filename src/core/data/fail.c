/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender: failing, see fail.h. Pure: libc only. */
#include "core/data/fail.h"

#include "core/data/confirm.h"
#include "core/data/place.h"

void vqp_tx_end_frag(vqp_tx_t *tx, vqp_path_t *path, vqp_inflight_t *entry,
                     vqp_status_t status)
{
    path->bytes -= entry->length;
    (void)vqp_tx_retire_one(tx, path, entry, status);
}

void vqp_tx_abandon(vqp_tx_t *tx, vqp_path_t *path, uint16_t slot,
                    vqp_status_t status)
{
    uint16_t tail = path->tail;
    uint16_t i;

    if ((uint16_t)(slot - path->head) >= vqp_path_outstanding(path)) {
        return; /* abandoned before */
    }

    vqp_cover(CONFIRM_ABANDON);
    vqp_path_count_wrs(path);
    path->tail = path->fo.wrs_seen = slot;
    for (i = slot; i != tail; ++i) {
        vqp_tx_end_frag(tx, path, vqp_path_at(path, i), status);
    }
    vqp_tx_advance_both(tx);

    /* The CQE that would have confirmed the rest may be one of these */
    path->signaled = path->head;
    vqp_path_stop(path);
}

void vqp_tx_end_failed(vqp_tx_t *tx, vqp_path_t *path, uint16_t end,
                       vqp_status_t status)
{
    if ((uint16_t)(end - path->head) > vqp_path_outstanding(path)) {
        return;
    }

    for (; path->head != end; ++path->head) {
        vqp_tx_end_frag(tx, path, vqp_path_at(path, path->head), status);
    }
    vqp_tx_advance_both(tx);
}

/* Can the op still succeed, with what is in flight of it? */
static int vqp_tx_may_succeed(const vqp_op_t *op)
{
    return (op->pending != 0) && (op->offset == op->length) &&
           (op->kind != VQP_KIND_BARRIER) &&
           ((op->flags & (VQP_OP_SPRAY | VQP_OP_ANNOUNCED)) != VQP_OP_SPRAY);
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

        if (vqp_tx_may_succeed(op)) {
            vqp_cover(FAIL_POSTED);
            continue;
        }

        vqp_cover_if(op->offset == 0, FAIL_UNPOSTED);
        vqp_cover_if((op->offset != 0) && (op->offset != op->length),
                    FAIL_HALF_POSTED);
        vqp_cover_if(op->flags & VQP_OP_SPRAY, FAIL_SPRAY);
        vqp_op_set_status(op, status);
        if ((op->pending == 0) && (op->kind != VQP_KIND_BARRIER)) {
            (void)vqp_tx_op_ended(tx, op, vqp_opring_index(ring, op) | which);
        }
    }

    ring->post = tail;
}

/* A tail AM that lacks immediates can not succeed, and has nothing to wait for */
static void vqp_tx_fail_tail(vqp_tx_t *tx, vqp_status_t status)
{
    vqp_op_t *op = vqp_opring_at(&tx->am, tx->am.post);

    if (tx->announce.tail_ready) {
        vqp_cover(FAIL_TAIL);
        tx->announce.tail_ready = 0;
        vqp_op_set_status(op, status);
    }
    tx->announce.tail_paths = 0;
}

void vqp_tx_fail(vqp_tx_t *tx, vqp_status_t status)
{
    vqp_tx_fail_tail(tx, status);
    tx->failed          = 1;
    tx->clock.deferred  = 0;
    tx->pack.is_held    = 0;
    tx->slow            = VQP_TX_NO_FAST;
    tx->fc.fsn_reserved = 0;
    tx->announce.head   = VQP_OP_NONE;
    vqp_tx_fail_ring(tx, &tx->am, VQP_OP_AM, status);
    vqp_tx_fail_ring(tx, &tx->rma, 0, status);
    vqp_tx_advance_both(tx);
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

int vqp_tx_uses_buffers(vqp_tx_t *tx)
{
    return vqp_tx_ring_uses_buffers(&tx->am) ||
           vqp_tx_ring_uses_buffers(&tx->rma);
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
