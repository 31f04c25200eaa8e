/* SPDX-License-Identifier: BSD-3-Clause */
/* Pending requests, see vqp_pending.h. */
#include "uct/vqp_pending.h"

#include "uct/vqp_post.h"

#include <ucs/debug/log.h>

void uct_vqp_ep_pending_init(uct_vqp_ep_t *ep)
{
    ucs_arbiter_group_init(&ep->arb_group);
    ucs_arbiter_elem_init(&ep->arb_elem);
    ucs_queue_head_init(&ep->pending);
    ep->num_pending = 0;
}

void uct_vqp_update_ready(uct_vqp_t *vqp)
{
    const uct_vqp_ep_t *ep = vqp->ep;

    vqp->ready = vqp_may_post(&vqp->core, ep != NULL,
                              (ep != NULL) && (ep->num_pending != 0) &&
                              (vqp->iface->pending_ep != ep));
}

ucs_status_t uct_vqp_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req,
                                    unsigned flags)
{
    uct_vqp_ep_t *ep = ucs_derived_of(tl_ep, uct_vqp_ep_t);

    /* The peer may have ended since the refusal: this reports it */
    uct_vqp_use(ep->vqp);

    /* Refuse to queue the request if nothing was refused since resources came back:
     * the caller tries again */
    if (!ep->vqp->core.refused && (ep->num_pending == 0)) {
        return UCS_ERR_BUSY;
    }

    UCS_STATIC_ASSERT(sizeof(uct_pending_req_priv_queue_t) <= UCT_PENDING_REQ_PRIV_LEN);
    uct_pending_req_queue_push(&ep->pending, req);
    ++ep->num_pending;
    if (ep->vqp->iface->pending_ep != ep) { /* else the arbiter puts it back */
        ucs_arbiter_group_push_elem(&ep->arb_group, &ep->arb_elem);
    }
    uct_vqp_update_ready(ep->vqp);
    UCT_TL_EP_STAT_PEND(&ep->super);
    return UCS_OK;
}

void uct_vqp_schedule_pending(uct_vqp_t *vqp)
{
    ucs_arbiter_group_schedule(&vqp->iface->arbiter, &vqp->ep->arb_group);
}

/* Run the oldest request. It is in no queue meanwhile: its function may purge them */
static ucs_status_t uct_vqp_ep_run_pending(uct_vqp_iface_t *iface, uct_vqp_ep_t *ep)
{
    uct_pending_req_priv_queue_t *priv;
    uct_pending_req_t *req;
    ucs_status_t status;

    ucs_assert(!ucs_queue_is_empty(&ep->pending));
    priv = ucs_queue_pull_elem_non_empty(&ep->pending, uct_pending_req_priv_queue_t,
                                         queue_elem);
    req  = ucs_container_of(priv, uct_pending_req_t, priv);

    iface->pending_ep = ep;
    uct_vqp_update_ready(ep->vqp);
    status            = req->func(req);
    iface->pending_ep = NULL;
    if (status != UCS_OK) {
        ucs_queue_push_head(&ep->pending, uct_pending_req_priv_queue_elem(req));
    } else if (--ep->num_pending == 0) {
        /* Ops that were refused behind the last one have to try again: no resource comes
         * back for them */
        vqp_resume(&ep->vqp->core);
    }

    uct_vqp_update_ready(ep->vqp);
    return status;
}

ucs_arbiter_cb_result_t
uct_vqp_process_pending(ucs_arbiter_t *arbiter, ucs_arbiter_group_t *group,
                        ucs_arbiter_elem_t *elem, void *arg)
{
    uct_vqp_ep_t *ep       = ucs_container_of(elem, uct_vqp_ep_t, arb_elem);
    uct_vqp_iface_t *iface = ucs_derived_of(ep->super.super.iface,
                                            uct_vqp_iface_t);
    ucs_status_t status    = uct_vqp_ep_run_pending(iface, ep);

    if ((status != UCS_OK) && (status != UCS_INPROGRESS)) {
        /* Scheduled again when resources of the connection come back */
        return UCS_ARBITER_CB_RESULT_DESCHED_GROUP;
    }

    ++iface->reported;
    return ucs_queue_is_empty(&ep->pending) ? UCS_ARBITER_CB_RESULT_REMOVE_ELEM :
                                              UCS_ARBITER_CB_RESULT_NEXT_GROUP;
}

static ucs_arbiter_cb_result_t
uct_vqp_ep_remove_elem(ucs_arbiter_t *arbiter, ucs_arbiter_group_t *group,
                       ucs_arbiter_elem_t *elem, void *arg)
{
    return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
}

void uct_vqp_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb,
                              void *arg)
{
    uct_vqp_ep_t *ep = ucs_derived_of(tl_ep, uct_vqp_ep_t);
    uct_pending_req_priv_queue_t *priv;
    ucs_queue_head_t purged;
    uct_pending_req_t *req;

    ucs_queue_head_init(&purged);
    ucs_queue_splice(&purged, &ep->pending);
    if (ep->vqp->iface->pending_ep != ep) { /* else its group is being dispatched */
        ucs_arbiter_group_purge(&ep->vqp->iface->arbiter, &ep->arb_group,
                                uct_vqp_ep_remove_elem, NULL);
    }

    while (!ucs_queue_is_empty(&purged)) {
        priv = ucs_queue_pull_elem_non_empty(&purged, uct_pending_req_priv_queue_t,
                                             queue_elem);
        req  = ucs_container_of(priv, uct_pending_req_t, priv);
        --ep->num_pending;
        if (cb != NULL) {
            cb(req, arg);
        } else {
            ucs_debug("canceling pending request %p", req);
        }
    }
    uct_vqp_update_ready(ep->vqp);

    /* No resource has come back: UCP adds again what it purges, and pending_add takes it. In
     * the next progress users try again whose ops were refused behind a request. */
    if (ep->vqp->core.refused) {
        uct_vqp_schedule_wake(ep->vqp);
    } else if (!ucs_queue_is_empty(&ep->pending) && (ep->vqp->iface->pending_ep != ep)) {
        uct_vqp_schedule_pending(ep->vqp); /* what the callback has added */
    }
}
