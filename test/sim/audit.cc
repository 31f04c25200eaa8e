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

/* The slots that are in flight, or wait for a replay */
std::vector<uint16_t> vqp::in_flight(vqp_path_t &path)
{
    std::vector<uint16_t> slots;

    for (uint16_t pos = path.fo.replay; pos != path.fo.replay_end; ++pos) {
        if (vqp_path_at(&path, pos)->kind != VQP_KIND_DONE) {
            slots.push_back(pos);
        }
    }
    for (uint16_t pos = path.head; pos != path.tail; ++pos) {
        slots.push_back(pos);
    }
    return slots;
}

/* From the oldest frag that waits, or is in flight, to the newest one */
static unsigned places_of(const vqp_path_t &path)
{
    return (uint16_t)(path.tail - (vqp_path_has_replay(&path) ? path.fo.replay : path.head));
}

/* Bytes, READs and frags in flight, path by path */
void vqp::audit_paths()
{
    for (unsigned i = 0; i < core.tx.paths.count; ++i) {
        vqp_path_t &path = paths[i];
        uint64_t bytes   = 0;
        unsigned reads = 0, rma = 0;

        if (places_of(path) > path.mask + 1u) {
            broke("table of frags in flight", places_of(path), path.mask + 1u);
        }
        if (path.fo.state != VQP_PATH_UP) {
            continue; /* what it has is on its way to another one */
        }
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
        if ((uint16_t)(path.tail - path.signaled) >
            core.tx.cfg.signal_every) {
            broke("frags without a CQE",
                  (uint16_t)(path.tail - path.signaled),
                  core.tx.cfg.signal_every);
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
    std::vector<unsigned> am(core.tx.am.mask + 1), rma(core.tx.rma.mask + 1);
    unsigned updates = 0;

    for (unsigned i = 0; i < core.tx.paths.count; ++i) {
        for (uint16_t pos : in_flight(paths[i])) {
            const vqp_inflight_t *entry = vqp_path_at(&paths[i], pos);
            uint16_t name               = entry->op;

            updates += entry->kind == VQP_KIND_CREDIT;
            if (name == VQP_OP_NONE) {
                continue;
            }
            ++((name & VQP_OP_AM) ? am[name & ~VQP_OP_AM] : rma[name]);
        }
    }

    if (core.tx.credit_updates != updates) {
        broke("credit updates in flight", core.tx.credit_updates, updates);
    }

    for (vqp_opring_t *ring : {&core.tx.am, &core.tx.rma}) {
        std::vector<unsigned> &count = (ring == &core.tx.am) ? am : rma;

        if ((ring->tail - ring->head > ring->mask + 1) ||
            (ring->post - ring->head > ring->tail - ring->head)) {
            broke("a cursor of an op ring", ring->post, ring->head);
        }
        for (uint32_t pos = ring->head; pos != ring->tail; ++pos) {
            const vqp_op_t *op = vqp_opring_at(ring, pos);
            unsigned found     = count[pos & ring->mask];

            if ((op->kind != VQP_KIND_FREE) && (op->pending != found)) {
                broke("frags of an op in flight", op->pending, found);
            }
            if ((op->kind == VQP_KIND_FREE) && (found != 0)) {
                broke("frags in flight of an op that is over", found, 0);
            }
            count[pos & ring->mask] = 0;
        }
        for (unsigned found : count) {
            if (found != 0) {
                broke("frags in flight of an op that was reported", found, 0);
            }
        }
    }
}

/* Fsns: given and reserved */
void vqp::audit_fsns()
{
    uint32_t reserved = 0;

    for (uint32_t pos = core.tx.am.head; pos != core.tx.am.tail; ++pos) {
        const vqp_op_t *op = vqp_opring_at(&core.tx.am, pos);
        bool is_current    = pos == core.tx.am.post;

        if (vqp_seq_diff(pos, core.tx.am.post) < 0) {
            continue; /* all its frags were made; it may be over, and hold anything */
        }

        uint64_t size  = 1ull << op->frag_shift;
        uint64_t frags = (op->length - op->offset + size - 1) / size;

        if (op->flags & VQP_OP_TAIL) {
            reserved += (core.tx.announce.tail_ready && is_current) ?
                                (uint32_t)__builtin_popcountl(
                                        core.tx.announce.tail_paths) :
                                (uint32_t)std::min<uint64_t>(
                                        (op->length + size - 1) / size,
                                        core.tx.paths.count);
        } else {
            reserved += (op->flags & VQP_OP_SPRAY) ? (op->offset == 0) :
                                                     (uint32_t)frags;
        }
        if ((op->flags & VQP_OP_FENCE) && (core.tx.paths.count > 1)) {
            reserved += (core.tx.fence.started && is_current) ?
                                (uint32_t)__builtin_popcountl(
                                        core.tx.fence.paths) :
                                core.tx.paths.count;
        }
    }

    if (core.tx.fc.fsn_reserved != reserved) {
        broke("fsns reserved", core.tx.fc.fsn_reserved, reserved);
    }
    if (vqp_tx_fsns_out(&core.tx) + core.tx.fc.fsn_reserved > core.tx.cfg.fsn_window) {
        broke("fsns", vqp_tx_fsns_out(&core.tx) + core.tx.fc.fsn_reserved, core.tx.cfg.fsn_window);
    }
}

void vqp::audit_ring()
{
    uint32_t size = core.tx.ring.size;
    uint32_t out  = std::max(core.tx.fc.ring_head - core.tx.fc.ring_peer,
                             core.tx.fc.ring_head - core.tx.fc.ring_local);

    /* After a larger ring what was sent in it is consumed later */
    if (core.stats.ring_switches != m_switches) {
        m_switches   = core.stats.ring_switches;
        m_ring_limit = core.rings.max;
    }
    m_ring_limit = std::max(size, std::min(out, m_ring_limit));
    size         = m_ring_limit;
    if ((core.tx.fc.ring_head - core.tx.fc.ring_peer > size) ||
        (core.tx.fc.ring_head - core.tx.fc.ring_local > size)) {
        broke("ring bytes out", core.tx.fc.ring_head - core.tx.fc.ring_peer, size);
    }
    if (vqp_opring_is_empty(&core.tx.am) && (core.tx.fc.ring_head != core.tx.fc.ring_local)) {
        broke("mirror bytes without an op", core.tx.fc.ring_local, core.tx.fc.ring_head);
    }
}

void vqp::audit_window()
{
    uint32_t present = (uint32_t)std::count_if(
            m_map.begin(), m_map.end(), [](uint8_t slot) { return slot != 0; });

    if (core.rx.window.ahead != present) {
        broke("immediates ahead", core.rx.window.ahead, present);
    }
}

/* The credit that the peer advertised is not more than it has */
void vqp::audit_peer()
{
    const vqp *peer = owner.w.partner(*this);

    if ((peer == nullptr) || !peer->is_connected() ||
        peer->is_failed()) {
        return;
    }

    const vqp_rx_t &far = peer->core.rx;
    if ((vqp_fsn_diff(far.window.base, core.tx.fc.fsn_peer) < 0) ||
        (vqp_fsn_diff(core.tx.fc.fsn_next, far.window.base) < 0)) {
        broke("next fsn of the peer", far.window.base, core.tx.fc.fsn_peer);
    }
    if ((vqp_seq_diff(far.ring_pos, core.tx.fc.ring_peer) < 0) ||
        (vqp_seq_diff(core.tx.fc.ring_head, far.ring_pos) < 0)) {
        broke("ring position of the peer", far.ring_pos, core.tx.fc.ring_peer);
    }
}

void vqp::audit()
{
    if (!is_connected() || core.tx.failed || sent->tainted) {
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
