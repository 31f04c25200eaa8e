/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths that go down and come back, see vqp_paths.h. */
#include "uct/vqp_paths.h"

#include "uct/vqp_cm.h"
#include "uct/vqp_flow.h"
#include "uct/vqp_path_log.h"
#include "uct/vqp_post.h"
#include "uct/vqp_qps.h"
#include "uct/vqp_timers.h"

#include "core/conn/entropy.h"
#include "core/failover/alive.h"
#include "core/failover/elastic.h"
#include "core/failover/rails.h"
#include "core/failover/slow.h"
#include "verbs/executed.h"

#include <ucs/debug/log.h>

static inline ucs_async_context_t *uct_vqp_async(const uct_vqp_t *vqp)
{
    return vqp->iface->super.worker->async;
}

/* ---- queue pairs ---- */

/* No flush will tell that its queue pair has ended. Until it is destroyed it may execute what
 * the peer sends, after the count was taken. */
static void uct_vqp_destroy_path(uct_vqp_t *vqp, vqp_path_t *path)
{
    UCS_ASYNC_BLOCK(uct_vqp_async(vqp));
    uct_vqp_drop_qp(vqp, path->index);
    UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp));
    vqp_path_quiesced(&vqp->core, path, 1, 0);
}

static void uct_vqp_quiesce_path(uct_vqp_t *vqp, vqp_path_t *path)
{
    vqp_ib_path_t *ib = &vqp->ib_paths[path->index];
    uint32_t posted   = 0;

    ++vqp->iface->flush.paths;
    vqp->iface->flush.wcs += 1u + path->recv_posted + vqp_path_outstanding(path);
    if (!uct_vqp_path_to_error(vqp, path->index)) {
        uct_vqp_destroy_path(vqp, path);
        return;
    }

    /* Its flush is the last thing that comes; the queue may be full without it */
    if (path->recv_used >= path->recv_posted) {
        (void)vqp_ib_qp_post_recvs(&ib->rc, ib->wrid | VQP_IB_WRID_RECV, 1,
                                   &posted);
        /* Soft-RoCE posts without the kernel: only a modify flushes it then */
        (void)uct_vqp_path_to_error(vqp, path->index);
    }
    vqp_path_quiesced(&vqp->core, path, 0, (uint16_t)posted);
}

static void uct_vqp_count_path(uct_vqp_t *vqp, vqp_path_t *path)
{
    vqp_ib_path_t *ib   = &vqp->ib_paths[path->index];
    vqp_source_t source = vqp->iface->rails[path->rail].source;
    uint32_t count      = 0;

    if ((source != VQP_SOURCE_IMM) &&
        ((ib->rc.qp == NULL) ||
         uct_vqp_rail_is_broken(&vqp->iface->rails[path->rail]) ||
         (vqp_ib_executed(&ib->rc, ib->rq_psn, &count) != VQP_OK))) {
        source = VQP_SOURCE_IMM;
    }

    if (vqp->iface->flush.paths > 0) {
        --vqp->iface->flush.paths;
    }
    ucs_debug("vqp %u: path %u has executed %u, by source %s", vqp->number,
              path->index, count, vqp_source_name(source));
    vqp_path_counted(&vqp->core, path, source, count);
}

/* Can queue pairs on the rail be connected? */
static int uct_vqp_rail_is_good(uct_vqp_rail_t *rail)
{
    return !uct_vqp_rail_is_broken(rail) && uct_vqp_rail_is_active(rail) &&
           !rail->is_gid_gone;
}

uint32_t uct_vqp_iface_good_rails(uct_vqp_iface_t *iface)
{
    uint32_t good = 0;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        good |= (uint32_t)uct_vqp_rail_is_good(&iface->rails[i]) << i;
    }

    return good;
}

/* If it fails the path has no queue pair, and is where it was */
static int uct_vqp_rebuild_on(uct_vqp_t *vqp, vqp_path_t *path, unsigned rail)
{
    /* without one that is added the endpoint is as it was */
    int is_added             = path->fo.unused || path->fo.added;
    vqp_ib_log_level_t level = is_added ? VQP_IB_LOG_DIAG : VQP_IB_LOG_FAULT;
    unsigned old             = path->rail;
    ucs_status_t status;

    path->rail = (uint8_t)rail;
    status     = uct_vqp_renew_qp(vqp, path->index,
                                  vqp_path_next_depth(&vqp->core, path) +
                                  uct_vqp_spare_slots(&vqp->iface->set),
                                  level);
    if (status != UCS_OK) {
        path->rail = (uint8_t)old;
        return 0;
    }

    if (rail != old) {
        vqp->ib_paths[path->index].lag_tries = 0;
        vqp_rails_on_moved(&vqp->core, path);
        uct_vqp_log_rail(vqp, path, old);
    }
    return 1;
}

static void uct_vqp_rebuild_path(uct_vqp_t *vqp, vqp_path_t *path)
{
    uct_vqp_iface_t *iface = vqp->iface;
    unsigned old           = path->rail;
    uint64_t later         = 0;
    uint32_t psn           = 0;
    int is_built           = 0;
    uint32_t good;
    unsigned rail;

    UCS_ASYNC_BLOCK(uct_vqp_async(vqp));
    good = uct_vqp_iface_good_rails(iface);
    rail = vqp_rails_choose(&vqp->core, path, good, uct_vqp_now());
    if (good & UCS_BIT(rail)) {
        later    = vqp_path_take_turn(&vqp->core, path, &iface->turns, uct_vqp_now());
        is_built = (later == 0) &&
                   (uct_vqp_random_reserve(&iface->random, 1) == UCS_OK) &&
                   (uct_vqp_rebuild_on(vqp, path, rail) ||
                    ((rail != old) && (good & UCS_BIT(old)) &&
                     uct_vqp_rebuild_on(vqp, path, old)));
    }
    if (is_built) {
        psn = (uint32_t)uct_vqp_random_next(&iface->random) & 0xffffff;
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp));

    if (later != 0) {
        vqp_path_rebuild_later(&vqp->core, path, later);
        return;
    }

    vqp->local->paths[path->index].psn = psn;
    vqp_path_rebuilt(&vqp->core, path,
                     is_built ? vqp->ib_paths[path->index].rc.qpn : 0, psn);
}

static void uct_vqp_reconnect_path(uct_vqp_t *vqp, vqp_path_t *path)
{
    vqp_wire_path_t peer = {
        .qpn  = path->fo.peer_qpn,
        .psn  = path->fo.peer_psn,
        .rail = path->fo.peer_rail
    };
    vqp_status_t status;

    path->recv_used = 0;
    uct_vqp_log_peer_rail(vqp, path);
    UCS_ASYNC_BLOCK(uct_vqp_async(vqp));
    status = (vqp->ib_paths[path->index].rc.qp == NULL) ? VQP_ERR_IO :
             uct_vqp_resolve_path(vqp, path->index, &vqp->peer_info[peer.rail]);
    if (status == VQP_OK) {
        status = uct_vqp_connect_path(vqp, path->index, &peer, VQP_IB_LOG_FAULT);
        if (status == VQP_ERR_UNREACHABLE) {
            status = VQP_ERR_IO; /* receives were posted: it is rebuilt */
        }
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp));
    vqp_path_connected(&vqp->core, path, status);
}

/* Packets that are under way may be overtaken by later ones: RC sends them again */
static void uct_vqp_rehash_path(uct_vqp_t *vqp, vqp_path_t *path)
{
    vqp_ib_path_t *ib    = &vqp->ib_paths[path->index];
    uct_vqp_rail_t *rail = &vqp->iface->rails[path->rail];
    vqp_status_t status;
    uint16_t port;

    ib->rehashed = 1;
    port         = vqp_entropy_port(uct_vqp_flow_label(vqp, path->index));
    status       = vqp_ib_lag_set_sport(rail->dev, &ib->rc, port);
    if (status == VQP_OK) {
        ucs_diag("vqp %u: path %u (%s:%u, to iface 0x%" PRIx64 ") has UDP source port %u "
                 "now: it was slow (UCX_VQP_SLOW_PATH)", vqp->number, path->index,
                 rail->dev->name, rail->port.num, vqp->conn.peer_id, port);
    } else {
        ib->rehashed = 0;
    }
    vqp_path_rehashed(&vqp->core, path, status);
}

/* ---- messages ---- */

static void uct_vqp_send_path_messages(uct_vqp_t *vqp, vqp_path_t *path)
{
    vqp_conn_route_t own = {path->rail, path->peer_rail};
    vqp_conntab_action_t action;
    vqp_path_msg_t msg;
    const void *body;

    UCS_ASYNC_BLOCK(uct_vqp_async(vqp));
    while (vqp_path_message(&vqp->core, path, uct_vqp_now(), &msg)) {
        body = (msg.type == VQP_WIRE_PATH_DOWN) ? (const void*)&msg.down :
                                                  &msg.up;
        if (vqp_conntab_path_message(&vqp->conn, msg.type, msg.flags,
                                     msg.epoch, body,
                                     msg.is_early ? &own : NULL, &action)) {
            uct_vqp_cm_send(vqp->iface, &action);
        }
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp));
}

void uct_vqp_ping(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;
    vqp_conntab_action_t actions[2];
    vqp_conn_answers_t answers;
    uint32_t rails = 0;
    unsigned i, count;
    uint64_t now;

    if (vqp_is_failed(&vqp->core)) {
        return; /* since the event was posted */
    }

    for (i = 0; i < iface->num_rails; ++i) {
        rails |= (uint32_t)(!uct_vqp_rail_is_broken(&iface->rails[i]) &&
                            uct_vqp_rail_is_active(&iface->rails[i])) << i;
    }

    UCS_ASYNC_BLOCK(uct_vqp_async(vqp));
    now   = uct_vqp_now();
    count = vqp_conn_ping(&vqp->conn, rails, now, &answers, actions);
    for (i = 0; i < count; ++i) {
        uct_vqp_cm_send(iface, &actions[i]);
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp));

    vqp_alive_pinged(&vqp->core, &answers, now);
    if (vqp->core.alive.is_dead) {
        ucs_diag("vqp %u: the process of iface 0x%" PRIx64 " has died: its host "
                 "answers, it does not", vqp->number, vqp->conn.peer_id);
    }
    uct_vqp_handle_failure(vqp);
    uct_vqp_set_timer(vqp);
}

void uct_vqp_handle_path_messages(uct_vqp_t *vqp)
{
    vqp_path_msg_t msg;
    int is_taken;
    unsigned i;

    for (i = 0; i < VQP_INBOX_TYPES * vqp->core.num_paths; ++i) {
        UCS_ASYNC_BLOCK(uct_vqp_async(vqp));
        is_taken = vqp_inbox_take(&vqp->inboxes[i / VQP_INBOX_TYPES], &vqp->core,
                                  i % VQP_INBOX_TYPES, &msg);
        UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp));
        if (is_taken) {
            vqp_on_path_message(&vqp->core, &msg, uct_vqp_now());
        }
    }

    uct_vqp_handle_failure(vqp);
    uct_vqp_set_timer(vqp);
    uct_vqp_schedule(vqp);
}

/* ---- events ---- */

void uct_vqp_handle_path_event(uct_vqp_t *vqp, vqp_event_t event)
{
    vqp_path_t *path = &vqp->paths[vqp->core.event_path];

    switch (event) {
    case VQP_EVENT_PATH_STATE:
        if (path->fo.logged == VQP_PATH_UP) { /* it worked: its own member port is next */
            vqp->ib_paths[path->index].lag_tries = 0;
        }
        uct_vqp_log_path(vqp, path);
        uct_vqp_log_outage(vqp);
        break;
    case VQP_EVENT_PATH_QUIESCE:
        uct_vqp_quiesce_path(vqp, path);
        break;
    case VQP_EVENT_PATH_COUNT:
        uct_vqp_count_path(vqp, path);
        break;
    case VQP_EVENT_PATH_DESTROY:
        UCS_ASYNC_BLOCK(uct_vqp_async(vqp));
        uct_vqp_drop_qp(vqp, path->index);
        UCS_ASYNC_UNBLOCK(uct_vqp_async(vqp));
        break;
    case VQP_EVENT_PATH_REBUILD:
        uct_vqp_rebuild_path(vqp, path);
        break;
    case VQP_EVENT_PATH_CONNECT:
        uct_vqp_reconnect_path(vqp, path);
        break;
    case VQP_EVENT_PATH_REHASH:
        uct_vqp_rehash_path(vqp, path);
        break;
    default:
        uct_vqp_send_path_messages(vqp, path);
        break;
    }

    uct_vqp_handle_failure(vqp);
    uct_vqp_set_timer(vqp);
    uct_vqp_schedule(vqp);
}

void uct_vqp_path_fault(uct_vqp_t *vqp, unsigned path, vqp_status_t status)
{
    vqp_path_down(&vqp->core, &vqp->paths[path], status);
    uct_vqp_handle_failure(vqp);
    uct_vqp_schedule_wake(vqp);
}

void uct_vqp_path_destroyed(uct_vqp_t *vqp, unsigned index)
{
    vqp_path_t *path = &vqp->paths[index];

    if ((path->fo.state == VQP_PATH_QUIESCE) && path->fo.quiesced) {
        uct_vqp_destroy_path(vqp, path);
        uct_vqp_schedule_wake(vqp);
    } else {
        uct_vqp_path_fault(vqp, index, VQP_ERR_IO);
    }
}
