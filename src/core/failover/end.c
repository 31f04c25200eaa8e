/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a vqp that fails, see end.h. Pure: libc only. */
#include "core/failover/end.h"

#include "core/data/fail.h"
#include "core/failover/replay.h"

/* Frags behind a post that failed. A nop may have been posted behind them: its
 * completion passes them */
static void
vqp_end_unposted(vqp_tx_t *tx, vqp_path_t *path, vqp_status_t status)
{
    uint16_t slot;

    if (!path->fo.has_nop) {
        vqp_tx_abandon(tx, path, path->fo.posted, status);
        return;
    }

    for (slot = path->fo.posted; slot != (uint16_t)(path->tail - 1); ++slot) {
        vqp_tx_end_frag(tx, path, vqp_path_at(path, slot), status);
        vqp_replay_make_nop(vqp_path_at(path, slot), 0);
    }
}

/* What only a replay could have confirmed */
static void vqp_end_path(vqp_tx_t *tx, vqp_path_t *path, vqp_status_t status)
{
    path->fo.todo = path->fo.messages = 0;
    vqp_replay_abandon(tx, path, status);
    if (path->fo.state == VQP_PATH_QUIESCE) {
        vqp_end_unposted(tx, path, status);
        /* No completion comes again, and some of these were errors */
        vqp_tx_end_failed(tx, path,
                          path->fo.sends_back ? path->tail : path->fo.failed,
                          status);
    } else if (path->fo.state == VQP_PATH_DRAINED) {
        vqp_tx_end_failed(tx, path, path->tail, status);
    }
}

static void vqp_end_paths(vqp_tx_t *tx, vqp_status_t status)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < tx->paths.count; ++i) {
        path = &tx->paths.list[i];
        if ((path->fo.state != VQP_PATH_UP) || vqp_path_has_replay(path)) {
            vqp_cover(PATH_FAIL_ALL);
            vqp_end_path(tx, path, status);
        }
    }
}

void vqp_fail(vqp_t *vqp, vqp_status_t status)
{
    if (vqp_is_failed(vqp)) {
        return;
    }

    vqp->status = status;
    vqp_set_event(vqp, VQP_EVENT_QPS);
    vqp_set_event(vqp, VQP_EVENT_FAILED);
    if (vqp->owner == VQP_OWNER_CLOSING) {
        vqp_cover(VQP_FAIL_CLOSING);
        vqp_set_event(vqp, VQP_EVENT_CLOSED);
    } else if (!vqp_fails_quietly(vqp)) {
        vqp->tx.lost = 0; /* the error of the endpoint says it */
    }

    if (vqp_is_connected(vqp)) {
        vqp_tx_fail(&vqp->tx, status);
        vqp_end_paths(&vqp->tx, status);
    }
    vqp_set_state(vqp, VQP_STATE_FAILED);
}
