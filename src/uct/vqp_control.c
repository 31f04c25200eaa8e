/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of the core, see vqp_control.h. */
#include "uct/vqp_control.h"

#include "uct/vqp_cm.h"
#include "uct/vqp_conn_log.h"
#include "uct/vqp_desc.h"
#include "uct/vqp.h"
#include "uct/vqp_mirror.h"
#include "uct/vqp_paths.h"
#include "uct/vqp_pending.h"
#include "uct/vqp_post.h"
#include "uct/vqp_ring.h"
#include "uct/vqp_timers.h"

#include "core/mirror.h"

#include <ucs/debug/log.h>

static inline ucs_async_context_t *uct_vqp_async(const uct_vqp_t *vqp)
{
    return vqp->iface->super.worker->async;
}

/* An immediate proves that the peer is connected. It may arrive before REP. */
static void uct_vqp_handle_first_imm(uct_vqp_t *vqp)
{
    UCS_ASYNC_BLOCK(uct_vqp_async(vqp));
    vqp_conn_first_imm(&vqp->conn, uct_vqp_now());
    uct_vqp_cm_run(vqp->iface);
    UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp));
}

void uct_vqp_handle_closed(uct_vqp_t *vqp)
{
    if (vqp_is_failed(&vqp->core)) {
        return; /* the connection was aborted */
    }

    UCS_ASYNC_BLOCK(uct_vqp_async(vqp));
    vqp_conn_close(&vqp->conn, uct_vqp_now());
    uct_vqp_cm_run(vqp->iface);
    UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp));
}

static void uct_vqp_handle_report(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;
    ucs_status_t status    = uct_vqp_status(vqp->core.status);
    ucs_status_t handled;
    ucs_log_level_t level;

    if ((vqp->ep == NULL) || vqp->core.canceled) {
        return;
    }

    uct_vqp_schedule_pending(vqp);
    handled = uct_iface_handle_ep_err(&iface->super.super,
                                      &vqp->ep->super.super, status);
    level   = uct_base_iface_failure_log_level(&iface->super, handled, status);
    uct_vqp_log_ep_failed(vqp, level, status);
}

/* Release a vqp, unless it is in a list: then it is run again when it is taken out */
static void uct_vqp_handle_release(uct_vqp_t *vqp)
{
    ucs_async_context_t *async = uct_vqp_async(vqp);

    if (vqp->is_scheduled || vqp->is_deferred) {
        return;
    }

    UCS_ASYNC_BLOCK(async);
    if (!vqp->in_cm_list) {
        uct_vqp_clear_timer(vqp);
        uct_vqp_destroy(vqp);
    }
    UCS_ASYNC_UNBLOCK(async);
}

static void uct_vqp_log_state(uct_vqp_t *vqp)
{
    ucs_debug("vqp %u: %s -> %s%s%s", vqp->number,
              vqp_state_name(vqp->core.logged), vqp_state_name(vqp->core.state),
              (vqp->core.status == VQP_OK) ? "" : ", ",
              (vqp->core.status == VQP_OK) ?
                      "" : ucs_status_string(uct_vqp_status(vqp->core.status)));
    vqp->core.logged = vqp->core.state;
}

void uct_vqp_handle_core_events(uct_vqp_t *vqp)
{
    vqp_event_t event;

    for (;;) {
        event = vqp_next_event(&vqp->core);
        switch (event) {
        case VQP_EVENT_QPS:
            uct_vqp_fail_qps(vqp);
            break;
        case VQP_EVENT_STATE:
            uct_vqp_log_state(vqp);
            break;
        case VQP_EVENT_BROKEN:
            ucs_error("vqp %u: protocol error on path %u from iface 0x%" PRIx64
                      ": %s", vqp->number, vqp->core.broken.path,
                      vqp->conn.peer_id, vqp->core.broken.what);
            break;
        case VQP_EVENT_FIRST_IMM:
            uct_vqp_handle_first_imm(vqp);
            break;
        case VQP_EVENT_RESUME:
            uct_vqp_grow_ops(vqp);
            if (vqp->ep != NULL) {
                uct_vqp_schedule_pending(vqp);
            }
            break;
        case VQP_EVENT_CLOSED:
            uct_vqp_handle_closed(vqp);
            break;
        case VQP_EVENT_FAILED:
            uct_vqp_handle_report(vqp);
            break;
        case VQP_EVENT_PING:
            uct_vqp_ping(vqp);
            break;
        case VQP_EVENT_TIMER:
            uct_vqp_set_timer(vqp);
            break;
        case VQP_EVENT_RING_GET:
        case VQP_EVENT_RING_PUT:
        case VQP_EVENT_MIRROR_GET:
        case VQP_EVENT_MIRROR_PUT:
            uct_vqp_handle_ring_event(vqp, event);
            break;
        case VQP_EVENT_MIRROR_NEEDED:
            if (vqp_can_use_mirror(&vqp->core) && uct_vqp_mirror_get(vqp)) {
                uct_vqp_schedule(vqp); /* what has waited for it */
            }
            break;
        case VQP_EVENT_RELEASE:
            uct_vqp_handle_release(vqp);
            return;
        case VQP_EVENT_NONE:
            return;
        default:
            uct_vqp_handle_path_event(vqp, event);
            break;
        }
    }
}

/* ---- canceling ---- */

/* Cancel an op of the user. Its slot and its buffers are in use until its frags
 * complete. */
static void uct_vqp_disown(uct_vqp_t *vqp, vqp_op_t *op)
{
    uct_completion_t *comp = NULL;
    ucs_status_t status    = UCS_ERR_CANCELED;
    uct_vqp_desc_t *desc;

    if ((op->user_kind == UCT_VQP_USER_COMP) ||
        (op->user_kind == UCT_VQP_USER_FLUSH)) {
        if (op->user_kind == UCT_VQP_USER_FLUSH) {
            status = uct_vqp_flush_status(&vqp->core, op->status);
        }

        comp          = op->user;
        op->user_kind = UCT_VQP_USER_NONE;
    } else if (op->user_kind == UCT_VQP_USER_DESC) {
        desc         = op->user;
        comp         = desc->comp;
        desc->comp   = NULL;
        desc->unpack = NULL;
    }

    if (comp != NULL) {
        uct_invoke_completion(comp, status);
    }
}

void uct_vqp_cancel_all(uct_vqp_t *vqp)
{
    vqp_tx_iter_t iter;
    vqp_op_t *op;

    if (!vqp_is_connected(&vqp->core)) {
        return;
    }

    vqp_tx_iter_init(&vqp->core.tx, &iter);
    while ((op = vqp_cancel_next(&vqp->core, &iter)) != NULL) {
        uct_vqp_disown(vqp, op);
    }
}
