/* The frags of a path that failed, see replay.h. Pure: libc only. */
#include "core/replay.h"

#include "core/confirm.h"
#include "core/control.h"
#include "core/trim.h"

/* ---- where to ---- */

void vqp_tx_link_paths(vqp_tx_t *tx)
{
    uint32_t i, j, next;

    for (i = 0; i < tx->num_paths; ++i) {
        tx->paths[i].up = (tx->paths[i].fo.state == VQP_PATH_UP) &&
                          !tx->paths[i].fo.parked &&
                          !vqp_path_has_replay(&tx->paths[i]);
    }

    for (i = 0; i < tx->num_paths; ++i) {
        next = i;
        for (j = 0; j < tx->num_paths; ++j) {
            next = (next + 1 == tx->num_paths) ? 0 : next + 1;
            if (tx->paths[next].up) {
                break;
            }
        }
        tx->paths[i].next = (uint8_t)next;
        vqp_tx_refill(tx, &tx->paths[i]);
    }

    if (!tx->paths[tx->next_path].up) {
        tx->next_path = tx->paths[tx->next_path].next;
    }
}

static int vqp_replay_has_atomic(vqp_path_t *path)
{
    const vqp_inflight_t *entry;
    uint16_t slot;

    for (slot = path->fo.replay; slot != path->fo.replay_end; ++slot) {
        entry = vqp_path_at(path, slot);
        if ((entry->kind == VQP_KIND_FADD) || (entry->kind == VQP_KIND_CSWAP)) {
            return 1;
        }
    }

    return 0;
}

/* May frags of @a path go to @a to? Not behind others that wait there */
static int vqp_replay_may_use(const vqp_path_t *path, const vqp_path_t *to)
{
    return (to->fo.state == VQP_PATH_UP) &&
           ((to == path) || !vqp_path_has_replay(to));
}

static vqp_path_t *vqp_replay_target(vqp_tx_t *tx, vqp_path_t *path)
{
    vqp_path_t *best = NULL;
    vqp_path_t *to;
    int is_bound;
    uint32_t i;

    if (path->fo.target != VQP_PATH_NONE) {
        to = &tx->paths[path->fo.target];
        return vqp_replay_may_use(path, to) ? to : NULL;
    }

    is_bound = tx->limits.amo_needs && vqp_replay_has_atomic(path);
    for (i = 0; i < tx->num_paths; ++i) {
        to = &tx->paths[i];
        if (vqp_replay_may_use(path, to) &&
            (!is_bound || (to->peer_rail == path->peer_rail)) &&
            ((best == NULL) || (to->bytes < best->bytes))) {
            best = to;
        }
    }

    return best;
}

/* The paths in *bits wait for an immediate behind what they carried: so does the
 * path that carries it now. Returns how many fsns this saves. */
static uint32_t vqp_replay_move_bit(uint64_t *bits, unsigned from, unsigned to)
{
    uint64_t had = *bits;

    if (!(had & (1ul << from)) || (from == to)) {
        return 0;
    }

    vqp_cover(REPLAY_MOVES_BIT);
    *bits = (had & ~(1ul << from)) | (1ul << to);
    return (had >> to) & 1;
}

/* Nothing of @a path waits any more: @a to has carried it */
static void vqp_replay_done(vqp_tx_t *tx, vqp_path_t *path, unsigned to)
{
    uint32_t saved = 0;

    if (tx->fence.started) {
        saved += vqp_replay_move_bit(&tx->fence.paths, path->index, to);
    }

    if (tx->announce.tail_held) {
        saved += vqp_replay_move_bit(&tx->announce.tail_paths, path->index, to);
    } else {
        (void)vqp_replay_move_bit(&tx->announce.tail_paths, path->index, to);
    }
    tx->fc.fsn_reserved -= saved;

    path->fo.target = VQP_PATH_NONE;
}

/* The path that the frags went to has failed with some of them: the rest waits
 * behind those, in that path's place */
static void vqp_replay_join(vqp_tx_t *tx, vqp_path_t *path)
{
    vqp_path_t *to = &tx->paths[path->fo.target];
    uint16_t count = (uint16_t)(path->fo.replay_end - path->fo.replay);

    if ((to == path) || (to->fo.state == VQP_PATH_QUIESCE) ||
        ((to->fo.state == VQP_PATH_DRAINED) && !to->fo.trimmed) ||
        !vqp_path_has_replay(to) || (to->head != to->tail) ||
        ((uint16_t)(to->tail - to->fo.replay) + count >= to->mask)) {
        return;
    }

    vqp_cover(REPLAY_JOINS);
    for (; vqp_path_has_replay(path); ++path->fo.replay) {
        *vqp_path_at(to, to->tail++) = *vqp_path_at(path, path->fo.replay);
    }
    to->head           = to->signaled = to->tail;
    to->fo.replay_end  = to->tail;
    to->fo.wrs_seen    = to->tail; /* none of these was posted there */
    vqp_replay_done(tx, path, to->index);
}

/* ---- sending again ---- */

static int vqp_replay_has_room(const vqp_tx_t *tx, const vqp_path_t *to,
                               const vqp_inflight_t *entry)
{
    int is_read = (entry->kind == VQP_KIND_GET) ||
                  (entry->kind == VQP_KIND_FADD) ||
                  (entry->kind == VQP_KIND_CSWAP);

    return (vqp_path_outstanding(to) + VQP_CONTROL_RESERVE < to->depth) &&
           ((to->bytes < tx->cfg.path_cap) ||
            (vqp_path_outstanding(to) == 0)) &&
           (!is_read || (to->reads < to->reads_max)) &&
           (!vqp_path_has_replay(to) ||
            ((uint16_t)(to->tail - to->fo.replay) < to->mask)); /* and a nop */
}

/* The source of the frag, from any offset of its op on */
static void vqp_replay_gather(vqp_op_t *op, uint64_t offset, vqp_frag_t *frag)
{
    const vqp_iov_t *piece = vqp_op_iov(op);
    uint64_t left          = frag->length;
    uint64_t length;

    for (frag->nsge = 0; left > 0; ++piece) {
        if (offset >= piece->length) {
            offset -= piece->length;
            continue;
        }

        length = vqp_min(left, piece->length - offset);
        frag->sge[frag->nsge].addr   = piece->addr + offset;
        frag->sge[frag->nsge].length = (uint32_t)length;
        frag->sge[frag->nsge].lkey   = piece->lkeys[frag->path->rail];
        ++frag->nsge;
        left  -= length;
        offset = 0;
    }
}

/* The first piece of an AM, which the fast path does not fill, is in the mirror */
static void vqp_replay_am(vqp_tx_t *tx, vqp_op_t *op, uint64_t offset,
                          vqp_frag_t *frag)
{
    uint32_t size = vqp_record_size((uint32_t)(op->length -
                                               sizeof(vqp_record_t)));
    uint32_t pos  = (op->am.ring_end - size) & (tx->cfg.ring_size - 1);

    if (op->niov <= VQP_OP_IOV_INLINE) {
        op->g.iov[0].addr   = (uintptr_t)tx->cfg.mirror + pos;
        op->g.iov[0].length = op->length -
                              ((op->niov == 2) ? op->g.iov[1].length : 0);
        op->g.iov[0].lkeys  = tx->cfg.local_lkeys;
    }

    frag->raddr = tx->cfg.ring_raddr + pos + offset;
    frag->rkey  = tx->cfg.ring_rkeys[frag->path->peer_rail];
    vqp_replay_gather(op, offset, frag);
    (void)vqp_tx_signal_am(tx, frag->path, op->am.ring_end, frag->flags);
}

static void vqp_replay_rma(vqp_tx_t *tx, vqp_op_t *op, uint64_t offset,
                           vqp_frag_t *frag)
{
    vqp_path_t *path = frag->path;

    ++path->rma;
    frag->raddr = op->raddr + offset;
    frag->rkey  = op->rma.rkeys[path->peer_rail];
    if (op->kind != VQP_KIND_PUT) {
        ++path->reads;
        frag->opcode = (op->kind == VQP_KIND_GET)  ? VQP_WR_READ :
                       (op->kind == VQP_KIND_FADD) ? VQP_WR_FADD : VQP_WR_CSWAP;
    }

    if ((op->kind == VQP_KIND_PUT) && (op->flags & VQP_OP_INLINE)) {
        frag->flags        |= VQP_FRAG_INLINE;
        frag->nsge          = 1;
        frag->sge[0].addr   = (uintptr_t)op->data;
        frag->sge[0].length = frag->length;
        frag->sge[0].lkey   = 0;
    } else if (op->kind <= VQP_KIND_GET) {
        vqp_replay_gather(op, offset, frag);
    } else {
        frag->nsge          = 1;
        frag->sge[0].addr   = (uintptr_t)vqp_tx_amo_cell(tx, path, frag->slot);
        frag->sge[0].length = sizeof(uint64_t);
        frag->sge[0].lkey   = tx->cfg.local_lkeys[path->rail];
    }
}

/* One frag. Returns 1 if it was a control message. */
static int vqp_replay_frag(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path,
                           vqp_path_t *to, const vqp_credit_t *credit)
{
    vqp_inflight_t *place = vqp_path_at(path, path->fo.replay);
    vqp_inflight_t entry  = *place;
    vqp_op_t *op          = (entry.op == VQP_OP_NONE) ?
                                    NULL : vqp_tx_op_of(tx, entry.op);
    uint64_t offset       = (entry.kind == VQP_KIND_AM) ? entry.am_offset :
                            (entry.kind <= VQP_KIND_CSWAP) ? entry.offset : 0;
    unsigned fence        = (to->reads > 0) ? VQP_FRAG_FENCE : 0;
    int is_empty          = (entry.kind == VQP_KIND_NOTIFY) ||
                            (entry.kind == VQP_KIND_FENCE);
    vqp_frag_t *frag;

    place->kind = VQP_KIND_FREE;
    frag = is_empty ?
           vqp_tx_emit_empty(tx, batch, to, op, entry.op, entry.kind, 1) :
           vqp_tx_emit(tx, batch, to, op, entry.op, entry.kind, offset,
                       entry.length, 1);
    frag->flags |= fence;
    vqp_path_at(to, frag->slot)->flags |=
            (uint8_t)((entry.flags & (VQP_INFLIGHT_COMPLETES |
                                      VQP_INFLIGHT_BARRIER)) |
                      VQP_INFLIGHT_REPLAYED |
                      ((fence != 0) ? VQP_INFLIGHT_FENCED : 0));
    if (entry.kind == VQP_KIND_AM) {
        vqp_replay_am(tx, op, offset, frag);
    } else if (entry.kind <= VQP_KIND_CSWAP) {
        vqp_replay_rma(tx, op, offset, frag);
    } else if (entry.kind == VQP_KIND_CONTROL) {
        vqp_tx_fill_control(tx, frag, credit);
        vqp_path_at(to, frag->slot)->am_post = entry.am_post;
    }

    if (entry.flags & VQP_INFLIGHT_IMM) {
        vqp_frag_add_imm(frag, vqp_imm_fsn(entry.imm),
                         entry.imm & ~(uint32_t)VQP_FSN_MASK);
    }
    ++tx->stats->replayed;
    tx->stats->replayed_bytes += entry.length;
    return entry.kind == VQP_KIND_CONTROL;
}

/* What waits on one path. Returns 1 if a control message was among it. */
static int vqp_replay_path(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path,
                           const vqp_credit_t *credit)
{
    vqp_path_t *to = vqp_replay_target(tx, path);
    int control    = 0;

    if (to == NULL) {
        vqp_cover(REPLAY_NO_PATH);
        return 0;
    }

    for (; vqp_path_has_replay(path); ++path->fo.replay) {
        vqp_inflight_t *entry = vqp_path_at(path, path->fo.replay);

        if (entry->kind == VQP_KIND_FREE) {
            continue;
        }

        if ((entry->flags & VQP_INFLIGHT_IMM) &&
            (vqp_fsn_diff(vqp_imm_fsn(entry->imm), tx->fc.fsn_peer) < 0)) {
            /* The peer has received it, and has advertised this since */
            vqp_replay_take(path, entry, 1);
            vqp_replay_end(tx, path, entry, VQP_OK);
            continue;
        }

        if (vqp_batch_is_full(batch) || !vqp_replay_has_room(tx, to, entry)) {
            vqp_cover(REPLAY_NO_ROOM);
            return control;
        }

        vqp_cover_if(to == path, REPLAY_SELF);
        path->fo.target = to->index;
        control |= vqp_replay_frag(tx, batch, path, to, credit);
    }

    vqp_replay_done(tx, path, to->index);
    vqp_tx_advance_both(tx);
    return control;
}

int vqp_tx_replay(vqp_tx_t *tx, vqp_batch_t *batch, const vqp_credit_t *credit)
{
    int control = 0;
    int is_left = 0;
    vqp_path_t *path, *to;
    uint32_t i;

    for (i = 0; i < tx->num_paths; ++i) {
        path = &tx->paths[i];
        if (vqp_path_has_replay(path) && (path->fo.target != VQP_PATH_NONE)) {
            vqp_replay_join(tx, path);
        }
    }

    for (i = 0; i < tx->num_paths; ++i) {
        path = &tx->paths[i];
        if (vqp_path_has_replay(path)) {
            control |= vqp_replay_path(tx, batch, path, credit);
        } else if ((path->fo.state >= VQP_PATH_DOWN) &&
                   (((tx->fence.paths * tx->fence.started) |
                     tx->announce.tail_paths) & (1ul << i)) &&
                   ((to = vqp_replay_target(tx, path)) != NULL)) {
            vqp_replay_done(tx, path, to->index); /* all of it was executed */
        }
        is_left |= vqp_path_has_replay(path) ||
                   (path->fo.state != VQP_PATH_UP);
    }

    if (!is_left) {
        tx->slow &= ~(uint32_t)VQP_TX_REPLAY;
    }
    vqp_tx_link_paths(tx);
    return control;
}
