/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of paths, and their timers; see failover.h. Pure: libc only. */
#include "core/failover/failover_int.h"

#include "core/failover/alive.h"
#include "core/failover/elastic.h"
#include "core/failover/end.h"
#include "core/failover/move.h"
#include "core/failover/rails.h"
#include "core/failover/replay.h"
#include "core/failover/silence.h"

/* ---- messages ---- */

int vqp_path_message(vqp_t *vqp, vqp_path_t *path, uint64_t now,
                     vqp_path_msg_t *msg)
{
    vqp_failover_t *fo = &path->fo;
    int is_request     = fo->messages & VQP_PATH_MSG_REQUEST;

    (void)vqp;
    if (fo->messages == 0) {
        return 0;
    }

    msg->epoch    = fo->epoch;
    msg->is_early = fo->sent < VQP_PATH_EARLY;
    fo->sent     += (uint8_t)msg->is_early;
    fo->messages  &= is_request ? (uint8_t)~VQP_PATH_MSG_REQUEST : 0;
    msg->flags     = is_request ? 0 : VQP_WIRE_FLAG_ANSWER;
    if (is_request) {
        fo->due = now + fo->interval;
    }

    if (fo->state == VQP_PATH_SILENT) {
        return vqp_silence_message(path, msg);
    } else if ((fo->state == VQP_PATH_LEAVE) ||
               ((fo->mover == VQP_MOVER_REQUEST) && is_request)) {
        vqp_path_leaving_message(path, msg);
    } else if ((fo->state == VQP_PATH_QUIESCE) ||
               (fo->state == VQP_PATH_DRAINED) || (fo->state == VQP_PATH_DOWN)) {
        msg->type        = VQP_WIRE_PATH_DOWN;
        msg->flags      |= (fo->counted ? VQP_WIRE_FLAG_DRAINED : 0) |
                           (fo->peer_counted ? VQP_WIRE_FLAG_HAVE_YOURS : 0) |
                           (fo->unused ? VQP_WIRE_FLAG_UNUSED : 0);
        msg->down.path   = path->index;
        msg->down.source = fo->counted ? (uint8_t)fo->own.source : 0;
        msg->down.count  = fo->counted ? fo->own.count : 0;
        msg->down.imms   = fo->counted ? fo->own.imms : 0;
        vqp_rails_message(path, &msg->down);
    } else {
        msg->type     = VQP_WIRE_PATH_UP;
        msg->flags   |= (fo->state != VQP_PATH_CONNECT) ?
                                VQP_WIRE_FLAG_HAVE_YOURS : 0;
        msg->up.path  = path->index;
        msg->up.rail  = path->rail;
        msg->up.qpn   = fo->qpn;
        msg->up.psn   = fo->psn;
        msg->up.first = (uint8_t)(fo->base_rail + 1);
    }

    return 1;
}

static void vqp_path_on_down(vqp_t *vqp, vqp_path_t *path,
                             const vqp_path_msg_t *msg)
{
    vqp_failover_t *fo = &path->fo;

    if (msg->flags & VQP_WIRE_FLAG_SILENT) {
        vqp_silence_on_message(vqp, path, msg);
        return;
    }

    /* The peer has rebuilt the path, and it went down again: the peer has both counts */
    if ((msg->epoch == fo->epoch + 1) &&
        (fo->state >= VQP_PATH_DRAINED) && (fo->state <= VQP_PATH_DOWN)) {
        fo->peer_has = 1;
        vqp_path_agree(vqp, path);
        return;
    }

    if (msg->epoch != fo->epoch) {
        vqp_cover(PATH_OLD_MESSAGE);
        /* Of the epoch before: the peer lacks this side's answer to go on */
        if (msg->epoch + 1 == fo->epoch) {
            vqp_path_answer(vqp, path, msg);
        }
        return;
    }

    if (msg->flags & VQP_WIRE_FLAG_LEAVING) {
        vqp_path_on_leaving(vqp, path, msg);
        return;
    }

    if ((fo->state == VQP_PATH_CONNECT) && (msg->flags & VQP_WIRE_FLAG_UNUSED)) {
        vqp_cover(ADD_REFUSED);
        fo->unused = 1;
    }
    vqp_cover_if(fo->state == VQP_PATH_UP, PATH_DOWN_BY_PEER);
    vqp_rails_on_fails(path, &msg->down);
    /* In LEAVE, a peer that knows that this side is drained ends the move, and no fault */
    vqp_path_down(vqp, path, ((fo->state == VQP_PATH_LEAVE) && fo->counted) ?
                                     VQP_OK : VQP_ERR_RESET);
    if (vqp_is_failed(vqp) || (fo->state > VQP_PATH_DOWN)) {
        return;
    }

    if ((msg->flags & VQP_WIRE_FLAG_DRAINED) && !fo->peer_counted) {
        fo->peer_counted = 1;
        fo->peer.source  = msg->down.source;
        fo->peer.count   = msg->down.count;
        fo->peer.imms    = msg->down.imms;
        vqp_rails_on_drained(vqp, path, &msg->down);
    }
    if (fo->counted && (msg->flags & VQP_WIRE_FLAG_HAVE_YOURS)) {
        fo->peer_has = 1;
    }

    vqp_path_agree(vqp, path);
    vqp_path_answer(vqp, path, msg);
}

static void vqp_path_on_up(vqp_t *vqp, vqp_path_t *path,
                           const vqp_path_msg_t *msg)
{
    vqp_failover_t *fo = &path->fo;
    int is_next        = msg->epoch == fo->epoch + 1;

    /* The peer has rebuilt the path already: it has both counts */
    if (is_next && (fo->state >= VQP_PATH_DRAINED) &&
        (fo->state <= VQP_PATH_DOWN)) {
        fo->peer_has = 1;
    } else if (msg->epoch != fo->epoch) {
        vqp_cover(PATH_OLD_MESSAGE);
        return;
    } else if (fo->state < VQP_PATH_CONNECT) {
        if (fo->state == VQP_PATH_UP) {
            vqp_path_answer(vqp, path, msg);
        }
        return;
    }

    if (!fo->peer_is_up) {
        if (!vqp_rails_on_up_message(vqp, path, &msg->up)) {
            return;
        }
        fo->peer_is_up = 1;
        fo->peer_rail  = msg->up.rail;
        fo->peer_qpn   = msg->up.qpn;
        fo->peer_psn   = msg->up.psn;
        if (fo->state == VQP_PATH_CONNECT) {
            vqp_path_post(vqp, path, VQP_PATH_TODO_CONNECT);
        } else if (fo->state == VQP_PATH_DOWN) {
            vqp_path_post(vqp, path, VQP_PATH_TODO_REBUILD);
        }
    }

    if (is_next) {
        vqp_path_agree(vqp, path);
        return;
    }

    if (msg->flags & VQP_WIRE_FLAG_HAVE_YOURS) {
        fo->peer_has = 1;
        vqp_path_go_probe(vqp, path);
    }
    vqp_path_answer(vqp, path, msg);
}

/* No path could come up for @a skipped ns: they do not count as time of an outage */
static void vqp_path_extend_outage(vqp_t *vqp, uint64_t skipped, uint64_t now)
{
    vqp->outage_since = vqp_min(vqp->outage_since + skipped, now);
    if (vqp->acked_at != 0) {
        vqp->acked_at = vqp_min(vqp->acked_at + skipped, now);
    }
}

/* The peer has not called progress for a while. Each request of a path gets such an answer
 * then: what is longer than between two of them, with one lost, was spent otherwise, by a
 * probe for example. The rail of atomics may be back when the peer calls progress. */
static void vqp_path_on_busy(vqp_t *vqp, uint64_t now)
{
    uint64_t busy = vqp_min(now - vqp->path_received, 2 * vqp->failover.retry_max);

    vqp_cover(PATH_PEER_BUSY);
    if (vqp->in_outage) {
        vqp_path_extend_outage(vqp, busy, now);
    }
    vqp->path_received = now;
    vqp->lacks_rail    = 0;
    vqp_alive_seen(vqp, now);
}

void vqp_on_path_message(vqp_t *vqp, const vqp_path_msg_t *msg, uint64_t now)
{
    unsigned index = (msg->type == VQP_WIRE_PATH_DOWN) ?
                             msg->down.path : msg->up.path;

    if (!vqp->failover.is_on || !vqp_is_connected(vqp) || vqp_is_failed(vqp) ||
        (index >= vqp->tx.paths.count)) {
        return;
    }

    if (msg->flags & VQP_WIRE_FLAG_BUSY) {
        vqp_path_on_busy(vqp, now);
        return;
    }

    vqp->path_received = now;
    vqp_alive_seen(vqp, now);

    if (msg->type == VQP_WIRE_PATH_DOWN) {
        vqp_path_on_down(vqp, &vqp->tx.paths.list[index], msg);
    } else {
        vqp_path_on_up(vqp, &vqp->tx.paths.list[index], msg);
    }
}

/* ---- time ---- */

static int vqp_has_path_in(const vqp_t *vqp, vqp_path_state_t state)
{
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        if (vqp->tx.paths.list[i].fo.state == state) {
            return 1;
        }
    }

    return 0;
}

/* failover.outage after the last acknowledgement, whatever the peer sends: a path has to
 * come up. It gets at least a quarter of it after the last path has failed: RC may have
 * retried for longer */
uint64_t vqp_path_outage_end(const vqp_t *vqp)
{
    return vqp_max(vqp->acked_at + vqp->failover.outage,
                   vqp->outage_since + (vqp->failover.outage / 4));
}

uint64_t vqp_path_next_timeout(const vqp_t *vqp)
{
    uint64_t next = vqp_min(vqp_min(vqp->silence.due, vqp->alive.due),
                            vqp_min(vqp->elastic.due,
                                    vqp_min(vqp->back_due, vqp->missed.due)));
    const vqp_path_t *path;
    uint32_t i;

    if (!vqp->failover.is_on || !vqp_is_connected(vqp) || vqp_is_failed(vqp) ||
        (vqp->state == VQP_STATE_PEER_CLOSED)) {
        return UINT64_MAX;
    }

    if (vqp->tx.paths.settled) {
        return next; /* no path has a timer of its own */
    }

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if (!vqp_path_is_settled(path)) {
            next = vqp_min(next, path->fo.due);
        }
    }

    return vqp->in_outage ? vqp_min(next, vqp_path_outage_end(vqp)) : next;
}

/* The longest hold. Without a path that is UP, or to the rail that an atomic waits for, it is
 * short: unless no queue pair can be created, as while the port is down, since thousands of
 * endpoints may wait for that */
static uint64_t vqp_path_hold_max(vqp_t *vqp, const vqp_path_t *path)
{
    if (vqp_has_path_in(vqp, VQP_PATH_UP) && !vqp_tx_lacks_rail(&vqp->tx)) {
        return vqp->failover.hold_max;
    }

    return path->fo.no_qp ? vqp->failover.hold_max / 4 : vqp->failover.hold_first;
}

/* Set when the path is rebuilt: the hold time doubles while the path flaps */
static void vqp_path_hold(vqp_t *vqp, vqp_path_t *path, uint64_t now)
{
    vqp_failover_t *fo = &path->fo;

    if ((fo->held_at != 0) && (now - fo->held_at < 2 * vqp->failover.hold_max)) {
        vqp_cover(PATH_HELD_LONGER);
        fo->hold = vqp_min(vqp_max(2 * fo->hold, vqp->failover.hold_first),
                           vqp->failover.hold_max);
    } else {
        fo->hold = 0;
    }
    fo->held_at = now;
    fo->due     = now + vqp_min(fo->hold, vqp_path_hold_max(vqp, path));
}

static void vqp_path_on_timer(vqp_t *vqp, vqp_path_t *path, uint64_t now)
{
    vqp_failover_t *fo = &path->fo;

    if (fo->state == VQP_PATH_DOWN) {
        if (fo->due == 0) {
            vqp_path_hold(vqp, path, now);
        }
        if (now >= fo->due) {
            fo->due = now + vqp->failover.hold_max;
            vqp_path_post(vqp, path, VQP_PATH_TODO_REBUILD);
        }
    } else if (now >= fo->due) {
        /* No answer: the process of the peer may have ended. The HCA would answer
         * on the other paths. Where the question of SILENT waits, frags in flight show it */
        vqp_cover(PATH_REPEATS);
        if ((fo->state != VQP_PATH_SILENT) || vqp_path_is_withheld(path)) {
            vqp_path_nop_idle(vqp);
        }
        fo->interval  = vqp_min(2 * fo->interval, vqp->failover.retry_max);
        fo->due       = now + fo->interval;
        fo->messages |= VQP_PATH_MSG_REQUEST;
        vqp_path_post(vqp, path, VQP_PATH_TODO_SEND);
        if (fo->unresolved) {
            vqp_path_post(vqp, path, VQP_PATH_TODO_CONNECT);
        }
    }
}

/* Fail the vqp if the peer answers and the rail of the atomics stays down. A peer that
 * does not answer may compute, and the rail may be back when it calls progress. */
static void vqp_path_check_rail(vqp_t *vqp, uint64_t now)
{
    if ((now - vqp->path_received >= vqp->failover.outage) ||
        !vqp_tx_lacks_rail(&vqp->tx)) {
        vqp->lacks_rail = 0;
    } else if (!vqp->lacks_rail) {
        vqp->lacks_rail  = 1;
        vqp->lacks_since = now;
    } else if (now - vqp->lacks_since >= vqp->failover.outage) {
        vqp_cover(PATH_LACKS_RAIL);
        vqp_fail(vqp, VQP_ERR_TIMEOUT);
    }
}

/* A time without calls of progress counts as hold_max at most: no path could come up */
static void vqp_path_skip_time(vqp_t *vqp, uint64_t now)
{
    uint64_t elapsed = now - vqp->timed_at;
    uint64_t skipped = elapsed - vqp_min(elapsed, vqp->failover.hold_max);

    vqp->timed_at     = now;
    vqp->lacks_since  = vqp_min(vqp->lacks_since + skipped, now);
    vqp_path_extend_outage(vqp, skipped, now);
    vqp_alive_skip(vqp, skipped, now);
}

/* Count the time for which all paths are down */
static void vqp_path_count_outage(vqp_t *vqp, uint64_t now)
{
    int is_up = vqp_has_path_in(vqp, VQP_PATH_UP);

    if (!is_up && (vqp->all_down == 0)) {
        vqp->all_down = now;
    } else if (is_up && (vqp->all_down != 0)) {
        vqp->stats.outage_ms += (now - vqp->all_down) / 1000000;
        vqp->all_down         = 0;
    }
}

void vqp_on_path_timer(vqp_t *vqp, uint64_t now, int is_drained)
{
    uint32_t i;

    if (vqp_path_next_timeout(vqp) == UINT64_MAX) {
        vqp->in_outage = vqp->lacks_rail = 0;
        return;
    }

    vqp_path_skip_time(vqp, now);
    vqp_silence_look(vqp, now, is_drained);
    vqp_elastic_look(vqp, now, is_drained);
    vqp_paths_go_back(vqp, now);
    vqp_paths_look_for_missed(vqp, now);
    vqp_path_count_outage(vqp, now);
    for (i = 0; i < vqp->tx.paths.count; ++i) {
        if (!vqp_path_is_settled(&vqp->tx.paths.list[i])) {
            vqp_path_on_timer(vqp, &vqp->tx.paths.list[i], now);
        }
    }

    vqp_alive_on_timer(vqp, now);
    if (vqp_has_path_in(vqp, VQP_PATH_UP)) {
        vqp->in_outage = 0;
    } else if (!vqp->in_outage) {
        vqp->in_outage    = 1;
        vqp->outage_since = vqp->path_received = now;
        vqp->acked_at     = (vqp->acked_at == 0) ? now : vqp->acked_at;
        vqp_alive_wait(vqp, now);
        vqp_paths_turn_on(vqp);
    } else if (now >= vqp_path_outage_end(vqp)) {
        vqp_cover(PATH_OUTAGE);
        vqp_fail(vqp, VQP_ERR_TIMEOUT);
        return;
    }

    vqp_path_check_rail(vqp, now);
}
