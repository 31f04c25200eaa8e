/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection object, see vqp.h. Pure: libc only. */
#include "core/vqp.h"

#include "core/failover/alive.h"
#include "core/data/control.h"
#include "core/data/lost.h"
#include "core/failover/elastic.h"
#include "core/failover/move.h"
#include "core/failover/failover_int.h"
#include "core/failover/replay.h"
#include "core/failover/silence.h"
#include "core/rings.h"

#include <string.h>

const char *vqp_state_name(unsigned state)
{
    static const char *const names[] = {
#define VQP_STATE_NAME(_name, _help) #_name,
        VQP_STATES(VQP_STATE_NAME)
#undef VQP_STATE_NAME
    };

    return (state < VQP_STATE_LAST) ? names[state] : "unknown";
}

void vqp_init(vqp_t *vqp, vqp_path_t *paths, uint32_t num_paths, uint64_t now)
{
    memset(vqp, 0, sizeof(*vqp));
    vqp->paths      = paths;
    vqp->num_paths  = num_paths;
    vqp->idle.since = now;
}

vqp_peer_fit_t
vqp_peer_fit(const vqp_wire_info_t *own, const vqp_wire_info_t *peer)
{
    return (peer->ring_size != own->ring_size)   ? VQP_PEER_RING_SIZE :
           (peer->fsn_window != own->fsn_window) ? VQP_PEER_FSN_WINDOW :
           (peer->rx_depth < own->fsn_window + VQP_CONTROL_RESERVE) ?
                                                   VQP_PEER_RX_DEPTH :
           (peer->max_reads == 0)                ? VQP_PEER_READS :
                                                   VQP_PEER_FITS;
}

void vqp_connect(vqp_t *vqp, const vqp_config_t *config)
{
    const vqp_tx_config_t *tx = &config->tx;

    vqp_tx_init(&vqp->tx, tx, config->am_ops, config->num_am_ops,
                config->rma_ops, config->num_rma_ops, vqp->paths,
                config->num_paths, &vqp->stats);
    vqp_rx_init(&vqp->rx, config->ring, tx->ring_size, config->rx_cells,
                config->map, tx->fsn_window, config->peer_first_fsn,
                &vqp->stats);
    vqp->tx.paths.next = config->first_path;
    vqp->recv_batch   = config->recv_batch;
    vqp->am_ids       = config->am_ids;
    vqp->peer_rails   = (uint8_t)config->peer_rails;
    vqp->min_paths    = (uint8_t)config->min_paths;
    vqp->depth        = (uint16_t)config->depth;
    vqp->failover     = config->failover;
    vqp->gap.limit    = config->gap;
    vqp->gap.due      = UINT64_MAX;
    vqp->gap.is_unseen = config->gap != 0;
    vqp->idle.limit   = config->probe;
    vqp->idle.due     = (config->probe == 0) ? UINT64_MAX : 0;
    vqp_rings_init(vqp, config);
    vqp_silence_init(vqp);
    vqp_alive_init(vqp);
    vqp_elastic_init(vqp);
    vqp->back_due   = UINT64_MAX;
    vqp->missed.due = UINT64_MAX;
    if (vqp->failover.is_on) {
        vqp_path_init(vqp, config);
    }
    /* From here on completions may arrive: what is above must be seen first */
    __atomic_store_n(&vqp->connected, 1, __ATOMIC_RELEASE);
}

void vqp_set_live(vqp_t *vqp)
{
    if (vqp->state != VQP_STATE_CONNECTING) {
        return;
    }

    vqp_set_state(vqp, VQP_STATE_LIVE);
    vqp_path_set_live(vqp);
}

void vqp_open(vqp_t *vqp)
{
    vqp->owner = VQP_OWNER_OPEN;
}

void vqp_use(vqp_t *vqp)
{
    if (vqp->state == VQP_STATE_PEER_CLOSED) {
        vqp_cover(VQP_USED_AFTER_CLOSE);
        vqp_fail(vqp, VQP_ERR_RESET);
    }
}

/* ---- sending ---- */

unsigned vqp_next_batch(vqp_t *vqp, vqp_batch_t *batch)
{
    vqp_credit_t credit = {0}; /* for credit updates made here */
    int is_sent         = 0;
    uint32_t needs_update;

    batch->count = 0;
    if (vqp_unlikely(!vqp_is_connected(vqp))) {
        return 0;
    }

    if (vqp_unlikely(vqp_is_failed(vqp))) {
        if (vqp->qps_failed) {
            vqp_tx_drain_nops(&vqp->tx, batch);
        }
        return batch->count;
    }

    if (vqp_unlikely(vqp->tx.slow & VQP_TX_RINGS)) {
        vqp_rings_send(vqp); /* it may request credit */
    }

    needs_update = vqp->tx.slow & VQP_TX_CREDIT;
    if (vqp_unlikely(vqp->tx.slow & (VQP_TX_CREDIT | VQP_TX_REPLAY))) {
        credit = vqp_rx_credit(&vqp->rx);
    }

    if (vqp_unlikely(vqp->tx.slow & VQP_TX_REPLAY)) {
        vqp_silence_resume(vqp);
        vqp_path_drain(vqp, batch);
        vqp_paths_leave(vqp, batch);
        is_sent = vqp_tx_replay(&vqp->tx, batch, &credit);
    }

    vqp_tx_dispatch(&vqp->tx, batch, &credit);
    if (vqp_unlikely((needs_update & ~vqp->tx.slow) || is_sent)) {
        vqp_rx_advertise(&vqp->rx, &credit);
    }

    if (vqp_unlikely(vqp->am_queued) && !vqp_batch_is_full(batch)) {
        vqp->am_queued = 0;
        vqp_rx_advertise_in_am(&vqp->rx, &vqp->tx, &vqp->am_credit);
    }

    if (vqp_unlikely((vqp->tx.paths.has_off || vqp->tx.paths.moved) &&
                     vqp->tx.limits.amo_needs) && vqp_tx_lacks_rail(&vqp->tx)) {
        vqp_paths_turn_on(vqp);
        vqp_paths_need_rail(vqp);
    }

    if (vqp_unlikely(vqp->tx.slow & VQP_TX_QUIET) && (batch->count > 0)) {
        vqp_silence_start(vqp);
        vqp_elastic_start(vqp);
    }

    return batch->count;
}

void vqp_post_failed(vqp_t *vqp, const vqp_frag_t *frags, unsigned count)
{
    int is_drain = vqp_is_failed(vqp);
    unsigned i;

    for (i = 0; i < count; ++i) {
        if (!(frags[i].flags & VQP_FRAG_UNPOSTED) ||
            vqp_path_on_post_error(vqp, frags[i].path, frags[i].slot)) {
            continue;
        }

        vqp_fail(vqp, VQP_ERR_IO);
        vqp_cover_if(is_drain, VQP_DRAIN_POST_FAILED);
        vqp_cover_if(!is_drain, VQP_POST_FAILED);
        vqp_tx_abandon(&vqp->tx, frags[i].path,
                       is_drain ? frags[i].path->head : frags[i].slot,
                       vqp->status);
    }
}

int vqp_flush(vqp_t *vqp, unsigned flags, void *user, uint8_t user_kind)
{
    vqp_cover_if(vqp_is_failed(vqp), VQP_FLUSH_FAILED);
    return vqp_tx_barrier(&vqp->tx, flags, user, user_kind, vqp->status);
}

void vqp_set_path_up(vqp_t *vqp, unsigned path, int is_up)
{
    vqp->paths[path].fo.parked = !is_up;
    vqp_tx_link_paths(&vqp->tx);
}

void vqp_check(vqp_t *vqp)
{
    if (vqp->state != VQP_STATE_LIVE) {
        return;
    }

    if (vqp_opring_is_empty(&vqp->tx.rma)) {
        (void)vqp_tx_barrier(&vqp->tx, VQP_OP_PROBE, NULL, 0, VQP_OK);
    } else {
        vqp_tx_reclaim(&vqp->tx); /* what is in the ring ends by completions too */
    }
}

/* ---- completions ---- */

/* Is the frag one that the core has sent on its own? */
static int vqp_is_own_frag(vqp_t *vqp, vqp_path_t *path, uint16_t slot)
{
    const vqp_inflight_t *entry = vqp_path_at(path, slot);
    const vqp_op_t *op;

    if (entry->op == VQP_OP_NONE) {
        return 1;
    }

    op = vqp_tx_op_of(&vqp->tx, entry->op);
    return (op->kind == VQP_KIND_BARRIER) || (op->flags & VQP_OP_CONTROL);
}

void vqp_on_send_error(vqp_t *vqp, vqp_path_t *path, uint16_t slot,
                       vqp_status_t status)
{
    if (((status == VQP_ERR_REMOTE) || (status == VQP_ERR_RESPONDER)) &&
        (vqp->status == VQP_ERR_RESET) &&
        vqp_has_event(vqp, VQP_EVENT_FAILED)) {
        /* the peer's RST, a result of the refused request, was handled before */
        vqp->status = status;
    }

    if (vqp_ends_quietly(vqp, path) && vqp_is_own_frag(vqp, path, slot)) {
        (void)vqp_tx_retire(&vqp->tx, path, slot, VQP_OK);
        return;
    }

    if (vqp_path_on_send_error(vqp, path, slot, status)) {
        return;
    }

    vqp_cover_if(status == VQP_ERR_CANCELED, VQP_FLUSHED);
    vqp_fail(vqp, vqp_conn_status(status));
    (void)vqp_tx_retire(&vqp->tx, path, slot, vqp->status);
}

/* ---- events ---- */

/* Have all sends and receives of the vqp completed? */
static int vqp_is_drained(const vqp_t *vqp)
{
    uint32_t i;

    for (i = 0; i < vqp->num_paths; ++i) {
        if (vqp->paths[i].recv_posted > vqp->paths[i].recv_used) {
            return 0;
        }
    }

    return !vqp_is_connected(vqp) || (vqp_tx_outstanding(&vqp->tx) == 0);
}

/* Neither the connection nor an endpoint needs it any more? Then it goes when all of its
 * WRs are back */
static void vqp_check_release(vqp_t *vqp)
{
    if (!vqp->conn_over || (vqp->owner != VQP_OWNER_NONE) ||
        (vqp->state == VQP_STATE_DRAINING)) {
        return;
    }

    vqp_fail(vqp, VQP_ERR_CANCELED);
    vqp_clear_event(vqp, VQP_EVENT_FAILED);
    vqp_set_event(vqp, VQP_EVENT_RELEASE);
    vqp_set_state(vqp, VQP_STATE_DRAINING);
}

/* No endpoint uses it any more */
static void vqp_give_up(vqp_t *vqp)
{
    vqp->owner = VQP_OWNER_NONE;
    (void)vqp_tx_take_lost(&vqp->tx, VQP_LOST_ENDPOINT); /* not the next one's */
    vqp_set_event(vqp, VQP_EVENT_TIMER); /* the peer is probed from now on */
    vqp_check_release(vqp);
}

/* Has the barrier of a close ended? If the vqp has failed meanwhile, CLOSED was
 * handed out already. */
static void vqp_check_closed(vqp_t *vqp)
{
    if (vqp->tx.closed && (vqp->owner == VQP_OWNER_CLOSING)) {
        vqp_set_event(vqp, VQP_EVENT_CLOSED);
    }
    vqp->tx.closed = 0;
}

/* The event is about to be handed out */
static void vqp_pop_event(vqp_t *vqp, vqp_event_t event)
{
    vqp_clear_event(vqp, event);
    if (event == VQP_EVENT_RESUME) {
        vqp_cover(VQP_RESUMED);
        vqp_resume(vqp);
    } else if (event == VQP_EVENT_CLOSED) {
        vqp_give_up(vqp);
    }
}

int vqp_take_due_event(vqp_t *vqp, vqp_event_t event)
{
    vqp_check_closed(vqp);
    if (!vqp_has_event(vqp, event)) {
        return 0;
    }

    vqp_pop_event(vqp, event);
    return 1;
}

vqp_event_t vqp_next_event(vqp_t *vqp)
{
    vqp_event_t event;
    uint32_t due;

    vqp_check_closed(vqp);
    for (due = vqp->events; due != 0; due &= due - 1) {
        event = (vqp_event_t)__builtin_ctz(due);
        if (event == VQP_EVENT_PATHS) {
            event = vqp_path_next_event(vqp);
            if (event != VQP_EVENT_NONE) {
                return event;
            }
        } else if (event != VQP_EVENT_RELEASE) {
            vqp_pop_event(vqp, event);
            return event;
        } else if (vqp_is_drained(vqp)) {
            return event;
        } else {
            vqp_cover(VQP_RELEASE_WAITS);
        }
    }

    return VQP_EVENT_NONE;
}

/* ---- failure and the end ---- */

void vqp_on_conn_end(vqp_t *vqp, vqp_status_t status, int peer_closed,
                     int is_waited)
{
    vqp->conn_over = 1;
    if (vqp->owner == VQP_OWNER_NONE) {
        vqp_check_release(vqp);
    } else if ((status == VQP_ERR_RESET) && peer_closed && !is_waited &&
               (vqp->owner == VQP_OWNER_OPEN) &&
               (vqp->state == VQP_STATE_LIVE) &&
               !vqp_tx_uses_buffers(&vqp->tx)) {
        vqp_cover(VQP_PEER_CLOSED);
        vqp_set_state(vqp, VQP_STATE_PEER_CLOSED);
    } else {
        vqp_fail(vqp, status);
    }
}

void vqp_cancel(vqp_t *vqp)
{
    if (!vqp_is_failed(vqp)) {
        vqp_cover(VQP_CANCEL);
        vqp->canceled = 1;
        vqp_fail(vqp, VQP_ERR_CANCELED);
    }
}

void vqp_qps_failed(vqp_t *vqp)
{
    vqp->qps_failed = 1;
    vqp->conn_over  = 1;
    vqp_check_release(vqp);
}

void vqp_path_destroyed(vqp_t *vqp, unsigned path)
{
    vqp->paths[path].recv_posted = 0;
    if (vqp_is_connected(vqp) && (path < vqp->tx.paths.count)) {
        vqp_cover(VQP_PATH_DESTROYED);
        vqp_tx_abandon(&vqp->tx, &vqp->paths[path], vqp->paths[path].head,
                       vqp->status);
    }
}

void vqp_path_lost(vqp_t *vqp, unsigned path)
{
    vqp->qps_lost |= vqp_path_outstanding(&vqp->paths[path]) > 0;
    vqp_path_destroyed(vqp, path);
}

int vqp_close(vqp_t *vqp)
{
    int is_connected = vqp_is_connected(vqp);
    int must_cancel  = (vqp->state >= VQP_STATE_PEER_CLOSED) ||
                       (is_connected && vqp_tx_uses_buffers(&vqp->tx));

    vqp->owner = VQP_OWNER_CLOSING;
    if (must_cancel) {
        vqp_cover(VQP_CLOSE_CANCELS);
        vqp_fail(vqp, VQP_ERR_CANCELED);
    } else if (is_connected && !vqp_tx_is_flushed(&vqp->tx)) {
        vqp_cover(VQP_CLOSE_WAITS);
        (void)vqp_tx_barrier(&vqp->tx, VQP_OP_CLOSE, NULL, 0, VQP_OK);
        return 0;
    }

    vqp_set_event(vqp, VQP_EVENT_CLOSED);
    return must_cancel;
}

vqp_op_t *vqp_cancel_next(vqp_t *vqp, vqp_tx_iter_t *iter)
{
    vqp_op_t *op = vqp_tx_iter_next(&vqp->tx, iter);

    if ((op != NULL) &&
        ((op->kind == VQP_KIND_FADD) || (op->kind == VQP_KIND_CSWAP))) {
        op->amo.result = NULL;
    }

    return op;
}
