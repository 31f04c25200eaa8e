/* SPDX-License-Identifier: BSD-3-Clause */
/* Move a path that works, see move.h. Pure: libc only. */
#include "core/failover/move.h"

#include "core/data/control.h"
#include "core/failover/rails.h"
#include "core/failover/replay.h"

#define VQP_MISSED_WAIT_MAX 64 /* times failover.hold_max, between two attempts to go back */

static void vqp_path_request_leave(vqp_t *vqp, vqp_path_t *path, int is_drop)
{
    vqp_cover(PATH_REQUESTS_MOVE);
    path->fo.unused = (uint8_t)is_drop;
    path->fo.mover  = VQP_MOVER_REQUEST;
    vqp_path_request(vqp, path);
}

void vqp_path_request_move(vqp_t *vqp, vqp_path_t *path)
{
    vqp_path_request_leave(vqp, path, 0);
}

void vqp_path_leaving_message(vqp_path_t *path, vqp_path_msg_t *msg)
{
    int is_empty = (path->fo.state == VQP_PATH_LEAVE) && path->fo.counted;

    msg->type   = VQP_WIRE_PATH_DOWN;
    msg->flags |= VQP_WIRE_FLAG_LEAVING | (is_empty ? VQP_WIRE_FLAG_DRAINED : 0) |
                  (path->fo.unused ? VQP_WIRE_FLAG_UNUSED : 0);
    msg->down   = (vqp_wire_path_down_t){.path = path->index};
    if (path->fo.mover == VQP_MOVER_REQUEST) {
        path->fo.mover = VQP_MOVER_OWN;
    }
}

static void vqp_path_leave(vqp_t *vqp, vqp_path_t *path)
{
    vqp_failover_t *fo = &path->fo;

    vqp_cover(PATH_LEAVES);
    vqp->stats.moves      += !fo->unused;
    vqp->stats.path_drops += fo->unused;
    if (fo->mover == VQP_MOVER_NONE) {
        fo->mover = VQP_MOVER_PEER;
    }
    fo->counted = fo->peer_counted = fo->trimmed = 0;
    vqp_path_set_state(vqp, path, VQP_PATH_LEAVE);
    vqp_path_request(vqp, path);
}

/* Take the path down once nothing is in flight on either side */
static void vqp_path_check_left(vqp_t *vqp, vqp_path_t *path)
{
    if (vqp_path_has_left(path) && path->fo.counted && path->fo.peer_counted &&
        (vqp->state != VQP_STATE_PEER_CLOSED)) {
        vqp_path_down(vqp, path, VQP_OK);
    }
}

unsigned vqp_paths_kept(const vqp_t *vqp, const vqp_path_t *except)
{
    unsigned count = 0;
    const vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path   = &vqp->tx.paths.list[i];
        count += (path != except) && (path->fo.state == VQP_PATH_UP) && !path->fo.unused;
    }

    return count;
}

/* Would as many paths as this side wants be UP without @a path? */
static int vqp_has_enough_without(const vqp_t *vqp, const vqp_path_t *path)
{
    return vqp_paths_kept(vqp, path) >= vqp->elastic.wanted;
}

int vqp_path_drop(vqp_t *vqp, vqp_path_t *path)
{
    if ((path->fo.state != VQP_PATH_UP) || (path->fo.mover == VQP_MOVER_REQUEST) ||
        (vqp->state != VQP_STATE_LIVE) || !vqp_has_enough_without(vqp, path)) {
        return 0;
    }

    vqp_cover(DROP_REQUESTED);
    vqp_path_request_leave(vqp, path, 1);
    return 1;
}

/* The peer wants to drop the path, which is UP, or agrees to do so. Is it to leave? Not
 * while another one is on trial: the rate without it would be that of fewer paths */
static int vqp_path_on_drop(vqp_t *vqp, vqp_path_t *path)
{
    int is_enough = vqp_has_enough_without(vqp, path);

    if (path->fo.mover == VQP_MOVER_NONE) {
        is_enough = is_enough && (vqp->elastic.state == VQP_ELASTIC_STEADY);
        vqp_cover_if(!is_enough, DROP_IGNORED);
        path->fo.unused = (uint8_t)is_enough;
        return is_enough;
    }

    /* The peer may be in LEAVE already, and wait for this side: at worst it is a move */
    vqp_cover_if(path->fo.unused && !is_enough, DROP_UNDONE);
    path->fo.unused &= (uint8_t)is_enough;
    return 1;
}

/* The peer wants that the path, which is UP, is dropped or moved */
static void vqp_path_on_request(vqp_t *vqp, vqp_path_t *path, int is_drop)
{
    if (!is_drop || vqp_path_on_drop(vqp, path)) {
        vqp_path_leave(vqp, path);
    }
}

void vqp_path_on_leaving(vqp_t *vqp, vqp_path_t *path, const vqp_path_msg_t *msg)
{
    vqp_failover_t *fo = &path->fo;
    int is_drop        = (msg->flags & VQP_WIRE_FLAG_UNUSED) != 0;

    if (vqp->state == VQP_STATE_PEER_CLOSED) {
        return;
    }
    if (fo->state > VQP_PATH_DOWN) { /* the peer has been UP for long, and asks once */
        fo->asked = is_drop ? VQP_PATH_ASKED_DROP : VQP_PATH_ASKED_MOVE;
        return;
    }

    if (fo->state == VQP_PATH_UP) {
        vqp_path_on_request(vqp, path, is_drop);
        if (fo->state == VQP_PATH_UP) {
            return;
        }
    }
    if ((fo->state == VQP_PATH_LEAVE) && (msg->flags & VQP_WIRE_FLAG_DRAINED)) {
        fo->peer_counted = 1;
        vqp_path_check_left(vqp, path);
    }
    vqp_path_answer(vqp, path, msg);
}

/* The path has become UP */
static void vqp_path_was_asked(vqp_t *vqp, vqp_path_t *path)
{
    int is_drop = path->fo.asked == VQP_PATH_ASKED_DROP;

    vqp_cover(PATH_WAS_ASKED);
    path->fo.asked = VQP_PATH_ASKED_NOTHING;
    if (vqp->state != VQP_STATE_PEER_CLOSED) {
        vqp_path_on_request(vqp, path, is_drop);
    }
}

/* In LEAVE: wait until nothing is in flight, then send DRAINED */
static void vqp_path_empty(vqp_t *vqp, vqp_batch_t *batch, vqp_path_t *path)
{
    if (vqp_path_lacks_cqe(path) && !vqp_batch_is_full(batch)) {
        vqp_tx_emit_nop(&vqp->tx, batch, path);
    } else if (vqp_path_has_left(path) && !path->fo.counted) {
        path->fo.counted = 1;
        vqp_path_request(vqp, path);
        vqp_path_check_left(vqp, path);
    }
}

void vqp_paths_leave(vqp_t *vqp, vqp_batch_t *batch)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if ((path->fo.state == VQP_PATH_UP) && (path->fo.asked != VQP_PATH_ASKED_NOTHING)) {
            vqp_path_was_asked(vqp, path);
        }
        if (path->fo.state == VQP_PATH_LEAVE) {
            vqp_path_empty(vqp, batch, path);
        }
    }
}

/* ---- back to the first rails ---- */

void vqp_paths_need_rail(vqp_t *vqp)
{
    if (vqp->back_due == UINT64_MAX) {
        vqp->back_due = 0;
        vqp_set_event(vqp, VQP_EVENT_TIMER);
    }
}

void vqp_paths_go_back(vqp_t *vqp, uint64_t now)
{
    vqp_path_t *path;
    unsigned rail;
    uint32_t i;

    if (now < vqp->back_due) {
        return;
    }

    rail          = vqp_tx_lacked_rail(&vqp->tx);
    vqp->back_due = (rail == VQP_RAIL_NONE) ? UINT64_MAX : now + vqp->failover.hold_max;
    if ((rail == VQP_RAIL_NONE) || (vqp->state != VQP_STATE_LIVE)) {
        return;
    }

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if ((path->fo.state == VQP_PATH_UP) && (path->fo.base_peer == rail) &&
            (path->peer_rail != rail)) {
            vqp_cover(RAILS_BACK);
            vqp_path_request_move(vqp, path);
            return;
        }
    }
}

void vqp_paths_look_for_missed(vqp_t *vqp, uint64_t now)
{
    int is_first = vqp->missed.due == VQP_RAILS_SOON;
    uint64_t wait;
    vqp_path_t *path;
    int is_open;

    if (now < vqp->missed.due) {
        return;
    }

    path = vqp_rails_find_missed(vqp, &is_open);
    wait = vqp->missed.wait;
    if (is_first) { /* both sides may look at the same time: not in the same half of it */
        wait += vqp->failover.decides ? 0 : wait / 2;
    } else if ((path != NULL) && (vqp->state == VQP_STATE_LIVE)) {
        vqp_cover(RAILS_MISSED);
        vqp->missed.wait = vqp_min(2 * wait, VQP_MISSED_WAIT_MAX * vqp->failover.hold_max);
        vqp_path_request_move(vqp, path);
    }

    vqp->missed.due = is_open ? now + wait : UINT64_MAX;
}
