/*
 * The full account of a sender and its receiver: every credit that is spent is
 * found again somewhere. Recounts from the structures themselves, and compares
 * with what the core keeps.
 */
#include "node.h"
#include "vqp.h"
#include "world.h"

#include <algorithm>

namespace sim {

void vqp::broke(const char *what, uint64_t is, uint64_t should)
{
    owner.w.fail("credit", name() + ": " + what + " is " + std::to_string(is) +
                           ", should be " + std::to_string(should));
}

/* Bytes, READs and frags in flight, path by path */
void vqp::audit_paths()
{
    for (unsigned i = 0; i < tx.num_paths; ++i) {
        vqp_path_t &path = paths[i];
        uint64_t bytes   = 0;
        unsigned reads = 0, rma = 0;

        if (vqp_path_outstanding(&path) > path.depth) {
            broke("send queue", vqp_path_outstanding(&path), path.depth);
        }
        for (uint16_t pos = path.head; pos != path.tail; ++pos) {
            const vqp_inflight_t *entry = vqp_path_at(&path, pos);
            bool is_read = (entry->kind == VQP_KIND_GET) ||
                           (entry->kind == VQP_KIND_FADD) ||
                           (entry->kind == VQP_KIND_CSWAP);

            bytes += entry->length;
            reads += is_read;
            rma   += is_read || (entry->kind == VQP_KIND_PUT);
        }
        if (path.bytes != bytes) {
            broke("bytes in flight", path.bytes, bytes);
        }
        if (path.reads != reads) {
            broke("READs in flight", path.reads, reads);
        }
        if (path.rma != rma) {
            broke("frags of puts and gets in flight", path.rma, rma);
        }
        if (path.unsignaled > tx.cfg.signal_every) {
            broke("frags without a CQE", path.unsignaled,
                  tx.cfg.signal_every);
        }
        if (m_covers[i].size() != vqp_path_outstanding(&path)) {
            broke("frags outstanding", vqp_path_outstanding(&path),
                  m_covers[i].size());
        }
    }
}

/* Each op knows how many frags it has in flight */
void vqp::audit_ops()
{
    std::vector<unsigned> am(tx.am.mask + 1), rma(tx.rma.mask + 1);
    unsigned loose = 0;

    for (unsigned i = 0; i < tx.num_paths; ++i) {
        for (uint16_t pos = paths[i].head; pos != paths[i].tail; ++pos) {
            const vqp_inflight_t *entry = vqp_path_at(&paths[i], pos);
            uint16_t name               = entry->op;

            if (name == VQP_OP_NONE) {
                loose += entry->kind != VQP_KIND_KICK;
                continue;
            }
            ++((name & VQP_OP_AM) ? am[name & ~VQP_OP_AM] : rma[name]);
        }
    }

    if (tx.loose != loose) {
        broke("fences and control in flight", tx.loose, loose);
    }

    for (vqp_opring_t *ring : {&tx.am, &tx.rma}) {
        std::vector<unsigned> &count = (ring == &tx.am) ? am : rma;

        if ((ring->tail - ring->head > ring->mask + 1) ||
            (ring->post - ring->head > ring->tail - ring->head)) {
            broke("a cursor of an op ring", ring->post, ring->head);
        }
        for (uint32_t pos = ring->head; pos != ring->tail; ++pos) {
            const vqp_op_t *op = vqp_opring_at(ring, pos);
            unsigned found     = count[pos & ring->mask];

            if ((ring == &tx.am) && tx.tail_held && (pos == tx.am.post)) {
                ++found; /* for the immediates that it owes */
            }

            if ((op->kind != VQP_KIND_FREE) && (op->pending != found)) {
                broke("frags of an op in flight", op->pending, found);
            }
            if ((op->kind == VQP_KIND_FREE) && (found != 0)) {
                broke("frags in flight of an op that is over", found, 0);
            }
        }
    }
}

/* Fsns: given, reserved, and the receives that they cost */
void vqp::audit_fsns()
{
    uint32_t reserved = 0, sprayed = 0, unnamed = 0;
    std::vector<unsigned> imms(tx.num_paths);

    for (uint32_t pos = tx.am.head; pos != tx.am.tail; ++pos) {
        const vqp_op_t *op = vqp_opring_at(&tx.am, pos);
        unsigned bare      = op->flags & VQP_OP_TAIL;
        bool is_undone     = vqp_seq_diff(pos, tx.am.post) >= 0;
        uint64_t size      = 1ull << op->frag_shift;

        if ((op->kind != VQP_KIND_FREE) && (bare == VQP_OP_BARE) &&
            (op->offset > 0)) {
            ++sprayed;
        }
        if (!is_undone) {
            continue;
        }
        if (bare == VQP_OP_TAIL) {
            reserved += (tx.tail_held && (pos == tx.am.post)) ?
                                (uint32_t)__builtin_popcountl(tx.tail_paths) :
                                (uint32_t)std::min<uint64_t>(
                                        (op->length + size - 1) / size,
                                        tx.num_paths);
        } else {
            reserved += bare ? (op->offset == 0) :
                               (op->length - op->offset + size - 1) / size;
        }
        if ((op->flags & VQP_OP_FENCE) && (tx.num_paths > 1)) {
            reserved += (tx.fence_started && (pos == tx.am.post)) ?
                                (uint32_t)__builtin_popcountl(tx.fence_paths) :
                                tx.num_paths;
        }
    }

    for (uint32_t fsn = tx.fsn_peer; fsn != tx.fsn_next;
         fsn = vqp_fsn_add(fsn, 1)) {
        uint8_t path = m_fsn_path[fsn & (tx.cfg.fsn_window - 1)];

        if (path == VQP_TX_NO_PATH) {
            ++unnamed;
        } else {
            ++imms[path];
        }
    }

    for (unsigned i = 0; i < tx.num_paths; ++i) {
        if (paths[i].imms != imms[i]) {
            broke("receives of the peer that are spent", paths[i].imms,
                  imms[i]);
        }
    }
    if (unnamed != sprayed) {
        broke("fsns that no path carried yet", unnamed, sprayed);
    }
    if (tx.fsn_reserved != reserved) {
        broke("fsns reserved", tx.fsn_reserved, reserved);
    }
    if (vqp_tx_fsns_out(&tx) + tx.fsn_reserved > tx.fsn_limit) {
        broke("fsns", vqp_tx_fsns_out(&tx) + tx.fsn_reserved, tx.fsn_limit);
    }
}

void vqp::audit_ring()
{
    uint32_t size = tx.cfg.ring_size;

    if ((tx.ring_head - tx.ring_peer > size) ||
        (tx.ring_head - tx.ring_local > size)) {
        broke("ring bytes out", tx.ring_head - tx.ring_peer, size);
    }
    if (vqp_opring_is_empty(&tx.am) && (tx.ring_head != tx.ring_local)) {
        broke("mirror bytes without an op", tx.ring_local, tx.ring_head);
    }
}

void vqp::audit_window()
{
    uint32_t present = (uint32_t)std::count_if(
            m_map.begin(), m_map.end(), [](uint8_t slot) { return slot != 0; });

    if (rx.window.ahead != present) {
        broke("immediates ahead", rx.window.ahead, present);
    }
}

/* What the peer has told is not more than what is true there */
void vqp::audit_peer()
{
    const vqp *peer = owner.w.partner(*this);

    if ((peer == nullptr) || !peer->connected || peer->failed) {
        return;
    }

    const vqp_rx_t &far = peer->rx;
    if ((vqp_fsn_diff(far.window.base, tx.fsn_peer) < 0) ||
        (vqp_fsn_diff(tx.fsn_next, far.window.base) < 0)) {
        broke("next fsn of the peer", far.window.base, tx.fsn_peer);
    }
    if ((vqp_seq_diff(far.ring_pos, tx.ring_peer) < 0) ||
        (vqp_seq_diff(tx.ring_head, far.ring_pos) < 0)) {
        broke("ring position of the peer", far.ring_pos, tx.ring_peer);
    }
}

void vqp::audit()
{
    if (!connected || tx.failed || sent->tainted) {
        return;
    }

    audit_paths();
    audit_ops();
    audit_fsns();
    audit_ring();
    audit_window();
    audit_peer();
}

} /* namespace sim */
