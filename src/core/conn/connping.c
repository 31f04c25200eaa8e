/* SPDX-License-Identifier: BSD-3-Clause */
/* Ping a silent peer, see connping.h. Pure: libc only. */
#include "core/conn/connping.h"

#include "core/conn/conn.h"
#include "core/cover.h"

#include <string.h>

/* In an outage each of thousands of endpoints asks once a second, and finds no witness. So
 * many connections are looked at by all of them together in so many ns, and then those of
 * one more search. */
#define VQP_CONN_WITNESS_LOOKS 65536u
#define VQP_CONN_WITNESS_TIME  1000000000ul

/* Do both addresses belong to one port? Processes differ by the queue pair only */
static int vqp_conn_same_port(const uint8_t *gid, uint16_t lid,
                              const vqp_conn_dest_t *dest)
{
    static const uint8_t none[VQP_GID_LEN];

    /* On InfiniBand a datagram without GRH has the LID only */
    return ((memcmp(gid, none, sizeof(none)) == 0) ||
            (memcmp(dest->gid, none, sizeof(none)) == 0)) ?
                   (lid == dest->lid) : (memcmp(gid, dest->gid, sizeof(none)) == 0);
}

static int vqp_conn_has_port(const vqp_conn_t *conn, const vqp_conn_dest_t *dest)
{
    unsigned i;

    for (i = 0; i < conn->num_dests; ++i) {
        if (vqp_conn_same_port(conn->dests[i].gid, conn->dests[i].lid, dest)) {
            return 1;
        }
    }

    return 0;
}

/* Does the peer use an own port that works? Then no link can fail */
static int vqp_conn_is_local(const vqp_conn_t *conn, uint32_t rails)
{
    const vqp_wire_rail_t *rail;
    unsigned i, j;

    for (i = 0; i < conn->local->num_rails; ++i) {
        rail = &conn->local->rails[i];
        for (j = 0; (rails & (1u << i)) && (j < conn->num_dests); ++j) {
            if (vqp_conn_same_port(rail->gid, rail->lid, &conn->dests[j])) {
                return 1;
            }
        }
    }

    return 0;
}

static int vqp_conn_is_set_up(const vqp_conn_t *conn)
{
    return (conn->state == VQP_CONN_LIVE) || (conn->state == VQP_CONN_CLOSING);
}

/* Is the connection with another interface at that port? */
static int vqp_conn_is_witness(const vqp_conn_t *conn, const vqp_conn_t *other,
                               const vqp_conn_dest_t *to)
{
    return (other->peer_id != conn->peer_id) && vqp_conn_is_set_up(other) &&
           vqp_conn_has_port(other, to);
}

/* Search behind the last witness, which may belong to the process of the peer, or to one
 * that died together with it */
static vqp_conn_t *
vqp_conn_find_witness(vqp_conn_t *conn, const vqp_conn_t *last,
                      const vqp_conn_dest_t *to, uint64_t now)
{
    vqp_conntab_t *tab = conn->tab;
    uint32_t buckets   = 1u << tab->config.hash_order;
    vqp_conn_t *other  = (last == NULL) ? NULL : last->cookie_next;
    uint32_t i;

    if (now - tab->witness_since >= VQP_CONN_WITNESS_TIME) {
        tab->witness_since = now;
        tab->witness_looks = 0;
    }
    if (tab->witness_looks >= VQP_CONN_WITNESS_LOOKS) {
        return NULL;
    }

    for (i = 0; i <= buckets; ++i) {
        for (; other != NULL; other = other->cookie_next, ++tab->witness_looks) {
            if (vqp_conn_is_witness(conn, other, to)) {
                return other;
            }
        }
        conn->witness_turn = (conn->witness_turn + 1) & (buckets - 1);
        other              = tab->cookies[conn->witness_turn];
    }

    return NULL;
}

static void
vqp_conn_get_answers(const vqp_conn_t *conn, const vqp_conn_t *witness,
                     uint32_t rails, uint64_t now, vqp_conn_answers_t *answers)
{
    answers->peer      = conn->last_rx;
    answers->host       = 0;
    answers->host_pinged = conn->has_witness;
    if (vqp_conn_is_local(conn, rails)) {
        answers->host = now;
    } else if ((witness != NULL) && conn->has_witness &&
               vqp_conn_has_port(conn, &witness->last_rx_from)) {
        answers->host = witness->last_rx;
    }
}

/* Keep a witness that has answered from a port of the peer */
static int vqp_conn_is_kept(const vqp_conn_t *conn, const vqp_conn_t *witness,
                            const vqp_conn_dest_t *to)
{
    return (witness != NULL) && (witness->last_rx >= conn->witness_pinged) &&
           vqp_conn_has_port(conn, &witness->last_rx_from) &&
           vqp_conn_is_witness(conn, witness, to);
}

static void vqp_conn_make_ping(vqp_conn_t *conn, const vqp_conn_dest_t *to,
                         vqp_conntab_action_t *action)
{
    vqp_conn_dest_t dest = *to;
    vqp_wire_header_t hdr;
    unsigned i;

    /* The port of @a to, and the queue pair of this connection's peer */
    for (i = 0; i < conn->num_dests; ++i) {
        if (vqp_conn_same_port(conn->dests[i].gid, conn->dests[i].lid, to)) {
            dest = conn->dests[i];
            break;
        }
    }

    dest.rail      = to->rail;
    action->conn   = conn;
    action->peer   = NULL;
    action->status = VQP_OK;
    ++conn->tab->stats.pings;
    vqp_conn_header(conn, VQP_CONN_ACT_REQ, &hdr);
    vqp_conntab_send_action(conn->tab, action, &hdr, &dest, conn->local);
}

unsigned vqp_conn_ping(vqp_conn_t *conn, uint32_t rails, uint64_t now,
                       vqp_conn_answers_t *answers, vqp_conntab_action_t *actions)
{
    vqp_conn_t *witness = (conn->witness == 0) ?
            NULL : vqp_conntab_find_cookie(conn->tab, conn->witness);
    vqp_conn_dest_t to;

    vqp_conn_get_answers(conn, witness, rails, now, answers);
    conn->has_witness = 0;
    rails            &= (1u << conn->tab->config.num_rails) - 1;
    if (!vqp_conn_is_set_up(conn) || (rails == 0)) {
        return 0;
    }

    do {
        (void)vqp_conn_set_route(conn, conn->pings++, &to);
    } while (!(rails & (1u << to.rail)));

    vqp_conn_make_ping(conn, &to, &actions[0]);
    if (!vqp_conn_is_kept(conn, witness, &to)) {
        witness = vqp_conn_find_witness(conn, witness, &to, now);
    }
    if (witness == NULL) {
        return 1; /* none at this port: the next ping goes to another port */
    }

    vqp_cover(CONN_WITNESS);
    conn->has_witness   = 1;
    conn->witness       = witness->cookie;
    conn->witness_pinged = now;
    vqp_conn_make_ping(witness, &to, &actions[1]);
    return 2;
}
