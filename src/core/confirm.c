/*
 * The sender: confirmation of frags, the end of ops, and their reporting in one
 * order or the other. See tx.h. Pure: libc only.
 */
#include "core/mark.h"
#include "core/tx.h"

#include <string.h>

static inline vqp_opring_t *vqp_tx_ring_of(vqp_tx_t *tx, uint16_t name)
{
    return (name & VQP_OP_AM) ? &tx->am : &tx->rma;
}

static inline vqp_op_t *vqp_tx_named(vqp_tx_t *tx, uint16_t name)
{
    return &vqp_tx_ring_of(tx, name)->ops[name & ~VQP_OP_AM];
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

static inline void
vqp_tx_release(vqp_tx_t *tx, vqp_opring_t *ring, vqp_op_t *op)
{
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

/* The last frag that was in flight is over, and something is out of the ordinary
 * with the op or the sender */
static void __attribute__((noinline))
vqp_tx_last_frag_done(vqp_tx_t *tx, vqp_op_t *op, uint16_t name)
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

static inline void vqp_tx_frag_done(vqp_tx_t *tx, uint16_t name)
{
    vqp_op_t *op = vqp_tx_named(tx, name);

    if (--op->pending != 0) {
        return;
    }

    if (vqp_unlikely((op->flags & (VQP_OP_DONE | VQP_OP_BARE)) || tx->failed ||
                     tx->cfg.comp_post || (op->offset != op->length))) {
        vqp_tx_last_frag_done(tx, op, name);
        return;
    }

    vqp_mark_if(op->status != VQP_OK, CONFIRM_ERROR);
    if (op->user_kind == 0) {
        op->kind = VQP_KIND_FREE;
    } else {
        op->flags |= VQP_OP_DONE;
        vqp_tx_push(tx, &tx->done_head, &tx->done_tail, name);
    }
}

static inline void vqp_tx_amo_result(vqp_tx_t *tx, vqp_path_t *path,
                                     const vqp_inflight_t *entry)
{
    vqp_op_t *op = vqp_tx_named(tx, entry->op);
    uint16_t pos = (uint16_t)(entry - path->inflight);

    if (op->amo.result != NULL) {
        memcpy(op->amo.result, vqp_tx_amo_cell(tx, path, pos),
               sizeof(uint64_t));
    }
}

/* What a READ or an atomic holds beyond a put */
static void __attribute__((noinline))
vqp_tx_retire_read(vqp_tx_t *tx, vqp_path_t *path, const vqp_inflight_t *entry,
                   vqp_status_t status)
{
    switch (entry->kind) {
    case VQP_KIND_FADD:
    case VQP_KIND_CSWAP:
        if (status == VQP_OK) {
            vqp_tx_amo_result(tx, path, entry);
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

/* One frag is over: give back what it took from the path, tell its op */
static inline void vqp_tx_retire_one(vqp_tx_t *tx, vqp_path_t *path,
                                     const vqp_inflight_t *entry,
                                     vqp_status_t status)
{
    if (entry->kind == VQP_KIND_PUT) {
        --path->rma;
    } else if (entry->kind != VQP_KIND_AM) {
        vqp_tx_retire_read(tx, path, entry, status);
    }

    if (entry->whole) {
        vqp_tx_named(tx, entry->op)->kind = VQP_KIND_FREE;
    } else if (entry->op != VQP_OP_NONE) {
        if (vqp_unlikely(status != VQP_OK)) {
            vqp_op_set_status(vqp_tx_named(tx, entry->op), status);
        }
        vqp_tx_frag_done(tx, entry->op);
    }
}

/* A path's pace is another one: are they still even? */
static void vqp_tx_paced(vqp_tx_t *tx)
{
    int is_even = vqp_sched_is_even(tx->paths, tx->num_paths, tx->now);

    tx->uneven = !is_even;
    tx->plain  = is_even && !tx->cfg.no_fast;
    tx->paced  = tx->now;
}

static inline void vqp_tx_advance_both(vqp_tx_t *tx)
{
    vqp_tx_advance(tx, &tx->am);
    vqp_tx_advance(tx, &tx->rma);
}

unsigned vqp_tx_retire(vqp_tx_t *tx, vqp_path_t *path, uint16_t pos,
                       vqp_status_t status)
{
    uint16_t head  = path->head;
    unsigned count = (uint16_t)(pos - head) + 1u;
    uint64_t bytes = 0;
    const vqp_inflight_t *entry;

    if (vqp_unlikely(count > vqp_path_outstanding(path))) {
        vqp_mark(CONFIRM_STALE);
        return 0;
    }

    while (head != pos) {
        entry  = vqp_path_at(path, head++);
        bytes += entry->length;
        vqp_tx_retire_one(tx, path, entry, VQP_OK);
    }

    entry        = vqp_path_at(path, head++);
    bytes       += entry->length;
    path->head   = head;
    path->bytes -= bytes;
    vqp_tx_retire_one(tx, path, entry, status);
    vqp_tx_advance_both(tx);
    if (vqp_unlikely(vqp_tx_is_paced(path)) &&
        vqp_pace_confirmed(&path->pace, bytes, path->bytes, tx->seen,
                           tx->now)) {
        vqp_tx_paced(tx);
    }

    return count;
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
        vqp_tx_retire_one(tx, path, vqp_path_at(path, i), status);
    }
    vqp_tx_advance_both(tx);

    /* The CQE that the rest counted on may have been among them */
    path->unsignaled = 1;
    path->free_frags = 0;
}

static void vqp_tx_report(vqp_tx_t *tx, vqp_opring_t *ring, vqp_op_t *op,
                          vqp_done_t *done)
{
    done->user      = op->user;
    done->user_kind = op->user_kind;
    done->kind      = op->kind;
    done->length    = op->length;
    done->status    = (vqp_status_t)op->status;
    vqp_tx_release(tx, ring, op);
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

int vqp_tx_pop_done(vqp_tx_t *tx, vqp_done_t *done)
{
    vqp_opring_t *ring;
    uint16_t name;
    vqp_op_t *op;

    if (!tx->cfg.comp_post) {
        if ((name = tx->done_head) == VQP_OP_NONE) {
            return 0;
        }

        op            = vqp_tx_named(tx, name);
        tx->done_head = op->next;
        vqp_tx_report(tx, (name & VQP_OP_AM) ? &tx->am : &tx->rma, op, done);
        return 1;
    }

    while (((ring = vqp_tx_older_ring(tx)) != NULL) &&
           ((op = vqp_opring_at(ring, ring->head))->flags & VQP_OP_DONE)) {
        vqp_tx_report(tx, ring, op, done);
        if (done->user_kind != 0) {
            return 1;
        }
    }

    return 0;
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
