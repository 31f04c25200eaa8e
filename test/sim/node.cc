/* An interface, see node.h. */
#include "node.h"
#include "ep.h"
#include "world.h"

#include <algorithm>
#include <cstdlib>

namespace sim {

node::node(world &a_w, unsigned a_index, const params &a_p) :
    w(a_w), index(a_index), p(a_p), ud_qpn(a_w.next_qpn++),
    scratch(2 * VQP_SCRATCH_SIZE),
    m_heap((char*)calloc(1, a_p.heap * 1024 + 64), &free),
    m_heap_size(a_p.heap * 1024 + 64)
{
    for (unsigned i = 0; i < vqp::RAILS; ++i) {
        lkeys[i]      = 0x2000 + 16 * index + i;
        heap_rkeys[i] = 0x80001000 + 16 * index + i;
        scratch_rkeys[i] = 0x80002000 + 16 * index + i;
    }
    vqp_turns_init(&turns, 10000000, (uint32_t)p.quota);
    config.retry_first     = 10000000;
    config.retry_max       = 200000000;
    config.connect_timeout = 5000000000ull;
    config.close_timeout   = 5000000000ull;
    config.num_rails       = vqp::RAILS;
    config.max_unproven    = (uint32_t)p.unproven;
    config.hash_order      = 2; /* chains */
    config.num_idle        = (uint32_t)p.idle_peers;
    config.features        = (p.failover ? VQP_WIRE_FEATURE_FAILOVER |
                                           VQP_WIRE_FEATURE_ELASTIC : 0) |
                             ((p.failover && p.rerail) ? VQP_WIRE_FEATURE_RAILS : 0) |
                             ((p.notify == VQP_NOTIFY_SPRAY) ?
                                      VQP_WIRE_FEATURE_SPRAY : 0);
    init_table();
}

node::~node() = default;

void node::init_table()
{
    config.iface_id  = w.work.next() | 1;
    config.secret[0] = w.work.next();
    config.secret[1] = ~config.secret[0];
    m_mem.assign(vqp_conntab_mem_size(&config) / 8 + 1, 0);
    if (vqp_conntab_init(&table, &config, m_mem.data()) != VQP_OK) {
        w.fail("contract", "the table refuses its configuration");
    }
}

void node::restart()
{
    w.trace("node %u: process dies", index);
    m_absent = w.now + w.base.gone;
    for (auto &v : vqps) {
        v->sent->broken = v->sent->crashed = true;
        if (v->received() != nullptr) {
            v->received()->broken = true;
        }
    }
    eps.clear();
    vqps.clear();
    scheduled.clear();
    m_deferred.clear();
    m_slow.clear();
    m_created.clear();
    for (auto &cq : m_cqs) {
        cq.clear();
    }
    m_tick = UINT64_MAX;
    init_table();
}

/* ---- memory ---- */

char *node::target(uint64_t length)
{
    char *place = m_heap.get() + m_heap_used;

    length = (length + 7) & ~7ul;
    if (m_heap_used + length > m_heap_size) {
        return nullptr;
    }
    m_heap_used += length;
    return place;
}

bool node::owns(const char *begin, uint64_t length) const
{
    return (begin >= m_heap.get()) &&
           (begin + length <= m_heap.get() + m_heap_size);
}

bool node::find_mirror()
{
    uint64_t used = 0;

    for (const auto &v : vqps) {
        used += (v != nullptr) && v->has_first_mirror();
    }
    if ((w.base.mirrors == 0) || (used < w.base.mirrors)) {
        return true;
    }

    for (const auto &v : vqps) {
        if ((v != nullptr) && v->has_first_mirror() && v->give_up_first_mirror()) {
            return true;
        }
    }
    for (const auto &v : vqps) {
        if ((v != nullptr) && v->has_first_mirror() && v->ask_for_first_mirror()) {
            break;
        }
    }
    return false;
}

/* ---- the control plane ---- */

vqp_conn_dest_t node::address(unsigned rail) const
{
    vqp_conn_dest_t addr {};

    addr.gid[14] = (uint8_t)(index / 2); /* two on each host */
    addr.gid[15] = (uint8_t)(1 + rail);
    addr.qpn     = ud_qpn;
    addr.rail    = (uint8_t)rail;
    return addr;
}

/* Queue pairs are connected once at most under one number */
void node::note_created(const vqp &v)
{
    bool is_passive_self = (v.slot.conn.peer_id == iface_id()) && v.slot.conn.passive;

    if (!m_created.emplace(v.slot.conn.peer_id, v.slot.conn.number,
                           is_passive_self).second &&
        (w.base.idle_peers > w.base.nodes) && (w.base.crashes == 0) &&
        (w.base.garble == 0)) {
        w.fail("handshake", "number " + std::to_string(v.slot.conn.number) +
                            " is used twice");
    }
}

vqp *node::connect(node &peer)
{
    vqp_conn_params_t params {};
    vqp_conn_dest_t to[vqp::RAILS] {};
    vqp_conn_t *conn;
    vqp *v;

    for (unsigned i = 0; i < vqp::RAILS; ++i) {
        to[i] = peer.address(i);
    }
    conn = vqp_conn_adopt(&table, peer.iface_id(), to, vqp::RAILS, w.now);
    if (conn != nullptr) {
        v = vqp::of(conn);
        if (v->is_failed()) {
            w.fail("handshake", "adopted a connection that has failed");
        }
        if (v->user != nullptr) {
            w.fail("handshake", "adopted twice");
        }
        w.trace("node %u: adopts vqp %u", index, v->id);
        return v;
    }

    vqps.emplace_back(new vqp(*this, w.next_id++));
    v                = vqps.back().get();
    params.cookie    = w.work.next() | 1;
    params.peer_id   = peer.iface_id();
    params.dests     = to;
    params.num_dests = vqp::RAILS;
    params.local     = &v->info;
    if (vqp_conn_connect(&table, &v->slot.conn, &params, w.now) != VQP_OK) {
        w.fail("handshake", "a connection can not be created");
    }
    w.trace("node %u: connects vqp %u to node %u", index, v->id, peer.index);
    return v;
}

void node::create_passive(const vqp_wire_msg_t *req)
{
    vqp_conn_params_t params {};
    vqp *v;

    /* Once for each connection: the peer gives up when it is told so for a time, and time in
     * which all processes stand still is part of that */
    if (w.may_disturb() && w.fault.chance(w.base.no_memory) &&
        m_lacked.insert(req->hdr.src_cookie).second) {
        vqp_conntab_lack(&table, req); /* the peer asks again */
        return;
    }
    if (w.may_disturb() && w.fault.chance(w.base.refuse)) {
        w.hard_fault();
        vqp_conntab_refuse(&table, req);
        return;
    }

    vqps.emplace_back(new vqp(*this, w.next_id++));
    v             = vqps.back().get();
    params.cookie = w.work.next() | 1;
    params.local  = &v->info;
    if (vqp_conn_accept(&table, &v->slot.conn, &params, req, w.now) !=
        VQP_OK) {
        w.fail("handshake", "a connection can not be accepted");
    }
}

void node::connect_qps(vqp &v, const vqp_wire_info_t &peer)
{
    vqp_status_t status;

    status = v.connect(peer);
    if (status == VQP_INPROGRESS) {
        vqp_conn_qps_wait(&v.slot.conn, w.now);
        return;
    }

    note_created(v);
    if (status == VQP_OK) {
        vqp_conn_qps_ready(&v.slot.conn, w.now);
    } else {
        vqp_conn_fail(&v.slot.conn, status, w.now);
    }
}

void node::on_qps(uint32_t vqp_id)
{
    auto it = m_slow.find(vqp_id);
    vqp *v  = w.find_vqp(vqp_id);

    if (it == m_slow.end()) {
        return;
    }
    if ((v != nullptr) && (v->slot.conn.state == VQP_CONN_PEER)) {
        connect_qps(*v, it->second);
    }
    m_slow.erase(it);
    run_actions();
}

void node::send(const vqp_conntab_action_t &action)
{
    datagram d;

    if (action.len > 1024) {
        w.fail("handshake", "a datagram is too long");
    }
    d.to   = action.to.qpn;
    d.from = address(action.to.rail);
    d.data.assign(action.data, action.data + action.len);
    d.type = action.msg_type;
    w.ud.send(d);
}

void node::act(const vqp_conntab_action_t &action)
{
    vqp *v = (action.conn != nullptr) ? vqp::of(action.conn) : nullptr;

    w.trace("node %u: action %s%s%s", index,
            vqp_conntab_action_name(action.type),
            (v != nullptr) ? (" vqp " + std::to_string(v->id)).c_str() : "",
            (action.type == VQP_CONNTAB_SEND) ?
                    (std::string(" ") +
                     vqp_wire_type_name(action.msg_type)).c_str() : "");
    switch (action.type) {
    case VQP_CONNTAB_CREATE_PASSIVE:
        create_passive(action.peer);
        break;
    case VQP_CONNTAB_CONNECT_QPS:
        if (v->is_connected()) {
            w.fail("handshake", "queue pairs are connected twice");
        } else if (w.may_disturb() && w.fault.chance(w.base.slow_qps)) {
            m_slow[v->id] = action.peer->info;
            w.at(w.now + w.fault.below(40000000), EV_QPS, index, v->id);
        } else {
            connect_qps(*v, action.peer->info);
        }
        break;
    case VQP_CONNTAB_SEND:
        send(action);
        break;
    case VQP_CONNTAB_PATH_MSG:
        v->on_path_message(*action.peer);
        break;
    case VQP_CONNTAB_LIVE:
        if (!v->is_connected() || v->cm_live ||
            (v->core.state == VQP_STATE_LIVE)) {
            w.fail("handshake", "LIVE without queue pairs, or twice");
        }
        v->cm_live = true;
        wake();
        break;
    case VQP_CONNTAB_END:
        if ((action.status == VQP_OK) && (v->user != nullptr)) {
            w.fail("handshake", "closed under an endpoint");
        }
        v->cm_end = true;
        wake();
        break;
    default:
        w.fail("handshake", "an unknown action");
        break;
    }
}

void node::run_actions()
{
    vqp_conntab_action_t action;

    if (m_in_action) {
        return;
    }

    m_in_action = true;
    while (!w.failed() && vqp_conntab_next_action(&table, &action)) {
        act(action);
    }
    m_in_action = false;
    set_timer();
}

void node::set_timer()
{
    uint64_t next = vqp_conntab_next_timeout(&table);

    if ((next != VQP_CONNTAB_NEVER) && (next < m_tick)) {
        m_tick = std::max(next, w.now);
        w.at(m_tick, EV_TICK, index);
    }
}

void node::on_tick()
{
    if (w.now < m_tick) {
        return; /* of a timer that was stopped */
    }

    m_tick = UINT64_MAX;
    vqp_conntab_tick(&table, w.now);
    run_actions();
}

void node::on_datagram(const datagram &d)
{
    if (w.now < m_absent) {
        return;
    }
    vqp_conntab_recv(&table, &d.from, d.data.data(), d.data.size(), w.now);
    run_actions();
}

} /* namespace sim */
