/* SPDX-License-Identifier: BSD-3-Clause */
/* Distinguish a dead peer from an outage, see alive.h. Pure: libc only. */
#include "core/failover/alive.h"

#include "core/failover/end.h"

#define VQP_ALIVE_FIRST 250000000ul  /* ns from the begin of the wait to the first ping */
#define VQP_ALIVE_FAST  25000000ul   /* the same after RC has given up a path; the second
                                        ping follows after twice that */
#define VQP_ALIVE_MAX   1000000000ul /* ns between two pings, at most */
#define VQP_ALIVE_PINGS 3            /* pings in a row that only the host answers, until
                                        the peer is dead */

/* Count the completions of all paths. Looks may be less frequent than pings, and do not
 * count receives */
static uint64_t vqp_alive_progress(const vqp_t *vqp)
{
    uint64_t progress = 0;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        progress += vqp->tx.paths.list[i].head +
                    vqp->tx.paths.list[i].stats.rx_cqes;
    }

    return progress;
}

/* ns between two pings, at most: several fit into failover.outage */
static uint64_t vqp_alive_max(const vqp_t *vqp)
{
    return vqp_max(vqp_min(VQP_ALIVE_MAX, vqp->failover.outage / 4),
                   VQP_ALIVE_FAST);
}

static void vqp_alive_start(vqp_t *vqp, uint64_t since)
{
    uint64_t first = vqp->alive.rc_timeout ? VQP_ALIVE_FAST :
                     vqp_min(VQP_ALIVE_FIRST, vqp_alive_max(vqp));

    vqp->alive.since     = since;
    vqp->alive.interval  = first;
    vqp->alive.due       = since + first;
    vqp->alive.pinged    = 0;
    vqp->alive.host_only = 0;
    vqp->alive.progress  = vqp_alive_progress(vqp);
}

void vqp_alive_init(vqp_t *vqp)
{
    vqp->alive.since      = 0;
    vqp->alive.due        = UINT64_MAX;
    vqp->alive.rc_timeout = vqp->alive.expedited = 0;
}

void vqp_alive_seen(vqp_t *vqp, uint64_t now)
{
    vqp_alive_init(vqp);
    if (vqp->in_outage) {
        vqp_alive_wait(vqp, now);
    }
}

void vqp_alive_wait(vqp_t *vqp, uint64_t now)
{
    if (vqp->alive.since == 0) {
        vqp_alive_start(vqp, now);
    }
}

void vqp_alive_look(vqp_t *vqp, uint64_t now, int has_progress, int is_busy)
{
    if (has_progress) {
        vqp->acked_at = now;
        vqp_alive_seen(vqp, now);
    } else if (is_busy) {
        vqp->acked_at = (vqp->acked_at == 0) ? now : vqp->acked_at;
        vqp_alive_wait(vqp, now);
    } else if (!vqp->in_outage) {
        vqp->acked_at = 0; /* nothing is in flight */
        if (vqp->tx.paths.settled) {
            vqp_alive_init(vqp);
        }
    }
}

void vqp_alive_skip(vqp_t *vqp, uint64_t skipped, uint64_t now)
{
    if ((vqp->alive.since != 0) && (skipped != 0)) {
        vqp->alive.since     = vqp_min(vqp->alive.since + skipped, now);
        vqp->alive.host_only = 0;
    }
}

void vqp_alive_on_timer(vqp_t *vqp, uint64_t now)
{
    if (vqp->alive.since == 0) {
        return;
    }

    if (vqp->alive.rc_timeout && !vqp->alive.expedited) {
        vqp->alive.expedited = 1;
        vqp->alive.interval  = VQP_ALIVE_FAST;
        /* the answer to the last ping may be under way */
        vqp->alive.due       = (vqp->alive.pinged == 0) ?
                                       now : vqp_max(now, vqp->alive.pinged +
                                                          (2 * VQP_ALIVE_FAST));
    }

    if (now < vqp->alive.due) {
        return;
    }

    if (vqp->alive.progress != vqp_alive_progress(vqp)) {
        vqp_cover(ALIVE_PROGRESS); /* no look has seen it */
        vqp_alive_start(vqp, now);
    } else {
        vqp->alive.due = now + vqp->alive.interval; /* if no ping is sent */
        vqp_set_event(vqp, VQP_EVENT_PING);
    }
}

void vqp_alive_pinged(vqp_t *vqp, const vqp_conn_answers_t *answers, uint64_t now)
{
    uint64_t last = vqp->alive.pinged;

    if ((vqp->alive.since == 0) || vqp_is_failed(vqp)) {
        return;
    }

    vqp->alive.pinged   = now;
    vqp->alive.interval = vqp_min(2 * vqp->alive.interval, vqp_alive_max(vqp));
    vqp->alive.due      = now + vqp->alive.interval;
    if ((last != 0) && (answers->peer >= last)) {
        vqp_cover(ALIVE_ANSWERS);
        vqp->alive.since     = now;
        vqp->alive.host_only = 0;
    } else if ((last != 0) && (answers->host >= last)) {
        vqp_cover(ALIVE_HOST_ANSWERS);
        ++vqp->alive.host_only;
    } else if (answers->host_pinged) {
        vqp->alive.host_only = 0; /* the host may be unreachable */
    }

    if ((vqp->alive.host_only >= VQP_ALIVE_PINGS) && vqp->alive.rc_timeout) {
        vqp_cover(ALIVE_DEAD);
        vqp->alive.is_dead = 1;
        vqp_fail(vqp, VQP_ERR_TIMEOUT);
    }
}
