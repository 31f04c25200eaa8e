/* The endpoint's life, flush, fence, check and pending requests. */
#include "uct/vqp_ep.h"
#include "uct/vqp_cm.h"

#include <ucs/debug/log.h>

static inline ucs_async_context_t *uct_vqp_ep_async(uct_vqp_iface_t *iface)
{
    return iface->super.worker->async;
}

static UCS_CLASS_INIT_FUNC(uct_vqp_ep_t, const uct_ep_params_t *params)
{
    uct_vqp_iface_t *iface = ucs_derived_of(params->iface, uct_vqp_iface_t);
    vqp_iface_addr_t addr;
    ucs_status_t status;
    uct_vqp_t *vqp;

    UCT_EP_PARAMS_CHECK_DEV_IFACE_ADDRS(params);
    UCS_CLASS_CALL_SUPER_INIT(uct_base_ep_t, &iface->super);

    if (vqp_iface_addr_unpack(params->iface_addr, SIZE_MAX, &addr) != VQP_OK) {
        ucs_error("the address of a vqp peer is malformed or of another "
                  "version");
        return UCS_ERR_INVALID_ADDR;
    }

    ucs_arbiter_group_init(&self->arb_group);
    self->num_pending = 0;
    UCS_ASYNC_BLOCK(uct_vqp_ep_async(iface));
    status = uct_vqp_cm_connect(iface, &addr, &vqp);
    if (status == UCS_OK) {
        vqp->ep   = self;
        self->vqp = vqp;
        uct_vqp_cm_run(iface);
        vqp->live = vqp_conn_is_live(&vqp->conn);
        uct_vqp_ep_update_ready(vqp);
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_ep_async(iface));

    if (status != UCS_OK) {
        ucs_arbiter_group_cleanup(&self->arb_group);
    }

    return status;
}

/* Does a flush of the endpoint wait? One of the interface needs no endpoint. */
static int uct_vqp_ep_has_flush(uct_vqp_t *vqp)
{
    uct_vqp_flush_t *flush;

    ucs_queue_for_each(flush, &vqp->flushes, queue) {
        if (!flush->ignore_failure) {
            return 1;
        }
    }

    return 0;
}

/* Operations that use memory of the user, or that somebody waits for, can not
 * go on without the endpoint; others end by themselves, then comes BYE */
static int uct_vqp_ep_must_cancel(uct_vqp_t *vqp)
{
    return vqp->failed || vqp->peer_gone || uct_vqp_ep_has_flush(vqp) ||
           (uct_vqp_is_connected(vqp) && vqp_tx_uses_buffers(&vqp->tx));
}

static UCS_CLASS_CLEANUP_FUNC(uct_vqp_ep_t)
{
    uct_vqp_t *vqp = self->vqp;

    uct_vqp_ep_pending_purge(&self->super.super, NULL, NULL);
    ucs_arbiter_group_cleanup(&self->arb_group);
    UCS_ASYNC_BLOCK(uct_vqp_ep_async(vqp->iface));
    vqp->ep      = NULL;
    vqp->ready   = 0;
    vqp->closing = 1;
    UCS_ASYNC_UNBLOCK(uct_vqp_ep_async(vqp->iface));

    if (uct_vqp_ep_must_cancel(vqp)) {
        vqp->reported = 1;
        uct_vqp_fail(vqp, VQP_ERR_CANCELED);
        uct_vqp_cancel_all(vqp);
    } else if (uct_vqp_is_connected(vqp)) {
        vqp_tx_flush_begin(&vqp->tx, &vqp->last_flush);
        vqp_tx_kick(&vqp->tx);
        uct_vqp_pump(vqp);
    }

    /* Mostly nothing is left and BYE goes out now, else progress says it */
    uct_vqp_run_closing(vqp);
    uct_vqp_touch_later(vqp);
}

UCS_CLASS_DEFINE(uct_vqp_ep_t, uct_base_ep_t);
UCS_CLASS_DEFINE_NEW_FUNC(uct_vqp_ep_t, uct_ep_t, const uct_ep_params_t*);
UCS_CLASS_DEFINE_DELETE_FUNC(uct_vqp_ep_t, uct_ep_t);

void uct_vqp_ep_update_ready(uct_vqp_t *vqp)
{
    vqp->ready = vqp->live && !vqp->failed && !vqp->peer_gone &&
                 (vqp->ep != NULL) &&
                 ((vqp->ep->num_pending == 0) ||
                  (vqp->iface->pending_ep == vqp->ep));
}

ucs_status_t uct_vqp_ep_not_ready(uct_vqp_t *vqp)
{
    if (vqp->peer_gone) {
        uct_vqp_fail(vqp, VQP_ERR_RESET);
    }

    if (vqp->failed) {
        return uct_vqp_status(vqp->status);
    }

    return uct_vqp_no_resource(vqp);
}

ucs_status_t uct_vqp_ep_bad_rkey(const uct_vqp_t *vqp, uct_rkey_t rkey)
{
    ucs_error("vqp %u: a remote key is for memory of other rails (%u, layout "
              "0x%04x) than those of iface 0x%" PRIx64 " (%u, layout 0x%04x)",
              vqp->number, uct_vqp_rkey(rkey)->layout >> 16,
              uct_vqp_rkey(rkey)->layout & 0xffff, vqp->conn.peer_id,
              vqp->key_layout >> 16, vqp->key_layout & 0xffff);
    return UCS_ERR_INVALID_PARAM;
}

/* ---- flush, fence, check ---- */

static ucs_status_t
uct_vqp_flush_add(uct_vqp_t *vqp, int ignore_failure, uct_completion_t *comp)
{
    uct_vqp_flush_t *flush = ucs_mpool_get(&vqp->iface->flush_mp);

    if (flush == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    vqp_tx_flush_begin(&vqp->tx, &flush->tx);
    flush->ignore_failure = (uint8_t)ignore_failure;
    flush->comp           = comp;
    ucs_queue_push(&vqp->flushes, &flush->queue);
    return UCS_OK;
}

static ucs_status_t
uct_vqp_flush(uct_vqp_t *vqp, int ignore_failure, uct_completion_t *comp)
{
    ucs_status_t status;

    if (!uct_vqp_is_connected(vqp) || vqp_tx_is_flushed(&vqp->tx)) {
        return (vqp->failed && !ignore_failure) ? uct_vqp_status(vqp->status) :
                                                  UCS_OK;
    }

    if (comp != NULL) {
        status = uct_vqp_flush_add(vqp, ignore_failure, comp);
        if (status != UCS_OK) {
            return status;
        }
    }

    if (vqp->peer_gone) {
        uct_vqp_fail(vqp, VQP_ERR_RESET);
    } else if (!vqp->failed) {
        vqp_tx_kick(&vqp->tx);
        uct_vqp_pump(vqp);
    }

    return UCS_INPROGRESS;
}

/* What is pending was accepted earlier: a flush has to wait behind it. And the
 * handshake is an operation too: after a flush an endpoint has resources. */
static int uct_vqp_ep_holds_flush(const uct_vqp_ep_t *ep)
{
    const uct_vqp_t *vqp = ep->vqp;

    return ((ep->num_pending > 0) && (vqp->iface->pending_ep != ep)) ||
           (!vqp->live && !vqp->failed && !vqp->peer_gone);
}

ucs_status_t uct_vqp_ep_flush(uct_ep_h tl_ep, unsigned flags,
                              uct_completion_t *comp)
{
    uct_vqp_ep_t *ep = ucs_derived_of(tl_ep, uct_vqp_ep_t);
    uct_vqp_t *vqp   = ep->vqp;
    ucs_status_t status;

    if (flags & UCT_FLUSH_FLAG_CANCEL) {
        uct_vqp_ep_pending_purge(tl_ep, NULL, NULL);
        if (!vqp->failed) {
            vqp->canceled = 1;
            uct_vqp_fail(vqp, VQP_ERR_CANCELED);
        }
    } else if (uct_vqp_ep_holds_flush(ep)) {
        return uct_vqp_no_resource(vqp);
    }

    status = uct_vqp_flush(vqp, !!(flags & UCT_FLUSH_FLAG_CANCEL), comp);
    if (status == UCS_OK) {
        UCT_TL_EP_STAT_FLUSH(&ep->super);
    } else if (status == UCS_INPROGRESS) {
        UCT_TL_EP_STAT_FLUSH_WAIT(&ep->super);
    }

    return status;
}

ucs_status_t uct_vqp_ep_fence(uct_ep_h tl_ep, unsigned flags)
{
    uct_vqp_t *vqp = ucs_derived_of(tl_ep, uct_vqp_ep_t)->vqp;

    if (uct_vqp_is_connected(vqp)) {
        vqp_tx_fence(&vqp->tx);
    }

    UCT_TL_EP_STAT_FENCE(ucs_derived_of(tl_ep, uct_base_ep_t));
    return UCS_OK;
}

ucs_status_t uct_vqp_ep_check(uct_ep_h tl_ep, unsigned flags,
                              uct_completion_t *comp)
{
    uct_vqp_t *vqp      = ucs_derived_of(tl_ep, uct_vqp_ep_t)->vqp;
    ucs_status_t status = uct_vqp_ep_check_params(flags, comp);

    if (status != UCS_OK) {
        return status;
    }

    if (vqp->peer_gone) {
        uct_vqp_fail(vqp, VQP_ERR_RESET);
    }

    /* also while requests are pending: they may wait for a peer that died */
    if (vqp->live && !vqp->failed) {
        uct_vqp_check(vqp);
    }

    /* While it connects the handshake finds out, and a failure is told by the
     * error handler */
    return UCS_OK;
}

ucs_status_t uct_vqp_ep_invalidate(uct_ep_h tl_ep,
                                   uct_vqp_ep_invalidate_arg_t arg)
{
    uct_vqp_fail(ucs_derived_of(tl_ep, uct_vqp_ep_t)->vqp, VQP_ERR_RESET);
    return UCS_OK;
}

ucs_status_t uct_vqp_ep_query(uct_ep_h tl_ep, uct_ep_attr_t *attr)
{
    return UCS_ERR_UNSUPPORTED; /* it has no socket addresses */
}

int uct_vqp_ep_is_connected(uct_ep_h tl_ep,
                            const uct_vqp_ep_connected_params_t *params)
{
    uct_vqp_t *vqp                   = ucs_derived_of(tl_ep, uct_vqp_ep_t)->vqp;
    const uct_iface_addr_t *tl_addr  = uct_vqp_ep_connected_iface_addr(params);
    vqp_iface_addr_t addr;

    return (tl_addr != NULL) &&
           (vqp_iface_addr_unpack(tl_addr, SIZE_MAX, &addr) == VQP_OK) &&
           (addr.id == vqp->conn.peer_id);
}

/* ---- pending requests ---- */

ucs_status_t uct_vqp_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req,
                                    unsigned flags)
{
    uct_vqp_ep_t *ep = ucs_derived_of(tl_ep, uct_vqp_ep_t);

    /* If nothing was refused since resources last came back, try again */
    if (!ep->vqp->no_resource && (ep->num_pending == 0)) {
        return UCS_ERR_BUSY;
    }

    UCS_STATIC_ASSERT(sizeof(uct_pending_req_priv_arb_t) <=
                      UCT_PENDING_REQ_PRIV_LEN);
    uct_pending_req_arb_group_push(&ep->arb_group, req);
    ++ep->num_pending;
    uct_vqp_ep_update_ready(ep->vqp);
    UCT_TL_EP_STAT_PEND(&ep->super);
    return UCS_OK;
}

/* A request is not pending any more. Who was refused behind the last of them may
 * try again, and has to: nothing comes back that would serve a request of his */
static void uct_vqp_ep_pending_done(uct_vqp_ep_t *ep)
{
    if (--ep->num_pending == 0) {
        ep->vqp->no_resource = 0;
    }
}

void uct_vqp_ep_schedule(uct_vqp_ep_t *ep)
{
    ucs_arbiter_group_schedule(&ep->vqp->iface->arbiter, &ep->arb_group);
}

ucs_arbiter_cb_result_t
uct_vqp_ep_process_pending(ucs_arbiter_t *arbiter, ucs_arbiter_group_t *group,
                           ucs_arbiter_elem_t *elem, void *arg)
{
    uct_vqp_ep_t *ep       = ucs_container_of(group, uct_vqp_ep_t, arb_group);
    uct_pending_req_t *req = ucs_container_of(elem, uct_pending_req_t, priv);
    uct_vqp_iface_t *iface = ucs_derived_of(ep->super.super.iface,
                                            uct_vqp_iface_t);
    ucs_status_t status;

    iface->pending_ep = ep;
    uct_vqp_ep_update_ready(ep->vqp);
    status            = req->func(req);
    iface->pending_ep = NULL;
    if (status == UCS_OK) {
        uct_vqp_ep_pending_done(ep);
    }
    uct_vqp_ep_update_ready(ep->vqp);

    if (status == UCS_OK) {
        ++iface->reported;
        return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
    } else if (status == UCS_INPROGRESS) {
        ++iface->reported;
        return UCS_ARBITER_CB_RESULT_NEXT_GROUP;
    }

    /* Scheduled again when the connection has got something back */
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

    uct_vqp_ep_pending_done(ep);
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
    uct_vqp_ep_update_ready(ep->vqp);
}

/* ---- the interface's flush and fence ---- */

/* An iface flush with a completion: one flush per connection, and the last one
 * reports */
typedef struct uct_vqp_iface_flush {
    uct_completion_t  super;
    uct_completion_t *user;
} uct_vqp_iface_flush_t;

static void uct_vqp_iface_flush_cb(uct_completion_t *comp)
{
    uct_vqp_iface_flush_t *flush = ucs_derived_of(comp, uct_vqp_iface_flush_t);
    uct_completion_t *user       = flush->user;
    ucs_status_t status          = comp->status;

    ucs_free(flush);
    uct_invoke_completion(user, status);
}

/* One flush for each connection that has something under way */
static ucs_status_t
uct_vqp_iface_flush_all(uct_vqp_iface_t *iface, uct_completion_t *comp)
{
    ucs_status_t result = UCS_OK;
    ucs_status_t status;
    uct_vqp_t *vqp;

    UCS_ASYNC_BLOCK(uct_vqp_ep_async(iface));
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if ((vqp->ep != NULL) && uct_vqp_ep_holds_flush(vqp->ep)) {
            result = UCS_INPROGRESS;
        }

        status = uct_vqp_flush(vqp, 1, comp);
        if (status == UCS_INPROGRESS) {
            result = UCS_INPROGRESS;
            if (comp != NULL) {
                ++comp->count;
            }
        } else if (status != UCS_OK) {
            result = status;
            break;
        }
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_ep_async(iface));
    return result;
}

static int uct_vqp_iface_holds_flush(uct_vqp_iface_t *iface)
{
    int found = 0;
    uct_vqp_t *vqp;

    UCS_ASYNC_BLOCK(uct_vqp_ep_async(iface));
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        found |= (vqp->ep != NULL) && uct_vqp_ep_holds_flush(vqp->ep);
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_ep_async(iface));
    return found;
}

ucs_status_t uct_vqp_iface_flush(uct_iface_h tl_iface, unsigned flags,
                                 uct_completion_t *comp)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);
    uct_vqp_iface_flush_t *flush;
    ucs_status_t status;

    if (flags & UCT_FLUSH_FLAG_CANCEL) {
        ucs_error("vqp: an interface flush can not cancel");
        return UCS_ERR_UNSUPPORTED;
    }

    if (comp == NULL) {
        return uct_vqp_iface_flush_all(iface, NULL);
    }

    if (uct_vqp_iface_holds_flush(iface)) {
        return UCS_ERR_NO_RESOURCE;
    }

    flush = ucs_malloc(sizeof(*flush), "uct_vqp_iface_flush");
    if (flush == NULL) {
        ucs_error("failed to allocate a flush of an interface");
        return UCS_ERR_NO_MEMORY;
    }

    flush->super.func   = uct_vqp_iface_flush_cb;
    flush->super.count  = 1;
    flush->super.status = UCS_OK;
    flush->user         = comp;
    status              = uct_vqp_iface_flush_all(iface, &flush->super);
    if (UCS_STATUS_IS_ERR(status)) {
        /* those that wait already can not be taken back */
        uct_completion_update_status(&flush->super, status);
    }

    if (--flush->super.count == 0) {
        ucs_free(flush);
        return status;
    }

    return UCS_INPROGRESS;
}

ucs_status_t uct_vqp_iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);

    ++iface->fences;
    UCT_TL_IFACE_STAT_FENCE(&iface->super);
    return UCS_OK;
}
