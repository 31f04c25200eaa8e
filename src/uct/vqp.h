/*
 * Creation, connection, posting and failure of a vqp. May use all layers.
 *
 * A vqp exists from uct_vqp_create() until both sides have closed and all posted WRs
 * have completed. It outlives its endpoint.
 */
#ifndef UCT_VQP_H
#define UCT_VQP_H

#include "uct/vqp_def.h"

/** Registered memory of a connection. The peer writes into the remote part: the
 *  ring, at offset 0, and credit cells. The device alone uses the local part: the
 *  mirror of the peer's ring, at offset 0, the cells that are sent, results of
 *  atomics. */
typedef struct uct_vqp_layout {
    size_t rx_cells;
    size_t remote_size;
    size_t tx_cells;
    size_t amo;
    size_t local_size;
} uct_vqp_layout_t;

void uct_vqp_layout(const uct_vqp_settings_t *set, uct_vqp_layout_t *layout);

/**
 * Create a vqp with its queue pairs in INIT, and fill the data for the peer.
 * Under the async block.
 *
 * @return UCS_OK, or an error (logged) with nothing left behind.
 */
ucs_status_t uct_vqp_create(uct_vqp_iface_t *iface, uct_vqp_t **vqp_p);

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
 */
vqp_status_t uct_vqp_connect_path(uct_vqp_t *vqp, unsigned index,
                                  const vqp_wire_path_t *peer);

/** The flow label of a path, the same for each of its queue pairs. Once the connection
 *  has its cookie. */
uint32_t uct_vqp_flow_label(const uct_vqp_t *vqp, unsigned index);

/** Release everything. No posted WR may be outstanding. Async block. */
void uct_vqp_destroy(uct_vqp_t *vqp);

/** Post everything the core has to send, if vqp_is_connected(). The worker's thread. */
void uct_vqp_tx_progress(uct_vqp_t *vqp);

/** The frag of the fast path in @a slot was not posted: fail the connection. */
void uct_vqp_post_frag_failed(uct_vqp_t *vqp, vqp_path_t *path, uint16_t slot)
        __attribute__((cold));

/**
 * Apply a failure of the core: move the queue pairs to ERR. Frags in flight get
 * their last completions. Progress reports these, and the failure.
 */
void uct_vqp_handle_failure(uct_vqp_t *vqp);

/** Fail the connection, because it is broken or canceled. */
void uct_vqp_fail(uct_vqp_t *vqp, vqp_status_t status);

/** Note a use of the connection: see vqp_use(). */
void uct_vqp_use(uct_vqp_t *vqp);

/** A flush with CANCEL: see vqp_cancel(). */
void uct_vqp_cancel(uct_vqp_t *vqp);

/**
 * Move the queue pair of a path to ERR: nothing of it is executed any more.
 *
 * @return 0 if no completion will come of it: it is gone, or its rail is broken.
 */
int uct_vqp_path_to_error(uct_vqp_t *vqp, unsigned path);

/** Probe the peer, unless an op in flight does so. */
void uct_vqp_check(uct_vqp_t *vqp);

/** Schedule the vqp from outside of progress, and wake a sleeper. */
void uct_vqp_schedule_wake(uct_vqp_t *vqp);

#endif
