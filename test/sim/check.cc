/* What must hold when all is quiet. See world.h. */
#include "ep.h"
#include "node.h"
#include "world.h"

#include <cstring>

namespace sim {

/* A side that waits for nothing would never notice that its peer has gone */
void world::probe_all()
{
    std::vector<uint32_t> ids;

    for (auto &one : vqps) {
        ids.push_back(one.first);
    }
    for (uint32_t id : ids) {
        vqp *v = find_vqp(id);

        if ((v != nullptr) && v->is_live()) {
            v->check();
        }
    }
}

/* Everybody got what he waits for */
void world::check_rest()
{
    if (failed()) {
        return;
    }

    for (auto &one : eps) {
        /* A byzantine peer may confirm what it has not got, and wait for it */
        if ((base.byzantine > 0) && (one.second->connection() != nullptr) &&
            one.second->connection()->sent->tainted) {
            continue;
        }
        if (!one.second->is_over() && !one.second->is_satisfied()) {
            fail("progress", "all is quiet, and something is waited for: " +
                             one.second->str());
        } else if (!one.second->is_over() && !one.second->is_open()) {
            fail("progress", "all is quiet, and a program is not at its end: " +
                             one.second->str());
        }
    }
    if (ud.under_way() > 0) {
        fail("handshake", "datagrams are left");
    }
}

/* Both sides use the same paths, and have given up the same ones */
void world::check_paths(vqp &v, vqp &peer)
{
    for (unsigned i = 0; i < v.core.tx.paths.count; ++i) {
        bool is_up = v.paths[i].fo.state == VQP_PATH_UP;

        if (is_up ? !v.path_qp(i).is_connected_to(peer.path_qp(i).qpn) :
                    !vqp_path_is_off(&v.paths[i])) {
            fail("paths", v.name() + ": path " + std::to_string(i) + " is " +
                          vqp_path_state_name(v.paths[i].fo.state) + ", and " +
                          vqp_path_state_name(peer.paths[i].fo.state) +
                          " at the other end");
        }
    }
}

void world::check_agreement()
{
    for (auto &one : nodes) {
        if (failed()) {
            return;
        }
        one->check_table();
        if (vqp_conntab_next_timeout(&one->table) != VQP_CONNTAB_NEVER) {
            fail("handshake", "a timer runs on");
        }
        for (auto &v : one->vqps) {
            vqp *peer = partner(*v);

            if ((v->core.state >= VQP_STATE_PEER_CLOSED) ||
                (v->slot.conn.state == VQP_CONN_CLOSED) || base.garble) {
                continue;
            }
            if (!v->is_live() || (peer == nullptr) || !peer->is_live()) {
                fail("handshake", v->name() + " is " +
                                  vqp_conn_state_name(v->slot.conn.state) +
                                  ", and its peer is not LIVE too");
            } else if (peer->slot.conn.number != v->slot.conn.number) {
                fail("handshake", v->name() + " is paired with another one");
            } else if ((v->user == nullptr) && (peer->user == nullptr)) {
                fail("handshake", v->name() + " is used by nobody");
            } else {
                check_paths(*v, *peer);
            }
        }
    }
}

void world::close_all()
{
    for (auto &one : eps) {
        if (!failed()) {
            one.second->close_now();
        }
    }
}

/* Where nothing cuts a program off */
uint64_t world::planned_batches() const
{
    uint64_t users = (base.senders > 0) ? base.senders : base.nodes;

    return users * base.eps * base.sessions * base.batches;
}

void world::check_end()
{
    if (failed()) {
        return;
    }

    for (auto &one : nodes) {
        one->check_table();
        for (auto &v : one->vqps) {
            fail("handshake", v->name() + " is left, " +
                              vqp_conn_state_name(v->slot.conn.state));
        }
        if ((one->table.num_conns > 0) || (one->table.timers != nullptr)) {
            fail("handshake", "connections are left");
        }
        if ((one->table.stats.overruns > 0) ||
            ((one->table.stats.malformed > 0) && (base.garble == 0))) {
            fail("handshake", "messages were dropped as malformed or overrun");
        }
        if (!one->is_idle()) {
            fail("progress", "completions are left");
        }
    }
    if (!qps.empty()) {
        fail("slots", "queue pairs are left");
    }

    if (base.is_complete() && (batches != planned_batches())) {
        fail("progress", std::to_string(batches) + " batches of " +
                         std::to_string(planned_batches()) + " were done");
    }
    for (auto &one : m_channels) {
        one->check_ended();
        one->check_delivered();
        one->check_memory();
    }
    for (auto &one : nodes) {
        uint64_t sum;

        memcpy(&sum, one->counter(), sizeof(sum));
        if (sum != m_counters[one->counter()].sum) {
            fail("memory", "fadds are lost");
        }
    }
}

/* Structural invariants of a table */
void node::check_table()
{
    std::set<std::tuple<uint64_t, uint32_t>> numbers;
    unsigned linked = 0;

    for (auto &v : vqps) {
        const vqp_conn_t &conn = v->slot.conn;
        bool is_good;

        if (conn.state == VQP_CONN_CLOSED) {
            continue;
        }
        ++linked;
        is_good = conn.linked && !conn.queued && (conn.todo == 0) &&
                  ((conn.state != VQP_CONN_LIVE) == !!conn.timed) &&
                  (vqp_conntab_find_cookie(&table, conn.cookie) == &conn) &&
                  (conn.peer->id == conn.identity) &&
                  (conn.peer == vqp_conntab_find_peer(&table, conn.identity)) &&
                  ((conn.peer_cookie == 0) ||
                   (conn.peer->highest >= conn.number)) &&
                  ((conn.peer_next == nullptr) ||
                   ((conn.peer_next->number >= conn.number) &&
                    (conn.peer_next->peer_prev == &conn)));
        if (((conn.peer_id != iface_id()) || !conn.passive) &&
            !numbers.emplace(conn.identity, conn.number).second) {
            w.fail("handshake", "two connections of one number");
        }
        if (!is_good) {
            w.fail("handshake", v->name() + ": the table is inconsistent");
        }
    }
    if (linked != table.num_conns) {
        w.fail("handshake", "the table counts its connections wrong");
    }
}

} /* namespace sim */
