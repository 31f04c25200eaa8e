/* The control plane, see vqp_cm.h. */
#include "uct/vqp_cm.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/sys/uid.h>
#include <ucs/time/time.h>

#define UCT_VQP_CM_TIMER      0.010 /* s; while something is unanswered */
#define UCT_VQP_CM_RETRY      (20ull * 1000 * 1000)   /* ns */
#define UCT_VQP_CM_RETRY_MAX  (1000ull * 1000 * 1000) /* ns */
#define UCT_VQP_CM_CLOSE      (5000ull * 1000 * 1000) /* ns */
#define UCT_VQP_CM_TICK       (900ull * 1000 * 1000)  /* ns */
#define UCT_VQP_CM_HASH_ORDER 8
#define UCT_VQP_CM_IDLE_PEERS 4096

uint64_t uct_vqp_cm_random(uct_vqp_iface_t *iface)
{
    uint64_t z = (iface->rand += 0x9e3779b97f4a7c15ull); /* splitmix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static inline uct_vqp_t *uct_vqp_of_conn(vqp_conn_t *conn)
{
    return ucs_container_of(conn, uct_vqp_t, conn);
}

/* Leave a mark for progress; wakes a sleeper */
static void uct_vqp_cm_mark(uct_vqp_t *vqp, uint32_t mark)
{
    uct_vqp_iface_t *iface = vqp->iface;

    vqp->cm_marks |= mark;
    if (!vqp->in_cm_list) {
        vqp->in_cm_list = 1;
        vqp->cm_next    = iface->cm_list;
        iface->cm_list  = vqp;
    }

    uct_vqp_iface_signal(iface, UCT_VQP_EVENT_CM);
}

uct_vqp_t *uct_vqp_cm_pop_marked(uct_vqp_iface_t *iface, uint32_t *marks)
{
    uct_vqp_t *vqp = iface->cm_list;

    if (vqp != NULL) {
        iface->cm_list  = vqp->cm_next;
        *marks          = vqp->cm_marks;
        vqp->cm_marks   = 0;
        vqp->in_cm_list = 0;
    }

    return vqp;
}

static void
uct_vqp_cm_send(uct_vqp_iface_t *iface, const vqp_conntab_action_t *action)
{
    vqp_ib_ud_addr_t to = {.qpn = action->to.qpn, .lid = action->to.lid};
    uct_vqp_rail_t *rail;
    vqp_status_t status;

    if (action->to.rail >= iface->num_rails) {
        return;
    }

    rail         = &iface->rails[action->to.rail];
    to.is_global = (rail->port.link == VQP_IB_LINK_ETH) ||
                   rail->port.grh_required;
    memcpy(to.gid, action->to.gid, sizeof(to.gid));
    status = vqp_ib_ud_send(&rail->ud, &to, action->data, (uint32_t)action->len);
    if (iface->set.trace) {
        ucs_debug("vqp trace: tx control %s to qp 0x%x, %zu bytes: %s",
                  vqp_wire_type_name(action->msg_type), to.qpn, action->len,
                  ucs_status_string(uct_vqp_status(status)));
    }
}

static void uct_vqp_cm_create_passive(uct_vqp_iface_t *iface,
                                      const vqp_wire_msg_t *req)
{
    vqp_conn_params_t params;
    vqp_status_t status;
    uct_vqp_t *vqp;

    if (uct_vqp_create(iface, &vqp) != UCS_OK) {
        return; /* the peer asks again */
    }

    memset(&params, 0, sizeof(params));
    params.cookie = uct_vqp_cm_random(iface) | 1;
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

    /* Its endpoint was canceled or destroyed while it connected */
    if (vqp->failed) {
        vqp_conn_fail(&vqp->conn, vqp->status, uct_vqp_now());
        return;
    }

    status = uct_vqp_connect(vqp, peer);
    if (status == VQP_OK) {
        vqp_conn_qps_ready(&vqp->conn, uct_vqp_now());
    } else {
        vqp_conn_fail(&vqp->conn, status, uct_vqp_now());
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
    case VQP_CONNTAB_CONNECT_QPS:
        uct_vqp_cm_connect_qps(vqp, &action->peer->info);
        break;
    case VQP_CONNTAB_SEND:
        uct_vqp_cm_send(iface, action);
        break;
    case VQP_CONNTAB_LIVE:
        uct_vqp_cm_mark(vqp, UCT_VQP_CM_LIVE);
        break;
    case VQP_CONNTAB_FAILED:
        vqp->cm_status = action->status;
        uct_vqp_cm_mark(vqp, UCT_VQP_CM_FAILED);
        break;
    case VQP_CONNTAB_DESTROY:
        uct_vqp_cm_mark(vqp, UCT_VQP_CM_DESTROY);
        break;
    case VQP_CONNTAB_PEER_CLOSED:
    case VQP_CONNTAB_ACTION_LAST:
        break;
    }
}

static void uct_vqp_cm_timer_cb(int id, ucs_event_set_types_t events, void *arg)
{
    uct_vqp_cm_tick(arg);
}

/* A timer runs only while something waits for it */
static void uct_vqp_cm_set_timer(uct_vqp_iface_t *iface)
{
    ucs_async_context_t *async = iface->super.worker->async;
    int wanted = vqp_conntab_next_timeout(&iface->conntab) != VQP_CONNTAB_NEVER;
    ucs_status_t status;

    if (iface->is_closing) {
        return; /* whoever closes looks at the clock, and ends the timer */
    }

    if (wanted && (iface->cm_timer == 0)) {
        status = ucs_async_add_timer(async->mode,
                                     ucs_time_from_sec(UCT_VQP_CM_TIMER),
                                     uct_vqp_cm_timer_cb, iface, async,
                                     &iface->cm_timer);
        if (status != UCS_OK) {
            iface->cm_timer = 0;
            ucs_error("failed to start a timer for connections: %s",
                      ucs_status_string(status));
        }
    } else if (!wanted && (iface->cm_timer != 0)) {
        ucs_async_remove_handler(iface->cm_timer, 0);
        iface->cm_timer = 0;
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
    if (iface->set.trace) {
        ucs_debug("vqp trace: rx control from qp 0x%x, %u bytes: %s", from.qpn,
                  msg->length, ucs_status_string(uct_vqp_status(status)));
    }
}

void uct_vqp_cm_poll(uct_vqp_iface_t *iface)
{
    vqp_ib_ud_msg_t msg;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        (void)vqp_ib_ud_arm(&iface->rails[i].ud);
        while (vqp_ib_ud_poll(&iface->rails[i].ud, &msg) == VQP_OK) {
            uct_vqp_cm_recv(iface, i, &msg);
            uct_vqp_cm_run(iface);
        }
    }

    uct_vqp_cm_set_timer(iface);
}

void uct_vqp_cm_tick(uct_vqp_iface_t *iface)
{
    uct_vqp_cm_poll(iface);
    vqp_conntab_tick(&iface->conntab, uct_vqp_now());
    uct_vqp_cm_run(iface);
}

static void uct_vqp_cm_ud_cb(int fd, ucs_event_set_types_t events, void *arg)
{
    uct_vqp_iface_t *iface = arg;
    const vqp_ib_chan_t *chan;
    unsigned i;

    uct_vqp_cm_poll(iface);
    for (i = 0; i < iface->num_rails; ++i) {
        chan = &iface->rails[i].ud.chan;
        if ((vqp_ib_chan_fd(chan) == fd) && vqp_ib_chan_is_lost(chan)) {
            ucs_error("%s: events of the control queue are not waited for any "
                      "more", chan->dev_name);
            ucs_async_modify_handler(fd, 0);
        }
    }
}

/* Once a second: what only time can tell. Wakes a sleeper only if there is
 * something to look at. */
static void
uct_vqp_cm_slow_cb(int id, ucs_event_set_types_t events, void *arg)
{
    uct_vqp_iface_t *iface = arg;
    uint64_t now           = uct_vqp_now();
    int wake               = 0;
    uct_vqp_t *vqp;

    if (now - iface->last_tick < UCT_VQP_CM_TICK) {
        return; /* the async mode "poll" calls at every progress */
    }

    iface->last_tick = now;
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        wake |= uct_vqp_is_connected(vqp) &&
                ((vqp->ep == NULL) || vqp_window_has_gap(&vqp->rx.window));
    }

    if (wake) {
        uct_vqp_iface_signal(iface, UCT_VQP_EVENT_TICK);
    } else {
        __atomic_fetch_or(&iface->events, UCT_VQP_EVENT_TICK, __ATOMIC_RELAXED);
    }
}

/* No two interfaces of a port have the same control queue pair, so that they
 * differ for sure while they live; who comes after one does by the rest */
static uint64_t uct_vqp_cm_new_id(uct_vqp_iface_t *iface)
{
    vqp_dev_addr_t addr;

    uct_vqp_local_dev_addr(iface, &addr);
    return vqp_iface_id(&addr, ((uct_vqp_cm_random(iface) & 0xffff) << 24) |
                               iface->rails[0].ud.qpn);
}

static ucs_status_t uct_vqp_cm_init_table(uct_vqp_iface_t *iface)
{
    vqp_conntab_config_t config = {
        .retry_first     = UCT_VQP_CM_RETRY,
        .retry_max       = UCT_VQP_CM_RETRY_MAX,
        .connect_timeout = iface->set.connect_timeout,
        .close_timeout   = UCT_VQP_CM_CLOSE,
        .num_rails       = (uint8_t)iface->num_rails,
        .features        = (iface->set.notify == VQP_NOTIFY_SPRAY) ?
                                   VQP_WIRE_FEATURE_SPRAY : 0,
        .hash_order      = UCT_VQP_CM_HASH_ORDER,
        .num_idle        = UCT_VQP_CM_IDLE_PEERS
    };
    ucs_status_t status;

    iface->rand        = ucs_generate_uuid((uintptr_t)iface);
    iface->id          = uct_vqp_cm_new_id(iface);
    config.iface_id    = iface->id;
    iface->conntab_mem = ucs_calloc(1, vqp_conntab_mem_size(&config),
                                    "uct_vqp_conntab");
    if (iface->conntab_mem == NULL) {
        ucs_error("failed to allocate the table of connections");
        return UCS_ERR_NO_MEMORY;
    }

    status = uct_vqp_status(vqp_conntab_init(&iface->conntab, &config,
                                             iface->conntab_mem));
    if (status != UCS_OK) {
        ucs_free(iface->conntab_mem);
    }
    return status;
}

static ucs_status_t uct_vqp_cm_init_ud(uct_vqp_iface_t *iface, unsigned index)
{
    uct_vqp_rail_t *rail      = &iface->rails[index];
    vqp_ib_ud_params_t params = {
        .dev        = rail->dev,
        .port       = &rail->port,
        .gid        = &rail->gid,
        .pkey_index = rail->pkey_index,
        .tclass     = rail->tclass,
        .hop_limit  = iface->set.hop_limit,
        .sl         = iface->set.sl,
        .num_recvs  = 256,
        .num_sends  = 64,
        .num_ahs    = 256
    };

    return uct_vqp_status(vqp_ib_ud_init(&rail->ud, &params));
}

static ucs_status_t uct_vqp_cm_start(uct_vqp_iface_t *iface)
{
    ucs_async_context_t *async = iface->super.worker->async;
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        (void)vqp_ib_ud_arm(&iface->rails[i].ud);
        status = ucs_async_set_event_handler(async->mode,
                                             vqp_ib_ud_fd(&iface->rails[i].ud),
                                             UCS_EVENT_SET_EVREAD,
                                             uct_vqp_cm_ud_cb, iface, async);
        if (status != UCS_OK) {
            goto err_remove;
        }
    }

    status = ucs_async_add_timer(async->mode, ucs_time_from_sec(1.0),
                                 uct_vqp_cm_slow_cb, iface, async,
                                 &iface->tick_timer);
    if (status != UCS_OK) {
        goto err_remove;
    }

    return UCS_OK;

err_remove:
    ucs_error("failed to start the handler of connections: %s",
              ucs_status_string(status));
    while (i-- > 0) {
        ucs_async_remove_handler(vqp_ib_ud_fd(&iface->rails[i].ud), 1);
    }
    return status;
}

ucs_status_t uct_vqp_cm_init(uct_vqp_iface_t *iface)
{
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        status = uct_vqp_cm_init_ud(iface, i);
        if (status != UCS_OK) {
            goto err_cleanup_ud;
        }
    }

    status = uct_vqp_cm_init_table(iface);
    if (status != UCS_OK) {
        goto err_cleanup_ud;
    }

    status = uct_vqp_cm_start(iface);
    if (status != UCS_OK) {
        goto err_free;
    }

    return UCS_OK;

err_free:
    ucs_free(iface->conntab_mem);
err_cleanup_ud:
    while (i-- > 0) {
        vqp_ib_ud_cleanup(&iface->rails[i].ud);
    }
    return status;
}

void uct_vqp_cm_stop(uct_vqp_iface_t *iface)
{
    unsigned i;
    int timer;

    for (i = 0; i < iface->num_rails; ++i) {
        ucs_async_remove_handler(vqp_ib_ud_fd(&iface->rails[i].ud), 1);
    }

    ucs_async_remove_handler(iface->tick_timer, 1);
    UCS_ASYNC_BLOCK(iface->super.worker->async);
    timer           = iface->cm_timer;
    iface->cm_timer = 0;
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);
    if (timer != 0) {
        ucs_async_remove_handler(timer, 1);
    }
}

void uct_vqp_cm_cleanup(uct_vqp_iface_t *iface)
{
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        vqp_ib_ud_cleanup(&iface->rails[i].ud);
    }

    ucs_free(iface->conntab_mem);
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

    conn = vqp_conntab_adopt(&iface->conntab, addr->id);
    if (conn != NULL) {
        *vqp_p = uct_vqp_of_conn(conn);
        return UCS_OK;
    }

    params.num_dests = ucs_min(addr->dev.num_rails, iface->num_rails);
    for (i = 0; i < params.num_dests; ++i) {
        memcpy(dests[i].gid, addr->dev.rails[i].gid, sizeof(dests[i].gid));
        dests[i].qpn  = addr->ud_qpn[i];
        dests[i].lid  = addr->dev.rails[i].lid;
        dests[i].rail = (uint8_t)i;
    }

    status = uct_vqp_create(iface, &vqp);
    if (status != UCS_OK) {
        return status;
    }

    params.cookie = uct_vqp_cm_random(iface) | 1;
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
