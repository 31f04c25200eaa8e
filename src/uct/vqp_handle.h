/* Events of progress that are not completions. */
#ifndef UCT_VQP_HANDLE_H
#define UCT_VQP_HANDLE_H

#include "uct/vqp.h"

/** Take the bits of iface->events, and the events of vqps, as they are now. The
 *  worker's thread. */
uint32_t uct_vqp_iface_take_events(uct_vqp_iface_t *iface);

/** Handle what was taken. The worker's thread. */
void uct_vqp_iface_handle_events(uct_vqp_iface_t *iface, uint32_t events);

/**
 * Run the timers that are due, and choose iface->timer_calls: calls of progress until the
 * clock is read again. The worker's thread.
 *
 * @param [in] is_drained  All completions that had arrived were handled.
 */
void uct_vqp_iface_run_timers(uct_vqp_iface_t *iface, int is_drained);

/** If the user may sleep, have the async context wake him for timers. The worker's
 *  thread. */
void uct_vqp_iface_wake_for_timers(uct_vqp_iface_t *iface);

/**
 * Note the time of an empty poll, and from time to time dispatch again ops that
 * wait for a busy path. Call it after polls while paths are measured, and for a
 * while after that.
 *
 * @param [in] count  Completions of the poll.
 */
void uct_vqp_iface_rate(uct_vqp_iface_t *iface, unsigned count);

/** Dispatch again what waits for more messages, and, @a with_paths, for a busy path. */
void uct_vqp_iface_run_deferred(uct_vqp_iface_t *iface, int with_paths);

#endif
