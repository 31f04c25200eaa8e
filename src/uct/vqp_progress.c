/*
 * The vcq: one progress function takes the completions of all rails, hands them
 * to the core, and then looks at each vqp that had some: reports what is done,
 * tells credit, dispatches, serves who waits. User callbacks run when the
 * core's state is settled: they may use, and destroy, anything.
 */
#include "uct/vqp_cm.h"
#include "uct/vqp_ep.h"
#include "uct/vqp_recv.h"

#include "core/confirm.h"

#include <ucs/debug/log.h>

/* ---- send ---- */

static void __attribute__((noinline))
uct_vqp_send_failed(uct_vqp_t *vqp, unsigned path, const struct ibv_wc *wc)
{
    vqp_status_t status = vqp_ib_wc_status(wc->status);

    if (!vqp->failed) {
        ucs_diag("vqp %u: send completion with error on path %u, %s qp 0x%x, "
                 "vendor error 0x%x: %s", vqp->number, path,
                 vqp->ib_paths[path].rc.dev_name, vqp->ib_paths[path].rc.qpn,
                 wc->vendor_err, ibv_wc_status_str(wc->status));
        /* a flush without a reason that we know of: the QP was moved to ERR
         * by the device */
        uct_vqp_fail(vqp, (status == VQP_ERR_CANCELED) ? VQP_ERR_RESET :
                                                         status);
    }

    vqp_tx_retire(&vqp->tx, &vqp->paths[path], vqp_ib_wrid_pos(wc->wr_id),
                  vqp->status);
}

static UCS_F_ALWAYS_INLINE void
uct_vqp_handle_wc(uct_vqp_iface_t *iface, const struct ibv_wc *wc)
{
    unsigned path  = vqp_ib_wrid_path(wc->wr_id);
    uct_vqp_t *vqp = uct_vqp_iface_find(iface, vqp_ib_wrid_vqp(wc->wr_id));
    vqp_ib_path_t *ib;
    vqp_path_t *tx;

    if (vqp_unlikely((vqp == NULL) || (path >= vqp->num_paths))) {
        ++iface->stats.stale;
        return;
    }

    ib = &vqp->ib_paths[path];
    if (vqp_unlikely((wc->wr_id ^ ib->wrid) & VQP_IB_WRID_PATH)) {
        ++iface->stats.stale;
        return;
    }

    uct_vqp_touch(vqp);
    if (wc->wr_id & VQP_IB_WRID_RECV) {
        uct_vqp_recv(vqp, path, ib, wc);
        return;
    }

    tx = &vqp->paths[path];
    ++tx->stats.tx_cqes;
    if (vqp_unlikely(wc->status != IBV_WC_SUCCESS)) {
        uct_vqp_send_failed(vqp, path, wc);
        return;
    }

    if (vqp_unlikely(vqp_tx_is_paced(tx))) {
        uct_vqp_clock(vqp);
    }
    if (vqp_unlikely(vqp_tx_retire(&vqp->tx, tx, vqp_ib_wrid_pos(wc->wr_id),
                                   VQP_OK) == 0)) {
        ++vqp->stats.stale;
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

    if (done->user_kind == UCT_VQP_USER_NONE) {
        return; /* its endpoint was destroyed after it had ended */
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

static void uct_vqp_run_flushes(uct_vqp_t *vqp)
{
    ucs_status_t status;
    uct_completion_t *comp;
    uct_vqp_flush_t *flush;

    while (!ucs_queue_is_empty(&vqp->flushes)) {
        flush = ucs_queue_head_elem_non_empty(&vqp->flushes, uct_vqp_flush_t,
                                              queue);
        if (!vqp_tx_flush_ended(&vqp->tx, &flush->tx)) {
            break;
        }

        status = (vqp->failed && !flush->ignore_failure) ?
                         uct_vqp_status(vqp->status) : UCS_OK;

        ucs_queue_pull_non_empty(&vqp->flushes);
        comp = flush->comp;
        ucs_mpool_put(flush);
        ++vqp->iface->reported;
        uct_invoke_completion(comp, status);
    }
}

static void uct_vqp_report_failure(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;
    ucs_status_t status    = uct_vqp_status(vqp->status);
    uct_vqp_ep_t *ep       = vqp->ep;
    ucs_log_level_t level;

    vqp->reported = 1;
    UCS_ASYNC_BLOCK(iface->super.worker->async);
    if ((vqp->conn.state != VQP_CONN_FAILED) &&
        (vqp->conn.state != VQP_CONN_CLOSED)) {
        vqp_conn_fail(&vqp->conn, vqp->status, uct_vqp_now());
        uct_vqp_cm_run(iface);
    }
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);

    if ((ep == NULL) || vqp->canceled) {
        return;
    }

    uct_vqp_ep_schedule(ep);
    status = uct_iface_handle_ep_err(&iface->super.super, &ep->super.super,
                                     status);
    level  = uct_base_iface_failure_log_level(&iface->super, status,
                                              uct_vqp_status(vqp->status));
    ucs_log(level, "vqp %u: endpoint to iface 0x%" PRIx64 " failed: %s",
            vqp->number, vqp->conn.peer_id,
            ucs_status_string(uct_vqp_status(vqp->status)));
}

/* The endpoint is gone; say BYE when the peer has what it left */
void uct_vqp_run_closing(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;

    if (!vqp->failed && uct_vqp_is_connected(vqp) &&
        !vqp_tx_flush_ended(&vqp->tx, &vqp->last_flush)) {
        if (vqp_tx_has_work(&vqp->tx)) {
            uct_vqp_pump(vqp); /* gets CQEs for what is waited for */
        }
        return;
    }

    vqp->closing = 0;
    UCS_ASYNC_BLOCK(iface->super.worker->async);
    if (vqp->failed) {
        vqp_conn_abort(&vqp->conn, uct_vqp_now());
    } else {
        vqp_conn_close(&vqp->conn, uct_vqp_now());
    }
    uct_vqp_cm_run(iface);
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);
}

/* Serve who waits for resources, end the vqp */
static void __attribute__((noinline)) uct_vqp_run_rest(uct_vqp_t *vqp)
{
    if (vqp->no_resource) {
        vqp->no_resource = 0;
        if (vqp->ep != NULL) {
            uct_vqp_ep_schedule(vqp->ep);
        }
    }

    if (vqp_unlikely(vqp->closing)) {
        uct_vqp_run_closing(vqp);
    }

    if (vqp_unlikely(vqp->failed && !vqp->reported)) {
        uct_vqp_report_failure(vqp);
    }

    if (vqp_unlikely(vqp->dying)) {
        (void)uct_vqp_try_destroy(vqp);
    }
}

/* Report what is done, end flushes, tell credit, dispatch */
static UCS_F_ALWAYS_INLINE void uct_vqp_run(uct_vqp_t *vqp)
{
    vqp_done_t done;

    if (vqp_likely(uct_vqp_is_connected(vqp))) {
        while (vqp_tx_pop_done(&vqp->tx, &done)) {
            ++vqp->iface->reported;
            uct_vqp_report(vqp, &done);
        }

        if (!ucs_queue_is_empty(&vqp->flushes)) {
            uct_vqp_run_flushes(vqp);
        }

        if (vqp_rx_must_tell(&vqp->rx)) {
            vqp_tx_want_control(&vqp->tx);
        }

        if (vqp_tx_has_work(&vqp->tx)) {
            uct_vqp_pump(vqp);
        }
    }

    if (vqp_unlikely(vqp->no_resource || vqp->failed || vqp->closing ||
                     vqp->dying)) {
        uct_vqp_run_rest(vqp);
    }
}

/* Run what uct_vqp_touch collected */
static UCS_F_ALWAYS_INLINE void
uct_vqp_iface_run_touched(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp;

    while ((vqp = iface->touched) != NULL) {
        iface->touched  = vqp->touched_next;
        vqp->is_touched = 0;
        uct_vqp_run(vqp);
    }
}

/* ---- the progress function ---- */

static unsigned __attribute__((noinline))
uct_vqp_handle_stash(uct_vqp_iface_t *iface)
{
    unsigned count = 0;

    while (iface->stash_next < iface->stash_count) {
        uct_vqp_handle_wc(iface, &iface->stash[iface->stash_next++]);
        ++count;
    }

    return count;
}

/* Nothing tells what has completed: when it does so again and again, nothing
 * more will, and whoever waits has to be told */
static void __attribute__((noinline))
uct_vqp_poll_failed(uct_vqp_iface_t *iface, vqp_ib_cq_t *cq)
{
    uct_vqp_t *vqp;

    if (cq->failures < VQP_IB_CQ_MAX_FAILURES) {
        ++cq->failures;
        ucs_error("failed to poll a completion queue of %s", cq->dev_name);
        return;
    }

    UCS_ASYNC_BLOCK(iface->super.worker->async);
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        uct_vqp_lost(vqp, VQP_ERR_IO);
    }
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);
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
        uct_vqp_handle_wc(iface, &wcs[i]);
    }

    return (unsigned)count;
}

/* Goes on where it stopped, so that a busy queue does not starve the others: an
 * immediate in one of them may be what a message waits for */
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

unsigned uct_vqp_iface_progress(uct_iface_h tl_iface)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);
    unsigned count         = 0;

    if (vqp_unlikely(iface->in_progress)) {
        return 0; /* called from a callback of ours */
    }

    iface->in_progress = 1;
    (void)ucs_async_check_miss(iface->super.worker->async);
    iface->reported = 0;
    if (vqp_unlikely(uct_vqp_iface_has_events(iface))) {
        uct_vqp_iface_handle_events(iface);
    }

    if (vqp_unlikely(iface->stash_next < iface->stash_count)) {
        count += uct_vqp_handle_stash(iface);
    }

    count += uct_vqp_poll_cqs(iface, iface->set.poll_max);
    if (vqp_unlikely(iface->is_pacing) && (count == 0)) {
        uct_vqp_iface_saw_nothing(iface);
    }

    /* Only now, when all that has arrived was looked at */
    if (vqp_unlikely(iface->check_gaps) && (count < iface->set.poll_max)) {
        uct_vqp_iface_check_gaps(iface);
    }

    if (iface->touched != NULL) {
        uct_vqp_iface_run_touched(iface);
    }

    ucs_arbiter_dispatch(&iface->arbiter, 1, uct_vqp_ep_process_pending, NULL);
    iface->in_progress = 0;
    return iface->reported;
}
