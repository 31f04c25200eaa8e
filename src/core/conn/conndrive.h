/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of the connections of an interface: received messages, timers, and
 * actions for the caller.
 * Pure: libc only. Not thread-safe: the caller holds the interface's lock.
 *
 * Use:
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
 * Actions: what the caller has to do. `peer` is valid until the next
 * vqp_conntab_recv().
 *
 * CREATE_PASSIVE  peer: allocate a vqp with queue pairs and call
 *                 vqp_conn_accept(), vqp_conntab_refuse(), or if it can not be
 *                 allocated vqp_conntab_lack().
 * STATE           conn, only if the configuration asks for it: log the change
 *                 conn->logged -> conn->state, then set logged.
 * CONNECT_QPS     conn, peer->info: move the queue pairs to RTR and RTS, then
 *                 vqp_conn_qps_ready(), vqp_conn_qps_wait() or vqp_conn_fail().
 * SEND            to, data, len, msg_type; conn or NULL: send the datagram.
 *                 A failure counts as a lost datagram.
 * PATH_MSG        conn, peer: a path message for vqp_on_path_message().
 * LIVE            conn: operations may be posted.
 * END             conn, status: it is not in the table any more. VQP_OK: both sides
 *                 have closed it. It may be freed, after vqp_conn_release().
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
 * @param [in] from  Its source, and the local rail on which it arrived.
 *
 * @return VQP_OK: it was handled or ignored
 *         VQP_ERR_UNSUPPORTED, VQP_ERR_PROTOCOL: as vqp_wire_decode()
 *         VQP_ERR_RESET: it belongs to no connection, and is answered by a RST
 *         VQP_ERR_INVALID_PARAM: dropped, a REQ or REP whose source is none of
 *         the rails in it
 *         VQP_ERR_NO_RESOURCE: dropped; the actions were not drained (the peer
 *         repeats it), or too many passive connections are unproven (a RST requests
 *         a proof of the peer)
 *         All of it is counted; the caller need not react.
 */
vqp_status_t vqp_conntab_recv(vqp_conntab_t *tab, const vqp_conn_dest_t *from,
                              const void *data, size_t len, uint64_t now);

/**
 * In answer to CREATE_PASSIVE: this peer can not be served, for example because its
 * rails do not fit. It gets a RST.
 */
void vqp_conntab_refuse(vqp_conntab_t *tab, const vqp_wire_msg_t *req);

/** CREATE_PASSIVE could not be done, for lack of queue pairs or memory: tell the peer, which
 *  asks again for some time. */
void vqp_conntab_lack(vqp_conntab_t *tab, const vqp_wire_msg_t *req);

/**
 * The time at which vqp_conntab_tick() is to be called. No timer expires earlier.
 * VQP_CONNTAB_NEVER: there is no timer.
 */
uint64_t vqp_conntab_next_timeout(const vqp_conntab_t *tab);

/**
 * Handle the timers that have expired at @a now. If the call is late by more than
 * VQP_CONNTAB_LATE the process was stopped: the time-outs are extended by that time. Call
 * vqp_conntab_recv() for received datagrams first: answers may be among them.
 */
void vqp_conntab_tick(vqp_conntab_t *tab, uint64_t now);

/** A pair of rails, one of each side. */
typedef struct vqp_conn_route {
    unsigned rail;      /* own */
    unsigned peer_rail;
} vqp_conn_route_t;

/**
 * Make a path message: @a action is a SEND. All pairs of rails are taken in turn. The
 * caller repeats it.
 *
 * @param [in] flags  VQP_WIRE_FLAG_*.
 * @param [in] epoch  Of the path.
 * @param [in] body   vqp_wire_path_down_t or vqp_wire_path_up_t.
 * @param [in] avoid  Rails that are not taken if there are others; or NULL.
 *
 * @return 1, or 0 if the connection is not LIVE or CLOSING.
 */
int vqp_conntab_path_message(vqp_conn_t *conn, vqp_wire_type_t type,
                             uint16_t flags, uint32_t epoch,
                             const void *body, const vqp_conn_route_t *avoid,
                             vqp_conntab_action_t *action);

/** Make a SEND. For connping.c. */
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
