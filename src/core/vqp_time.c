/* SPDX-License-Identifier: BSD-3-Clause */
/* The times at which a connection looks at itself, see vqp.h: gaps in what arrives, rings
 * and mirror, a time without traffic. Pure: libc only. */
#include "core/vqp.h"

#include "core/data/pathcap.h"
#include "core/failover/failover.h"
#include "core/mirror.h"
#include "core/rings.h"

#define VQP_GAP_LOOKS  8ul      /* in the limit of a gap */
#define VQP_GAP_AGAIN  1000000ul /* ns until the next look, if completions wait */
#define VQP_IDLE_LOOKS 2ul      /* in the limit of a time without traffic: few, since they
                                   wake a sleeper */

uint64_t vqp_next_timeout(const vqp_t *vqp)
{
    uint64_t next;

    if (!vqp_is_connected(vqp) || (vqp->state >= VQP_STATE_PEER_CLOSED)) {
        return UINT64_MAX;
    }

    next = vqp_min(vqp_path_next_timeout(vqp), vqp_min(vqp->gap.due, vqp->rings.due));
    next = vqp_min(next, vqp->rings.mirror_due);
    return ((vqp->owner != VQP_OWNER_OPEN) && (vqp->state == VQP_STATE_LIVE)) ?
                   vqp_min(next, vqp->idle.due) : next;
}

static void vqp_check_gap(vqp_t *vqp, uint64_t now)
{
    uint64_t gap = vqp_rx_gap(&vqp->rx, now);

    vqp->gap.due = now + vqp_max(vqp->gap.limit / VQP_GAP_LOOKS, 1ul);
    if (!vqp_window_has_gap(&vqp->rx.window)) {
        /* Traffic may make gaps all the time: do not start the looks with each one */
        if (vqp->gap.base == vqp->rx.window.base) {
            vqp->gap.due       = UINT64_MAX;
            vqp->gap.is_unseen = 1;
        }
        vqp->gap.base = vqp->rx.window.base;
    } else if ((gap > vqp->gap.limit) && vqp->tx.paths.settled &&
               !(vqp->tx.slow & VQP_TX_REPLAY)) {
        vqp_cover(VQP_GAP);
        vqp->gap.failed = gap;
        vqp_fail(vqp, VQP_ERR_TIMEOUT);
    }
}

static void vqp_check_idle(vqp_t *vqp, uint64_t now)
{
    uint64_t activity = vqp->stats.ams_rx + vqp->stats.ops;

    if (activity != vqp->idle.activity) {
        vqp->idle.activity = activity;
        vqp->idle.since    = now;
    } else if (now - vqp->idle.since >= vqp->idle.limit) {
        vqp_cover(VQP_PASSIVE_PROBE);
        vqp_check(vqp);
        vqp->idle.since = now;
    }
    vqp->idle.due = now + vqp_max(vqp->idle.limit / VQP_IDLE_LOOKS, 1ul);
}

void vqp_on_time(vqp_t *vqp, uint64_t now, int is_drained)
{
    vqp_on_path_timer(vqp, now, is_drained);
    if ((now >= vqp->gap.due) && (vqp->state < VQP_STATE_PEER_CLOSED)) {
        if (is_drained) {
            vqp_check_gap(vqp, now);
        } else {
            vqp->gap.due = now + VQP_GAP_AGAIN;
        }
    }
    vqp_pathcap_age(&vqp->tx, now);
    if (vqp->state == VQP_STATE_LIVE) {
        vqp_mirror_look(vqp, now);
        vqp_rings_look(vqp, now, is_drained);
    }
    if ((now >= vqp->idle.due) && (vqp->state == VQP_STATE_LIVE) &&
        (vqp->owner != VQP_OWNER_OPEN)) {
        vqp_check_idle(vqp, now);
    }
}
