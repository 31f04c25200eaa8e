/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vcq: one progress function polls the completions of all rails, passes them
 * to the core, and then runs each vqp that had some: it reports completed ops,
 * dispatches, and serves pending requests. User callbacks run when the state of
 * the core is consistent: they may use and destroy anything.
 */
#include "uct/vqp_control.h"
#include "uct/vqp_desc.h"
#include "uct/vqp_handle.h"
#include "uct/vqp_log.h"
#include "uct/vqp_pending.h"
#include "uct/vqp_post.h"
#include "uct/vqp_todo.h"

#include <ucs/debug/log.h>

/* Full polls at most in front of events: traffic without an end must not delay them */
#define UCT_VQP_POLLS_BEFORE_EVENTS 64
/* ns: how long a call of progress polls empty queues for the flush of a queue pair */
#define UCT_VQP_FLUSH_TIME 100000

/* ---- receive ---- */

/* Replace consumed receives */
static void __attribute__((noinline))
uct_vqp_repost(uct_vqp_t *vqp, vqp_path_t *path, vqp_ib_path_t *ib)
{
    uint32_t posted;

    (void)vqp_ib_qp_post_recvs(&ib->rc, ib->wrid | VQP_IB_WRID_RECV,
                               path->recv_used, &posted);
    vqp_recv_posted(&vqp->core, path, (uint16_t)posted);
    uct_vqp_handle_failure(vqp);
}

static void __attribute__((noinline))
uct_vqp_recv_failed(uct_vqp_t *vqp, vqp_path_t *path, const struct ibv_wc *wc)
{
    const vqp_ib_qp_t *qp = &vqp->ib_paths[path->index].rc;

    if (!vqp_is_failed(&vqp->core) && vqp_path_has_traffic(path)) {
        ucs_diag("vqp %u: receive completion with error on path %u, %s qp "
                 "0x%x, vendor error 0x%x: %s", vqp->number, path->index,
                 qp->dev_name, qp->qpn, wc->vendor_err,
                 ibv_wc_status_str(wc->status));
    }
    vqp_on_recv_error(&vqp->core, path, vqp_ib_wc_status(wc->status));
    uct_vqp_handle_failure(vqp);
}

static UCS_F_ALWAYS_INLINE void
uct_vqp_deliver(uct_vqp_t *vqp, const vqp_rx_am_t *am)
{
    uct_base_iface_t *iface = &vqp->iface->super;

    uct_iface_trace_am(iface, UCT_AM_TRACE_TYPE_RECV, am->id, am->data,
                       am->length, "RX: vqp %u AM", vqp->number);
    uct_iface_invoke_am(iface, am->id, am->data, am->length, 0);
    vqp_recv_done(&vqp->core, am);
    ++vqp->iface->reported;
}

/* What comes behind an AM: more of its immediate, or what was ahead of it */
static int __attribute__((noinline))
uct_vqp_recv_more(uct_vqp_t *vqp, const vqp_path_t *path)
{
    vqp_rx_am_t am;
    int has_am;

    while ((has_am = vqp_recv_next(&vqp->core, path, &am)) > 0) {
        uct_vqp_deliver(vqp, &am);
    }

    return has_am;
}

/* Immediates that are not simply the next AM */
static int __attribute__((noinline))
uct_vqp_recv_imm(uct_vqp_t *vqp, vqp_path_t *path, uint32_t imm)
{
    vqp_rx_am_t am;
    int has_am;

    /* A part of a message, or one ahead of its order: who calls progress until it returns
     * 0 must not stop here, since the rest may be in a completion queue */
    if (!(imm & (VQP_IMM_CREDIT | VQP_IMM_CONTROL))) {
        ++vqp->iface->reported;
    }

    has_am = vqp_recv(&vqp->core, path, imm, &am);
    if (has_am > 0) {
        uct_vqp_deliver(vqp, &am);
        has_am = uct_vqp_recv_more(vqp, path);
    }

    return has_am;
}

static UCS_F_ALWAYS_INLINE void
uct_vqp_handle_recv(uct_vqp_t *vqp, vqp_path_t *path, vqp_ib_path_t *ib,
                    const struct ibv_wc *wc)
{
    uint32_t imm = ntohl(wc->imm_data);
    vqp_rx_am_t am;
    int has_am;

    if (vqp_unlikely(wc->status != IBV_WC_SUCCESS)) {
        uct_vqp_recv_failed(vqp, path, wc);
        return;
    }

    if (vqp_recv_used(&vqp->core, path)) {
        uct_vqp_repost(vqp, path, ib);
    }

    if (vqp_unlikely(wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)) {
        vqp_peer_broken(&vqp->core, path, "a message without an immediate");
        uct_vqp_handle_failure(vqp);
        return;
    }

    if (vqp_unlikely(vqp->iface->set.trace)) {
        uct_vqp_trace_rx(vqp, path->index, imm);
    }

    has_am = vqp_recv_fast(&vqp->core, path, imm, &am);
    if (vqp_likely(has_am > 0)) {
        uct_vqp_deliver(vqp, &am);
        if (vqp_likely(!am.has_more)) {
            return;
        }
        has_am = uct_vqp_recv_more(vqp, path);
    } else if (has_am == 0) {
        has_am = uct_vqp_recv_imm(vqp, path, imm);
    }

    if (vqp_unlikely(has_am < 0)) {
        uct_vqp_handle_failure(vqp);
    }
}

/* ---- send ---- */

static void __attribute__((noinline))
uct_vqp_send_failed(uct_vqp_t *vqp, vqp_path_t *path, const struct ibv_wc *wc)
{
    const vqp_ib_qp_t *qp = &vqp->ib_paths[path->index].rc;

    if (!vqp_is_failed(&vqp->core) && vqp_path_has_traffic(path)) {
        ucs_diag("vqp %u: send completion with error on path %u, %s qp 0x%x, "
                 "vendor error 0x%x: %s", vqp->number, path->index,
                 qp->dev_name, qp->qpn, wc->vendor_err,
                 ibv_wc_status_str(wc->status));
    }
    vqp_on_send_error(&vqp->core, path, vqp_ib_wrid_slot(wc->wr_id),
                      vqp_ib_wc_status(wc->status));
    uct_vqp_handle_failure(vqp);
}

static UCS_F_ALWAYS_INLINE void
uct_vqp_handle_wc(uct_vqp_iface_t *iface, const struct ibv_wc *wc)
{
    unsigned index = vqp_ib_wrid_path(wc->wr_id);
    uct_vqp_t *vqp = uct_vqp_iface_find(iface, vqp_ib_wrid_vqp(wc->wr_id));
    vqp_ib_path_t *ib;
    vqp_path_t *path;

    if (vqp_unlikely((vqp == NULL) || (index >= vqp->core.num_paths))) {
        ++iface->stats.stale;
        return;
    }

    ib = &vqp->ib_paths[index];
    if (vqp_unlikely((wc->wr_id ^ ib->wrid) & VQP_IB_WRID_PATH)) {
        ++iface->stats.stale;
        return;
    }

    uct_vqp_schedule(vqp);
    path = &vqp->paths[index];
    if (wc->wr_id & VQP_IB_WRID_RECV) {
        uct_vqp_handle_recv(vqp, path, ib, wc);
        return;
    }

    ++path->stats.tx_cqes;
    if (vqp_unlikely(wc->status != IBV_WC_SUCCESS)) {
        uct_vqp_send_failed(vqp, path, wc);
        return;
    }

    if (vqp_unlikely(vqp_tx_is_rated(path))) {
        uct_vqp_clock(vqp);
    }
    if (vqp_unlikely(vqp_on_send(&vqp->core, path,
                                 vqp_ib_wrid_slot(wc->wr_id)) == 0)) {
        ++vqp->core.stats.stale;
    }
}

/* ---- what follows from completions ---- */

static UCS_F_ALWAYS_INLINE void
uct_vqp_report(uct_vqp_t *vqp, const vqp_done_t *done)
{
    ucs_status_t status = vqp_likely(done->status == VQP_OK) ?
                                  UCS_OK : uct_vqp_status(done->status);
    uct_vqp_iface_t *iface;
    uct_completion_t *comp;
    uct_vqp_desc_t *desc;

    if (done->user_kind == UCT_VQP_USER_COMP) {
        uct_invoke_completion(done->user, status);
        return;
    }

    if (done->user_kind == UCT_VQP_USER_FLUSH) {
        uct_invoke_completion(done->user,
                              uct_vqp_flush_status(&vqp->core, done->status));
        return;
    }

    if (done->user_kind == UCT_VQP_USER_NONE) {
        return; /* its endpoint was destroyed after the end of the connection */
    }

    iface = vqp->iface;
    desc  = done->user;
    comp  = desc->comp;
    if ((desc->unpack != NULL) && (status == UCS_OK)) {
        desc->unpack(desc->arg, desc + 1, done->length);
    }

    ucs_mpool_put_inline(desc);
    if (comp != NULL) {
        uct_invoke_completion(comp, status);
    }

    if (ucs_unlikely(iface->tx_mp_empty)) {
        uct_vqp_iface_signal(iface, UCT_VQP_EVENT_LOCAL);
    }
}

/* Report completed ops, send, then handle events of the core */
static UCS_F_ALWAYS_INLINE void uct_vqp_run(uct_vqp_t *vqp)
{
    vqp_done_t done;

    if (vqp_likely(vqp_is_connected(&vqp->core))) {
        while (vqp_next_done(&vqp->core, &done)) {
            ++vqp->iface->reported;
            uct_vqp_report(vqp, &done);
        }

        if (vqp_has_output(&vqp->core)) {
            uct_vqp_tx_progress(vqp);
        }
    }

    if (vqp_unlikely(vqp_has_events(&vqp->core))) {
        uct_vqp_handle_core_events(vqp);
    }
}

/* Run the vqps of uct_vqp_schedule() */
static UCS_F_ALWAYS_INLINE void
uct_vqp_iface_run_scheduled(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp;

    while ((vqp = iface->scheduled) != NULL) {
        iface->scheduled  = vqp->scheduled_next;
        vqp->is_scheduled = 0;
        uct_vqp_run(vqp);
    }
}

/* ---- the progress function ---- */

/* Has this call of progress delivered enough? A completion may bring many messages */
static UCS_F_ALWAYS_INLINE int uct_vqp_iface_is_sated(const uct_vqp_iface_t *iface)
{
    return vqp_unlikely(iface->reported >= iface->max_reported);
}

/* Returns as many as there were: while some are left no others may be polled */
static unsigned __attribute__((noinline))
uct_vqp_handle_deferred_wcs(uct_vqp_iface_t *iface)
{
    unsigned count = iface->num_deferred_wcs - iface->next_deferred_wc;

    while (iface->next_deferred_wc < iface->num_deferred_wcs) {
        if (uct_vqp_iface_is_sated(iface)) {
            return count;
        }
        uct_vqp_handle_wc(iface,
                          &iface->deferred_wcs[iface->next_deferred_wc++]);
    }

    iface->todo &= ~(uint32_t)UCT_VQP_TODO_WCS;
    return count;
}

/* The next call of progress continues with these completions */
static void __attribute__((noinline))
uct_vqp_defer_wcs(uct_vqp_iface_t *iface, const struct ibv_wc *wcs, unsigned count)
{
    ucs_assert(!(iface->todo & UCT_VQP_TODO_WCS));
    memcpy(iface->deferred_wcs, wcs, count * sizeof(*wcs));
    iface->next_deferred_wc = 0;
    iface->num_deferred_wcs = count;
    iface->todo            |= UCT_VQP_TODO_WCS;
}

static UCS_F_ALWAYS_INLINE unsigned
uct_vqp_poll_cq(uct_vqp_iface_t *iface, vqp_ib_cq_t *cq, unsigned max)
{
    struct ibv_wc wcs[UCT_VQP_MAX_POLL];
    int count, i;

    count = vqp_ib_poll(cq, wcs, (int)max);
    if (vqp_unlikely(count < 0)) {
        uct_vqp_poll_failed(iface, cq);
        return 0;
    }

    if (vqp_unlikely(cq->failures != 0)) {
        cq->failures = 0;
    }

    for (i = 0; i < count; ++i) {
        if (uct_vqp_iface_is_sated(iface)) {
            uct_vqp_defer_wcs(iface, &wcs[i], (unsigned)(count - i));
            return max; /* no other queue is polled */
        }
        uct_vqp_handle_wc(iface, &wcs[i]);
    }

    return (unsigned)count;
}

/* Continue with the next queue, so that a busy queue does not delay the others: a
 * message may wait for an immediate in one of them */
static UCS_F_ALWAYS_INLINE unsigned
uct_vqp_poll_cqs(uct_vqp_iface_t *iface, unsigned max)
{
    unsigned num_cqs = uct_vqp_iface_num_cqs(iface);
    unsigned count   = 0;
    unsigned i;

    for (i = 0; (i < num_cqs) && (count < max); ++i) {
        count += uct_vqp_poll_cq(iface, iface->cqs[iface->next_cq],
                                 max - count);
        if (++iface->next_cq >= num_cqs) {
            iface->next_cq = 0;
        }
    }

    return count;
}

/* Handle what has completed, all in this call of progress, but no more than so many polls */
static unsigned uct_vqp_iface_drain(uct_vqp_iface_t *iface)
{
    unsigned total = 0;
    unsigned i, count;

    iface->max_reported = UINT_MAX;
    if (iface->todo & UCT_VQP_TODO_WCS) {
        total += uct_vqp_handle_deferred_wcs(iface);
    }

    for (i = 0; i < UCT_VQP_POLLS_BEFORE_EVENTS; ++i) {
        count  = uct_vqp_poll_cqs(iface, iface->set.poll_max);
        total += count;
        uct_vqp_iface_run_scheduled(iface);
        if (count < iface->set.poll_max) {
            break;
        }
    }

    iface->max_reported = UCT_VQP_MAX_REPORTED;
    return total;
}

/* A peer whose path was given up waits for the count of what was executed, which the flush of
 * the queue pair decides. Most devices flush at once: so this call of progress sends the
 * count, for the next one may be late. It handles twice what the queue pairs hold at most,
 * since other completions come between. */
static unsigned uct_vqp_iface_await_flush(uct_vqp_iface_t *iface)
{
    uint64_t end   = uct_vqp_now() + UCT_VQP_FLUSH_TIME;
    unsigned total = 0;
    unsigned count;

    iface->max_reported = UINT_MAX;
    do {
        count  = uct_vqp_poll_cqs(iface, iface->set.poll_max);
        total += count;
        uct_vqp_iface_run_scheduled(iface);
    } while ((iface->flush.paths > 0) && (total < 2 * iface->flush.wcs) &&
             ((count > 0) || (uct_vqp_now() < end)));
    iface->max_reported = UCT_VQP_MAX_REPORTED;
    return total;
}

static unsigned __attribute__((noinline))
uct_vqp_iface_events_progress(uct_vqp_iface_t *iface)
{
    uint32_t events = uct_vqp_iface_take_events(iface);
    unsigned total  = 0;

    /* Completions that arrived before an event come first: what the peer has executed
     * before it ended succeeds, and what it had sent is delivered. What was not polled
     * then fails. Nothing ends by the other two events */
    if (events & ~(uint32_t)(UCT_VQP_EVENT_TICK | UCT_VQP_EVENT_LOCAL)) {
        total = uct_vqp_iface_drain(iface);
    }

    iface->flush.paths = 0;
    iface->flush.wcs   = 0;
    uct_vqp_iface_handle_events(iface, events);
    uct_vqp_iface_run_scheduled(iface);
    if ((iface->flush.paths > 0) && !(iface->todo & UCT_VQP_TODO_WCS)) {
        total += uct_vqp_iface_await_flush(iface);
    }
    return total;
}

/* What of iface->todo is to be done now, after a poll that had @a count completions.
 * Paths are measured by empty polls, and only a few of many calls run timers */
static UCS_F_ALWAYS_INLINE uint32_t
uct_vqp_iface_due(uct_vqp_iface_t *iface, unsigned count)
{
    uint32_t todo = iface->todo;

    if (count == 0) {
        todo &= ~(uint32_t)UCT_VQP_TODO_SAMPLE;
    } else if (iface->deferred == NULL) {
        iface->unlooked = 1;
        todo           &= ~(uint32_t)UCT_VQP_TODO_RATE;
    }

    if ((todo & UCT_VQP_TODO_TIMERS) && (iface->timer_calls > 0)) {
        --iface->timer_calls;
        todo &= ~(uint32_t)UCT_VQP_TODO_TIMERS;
    }

    return todo;
}

unsigned uct_vqp_iface_progress(uct_iface_h tl_iface)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);
    unsigned count         = 0;
    uint32_t todo;

    if (vqp_unlikely(iface->in_progress)) {
        return 0; /* called from a user callback */
    }

    iface->in_progress = 1;
    (void)ucs_async_check_miss(iface->super.worker->async);
    iface->reported = 0;
    if (vqp_unlikely(iface->todo & UCT_VQP_TODO_WCS)) {
        count += uct_vqp_handle_deferred_wcs(iface);
    }

    if (vqp_unlikely(uct_vqp_iface_has_events(iface))) {
        count += uct_vqp_iface_events_progress(iface);
    }

    if (vqp_likely(!(iface->todo & UCT_VQP_TODO_WCS))) {
        count += uct_vqp_poll_cqs(iface, iface->set.poll_max);
    }
    if (vqp_unlikely(iface->todo != 0) &&
        ((todo = uct_vqp_iface_due(iface, count)) != 0)) {
        uct_vqp_iface_handle_todo(iface, todo, count);
    }

    if (iface->scheduled != NULL) {
        uct_vqp_iface_run_scheduled(iface);
    }

    ucs_arbiter_dispatch(&iface->arbiter, 1, uct_vqp_process_pending, NULL);
    iface->in_progress = 0;
    return iface->reported;
}
