/*
 * What moves the connections of an interface: messages that come in, timers,
 * and the actions that go out.
 * Pure: libc only. Not thread-safe: the caller holds the interface's lock.
 *
 * How it is driven:
 *
 *     new endpoint    conn = vqp_conn_adopt(); if NULL: vqp_conn_connect()
 *     datagram        vqp_conntab_recv()
 *     timer           vqp_conntab_tick(), set to vqp_conntab_next_timeout()
 *     after each      while (vqp_conntab_next_action(tab, &action)) { ... }
 */
#ifndef VQP_CORE_CONN_CONNDRIVE_H
#define VQP_CORE_CONN_CONNDRIVE_H

#include "core/conn/conn.h"

#define VQP_CONNTAB_ACTIONS(_) \
    _(CREATE_PASSIVE) \
    _(STATE) \
    _(CONNECT_QPS) \
    _(SEND) \
    _(LIVE) \
    _(PATH_MSG) \
    _(END)

/**
 * What the caller has to do. `peer` is valid until the next vqp_conntab_recv().
 *
 * CREATE_PASSIVE  peer: allocate a vqp with queue pairs and call
 *                 vqp_conn_accept(), or vqp_conntab_refuse(); when neither
 *                 (short of memory), the peer asks again.
 * STATE           conn, only if the configuration asks for it: log the change
 *                 conn->logged -> conn->state, then set logged.
 * CONNECT_QPS     conn, peer->info: move the queue pairs to RTR and RTS, then
 *                 vqp_conn_qps_ready(), vqp_conn_qps_wait() or vqp_conn_fail().
 * SEND            to, data, len, msg_type; conn or NULL: send the datagram.
 *                 Where that fails it counts as lost.
 * PATH_MSG        conn, peer: a path message for vqp_on_path_message().
 * LIVE            conn: operations may be posted.
 * END             conn, status: the table has forgotten it. VQP_OK: both sides have
 *                 closed it. It may be freed, after vqp_conn_release().
 */
typedef enum {
#define VQP_CONNTAB_ACTION_ENUM(_name) VQP_CONNTAB_##_name,
    VQP_CONNTAB_ACTIONS(VQP_CONNTAB_ACTION_ENUM)
#undef VQP_CONNTAB_ACTION_ENUM
    VQP_CONNTAB_ACTION_LAST
} vqp_conntab_action_type_t;

typedef struct vqp_conntab_action {
    vqp_conntab_action_type_t type;
    vqp_status_t              status;
    vqp_conn_t               *conn;
    const vqp_wire_msg_t     *peer;
    vqp_conn_dest_t           to;
    vqp_wire_type_t           msg_type;
    size_t                    len;
    uint8_t                   data[VQP_WIRE_MAX_LEN];
} vqp_conntab_action_t;

const char *vqp_conntab_action_name(unsigned type);

/**
 * Handle one datagram. Everything received is validated.
 *
 * @param [in] from  Where it came from, and the local rail it came in on.
 *
 * @return VQP_OK: it was handled, or is of no interest
 *         VQP_ERR_UNSUPPORTED, VQP_ERR_PROTOCOL: as vqp_wire_decode()
 *         VQP_ERR_RESET: it belongs to no connection, a RST answers it
 *         VQP_ERR_INVALID_PARAM: dropped, a REQ or REP that was sent by none of
 *         the rails that it names
 *         VQP_ERR_NO_RESOURCE: dropped, the actions were not drained (the peer
 *         asks again), or too many passive connections are unproven (a RST asks
 *         the peer to prove that it hears us)
 *         All of it is counted; the caller need not react.
 */
vqp_status_t vqp_conntab_recv(vqp_conntab_t *tab, const vqp_conn_dest_t *from,
                              const void *data, size_t len, uint64_t now);

/**
 * In answer to CREATE_PASSIVE: this peer can not be served (its rails do not
 * fit, say). It gets a RST.
 */
void vqp_conntab_refuse(vqp_conntab_t *tab, const vqp_wire_msg_t *req);

/**
 * Time at which vqp_conntab_tick() wants to be called: no timer is due
 * earlier. It may be too early, never too late. VQP_CONNTAB_NEVER: no timer.
 */
uint64_t vqp_conntab_next_timeout(const vqp_conntab_t *tab);

/**
 * Do what is due at @a now. A call that comes too late by more than VQP_CONNTAB_LATE says
 * that the process was stopped: the connections get the time back. The caller receives
 * datagrams first: answers may wait.
 */
void vqp_conntab_tick(vqp_conntab_t *tab, uint64_t now);

/** Rails of the two ends. */
typedef struct vqp_conn_route {
    unsigned rail;      /* own */
    unsigned peer_rail;
} vqp_conn_route_t;

/**
 * Make a path message: @a action is a SEND. All pairs of rails are taken in turn. It is not
 * repeated from here.
 *
 * @param [in] flags  VQP_WIRE_FLAG_*.
 * @param [in] body   vqp_wire_path_down_t or vqp_wire_path_up_t.
 * @param [in] avoid  Rails that it does not take if there are others; or NULL.
 *
 * @return 1, or 0 if the connection is not set up on both sides.
 */
int vqp_conntab_path_message(vqp_conn_t *conn, vqp_wire_type_t type,
                             uint16_t flags, uint32_t generation,
                             const void *body, const vqp_conn_route_t *avoid,
                             vqp_conntab_action_t *action);

/** Make a SEND: for connping.c. */
void vqp_conntab_send_action(vqp_conntab_t *tab, vqp_conntab_action_t *action,
                             const vqp_wire_header_t *hdr,
                             const vqp_conn_dest_t *to, const void *body);

/**
 * Take the next action. The caller may call any function of this header and of
 * conn.h, except vqp_conntab_recv(), before it takes the next one.
 *
 * @return 1, or 0 when there is none.
 */
int vqp_conntab_next_action(vqp_conntab_t *tab, vqp_conntab_action_t *action);

#endif
