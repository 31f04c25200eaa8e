/*
 * The sending half of a vqp: accepts ops, cuts them into frags, chooses paths,
 * gives fsns, spends and regains credits. It posts nothing: dispatch leaves
 * frag descriptors in a batch, and what completes is taken from a list.
 *
 * Use: begin, fill the op, commit; dispatch and post the batch while it is full;
 * retire for each send completion; pop what is done (confirm.h). One thread at a
 * time.
 * Pure: libc only; all memory is given by the caller.
 */
#ifndef VQP_CORE_TX_H
#define VQP_CORE_TX_H

#include "core/imm.h"
#include "core/notify.h"
#include "core/path.h"
#include "core/record.h"
#include "core/sched.h"

/** Same layout as the scatter-gather element of the verbs API. */
typedef struct vqp_sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
} vqp_sge_t;

#define VQP_FRAG_MAX_SGE 16
#define VQP_BATCH_MAX    32

typedef enum {
    VQP_WR_WRITE,
    VQP_WR_WRITE_IMM,
    VQP_WR_READ,
    VQP_WR_FADD,
    VQP_WR_CSWAP
} vqp_wr_t;

/* The first three are numbered as the verbs API numbers them: the layer that
 * posts hands them on as they are */
enum {
    VQP_FRAG_FENCE    = 1 << 0, /* wait for READs and atomics before it */
    VQP_FRAG_SIGNALED = 1 << 1,
    VQP_FRAG_INLINE   = 1 << 3,
    VQP_FRAG_SEND     = VQP_FRAG_FENCE | VQP_FRAG_SIGNALED | VQP_FRAG_INLINE,
    VQP_FRAG_UNPOSTED = 1 << 4, /* set by the layer that posts: it could not */
    VQP_FRAG_PACING   = 1 << 5  /* its CQE keeps the path going: a later one does
                                   not make it superfluous */
};

/** One work request to post. */
typedef struct vqp_frag {
    vqp_path_t *path;
    vqp_op_t   *op;     /* NULL for control, fence and kick */
    uint16_t    pos;    /* place in the path's send queue */
    uint8_t     opcode; /* vqp_wr_t */
    uint8_t     flags;  /* VQP_FRAG_* */
    uint8_t     nsge;
    uint8_t     kind;   /* vqp_kind_t, for the trace */
    uint32_t    imm;
    uint32_t    rkey;
    uint32_t    length;
    uint64_t    raddr;
    vqp_sge_t   sge[VQP_FRAG_MAX_SGE];
} vqp_frag_t;

typedef struct vqp_batch {
    unsigned   count;
    vqp_frag_t frags[VQP_BATCH_MAX];
} vqp_batch_t;

/** What does not change after the connection is made. */
typedef struct vqp_tx_config {
    uint32_t        ring_size;     /* power of two, same at both ends */
    uint32_t        fsn_window;    /* power of two, at most 2^15 */
    uint32_t        first_fsn;     /* of this sender */
    uint64_t        path_cap;      /* bytes in flight at which a path is full */
    uint32_t        signal_every;  /* frags without a CQE of their own */
    uint32_t        inline_max;    /* bytes that the send queues take inline */
    uint8_t         frag_shift;    /* log2 of the largest frag */
    uint8_t         min_shift;     /* log2 of the smallest */
    uint8_t         notify;        /* vqp_notify_t */
    uint8_t         sched;         /* vqp_sched_t */
    uint8_t         order_all;     /* AM_ORDER=all: each AM has a fence */
    uint8_t         comp_post;     /* COMP_ORDER=post */
    uint8_t         no_fast;       /* every frag goes through dispatch: traces */
    char           *mirror;        /* ring_size bytes */
    const uint32_t *local_lkeys;   /* per rail: mirror, cells, amo results */
    uint64_t        ring_raddr;    /* the peer's ring */
    uint64_t        cells_raddr;   /* the peer's credit cells */
    const uint32_t *ring_rkeys;    /* per peer rail: ring and cells */
    vqp_cell_t     *cells;         /* source of control, VQP_CELL_STRIDE each */
    uint64_t       *amo_results;   /* sum of all paths' inflight entries */
} vqp_tx_config_t;

enum {
    VQP_TX_CONTROL = 1 << 0, /* credit has to be told */
    VQP_TX_NOTIFY  = 1 << 1, /* sprayed AMs wait for their notify */
    VQP_TX_KICK    = 1 << 2, /* unsignaled frags have to be confirmed */
    VQP_TX_PROBE   = 1 << 3  /* something has to be on the way */
};

#define VQP_TX_NO_PATH UINT8_MAX /* in fsn_path: no immediate carried it yet */

typedef struct vqp_tx {
    /* touched by every op */
    uint32_t        slow;          /* VQP_TX_*: what dispatch does first */
    uint32_t        seq;           /* number of the next op */
    vqp_opring_t    am;
    vqp_opring_t    rma;
    vqp_path_t     *paths;
    uint32_t        num_paths;
    uint8_t         plain;         /* the way of fast.h may be gone */
    uint8_t         uneven;        /* it may not, for the paths' paces differ */
    uint8_t         amo_needs;     /* VQP_NEED_RAIL if paths go to several */
    uint32_t        next_path;     /* rr: where the search starts */
    uint32_t        fsn_next;
    uint32_t        fsn_peer;      /* the peer's next expected fsn */
    uint32_t        fsn_reserved;  /* of accepted, undispatched AMs */
    uint32_t        loose;         /* unconfirmed frags with a number and no op:
                                      fences and control */
    uint32_t        ring_head;     /* cumulative bytes given to records */
    uint32_t        ring_peer;     /* consumed by the peer */
    uint32_t        ring_local;    /* confirmed by the HCA */
    uint32_t        am_pace;       /* bytes on a path that may be without a CQE */
    uint32_t        rma_pace;      /* when the next frag is of an AM; or not */
    uint64_t        turn_cap;      /* up to so many bytes in flight, paths that
                                      are not uneven take frags in turn */
    uint64_t        fast_cap;      /* bytes in flight on a path, and */
    uint64_t        fast_max;      /* of an op in frags, from which on fast.h is
                                      not the way */
    uint32_t        path_shift;    /* log2 of the number of paths, up */
    uint32_t        fsn_limit;     /* fsns that may be outstanding */
    uint32_t        free_ams;      /* so many AMs of one frag surely find a place
                                      and a number, and no fence: counts down */
    uint32_t        one_frag;      /* records up to this are one frag */
    uint32_t        am_frags_max;  /* frags that an AM may be cut into */
    uint16_t        done_head;     /* confirmed ops to be reported */
    uint16_t        done_tail;
    uint16_t        notify_head;   /* sprayed AMs, all data acknowledged */
    uint16_t        notify_tail;
    uint8_t         fence_am;      /* the next AM is behind a fence */
    uint8_t         fence_rma;     /* the next put, get, atomic as well */
    uint8_t         fence_started; /* fence_paths is valid */
    uint8_t         am_fenced;     /* AM ring waits for RMA dispatch */
    uint8_t         rma_held;      /* kicked for the RMA op behind a fence */
    uint8_t         starving;      /* STARVE is out, no credit came since */
    uint8_t         want_starve;   /* the next control message says STARVE */
    uint8_t         failed;        /* nothing may be dispatched any more */
    uint8_t         tail_held;     /* the AM at am.post counts one frag more, for
                                      the immediates that it still owes */
    uint64_t        now;           /* ns, of the event that is handled: set by
                                      the caller if the scheduler is left */
    uint64_t        paced;         /* ns: when uneven was found out */
    uint64_t        seen;          /* ns, likewise: since then, nobody has looked
                                      whether there are completions; or 0 */
    uint32_t        fence_tail;    /* am.tail at the last fence */
    uint64_t        fence_paths;   /* paths that still need a fence frag */
    uint64_t        tail_paths;    /* paths that the tail AM at am.post has used */
    uint8_t        *fsn_path;      /* path of each outstanding fsn */
    vqp_iov_t      *iov_ext;       /* pieces of RMA ops then AM ops, or NULL */
    uint32_t        iov_max;       /* pieces per op in iov_ext */
    vqp_tx_config_t cfg;
    vqp_stats_t    *stats;
} vqp_tx_t;

/**
 * Does the frag that was just put on the path get a CQE? If its op wants one; or
 * if the path needs it to go on: for its places, for the bytes that it may have
 * in flight (nothing after the frag that fills it could confirm it), for the
 * mirror. Private to the ways of dispatch.
 *
 * @return VQP_FRAG_SIGNALED, maybe with VQP_FRAG_PACING, or 0.
 */
static inline unsigned
vqp_tx_signal(const vqp_tx_t *tx, vqp_path_t *path, uint8_t kind,
              uint32_t length, int signal)
{
    path->unsignaled_bytes += length;
    if ((++path->unsignaled >= tx->cfg.signal_every) ||
        (path->bytes >= tx->cfg.path_cap) ||
        (path->unsignaled_bytes >
         ((kind == VQP_KIND_AM) ? tx->am_pace : tx->rma_pace))) {
        path->unsignaled       = 0;
        path->unsignaled_bytes = 0;
        return VQP_FRAG_SIGNALED | VQP_FRAG_PACING;
    }

    if (signal) {
        path->unsignaled = 0;
        return VQP_FRAG_SIGNALED;
    }

    return 0;
}

/** Where the atomic at @a pos of the path gets its result, before its op does. */
static inline uint64_t *
vqp_tx_amo_cell(const vqp_tx_t *tx, const vqp_path_t *path, uint16_t pos)
{
    return &tx->cfg.amo_results[((size_t)path->index * (path->mask + 1u)) +
                                (pos & path->mask)];
}

/**
 * Prepare an empty sender.
 *
 * @param [in] cfg       Copied; what it points to outlives the sender.
 * @param [in] am_ops    @a am_size ops, a power of two; likewise the RMA ones.
 * @param [in] paths     @a num_paths paths with inflight, mask (the same on
 *                       all), depth, credits and index set, all else 0. Each
 *                       has receives of the peer for half a window and twice the
 *                       control reserve: whoever runs out of them is told by the
 *                       peer without asking. The window has more numbers than
 *                       paths and reserve.
 * @param [in] fsn_path  cfg->fsn_window bytes.
 */
void vqp_tx_init(vqp_tx_t *tx, const vqp_tx_config_t *cfg, vqp_op_t *am_ops,
                 uint32_t am_size, vqp_op_t *rma_ops, uint32_t rma_size,
                 vqp_path_t *paths, uint32_t num_paths, uint8_t *fsn_path,
                 vqp_stats_t *stats);

/**
 * See that all ops accepted so far get confirmed without further traffic: what
 * is on the way without a CQE gets one behind it, the rest asks for its own.
 */
void vqp_tx_kick(vqp_tx_t *tx);

/**
 * Take a place for a put, get, atomic or check. The caller fills kind, flags,
 * length (above 0 but for a check), raddr, rkeys, user and the source, then
 * commits; or forgets it. Not after @ref vqp_tx_fail.
 *
 * @return NULL if the ring is full; it is kicked then, so that places come free
 *         although nobody asked for these ops' completion.
 */
static inline vqp_op_t *vqp_tx_rma_begin(vqp_tx_t *tx)
{
    if (vqp_unlikely(vqp_opring_is_full(&tx->rma))) {
        vqp_tx_kick(tx);
        return NULL;
    }

    return vqp_opring_at(&tx->rma, tx->rma.tail);
}

/**
 * Where the pieces of an op's source go, @a niov of them.
 *
 * @return NULL if @a niov needs memory that vqp_tx_set_iov_ext did not give.
 */
vqp_iov_t *vqp_tx_op_iov(vqp_tx_t *tx, vqp_op_t *op, unsigned niov);

/** Pieces for ops with more than VQP_OP_IOV_INLINE of them. */
static inline size_t vqp_tx_iov_ext_count(const vqp_tx_t *tx, unsigned niov)
{
    return ((size_t)tx->am.mask + tx->rma.mask + 2) * niov;
}

/** Give vqp_tx_iov_ext_count(tx, max) pieces; @a ext outlives the sender. */
static inline void
vqp_tx_set_iov_ext(vqp_tx_t *tx, vqp_iov_t *ext, unsigned max)
{
    tx->iov_ext = ext;
    tx->iov_max = max;
}

/** Frag size, as its log2, for an op of @a length bytes that more than one path
 *  may share. */
uint8_t vqp_tx_share(const vqp_tx_t *tx, uint64_t length);

/** Frag size for an op: within the limits, so that each path gets one or two. */
static inline uint8_t vqp_tx_frag_shift(const vqp_tx_t *tx, uint64_t length)
{
    return ((tx->num_paths == 1) || (length <= (1ul << tx->cfg.min_shift))) ?
                   tx->cfg.frag_shift : vqp_tx_share(tx, length);
}

/**
 * Choose the frag size of a put or get with pieces, and rewind its cursor: after
 * its length is set. (A put that holds its data itself sets frag_shift alone.)
 */
static inline void vqp_tx_rma_cut(const vqp_tx_t *tx, vqp_op_t *op)
{
    op->frag_shift = vqp_tx_frag_shift(tx, op->length);
    op->iov_idx    = 0;
    op->g.iov_off  = 0;
}

/** Accept the op that @ref vqp_tx_rma_begin gave. It can't fail any more. */
static inline void vqp_tx_rma_commit(vqp_tx_t *tx, vqp_op_t *op)
{
    op->seq     = tx->seq++;
    op->offset  = 0;
    op->pending = 0;
    op->status  = VQP_OK;
    if (vqp_unlikely(tx->fence_rma)) {
        op->flags    |= VQP_OP_FENCE;
        op->fence_am  = (tx->num_paths == 1) ? tx->am.tail : tx->fence_tail;
        tx->fence_rma = 0;
    }

    ++tx->rma.tail;
    ++tx->stats->ops;
}

/** @ref vqp_tx_am_begin, when anything may be lacking. */
vqp_op_t *vqp_tx_am_look(vqp_tx_t *tx, uint32_t max, vqp_record_t **record_p);

/**
 * Take a place, ring bytes and fsns for an AM of up to @a max bytes of payload,
 * at most vqp_record_max_payload(). Not after @ref vqp_tx_fail.
 *
 * @param [out] record_p  Where the record goes in the mirror; the payload of a
 *                        short or bcopy message is written behind it.
 *
 * @return NULL if anything is lacking. Whether the peer was asked for credit:
 *         see tx->slow.
 */
static inline vqp_op_t *
vqp_tx_am_begin(vqp_tx_t *tx, uint32_t max, vqp_record_t **record_p)
{
    uint32_t offset = tx->ring_head & (tx->cfg.ring_size - 1);
    uint32_t end    = tx->ring_head + vqp_record_size(max);
    vqp_op_t *op    = vqp_opring_at(&tx->am, tx->am.tail);

    if (vqp_unlikely((tx->free_ams == 0) ||
                     (max > tx->one_frag - sizeof(vqp_record_t)) ||
                     (offset + vqp_record_size(max) > tx->cfg.ring_size) ||
                     (end - tx->ring_peer > tx->cfg.ring_size) ||
                     (end - tx->ring_local > tx->cfg.ring_size))) {
        return vqp_tx_am_look(tx, max, record_p);
    }

    op->kind     = VQP_KIND_AM;
    op->flags    = 0;
    op->raddr    = tx->cfg.ring_raddr + offset;
    op->ring_end = tx->ring_head;
    op->pending  = 1;
    *record_p    = (vqp_record_t*)(tx->cfg.mirror + offset);
    return op;
}

/**
 * Accept the AM: writes the record's header, with the credit that @a credit
 * tells on the way. Where all of the payload lies in the mirror (@a in_mirror is
 * @a length) it sets the source too; else the caller has set iov[1..] and niov,
 * and the AM header stands behind the record.
 *
 * @param [in] length     Payload bytes in all, at most what begin was told.
 * @param [in] in_mirror  How many of them are in the mirror.
 */
void vqp_tx_am_commit(vqp_tx_t *tx, vqp_op_t *op, uint8_t am_id,
                      uint32_t length, uint32_t in_mirror,
                      const vqp_credit_t *credit);

/** What precedes comes before what follows; nothing waits here. */
static inline void vqp_tx_fence(vqp_tx_t *tx)
{
    if (!vqp_opring_is_empty(&tx->rma) || !vqp_opring_is_empty(&tx->am)) {
        tx->fence_am = tx->fence_rma = 1;
        tx->fence_tail = tx->am.tail;
        tx->free_ams   = 0;
    }
}

/**
 * Cut frags from what was accepted while paths have room. Every frag counts as
 * posted when this returns.
 *
 * @param [in]  credit  What a control message would tell.
 * @param [out] batch   Filled from its start; post all of it, path by path in
 *                      order. If it is full there may be more to send, else
 *                      nothing more can go before something else happens.
 */
void vqp_tx_dispatch(vqp_tx_t *tx, vqp_batch_t *batch,
                     const vqp_credit_t *credit);

/** Fsns that were given and that the peer has not told to have passed. */
static inline uint32_t vqp_tx_fsns_out(const vqp_tx_t *tx)
{
    return (uint32_t)vqp_fsn_diff(tx->fsn_next, tx->fsn_peer);
}

/** Is there something that dispatch might send once paths have room? */
static inline int vqp_tx_has_work(const vqp_tx_t *tx)
{
    return (tx->am.post != tx->am.tail) || (tx->rma.post != tx->rma.tail) ||
           (tx->slow != 0);
}

/**
 * The frags of a path from @a pos on were dispatched, but could not be posted:
 * they end with @a status now, no completion will come for them. To be called
 * after @ref vqp_tx_fail.
 */
void vqp_tx_abandon(vqp_tx_t *tx, vqp_path_t *path, uint16_t pos,
                    vqp_status_t status);

/** Number of the oldest op not reported; equal to tx->seq if there is none. */
uint32_t vqp_tx_oldest(const vqp_tx_t *tx);

/**
 * The peer told its cumulative credit; older news are ignored.
 *
 * @return 1 if credit was gained, 0 if it was old news, or VQP_ERR_PROTOCOL if
 *         it claims what was never sent.
 */
int vqp_tx_credit(vqp_tx_t *tx, uint32_t ring, uint32_t fsn);

/** Does the peer tell what it has told before? */
static inline int
vqp_tx_knows_credit(const vqp_tx_t *tx, const vqp_credit_t *credit)
{
    return (credit->ring == tx->ring_peer) && (credit->fsn == tx->fsn_peer);
}

/** Ask dispatch for a control message with the current credit. */
static inline void vqp_tx_want_control(vqp_tx_t *tx)
{
    tx->slow |= VQP_TX_CONTROL;
}

/**
 * Ask dispatch for an empty write that waits for nothing: where all ops wait for
 * the peer, only its failure tells that there is none any more.
 */
static inline void vqp_tx_probe(vqp_tx_t *tx)
{
    tx->slow |= VQP_TX_PROBE;
}

/**
 * Nothing is posted any more: ends with @a status whatever was accepted and has
 * no frag in flight. What has frags in flight ends when these are retired.
 */
void vqp_tx_fail(vqp_tx_t *tx, vqp_status_t status);

/**
 * Empty signaled writes for the queue pairs of a failed sender, after they were
 * moved to the error state: what was acknowledged without a CQE gets none there,
 * and would never end. One for each path that needs it; they exceed the path's
 * depth by one at most. To be called after @ref vqp_tx_abandon, and posted, until
 * the batch is empty; a path that can not take it is abandoned from its head on.
 */
void vqp_tx_last_words(vqp_tx_t *tx, vqp_batch_t *batch);

/** Frags posted and not confirmed, over all paths. */
unsigned vqp_tx_outstanding(const vqp_tx_t *tx);

/** Walks over all ops that were accepted and not reported, by op number. */
typedef struct vqp_tx_iter {
    uint32_t am;
    uint32_t rma;
} vqp_tx_iter_t;

static inline void vqp_tx_iter_init(const vqp_tx_t *tx, vqp_tx_iter_t *iter)
{
    iter->am  = tx->am.head;
    iter->rma = tx->rma.head;
}

/** @return The next op, or NULL. Nothing may be retired while walking. */
vqp_op_t *vqp_tx_iter_next(vqp_tx_t *tx, vqp_tx_iter_t *iter);

/** Does an accepted op refer to memory of the user, or is one waited for? */
int vqp_tx_uses_buffers(const vqp_tx_t *tx);

#endif
