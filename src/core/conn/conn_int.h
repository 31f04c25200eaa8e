/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state machine of one connection: declarations that conn.c and conn_recv.c share.
 * Private to these two. Pure: libc only.
 */
#ifndef VQP_CORE_CONN_CONN_INT_H
#define VQP_CORE_CONN_CONN_INT_H

#include "core/conn/conn.h"

/** Change the state; the caller logs it if the configuration asks for it. */
void vqp_conn_set_state(vqp_conn_t *conn, vqp_conn_state_t state);

/** Repeat no message; expire at conn->give_up. */
void vqp_conn_wait(vqp_conn_t *conn);

/** Leave the state NEW, if it is in it. */
void vqp_conn_leave_new(vqp_conn_t *conn);

/** Send the REQs of connections in NEW, as far as the peer's window of unanswered REQs
 *  allows. */
void vqp_conn_start_waiting(vqp_peer_t *peer);

/** Send a REQ as soon as the window of the peer allows. */
void vqp_conn_start(vqp_conn_t *conn);

/** Both sides are connected; a close that waited for this begins. */
void vqp_conn_go_live(vqp_conn_t *conn);

/** End the connection, and report it to the owner. */
void vqp_conn_report_end(vqp_conn_t *conn, vqp_status_t status);

#endif
