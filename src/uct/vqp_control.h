/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the core of a vqp: everything but posting. They concern the control
 * plane, the endpoint's user, and the end of the vqp.
 */
#ifndef UCT_VQP_CONTROL_H
#define UCT_VQP_CONTROL_H

#include "uct/vqp_def.h"

/**
 * Handle the events of vqp_next_event() until there is none. Runs user
 * callbacks, and may release the vqp. The worker's thread, in progress.
 */
void uct_vqp_handle_core_events(uct_vqp_t *vqp);

/**
 * Close the connection to the peer, when the endpoint is destroyed and its ops
 * have ended. Usually called when the endpoint is destroyed, else by progress.
 * Runs no user callback.
 */
void uct_vqp_handle_closed(uct_vqp_t *vqp);

/**
 * End the ops of a destroyed endpoint with UCS_ERR_CANCELED. Runs user
 * callbacks.
 */
void uct_vqp_cancel_all(uct_vqp_t *vqp);

#endif
