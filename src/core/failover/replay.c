/* SPDX-License-Identifier: BSD-3-Clause */
/* Replay the frags of a failed path, see replay.h. Pure: libc only. */
#include "core/failover/replay.h"

#include "core/data/am.h"
#include "core/data/confirm.h"
#include "core/data/control.h"
#include "core/data/fail.h"

/* ---- waiting frags ---- */

void vqp_replay_take(vqp_path_t *path, const vqp_inflight_t *entry, int sign)
{
    path->bytes += (uint64_t)(int64_t)(sign * (int64_t)entry->length);
    switch (entry->kind) {
    case VQP_KIND_GET:
    case VQP_KIND_FADD:
    case VQP_KIND_CSWAP:
        path->reads = (uint16_t)(path->reads + sign);
        /* fall through */
    case VQP_KIND_PUT:
        path->rma = (uint16_t)(path->rma + sign);
        break;
    default:
        break;
    }
}

void vqp_replay_make_nop(vqp_inflight_t *entry, unsigned flags)
{
    entry->kind   = VQP_KIND_NOP;
    entry->op     = VQP_OP_NONE;
    entry->flags  = (uint8_t)flags;
    entry->length = 0;
}

void vqp_replay_end(vqp_tx_t *tx, vqp_path_t *path, vqp_inflight_t *entry,
                    vqp_status_t status, int is_behind_read)
{
    vqp_tx_end_frag(tx, path, entry, status);
    entry->kind = VQP_KIND_DONE;
    if (is_behind_read && (entry->flags & VQP_INFLIGHT_FENCED)) {
        vqp_cover(REPLAY_HOLDS);
        vqp_replay_make_nop(entry, entry->flags & (VQP_INFLIGHT_FENCED |
                                                   VQP_INFLIGHT_REPLAYED));
    }
}

void vqp_replay_abandon(vqp_tx_t *tx, vqp_path_t *path, vqp_status_t status)
{
    vqp_inflight_t *entry;

    for (; path->fo.replay != path->fo.replay_end; ++path->fo.replay) {
        entry = vqp_path_at(path, path->fo.replay);
        if (entry->kind != VQP_KIND_DONE) {
            vqp_replay_take(path, entry, 1);
            vqp_replay_end(tx, path, entry, status, 0);
        }
    }
    vqp_tx_advance_both(tx);
}

void vqp_replay_move(vqp_path_t *path, vqp_inflight_t *inflight, uint32_t entries)
{
    uint16_t mask = (uint16_t)(entries - 1);
    uint16_t slot;

    vqp_assert(vqp_path_outstanding(path) == 0);
    vqp_assert(path->fo.wrs_seen == path->tail); /* else their packets would be lost */
    for (slot = path->fo.replay; slot != path->fo.replay_end; ++slot) {
        vqp_cover(REPLAY_MOVES);
        inflight[slot & mask] = *vqp_path_at(path, slot);
    }
    path->inflight = inflight;
    path->mask     = mask;
}

void vqp_replay_pack(vqp_path_t *path)
{
    uint16_t to = path->tail;
    uint16_t slot;

    if (!vqp_path_has_replay(path)) {
        return; /* a path of the handshake may have been used before its probe */
    }

    vqp_assert(vqp_path_outstanding(path) == 0);
    vqp_assert(path->fo.wrs_seen == path->tail); /* see vqp_replay_move() */
    for (slot = path->fo.replay_end; slot != path->fo.replay; ) {
        if (vqp_path_at(path, --slot)->kind != VQP_KIND_DONE) {
            *vqp_path_at(path, --to) = *vqp_path_at(path, slot);
        }
    }
    path->fo.replay     = to;
    path->fo.replay_end = path->tail;
}

/* ---- target ---- */

/* The rail of the peer that the atomics which wait at @a path need: the path was on it. It
 * may have moved since. VQP_RAIL_NONE: there is none, or all rails are one */
static unsigned vqp_replay_needs_rail(vqp_tx_t *tx, vqp_path_t *path)
{
    const vqp_inflight_t *entry;
    uint16_t slot;

    if (!tx->limits.amo_needs) {
        return VQP_RAIL_NONE;
    }

    for (slot = path->fo.replay; slot != path->fo.replay_end; ++slot) {
        entry = vqp_path_at(path, slot);
        if ((entry->kind == VQP_KIND_FADD) || (entry->kind == VQP_KIND_CSWAP)) {
            return vqp_tx_op_of(tx, entry->op)->amo.rail;
        }
    }

    return VQP_RAIL_NONE;
}

static int vqp_tx_reaches_rail(const vqp_tx_t *tx, unsigned rail)
{
    uint32_t i;

    for (i = 0; i < tx->paths.count; ++i) {
        if ((tx->paths.list[i].fo.state == VQP_PATH_UP) &&
            (tx->paths.list[i].peer_rail == rail)) {
            return 1;
        }
    }

    return 0;
}

unsigned vqp_tx_lacked_rail(vqp_tx_t *tx)
{
    const vqp_op_t *op = vqp_opring_at(&tx->rma, tx->rma.post);
    vqp_path_t *path;
    unsigned rail;
    uint32_t i;

    if (!tx->limits.amo_needs) {
        return VQP_RAIL_NONE;
    }

    for (i = 0; i < tx->paths.count; ++i) {
        path = &tx->paths.list[i];
        rail = vqp_path_has_replay(path) ? vqp_replay_needs_rail(tx, path) : VQP_RAIL_NONE;
        if ((rail != VQP_RAIL_NONE) && !vqp_tx_reaches_rail(tx, rail)) {
            return rail;
        }
    }

    return ((tx->rma.post != tx->rma.tail) &&
            ((op->kind == VQP_KIND_FADD) || (op->kind == VQP_KIND_CSWAP)) &&
            !vqp_tx_reaches_rail(tx, op->amo.rail)) ? op->amo.rail : VQP_RAIL_NONE;
}

/* May frags of @a path be replayed on @a to? Not if others wait there */
static int vqp_replay_may_use(const vqp_path_t *path, const vqp_path_t *to)
{
    return (to->fo.state == VQP_PATH_UP) &&
           ((to == path) || !vqp_path_has_replay(to));
}

vqp_path_t *vqp_replay_source(vqp_tx_t *tx, const vqp_path_t *to)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < tx->paths.count; ++i) {
        path = &tx->paths.list[i];
        if ((path->fo.target == to->index) && (path != to)) {
            return path;
        }
    }

    return NULL;
}

/* The path that replays frags of @a path: itself if it is UP again, since it is idle;
 * else the one that is expected to be idle first, unless it replays another one. Atomics
 * need the rail that they were to be executed by */
static vqp_path_t *vqp_replay_target(vqp_tx_t *tx, vqp_path_t *path)
{
    vqp_want_t want = {.cap = UINT64_MAX, .now = tx->clock.now};
    uint32_t next   = path->index;
    vqp_path_t *to;

    if (path->fo.target != VQP_PATH_NONE) {
        to = &tx->paths.list[path->fo.target];
        return vqp_replay_may_use(path, to) ? to : NULL;
    }

    want.rail = vqp_replay_needs_rail(tx, path);
    if (want.rail != VQP_RAIL_NONE) {
        want.needs = VQP_NEED_RAIL;
    }

    if (vqp_replay_may_use(path, path) &&
        (!want.needs || (want.rail == path->peer_rail))) {
        return path;
    }

    to = vqp_sched_pick(VQP_SCHED_LEFT, tx->paths.list, tx->paths.count, &next,
                        &want, NULL);
    if ((to != NULL) && (vqp_replay_source(tx, to) != NULL)) {
        vqp_cover(REPLAY_TARGET_TAKEN);
        return NULL;
    }

    return to;
}

/* Each path in *bits is to send an immediate behind its frags. Those of @a from were
 * replayed on @a to, which sends the immediate instead. Returns how many fsns are saved. */
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

/* The replay of @a path has ended; @a to has sent its frags */
static void vqp_replay_done(vqp_tx_t *tx, vqp_path_t *path, unsigned to)
{
    uint32_t saved = 0;

    if (tx->fence.started) {
        saved += vqp_replay_move_bit(&tx->fence.paths, path->index, to);
    }

    if (tx->announce.tail_ready) {
        saved += vqp_replay_move_bit(&tx->announce.tail_paths, path->index, to);
    } else {
        (void)vqp_replay_move_bit(&tx->announce.tail_paths, path->index, to);
    }
    tx->fc.fsn_reserved -= saved;

    path->fo.target = VQP_PATH_NONE;
    vqp_tx_link_paths(tx); /* it may take frags again */
}

/* ---- replay ---- */

static int vqp_replay_has_room(const vqp_tx_t *tx, const vqp_path_t *to)
{
    return (vqp_path_outstanding(to) + VQP_CONTROL_RESERVE < to->depth) &&
           ((to->bytes < tx->limits.path_cap) ||
            (vqp_path_outstanding(to) == 0));
}

/* Replay one frag. Returns 1 if it was a credit update. */
static int vqp_replay_frag(vqp_tx_t *tx, vqp_batch_t *batch, vqp_path_t *path,
                           vqp_path_t *to, const vqp_credit_t *credit)
{
    vqp_inflight_t *place = vqp_path_at(path, path->fo.replay);
    vqp_inflight_t entry  = *place;
    vqp_op_t *op          = (entry.op == VQP_OP_NONE) ?
                                    NULL : vqp_tx_op_of(tx, entry.op);
    uint64_t offset       = (entry.kind == VQP_KIND_AM) ? entry.am_offset :
                            (entry.kind <= VQP_KIND_CSWAP) ? entry.offset : 0;
    int is_empty          = (entry.kind == VQP_KIND_NOTIFY) ||
                            (entry.kind == VQP_KIND_FENCE) ||
                            (entry.kind == VQP_KIND_NOP);
    vqp_frag_t *frag;

    place->kind = VQP_KIND_DONE;
    vqp_assert((to != path) || ((uint16_t)(to->tail - to->fo.replay) <= to->mask));
    frag = is_empty ?
           vqp_tx_emit_empty(tx, batch, to, op, (vqp_kind_t)entry.kind, 1) :
           vqp_tx_emit(tx, batch, to, op, (vqp_kind_t)entry.kind, offset,
                       entry.length, 1);
    vqp_frag_add_fence(frag);
    vqp_path_at(to, frag->slot)->flags |=
            (uint8_t)((entry.flags & (VQP_INFLIGHT_COMPLETES |
                                      VQP_INFLIGHT_BLAMED)) |
                      VQP_INFLIGHT_REPLAYED);
    if (entry.kind == VQP_KIND_AM) {
        vqp_tx_set_am_source(tx, op);
        vqp_tx_fill_am(tx, op, offset, frag);
    } else if (entry.kind <= VQP_KIND_CSWAP) {
        vqp_tx_fill_rma(tx, op, (vqp_kind_t)entry.kind,
                        op->flags & VQP_OP_INLINE, 0, to, offset, entry.length,
                        frag->sge, frag);
    } else if (entry.kind == VQP_KIND_CREDIT) {
        vqp_tx_fill_credit(tx, frag, credit);
        vqp_path_at(to, frag->slot)->am_post = entry.am_post;
    }

    if (entry.flags & VQP_INFLIGHT_IMM) {
        vqp_frag_add_imm(frag, vqp_imm_fsn(entry.imm),
                         entry.imm & ~(uint32_t)VQP_FSN_MASK);
    }
    ++path->stats.replays;
    ++tx->stats->replayed;
    tx->stats->replayed_bytes += entry.length;
    return entry.kind == VQP_KIND_CREDIT;
}

/* The replay goes to @a to. Note from where on, within the frags that are in flight there:
 * numbers of slots wrap */
static void vqp_replay_bind(vqp_path_t *path, const vqp_path_t *to)
{
    if (path->fo.target == VQP_PATH_NONE) {
        path->fo.target      = to->index;
        path->fo.target_slot = to->tail;
    } else if ((int16_t)(to->head - path->fo.target_slot) > 0) {
        path->fo.target_slot = to->head;
    }
}

/* Replay the frags of one path. Returns 1 if a credit update was among them. */
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

        if ((entry->kind != VQP_KIND_DONE) &&
            (entry->flags & VQP_INFLIGHT_IMM) &&
            (vqp_fsn_diff(vqp_imm_fsn(entry->imm), tx->fc.fsn_peer) < 0)) {
            /* The peer's credit shows that it has received the immediate */
            vqp_replay_take(path, entry, 1);
            vqp_replay_end(tx, path, entry, VQP_OK, to->reads > 0);
        }

        if (entry->kind == VQP_KIND_DONE) {
            continue;
        }

        if (vqp_batch_is_full(batch) || !vqp_replay_has_room(tx, to)) {
            vqp_cover(REPLAY_NO_ROOM);
            return control;
        }

        vqp_cover_if(to == path, REPLAY_SELF);
        vqp_replay_bind(path, to);
        control |= vqp_replay_frag(tx, batch, path, to, credit);
    }

    vqp_replay_done(tx, path, to->index);
    vqp_tx_advance_both(tx);
    return control;
}

/* Does an AM that is being dispatched need an immediate of the path, which takes none? */
static int vqp_replay_has_bits(const vqp_tx_t *tx, const vqp_path_t *path)
{
    return (path->fo.state != VQP_PATH_UP) &&
           ((((tx->fence.paths * tx->fence.started) | tx->announce.tail_paths) >>
             path->index) & 1);
}

int vqp_tx_replay(vqp_tx_t *tx, vqp_batch_t *batch, const vqp_credit_t *credit)
{
    int control = 0;
    int is_left = 0;
    vqp_path_t *path, *to;
    uint32_t i;

    for (i = 0; i < tx->paths.count; ++i) {
        path = &tx->paths.list[i];
        if (vqp_path_has_replay(path)) {
            control |= vqp_replay_path(tx, batch, path, credit);
        } else if (((path->fo.state >= VQP_PATH_DOWN) ||
                    vqp_path_has_left(path)) &&
                   vqp_replay_has_bits(tx, path) &&
                   ((to = vqp_replay_target(tx, path)) != NULL)) {
            vqp_replay_done(tx, path, to->index); /* all frags were executed */
        }
        is_left |= vqp_path_has_replay(path) || vqp_path_needs_progress(path) ||
                   vqp_replay_has_bits(tx, path);
    }

    if (!is_left) {
        tx->slow &= ~(uint32_t)VQP_TX_REPLAY;
    }
    return control;
}
