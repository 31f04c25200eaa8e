/*
 * The sender: frags that carry no data of an op, but for notifies: credit,
 * kicks, last words. See emit.h and tx.h. Pure: libc only.
 */
#include "core/emit.h"
#include "core/mark.h"

/* A path for control and fences: they have a reserve of their own */
static vqp_path_t *vqp_tx_control_path(vqp_tx_t *tx)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < tx->num_paths; ++i) {
        path          = &tx->paths[tx->next_path];
        tx->next_path = path->next;
        if (path->up && (vqp_path_outstanding(path) < path->depth) &&
            (path->imms < path->imms_max)) {
            return path;
        }
    }

    return NULL;
}

/* Tell the peer the credit: the cumulative state, so the newest one suffices */
void vqp_tx_dispatch_control(vqp_tx_t *tx, vqp_batch_t *batch,
                             const vqp_credit_t *credit)
{
    vqp_path_t *path;
    vqp_frag_t *frag;
    vqp_cell_t *cell;

    /* accepted AMs keep the numbers that were reserved for them */
    if (vqp_tx_fsns_out(tx) + tx->fsn_reserved >= tx->fsn_limit) {
        vqp_mark(CONTROL_NO_FSN);
        return;
    }

    if (vqp_batch_is_full(batch) ||
        ((path = vqp_tx_control_path(tx)) == NULL)) {
        vqp_mark(CONTROL_NO_PATH);
        return;
    }

    cell              = (vqp_cell_t*)((char*)tx->cfg.cells +
                                      ((size_t)path->index * VQP_CELL_STRIDE));
    cell->credit_ring = credit->ring;
    cell->credit_fsn  = credit->fsn;
    cell->reserved    = 0;
    if (tx->want_starve) {
        vqp_mark(CONTROL_STARVE);
        tx->want_starve = 0;
        tx->starving    = 1;
        ++tx->stats->starves;
    }
    /* not cleared while no credit came: the HCA may read the cell later, after
     * another control message was written over it */
    cell->flags = tx->starving ? VQP_CELL_STARVE : 0;

    frag = vqp_tx_emit(tx, batch, path, NULL, VQP_OP_NONE, VQP_KIND_CONTROL,
                       tx->am.post, sizeof(*cell), 0);
    tx->free_ams = 0; /* its fsn is reserved nowhere */
    ++tx->loose;
    vqp_tx_immediate(tx, frag, vqp_tx_next_fsn(tx), VQP_IMM_CONTROL);
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

    tx->slow &= ~(uint32_t)VQP_TX_CONTROL;
    ++tx->stats->controls_tx;
}

/* Would the newest frag of the path be confirmed by nothing? */
static inline int vqp_tx_lacks_cqe(const vqp_path_t *path)
{
    return (path->unsignaled != 0) && (vqp_path_outstanding(path) != 0);
}

static void
vqp_tx_emit_kick(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path)
{
    vqp_frag_t *frag = vqp_tx_emit(tx, batch, path, NULL, VQP_OP_NONE,
                                   VQP_KIND_KICK, 0, 0, 1);

    vqp_tx_empty(tx, frag);
    ++tx->stats->kicks;
}

void vqp_tx_dispatch_probe(vqp_tx_t *tx, vqp_batch_t *batch)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; (i < tx->num_paths) && !vqp_batch_is_full(batch); ++i) {
        path = &tx->paths[i];
        if ((vqp_path_outstanding(path) < path->depth) && path->up) {
            vqp_tx_emit_kick(tx, batch, path);
            tx->slow &= ~(uint32_t)VQP_TX_PROBE;
            return;
        }
    }
}

/* Get a CQE behind what each path has posted without one */
void vqp_tx_dispatch_kick(vqp_tx_t *tx, vqp_batch_t *batch)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < tx->num_paths; ++i) {
        path = &tx->paths[i];
        if (!vqp_tx_lacks_cqe(path)) {
            continue;
        }

        if ((vqp_path_outstanding(path) >= path->depth) || !path->up ||
            vqp_batch_is_full(batch)) {
            vqp_mark(KICK_NO_ROOM);
            return;
        }

        vqp_tx_emit_kick(tx, batch, path);
    }

    tx->slow &= ~(uint32_t)VQP_TX_KICK;
}

void vqp_tx_last_words(vqp_tx_t *tx, vqp_batch_t *batch)
{
    uint32_t i;

    batch->count = 0;
    for (i = 0; (i < tx->num_paths) && !vqp_batch_is_full(batch); ++i) {
        if (vqp_tx_lacks_cqe(&tx->paths[i])) {
            vqp_mark(LAST_WORDS);
            vqp_tx_emit_kick(tx, batch, &tx->paths[i]);
        }
    }
}

/* The notifies of sprayed messages whose data is acknowledged */
void vqp_tx_dispatch_notify(vqp_tx_t *tx, vqp_batch_t *batch)
{
    const vqp_want_t want = {UINT64_MAX, 0, 0, tx->now, VQP_NEED_IMM, 0};
    vqp_path_t *path;
    vqp_frag_t *frag;
    vqp_op_t *op;

    while (tx->notify_head != VQP_OP_NONE) {
        if (vqp_batch_is_full(batch) ||
            ((path = vqp_sched_pick((vqp_sched_t)tx->cfg.sched, tx->paths,
                                    tx->num_paths, &tx->next_path, &want)) ==
             NULL)) {
            vqp_mark(NOTIFY_WAITS);
            return;
        }

        op   = &tx->am.ops[tx->notify_head & ~VQP_OP_AM];
        frag = vqp_tx_emit(tx, batch, path, op, tx->notify_head,
                           VQP_KIND_NOTIFY, op->length, 0, 1);
        vqp_tx_empty(tx, frag);
        vqp_tx_immediate(tx, frag, op->fsn, vqp_tx_last_flags(op));
        op->flags      |= VQP_OP_NOTIFIED;
        ++op->pending;
        tx->notify_head = op->next;
        vqp_mark_if(tx->notify_head != VQP_OP_NONE, NOTIFY_PIPELINED);
    }

    tx->slow &= ~(uint32_t)VQP_TX_NOTIFY;
}
