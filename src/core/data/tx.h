/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender of a vqp: accepts ops, splits them into frags, chooses paths, gives
 * fsns, spends and regains credits. It posts nothing: dispatch leaves frags in a
 * batch, and what has completed is taken from a list.
 *
 * Use: begin, fill the op, commit; dispatch, and post the batch, until a batch is
 * empty; retire for each send completion; pop what is done (confirm.h). The fast
 * path of a simple op is in send.h. One thread at a time.
 * Pure: libc only; all memory is given by the caller.
 */
#ifndef VQP_CORE_DATA_TX_H
#define VQP_CORE_DATA_TX_H

#include "core/data/frag.h"
#include "core/data/imm.h"
#include "core/data/notify.h"
#include "core/data/record.h"
#include "core/data/sched.h"

/** A ring of the peer, and its mirror. */
typedef struct vqp_tx_ring {
    char           *mirror;        /* NULL: there is none, and no record of this ring is
                                      in flight */
    const uint32_t *lkeys;         /* of the mirror, per rail */
    uint64_t        raddr;         /* of the ring */
    const uint32_t *rkeys;         /* of the ring, per peer rail */
    uint32_t        size;          /* of both, bytes: a power of two */
} vqp_tx_ring_t;

/** What does not change after the connection is made. */
typedef struct vqp_tx_config {
    uint32_t        ring_size;     /* of the first ring: same at both ends */
    uint32_t        fsn_window;    /* power of two, at most
                                      VQP_FSN_WINDOW_MAX, and with the largest
                                      ring at most VQP_RING_WINDOW_MAX */
    uint32_t        first_fsn;     /* of this sender */
    uint64_t        path_cap;      /* bytes in flight at which a path is full */
    uint32_t        signal_every;  /* frags without a CQE of their own */
    uint32_t        inline_max;    /* bytes that the send queues take inline */
    uint32_t        most_ops;      /* slots that each ring of ops may get, a power of two.
                                      A ring that begins with more stays as it is */
    uint8_t         frag_shift;    /* log2 of the largest frag, but of AMs that
                                      would take too many fsns: */
    uint8_t         max_shift;     /* log2 of the largest one that the devices
                                      take, at least frag_shift */
    uint8_t         min_shift;     /* log2 of the smallest */
    uint8_t         single_shift;  /* frag_shift while one path takes frags: splitting
                                      gains nothing then, but keeps the path busy; 0: as
                                      otherwise */
    uint64_t        single_cap;    /* path_cap then; 0: likewise */
    uint8_t         cap_growth;    /* both may be doubled as often, see pathcap.h */
    uint8_t         notify;        /* vqp_notify_t */
    uint8_t         sched;         /* vqp_sched_t */
    uint8_t         order_all;     /* AM_ORDER=all: each AM has a fence */
    uint8_t         comp_post;     /* COMP_ORDER=post */
    uint8_t         no_fast;       /* every frag goes through dispatch: traces */
    uint8_t         pack;          /* AMs that wait share an immediate, see pack.h */
    char           *mirror;        /* of the first ring; NULL: it comes with the first
                                      message, see mirror.h */
    const uint32_t *local_lkeys;   /* per rail: the mirror above, cells, amo results */
    uint64_t        ring_raddr;    /* the peer's first ring */
    uint64_t        cells_raddr;   /* the peer's credit cells */
    const uint32_t *ring_rkeys;    /* per peer rail: this ring, and cells */
    struct {
        uint64_t        source;    /* bytes of a path MTU, which do not change */
        const uint32_t *lkeys;     /* per rail */
        uint64_t        raddr;     /* the peer's; 0: probes of paths are empty */
        const uint32_t *rkeys;     /* per peer rail */
    } scratch;
    vqp_cell_t     *cells;         /* source of credit updates, VQP_CELL_STRIDE each */
    uint64_t       *amo_results;   /* a cell for each slot that the RMA ring may have */
} vqp_tx_config_t;

/* Stalls in a row at which the ring is too small: one or two may be the end of a burst */
#define VQP_TX_SHORTAGES 4

/* Most bytes up to which an AM takes further records, and most records. Fewer bytes are
 * enough if the half of the window that packed AMs use carries the ring with them. The
 * records bound what one completion at the receiver brings */
#define VQP_PACK_MAX     65536u
#define VQP_PACK_RECORDS 64u

/* Why the fast path is not allowed, and what dispatch has to do first */
enum {
    VQP_TX_CREDIT     = 1 << 0, /* credit has to be advertised */
    VQP_TX_NOTIFY     = 1 << 1, /* sprayed AMs wait for their notify */
    VQP_TX_NOP        = 1 << 2, /* unsignaled frags have to be confirmed */
    VQP_TX_WITNESS    = 1 << 3, /* idle paths get a nop: do they work? */
    VQP_TX_REPLAY     = 1 << 7, /* a path is in a state that needs progress, or frags
                                   wait for their replay */
    VQP_TX_RINGS      = 1 << 9, /* the ring is too small, or is changed, see rings.h */
    VQP_TX_WORK       = VQP_TX_CREDIT | VQP_TX_NOTIFY | VQP_TX_NOP |
                        VQP_TX_WITNESS | VQP_TX_REPLAY | VQP_TX_RINGS,
    VQP_TX_NO_FAST    = 1 << 4, /* by configuration, or the vqp has failed */
    VQP_TX_ASYMMETRIC = 1 << 5, /* the measured rates of the paths differ */
    VQP_TX_QUIET      = 1 << 8, /* nothing was in flight at the last look at the
                                   paths, see silence.h */
    VQP_TX_SAMPLE     = 1 << 10, /* one of the next ops is sampled, see telemetry/latency.h:
                                   they go through dispatch, and each frag gets a CQE */
    VQP_TX_FENCE_RMA  = 1 << 6  /* the next put, get or atomic is behind a
                                   fence; does not affect AMs */
};

typedef struct vqp_tx {
    /* used by every op */
    uint32_t        slow;         /* VQP_TX_*; 0: the fast path is allowed */
    uint32_t        seq;          /* number of the next op */
    vqp_tx_ring_t   ring;         /* that new records are written to */
    vqp_opring_t    am;
    vqp_opring_t    rma;
    struct {
        vqp_path_t *list;
        uint32_t    count;
        uint32_t    next;         /* in turn: where the search starts */
        uint8_t     usable;       /* that take frags; 1 if none does */
        uint8_t     settled;      /* none is about to go down or to come up */
        uint8_t     has_off;      /* some are off, see failover.h */
        uint8_t     moved;        /* the peer has moved some, see rails.h */
    } paths;

    /* flow control: what the peer and the mirror have room for */
    struct {
        uint32_t    fsn_next;
        uint32_t    fsn_peer;     /* the peer's next expected fsn */
        uint32_t    fsn_reserved; /* of accepted, undispatched AMs */
        uint32_t    ring_head;    /* cumulative bytes given to records */
        uint32_t    ring_peer;    /* consumed by the peer */
        uint32_t    ring_local;   /* confirmed by the HCA */
        uint32_t    am_credits;   /* single-fragment AMs that may be accepted
                                     without checking slots, fsns and fences */
        uint32_t    am_outdated;  /* AMs from am.post on that were accepted
                                     before the last credit update */
        vqp_credit_t last_update; /* the credit in it */
        uint8_t     requested;    /* REQUEST was sent, no credit arrived since */
        uint8_t     want_request; /* the next credit update has REQUEST */
    } fc;

    struct {
        uint64_t    path_cap;     /* bytes in flight at which a path is full */
        uint64_t    fast_cap;     /* bytes in flight from which on a path is not
                                     chosen in turn, and not by the fast path */
        uint64_t    ahead;        /* bytes that the path in turn may have in flight
                                     more than the next one, besides the frag: else
                                     the fast path is not allowed */
        uint64_t    fast_max;     /* bytes of an op from which on the fast path is
                                     not allowed */
        uint32_t    max_unsignaled;    /* bytes without a CQE on a path */
        uint32_t    am_max_unsignaled; /* ring bytes between two CQEs of AMs */
        uint32_t    pack;         /* bytes up to which an AM takes further records */
        uint32_t    one_frag;     /* records up to this are one frag */
        uint32_t    am_frags;     /* most frags of an AM */
        uint8_t     frag_shift;   /* log2 of the largest frag */
        uint8_t     path_shift;   /* log2 of the usable paths, rounded up */
        uint8_t     amo_needs;    /* VQP_NEED_RAIL if paths go to several */
    } limits;

    struct {                      /* see pathcap.h */
        uint64_t    since;        /* ns: all paths have been full; 0: not known */
        uint64_t    first;        /* ns: something was confirmed; 0: nothing yet */
        uint64_t    in_flight;    /* bytes, at since... */
        uint64_t    begin;        /* ...and those confirmed until then */
        uint64_t    needed;       /* ns: last sign that it is not too much */
        uint8_t     shift;        /* how often path_cap is doubled */
        uint8_t     calm;         /* how often in a row it was more than enough */
        uint8_t     is_full;      /* ops wait, and no path has room */
        uint8_t     is_by_bytes;  /* ...for bytes, and not for want of slots */
    } cap;

    struct {
        uint8_t     am;           /* the next AM is behind a fence */
        uint8_t     started;      /* paths is valid */
        uint8_t     waits;        /* an AM waits for the dispatch of RMA ops */
        uint32_t    am_tail;      /* of the rings, at the last fence */
        uint32_t    rma_tail;
        uint64_t    paths;        /* that still need a fence frag */
    } fence;

    struct {
        uint64_t    tail_paths;   /* that have carried a frag of the tail AM at
                                     am.post, and not its immediate yet */
        uint8_t     tail_ready;   /* all data of that AM is dispatched */
        uint16_t    head;         /* sprayed AMs, all data confirmed */
        uint16_t    tail;
    } announce;

    struct {
        vqp_record_t *last;       /* the newest record, if its AM has VQP_OP_PACK */
        uint8_t     count;        /* records of this AM */
        uint8_t     looks;        /* dispatches that held it since it was accepted */
        uint8_t     is_held;      /* dispatch waits for further records */
    } pack;

    struct {
        uint64_t    now;          /* ns, of the event that is handled: set by
                                     the caller if the scheduler is left */
        uint64_t    seen;         /* ns: see vqp_rate_confirmed() */
        uint64_t    looked;       /* ns: likewise */
        uint64_t    rated;        /* when the paths were found asymmetric */
        uint8_t     deferred;     /* dispatch waits for a busy path although
                                     another one is free */
    } clock;

    struct {
        uint16_t    head;         /* confirmed ops to be reported */
        uint16_t    tail;
    } done;

    uint32_t        credit_updates; /* unconfirmed */
    uint16_t        barriers;     /* that have not ended: ops of the RMA ring */
    uint8_t         failed;       /* nothing may be dispatched any more */
    uint8_t         closed;       /* the barrier of a close has ended */
    uint8_t         am_paused;    /* no AM is accepted: another vqp needs the mirror */
    uint8_t         needs_mirror; /* the last AM that was refused lacked only the mirror */
    uint8_t         awaits_mirror; /* so did one since vqp_resume(), or a control record */
    uint8_t         lost;         /* VQP_LOST_*: flushes that report a loss */
    struct {
        vqp_tx_ring_t ring;       /* its size is 0: there is none */
        uint32_t      end;        /* ring position of its end */
    } old;                        /* that records in flight were written to */
    struct {
        uint32_t      peer;       /* fc.ring_peer and fc.ring_head at the last stall */
        uint32_t      head;       /* that counts */
        uint16_t      count;      /* of these in a row */
        uint16_t      limit;      /* at which the ring is too small */
        uint8_t       is_noted;   /* peer and head are valid */
        uint8_t       is_found;   /* the ring is too small */
    } shortage;                   /* the sender waits for ring bytes alone */
    uint32_t        iov_max;      /* pieces per op in iov_ext */
    vqp_iov_t      *iov_ext;      /* pieces of RMA ops then AM ops, or NULL */
    vqp_stats_t    *stats;
    vqp_tx_config_t cfg;
} vqp_tx_t;

/** The ring that holds the record of an AM. */
static inline const vqp_tx_ring_t *
vqp_tx_ring_of(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return (vqp_unlikely(tx->old.ring.size != 0) &&
            (vqp_seq_diff(op->am.ring_end, tx->old.end) <= 0)) ?
                   &tx->old.ring : &tx->ring;
}

/** The op of that id. */
static inline vqp_op_t *vqp_tx_op_of(vqp_tx_t *tx, uint16_t id)
{
    vqp_op_t *ops = (id & VQP_OP_AM) ? tx->am.ops : tx->rma.ops;

    return &ops[id & ~VQP_OP_AM];
}

/** Where the device writes the result of an atomic, before its user gets it. No two write into
 *  one cell: an op keeps its slot until the queue pair of its only frag has completed or
 *  flushed it, or is gone. A sender that has failed ends ops before that, and takes no other. */
static inline uint64_t *vqp_tx_amo_cell(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return &tx->cfg.amo_results[op - tx->rma.ops];
}

/**
 * Most frags of an AM: with the fence that may precede it, they take half of the
 * window; at least 1. An AM has at most this number times the largest frag that
 * the devices take.
 */
static inline uint32_t
vqp_tx_am_frags_max(uint32_t fsn_window, uint32_t num_paths)
{
    return (fsn_window / 2 > num_paths) ? (fsn_window / 2) - num_paths : 1;
}

/**
 * Prepare an empty sender.
 *
 * @param [in] cfg       Copied; what it points to outlives the sender.
 * @param [in] am_ops    @a am_size ops, a power of two; likewise the RMA ones, two
 *                       at least.
 * @param [in] paths     @a num_paths paths with inflight, mask, depth, credits
 *                       and index set, all else 0; those that are off without
 *                       inflight, mask and depth. The
 *                       peer keeps receives for the whole window on each, so
 *                       that they need no count: the window is their credit. It
 *                       has more fsns than paths and reserve.
 */
void vqp_tx_init(vqp_tx_t *tx, const vqp_tx_config_t *cfg, vqp_op_t *am_ops,
                 uint32_t am_size, vqp_op_t *rma_ops, uint32_t rma_size,
                 vqp_path_t *paths, uint32_t num_paths,
                 vqp_stats_t *stats);

/**
 * Make sure that all ops accepted so far are confirmed without further traffic:
 * frags in flight without a CQE get a nop behind them, the others a CQE of their
 * own.
 */
void vqp_tx_reclaim(vqp_tx_t *tx);

/**
 * Take a slot for a put, get or atomic. The caller fills kind, flags, length
 * (above 0), raddr, rma.rkeys, user and the source, then commits; or forgets it.
 * Not after vqp_tx_fail().
 *
 * @return NULL if the ring is full: then all of its ops are reclaimed. One slot
 *         stays free for the barrier of a close.
 */
static inline vqp_op_t *vqp_tx_rma_begin(vqp_tx_t *tx)
{
    if (vqp_unlikely(!vqp_opring_make_room(&tx->rma))) {
        vqp_tx_reclaim(tx);
        return NULL;
    }

    return vqp_opring_at(&tx->rma, tx->rma.tail);
}

/**
 * Where the pieces of an op's source go, @a niov of them.
 *
 * @return NULL if @a niov needs memory that vqp_tx_set_iov_ext() did not give.
 */
vqp_iov_t *vqp_tx_op_iov(vqp_tx_t *tx, vqp_op_t *op, unsigned niov);

/** A ring of ops that was full, and may have more slots; or NULL. */
static inline vqp_opring_t *vqp_tx_short_ring(vqp_tx_t *tx)
{
    return tx->am.wants ? &tx->am : tx->rma.wants ? &tx->rma : NULL;
}

/**
 * Give slots to the ring that vqp_tx_short_ring() has found.
 *
 * @param [in] ops  ring->most of them, of any content. They outlive the sender, as those
 *                  before do. NULL: there is no memory, the ring goes on with what it has.
 */
void vqp_tx_give_ops(vqp_tx_t *tx, vqp_opring_t *ring, vqp_op_t *ops);

/** Pieces for ops with more than VQP_OP_IOV_INLINE of them. */
static inline size_t vqp_tx_iov_ext_count(const vqp_tx_t *tx, unsigned niov)
{
    return ((size_t)tx->am.most + tx->rma.most) * niov;
}

/** Give vqp_tx_iov_ext_count(tx, max) pieces; @a ext outlives the sender. */
static inline void
vqp_tx_set_iov_ext(vqp_tx_t *tx, vqp_iov_t *ext, unsigned max)
{
    tx->iov_ext = ext;
    tx->iov_max = max;
}

/** Fragment size, as its log2, for an op that more than one path may carry. */
uint8_t vqp_tx_frag_shift_shared(const vqp_tx_t *tx, uint64_t length);

/** Fragment size for an op: within the limits, one or two frags per path. */
static inline uint8_t vqp_tx_frag_shift(const vqp_tx_t *tx, uint64_t length)
{
    return ((tx->paths.usable == 1) || (length <= (1ul << tx->cfg.min_shift))) ?
                   tx->limits.frag_shift : vqp_tx_frag_shift_shared(tx, length);
}

/**
 * Choose the fragment size of a put or get with pieces. Call it after the length is
 * set. For a put whose data is in the op, set only frag_shift.
 */
static inline void vqp_tx_rma_set_frag_size(const vqp_tx_t *tx, vqp_op_t *op)
{
    op->frag_shift = vqp_tx_frag_shift(tx, op->length);
}

/** Accept the op that vqp_tx_rma_begin() gave, for dispatch. It can not fail. */
void vqp_tx_rma_commit(vqp_tx_t *tx, vqp_op_t *op);

/** Have all records in the old ring ended, so that nothing writes to it any more? */
static inline int vqp_tx_old_ring_is_done(const vqp_tx_t *tx)
{
    return (tx->old.ring.size == 0) ||
           (vqp_seq_diff(tx->fc.ring_local, tx->old.end) >= 0);
}

/** The old ring is done, and its memory may go. */
static inline void vqp_tx_drop_old_ring(vqp_tx_t *tx)
{
    tx->old.ring.size = 0;
}

/** Order all earlier ops before all later ones. Does not block. */
static inline void vqp_tx_fence(vqp_tx_t *tx)
{
    if (!vqp_opring_is_empty(&tx->rma) || !vqp_opring_is_empty(&tx->am)) {
        tx->slow          |= VQP_TX_FENCE_RMA;
        tx->fence.am       = 1;
        tx->fence.am_tail  = tx->am.tail;
        tx->fence.rma_tail = tx->rma.tail;
        tx->fc.am_credits  = 0;
    }
}

/**
 * Split accepted ops into frags while paths have room. Every frag counts as
 * posted when this returns.
 *
 * @param [in]  credit  What a credit update advertises.
 * @param [inout] batch Filled behind what is in it; post all of it, path by path in
 *                      order. If it is full there may be more to send, else
 *                      nothing more can be sent until the state changes.
 */
void vqp_tx_dispatch(vqp_tx_t *tx, vqp_batch_t *batch,
                     const vqp_credit_t *credit);

/** Fsns that were given and that the peer has not advertised as passed. */
static inline uint32_t vqp_tx_fsns_out(const vqp_tx_t *tx)
{
    return (uint32_t)vqp_fsn_diff(tx->fc.fsn_next, tx->fc.fsn_peer);
}

/** Is there something that dispatch might send once paths have room? */
static inline int vqp_tx_has_work(const vqp_tx_t *tx)
{
    return (tx->am.post != tx->am.tail) || (tx->rma.post != tx->rma.tail) ||
           ((tx->slow & VQP_TX_WORK) != 0);
}

/**
 * The peer advertised its cumulative credit; what is older is ignored.
 *
 * @return 1 if there is new credit, 0 if not, or VQP_ERR_PROTOCOL if it is credit
 *         for what was never sent.
 */
int vqp_tx_credit(vqp_tx_t *tx, uint32_t ring, uint32_t fsn);

/** Is @a credit equal to the state of the sender? */
static inline int
vqp_tx_knows_credit(const vqp_tx_t *tx, const vqp_credit_t *credit)
{
    return (credit->ring == tx->fc.ring_peer) &&
           (credit->fsn == tx->fc.fsn_peer);
}

/* ---- for the parts of the sender ---- */

/** Give the op its number; the caller moves the cursors of its ring. */
static inline void
vqp_tx_accept(vqp_tx_t *tx, vqp_op_t *op, uint64_t offset, uint16_t pending)
{
    op->seq     = tx->seq++;
    op->offset  = offset;
    op->pending = pending;
    op->status  = VQP_OK;
    ++tx->stats->ops;
}

/** Adapt the limits to the ring. */
void vqp_tx_set_ring_limits(vqp_tx_t *tx);

/** Adapt the limits to the paths that take frags. */
void vqp_tx_set_shares(vqp_tx_t *tx);

/** Give the path a new budget, since credits were returned or there is none. */
void vqp_tx_refill(const vqp_tx_t *tx, vqp_path_t *path);

/** The state of the path has changed: end the budget, so the next frag is
 *  checked. */
static inline void vqp_path_stop(vqp_path_t *path)
{
    path->budget.frags = path->budget.bytes = 0;
}

/** Packets of a frag of @a length bytes, beyond the first. @a shift: log2 of the bytes of a
 *  packet. */
static inline uint32_t vqp_more_packets(uint32_t length, unsigned shift)
{
    return (length - (length != 0)) >> shift;
}

/** Bring the work requests and packets of this epoch up to date: path->fo.wrs,
 *  path->fo.packets. To be called before slots from path->fo.wrs_seen on are taken again or
 *  change. stats.bytes must have grown by the data of the frags. */
void vqp_path_count_wrs(vqp_path_t *path);

/** Frags posted and not confirmed, over all paths. */
unsigned vqp_tx_outstanding(const vqp_tx_t *tx);

#endif
