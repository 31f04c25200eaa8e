/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failover: what the core asks for is done to queue pairs of paths, and path messages are
 * passed between the control plane and the core.
 */
#ifndef UCT_VQP_PATHS_H
#define UCT_VQP_PATHS_H

#include "uct/vqp.h"

#include "core/failover/failover.h"

/** Handle a VQP_EVENT_PATH_* of the core. The worker's thread. */
void uct_vqp_handle_path_event(uct_vqp_t *vqp, vqp_event_t event);

/** Pass the path messages that have come to the core. The worker's thread. */
void uct_vqp_handle_path_messages(uct_vqp_t *vqp);

/** Bits: rails on which queue pairs can be connected. The worker's thread, under the
 *  async block. */
uint32_t uct_vqp_iface_good_rails(uct_vqp_iface_t *iface);

/** Handle VQP_EVENT_PING: ping the peer. The worker's thread. */
void uct_vqp_ping(uct_vqp_t *vqp);

/** A fault of the queue pair, or the port, of a path. The worker's thread. */
void uct_vqp_path_fault(uct_vqp_t *vqp, unsigned path, vqp_status_t status);

/** The rail of a path has failed for good: no completion of its queue pair will come. The
 *  worker's thread. */
void uct_vqp_path_destroyed(uct_vqp_t *vqp, unsigned path);

#endif
