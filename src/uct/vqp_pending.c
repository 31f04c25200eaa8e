/* SPDX-License-Identifier: BSD-3-Clause */
/* Pending requests, see vqp_pending.h. */
#include "uct/vqp_pending.h"

#include "uct/vqp_post.h"

#include <ucs/debug/log.h>

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

    UCS_STATIC_ASSERT(sizeof(uct_pending_req_priv_arb_t) <=
                      UCT_PENDING_REQ_PRIV_LEN);
    uct_pending_req_arb_group_push(&ep->arb_group, req);
    ++ep->num_pending;
    uct_vqp_update_ready(ep->vqp);
    UCT_TL_EP_STAT_PEND(&ep->super);
    return UCS_OK;
}

/* Account for a request that is not pending any more. Ops that were refused behind
 * the last one have to try again: no resource comes back for them */
static void uct_vqp_ep_pending_done(uct_vqp_ep_t *ep)
{
    if (--ep->num_pending == 0) {
        vqp_resume(&ep->vqp->core);
    }
}

void uct_vqp_schedule_pending(uct_vqp_t *vqp)
{
    ucs_arbiter_group_schedule(&vqp->iface->arbiter, &vqp->ep->arb_group);
}

ucs_arbiter_cb_result_t
uct_vqp_process_pending(ucs_arbiter_t *arbiter, ucs_arbiter_group_t *group,
                           ucs_arbiter_elem_t *elem, void *arg)
{
    uct_vqp_ep_t *ep       = ucs_container_of(group, uct_vqp_ep_t, arb_group);
    uct_pending_req_t *req = ucs_container_of(elem, uct_pending_req_t, priv);
    uct_vqp_iface_t *iface = ucs_derived_of(ep->super.super.iface,
                                            uct_vqp_iface_t);
    ucs_status_t status;

    iface->pending_ep = ep;
    uct_vqp_update_ready(ep->vqp);
    status            = req->func(req);
    iface->pending_ep = NULL;
    if (status == UCS_OK) {
        uct_vqp_ep_pending_done(ep);
    }
    uct_vqp_update_ready(ep->vqp);

    if (status == UCS_OK) {
        ++iface->reported;
        return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
    } else if (status == UCS_INPROGRESS) {
        ++iface->reported;
        return UCS_ARBITER_CB_RESULT_NEXT_GROUP;
    }

    /* Scheduled again when resources of the connection come back */
    return UCS_ARBITER_CB_RESULT_DESCHED_GROUP;
}

static ucs_arbiter_cb_result_t
uct_vqp_ep_purge_cb(ucs_arbiter_t *arbiter, ucs_arbiter_group_t *group,
                    ucs_arbiter_elem_t *elem, void *arg)
{
    uct_vqp_ep_t *ep          = ucs_container_of(group, uct_vqp_ep_t,
                                                 arb_group);
    uct_pending_req_t *req    = ucs_container_of(elem, uct_pending_req_t, priv);
    uct_purge_cb_args_t *args = arg;

    --ep->num_pending;
    if (args->cb != NULL) {
        args->cb(req, args->arg);
    } else {
        ucs_debug("canceling pending request %p", req);
    }

    return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
}

void uct_vqp_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb,
                              void *arg)
{
    uct_vqp_ep_t *ep         = ucs_derived_of(tl_ep, uct_vqp_ep_t);
    uct_purge_cb_args_t args = {cb, arg};

    ucs_arbiter_group_purge(&ep->vqp->iface->arbiter, &ep->arb_group,
                            uct_vqp_ep_purge_cb, &args);
    uct_vqp_update_ready(ep->vqp);

    /* UCP adds again what it purges: this is taken until the next progress, as no resource
     * has come back by the purge. Ops that were refused behind a request try again then. */
    if (ep->vqp->core.refused) {
        uct_vqp_schedule_wake(ep->vqp);
    }
}
