/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of rings that grow, and of their mirrors: each with a registration of its own,
 * which ends when the core gives it back, before the memory is used for anything else. The
 * rings of an interface share UCX_VQP_MAX_MEM. May use all layers.
 */
#ifndef UCT_VQP_RING_H
#define UCT_VQP_RING_H

#include "uct/vqp_def.h"

/** Adapt max_mem and ring_max of the settings to each other, and to the limit on locked
 *  memory. */
void uct_vqp_rings_init(uct_vqp_iface_t *iface);

/** Handle VQP_EVENT_RING_GET, RING_PUT, MIRROR_GET or MIRROR_PUT. Not under the async block. */
void uct_vqp_handle_ring_event(uct_vqp_t *vqp, vqp_event_t event);

/** Free what the vqp still has. No posted WR may be outstanding, and no queue pair may
 *  receive. Async block. */
void uct_vqp_rings_free(uct_vqp_t *vqp);

#endif
