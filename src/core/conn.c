/*
 * The state machine of one connection. Pure: libc only.
 *
 * Every function leaves the connection in a state from which either a timer
 * or an action goes on, so none can be forgotten: NEW, REQ, PEER, READY and
 * CLOSING have a timer that ends them; LIVE ends with a message or a call of
 * the owner; CLOSED and FAILED have told their owner.
 */
#include "core/conn.h"

#include "core/conntab.h"
#include "core/mark.h"

#include <string.h>

const char *vqp_conn_state_name(unsigned state)
{
    static const char *const names[] = {
#define VQP_CONN_STATE_NAME(_name, _help) #_name,
        VQP_CONN_STATES(VQP_CONN_STATE_NAME)
#undef VQP_CONN_STATE_NAME
    };

    return (state < VQP_CONN_STATE_LAST) ? names[state] : "unknown";
}

/* Spread by the cookie, so that thousands of processes which lost their first
 * message at the same busy peer do not repeat it at the same instant */
static void vqp_conn_set_due(vqp_conn_t *conn)
{
    uint64_t spread = (conn->interval >> 10) * (conn->cookie & 0xff);

    conn->due = vqp_min(conn->tab->now + conn->interval + spread,
                        conn->give_up);
    vqp_conntab_start_timer(conn->tab, conn);
}

/* Send a message that is repeated until it is answered */
static void vqp_conn_send_repeated(vqp_conn_t *conn, unsigned todo)
{
    vqp_conntab_post(conn->tab, conn, todo);
    conn->interval = conn->tab->config.retry_first;
    vqp_conn_set_due(conn);
}

/* Nothing to repeat, but it must not last for ever */
static void vqp_conn_wait(vqp_conn_t *conn)
{
    conn->due = conn->give_up;
    vqp_conntab_start_timer(conn->tab, conn);
}

/* Common end of all lives: nobody finds the connection any more, and of the
 * pending actions only @a keep are handed out */
static void vqp_conn_end(vqp_conn_t *conn, vqp_conn_state_t state,
                         vqp_status_t status, unsigned keep)
{
    vqp_conntab_cancel(conn->tab, conn, ~keep);
    if (conn->state == VQP_CONN_NEW) {
        --conn->peer->num_new;
    }
    conn->state  = (uint8_t)state;
    conn->status = status;
    vqp_conntab_unlink(conn->tab, conn);
}

static void vqp_conn_destroy(vqp_conn_t *conn, vqp_status_t status)
{
    vqp_conn_end(conn, VQP_CONN_CLOSED, status,
                 VQP_CONN_ACT_BYE_ACK | VQP_CONN_ACT_RST);
    conn->owned = 0;
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_DESTROY);
}

/* A failure under an endpoint, or of a side that nobody would miss */
static void vqp_conn_break(vqp_conn_t *conn, vqp_status_t status)
{
    if (!conn->owned) {
        vqp_conn_destroy(conn, status);
        return;
    }

    vqp_conn_end(conn, VQP_CONN_FAILED, status, VQP_CONN_ACT_RST);
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_FAILED);
}

static void vqp_conn_send_rst(vqp_conn_t *conn, unsigned flags)
{
    if (conn->state != VQP_CONN_NEW) {
        conn->rst_flags = (uint8_t)flags;
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_RST);
    }
}

static void vqp_conn_say_bye(vqp_conn_t *conn)
{
    conn->state      = VQP_CONN_CLOSING;
    conn->want_close = 0;
    conn->give_up    = conn->tab->now + conn->tab->config.close_timeout;
    ++conn->serial;
    vqp_conn_send_repeated(conn, VQP_CONN_ACT_BYE);
}

static void vqp_conn_go_live(vqp_conn_t *conn)
{
    conn->state = VQP_CONN_LIVE;
    vqp_conntab_stop_timer(conn->tab, conn);
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_LIVE);
    if (conn->want_close) {
        vqp_conn_say_bye(conn);
    }
}

/* Whom the connection is with: known from the first REQ or REP */
static void vqp_conn_learn(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    const vqp_wire_rail_t *rail;
    vqp_conn_dest_t *dest;
    unsigned i;

    conn->peer_cookie   = msg->hdr.src_cookie;
    conn->peer_features = msg->hdr.features;
    conn->num_dests     = msg->info.num_rails;
    for (i = 0; i < msg->info.num_rails; ++i) {
        rail       = &msg->info.rails[i];
        dest       = &conn->dests[i];
        dest->qpn  = rail->ud_qpn;
        dest->lid  = rail->lid;
        dest->rail = (uint8_t)(i % conn->tab->config.num_rails);
        memcpy(dest->gid, rail->gid, sizeof(dest->gid));
    }

    conn->state      = VQP_CONN_PEER;
    conn->peer_ready = !!(msg->hdr.flags & VQP_WIRE_FLAG_HAVE_YOURS);
    conn->attempt    = 0;
    conn->tab->rx_conn = conn;
    vqp_conntab_cancel(conn->tab, conn, VQP_CONN_ACT_REQ);
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_CONNECT_QPS);
    vqp_conn_wait(conn);
}

/* What connect and accept have in common */
static vqp_status_t vqp_conn_init(struct vqp_conntab *tab, vqp_conn_t *conn,
                                  const vqp_conn_params_t *params,
                                  uint64_t peer_id, uint32_t number)
{
    if ((params->cookie == 0) ||
        (vqp_conntab_find_cookie(tab, params->cookie) != NULL) ||
        (vqp_wire_info_check(params->local) != VQP_OK)) {
        return VQP_ERR_INVALID_PARAM;
    }

    memset(conn, 0, sizeof(*conn));
    conn->tab     = tab;
    conn->cookie  = params->cookie;
    conn->peer_id = peer_id;
    conn->local   = params->local;
    conn->give_up = tab->now + tab->config.connect_timeout;
    return vqp_conntab_link(tab, conn, number);
}

vqp_status_t vqp_conn_connect(struct vqp_conntab *tab, vqp_conn_t *conn,
                              const vqp_conn_params_t *params, uint64_t now)
{
    vqp_status_t status;

    if ((params->peer_id == 0) || (params->num_dests == 0) ||
        (params->num_dests > VQP_MAX_RAILS)) {
        return VQP_ERR_INVALID_PARAM;
    }

    vqp_conntab_set_now(tab, now);
    status = vqp_conn_init(tab, conn, params, params->peer_id, 0);
    if (status != VQP_OK) {
        return status;
    }

    conn->owned     = 1;
    conn->num_dests = (uint8_t)params->num_dests;
    memcpy(conn->dests, params->dests,
           params->num_dests * sizeof(*params->dests));
    ++conn->peer->num_new;
    ++tab->stats.connects;
    vqp_conn_wait(conn);
    vqp_conntab_start_waiting(conn->peer);
    return VQP_OK;
}

vqp_status_t vqp_conn_accept(struct vqp_conntab *tab, vqp_conn_t *conn,
                             const vqp_conn_params_t *params,
                             const vqp_wire_msg_t *req, uint64_t now)
{
    int taken;
    vqp_status_t status;

    vqp_conntab_set_now(tab, now);
    if ((vqp_conntab_find_number(tab, req->hdr.src_iface, req->hdr.number,
                                 req->hdr.src_cookie, &taken) != NULL) ||
        taken) {
        return VQP_ERR_CANCELED;
    }

    status = vqp_conn_init(tab, conn, params, req->hdr.src_iface,
                           req->hdr.number);
    if (status != VQP_OK) {
        return status;
    }

    if (req != &tab->rx) {
        tab->rx = *req;
    }

    conn->passive = 1;
    ++tab->stats.accepts;
    vqp_conn_learn(conn, req);
    return VQP_OK;
}

void vqp_conn_start(vqp_conn_t *conn)
{
    conn->state = VQP_CONN_REQ;
    --conn->peer->num_new;
    vqp_conn_send_repeated(conn, VQP_CONN_ACT_REQ);
}

void vqp_conn_qps_ready(vqp_conn_t *conn, uint64_t now)
{
    vqp_conntab_set_now(conn->tab, now);
    if (conn->state != VQP_CONN_PEER) {
        return; /* it failed or was closed meanwhile */
    }

    if (conn->peer_ready) {
        /* If the REP gets lost, the peer repeats its REQ */
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_REP);
        vqp_conn_go_live(conn);
    } else {
        conn->state = VQP_CONN_READY;
        vqp_conn_send_repeated(conn, VQP_CONN_ACT_REQ);
    }
}

void vqp_conn_first_imm(vqp_conn_t *conn, uint64_t now)
{
    if (conn->state == VQP_CONN_READY) {
        vqp_mark(CONN_FIRST_IMM);
        vqp_conntab_set_now(conn->tab, now);
        vqp_conn_go_live(conn);
    } else if (conn->state == VQP_CONN_PEER) {
        conn->peer_ready = 1;
    }
}

void vqp_conn_close(vqp_conn_t *conn, uint64_t now)
{
    vqp_conntab_set_now(conn->tab, now);
    if (!conn->owned) {
        return;
    }

    conn->owned = 0;
    switch (conn->state) {
    case VQP_CONN_LIVE:
        vqp_conn_say_bye(conn);
        break;
    case VQP_CONN_FAILED:
        vqp_conn_destroy(conn, (vqp_status_t)conn->status);
        break;
    default:
        /* The peer may have seen the REQ, or have given the same number: get
         * LIVE first, so that there are two sides which can agree on the end */
        vqp_mark(CONN_CLOSE_EARLY);
        conn->want_close = 1;
        break;
    }
}

void vqp_conn_abort(vqp_conn_t *conn, uint64_t now)
{
    vqp_conntab_set_now(conn->tab, now);
    if (conn->state == VQP_CONN_CLOSED) {
        return;
    }

    if (conn->state != VQP_CONN_FAILED) {
        vqp_conn_send_rst(conn, conn->owned ? 0 : VQP_WIRE_FLAG_ORDERLY);
    }

    vqp_conn_destroy(conn, VQP_ERR_CANCELED);
}

void vqp_conn_fail(vqp_conn_t *conn, vqp_status_t status, uint64_t now)
{
    vqp_conntab_set_now(conn->tab, now);
    if ((conn->state == VQP_CONN_CLOSED) ||
        (conn->state == VQP_CONN_FAILED)) {
        return;
    }

    vqp_conn_send_rst(conn, 0);
    vqp_conn_break(conn, status);
}

void vqp_conn_drop(vqp_conn_t *conn)
{
    vqp_conn_end(conn, VQP_CONN_CLOSED, VQP_ERR_CANCELED, 0);
    vqp_conntab_unqueue(conn->tab, conn);
}

static void vqp_conn_recv_info(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    int have_yours = !!(msg->hdr.flags & VQP_WIRE_FLAG_HAVE_YOURS);

    if (vqp_conn_is_unanswered(conn)) {
        if (conn->state == VQP_CONN_NEW) {
            --conn->peer->num_new;
        }
        vqp_mark_if(msg->hdr.dst_cookie == 0, CONN_CROSSING);
        vqp_conn_learn(conn, msg);
        vqp_conntab_start_waiting(conn->peer);
        return;
    }

    if ((conn->state == VQP_CONN_PEER) && have_yours && !conn->peer_ready) {
        conn->peer_ready = 1;
    } else if ((conn->state == VQP_CONN_READY) && have_yours) {
        vqp_conn_go_live(conn);
    } else {
        ++conn->tab->stats.duplicates;
    }

    /* While the queue pairs are being connected the answer waits for them */
    if ((msg->hdr.type == VQP_WIRE_REQ) && (conn->state != VQP_CONN_PEER)) {
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_REP);
    }
}

static void vqp_conn_recv_bye(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    int32_t newer = (int32_t)(msg->hdr.serial - conn->peer_serial);

    if ((newer < 0) || (conn->state < VQP_CONN_READY)) {
        vqp_mark(CONN_BYE_STALE);
        ++conn->tab->stats.stale;
        return;
    }

    if (newer == 0) {
        /* Had the answer been another one, the connection would be gone. A
         * peer that has got it, and lives on, drops this copy. */
        vqp_mark(CONN_BYE_TWICE);
        ++conn->tab->stats.duplicates;
        conn->ack_flags = VQP_WIRE_FLAG_STILL_ACTIVE;
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_BYE_ACK);
        return;
    }

    conn->peer_serial = msg->hdr.serial;
    if (conn->state == VQP_CONN_READY) {
        vqp_mark(CONN_BYE_READY);
        vqp_conn_go_live(conn); /* who closes was LIVE, so it has ours */
    }

    if ((conn->state == VQP_CONN_LIVE) && conn->owned) {
        vqp_mark(CONN_BYE_ACTIVE);
        conn->peer_closed = 1;
        conn->ack_flags   = VQP_WIRE_FLAG_STILL_ACTIVE;
        vqp_conntab_post(conn->tab, conn,
                         VQP_CONN_ACT_BYE_ACK | VQP_CONN_ACT_PEER_CLOSED);
        return;
    }

    vqp_mark_if(conn->state == VQP_CONN_CLOSING, CONN_BYE_CROSSING);
    conn->ack_flags = 0;
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_BYE_ACK);
    vqp_conn_destroy(conn, VQP_OK);
}

static void vqp_conn_recv_bye_ack(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    if ((conn->state != VQP_CONN_CLOSING) ||
        (msg->hdr.serial != conn->serial)) {
        ++conn->tab->stats.stale;
        return;
    }

    if (msg->hdr.flags & VQP_WIRE_FLAG_STILL_ACTIVE) {
        vqp_mark(CONN_REVIVED);
        conn->state       = VQP_CONN_LIVE;
        conn->peer_closed = 0;
        vqp_conntab_cancel(conn->tab, conn, VQP_CONN_ACT_BYE);
        vqp_conntab_stop_timer(conn->tab, conn);
    } else {
        vqp_conn_destroy(conn, VQP_OK);
    }
}

static void vqp_conn_recv_rst(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    ++conn->tab->stats.rst_received;
    if (msg->hdr.flags & VQP_WIRE_FLAG_ORDERLY) {
        conn->peer_closed = 1;
    }

    if ((conn->state == VQP_CONN_CLOSING) || conn->want_close) {
        vqp_mark(CONN_RST_CLOSING);
        vqp_conn_destroy(conn, VQP_OK); /* as good as an answer */
    } else {
        vqp_mark_if(conn->owned, CONN_RST_ACTIVE);
        vqp_conn_break(conn, VQP_ERR_RESET);
    }
}

void vqp_conn_recv(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    switch (msg->hdr.type) {
    case VQP_WIRE_REQ:
    case VQP_WIRE_REP:
        vqp_conn_recv_info(conn, msg);
        break;
    case VQP_WIRE_BYE:
        vqp_conn_recv_bye(conn, msg);
        break;
    case VQP_WIRE_BYE_ACK:
        vqp_conn_recv_bye_ack(conn, msg);
        break;
    case VQP_WIRE_RST:
        vqp_conn_recv_rst(conn, msg);
        break;
    default:
        ++conn->tab->stats.ignored;
        break;
    }
}

void vqp_conn_expire(vqp_conn_t *conn)
{
    struct vqp_conntab *tab = conn->tab;

    if (tab->now >= conn->give_up) {
        ++tab->stats.timeouts;
        if (conn->state == VQP_CONN_CLOSING) {
            vqp_mark(CONN_CLOSE_TIMEOUT);
            vqp_conn_destroy(conn, VQP_ERR_TIMEOUT);
        } else {
            vqp_mark(CONN_TIMEOUT);
            vqp_conn_fail(conn, VQP_ERR_TIMEOUT, tab->now);
        }
        return;
    }

    ++tab->stats.retransmits;
    ++conn->retransmits;
    ++conn->attempt;
    vqp_conntab_post(tab, conn,
                     (conn->state == VQP_CONN_CLOSING) ? VQP_CONN_ACT_BYE :
                                                         VQP_CONN_ACT_REQ);
    conn->interval = vqp_min(conn->interval * 2, tab->config.retry_max);
    vqp_conn_set_due(conn);
}

void vqp_conn_header(const vqp_conn_t *conn, unsigned todo,
                     vqp_wire_header_t *hdr)
{
    hdr->features   = conn->tab->config.features;
    hdr->number     = conn->number;
    hdr->src_iface  = conn->tab->config.iface_id;
    hdr->dst_iface  = conn->peer_id;
    hdr->src_cookie = conn->cookie;
    hdr->dst_cookie = conn->peer_cookie;
    hdr->flags      = 0;
    hdr->serial     = 0;

    switch (todo) {
    case VQP_CONN_ACT_REQ:
    case VQP_CONN_ACT_REP:
        hdr->type  = (todo == VQP_CONN_ACT_REQ) ? VQP_WIRE_REQ : VQP_WIRE_REP;
        hdr->flags = (conn->state >= VQP_CONN_READY) ?
                             VQP_WIRE_FLAG_HAVE_YOURS : 0;
        break;
    case VQP_CONN_ACT_BYE:
        hdr->type   = VQP_WIRE_BYE;
        hdr->serial = conn->serial;
        break;
    case VQP_CONN_ACT_BYE_ACK:
        hdr->type   = VQP_WIRE_BYE_ACK;
        hdr->flags  = conn->ack_flags;
        hdr->serial = conn->peer_serial;
        break;
    default:
        hdr->type  = VQP_WIRE_RST;
        hdr->flags = conn->rst_flags;
        break;
    }
}
