/*
 * How a connection ends, see connclose.h. Pure: libc only.
 *
 * Every function leaves the connection in a state from which either a timer
 * or an action goes on, so none can be forgotten: CLOSING has a timer that ends
 * it; CLOSED and FAILED were reported to their owner.
 */
#include "core/connclose.h"

#include "core/connretry.h"
#include "core/cover.h"

/* Common teardown: nobody finds the connection any more, and of the pending
 * actions only @a keep are handed out */
static void vqp_conn_end(vqp_conn_t *conn, vqp_conn_state_t state,
                         vqp_status_t status, unsigned keep)
{
    vqp_conn_t *other = (conn->peer_next != NULL) ? conn->peer_next :
                                                    conn->peer_prev;

    vqp_conntab_cancel(conn->tab, conn, ~keep);
    vqp_conn_leave_new(conn);
    vqp_conn_set_state(conn, state);
    conn->status = status;
    if (conn->linked) {
        vqp_conntab_unlink(conn->tab, conn);
        if (other != NULL) {
            vqp_conn_start_waiting(other->peer);
        }
    }
}

void vqp_conn_destroy(vqp_conn_t *conn, vqp_status_t status)
{
    vqp_conn_end(conn, VQP_CONN_CLOSED, status,
                 VQP_CONN_ACT_BYE_ACK | VQP_CONN_ACT_RST);
    conn->owned = 0;
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_DESTROY);
}

/* A failure under an endpoint, or of a side without one */
static void vqp_conn_break(vqp_conn_t *conn, vqp_status_t status)
{
    if (!conn->owned) {
        vqp_conn_destroy(conn, status);
        return;
    }

    vqp_conn_end(conn, VQP_CONN_FAILED, status, VQP_CONN_ACT_RST);
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_FAILED);
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

void vqp_conn_go_live(vqp_conn_t *conn)
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
        vqp_cover(CONN_CLOSE_EARLY);
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

void vqp_conn_release(vqp_conn_t *conn)
{
    if (conn->tab != NULL) {
        vqp_conntab_uncount(conn->tab, conn);
    }
}

void vqp_conn_recv_bye(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
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
        vqp_conntab_post(conn->tab, conn,
                         VQP_CONN_ACT_BYE_ACK | VQP_CONN_ACT_PEER_CLOSED);
        return;
    }

    vqp_cover_if(conn->state == VQP_CONN_CLOSING, CONN_BYE_CROSSING);
    conn->ack_flags = 0;
    vqp_conntab_post(conn->tab, conn, VQP_CONN_ACT_BYE_ACK);
    vqp_conn_destroy(conn, VQP_OK);
}

void vqp_conn_recv_bye_ack(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
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
        vqp_conn_destroy(conn, VQP_OK);
    }
}

void vqp_conn_recv_rst(vqp_conn_t *conn, const vqp_wire_msg_t *msg)
{
    ++conn->tab->stats.rst_received;
    /* The peer's endpoint may have adopted its side again after a BYE: the
     * latest message decides */
    conn->peer_closed = !!(msg->hdr.flags & VQP_WIRE_FLAG_ORDERLY);

    if ((conn->state == VQP_CONN_CLOSING) || conn->want_close) {
        vqp_cover(CONN_RST_CLOSING);
        vqp_conn_destroy(conn, VQP_OK); /* as good as an answer */
    } else {
        vqp_cover_if(conn->owned, CONN_RST_ACTIVE);
        vqp_conn_break(conn, VQP_ERR_RESET);
    }
}
