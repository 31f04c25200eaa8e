/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: acceptance of AMs, into the ring and its mirror. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_AM_H
#define VQP_CORE_DATA_AM_H

#include "core/data/tx.h"

/** An AM between begin and commit. */
typedef struct vqp_tx_am {
    vqp_op_t     *op;
    vqp_record_t *record; /* in the mirror; the payload follows it */
    uint32_t      begin;  /* ring position of the record */
    uint32_t      imms;   /* that commit may reserve; 0: the record shares that of op, an
                             AM which was accepted before and whose flags stay. It must not
                             be dispatched until commit */
} vqp_tx_am_t;

/** vqp_tx_am_begin(), when anything may be lacking. @return op is NULL if it is. */
vqp_tx_am_t vqp_tx_am_begin_slow(vqp_tx_t *tx, uint32_t max, int may_pack);

/**
 * Take a slot, ring bytes and fsns for an AM of up to @a max bytes of payload, at
 * most vqp_record_max_payload(). Not after vqp_tx_fail().
 *
 * @param [in]  may_pack  All of the payload will be in the mirror, and op->user_kind is
 *                        0: the record may share the immediate of an AM that waits.
 * @param [out] am  The payload of a short or bcopy message is written behind
 *                  am->record; of am->op the caller sets user, user_kind and
 *                  flags, and for more than the mirror niov and iov[1..].
 *
 * @return 1, or 0 if anything is lacking: then tx->slow has VQP_TX_CREDIT if
 *         credit is to be requested of the peer.
 */
static inline int
vqp_tx_am_begin(vqp_tx_t *tx, uint32_t max, int may_pack, vqp_tx_am_t *am)
{
    uint32_t offset = tx->fc.ring_head & (tx->ring.size - 1);
    uint32_t size   = vqp_record_size(max);
    uint32_t end    = tx->fc.ring_head + size;

    if (vqp_unlikely((tx->fc.am_credits == 0) ||
                     (max > tx->limits.one_frag - sizeof(vqp_record_t)) ||
                     (offset + size > tx->ring.size) ||
                     (end - tx->fc.ring_peer > tx->ring.size) ||
                     (end - tx->fc.ring_local > tx->ring.size))) {
        *am = vqp_tx_am_begin_slow(tx, max, may_pack);
        return am->op != NULL;
    }

    am->op        = vqp_opring_at(&tx->am, tx->am.tail);
    am->op->kind  = VQP_KIND_AM;
    am->op->flags = 0;
    am->record    = (vqp_record_t*)(tx->ring.mirror + offset);
    am->begin     = tx->fc.ring_head;
    am->imms      = 1;
    return 1;
}

/**
 * Accept the AM for dispatch: writes the record's header, with @a credit in it.
 *
 * @param [in] length     Payload bytes in all, at most the max of begin.
 * @param [in] in_mirror  How many of them are in the mirror. If all are, the
 *                        source of the op is set here.
 */
void vqp_tx_am_commit(vqp_tx_t *tx, vqp_tx_am_t am, uint8_t am_id,
                      uint32_t length, uint32_t in_mirror,
                      const vqp_credit_t *credit);

/** Set op->raddr, and the piece of the AM that is in the mirror, from am.ring_end, the
 *  length and the pieces of the user. The fast path leaves this out. */
void vqp_tx_set_am_source(const vqp_tx_t *tx, vqp_op_t *op);

/** vqp_tx_am_begin() fails until am_paused is 0 again. */
static inline void vqp_tx_pause_ams(vqp_tx_t *tx)
{
    tx->am_paused     = 1;
    tx->fc.am_credits = 0; /* the fast path does not look */
}

/**
 * The ring that records are written to gets a mirror, or loses it: no record of it is
 * in flight. Without one vqp_tx_am_begin() fails.
 */
static inline void
vqp_tx_set_mirror(vqp_tx_t *tx, char *mirror, const uint32_t *lkeys)
{
    tx->ring.mirror   = mirror;
    tx->ring.lkeys    = lkeys;
    tx->needs_mirror  = tx->awaits_mirror = 0;
    tx->fc.am_credits = 0; /* likewise */
}

/**
 * Write records to another ring from now on. What was written to the one before stays
 * valid until vqp_tx_old_ring_is_done(), then vqp_tx_drop_old_ring(). Not before that.
 */
void vqp_tx_set_ring(vqp_tx_t *tx, const vqp_tx_ring_t *ring);

/* ---- for the parts of the sender ---- */

/**
 * The AM that vqp_tx_am_begin() gave is accepted: its record has a header, and its
 * ring bytes are taken. @a offset and @a pending as in vqp_tx_accept().
 */
static VQP_ALWAYS_INLINE void
vqp_tx_accept_am(vqp_tx_t *tx, const vqp_tx_am_t *am, uint8_t am_id,
                 uint32_t length, const vqp_credit_t *credit, uint64_t offset,
                 uint16_t pending)
{
    vqp_op_t *op = am->op;

    vqp_record_fill(am->record, am_id, length, credit);
    vqp_tx_accept(tx, op, offset, pending);
    op->length       = sizeof(*am->record) + length;
    op->am.ring_end  = am->begin + vqp_record_size(length);
    tx->fc.ring_head = op->am.ring_end;
    tx->fence.am     = 0;
    ++tx->am.tail;
}

/** Immediates that a tail AM may take: one for each path it can use. */
uint32_t vqp_tx_tail_fsns(const vqp_tx_t *tx, const vqp_op_t *op);

#endif
