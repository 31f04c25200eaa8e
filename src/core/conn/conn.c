/*
 * The state machine of one connection. Pure: libc only.
 *
 * Every function leaves the connection in a state from which either a timer
 * or an action goes on, so none can be forgotten: all before LIVE have a timer
 * that ends them; LIVE ends with a message or a call of the owner; CLOSING has a
 * timer that ends it; CLOSED was reported to the owner, or it is the owner's wish.
 */
#include "core/conn/conn.h"

#include "core/cover.h"

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

/* Go to another state; the caller logs the change, if it wants to */
static void vqp_conn_set_state(vqp_conn_t *conn, vqp_conn_state_t state)
{
    conn->state = (uint8_t)state;
    if (conn->tab->config.log_states) {
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_STATE);
    }
}

/* ---- repetition, and the window of unanswered REQs ---- */

/* Spread by the cookie, so that thousands of processes which lost their first
 * message at the same busy peer do not repeat it at the same instant */
static void vqp_conn_set_due(vqp_conn_t *conn)
{
    uint64_t spread = (conn->interval >> 10) * (conn->cookie & 0xff);

    conn->due = vqp_min(conn->tab->now + conn->interval + spread,
                        conn->give_up);
    vqp_conntab_start_timer(conn->tab, conn);
}

/* Send a message, VQP_CONN_ACT_REQ or VQP_CONN_ACT_BYE, and repeat it */
static void vqp_conn_send_repeated(vqp_conn_t *conn, unsigned todo)
{
    vqp_conntab_post(conn->tab, conn, todo);
    conn->interval = conn->tab->config.retry_first;
    vqp_conn_set_due(conn);
}

/* Repeat the message, whose timer is due, after twice the time */
static void vqp_conn_repeat(vqp_conn_t *conn, unsigned todo)
{
    struct vqp_conntab *tab = conn->tab;

    ++tab->stats.retransmits;
    ++conn->retransmits;
    ++conn->attempt;
    vqp_conntab_post(tab, conn, todo);
    conn->interval = vqp_min(conn->interval * 2, tab->config.retry_max);
    vqp_conn_set_due(conn);
}

/* Repeat nothing, but expire at conn->give_up */
static void vqp_conn_wait(vqp_conn_t *conn)
{
    conn->due = conn->give_up;
    vqp_conntab_start_timer(conn->tab, conn);
}

/* It is not NEW any more */
static void vqp_conn_leave_new(vqp_conn_t *conn)
{
    if (conn->state == VQP_CONN_NEW) {
        --conn->peer->num_new;
    }
}

/* Send REQs that wait for the window of unanswered REQs of the peer, as far as it
 * allows */
static void vqp_conn_start_waiting(vqp_peer_t *peer)
{
    uint32_t lowest = 0;
    vqp_conn_t *conn;

    for (conn = peer->first; (conn != NULL) && (peer->num_new > 0);
         conn = conn->peer_next) {
        if (!vqp_conn_is_unanswered(conn)) {
            continue;
        }

        if (lowest == 0) {
            lowest = conn->number;
        } else if ((conn->number - lowest) >= VQP_PEER_MAX_UNANSWERED) {
            vqp_cover(CONN_NEW_WAITS);
            break;
        }

        if (conn->state == VQP_CONN_NEW) {
            vqp_conn_leave_new(conn);
            vqp_conn_set_state(conn, VQP_CONN_REQ);
            vqp_conn_send_repeated(conn, VQP_CONN_ACT_REQ);
        }
    }
}

/* A REQ is to be sent, as soon as the window of its peer allows */
static void vqp_conn_start(vqp_conn_t *conn)
{
    vqp_conn_set_state(conn, VQP_CONN_NEW);
    ++conn->peer->num_new;
    vqp_conn_wait(conn);
    vqp_conn_start_waiting(conn->peer);
}

/* ---- the end ---- */

/* Nobody finds the connection any more. Of the pending actions only answers and RST
 * are handed out */
static void vqp_conn_end(vqp_conn_t *conn, vqp_status_t status)
{
    vqp_conn_t *other = (conn->peer_next != NULL) ? conn->peer_next :
                                                    conn->peer_prev;

    vqp_conntab_cancel(conn->tab, conn,
                       ~(VQP_CONN_ACT_BYE_ACK | VQP_CONN_ACT_RST));
    vqp_conn_leave_new(conn);
    vqp_conn_set_state(conn, VQP_CONN_CLOSED);
    conn->status = status;
    conn->owned  = 0;
    if (conn->linked) {
        vqp_conntab_unlink(conn->tab, conn);
        if (other != NULL) {
            vqp_conn_start_waiting(other->peer);
        }
    }
}

/* End it, and let the owner know */
static void vqp_conn_report_end(vqp_conn_t *conn, vqp_status_t status)
{
    vqp_conn_end(conn, status);
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_END);
}

/* A RST names a cookie of its receiver. A peer of which none is known may have
 * got the REQ: what it answers is answered with a RST then. */
static void vqp_conn_send_rst(vqp_conn_t *conn, unsigned flags)
{
    if ((conn->peer_cookie != 0) || (conn->asked_by != 0)) {
        conn->rst_flags = (uint8_t)flags;
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_RST);
    }
}

static void vqp_conn_say_bye(vqp_conn_t *conn)
{
    vqp_conn_set_state(conn, VQP_CONN_CLOSING);
    conn->want_close = 0;
    conn->give_up    = conn->tab->now + conn->tab->config.close_timeout;
    ++conn->serial;
    vqp_conn_send_repeated(conn, VQP_CONN_ACT_BYE);
}

/* Both sides are connected; a close that waited for it begins */
static void vqp_conn_go_live(vqp_conn_t *conn)
{
    vqp_conn_set_state(conn, VQP_CONN_LIVE);
    conn->answers = 0;
    vqp_conntab_stop_timer(conn->tab, conn);
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_LIVE);
    if (conn->want_close) {
        vqp_conn_say_bye(conn);
    }
}

void vqp_conn_close(vqp_conn_t *conn, uint64_t now)
{
    vqp_conntab_set_now(conn->tab, now);
    if (!conn->owned) {
        return;
    }

    conn->owned = 0;
    if (conn->state == VQP_CONN_LIVE) {
        vqp_conn_say_bye(conn);
    } else {
        /* The peer may have seen the REQ, or have given the same number: get
         * LIVE first, so that there are two sides which can agree on the end */
        vqp_cover(CONN_CLOSE_EARLY);
        conn->want_close = 1;
    }
}

void vqp_conn_abort(vqp_conn_t *conn, int is_orderly, uint64_t now)
{
    vqp_conntab_set_now(conn->tab, now);
    if (conn->state != VQP_CONN_CLOSED) {
        vqp_conn_send_rst(conn, is_orderly ? VQP_WIRE_FLAG_ORDERLY : 0);
        vqp_conn_end(conn, VQP_ERR_CANCELED);
    }
}

void vqp_conn_fail(vqp_conn_t *conn, vqp_status_t status, uint64_t now)
{
    vqp_conntab_set_now(conn->tab, now);
    if (conn->state != VQP_CONN_CLOSED) {
        vqp_conn_send_rst(conn, 0);
        vqp_conn_report_end(conn, status);
    }
}

void vqp_conn_release(vqp_conn_t *conn)
{
    if (conn->tab != NULL) {
        vqp_conntab_uncount(conn->tab, conn);
    }
}

static void vqp_conn_recv_bye(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    int32_t newer = (int32_t)(msg->hdr.serial - conn->peer_serial);

    if ((newer < 0) || (conn->state < VQP_CONN_READY)) {
        vqp_cover(CONN_BYE_STALE);
        ++conn->tab->stats.stale;
        return;
    }

    if (newer == 0) {
        /* Had the answer been another one, the connection would be gone. A
         * peer that has got it, and stays, drops this copy. */
        vqp_cover(CONN_BYE_TWICE);
        ++conn->tab->stats.duplicates;
        conn->ack_flags = VQP_WIRE_FLAG_STILL_ACTIVE;
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_BYE_ACK);
        return;
    }

    conn->peer_serial = msg->hdr.serial;
    conn->answers     = 0;
    if (conn->state == VQP_CONN_READY) {
        vqp_cover(CONN_BYE_READY);
        vqp_conn_go_live(conn); /* who closes was LIVE, so it has ours */
    }

    if ((conn->state == VQP_CONN_LIVE) && conn->owned) {
        vqp_cover(CONN_BYE_ACTIVE);
        conn->peer_closed = 1;
        conn->ack_flags   = VQP_WIRE_FLAG_STILL_ACTIVE;
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_BYE_ACK);
        return;
    }

    vqp_cover_if(conn->state == VQP_CONN_CLOSING, CONN_BYE_CROSSING);
    conn->ack_flags = 0;
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_BYE_ACK);
    vqp_conn_report_end(conn, VQP_OK);
}

static void vqp_conn_recv_bye_ack(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    if ((conn->state != VQP_CONN_CLOSING) ||
        (msg->hdr.serial != conn->serial)) {
        ++conn->tab->stats.stale;
        return;
    }

    if (msg->hdr.flags & VQP_WIRE_FLAG_STILL_ACTIVE) {
        vqp_cover(CONN_REVIVED);
        vqp_conn_set_state(conn, VQP_CONN_LIVE);
        conn->peer_closed = 0;
        vqp_conntab_cancel(conn->tab, conn, VQP_CONN_ACT_BYE);
        vqp_conntab_stop_timer(conn->tab, conn);
    } else {
        vqp_conn_report_end(conn, VQP_OK);
    }
}

static void vqp_conn_recv_rst(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    ++conn->tab->stats.rst_received;
    /* The peer's endpoint may have adopted its side again after a BYE: the
     * latest message decides */
    conn->peer_closed = !!(msg->hdr.flags & VQP_WIRE_FLAG_ORDERLY);

    if ((conn->state == VQP_CONN_CLOSING) || conn->want_close) {
        vqp_cover(CONN_RST_CLOSING);
        vqp_conn_report_end(conn, VQP_OK); /* as good as an answer */
    } else {
        vqp_cover_if(conn->owned, CONN_RST_ACTIVE);
        vqp_conn_report_end(conn, VQP_ERR_RESET);
    }
}

/* ---- connecting ---- */

/* The peer has proven that it hears us: @a msg has the own cookie */
static void vqp_conn_learn(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    conn->peer_cookie    = msg->hdr.src_cookie;
    conn->peer_features  = msg->hdr.features;
    conn->num_dests      = (uint8_t)vqp_conntab_rails(conn->tab, &msg->info,
                                                      conn->dests);
    conn->peer->answered = conn->tab->now;
    vqp_conntab_proven(conn->tab, conn);
    vqp_conn_leave_new(conn);
    if (conn->state == VQP_CONN_ASKED) {
        conn->give_up = conn->tab->now + conn->tab->config.connect_timeout;
    }

    vqp_conn_set_state(conn, VQP_CONN_PEER);
    conn->peer_ready = !!(msg->hdr.flags & VQP_WIRE_FLAG_HAVE_YOURS);
    conn->answers    = 0;
    conn->tab->rx_conn = conn;
    vqp_conntab_cancel(conn->tab, conn, VQP_CONN_ACT_REQ | VQP_CONN_ACT_REP);
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_CONNECT_QPS);
    vqp_conn_wait(conn);
    vqp_conn_start_waiting(conn->peer);
}

/* What connect and accept have in common */
static vqp_status_t vqp_conn_init(struct vqp_conntab *tab, vqp_conn_t *conn,
                                  const vqp_conn_params_t *params,
                                  uint64_t peer_id, uint64_t identity,
                                  uint32_t number)
{
    if ((params->cookie == 0) ||
        (vqp_conntab_find_cookie(tab, params->cookie) != NULL) ||
        (vqp_wire_info_check(params->local) != VQP_OK)) {
        return VQP_ERR_INVALID_PARAM;
    }

    memset(conn, 0, sizeof(*conn));
    conn->tab      = tab;
    conn->cookie   = params->cookie;
    conn->peer_id  = peer_id;
    conn->identity = identity;
    conn->local    = params->local;
    conn->give_up  = tab->now + tab->config.connect_timeout;
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
    status = vqp_conn_init(tab, conn, params, params->peer_id,
                           vqp_conntab_identity(tab, params->peer_id,
                                                params->dests,
                                                params->num_dests), 0);
    if (status != VQP_OK) {
        return status;
    }

    conn->owned     = 1;
    conn->num_dests = (uint8_t)params->num_dests;
    memcpy(conn->dests, params->dests,
           params->num_dests * sizeof(*params->dests));
    ++tab->stats.connects;
    vqp_conn_start(conn);
    return VQP_OK;
}

vqp_status_t vqp_conn_accept(struct vqp_conntab *tab, vqp_conn_t *conn,
                             const vqp_conn_params_t *params,
                             const vqp_wire_msg_t *req, uint64_t now)
{
    vqp_conn_dest_t dests[VQP_MAX_RAILS];
    unsigned num_dests;
    uint64_t identity;
    vqp_status_t status;
    int taken;

    vqp_conntab_set_now(tab, now);
    num_dests = vqp_conntab_rails(tab, &req->info, dests);
    identity  = vqp_conntab_identity(tab, req->hdr.src_iface, dests, num_dests);
    if ((vqp_conntab_find_number(tab, identity, req->hdr.number,
                                 req->hdr.src_cookie, &taken) != NULL) ||
        taken) {
        return VQP_ERR_CANCELED;
    }

    status = vqp_conn_init(tab, conn, params, req->hdr.src_iface, identity,
                           req->hdr.number);
    if (status != VQP_OK) {
        return status;
    }

    conn->passive   = 1;
    conn->unproven  = !tab->rx_proven || (req != &tab->rx);
    conn->asked_by  = req->hdr.src_cookie;
    conn->num_dests = (uint8_t)num_dests;
    conn->from      = (req == &tab->rx) ? tab->rx_from : dests[0];
    memcpy(conn->dests, dests, num_dests * sizeof(*dests));
    tab->num_unproven += conn->unproven;
    ++tab->stats.accepts;
    vqp_conn_set_state(conn, VQP_CONN_ASKED);
    vqp_conntab_post(tab, conn, VQP_CONN_ACT_REP);
    vqp_conn_wait(conn);
    return VQP_OK;
}

/* Adopting an unproven connection takes its number for the own REQ: it has to
 * be one that the peer can have given */
static int vqp_conn_is_adoptable(const vqp_conn_t *conn)
{
    uint32_t highest = conn->peer->highest;

    return !conn->owned && (conn->state <= VQP_CONN_LIVE) &&
           ((conn->state != VQP_CONN_ASKED) || (conn->number <= highest) ||
            (conn->number - highest <= VQP_PEER_MAX_UNANSWERED));
}

vqp_conn_t *vqp_conn_adopt(struct vqp_conntab *tab, uint64_t peer_id,
                           const vqp_conn_dest_t *dests, unsigned num_dests,
                           uint64_t now)
{
    uint64_t identity = vqp_conntab_identity(tab, peer_id, dests, num_dests);
    const vqp_peer_t *peer = vqp_conntab_find_peer(tab, identity);
    vqp_conn_t *conn;

    vqp_conntab_set_now(tab, now);
    for (conn = (peer != NULL) ? peer->first : NULL; conn != NULL;
         conn = conn->peer_next) {
        if (!vqp_conn_is_adoptable(conn)) {
            continue;
        }

        vqp_cover(TABLE_ADOPT);
        vqp_cover_if(conn->state != VQP_CONN_LIVE, TABLE_ADOPT_EARLY);
        conn->owned      = 1;
        conn->want_close = 0;
        ++tab->stats.adoptions;
        if (conn->state == VQP_CONN_ASKED) {
            vqp_cover(TABLE_ADOPT_ASKED);
            vqp_conntab_uncount(tab, conn);
            conn->give_up = tab->now + tab->config.connect_timeout;
            vqp_conn_start(conn);
        }
        return conn;
    }

    return NULL;
}

void vqp_conn_qps_ready(vqp_conn_t *conn, uint64_t now)
{
    vqp_conntab_set_now(conn->tab, now);
    if (conn->state != VQP_CONN_PEER) {
        return; /* it failed or was closed meanwhile */
    }

    conn->qps_wait = 0;
    if (conn->peer_ready) {
        /* If the REP gets lost, the peer repeats its REQ */
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_REP);
        vqp_conn_go_live(conn);
    } else {
        vqp_conn_set_state(conn, VQP_CONN_READY);
        vqp_conn_send_repeated(conn, VQP_CONN_ACT_REQ);
    }
}

void vqp_conn_qps_wait(vqp_conn_t *conn, uint64_t now)
{
    vqp_conntab_set_now(conn->tab, now);
    if ((conn->state == VQP_CONN_PEER) && !conn->qps_wait) {
        vqp_cover(CONN_QPS_WAIT);
        conn->qps_wait = 1;
        vqp_conn_send_repeated(conn, VQP_CONN_ACT_REQ);
    }
}

void vqp_conn_first_imm(vqp_conn_t *conn, uint64_t now)
{
    if (conn->state == VQP_CONN_READY) {
        vqp_cover(CONN_FIRST_IMM);
        vqp_conntab_set_now(conn->tab, now);
        vqp_conn_go_live(conn);
    } else if (conn->state == VQP_CONN_PEER) {
        conn->peer_ready = 1;
    }
}

/* A REQ without the own cookie proves nothing: it may be a forged one, or an old
 * copy. The answer has the cookie; what comes back with it is the peer. */
static void vqp_conn_recv_unproven(vqp_conn_t *conn, const vqp_wire_msg_t *req)
{
    vqp_cover_if(conn->state == VQP_CONN_ASKED, CONN_ASKED_TWICE);
    vqp_cover_if(conn->state != VQP_CONN_ASKED, CONN_CROSSING);
    if (conn->asked_by == req->hdr.src_cookie) {
        ++conn->tab->stats.duplicates;
    }

    conn->asked_by = req->hdr.src_cookie;
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_REP);
}

static void vqp_conn_recv_info(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    int have_yours = !!(msg->hdr.flags & VQP_WIRE_FLAG_HAVE_YOURS);

    if (conn->peer_cookie == 0) {
        if (msg->hdr.dst_cookie == 0) {
            vqp_conn_recv_unproven(conn, msg);
        } else {
            vqp_conn_learn(conn, msg);
        }
        return;
    }

    if ((conn->state == VQP_CONN_PEER) && have_yours && !conn->peer_ready) {
        conn->peer_ready = 1;
    } else if ((conn->state == VQP_CONN_READY) && have_yours) {
        vqp_conn_go_live(conn);
    } else {
        ++conn->tab->stats.duplicates;
    }

    if ((conn->state == VQP_CONN_PEER) && conn->qps_wait) {
        conn->tab->rx_conn = conn;
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_CONNECT_QPS);
    }

    /* While the queue pairs are being connected the answer waits for them */
    if ((msg->hdr.type == VQP_WIRE_REQ) && (conn->state != VQP_CONN_PEER)) {
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_REP);
    }
}

/* The peer has used the number, which the record here, lost since, did not
 * know: ask again above all that it has used. @return 0 if that can not be. */
static int vqp_conn_take_hint(vqp_conn_t *conn, const vqp_wire_header_t *rst)
{
    if (!(rst->flags & VQP_WIRE_FLAG_NUMBER_USED) || conn->want_close ||
        !vqp_conn_is_unanswered(conn) ||
        (vqp_conntab_renumber(conn->tab, conn, rst->serial) != VQP_OK)) {
        return 0;
    }

    ++conn->tab->stats.rst_received;
    vqp_conntab_cancel(conn->tab, conn, VQP_CONN_ACT_REQ | VQP_CONN_ACT_REP);
    vqp_conn_leave_new(conn);
    conn->asked_by = 0;
    conn->proof    = 0;
    conn->passive  = 0; /* one that was adopted has a number of this side now */
    vqp_conn_start(conn);
    return 1;
}

/* The peer wants a proof before it makes its side */
static void vqp_conn_recv_prove(vqp_conn_t *conn, const vqp_wire_header_t *rst)
{
    if (!vqp_conn_is_unanswered(conn) || (rst->src_cookie == 0) ||
        (rst->src_cookie == conn->proof)) {
        ++conn->tab->stats.ignored;
        return;
    }

    vqp_cover(CONN_PROVES);
    conn->proof = rst->src_cookie;
    if (conn->state != VQP_CONN_NEW) {
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_REQ);
    }
}

void vqp_conn_recv(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    if (conn->peer_cookie != 0) { /* and it is in the message */
        vqp_conn_note_heard(conn);
    }

    if ((msg->hdr.type == VQP_WIRE_REQ) || (msg->hdr.type == VQP_WIRE_BYE)) {
        conn->from = conn->tab->rx_from;
    }

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
        if (msg->hdr.flags & VQP_WIRE_FLAG_PROVE) {
            vqp_conn_recv_prove(conn, &msg->hdr);
        } else if (!vqp_conn_take_hint(conn, &msg->hdr)) {
            vqp_conn_recv_rst(conn, msg);
        }
        break;
    default: /* PATH_DOWN, PATH_UP */
        if ((conn->state >= VQP_CONN_READY) &&
            (conn->state <= VQP_CONN_CLOSING)) {
            conn->tab->rx_path = conn;
        } else {
            ++conn->tab->stats.ignored;
        }
        break;
    }
}

void vqp_conn_wait_for_busy_peer(vqp_conn_t *conn)
{
    if ((conn->state == VQP_CONN_NEW) || (conn->state == VQP_CONN_REQ) ||
        (conn->state == VQP_CONN_READY)) {
        conn->give_up = vqp_max(conn->give_up,
                                conn->peer->answered +
                                        conn->tab->config.connect_timeout);
    }
}

void vqp_conn_expire(vqp_conn_t *conn)
{
    struct vqp_conntab *tab = conn->tab;

    if (tab->now >= conn->give_up) {
        vqp_conn_wait_for_busy_peer(conn);
        vqp_cover_if(tab->now < conn->give_up, CONN_PEER_IS_BUSY);
    }

    if (tab->now >= conn->give_up) {
        ++tab->stats.timeouts;
        if (conn->state == VQP_CONN_CLOSING) {
            vqp_cover(CONN_CLOSE_TIMEOUT);
            vqp_conn_report_end(conn, VQP_ERR_TIMEOUT);
        } else if (conn->state == VQP_CONN_ASKED) {
            vqp_conn_report_end(conn, VQP_ERR_TIMEOUT);
        } else {
            vqp_cover(CONN_TIMEOUT);
            vqp_conn_fail(conn, VQP_ERR_TIMEOUT, tab->now);
        }
        return;
    }

    if (conn->state == VQP_CONN_CLOSING) {
        vqp_conn_repeat(conn, VQP_CONN_ACT_BYE);
    } else if ((conn->state == VQP_CONN_REQ) || (conn->state == VQP_CONN_READY) ||
               conn->qps_wait) {
        vqp_conn_repeat(conn, VQP_CONN_ACT_REQ);
    } else {
        vqp_conn_wait(conn); /* it got more time */
    }
}

/* A message names the cookie that the peer has given. In the answer to a REQ that
 * lacks ours it is that of the REQ. A REQ has the proof instead, if one is wanted. */
static uint64_t vqp_conn_dst_cookie(const vqp_conn_t *conn, unsigned todo)
{
    if (conn->peer_cookie != 0) {
        return conn->peer_cookie;
    }

    return (todo == VQP_CONN_ACT_REQ) ? conn->proof : conn->asked_by;
}

void vqp_conn_header(const vqp_conn_t *conn, unsigned todo,
                     vqp_wire_header_t *hdr)
{
    hdr->features   = conn->tab->config.features;
    hdr->number     = conn->number;
    hdr->src_iface  = conn->tab->config.iface_id;
    hdr->dst_iface  = conn->peer_id;
    hdr->src_cookie = conn->cookie;
    hdr->dst_cookie = vqp_conn_dst_cookie(conn, todo);
    hdr->flags      = 0;
    hdr->serial     = 0;

    switch (todo) {
    case VQP_CONN_ACT_REQ:
    case VQP_CONN_ACT_REP:
        hdr->type  = (todo == VQP_CONN_ACT_REQ) ? VQP_WIRE_REQ : VQP_WIRE_REP;
        hdr->flags = (conn->state >= VQP_CONN_READY) ?
                             VQP_WIRE_FLAG_HAVE_YOURS : 0;
        if ((todo == VQP_CONN_ACT_REQ) && (conn->peer_cookie == 0) &&
            (conn->proof != 0)) {
            hdr->flags |= VQP_WIRE_FLAG_PROVE;
        }
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
