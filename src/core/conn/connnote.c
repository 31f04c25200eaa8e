/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notes about a connection that is not LIVE yet, see connnote.h. Pure: libc only.
 */
#include "core/conn/connnote.h"

#include <string.h>

/* ns between two looks at all connections: many datagrams of another version may come */
#define VQP_CONN_NOTE_PAUSE 10000000ul

static void vqp_conn_count(uint16_t *counter)
{
    *counter = (uint16_t)(*counter + (*counter < UINT16_MAX));
}

uint8_t vqp_conn_rail_of(const vqp_conn_t *conn, const vqp_conn_dest_t *addr)
{
    uint8_t i;

    for (i = 0; i < conn->num_dests; ++i) {
        if (vqp_conntab_is_rail(&conn->dests[i], addr)) {
            return i;
        }
    }

    return 0;
}

void vqp_conn_note_begin(vqp_conn_t *conn)
{
    memset(&conn->notes, 0, sizeof(conn->notes));
    conn->notes.began = conn->tab->now;
}

void vqp_conn_note_sent(vqp_conn_t *conn, vqp_wire_type_t type,
                        const vqp_conn_dest_t *to)
{
    vqp_conn_notes_t *notes = &conn->notes;

    if ((type != VQP_WIRE_REQ) && (type != VQP_WIRE_REP)) {
        return;
    }

    vqp_conn_count((type == VQP_WIRE_REQ) ? &notes->reqs : &notes->reps);
    notes->dest = vqp_conn_rail_of(conn, to);
    notes->rail = to->rail;
}

void vqp_conn_note_unsent(vqp_conn_t *conn, vqp_wire_type_t type)
{
    if ((type == VQP_WIRE_REQ) || (type == VQP_WIRE_REP)) {
        vqp_conn_count(&conn->notes.unsent);
    }
}

/* A RST without the cookie of a side is of no side: the REQ reached another interface */
static vqp_conn_heard_t vqp_conn_heard_rst(const vqp_wire_header_t *hdr)
{
    return (hdr->flags & VQP_WIRE_FLAG_PROVE)       ? VQP_CONN_HEARD_PROVE :
           (hdr->flags & VQP_WIRE_FLAG_LACKS)       ? VQP_CONN_HEARD_LACKS :
           (hdr->flags & VQP_WIRE_FLAG_NUMBER_USED) ? VQP_CONN_HEARD_NUMBER_USED :
           (hdr->flags & VQP_WIRE_FLAG_ORDERLY)     ? VQP_CONN_HEARD_CLOSED :
           (hdr->src_cookie == 0)                   ? VQP_CONN_HEARD_UNKNOWN :
                                                      VQP_CONN_HEARD_RESET;
}

void vqp_conn_note_heard(vqp_conn_t *conn, const vqp_wire_header_t *hdr)
{
    vqp_conn_notes_t *notes = &conn->notes;

    if (conn->state >= VQP_CONN_LIVE) {
        return;
    }

    switch (hdr->type) {
    case VQP_WIRE_REQ:
        notes->heard = VQP_CONN_HEARD_REQ;
        break;
    case VQP_WIRE_REP:
        notes->heard = VQP_CONN_HEARD_REP;
        break;
    case VQP_WIRE_RST:
        notes->heard = (uint8_t)vqp_conn_heard_rst(hdr);
        break;
    default:
        break;
    }
}

void vqp_conn_note_misplaced(vqp_conntab_t *tab, const vqp_wire_header_t *hdr)
{
    vqp_conn_t *conn = vqp_conntab_find_cookie(tab, hdr->dst_cookie);

    if ((hdr->type == VQP_WIRE_REP) && (conn != NULL) &&
        (conn->peer_id == hdr->src_iface) && vqp_conn_is_unanswered(conn)) {
        conn->notes.heard = VQP_CONN_HEARD_MISPLACED;
    }
}

void vqp_conn_note_version(vqp_conntab_t *tab, const vqp_conn_dest_t *from,
                           unsigned version)
{
    vqp_conn_t *conn;

    if (tab->now < tab->note_due) {
        return; /* it will be repeated */
    }

    tab->note_due = tab->now + VQP_CONN_NOTE_PAUSE;
    for (conn = tab->timers; conn != NULL; conn = conn->timer_next) {
        if (vqp_conn_is_unanswered(conn) &&
            vqp_conntab_is_rail(&conn->dests[vqp_conn_rail_of(conn, from)], from)) {
            conn->notes.version = (uint8_t)version;
        }
    }
}

void vqp_conn_note_end(vqp_conn_t *conn)
{
    conn->notes.ended   = conn->tab->now;
    conn->notes.stopped = conn->state;
}
