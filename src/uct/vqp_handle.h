/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of progress that are not completions. */
#ifndef UCT_VQP_HANDLE_H
#define UCT_VQP_HANDLE_H

#include "uct/vqp.h"

/** Take the bits of iface->events, and the events of vqps, as they are now. The
 *  worker's thread. */
uint32_t uct_vqp_iface_take_events(uct_vqp_iface_t *iface);

/** Handle what was taken. The worker's thread. */
void uct_vqp_iface_handle_events(uct_vqp_iface_t *iface, uint32_t events);

#endif
