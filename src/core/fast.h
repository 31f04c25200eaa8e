/*
 * The short way of an op that has nothing ahead of it, and is one frag, or a put
 * of a frag per path: what commit and dispatch do together, in one inline piece,
 * with the same effects (test/core/fast_test.cc compares). Whenever anything is
 * out of the ordinary the caller goes the long way. Pure: libc only.
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
                     (ring->post != ring->tail))) {
        return NULL;
    }

    return vqp_likely((path->free_frags != 0) ||
                      vqp_path_has_room(path, tx->fast_cap)) ? path : NULL;
}

/** A path for a put that is accepted and posted in one go, or NULL. */
static inline vqp_path_t *vqp_tx_fast_put_path(vqp_tx_t *tx)
{
    return vqp_unlikely(tx->fence_rma) ? NULL : vqp_tx_fast_path(tx, &tx->rma);
}

/** The same for a get or an atomic, which take a READ credit. */
static inline vqp_path_t *vqp_tx_fast_read_path(vqp_tx_t *tx)
{
    vqp_path_t *path = vqp_tx_fast_put_path(tx);

    return vqp_likely((path != NULL) && (path->reads < path->reads_max)) ?
                   path : NULL;
}

/** A path for an AM that fits one frag, or NULL; after vqp_tx_am_begin. */
static inline vqp_path_t *vqp_tx_fast_am_path(vqp_tx_t *tx, const vqp_op_t *op)
{
    vqp_path_t *path = vqp_tx_fast_path(tx, &tx->am);

    return vqp_likely((path != NULL) && !(op->flags & VQP_OP_FENCE) &&
                      ((path->free_frags != 0) || vqp_path_has_imm(path))) ?
                   path : NULL;
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

/* Does the frag, which spent the path's last sure credits, get a CQE unless it is
 * to have one anyway; and how many after it need not ask? */
static __attribute__((noinline)) unsigned
vqp_tx_fast_look(vqp_tx_t *tx, vqp_path_t *path, uint8_t kind, uint32_t length,
                 int signal)
{
    unsigned flags      = vqp_tx_signal(tx, path, kind, length, signal);
    uint32_t pace       = (kind != VQP_KIND_AM) ? tx->rma_pace :
                          vqp_min(tx->am_pace, tx->rma_pace);
    uint32_t unsignaled = path->unsignaled + 1u;
    uint32_t places     = vqp_path_outstanding(path) + VQP_CONTROL_RESERVE;
    uint32_t imms       = path->imms + (uint32_t)VQP_CONTROL_RESERVE;
    uint64_t cap        = vqp_min(tx->fast_cap, tx->cfg.path_cap);
    uint64_t bytes;

    path->free_frags = 0;
    if ((unsignaled < tx->cfg.signal_every) && (places < path->depth) &&
        (imms < path->imms_max) && (path->bytes < cap) &&
        (path->unsignaled_bytes <= pace) && path->up) {
        bytes            = cap - path->bytes - 1;
        path->free_bytes = (uint32_t)vqp_min(bytes, (uint64_t)pace -
                                                    path->unsignaled_bytes);
        path->free_frags = vqp_min(tx->cfg.signal_every - unsignaled,
                                   vqp_min(path->depth - places,
                                           path->imms_max - imms));
    }

    return flags & VQP_FRAG_SIGNALED; /* pacing is of interest to batches */
}

/* Take the path's next place for the next @a length bytes of the op. @a whole:
 * these are all of them, and the op ends with them. */
static VQP_ALWAYS_INLINE uint16_t
vqp_tx_fast_take(vqp_tx_t *tx, vqp_path_t *path, uint16_t name, uint8_t kind,
                 uint64_t offset, uint32_t length, int whole, int signal,
                 unsigned *flags)
{
    uint16_t pos          = path->tail++;
    vqp_inflight_t *entry = vqp_path_at(path, pos);

    tx->next_path = path->next;
    entry->offset = offset;
    entry->length = length;
    entry->op     = name;
    entry->kind   = kind;
    entry->whole  = (uint8_t)whole;
    path->bytes  += length;
    ++path->stats.frags;
    path->stats.bytes += length;

    if (vqp_unlikely((path->free_frags == 0) || (length > path->free_bytes) ||
                     ((kind == VQP_KIND_AM) &&
                      (path->unsignaled_bytes + length > tx->am_pace)))) {
        *flags |= vqp_tx_fast_look(tx, path, kind, length, signal);
        return pos;
    }

    --path->free_frags;
    path->free_bytes       -= length;
    path->unsignaled_bytes += length;
    ++path->unsignaled;
    if (signal) {
        path->unsignaled = 0;
        *flags          |= VQP_FRAG_SIGNALED;
    }

    return pos;
}

/* Give an op of one frag its number, and count it as posted */
static inline void vqp_tx_fast_accept_whole(vqp_tx_t *tx, vqp_op_t *op)
{
    op->seq     = tx->seq++;
    op->offset  = op->length;
    op->pending = 1;
    op->status  = VQP_OK;
    ++tx->stats->ops;
}

static VQP_ALWAYS_INLINE uint16_t
vqp_tx_fast_rma(vqp_tx_t *tx, vqp_path_t *path, vqp_op_t *op, uint8_t kind,
                int signal, unsigned *flags)
{
    ++path->rma;
    ++tx->rma.tail;
    ++tx->rma.post;
    vqp_tx_fast_accept_whole(tx, op);
    return vqp_tx_fast_take(tx, path, vqp_opring_index(&tx->rma, op), kind, 0,
                            (uint32_t)op->length, !tx->cfg.comp_post, signal,
                            flags);
}

/**
 * Accept a put of one frag that vqp_tx_rma_begin gave and the caller has
 * filled: it counts as posted on @a path.
 *
 * @param [out] flags  VQP_FRAG_SIGNALED is added if it needs a CQE.
 *
 * @return Its place in the path's send queue.
 */
static VQP_ALWAYS_INLINE uint16_t
vqp_tx_fast_put(vqp_tx_t *tx, vqp_path_t *path, vqp_op_t *op, unsigned *flags)
{
    return vqp_tx_fast_rma(tx, path, op, VQP_KIND_PUT,
                           op->flags & VQP_OP_SIGNAL, flags);
}

/**
 * The same for a get of one frag, or an atomic; on a path of
 * vqp_tx_fast_read_path. Who takes its last READ credit gets a CQE.
 */
static VQP_ALWAYS_INLINE uint16_t
vqp_tx_fast_read(vqp_tx_t *tx, vqp_path_t *path, vqp_op_t *op, unsigned *flags)
{
    ++path->reads;
    return vqp_tx_fast_rma(tx, path, op, op->kind,
                           (op->flags & VQP_OP_SIGNAL) ||
                           (path->reads == path->reads_max), flags);
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

    *length = (uint32_t)vqp_min(op->length - op->offset,
                                1ul << op->frag_shift);
    if (vqp_unlikely(!vqp_path_has_room(path, tx->fast_cap) ||
                     !vqp_sched_is_turn(tx->paths, path, *length))) {
        return NULL;
    }

    ++path->rma;
    *pos    = vqp_tx_fast_take(tx, path, vqp_opring_index(&tx->rma, op),
                               VQP_KIND_PUT, op->offset, *length, 0,
                               op->flags & VQP_OP_SIGNAL, flags);
    op->offset += *length;
    ++op->pending;
    return path;
}

/**
 * Accept an AM of one frag that vqp_tx_am_begin gave: it counts as posted on
 * @a path. The op is told neither of its source nor of its keys.
 *
 * @param [in]  length  Payload bytes.
 * @param [out] imm     The immediate to send.
 * @param [out] flags   As in @ref vqp_tx_fast_put.
 */
static VQP_ALWAYS_INLINE uint16_t
vqp_tx_fast_am(vqp_tx_t *tx, vqp_path_t *path, vqp_op_t *op,
               vqp_record_t *record, uint8_t am_id, uint32_t length,
               const vqp_credit_t *credit, uint32_t *imm, unsigned *flags)
{
    uint16_t name = vqp_opring_index(&tx->am, op) | VQP_OP_AM;
    uint32_t fsn  = tx->fsn_next;

    vqp_record_fill(record, am_id, length, credit);
    op->niov      = 0;
    op->length    = sizeof(*record) + length;
    tx->ring_head = op->ring_end + vqp_record_size(length);
    op->ring_end  = tx->ring_head;
    tx->fence_am  = 0;
    tx->free_ams -= (tx->free_ams > 0);
    tx->am.post   = ++tx->am.tail;

    *imm = fsn | VQP_IMM_LAST | ((op->flags & VQP_OP_WRAP) ? VQP_IMM_WRAP : 0);
    tx->fsn_next                                 = vqp_fsn_add(fsn, 1);
    tx->fsn_path[fsn & (tx->cfg.fsn_window - 1)] = path->index;
    ++path->imms;
    ++path->stats.imms;
    vqp_tx_fast_accept_whole(tx, op);
    return vqp_tx_fast_take(tx, path, name, VQP_KIND_AM, 0,
                            (uint32_t)op->length, !tx->cfg.comp_post,
                            op->flags & VQP_OP_SIGNAL, flags);
}

#endif
