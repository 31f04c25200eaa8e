/*
 * The sender: acceptance and credit. Splitting into frags is in dispatch.c, what
 * follows from completions in confirm.c. See tx.h. Pure: libc only.
 */
#include "core/data/tx.h"

#include "core/cover.h"

#include <string.h>

/* Bytes without a CQE, where the cap of a path is larger: a CQE per MiB is cheap */
#define VQP_TX_MAX_UNSIGNALED (1ul << 20)

/* ---- the budget of a path ---- */

/* The packets of the frags from path->fo.wrs_seen on. With failover this is work for each
 * frag: no branch, and nothing is stored in the loop */
static void vqp_path_count_packets(vqp_path_t *path)
{
    const vqp_inflight_t *inflight = path->inflight;
    uint32_t packets               = 0;
    unsigned shift                 = path->mtu_shift;
    uint16_t mask                  = path->mask;
    uint16_t slot;

    for (slot = path->fo.wrs_seen; slot != path->tail; ++slot) {
        packets += vqp_more_packets(inflight[slot & mask].length, shift);
    }
    path->fo.packets += packets;
}

static inline void vqp_path_count(vqp_path_t *path)
{
    if (path->mtu_shift != 0) {
        vqp_path_count_packets(path);
    }

    path->fo.wrs     += (uint16_t)(path->tail - path->fo.wrs_seen);
    path->fo.wrs_seen = path->tail;
}

void vqp_path_count_wrs(vqp_path_t *path)
{
    vqp_path_count(path);
}

void vqp_tx_refill(const vqp_tx_t *tx, vqp_path_t *path)
{
    uint32_t slots      = vqp_path_outstanding(path) + VQP_CONTROL_RESERVE;
    uint32_t unsignaled = (uint16_t)(path->tail - path->signaled);
    uint32_t signal_in  = (unsignaled < tx->cfg.signal_every) ?
                                  tx->cfg.signal_every - unsignaled : 1;
    uint64_t bytes;

    vqp_path_count(path); /* at least once in a round of tail */
    if (!path->up || (slots >= path->depth) ||
        (path->bytes >= tx->limits.path_cap)) {
        vqp_path_stop(path);
        return;
    }

    bytes              = tx->limits.path_cap - path->bytes;
    path->budget.bytes = (uint32_t)vqp_min(bytes,
                                           (uint64_t)tx->limits.max_unsignaled);
    path->budget.frags = vqp_min(signal_in, path->depth - slots);
}

/* ---- the sender ---- */

static void vqp_tx_init_paths(vqp_tx_t *tx)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < tx->paths.count; ++i) {
        path = &tx->paths.list[i];
        if (path->peer_rail != tx->paths.list[0].peer_rail) {
            tx->limits.amo_needs = VQP_NEED_RAIL;
        }
        path->next     = (uint8_t)((i + 1 == tx->paths.count) ? 0 : i + 1);
        path->signaled = path->tail;
        path->fo.wrs_seen = path->tail;
        path->fo.target   = VQP_PATH_NONE;
        vqp_tx_refill(tx, path);
    }
}

void vqp_tx_set_shares(vqp_tx_t *tx)
{
    const vqp_tx_config_t *cfg = &tx->cfg;
    unsigned usable            = 0;
    int is_single;
    uint32_t i;

    for (i = 0; i < tx->paths.count; ++i) {
        usable += tx->paths.list[i].up != 0;
    }

    tx->paths.usable = (uint8_t)vqp_max(usable, 1u);
    is_single        = tx->paths.usable == 1;

    tx->limits.path_cap   = (is_single && (cfg->single_cap != 0)) ?
                                    cfg->single_cap : cfg->path_cap;
    tx->limits.frag_shift = (is_single && (cfg->single_shift != 0)) ?
                                    cfg->single_shift : cfg->frag_shift;

    /* While paths are symmetric and little is in flight, in turn is as good as
     * any choice. Larger ops are measured, which reads the clock. With one path there
     * is nothing to choose */
    tx->limits.fast_cap = tx->limits.path_cap;
    tx->limits.fast_max = UINT64_MAX;
    if ((cfg->sched == VQP_SCHED_LEFT) && !is_single) {
        tx->limits.fast_cap = tx->limits.path_cap / 2;
        tx->limits.fast_max = VQP_RATE_SAMPLE;
    }

    tx->limits.one_frag   = 1u << (is_single ? tx->limits.frag_shift : cfg->min_shift);
    /* A path that is full is refilled a quarter at a time */
    tx->limits.max_unsignaled =
            (uint32_t)vqp_max(1ul, vqp_min(tx->limits.path_cap / 4,
                                           VQP_TX_MAX_UNSIGNALED));
    tx->limits.path_shift = (uint8_t)(31 - __builtin_clz(2u * tx->paths.usable - 1));
}

static void vqp_tx_init_limits(vqp_tx_t *tx)
{
    const vqp_tx_config_t *cfg = &tx->cfg;

    tx->slow = cfg->no_fast ? VQP_TX_NO_FAST : 0;
    /* AMs without a CQE hold mirror space although the peer may have consumed
     * them: an eighth of the ring at most. */
    tx->limits.am_frags          = vqp_tx_am_frags_max(cfg->fsn_window,
                                                       tx->paths.count);
    tx->limits.am_max_unsignaled = cfg->ring_size / 8;
}

void vqp_tx_init(vqp_tx_t *tx, const vqp_tx_config_t *cfg, vqp_op_t *am_ops,
                 uint32_t am_size, vqp_op_t *rma_ops, uint32_t rma_size,
                 vqp_path_t *paths, uint32_t num_paths,
                 vqp_stats_t *stats)
{
    vqp_assert(rma_size >= 2); /* one slot is for the barrier of a close */
    memset(tx, 0, sizeof(*tx));
    vqp_opring_init(&tx->am, am_ops, am_size);
    vqp_opring_init(&tx->rma, rma_ops, rma_size);
    tx->paths.list  = paths;
    tx->paths.count = num_paths;
    tx->fc.fsn_next = tx->fc.fsn_peer = cfg->first_fsn;
    tx->done.head   = tx->done.tail = VQP_OP_NONE;
    tx->announce.head = tx->announce.tail = VQP_OP_NONE;
    tx->cfg         = *cfg;
    tx->stats       = stats;
    if (num_paths == 1) {
        tx->cfg.sched = VQP_SCHED_RR; /* there is nothing to choose from */
    }

    vqp_tx_init_limits(tx);
    vqp_tx_set_shares(tx);
    vqp_tx_init_paths(tx);
    tx->paths.settled = 1;
    vqp_assert(cfg->fsn_window > num_paths + VQP_CONTROL_RESERVE);
    vqp_assert((cfg->fsn_window <= VQP_FSN_WINDOW_MAX) &&
               ((uint64_t)cfg->ring_size * cfg->fsn_window <=
                VQP_RING_WINDOW_MAX));
    vqp_assert(cfg->frag_shift <= cfg->max_shift);
}

vqp_iov_t *vqp_tx_op_iov(vqp_tx_t *tx, vqp_op_t *op, unsigned niov)
{
    size_t slot;

    op->niov = (uint8_t)niov;
    if (niov <= VQP_OP_IOV_INLINE) {
        return op->g.iov;
    }

    vqp_cover(TX_IOV_EXT);
    if (niov > tx->iov_max) {
        return NULL;
    }

    slot = ((op >= tx->am.ops) && (op <= tx->am.ops + tx->am.mask)) ?
                   (size_t)(op - tx->am.ops) + tx->rma.mask + 1 :
                   (size_t)(op - tx->rma.ops);
    op->g.iov_ext = tx->iov_ext + (slot * tx->iov_max);
    return op->g.iov_ext;
}

/* Request a credit update by a credit update, unless it is requested already */
static void vqp_tx_request_credit(vqp_tx_t *tx)
{
    /* Bytes and fsns are advertised apart: the answer of a handler advertises the
     * fsn of its AM before the bytes of that AM are free */
    if (!tx->fc.requested && ((tx->fc.fsn_next != tx->fc.fsn_peer) ||
                              (tx->fc.ring_head != tx->fc.ring_peer))) {
        vqp_cover(TX_STALL_REQUEST);
        tx->fc.want_request = 1;
        tx->slow           |= VQP_TX_CREDIT;
    }
}

/* An AM was refused for lack of @a bytes of the ring or @a fsns. Request a credit
 * update, unless the peer sends one anyway when it has consumed what is in
 * flight. */
static void vqp_tx_stalled(vqp_tx_t *tx, uint32_t bytes, uint32_t fsns)
{
    uint32_t limit = tx->cfg.ring_size - bytes;
    uint32_t out   = tx->fc.ring_head - tx->fc.ring_peer;

    ++tx->stats->credit_stalls;
    if ((tx->fc.ring_head - tx->fc.ring_local) > limit) {
        vqp_cover(TX_STALL_RECLAIM);
        vqp_tx_reclaim(tx);
    }

    if (((out > limit) || (vqp_tx_fsns_out(tx) + fsns > tx->cfg.fsn_window)) &&
        (tx->am.post == tx->am.tail) && (out < (tx->cfg.ring_size / 2)) &&
        (vqp_tx_fsns_out(tx) < tx->cfg.fsn_window / 2)) {
        vqp_tx_request_credit(tx);
    } else {
        vqp_cover(TX_STALL_WAIT);
    }
}

/* Immediates that the fence of an AM takes at most */
static inline uint32_t vqp_tx_fences(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return ((op->flags & VQP_OP_FENCE) && (tx->paths.count > 1)) ?
                   tx->paths.count : 0;
}

uint8_t vqp_tx_frag_shift_shared(const vqp_tx_t *tx, uint64_t length)
{
    int shift = 63 - __builtin_clzl(length) - (int)tx->limits.path_shift;

    return (shift <= tx->cfg.min_shift)  ? tx->cfg.min_shift :
           (shift >= tx->limits.frag_shift) ? tx->limits.frag_shift :
                                           (uint8_t)shift;
}

/* Frags of an op of @a length bytes */
static inline uint32_t vqp_tx_frags(uint64_t length, unsigned shift)
{
    return (uint32_t)((length + (1ul << shift) - 1) >> shift);
}

uint32_t vqp_tx_tail_fsns(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return vqp_min(vqp_tx_frags(op->length, op->frag_shift), tx->paths.count);
}

/* AMs are bounded so that their frags never get larger than devices take */
static inline void vqp_tx_grow_frags(const vqp_tx_t *tx, vqp_op_t *op)
{
    vqp_assert(op->frag_shift < tx->cfg.max_shift);
    ++op->frag_shift;
}

/* Choose the fragment size of a tail AM so that it takes at most @a max fsns, one
 * for each path that its frags may take. Returns how many it takes. */
static inline uint32_t
vqp_tx_tail_set_frag_size(const vqp_tx_t *tx, vqp_op_t *op, uint32_t max)
{
    vqp_cover_if(vqp_tx_tail_fsns(tx, op) > max, TX_FRAG_GROWS_TAIL);
    while (vqp_unlikely(vqp_tx_tail_fsns(tx, op) > max)) {
        vqp_tx_grow_frags(tx, op);
    }

    return vqp_tx_tail_fsns(tx, op);
}

/* Choose the fragment size of an AM so that it has at most @a max frags. Returns
 * how many fsns they take. */
static inline uint32_t
vqp_tx_am_set_frag_size(const vqp_tx_t *tx, vqp_op_t *op, uint32_t max)
{
    uint32_t frags;

    op->frag_shift = vqp_tx_frag_shift(tx, op->length);
    frags          = vqp_tx_frags(op->length, op->frag_shift);
    if (frags > 1) {
        switch (vqp_notify_choose((vqp_notify_t)tx->cfg.notify, frags,
                                  tx->paths.count)) {
        case VQP_NOTIFY_SPRAY:
            op->flags |= VQP_OP_SPRAY | VQP_OP_SIGNAL;
            return 1;
        case VQP_NOTIFY_TAIL:
            op->flags |= VQP_OP_TAIL;
            return vqp_tx_tail_set_frag_size(tx, op, max);
        default:
            break;
        }
    }

    vqp_cover_if(frags > max, TX_FRAG_GROWS);
    while (vqp_unlikely(frags > max)) {
        vqp_tx_grow_frags(tx, op);
        frags = vqp_tx_frags(op->length, op->frag_shift);
    }

    return frags;
}

/* Single-fragment AMs that may be accepted without checking, at present */
static uint32_t vqp_tx_am_credits(const vqp_tx_t *tx)
{
    uint32_t slots = tx->am.mask + 1 - vqp_opring_count(&tx->am);
    uint32_t fsns  = vqp_tx_fsns_out(tx) + tx->fc.fsn_reserved +
                     VQP_CONTROL_RESERVE;

    if (tx->fence.am || tx->cfg.order_all) {
        return 0;
    }

    return vqp_min(slots, tx->cfg.fsn_window - fsns);
}

/* If the AM has to wait for RMA ops: note the fence, and its position fence_at */
static void vqp_tx_set_am_fence(const vqp_tx_t *tx, vqp_op_t *op)
{
    if (tx->cfg.order_all) {
        op->am.fence_at = tx->rma.tail;
    } else if (tx->fence.am) {
        op->am.fence_at = tx->fence.rma_tail;
    } else {
        return;
    }

    if (vqp_opring_is_ahead(&tx->rma, op->am.fence_at)) {
        op->flags |= VQP_OP_FENCE;
    }
}

vqp_tx_am_t vqp_tx_am_begin_slow(vqp_tx_t *tx, uint32_t max)
{
    vqp_tx_am_t am  = {.op = NULL};
    uint32_t size   = vqp_record_size(max);
    uint32_t offset = tx->fc.ring_head & (tx->cfg.ring_size - 1);
    uint32_t oldest = (vqp_seq_diff(tx->fc.ring_peer, tx->fc.ring_local) < 0) ?
                              tx->fc.ring_peer : tx->fc.ring_local;
    vqp_op_t *op    = vqp_opring_at(&tx->am, tx->am.tail);
    uint32_t wrap   = 0;
    uint32_t fsns;

    if (vqp_unlikely(vqp_opring_count(&tx->am) > tx->am.mask)) {
        vqp_tx_reclaim(tx);
        return am;
    }

    if (offset + size > tx->cfg.ring_size) {
        vqp_cover(TX_WRAP);
        wrap   = tx->cfg.ring_size - offset;
        offset = 0;
    }

    op->kind   = VQP_KIND_AM;
    op->flags  = wrap ? VQP_OP_WRAP : 0;
    op->length = sizeof(vqp_record_t) + max;
    am.imms   = vqp_tx_am_set_frag_size(tx, op, tx->limits.am_frags);
    op->flags &= VQP_OP_WRAP; /* see commit */
    vqp_tx_set_am_fence(tx, op);
    fsns       = am.imms + vqp_tx_fences(tx, op) + tx->fc.fsn_reserved +
                 VQP_CONTROL_RESERVE;
    if (vqp_unlikely(((tx->fc.ring_head - oldest) + wrap + size >
                      tx->cfg.ring_size) ||
                     (vqp_tx_fsns_out(tx) + fsns > tx->cfg.fsn_window))) {
        vqp_tx_stalled(tx, wrap + size, fsns);
        return am;
    }

    am.op            = op;
    am.record        = (vqp_record_t*)(tx->cfg.mirror + offset);
    am.begin         = tx->fc.ring_head + wrap;
    tx->fc.am_credits = vqp_tx_am_credits(tx);
    return am;
}

void vqp_tx_set_am_source(const vqp_tx_t *tx, vqp_op_t *op)
{
    uint32_t length  = (uint32_t)(op->length - sizeof(vqp_record_t));
    uint32_t offset  = (op->am.ring_end - vqp_record_size(length)) &
                       (tx->cfg.ring_size - 1);
    vqp_iov_t *iov   = vqp_op_iov(op);
    uint64_t user    = 0;
    unsigned i;

    for (i = 1; i < op->niov; ++i) {
        user += iov[i].length;
    }

    op->raddr   = tx->cfg.ring_raddr + offset;
    iov->addr   = (uintptr_t)tx->cfg.mirror + offset;
    iov->length = op->length - user;
    iov->lkeys  = tx->cfg.local_lkeys;
}

void vqp_tx_am_commit(vqp_tx_t *tx, vqp_tx_am_t am, uint8_t am_id,
                      uint32_t length, uint32_t in_mirror,
                      const vqp_credit_t *credit)
{
    vqp_op_t *op = am.op;
    uint32_t frags;

    vqp_tx_accept_am(tx, &am, am_id, length, credit, 0, 0);
    if (length == in_mirror) {
        op->niov = 1;
        if (op->length <= tx->cfg.inline_max) {
            op->flags |= VQP_OP_INLINE;
        }
    }

    /* A message shorter than the max of begin may have smaller frags, and more of
     * them: am.imms, the number that begin has reserved, limits them */
    frags = vqp_tx_am_set_frag_size(tx, op, am.imms);
    vqp_cover_if(frags < am.imms, TX_FRAGS_FEWER);

    vqp_tx_set_am_source(tx, op);
    tx->fc.fsn_reserved += frags + vqp_tx_fences(tx, op);
    tx->fc.am_credits    = 0;
}

void vqp_tx_rma_commit(vqp_tx_t *tx, vqp_op_t *op)
{
    vqp_tx_accept(tx, op, 0, 0);
    if (vqp_unlikely(tx->slow & VQP_TX_FENCE_RMA)) {
        op->flags        |= VQP_OP_FENCE;
        op->rma.fence_at  = (tx->paths.count == 1) ? tx->am.tail :
                            vqp_opring_is_ahead(&tx->am, tx->fence.am_tail) ?
                                    tx->fence.am_tail : tx->am.head;
        tx->slow         &= ~(uint32_t)VQP_TX_FENCE_RMA;
        if (tx->paths.count > 1) {
            vqp_tx_reclaim(tx); /* it waits for what precedes it */
        }
    }

    ++tx->rma.tail;
}

static void vqp_tx_signal_undispatched(vqp_opring_t *ring)
{
    uint32_t i;

    for (i = ring->post; i != ring->tail; ++i) {
        vqp_opring_at(ring, i)->flags |= VQP_OP_SIGNAL;
    }
}

void vqp_tx_reclaim(vqp_tx_t *tx)
{
    vqp_tx_signal_undispatched(&tx->am);
    vqp_tx_signal_undispatched(&tx->rma);
    tx->slow |= VQP_TX_NOP;
}

int vqp_tx_credit(vqp_tx_t *tx, uint32_t ring, uint32_t fsn)
{
    int32_t fsns  = vqp_fsn_diff(fsn, tx->fc.fsn_peer);
    int32_t bytes = vqp_seq_diff(ring, tx->fc.ring_peer);

    if (vqp_unlikely((fsn & ~VQP_FSN_MASK) ||
                     (fsns > vqp_fsn_diff(tx->fc.fsn_next, tx->fc.fsn_peer)) ||
                     (bytes > vqp_seq_diff(tx->fc.ring_head, tx->fc.ring_peer)))) {
        return VQP_ERR_PROTOCOL;
    }

    vqp_cover_if((fsns > 0) && (bytes <= 0), TX_CREDIT_FSNS);
    vqp_cover_if((fsns <= 0) && (bytes > 0), TX_CREDIT_BYTES);
    if ((fsns <= 0) && (bytes <= 0)) {
        vqp_cover(TX_CREDIT_OLD);
        return 0;
    }

    if (fsns > 0) {
        tx->fc.fsn_peer = fsn;
    }
    if (bytes > 0) {
        tx->fc.ring_peer = ring;
    }

    tx->fc.requested = tx->fc.want_request = 0;
    return 1;
}

unsigned vqp_tx_outstanding(const vqp_tx_t *tx)
{
    unsigned count = 0;
    uint32_t i;

    for (i = 0; i < tx->paths.count; ++i) {
        count += vqp_path_outstanding(&tx->paths.list[i]);
    }

    return count;
}
