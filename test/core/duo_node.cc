/* One side of a pair: the glue that serves its program. See duo.h. */
#include "duo.h"

#include <algorithm>
#include <cstring>
#include <sstream>

duo_node::duo_node(duo &world, unsigned index, const duo_params &params) :
    m_world(world), m_index(index), m_params(params),
    m_paths(params.num_paths), m_inflight(params.num_paths),
    m_am_ops(params.am_ops), m_rma_ops(params.rma_ops),
    m_fsn_path(params.window), m_map(params.window), m_ring(params.ring_size),
    m_mirror(params.ring_size), m_cells_in(params.num_paths * VQP_CELL_STRIDE),
    m_cells_out(params.num_paths * VQP_CELL_STRIDE), m_heap(DUO_HEAP_SIZE),
    m_batch(new vqp_batch_t), m_wires(params.num_paths),
    m_delivered(params.num_paths), m_dead(params.num_paths),
    m_last_deliver(params.num_paths), m_last_ack(params.num_paths),
    m_receives(params.num_paths, params.imms_max + params.rx_batch),
    m_to_repost(params.num_paths), m_next_pos(params.num_paths),
    m_todo(params.actions)
{
    for (unsigned i = 0; i < 2; ++i) {
        m_lkeys[i] = 200 + 10 * index + i;
        m_rkeys[i] = 100 + 10 * index + i;
    }
    duo_fill(m_heap.data(), m_heap.size(), DUO_HEAP_SEED);
}

uint32_t duo_node::random(uint32_t below)
{
    return (uint32_t)(m_world.rng() % below);
}

void duo_node::fail(const std::string &text)
{
    m_world.fail("side " + std::to_string(m_index) + ": " + text);
}

void duo_node::setup_tx()
{
    vqp_tx_config_t cfg {};

    cfg.ring_size    = m_params.ring_size;
    cfg.fsn_window   = m_params.window;
    cfg.first_fsn    = m_params.first_fsn;
    cfg.path_cap     = m_params.path_cap;
    cfg.signal_every = m_params.signal_every;
    cfg.inline_max   = m_params.inline_max;
    cfg.frag_shift   = m_params.frag_shift;
    cfg.min_shift    = m_params.min_shift;
    cfg.notify       = m_params.notify;
    cfg.sched        = m_params.sched;
    cfg.order_all    = m_params.order_all;
    cfg.comp_post    = m_params.comp_post;
    cfg.no_fast      = m_params.no_fast;
    cfg.mirror       = m_mirror.data();
    cfg.local_lkeys  = m_lkeys;
    cfg.ring_raddr   = (uintptr_t)peer->m_ring.data();
    cfg.cells_raddr  = (uintptr_t)peer->m_cells_in.data();
    cfg.ring_rkeys   = peer->m_rkeys;
    cfg.cells        = (vqp_cell_t*)m_cells_out.data();
    cfg.amo_results  = m_amo_results.data();
    vqp_tx_init(&tx, &cfg, m_am_ops.data(), m_params.am_ops, m_rma_ops.data(),
                m_params.rma_ops, m_paths.data(), m_params.num_paths,
                m_fsn_path.data(), &stats);
    m_iov_ext.resize(vqp_tx_iov_ext_count(&tx, DUO_MAX_IOV));
    vqp_tx_set_iov_ext(&tx, m_iov_ext.data(), DUO_MAX_IOV);
}

void duo_node::connect()
{
    uint16_t entries = 1;

    while (entries <= m_params.depth) {
        entries = (uint16_t)(entries * 2);
    }

    m_amo_results.resize((size_t)entries * m_params.num_paths);
    for (unsigned i = 0; i < m_params.num_paths; ++i) {
        vqp_path_t &path = m_paths[i];

        m_inflight[i].resize(entries);
        path.inflight  = m_inflight[i].data();
        path.mask      = (uint16_t)(entries - 1);
        path.depth     = m_params.depth;
        path.reads_max = m_params.reads_max;
        path.imms_max  = m_params.imms_max;
        path.index     = (uint8_t)i;
        path.rail      = (uint8_t)(i % 2);
        path.peer_rail = (uint8_t)((i + 1) % 2);
        path.up        = 1;
        path.head      = path.tail = m_next_pos[i] = (uint16_t)-20;
    }

    setup_tx();
    vqp_rx_init(&rx, m_ring.data(), m_params.ring_size, m_cells_in.data(),
                m_map.data(), m_params.window, m_params.first_fsn, &stats);

    /* As if there had been much traffic already: all counters wrap soon */
    tx.seq        = m_params.first_pos;
    tx.ring_head  = tx.ring_peer = tx.ring_local = m_params.first_pos;
    rx.ring_pos   = rx.told_ring = m_params.first_pos;
    m_last_seq    = m_params.first_pos - 1;
    tx.am.head    = tx.am.post = tx.am.tail = (uint32_t)-5;
    tx.rma.head   = tx.rma.post = tx.rma.tail = (uint32_t)-3;
}

/* ---- the glue ---- */

void duo_node::pump()
{
    if (tx.failed) {
        return;
    }

    do {
        vqp_credit_t credit = vqp_rx_credit(&rx);
        uint64_t controls   = stats.controls_tx;

        tx.now = m_world.now * 1000;
        vqp_tx_dispatch(&tx, m_batch.get(), &credit);
        if (stats.controls_tx != controls) {
            vqp_rx_told(&rx, &credit);
        }
        post(*m_batch);
    } while (!tx.failed && (m_batch->count == VQP_BATCH_MAX));
}

void duo_node::on_send(const duo_cqe &cqe)
{
    vqp_path_t *path = &m_paths[cqe.path];
    tx.now           = m_world.now * 1000;
    unsigned count   = vqp_tx_retire(&tx, path, cqe.pos, cqe.status);

    if (count == 0) {
        fail("a completion for nothing");
    }
    if ((cqe.status != VQP_OK) && !tx.failed) {
        break_all();
    }
}

void duo_node::on_recv(const duo_cqe &cqe)
{
    uint32_t flags;
    int passed;

    if (++m_to_repost[cqe.path] >= m_params.rx_batch) {
        m_receives[cqe.path]  += m_to_repost[cqe.path];
        m_to_repost[cqe.path]  = 0;
    }

    passed = vqp_rx_imm(&rx, cqe.imm);
    if (passed < 0) {
        fail("protocol error: immediate " + std::to_string(cqe.imm));
        return;
    }

    if (cqe.imm & VQP_IMM_CONTROL) {
        vqp_credit_t credit = vqp_rx_control(&rx, cqe.path);

        if (vqp_tx_credit(&tx, credit.ring, credit.fsn) < 0) {
            fail("protocol error: credit of a control message");
        }
    }

    if (passed) {
        on_flags(cqe.imm & VQP_IMM_FLAGS);
        while (vqp_window_next(&rx.window, &flags)) {
            on_flags(flags);
        }
    }
}

void duo_node::on_flags(uint32_t flags)
{
    vqp_rx_am_t am;

    if (!(flags & VQP_IMM_LAST)) {
        return;
    }

    if (vqp_rx_record(&rx, flags, &am) != VQP_OK) {
        fail("protocol error: not a record");
        return;
    }
    if (vqp_tx_credit(&tx, am.credit.ring, am.credit.fsn) < 0) {
        fail("protocol error: credit of a record");
        return;
    }
    deliver_am(am);
    vqp_rx_consumed(&rx, &am);
}

/* The handler */
void duo_node::deliver_am(const vqp_rx_am_t &am)
{
    uint32_t id = (uint32_t)m_ams_seen + 1000 * (1 - m_index);

    if (m_ams_seen >= peer->m_ams.size()) {
        fail("an AM that nobody sent");
        return;
    }

    const duo_am &sent = peer->m_ams[m_ams_seen++];

    if ((am.length != sent.length) || (am.id != sent.id) ||
        !duo_matches((const char*)am.data, am.length, id)) {
        fail("AM " + std::to_string(m_ams_seen - 1) + " is not the next sent");
    }
    if (!peer->precede(sent.after)) {
        fail("AM delivered before what a fence puts in front of it");
    }

    if ((random(100) < m_params.echo_percent) && !tx.failed &&
        send_am(random(40), 40, false)) {
        pump();
    }
}

/* Have the first @a effects been executed at the peer? */
bool duo_node::precede(size_t effects)
{
    while ((m_effects_seen < m_effects.size()) &&
           (m_effects[m_effects_seen]->effect ==
            m_effects[m_effects_seen]->length)) {
        ++m_effects_seen;
    }
    return m_effects_seen >= effects;
}

void duo_node::check_done(duo_op &op, const vqp_done_t &done)
{
    if (++op.reported != 1) {
        fail("op reported twice");
    }
    if (!op.awaited) {
        fail("op reported that nobody waits for");
    }
    if (m_params.comp_post && (vqp_seq_diff(op.seq, m_last_seq) <= 0)) {
        fail("op reported out of posting order");
    }
    m_last_seq = op.seq;

    if ((done.kind != op.kind) ||
        ((done.status == VQP_OK) == false && !tx.failed)) {
        fail("op reported with a wrong kind or status");
    }
    if (done.status != VQP_OK) {
        return;
    }

    if ((op.kind != VQP_KIND_AM) && (op.effect != op.length)) {
        fail("op reported before it was executed");
    }
    if ((op.kind == VQP_KIND_GET) &&
        !duo_matches(op.memory.data(), op.length, op.pattern,
                 (op.pattern == DUO_HEAP_SEED) ?
                         (uint64_t)(op.remote - peer->m_heap.data()) : 0)) {
        fail("get brought something else");
    }
    if ((op.kind == VQP_KIND_CSWAP) && (op.result != op.expected)) {
        fail("cswap found something else");
    }
    if (op.kind == VQP_KIND_FADD) {
        m_fetched.resize(std::max(m_fetched.size(), op.result + 1));
        if (m_fetched[op.result]) {
            fail("two fadds got the same value");
        }
        m_fetched[op.result] = true;
    }

    /* The user does with it what he likes now */
    std::fill(op.memory.begin(), op.memory.end(), (char)0xdd);
}

void duo_node::check_flushes()
{
    uint32_t oldest = vqp_tx_oldest(&tx);

    while (!m_flushes.empty() &&
           (vqp_seq_diff(oldest, m_flushes.front().mark) >= 0)) {
        if (!tx.failed && !precede(m_flushes.front().effects)) {
            fail("flush ended before what it waits for");
        }
        m_flushes.erase(m_flushes.begin());
    }
}

void duo_node::report()
{
    vqp_done_t done;

    while (vqp_tx_pop_done(&tx, &done)) {
        check_done(*(duo_op*)done.user, done);
    }
    check_flushes();
}

void duo_node::progress()
{
    unsigned budget = 1 + random(16);

    if ((stalled > m_world.now) || (m_cq.empty() && !m_touched)) {
        return;
    }

    m_touched = false;

    for (; (budget > 0) && !m_cq.empty(); --budget) {
        duo_cqe cqe = m_cq.front();

        m_cq.pop_front();
        if (!cqe.is_recv) {
            on_send(cqe);
        } else if (!tx.failed) {
            on_recv(cqe);
        }
        report();
    }

    if (vqp_rx_must_tell(&rx)) {
        vqp_tx_want_control(&tx);
    }
    pump();
    report();
    m_waiting = false;
    act();
}

/* ---- the end ---- */

bool duo_node::is_idle() const
{
    if (!m_cq.empty() || m_touched ||
        ((m_todo > 0) && !m_waiting && !tx.failed)) {
        return false;
    }

    return std::all_of(m_wires.begin(), m_wires.end(),
                       [](const std::deque<duo_wr> &w) { return w.empty(); });
}

bool duo_node::is_satisfied() const
{
    for (const auto &op : m_ops) {
        if (op->signal && (op->reported == 0)) {
            return false;
        }
    }
    return (m_todo == 0) && m_flushes.empty() &&
           (m_ams_seen == peer->m_ams.size());
}

void duo_node::check_heap()
{
    for (const duo_op *op : m_effects) {
        uint64_t found = 0;

        if ((op->kind == VQP_KIND_PUT) &&
            !duo_matches(op->remote, op->length, op->id)) {
            fail("put wrote something else");
        }
        if (op->kind == VQP_KIND_CSWAP) {
            memcpy(&found, op->remote, sizeof(found));
            if (found != op->id) {
                fail("cswap wrote something else");
            }
        }
    }
    if (peer->m_counter != m_fadds) {
        fail("fadds were lost");
    }
}

void duo_node::check_drained()
{
    for (const vqp_path_t &path : m_paths) {
        if ((path.bytes != 0) || (path.reads != 0) || (path.rma != 0) ||
            (vqp_path_outstanding(&path) != 0)) {
            fail("a path is not empty after a flush");
        }
    }
    for (const auto &op : m_ops) {
        if (op->reported != (op->awaited ? 1 : 0)) {
            fail("op not reported");
        }
    }
    if (!vqp_opring_is_empty(&tx.am) || !vqp_opring_is_empty(&tx.rma) ||
        (tx.fsn_reserved != 0) || vqp_tx_has_work(&tx) ||
        (vqp_tx_oldest(&tx) != tx.seq) || (vqp_tx_outstanding(&tx) != 0) ||
        vqp_tx_uses_buffers(&tx)) {
        fail("the sender is not empty");
    }
    if ((rx.window.ahead != 0) || (rx.ring_pos != peer->tx.ring_head) ||
        (rx.window.base != peer->tx.fsn_next) ||
        (tx.ring_local != tx.ring_head)) {
        fail("the two sides do not agree");
    }
    check_heap();
}

void duo_node::check_broken()
{
    for (const auto &op : m_ops) {
        if (op->reported != (op->awaited ? 1 : 0)) {
            fail("op not reported after the failure");
        }
    }
    for (const vqp_path_t &path : m_paths) {
        if (path.bytes != 0) {
            fail("a path is not empty after the failure");
        }
    }
    if (!vqp_opring_is_empty(&tx.am) || !vqp_opring_is_empty(&tx.rma) ||
        (vqp_tx_outstanding(&tx) != 0) || !m_flushes.empty()) {
        fail("the sender is not empty after the failure");
    }
}

std::string duo_node::str() const
{
    std::ostringstream os;

    os << "side " << m_index << ": todo " << m_todo
       << (m_waiting ? " waiting" : "") << " plan " << m_plan.call << ", slow "
       << tx.slow << (tx.starving ? " starving" : "") << ", am "
       << tx.am.tail - tx.am.head << " (" << tx.am.tail - tx.am.post
       << " to post), rma " << tx.rma.tail - tx.rma.head << " ("
       << tx.rma.tail - tx.rma.post << " to post), fsns out "
       << vqp_tx_fsns_out(&tx) << " reserved " << tx.fsn_reserved << " limit "
       << tx.fsn_limit << ", ring out " << tx.ring_head - tx.ring_peer
       << " unconfirmed " << tx.ring_head - tx.ring_local << ", window ahead "
       << rx.window.ahead << ", AMs sent " << m_ams.size() << " seen "
       << m_ams_seen << ", effects " << m_effects_seen << "/"
       << m_effects.size() << ", fenced " << m_fenced;
    for (const vqp_path_t &path : m_paths) {
        os << "\n    path " << (unsigned)path.index << ": outstanding "
           << vqp_path_outstanding(&path) << " unsignaled " << path.unsignaled
           << " bytes " << path.bytes << " imms " << path.imms << " reads "
           << path.reads << " rma " << path.rma;
    }
    return os.str();
}
