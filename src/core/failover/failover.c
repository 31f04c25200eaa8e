/* SPDX-License-Identifier: BSD-3-Clause */
/* The failover of paths, see failover.h. Pure: libc only. */
#include "core/failover/failover_int.h"

#include "core/failover/alive.h"
#include "core/failover/end.h"
#include "core/data/control.h"
#include "core/failover/rails.h"
#include "core/failover/replay.h"
#include "core/failover/trim.h"

#include <string.h>

const char *vqp_path_state_name(unsigned state)
{
    static const char *const names[] = {
#define VQP_PATH_STATE_NAME(_name, _help) #_name,
        VQP_PATH_STATES(VQP_PATH_STATE_NAME)
#undef VQP_PATH_STATE_NAME
    };

    return (state < VQP_PATH_STATE_LAST) ? names[state] : "unknown";
}

const char *vqp_source_name(unsigned source)
{
    static const char *const names[] = {
#define VQP_SOURCE_NAME(_upper, _name, _help) _name,
        VQP_SOURCES(VQP_SOURCE_NAME)
#undef VQP_SOURCE_NAME
    };

    return (source < VQP_SOURCE_LAST) ? names[source] : "unknown";
}

void vqp_path_set_state(vqp_t *vqp, vqp_path_t *path, vqp_path_state_t state)
{
    path->fo.state = (uint8_t)state;
    path->fo.sent  = 0;
    path->fo.todo &= (uint8_t)~VQP_PATH_TODO_REHASH;
    vqp_path_post(vqp, path, VQP_PATH_TODO_STATE);
    vqp->tx.slow |= VQP_TX_REPLAY;
    vqp_tx_link_paths(&vqp->tx);
}

void vqp_path_request(vqp_t *vqp, vqp_path_t *path)
{
    path->fo.interval  = vqp->failover.retry_first;
    path->fo.messages |= VQP_PATH_MSG_REQUEST;
    vqp_path_post(vqp, path, VQP_PATH_TODO_SEND);
}

/* Has the path a connected queue pair? */
static int vqp_path_is_linked(const vqp_path_t *path)
{
    return (path->fo.state <= VQP_PATH_LEAVE) ||
           (path->fo.state == VQP_PATH_READY) ||
           (path->fo.state == VQP_PATH_PROBE);
}

/* ---- going down ---- */

void vqp_path_agree(vqp_t *vqp, vqp_path_t *path)
{
    vqp_failover_t *fo = &path->fo;
    unsigned unknown;

    if ((fo->state != VQP_PATH_DRAINED) || !fo->peer_counted) {
        return;
    }

    if (!fo->trimmed) {
        fo->trimmed           = 1;
        vqp->tx.slow         |= VQP_TX_REPLAY;
        vqp->stats.undecided += vqp_tx_trim(&vqp->tx, path, &fo->peer, &unknown);
        if (vqp->failover.is_exact && (unknown != 0)) {
            vqp_cover(PATH_UNKNOWN);
            vqp_fail(vqp, VQP_ERR_UNDECIDED);
            return;
        }
    }

    if (fo->peer_has) {
        fo->due = 0;
        vqp_path_stop_requests(path);
        vqp_path_set_state(vqp, path, VQP_PATH_DOWN);
        if (fo->peer_is_up) {
            vqp_path_post(vqp, path, VQP_PATH_TODO_REBUILD);
        } else if (fo->unused) {
            vqp_rails_on_change(vqp);
            vqp_path_post(vqp, path, VQP_PATH_TODO_DESTROY);
        }
    }
}

static void vqp_path_set_counted(vqp_t *vqp, vqp_path_t *path,
                                 vqp_source_t source, uint32_t count,
                                 uint32_t imms)
{
    path->fo.own.source = source;
    path->fo.own.count  = count & VQP_FSN_MASK;
    path->fo.own.imms   = imms & VQP_FSN_MASK;
    path->fo.counted    = 1;
    path->recv_posted   = path->recv_used = 0;
    vqp_rails_decide(vqp, path);
    vqp_path_set_state(vqp, path, VQP_PATH_DRAINED);
    vqp_path_request(vqp, path);
    vqp_path_agree(vqp, path);
}

/* Take the count once all sends and receives have completed */
static void vqp_path_check_drained(vqp_t *vqp, vqp_path_t *path)
{
    if ((path->fo.state == VQP_PATH_QUIESCE) && path->fo.quiesced &&
        path->fo.sends_back && (path->recv_used >= path->recv_posted)) {
        vqp_path_post(vqp, path, VQP_PATH_TODO_COUNT);
    }
}

static void vqp_path_check_sends(vqp_path_t *path)
{
    path->fo.sends_back |= (path->head == path->fo.end) ||
                           (path->fo.failed == path->fo.end);
}

void vqp_path_count_down(vqp_t *vqp, vqp_path_t *path, vqp_status_t status)
{
    ++vqp->stats.path_downs;
    ++path->fo.downs;
    path->fo.status = status;
}

/* The path was silent: did it go down because the peer has agreed, or by an error? */
static void
vqp_path_end_silence(vqp_t *vqp, vqp_path_t *path, vqp_status_t status)
{
    vqp_failover_t *fo = &path->fo;
    int is_silent      = fo->state == VQP_PATH_SILENT;
    int is_agreed      = is_silent && (status == VQP_ERR_RESET) &&
                         (fo->question != VQP_QUESTION_NONE);
    uint64_t silent    = is_agreed ? vqp_max(fo->silent, fo->why_silent) : fo->silent;

    vqp->stats.silences += is_agreed;
    fo->why_silent       = is_silent ? silent : 0;
    fo->is_suspect       = is_agreed && (fo->resume == VQP_PATH_UP);
    fo->state            = is_silent ? fo->resume : fo->state;
}

void vqp_path_down(vqp_t *vqp, vqp_path_t *path, vqp_status_t status)
{
    vqp_failover_t *fo = &path->fo;
    int had_qp         = fo->state != VQP_PATH_CONNECT;

    if (vqp->state == VQP_STATE_PEER_CLOSED) {
        vqp_fail(vqp, VQP_ERR_RESET); /* as vqp_use() */
        return;
    }
    if (!vqp->failover.is_on || !vqp_is_connected(vqp)) {
        vqp_fail(vqp, vqp_conn_status(status));
        return;
    }

    if (vqp_is_failed(vqp) || (!vqp_path_is_linked(path) && had_qp)) {
        return;
    }

    vqp_cover(PATH_DOWN);
    vqp_path_end_silence(vqp, path, status);
    vqp_rails_on_down(vqp, path);
    vqp_cover_if(fo->state == VQP_PATH_READY, PATH_DOWN_READY);
    vqp_cover_if(fo->state == VQP_PATH_PROBE, PATH_DOWN_PROBE);
    fo->unused &= (fo->state == VQP_PATH_LEAVE) || !had_qp;
    if (!fo->unresolved && (had_qp || !fo->unused)) { /* else it did not go down now */
        vqp_path_count_down(vqp, path, status);
    }
    fo->counted      = fo->peer_counted = fo->peer_has = fo->trimmed = 0;
    fo->quiesced     = fo->has_nop = fo->peer_is_up = fo->unresolved = 0;
    fo->sends_back   = fo->is_destroyed = fo->added = fo->asked = 0;
    fo->failed       = path->head;
    fo->end          = fo->posted = path->tail;
    fo->todo         = 0;
    fo->messages     = 0;
    fo->mover        = (fo->state == VQP_PATH_LEAVE) ? fo->mover : VQP_MOVER_NONE;
    memset(&path->rate, 0, sizeof(path->rate));
    vqp_path_check_sends(path);
    if (!had_qp) { /* not connected: nothing was executed */
        vqp_cover(PATH_DOWN_CONNECT);
        vqp_path_set_counted(vqp, path, VQP_SOURCE_MSN, 0, 0);
        return;
    }

    vqp_path_set_state(vqp, path, VQP_PATH_QUIESCE);
    vqp_path_post(vqp, path, VQP_PATH_TODO_QUIESCE);
    vqp_path_request(vqp, path);
}

void vqp_path_quiesced(vqp_t *vqp, vqp_path_t *path, int is_destroyed,
                       uint16_t posted)
{
    if (path->fo.state != VQP_PATH_QUIESCE) {
        return;
    }

    path->fo.quiesced = 1;
    path->recv_posted = (uint16_t)(path->recv_posted + posted);
    if (is_destroyed) {
        vqp_cover(PATH_DESTROYED);
        path->fo.is_destroyed = 1;
        path->fo.sends_back   = 1;
        path->recv_posted     = path->recv_used;
    }
    vqp->tx.slow |= VQP_TX_REPLAY; /* for the nop */
    vqp_path_check_drained(vqp, path);
}

void vqp_path_counted(vqp_t *vqp, vqp_path_t *path, vqp_source_t source,
                      uint32_t count)
{
    uint32_t imms = (uint32_t)(path->stats.rx_cqes - path->fo.imms_came);

    if (path->fo.state != VQP_PATH_QUIESCE) {
        return;
    }

    if (path->fo.is_destroyed) {
        source = VQP_SOURCE_IMM;
    }
    path->fo.is_destroyed = 0;
    vqp_path_set_counted(vqp, path, source,
                         (source == VQP_SOURCE_IMM) ? imms : count, imms);
}

/* ---- completions with an error ---- */

/* Is the path at fault, and not the request? Only a refused access is the request's for
 * sure. The local memory may be at fault, or the alignment of an atomic (which is an
 * invalid request for the responder): then the replay fails likewise. An operational error of
 * the responder is one of its queue pair or device (InfiniBand specification, vol. 1,
 * 9.7.5.2.8). An abort error is one of RD queue pairs: whatever a device means by it on
 * RC, access was not refused. */
static int vqp_path_is_fault(vqp_path_t *path, uint16_t slot, vqp_status_t status)
{
    vqp_inflight_t *entry = vqp_path_at(path, slot);
    int was_blamed        = entry->flags & VQP_INFLIGHT_BLAMED;

    vqp_cover_if(status == VQP_ERR_RESPONDER, PATH_RESPONDER);
    if ((status == VQP_ERR_IO) || (status == VQP_ERR_RESPONDER)) {
        /* A device that fails may flush what comes behind by a local error, too */
        entry->flags |= ((status == VQP_ERR_RESPONDER) || vqp_path_is_linked(path)) ?
                                VQP_INFLIGHT_BLAMED : 0;
        return !was_blamed;
    }

    return (status == VQP_ERR_TIMEOUT) || (status == VQP_ERR_CANCELED);
}

int vqp_path_on_send_error(vqp_t *vqp, vqp_path_t *path, uint16_t slot,
                           vqp_status_t status)
{
    int is_fault;

    if (!vqp->failover.is_on || vqp_is_failed(vqp)) {
        return 0;
    }

    if ((uint16_t)(slot - path->head) >= vqp_path_outstanding(path)) {
        return 1;
    }

    is_fault = vqp_path_is_fault(path, slot, status);
    if (vqp_path_is_linked(path)) {
        if (!is_fault) {
            return 0;
        }
        vqp_path_down(vqp, path, status);
        vqp->alive.rc_timeout |= status == VQP_ERR_TIMEOUT;
    }

    if (path->fo.state != VQP_PATH_QUIESCE) {
        return !vqp_is_failed(vqp);
    }

    /* The peer refused the request, and its PATH_DOWN arrived before the completion */
    if ((status != VQP_ERR_IO) && !is_fault) {
        return 0;
    }

    path->fo.failed = (uint16_t)(slot + 1);
    vqp_path_check_sends(path);
    vqp_path_check_drained(vqp, path);
    return 1;
}

int vqp_path_on_post_error(vqp_t *vqp, vqp_path_t *path, uint16_t slot)
{
    if (!vqp->failover.is_on || vqp_is_failed(vqp)) {
        return 0;
    }

    if (vqp_path_at(path, slot)->flags & VQP_INFLIGHT_BLAMED) {
        return 0; /* it would take down each path in turn */
    }

    vqp_path_at(path, slot)->flags |= VQP_INFLIGHT_BLAMED;
    vqp_path_down(vqp, path, VQP_ERR_IO);
    if (path->fo.state == VQP_PATH_QUIESCE) {
        vqp_cover(PATH_POST_FAILED);
        path->fo.end = slot;
        if (!path->fo.has_nop) {
            path->fo.posted = slot;
        }
        vqp_path_check_sends(path);
        path->fo.sends_back |= path->fo.has_nop; /* no other nop will come */
        vqp_path_check_drained(vqp, path);
    }
    return !vqp_is_failed(vqp);
}

int vqp_path_on_recv_error(vqp_t *vqp, vqp_path_t *path, vqp_status_t status)
{
    if (!vqp->failover.is_on || vqp_is_failed(vqp)) {
        return 0;
    }

    vqp_path_down(vqp, path, status);
    vqp_path_check_drained(vqp, path);
    return !vqp_is_failed(vqp);
}

/* The queue pair is in ERR: a nop brings the completions that are missing */
static void vqp_path_flush(vqp_t *vqp, vqp_batch_t *batch, vqp_path_t *path)
{
    vqp_path_check_sends(path); /* some may have succeeded since */
    vqp_path_check_drained(vqp, path);
    /* A frag that was acknowledged without a CQE gets none in ERR */
    if (!path->fo.sends_back && !path->fo.has_nop &&
        ((path->fo.end != path->tail) || vqp_path_lacks_cqe(path)) &&
        !vqp_batch_is_full(batch)) {
        vqp_cover(PATH_DRAIN_NOP);
        vqp_tx_emit_nop(&vqp->tx, batch, path);
        path->fo.has_nop = 1;
        path->fo.end     = path->tail;
    }
}

static void vqp_path_go_up(vqp_t *vqp, vqp_path_t *path)
{
    ++vqp->stats.path_ups;
    path->fo.mover    = VQP_MOVER_NONE;
    path->fo.slow     = 0;
    path->fo.rehashed = 0;
    vqp->in_outage    = 0;
    vqp_rails_on_up(vqp, path);
    vqp->acked_at     = 0;
    vqp_alive_init(vqp);
    vqp->silence.due = 0; /* run the timer now: the outage is over */
    vqp_path_set_state(vqp, path, VQP_PATH_UP);
    vqp_set_event(vqp, VQP_EVENT_RESUME); /* there is room again */
}

/* A write of a full packet probes the data path. The path messages may take another route,
 * and an empty write passes where the MTU of a link is too small */
static void vqp_path_probe(vqp_t *vqp, vqp_batch_t *batch, vqp_path_t *path)
{
    if (path->fo.has_probe && (vqp_path_outstanding(path) == 0)) {
        vqp_path_go_up(vqp, path);
    } else if (!path->fo.has_probe && !vqp_batch_is_full(batch)) {
        vqp_replay_pack(path);
        vqp_tx_emit_probe(&vqp->tx, batch, path);
        path->fo.has_probe = 1;
    }
}

void vqp_path_nop_idle(vqp_t *vqp)
{
    if (vqp->state == VQP_STATE_LIVE) { /* else the peer may not be connected yet */
        vqp->tx.slow |= VQP_TX_WITNESS;
    }
}

void vqp_path_drain(vqp_t *vqp, vqp_batch_t *batch)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if ((path->fo.state == VQP_PATH_QUIESCE) && path->fo.quiesced) {
            vqp_path_flush(vqp, batch, path);
        } else if (path->fo.state == VQP_PATH_PROBE) {
            vqp_path_probe(vqp, batch, path);
        }
    }
}

/* ---- events ---- */

vqp_event_t vqp_path_next_event(vqp_t *vqp)
{
    static const vqp_event_t events[] = {
        VQP_EVENT_PATH_STATE,   VQP_EVENT_PATH_QUIESCE, VQP_EVENT_PATH_COUNT,
        VQP_EVENT_PATH_DESTROY, VQP_EVENT_PATH_REBUILD, VQP_EVENT_PATH_CONNECT,
        VQP_EVENT_PATH_SEND,    VQP_EVENT_PATH_REHASH
    };
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; vqp_has_event(vqp, VQP_EVENT_PATHS) && (i < vqp->tx.paths.count); ++i) {
        path = &vqp->tx.paths.list[i];
        if (path->fo.todo != 0) {
            vqp->event_path = (uint8_t)i;
            i               = (uint32_t)__builtin_ctz(path->fo.todo);
            path->fo.todo  &= (uint8_t)(path->fo.todo - 1);
            return events[i];
        }
    }

    vqp_clear_event(vqp, VQP_EVENT_PATHS);
    return VQP_EVENT_NONE;
}
