/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state machine of one connection: what a message of the peer does in each state, see
 * conn.h. Pure: libc only.
 */
#include "core/conn/conn_int.h"

#include "core/conn/connnote.h"
#include "core/cover.h"

#define VQP_CONN_LACKS     2000000000ul /* ns for which a peer may lack what it needs... */
#define VQP_CONN_LACKS_MIN 4            /* ...and further REQs: this process may have stopped */

/* ---- closing ---- */

static void vqp_conn_recv_bye(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    int32_t newer = (int32_t)(msg->hdr.serial - conn->peer_serial);

    if ((newer < 0) || (conn->state < VQP_CONN_READY)) {
        vqp_cover(CONN_BYE_STALE);
        ++conn->tab->stats.stale;
        return;
    }

    if (newer == 0) {
        /* The first answer was STILL_ACTIVE, else the connection would not exist. A
         * peer that has received it drops this copy. */
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
        vqp_conn_go_live(conn); /* the peer was LIVE, so it has our queue pairs */
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
        vqp_conn_report_end(conn, VQP_OK); /* it serves as an answer to BYE */
    } else {
        vqp_cover_if(conn->owned, CONN_RST_ACTIVE);
        vqp_conn_report_end(conn, VQP_ERR_RESET);
    }
}

/* ---- connecting ---- */

/* The peer is proven: @a msg has the own cookie */
static void vqp_conn_set_peer(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    conn->peer_cookie    = msg->hdr.src_cookie;
    conn->peer_features  = msg->hdr.features;
    conn->num_dests      = (uint8_t)vqp_conntab_rails(conn->tab, &msg->info,
                                                      conn->dests);
    conn->peer->answered = conn->tab->now;
    conn->lacks_since    = 0;
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

/* A REQ without the own cookie proves nothing: it may be forged, or an old copy. The
 * answer has the cookie; a message with this cookie proves the peer. */
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
            vqp_conn_set_peer(conn, msg);
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

/* The number was used with this peer before, by a connection whose record was
 * overwritten: connect again with a number above all that the peer has used.
 * @return 0 if the RST does not apply. */
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
    conn->passive  = 0; /* its number is one of this side now, also if it was adopted */
    vqp_conn_start(conn);
    return 1;
}

/* The peer requires a proof before it creates its side */
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

/* The peer has no queue pair or memory for this connection. That may pass: requests are
 * repeated for a while, then the reason is reported, long before connect_timeout. A peer that
 * has asked since then has its own side, which may have been told to pair with this one */
static void vqp_conn_recv_lacks(vqp_conn_t *conn)
{
    if (!vqp_conn_is_unanswered(conn)) {
        ++conn->tab->stats.ignored;
        return;
    }

    ++conn->tab->stats.rst_received;
    if (conn->want_close && (conn->asked_by == 0)) {
        vqp_conn_report_end(conn, VQP_OK); /* there is nothing to close */
    } else if (conn->lacks_since == 0) {
        vqp_cover(CONN_PEER_LACKS);
        conn->lacks_reqs  = conn->notes.reqs;
        conn->lacks_since = conn->tab->now;
    } else if (((uint16_t)(conn->notes.reqs - conn->lacks_reqs) >= VQP_CONN_LACKS_MIN) &&
               (conn->tab->now - conn->lacks_since >= VQP_CONN_LACKS)) {
        vqp_conn_report_end(conn, VQP_ERR_NO_MEMORY);
    }
}

void vqp_conn_recv(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    if (conn->peer_cookie != 0) { /* the message has it */
        vqp_conn_note_rx(conn);
    }
    vqp_conn_note_heard(conn, &msg->hdr);

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
        } else if (msg->hdr.flags & VQP_WIRE_FLAG_LACKS) {
            vqp_conn_recv_lacks(conn);
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
