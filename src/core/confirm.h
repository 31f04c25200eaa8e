/*
 * The sender: confirmation of frags, the end of ops, and their reporting; what
 * every completion passes through, inline. Pure: libc only.
 */
#ifndef VQP_CORE_CONFIRM_H
#define VQP_CORE_CONFIRM_H

#include "core/mark.h"
#include "core/tx.h"

#include <string.h>

/** What is left of an op when it is over. */
typedef struct vqp_done {
    void        *user;
    uint64_t     length;
    uint8_t      user_kind;
    uint8_t      kind; /* vqp_kind_t */
    vqp_status_t status;
} vqp_done_t;

/* ---- private to confirmation ---- */

/* The last frag that was in flight is over, and something is out of the ordinary
 * with the op or the sender */
void vqp_tx_last_frag_done(vqp_tx_t *tx, vqp_op_t *op, uint16_t name);

/* A path's pace is another one: are they still even? */
void vqp_tx_paced(vqp_tx_t *tx);

/* The oldest op that somebody has to be told of, if it is done; with completions
 * in posting order */
vqp_op_t *vqp_tx_next_in_order(vqp_tx_t *tx);

static inline vqp_op_t *vqp_tx_named(vqp_tx_t *tx, uint16_t name)
{
    vqp_op_t *ops = (name & VQP_OP_AM) ? tx->am.ops : tx->rma.ops;

    return &ops[name & ~VQP_OP_AM];
}

/* Places may be used again once no older op is in the way; so may the mirror
 * bytes of AMs */
static inline void vqp_tx_advance(vqp_tx_t *tx, vqp_opring_t *ring)
{
    uint32_t head = ring->head;

    while ((head != ring->tail) &&
           (vqp_opring_at(ring, head)->kind == VQP_KIND_FREE)) {
        ++head;
    }

    if (head != ring->head) {
        if (ring == &tx->am) {
            tx->ring_local = vqp_opring_at(ring, head - 1)->ring_end;
        }
        ring->head = head;
    }
}

static inline void vqp_tx_advance_both(vqp_tx_t *tx)
{
    vqp_tx_advance(tx, &tx->am);
    vqp_tx_advance(tx, &tx->rma);
}

static inline void vqp_tx_release(vqp_tx_t *tx, vqp_op_t *op)
{
    vqp_opring_t *ring = (op->kind == VQP_KIND_AM) ? &tx->am : &tx->rma;

    op->kind = VQP_KIND_FREE;
    vqp_tx_advance(tx, ring);
}

static inline void
vqp_tx_push(vqp_tx_t *tx, uint16_t *head, uint16_t *tail, uint16_t name)
{
    vqp_tx_named(tx, name)->next = VQP_OP_NONE;
    if (*head == VQP_OP_NONE) {
        *head = name;
    } else {
        vqp_tx_named(tx, *tail)->next = name;
    }
    *tail = name;
}

/* The op is over, and completions need no order. Returns 1 if nobody has to be
 * told: its place comes free with vqp_tx_advance, which is left to the caller. */
static VQP_ALWAYS_INLINE int
vqp_tx_end(vqp_tx_t *tx, vqp_op_t *op, uint16_t name)
{
    vqp_mark_if(op->status != VQP_OK, CONFIRM_ERROR);
    if (op->user_kind == 0) {
        op->kind = VQP_KIND_FREE;
        return 1;
    }

    op->flags |= VQP_OP_DONE;
    vqp_tx_push(tx, &tx->done_head, &tx->done_tail, name);
    return 0;
}

static inline void vqp_tx_frag_done(vqp_tx_t *tx, vqp_op_t *op, uint16_t name)
{
    if (--op->pending != 0) {
        return;
    }

    if (vqp_unlikely((op->flags & (VQP_OP_DONE | VQP_OP_BARE)) || tx->failed ||
                     tx->cfg.comp_post || (op->offset != op->length))) {
        vqp_tx_last_frag_done(tx, op, name);
    } else {
        (void)vqp_tx_end(tx, op, name);
    }
}

/* What a READ or an atomic holds beyond a put */
static inline void
vqp_tx_retire_read(vqp_tx_t *tx, vqp_path_t *path, const vqp_inflight_t *entry,
                   vqp_status_t status)
{
    uint16_t pos = (uint16_t)(entry - path->inflight);
    vqp_op_t *op;

    switch (entry->kind) {
    case VQP_KIND_FADD:
    case VQP_KIND_CSWAP:
        op = vqp_tx_named(tx, entry->op);
        if ((status == VQP_OK) && (op->amo.result != NULL)) {
            memcpy(op->amo.result, vqp_tx_amo_cell(tx, path, pos),
                   sizeof(uint64_t));
        }
        /* fall through */
    case VQP_KIND_GET:
        --path->reads;
        --path->rma;
        break;
    default:
        break;
    }
}

/* One frag is over: give back what it took from the path, tell its op. Returns 0
 * if no op's place can have come free. */
static VQP_ALWAYS_INLINE int
vqp_tx_retire_one(vqp_tx_t *tx, vqp_path_t *path, const vqp_inflight_t *entry,
                  vqp_status_t status)
{
    vqp_op_t *op;

    if (entry->kind == VQP_KIND_PUT) {
        --path->rma;
    } else if (entry->kind != VQP_KIND_AM) {
        vqp_tx_retire_read(tx, path, entry, status);
    }

    if (entry->op == VQP_OP_NONE) {
        tx->loose -= (entry->kind != VQP_KIND_KICK);
        return 0;
    }

    op = vqp_tx_named(tx, entry->op);
    if (vqp_unlikely(status != VQP_OK)) {
        vqp_op_set_status(op, status);
    }

    if (vqp_likely(entry->whole)) {
        return vqp_tx_end(tx, op, entry->op);
    }

    vqp_tx_frag_done(tx, op, entry->op);
    return 1;
}

/* ---- for who takes completions ---- */

/** Is the path's pace being measured? Then vqp_tx_retire wants the time. */
static inline int vqp_tx_is_paced(const vqp_path_t *path)
{
    return path->pace.start != 0;
}

/**
 * A completion arrived: everything on the path up to and including @a pos is
 * confirmed. With an error, @a pos itself failed and what stood before it did
 * not (RC completes in order).
 *
 * @return The number of frags confirmed; 0 if @a pos is not outstanding.
 */
static VQP_ALWAYS_INLINE unsigned vqp_tx_retire(vqp_tx_t *tx, vqp_path_t *path,
                                     uint16_t pos, vqp_status_t status)
{
    uint16_t head  = path->head;
    unsigned count = (uint16_t)(pos - head) + 1u;
    uint64_t bytes = 0;
    int freed      = 0;
    const vqp_inflight_t *entry;

    if (vqp_unlikely(count > vqp_path_outstanding(path))) {
        vqp_mark(CONFIRM_STALE);
        return 0;
    }

    do {
        entry  = vqp_path_at(path, head);
        bytes += entry->length;
        freed |= vqp_tx_retire_one(tx, path, entry,
                                   (head == pos) ? status : VQP_OK);
    } while (head++ != pos);

    path->head   = head;
    path->bytes -= bytes;
    if (freed) {
        vqp_tx_advance_both(tx);
    }

    if (vqp_unlikely(vqp_tx_is_paced(path)) &&
        vqp_pace_confirmed(&path->pace, bytes, path->bytes, tx->seen,
                           tx->now)) {
        vqp_tx_paced(tx);
    }

    return count;
}

/**
 * Next op to report, in the configured completion order. Its place is free
 * again when this returns, so that the one who is told may use the sender.
 *
 * @return 1 if there was one, 0 if not. To be called until 0 after each
 *         retire or fail.
 */
static inline int vqp_tx_pop_done(vqp_tx_t *tx, vqp_done_t *done)
{
    vqp_op_t *op;

    if (vqp_unlikely(tx->cfg.comp_post)) {
        op = vqp_tx_next_in_order(tx);
        if (op == NULL) {
            return 0;
        }
    } else {
        if (tx->done_head == VQP_OP_NONE) {
            return 0;
        }
        op            = vqp_tx_named(tx, tx->done_head);
        tx->done_head = op->next;
    }

    done->user      = op->user;
    done->user_kind = op->user_kind;
    done->kind      = op->kind;
    done->length    = op->length;
    done->status    = (vqp_status_t)op->status;
    vqp_tx_release(tx, op);
    return 1;
}

#endif
