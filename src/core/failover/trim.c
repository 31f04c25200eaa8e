/* SPDX-License-Identifier: BSD-3-Clause */
/* End the executed frags of a failed path, see trim.h. Pure: libc only. */
#include "core/failover/trim.h"

#include "core/data/confirm.h"
#include "core/data/lost.h"
#include "core/failover/replay.h"

/* ---- the executed count ---- */

/* Number of frags in flight that the received immediates prove to be executed */
static unsigned vqp_trim_imms(vqp_path_t *path, const vqp_executed_t *executed)
{
    uint64_t before = path->stats.imms - path->fo.imms_sent;
    unsigned count  = 0;
    uint32_t came;
    uint16_t slot;

    for (slot = path->head; slot != path->tail; ++slot) {
        before -= !!(vqp_path_at(path, slot)->flags & VQP_INFLIGHT_IMM);
    }

    came = (executed->imms - (uint32_t)before) & VQP_FSN_MASK;
    for (slot = path->head; (slot != path->tail) && (came > 0); ++slot) {
        if (vqp_path_at(path, slot)->flags & VQP_INFLIGHT_IMM) {
            --came;
            count = (uint16_t)(slot - path->head) + 1u;
        }
    }

    /* An impossible count, above those sent or below those acknowledged, proves nothing */
    return (came == 0) ? count : 0;
}

int vqp_trim_count(vqp_path_t *path, const vqp_executed_t *executed)
{
    int is_psn      = executed->source == VQP_SOURCE_PSN;
    uint32_t before = path->fo.wrs - vqp_path_outstanding(path);
    uint32_t units  = 0;
    int count       = 0;
    uint32_t left;
    uint16_t slot;

    if (is_psn) {
        before += path->fo.packets;
        for (slot = path->head; slot != path->tail; ++slot) {
            before -= vqp_more_packets(vqp_path_at(path, slot)->length,
                                       path->mtu_shift);
        }
    }

    left = (executed->count - before) & VQP_FSN_MASK;
    for (slot = path->head; slot != path->tail; ++slot) {
        units += 1 + (is_psn ?
                      vqp_more_packets(vqp_path_at(path, slot)->length,
                                       path->mtu_shift) : 0);
        if (units > left) {
            return count;
        }
        ++count;
    }

    return (units == left) ? count : -1;
}

/* Number of frags in flight that were executed. *exact: the others were not executed;
 * else this is unknown. */
static unsigned vqp_trim_executed(vqp_path_t *path,
                                  const vqp_executed_t *executed, int *exact)
{
    unsigned proven = vqp_trim_imms(path, executed);
    int count       = -1;

    if (executed->source != VQP_SOURCE_IMM) {
        count = vqp_trim_count(path, executed);
    }

    *exact = (count >= 0) && ((unsigned)count >= proven);
    vqp_cover_if((executed->source != VQP_SOURCE_IMM) && !*exact, TRIM_STALE);
    return *exact ? (unsigned)count : proven;
}

/* Number of executed frags whose answers have arrived too: those in front of the newest
 * executed frag that waited for answers */
static unsigned vqp_trim_fenced(vqp_path_t *path, unsigned count)
{
    for (; count > 0; --count) {
        if (vqp_path_at(path, (uint16_t)(path->head + count - 1))->flags &
            VQP_INFLIGHT_FENCED) {
            vqp_cover(TRIM_FENCED);
            return count - 1; /* it may be a READ, without its answer */
        }
    }

    return 0;
}

/* ---- trimming ---- */

/* Has the frag to be replayed? If not, it ends with *status. */
static int vqp_trim_keeps(vqp_tx_t *tx, const vqp_inflight_t *entry,
                          int is_executed, int is_exact, vqp_status_t *status)
{
    const vqp_op_t *op;

    *status = VQP_OK;
    switch (entry->kind) {
    case VQP_KIND_NOP:
    case VQP_KIND_DONE:
        return 0;
    case VQP_KIND_GET:
        return 1; /* its data may not have arrived */
    case VQP_KIND_FADD:
    case VQP_KIND_CSWAP:
        op = vqp_tx_op_of(tx, entry->op);
        if (is_executed) {
            vqp_cover(TRIM_ATOMIC);
            *status = (op->amo.result != NULL) ? VQP_ERR_UNDECIDED : VQP_OK;
            return 0;
        }
        *status = VQP_ERR_UNDECIDED;
        return is_exact;
    default:
        return !is_executed;
    }
}

/* The path has replayed another one, and failed before all was sent: what it has not
 * executed waits there again, in front of the rest. Returns how many frags that are,
 * without nops. */
static unsigned vqp_trim_give_back(vqp_tx_t *tx, vqp_path_t *path)
{
    vqp_path_t *source = vqp_replay_source(tx, path);
    unsigned count     = 0;
    vqp_inflight_t *entry;
    uint16_t slot;

    if (source == NULL) {
        return 0;
    }

    for (slot = path->tail; slot != path->head; ) {
        entry = vqp_path_at(path, --slot);
        if (((int16_t)(slot - source->fo.target_slot) >= 0) &&
            (entry->flags & VQP_INFLIGHT_REPLAYED) &&
            (entry->kind != VQP_KIND_DONE)) {
            *vqp_path_at(source, --source->fo.replay) = *entry;
            count      += entry->kind != VQP_KIND_NOP; /* it holds a place */
            entry->kind = VQP_KIND_DONE;
        }
    }

    vqp_assert((uint16_t)(source->tail - source->fo.replay) <= source->mask);
    vqp_cover_if(count > 0, REPLAY_GIVEN_BACK);
    source->fo.target = VQP_PATH_NONE;
    return count;
}

static void vqp_trim_reverse(vqp_path_t *path, uint16_t begin, uint16_t end)
{
    vqp_inflight_t entry;

    for (; (int16_t)(end - begin) > 1; ++begin) {
        --end;
        entry                     = *vqp_path_at(path, begin);
        *vqp_path_at(path, begin) = *vqp_path_at(path, end);
        *vqp_path_at(path, end)   = entry;
    }
}

/* Frags of an earlier epoch wait too. Move those of this epoch in front of
 * them: until its own replay has ended, a path takes only frags that were sent before. */
static void vqp_trim_reorder(vqp_path_t *path)
{
    vqp_trim_reverse(path, path->fo.replay, path->fo.replay_end);
    vqp_trim_reverse(path, path->fo.replay_end, path->tail);
    vqp_trim_reverse(path, path->fo.replay, path->tail);
}

/* Must the frag not be executed twice? */
static int vqp_trim_once(const vqp_inflight_t *entry)
{
    return (entry->kind == VQP_KIND_PUT) || (entry->kind == VQP_KIND_FADD) ||
           (entry->kind == VQP_KIND_CSWAP);
}

/* The error of an atomic without a completion is one of a flush */
static void vqp_trim_undecided(vqp_tx_t *tx, const vqp_inflight_t *entry)
{
    const vqp_op_t *op = vqp_tx_op_of(tx, entry->op);

    if (op->user_kind == 0) {
        vqp_tx_lost(tx, op);
    }
}

unsigned vqp_tx_trim(vqp_tx_t *tx, vqp_path_t *path,
                     const vqp_executed_t *executed, unsigned *unknown)
{
    int had_replay     = vqp_path_has_replay(path);
    uint16_t head      = path->head;
    unsigned sent      = (uint16_t)(path->fo.posted - head);
    unsigned undecided = 0;
    unsigned kept      = 0; /* without nops; one more for earlier epochs */
    unsigned reads     = 0; /* of the kept ones */
    int is_exact;
    unsigned count, fenced, i;
    vqp_inflight_t *entry;
    vqp_status_t status;
    uint16_t slot;

    vqp_path_count_wrs(path);
    count  = vqp_trim_executed(path, executed, &is_exact);
    fenced = vqp_trim_fenced(path, count);

    /* Slots between frags of an earlier epoch and the head were confirmed */
    if (had_replay) {
        vqp_cover(TRIM_AGAIN);
        kept = 1;
        for (slot = path->fo.replay_end; slot != head; ++slot) {
            vqp_path_at(path, slot)->kind = VQP_KIND_DONE;
        }
    } else {
        path->fo.replay = head;
    }

    *unknown = 0;
    for (i = 0, slot = head; slot != path->tail; ++slot, ++i) {
        entry     = vqp_path_at(path, slot);
        status    = VQP_OK;
        *unknown += !is_exact && (i >= count) && (i < sent) &&
                    vqp_trim_once(entry);
        if ((i >= fenced) &&
            vqp_trim_keeps(tx, entry, i < count, is_exact || (i >= sent),
                           &status)) {
            ++kept;
            reads += (entry->kind >= VQP_KIND_GET) &&
                     (entry->kind <= VQP_KIND_CSWAP);
            vqp_replay_take(path, entry, -1);
            continue;
        }

        if (status != VQP_OK) {
            vqp_trim_undecided(tx, entry);
            ++undecided;
        }
        vqp_replay_end(tx, path, entry, status, reads > 0);
    }

    kept -= vqp_trim_give_back(tx, path);
    if (had_replay) {
        vqp_trim_reorder(path);
    }

    vqp_cover_if(kept > 0, TRIM_KEPT);
    vqp_cover_if(count > 0, TRIM_EXECUTED);
    path->head          = path->signaled = path->tail;
    path->fo.replay_end = path->tail;
    if (path->fo.target == path->index) {
        path->fo.target = VQP_PATH_NONE;
    }
    if (kept == 0) {
        path->fo.replay = path->tail;
    }
    vqp_path_stop(path);
    vqp_tx_advance_both(tx);
    return undecided;
}
