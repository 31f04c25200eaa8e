/*
 * Paths that die and come back: what the core asks for is done to their queue pairs,
 * path messages are passed between the control plane and the core, and timers run.
 */
#ifndef UCT_VQP_PATHS_H
#define UCT_VQP_PATHS_H

#include "uct/vqp.h"

#include "core/failover.h"

/** Handle a VQP_EVENT_PATH_* of the core. The worker's thread. */
void uct_vqp_handle_path_event(uct_vqp_t *vqp, vqp_event_t event);

/** Pass the path messages that have come to the core. The worker's thread. */
void uct_vqp_handle_path_messages(uct_vqp_t *vqp);

/** A fault of the queue pair, or the port, of a path. The worker's thread. */
void uct_vqp_path_fault(uct_vqp_t *vqp, unsigned path, vqp_status_t status);

/** Note the vqp for uct_vqp_iface_path_timers() while one of its paths is not UP. */
void uct_vqp_watch_paths(uct_vqp_t *vqp);

/** Run timers of paths that are due. The worker's thread. */
void uct_vqp_iface_path_timers(uct_vqp_iface_t *iface);

#endif
