/* One side of a connection: its paths die and come back. See vqp.h. */
#include "node.h"
#include "vqp.h"
#include "world.h"

extern "C" {
#include "core/failover/rails.h"
}

namespace sim {

void vqp::note_executed(unsigned path, uint16_t slot)
{
    for (cover &c : m_covers[path]) {
        if (c.slot == slot) {
            c.executed = true;
            return;
        }
    }
}

void vqp::note_read(unsigned path, uint16_t slot)
{
    for (cover &c : m_covers[path]) {
        if (c.slot == slot) {
            c.read = true;
            return;
        }
    }
}

/* ---- what the core asks for ---- */

void vqp::quiesce(vqp_path_t &path)
{
    bool is_destroyed = owner.w.may_disturb() &&
                   owner.w.fault.chance(owner.w.base.qp_fails);

    if ((path.fo.status == VQP_OK) && !m_covers[path.index].empty()) {
        owner.w.fail("moves", "a path is moved under its frags");
    }
    if (is_destroyed) {
        m_qps[path.index]->lose();
        m_lost[path.index] = true; /* what it has left is polled first */
        return;
    }

    m_qps[path.index]->to_error();
    m_qps[path.index]->post_recv(1);
    vqp_path_quiesced(&core, &path, 0, 1);
}

void vqp::check_lost()
{
    for (unsigned i = 0; i < num_paths; ++i) {
        if (m_lost[i] && !owner.has_cqe(*this, i)) {
            m_lost[i] = false;
            if (is_failed()) { /* meanwhile */
                m_is_destroyed = true;
                m_covers[i].clear();
                vqp_path_destroyed(&core, i);
            } else {
                vqp_path_quiesced(&core, &paths[i], 1, 0);
            }
        }
    }
}

void vqp::count(vqp_path_t &path)
{
    static const vqp_source_t sources[] = {VQP_SOURCE_IMM, VQP_SOURCE_PSN,
                                           VQP_SOURCE_MSN, VQP_SOURCE_PSN};
    vqp_source_t source = sources[owner.w.base.source];

    vqp_path_counted(&core, &path, source,
                     m_qps[path.index]->executed(source) +
                     ((owner.w.base.source == 3) ? 0x400000 : 0));
}

void vqp::destroy(vqp_path_t &path)
{
    if (!vqp_path_is_off(&path) || !m_covers[path.index].empty()) {
        owner.w.fail("slots", "a queue pair is destroyed that is in use");
    }
    m_qps[path.index]->to_error();
}

/* A port is down now and then */
uint32_t vqp::good_rails()
{
    uint32_t good = 0;

    for (unsigned i = 0; i < RAILS; ++i) {
        good |= (uint32_t)!(owner.w.may_disturb() &&
                            owner.w.fault.chance(owner.w.base.port_fails)) << i;
    }
    return good;
}

void vqp::rebuild(vqp_path_t &path)
{
    unsigned i = path.index;
    uint32_t good = good_rails();
    unsigned rail = vqp_rails_choose(&core, &path, good, owner.w.now);

    if (owner.w.may_disturb() && (owner.w.base.waits > 0) &&
        owner.w.fault.chance(owner.w.base.waits)) {
        vqp_path_rebuild_later(&core, &path, owner.w.now + owner.w.fault.below(1000000));
        return;
    }
    uint64_t later = vqp_path_take_turn(&core, &path, &owner.turns, owner.w.now);
    if (later != 0) {
        vqp_path_rebuild_later(&core, &path, later);
        return;
    }

    if (!(good & (1u << rail)) ||
        (owner.w.may_disturb() && owner.w.fault.chance(owner.w.base.qp_fails))) {
        vqp_path_rebuilt(&core, &path, 0, 0);
        return;
    }

    if (!m_covers[i].empty()) {
        owner.w.fail("slots", "a queue pair is destroyed under its frags");
    }
    if (rail != path.rail) {
        owner.w.trace("%s: path %u moves from rail %u to %u", name().c_str(), path.index,
                      path.rail, rail);
        path.rail = (uint8_t)rail;
        vqp_rails_on_moved(&core, &path);
    }
    m_qps[i].reset();
    set_depth(path, vqp_path_next_depth(&core, &path));
    path.qp_tag = (uint16_t)(path.qp_tag + 1);
    m_qps[i].reset(new qp(owner.w, *this, owner.w.next_qpn++, i, path.rail,
                          path.tail));
    vqp_path_rebuilt(&core, &path, m_qps[i]->qpn, 1);
}

void vqp::reconnect(vqp_path_t &path)
{
    if ((m_qps[path.index]->state == qp::ERROR) ||
        (owner.w.may_disturb() && owner.w.fault.chance(owner.w.base.qp_fails))) {
        vqp_path_connected(&core, &path, VQP_ERR_IO);
        return;
    }

    if (owner.w.may_disturb() && owner.w.fault.chance(owner.w.base.qp_fails)) {
        m_qps[path.index]->is_unresolved = true;
        vqp_path_connected(&core, &path, has_rails() ? VQP_ERR_UNREACHABLE :
                                                       VQP_INPROGRESS);
        return;
    }

    connect_qp(path.index, path.fo.peer_qpn);
    vqp_path_connected(&core, &path, VQP_OK);
}

void vqp::send_path_messages(vqp_path_t &path)
{
    vqp_conn_route_t own {path.rail, path.peer_rail};
    vqp_conntab_action_t action;
    vqp_path_msg_t msg;

    while (vqp_path_message(&core, &path, owner.w.now, &msg)) {
        owner.w.trace("%s: path %u sends %s, epoch %u, flags 0x%x",
                      name().c_str(), path.index, vqp_wire_type_name(msg.type),
                      msg.epoch, msg.flags);
        if (vqp_conntab_path_message(&slot.conn, msg.type, msg.flags,
                                     msg.epoch,
                                     (msg.type == VQP_WIRE_PATH_DOWN) ?
                                             (const void*)&msg.down : &msg.up,
                                     msg.is_early ? &own : NULL, &action)) {
            owner.send(action);
        }
    }
}

/* The peer was found to be dead: is it? Many lost messages prove the wrong thing */
void vqp::check_dead()
{
    for (const auto &n : owner.w.nodes) {
        if (n->iface_id() != slot.conn.peer_id) {
            continue;
        }
        if (owner.w.base.ud_loss <= 10) {
            owner.w.fail("alive", name() + " takes a peer for dead that is there");
        }
        owner.w.hard_fault();
    }
}

void vqp::ping()
{
    vqp_conntab_action_t actions[2];
    vqp_conn_answers_t answers;
    unsigned count = vqp_conn_ping(&slot.conn, (1u << RAILS) - 1, owner.w.now,
                                   &answers, actions);

    owner.w.trace("%s: asks whether its peer is there", name().c_str());
    for (unsigned i = 0; i < count; ++i) {
        owner.send(actions[i]);
    }
    vqp_alive_pinged(&core, &answers, owner.w.now);
    if (core.alive.is_dead && !sent->crashed) {
        check_dead();
    }
    handle_failure();
}

bool vqp::handle_path_event(vqp_event_t event)
{
    vqp_path_t &path = paths[core.event_path];

    switch (event) {
    case VQP_EVENT_PATH_STATE:
        owner.w.trace("%s: path %u is %s", name().c_str(), path.index,
                      vqp_path_state_name(path.fo.state));
        path.fo.logged = path.fo.state;
        break;
    case VQP_EVENT_PATH_QUIESCE:
        quiesce(path);
        break;
    case VQP_EVENT_PATH_COUNT:
        count(path);
        check_trims();
        break;
    case VQP_EVENT_PATH_DESTROY:
        destroy(path);
        break;
    case VQP_EVENT_PATH_REBUILD:
        rebuild(path);
        break;
    case VQP_EVENT_PATH_CONNECT:
        reconnect(path);
        break;
    case VQP_EVENT_PATH_REHASH:
        vqp_path_rehashed(&core, &path, (owner.w.base.rehash == 1) ? VQP_OK :
                                                                   VQP_ERR_UNSUPPORTED);
        break;
    default:
        send_path_messages(path);
        break;
    }
    handle_failure();
    schedule(); /* there may be something to send */
    return true;
}

/* The process may compute: its control plane answers, and the message waits */
void vqp::on_path_message(const vqp_wire_msg_t &msg)
{
    unsigned path = (msg.hdr.type == VQP_WIRE_PATH_UP) ? msg.path_up.path :
                                                         msg.path_down.path;
    vqp_path_msg_t path_msg = vqp_path_msg_of(&msg);
    vqp_conntab_action_t action;
    vqp_path_msg_t answer;
    unsigned todo;

    if (path >= num_paths) {
        return;
    }

    todo = vqp_inbox_put(&m_inboxes[path], &path_msg, &answer);
    if ((todo & VQP_INBOX_ANSWER) &&
        vqp_conntab_path_message(&slot.conn, answer.type, answer.flags, answer.epoch,
                                 &answer.down, NULL, &action)) {
        owner.send(action);
    }
    m_has_messages |= (todo & VQP_INBOX_TAKE) != 0;
    if (!owner.w.may_disturb() || !owner.w.move.chance(owner.w.base.busy)) {
        take_path_messages();
    }
}

/* As a call of progress does */
void vqp::take_path_messages()
{
    vqp_path_msg_t msg;

    if (!m_has_messages) {
        return;
    }

    m_has_messages = false;
    for (vqp_inbox_t &inbox : m_inboxes) {
        for (unsigned type = 0; type < VQP_INBOX_TYPES; ++type) {
            if (vqp_inbox_take(&inbox, &core, type, &msg)) {
                vqp_on_path_message(&core, &msg, owner.w.now);
                check_trims();
            }
        }
    }
    handle_failure();
    schedule();
}

/* @a pause: what is due waits for completions to be polled, perhaps */
void vqp::set_timer(uint64_t pause)
{
    uint64_t next = vqp_next_timeout(&core);

    (void)vqp_take_event(&core, VQP_EVENT_TIMER);
    if (next < m_timer) {
        m_timer = std::max(next, owner.w.now + pause);
        owner.w.at(m_timer, EV_TIMER, id);
    }
}

void vqp::check_gap()
{
    if ((m_received != nullptr) && !m_received->stalled &&
        !m_received->broken && !m_received->tainted) {
        owner.w.fail("contract", name() + ": an immediate is missing, and "
                                          "no path stood still");
    }
}

void vqp::on_timer()
{
    bool was_failed = is_failed();
    uint32_t seq    = core.tx.seq;

    if (owner.w.now < m_timer) {
        return; /* an earlier one was set since, and has done it */
    }

    m_timer = UINT64_MAX;
    take_path_messages();
    if (vqp_wants_rails(&core, owner.w.now)) {
        core.good_rails = good_rails();
    }
    vqp_on_time(&core, owner.w.now, owner.is_drained());
    if (!was_failed && (core.gap.failed != 0)) {
        check_gap();
    }
    if (owner.w.now % 4 == 0) { /* the port is up again, perhaps */
        for (unsigned i = 0; is_connected() && (i < num_paths); ++i) {
            (void)vqp_path_retry(&core, &paths[i]);
        }
    }
    note_own(seq);
    handle_failure();
    set_timer(1000);
    schedule();
}

/* ---- the oracle's own view ---- */

/* The core has ended what it holds for executed. The truth is known here. */
void vqp::trim(unsigned path)
{
    /* A queue pair that was never connected has executed nothing, whatever counts */
    uint32_t source = paths[path].fo.peer.source;
    bool is_exact   = (owner.w.base.source == 3) ? (source == VQP_SOURCE_MSN) :
                                                   (source != VQP_SOURCE_IMM);
    size_t proven = 0, fenced = 0, i = 0;

    for (const cover &c : m_covers[path]) {
        ++i;
        if (c.executed && (is_exact || (c.opcode == VQP_WR_WRITE_IMM))) {
            proven = i;
        }
    }
    i = 0;
    for (const cover &c : m_covers[path]) {
        if (c.fence && (i < proven)) {
            fenced = i; /* it waited for the answers before it */
        }
        ++i;
    }

    i = 0;
    for (const cover &c : m_covers[path]) {
        bool is_done     = i < fenced;
        bool is_executed = i++ < proven;
        bool is_atomic   = (c.kind == VQP_KIND_FADD) ||
                           (c.kind == VQP_KIND_CSWAP);

        if (c.owner == nullptr) {
            continue;
        }
        if (is_done) {
            sent->confirmed(c.owner);
        } else if (is_atomic && (is_executed || !is_exact)) {
            if (c.owner->awaited && owner.w.base.gives_up_only() && !is_failed()) {
                owner.w.fail("silence", "a result is lost, and nothing was broken");
            }
            c.owner->may_fail = true;
            sent->confirmed(c.owner);
            if (!is_executed && !c.owner->awaited) {
                owner.w.trace("%s: path %u: op %zu may be lost", name().c_str(), path,
                              (size_t)c.owner->index);
                sent->lost(c.owner);
            }
        } else if (is_executed && (c.kind != VQP_KIND_GET)) {
            sent->confirmed(c.owner);
        } else {
            if (core.failover.is_exact && !is_exact && !is_failed() &&
                (c.kind == VQP_KIND_PUT)) {
                owner.w.fail("exact", "a put may be executed twice");
            }
            sent->unposted(c.owner, c.length,
                           (c.opcode == VQP_WR_WRITE_IMM) &&
                           (c.imm & VQP_IMM_LAST),
                           (c.kind == VQP_KIND_GET) ? c.read : c.executed);
        }
    }
    m_covers[path].clear();
}

void vqp::check_trims()
{
    for (unsigned i = 0; i < core.tx.paths.count; ++i) {
        const vqp_failover_t &fo = paths[i].fo;
        unsigned state  = (fo.state == VQP_PATH_SILENT) ? fo.resume : fo.state;
        bool is_trimmed = fo.trimmed && (state > VQP_PATH_LEAVE); /* in this epoch */

        if (is_trimmed && !m_trimmed[i]) {
            trim(i);
        }
        m_trimmed[i] = is_trimmed;
    }
}

} /* namespace sim */
