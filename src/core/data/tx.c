/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: its limits, paths and credit. AMs are accepted in am.c, split into frags in
 * dispatch.c; what follows from completions is in confirm.c. See tx.h. Pure: libc only.
 */
#include "core/data/tx.h"

#include "core/cover.h"

#include <string.h>

/* Bytes without a CQE, where the cap of a path is larger: a CQE per MiB is cheap */
#define VQP_TX_MAX_UNSIGNALED (1ul << 20)
/* Bytes that the path in turn may have in flight more than the next one; any number */
#define VQP_TX_AHEAD          4096
#define VQP_TX_AHEAD_ANY      (1ul << 40)

/* ---- the budget of a path ---- */

/* The packets of frags, less one for each */
static uint32_t vqp_frags_packets(const vqp_inflight_t *entry, uint32_t count,
                                  unsigned shift)
{
    const vqp_inflight_t *end = entry + count;
    uint32_t packets          = 0;

#pragma GCC unroll 4 /* each frag of some operations pays for it */
    for (; entry != end; ++entry) {
        packets += vqp_more_packets(entry->length, shift);
    }
    return packets;
}

/* Those of @a count frags from path->fo.wrs_seen on */
static uint32_t vqp_path_packets(const vqp_path_t *path, uint32_t count)
{
    uint32_t slot = path->fo.wrs_seen & path->mask;
    uint32_t fit  = vqp_min(count, path->mask + 1u - slot);

    return vqp_frags_packets(path->inflight + slot, fit, path->mtu_shift) +
           vqp_frags_packets(path->inflight, count - fit, path->mtu_shift);
}

void vqp_path_count_wrs(vqp_path_t *path)
{
    uint32_t count = (uint16_t)(path->tail - path->fo.wrs_seen);
    uint64_t bytes = path->stats.bytes - path->fo.bytes_seen;

    vqp_assert(count <= path->mask + 1u);
    /* If all data since the last time fits a packet, each frag has one. Those without data
     * of an op have one at most */
    if ((path->mtu_shift != 0) && (bytes > (1u << path->mtu_shift))) {
        path->fo.packets += vqp_path_packets(path, count);
    }

    path->fo.wrs       += count;
    path->fo.wrs_seen   = path->tail;
    path->fo.bytes_seen = path->stats.bytes;
}

void vqp_tx_refill(const vqp_tx_t *tx, vqp_path_t *path)
{
    uint32_t slots      = vqp_path_outstanding(path) + VQP_CONTROL_RESERVE;
    uint32_t unsignaled = (uint16_t)(path->tail - path->signaled);
    uint32_t signal_in  = (unsignaled < tx->cfg.signal_every) ?
                                  tx->cfg.signal_every - unsignaled : 1;
    uint32_t half       = (path->mask + 1u) / 2;
    uint64_t bytes;

    /* Before a slot is taken again: at most half of them are filled until the next time */
    if (vqp_unlikely((uint16_t)(path->tail - path->fo.wrs_seen) >= half)) {
        vqp_path_count_wrs(path);
    }

    if (!path->up || (slots >= path->depth) ||
        (path->bytes >= tx->limits.path_cap)) {
        vqp_path_stop(path);
        return;
    }

    bytes              = tx->limits.path_cap - path->bytes;
    path->budget.bytes = (uint32_t)vqp_min(bytes,
                                           (uint64_t)tx->limits.max_unsignaled);
    path->budget.frags = vqp_min(vqp_min(signal_in, half), path->depth - slots);
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

/* Larger frags with more in flight: else the slots of the paths would be the limit. A path
 * has eight of them, so that it shows whether it is busy all the time, see pathcap.h */
static uint8_t vqp_tx_grown_frag(const vqp_tx_t *tx)
{
    unsigned grown = tx->cfg.frag_shift + tx->cap.shift;
    unsigned fits  = 63 - __builtin_clzl(vqp_max(tx->limits.path_cap / 8, 1ul));

    return (uint8_t)vqp_max((unsigned)tx->cfg.frag_shift,
                            vqp_min(vqp_min(grown, fits), (unsigned)tx->cfg.max_shift));
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

    tx->limits.path_cap   = ((is_single && (cfg->single_cap != 0)) ?
                                     cfg->single_cap : cfg->path_cap) << tx->cap.shift;
    tx->limits.frag_shift = (is_single && (cfg->single_shift != 0)) ?
                                    cfg->single_shift : vqp_tx_grown_frag(tx);

    /* While paths are symmetric and little is in flight, in turn is as good as
     * any choice. Larger ops are measured, which reads the clock. With one path there
     * is nothing to choose */
    tx->limits.fast_cap = tx->limits.path_cap;
    tx->limits.fast_max = UINT64_MAX;
    tx->limits.ahead    = VQP_TX_AHEAD_ANY;
    if ((cfg->sched == VQP_SCHED_LEFT) && !is_single) {
        tx->limits.fast_cap = tx->limits.path_cap / 2;
        tx->limits.fast_max = VQP_RATE_SAMPLE;
        tx->limits.ahead    = VQP_TX_AHEAD;
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
    tx->limits.am_frags = vqp_tx_am_frags_max(cfg->fsn_window, tx->paths.count);
    vqp_tx_set_ring_limits(tx);
}

void vqp_tx_set_ring_limits(vqp_tx_t *tx)
{
    /* AMs without a CQE hold mirror space although the peer may have consumed
     * them: an eighth of the ring at most. */
    tx->limits.am_max_unsignaled = tx->ring.size / 8;
    tx->limits.pack              = vqp_min(tx->ring.size / (tx->cfg.fsn_window / 2),
                                           VQP_PACK_MAX);
}

void vqp_tx_init(vqp_tx_t *tx, const vqp_tx_config_t *cfg, vqp_op_t *am_ops,
                 uint32_t am_size, vqp_op_t *rma_ops, uint32_t rma_size,
                 vqp_path_t *paths, uint32_t num_paths,
                 vqp_stats_t *stats)
{
    vqp_assert(rma_size >= 2); /* one slot is for the barrier of a close */
    memset(tx, 0, sizeof(*tx));
    vqp_opring_init(&tx->am, am_ops, am_size, vqp_max(am_size, cfg->most_ops), 0);
    vqp_opring_init(&tx->rma, rma_ops, rma_size, vqp_max(rma_size, cfg->most_ops), 1);
    tx->paths.list  = paths;
    tx->paths.count = num_paths;
    tx->fc.fsn_next = tx->fc.fsn_peer = cfg->first_fsn;
    tx->done.head   = tx->done.tail = VQP_OP_NONE;
    tx->announce.head = tx->announce.tail = VQP_OP_NONE;
    tx->cfg         = *cfg;
    tx->ring.mirror = cfg->mirror;
    tx->ring.lkeys  = cfg->local_lkeys;
    tx->ring.raddr  = cfg->ring_raddr;
    tx->ring.rkeys  = cfg->ring_rkeys;
    tx->ring.size   = cfg->ring_size;
    tx->shortage.limit = VQP_TX_SHORTAGES;
    tx->stats       = stats;
    if (num_paths == 1) {
        tx->cfg.sched = VQP_SCHED_RR; /* there is nothing to choose from */
    }
    if (cfg->order_all) {
        tx->cfg.pack = 0; /* each AM has a fence of its own */
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

void vqp_tx_give_ops(vqp_tx_t *tx, vqp_opring_t *ring, vqp_op_t *ops)
{
    vqp_opring_give(ring, ops);
    tx->fc.am_credits = 0; /* the ring may take none now */
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
                   (size_t)(op - tx->am.ops) + tx->rma.most :
                   (size_t)(op - tx->rma.ops);
    op->g.iov_ext = tx->iov_ext + (slot * tx->iov_max);
    return op->g.iov_ext;
}

uint8_t vqp_tx_frag_shift_shared(const vqp_tx_t *tx, uint64_t length)
{
    int shift = 63 - __builtin_clzl(length) - (int)tx->limits.path_shift;

    return (shift <= tx->cfg.min_shift)  ? tx->cfg.min_shift :
           (shift >= tx->limits.frag_shift) ? tx->limits.frag_shift :
                                           (uint8_t)shift;
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
