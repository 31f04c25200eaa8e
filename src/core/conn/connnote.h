/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notes about a connection that is not LIVE yet: what was sent, and what came back. If it
 * never becomes LIVE they are the reason that its owner reports, see vqp_conn_notes_t.
 * Pure: libc only. Not thread-safe: the caller holds the interface's lock.
 */
#ifndef VQP_CORE_CONN_CONNNOTE_H
#define VQP_CORE_CONN_CONNNOTE_H

#include "core/conn/conntab.h"

/** Which rail of the peer has this address? @return Its index, or 0 if none has it. */
uint8_t vqp_conn_rail_of(const vqp_conn_t *conn, const vqp_conn_dest_t *addr);

/** The time begins now; nothing was sent. */
void vqp_conn_note_begin(vqp_conn_t *conn);

/** A message is sent to @a to. REQ and REP are noted. */
void vqp_conn_note_sent(vqp_conn_t *conn, vqp_wire_type_t type,
                        const vqp_conn_dest_t *to);

/** The owner could not send a message of this type, for example because the address of the
 *  peer does not resolve. May be called at any time until the connection is freed. */
void vqp_conn_note_unsent(vqp_conn_t *conn, vqp_wire_type_t type);

/** A message of the peer has arrived. Ignored once the connection is LIVE. */
void vqp_conn_note_heard(vqp_conn_t *conn, const vqp_wire_header_t *hdr);

/** A REP was dropped, since its source is none of the rails in it. */
void vqp_conn_note_misplaced(vqp_conntab_t *tab, const vqp_wire_header_t *hdr);

/** A datagram of another version has arrived: the connections to its source that are not
 *  answered yet note it. It may be forged, so it ends nothing. */
void vqp_conn_note_version(vqp_conntab_t *tab, const vqp_conn_dest_t *from,
                           unsigned version);

/** The connection ends in its current state. */
void vqp_conn_note_end(vqp_conn_t *conn);

/** Has the connection ended without having been LIVE? */
static inline int vqp_conn_was_never_live(const vqp_conn_t *conn)
{
    return (conn->state == VQP_CONN_CLOSED) && (conn->notes.stopped < VQP_CONN_LIVE);
}

#endif
