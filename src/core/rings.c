/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings that grow and shrink, see rings.h. Pure: libc only. */
#include "core/rings.h"

#include "core/cover.h"
#include "core/data/am.h"
#include "core/mirror.h"

#include <string.h>

#define VQP_RINGS_GROWTH 4         /* times the size of the ring before */
#define VQP_RINGS_AGAIN  1000000ul /* ns until the next look, if completions wait */

void vqp_rings_init(vqp_t *vqp, const vqp_config_t *config)
{
    vqp_assert((uint64_t)config->ring_max * config->tx.fsn_window <= VQP_RING_WINDOW_MAX);
    vqp->rings.is_on   = config->rings_on;
    vqp->rings.max     = config->ring_max;
    vqp->rings.idle    = config->ring_idle;
    vqp->rings.first   = config->ring;
    vqp->rings.next    = VQP_RING_NONE;
    vqp->rings.old     = VQP_RING_NONE;
    vqp->rings.tx_next = VQP_RING_NONE;
    vqp->rings.tx_old  = VQP_RING_NONE;
    vqp->rings.due     = UINT64_MAX;
    vqp->rings.mirror_due = UINT64_MAX;
}

static uint8_t vqp_rings_other(uint8_t number)
{
    return (number == 1) ? 2 : 1;
}

static void vqp_rings_due(vqp_t *vqp, vqp_ring_type_t type)
{
    vqp->rings.send |= (uint8_t)(1u << type);
    vqp->tx.slow    |= VQP_TX_RINGS;
}

/* ---- memory ---- */

/* Nothing refers to the ring of this side any more */
static void vqp_ring_put(vqp_t *vqp, uint8_t number)
{
    if (number != 0) {
        vqp->rings.put = number;
        vqp_set_event(vqp, VQP_EVENT_RING_PUT);
    }
}

void vqp_ring_made(vqp_t *vqp, char *base, const uint32_t *rkeys,
                   unsigned num_rkeys)
{
    if (base == NULL) {
        vqp_cover(RINGS_NO_MEMORY);
        vqp->rings.next = VQP_RING_NONE;
        return;
    }

    vqp->rings.offer.base      = base;
    vqp->rings.offer.num_rkeys = (uint8_t)num_rkeys;
    memcpy(vqp->rings.offer.rkeys, rkeys, num_rkeys * sizeof(*rkeys));
    vqp_rings_due(vqp, VQP_RING_OFFER);
}

void vqp_mirror_made(vqp_t *vqp, char *mirror, const uint32_t *lkeys)
{
    if (mirror == NULL) {
        vqp_cover(RINGS_REFUSED);
        vqp->rings.release = vqp->rings.tx_next;
        vqp->rings.tx_next = VQP_RING_NONE;
        vqp_rings_due(vqp, VQP_RING_RELEASE);
        return;
    }

    vqp->rings.tx_ring.mirror = mirror;
    vqp->rings.tx_ring.lkeys  = lkeys;
    vqp_rings_due(vqp, VQP_RING_SWITCH);
}

/* ---- sending ---- */

static void vqp_rings_fill(const vqp_t *vqp, vqp_ring_type_t type, vqp_ring_msg_t *msg)
{
    memset(msg, 0, sizeof(*msg));
    msg->type = (uint8_t)type;
    switch (type) {
    case VQP_RING_RELEASE:
        msg->number = vqp->rings.release;
        break;
    case VQP_RING_SWITCH:
        msg->number = vqp->rings.tx_next;
        break;
    case VQP_RING_OFFER:
        msg->number = vqp->rings.next;
        if (msg->number != 0) {
            msg->num_rkeys = vqp->rings.offer.num_rkeys;
            msg->size      = vqp->rings.offer.size;
            msg->addr      = (uintptr_t)vqp->rings.offer.base;
            memcpy(msg->rkeys, vqp->rings.offer.rkeys, sizeof(msg->rkeys));
        }
        break;
    case VQP_RING_WANT:
        msg->size = vqp->rings.max;
        break;
    }
}

/* Returns 0 if it has to wait */
static int vqp_rings_send_one(vqp_t *vqp, vqp_ring_type_t type)
{
    vqp_credit_t credit = vqp_rx_credit(&vqp->rx);
    const uint32_t size = sizeof(vqp_ring_msg_t);
    vqp_tx_am_t am;

    if (!vqp_tx_am_begin(&vqp->tx, size, 0, &am)) {
        vqp_cover(RINGS_WAITS);
        vqp->rings.record_waits = vqp->tx.needs_mirror;
        if (vqp_wants_mirror(vqp)) {
            vqp_cover(RINGS_NEED_MIRROR);
            vqp_set_event(vqp, VQP_EVENT_MIRROR_NEEDED);
        }
        return 0;
    }

    vqp_rings_fill(vqp, type, (vqp_ring_msg_t*)(am.record + 1));
    am.op->user      = NULL;
    am.op->user_kind = 0;
    am.op->flags    |= VQP_OP_CONTROL;
    vqp_tx_am_commit(&vqp->tx, am, 0, size, size, &credit);
    vqp->am_credit   = credit;
    vqp->am_queued   = 1;
    return 1;
}

/* The SWITCH is the last record of the ring */
static void vqp_rings_switched(vqp_t *vqp)
{
    vqp_cover_if(vqp->rings.tx_next == 0, RINGS_SHRINKS);
    vqp_cover_if(vqp->rings.tx_next != 0, RINGS_GROWS);
    vqp_tx_set_ring(&vqp->tx, &vqp->rings.tx_ring);
    vqp->rings.tx_old  = vqp->rings.tx;
    vqp->rings.tx      = vqp->rings.tx_next;
    vqp->rings.tx_next = VQP_RING_NONE;
    ++vqp->stats.ring_switches;
}

void vqp_rings_send(vqp_t *vqp)
{
    vqp_ring_type_t type;

    if (vqp->state != VQP_STATE_LIVE) {
        return;
    }

    if (vqp->tx.shortage.is_found) {
        vqp->tx.shortage.is_found = 0;
        if (vqp->rings.is_on && (vqp->tx.ring.size < vqp->rings.max) &&
            (vqp->rings.tx_next == VQP_RING_NONE) &&
            (vqp->rings.tx_old == VQP_RING_NONE)) {
            vqp_rings_due(vqp, VQP_RING_WANT);
        }
    }

    if ((vqp->rings.tx_old != VQP_RING_NONE) && vqp_tx_old_ring_is_done(&vqp->tx)) {
        vqp->rings.release = vqp->rings.tx_old;
        vqp->rings.tx_old  = VQP_RING_NONE;
        vqp_tx_drop_old_ring(&vqp->tx);
        vqp_mirror_put(vqp, vqp->rings.release);
        vqp_rings_due(vqp, VQP_RING_RELEASE);
    }

    while (vqp->rings.send != 0) {
        type = (vqp_ring_type_t)__builtin_ctz(vqp->rings.send);
        if (!vqp_rings_send_one(vqp, type)) {
            return;
        }

        vqp->rings.send &= (uint8_t)~(1u << type);
        if (type == VQP_RING_SWITCH) {
            vqp_rings_switched(vqp);
        } else if (type == VQP_RING_OFFER) {
            vqp->rings.is_offered = 1;
        } else if (type == VQP_RING_WANT) {
            vqp->rings.is_wanted = 1;
        }
    }

    if (vqp->rings.tx_old == VQP_RING_NONE) {
        vqp->tx.slow &= ~(uint32_t)VQP_TX_RINGS;
    }
}

/* ---- receiving ---- */

static int vqp_rings_is_busy(const vqp_t *vqp)
{
    return (vqp->rings.next != VQP_RING_NONE) || (vqp->rings.old != VQP_RING_NONE);
}

static void vqp_rings_begin(vqp_t *vqp, uint8_t number)
{
    vqp->rings.next       = number;
    vqp->rings.is_offered = 0;
}

static void vqp_rings_on_want(vqp_t *vqp, const vqp_ring_msg_t *msg)
{
    uint32_t max = vqp_min(vqp->rings.max, msg->size);

    if (vqp_rings_is_busy(vqp) || (vqp->rx.ring_size >= max) ||
        (vqp->state >= VQP_STATE_PEER_CLOSED)) {
        return;
    }

    vqp_rings_begin(vqp, vqp_rings_other(vqp->rings.rx));
    vqp->rings.offer.size = vqp->rx.ring_size *
                            ((vqp->rx.ring_size > max / VQP_RINGS_GROWTH) ?
                                     2 : VQP_RINGS_GROWTH);
    vqp_set_event(vqp, VQP_EVENT_RING_GET);
}

static int vqp_rings_fits(const vqp_t *vqp, const vqp_ring_msg_t *msg)
{
    return ((msg->size & (msg->size - 1)) == 0) &&
           (msg->size >= vqp->tx.cfg.ring_size) &&
           (msg->size <= vqp->rings.max) &&
           (msg->addr != 0) && (msg->addr <= UINT64_MAX - msg->size) &&
           (msg->num_rkeys == vqp->peer_rails);
}

static const char *vqp_rings_on_offer(vqp_t *vqp, const vqp_ring_msg_t *msg)
{
    const vqp_tx_config_t *cfg = &vqp->tx.cfg;
    vqp_tx_ring_t *ring        = &vqp->rings.tx_ring;

    if ((vqp->rings.tx_next != VQP_RING_NONE) ||
        (vqp->rings.tx_old != VQP_RING_NONE) ||
        (msg->number == vqp->rings.tx)) {
        return "the offer of a ring that can not be";
    }

    if (vqp->state >= VQP_STATE_PEER_CLOSED) {
        return NULL; /* nothing is sent any more */
    }

    if (msg->number == 0) {
        vqp->rings.tx_next = 0;
        *ring = (vqp_tx_ring_t){NULL, NULL, cfg->ring_raddr, cfg->ring_rkeys,
                                cfg->ring_size};
        vqp_rings_due(vqp, VQP_RING_SWITCH);
        return NULL;
    }

    if (!vqp->rings.is_wanted || !vqp_rings_fits(vqp, msg)) {
        return "the offer of a ring that was not wanted";
    }

    vqp->rings.is_wanted = 0;
    vqp->rings.send     &= (uint8_t)~(1u << VQP_RING_WANT); /* it was answered */

    vqp->rings.tx_next = msg->number;
    ring->raddr        = msg->addr;
    ring->size         = msg->size;
    ring->rkeys        = vqp->rings.rkeys[msg->number - 1];
    memcpy(vqp->rings.rkeys[msg->number - 1], msg->rkeys, sizeof(msg->rkeys));
    vqp_set_event(vqp, VQP_EVENT_MIRROR_GET);
    return NULL;
}

static const char *vqp_rings_on_switch(vqp_t *vqp, const vqp_ring_msg_t *msg)
{
    if ((msg->number != vqp->rings.next) || !vqp->rings.is_offered) {
        return "a switch to a ring that was not offered";
    }

    vqp->rings.old    = vqp->rings.rx;
    vqp->rings.rx     = vqp->rings.next;
    vqp->rings.next   = VQP_RING_NONE;
    if (vqp->rings.rx == 0) {
        vqp->rx.ring      = vqp->rings.first;
        vqp->rx.ring_size = vqp->tx.cfg.ring_size;
        vqp->rings.due    = UINT64_MAX;
    } else {
        vqp->rx.ring      = vqp->rings.offer.base;
        vqp->rx.ring_size = vqp->rings.offer.size;
        vqp->rings.due    = vqp->rings.looked = 0;
        vqp_set_event(vqp, VQP_EVENT_TIMER);
    }
    return NULL;
}

static const char *vqp_rings_on_release(vqp_t *vqp, const vqp_ring_msg_t *msg)
{
    if (msg->number == vqp->rings.old) {
        vqp->rings.old = VQP_RING_NONE;
    } else if ((msg->number == vqp->rings.next) && vqp->rings.is_offered) {
        vqp_cover(RINGS_OFFER_REFUSED);
        vqp->rings.next = VQP_RING_NONE;
    } else {
        return "the release of a ring that is not free";
    }

    vqp_ring_put(vqp, msg->number);
    return NULL;
}

vqp_status_t vqp_rings_recv(vqp_t *vqp, const void *data, uint32_t length,
                            const char **what)
{
    vqp_ring_msg_t msg;

    *what = "a malformed control record";
    if ((length != sizeof(msg)) || !vqp->rings.is_on) {
        return VQP_ERR_PROTOCOL;
    }

    memcpy(&msg, data, sizeof(msg)); /* the peer may write to it */
    if (msg.number > VQP_RING_LAST) { /* nor VQP_RING_NONE */
        return VQP_ERR_PROTOCOL;
    }

    switch (msg.type) {
    case VQP_RING_WANT:
        vqp_rings_on_want(vqp, &msg);
        *what = NULL;
        break;
    case VQP_RING_OFFER:
        *what = vqp_rings_on_offer(vqp, &msg);
        break;
    case VQP_RING_SWITCH:
        *what = vqp_rings_on_switch(vqp, &msg);
        break;
    case VQP_RING_RELEASE:
        *what = vqp_rings_on_release(vqp, &msg);
        break;
    default:
        break;
    }

    return (*what == NULL) ? VQP_OK : VQP_ERR_PROTOCOL;
}

/* ---- time ---- */

void vqp_rings_look(vqp_t *vqp, uint64_t now, int is_drained)
{
    if (now < vqp->rings.due) {
        return;
    }

    if (!is_drained) { /* messages may be there that were not handled */
        vqp->rings.due = now + VQP_RINGS_AGAIN;
        return;
    }

    vqp->rings.due = now + vqp->rings.idle;
    if (vqp_rings_is_busy(vqp)) {
        return;
    }

    if ((vqp->rings.ams == vqp->stats.ams_rx) && (vqp->rings.looked != 0)) {
        vqp_rings_begin(vqp, 0);
        vqp->rings.due = UINT64_MAX; /* it does not go on before the peer answers */
        vqp_rings_due(vqp, VQP_RING_OFFER);
    }

    vqp->rings.ams    = vqp->stats.ams_rx;
    vqp->rings.looked = now;
}
