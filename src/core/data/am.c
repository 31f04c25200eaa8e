/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender: acceptance of AMs, see am.h. Pure: libc only. */
#include "core/data/am.h"

#include "core/cover.h"
#include "core/data/pack.h"

#define VQP_TX_SHORTAGES_MAX 16384u /* stalls, if the peer gives no larger ring */

/* Request a credit update by a credit update, unless it is requested already */
static void vqp_tx_request_credit(vqp_tx_t *tx)
{
    /* Bytes and fsns are advertised apart: the answer of a handler advertises the
     * fsn of its AM before the bytes of that AM are free */
    if (!tx->fc.requested && ((tx->fc.fsn_next != tx->fc.fsn_peer) ||
                              (tx->fc.ring_head != tx->fc.ring_peer))) {
        vqp_cover(TX_STALL_REQUEST);
        tx->fc.want_request = 1;
        tx->slow           |= VQP_TX_CREDIT;
    }
}

/* The ring is full, and the paths have taken all that is in it. Is that so again and again,
 * while at most a few rings are sent? */
static void vqp_tx_note_shortage(vqp_tx_t *tx)
{
    if (tx->shortage.is_noted && (tx->shortage.peer == tx->fc.ring_peer)) {
        return; /* the same stall */
    }

    if (tx->fc.ring_head - tx->shortage.head > 4 * tx->ring.size) {
        tx->shortage.count = 0;
    }
    tx->shortage.peer     = tx->fc.ring_peer;
    tx->shortage.is_noted = 1;
    tx->shortage.head = tx->fc.ring_head;
    if (++tx->shortage.count >= tx->shortage.limit) {
        tx->shortage.count    = 0;
        tx->shortage.limit    = (uint16_t)vqp_min(2u * tx->shortage.limit,
                                                  VQP_TX_SHORTAGES_MAX);
        tx->shortage.is_found = 1;
        tx->slow             |= VQP_TX_RINGS;
    }
}

/* An AM was refused for lack of @a bytes of the ring or @a fsns. Request a credit
 * update, unless the peer sends one anyway when it has consumed what is in
 * flight. */
static void vqp_tx_stalled(vqp_tx_t *tx, uint32_t bytes, uint32_t fsns)
{
    uint32_t out   = tx->fc.ring_head - tx->fc.ring_peer;
    uint32_t limit = (tx->ring.size > bytes) ? tx->ring.size - bytes : 0;

    ++tx->stats->credit_stalls;
    vqp_tx_end_hold(tx);
    if ((out > limit) && (tx->am.post == tx->am.tail) && (tx->old.ring.size == 0)) {
        vqp_tx_note_shortage(tx);
    }

    if ((tx->fc.ring_head - tx->fc.ring_local) > limit) {
        vqp_cover(TX_STALL_RECLAIM);
        vqp_tx_reclaim(tx);
    }

    if (((out > limit) || (vqp_tx_fsns_out(tx) + fsns > tx->cfg.fsn_window)) &&
        (tx->am.post == tx->am.tail) &&
        (out < (tx->ring.size / VQP_CREDIT_SHARE)) &&
        (vqp_tx_fsns_out(tx) < tx->cfg.fsn_window / VQP_CREDIT_SHARE)) {
        vqp_tx_request_credit(tx);
    } else {
        vqp_cover(TX_STALL_WAIT);
    }
}

/* Immediates that the fence of an AM takes at most */
static inline uint32_t vqp_tx_fences(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return ((op->flags & VQP_OP_FENCE) && (tx->paths.count > 1)) ?
                   tx->paths.count : 0;
}

/* Frags of an op of @a length bytes */
static inline uint32_t vqp_tx_frags(uint64_t length, unsigned shift)
{
    return (uint32_t)((length + (1ul << shift) - 1) >> shift);
}

uint32_t vqp_tx_tail_fsns(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return vqp_min(vqp_tx_frags(op->length, op->frag_shift), tx->paths.count);
}

/* AMs are bounded so that their frags never get larger than devices take */
static inline void vqp_tx_grow_frags(const vqp_tx_t *tx, vqp_op_t *op)
{
    vqp_assert(op->frag_shift < tx->cfg.max_shift);
    ++op->frag_shift;
}

/* Choose the fragment size of a tail AM so that it takes at most @a max fsns, one
 * for each path that its frags may take. Returns how many it takes. */
static inline uint32_t
vqp_tx_tail_set_frag_size(const vqp_tx_t *tx, vqp_op_t *op, uint32_t max)
{
    vqp_cover_if(vqp_tx_tail_fsns(tx, op) > max, TX_FRAG_GROWS_TAIL);
    while (vqp_unlikely(vqp_tx_tail_fsns(tx, op) > max)) {
        vqp_tx_grow_frags(tx, op);
    }

    return vqp_tx_tail_fsns(tx, op);
}

/* Choose the fragment size of an AM so that it has at most @a max frags. Returns
 * how many fsns they take. */
static inline uint32_t
vqp_tx_am_set_frag_size(const vqp_tx_t *tx, vqp_op_t *op, uint32_t max)
{
    uint32_t frags;

    op->frag_shift = vqp_tx_frag_shift(tx, op->length);
    frags          = vqp_tx_frags(op->length, op->frag_shift);
    if (frags > 1) {
        switch (vqp_notify_choose((vqp_notify_t)tx->cfg.notify, frags,
                                  tx->paths.count)) {
        case VQP_NOTIFY_SPRAY:
            op->flags |= VQP_OP_SPRAY | VQP_OP_SIGNAL;
            return 1;
        case VQP_NOTIFY_TAIL:
            op->flags |= VQP_OP_TAIL;
            return vqp_tx_tail_set_frag_size(tx, op, max);
        default:
            break;
        }
    }

    vqp_cover_if(frags > max, TX_FRAG_GROWS);
    while (vqp_unlikely(frags > max)) {
        vqp_tx_grow_frags(tx, op);
        frags = vqp_tx_frags(op->length, op->frag_shift);
    }

    return frags;
}

/* Single-fragment AMs that may be accepted without checking, at present */
static uint32_t vqp_tx_am_credits(const vqp_tx_t *tx)
{
    uint32_t slots = tx->am.limit - vqp_opring_count(&tx->am); /* it has room */
    uint32_t fsns  = vqp_tx_fsns_out(tx) + tx->fc.fsn_reserved +
                     VQP_CONTROL_RESERVE;

    uint32_t window = tx->cfg.pack ? vqp_tx_pack_fsns(tx) : tx->cfg.fsn_window;

    if (tx->fence.am || tx->cfg.order_all || (fsns >= window)) {
        return 0;
    }

    return vqp_min(slots, window - fsns);
}

/* If the AM has to wait for RMA ops: note the fence, and its position fence_at */
static void vqp_tx_set_am_fence(const vqp_tx_t *tx, vqp_op_t *op)
{
    if (tx->cfg.order_all) {
        op->am.fence_at = tx->rma.tail;
    } else if (tx->fence.am) {
        op->am.fence_at = tx->fence.rma_tail;
    } else {
        return;
    }

    if (vqp_opring_is_ahead(&tx->rma, op->am.fence_at)) {
        op->flags |= VQP_OP_FENCE;
    }
}

vqp_tx_am_t vqp_tx_am_begin_slow(vqp_tx_t *tx, uint32_t max, int may_pack)
{
    vqp_tx_am_t am  = {.op = NULL};
    uint32_t size   = vqp_record_size(max);
    uint32_t offset = tx->fc.ring_head & (tx->ring.size - 1);
    uint32_t oldest = (vqp_seq_diff(tx->fc.ring_peer, tx->fc.ring_local) < 0) ?
                              tx->fc.ring_peer : tx->fc.ring_local;
    uint32_t wrap   = 0;
    uint32_t fsns;
    vqp_op_t *op;

    tx->needs_mirror = 0;
    if (vqp_unlikely(tx->am_paused)) {
        return am;
    }

    if (may_pack && vqp_tx_may_pack(tx, max)) {
        am.op         = vqp_opring_at(&tx->am, tx->am.tail - 1);
        am.op->flags |= VQP_OP_HELD; /* not the fast path */
        am.record     = (vqp_record_t*)(tx->ring.mirror + offset);
        am.begin      = tx->fc.ring_head;
        return am;
    }

    if (vqp_unlikely(!vqp_opring_make_room(&tx->am))) {
        vqp_tx_reclaim(tx); /* an AM that waits for others waits no more, too */
        return am;
    }

    if (offset + size > tx->ring.size) {
        vqp_cover(TX_WRAP);
        wrap   = tx->ring.size - offset;
        offset = 0;
    }

    op         = vqp_opring_at(&tx->am, tx->am.tail);
    op->kind   = VQP_KIND_AM;
    op->flags  = wrap ? VQP_OP_WRAP : 0;
    op->length = sizeof(vqp_record_t) + max;
    am.imms   = vqp_tx_am_set_frag_size(tx, op, tx->limits.am_frags);
    op->flags &= VQP_OP_WRAP; /* see commit */
    vqp_tx_set_am_fence(tx, op);
    fsns       = am.imms + vqp_tx_fences(tx, op) + tx->fc.fsn_reserved +
                 VQP_CONTROL_RESERVE;
    if (vqp_unlikely(((tx->fc.ring_head - oldest) + wrap + size >
                      tx->ring.size) ||
                     (vqp_tx_fsns_out(tx) + fsns > tx->cfg.fsn_window))) {
        vqp_tx_stalled(tx, wrap + size, fsns);
        return am;
    }

    if (vqp_unlikely(tx->ring.mirror == NULL)) {
        tx->needs_mirror = tx->awaits_mirror = 1; /* nothing else is lacking */
        return am;
    }

    if (may_pack && tx->cfg.pack && vqp_tx_lacks_fsns(tx)) {
        op->flags |= VQP_OP_HELD; /* unless it is long: commit knows */
    }
    am.op            = op;
    am.record        = (vqp_record_t*)(tx->ring.mirror + offset);
    am.begin         = tx->fc.ring_head + wrap;
    tx->fc.am_credits = vqp_tx_am_credits(tx);
    return am;
}

void vqp_tx_set_am_source(const vqp_tx_t *tx, vqp_op_t *op)
{
    const vqp_tx_ring_t *ring = vqp_tx_ring_of(tx, op);
    uint32_t length  = (uint32_t)(op->length - sizeof(vqp_record_t));
    uint32_t offset  = (op->am.ring_end - vqp_record_size(length)) &
                       (ring->size - 1);
    vqp_iov_t *iov   = vqp_op_iov(op);
    uint64_t user    = 0;
    unsigned i;

    for (i = 1; i < op->niov; ++i) {
        user += iov[i].length;
    }

    op->raddr   = ring->raddr + offset;
    iov->addr   = (uintptr_t)ring->mirror + offset;
    iov->length = op->length - user;
    iov->lkeys  = ring->lkeys;
}

void vqp_tx_set_ring(vqp_tx_t *tx, const vqp_tx_ring_t *ring)
{
    vqp_assert(tx->old.ring.size == 0);
    tx->old.ring         = tx->ring;
    tx->old.end          = tx->fc.ring_head;
    tx->ring             = *ring;
    tx->fc.am_credits    = 0;
    tx->shortage.count    = 0;
    tx->shortage.is_noted = 0;
    tx->shortage.limit   = VQP_TX_SHORTAGES;
    vqp_tx_set_ring_limits(tx);
    vqp_tx_reclaim(tx); /* it is waited for */
}

void vqp_tx_am_commit(vqp_tx_t *tx, vqp_tx_am_t am, uint8_t am_id,
                      uint32_t length, uint32_t in_mirror,
                      const vqp_credit_t *credit)
{
    vqp_op_t *op = am.op;
    uint32_t frags;

    if (am.imms == 0) {
        vqp_tx_pack(tx, am.record, am_id, length, credit);
        vqp_tx_set_am_source(tx, op);
        return;
    }

    vqp_tx_accept_am(tx, &am, am_id, length, credit, 0, 0);
    if (length == in_mirror) {
        op->niov = 1;
        if (op->length <= tx->cfg.inline_max) {
            op->flags |= VQP_OP_INLINE;
        }
    }

    /* A message shorter than the max of begin may have smaller frags, and more of
     * them: am.imms, the number that begin has reserved, limits them */
    frags = vqp_tx_am_set_frag_size(tx, op, am.imms);
    vqp_cover_if(frags < am.imms, TX_FRAGS_FEWER);

    vqp_tx_set_am_source(tx, op);
    tx->fc.fsn_reserved += frags + vqp_tx_fences(tx, op);
    tx->fc.am_credits    = 0;
    vqp_tx_start_pack(tx, op, am.record);
}
