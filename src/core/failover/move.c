/* Move a path that works, see move.h. Pure: libc only. */
#include "core/failover/move.h"

#include "core/data/control.h"

void vqp_path_request_move(vqp_t *vqp, vqp_path_t *path)
{
    vqp_cover(PATH_REQUESTS_MOVE);
    path->fo.mover = VQP_MOVER_REQUEST;
    vqp_path_request(vqp, path);
}

void vqp_path_leaving_message(vqp_path_t *path, vqp_path_msg_t *msg)
{
    int is_empty = (path->fo.state == VQP_PATH_LEAVE) && path->fo.counted;

    msg->type   = VQP_WIRE_PATH_DOWN;
    msg->flags |= VQP_WIRE_FLAG_LEAVING | (is_empty ? VQP_WIRE_FLAG_DRAINED : 0);
    msg->down   = (vqp_wire_path_down_t){.path = path->index};
    if (path->fo.mover == VQP_MOVER_REQUEST) {
        path->fo.mover = VQP_MOVER_OWN;
    }
}

static void vqp_path_leave(vqp_t *vqp, vqp_path_t *path)
{
    vqp_failover_t *fo = &path->fo;

    vqp_cover(PATH_LEAVES);
    ++vqp->stats.moves;
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

void vqp_path_on_leaving(vqp_t *vqp, vqp_path_t *path, const vqp_path_msg_t *msg)
{
    vqp_failover_t *fo = &path->fo;

    if ((fo->state > VQP_PATH_DOWN) || (vqp->state == VQP_STATE_PEER_CLOSED)) {
        return; /* the peer repeats it from LEAVE; from UP it was a request */
    }

    if (fo->state == VQP_PATH_UP) {
        vqp_path_leave(vqp, path);
    }
    if ((fo->state == VQP_PATH_LEAVE) && (msg->flags & VQP_WIRE_FLAG_DRAINED)) {
        fo->peer_counted = 1;
        vqp_path_check_left(vqp, path);
    }
    vqp_path_answer(vqp, path, msg);
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
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        if (vqp->tx.paths.list[i].fo.state == VQP_PATH_LEAVE) {
            vqp_path_empty(vqp, batch, &vqp->tx.paths.list[i]);
        }
    }
}
