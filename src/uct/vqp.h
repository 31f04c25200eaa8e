/*
 * The UCT side of a vqp of the core: its queue pairs, its memory, and its slot
 * in the interface. It is owned by an endpoint, or passive, if the peer created
 * the connection. May use all layers.
 *
 * Exists from uct_vqp_create() until both sides have closed and all posted WRs
 * have completed. It outlives its endpoint.
 */
#ifndef UCT_VQP_H
#define UCT_VQP_H

#include "uct/vqp_iface.h"

#include "core/balance.h"
#include "core/failover.h"
#include "core/vqp.h"

struct uct_vqp_ep;

/** Events of the control plane for progress. */
enum {
    UCT_VQP_CM_LIVE    = 1 << 0, /* operations may be posted */
    UCT_VQP_CM_FAILED  = 1 << 1, /* cm_status: the connection is over */
    UCT_VQP_CM_DESTROY = 1 << 2, /* both sides are done with it */
    UCT_VQP_CM_PATHS   = 1 << 3  /* path_msgs has some */
};

typedef struct uct_vqp {
    vqp_t                core;
    vqp_ib_path_t       *ib_paths;
    uct_vqp_iface_t     *iface;
    struct uct_vqp_ep   *ep;          /* owner, or NULL if passive */
    uint8_t              ready;       /* ops are accepted: it is LIVE, and no
                                         request is pending in front of them */
    uint8_t              is_scheduled;/* in iface->scheduled */
    uint8_t              is_deferred; /* in iface->deferred */
    uint32_t             number;      /* in iface->vqps */
    unsigned             fences;      /* value of iface->fences at the last check */
    struct uct_vqp      *scheduled_next;
    uint8_t              is_watched;  /* in iface->watched */
    struct uct_vqp      *deferred_next;
    struct uct_vqp      *watched_next;
    vqp_path_t          *paths;
    vqp_iov_t           *iov_ext;
    uint8_t             *window_map;
    vqp_op_t            *ops;
    uint32_t           (*op_rkeys)[VQP_MAX_RAILS]; /* of each op of the RMA ring */

    /* under the async block */
    vqp_conn_t           conn;
    vqp_wire_info_t     *local;       /* sent to the peer in REQ and REP */
    uint32_t             cm_events;   /* UCT_VQP_CM_* */
    uint32_t             cm_taken;    /* of these, by progress */
    vqp_status_t         cm_status;
    struct uct_vqp      *cm_next;
    uint8_t              in_cm_list;
    uint32_t             ring_rkeys[VQP_MAX_RAILS]; /* of the peer */
    uint32_t             key_layout;  /* required of the keys of its memory */
    uint8_t              peer_rails;  /* bits: rails that paths go to */
    uint8_t              peer_reads;  /* READs and atomics that it serves on a path */
    vqp_wire_rail_t     *peer_info;   /* its rails, for new queue pairs; or NULL: no
                                         failover */
    vqp_path_msg_t      *path_msgs;   /* of the peer: the newest PATH_DOWN and PATH_UP
                                         of each path; under the async block */
    ucs_list_link_t      list;        /* in iface->vqp_list */
    uct_vqp_chunk_t      chunk;
    vqp_balance_t       *balance;     /* of each path, with telemetry; or NULL */
    uint64_t             balanced;    /* ns: last look at it */
} uct_vqp_t;

/**
 * Keep a remote key with an op of the RMA ring: frags may be dispatched after
 * the op was accepted, when the user may have released the key.
 *
 * @return the op's rkeys.
 */
static inline const uint32_t *
uct_vqp_keep_rkeys(uct_vqp_t *vqp, const vqp_op_t *op, const uint32_t *rkeys)
{
    uint32_t *kept = vqp->op_rkeys[op - vqp->core.tx.rma.ops];

    memcpy(kept, rkeys, sizeof(*vqp->op_rkeys));
    return kept;
}

/** Set the time of the sender, which measures the rates of paths. */
static inline void uct_vqp_clock(uct_vqp_t *vqp)
{
    vqp->core.tx.clock.now  = uct_vqp_now();
    vqp->core.tx.clock.seen = vqp->iface->seen;
    vqp->iface->rated       = vqp->core.tx.clock.now;
    vqp->iface->todo       |= UCT_VQP_TODO_RATE;
}

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

/** Schedule the vqp for progress. */
static inline void uct_vqp_schedule(uct_vqp_t *vqp)
{
    if (!vqp->is_scheduled) {
        vqp->is_scheduled     = 1;
        vqp->scheduled_next   = vqp->iface->scheduled;
        vqp->iface->scheduled = vqp;
    }
}

/** Schedule the vqp from outside of progress, and wake a sleeper. */
void uct_vqp_schedule_wake(uct_vqp_t *vqp);

#endif
