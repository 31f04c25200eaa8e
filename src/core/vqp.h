/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vqp: one logical connection over several queue pairs. It owns the sender,
 * the receiver, the paths and the state of the connection, and makes all decisions
 * that follow from calls, completions, messages and time. Its owner translates:
 * it posts the frags that it is given, passes completions on, and handles the
 * events. Pure: libc only; time comes in as a parameter, work leaves as frags and
 * events.
 *
 * Use:
 *
 *     create          vqp_init(), then vqp_connect() when the peer is known, and
 *                     vqp_set_live() when the peer is connected too
 *     an operation    vqp_tx_*_begin(), then vqp_tx_send_rma() or vqp_send_am();
 *                     VQP_SEND_QUEUED: vqp_next_batch()
 *     a completion    vqp_on_send(), vqp_on_send_error(), vqp_recv()
 *     after each      vqp_next_done() until 0, vqp_next_batch() if
 *                     vqp_has_output(), vqp_next_event() until none
 *     time            vqp_on_time(), when vqp_next_timeout() says
 *     the end         vqp_close(), vqp_on_conn_end()
 *
 * Callbacks of a user run between these calls only, when the state is settled: they
 * may call anything here. One thread at a time, except vqp_is_connected().
 */
#ifndef VQP_CORE_VQP_H
#define VQP_CORE_VQP_H

#include "core/data/confirm.h"
#include "core/data/fail.h"
#include "core/data/send.h"
#include "core/failover/end.h"
#include "core/vqp_def.h"
#include "core/vqp_recv.h"
#include "core/conn/wire.h"

const char *vqp_state_name(unsigned state);

/**
 * A vqp that is not connected.
 *
 * @param [in] paths  @a num_paths of them, with index set.
 */
void vqp_init(vqp_t *vqp, vqp_path_t *paths, uint32_t num_paths, uint64_t now);

/** What of the peer's parameters does not fit. */
typedef enum {
    VQP_PEER_FITS,
    VQP_PEER_RING_SIZE,
    VQP_PEER_FSN_WINDOW,
    VQP_PEER_RX_DEPTH, /* a path can not carry the whole window, see vqp_tx_init() */
    VQP_PEER_READS     /* it serves none */
} vqp_peer_fit_t;

/** Can this side connect to a peer with these parameters? */
vqp_peer_fit_t
vqp_peer_fit(const vqp_wire_info_t *own, const vqp_wire_info_t *peer);

/**
 * Set up sender and receiver for a peer. The paths have what vqp_tx_init()
 * requires. May be called by another thread than the one that sends, before any
 * completion; vqp_is_connected() then publishes it.
 */
void vqp_connect(vqp_t *vqp, const vqp_config_t *config);

/** Both sides are connected: operations are accepted. No effect if it failed. */
void vqp_set_live(vqp_t *vqp);

/** An endpoint uses it from now on. */
void vqp_open(vqp_t *vqp);

/** Is there no failure to report to the user any more? VQP_EVENT_FAILED was
 *  given, or the user has canceled. */
static inline int vqp_failure_is_known(const vqp_t *vqp)
{
    return vqp_is_failed(vqp) &&
           (vqp->canceled || !vqp_has_event(vqp, VQP_EVENT_FAILED));
}

/** Note that an op was refused: RESUME follows when something has happened. */
static inline void vqp_refuse(vqp_t *vqp)
{
    ++vqp->stats.no_resource;
    vqp->refused = 1;
    vqp_set_event(vqp, VQP_EVENT_RESUME);
}

/** Users that were refused an op may try again. No further RESUME comes for them. */
static inline void vqp_resume(vqp_t *vqp)
{
    vqp->refused = vqp->tx.awaits_mirror = 0;
    vqp_clear_event(vqp, VQP_EVENT_RESUME);
}

/**
 * The user uses the vqp: if the peer has closed, it fails now with VQP_ERR_RESET.
 */
void vqp_use(vqp_t *vqp);

/* ---- sending ---- */

/** vqp_tx_send_am() with the credit as it stands now, which counts as sent. */
static VQP_ALWAYS_INLINE vqp_send_t
vqp_send_am(vqp_t *vqp, const vqp_tx_am_t *am, uint8_t am_id, uint32_t length,
            uint32_t in_mirror, unsigned nsge, vqp_sge_t *sge,
            vqp_frag_t *frag)
{
    vqp_credit_t credit = vqp_rx_credit(&vqp->rx);

    if (vqp_likely(vqp_tx_send_am(&vqp->tx, am, am_id, length, in_mirror,
                                  &credit, nsge, sge, frag) ==
                   VQP_SEND_FRAG)) {
        vqp_rx_advertise(&vqp->rx, &credit);
        return VQP_SEND_FRAG;
    }

    vqp->am_credit = credit;
    vqp->am_queued = 1;
    return VQP_SEND_QUEUED;
}

/** May vqp_next_batch() have something to post? */
static inline int vqp_has_output(vqp_t *vqp)
{
    if (vqp_rx_needs_update(&vqp->rx)) {
        vqp->tx.slow |= VQP_TX_CREDIT;
    }

    return vqp_tx_has_work(&vqp->tx);
}

/**
 * What is to be posted now. To be called again as long as the batch is full. Of a
 * failed vqp: nothing until vqp_qps_failed(), then nops that bring the last CQEs.
 *
 * @return Number of frags in @a batch.
 */
unsigned vqp_next_batch(vqp_t *vqp, vqp_batch_t *batch);

/**
 * Of @a count frags, those with VQP_FRAG_UNPOSTED and the later ones of their paths
 * were not posted: with failover they are sent on another path; else the vqp fails,
 * and they end with an error.
 */
void vqp_post_failed(vqp_t *vqp, const vqp_frag_t *frags, unsigned count);

/** A barrier that is waited for. @return 1, or 0 if there is no slot. */
int vqp_flush(vqp_t *vqp, unsigned flags, void *user, uint8_t user_kind);

/** The path takes frags, or takes none until further notice. */
void vqp_set_path_up(vqp_t *vqp, unsigned path, int is_up);

/** Probe the peer: make sure that something is in flight, which fails if the peer is
 *  unreachable. */
void vqp_check(vqp_t *vqp);

/* ---- completions ---- */

/**
 * A send completion with success.
 *
 * @return The number of frags confirmed; 0: it is stale.
 */
static VQP_ALWAYS_INLINE unsigned
vqp_on_send(vqp_t *vqp, vqp_path_t *path, uint16_t slot)
{
    return vqp_tx_retire(&vqp->tx, path, slot, VQP_OK);
}

/** A send completion with @a status: the path is given up, or the vqp fails. */
void vqp_on_send_error(vqp_t *vqp, vqp_path_t *path, uint16_t slot,
                       vqp_status_t status);

/** Next op to report, see vqp_tx_pop_done(). */
static inline int vqp_next_done(vqp_t *vqp, vqp_done_t *done)
{
    return vqp_tx_pop_done(&vqp->tx, done);
}

/**
 * May its user post? @a has_user: an endpoint uses it. @a is_blocked: requests of the
 * endpoint are pending, and it is not their turn, so that a new op would overtake them.
 */
static inline int
vqp_may_post(const vqp_t *vqp, int has_user, int is_blocked)
{
    return (vqp->state == VQP_STATE_LIVE) && has_user && !is_blocked;
}

static inline int vqp_has_events(const vqp_t *vqp)
{
    return (vqp->events | vqp->tx.closed) != 0;
}

/** The part of vqp_take_event() that is not inline. */
int vqp_take_due_event(vqp_t *vqp, vqp_event_t event);

/**
 * Take one event ahead of the others, in a call in which the user can not be called back:
 * QPS, whenever the vqp may have failed and its memory may be used again; CLOSED, at the
 * end of the call that closes; TIMER, after ops.
 *
 * @return 1 if it was due.
 */
static inline int vqp_take_event(vqp_t *vqp, vqp_event_t event)
{
    return vqp_unlikely(vqp_has_event(vqp, event) || vqp->tx.closed) &&
           vqp_take_due_event(vqp, event);
}

/** Next thing to do. To be called until VQP_EVENT_NONE after anything else. */
vqp_event_t vqp_next_event(vqp_t *vqp);

/* ---- time ---- */

/** When vqp_on_time() wants to be called, in ns; UINT64_MAX: no timer runs. */
uint64_t vqp_next_timeout(const vqp_t *vqp);

/** Does vqp_on_time() look at good_rails? */
static inline int vqp_wants_rails(const vqp_t *vqp, uint64_t now)
{
    return (now >= vqp->missed.due) && (vqp->missed.due != VQP_RAILS_SOON);
}

/**
 * Do what is due at @a now: repeat path messages, rebuild paths, give up silent ones, end
 * an outage that lasts too long; fail if an immediate has been missing for too long; probe
 * the peer if no endpoint uses the vqp, and it had no traffic for long. A vqp without an
 * endpoint would never notice that its peer has died: the peer's HCA acknowledges a nop
 * whatever its process does.
 *
 * @param [in] is_drained  All completions that had arrived were handled: an immediate in
 *                         a completion queue is not missing.
 */
void vqp_on_time(vqp_t *vqp, uint64_t now, int is_drained);

/* ---- failure and the end ---- */

/**
 * The connection has ended: the control plane knows it no more. If no endpoint uses the
 * vqp, RELEASE follows when all of its WRs are back. Else it fails. But a peer may end
 * its process after it has closed its side: then an endpoint that waits for nothing gets
 * the error when it uses the vqp next.
 *
 * @param [in] status       VQP_OK: both sides have closed it.
 * @param [in] peer_closed  The peer has closed its side, or ended in order.
 * @param [in] is_waited    A request waits for resources of the vqp.
 */
void vqp_on_conn_end(vqp_t *vqp, vqp_status_t status, int peer_closed,
                     int is_waited);

/** End what is under way as canceled; no failure is reported to the user. */
void vqp_cancel(vqp_t *vqp);

/** All queue pairs are in ERR, or destroyed: nops may bring the last completions. The
 *  connection has ended. */
void vqp_qps_failed(vqp_t *vqp);

/** No completion will come on the path: what is in flight there ends now. */
void vqp_path_destroyed(vqp_t *vqp, unsigned path);

/** The same, of a queue pair that exists. It may not even be in ERR: what it has in flight may
 *  be read until the vqp is destroyed. */
void vqp_path_lost(vqp_t *vqp, unsigned path);

/**
 * The endpoint is destroyed. What needs no memory of the user is still delivered;
 * CLOSED follows. If an op uses memory of the user, or is waited for, the vqp
 * fails, and the owner ends these ops for the user by vqp_cancel_next().
 *
 * @return 1 if the owner has to do so, else 0.
 */
int vqp_close(vqp_t *vqp);

/**
 * Next op to cancel for its user. Its result is not stored any more, but the HCA
 * may use its memory until its frags come back. The caller may clear user_kind.
 */
vqp_op_t *vqp_cancel_next(vqp_t *vqp, vqp_tx_iter_t *iter);

#endif
