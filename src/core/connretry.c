/*
 * The repetition of messages until they are answered, and the window of
 * unanswered REQs. Pure: libc only.
 */
#include "core/connretry.h"

#include "core/cover.h"

/* Spread by the cookie, so that thousands of processes which lost their first
 * message at the same busy peer do not repeat it at the same instant */
static void vqp_conn_set_due(vqp_conn_t *conn)
{
    uint64_t spread = (conn->interval >> 10) * (conn->cookie & 0xff);

    conn->due = vqp_min(conn->tab->now + conn->interval + spread,
                        conn->give_up);
    vqp_conntab_start_timer(conn->tab, conn);
}

void vqp_conn_send_repeated(vqp_conn_t *conn, unsigned todo)
{
    vqp_conntab_post(conn->tab, conn, todo);
    conn->interval = conn->tab->config.retry_first;
    vqp_conn_set_due(conn);
}

void vqp_conn_repeat(vqp_conn_t *conn, unsigned todo)
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

void vqp_conn_start(vqp_conn_t *conn)
{
    vqp_conn_set_state(conn, VQP_CONN_NEW);
    ++conn->peer->num_new;
    vqp_conn_wait(conn);
    vqp_conn_start_waiting(conn->peer);
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
