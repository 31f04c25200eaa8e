/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint: creation, destruction, checks. */
#include "uct/vqp_ep.h"

#include "uct/vqp_cm.h"
#include "uct/vqp_control.h"
#include "uct/vqp_pending.h"

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

    uct_vqp_ep_pending_init(self);
    UCS_ASYNC_BLOCK(uct_vqp_ep_async(iface));
    status = uct_vqp_cm_connect(iface, &addr, &vqp);
    if (status == UCS_OK) {
        vqp->ep   = self;
        self->vqp = vqp;
        vqp_open(&vqp->core);
        uct_vqp_cm_run(iface);
        if (vqp_conn_is_live(&vqp->conn)) {
            vqp_set_live(&vqp->core);
        }
        uct_vqp_update_ready(vqp);
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_ep_async(iface));

    if (status != UCS_OK) {
        ucs_arbiter_group_cleanup(&self->arb_group);
    }

    return status;
}

static UCS_CLASS_CLEANUP_FUNC(uct_vqp_ep_t)
{
    uct_vqp_t *vqp = self->vqp;
    int must_cancel;

    uct_vqp_ep_pending_purge(&self->super.super, NULL, NULL);
    ucs_arbiter_group_cleanup(&self->arb_group);
    UCS_ASYNC_BLOCK(uct_vqp_ep_async(vqp->iface));
    vqp->ep     = NULL;
    vqp->ready  = 0;
    must_cancel = vqp_close(&vqp->core);
    uct_vqp_handle_failure(vqp);
    UCS_ASYNC_UNBLOCK(uct_vqp_ep_async(vqp->iface));

    if (must_cancel) {
        uct_vqp_cancel_all(vqp);
    } else if (vqp_is_connected(&vqp->core)) {
        uct_vqp_tx_progress(vqp);
    }

    /* Usually no op is left and BYE is sent now, else by progress */
    if (vqp_take_event(&vqp->core, VQP_EVENT_CLOSED)) {
        uct_vqp_handle_closed(vqp);
    }
    uct_vqp_schedule_wake(vqp);
}

UCS_CLASS_DEFINE(uct_vqp_ep_t, uct_base_ep_t);
UCS_CLASS_DEFINE_NEW_FUNC(uct_vqp_ep_t, uct_ep_t, const uct_ep_params_t*);
UCS_CLASS_DEFINE_DELETE_FUNC(uct_vqp_ep_t, uct_ep_t);

ucs_status_t uct_vqp_ep_not_ready(uct_vqp_t *vqp)
{
    uct_vqp_use(vqp);
    /* An error here makes UCP (since 1.22) restart the request on another lane. In
     * front of the error handler's call it would select this one again */
    if (vqp_failure_is_known(&vqp->core)) {
        return uct_vqp_status(vqp->core.status);
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

ucs_status_t uct_vqp_ep_check(uct_ep_h tl_ep, unsigned flags,
                              uct_completion_t *comp)
{
    uct_vqp_t *vqp      = ucs_derived_of(tl_ep, uct_vqp_ep_t)->vqp;
    ucs_status_t status = uct_vqp_ep_check_params(flags, comp);

    if (status != UCS_OK) {
        return status;
    }

    /* also while requests are pending: they may wait for a dead peer */
    uct_vqp_use(vqp);
    uct_vqp_check(vqp);

    /* While connecting, the handshake detects a dead peer, and the error handler
     * reports it */
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
