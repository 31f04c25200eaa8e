/* SPDX-License-Identifier: BSD-3-Clause */
/* The mirror of the first ring, see mirror.h. Pure: libc only. */
#include "core/mirror.h"

#include "core/cover.h"
#include "core/data/am.h"

#define VQP_MIRROR_AGAIN 1000000ul /* ns until the next look, if messages wait for it */
#define VQP_MIRROR_PAUSE 4000000ul /* ns in which one that was asked for its mirror accepts no
                                      message: a round trip, and a look of who needs it */

void vqp_mirror_put(vqp_t *vqp, uint8_t number)
{
    vqp->rings.tx_put |= (uint8_t)(1u << number);
    vqp_set_event(vqp, VQP_EVENT_MIRROR_PUT);
}

static void vqp_mirror_look_soon(vqp_t *vqp)
{
    vqp->rings.mirror_due = 0;
    vqp_set_event(vqp, VQP_EVENT_TIMER);
}

void vqp_first_mirror_made(vqp_t *vqp, char *mirror, const uint32_t *lkeys)
{
    int was_needed = vqp->rings.is_needed;

    vqp_assert(vqp_lacks_mirror(vqp));
    vqp->rings.is_needed = (mirror == NULL);
    if (mirror != NULL) {
        vqp->rings.tx_put &= (uint8_t)~1u;
        if (vqp->rings.tx_put == 0) {
            vqp_clear_event(vqp, VQP_EVENT_MIRROR_PUT);
        }
        vqp_tx_set_mirror(&vqp->tx, mirror, lkeys);
        vqp->rings.record_waits = 0;
        vqp->rings.head = vqp->tx.fc.ring_head - 1; /* see vqp_mirror_is_new() */
    } else if (was_needed) {
        return; /* the looks go on */
    }

    vqp_cover_if(mirror == NULL, RINGS_MIRROR_WAITS);
    vqp_mirror_look_soon(vqp);
}

/* May the device read it, or may it be read for a replay? */
static int vqp_mirror_is_used(const vqp_t *vqp)
{
    return vqp_is_failed(vqp) ?
                   !vqp->qps_failed || vqp->qps_lost ||
                           (vqp_tx_outstanding(&vqp->tx) != 0) :
                   (vqp->tx.fc.ring_local != vqp->tx.fc.ring_head);
}

/* Is it that of the ring in use, and of no other? */
static int vqp_has_first_mirror(const vqp_t *vqp)
{
    return (vqp->rings.tx == 0) && (vqp->rings.tx_old == VQP_RING_NONE) &&
           !vqp_lacks_mirror(vqp);
}

/* No message has used it, and no look has seen it since it was made: that comes first. Else
 * two that need it would take it from each other again and again */
static int vqp_mirror_is_new(const vqp_t *vqp)
{
    return vqp->rings.head == vqp->tx.fc.ring_head - 1;
}

int vqp_take_mirror(vqp_t *vqp)
{
    if (!vqp_has_first_mirror(vqp) || vqp_mirror_is_used(vqp) ||
        (vqp_mirror_is_new(vqp) && (vqp->state == VQP_STATE_LIVE))) {
        return 0;
    }

    vqp_cover(RINGS_MIRROR_TAKEN);
    vqp_cover_if(vqp->rings.is_asked_for, RINGS_MIRROR_YIELDED);
    vqp->tx.am_paused       = 0;
    vqp->rings.is_asked_for = 0;
    vqp->rings.mirror_due   = UINT64_MAX;
    vqp_tx_set_mirror(&vqp->tx, NULL, NULL);
    return 1;
}

int vqp_ask_for_mirror(vqp_t *vqp)
{
    if (vqp_is_failed(vqp) || !vqp_has_first_mirror(vqp) || vqp_mirror_is_new(vqp) ||
        vqp->rings.is_asked_for) {
        return 0;
    }

    vqp_tx_pause_ams(&vqp->tx);
    vqp_tx_reclaim(&vqp->tx);
    vqp->rings.is_asked_for = 1;
    vqp_mirror_look_soon(vqp); /* of one that the peer has closed: never, it sends no more */
    return 1;
}

/* One look begins the pause. If nobody has taken the mirror until the next one, messages are
 * accepted again */
static void vqp_mirror_look_at_pause(vqp_t *vqp, uint64_t now)
{
    if (vqp->rings.is_asked_for == 1) {
        vqp->rings.is_asked_for = 2;
        vqp->rings.mirror_due   = now + VQP_MIRROR_PAUSE;
        return;
    }

    vqp_cover(RINGS_MIRROR_KEPT);
    vqp->tx.am_paused       = 0;
    vqp->rings.is_asked_for = 0;
    vqp->rings.mirror_due   = now + vqp->rings.idle;
}

/* Does a message of the user or a control record wait for it? */
static int vqp_mirror_is_awaited(const vqp_t *vqp)
{
    return (vqp->refused && vqp->tx.awaits_mirror && (vqp->owner == VQP_OWNER_OPEN)) ||
           vqp->rings.record_waits;
}

/* Unless the messages were taken back */
static void vqp_mirror_look_for_need(vqp_t *vqp, uint64_t now)
{
    if (!vqp_mirror_is_awaited(vqp)) {
        vqp->rings.is_needed  = 0;
        vqp->rings.mirror_due = UINT64_MAX;
        return;
    }

    vqp->rings.mirror_due = now + VQP_MIRROR_AGAIN;
    vqp_set_event(vqp, VQP_EVENT_MIRROR_NEEDED);
}

/* Give it back if no messages were sent for some time */
static void vqp_mirror_look_for_use(vqp_t *vqp, uint64_t now)
{
    vqp->rings.mirror_due = now + vqp->rings.idle;
    if ((vqp->rings.tx != 0) || vqp_lacks_mirror(vqp)) {
        vqp->rings.mirror_due = UINT64_MAX; /* it went, or goes, with the old ring */
    } else if (vqp->rings.head != vqp->tx.fc.ring_head) {
        vqp->rings.head = vqp->tx.fc.ring_head;
    } else if (vqp_take_mirror(vqp)) {
        vqp_cover(RINGS_MIRROR_IDLE);
        vqp_mirror_put(vqp, 0);
    } else {
        vqp_tx_reclaim(&vqp->tx); /* then it can be had at the next look */
    }
}

void vqp_mirror_look(vqp_t *vqp, uint64_t now)
{
    if (now < vqp->rings.mirror_due) {
        return;
    }

    if (vqp->rings.is_needed) {
        vqp_mirror_look_for_need(vqp, now);
    } else if (vqp->rings.is_asked_for) {
        vqp_mirror_look_at_pause(vqp, now);
    } else {
        vqp_mirror_look_for_use(vqp, now);
    }
}
