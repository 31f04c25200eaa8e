/* SPDX-License-Identifier: BSD-3-Clause */
/* The control plane, see vqp_cm.h. */
#include "uct/vqp_cm.h"

#include "uct/vqp_gid.h"
#include "uct/vqp_path_log.h"
#include "uct/vqp_timers.h"

#include "core/conn/connnote.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>
#include <ucs/time/time.h>

#include <errno.h>
#include <unistd.h>

#define UCT_VQP_CM_TIMER      10000000ul /* ns; while an answer is outstanding */
#define UCT_VQP_CM_BUDGET     32 /* datagrams of a rail per call... */
#define UCT_VQP_CM_TURN       5000000 /* ...and ns: to resolve an address may
                                         block */

static inline uct_vqp_t *uct_vqp_of_conn(vqp_conn_t *conn)
{
    return ucs_container_of(conn, uct_vqp_t, conn);
}

void uct_vqp_cm_add_event(uct_vqp_t *vqp, uint32_t event)
{
    uct_vqp_iface_t *iface = vqp->iface;

    vqp->cm_events |= event;
    if (!vqp->in_cm_list) {
        vqp->in_cm_list = 1;
        vqp->cm_next    = iface->cm_list;
        iface->cm_list  = vqp;
    }

    uct_vqp_iface_signal(iface, UCT_VQP_EVENT_CM);
}

void uct_vqp_cm_take_events(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp;

    for (vqp = iface->cm_list; vqp != NULL; vqp = vqp->cm_next) {
        vqp->cm_taken |= vqp->cm_events;
        vqp->cm_events = 0;
    }
}

uct_vqp_t *uct_vqp_cm_pop_events(uct_vqp_iface_t *iface, uint32_t *events)
{
    uct_vqp_t **link = &iface->cm_list;
    uct_vqp_t *vqp;

    while (((vqp = *link) != NULL) && (vqp->cm_taken == 0)) {
        link = &vqp->cm_next;
    }

    if (vqp != NULL) {
        *events       = vqp->cm_taken;
        vqp->cm_taken = 0;
        if (vqp->cm_events == 0) {
            *link           = vqp->cm_next;
            vqp->in_cm_list = 0;
        }
    }

    return vqp;
}

/* The rail, or if that is broken the next one that is not. NULL: all are */
static uct_vqp_rail_t *uct_vqp_cm_pick_rail(uct_vqp_iface_t *iface, unsigned first)
{
    uct_vqp_rail_t *rail;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        rail = &iface->rails[(first + i) % iface->num_rails];
        if (!uct_vqp_rail_is_broken(rail)) {
            return rail;
        }
    }

    return NULL;
}

static vqp_status_t
uct_vqp_cm_send_datagram(uct_vqp_iface_t *iface, const vqp_conntab_action_t *action)
{
    vqp_ib_ud_addr_t to = {.qpn = action->to.qpn, .lid = action->to.lid};
    uct_vqp_rail_t *rail;
    vqp_status_t status;

    if (action->to.rail >= iface->num_rails) {
        return VQP_ERR_UNREACHABLE;
    }

    rail = uct_vqp_cm_pick_rail(iface, action->to.rail);
    if (rail == NULL) {
        return VQP_ERR_IO;
    }

    to.is_global = (rail->port.link == VQP_IB_LINK_ETH) ||
                   rail->port.grh_required;
    memcpy(to.gid, action->to.gid, sizeof(to.gid));
    uct_vqp_gid_refresh(iface, rail);
    status = vqp_ib_ud_send(&rail->ud, &to, action->data, (uint32_t)action->len);
    if ((status == VQP_ERR_INVALID_PARAM) || (status == VQP_ERR_IO)) {
        uct_vqp_gid_set_old(rail); /* maybe: look before it is repeated */
    }
    if (iface->set.trace) {
        ucs_debug("vqp trace: tx control %s to qp 0x%x, %zu bytes: %s",
                  vqp_wire_type_name(action->msg_type), to.qpn, action->len,
                  ucs_status_string(uct_vqp_status(status)));
    }
    return status;
}

void uct_vqp_cm_send(uct_vqp_iface_t *iface, const vqp_conntab_action_t *action)
{
    vqp_status_t status = uct_vqp_cm_send_datagram(iface, action);

    if ((status != VQP_OK) && (action->conn != NULL)) {
        vqp_conn_note_unsent(action->conn, action->msg_type);
    }
}

static void uct_vqp_cm_create_passive(uct_vqp_iface_t *iface,
                                      const vqp_wire_msg_t *req)
{
    vqp_conn_params_t params;
    ucs_status_t created;
    vqp_status_t status;
    uct_vqp_t *vqp;

    created = uct_vqp_create(iface, VQP_IB_LOG_FAULT, &vqp);
    if (created != UCS_OK) {
        uct_vqp_log_not_accepted(iface, req->hdr.src_iface, created);
        if ((created == UCS_ERR_NO_MEMORY) || (created == UCS_ERR_EXCEEDS_LIMIT)) {
            vqp_conntab_lack(&iface->conntab, req);
        }
        return;
    }

    memset(&params, 0, sizeof(params));
    params.cookie = uct_vqp_random_next(&iface->random) | 1;
    params.local  = vqp->local;
    status        = vqp_conn_accept(&iface->conntab, &vqp->conn, &params, req,
                                    uct_vqp_now());
    if (status != VQP_OK) {
        uct_vqp_destroy(vqp);
    }
}

static void
uct_vqp_cm_connect_qps(uct_vqp_t *vqp, const vqp_wire_info_t *peer)
{
    vqp_status_t status;

    status = uct_vqp_connect(vqp, peer);
    if (status == VQP_OK) {
        vqp_conn_qps_ready(&vqp->conn, uct_vqp_now());
    } else if (status == VQP_INPROGRESS) {
        vqp_conn_qps_wait(&vqp->conn, uct_vqp_now());
    } else {
        vqp_conn_fail(&vqp->conn, status, uct_vqp_now());
    }
}

/* For progress, unless it is answered here */
static void
uct_vqp_cm_keep_path_message(uct_vqp_t *vqp, const vqp_wire_msg_t *msg)
{
    unsigned index = (msg->hdr.type == VQP_WIRE_PATH_UP) ? msg->path_up.path :
                                                           msg->path_down.path;
    vqp_path_msg_t path_msg, answer;
    vqp_conntab_action_t action;
    unsigned todo;

    if ((vqp->inboxes == NULL) || (index >= vqp->core.num_paths)) {
        return;
    }

    path_msg = vqp_path_msg_of(msg);
    todo     = vqp_inbox_put(&vqp->inboxes[index], &path_msg, &answer);
    if ((todo & VQP_INBOX_ANSWER) &&
        vqp_conntab_path_message(&vqp->conn, answer.type, answer.flags, answer.epoch,
                                 &answer.down, NULL, &action)) {
        uct_vqp_cm_send(vqp->iface, &action);
    }
    if (todo & VQP_INBOX_TAKE) {
        uct_vqp_cm_add_event(vqp, UCT_VQP_CM_PATHS);
    }
}

static void uct_vqp_cm_log_state(uct_vqp_t *vqp)
{
    vqp_conn_t *conn = &vqp->conn;

    if (conn->logged != conn->state) {
        ucs_debug("vqp %u: connection %u with iface 0x%" PRIx64 " %s -> %s",
                  vqp->number, conn->number, conn->peer_id,
                  vqp_conn_state_name(conn->logged),
                  vqp_conn_state_name(conn->state));
        conn->logged = conn->state;
    }
}

static void uct_vqp_cm_act(uct_vqp_iface_t *iface,
                           const vqp_conntab_action_t *action)
{
    uct_vqp_t *vqp = (action->conn == NULL) ? NULL :
                                              uct_vqp_of_conn(action->conn);

    switch (action->type) {
    case VQP_CONNTAB_CREATE_PASSIVE:
        uct_vqp_cm_create_passive(iface, action->peer);
        break;
    case VQP_CONNTAB_STATE:
        uct_vqp_cm_log_state(vqp);
        break;
    case VQP_CONNTAB_CONNECT_QPS:
        uct_vqp_cm_connect_qps(vqp, &action->peer->info);
        break;
    case VQP_CONNTAB_SEND:
        uct_vqp_cm_send(iface, action);
        break;
    case VQP_CONNTAB_PATH_MSG:
        uct_vqp_cm_keep_path_message(vqp, action->peer);
        break;
    case VQP_CONNTAB_LIVE:
        uct_vqp_cm_add_event(vqp, UCT_VQP_CM_LIVE);
        break;
    case VQP_CONNTAB_END:
        uct_vqp_cm_add_event(vqp, UCT_VQP_CM_END);
        break;
    case VQP_CONNTAB_ACTION_LAST:
        break;
    }
}

static void uct_vqp_cm_timer_cb(int id, ucs_event_set_types_t events, void *arg)
{
    uct_vqp_iface_t *iface = arg;

    uct_vqp_cm_tick(iface);
    if (uct_vqp_iface_has_timer(iface, uct_vqp_now())) {
        uct_vqp_iface_signal(iface, UCT_VQP_EVENT_LOCAL);
    }
}

/* Period of the timer, in ns; 0: none is needed. Messages are repeated with the shortest
 * one. For a sleeper it expires when the first timer of a vqp is due */
static uint64_t uct_vqp_cm_period(const uct_vqp_iface_t *iface)
{
    uint64_t now, due;

    if (vqp_conntab_next_timeout(&iface->conntab) != VQP_CONNTAB_NEVER) {
        return UCT_VQP_CM_TIMER;
    }
    if (!iface->may_sleep) {
        return 0;
    }

    now = uct_vqp_now();
    due = __atomic_load_n(&iface->timer_due, __ATOMIC_RELAXED);
    return (due > now + UCT_VQP_TIMER_SOON) ? 0 :
           ucs_max(due - ucs_min(due, now), UCT_VQP_CM_TIMER);
}

static void uct_vqp_cm_set_timer(uct_vqp_iface_t *iface)
{
    ucs_async_context_t *async = iface->super.worker->async;
    uint64_t period            = uct_vqp_cm_period(iface);
    ucs_status_t status;

    if (iface->is_closing) {
        return; /* the closing thread reads the clock and removes the timer */
    }

    /* It is replaced if it expires too late, or much too often */
    if ((iface->cm_timer != 0) &&
        ((period == 0) || (period + UCT_VQP_CM_TIMER < iface->cm_period) ||
         (period > 4 * iface->cm_period))) {
        ucs_async_remove_handler(iface->cm_timer, 0);
        iface->cm_timer = 0;
    }

    if ((period != 0) && (iface->cm_timer == 0)) {
        status = ucs_async_add_timer(async->mode,
                                     ucs_time_from_sec((double)period * 1e-9),
                                     uct_vqp_cm_timer_cb, iface, async,
                                     &iface->cm_timer);
        if (status != UCS_OK) {
            iface->cm_timer = 0;
            ucs_error("failed to start a timer for connections: %s",
                      ucs_status_string(status));
            return;
        }
        iface->cm_period = period;
    }
}

void uct_vqp_cm_run(uct_vqp_iface_t *iface)
{
    vqp_conntab_action_t action;

    while (vqp_conntab_next_action(&iface->conntab, &action)) {
        uct_vqp_cm_act(iface, &action);
    }

    uct_vqp_cm_set_timer(iface);
}

static void uct_vqp_cm_recv(uct_vqp_iface_t *iface, unsigned rail,
                            const vqp_ib_ud_msg_t *msg)
{
    vqp_conn_dest_t from = {
        .qpn  = msg->from.qpn,
        .lid  = msg->from.lid,
        .rail = (uint8_t)rail
    };
    vqp_status_t status;

    memcpy(from.gid, msg->from.gid, sizeof(from.gid));
    status = vqp_conntab_recv(&iface->conntab, &from, msg->data, msg->length,
                              uct_vqp_now());
    if ((status == VQP_ERR_UNSUPPORTED) &&
        (iface->conntab.stats.unknown_type == 1)) {
        /* once, since any host can send them: all are counted */
        ucs_warn("control datagrams of another version arrive, first from qp "
                 "0x%x: all processes need the same version of uct_vqp",
                 from.qpn);
    }

    if (iface->set.trace) {
        ucs_debug("vqp trace: rx control from qp 0x%x, %u bytes: %s", from.qpn,
                  msg->length, ucs_status_string(uct_vqp_status(status)));
    }
}

/* Have the async context call again for the remaining datagrams, which raise no
 * event any more. Other threads get the async block in between */
static void uct_vqp_cm_come_back(uct_vqp_iface_t *iface)
{
    uint64_t one = 1;

    ++iface->conntab.stats.yields;
    /* EAGAIN: it is readable already */
    if ((write(iface->cm_fd, &one, sizeof(one)) < 0) && (errno != EAGAIN)) {
        ucs_error("failed to write to an eventfd: %m");
    }

    if (iface->super.worker->async->mode == UCS_ASYNC_MODE_POLL) {
        /* in mode "poll" progress calls the handlers: it must not sleep */
        uct_vqp_iface_signal(iface, UCT_VQP_EVENT_CM);
    }
}

/* @return Whether datagrams remain. Each holds the async block while it is handled,
 * and other threads wait for the block. */
static int uct_vqp_cm_poll_rail(uct_vqp_iface_t *iface, unsigned rail)
{
    uint64_t until = uct_vqp_now() + UCT_VQP_CM_TURN;
    vqp_ib_ud_msg_t msg;
    unsigned i = 0;

    if (uct_vqp_rail_is_broken(&iface->rails[rail])) {
        if (!iface->rails[rail].is_given_up) { /* else nobody waits for it */
            (void)vqp_ib_chan_drain(&iface->rails[rail].ud.chan);
        }
        return 0;
    }

    vqp_ib_ud_arm(&iface->rails[rail].ud);
    do { /* one in any case: on a machine that is slow enough the turn is over by now */
        if (vqp_ib_ud_poll(&iface->rails[rail].ud, &msg) != VQP_OK) {
            return 0;
        }

        uct_vqp_cm_recv(iface, rail, &msg);
        uct_vqp_cm_run(iface);
    } while ((++i < UCT_VQP_CM_BUDGET) && (uct_vqp_now() < until));

    return 1;
}

void uct_vqp_cm_poll(uct_vqp_iface_t *iface)
{
    int left = 0;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        left |= uct_vqp_cm_poll_rail(iface, i);
    }

    if (left) {
        uct_vqp_cm_come_back(iface);
    }

    uct_vqp_cm_set_timer(iface);
}

void uct_vqp_cm_tick(uct_vqp_iface_t *iface)
{
    uct_vqp_cm_poll(iface);
    vqp_conntab_tick(&iface->conntab, uct_vqp_now());
    uct_vqp_cm_run(iface);
}

ucs_status_t uct_vqp_cm_connect(uct_vqp_iface_t *iface,
                                const vqp_iface_addr_t *addr,
                                uct_vqp_t **vqp_p)
{
    vqp_conn_dest_t dests[VQP_MAX_RAILS];
    vqp_conn_params_t params = {.peer_id = addr->id, .dests = dests};
    ucs_status_t status;
    vqp_conn_t *conn;
    uct_vqp_t *vqp;
    unsigned i;

    params.num_dests = addr->dev.num_rails;
    for (i = 0; i < params.num_dests; ++i) {
        memcpy(dests[i].gid, addr->dev.rails[i].gid, sizeof(dests[i].gid));
        dests[i].qpn  = addr->ud_qpn[i];
        dests[i].lid  = addr->dev.rails[i].lid;
        dests[i].rail = (uint8_t)(i % iface->num_rails);
    }

    conn = vqp_conn_adopt(&iface->conntab, addr->id, dests, params.num_dests,
                          uct_vqp_now());
    if (conn != NULL) {
        *vqp_p = uct_vqp_of_conn(conn);
        return UCS_OK;
    }

    status = uct_vqp_create(iface, VQP_IB_LOG_ERROR, &vqp);
    if (status != UCS_OK) {
        return status;
    }

    params.cookie = uct_vqp_random_next(&iface->random) | 1;
    params.local  = vqp->local;
    status        = uct_vqp_status(vqp_conn_connect(&iface->conntab, &vqp->conn,
                                                    &params, uct_vqp_now()));
    if (status != UCS_OK) {
        ucs_error("failed to start a connection to iface 0x%" PRIx64 ": %s",
                  addr->id, ucs_status_string(status));
        uct_vqp_destroy(vqp);
        return status;
    }

    *vqp_p = vqp;
    return UCS_OK;
}
