/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state machine of one connection. Pure: libc only.
 *
 * No connection can stay in a state for ever: each state before LIVE has a timer that
 * ends it; LIVE ends by a message or a call of the owner; CLOSING has a timer;
 * CLOSED is reported to the owner, unless the owner has requested it.
 */
#include "core/conn/conn_int.h"

#include "core/conn/connnote.h"
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

void vqp_conn_set_state(vqp_conn_t *conn, vqp_conn_state_t state)
{
    conn->state = (uint8_t)state;
    if (conn->tab->config.log_states) {
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_STATE);
    }
}

/* ---- repetition, and the window of unanswered REQs ---- */

/* The interval is spread by the cookie: thousands of processes whose first message was
 * lost at a busy peer must not repeat it at the same time */
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

/* The timer has expired: repeat the message, and double the interval */
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

void vqp_conn_wait(vqp_conn_t *conn)
{
    conn->due = conn->give_up;
    vqp_conntab_start_timer(conn->tab, conn);
}

void vqp_conn_leave_new(vqp_conn_t *conn)
{
    if (conn->state == VQP_CONN_NEW) {
        --conn->peer->num_new;
    }
}

void vqp_conn_start_waiting(vqp_peer_t *peer)
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

void vqp_conn_start(vqp_conn_t *conn)
{
    vqp_conn_set_state(conn, VQP_CONN_NEW);
    ++conn->peer->num_new;
    vqp_conn_wait(conn);
    vqp_conn_start_waiting(conn->peer);
}

/* ---- the end ---- */

/* Remove the connection from the table, and of the pending actions all but answers and
 * RST */
static void vqp_conn_end(vqp_conn_t *conn, vqp_status_t status)
{
    vqp_conn_t *other = (conn->peer_next != NULL) ? conn->peer_next :
                                                    conn->peer_prev;

    vqp_conntab_cancel(conn->tab, conn,
                       ~(VQP_CONN_ACT_BYE_ACK | VQP_CONN_ACT_RST));
    vqp_conn_leave_new(conn);
    vqp_conn_note_end(conn);
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

void vqp_conn_report_end(vqp_conn_t *conn, vqp_status_t status)
{
    vqp_conn_end(conn, status);
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_END);
}

/* A RST needs the cookie of its receiver. A peer whose cookie is unknown may have received
 * the REQ: its answer will be answered with a RST. */
static void vqp_conn_send_rst(vqp_conn_t *conn, unsigned flags)
{
    if ((conn->peer_cookie != 0) || (conn->asked_by != 0)) {
        conn->rst_flags = (uint8_t)flags;
        vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_RST);
    }
}

static void vqp_conn_send_bye(vqp_conn_t *conn)
{
    vqp_conn_set_state(conn, VQP_CONN_CLOSING);
    conn->want_close = 0;
    conn->give_up    = conn->tab->now + conn->tab->config.close_timeout;
    ++conn->serial;
    vqp_conn_send_repeated(conn, VQP_CONN_ACT_BYE);
}

void vqp_conn_go_live(vqp_conn_t *conn)
{
    vqp_conn_set_state(conn, VQP_CONN_LIVE);
    conn->answers = 0;
    vqp_conntab_stop_timer(conn->tab, conn);
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_LIVE);
    if (conn->want_close) {
        vqp_conn_send_bye(conn);
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
        vqp_conn_send_bye(conn);
    } else {
        /* Become LIVE first: the peer may have received the REQ, or have created a
         * connection with the same number, and has to take part in the close */
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

/* ---- connecting ---- */

/* Common part of vqp_conn_connect() and vqp_conn_accept() */
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
    vqp_conn_note_begin(conn);
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

/* The own REQ uses the number of an unproven connection that is adopted: the peer must be
 * able to have given it */
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
            vqp_conn_note_begin(conn);
            conn->notes.heard = VQP_CONN_HEARD_REQ;
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
        return; /* it has failed or was closed meanwhile */
    }

    conn->qps_wait = 0;
    if (conn->peer_ready) {
        /* If the REP is lost, the peer repeats its REQ */
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

/* The cookie of the peer. Before the peer is proven, a REQ has the required proof instead,
 * if any, and an answer has the cookie of the REQ. */
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
