/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UCT side of a vqp of the core: its queue pairs, its memory, and its slot
 * in the interface. It is owned by an endpoint, or passive, if the peer created
 * the connection. vqp.h has the functions.
 */
#ifndef UCT_VQP_DEF_H
#define UCT_VQP_DEF_H

#include "uct/vqp_iface.h"

#include "core/telemetry/balance.h"
#include "core/failover/inbox.h"
#include "core/vqp.h"

/** The endpoint: a reference to a vqp, and its user's requests. */
typedef struct uct_vqp_ep {
    uct_base_ep_t       super;
    struct uct_vqp     *vqp;
    ucs_arbiter_group_t arb_group;   /* holds arb_elem while requests are pending */
    ucs_arbiter_elem_t  arb_elem;
    ucs_queue_head_t    pending;     /* requests, but the one that runs */
    unsigned            num_pending; /* with the one that runs */
} uct_vqp_ep_t;

/** A ring that has grown, or the mirror of one; see vqp_ring.h. */
typedef struct uct_vqp_ring {
    char        *memory; /* NULL: there is none */
    size_t       size;
    vqp_ib_mr_t  mr;
} uct_vqp_ring_t;

/** Events of the control plane for progress. */
enum {
    UCT_VQP_CM_LIVE  = 1 << 0, /* operations may be posted */
    UCT_VQP_CM_PATHS = 1 << 1, /* an inbox has some */
    UCT_VQP_CM_END   = 1 << 2  /* the connection has ended, with conn.status */
};

typedef struct uct_vqp {
    vqp_t                core;
    vqp_ib_path_t       *ib_paths;
    uct_vqp_iface_t     *iface;
    uct_vqp_ep_t        *ep;          /* owner, or NULL if passive */
    uint8_t              ready;       /* ops are accepted: it is LIVE, and no
                                         request is pending in front of them */
    uint8_t              is_scheduled;/* in iface->scheduled */
    uint8_t              is_deferred; /* in iface->deferred */
    uint32_t             number;      /* in iface->vqps */
    unsigned             fences;      /* value of iface->fences at the last check */
    struct uct_vqp      *scheduled_next;
    struct uct_vqp      *deferred_next;
    vqp_timer_t          timer;       /* in iface->timers */
    struct {
        uint64_t         ams;         /* stats.ams_rx at the last look */
        uint8_t          looks;       /* how often END was put off */
        uint8_t          is_waited;   /* requests were pending meanwhile */
    } end;
    uint64_t             faulted;     /* bits of the paths whose first fault was logged */
    uint64_t             outage_at;   /* ns: begin of the outage that was logged; or 0 */
    uint8_t              outage_level; /* ucs_log_level_t of that line */
    vqp_path_t          *paths;
    vqp_iov_t           *iov_ext;
    uint8_t             *window_map;
    vqp_op_t            *ops;
    vqp_op_t            *more_ops[2]; /* of the AM and the RMA ring; NULL: it has not grown */
    uint32_t           (*op_rkeys)[VQP_MAX_RAILS]; /* of each op of the RMA ring */

    /* under the async block */
    vqp_conn_t           conn;
    vqp_wire_info_t     *local;       /* sent to the peer in REQ and REP */
    uint32_t             cm_events;   /* UCT_VQP_CM_* */
    uint32_t             cm_taken;    /* of these, by progress */
    struct uct_vqp      *cm_next;
    uint8_t              in_cm_list;
    uint32_t             ring_rkeys[VQP_MAX_RAILS]; /* of the peer */
    uint32_t             scratch_rkeys[VQP_MAX_RAILS]; /* of the peer */
    uint64_t             undecided; /* counter of that name that was logged */
    uint32_t             key_layout;  /* required of the keys of its memory */
    uint8_t              peer_rails;  /* bits: rails that paths go to */
    uint8_t              peer_reads;  /* READs and atomics that it serves on a path */
    vqp_wire_rail_t     *peer_info;   /* its rails, for new queue pairs; or NULL: no
                                         failover */
    vqp_inbox_t         *inboxes;     /* of each path, with failover; under the async block */
    ucs_list_link_t      list;        /* in iface->vqp_list */
    uct_vqp_chunk_t      chunk;
    uct_vqp_ring_t       rings[VQP_RING_LAST];   /* numbers 1 and 2; 0 is in the chunk */
    uct_vqp_ring_t       mirrors[VQP_RING_LAST]; /* of the peer's */
    struct {
        uct_vqp_chunk_t  chunk;       /* its slab is NULL: there is none */
        ucs_list_link_t  list;        /* in iface->mirrors.used */
    } mirror;                         /* of the peer's ring 0 */
    vqp_latency_t       *latency;     /* of each path, with telemetry */
    vqp_balance_t       *balance;     /* of each path, with telemetry or several paths;
                                         or NULL */
    uint64_t             balanced;    /* ns: last look at it */
} uct_vqp_t;

/** Do both sides have failover? */
static inline int uct_vqp_has_failover(const uct_vqp_t *vqp)
{
    return vqp->iface->set.failover &&
           (vqp->conn.peer_features & VQP_WIRE_FEATURE_FAILOVER);
}

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
    uct_vqp_iface_t *iface = vqp->iface;

    if (iface->unlooked) { /* it ended after the last measurement, at least */
        iface->unlooked = 0;
        iface->looked   = ucs_max(iface->looked, iface->rated);
    }

    vqp->core.tx.clock.now    = uct_vqp_now();
    vqp->core.tx.clock.seen   = iface->seen;
    vqp->core.tx.clock.looked = iface->looked;
    iface->rated              = vqp->core.tx.clock.now;
    iface->todo              |= UCT_VQP_TODO_RATE;
}

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
static inline void uct_vqp_schedule_wake(uct_vqp_t *vqp)
{
    uct_vqp_schedule(vqp);
    uct_vqp_iface_signal(vqp->iface, UCT_VQP_EVENT_LOCAL);
}

#endif
