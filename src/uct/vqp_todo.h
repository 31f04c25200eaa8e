/* SPDX-License-Identifier: BSD-3-Clause */
/* What progress does after a poll, besides completions and events. */
#ifndef UCT_VQP_TODO_H
#define UCT_VQP_TODO_H

#include "uct/vqp.h"

/**
 * Do what a poll leaves to do: timers, samples, ops that wait. The worker's thread.
 *
 * @param [in] todo   UCT_VQP_TODO_* of iface->todo that are due.
 * @param [in] count  Completions of the poll.
 */
void uct_vqp_iface_handle_todo(uct_vqp_iface_t *iface, uint32_t todo, unsigned count);

#endif
