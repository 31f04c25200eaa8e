/* SPDX-License-Identifier: BSD-3-Clause */
/* Why an endpoint has failed, see vqp_conn_log.h. */
#include "uct/vqp_conn_log.h"

#include "core/conn/connnote.h"
#include "verbs/gid.h"

#include <ucs/debug/log.h>

#define UCT_VQP_LOG_REASON 400 /* bytes of a reason */

/* The message is the last one before the end, in state REQ or READY */
static const char *uct_vqp_heard_text(unsigned heard)
{
    static const char *const texts[] = {
        [VQP_CONN_HEARD_NOTHING]     = "nothing came back",
        [VQP_CONN_HEARD_REQ]         = "the peer sent a REQ of its own, and no answer",
        [VQP_CONN_HEARD_REP]         = "the peer answered, then no more",
        [VQP_CONN_HEARD_MISPLACED]   = "the peer answered from an address that is none of "
                                       "its rails",
        [VQP_CONN_HEARD_PROVE]       = "the peer has too many unanswered requests, and "
                                       "asked to repeat this one",
        [VQP_CONN_HEARD_LACKS]       = "the peer refused it: it lacks queue pairs or memory",
        [VQP_CONN_HEARD_NUMBER_USED] = "the peer refused it: the number of the connection "
                                       "was used before",
        [VQP_CONN_HEARD_UNKNOWN]     = "the peer refused it: the interface is not there "
                                       "any more",
        [VQP_CONN_HEARD_CLOSED]      = "the peer closed its interface",
        [VQP_CONN_HEARD_RESET]       = "the peer gave it up",
    };

    return (heard < VQP_CONN_HEARD_LAST) ? texts[heard] : "unknown";
}

/* What came back, and where the handshake stopped */
static const char *uct_vqp_conn_answer(const vqp_conn_t *conn)
{
    const vqp_conn_notes_t *notes = &conn->notes;

    if (notes->stopped == VQP_CONN_PEER) {
        return (conn->status == VQP_ERR_TIMEOUT) ?
                       "the peer answered, its queue pairs could not be connected in time" :
                       "the peer answered, its queue pairs could not be connected";
    }

    if ((notes->stopped == VQP_CONN_READY) &&
        ((notes->heard == VQP_CONN_HEARD_REQ) || (notes->heard == VQP_CONN_HEARD_REP))) {
        return "the peer answered, but did not confirm that its queue pairs are connected";
    }

    if ((notes->stopped == VQP_CONN_NEW) && (notes->reqs == 0)) {
        return "it waited for other connections to this peer, which got no answer";
    }

    return uct_vqp_heard_text(notes->heard);
}

/* None of what was to be sent has left this host */
static int uct_vqp_conn_was_mute(const vqp_conn_notes_t *notes)
{
    return (notes->reqs > 0) && (notes->unsent >= notes->reqs + notes->reps);
}

/* What to look for. NULL: the reason says it, or a line before */
static const char *uct_vqp_conn_hint(const vqp_conn_t *conn)
{
    const vqp_conn_notes_t *notes = &conn->notes;

    if ((conn->status != VQP_ERR_TIMEOUT) && (conn->status != VQP_ERR_RESET)) {
        return NULL; /* a failure of this side, which was logged */
    }

    if (notes->version != 0) {
        return "all processes need the same build of uct_vqp";
    }

    if (uct_vqp_conn_was_mute(notes)) {
        return "the address of the peer does not resolve, or no port is left here";
    }

    if (notes->stopped == VQP_CONN_PEER) {
        return "an address of the peer does not resolve: see ibv_create_ah above, or its "
               "route";
    }

    switch (notes->heard) {
    case VQP_CONN_HEARD_NOTHING:
        return "a firewall (RoCE: UDP 4791), the route, VLAN, GID or MTU may be wrong, or "
               "the process of the peer does not run, or does not call progress";
    case VQP_CONN_HEARD_REQ:
    case VQP_CONN_HEARD_REP:
        return "datagrams get lost in one direction: a firewall (RoCE: UDP 4791), the route "
               "or the MTU; or the peer is still busy, see its log";
    case VQP_CONN_HEARD_MISPLACED:
        return "the host of the peer sends from another GID than its UCX_VQP_GID_INDEX selects";
    case VQP_CONN_HEARD_PROVE:
        return "the peer is busy with others, or datagrams get lost: try a larger "
               "UCX_VQP_CONNECT_TIMEOUT";
    case VQP_CONN_HEARD_UNKNOWN:
    case VQP_CONN_HEARD_CLOSED:
        return "the process of the peer has ended, or was started again";
    case VQP_CONN_HEARD_RESET:
        return "the log of the peer has the reason";
    default:
        return NULL;
    }
}

/* Where a message went: the GID, the LID or both, and the control queue pair */
static void uct_vqp_dest_text(const vqp_conn_dest_t *to, char *buf, size_t size)
{
    static const uint8_t none[VQP_GID_LEN];
    char gid[64], lid[24] = "";

    if (memcmp(to->gid, none, sizeof(none)) == 0) {
        snprintf(buf, size, "lid %u qp 0x%x", to->lid, to->qpn);
        return;
    }

    if (to->lid != 0) {
        snprintf(lid, sizeof(lid), " lid %u", to->lid);
    }
    snprintf(buf, size, "gid %s%s qp 0x%x", vqp_ib_gid_str(to->gid, gid, sizeof(gid)), lid,
             to->qpn);
}

static void uct_vqp_conn_reason(const uct_vqp_t *vqp, char *buf, size_t size)
{
    const vqp_conn_t *conn        = &vqp->conn;
    const vqp_conn_notes_t *notes = &conn->notes;
    const uct_vqp_rail_t *rail    = &vqp->iface->rails[notes->rail];
    char reps[32] = "", unsent[48] = "", to[128], version[64] = "";

    if (notes->reps > 0) {
        snprintf(reps, sizeof(reps), " and %u REP%s", notes->reps,
                 (notes->reps == 1) ? "" : "s");
    }
    if (notes->unsent > 0) {
        snprintf(unsent, sizeof(unsent), ", %u of them could not be sent", notes->unsent);
    }
    if (notes->version != 0) {
        snprintf(version, sizeof(version), ", but datagrams of wire version %u (here: %u)",
                 notes->version, VQP_WIRE_VERSION);
    }

    uct_vqp_dest_text(&conn->dests[notes->dest], to, sizeof(to));
    snprintf(buf, size, ": %u REQ%s%s in %.1f s from %s:%u to %s%s: %s%s", notes->reqs,
             (notes->reqs == 1) ? "" : "s", reps,
             (double)(notes->ended - notes->began) * 1e-9, rail->dev->name, rail->port.num,
             to, unsent, uct_vqp_conn_answer(conn), version);
}

/* A failure of this side has a line of its own, unless it is one of connecting */
static int uct_vqp_conn_has_reason(const vqp_conn_t *conn)
{
    return (conn->status == VQP_ERR_TIMEOUT) || (conn->status == VQP_ERR_RESET) ||
           (conn->status == VQP_ERR_NO_MEMORY) ||
           (conn->notes.stopped == VQP_CONN_PEER);
}

void uct_vqp_log_ep_failed(const uct_vqp_t *vqp, ucs_log_level_t level, ucs_status_t status)
{
    char reason[UCT_VQP_LOG_REASON] = "";
    const char *hint                = NULL;

    if (vqp_conn_was_never_live(&vqp->conn) && uct_vqp_conn_has_reason(&vqp->conn)) {
        uct_vqp_conn_reason(vqp, reason, sizeof(reason));
        hint = uct_vqp_conn_hint(&vqp->conn);
    }

    ucs_log(level, "vqp %u: endpoint to iface 0x%" PRIx64 " failed: %s%s", vqp->number,
            vqp->conn.peer_id, ucs_status_string(status), reason);
    if (hint != NULL) {
        ucs_log(level, "vqp %u: %s (docs/troubleshooting.md)", vqp->number, hint);
    }
}
