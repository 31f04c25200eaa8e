/* One side of a connection: its life, and what it posts. See vqp.h. */
#include "vqp.h"
#include "ep.h"
#include "node.h"
#include "world.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace sim {

vqp::vqp(node &a_owner, uint32_t a_id) :
    owner(a_owner), id(a_id), num_paths((unsigned)a_owner.p.paths),
    m_batch(new vqp_batch_t)
{
    const params &p = owner.p;

    slot.self = this;
    m_am_ops.resize(p.am_ops);
    m_rma_ops.resize(p.rma_ops);
    m_fsn_path.resize(p.window);
    m_map.resize(p.window);
    m_ring.resize(p.ring);
    m_mirror.resize(p.ring);
    m_cells_in.resize(num_paths * VQP_CELL_STRIDE);
    m_cells_out.resize(num_paths * VQP_CELL_STRIDE);
    m_inflight.resize(num_paths);
    m_covers.resize(num_paths);
    m_recv_posted.resize(num_paths);
    m_recv_missing.resize(num_paths);
    paths.resize(num_paths);
    owner.w.new_channel(p.comp_post, p.order_all, &sent);
    for (unsigned i = 0; i < num_paths; ++i) {
        paths[i].index = (uint8_t)i;
        paths[i].rail  = (uint8_t)((i + owner.index) % RAILS);
        paths[i].epoch = (uint16_t)(id * 7);
        m_qps.emplace_back(new qp(owner.w, *this, owner.w.next_qpn++, i,
                                  paths[i].rail));
    }
    make_info();
    owner.w.vqps[id] = this;
}

vqp::~vqp()
{
    owner.w.vqps.erase(id);
}

void vqp::make_info()
{
    const params &p = owner.p;
    uint32_t before = (p.fsn_before_wrap == 0) ? 0 :
                      1 + (uint32_t)owner.w.work.below(p.fsn_before_wrap);

    info.ring_addr  = (uintptr_t)m_ring.data();
    info.cell_addr  = (uintptr_t)m_cells_in.data();
    info.ring_size  = (uint32_t)p.ring;
    info.fsn_window = (uint32_t)p.window;
    info.first_fsn  = (0 - before) & VQP_FSN_MASK;
    info.rx_depth   = (uint32_t)p.imms;
    info.max_reads  = (uint8_t)p.reads;
    info.num_rails  = RAILS;
    info.num_paths  = (uint8_t)num_paths;
    for (unsigned i = 0; i < RAILS; ++i) {
        m_ring_rkeys[i]         = id * 16 + i;
        info.rails[i].ud_qpn    = owner.ud_qpn;
        info.rails[i].mtu       = 3;
        info.rails[i].link      = VQP_LINK_ETH;
        info.rails[i].gid[15]   = 1;
        info.rails[i].ring_rkey = m_ring_rkeys[i];
        info.rails[i].cell_rkey = m_ring_rkeys[i];
    }
    for (unsigned i = 0; i < num_paths; ++i) {
        info.paths[i].qpn  = m_qps[i]->qpn;
        info.paths[i].psn  = i;
        info.paths[i].rail = paths[i].rail;
    }
}

/* ---- connecting ---- */

void vqp::init_paths(const vqp_wire_info_t &peer)
{
    unsigned count   = std::min<unsigned>(num_paths, peer.num_paths);
    uint16_t entries = 1;

    while (entries <= owner.p.depth) {
        entries = (uint16_t)(entries * 2);
    }

    m_amo_results.resize((size_t)entries * num_paths);
    for (unsigned i = 0; i < count; ++i) {
        vqp_path_t &path = paths[i];

        m_inflight[i].resize(entries);
        path.inflight  = m_inflight[i].data();
        path.mask      = (uint16_t)(entries - 1);
        path.depth     = (uint16_t)owner.p.depth;
        path.reads_max = (uint16_t)std::min<uint64_t>(owner.p.reads,
                                                      peer.max_reads);
        path.imms_max  = (uint16_t)peer.rx_depth;
        path.peer_rail = peer.paths[i].rail;
        path.up        = 1;
        path.head      = path.tail = FIRST_POS;
    }
}

void vqp::init_core(const vqp_wire_info_t &peer)
{
    const params &p = owner.p;
    vqp_tx_config_t cfg {};

    init_paths(peer);
    peer_info        = peer;
    cfg.ring_size    = (uint32_t)p.ring;
    cfg.fsn_window   = (uint32_t)p.window;
    cfg.first_fsn    = info.first_fsn;
    cfg.path_cap     = p.cap;
    cfg.signal_every = (uint32_t)p.signal_every;
    cfg.inline_max   = (uint32_t)p.inline_max;
    cfg.frag_shift   = (uint8_t)p.frag_shift;
    cfg.min_shift    = (uint8_t)p.min_shift;
    cfg.notify       = (uint8_t)p.notify;
    cfg.sched        = (uint8_t)p.sched;
    cfg.order_all    = (uint8_t)p.order_all;
    cfg.comp_post    = (uint8_t)p.comp_post;
    cfg.no_fast      = (uint8_t)p.no_fast;
    cfg.mirror       = m_mirror.data();
    cfg.local_lkeys  = owner.lkeys;
    cfg.ring_raddr   = peer.ring_addr;
    cfg.cells_raddr  = peer.cell_addr;
    cfg.cells        = (vqp_cell_t*)m_cells_out.data();
    cfg.amo_results  = m_amo_results.data();
    for (unsigned i = 0; i < RAILS; ++i) {
        m_peer_rkeys[i] = peer.rails[i].ring_rkey;
    }
    cfg.ring_rkeys = m_peer_rkeys;
    vqp_tx_init(&tx, &cfg, m_am_ops.data(), (uint32_t)p.am_ops,
                m_rma_ops.data(), (uint32_t)p.rma_ops, paths.data(),
                std::min<unsigned>(num_paths, peer.num_paths),
                m_fsn_path.data(), &stats);
    sent->next_fsn = tx.fsn_next;
    vqp_rx_init(&rx, m_ring.data(), (uint32_t)p.ring, m_cells_in.data(),
                m_map.data(), (uint32_t)p.window, peer.first_fsn, &stats);
    m_iov_ext.resize(vqp_tx_iov_ext_count(&tx, MAX_IOV));
    vqp_tx_set_iov_ext(&tx, m_iov_ext.data(), MAX_IOV);

    /* As if there had been much traffic already: all counters wrap soon */
    tx.seq       = (uint32_t)p.first_pos;
    tx.ring_head = tx.ring_peer = tx.ring_local = (uint32_t)p.first_pos;
    rx.ring_pos  = rx.told_ring = (uint32_t)p.first_pos;
    tx.am.head   = tx.am.post = tx.am.tail = (uint32_t)-5;
    tx.rma.head  = tx.rma.post = tx.rma.tail = (uint32_t)-3;
    tx.next_path = id % tx.num_paths;
}

vqp_status_t vqp::connect(const vqp_wire_info_t &peer)
{
    auto it = owner.w.qps.find(peer.paths[0].qpn);

    if ((peer.ring_size != info.ring_size) ||
        (peer.fsn_window != info.fsn_window) ||
        (peer.rx_depth < (info.fsn_window / 2) + 2 * VQP_CONTROL_RESERVE) ||
        (peer.max_reads == 0) || (peer.num_rails != info.num_rails)) {
        return VQP_ERR_UNREACHABLE;
    }

    if (it != owner.w.qps.end()) {
        m_received = it->second->owner().sent;
    }
    init_core(peer);
    connected = true;
    for (unsigned i = 0; i < tx.num_paths; ++i) {
        /* more than announced: those that wait for their batch */
        m_recv_posted[i] = info.rx_depth + (unsigned)owner.p.rx_batch;
        m_qps[i]->post_recv(m_recv_posted[i]);
        m_qps[i]->connect(peer.paths[i].qpn);
    }
    return VQP_OK;
}

/* ---- failure ---- */

void vqp::touch()
{
    if (!is_touched) {
        is_touched = true;
        owner.touched.push_back(id);
        owner.wake();
    }
}

/* What was acknowledged without a CQE gets none from a queue pair in ERR */
void vqp::last_words()
{
    for (;;) {
        vqp_tx_last_words(&tx, m_batch.get());
        if (m_batch->count == 0) {
            return;
        }

        for (unsigned i = 0; i < m_batch->count; ++i) {
            vqp_frag_t &frag = m_batch->frags[i];

            if (owner.w.base.post_fails && owner.w.fault.chance(10)) {
                vqp_tx_abandon(&tx, frag.path, frag.path->head, status);
                m_covers[frag.path->index].clear();
            } else {
                m_qps[frag.path->index]->post(frag);
            }
        }
    }
}

void vqp::set_failed(vqp_status_t a_status)
{
    owner.w.trace("%s: fails, status %d", name().c_str(), a_status);
    failed       = true;
    ready        = false;
    status       = a_status;
    sent->broken = true;
    if (m_received != nullptr) {
        m_received->broken = true;
    }
    if (connected) {
        vqp_tx_fail(&tx, a_status);
    }
    for (auto &one : m_qps) {
        one->to_error();
    }
    touch();
}

void vqp::fail(vqp_status_t a_status)
{
    if (failed) {
        return;
    }

    /* A kick or a credit that meets nobody any more harms nobody */
    if (!dying && !owner.w.base.may_fail() &&
        (slot.conn.state != VQP_CONN_CLOSING) &&
        (slot.conn.state != VQP_CONN_CLOSED)) {
        owner.w.fail("contract", name() + " fails without a cause, status " +
                                 std::to_string(a_status));
    }
    set_failed(a_status);
    if (connected) {
        last_words();
    }
}

/* ---- posting ---- */

/* In chains, one for each path; a chain may end in its middle */
void vqp::post(vqp_batch_t &batch)
{
    unsigned bad_path = UINT32_MAX, good = 0;
    bool is_bad       = false;

    if (fail_post && (batch.count > 0)) {
        fail_post = false;
        bad_path  = batch.frags[owner.w.fault.below(batch.count)].path->index;
        good      = (unsigned)owner.w.fault.below(3);
    }

    for (unsigned i = 0; i < batch.count; ++i) {
        vqp_frag_t &frag = batch.frags[i];

        if (frag.path->index != bad_path) {
            m_qps[frag.path->index]->post(frag);
        } else if (good > 0) {
            --good;
            m_qps[frag.path->index]->post(frag);
        } else {
            frag.flags |= is_bad ? 0 : VQP_FRAG_UNPOSTED;
            is_bad      = true;
        }
    }

    if (is_bad) {
        post_failed(batch);
    }
}

/* What could not be posted gets no completion: end it here */
void vqp::post_failed(vqp_batch_t &batch)
{
    set_failed(VQP_ERR_IO);
    for (unsigned i = 0; i < batch.count; ++i) {
        if (batch.frags[i].flags & VQP_FRAG_UNPOSTED) {
            vqp_tx_abandon(&tx, batch.frags[i].path, batch.frags[i].pos,
                           VQP_ERR_IO);
        }
    }
    last_words();
}

void vqp::post_one(vqp_frag_t &frag)
{
    if (fail_post) {
        fail_post = false;
        set_failed(VQP_ERR_IO);
        vqp_tx_abandon(&tx, frag.path, frag.pos, VQP_ERR_IO);
        last_words();
    } else {
        m_qps[frag.path->index]->post(frag);
    }
}

void vqp::note_posted(const vqp_frag_t &frag, op *o)
{
    if (o != nullptr) {
        sent->posted(o, frag);
    }
    m_covers[frag.path->index].push_back({frag.pos, o});
}

void vqp::pump()
{
    if (!connected || tx.failed) {
        return;
    }

    tx.now = owner.w.now;
    do {
        vqp_credit_t credit = vqp_rx_credit(&rx);
        uint32_t control    = tx.slow & VQP_TX_CONTROL;

        vqp_tx_dispatch(&tx, m_batch.get(), &credit);
        if (control & ~tx.slow) {
            vqp_rx_told(&rx, &credit);
        }
        if (m_batch->count == 0) {
            return;
        }
        post(*m_batch);
    } while (!tx.failed && (m_batch->count == VQP_BATCH_MAX));
}

/* Is the peer still there? */
void vqp::check()
{
    vqp_op_t *op;

    if (failed || !live || ((op = vqp_tx_rma_begin(&tx)) == nullptr)) {
        pump();
        return;
    }

    op->kind       = VQP_KIND_CHECK;
    op->flags      = VQP_OP_SIGNAL;
    op->length     = 0;
    op->user       = sent->accept(VQP_KIND_CHECK, 0, 0);
    op->user_kind  = 0;
    op->frag_shift = 31;
    vqp_tx_rma_commit(&tx, op);
    pump();
}

/* ---- its end ---- */

bool vqp::must_cancel() const
{
    return failed || peer_gone || sent->has_flush() ||
           (connected && vqp_tx_uses_buffers(&tx));
}

/* What refers to memory of the user, or is awaited, ends here for him */
void vqp::cancel_all()
{
    vqp_tx_iter_t iter;
    vqp_op_t *op;

    if (connected) {
        vqp_tx_iter_init(&tx, &iter);
        while ((op = vqp_tx_iter_next(&tx, &iter)) != nullptr) {
            if (((op->kind == VQP_KIND_FADD) || (op->kind == VQP_KIND_CSWAP))) {
                op->amo.result = nullptr;
            }
            if (op->user_kind != 0) {
                op->user_kind = 0;
                sent->cancel((sim::op*)op->user);
            }
        }
    }
    sent->cancel_flushes();
}

void vqp::run_closing()
{
    if (!failed && connected && !vqp_tx_flush_ended(&tx, &m_last_flush)) {
        pump();
        return;
    }

    closing = false;
    if (failed) {
        vqp_conn_abort(&slot.conn, owner.w.now);
    } else {
        if (connected) {
            sent->check_all_deliverable();
        }
        vqp_conn_close(&slot.conn, owner.w.now);
    }
    owner.run_actions();
}

void vqp::bury()
{
    bool was_whole = !failed;

    reported = dying = true;
    if (was_whole) {
        bool sent_broken = sent->broken;
        bool recv_broken = (m_received != nullptr) && m_received->broken;
        bool is_lost     = connected && !vqp_tx_is_flushed(&tx);

        fail(VQP_ERR_CANCELED);
        /* an orderly end loses nothing, if nothing is left */
        sent->broken = sent_broken || is_lost;
        if (m_received != nullptr) {
            m_received->broken = recv_broken ||
                                 (slot.conn.status != VQP_OK);
        }
    }
    touch();
}

bool vqp::is_quiet() const
{
    for (unsigned posted : m_recv_posted) {
        if (posted > 0) {
            return false;
        }
    }
    return !connected || (vqp_tx_outstanding(&tx) == 0);
}

bool vqp::try_destroy()
{
    if (is_touched || !is_quiet()) {
        return false;
    }

    if (!sent->crashed) {
        sent->check_ended();
    }
    owner.destroy(this); /* we are gone */
    return true;
}

void vqp::update_ready()
{
    ready = live && !failed && !peer_gone && (user != nullptr) &&
            (!user->has_pending() || user->in_pending());
}

bool vqp::allows(uint64_t addr, uint64_t length, uint32_t rkey,
                 unsigned rail) const
{
    const char *begin = (const char*)(uintptr_t)addr;
    const char *end   = begin + length;

    for (const std::vector<char> *memory : {&m_ring, &m_cells_in}) {
        if ((begin >= memory->data()) &&
            (end <= memory->data() + memory->size())) {
            return rkey == m_ring_rkeys[rail];
        }
    }
    return owner.owns(begin, length) && (rkey == owner.heap_rkeys[rail]);
}

uint32_t vqp::any_qpn(unsigned path, uint32_t imm)
{
    /* A replay may come on any path, but the cell of a control message lies at
     * the one that it was sent on */
    if (!(imm & VQP_IMM_CONTROL)) {
        path = (unsigned)owner.w.fault.below(tx.num_paths);
    }
    return m_qps[path]->qpn;
}

bool vqp::is_busy() const
{
    return !connected || failed || (vqp_tx_outstanding(&tx) > 0) ||
           !vqp_opring_is_empty(&tx.am) || !vqp_opring_is_empty(&tx.rma) ||
           (rx.window.ahead > 0) || (tx.fsn_next != tx.fsn_peer);
}

std::string vqp::name() const
{
    return "node " + std::to_string(owner.index) + " vqp " +
           std::to_string(id);
}

std::string vqp::str() const
{
    std::ostringstream os;

    os << name() << ": " << vqp_conn_state_name(slot.conn.state)
       << (slot.conn.owned ? " owned" : "") << (failed ? " failed" : "")
       << (dying ? " dying" : "") << (ready ? " ready" : "") << ", slow "
       << tx.slow << (tx.starving ? " starving" : "") << ", am "
       << tx.am.tail - tx.am.head << " (" << tx.am.tail - tx.am.post
       << " to post), rma " << tx.rma.tail - tx.rma.head << " ("
       << tx.rma.tail - tx.rma.post << " to post), fsn next " << tx.fsn_next
       << " out " << vqp_tx_fsns_out(&tx) << " reserved " << tx.fsn_reserved
       << " limit " << tx.fsn_limit << ", ring out "
       << tx.ring_head - tx.ring_peer << " unconfirmed "
       << tx.ring_head - tx.ring_local << ", window base " << rx.window.base
       << " ahead " << rx.window.ahead << "; " << sent->str();
    for (unsigned i = 0; connected && (i < tx.num_paths); ++i) {
        const vqp_path_t &path = paths[i];

        if ((vqp_path_outstanding(&path) == 0) && (path.imms == 0)) {
            continue;
        }
        os << "\n    path " << i << (path.up ? "" : " parked")
           << ": outstanding " << vqp_path_outstanding(&path)
           << " unsignaled " << path.unsignaled << " bytes " << path.bytes
           << " imms " << path.imms << " reads " << path.reads << " rma "
           << path.rma;
    }
    return os.str();
}

} /* namespace sim */
