/* One side of a connection: its states, and what it posts. See vqp.h. */
#include "vqp.h"
#include "ep.h"
#include "node.h"
#include "world.h"

#include <algorithm>
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
    m_amo_results.resize(std::max(p.rma_ops, owner.w.base.most_ops));
    m_map.resize(p.window);
    m_ring.resize(p.ring);
    m_cells_in.resize(num_paths * VQP_CELL_STRIDE);
    m_cells_out.resize(num_paths * VQP_CELL_STRIDE);
    m_inflight.resize(num_paths);
    m_covers.resize(num_paths);
    m_trimmed.resize(num_paths);
    m_inboxes.resize(num_paths);
    m_lost.resize(num_paths);
    paths.resize(num_paths);
    owner.w.new_channel(p.comp_post, p.order_all, &sent);
    for (unsigned i = 0; i < num_paths; ++i) {
        paths[i].index = (uint8_t)i;
        paths[i].rail  = (uint8_t)((i + owner.index) % RAILS);
        paths[i].qp_tag = (uint16_t)(id * 7);
        m_qps.emplace_back(new qp(owner.w, *this, owner.w.next_qpn++, i,
                                  paths[i].rail, FIRST_SLOT));
    }
    vqp_init(&core, paths.data(), num_paths, owner.w.now);
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
    info.max_reads  = 16;
    info.num_rails  = RAILS;
    info.scratch_addr = (uintptr_t)owner.scratch.data();
    info.num_paths  = (uint8_t)((p.failover && p.first) ?
                                std::min<uint64_t>(p.first, num_paths) : num_paths);
    info.max_paths  = (uint8_t)num_paths;
    for (unsigned i = 0; i < RAILS; ++i) {
        m_ring_rkeys[i]         = id * 16 + i;
        info.rails[i].ud_qpn    = owner.ud_qpn;
        info.rails[i].mtu       = 3;
        info.rails[i].link      = VQP_LINK_ETH;
        info.rails[i].gid[14]   = (uint8_t)(owner.index / 2);
        info.rails[i].gid[15]   = (uint8_t)(1 + i);
        info.rails[i].ring_rkey = m_ring_rkeys[i];
        info.rails[i].scratch_rkey = owner.scratch_rkeys[i];
    }
    for (unsigned i = 0; i < info.num_paths; ++i) {
        info.paths[i].qpn  = m_qps[i]->qpn;
        info.paths[i].psn  = i;
        info.paths[i].rail = paths[i].rail;
    }
}

/* ---- connecting ---- */

/* In use now or later */
unsigned vqp::count_paths(const vqp_wire_info_t &peer) const
{
    return ((slot.conn.peer_features & VQP_WIRE_FEATURE_ELASTIC) && has_failover()) ?
                   std::min<unsigned>(num_paths, peer.max_paths) :
                   count_connected(peer);
}

unsigned vqp::count_connected(const vqp_wire_info_t &peer) const
{
    return std::min(info.num_paths, peer.num_paths);
}

/* As few as failover allows: a drain nop and a probe beside the frags */
static uint32_t entries_of(uint64_t depth)
{
    uint32_t entries = 1;

    while (entries < depth + 2) {
        entries *= 2;
    }
    return entries;
}

/* For a queue pair with a send queue of that length */
void vqp::set_depth(vqp_path_t &path, uint16_t depth)
{
    std::vector<vqp_inflight_t> inflight(entries_of(depth));

    if (inflight.size() > m_inflight[path.index].size()) {
        vqp_replay_move(&path, inflight.data(), (uint32_t)inflight.size());
        m_inflight[path.index].swap(inflight);
    }
    path.depth = depth;
}

void vqp::init_paths(const vqp_wire_info_t &peer)
{
    uint64_t depth = (owner.p.short_depth == 0) ? owner.p.depth :
                     std::min(owner.p.depth, owner.p.short_depth);

    for (unsigned i = 0; i < count_paths(peer); ++i) {
        vqp_path_t &path = paths[i];

        if (i < count_connected(peer)) {
            set_depth(path, (uint16_t)depth);
        }
        path.peer_rail = (i < peer.num_paths) ? peer.paths[i].rail : 0;
        path.up        = 1;
        path.mtu_shift = MTU_SHIFT;
        path.head      = path.tail = FIRST_SLOT;
    }
}

void vqp::fill_tx_config(const vqp_wire_info_t &peer, vqp_tx_config_t &cfg)
{
    const params &p = owner.p;

    cfg.ring_size    = (uint32_t)p.ring;
    cfg.fsn_window   = (uint32_t)p.window;
    cfg.first_fsn    = info.first_fsn;
    cfg.path_cap     = p.cap;
    cfg.single_cap   = 2 * p.cap;
    cfg.cap_growth   = (uint8_t)p.cap_growth;
    cfg.single_shift = (uint8_t)(p.frag_shift + 1);
    cfg.signal_every = (uint32_t)p.signal_every;
    cfg.inline_max   = (uint32_t)p.inline_max;
    cfg.frag_shift   = (uint8_t)p.frag_shift;
    cfg.max_shift    = 31; /* the network takes any length */
    cfg.min_shift    = (uint8_t)p.min_shift;
    cfg.notify       = (uint8_t)p.notify;
    cfg.sched        = (uint8_t)p.sched;
    cfg.order_all    = (uint8_t)p.order_all;
    cfg.comp_post    = (uint8_t)p.comp_post;
    cfg.no_fast      = (uint8_t)p.no_fast;
    cfg.pack         = (uint8_t)p.pack;
    cfg.most_ops     = (uint32_t)owner.w.base.most_ops;
    cfg.local_lkeys  = owner.lkeys;
    cfg.ring_raddr   = peer.ring_addr;
    cfg.cells_raddr  = peer.cell_addr;
    cfg.cells        = (vqp_cell_t*)m_cells_out.data();
    cfg.amo_results  = m_amo_results.data();
    for (unsigned i = 0; i < RAILS; ++i) {
        m_peer_rkeys[i]    = peer.rails[i].ring_rkey;
        m_scratch_rkeys[i] = peer.rails[i].scratch_rkey;
    }
    cfg.ring_rkeys     = m_peer_rkeys;
    cfg.scratch.source = (uintptr_t)owner.scratch.data() + VQP_SCRATCH_SIZE;
    cfg.scratch.lkeys  = owner.lkeys;
    cfg.scratch.raddr  = peer.scratch_addr;
    cfg.scratch.rkeys  = m_scratch_rkeys;
}

void vqp::init_core(const vqp_wire_info_t &peer, uint64_t unresolved)
{
    const params &p = owner.p;
    vqp_config_t cfg {};
    vqp_tx_t &tx    = core.tx;
    vqp_rx_t &rx    = core.rx;

    init_paths(peer);
    peer_info = peer;
    fill_tx_config(peer, cfg.tx);
    cfg.am_ops         = m_am_ops.data();
    cfg.num_am_ops     = (uint32_t)p.am_ops;
    cfg.rma_ops        = m_rma_ops.data();
    cfg.num_rma_ops    = (uint32_t)p.rma_ops;
    cfg.num_paths      = count_paths(peer);
    cfg.num_connected  = count_connected(peer);
    cfg.min_paths      = (uint32_t)p.min_paths;
    cfg.depth          = (uint32_t)p.depth;
    cfg.peer_rails     = peer.num_rails;
    cfg.first_path     = id % cfg.num_connected;
    cfg.peer_first_fsn = peer.first_fsn;
    cfg.recv_batch     = (uint32_t)p.rx_batch;
    cfg.am_ids         = 32;
    cfg.map            = m_map.data();
    cfg.ring           = m_ring.data();
    cfg.rings_on       = p.ring_growth != 0;
    cfg.ring_max       = (uint32_t)(p.ring << p.ring_growth);
    cfg.ring_idle      = p.ring_idle;
    cfg.rx_cells       = m_cells_in.data();
    cfg.own_paths            = info.paths;
    cfg.peer_paths           = peer.paths;
    cfg.down                 = unresolved;
    cfg.gap                  = (slot.conn.peer_features & VQP_WIRE_FEATURE_SPRAY) ?
                                       0 : owner.w.base.gap_timeout;
    cfg.probe                = owner.w.may_disturb() ? owner.w.base.probe : 0;
    cfg.failover.is_on       = has_failover();
    cfg.failover.is_exact    = owner.w.base.exact;
    cfg.failover.retry_first = 2000000;
    cfg.failover.retry_max   = 100000000;
    cfg.failover.hold_first  = 5000000;
    cfg.failover.hold_max    = 200000000;
    cfg.failover.outage      = owner.w.base.outage;
    cfg.failover.silence     = owner.w.base.silence;
    cfg.failover.slow        = owner.w.base.slow;
    cfg.failover.slow_first  = 10 * owner.w.base.slow;
    cfg.failover.slow_max    = 1000 * owner.w.base.slow;
    cfg.failover.rehash      = owner.w.base.rehash != 0;
    cfg.failover.num_rails   = has_rails() ? RAILS : 0;
    cfg.failover.decides     = has_rails() && (slot.conn.cookie < slot.conn.peer_cookie);
    cfg.failover.elastic     = owner.w.base.elastic;
    vqp_connect(&core, &cfg);
    sent->next_fsn = tx.fc.fsn_next;
    m_iov_ext.resize(vqp_tx_iov_ext_count(&tx, MAX_IOV));
    vqp_tx_set_iov_ext(&tx, m_iov_ext.data(), MAX_IOV);

    /* As if there had been much traffic already: all counters wrap soon */
    tx.seq          = (uint32_t)p.first_pos;
    tx.fc.ring_head = tx.fc.ring_peer = tx.fc.ring_local =
            (uint32_t)p.first_pos;
    rx.ring_pos     = rx.advertised.ring = (uint32_t)p.first_pos;
    tx.am.head      = tx.am.post = tx.am.tail = (uint32_t)-5;
    tx.rma.head     = tx.rma.post = tx.rma.tail = (uint32_t)-3;
    for (vqp_path_t &path : paths) {
        path.ring_signaled = (uint32_t)p.first_pos;
    }
}

void vqp::connect_qp(unsigned path, uint32_t peer_qpn)
{
    /* more than announced: those that wait for their batch */
    paths[path].recv_posted = (uint16_t)(info.rx_depth + owner.p.rx_batch);
    paths[path].recv_used   = 0;
    m_qps[path]->post_recv(paths[path].recv_posted);
    m_qps[path]->connect(peer_qpn);
}

vqp_status_t vqp::connect(const vqp_wire_info_t &peer)
{
    auto it = owner.w.qps.find(peer.paths[0].qpn);

    if ((vqp_peer_fit(&info, &peer) != VQP_PEER_FITS) ||
        (peer.num_rails != info.num_rails)) {
        return VQP_ERR_UNREACHABLE;
    }

    if (it != owner.w.qps.end()) {
        m_received = it->second->owner().sent;
    }
    if (owner.w.may_disturb() && owner.w.fault.chance(owner.w.base.qp_fails)) {
        return VQP_INPROGRESS;
    }

    uint64_t unresolved = draw_unresolved(count_connected(peer));

    init_core(peer, unresolved);
    for (unsigned i = 0; i < count_connected(peer); ++i) {
        if (unresolved & (1ul << i)) {
            m_qps[i]->is_unresolved = true;
        } else {
            connect_qp(i, peer.paths[i].qpn);
        }
    }
    return VQP_OK;
}

/* The paths whose addresses do not resolve */
uint64_t vqp::draw_unresolved(unsigned count)
{
    uint64_t unresolved = 0;

    for (unsigned i = 0; has_failover() && (i < count); ++i) {
        if (owner.w.may_disturb() && owner.w.fault.chance(owner.w.base.qp_fails)) {
            unresolved |= 1ul << i;
        }
    }

    if (((unresolved != 0) && (owner.w.base.outage < 1000000000)) ||
        owner.w.base.fails_undecided()) {
        owner.w.hard_fault(); /* it may last longer than that, or end undecided */
    }
    return unresolved;
}

bool vqp::has_failover() const
{
    return (slot.conn.peer_features & owner.config.features &
            VQP_WIRE_FEATURE_FAILOVER) != 0;
}

bool vqp::has_rails() const
{
    return has_failover() && (slot.conn.peer_features & owner.config.features &
                              VQP_WIRE_FEATURE_RAILS) != 0;
}

/* ---- failure ---- */

void vqp::schedule()
{
    if (!is_scheduled) {
        is_scheduled = true;
        owner.scheduled.push_back(id);
        owner.wake();
    }
}

/* What the core found broken must have a cause */
void vqp::check_cause()
{
    if ((core.broken.what != nullptr) && !sent->tainted) {
        owner.w.fail("contract", name() + ": protocol error of an honest "
                                          "peer: " + core.broken.what);
    }

    /* After an orderly close a nop or a credit may find its queue pair gone */
    if ((core.state != VQP_STATE_DRAINING) && !owner.w.had_hard_fault() &&
        (slot.conn.state != VQP_CONN_CLOSING) &&
        ((slot.conn.state != VQP_CONN_CLOSED) ||
         (slot.conn.status != VQP_OK))) {
        owner.w.fail("contract", name() + " fails without a cause, status " +
                                 std::to_string(core.status));
    }
}

/* Nops that bring the last completions. Some can not be posted. */
void vqp::drain()
{
    while (vqp_next_batch(&core, m_batch.get()) > 0) {
        bool is_bad = false;

        for (unsigned i = 0; i < m_batch->count; ++i) {
            vqp_frag_t &frag = m_batch->frags[i];

            if (owner.w.base.post_fails && owner.w.fault.chance(10)) {
                frag.flags |= VQP_FRAG_UNPOSTED;
                is_bad      = true;
                m_covers[frag.path->index].clear();
            } else {
                m_qps[frag.path->index]->post(frag);
            }
        }
        if (is_bad) {
            vqp_post_failed(&core, m_batch->frags, m_batch->count);
        }
    }
}

void vqp::handle_failure()
{
    if (vqp_take_event(&core, VQP_EVENT_QPS)) {
        fail_qps();
    }
}

void vqp::fail_qps()
{
    owner.w.trace("%s: fails, status %d", name().c_str(), core.status);
    check_cause();
    ready        = false;
    sent->broken = true;
    if (m_received != nullptr) {
        m_received->broken = true;
    }
    for (unsigned i = 0; i < num_paths; ++i) {
        if (owner.w.base.post_fails && owner.w.fault.chance(5)) {
            owner.w.hard_fault();
            m_qps[i]->lose();
            m_is_destroyed = true;
            m_covers[i].clear();
            vqp_path_destroyed(&core, i);
        } else {
            m_qps[i]->to_error();
        }
    }
    vqp_conn_abort(&slot.conn, 0, owner.w.now);
    owner.run_actions();
    vqp_qps_failed(&core);
    drain();
    schedule();
}

void vqp::fail(vqp_status_t a_status)
{
    vqp_fail(&core, a_status);
    handle_failure();
}

void vqp::use()
{
    vqp_use(&core);
    handle_failure();
}

void vqp::cancel()
{
    vqp_cancel(&core);
    handle_failure();
}

/* ---- posting ---- */

/* A second failure would end the endpoint: no fault that it has to survive */
static bool may_refuse(const vqp_frag_t &frag)
{
    return !(vqp_path_at(frag.path, frag.slot)->flags & VQP_INFLIGHT_BLAMED);
}

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
        } else if (!is_bad && ((good > 0) || !may_refuse(frag))) {
            good -= good > 0;
            m_qps[frag.path->index]->post(frag);
        } else {
            frag.flags |= is_bad ? 0 : VQP_FRAG_UNPOSTED;
            is_bad      = true;
            note_unposted(frag);
        }
    }

    if (is_bad) {
        vqp_post_failed(&core, batch.frags, batch.count);
        handle_failure();
        schedule();
    }
}

void vqp::post_one(vqp_frag_t &frag)
{
    if (fail_post && may_refuse(frag)) {
        fail_post   = false;
        frag.flags |= VQP_FRAG_UNPOSTED;
        note_unposted(frag);
        vqp_post_failed(&core, &frag, 1);
        handle_failure();
        schedule();
    } else {
        m_qps[frag.path->index]->post(frag);
    }
}

void vqp::note_posted(const vqp_frag_t &frag, op *o)
{
    if (o != nullptr) {
        sent->posted(o, frag, vqp_path_at(frag.path, frag.slot)->flags &
                              VQP_INFLIGHT_REPLAYED);
    }
    m_covers[frag.path->index].push_back({frag.slot, o, frag.length, frag.imm,
                                          (uint8_t)frag.kind, frag.opcode,
                                          !!(frag.flags & VQP_FRAG_FENCE),
                                          false, false});
}

void vqp::note_unposted(const vqp_frag_t &frag)
{
    owner.w.trace("%s: not posted: path %u slot %u %s length %u", name().c_str(),
                  frag.path->index, frag.slot, kind_name(frag.kind),
                  frag.length);
    if (core.failover.is_on && (owner_of(frag) != nullptr) &&
        !(vqp_path_at(frag.path, frag.slot)->flags & VQP_INFLIGHT_REPLAYED)) {
        sent->delayed(owner_of(frag));
    }
}

void vqp::tx_progress()
{
    if (!is_connected()) {
        return;
    }

    owner.set_clock(core.tx);
    do {
        uint32_t seq   = core.tx.seq;
        unsigned count = vqp_next_batch(&core, m_batch.get());

        for (; seq != core.tx.seq; ++seq) {
            sent->own_op(); /* a control record */
        }
        if (count == 0) {
            break;
        }
        post(*m_batch);
    } while (!is_failed() && (m_batch->count == VQP_BATCH_MAX));

    if (core.tx.clock.deferred || core.tx.pack.is_held) {
        owner.defer(*this);
    }
    if (vqp_take_event(&core, VQP_EVENT_TIMER)) {
        set_timer();
    }
}

/* Is the peer still there? */
void vqp::check()
{
    uint32_t seq = core.tx.seq;

    vqp_check(&core);
    note_own(seq);
    tx_progress();
}

/* Did that accept an op of the core's own? */
void vqp::note_own(uint32_t seq)
{
    if (core.tx.seq != seq) {
        sent->own_op();
    }
}

/* ---- its end ---- */

/* What refers to memory of the user, or is awaited, ends here for him */
void vqp::cancel_all()
{
    vqp_tx_iter_t iter;
    vqp_op_t *op;

    if (!is_connected()) {
        return;
    }

    vqp_tx_iter_init(&core.tx, &iter);
    while ((op = vqp_cancel_next(&core, &iter)) != nullptr) {
        if (op->user_kind != 0) {
            op->user_kind = 0;
            sent->cancel((sim::op*)op->user);
        }
    }
}

void vqp::closed()
{
    sent->forget_lost();
    if (is_failed()) {
        return;
    }

    if (is_connected()) {
        sent->check_all_deliverable();
    }
    vqp_conn_close(&slot.conn, owner.w.now);
    owner.run_actions();
}

void vqp::close()
{
    uint32_t seq = core.tx.seq;

    owner.w.trace("%s: endpoint is destroyed", name().c_str());
    user  = nullptr;
    ready = false;
    if (vqp_close(&core)) {
        handle_failure();
        cancel_all();
    } else {
        note_own(seq); /* its barrier */
        tx_progress();
    }
    if (vqp_take_event(&core, VQP_EVENT_CLOSED)) {
        closed();
    }
    schedule();
}

void vqp::conn_end()
{
    bool sent_broken = sent->broken || !is_flushed();
    bool recv_broken = (m_received != nullptr) && m_received->broken;
    bool was_whole   = !is_failed();

    vqp_on_conn_end(&core, (vqp_status_t)slot.conn.status,
                    slot.conn.peer_closed,
                    (user != nullptr) && user->is_waiting());
    handle_failure();
    if (was_whole && (core.state == VQP_STATE_DRAINING)) {
        /* an orderly end loses nothing, if nothing is left */
        sent->broken = sent_broken;
        if (m_received != nullptr) {
            m_received->broken = recv_broken || m_is_destroyed ||
                                 (slot.conn.status != VQP_OK);
        }
    }
    update_ready();
    schedule();
}

void vqp::update_ready()
{
    ready = vqp_may_post(&core, user != nullptr,
                         (user != nullptr) && user->has_pending() &&
                         !user->in_pending());
}

/* ---- rings ---- */

/* The slots that are given have any content */
void vqp::give_ops()
{
    vqp_opring_t *ring;

    while ((ring = vqp_tx_short_ring(&core.tx)) != nullptr) {
        std::vector<vqp_op_t> &ops = (ring == &core.tx.am) ? m_more_am_ops :
                                                             m_more_rma_ops;

        if (!ops.empty()) {
            owner.w.fail("memory", name() + ": a ring of ops wants more a second time");
            return;
        }
        if (owner.w.fault.chance(owner.w.base.ring_fails)) {
            vqp_tx_give_ops(&core.tx, ring, nullptr);
            continue;
        }
        ops.resize(ring->most);
        memset(ops.data(), 0xa5, ops.size() * sizeof(ops[0]));
        vqp_tx_give_ops(&core.tx, ring, ops.data());
    }
}

void vqp::get_ring()
{
    std::vector<char> &ring = m_rings[core.rings.next - 1];
    uint32_t *rkeys         = m_rings_rkeys[core.rings.next - 1];

    if (!ring.empty()) {
        owner.w.fail("memory", name() + ": a ring that is still in use is made");
        return;
    }
    if (owner.w.fault.chance(owner.w.base.ring_fails)) {
        vqp_ring_made(&core, nullptr, nullptr, 0);
        return;
    }
    ring.resize(vqp_ring_wanted(&core));
    ++m_num_rings;
    for (unsigned i = 0; i < RAILS; ++i) {
        rkeys[i] = 0x40000000 + id * 4096 + m_num_rings * 16 + i;
    }
    vqp_ring_made(&core, ring.data(), rkeys, RAILS);
}

void vqp::put_mirror()
{
    unsigned numbers = vqp_mirrors_put(&core);

    for (unsigned i = 0; i < 3; ++i) {
        if (numbers & (1u << i)) {
            std::vector<char>().swap((i == 0) ? m_mirror : m_mirrors[i - 1]);
        }
    }
}

void vqp::get_mirror()
{
    std::vector<char> &mirror = m_mirrors[core.rings.tx_next - 1];

    if (!mirror.empty()) {
        owner.w.fail("memory", name() + ": a mirror that is still in use is made");
        return;
    }
    if (owner.w.fault.chance(owner.w.base.ring_fails)) {
        vqp_mirror_made(&core, nullptr, nullptr);
        return;
    }
    mirror.resize(vqp_mirror_wanted(&core));
    vqp_mirror_made(&core, mirror.data(), owner.lkeys);
}

bool vqp::get_first_mirror()
{
    if (!vqp_can_use_mirror(&core)) {
        return false;
    }
    if (!m_mirror.empty() && !vqp_has_event(&core, VQP_EVENT_MIRROR_PUT)) {
        owner.w.fail("memory", name() + ": the first mirror was not given back");
        return false;
    }
    if (!m_mirror.empty() || owner.find_mirror()) {
        m_mirror.resize(owner.p.ring);
        vqp_first_mirror_made(&core, m_mirror.data(), owner.lkeys);
        owner.w.trace("%s: has a mirror of ring 0", name().c_str());
    } else {
        vqp_first_mirror_made(&core, nullptr, nullptr);
    }
    if (vqp_take_event(&core, VQP_EVENT_TIMER)) {
        set_timer();
    }
    return !vqp_lacks_mirror(&core);
}

bool vqp::give_up_first_mirror()
{
    if (!vqp_take_mirror(&core)) {
        return false;
    }
    std::vector<char>().swap(m_mirror);
    owner.w.trace("%s: gives its mirror to another one", name().c_str());
    schedule(); /* a message may have waited */
    return true;
}

bool vqp::ask_for_first_mirror()
{
    if (!vqp_ask_for_mirror(&core)) {
        return false;
    }
    schedule(); /* what it has in flight is to be confirmed */
    return true;
}

bool vqp::allows(uint64_t addr, uint64_t length, uint32_t rkey,
                 unsigned rail) const
{
    const char *begin = (const char*)(uintptr_t)addr;
    const char *end   = begin + length;

    for (unsigned i = 0; i < 2; ++i) {
        if ((begin >= m_rings[i].data()) &&
            (end <= m_rings[i].data() + m_rings[i].size())) {
            return rkey == m_rings_rkeys[i][rail];
        }
    }
    for (const std::vector<char> *memory : {&m_ring, &m_cells_in}) {
        if ((begin >= memory->data()) &&
            (end <= memory->data() + memory->size())) {
            return rkey == m_ring_rkeys[rail];
        }
    }
    if ((begin == owner.scratch.data()) && (length <= VQP_SCRATCH_SIZE)) {
        return rkey == owner.scratch_rkeys[rail];
    }
    return owner.owns(begin, length) && (rkey == owner.heap_rkeys[rail]);
}

uint32_t vqp::any_qpn(unsigned path, uint32_t imm)
{
    /* A replay may come on any path, but the cell of a control datagram is
     * the one that it was sent on */
    if (!(imm & VQP_IMM_CREDIT)) {
        path = (unsigned)owner.w.fault.below(core.tx.paths.count);
    }
    return m_qps[path]->qpn;
}

bool vqp::is_busy() const
{
    const vqp_tx_t &tx = core.tx;

    return !is_connected() || is_failed() || (vqp_tx_outstanding(&tx) > 0) ||
           !vqp_opring_is_empty(&tx.am) || !vqp_opring_is_empty(&tx.rma) ||
           (core.rx.window.ahead > 0) || (tx.fc.fsn_next != tx.fc.fsn_peer);
}

std::string vqp::name() const
{
    return "node " + std::to_string(owner.index) + " vqp " +
           std::to_string(id);
}

std::string vqp::str() const
{
    std::ostringstream os;

    const vqp_tx_t &tx = core.tx;

    os << name() << ": " << vqp_conn_state_name(slot.conn.state)
       << (slot.conn.owned ? " owned " : " ") << vqp_state_name(core.state)
       << (ready ? " ready" : "") << ", slow " << tx.slow
       << (tx.fc.requested ? " requests credit" : "") << ", am "
       << vqp_opring_count(&tx.am) << " (" << tx.am.tail - tx.am.post
       << " to post), rma " << vqp_opring_count(&tx.rma) << " ("
       << tx.rma.tail - tx.rma.post << " to post), fsn next "
       << tx.fc.fsn_next << " out " << vqp_tx_fsns_out(&tx) << " reserved "
       << tx.fc.fsn_reserved << " limit " << tx.cfg.fsn_window << ", ring out "
       << tx.fc.ring_head - tx.fc.ring_peer << " unconfirmed "
       << tx.fc.ring_head - tx.fc.ring_local << ", window base "
       << core.rx.window.base << " ahead " << core.rx.window.ahead
       << ", barriers " << tx.barriers << "; " << sent->str();
    for (const vqp_opring_t *ring : {&tx.am, &tx.rma}) {
        for (uint32_t pos = ring->head; is_connected() && (pos != ring->tail) &&
                                        (pos - ring->head < 8); ++pos) {
            const vqp_op_t *o = &ring->ops[pos & ring->mask];

            os << "\n    " << ((ring == &tx.am) ? "AM" : "RMA") << " op " << pos
               << ": " << kind_name(o->kind) << " seq " << o->seq << " pending "
               << o->pending << " flags 0x" << std::hex << o->flags << std::dec
               << " offset " << o->offset << " of " << o->length;
        }
    }
    for (unsigned i = 0; is_connected() && (i < tx.paths.count); ++i) {
        const vqp_path_t &path = paths[i];

        if ((vqp_path_outstanding(&path) == 0) &&
            (path.fo.state == VQP_PATH_UP) && !vqp_path_has_replay(&path)) {
            continue;
        }
        os << "\n    path " << i << " " << vqp_path_state_name(path.fo.state)
           << (path.up ? "" : " not up") << " replays "
           << (uint16_t)(path.fo.replay_end - path.fo.replay) << " to "
           << (unsigned)path.fo.target
           << ": outstanding " << vqp_path_outstanding(&path)
           << " unsignaled "
           << (uint16_t)(path.tail - path.signaled) << " bytes " << path.bytes
           << " reads " << path.reads << " rma " << path.rma;
    }
    return os.str();
}

} /* namespace sim */
