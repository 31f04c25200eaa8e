/*
 * What moves the connections of an interface: messages that come in, timers,
 * and the actions that go out. Pure: libc only.
 */
#include "core/conntab.h"

#include "core/mark.h"

#include <string.h>

const char *vqp_conntab_action_name(unsigned type)
{
    static const char *const names[] = {
#define VQP_CONNTAB_ACTION_NAME(_name) #_name,
        VQP_CONNTAB_ACTIONS(VQP_CONNTAB_ACTION_NAME)
#undef VQP_CONNTAB_ACTION_NAME
    };

    return (type < VQP_CONNTAB_ACTION_LAST) ? names[type] : "unknown";
}

/*
 * Timers: a list without order, and a lower bound of what is due in it. Only
 * connections that are being set up or closed stand in it.
 */

void vqp_conntab_start_timer(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    if (!conn->timed) {
        conn->timed      = 1;
        conn->timer_prev = NULL;
        conn->timer_next = tab->timers;
        if (tab->timers != NULL) {
            tab->timers->timer_prev = conn;
        }
        tab->timers = conn;
    }

    tab->next_due = vqp_min(tab->next_due, conn->due);
}

void vqp_conntab_stop_timer(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    if (!conn->timed) {
        return;
    }

    conn->timed = 0;
    *((conn->timer_prev != NULL) ? &conn->timer_prev->timer_next :
                                   &tab->timers) = conn->timer_next;
    if (conn->timer_next != NULL) {
        conn->timer_next->timer_prev = conn->timer_prev;
    }
}

uint64_t vqp_conntab_next_timeout(const vqp_conntab_t *tab)
{
    return (tab->timers != NULL) ? tab->next_due : VQP_CONNTAB_NEVER;
}

void vqp_conntab_tick(vqp_conntab_t *tab, uint64_t now)
{
    vqp_conn_t *conn, *next;

    vqp_conntab_set_now(tab, now);
    if (tab->now < tab->next_due) {
        return;
    }

    /* Expiry ends at most the connection itself, so next stays in the list */
    for (conn = tab->timers; conn != NULL; conn = next) {
        next = conn->timer_next;
        if (conn->due <= tab->now) {
            vqp_conn_expire(conn);
        }
    }

    tab->next_due = VQP_CONNTAB_NEVER;
    for (conn = tab->timers; conn != NULL; conn = conn->timer_next) {
        tab->next_due = vqp_min(tab->next_due, conn->due);
    }
}

/*
 * Actions: connections that have some stand in a queue.
 */

void vqp_conntab_post(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo)
{
    conn->todo |= todo;
    if (conn->queued) {
        return;
    }

    conn->queued      = 1;
    conn->action_next = NULL;
    if (tab->action_head == NULL) {
        tab->action_head = conn;
    } else {
        tab->action_tail->action_next = conn;
    }
    tab->action_tail = conn;
}

void vqp_conntab_cancel(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo)
{
    conn->todo &= ~todo;
    if ((todo & VQP_CONN_ACT_CONNECT_QPS) && (tab->rx_conn == conn)) {
        tab->rx_conn = NULL;
    }
}

void vqp_conntab_unqueue(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    vqp_conn_t **ref = &tab->action_head;
    vqp_conn_t *prev = NULL;

    if (!conn->queued) {
        return;
    }

    while (*ref != conn) {
        prev = *ref;
        ref  = &prev->action_next;
    }

    *ref = conn->action_next;
    if (tab->action_tail == conn) {
        tab->action_tail = prev;
    }
    conn->queued = 0;
}

static void vqp_conntab_send_action(vqp_conntab_t *tab,
                                    vqp_conntab_action_t *action,
                                    const vqp_wire_header_t *hdr,
                                    const vqp_conn_dest_t *to,
                                    const vqp_wire_info_t *info)
{
    action->type     = VQP_CONNTAB_SEND;
    action->msg_type = hdr->type;
    action->to       = *to;
    action->len      = vqp_wire_encode(hdr, info, action->data);
    ++tab->stats.sent;
    if (hdr->type == VQP_WIRE_RST) {
        ++tab->stats.rst_sent;
    }
}

static void vqp_conntab_conn_action(vqp_conntab_t *tab, vqp_conn_t *conn,
                                    unsigned todo, vqp_conntab_action_t *action)
{
    vqp_wire_header_t hdr;

    action->conn   = conn;
    action->status = (vqp_status_t)conn->status;
    switch (todo) {
    case VQP_CONN_ACT_CONNECT_QPS:
        action->type = VQP_CONNTAB_CONNECT_QPS;
        action->peer = &tab->rx;
        tab->rx_conn = NULL;
        break;
    case VQP_CONN_ACT_LIVE:
        action->type = VQP_CONNTAB_LIVE;
        break;
    case VQP_CONN_ACT_PEER_CLOSED:
        action->type = VQP_CONNTAB_PEER_CLOSED;
        break;
    case VQP_CONN_ACT_FAILED:
        action->type = VQP_CONNTAB_FAILED;
        break;
    case VQP_CONN_ACT_DESTROY:
        action->type = VQP_CONNTAB_DESTROY;
        break;
    default:
        vqp_conn_header(conn, todo, &hdr);
        vqp_conntab_send_action(tab, action, &hdr,
                                &conn->dests[conn->attempt % conn->num_dests],
                                conn->local);
        break;
    }
}

int vqp_conntab_next_action(vqp_conntab_t *tab, vqp_conntab_action_t *action)
{
    vqp_conn_t *conn;
    unsigned todo;

    action->conn   = NULL;
    action->peer   = NULL;
    action->status = VQP_OK;

    if (tab->rx_create) {
        tab->rx_create = 0;
        action->type   = VQP_CONNTAB_CREATE_PASSIVE;
        action->peer   = &tab->rx;
        return 1;
    }

    if (tab->rx_rst) {
        tab->rx_rst = 0;
        vqp_conntab_send_action(tab, action, &tab->rst, &tab->rst_to, NULL);
        return 1;
    }

    while ((conn = tab->action_head) != NULL) {
        if (conn->todo == 0) {
            vqp_conntab_unqueue(tab, conn);
            continue;
        }

        todo        = conn->todo & -conn->todo;
        conn->todo &= ~todo;
        if (conn->todo == 0) {
            vqp_conntab_unqueue(tab, conn); /* DESTROY is always the last */
        }

        vqp_conntab_conn_action(tab, conn, todo, action);
        return 1;
    }

    return 0;
}

/*
 * Messages
 */

/* Answer a message that belongs to no connection: ids and cookies swapped */
static void vqp_conntab_reset(vqp_conntab_t *tab, const vqp_wire_header_t *hdr,
                              const vqp_conn_dest_t *to)
{
    memset(&tab->rst, 0, sizeof(tab->rst));
    tab->rst.type       = VQP_WIRE_RST;
    tab->rst.features   = tab->config.features;
    tab->rst.number     = hdr->number;
    tab->rst.src_iface  = hdr->dst_iface;
    tab->rst.dst_iface  = hdr->src_iface;
    tab->rst.src_cookie = hdr->dst_cookie;
    tab->rst.dst_cookie = hdr->src_cookie;
    tab->rst_to         = *to;
    tab->rx_rst         = 1;
}

void vqp_conntab_refuse(vqp_conntab_t *tab, const vqp_wire_msg_t *req)
{
    vqp_conntab_reset(tab, &req->hdr, &tab->rx_from);
}

/* The connection that the message names by the own cookie, or by its number */
static vqp_conn_t *vqp_conntab_find(const vqp_conntab_t *tab,
                                    const vqp_wire_header_t *hdr, int *taken)
{
    vqp_conn_t *conn;

    *taken = 0;
    if (hdr->dst_cookie == 0) {
        return vqp_conntab_find_number(tab, hdr->src_iface, hdr->number,
                                       hdr->src_cookie, taken);
    }

    conn = vqp_conntab_find_cookie(tab, hdr->dst_cookie);
    if ((conn == NULL) || (conn->number != hdr->number) ||
        (conn->peer_id != hdr->src_iface) ||
        (conn->cookie == hdr->src_cookie)) {
        return NULL;
    }

    if (conn->peer_cookie == hdr->src_cookie) {
        return conn;
    }

    /* Not known yet: a REP tells it, or a RST that does not know it either */
    if ((conn->peer_cookie == 0) && ((hdr->type == VQP_WIRE_REQ) ||
                                     (hdr->type == VQP_WIRE_REP))) {
        return conn;
    }

    return ((hdr->type == VQP_WIRE_RST) && (hdr->src_cookie == 0)) ? conn :
                                                                     NULL;
}

/* Is it a REQ that a new connection answers? */
static int vqp_conntab_is_new(const vqp_conntab_t *tab,
                              const vqp_wire_header_t *hdr)
{
    const vqp_peer_t *peer;
    const vqp_conn_t *twin;

    if ((hdr->type != VQP_WIRE_REQ) || (hdr->dst_cookie != 0)) {
        return 0;
    }

    peer = vqp_conntab_find_peer(tab, hdr->src_iface);
    if (hdr->src_iface == tab->config.iface_id) {
        /* Only what an own connection sent, once */
        twin = vqp_conntab_find_cookie(tab, hdr->src_cookie);
        vqp_mark(TABLE_LOOP);
        return (twin != NULL) && (twin->peer_id == tab->config.iface_id) &&
               (twin->number == hdr->number) &&
               !vqp_peer_is_used(&tab->loop, hdr->number);
    }

    return (peer == NULL) || !vqp_peer_is_used(peer, hdr->number);
}

static vqp_status_t vqp_conntab_recv_unknown(vqp_conntab_t *tab,
                                             const vqp_conn_dest_t *from)
{
    ++tab->stats.stale;
    if (tab->rx.hdr.type != VQP_WIRE_RST) {
        vqp_conntab_reset(tab, &tab->rx.hdr, from);
    }

    return VQP_ERR_RESET;
}

vqp_status_t vqp_conntab_recv(vqp_conntab_t *tab, const vqp_conn_dest_t *from,
                              const void *data, size_t len, uint64_t now)
{
    const vqp_wire_header_t *hdr = &tab->rx.hdr;
    vqp_conn_t *conn;
    vqp_status_t status;
    int taken;

    vqp_conntab_set_now(tab, now);
    if (tab->rx_create || tab->rx_rst || (tab->rx_conn != NULL)) {
        ++tab->stats.overruns;
        return VQP_ERR_NO_RESOURCE;
    }

    status = vqp_wire_decode(data, len, &tab->rx);
    if (status != VQP_OK) {
        ++*((status == VQP_ERR_UNSUPPORTED) ? &tab->stats.unknown_type :
                                              &tab->stats.malformed);
        return status;
    }

    ++tab->stats.received;
    tab->rx_from = *from;
    if (hdr->features & ~VQP_WIRE_FEATURES_KNOWN) {
        ++tab->stats.unknown_feature;
    }

    if (hdr->dst_iface != tab->config.iface_id) {
        return vqp_conntab_recv_unknown(tab, from);
    }

    conn = vqp_conntab_find(tab, hdr, &taken);
    if (conn != NULL) {
        vqp_conn_recv(conn, &tab->rx);
        return VQP_OK;
    }

    if (taken || !vqp_conntab_is_new(tab, hdr)) {
        vqp_mark_if((hdr->type == VQP_WIRE_REQ) && (hdr->dst_cookie == 0),
                    TABLE_OLD_REQ);
        return vqp_conntab_recv_unknown(tab, from);
    }

    tab->rx_create = 1;
    return VQP_OK;
}
