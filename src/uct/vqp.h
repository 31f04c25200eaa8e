/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation, connection and release of a vqp. May use all layers.
 *
 * A vqp exists from uct_vqp_create() until both sides have closed and all posted WRs
 * have completed. It outlives its endpoint.
 */
#ifndef UCT_VQP_H
#define UCT_VQP_H

#include "uct/vqp_def.h"

/** Registered memory of a connection. The peer writes into the remote part: the
 *  ring, at offset 0, and credit cells. The device alone uses the local part: the
 *  cells that are sent, at offset 0, and results of atomics. The mirror of the ring is
 *  apart, see vqp_mirror.h. */
typedef struct uct_vqp_layout {
    size_t rx_cells;
    size_t remote_size;
    size_t amo;
    size_t local_size;
} uct_vqp_layout_t;

void uct_vqp_layout(const uct_vqp_settings_t *set, uct_vqp_layout_t *layout);

/**
 * Create a vqp with its queue pairs in INIT, and fill the data for the peer.
 * Under the async block.
 *
 * @param [in] level  Of the message that queue pairs, memory or numbers are lacking.
 * @return UCS_OK, or an error (logged) with nothing left behind.
 */
ucs_status_t uct_vqp_create(uct_vqp_iface_t *iface, vqp_ib_log_level_t level,
                            uct_vqp_t **vqp_p);

/** An op was refused: allocate slots for a ring of ops that was full, and may have more. */
void uct_vqp_grow_ops(uct_vqp_t *vqp);

/**
 * Connect the queue pairs to a peer's, post receives, set up the core. Under
 * the async block. With failover, queue pairs whose address does not resolve are left
 * out; the core has them connected when it is live.
 *
 * @return VQP_OK
 *         VQP_INPROGRESS: nothing was done, since it is not known yet whether an address
 *         resolves, or none does. Call it again
 *         or an error (logged).
 */
vqp_status_t uct_vqp_connect(uct_vqp_t *vqp, const vqp_wire_info_t *peer);

/** Does the address of the peer's rail resolve, from the rail of this path? Under the
 *  async block. @return See vqp_ib_resolve(). */
vqp_status_t uct_vqp_resolve_path(uct_vqp_t *vqp, unsigned index,
                                  const vqp_wire_rail_t *far_rail);

/**
 * Connect the queue pair of a path, which is in INIT, to @a peer, and post receives.
 * Under the async block.
 *
 * @param level  Of the message that it fails.
 */
vqp_status_t uct_vqp_connect_path(uct_vqp_t *vqp, unsigned index, const vqp_wire_path_t *peer,
                                  vqp_ib_log_level_t level);

/** Release everything. No posted WR may be outstanding. Async block. */
void uct_vqp_destroy(uct_vqp_t *vqp);

#endif
