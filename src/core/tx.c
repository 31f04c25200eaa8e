/*
 * The sender: acceptance and credit. Cutting into frags is in dispatch.c, what
 * follows from completions in confirm.c. See tx.h. Pure: libc only.
 */
#include "core/emit.h"
#include "core/mark.h"

#include <string.h>

/* Where paths have no cap that is worth the name: a CQE per MiB costs nothing */
#define VQP_TX_PACE_MAX (1ul << 20)

void vqp_tx_init(vqp_tx_t *tx, const vqp_tx_config_t *cfg, vqp_op_t *am_ops,
                 uint32_t am_size, vqp_op_t *rma_ops, uint32_t rma_size,
                 vqp_path_t *paths, uint32_t num_paths, uint8_t *fsn_path,
                 vqp_stats_t *stats)
{
    uint32_t receives = 0;
    uint32_t i;

    memset(tx, 0, sizeof(*tx));
    vqp_opring_init(&tx->am, am_ops, am_size);
    vqp_opring_init(&tx->rma, rma_ops, rma_size);
    tx->paths     = paths;
    tx->num_paths = num_paths;
    tx->fsn_next  = tx->fsn_peer = cfg->first_fsn;
    tx->done_head = tx->done_tail = tx->notify_head = tx->notify_tail =
            VQP_OP_NONE;
    tx->fsn_path  = fsn_path;
    tx->cfg       = *cfg;
    tx->stats     = stats;
    if (num_paths == 1) {
        tx->cfg.sched = VQP_SCHED_RR; /* there is nothing to choose from */
    }

    /* While paths are even and little is in flight, in turn is as good as any.
     * What is larger is measured, and that takes a look at the clock */
    tx->plain    = !cfg->no_fast && ((tx->cfg.sched == VQP_SCHED_RR) ||
                                     (tx->cfg.sched == VQP_SCHED_LEFT));
    tx->fast_cap = cfg->path_cap;
    tx->fast_max = UINT64_MAX;
    if (tx->cfg.sched == VQP_SCHED_LEFT) {
        tx->fast_cap = cfg->path_cap / 2;
        tx->fast_max = VQP_PACE_SAMPLE;
    }
    tx->turn_cap = ((tx->cfg.sched == VQP_SCHED_RR) ||
                    (tx->cfg.sched == VQP_SCHED_LEFT)) ? tx->fast_cap : 0;

    tx->one_frag  = 1u << ((num_paths == 1) ? cfg->frag_shift :
                                              cfg->min_shift);

    while ((1u << tx->path_shift) < num_paths) {
        ++tx->path_shift;
    }

    /* All paths' AM bytes without a CQE stay below an eighth of the ring: they
     * hold mirror space although the peer may have consumed them. A path that is
     * full of other bytes is refilled a quarter at a time. */
    tx->am_pace  = cfg->ring_size >> (3 + tx->path_shift);
    tx->rma_pace = (uint32_t)vqp_min(cfg->path_cap / 4, VQP_TX_PACE_MAX);

    /* No more numbers than the peer has receives: then each of them finds a
     * path, in whatever order they go out (a notify goes after later AMs) */
    for (i = 0; i < num_paths; ++i) {
        if (paths[i].peer_rail != paths[0].peer_rail) {
            tx->amo_needs = VQP_NEED_RAIL;
        }
        paths[i].next = (uint8_t)((i + 1 == num_paths) ? 0 : i + 1);
        vqp_assert(paths[i].imms_max >= (cfg->fsn_window / 2) +
                                        (2 * VQP_CONTROL_RESERVE));
        receives += paths[i].imms_max - VQP_CONTROL_RESERVE;
    }

    tx->fsn_limit = vqp_min(cfg->fsn_window, receives);
    vqp_assert(cfg->fsn_window > num_paths + VQP_CONTROL_RESERVE);

    /* With the fence that may precede it an AM takes half of them, or a single
     * frag at least */
    tx->am_frags_max = (tx->fsn_limit / 2 > num_paths) ?
                               (tx->fsn_limit / 2) - num_paths : 1;
    memset(fsn_path, VQP_TX_NO_PATH, cfg->fsn_window);
}

vqp_iov_t *vqp_tx_op_iov(vqp_tx_t *tx, vqp_op_t *op, unsigned niov)
{
    size_t slot;

    op->niov = (uint8_t)niov;
    if (niov <= VQP_OP_IOV_INLINE) {
        return op->g.iov;
    }

    vqp_mark(TX_IOV_EXT);
    if (niov > tx->iov_max) {
        return NULL;
    }

    slot = ((op >= tx->am.ops) && (op <= tx->am.ops + tx->am.mask)) ?
                   (size_t)(op - tx->am.ops) + tx->rma.mask + 1 :
                   (size_t)(op - tx->rma.ops);
    op->g.iov_ext = tx->iov_ext + (slot * tx->iov_max);
    return op->g.iov_ext;
}

/* Have a control message ask for credit that the peer will not tell by itself,
 * unless one did */
static void vqp_tx_ask_credit(vqp_tx_t *tx)
{
    /* Bytes and numbers are told apart: a handler's answer tells its AM's number
     * before the AM's bytes are free */
    if (!tx->starving && ((tx->fsn_next != tx->fsn_peer) ||
                          (tx->ring_head != tx->ring_peer))) {
        vqp_mark(TX_STALL_ASK);
        tx->want_starve = 1;
        tx->slow       |= VQP_TX_CONTROL;
    }
}

/* An AM was refused for want of @a bytes of the ring or @a fsns. If the peer
 * will tell credit by itself when it has consumed what is on the way, wait; else
 * ask. */
static void vqp_tx_stalled(vqp_tx_t *tx, uint32_t bytes, uint32_t fsns)
{
    uint32_t limit = tx->cfg.ring_size - bytes;

    ++tx->stats->credit_stalls;
    if ((tx->ring_head - tx->ring_local) > limit) {
        vqp_mark(TX_STALL_KICK);
        vqp_tx_kick(tx);
    }

    if ((((tx->ring_head - tx->ring_peer) > limit) ||
         (vqp_tx_fsns_out(tx) + fsns > tx->fsn_limit)) &&
        (tx->am.post == tx->am.tail) &&
        ((tx->ring_head - tx->ring_peer) < (tx->cfg.ring_size / 2)) &&
        (vqp_tx_fsns_out(tx) < tx->cfg.fsn_window / 2)) {
        vqp_tx_ask_credit(tx);
    } else {
        vqp_mark(TX_STALL_WAIT);
    }
}

/* Immediates that the fence of an AM takes at most */
static inline uint32_t vqp_tx_fences(const vqp_tx_t *tx, const vqp_op_t *op)
{
    return ((op->flags & VQP_OP_FENCE) && (tx->num_paths > 1)) ?
                   tx->num_paths : 0;
}

uint8_t vqp_tx_share(const vqp_tx_t *tx, uint64_t length)
{
    int shift = 63 - __builtin_clzl(length) - (int)tx->path_shift;

    return (shift <= tx->cfg.min_shift)  ? tx->cfg.min_shift :
           (shift >= tx->cfg.frag_shift) ? tx->cfg.frag_shift :
                                           (uint8_t)shift;
}

/* Frag size for a tail AM: no more fsns than paths that its frags can go to */
static inline uint32_t
vqp_tx_tail_cut(const vqp_tx_t *tx, vqp_op_t *op, uint32_t max)
{
    vqp_mark_if(vqp_tx_tail_fsns(tx, op) > max, TX_CUT_TAIL_GROWS);
    while (vqp_unlikely(vqp_tx_tail_fsns(tx, op) > max)) {
        ++op->frag_shift;
    }

    return vqp_tx_tail_fsns(tx, op);
}

/* Cut an AM: into at most @a max frags, which get larger if need be. Returns
 * how many fsns they take. */
static inline uint32_t
vqp_tx_am_cut(const vqp_tx_t *tx, vqp_op_t *op, uint32_t max)
{
    uint32_t frags;

    op->frag_shift = vqp_tx_frag_shift(tx, op->length);
    frags          = vqp_tx_frags(op->length, op->frag_shift);
    if (frags > 1) {
        switch (vqp_notify_choose((vqp_notify_t)tx->cfg.notify, frags,
                                  tx->num_paths)) {
        case VQP_NOTIFY_SPRAY:
            op->flags |= VQP_OP_BARE | VQP_OP_SIGNAL;
            return 1;
        case VQP_NOTIFY_TAIL:
            op->flags |= VQP_OP_TAIL;
            return vqp_tx_tail_cut(tx, op, max);
        default:
            break;
        }
    }

    vqp_mark_if(frags > max, TX_CUT_GROWS);
    while (vqp_unlikely(frags > max)) {
        frags = vqp_tx_frags(op->length, ++op->frag_shift);
    }

    return frags;
}

/* How many AMs of one frag need no further look, as things are: see free_ams */
static uint32_t vqp_tx_free_ams(const vqp_tx_t *tx)
{
    uint32_t places = tx->am.mask + 1 - (tx->am.tail - tx->am.head);
    uint32_t fsns   = vqp_tx_fsns_out(tx) + tx->fsn_reserved +
                      VQP_CONTROL_RESERVE;

    if (tx->fence_am || tx->cfg.order_all) {
        return 0;
    }

    return vqp_min(places, tx->fsn_limit - fsns);
}

vqp_op_t *vqp_tx_am_look(vqp_tx_t *tx, uint32_t max, vqp_record_t **record_p)
{
    uint32_t size   = vqp_record_size(max);
    uint32_t offset = tx->ring_head & (tx->cfg.ring_size - 1);
    uint32_t oldest = (vqp_seq_diff(tx->ring_peer, tx->ring_local) < 0) ?
                              tx->ring_peer : tx->ring_local;
    vqp_op_t *op    = vqp_opring_at(&tx->am, tx->am.tail);
    uint32_t wrap   = 0;
    uint32_t frags, fsns;

    if (vqp_unlikely(vqp_opring_is_full(&tx->am))) {
        vqp_tx_kick(tx);
        return NULL;
    }

    if (offset + size > tx->cfg.ring_size) {
        vqp_mark(TX_WRAP);
        wrap   = tx->cfg.ring_size - offset;
        offset = 0;
    }

    op->kind   = VQP_KIND_AM;
    op->flags  = wrap ? VQP_OP_WRAP : 0;
    op->length = sizeof(vqp_record_t) + max;
    frags      = vqp_tx_am_cut(tx, op, tx->am_frags_max);
    op->flags &= (uint8_t)~(VQP_OP_TAIL | VQP_OP_SIGNAL); /* see commit */
    if (vqp_unlikely((tx->fence_am || tx->cfg.order_all) &&
                     !vqp_opring_is_empty(&tx->rma))) {
        op->flags |= VQP_OP_FENCE;
    }

    fsns = frags + vqp_tx_fences(tx, op) + tx->fsn_reserved +
           VQP_CONTROL_RESERVE;
    if (vqp_unlikely(
                ((tx->ring_head - oldest) + wrap + size > tx->cfg.ring_size) ||
                (vqp_tx_fsns_out(tx) + fsns > tx->fsn_limit))) {
        vqp_tx_stalled(tx, wrap + size, fsns);
        return NULL;
    }

    op->raddr    = tx->cfg.ring_raddr + offset;
    op->ring_end = tx->ring_head + wrap; /* of the record's begin, for now */
    op->pending  = (uint16_t)frags;      /* what commit may reserve */
    *record_p    = (vqp_record_t*)(tx->cfg.mirror + offset);
    tx->free_ams = vqp_tx_free_ams(tx);
    return op;
}

void vqp_tx_am_commit(vqp_tx_t *tx, vqp_op_t *op, uint8_t am_id,
                      uint32_t length, uint32_t in_mirror,
                      const vqp_credit_t *credit)
{
    vqp_record_t *record = (vqp_record_t*)(tx->cfg.mirror +
                                           (op->raddr - tx->cfg.ring_raddr));
    uint32_t frags;
    vqp_iov_t *iov;

    vqp_record_fill(record, am_id, length, credit);
    op->seq     = tx->seq++;
    op->offset  = 0;
    op->status  = VQP_OK;
    op->length  = sizeof(*record) + length;
    op->rkeys   = tx->cfg.ring_rkeys;
    if (length == in_mirror) {
        op->niov = 1;
        if (op->length <= tx->cfg.inline_max) {
            op->flags |= VQP_OP_INLINE;
        }
    }

    iov           = vqp_op_iov(op);
    iov->addr     = (uintptr_t)record;
    iov->length   = sizeof(*record) + in_mirror;
    iov->lkeys    = tx->cfg.local_lkeys;
    op->iov_idx   = 0;
    op->g.iov_off = 0;

    /* A message shorter than begin was told may be cut smaller, into more */
    frags = vqp_tx_am_cut(tx, op, op->pending);
    vqp_mark_if(frags < op->pending, TX_CUT_SHORTER);
    op->pending = 0;

    tx->ring_head     = op->ring_end + vqp_record_size(length);
    op->ring_end      = tx->ring_head;
    tx->fsn_reserved += frags + vqp_tx_fences(tx, op);
    tx->fence_am      = 0;
    tx->free_ams      = 0;
    ++tx->am.tail;
    ++tx->stats->ops;
}

static void vqp_tx_kick_ring(vqp_opring_t *ring)
{
    uint32_t i;

    for (i = ring->post; i != ring->tail; ++i) {
        vqp_opring_at(ring, i)->flags |= VQP_OP_SIGNAL;
    }
}

void vqp_tx_kick(vqp_tx_t *tx)
{
    vqp_tx_kick_ring(&tx->am);
    vqp_tx_kick_ring(&tx->rma);
    tx->slow |= VQP_TX_KICK;
}

int vqp_tx_credit(vqp_tx_t *tx, uint32_t ring, uint32_t fsn)
{
    int32_t fsns  = vqp_fsn_diff(fsn, tx->fsn_peer);
    int32_t bytes = vqp_seq_diff(ring, tx->ring_peer);
    uint32_t mask = tx->cfg.fsn_window - 1;
    uint32_t next = tx->fsn_peer;
    uint8_t *path;

    if (vqp_unlikely((fsn & ~VQP_FSN_MASK) ||
                     (fsns > vqp_fsn_diff(tx->fsn_next, tx->fsn_peer)) ||
                     (bytes > vqp_seq_diff(tx->ring_head, tx->ring_peer)))) {
        return VQP_ERR_PROTOCOL;
    }

    vqp_mark_if((fsns > 0) && (bytes <= 0), TX_CREDIT_FSNS);
    vqp_mark_if((fsns <= 0) && (bytes > 0), TX_CREDIT_BYTES);
    if ((fsns <= 0) && (bytes <= 0)) {
        vqp_mark(TX_CREDIT_OLD);
        return 0;
    }

    for (; fsns > 0; --fsns) {
        path = &tx->fsn_path[next++ & mask];
        if (vqp_unlikely(*path == VQP_TX_NO_PATH)) {
            return VQP_ERR_PROTOCOL; /* of a sprayed AM, not notified yet */
        }
        --tx->paths[*path].imms;
        *path = VQP_TX_NO_PATH;
    }

    tx->fsn_peer = next & VQP_FSN_MASK;
    if (bytes > 0) {
        tx->ring_peer = ring;
    }

    tx->starving = tx->want_starve = 0;
    return 1;
}
