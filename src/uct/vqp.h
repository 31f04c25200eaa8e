/*
 * The vqp: one logical connection over several queue pairs, with an endpoint as
 * its owner or without (passive: the peer made it). May use all layers.
 *
 * Lives from uct_vqp_create() until both sides are done with it and all its
 * posted WRs have come back: an endpoint that goes leaves it behind.
 */
#ifndef UCT_VQP_H
#define UCT_VQP_H

#include "uct/vqp_iface.h"

#include "core/flush.h"
#include "core/rx.h"
#include "core/tx.h"

struct uct_vqp_ep;

/** Marks of the control plane for progress. */
enum {
    UCT_VQP_CM_LIVE    = 1 << 0, /* operations may be posted */
    UCT_VQP_CM_FAILED  = 1 << 1, /* cm_status: the connection is over */
    UCT_VQP_CM_DESTROY = 1 << 2  /* both sides are done with it */
};

typedef struct uct_vqp {
    vqp_tx_t             tx;
    vqp_rx_t             rx;
    vqp_ib_path_t       *ib_paths;
    uct_vqp_iface_t     *iface;
    struct uct_vqp_ep   *ep;          /* owner, or NULL */
    uint8_t              ready;       /* ops are accepted; follows from the
                                         next ones, see update_ready */
    uint8_t              live;        /* the peer is connected too */
    uint8_t              connected;   /* tx and rx are set up: read it by
                                         uct_vqp_is_connected */
    uint8_t              is_touched;
    /* progress looks at these four at once */
    uint8_t              no_resource; /* an op was refused since the last
                                         resource came back */
    uint8_t              failed;      /* status says why; QPs are in ERR */
    uint8_t              closing;     /* the endpoint is gone, ops are not */
    uint8_t              dying;       /* waits for its WRs to come back */
    uint8_t              reported;    /* the error handler was called */
    uint8_t              canceled;    /* flush(CANCEL): status is not an error */
    uint8_t              peer_gone;   /* after a BYE: fails when it is used */
    uint8_t              saw_imm;     /* the control plane was told */
    uint8_t              tell_imms;   /* it has to be told, or all are traced,
                                         or dropped */
    uint8_t              is_broken;   /* the peer does not keep to the protocol:
                                         nothing of it is believed any more */
    vqp_status_t         status;      /* if failed */
    uint32_t             number;      /* in iface->vqps */
    unsigned             num_paths;   /* created; tx.num_paths: in use */
    unsigned             fences;      /* iface->fences when last looked at */
    struct uct_vqp      *touched_next;
    ucs_queue_head_t     flushes;     /* uct_vqp_flush_t, by op number */
    vqp_path_t          *paths;
    vqp_stats_t          stats;
    uint64_t             activity;    /* ams_rx + ops at the last tick */
    uint64_t             active_since;/* ns: last tick that saw activity */
    vqp_iov_t           *iov_ext;
    uint8_t             *window_map;
    uint8_t             *fsn_path;
    vqp_op_t            *ops;
    uint32_t           (*op_rkeys)[VQP_MAX_RAILS]; /* of each op of the RMA ring */
    vqp_tx_flush_t       last_flush;  /* of an endpoint that is gone */

    /* under the async block */
    vqp_conn_t           conn;
    vqp_wire_info_t     *local;       /* what the peer is told */
    uint32_t             cm_marks;    /* UCT_VQP_CM_* */
    vqp_status_t         cm_status;
    struct uct_vqp      *cm_next;
    uint8_t              in_cm_list;
    uint32_t             ring_rkeys[VQP_MAX_RAILS]; /* of the peer */
    uint32_t             key_layout;  /* that keys of its memory must have */
    uint8_t              peer_rails;  /* bits: that paths go to */
    ucs_list_link_t      list;        /* in iface->vqp_list */
    uct_vqp_slab_t      *slab;
    char                *chunk;
} uct_vqp_t;

/**
 * Are tx and rx there? The async context sets them up, maybe in another thread;
 * who sees the flag sees them whole.
 */
static inline int uct_vqp_is_connected(const uct_vqp_t *vqp)
{
    return __atomic_load_n(&vqp->connected, __ATOMIC_ACQUIRE);
}

/**
 * Keep a remote key with an op of the RMA ring: the user may release it when
 * the op was accepted, and frags are dispatched later.
 *
 * @return the op's rkeys.
 */
static inline const uint32_t *
uct_vqp_keep_rkeys(uct_vqp_t *vqp, const vqp_op_t *op, const uint32_t *rkeys)
{
    uint32_t *kept = vqp->op_rkeys[op - vqp->tx.rma.ops];

    memcpy(kept, rkeys, sizeof(*vqp->op_rkeys));
    return kept;
}

/** Tell the sender the time, if its scheduler measures. */
static inline void uct_vqp_clock(uct_vqp_t *vqp)
{
    if (vqp_unlikely(vqp->tx.cfg.sched == VQP_SCHED_LEFT)) {
        vqp->tx.now           = uct_vqp_now();
        vqp->tx.seen          = vqp->iface->seen;
        vqp->iface->paced     = vqp->tx.now;
        vqp->iface->is_pacing = 1;
    }
}

/** A flush that waits. */
typedef struct uct_vqp_flush {
    ucs_queue_elem_t  queue;
    vqp_tx_flush_t    tx;
    uint8_t           ignore_failure; /* it reports OK even then */
    uct_completion_t *comp;
} uct_vqp_flush_t;

/** Layout of a registered chunk: the ring that the peer writes into, the mirror
 * of the peer's ring, credit cells of both directions, results of atomics */
typedef struct uct_vqp_layout {
    size_t mirror;
    size_t rx_cells;
    size_t tx_cells;
    size_t amo;
    size_t size;
} uct_vqp_layout_t;

void uct_vqp_layout(const uct_vqp_settings_t *set, uct_vqp_layout_t *layout);

/** Bytes of registered memory that a connection takes from the slabs. */
size_t uct_vqp_chunk_size(const uct_vqp_settings_t *set);

/**
 * Create a vqp with its queue pairs in INIT, and what the peer has to know.
 * Under the async block.
 *
 * @return UCS_OK, or an error (logged) with nothing left behind.
 */
ucs_status_t uct_vqp_create(uct_vqp_iface_t *iface, uct_vqp_t **vqp_p);

/**
 * Connect the queue pairs to a peer's, post receives, set up the core. Under
 * the async block.
 *
 * @return VQP_OK, or an error (logged).
 */
vqp_status_t uct_vqp_connect(uct_vqp_t *vqp, const vqp_wire_info_t *peer);

/** Release everything. No posted WR may be outstanding. Async block. */
void uct_vqp_destroy(uct_vqp_t *vqp);

/** Dispatch and post what may go now. The worker's thread. */
void uct_vqp_pump(uct_vqp_t *vqp);

/** A frag that the core counts as posted was not: the connection is broken. */
void uct_vqp_post_one_failed(uct_vqp_t *vqp, vqp_path_t *path, uint16_t pos);

/**
 * The connection is broken or canceled: queue pairs to ERR, nothing more is
 * posted. Completions and the error handler follow from progress.
 */
void uct_vqp_fail(uct_vqp_t *vqp, vqp_status_t status);

/**
 * The same where no completion will come: what is outstanding ends here. Its
 * queue pairs may still write to memory that was in use.
 */
void uct_vqp_lost(uct_vqp_t *vqp, vqp_status_t status);

/** Post an empty write: an error tells that the peer is gone. */
void uct_vqp_check(uct_vqp_t *vqp);

/** Have run_touched look at the vqp. */
static inline void uct_vqp_touch(uct_vqp_t *vqp)
{
    if (!vqp->is_touched) {
        vqp->is_touched         = 1;
        vqp->touched_next       = vqp->iface->touched;
        vqp->iface->touched     = vqp;
    }
}

/** Touch it from outside of progress: a sleeper is woken. */
void uct_vqp_touch_later(uct_vqp_t *vqp);

/**
 * The endpoint is gone: say BYE if the peer has what it left, else see that this
 * gets known. Runs no callback.
 */
void uct_vqp_run_closing(uct_vqp_t *vqp);

/** The endpoint is gone: report what is left as canceled. */
void uct_vqp_cancel_all(uct_vqp_t *vqp);

/** Queue pairs to ERR; released when all posted WRs are back. */
void uct_vqp_bury(uct_vqp_t *vqp);

/** Release it if nothing is outstanding. @return 1 if it is gone. */
int uct_vqp_try_destroy(uct_vqp_t *vqp);

#endif
