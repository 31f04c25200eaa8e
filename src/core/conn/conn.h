/*
 * One connection: the state machine that pairs the queue pairs of two sides, and
 * parts them again. The struct is embedded in its owner, which allocates it; all
 * connections of an interface are in one vqp_conntab_t. Pure: libc only; time comes
 * in as nanoseconds of any monotonic clock, work leaves as actions, see @ref
 * vqp_conntab_next_action.
 *
 *     active side                            passive side
 *     NEW -> REQ        -- REQ ------------> (create) ASKED
 *     PEER <----------- REP ----------------
 *     connect QPs: READY -- REQ have_yours -> PEER
 *                                            connect QPs: LIVE
 *     LIVE <----------- REP have_yours -----
 *
 * A side knows its peer from the first message that has its own cookie, and by
 * nothing else: whoever has sent that has heard us. Until then a REQ is answered
 * with the own cookie, no queue pair is connected, and no number is remembered.
 * So a forged source of a REQ has no effect.
 *
 * Each REQ is answered with the side's own state. A REP is an answer and is
 * never answered itself, so nothing goes back and forth for ever. An answer
 * goes to where the REQ came from, and while copies of the REQ keep coming, to
 * all rails in turn.
 *
 * Simultaneous connects give both sides the same number: each side answers the
 * other's REQ, and so each proves to the other that it hears it.
 *
 * A side is "owned" while an endpoint uses it. An endpoint adopts the passive
 * connection of its peer that has the lowest number, is owned by no endpoint,
 * and is connecting or LIVE; else it creates one with the next number. One that
 * is ASKED goes on as if this side had created it: it sends REQs to the address
 * that the endpoint was created with, and pairs with whoever answers there.
 *
 * Closing is half-closing: vqp_conn_close() gives up the ownership, notifies
 * the peer (BYE, repeated until answered), and the peer decides: when it does not
 * use its side either, both go; when it does, the closer stays LIVE, passive,
 * and may be adopted again, until the peer's BYE comes. A side that is closed
 * before it is LIVE first gets there, and then says BYE.
 *
 * No function here is thread-safe: the caller holds the interface's lock. None
 * calls back. After any of them the caller drains the actions.
 */
#ifndef VQP_CORE_CONN_CONN_H
#define VQP_CORE_CONN_CONN_H

#include "core/conn/conntab.h"

/** What a new connection needs to know. */
typedef struct vqp_conn_params {
    uint64_t              cookie;    /* random, not zero, new to the table */
    uint64_t              peer_id;
    const vqp_conn_dest_t *dests;    /* all rails of the peer, in its order:
                                        where REQs go to; copied */
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
 * Take over a passive connection of that peer for an endpoint, see above.
 *
 * @param [in] dests  All rails of the peer, as in vqp_conn_connect(): with the
 *                    same interface id behind other rails it is another peer.
 *
 * @return The connection, now owned, connecting or LIVE (no LIVE action comes
 *         then); NULL when there is none.
 */
vqp_conn_t *vqp_conn_adopt(struct vqp_conntab *tab, uint64_t peer_id,
                           const vqp_conn_dest_t *dests, unsigned num_dests,
                           uint64_t now);

/**
 * Create the passive side of a connection that a peer asks for, in answer to
 * a CREATE_PASSIVE action. CONNECT_QPS follows when the peer has proven that it
 * hears us, END when it does not within the time for connecting.
 *
 * @param [in] params  peer_id and dests are ignored: @a req has them.
 * @param [in] req     The REQ from the action.
 *
 * @return VQP_OK
 *         VQP_ERR_CANCELED: not needed any more, free it
 *         VQP_ERR_INVALID_PARAM: as in @ref vqp_conn_connect.
 */
vqp_status_t vqp_conn_accept(struct vqp_conntab *tab, vqp_conn_t *conn,
                             const vqp_conn_params_t *params,
                             const vqp_wire_msg_t *req, uint64_t now);

/**
 * In answer to CONNECT_QPS: own queue pairs are in RTS, with receives posted.
 * Sends have_yours. If they can not be connected: vqp_conn_fail().
 */
void vqp_conn_qps_ready(vqp_conn_t *conn, uint64_t now);

/**
 * In answer to CONNECT_QPS, instead: they can not be connected yet. CONNECT_QPS comes
 * again with each message of the peer, which is asked for one at growing intervals.
 */
void vqp_conn_qps_wait(vqp_conn_t *conn, uint64_t now);

/**
 * An immediate arrived on one of the connection's queue pairs, which proves
 * that the peer's side is connected. Cheap when it is known already.
 */
void vqp_conn_first_imm(vqp_conn_t *conn, uint64_t now);

static inline int vqp_conn_is_live(const vqp_conn_t *conn)
{
    return conn->state == VQP_CONN_LIVE;
}

/**
 * The endpoint that owns the connection goes, and all its operations are
 * confirmed, with what the peer needs to deliver them. END follows when the peer is
 * done with its side too; until then the connection goes on receiving. No effect if no
 * endpoint owns it.
 */
void vqp_conn_close(vqp_conn_t *conn, uint64_t now);

/**
 * The owner has failed, or ends: end both sides at once, owned or not. The peer is
 * notified once. No END follows. No effect on one that has ended.
 *
 * @param [in] is_orderly  The peer has lost nothing by it: if its endpoint still uses
 *                         the connection, conn->peer_closed says so there.
 */
void vqp_conn_abort(vqp_conn_t *conn, int is_orderly, uint64_t now);

/**
 * It can not be connected. The peer is notified once. END follows with @a status. No
 * effect on one that has ended.
 */
void vqp_conn_fail(vqp_conn_t *conn, vqp_status_t status, uint64_t now);

/**
 * Call it before a connection that has ended is freed: what an unproven one holds is
 * limited, until it is freed. No-op for a connection that was zeroed and never created.
 */
void vqp_conn_release(vqp_conn_t *conn);

/*
 * What follows is called by conndrive.c.
 */

/** A message whose ids, number and cookies are this connection's. */
void vqp_conn_recv(vqp_conn_t *conn, const vqp_wire_msg_t *msg);

/**
 * A peer that goes on to answer others is there, and busy: many requests of this interface
 * may wait for one thread. If the connection waits for the peer, its time counts from the
 * last first answer to any connection. One whose peer has not proven who it is gets no
 * more time, nor one that waits for its own queue pairs or for the end.
 */
void vqp_conn_wait_for_busy_peer(vqp_conn_t *conn);

/** Its timer is due: repeat, or give up. */
void vqp_conn_expire(vqp_conn_t *conn);

/**
 * Which own rail a path message or question leaves by, and which rail of the peer it goes
 * to. Successive turns take all pairs of them: one rail of each side may be dead. Messages
 * of the handshake, and answers, do not use this: they are few, and take each rail in turn.
 *
 * @return The index of @a to in conn->dests.
 */
unsigned
vqp_conn_set_route(const vqp_conn_t *conn, unsigned turn, vqp_conn_dest_t *to);

/**
 * Fill the header of a message of this connection.
 *
 * @param [in] todo  One of VQP_CONN_ACT_REQ .. VQP_CONN_ACT_RST.
 */
void vqp_conn_header(const vqp_conn_t *conn, unsigned todo,
                     vqp_wire_header_t *hdr);

#endif
