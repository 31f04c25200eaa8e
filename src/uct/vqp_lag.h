/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths on bonded ports of an mlx5 device: each is assigned to a member port, or the hash
 * chooses (UCX_VQP_LAG). Not to be confused with bonds of rails, core/conn/bond.h. All
 * under the async block.
 */
#ifndef UCT_VQP_LAG_H
#define UCT_VQP_LAG_H

#include "uct/vqp_def.h"

/**
 * Find out the mode of the rail's device, and decide whether paths are assigned.
 *
 * @param [in] conn  How the port reaches itself.
 */
void uct_vqp_lag_init(const uct_vqp_iface_t *iface, uct_vqp_rail_t *rail,
                      const vqp_ib_qp_conn_t *conn);

/** The queue pair of a path is in RTS: assign it to a member port, if the rail's are. That
 *  it fails is logged: the path works. */
void uct_vqp_lag_pin(uct_vqp_t *vqp, unsigned index);

#endif
