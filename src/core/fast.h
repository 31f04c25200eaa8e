/*
 * The short way of an op that has nothing ahead of it, and is one frag, or a put
 * of a frag per path: what
 * commit and dispatch do together, in one inline piece, with the same effects
 * (test/core/fast_test.cc compares). Whenever anything is out of the ordinary
 * the caller goes the long way. Pure: libc only.
 */
#ifndef VQP_CORE_FAST_H
#define VQP_CORE_FAST_H

#include "core/tx.h"

/* The path whose turn it is, if it takes the frag at once */
static inline vqp_path_t *
vqp_tx_fast_path(vqp_tx_t *tx, const vqp_opring_t *ring)
{
    vqp_path_t *path = &tx->paths[tx->next_path];

    if (vqp_unlikely((tx->slow != 0) || !tx->plain ||
                     (ring->post != ring->tail) ||
                     !vqp_path_has_room(path, tx->fast_cap))) {
        return NULL;
    }

    return path;
}

/** A path for a put that is accepted and posted in one go, or NULL. */
static inline vqp_path_t *vqp_tx_fast_put_path(vqp_tx_t *tx)
{
    return vqp_unlikely(tx->fence_rma) ? NULL : vqp_tx_fast_path(tx, &tx->rma);
}

/** A path for an AM that fits one frag, or NULL; after vqp_tx_am_begin. */
static inline vqp_path_t *vqp_tx_fast_am_path(vqp_tx_t *tx, const vqp_op_t *op)
{
    vqp_path_t *path = vqp_tx_fast_path(tx, &tx->am);

    return vqp_likely((path != NULL) && vqp_path_has_imm(path) &&
                      !(op->flags & VQP_OP_FENCE)) ? path : NULL;
}

/* Give the op its number; the caller moves the ring's cursors */
static inline void vqp_tx_fast_accept(vqp_tx_t *tx, vqp_op_t *op)
{
    op->seq     = tx->seq++;
    op->offset  = 0;
    op->pending = 0;
    op->status  = VQP_OK;
    ++tx->stats->ops;
}

/* Take the path's next place for the next @a length bytes of the op */
static inline uint16_t
vqp_tx_fast_take(vqp_tx_t *tx, vqp_path_t *path, vqp_op_t *op, uint16_t name,
                 uint32_t length, int signal, unsigned *flags)
{
    uint16_t pos          = path->tail++;
    vqp_inflight_t *entry = vqp_path_at(path, pos);

    tx->next_path = (path->index + 1u == tx->num_paths) ? 0 : path->index + 1u;
    entry->offset = op->offset;
    entry->length = length;
    entry->op     = name;
    entry->kind   = op->kind;
    path->bytes  += length;
    ++path->stats.frags;
    path->stats.bytes += length;

    /* pacing is of interest to batches only */
    *flags     |= vqp_tx_signal(tx, path, op->kind, length, signal) &
                  VQP_FRAG_SIGNALED;
    op->offset += length;
    ++op->pending;
    return pos;
}

/**
 * Accept a put of one frag that vqp_tx_rma_begin gave and the caller has
 * filled: it counts as posted on @a path.
 *
 * @param [out] flags  VQP_FRAG_SIGNALED is added if it needs a CQE.
 *
 * @return Its place in the path's send queue.
 */
static inline uint16_t vqp_tx_fast_put(vqp_tx_t *tx, vqp_path_t *path,
                                       vqp_op_t *op, unsigned *flags)
{
    ++path->rma;
    ++tx->rma.tail;
    tx->rma.post = tx->rma.tail;
    vqp_tx_fast_accept(tx, op);
    return vqp_tx_fast_take(tx, path, op, vqp_opring_index(&tx->rma, op),
                            (uint32_t)op->length, op->flags & VQP_OP_SIGNAL,
                            flags);
}

/** Has a put with pieces no more frags than there are paths, and need nobody
 * know how long they take? */
static inline int vqp_tx_fast_is_spread(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return ((op->length - 1) >> op->frag_shift < tx->num_paths) &&
           (op->length < tx->fast_max);
}

/**
 * Next frag of a put that was accepted by vqp_tx_fast_accept and counts as
 * undispatched: each goes to another path, so that a chain gains nothing.
 *
 * @param [out] pos     Its place in the path's send queue.
 * @param [out] length  Bytes from op->offset, which then is behind them.
 *
 * @return Its path, or NULL when dispatch has to go on with the op.
 */
static inline vqp_path_t *
vqp_tx_fast_put_next(vqp_tx_t *tx, vqp_op_t *op, uint16_t *pos,
                     uint32_t *length, unsigned *flags)
{
    vqp_path_t *path = &tx->paths[tx->next_path];

    if (vqp_unlikely(!vqp_path_has_room(path, tx->fast_cap))) {
        return NULL;
    }

    ++path->rma;
    *length = (uint32_t)vqp_min(op->length - op->offset,
                                1ul << op->frag_shift);
    *pos    = vqp_tx_fast_take(tx, path, op, vqp_opring_index(&tx->rma, op),
                               *length, op->flags & VQP_OP_SIGNAL, flags);
    return path;
}

/**
 * Accept an AM of one frag that vqp_tx_am_begin gave, its record's payload in
 * the mirror: it counts as posted on @a path.
 *
 * @param [in]  length  Payload bytes.
 * @param [out] imm     The immediate to send.
 * @param [out] flags   As in @ref vqp_tx_fast_put.
 */
static inline uint16_t
vqp_tx_fast_am(vqp_tx_t *tx, vqp_path_t *path, vqp_op_t *op,
               vqp_record_t *record, uint8_t am_id, uint32_t length,
               const vqp_credit_t *credit, uint32_t *imm, unsigned *flags)
{
    uint16_t name = vqp_opring_index(&tx->am, op) | VQP_OP_AM;
    uint32_t fsn  = tx->fsn_next;

    vqp_record_fill(record, am_id, length, credit);
    op->niov      = 0; /* the source is the mirror, where raddr says */
    op->length    = sizeof(*record) + length;
    tx->ring_head = op->ring_end + vqp_record_size(length);
    op->ring_end  = tx->ring_head;
    tx->fence_am  = 0;
    ++tx->am.tail;
    tx->am.post   = tx->am.tail;

    *imm = fsn | VQP_IMM_LAST | ((op->flags & VQP_OP_WRAP) ? VQP_IMM_WRAP : 0);
    tx->fsn_next                                 = vqp_fsn_add(fsn, 1);
    tx->fsn_path[fsn & (tx->cfg.fsn_window - 1)] = path->index;
    ++path->imms;
    ++path->stats.imms;
    vqp_tx_fast_accept(tx, op);
    return vqp_tx_fast_take(tx, path, op, name, (uint32_t)op->length, 0, flags);
}

#endif
