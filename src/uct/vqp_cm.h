/*
 * The control plane of an interface: UD queue pairs, the connection table, and
 * what its actions do to vqps. All functions run under the worker's async block
 * unless they say otherwise.
 */
#ifndef UCT_VQP_CM_H
#define UCT_VQP_CM_H

#include "uct/vqp.h"

/** Create the UD queue pairs and the table, and start to answer. No block. */
ucs_status_t uct_vqp_cm_init(uct_vqp_iface_t *iface);

/** Stop the handlers: no async call comes after this. No block. */
void uct_vqp_cm_stop(uct_vqp_iface_t *iface);

/** Release what init made; no connection is left. No block. */
void uct_vqp_cm_cleanup(uct_vqp_iface_t *iface);

/** Do what the connection table asks for, until it asks for nothing. */
void uct_vqp_cm_run(uct_vqp_iface_t *iface);

/** Handle the datagrams that have arrived, then run. */
void uct_vqp_cm_poll(uct_vqp_iface_t *iface);

/** Repeat what is due, then run. */
void uct_vqp_cm_tick(uct_vqp_iface_t *iface);

/** A pseudo-random number; the seed is the process's, not secret. */
uint64_t uct_vqp_cm_random(uct_vqp_iface_t *iface);

/**
 * Give an endpoint its vqp: an existing passive one, or a new one, whose
 * handshake starts.
 */
ucs_status_t uct_vqp_cm_connect(uct_vqp_iface_t *iface,
                                const vqp_iface_addr_t *addr,
                                uct_vqp_t **vqp_p);

/** Next vqp that the control plane left marks on. @return NULL if none. */
uct_vqp_t *uct_vqp_cm_pop_marked(uct_vqp_iface_t *iface, uint32_t *marks);

#endif
