/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers, samples, and ops that wait, after a poll. See vqp_todo.h. */
#include "uct/vqp_todo.h"

#include "uct/vqp_cm.h"
#include "uct/vqp_path_log.h"
#include "uct/vqp_paths.h"
#include "uct/vqp_post.h"
#include "uct/vqp_sample.h"
#include "uct/vqp_timers.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>

#define UCT_VQP_TIMER_CLOCK 20000ul /* ns between two looks at the clock, about... */
#define UCT_VQP_TIMER_SKIP  15u     /* ...and the calls without one, at most */
#define UCT_VQP_TIMER_BATCH 8       /* timers that a call runs, at most: many vqps must
                                       not take all the time */

/* If the user may sleep, have the async context wake him for timers */
static void uct_vqp_iface_wake_for_timers(uct_vqp_iface_t *iface)
{
    ucs_async_context_t *async = iface->super.worker->async;

    iface->todo &= ~(uint32_t)UCT_VQP_TODO_WAKE;
    if (iface->may_sleep) {
        UCS_ASYNC_BLOCK(async);
        uct_vqp_cm_run(iface);
        UCS_ASYNC_UNBLOCK(async);
    }
}

/* Chooses iface->timer_calls, too. To read the clock takes as long as half a poll: while
 * calls are frequent, most do not read it */
static uint64_t uct_vqp_iface_timer_clock(uct_vqp_iface_t *iface)
{
    uint64_t now = uct_vqp_now();

    iface->timer_skip  = ((now - iface->timer_clock < UCT_VQP_TIMER_CLOCK) &&
                          !iface->may_sleep) ?
                                 ucs_min((2 * iface->timer_skip) + 1,
                                         UCT_VQP_TIMER_SKIP) : 0;
    iface->timer_calls = iface->timer_skip;
    iface->timer_clock = now;
    return now;
}

/* Failed for a missing immediate? The log names the option. */
static void uct_vqp_log_gap(const uct_vqp_t *vqp)
{
    if (vqp->core.gap.failed != 0) {
        ucs_error("vqp %u: an immediate of iface 0x%" PRIx64 " is missing for "
                  "%.1f s (UCX_VQP_GAP_TIMEOUT), fsn 0x%06x", vqp->number,
                  vqp->conn.peer_id, (double)vqp->core.gap.failed * 1e-9,
                  vqp->core.rx.window.base);
    }
}

static void
uct_vqp_run_timer(uct_vqp_t *vqp, uint64_t now, int is_drained)
{
    ucs_async_context_t *async = vqp->iface->super.worker->async;
    int was_failed             = vqp_is_failed(&vqp->core);

    if (vqp_wants_rails(&vqp->core, now)) {
        UCS_ASYNC_BLOCK(async);
        vqp->core.good_rails = uct_vqp_iface_good_rails(vqp->iface);
        UCS_ASYNC_UNBLOCK(async);
    }
    vqp_on_time(&vqp->core, now, is_drained);
    if (!was_failed) {
        uct_vqp_log_gap(vqp);
        uct_vqp_log_outage(vqp);
    }
    uct_vqp_handle_failure(vqp);
    uct_vqp_set_timer(vqp);
    if (vqp_has_output(&vqp->core) || vqp_has_events(&vqp->core)) {
        uct_vqp_schedule(vqp);
    }
}

/* Run the timers that are due. @a is_drained: all completions that had arrived were
 * handled */
static void uct_vqp_iface_run_timers(uct_vqp_iface_t *iface, int is_drained)
{
    vqp_timer_t *timer;
    uint64_t now;
    unsigned i;

    now = uct_vqp_iface_timer_clock(iface);
    for (i = 0; i < UCT_VQP_TIMER_BATCH; ++i) {
        timer = vqp_timers_pop(&iface->timers, now);
        if (timer == NULL) {
            break;
        }
        uct_vqp_run_timer(ucs_container_of(timer, uct_vqp_t, timer), now,
                          is_drained);
    }

    uct_vqp_iface_timer_changed(iface);
    if (uct_vqp_iface_has_timer(iface, now)) {
        iface->todo |= UCT_VQP_TODO_WAKE; /* more than a batch: nobody may sleep now */
    } else if (!uct_vqp_iface_has_timer(iface, now + UCT_VQP_TIMER_SOON)) {
        iface->todo &= ~(uint32_t)UCT_VQP_TODO_TIMERS;
    }
}

/* Dispatch again what waits for more messages, and, @a with_paths, for a busy path */
static void uct_vqp_iface_run_deferred(uct_vqp_iface_t *iface, int with_paths)
{
    uct_vqp_t **link = &iface->deferred;
    uct_vqp_t *vqp;

    iface->todo &= ~(uint32_t)UCT_VQP_TODO_HELD;
    while ((vqp = *link) != NULL) {
        if (!with_paths && vqp->core.tx.clock.deferred && !vqp->core.tx.pack.is_held) {
            link = &vqp->deferred_next;
            continue;
        }

        *link            = vqp->deferred_next;
        vqp->is_deferred = 0;
        uct_vqp_schedule(vqp);
    }
}

/* Note the time of an empty poll, and from time to time dispatch again ops that wait for a
 * busy path */
static void uct_vqp_iface_rate(uct_vqp_iface_t *iface, unsigned count)
{
    uint64_t now = uct_vqp_now();

    iface->looked = now;
    if (count == 0) {
        iface->seen      = iface->polled; /* a time before this poll began */
        iface->polled    = now;
        if (now - iface->rated >= UCT_VQP_RATING) {
            iface->todo &= ~(uint32_t)UCT_VQP_TODO_RATE;
        }
    }

    if (vqp_unlikely(iface->deferred != NULL) &&
        (now - iface->deferred_at >= UCT_VQP_DEFER)) {
        iface->deferred_at = now;
        uct_vqp_iface_run_deferred(iface, 1);
    }
}

void uct_vqp_iface_handle_todo(uct_vqp_iface_t *iface, uint32_t todo, unsigned count)
{
    if (todo & UCT_VQP_TODO_SAMPLE) { /* first: it reads the clock */
        uct_vqp_iface_look_at_sample(iface);
    }

    if (todo & UCT_VQP_TODO_HELD) {
        uct_vqp_iface_run_deferred(iface, 0);
    }

    if (todo & UCT_VQP_TODO_RATE) {
        uct_vqp_iface_rate(iface, count);
    }

    if (todo & UCT_VQP_TODO_WAKE) {
        uct_vqp_iface_wake_for_timers(iface);
    }

    if (todo & UCT_VQP_TODO_TIMERS) {
        uct_vqp_iface_run_timers(iface, (count < iface->set.poll_max) &&
                                        !(todo & UCT_VQP_TODO_WCS));
    }
}
