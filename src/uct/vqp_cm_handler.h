/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start and end of the control plane of an interface: its UD queue pairs and its
 * table, and the handlers that UCX's async context calls.
 */
#ifndef UCT_VQP_CM_HANDLER_H
#define UCT_VQP_CM_HANDLER_H

#include "uct/vqp_iface.h"

/**
 * Create the UD queue pairs and the table, and start to answer requests. Without
 * the async block.
 *
 * @return UCS_OK, or an error (logged) with nothing left behind.
 */
ucs_status_t uct_vqp_cm_init(uct_vqp_iface_t *iface);

/** Remove the handlers: no async call comes after this. Without the async block. */
void uct_vqp_cm_stop(uct_vqp_iface_t *iface);

/** The async thread waits for no control datagram of the rail any more. @a sync: nor
 *  does it handle one. Not under the async block then. */
void uct_vqp_cm_stop_rail(uct_vqp_iface_t *iface, unsigned rail, int sync);

/** Release the objects of init. No connection may exist. Without the async block.
 *  */
void uct_vqp_cm_cleanup(uct_vqp_iface_t *iface);

#endif
