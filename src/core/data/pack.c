/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender: records that share an immediate, see pack.h. Pure: libc only. */
#include "core/data/pack.h"

#include "core/cover.h"

/* Dispatches without a new record until an AM waits no more. The first one follows its
 * acceptance; the others come once in each call of progress. So who sends a message for
 * each call of progress fills it. */
#define VQP_PACK_LOOKS 3

/* Ring position of the first record of the op */
static uint32_t vqp_tx_pack_begin(const vqp_op_t *op)
{
    return op->am.ring_end -
           vqp_record_size((uint32_t)(op->length - sizeof(vqp_record_t)));
}

/* The AM that was accepted last */
static vqp_op_t *vqp_tx_pack_op(const vqp_tx_t *tx)
{
    return &tx->am.ops[(tx->am.tail - 1) & tx->am.mask];
}

/* Is there no room for another record of the mean length? */
static int vqp_tx_pack_is_full(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return (op->length >= tx->limits.pack) || (tx->pack.count >= VQP_PACK_RECORDS) ||
           ((uint64_t)op->length * (tx->pack.count + 1u) >
            (uint64_t)tx->pack.count << op->frag_shift);
}

/* Is the next AM behind a fence that it would have to wait for? */
static int vqp_tx_am_is_fenced(const vqp_tx_t *tx)
{
    return tx->fence.am && vqp_opring_is_ahead(&tx->rma, tx->fence.rma_tail);
}

int vqp_tx_wants_copy_slow(const vqp_tx_t *tx, uint32_t length)
{
    uint32_t size = (uint32_t)sizeof(vqp_record_t) + length;

    return tx->cfg.pack && !tx->cfg.comp_post && vqp_tx_lacks_fsns(tx) &&
           (size < tx->limits.pack) && (2ul * size <= 1ul << vqp_tx_frag_shift(tx, size));
}

int vqp_tx_may_pack(const vqp_tx_t *tx, uint32_t max)
{
    const vqp_op_t *op = vqp_tx_pack_op(tx);
    uint32_t head      = tx->fc.ring_head;
    uint32_t offset    = head & (tx->ring.size - 1);
    uint32_t end       = head + vqp_record_size(max);

    return (tx->am.post != tx->am.tail) && (op->flags & VQP_OP_PACK) &&
           (op->offset == 0) && !vqp_tx_pack_is_full(tx, op) &&
           (vqp_tx_ring_of(tx, op) == &tx->ring) && (offset != 0) &&
           (offset + (end - head) <= tx->ring.size) &&
           (end - tx->fc.ring_peer <= tx->ring.size) &&
           (end - tx->fc.ring_local <= tx->ring.size) &&
           (end - vqp_tx_pack_begin(op) <= 1u << op->frag_shift) &&
           !vqp_tx_am_is_fenced(tx);
}

void vqp_tx_pack(vqp_tx_t *tx, vqp_record_t *record, uint8_t am_id, uint32_t length,
                 const vqp_credit_t *credit)
{
    const vqp_credit_t none = {0, 0};
    vqp_op_t *op            = vqp_tx_pack_op(tx);
    uint32_t begin          = vqp_tx_pack_begin(op);
    vqp_record_t *first     = (vqp_record_t*)(tx->ring.mirror +
                                              (begin & (tx->ring.size - 1)));

    vqp_assert((tx->am.post != tx->am.tail) && (op->offset == 0));
    if (tx->fc.am_outdated == tx->am.tail - tx->am.post) {
        --tx->fc.am_outdated; /* its credit is newer than the last update again */
    }
    first->credit_ring   = credit->ring;
    first->credit_fsn    = credit->fsn;
    tx->pack.last->flags = VQP_RECORD_MORE;
    vqp_record_fill(record, am_id, length, &none);
    tx->pack.last        = record;
    tx->pack.looks       = 0;
    ++tx->pack.count;

    op->length       = tx->fc.ring_head + sizeof(*record) + length - begin;
    op->am.ring_end  = tx->fc.ring_head + vqp_record_size(length);
    tx->fc.ring_head = op->am.ring_end;
    tx->fence.am     = 0;
    if (op->length > tx->cfg.inline_max) {
        op->flags &= (uint16_t)~VQP_OP_INLINE;
    }
    vqp_cover_if(!vqp_tx_lacks_fsns(tx), PACK_WAITING);
    ++tx->stats->ops;
    ++tx->stats->packed;
}

void vqp_tx_start_pack(vqp_tx_t *tx, vqp_op_t *op, vqp_record_t *record)
{
    if (!tx->cfg.pack || (op->user_kind != 0) || (op->length >= tx->limits.pack) ||
        (op->length > 1u << op->frag_shift) ||
        (op->flags & (VQP_OP_SIGNAL | VQP_OP_BUFFER | VQP_OP_CONTROL))) {
        op->flags &= (uint16_t)~VQP_OP_HELD;
        return;
    }

    op->flags     |= VQP_OP_PACK;
    tx->pack.last  = record;
    tx->pack.count = 1;
    tx->pack.looks = 0;
}

void vqp_tx_end_hold(vqp_tx_t *tx)
{
    if (tx->am.post != tx->am.tail) {
        vqp_tx_pack_op(tx)->flags &= (uint16_t)~VQP_OP_HELD;
    }
}

int vqp_tx_holds(vqp_tx_t *tx, vqp_op_t *op)
{
    if (((op->flags & VQP_OP_SIGNAL) == 0) && (tx->am.post + 1 == tx->am.tail) &&
        (tx->rma.post == tx->rma.tail) && !vqp_tx_pack_is_full(tx, op) &&
        vqp_tx_lacks_fsns(tx) && (++tx->pack.looks < VQP_PACK_LOOKS)) {
        tx->pack.is_held = 1;
        return 1;
    }

    vqp_cover_if(tx->pack.looks >= VQP_PACK_LOOKS, PACK_LOOKED);
    vqp_cover_if(vqp_tx_pack_is_full(tx, op), PACK_FULL);
    vqp_cover_if(!vqp_tx_lacks_fsns(tx), PACK_CREDIT);
    op->flags &= (uint16_t)~VQP_OP_HELD;
    return 0;
}
