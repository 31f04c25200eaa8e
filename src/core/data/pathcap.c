/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes in flight of a path, see pathcap.h. Pure: libc only. */
#include "core/data/pathcap.h"

#include "core/cover.h"

#define VQP_PATHCAP_AGE 1000000000ul /* ns without need of it, then the limit is halved */

/* Change the limit, and the budgets that follow from it */
static void vqp_pathcap_set(vqp_tx_t *tx, uint8_t shift)
{
    uint32_t i;

    tx->cap.shift = shift;
    vqp_tx_set_shares(tx);
    for (i = 0; i < tx->paths.count; ++i) {
        vqp_tx_refill(tx, &tx->paths.list[i]);
    }
}

/* Bytes that were ever confirmed, less those of frags without an op that are in flight: a
 * difference of two values may be negative */
static uint64_t vqp_pathcap_confirmed(const vqp_tx_t *tx, uint64_t *in_flight)
{
    uint64_t confirmed = 0;
    uint32_t i;

    *in_flight = 0;
    for (i = 0; i < tx->paths.count; ++i) {
        *in_flight += tx->paths.list[i].bytes;
        confirmed  += tx->paths.list[i].stats.bytes;
    }

    return confirmed - *in_flight;
}

/* All that was in flight is confirmed: @a away ns until the first byte was, @a rest ns from
 * then to the last one */
static void vqp_pathcap_judge(vqp_tx_t *tx, uint64_t away, uint64_t rest)
{
    if (2 * rest <= away) { /* two frags that fill a path are confirmed in equal steps */
        tx->cap.calm   = 0;
        tx->cap.needed = tx->clock.now;
        if (tx->cap.is_by_bytes && (tx->cap.shift < tx->cfg.cap_growth)) {
            vqp_cover(PATHCAP_GROWS);
            vqp_pathcap_set(tx, (uint8_t)(tx->cap.shift + 1));
        }
    } else if (rest <= 2 * away) {
        tx->cap.calm   = 0; /* it was just enough */
        tx->cap.needed = tx->clock.now;
    } else if ((tx->cap.shift > 0) &&
               (++tx->cap.calm >= VQP_PATHCAP_CALM >> (tx->cap.shift / 3))) {
        vqp_cover(PATHCAP_SHRINKS);
        tx->cap.calm = 0;
        vqp_pathcap_set(tx, (uint8_t)(tx->cap.shift - 1));
    }
}

void vqp_pathcap_age(vqp_tx_t *tx, uint64_t now)
{
    if ((tx->cap.shift > 0) && !tx->cap.is_full &&
        (now >= tx->cap.needed + VQP_PATHCAP_AGE)) {
        vqp_cover(PATHCAP_AGES);
        tx->cap.needed = now;
        vqp_pathcap_set(tx, (uint8_t)(tx->cap.shift - 1));
    }
}

void vqp_pathcap_look(vqp_tx_t *tx)
{
    uint64_t in_flight, confirmed;
    int64_t passed;

    if (vqp_likely(!tx->cap.is_full)) {
        return;
    }

    confirmed = vqp_pathcap_confirmed(tx, &in_flight);
    passed    = (int64_t)(confirmed - tx->cap.begin);
    if (tx->cap.since == 0) {
        tx->cap.since   = tx->clock.now; /* it was not known before */
        tx->cap.is_full = passed == 0;
        return;
    }

    if (passed <= 0) {
        return;
    }

    if (tx->cap.first == 0) {
        tx->cap.first = tx->clock.now;
    }

    if (passed >= (int64_t)tx->cap.in_flight) {
        vqp_pathcap_judge(tx, tx->cap.first - tx->cap.since,
                          tx->clock.now - tx->cap.first);
        tx->cap.since   = tx->clock.now;
        tx->cap.is_full = 0; /* what is dispatched now begins anew */
    }
}

/* Would the path take more if the limit were doubled? Not if it has no slots, unless larger
 * frags, which come with the limit, need fewer of them: those of one path are large already */
static int vqp_pathcap_limits(const vqp_tx_t *tx, const vqp_path_t *path)
{
    int is_whole = (tx->paths.usable == 1) && (tx->cfg.single_shift != 0);

    return (path->bytes >= tx->limits.path_cap) ||
           (!is_whole && (tx->limits.frag_shift < tx->cfg.max_shift) &&
            (2 * path->bytes >=
             (uint64_t)vqp_path_outstanding(path) << tx->limits.frag_shift));
}

/* Do ops wait, and no path has room? A free path that the scheduler left out, since a faster
 * one will be sooner, is none. @a by_bytes: not for want of slots */
static int vqp_pathcap_is_full(const vqp_tx_t *tx, uint8_t *by_bytes)
{
    const vqp_path_t *path;
    int is_full = 0;
    uint32_t i;

    if (vqp_likely((tx->am.post == tx->am.tail) && (tx->rma.post == tx->rma.tail))) {
        return 0;
    }

    *by_bytes = 1;
    for (i = 0; i < tx->paths.count; ++i) {
        path = &tx->paths.list[i];
        if (!path->up) {
            continue;
        }
        if (!vqp_path_has_room(path, tx->limits.path_cap)) {
            *by_bytes &= (uint8_t)vqp_pathcap_limits(tx, path);
            is_full    = 1;
        } else if (!tx->clock.deferred) {
            return 0;
        }
    }

    return is_full;
}

void vqp_pathcap_note(vqp_tx_t *tx)
{
    if (vqp_likely(!vqp_pathcap_is_full(tx, &tx->cap.is_by_bytes))) {
        vqp_pathcap_restart(tx);
    } else if (!tx->cap.is_full) {
        tx->cap.begin   = vqp_pathcap_confirmed(tx, &tx->cap.in_flight);
        tx->cap.first   = 0;
        tx->cap.is_full = 1;
    }
}
