/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines for an administrator, see vqp_path_log.h. */
#include "uct/vqp_path_log.h"

#include "uct/vqp.h"

#include "core/failover/rails.h"

#include <ucs/debug/log.h>

#define UCT_VQP_OUTAGE_NEWS 500000000ul /* ns until an outage is reported, at most */

ucs_log_level_t uct_vqp_warn_level(uint64_t *warned, uint64_t interval)
{
    uint64_t now = uct_vqp_now();

    if ((*warned != 0) && (now - *warned < interval)) {
        return UCS_LOG_LEVEL_DIAG;
    }

    *warned = now;
    return UCS_LOG_LEVEL_WARN;
}

/* Is the link or a port at fault? Else it may be an operation, which fails with an error
 * of its own if it fails again, or the other side knows the cause */
static int uct_vqp_is_link_fault(uct_vqp_t *vqp, const vqp_path_t *path)
{
    return (path->fo.status == VQP_ERR_TIMEOUT) ||
           (path->fo.status == VQP_ERR_UNREACHABLE) ||
           (path->fo.why_silent != 0) ||
           ((path->fo.status == VQP_ERR_IO) &&
            !uct_vqp_rail_is_active(&vqp->iface->rails[path->rail]));
}

/* The first fault of a link is a warning: it is worth a look */
static ucs_log_level_t
uct_vqp_path_level(uct_vqp_t *vqp, const vqp_path_t *path, int is_fault)
{
    uint64_t bit = 1ul << path->index;
    ucs_log_level_t level;

    if (!is_fault || (vqp->faulted & bit) || !uct_vqp_is_link_fault(vqp, path)) {
        return UCS_LOG_LEVEL_DIAG;
    }

    level = uct_vqp_warn_level(&vqp->iface->warned_path, UCT_VQP_WARN_INTERVAL);
    if (level <= UCS_LOG_LEVEL_WARN) {
        vqp->faulted |= bit; /* else its next fault may be the one that is told */
    }

    return level;
}

/* A line for the administrator: the path went down, or is up again */
static void uct_vqp_diag_path(uct_vqp_t *vqp, const vqp_path_t *path, int is_fault)
{
    const char *reason = (path->fo.status == VQP_ERR_RESET) ?
                         "the peer gave it up" :
                         ucs_status_string(uct_vqp_status(path->fo.status));
    const uct_vqp_rail_t *rail = &vqp->iface->rails[path->rail];
    /* it goes down with VQP_OK when it has left, else because of a fault */
    int is_move = (path->fo.state == VQP_PATH_LEAVE) ||
                  (path->fo.status == VQP_OK);
    ucs_log_level_t level; /* ucs_log() evaluates it twice */
    char change[160];

    if (path->fo.state == VQP_PATH_UP) {
        snprintf(change, sizeof(change), "up again after %.1f ms",
                 (double)(uct_vqp_now() - path->fo.down_at) * 1e-6);
    } else if (is_move && (path->fo.mover == VQP_MOVER_OWN) && (path->fo.slow == 0)) {
        snprintf(change, sizeof(change), vqp_rails_is_away(path) ?
                 "moved back to its first rails" :
                 "to stay: it was to be dropped, and others are down");
    } else if (is_move && (path->fo.mover == VQP_MOVER_OWN)) {
        snprintf(change, sizeof(change),
                 "moved to another flow label: less than a quarter of the rate of "
                 "other paths for %.1f ms (UCX_VQP_SLOW_PATH)",
                 (double)path->fo.slow * 1e-6);
    } else if (is_move && (path->fo.mover == VQP_MOVER_PEER)) {
        snprintf(change, sizeof(change), "moved to %s: the peer asks for it",
                 vqp_rails_is_away(path) ? "its first rails" : "another flow label");
    } else if (path->fo.why_silent != 0) {
        snprintf(change, sizeof(change),
                 "down: no completion in %.1f ms in which other paths had some "
                 "(UCX_VQP_PATH_TIMEOUT)", (double)path->fo.why_silent * 1e-6);
    } else {
        snprintf(change, sizeof(change), "down: %s", reason);
    }

    level = uct_vqp_path_level(vqp, path, is_fault && !is_move);
    ucs_log(level, "vqp %u: path %u (%s:%u, to iface 0x%" PRIx64 ") is %s; it went down "
            "%u times, %" PRIu64 " frags were sent again", vqp->number,
            path->index, rail->dev->name, rail->port.num, vqp->conn.peer_id,
            change, path->fo.downs, path->stats.replays);
}

/* Programs may ignore the status of a flush: that something may be lost is a warning */
static void uct_vqp_log_undecided(uct_vqp_t *vqp, const vqp_path_t *path)
{
    uint64_t undecided = vqp->core.stats.undecided;
    ucs_log_level_t level; /* ucs_log() evaluates it twice */

    if ((undecided != vqp->undecided) && !vqp_is_failed(&vqp->core)) {
        level = uct_vqp_warn_level(&vqp->iface->warned_lost, UCT_VQP_WARN_INTERVAL);
        ucs_log(level, "vqp %u: path %u (to iface 0x%" PRIx64 ") went down with atomics: "
                "the result of %" PRIu64 " is unknown, or whether they were executed",
                vqp->number, path->index, vqp->conn.peer_id,
                undecided - vqp->undecided);
    }
    vqp->undecided = undecided;
}

void uct_vqp_log_path(uct_vqp_t *vqp, vqp_path_t *path)
{
    vqp_path_state_t old = (vqp_path_state_t)path->fo.logged;
    vqp_path_state_t new = (vqp_path_state_t)path->fo.state;
    int was_used         = (old <= VQP_PATH_LEAVE) &&
                           ((old != VQP_PATH_SILENT) ||
                            (path->fo.resume != VQP_PATH_PROBE));
    int is_fault         = was_used && (new > VQP_PATH_LEAVE) &&
                           (path->fo.status != VQP_OK);
    int is_move          = (old == VQP_PATH_UP) && (new != VQP_PATH_SILENT);
    int is_back          = (new == VQP_PATH_UP) &&
                           (!was_used || (old == VQP_PATH_LEAVE));

    if (old == new) {
        return;
    }

    uct_vqp_log_undecided(vqp, path);

    /* That a path is added or dropped is no news for the administrator */
    if (is_fault || (is_move && !path->fo.unused) || (is_back && !path->fo.added)) {
        uct_vqp_diag_path(vqp, path, is_fault);
    }
    if (was_used && (old != VQP_PATH_LEAVE) && (new > VQP_PATH_SILENT)) {
        path->fo.down_at = uct_vqp_now();
    }
    ucs_debug("vqp %u: path %u %s -> %s, epoch %u", vqp->number,
              path->index, vqp_path_state_name(path->fo.logged),
              vqp_path_state_name(path->fo.state), path->fo.epoch);
    path->fo.logged = path->fo.state;
}

/* The path had its warning when it went down: that it moves is news once in a while */
void uct_vqp_log_rail(uct_vqp_t *vqp, const vqp_path_t *path, unsigned old)
{
    const uct_vqp_rail_t *from = &vqp->iface->rails[old];
    const uct_vqp_rail_t *to   = &vqp->iface->rails[path->rail];
    ucs_log_level_t level      = uct_vqp_warn_level(&vqp->iface->warned_rail,
                                                    UCT_VQP_WARN_INTERVAL);

    ucs_log(level, "vqp %u: path %u (to iface 0x%" PRIx64 ") moves from %s:%u to %s:%u, %s",
            vqp->number, path->index, vqp->conn.peer_id, from->dev->name, from->port.num,
            to->dev->name, to->port.num, (path->rail == path->fo.base_rail) ?
            "where it was at first" : "since it did not come up");
}

void uct_vqp_log_peer_rail(const uct_vqp_t *vqp, vqp_path_t *path)
{
    if ((path->fo.logged_peer != VQP_RAIL_NONE) &&
        (path->fo.logged_peer != path->peer_rail)) {
        ucs_diag("vqp %u: path %u (to iface 0x%" PRIx64 ") leads from rail %u of the peer "
                 "to rail %u now", vqp->number, path->index, vqp->conn.peer_id,
                 path->fo.logged_peer, path->peer_rail);
    }
    path->fo.logged_peer = path->peer_rail;
}

void uct_vqp_log_not_accepted(uct_vqp_iface_t *iface, uint64_t peer_id, ucs_status_t status)
{
    ucs_log_level_t level = uct_vqp_warn_level(&iface->warned_accept, UCT_VQP_WARN_INTERVAL);

    ucs_log(level, "a connection of iface 0x%" PRIx64 " is not accepted: %s. It tries "
            "again", peer_id, ucs_status_string(status));
}

void uct_vqp_log_gid(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail, int was_gone)
{
    const char *type = vqp_ib_gid_type_str(rail->gid.type);
    char gid[VQP_IB_GID_STR_MAX];
    ucs_log_level_t level;

    vqp_ib_gid_str(rail->gid.raw, gid, sizeof(gid));
    if (rail->is_gid_gone) {
        rail->gid_level = (uint8_t)uct_vqp_warn_level(&iface->warned_gid,
                                                      UCT_VQP_WARN_INTERVAL);
        ucs_log((ucs_log_level_t)rail->gid_level,
                "%s:%u: the GID %s (%s) is not in the table of the port any more: paths "
                "that fail there come back when it is. Was the address of the network "
                "interface changed?", rail->dev->name, rail->port.num, gid, type);
    } else {
        level = was_gone ? (ucs_log_level_t)rail->gid_level : UCS_LOG_LEVEL_DIAG;
        ucs_log(level, "%s:%u: the GID %s (%s) has index %u now", rail->dev->name,
                rail->port.num, gid, type, rail->gid.index);
    }
}

/* Does an outage last for long, by the time that counts? That the only path in use fails and
 * is rebuilt at once is no news */
static int uct_vqp_is_long_outage(const uct_vqp_t *vqp)
{
    return vqp->core.in_outage && !vqp_is_failed(&vqp->core) &&
           (uct_vqp_now() >= vqp->core.outage_since +
            ucs_min(UCT_VQP_OUTAGE_NEWS, vqp->core.failover.outage / 4));
}

void uct_vqp_log_outage(uct_vqp_t *vqp)
{
    uint64_t end;

    if ((vqp->outage_at == 0) && uct_vqp_is_long_outage(vqp)) {
        end               = vqp_path_outage_end(&vqp->core);
        vqp->outage_at    = vqp->core.all_down;
        vqp->outage_level = (uint8_t)uct_vqp_warn_level(&vqp->iface->warned_outage,
                                                        UCT_VQP_WARN_INTERVAL);
        ucs_log((ucs_log_level_t)vqp->outage_level,
                "vqp %u: no path to iface 0x%" PRIx64 " is up. The endpoint fails if "
                "none comes up in the next %.1f s (UCX_VQP_OUTAGE_TIMEOUT)", vqp->number,
                vqp->conn.peer_id,
                (double)(end - ucs_min(end, uct_vqp_now())) * 1e-9);
    } else if (!vqp->core.in_outage && (vqp->outage_at != 0)) {
        ucs_log((ucs_log_level_t)vqp->outage_level,
                "vqp %u: the outage of iface 0x%" PRIx64 " is over, after %.1f ms",
                vqp->number, vqp->conn.peer_id,
                (double)(uct_vqp_now() - vqp->outage_at) * 1e-6);
        vqp->outage_at = 0;
    }
}
