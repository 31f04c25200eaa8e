/* SPDX-License-Identifier: BSD-3-Clause */
/* The timers of an interface, see vqp_timers.h. */
#include "uct/vqp_timers.h"

void uct_vqp_iface_check_timers(uct_vqp_iface_t *iface)
{
    if (uct_vqp_iface_has_timer(iface, uct_vqp_now() + UCT_VQP_TIMER_SOON)) {
        iface->todo |= UCT_VQP_TODO_TIMERS | UCT_VQP_TODO_WAKE;
    }
}

void uct_vqp_iface_timer_changed(uct_vqp_iface_t *iface)
{
    uint64_t due = vqp_timers_next(&iface->timers);
    uint64_t old = iface->timer_due;

    __atomic_store_n(&iface->timer_due, due, __ATOMIC_RELAXED);
    if (due < old) {
        uct_vqp_iface_check_timers(iface);
    }
}

void uct_vqp_set_timer(uct_vqp_t *vqp)
{
    (void)vqp_take_event(&vqp->core, VQP_EVENT_TIMER);
    vqp_timers_set(&vqp->iface->timers, &vqp->timer,
                   vqp_next_timeout(&vqp->core));
    uct_vqp_iface_timer_changed(vqp->iface);
}

void uct_vqp_clear_timer(uct_vqp_t *vqp)
{
    vqp_timers_set(&vqp->iface->timers, &vqp->timer, VQP_TIMER_NEVER);
    uct_vqp_iface_timer_changed(vqp->iface);
}
