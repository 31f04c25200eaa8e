/*
 * How a connection ends: closing, failing, and the messages that do it. The
 * states are those of conn.h. Pure: libc only.
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
#ifndef VQP_CORE_CONNCLOSE_H
#define VQP_CORE_CONNCLOSE_H

#include "core/conntab.h"

/**
 * The endpoint that owns the connection goes, and all its operations are
 * confirmed, with what the peer needs to deliver them. DESTROY follows, at
 * once (FAILED) or when the peer is done with its side too; until then the
 * connection goes on receiving.
 */
void vqp_conn_close(vqp_conn_t *conn, uint64_t now);

/**
 * End both sides at once, owned or not: notifies the peer once, and DESTROY
 * follows. For operations that can not be confirmed, and for the end of the
 * interface: a peer whose endpoint still uses the connection then sees it fail
 * with VQP_ERR_RESET, and conn->peer_closed says that it lost nothing.
 */
void vqp_conn_abort(vqp_conn_t *conn, uint64_t now);

/**
 * The connection's queue pairs have failed, or it can not be connected.
 * Notifies the peer once; FAILED follows when an endpoint owns it, else DESTROY.
 */
void vqp_conn_fail(vqp_conn_t *conn, vqp_status_t status, uint64_t now);

/**
 * Call it before a connection is freed that DESTROY was handed out for: what an
 * unproven one holds is limited, until it is freed. No-op for a connection that
 * was zeroed and never created.
 */
void vqp_conn_release(vqp_conn_t *conn);

/*
 * What follows is called by conn.c
 */

/** End it silently: DESTROY, with @a status. It is owned by no endpoint then. */
void vqp_conn_destroy(vqp_conn_t *conn, vqp_status_t status);

/** Both sides are connected; a close that waited for it begins. */
void vqp_conn_go_live(vqp_conn_t *conn);

void vqp_conn_recv_bye(vqp_conn_t *conn, const vqp_wire_msg_t *msg);
void vqp_conn_recv_bye_ack(vqp_conn_t *conn, const vqp_wire_msg_t *msg);
void vqp_conn_recv_rst(vqp_conn_t *conn, const vqp_wire_msg_t *msg);

#endif
