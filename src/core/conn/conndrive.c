/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of the connections of an interface, see conndrive.h. Pure: libc only.
 */
#include "core/conn/conndrive.h"

#include "core/conn/connnote.h"
#include "core/cover.h"

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

uint64_t vqp_conntab_next_timeout(const vqp_conntab_t *tab)
{
    return (tab->timers != NULL) ? tab->next_due : VQP_CONNTAB_NEVER;
}

/* The process was stopped, or got no CPU, for @a late ns, and repeated no message. Extend
 * the time-outs by that time. None exceeds a full time-out from now: some connections
 * have begun to wait since. */
static void vqp_conntab_delay(vqp_conntab_t *tab, uint64_t late)
{
    vqp_conn_t *conn;
    uint64_t timeout;

    vqp_cover(CONN_TIMER_LATE);
    for (conn = tab->timers; conn != NULL; conn = conn->timer_next) {
        timeout = (conn->state == VQP_CONN_CLOSING) ?
                          tab->config.close_timeout :
                          tab->config.connect_timeout;
        vqp_conn_wait_for_busy_peer(conn);
        conn->give_up = vqp_min(conn->give_up + late, tab->now + timeout);
    }
}

void vqp_conntab_tick(vqp_conntab_t *tab, uint64_t now)
{
    vqp_conn_t *conn, *next;

    vqp_conntab_set_now(tab, now);
    if (tab->now < tab->next_due) {
        return;
    }

    if ((tab->timers != NULL) &&
        ((tab->now - tab->next_due) > VQP_CONNTAB_LATE)) {
        vqp_conntab_delay(tab, tab->now - tab->next_due);
    }

    /* Expiry removes at most conn from the list, so next stays in it */
    for (conn = tab->timers; conn != NULL; conn = next) {
        next = conn->timer_next;
        if (conn->due <= tab->now) {
            vqp_conn_expire(conn);
        }
    }

    vqp_conntab_restart_timer(tab);
    for (conn = tab->timers; conn != NULL; conn = conn->timer_next) {
        tab->next_due = vqp_min(tab->next_due, conn->due);
    }
}

void vqp_conntab_send_action(vqp_conntab_t *tab, vqp_conntab_action_t *action,
                             const vqp_wire_header_t *hdr,
                             const vqp_conn_dest_t *to, const void *body)
{
    action->type     = VQP_CONNTAB_SEND;
    action->msg_type = hdr->type;
    action->to       = *to;
    action->len      = vqp_wire_encode(hdr, body, action->data);
    ++tab->stats.sent;
    if (hdr->type == VQP_WIRE_RST) {
        ++tab->stats.rst_sent;
    }
}

unsigned
vqp_conn_set_route(const vqp_conn_t *conn, unsigned turn, vqp_conn_dest_t *to)
{
    unsigned num_rails = conn->tab->config.num_rails;
    unsigned a         = num_rails;
    unsigned b         = conn->num_dests;
    unsigned rest, dest;

    for (; b != 0; a = b, b = rest) { /* greatest common divisor of both */
        rest = a % b;
    }

    /* After each common multiple shift by one, which gives the other pairs */
    dest     = (turn + (turn / (num_rails / a * conn->num_dests)) % a) %
               conn->num_dests;
    *to      = conn->dests[dest];
    to->rail = (uint8_t)(turn % num_rails);
    return dest;
}

/* A repeated message takes each rail in turn. An answer goes to the source of the request;
 * answers to its copies take each rail in turn: the request may pass a route whose reverse
 * direction loses the answers. */
static void vqp_conntab_route(vqp_conn_t *conn, unsigned todo,
                              vqp_conn_dest_t *to)
{
    unsigned num_rails = conn->tab->config.num_rails;
    unsigned turn      = conn->attempt;

    if (todo & (VQP_CONN_ACT_REP | VQP_CONN_ACT_BYE_ACK)) {
        turn = conn->answers++;
        if (turn == 0) {
            *to               = conn->from;
            conn->answer_rail = vqp_conn_rail_of(conn, to);
            return;
        }
        vqp_cover(CONN_ANSWER_ROTATES);
        turn += conn->answer_rail;
    } else if (todo & VQP_CONN_ACT_RST) {
        turn += conn->rsts;
    }

    *to      = conn->dests[turn % conn->num_dests];
    to->rail = (uint8_t)(turn % num_rails);
}

static void vqp_conntab_conn_action(vqp_conntab_t *tab, vqp_conn_t *conn,
                                    unsigned todo, vqp_conntab_action_t *action)
{
    vqp_wire_header_t hdr;
    vqp_conn_dest_t to;

    action->conn   = conn;
    action->status = (vqp_status_t)conn->status;
    switch (todo) {
    case VQP_CONN_ACT_STATE:
        action->type = VQP_CONNTAB_STATE;
        break;
    case VQP_CONN_ACT_CONNECT_QPS:
        action->type = VQP_CONNTAB_CONNECT_QPS;
        action->peer = &tab->rx;
        tab->rx_conn = NULL;
        break;
    case VQP_CONN_ACT_LIVE:
        action->type = VQP_CONNTAB_LIVE;
        break;
    case VQP_CONN_ACT_END:
        action->type = VQP_CONNTAB_END;
        break;
    default:
        vqp_conn_header(conn, todo, &hdr);
        vqp_conntab_route(conn, todo, &to);
        vqp_conn_note_sent(conn, hdr.type, &to);
        vqp_conntab_send_action(tab, action, &hdr, &to, conn->local);
        break;
    }
}

/* The next pair of rails that avoids those of @a avoid, if there is one */
static void vqp_conn_path_route(vqp_conn_t *conn, const vqp_conn_route_t *avoid,
                                vqp_conn_dest_t *to)
{
    unsigned num_rails = conn->tab->config.num_rails;
    unsigned tries     = 2 * vqp_max(num_rails, conn->num_dests);
    unsigned dest;

    do {
        dest = vqp_conn_set_route(conn, conn->path_turn++, to);
    } while ((avoid != NULL) && (--tries > 0) &&
             (((num_rails > 1) && (to->rail == avoid->rail)) ||
              ((conn->num_dests > 1) && (dest == avoid->peer_rail))));
}

int vqp_conntab_path_message(vqp_conn_t *conn, vqp_wire_type_t type,
                             uint16_t flags, uint32_t epoch,
                             const void *body, const vqp_conn_route_t *avoid,
                             vqp_conntab_action_t *action)
{
    vqp_conntab_t *tab = conn->tab;
    vqp_wire_header_t hdr;
    vqp_conn_dest_t to;

    if ((conn->state != VQP_CONN_LIVE) && (conn->state != VQP_CONN_CLOSING)) {
        return 0; /* the peer may not have the cookie yet, or any more */
    }

    vqp_conn_path_route(conn, avoid, &to);
    vqp_conn_header(conn, VQP_CONN_ACT_BYE, &hdr);
    hdr.type       = type;
    hdr.flags      = flags;
    hdr.serial     = epoch;
    action->conn   = conn;
    action->peer   = NULL;
    action->status = VQP_OK;
    ++tab->stats.path_sent;
    vqp_conntab_send_action(tab, action, &hdr, &to, body);
    return 1;
}

/* A RST is not answered, so it is not repeated: one copy goes to each rail */
static int vqp_conntab_was_last_rst(vqp_conn_t *conn)
{
    if (++conn->rsts < vqp_max(conn->tab->config.num_rails, conn->num_dests)) {
        vqp_cover(CONN_RST_RAILS);
        return 0;
    }

    conn->rsts = 0;
    return 1;
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

    if (tab->rx_path != NULL) {
        action->type = VQP_CONNTAB_PATH_MSG;
        action->conn = tab->rx_path;
        action->peer = &tab->rx;
        tab->rx_path = NULL;
        return 1;
    }

    if (tab->rx_rst) {
        tab->rx_rst = 0;
        vqp_conntab_send_action(tab, action, &tab->rst, &tab->rst_to, NULL);
        return 1;
    }

    while ((conn = tab->action_head) != NULL) {
        if (conn->todo == 0) {
            vqp_conntab_unqueue(tab);
            continue;
        }

        todo = conn->todo & -conn->todo;
        vqp_conntab_conn_action(tab, conn, todo, action);
        if ((todo != VQP_CONN_ACT_RST) || vqp_conntab_was_last_rst(conn)) {
            conn->todo &= ~todo;
        }
        if (conn->todo == 0) {
            vqp_conntab_unqueue(tab); /* END is always the last action */
        }
        return 1;
    }

    return 0;
}

/*
 * Messages
 */

/* Answer a message that belongs to no connection by a RST, with ids and cookies swapped */
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

void vqp_conntab_lack(vqp_conntab_t *tab, const vqp_wire_msg_t *req)
{
    vqp_conntab_reset(tab, &req->hdr, &tab->rx_from);
    tab->rst.src_cookie = 0; /* a REQ with a proof has one: there is no side here */
    tab->rst.flags      = VQP_WIRE_FLAG_LACKS;
}

/* May a message with the own cookie prove the peer of the connection, whose cookie is not
 * known yet? */
static int vqp_conntab_may_prove(const vqp_conntab_t *tab,
                                 const vqp_conn_t *conn,
                                 const vqp_wire_header_t *hdr)
{
    switch (hdr->type) {
    case VQP_WIRE_REQ:
    case VQP_WIRE_REP:
        return tab->rx_identity == conn->identity;
    case VQP_WIRE_RST:
        /* It answers the REQ, which had no cookie of the peer. If it has one, its
         * sender did not send the REQ that was answered here. */
        return (hdr->src_cookie == 0) || (conn->state == VQP_CONN_ASKED) ||
               (hdr->flags & VQP_WIRE_FLAG_PROVE);
    default:
        return 0;
    }
}

/* The connection of the message: by the own cookie, or by its number */
static vqp_conn_t *vqp_conntab_find(const vqp_conntab_t *tab,
                                    const vqp_wire_header_t *hdr, int *taken)
{
    vqp_conn_t *conn;

    *taken = 0;
    if (hdr->dst_cookie == 0) {
        return (hdr->type == VQP_WIRE_REQ) ?
                       vqp_conntab_find_number(tab, tab->rx_identity,
                                               hdr->number, hdr->src_cookie,
                                               taken) : NULL;
    }

    conn = vqp_conntab_find_cookie(tab, hdr->dst_cookie);
    if ((conn == NULL) || (conn->number != hdr->number) ||
        (conn->peer_id != hdr->src_iface) ||
        (conn->cookie == hdr->src_cookie)) {
        return NULL;
    }

    /* Once both cookies are known, both must match */
    return ((conn->peer_cookie == hdr->src_cookie) ||
            ((conn->peer_cookie == 0) &&
             vqp_conntab_may_prove(tab, conn, hdr))) ? conn : NULL;
}

/* Was the REQ, from the own interface, sent by a connection of this table? */
static int vqp_conntab_is_own(const vqp_conntab_t *tab,
                              const vqp_wire_header_t *hdr)
{
    const vqp_conn_t *twin = vqp_conntab_find_cookie(tab, hdr->src_cookie);

    vqp_cover(TABLE_LOOP);
    return (twin != NULL) && (twin->peer_id == tab->config.iface_id) &&
           (twin->number == hdr->number);
}

static vqp_status_t vqp_conntab_recv_unknown(vqp_conntab_t *tab)
{
    ++tab->stats.stale;
    if (tab->rx.hdr.type != VQP_WIRE_RST) {
        vqp_conntab_reset(tab, &tab->rx.hdr, &tab->rx_from);
    }

    return VQP_ERR_RESET;
}

/* A REQ without a connection. @a taken: see vqp_conntab_find_number(). */
static vqp_status_t vqp_conntab_recv_new(vqp_conntab_t *tab, int taken)
{
    const vqp_wire_header_t *hdr = &tab->rx.hdr;
    const vqp_peer_t *peer = vqp_conntab_find_peer(tab, tab->rx_identity);
    const vqp_peer_t *used = peer;

    if (hdr->src_iface == tab->config.iface_id) {
        if (!vqp_conntab_is_own(tab, hdr)) {
            return vqp_conntab_recv_unknown(tab);
        }
        used = &tab->loop;
    }

    if (taken || ((used != NULL) && vqp_peer_is_used(used, hdr->number))) {
        vqp_cover(TABLE_OLD_REQ);
        (void)vqp_conntab_recv_unknown(tab);
        tab->rst.flags  = VQP_WIRE_FLAG_NUMBER_USED;
        tab->rst.serial = (peer != NULL) ? peer->highest : 0;
        return VQP_ERR_RESET;
    }

    if (!tab->rx_proven && (tab->num_unproven >= tab->config.max_unproven)) {
        vqp_cover(TABLE_REFUSED);
        ++tab->stats.refused;
        vqp_conntab_reset(tab, hdr, &tab->rx_from);
        tab->rst.flags      = VQP_WIRE_FLAG_PROVE;
        tab->rst.src_cookie = vqp_conntab_proof(tab, tab->rx_identity, hdr);
        return VQP_ERR_NO_RESOURCE;
    }

    tab->rx_create = 1;
    return VQP_OK;
}

/* Note the identity of the sender of a REQ or REP. @return 0 if its source is none of the
 * rails in it: an answer would prove nothing. */
static int vqp_conntab_identify(vqp_conntab_t *tab)
{
    vqp_conn_dest_t rails[VQP_MAX_RAILS];
    unsigned i, num;

    num = vqp_conntab_rails(tab, &tab->rx.info, rails);
    tab->rx_identity = vqp_conntab_identity(tab, tab->rx.hdr.src_iface, rails,
                                            num);
    for (i = 0; i < num; ++i) {
        if (vqp_conntab_is_rail(&rails[i], &tab->rx_from)) {
            return 1;
        }
    }

    return 0;
}

/* A REQ with a proof has it in the place of the own cookie. An invalid proof is treated as
 * none. */
static void vqp_conntab_check_proof(vqp_conntab_t *tab)
{
    vqp_wire_header_t *hdr = &tab->rx.hdr;

    tab->rx_proven = 0;
    if ((hdr->type == VQP_WIRE_REQ) && (hdr->flags & VQP_WIRE_FLAG_PROVE)) {
        tab->rx_proven     = hdr->dst_cookie ==
                             vqp_conntab_proof(tab, tab->rx_identity, hdr);
        tab->stats.proven += tab->rx_proven;
        hdr->dst_cookie    = 0;
    }
}

vqp_status_t vqp_conntab_recv(vqp_conntab_t *tab, const vqp_conn_dest_t *from,
                              const void *data, size_t len, uint64_t now)
{
    const vqp_wire_header_t *hdr = &tab->rx.hdr;
    vqp_conn_t *conn;
    vqp_status_t status;
    int taken;

    vqp_conntab_set_now(tab, now);
    if (tab->rx_create || tab->rx_rst || (tab->rx_conn != NULL) ||
        (tab->rx_path != NULL)) {
        ++tab->stats.overruns;
        return VQP_ERR_NO_RESOURCE;
    }

    status = vqp_wire_decode(data, len, &tab->rx);
    if (status != VQP_OK) {
        ++*((status == VQP_ERR_UNSUPPORTED) ? &tab->stats.unknown_type :
                                              &tab->stats.malformed);
        if ((status == VQP_ERR_UNSUPPORTED) &&
            (vqp_wire_version(data) != VQP_WIRE_VERSION)) {
            vqp_conn_note_version(tab, from, vqp_wire_version(data));
        }
        return status;
    }

    ++tab->stats.received;
    tab->rx_from = *from;
    if (hdr->features & ~VQP_WIRE_FEATURES_KNOWN) {
        ++tab->stats.unknown_feature;
    }

    if (((hdr->type == VQP_WIRE_REQ) || (hdr->type == VQP_WIRE_REP)) &&
        !vqp_conntab_identify(tab)) {
        ++tab->stats.misplaced;
        vqp_conn_note_misplaced(tab, hdr);
        return VQP_ERR_INVALID_PARAM;
    }

    vqp_conntab_check_proof(tab);
    if (hdr->dst_iface != tab->config.iface_id) {
        return vqp_conntab_recv_unknown(tab);
    }

    conn = vqp_conntab_find(tab, hdr, &taken);
    if (conn != NULL) {
        vqp_conn_recv(conn, &tab->rx);
        return VQP_OK;
    }

    return ((hdr->type == VQP_WIRE_REQ) && (hdr->dst_cookie == 0)) ?
                   vqp_conntab_recv_new(tab, taken) :
                   vqp_conntab_recv_unknown(tab);
}
