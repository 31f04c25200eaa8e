/* SPDX-License-Identifier: BSD-3-Clause */
/* Frags without data of an op, see control.h. Pure: libc only. */
#include "core/data/control.h"

#include "core/cover.h"

/* Control has a reserve of its own on each path */
static const vqp_want_t vqp_tx_control_want = {.cap   = UINT64_MAX,
                                               .needs = VQP_NEED_CONTROL};

/* The cumulative credit: the newest update contains all earlier ones */
static vqp_cell_t *
vqp_tx_fill_cell(vqp_tx_t *tx, const vqp_path_t *path,
                 const vqp_credit_t *credit)
{
    vqp_cell_t *cell = (vqp_cell_t*)((char*)tx->cfg.cells +
                                     ((size_t)path->index * VQP_CELL_STRIDE));

    cell->credit_ring = credit->ring;
    cell->credit_fsn  = credit->fsn;
    cell->reserved    = 0;
    if (tx->fc.want_request) {
        vqp_cover(CREDIT_REQUEST);
        tx->fc.want_request = 0;
        tx->fc.requested    = 1;
        ++tx->stats->credit_requests;
    }
    /* REQUEST stays until credit arrives: the HCA may read the cell after the next update
     * was written to it */
    cell->flags = tx->fc.requested ? VQP_CELL_REQUEST : 0;
    return cell;
}

void vqp_tx_fill_credit(vqp_tx_t *tx, vqp_frag_t *frag,
                         const vqp_credit_t *credit)
{
    vqp_path_t *path = frag->path;
    vqp_cell_t *cell = vqp_tx_fill_cell(tx, path, credit);

    frag->raddr         = tx->cfg.cells_raddr +
                          ((uint64_t)path->index * VQP_CELL_STRIDE);
    frag->rkey          = tx->cfg.ring_rkeys[path->peer_rail];
    frag->nsge          = 1;
    frag->sge[0].addr   = (uintptr_t)cell;
    frag->sge[0].length = sizeof(*cell);
    frag->sge[0].lkey   = tx->cfg.local_lkeys[path->rail];
    if (sizeof(*cell) <= tx->cfg.inline_max) {
        frag->flags |= VQP_FRAG_INLINE;
    }

    tx->fc.last_update     = *credit;
    tx->fc.am_outdated = tx->am.tail - tx->am.post;
}

void vqp_tx_dispatch_credit(vqp_tx_t *tx, vqp_batch_t *batch,
                             const vqp_credit_t *credit)
{
    vqp_path_t *path;
    vqp_frag_t *frag;

    /* accepted AMs keep the fsns that were reserved for them */
    if (vqp_tx_fsns_out(tx) + tx->fc.fsn_reserved >= tx->cfg.fsn_window) {
        vqp_cover(CREDIT_NO_FSN);
        return;
    }

    if (vqp_batch_is_full(batch) ||
        ((path = vqp_tx_find_path(tx, &vqp_tx_control_want)) == NULL)) {
        vqp_cover(CREDIT_NO_PATH);
        return;
    }

    frag = vqp_tx_emit(tx, batch, path, NULL, VQP_KIND_CREDIT, 0,
                       sizeof(vqp_cell_t), 0);
    vqp_tx_fill_credit(tx, frag, credit);
    vqp_path_at(path, frag->slot)->am_post = tx->am.post;
    vqp_frag_add_imm(frag, vqp_tx_next_fsn(tx), VQP_IMM_CREDIT);
    tx->fc.am_credits = 0; /* no fsn is reserved for it */
    tx->slow         &= ~(uint32_t)VQP_TX_CREDIT;
    ++tx->credit_updates;
    ++tx->stats->credit_updates_tx;
}

void vqp_tx_emit_nop(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path)
{
    vqp_tx_emit_empty(tx, batch, path, NULL, VQP_KIND_NOP, 1);
    ++tx->stats->nops;
}

void vqp_tx_emit_probe(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path)
{
    uint32_t length = 1u << path->mtu_shift;
    vqp_frag_t *frag;

    if ((tx->cfg.scratch.raddr == 0) || (path->mtu_shift == 0)) {
        vqp_tx_emit_nop(tx, batch, path);
        return;
    }

    vqp_cover(NOP_FULL);
    frag = vqp_tx_emit(tx, batch, path, NULL, VQP_KIND_NOP, 0, length, 1);
    frag->raddr         = tx->cfg.scratch.raddr;
    frag->rkey          = tx->cfg.scratch.rkeys[path->peer_rail];
    frag->nsge          = 1;
    frag->sge[0].addr   = tx->cfg.scratch.source;
    frag->sge[0].length = length;
    frag->sge[0].lkey   = tx->cfg.scratch.lkeys[path->rail];
    ++tx->stats->nops;
}

int vqp_tx_dispatch_probe(vqp_tx_t *tx, vqp_batch_t *batch, vqp_op_t *op)
{
    vqp_path_t *path;

    if (vqp_tx_outstanding(tx) != 0) {
        return 1;
    }

    path = vqp_tx_find_path(tx, &vqp_tx_control_want);
    if (path == NULL) {
        return 0;
    }

    vqp_cover(NOP_PROBE);
    vqp_tx_emit_empty(tx, batch, path, op, VQP_KIND_NOP, 1);
    ++op->pending;
    ++tx->stats->nops;
    return 1;
}

/* Does the path need a nop: for the CQE, or, if all are asked, because it is idle? */
static int vqp_tx_needs_nop(const vqp_tx_t *tx, const vqp_path_t *path)
{
    if ((path->fo.state != VQP_PATH_UP) && !vqp_path_is_withheld(path)) {
        return 0; /* where a nop is of use, vqp_paths_leave() or vqp_path_drain() sends it */
    }

    return vqp_path_lacks_cqe(path) ||
           ((tx->slow & VQP_TX_WITNESS) && path->up &&
            (vqp_path_outstanding(path) == 0));
}

void vqp_tx_dispatch_nops(vqp_tx_t *tx, vqp_batch_t *batch)
{
    int all = 1;
    vqp_path_t *path;
    int has_room;
    uint32_t i;

    for (i = 0; i < tx->paths.count; ++i) {
        path = &tx->paths.list[i];
        if (!vqp_tx_needs_nop(tx, path)) {
            continue;
        }

        has_room = vqp_path_is_withheld(path) ?
                           (vqp_path_outstanding(path) < path->depth) :
                           vqp_path_has_reserve(path);
        if (!has_room || vqp_batch_is_full(batch)) {
            vqp_cover(NOP_NO_ROOM);
            all = 0;
        } else {
            vqp_tx_emit_nop(tx, batch, path);
        }
    }

    if (all) {
        tx->slow &= ~(uint32_t)(VQP_TX_NOP | VQP_TX_WITNESS);
    }
}

void vqp_tx_drain_nops(vqp_tx_t *tx, vqp_batch_t *batch)
{
    uint32_t i;

    batch->count = 0;
    for (i = 0; (i < tx->paths.count) && !vqp_batch_is_full(batch); ++i) {
        if (vqp_path_lacks_cqe(&tx->paths.list[i])) {
            vqp_cover(DRAIN_NOP);
            vqp_tx_emit_nop(tx, batch, &tx->paths.list[i]);
        }
    }
}

void vqp_tx_dispatch_notify(vqp_tx_t *tx, vqp_batch_t *batch)
{
    const vqp_want_t want = {.cap = UINT64_MAX, .now = tx->clock.now};
    vqp_path_t *path;
    vqp_frag_t *frag;
    vqp_op_t *op;

    while (tx->announce.head != VQP_OP_NONE) {
        if (vqp_batch_is_full(batch) ||
            ((path = vqp_tx_find_path(tx, &want)) == NULL)) {
            vqp_cover(NOTIFY_WAITS);
            return;
        }

        op   = vqp_tx_op_of(tx, tx->announce.head);
        frag = vqp_tx_emit_empty(tx, batch, path, op, VQP_KIND_NOTIFY, 1);
        vqp_frag_add_imm(frag, op->am.fsn, vqp_tx_last_flags(op));
        op->flags        |= VQP_OP_ANNOUNCED;
        ++op->pending;
        tx->announce.head = op->next;
        vqp_cover_if(tx->announce.head != VQP_OP_NONE, NOTIFY_PIPELINED);
    }

    tx->slow &= ~(uint32_t)VQP_TX_NOTIFY;
}
