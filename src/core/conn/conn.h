/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection: the state machine that connects the queue pairs of two sides, and
 * closes the connection. Its owner allocates and embeds the struct; all connections of
 * an interface are in one vqp_conntab_t. Pure: libc only; time comes in as nanoseconds
 * of any monotonic clock, work leaves as actions, see @ref vqp_conntab_next_action.
 *
 *     active side                            passive side
 *     NEW -> REQ        -- REQ ------------> (create) ASKED
 *     PEER <----------- REP ----------------
 *     connect QPs: READY -- REQ have_yours -> PEER
 *                                            connect QPs: LIVE
 *     LIVE <----------- REP have_yours -----
 *
 * The peer is proven by the first message that has this side's cookie, and by nothing
 * else: its sender receives messages that are sent to the peer's rails. Until then a
 * REQ is answered with the cookie, no queue pair is connected, and no number is
 * remembered. So a forged source of a REQ has no effect.
 *
 * Each REQ is answered by a REP with the side's state. A REP is never answered. It goes
 * to the source of the REQ; if copies of the REQ keep arriving, to all rails in turn.
 *
 * Simultaneous connects give both sides the same number: each side answers the
 * other's REQ, which proves each side to the other.
 *
 * A side is "owned" while an endpoint uses it. An endpoint adopts the passive
 * connection of its peer that has the lowest number, is not owned, and is connecting
 * or LIVE; else it creates one with the next number. A connection that is ASKED when
 * it is adopted continues as an active one: it sends REQs to the address that the
 * endpoint was created with, and connects to the side that answers there.
 *
 * Closing is half-closing: vqp_conn_close() gives up the ownership and notifies the
 * peer by BYE, which is repeated until it is answered. If the peer does not use its
 * side either, both sides end. Else the closing side stays LIVE, passive, and
 * may be adopted again, until the peer's BYE arrives. A side that is closed before it
 * is LIVE sends BYE when it becomes LIVE.
 *
 * No function here is thread-safe: the caller holds the interface's lock. None
 * calls back. After each call the caller drains the actions.
 */
#ifndef VQP_CORE_CONN_CONN_H
#define VQP_CORE_CONN_CONN_H

#include "core/conn/conntab.h"

/** The parameters of a new connection. */
typedef struct vqp_conn_params {
    uint64_t              cookie;    /* random, not zero, new to the table */
    uint64_t              peer_id;
    const vqp_conn_dest_t *dests;    /* all rails of the peer, in its order:
                                        destinations of REQs; copied */
    unsigned              num_dests; /* 1 .. VQP_MAX_RAILS */
    const vqp_wire_info_t *local;    /* outlives the connection */
} vqp_conn_params_t;

const char *vqp_conn_state_name(unsigned state);

/**
 * Create the active side of a new connection, owned by an endpoint, with the
 * next number of that peer. Try vqp_conn_adopt() first. Sends a REQ.
 *
 * @return VQP_OK
 *         VQP_ERR_INVALID_PARAM: the cookie is zero or taken (draw another
 *         one), or the local info is not valid
 *         VQP_ERR_EXCEEDS_LIMIT: the numbers of this peer are used up.
 */
vqp_status_t vqp_conn_connect(struct vqp_conntab *tab, vqp_conn_t *conn,
                              const vqp_conn_params_t *params, uint64_t now);

/**
 * Adopt a passive connection of that peer for an endpoint, see above.
 *
 * @param [in] dests  All rails of the peer, as in vqp_conn_connect(): the same
 *                    interface id behind other rails is another peer.
 *
 * @return The connection, now owned, connecting or LIVE (no LIVE action comes
 *         then); NULL when there is none.
 */
vqp_conn_t *vqp_conn_adopt(struct vqp_conntab *tab, uint64_t peer_id,
                           const vqp_conn_dest_t *dests, unsigned num_dests,
                           uint64_t now);

/**
 * Create the passive side of a connection that a peer requests, in answer to a
 * CREATE_PASSIVE action. CONNECT_QPS follows when the peer has proven that it receives
 * messages; END if it does not within connect_timeout.
 *
 * @param [in] params  peer_id and dests are ignored: those of @a req are used.
 * @param [in] req     The REQ from the action.
 *
 * @return VQP_OK
 *         VQP_ERR_CANCELED: not needed any more; the caller frees it
 *         VQP_ERR_INVALID_PARAM: as in @ref vqp_conn_connect.
 */
vqp_status_t vqp_conn_accept(struct vqp_conntab *tab, vqp_conn_t *conn,
                             const vqp_conn_params_t *params,
                             const vqp_wire_msg_t *req, uint64_t now);

/**
 * In answer to CONNECT_QPS: the own queue pairs are in RTS, with receives posted. Sends
 * have_yours. If they could not be connected, call vqp_conn_fail() instead.
 */
void vqp_conn_qps_ready(vqp_conn_t *conn, uint64_t now);

/**
 * In answer to CONNECT_QPS: the queue pairs can not be connected yet. CONNECT_QPS comes
 * again with each REQ or REP of the peer. REQs request one at growing intervals.
 */
void vqp_conn_qps_wait(vqp_conn_t *conn, uint64_t now);

/**
 * An immediate arrived on one of the connection's queue pairs: the peer's side is
 * connected. Cheap if this is known already.
 */
void vqp_conn_first_imm(vqp_conn_t *conn, uint64_t now);

static inline int vqp_conn_is_live(const vqp_conn_t *conn)
{
    return conn->state == VQP_CONN_LIVE;
}

/**
 * Close the side of the endpoint that owns the connection. All its operations are
 * confirmed. END follows when the peer has closed its side too. Until then the connection
 * receives. No effect if no endpoint owns it.
 */
void vqp_conn_close(vqp_conn_t *conn, uint64_t now);

/**
 * End both sides at once, owned or not, because the owner has failed or ends. Notifies
 * the peer once. No END follows. No effect on a connection that has ended.
 *
 * @param [in] is_orderly  The peer loses no data: if its endpoint still uses the
 *                         connection, the peer's conn->peer_closed is set.
 */
void vqp_conn_abort(vqp_conn_t *conn, int is_orderly, uint64_t now);

/**
 * It can not be connected. The peer is notified once. END follows with @a status. No
 * effect on one that has ended.
 */
void vqp_conn_fail(vqp_conn_t *conn, vqp_status_t status, uint64_t now);

/**
 * Call this before a connection that has ended is freed: the number of unproven
 * connections is limited until they are freed. No-op for a connection that was zeroed
 * and never created.
 */
void vqp_conn_release(vqp_conn_t *conn);

/*
 * For conndrive.c.
 */

/** Handle a message whose ids, number and cookies are those of this connection. */
void vqp_conn_recv(vqp_conn_t *conn, const vqp_wire_msg_t *msg);

/**
 * Extend the time-out of a connection that waits for its peer, if the peer has answered
 * other connections of this interface meanwhile: it is busy. The time-out counts from the
 * last first answer to any of them. It is not extended for an unproven peer, nor while the
 * connection waits for its own queue pairs or for the answer to BYE.
 */
void vqp_conn_wait_for_busy_peer(vqp_conn_t *conn);

/** Its timer has expired: repeat the message, or give up. */
void vqp_conn_expire(vqp_conn_t *conn);

/**
 * Select the own rail and the peer's rail for a path message or ping. Successive values of
 * @a turn take all pairs of rails: one rail of each side may be down. Messages of the
 * handshake, and answers, take each rail in turn instead.
 *
 * @return The index of @a to in conn->dests.
 */
unsigned
vqp_conn_set_route(const vqp_conn_t *conn, unsigned turn, vqp_conn_dest_t *to);

/**
 * Fill in the header of a message of this connection.
 *
 * @param [in] todo  One of VQP_CONN_ACT_REQ .. VQP_CONN_ACT_RST.
 */
void vqp_conn_header(const vqp_conn_t *conn, unsigned todo,
                     vqp_wire_header_t *hdr);

#endif
