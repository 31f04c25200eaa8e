/*
 * What progress does about events that are not completions: marks of the
 * control plane, lost ports and devices, timers; and the end of a vqp.
 */
#include "uct/vqp_cm.h"
#include "uct/vqp_ep.h"

#include <ucs/debug/log.h>

static inline ucs_async_context_t *uct_vqp_async(uct_vqp_iface_t *iface)
{
    return iface->super.worker->async;
}

/* ---- control plane ---- */

static void uct_vqp_handle_live(uct_vqp_t *vqp)
{
    if (vqp->failed || vqp->dying) {
        return;
    }

    vqp->live        = 1;
    uct_vqp_ep_update_ready(vqp);
    vqp->no_resource = 1; /* whoever waited for the connection may go on */
    uct_vqp_touch(vqp);
}

static void uct_vqp_handle_failed(uct_vqp_t *vqp, vqp_status_t status)
{
    /* After a proper close of its side a peer may end its process: an endpoint
     * that waits for nothing need not hear of it before it sends again, as with
     * any transport */
    if ((status == VQP_ERR_RESET) && vqp->conn.peer_closed &&
        uct_vqp_is_connected(vqp) && !vqp_tx_uses_buffers(&vqp->tx) &&
        ucs_queue_is_empty(&vqp->flushes) &&
        (vqp->ep != NULL) && (vqp->ep->num_pending == 0)) {
        vqp->peer_gone = 1;
        vqp->ready     = 0;
        return;
    }

    uct_vqp_fail(vqp, status);
}

static void uct_vqp_handle_marks(uct_vqp_iface_t *iface)
{
    uint32_t marks = 0;
    uct_vqp_t *vqp;

    for (;;) {
        UCS_ASYNC_BLOCK(uct_vqp_async(iface));
        vqp = uct_vqp_cm_pop_marked(iface, &marks);
        UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
        if (vqp == NULL) {
            return;
        }

        if (marks & UCT_VQP_CM_LIVE) {
            uct_vqp_handle_live(vqp);
        }
        if (marks & UCT_VQP_CM_FAILED) {
            uct_vqp_handle_failed(vqp, vqp->cm_status);
        }
        if (marks & UCT_VQP_CM_DESTROY) {
            uct_vqp_bury(vqp);
        }
    }
}

/* ---- device events ---- */

/* Queue pairs of two devices may have the same number of 24 bits; never 0 */
static inline uint32_t uct_vqp_qp_id(unsigned rail, uint32_t qpn)
{
    return (rail << 24) | qpn;
}

void uct_vqp_iface_async_event(uct_vqp_iface_t *iface, unsigned rail,
                               const vqp_ib_async_t *event)
{
    const vqp_ib_port_t *port = &iface->rails[rail].port;
    uint32_t slot;

    switch (event->type) {
    case VQP_IB_ASYNC_PORT_DOWN:
        if (event->port != port->num) {
            return;
        }
        /* fall through */
    case VQP_IB_ASYNC_DEVICE_FATAL:
    case VQP_IB_ASYNC_CQ_ERROR:
        ucs_diag("%s:%u: %s", iface->rails[rail].dev->name, port->num,
                 event->name);
        uct_vqp_iface_signal(iface, (event->type == VQP_IB_ASYNC_PORT_DOWN) ?
                                            UCT_VQP_EVENT_PORT :
                                            UCT_VQP_EVENT_DEVICE);
        return;
    case VQP_IB_ASYNC_QP_FATAL:
        slot = __atomic_fetch_add(&iface->num_bad_qpn, 1, __ATOMIC_RELAXED) %
               UCT_VQP_BAD_QPNS;
        __atomic_store_n(&iface->bad_qpn[slot], uct_vqp_qp_id(rail, event->qpn),
                         __ATOMIC_RELEASE);
        uct_vqp_iface_signal(iface, UCT_VQP_EVENT_QP);
        return;
    default:
        return;
    }
}

static int uct_vqp_uses_qp(const uct_vqp_t *vqp, uint32_t id)
{
    unsigned i;

    for (i = 0; i < vqp->num_paths; ++i) {
        if (uct_vqp_qp_id(vqp->paths[i].rail, vqp->ib_paths[i].rc.qpn) == id) {
            return 1;
        }
    }

    return 0;
}

static void uct_vqp_handle_bad_qps(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp;
    unsigned i, j;
    uint32_t id;

    for (i = 0; i < UCT_VQP_BAD_QPNS; ++i) {
        id = __atomic_exchange_n(&iface->bad_qpn[i], 0, __ATOMIC_ACQUIRE);
        if (id == 0) {
            continue;
        }

        UCS_ASYNC_BLOCK(uct_vqp_async(iface));
        for (j = 0; j < iface->num_rails; ++j) {
            if (uct_vqp_qp_id(j, iface->rails[j].ud.qpn) == id) {
                vqp_ib_ud_set_broken(&iface->rails[j].ud);
                uct_vqp_cm_poll(iface);
            }
        }

        ucs_list_for_each(vqp, &iface->vqp_list, list) {
            if (uct_vqp_uses_qp(vqp, id)) {
                uct_vqp_fail(vqp, VQP_ERR_IO);
            }
        }
        UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
    }
}

static int uct_vqp_uses_rail(const uct_vqp_t *vqp, unsigned rail)
{
    unsigned i;

    for (i = 0; i < vqp->tx.num_paths; ++i) {
        if (vqp->paths[i].rail == rail) {
            return 1;
        }
    }

    return 0;
}

/* A port that came back at once is ridden out by the transport's retries */
static void uct_vqp_handle_ports(uct_vqp_iface_t *iface, uint32_t events)
{
    uct_vqp_t *vqp;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        if (!(events & UCT_VQP_EVENT_DEVICE) &&
            vqp_ib_port_is_active(iface->rails[i].dev,
                                  iface->rails[i].port.num)) {
            continue;
        }

        UCS_ASYNC_BLOCK(uct_vqp_async(iface));
        ucs_list_for_each(vqp, &iface->vqp_list, list) {
            if (uct_vqp_is_connected(vqp) && uct_vqp_uses_rail(vqp, i)) {
                uct_vqp_fail(vqp, VQP_ERR_IO);
            }
        }
        UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
    }
}

/* ---- time ---- */

static void uct_vqp_check_gap(uct_vqp_t *vqp, uint64_t now)
{
    uint64_t limit = vqp->iface->set.gap_timeout;
    uint64_t gap   = vqp_rx_gap(&vqp->rx, now);

    if ((limit != 0) && (gap > limit) && !vqp->failed &&
        !(vqp->conn.peer_features & VQP_WIRE_FEATURE_SPRAY)) {
        ucs_error("vqp %u: an immediate of iface 0x%" PRIx64 " is missing for "
                  "%.1f s (UCX_VQP_GAP_TIMEOUT), fsn 0x%06x", vqp->number,
                  vqp->conn.peer_id, (double)gap * 1e-9, vqp->rx.window.base);
        uct_vqp_fail(vqp, VQP_ERR_TIMEOUT);
    }
}

/* A passive vqp would never notice that its peer has died: an empty write does,
 * answered by the peer's HCA whatever its process is doing */
static void uct_vqp_check_probe(uct_vqp_t *vqp, uint64_t now)
{
    uint64_t interval = vqp->iface->set.probe_interval;
    uint64_t activity = vqp->stats.ams_rx + vqp->stats.ops;

    if (activity != vqp->activity) {
        vqp->activity     = activity;
        vqp->active_since = now;
        return;
    }

    if ((vqp->ep != NULL) || (interval == 0) || vqp->failed ||
        (now - vqp->active_since < interval)) {
        return;
    }

    uct_vqp_check(vqp);
    vqp->activity     = vqp->stats.ams_rx + vqp->stats.ops;
    vqp->active_since = now;
}

static void uct_vqp_handle_tick(uct_vqp_iface_t *iface)
{
    uint64_t now = uct_vqp_now();
    uct_vqp_t *vqp;

    UCS_ASYNC_BLOCK(uct_vqp_async(iface));
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if (uct_vqp_is_connected(vqp) && !vqp->dying &&
            (vqp->conn.state == VQP_CONN_LIVE)) {
            uct_vqp_check_probe(vqp, now);
        }
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
    iface->check_gaps = 1;
}

void uct_vqp_iface_check_gaps(uct_vqp_iface_t *iface)
{
    uint64_t now = uct_vqp_now();
    uct_vqp_t *vqp;

    iface->check_gaps = 0;
    UCS_ASYNC_BLOCK(uct_vqp_async(iface));
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if (uct_vqp_is_connected(vqp) && !vqp->dying &&
            (vqp->conn.state == VQP_CONN_LIVE)) {
            uct_vqp_check_gap(vqp, now);
        }
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
}

/* Bounce slots have come back: those who were refused one try again */
static void uct_vqp_handle_local(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp;

    if (!iface->tx_mp_empty) {
        return;
    }

    iface->tx_mp_empty = 0;
    UCS_ASYNC_BLOCK(uct_vqp_async(iface));
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if (vqp->no_resource) {
            uct_vqp_touch(vqp);
        }
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
}

void uct_vqp_iface_handle_events(uct_vqp_iface_t *iface)
{
    uint32_t events;

    uct_vqp_iface_event_clear(iface); /* who has seen all must not wake up */
    events = __atomic_exchange_n(&iface->events, 0, __ATOMIC_ACQUIRE);

    if (events & UCT_VQP_EVENT_CM) {
        uct_vqp_handle_marks(iface);
    }
    if (events & UCT_VQP_EVENT_QP) {
        uct_vqp_handle_bad_qps(iface);
    }
    if (events & (UCT_VQP_EVENT_PORT | UCT_VQP_EVENT_DEVICE)) {
        uct_vqp_handle_ports(iface, events);
    }
    if (events & UCT_VQP_EVENT_TICK) {
        uct_vqp_handle_tick(iface);
    }
    if (events & UCT_VQP_EVENT_LOCAL) {
        uct_vqp_handle_local(iface);
    }
}

/* ---- the end of a vqp ---- */

/* An op of a user who will not be there any more. Its slot and its buffers are
 * the HCA's until its frags come back. */
static void uct_vqp_disown(vqp_op_t *op)
{
    uct_completion_t *comp = NULL;
    uct_vqp_desc_t *desc;

    if ((op->kind == VQP_KIND_FADD) || (op->kind == VQP_KIND_CSWAP)) {
        op->amo.result = NULL;
    }

    if (op->user_kind == UCT_VQP_USER_COMP) {
        comp          = op->user;
        op->user_kind = UCT_VQP_USER_NONE;
    } else if (op->user_kind == UCT_VQP_USER_DESC) {
        desc         = op->user;
        comp         = desc->comp;
        desc->comp   = NULL;
        desc->unpack = NULL;
    }

    if (comp != NULL) {
        uct_invoke_completion(comp, UCS_ERR_CANCELED);
    }
}

void uct_vqp_cancel_all(uct_vqp_t *vqp)
{
    uct_vqp_flush_t *flush;
    uct_completion_t *comp;
    vqp_tx_iter_t iter;
    vqp_op_t *op;

    if (uct_vqp_is_connected(vqp)) {
        vqp_tx_iter_init(&vqp->tx, &iter);
        while ((op = vqp_tx_iter_next(&vqp->tx, &iter)) != NULL) {
            uct_vqp_disown(op);
        }
    }

    while (!ucs_queue_is_empty(&vqp->flushes)) {
        flush = ucs_queue_pull_elem_non_empty(&vqp->flushes, uct_vqp_flush_t,
                                              queue);
        comp  = flush->comp;
        ucs_mpool_put(flush);
        uct_invoke_completion(comp, UCS_ERR_CANCELED);
    }
}

void uct_vqp_bury(uct_vqp_t *vqp)
{
    vqp->reported = 1;
    vqp->dying    = 1;
    uct_vqp_fail(vqp, VQP_ERR_CANCELED);
    uct_vqp_touch(vqp);
}

static int uct_vqp_is_quiet(const uct_vqp_t *vqp)
{
    unsigned i;

    for (i = 0; i < vqp->num_paths; ++i) {
        if (vqp->ib_paths[i].recv_posted > vqp->ib_paths[i].recv_missing) {
            return 0;
        }
    }

    return !uct_vqp_is_connected(vqp) || (vqp_tx_outstanding(&vqp->tx) == 0);
}

int uct_vqp_try_destroy(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;

    if (vqp->is_touched || !uct_vqp_is_quiet(vqp)) {
        return 0;
    }

    UCS_ASYNC_BLOCK(uct_vqp_async(iface));
    uct_vqp_destroy(vqp);
    UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
    return 1;
}
