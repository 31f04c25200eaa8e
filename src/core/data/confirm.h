/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: confirmation of frags, the end of ops, and their reporting; the
 * part that every completion runs, inline. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_CONFIRM_H
#define VQP_CORE_DATA_CONFIRM_H

#include "core/cover.h"
#include "core/data/tx.h"

/** What is left of an op when it has ended. */
typedef struct vqp_done {
    void        *user;
    uint64_t     length;
    uint8_t      user_kind;
    uint8_t      kind; /* vqp_kind_t */
    vqp_status_t status;
} vqp_done_t;

/* ---- private to confirmation ---- */

/* The last frag of the op that was in flight is confirmed. Returns 0 if no slot of
 * an op can have come free. */
int vqp_tx_last_frag_done(vqp_tx_t *tx, vqp_op_t *op, uint16_t id);

/* What a frag that is neither of an AM nor of a put has taken from its path */
void vqp_tx_retire_other(vqp_tx_t *tx, vqp_path_t *path,
                         const vqp_inflight_t *entry, vqp_status_t status);

/* Barriers exist: end the one at the head of the RMA ring if it may end */
void vqp_tx_try_barriers(vqp_tx_t *tx);

/* Nothing of the op is in flight and nothing will be, in whatever order completions
 * are reported. Returns 0 if no slot can have come free; else the caller frees slots
 * by vqp_tx_advance(). */
int vqp_tx_op_ended(vqp_tx_t *tx, vqp_op_t *op, uint16_t id);

/* The measured rate of a path has changed: are they still symmetric? */
void vqp_tx_rate_changed(vqp_tx_t *tx);

/* The oldest op that is to be reported, if it is done: completions in posting
 * order. NULL if there is none. */
vqp_op_t *vqp_tx_next_in_order(vqp_tx_t *tx);

static inline void
vqp_tx_push(vqp_tx_t *tx, uint16_t *head, uint16_t *tail, uint16_t id)
{
    vqp_tx_op_of(tx, id)->next = VQP_OP_NONE;
    if (*head == VQP_OP_NONE) {
        *head = id;
    } else {
        vqp_tx_op_of(tx, *tail)->next = id;
    }
    *tail = id;
}

/* The op has ended, and completions need no order. Returns 1 if there is no user
 * to report to: then the caller frees its slot by vqp_tx_advance(). */
static VQP_ALWAYS_INLINE int
vqp_tx_end(vqp_tx_t *tx, vqp_op_t *op, uint16_t id)
{
    vqp_cover_if(op->status != VQP_OK, CONFIRM_ERROR);
    if (op->user_kind == 0) {
        op->kind = VQP_KIND_FREE;
        return 1;
    }

    op->flags |= VQP_OP_DONE;
    vqp_tx_push(tx, &tx->done.head, &tx->done.tail, id);
    return 0;
}

/* Slots may be used again once no older op is in the way; so may the mirror bytes
 * of AMs */
static inline void vqp_tx_advance(vqp_tx_t *tx, vqp_opring_t *ring)
{
    uint32_t head = ring->head;

    while ((head != ring->tail) &&
           (vqp_opring_at(ring, head)->kind == VQP_KIND_FREE)) {
        ++head;
    }

    if (head != ring->head) {
        if (ring == &tx->am) {
            tx->fc.ring_local = vqp_opring_at(ring, head - 1)->am.ring_end;
        }
        ring->head = head;
    }
}

static inline void vqp_tx_advance_both(vqp_tx_t *tx)
{
    vqp_tx_advance(tx, &tx->am);
    vqp_tx_advance(tx, &tx->rma);
    if (vqp_unlikely(tx->barriers != 0)) {
        vqp_tx_try_barriers(tx);
    }
}

/* One frag is confirmed: return what it took from the path, and update its op.
 * Returns 0 if no slot of an op can have come free. */
static VQP_ALWAYS_INLINE int
vqp_tx_retire_one(vqp_tx_t *tx, vqp_path_t *path, const vqp_inflight_t *entry,
                  vqp_status_t status)
{
    vqp_op_t *op;

    if (entry->kind == VQP_KIND_PUT) {
        --path->rma;
    } else if (entry->kind != VQP_KIND_AM) {
        vqp_tx_retire_other(tx, path, entry, status);
    }

    if (vqp_unlikely(entry->op == VQP_OP_NONE)) {
        return 1; /* a barrier that probes may have waited for it */
    }

    op = vqp_tx_op_of(tx, entry->op);
    if (vqp_unlikely(status != VQP_OK)) {
        vqp_op_set_status(op, status);
    }

    if (vqp_likely(entry->flags & VQP_INFLIGHT_COMPLETES)) {
        return vqp_tx_end(tx, op, entry->op);
    }

    return (--op->pending == 0) ? vqp_tx_last_frag_done(tx, op, entry->op) : 0;
}

/* ---- barriers ---- */

/** Is there a slot for a barrier, beside the one of a close? */
int vqp_tx_may_barrier(const vqp_tx_t *tx);

/**
 * Accept a barrier: an op that ends when all ops accepted before it have ended,
 * and the peer has what it needs to deliver the AMs among them. What is in flight
 * is reclaimed. Of a failed sender it ends with @a status.
 *
 * @param [in] flags  VQP_OP_BUFFER if it is waited for; VQP_OP_CLOSE for the
 *                    barrier of a close, which takes the slot that is left;
 *                    VQP_OP_PROBE if at least one frag has to be confirmed.
 *
 * @return 1, or 0 if the ring is full.
 */
int vqp_tx_barrier(vqp_tx_t *tx, unsigned flags, void *user, uint8_t user_kind,
                   vqp_status_t status);

/** Number of the oldest op not reported; equal to tx->seq if there is none. */
uint32_t vqp_tx_oldest(const vqp_tx_t *tx);

/** Would a barrier end at once? */
int vqp_tx_is_flushed(const vqp_tx_t *tx);

/* ---- for the owner of completions ---- */

/** Is the rate of the path being measured? Then vqp_tx_retire() needs the time. */
static inline int vqp_tx_is_rated(const vqp_path_t *path)
{
    return path->rate.start != 0;
}

/**
 * A send completion arrived: everything on the path up to and including @a slot is
 * confirmed. With an error, @a slot itself failed, and what stood before it did
 * not (RC completes in order).
 *
 * @return The number of frags confirmed; 0 if @a slot is not outstanding.
 */
static VQP_ALWAYS_INLINE unsigned
vqp_tx_retire(vqp_tx_t *tx, vqp_path_t *path, uint16_t slot,
              vqp_status_t status)
{
    uint16_t head  = path->head;
    unsigned count = (uint16_t)(slot - head) + 1u;
    uint64_t bytes = 0;
    int is_freed   = 0;
    const vqp_inflight_t *entry;

    if (vqp_unlikely(count > vqp_path_outstanding(path))) {
        vqp_cover(CONFIRM_STALE);
        return 0;
    }

    do {
        entry     = vqp_path_at(path, head);
        bytes    += entry->length;
        is_freed |= vqp_tx_retire_one(tx, path, entry,
                                      (head == slot) ? status : VQP_OK);
    } while (head++ != slot);

    path->head   = head;
    path->bytes -= bytes;
    if (is_freed) {
        vqp_tx_advance_both(tx);
    }

    if (vqp_unlikely(vqp_tx_is_rated(path)) &&
        vqp_rate_confirmed(&path->rate, bytes, path->bytes, tx->clock.seen,
                           tx->clock.looked, tx->clock.now)) {
        vqp_tx_rate_changed(tx);
    }

    return count;
}

/**
 * Next op to report, in the configured completion order. Its slot is free again
 * when this returns, so the callback of its user may use the sender.
 *
 * @return 1 if there was one, 0 if not. To be called until 0 after each retire or
 *         fail.
 */
static inline int vqp_tx_pop_done(vqp_tx_t *tx, vqp_done_t *done)
{
    vqp_op_t *op;

    if (vqp_unlikely(tx->cfg.comp_post)) {
        op = vqp_tx_next_in_order(tx);
        if (op == NULL) {
            return 0;
        }
    } else if (tx->done.head == VQP_OP_NONE) {
        return 0;
    } else {
        op            = vqp_tx_op_of(tx, tx->done.head);
        tx->done.head = op->next;
    }

    done->user      = op->user;
    done->user_kind = op->user_kind;
    done->kind      = op->kind;
    done->length    = op->length;
    done->status    = (vqp_status_t)op->status;
    op->kind        = VQP_KIND_FREE;
    vqp_tx_advance(tx, (done->kind == VQP_KIND_AM) ? &tx->am : &tx->rma);
    if (vqp_unlikely(tx->barriers != 0)) {
        vqp_tx_try_barriers(tx);
    }
    return 1;
}

#endif
