/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events that are not completions: events of the control plane, lost ports and
 * devices, timers. See vqp_handle.h.
 */
#include "uct/vqp_handle.h"

#include "uct/vqp_balance.h"
#include "uct/vqp_cm.h"
#include "uct/vqp_cm_handler.h"
#include "uct/vqp_ep.h"
#include "uct/vqp_gid.h"
#include "uct/vqp_path_log.h"
#include "uct/vqp_paths.h"
#include "uct/vqp_pending.h"
#include "uct/vqp_post.h"
#include "uct/vqp_telemetry.h"
#include "uct/vqp_timers.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>

#define UCT_VQP_END_LOOKS 8 /* calls of progress that may put off the end of a connection */

static inline ucs_async_context_t *uct_vqp_async(uct_vqp_iface_t *iface)
{
    return iface->super.worker->async;
}

/* ---- control plane ---- */

static void uct_vqp_handle_live(uct_vqp_t *vqp)
{
    vqp_set_live(&vqp->core);
    uct_vqp_set_timer(vqp);
    uct_vqp_update_ready(vqp);
    uct_vqp_schedule(vqp);
}

static void uct_vqp_handle_conn_end(uct_vqp_t *vqp)
{
    UCS_ASYNC_BLOCK(uct_vqp_async(vqp->iface));
    if ((vqp->conn.status == VQP_ERR_NO_MEMORY) && (vqp->conn.lacks_since != 0)) {
        ucs_warn("vqp %u: iface 0x%" PRIx64 " has no queue pair, completion queue or "
                 "memory for this connection; the log of its process has the reason",
                 vqp->number, vqp->conn.peer_id);
    }
    vqp_on_conn_end(&vqp->core, (vqp_status_t)vqp->conn.status,
                    vqp->conn.peer_closed, vqp->end.is_waited);
    uct_vqp_handle_failure(vqp);
    UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp->iface));
    uct_vqp_update_ready(vqp);
    uct_vqp_schedule(vqp);
}

/* Was END taken for the first time, or has this call of progress delivered messages? The
 * user takes them before the next call, and UCP throws away what it has of a stream when its
 * endpoint fails (ucp_stream_ep_cleanup). A peer that goes on sending does not put the end
 * off for ever. */
static int uct_vqp_end_is_early(uct_vqp_t *vqp)
{
    uint64_t ams = vqp->core.stats.ams_rx;
    int is_early = (vqp->end.looks == 0) ||
                   ((vqp->end.ams != ams) && (vqp->end.looks < UCT_VQP_END_LOOKS));

    vqp->end.ams        = ams;
    vqp->end.looks     += is_early;
    vqp->end.is_waited |= (vqp->ep != NULL) && (vqp->ep->num_pending > 0);
    return is_early;
}

static void uct_vqp_handle_end(uct_vqp_t *vqp)
{
    if (uct_vqp_end_is_early(vqp)) {
        UCS_ASYNC_BLOCK(uct_vqp_async(vqp->iface));
        uct_vqp_cm_add_event(vqp, UCT_VQP_CM_END); /* for the next call */
        UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp->iface));
    } else {
        uct_vqp_handle_conn_end(vqp);
    }
}

static void uct_vqp_handle_cm_events(uct_vqp_iface_t *iface)
{
    uint32_t events = 0;
    uct_vqp_t *vqp;

    for (;;) {
        UCS_ASYNC_BLOCK(uct_vqp_async(iface));
        vqp = uct_vqp_cm_pop_events(iface, &events);
        UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
        if (vqp == NULL) {
            return;
        }

        if (events & UCT_VQP_CM_LIVE) {
            uct_vqp_handle_live(vqp);
        }
        if (events & UCT_VQP_CM_PATHS) {
            uct_vqp_handle_path_messages(vqp);
        }
        if (events & UCT_VQP_CM_END) {
            uct_vqp_handle_end(vqp);
        }
    }
}

/* ---- device events ---- */

/* Queue pairs of two devices may have the same number of 24 bits; never 0 */
static inline uint32_t uct_vqp_qp_id(unsigned rail, uint32_t qpn)
{
    return (rail << 24) | qpn;
}

static void uct_vqp_log_async(const uct_vqp_iface_t *iface, unsigned rail,
                              const vqp_ib_async_t *event)
{
    ucs_diag("%s:%u: %s", iface->rails[rail].dev->name,
             iface->rails[rail].port.num, event->name);
}

void uct_vqp_iface_async_event(uct_vqp_iface_t *iface, unsigned rail,
                               const vqp_ib_async_t *event)
{
    const vqp_ib_port_t *port = &iface->rails[rail].port;
    uint32_t slot;

    switch (event->type) {
    case VQP_IB_ASYNC_PORT_UP:
    case VQP_IB_ASYNC_PORT_DOWN:
    case VQP_IB_ASYNC_GID_CHANGE:
        if (event->port == port->num) {
            uct_vqp_log_async(iface, rail, event);
            if (event->type != VQP_IB_ASYNC_PORT_DOWN) {
                uct_vqp_gid_set_old(&iface->rails[rail]);
            }
            uct_vqp_iface_signal(iface, UCT_VQP_EVENT_PORT);
        }
        return;
    case VQP_IB_ASYNC_CQ_ERROR:
        if (!vqp_ib_cq_pool_has(&iface->rails[rail].cqs, event->cq) &&
            (event->cq != iface->rails[rail].ud.cq.cq)) {
            return; /* of another interface */
        }
        /* fall through */
    case VQP_IB_ASYNC_DEVICE_FATAL:
        uct_vqp_log_async(iface, rail, event);
        uct_vqp_iface_rail_broken(iface, rail);
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

/* Its receives are flushed too, before the event or after it: both say the same */
static void uct_vqp_fail_qp(uct_vqp_t *vqp, uint32_t id)
{
    unsigned i;

    for (i = 0; i < vqp->core.num_paths; ++i) {
        if (uct_vqp_qp_id(vqp->paths[i].rail, vqp->ib_paths[i].rc.qpn) == id) {
            uct_vqp_path_fault(vqp, i, VQP_ERR_CANCELED);
        }
    }
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
            uct_vqp_fail_qp(vqp, id);
        }
        UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
    }
}

/* A rail of the vqp: its port is down, or it has failed for good */
static void uct_vqp_fail_rail(uct_vqp_t *vqp, unsigned rail)
{
    int is_broken = uct_vqp_rail_is_broken(&vqp->iface->rails[rail]);
    unsigned i;

    for (i = 0; i < vqp->core.tx.paths.count; ++i) {
        if (vqp->paths[i].rail != rail) {
            continue;
        }

        if (is_broken && vqp->core.qps_failed) {
            vqp_path_lost(&vqp->core, i); /* its completions will not be polled */
            uct_vqp_schedule_wake(vqp);
        } else if (is_broken) {
            uct_vqp_path_destroyed(vqp, i);
        } else {
            uct_vqp_path_fault(vqp, i, VQP_ERR_IO);
        }
    }
}

/* Is there a path that can come up again? One on a broken rail stays there, unless it may
 * move to any other one */
static int uct_vqp_has_rail(const uct_vqp_t *vqp)
{
    int is_connected = vqp_is_connected(&vqp->core);
    unsigned num     = is_connected ? vqp->core.tx.paths.count : vqp->core.num_paths;
    uint64_t rails   = 0;
    unsigned i;

    if (is_connected && (vqp->core.failover.num_rails > 0)) {
        return uct_vqp_iface_has_rail(vqp->iface, UINT64_MAX);
    }

    for (i = 0; i < num; ++i) {
        rails |= UCS_BIT(vqp->paths[i].rail);
    }
    return uct_vqp_iface_has_rail(vqp->iface, rails);
}

static void uct_vqp_iface_fail_rail(uct_vqp_iface_t *iface, unsigned rail)
{
    uct_vqp_t *vqp;

    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if (!vqp_is_connected(&vqp->core)) {
            /* else its connecting fails, or goes on without these paths */
            if (!uct_vqp_has_rail(vqp)) {
                vqp_conn_fail(&vqp->conn, VQP_ERR_IO, uct_vqp_now());
            }
        } else if (vqp->core.qps_failed || uct_vqp_has_rail(vqp)) {
            uct_vqp_fail_rail(vqp, rail);
        } else {
            uct_vqp_fail(vqp, VQP_ERR_IO);
        }
    }

    uct_vqp_cm_run(iface);
}

/* A rail works. Paths that could not be rebuilt need not wait for their timers */
static void uct_vqp_iface_retry_paths(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp;
    unsigned i;

    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        for (i = 0; i < vqp->core.tx.paths.count; ++i) {
            if (vqp_path_retry(&vqp->core, &vqp->paths[i])) {
                uct_vqp_schedule(vqp);
            }
        }
    }
}

/* The transport's retries cover a port that is down for a short time */
static void uct_vqp_handle_rails(uct_vqp_iface_t *iface)
{
    uct_vqp_rail_t *rail;
    unsigned i;

    UCS_ASYNC_BLOCK(uct_vqp_async(iface));
    for (i = 0; i < iface->num_rails; ++i) {
        rail = &iface->rails[i];
        if (rail->is_given_up) {
            continue;
        }

        if (uct_vqp_rail_is_broken(rail)) {
            uct_vqp_iface_stop_rail(iface, i);
            uct_vqp_cm_stop_rail(iface, i, 0);
        } else {
            rail->checked = 0;
            uct_vqp_gid_refresh(iface, rail);
            if (uct_vqp_rail_is_active(rail)) {
                uct_vqp_iface_retry_paths(iface);
                continue;
            }
        }

        uct_vqp_iface_fail_rail(iface, i);
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
}

/* ---- time ---- */

static void uct_vqp_handle_tick(uct_vqp_iface_t *iface)
{
    uint64_t now = uct_vqp_now();

    UCS_ASYNC_BLOCK(uct_vqp_async(iface));
    uct_vqp_iface_look_at_balance(iface, now);
    uct_vqp_telemetry_update(iface, now);
    UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
    uct_vqp_iface_check_timers(iface);
}

/* A timer may be due. Bounce slots may be back: schedule vqps that were refused one */
static void uct_vqp_handle_local(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp;

    uct_vqp_iface_check_timers(iface);
    if (!iface->tx_mp_empty) {
        return;
    }

    iface->tx_mp_empty = 0;
    UCS_ASYNC_BLOCK(uct_vqp_async(iface));
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if (vqp->core.refused) {
            uct_vqp_schedule(vqp);
        }
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
}

uint32_t uct_vqp_iface_take_events(uct_vqp_iface_t *iface)
{
    uint32_t events;

    uct_vqp_iface_event_clear(iface); /* a sleeper without events must not
                                         wake up */
    events = __atomic_exchange_n(&iface->events, 0, __ATOMIC_ACQUIRE);
    if (events & UCT_VQP_EVENT_CM) {
        UCS_ASYNC_BLOCK(uct_vqp_async(iface));
        uct_vqp_cm_take_events(iface);
        UCS_ASYNC_UNBLOCK(uct_vqp_async(iface));
    }

    return events;
}

void uct_vqp_iface_handle_events(uct_vqp_iface_t *iface, uint32_t events)
{
    if (events & UCT_VQP_EVENT_CM) {
        uct_vqp_handle_cm_events(iface);
    }
    if (events & UCT_VQP_EVENT_QP) {
        uct_vqp_handle_bad_qps(iface);
    }
    if (events & (UCT_VQP_EVENT_PORT | UCT_VQP_EVENT_DEVICE)) {
        uct_vqp_handle_rails(iface);
    }
    if (events & UCT_VQP_EVENT_TICK) {
        uct_vqp_handle_tick(iface);
    }
    if (events & UCT_VQP_EVENT_LOCAL) {
        uct_vqp_handle_local(iface);
    }
}
