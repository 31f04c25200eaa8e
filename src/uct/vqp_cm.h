/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control plane of an interface: UD queue pairs, the connection table, and
 * the execution of its actions. All functions run under the worker's async block
 * unless their comment states otherwise.
 */
#ifndef UCT_VQP_CM_H
#define UCT_VQP_CM_H

#include "uct/vqp.h"

/** Execute the actions of the connection table until it has none. */
void uct_vqp_cm_run(uct_vqp_iface_t *iface);

/** Send the datagram of a SEND action. */
void uct_vqp_cm_send(uct_vqp_iface_t *iface, const vqp_conntab_action_t *action);

/** Handle datagrams that have arrived, up to a limit, then execute actions. The
 *  async context calls again for the rest. */
void uct_vqp_cm_poll(uct_vqp_iface_t *iface);

/** Repeat messages that are due, then execute actions. */
void uct_vqp_cm_tick(uct_vqp_iface_t *iface);

/**
 * Get a vqp for an endpoint: adopt a passive one, or create one and start its
 * handshake.
 */
ucs_status_t uct_vqp_cm_connect(uct_vqp_iface_t *iface,
                                const vqp_iface_addr_t *addr,
                                uct_vqp_t **vqp_p);

/** Add an event UCT_VQP_CM_* for progress, and wake a sleeper. Under the async block. */
void uct_vqp_cm_add_event(uct_vqp_t *vqp, uint32_t event);

/** Take the events that the control plane has set. Under the async block. */
void uct_vqp_cm_take_events(uct_vqp_iface_t *iface);

/** The next vqp with events that were taken, and these. Under the async block.
 *  @return NULL if there is none. */
uct_vqp_t *uct_vqp_cm_pop_events(uct_vqp_iface_t *iface, uint32_t *events);

#endif
