/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path: a batch of one, inline. An op that has nothing ahead of it, and
 * is one frag, or a put of a frag per path, is accepted and dispatched at once,
 * with the same effects as commit and dispatch have (test/core/send_test.cc
 * compares). In all other cases it is accepted for dispatch.
 * Pure: libc only.
 */
#ifndef VQP_CORE_DATA_SEND_H
#define VQP_CORE_DATA_SEND_H

#include "core/cover.h"
#include "core/data/am.h"
#include "core/data/place.h"

typedef enum {
    VQP_SEND_QUEUED, /* accepted: dispatch continues with it */
    VQP_SEND_FRAG,   /* the frag is to be posted, and is all of the op */
    VQP_SEND_SPREAD  /* the frags of vqp_tx_spread_next() are to be posted */
} vqp_send_t;

/* The path in turn, if the fast path is allowed there. Nothing is measured here: that a
 * path is slower than the next one shows by what it has in flight, if a CQE is to come. If
 * none is, all may be executed, and the path has to take frags until it gets one */
static inline vqp_path_t *
vqp_tx_fast_path(const vqp_tx_t *tx, const vqp_opring_t *ring, uint32_t slow,
                 uint64_t length)
{
    vqp_path_t *path = &tx->paths.list[tx->paths.next];

    return vqp_likely((slow == 0) && (ring->post == ring->tail) &&
                      (path->budget.frags != 0) &&
                      (path->bytes < tx->limits.fast_cap) &&
                      (vqp_sched_is_turn(tx->paths.list, path,
                                         length + tx->limits.ahead) ||
                       !vqp_path_awaits_cqe(path))) ? path : NULL;
}

/**
 * Accept a put, get or atomic that vqp_tx_rma_begin() gave and the caller has
 * filled.
 *
 * @param [in]  kind   op->kind; a constant, so that code for other kinds is
 *                     removed.
 * @param [in]  flags  VQP_FRAG_INLINE: a put that holds its data itself.
 * @param [out] sge    One element, which @a frag points to.
 * @param [out] frag   With VQP_SEND_FRAG.
 */
static VQP_ALWAYS_INLINE vqp_send_t
vqp_tx_send_rma(vqp_tx_t *tx, vqp_op_t *op, vqp_kind_t kind, unsigned flags,
                vqp_sge_t *sge, vqp_frag_t *frag)
{
    int is_read      = kind != VQP_KIND_PUT;
    int is_atomic    = is_read && (kind != VQP_KIND_GET);
    vqp_path_t *path = vqp_tx_fast_path(tx, &tx->rma, tx->slow, op->length);
    int signal       = op->flags & VQP_OP_SIGNAL;

    if (vqp_unlikely((path == NULL) ||
                     (is_atomic && tx->limits.amo_needs))) {
        goto queue;
    }

    if (!is_atomic && !(flags & VQP_FRAG_INLINE)) {
        if (vqp_unlikely((op->niov != 1) ||
                         (op->length >= tx->limits.fast_max))) {
            goto queue;
        }

        if (op->length > (1ul << op->frag_shift)) {
            if (is_read ||
                ((op->length - 1) >> op->frag_shift >= tx->paths.count)) {
                goto queue; /* more than a frag per path */
            }
            vqp_tx_accept(tx, op, 0, 0);
            ++tx->rma.tail;
            return VQP_SEND_SPREAD;
        }
    }

    if (is_read) {
        vqp_cover(SEND_FAST_READ);
        ++path->reads;
    }

    tx->rma.post  = ++tx->rma.tail;
    tx->paths.next = path->next;
    vqp_tx_accept(tx, op, op->length, 1);
    vqp_tx_place(tx, path, op, vqp_opring_index(&tx->rma, op), kind, 0,
                 (uint32_t)op->length,
                 tx->cfg.comp_post ? 0 : VQP_INFLIGHT_COMPLETES, signal, sge,
                 frag);
    vqp_tx_fill_rma(tx, op, kind, flags & VQP_FRAG_INLINE, 1, path, 0,
                    (uint32_t)op->length, sge, frag);
    return VQP_SEND_FRAG;

queue:
    vqp_tx_rma_commit(tx, op);
    return VQP_SEND_QUEUED;
}

/**
 * Next frag of a put that vqp_tx_send_rma() spreads: each goes to another path, so
 * that a chain would gain nothing.
 *
 * @return 1, or 0 at the end, or when dispatch has to continue with the op.
 */
int vqp_tx_spread_next(vqp_tx_t *tx, vqp_op_t *op, vqp_sge_t *sge,
                       vqp_frag_t *frag);

/**
 * Accept an AM that vqp_tx_am_begin() gave.
 *
 * @param [in]  length     Payload bytes in all.
 * @param [in]  in_mirror  How many of them are in the mirror.
 * @param [in]  nsge       A constant: 1, all are in the mirror; 2, the rest, not
 *                         empty, is one piece, op->g.iov[1]; 0, it is more.
 * @param [out] sge        @a nsge elements, which @a frag points to.
 * @param [out] frag       With VQP_SEND_FRAG.
 */
static VQP_ALWAYS_INLINE vqp_send_t
vqp_tx_send_am(vqp_tx_t *tx, const vqp_tx_am_t *am, uint8_t am_id,
               uint32_t length, uint32_t in_mirror, const vqp_credit_t *credit,
               unsigned nsge, vqp_sge_t *sge, vqp_frag_t *frag)
{
    vqp_op_t *op     = am->op;
    uint32_t total   = (uint32_t)sizeof(*am->record) + length;
    vqp_path_t *path = vqp_tx_fast_path(tx, &tx->am,
                                        tx->slow & ~VQP_TX_FENCE_RMA, total);

    if (vqp_unlikely((path == NULL) || (nsge == 0) ||
                     (op->flags & (VQP_OP_FENCE | VQP_OP_HELD)) ||
                     (total > tx->limits.one_frag))) {
        vqp_tx_am_commit(tx, *am, am_id, length, in_mirror, credit);
        return VQP_SEND_QUEUED;
    }

    vqp_cover(SEND_FAST_AM);
    vqp_tx_accept_am(tx, am, am_id, length, credit, total, 1);
    op->niov           = (uint8_t)nsge;
    tx->fc.am_credits -= (tx->fc.am_credits > 0);
    tx->am.post        = tx->am.tail;
    tx->paths.next      = path->next;
    frag->imm = vqp_tx_next_fsn(tx) | vqp_tx_last_flags(op);
    ++path->stats.imms;
    vqp_tx_place(tx, path, op, vqp_opring_index(&tx->am, op) | VQP_OP_AM,
                 VQP_KIND_AM, 0, total,
                 VQP_INFLIGHT_IMM |
                 (tx->cfg.comp_post ? 0 : VQP_INFLIGHT_COMPLETES),
                 op->flags & VQP_OP_SIGNAL, sge, frag);
    frag->opcode = VQP_WR_WRITE_IMM;
    vqp_path_at(path, frag->slot)->imm = frag->imm;
    vqp_tx_fill_am_target(tx, &tx->ring, path, op,
                          tx->ring.raddr +
                          (uint64_t)((char*)am->record - tx->ring.mirror), frag);

    frag->nsge    = (uint8_t)nsge;
    sge[0].addr   = (uintptr_t)am->record;
    sge[0].lkey   = tx->ring.lkeys[path->rail];
    if (nsge == 1) {
        sge[0].length = total;
        if (total <= tx->cfg.inline_max) {
            frag->flags |= VQP_FRAG_INLINE;
        }
    } else {
        sge[0].length = (uint32_t)sizeof(*am->record) + in_mirror;
        sge[1].addr   = op->g.iov[1].addr;
        sge[1].length = (uint32_t)op->g.iov[1].length;
        sge[1].lkey   = op->g.iov[1].lkeys[path->rail];
    }
    return VQP_SEND_FRAG;
}

#endif
