/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting, and failure, of a vqp; see vqp_post.h. */
#include "uct/vqp_post.h"

#include "uct/vqp_cm.h"
#include "uct/vqp_log.h"
#include "uct/vqp_sample.h"
#include "uct/vqp_timers.h"

#include "core/data/pathcap.h"

#include <ucs/debug/log.h>

/* Dispatch waits: progress dispatches again, for a busy path after an empty poll */
static void uct_vqp_defer(uct_vqp_t *vqp)
{
    if (!vqp->is_deferred) {
        vqp->is_deferred     = 1;
        vqp->deferred_next   = vqp->iface->deferred;
        vqp->iface->deferred = vqp;
    }
}

/* A message waits for others, for a few calls of progress. Who calls it until it returns
 * 0 must not stop before, and a thread that sleeps must wake up for it */
static void uct_vqp_hold(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;
    int is_first           = !(iface->todo & UCT_VQP_TODO_HELD);

    iface->todo |= UCT_VQP_TODO_HELD;
    if (iface->in_progress) {
        ++iface->reported;
    } else if (iface->may_sleep && is_first) { /* else nobody sleeps: see event_arm */
        uct_vqp_iface_signal(iface, UCT_VQP_EVENT_LOCAL);
    }
}

/* Frags of the core were not posted: a path is given up, or the connection fails */
static void uct_vqp_post_failed(uct_vqp_t *vqp, const vqp_frag_t *frags,
                         unsigned count)
{
    vqp_post_failed(&vqp->core, frags, count);
    uct_vqp_handle_failure(vqp);
    uct_vqp_schedule_wake(vqp);
}

void uct_vqp_tx_progress(uct_vqp_t *vqp)
{
    vqp_batch_t *batch = &vqp->iface->batch;

    if (vqp_unlikely(vqp->core.tx.cfg.sched == VQP_SCHED_LEFT)) {
        uct_vqp_clock(vqp);
    } else if (vqp_pathcap_needs_time(&vqp->core.tx)) {
        vqp->core.tx.clock.now = uct_vqp_now();
    }
    do {
        if (vqp_next_batch(&vqp->core, batch) == 0) {
            break;
        }

        if (vqp_unlikely(vqp->iface->set.trace)) {
            uct_vqp_trace_tx(vqp, batch);
        }

        if (vqp_unlikely(vqp_ib_post(vqp->ib_paths, batch) != VQP_OK)) {
            uct_vqp_post_failed(vqp, batch->frags, batch->count);
            return;
        }

        if (vqp_unlikely(vqp->core.tx.slow & VQP_TX_SAMPLE)) {
            uct_vqp_sample(vqp, batch);
        }
    } while (batch->count == VQP_BATCH_MAX);

    if (vqp_unlikely(vqp->core.tx.clock.deferred | vqp->core.tx.pack.is_held)) {
        uct_vqp_defer(vqp);
    }
    if (vqp->core.tx.pack.is_held) {
        uct_vqp_hold(vqp);
    }

    if (vqp_take_event(&vqp->core, VQP_EVENT_TIMER)) {
        uct_vqp_set_timer(vqp);
    }
}

void uct_vqp_post_frag_failed(uct_vqp_t *vqp, vqp_path_t *path, uint16_t slot)
{
    vqp_frag_t frag = {.path = path, .slot = slot, .flags = VQP_FRAG_UNPOSTED};

    uct_vqp_post_failed(vqp, &frag, 1);
}

void uct_vqp_check(uct_vqp_t *vqp)
{
    if (vqp_is_connected(&vqp->core)) {
        vqp_check(&vqp->core);
        uct_vqp_tx_progress(vqp);
    }
}

/* ---- failing ---- */

/* Post nops behind frags that may be acknowledged without a CQE: in ERR these would
 * get none */
static void uct_vqp_drain(uct_vqp_t *vqp)
{
    vqp_batch_t *batch = &vqp->iface->batch;

    while (vqp_next_batch(&vqp->core, batch) > 0) {
        if (vqp_unlikely(vqp_ib_post(vqp->ib_paths, batch) != VQP_OK)) {
            vqp_post_failed(&vqp->core, batch->frags, batch->count);
        }
    }
}

int uct_vqp_path_to_error(uct_vqp_t *vqp, unsigned path)
{
    const uct_vqp_rail_t *rail = &vqp->iface->rails[vqp->paths[path].rail];
    vqp_ib_qp_t *qp            = &vqp->ib_paths[path].rc;

    /* A rail may be broken because of its completion queue only: then this works */
    return (qp->qp != NULL) && !vqp_ib_dev_is_broken(rail->dev) &&
           (vqp_ib_qp_to_error(qp) == VQP_OK) && !uct_vqp_rail_is_broken(rail);
}

void uct_vqp_fail_qps(uct_vqp_t *vqp)
{
    ucs_async_context_t *async = vqp->iface->super.worker->async;
    unsigned i;

    if (vqp->core.status == VQP_ERR_UNDECIDED) {
        ucs_warn("vqp %u: a path to iface 0x%" PRIx64 " has failed, and it is not "
                 "known which puts or atomics were executed: the endpoint fails. "
                 "With UCX_VQP_FAILOVER=y it would continue", vqp->number, vqp->conn.peer_id);
    }

    uct_vqp_end_sample(vqp); /* its error completion is no latency */
    vqp->ready = 0;
    for (i = 0; i < vqp->core.num_paths; ++i) {
        if (vqp->ib_paths[i].rc.qp == NULL) {
            vqp_path_destroyed(&vqp->core, i);
        } else if (vqp_unlikely(!uct_vqp_path_to_error(vqp, i))) {
            vqp_path_lost(&vqp->core, i);
        }
    }

    UCS_ASYNC_BLOCK(async);
    vqp_conn_abort(&vqp->conn, 0, uct_vqp_now());
    uct_vqp_cm_run(vqp->iface);
    UCS_ASYNC_UNBLOCK(async);

    vqp_qps_failed(&vqp->core);
    uct_vqp_drain(vqp);
    uct_vqp_schedule_wake(vqp);
}

void uct_vqp_handle_failure(uct_vqp_t *vqp)
{
    if (vqp_take_event(&vqp->core, VQP_EVENT_QPS)) {
        uct_vqp_fail_qps(vqp);
    }
}

void uct_vqp_fail(uct_vqp_t *vqp, vqp_status_t status)
{
    ucs_async_context_t *async = vqp->iface->super.worker->async;

    UCS_ASYNC_BLOCK(async); /* the async context may be about to connect it */
    vqp_fail(&vqp->core, status);
    uct_vqp_handle_failure(vqp);
    UCS_ASYNC_UNBLOCK(async);
}

void uct_vqp_use(uct_vqp_t *vqp)
{
    vqp_use(&vqp->core);
    uct_vqp_handle_failure(vqp);
}

void uct_vqp_cancel(uct_vqp_t *vqp)
{
    ucs_async_context_t *async = vqp->iface->super.worker->async;

    UCS_ASYNC_BLOCK(async);
    vqp_cancel(&vqp->core);
    uct_vqp_handle_failure(vqp);
    UCS_ASYNC_UNBLOCK(async);
}
