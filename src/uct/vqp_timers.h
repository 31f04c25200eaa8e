/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers of an interface: one for each vqp, at the time of vqp_next_timeout().
 * Progress runs them. A sleeper is woken by a timer of the async context, which is set
 * for what is due within UCT_VQP_TIMER_SOON. The periodic check of the async context
 * (UCT_VQP_EVENT_TICK) sets it for what becomes due later.
 */
#ifndef UCT_VQP_TIMERS_H
#define UCT_VQP_TIMERS_H

#include "uct/vqp_def.h"

/** Set the timer of the vqp to what its core says. The worker's thread. */
void uct_vqp_set_timer(uct_vqp_t *vqp);

/** The vqp is released: it has no timer any more. The worker's thread. */
void uct_vqp_clear_timer(uct_vqp_t *vqp);

/** The first timer may be another one: have progress look at it, if it is due soon. The
 *  worker's thread. */
void uct_vqp_iface_timer_changed(uct_vqp_iface_t *iface);

/** Have progress look at the timers, if one is due soon. The worker's thread. */
void uct_vqp_iface_check_timers(uct_vqp_iface_t *iface);

#endif
