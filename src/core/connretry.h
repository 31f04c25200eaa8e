/*
 * The repetition of messages until they are answered, and the window of
 * unanswered REQs. Called by conn.c and connclose.c. Pure: libc only.
 */
#ifndef VQP_CORE_CONNRETRY_H
#define VQP_CORE_CONNRETRY_H

#include "core/conntab.h"

/** Send a message, VQP_CONN_ACT_REQ or VQP_CONN_ACT_BYE, and repeat it. */
void vqp_conn_send_repeated(vqp_conn_t *conn, unsigned todo);

/** Repeat the message, whose timer is due, after twice the time. */
void vqp_conn_repeat(vqp_conn_t *conn, unsigned todo);

/** Repeat nothing, but expire at conn->give_up. */
void vqp_conn_wait(vqp_conn_t *conn);

/** The connection is to send a REQ, as soon as the window of its peer allows. */
void vqp_conn_start(vqp_conn_t *conn);

/** It is not NEW any more, for another reason than that its REQ was sent. */
void vqp_conn_leave_new(vqp_conn_t *conn);

/** Send REQs that wait for the window of the peer, as far as it allows. */
void vqp_conn_start_waiting(vqp_peer_t *peer);

#endif
