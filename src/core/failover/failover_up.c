/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths that come up, see failover.h. Pure: libc only. */
#include "core/failover/failover_int.h"

#include "core/data/place.h"
#include "core/failover/rails.h"

/* There is nothing in flight */
static void vqp_path_begin_epoch(vqp_t *vqp, vqp_path_t *path)
{
    vqp_failover_t *fo = &path->fo;

    ++fo->epoch;
    fo->wrs        = fo->packets = 0;
    fo->wrs_seen   = path->tail;
    fo->bytes_seen = path->stats.bytes;
    fo->imms_sent  = path->stats.imms;
    fo->imms_came  = path->stats.rx_cqes;
    fo->peer_has   = 0;
    path->ring_signaled = vqp->tx.fc.ring_local;
}

/* No queue pair could be created for the path, which stays off. A peer that adds it is
 * refused */
static void vqp_path_not_added(vqp_t *vqp, vqp_path_t *path)
{
    path->fo.waits = 0;
    if (!path->fo.peer_is_up) {
        vqp_cover(ADD_FAILED);
        vqp_tx_link_paths(&vqp->tx);
        return;
    }

    /* As if the new queue pair had gone down before it was connected */
    vqp_cover(ADD_REFUSES);
    vqp_path_begin_epoch(vqp, path);
    path->fo.state = VQP_PATH_CONNECT;
    vqp_path_down(vqp, path, VQP_OK);
}

void vqp_path_rebuilt(vqp_t *vqp, vqp_path_t *path, uint32_t qpn, uint32_t psn)
{
    vqp_failover_t *fo = &path->fo;

    if (fo->state != VQP_PATH_DOWN) {
        return;
    }

    if ((qpn == 0) && fo->unused) {
        vqp_path_not_added(vqp, path);
        return;
    }

    if (qpn == 0) {
        vqp_cover(PATH_NOT_REBUILT);
        fo->due   = 0;
        fo->no_qp = 1;
        return;
    }

    vqp->stats.path_adds += fo->unused;
    fo->added |= fo->unused;
    fo->unused = fo->no_qp = fo->waits = 0;
    fo->qpn       = qpn;
    fo->psn       = psn;
    fo->next_rail = path->rail;
    vqp_path_begin_epoch(vqp, path);
    vqp_path_set_state(vqp, path, VQP_PATH_CONNECT);
    vqp_path_request(vqp, path);
    if (fo->peer_is_up) {
        vqp_path_post(vqp, path, VQP_PATH_TODO_CONNECT);
    }
}

void vqp_path_rebuild_later(vqp_t *vqp, vqp_path_t *path, uint64_t when)
{
    if (path->fo.state != VQP_PATH_DOWN) {
        return;
    }

    vqp_cover(REBUILD_LATER);
    vqp_cover_if(path->fo.unused, ADD_LATER);
    path->fo.due   = vqp_max(when, 1ul); /* 0 would begin a hold */
    path->fo.waits = path->fo.unused;
    path->fo.no_qp = 0; /* a port event would give it another, later turn */
    vqp_tx_link_paths(&vqp->tx);
}

/* Is this path what a vqp without any waits for? If no path works, nor comes up. The peer
 * may have begun with another one: then each side has a queue pair that the other one
 * lacks, and needs a second one */
static int vqp_path_is_needed(const vqp_t *vqp, const vqp_path_t *path)
{
    vqp_path_state_t state;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        state = vqp->tx.paths.list[i].fo.state;
        if ((state != VQP_PATH_DOWN) && (state != VQP_PATH_QUIESCE) &&
            (state != VQP_PATH_DRAINED) &&
            ((state != VQP_PATH_CONNECT) || !path->fo.peer_is_up)) {
            return 0;
        }
    }

    return 1;
}

uint64_t vqp_path_take_turn(vqp_t *vqp, vqp_path_t *path, vqp_turns_t *turns, uint64_t now)
{
    if (vqp_path_is_needed(vqp, path)) {
        return vqp_turns_take(turns, VQP_TURN_NEEDED, &vqp->needed_turn, now);
    }

    return vqp_turns_take(turns, VQP_TURN_SPARE, &path->fo.spare_turn, now);
}

int vqp_path_retry(vqp_t *vqp, vqp_path_t *path)
{
    if ((path->fo.state != VQP_PATH_DOWN) || !path->fo.no_qp || vqp_is_failed(vqp)) {
        return 0;
    }

    vqp_cover(PATH_RETRIED);
    vqp_path_post(vqp, path, VQP_PATH_TODO_REBUILD);
    return 1;
}

void vqp_path_go_probe(vqp_t *vqp, vqp_path_t *path)
{
    if ((path->fo.state == VQP_PATH_READY) && path->fo.peer_has) {
        path->fo.has_probe = 0;
        path->fo.due       = UINT64_MAX; /* no message is repeated */
        vqp_path_reset_silence(path);
        vqp_path_stop_requests(path);
        vqp_path_set_state(vqp, path, VQP_PATH_PROBE);
    }
}

void vqp_path_connected(vqp_t *vqp, vqp_path_t *path, vqp_status_t status)
{
    if (path->fo.state != VQP_PATH_CONNECT) {
        return;
    }

    path->fo.unresolved = (status == VQP_INPROGRESS) ||
                          (status == VQP_ERR_UNREACHABLE);
    if (path->fo.unresolved) {
        vqp_cover(PATH_UNRESOLVED);
        if ((status == VQP_ERR_UNREACHABLE) && vqp_rails_on_unreachable(vqp, path)) {
            vqp_path_down(vqp, path, status);
        }
        return;
    }

    if (status != VQP_OK) {
        vqp_cover(PATH_NOT_CONNECTED);
        path->recv_posted = 0;
        vqp_path_down(vqp, path, status);
        return;
    }

    vqp_path_set_state(vqp, path, VQP_PATH_READY);
    vqp_path_request(vqp, path);
    vqp_path_go_probe(vqp, path);
}

/* The paths beyond those of the handshake: nothing was executed, and both sides know it */
static void vqp_paths_init_off(vqp_t *vqp, const vqp_config_t *config)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = config->num_connected; i < vqp->tx.paths.count; ++i) {
        path                  = &vqp->tx.paths.list[i];
        path->peer_rail       = VQP_RAIL_NONE;
        path->fo.state        = path->fo.logged = VQP_PATH_DOWN;
        path->fo.unused       = path->fo.trimmed = 1;
        path->fo.counted      = path->fo.peer_counted = path->fo.peer_has = 1;
        path->fo.own.source   = VQP_SOURCE_MSN; /* nothing was executed */
        path->fo.peer.source  = VQP_SOURCE_MSN;
        if (vqp->peer_rails > 1) {
            vqp->tx.limits.amo_needs = VQP_NEED_RAIL;
        }
    }

    vqp_tx_link_paths(&vqp->tx);
}

void vqp_path_init(vqp_t *vqp, const vqp_config_t *config)
{
    vqp_failover_t *fo;
    uint32_t i;

    vqp_paths_init_off(vqp, config);
    vqp_rails_init(vqp);
    for (i = 0; i < config->num_connected; ++i) {
        fo             = &vqp->tx.paths.list[i].fo;
        fo->qpn        = config->own_paths[i].qpn;
        fo->psn        = config->own_paths[i].psn;
        fo->peer_is_up = 1;
        fo->peer_qpn   = config->peer_paths[i].qpn;
        fo->peer_psn   = config->peer_paths[i].psn;
        fo->peer_rail  = config->peer_paths[i].rail;
        if (config->down & (1ul << i)) {
            /* vqp_path_set_live() does the rest: this may not be progress's thread */
            vqp_cover(PATH_UNRESOLVED_FIRST);
            fo->state      = VQP_PATH_CONNECT;
            fo->unresolved = 1;
            fo->due        = UINT64_MAX;
        }
    }
}

void vqp_path_set_live(vqp_t *vqp)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        /* Paths that failed since they were connected are in CONNECT too */
        if (path->fo.unresolved) {
            vqp_path_count_down(vqp, path, VQP_ERR_UNREACHABLE);
            vqp_path_set_state(vqp, path, VQP_PATH_CONNECT);
            vqp_path_request(vqp, path);
            vqp_path_post(vqp, path, VQP_PATH_TODO_CONNECT);
        }
        if (i < vqp->min_paths) { /* the peer has begun with fewer */
            (void)vqp_path_add(vqp, path);
        }
    }
}

/* ---- paths that are off ---- */

int vqp_path_add(vqp_t *vqp, vqp_path_t *path)
{
    if (!vqp_path_is_off(path) || (vqp->state != VQP_STATE_LIVE)) {
        return 0;
    }

    vqp_path_post(vqp, path, VQP_PATH_TODO_REBUILD);
    return 1;
}

void vqp_paths_turn_on(vqp_t *vqp)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if ((path->fo.state == VQP_PATH_DOWN) && path->fo.unused) {
            vqp_cover(ADD_NEEDED);
            ++vqp->stats.path_adds;
            path->fo.due    = path->fo.waits ? path->fo.due : 0;
            path->fo.unused = path->fo.waits = 0;
            path->fo.added  = 1;
            vqp_set_event(vqp, VQP_EVENT_TIMER);
        }
    }

    vqp_tx_link_paths(&vqp->tx);
}
