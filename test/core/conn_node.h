/*
 * What the tests of the connection protocol run on: nodes, each with a table
 * of connections and the owner's side of its contract, and a network between
 * them that loses, repeats, reorders and delays by a seed.
 */
#ifndef VQP_TEST_CONN_NODE_H
#define VQP_TEST_CONN_NODE_H

#include <gtest/gtest.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "core/conn/conndrive.h"
}

namespace vqp_test {

constexpr uint64_t MSEC = 1000000ull;
constexpr uint64_t SEC  = 1000 * MSEC;

class Node;

/* Names of the rails of a node: the first and the second */
constexpr unsigned RAIL0 = 0, RAIL1 = 1;

/* A vqp, as far as the protocol sees it. */
struct Vqp {
    vqp_conn_t      conn {};
    Node           *node       = nullptr;
    vqp_wire_info_t info {};
    uint32_t        qpn        = 0; /* of its only queue pair */
    uint32_t        peer_qpn   = 0; /* zero: not connected yet */
    bool            ep         = false;
    unsigned        live       = 0;
    unsigned        failed     = 0;
    unsigned        path_msgs  = 0;
    vqp_status_t    status     = VQP_OK;

    bool is_live() const { return conn.state == VQP_CONN_LIVE; }
};

struct Gone {
    uint64_t     peer_id;
    uint32_t     number;
    vqp_status_t status;
    unsigned     live;
};

struct Datagram {
    uint32_t             to;
    vqp_conn_dest_t      from;
    std::vector<uint8_t> data;
    vqp_wire_type_t      type;

    vqp_wire_header_t header() const
    {
        vqp_wire_msg_t msg {};

        EXPECT_EQ(VQP_OK, vqp_wire_decode(data.data(), data.size(), &msg));
        return msg.hdr;
    }
};

class Net {
public:
    explicit Net(uint64_t seed = 1) : rng(seed) {}

    uint64_t random() { return rng(); }
    bool chance(unsigned percent) { return (rng() % 100) < percent; }

    void send(const Datagram &dgram)
    {
        ++sent[dgram.type];
        if ((filter && filter(dgram)) || silent.count(dgram.to) ||
            mute.count(dgram.from.qpn)) {
            return;
        }

        for (unsigned copy = 0; copy < 2; ++copy) {
            if ((copy == 0) ? chance(loss) : !chance(duplication)) {
                continue;
            }
            uint64_t delay = min_delay +
                             ((jitter > 0) ? rng() % jitter : 0);
            queue.emplace(std::make_pair(now + delay, order++), dgram);
        }
    }

    std::mt19937_64 rng;
    uint64_t now         = SEC;
    unsigned loss        = 0; /* percent */
    unsigned duplication = 0; /* percent */
    uint64_t min_delay   = 1000;
    uint64_t jitter      = 0; /* more than the distance of sends: reorder */
    uint32_t next_qpn    = 0x100;
    std::set<uint32_t>   silent; /* control queue pairs that nothing reaches */
    std::set<uint32_t>   mute; /* those that send nothing */
    std::function<bool(const Datagram&)>                    filter;
    std::map<std::pair<uint64_t, uint64_t>, Datagram>       queue;
    std::map<uint32_t, Node*>                               nodes;
    std::map<int, uint64_t>                                 sent;

private:
    uint64_t order = 0;
};

class Node {
public:
    explicit Node(Net &a_net, uint32_t num_idle = 16, unsigned a_rails = 1) :
        net(a_net), rails(a_rails)
    {
        config.iface_id        = net.random() | 1;
        config.retry_first     = 10 * MSEC;
        config.retry_max       = 200 * MSEC;
        config.connect_timeout = 5 * SEC;
        config.close_timeout   = 5 * SEC;
        config.num_rails       = (uint8_t)rails;
        config.secret[0]       = net.random();
        config.secret[1]       = net.random();
        config.max_unproven    = 100;
        config.hash_order      = 2; /* chains */
        config.num_idle        = num_idle;
        ud_qpn                 = net.next_qpn;
        net.next_qpn          += rails;
        init();
    }

    ~Node() { vanish(); }

    /* The host is down: messages to it are lost */
    void vanish()
    {
        for (unsigned i = 0; i < rails; ++i) {
            net.nodes.erase(ud_qpn + i);
        }
    }

    void init()
    {
        mem.assign(vqp_conntab_mem_size(&config) / 8 + 1, 0);
        ASSERT_EQ(VQP_OK, vqp_conntab_init(&tab, &config, mem.data()));
        for (unsigned i = 0; i < rails; ++i) {
            net.nodes[ud_qpn + i] = this;
        }
    }

    /* The process ends, and another one gets the same queue pair number */
    void restart()
    {
        vqps.clear();
        gone.clear();
        created.clear();
        config.iface_id = net.random() | 1;
        init();
    }

    uint64_t id() const { return config.iface_id; }

    /* Address of one of its control queue pairs */
    vqp_conn_dest_t dest(unsigned rail = RAIL0) const
    {
        vqp_conn_dest_t to {};
        to.gid[15] = (uint8_t)(1 + rail);
        to.qpn     = ud_qpn + rail;
        to.rail    = (uint8_t)rail;
        return to;
    }

    Vqp *new_vqp()
    {
        vqps.emplace_back();
        Vqp *vqp  = &vqps.back();
        vqp->node = this;
        vqp->qpn  = net.next_qpn++;

        vqp_wire_info_t &info = vqp->info;
        info.ring_addr          = 0x10000;
        info.cell_addr          = 0x20000;
        info.ring_size          = 4096;
        info.fsn_window         = 64;
        info.rx_depth           = 16;
        info.num_rails          = (uint8_t)rails;
        info.num_paths          = 1;
        info.paths[0].qpn       = vqp->qpn;
        for (unsigned i = 0; i < rails; ++i) {
            info.rails[i].ud_qpn  = ud_qpn + i;
            info.rails[i].mtu     = 3;
            info.rails[i].link    = VQP_LINK_ETH;
            info.rails[i].gid[15] = (uint8_t)(1 + i);
        }
        return vqp;
    }

    std::vector<vqp_conn_dest_t> dests() const
    {
        std::vector<vqp_conn_dest_t> all;
        for (unsigned i = 0; i < rails; ++i) {
            all.push_back(dest(i));
        }
        return all;
    }

    vqp_conn_params_t params(Vqp *vqp, const vqp_conn_dest_t *to)
    {
        vqp_conn_params_t p {};
        p.cookie    = net.random() | 1;
        p.dests     = to;
        p.num_dests = 1;
        p.local     = &vqp->info;
        return p;
    }

    /* What the creation of an endpoint does */
    Vqp *connect(const Node &peer) { return connect(peer.id(), peer.dests()); }

    Vqp *connect(uint64_t peer_id, const std::vector<vqp_conn_dest_t> &to)
    {
        vqp_conn_t *conn = vqp_conn_adopt(&tab, peer_id, to.data(),
                                          (unsigned)to.size(), net.now);
        Vqp *vqp;

        if (conn != nullptr) {
            vqp = vqp_of(conn);
            EXPECT_FALSE(vqp->ep) << "adopted twice";
        } else {
            vqp                 = new_vqp();
            vqp_conn_params_t p = params(vqp, to.data());
            p.num_dests         = (unsigned)to.size();
            p.peer_id           = peer_id;
            EXPECT_EQ(VQP_OK,
                      vqp_conn_connect(&tab, &vqp->conn, &p, net.now));
        }

        vqp->ep = true;
        drain();
        return vqp;
    }

    void close(Vqp *vqp)
    {
        vqp->ep = false;
        vqp_conn_close(&vqp->conn, net.now);
        drain();
        if (vqp->failed > 0) {
            forget(vqp, vqp->status);
        }
    }

    void abort(Vqp *vqp)
    {
        vqp->ep = false;
        vqp_conn_abort(&vqp->conn, !vqp->conn.owned, net.now);
        drain();
        forget(vqp, VQP_ERR_CANCELED);
    }

    void fail(Vqp *vqp, vqp_status_t status)
    {
        vqp_conn_fail(&vqp->conn, status, net.now);
        drain();
    }

    /* The queue pairs that were deferred are connected */
    void connect_qps(Vqp *vqp)
    {
        vqp_conn_qps_ready(&vqp->conn, net.now);
        drain();
    }

    vqp_status_t recv(const Datagram &dgram)
    {
        vqp_conn_dest_t from = dgram.from;

        from.rail = (uint8_t)(dgram.to - ud_qpn); /* it came in on */
        vqp_status_t status = vqp_conntab_recv(&tab, &from, dgram.data.data(),
                                               dgram.data.size(), net.now);
        drain();
        return status;
    }

    void tick()
    {
        vqp_conntab_tick(&tab, net.now);
        drain();
    }

    void drain()
    {
        vqp_conntab_action_t action;

        while (vqp_conntab_next_action(&tab, &action)) {
            act(action);
        }
    }

    /* Structural invariants of the table */
    void check() const
    {
        std::set<std::tuple<uint64_t, uint32_t>> numbers;
        unsigned linked = 0, unproven = 0;

        for (const Vqp &vqp : vqps) {
            const vqp_conn_t &conn = vqp.conn;
            ASSERT_FALSE(conn.queued);
            ASSERT_EQ(0u, conn.todo);
            ASSERT_EQ(vqp.failed > 0, conn.state == VQP_CONN_CLOSED);
            ASSERT_EQ(vqp.ep && (vqp.failed == 0), !!conn.owned);
            ASSERT_EQ(conn.state != VQP_CONN_CLOSED, !!conn.linked);
            if (!conn.linked) {
                ASSERT_FALSE(conn.timed);
                continue;
            }
            ++linked;
            ASSERT_EQ(conn.state != VQP_CONN_LIVE, !!conn.timed);
            ASSERT_EQ(&conn, vqp_conntab_find_cookie(&tab, conn.cookie));
            ASSERT_EQ(conn.identity, conn.peer->id);
            ASSERT_EQ(conn.peer, vqp_conntab_find_peer(&tab, conn.identity));
            ASSERT_TRUE((conn.state == VQP_CONN_ASKED) || !conn.unproven);
            unproven += conn.unproven;
            if (conn.peer_cookie != 0) {
                ASSERT_GE(conn.peer->highest, conn.number);
            }
            if ((conn.peer_id != id()) || !conn.passive) {
                ASSERT_TRUE(numbers.emplace(conn.identity,
                                            conn.number).second)
                        << "two sets of queue pairs for one number";
            }
            if (conn.peer_next != nullptr) {
                ASSERT_GE(conn.peer_next->number, conn.number);
                ASSERT_EQ(&conn, conn.peer_next->peer_prev);
            }
        }
        ASSERT_EQ(linked, tab.num_conns);
        ASSERT_EQ(unproven, tab.num_unproven);
    }

    static Vqp *vqp_of(vqp_conn_t *conn)
    {
        return reinterpret_cast<Vqp*>(reinterpret_cast<char*>(conn) -
                                      offsetof(Vqp, conn));
    }

    Vqp *find(uint64_t cookie)
    {
        for (Vqp &vqp : vqps) {
            if (vqp.conn.cookie == cookie) {
                return &vqp;
            }
        }
        return nullptr;
    }

    Net                  &net;
    const unsigned        rails;
    vqp_conntab_t         tab {};
    vqp_conntab_config_t  config {};
    uint32_t              ud_qpn;
    std::vector<uint64_t> mem;
    std::list<Vqp>        vqps;
    std::vector<Gone>     gone;
    std::vector<std::pair<int, int>> states; /* STATE actions: from, to */
    bool                  refuse     = false; /* passive creates */
    bool                  no_memory  = false; /* passive creates */
    bool                  defer_qps  = false; /* the test calls qps_ready */
    unsigned              wait_qps   = 0; /* so often they can not be connected yet */
    std::set<std::tuple<uint64_t, uint32_t, bool>> created;
    bool                  unique_numbers = true;
    bool                  no_release     = false; /* freed much later */

private:
    /* Queue pairs were connected under one number once at most */
    void note_created(const Vqp *vqp)
    {
        bool is_new = created.emplace(vqp->conn.identity, vqp->conn.number,
                                      (vqp->conn.peer_id == id()) &&
                                              vqp->conn.passive).second;
        EXPECT_TRUE(is_new || !unique_numbers)
                << "number " << vqp->conn.number << " used twice";
    }

    void act(const vqp_conntab_action_t &action)
    {
        Vqp *vqp = (action.conn != nullptr) ? vqp_of(action.conn) : nullptr;

        switch (action.type) {
        case VQP_CONNTAB_STATE:
            states.emplace_back(action.conn->logged, action.conn->state);
            action.conn->logged = action.conn->state;
            break;
        case VQP_CONNTAB_CREATE_PASSIVE:
            create_passive(action.peer);
            break;
        case VQP_CONNTAB_CONNECT_QPS:
            EXPECT_EQ(0u, vqp->peer_qpn);
            if (wait_qps > 0) {
                --wait_qps;
                vqp_conn_qps_wait(action.conn, net.now);
                break;
            }
            note_created(vqp);
            vqp->peer_qpn = action.peer->info.paths[0].qpn;
            if (!defer_qps) {
                vqp_conn_qps_ready(action.conn, net.now);
            }
            break;
        case VQP_CONNTAB_SEND:
            EXPECT_LE(action.len, 1024u);
            EXPECT_LT(action.to.rail, rails);
            net.send({action.to.qpn, dest(action.to.rail),
                      {action.data, action.data + action.len},
                      action.msg_type});
            break;
        case VQP_CONNTAB_LIVE:
            EXPECT_EQ(0u, vqp->live++);
            EXPECT_NE(0u, vqp->peer_qpn);
            break;
        case VQP_CONNTAB_PATH_MSG:
            EXPECT_GE(action.peer->hdr.type, VQP_WIRE_PATH_DOWN);
            ++vqp->path_msgs;
            break;
        case VQP_CONNTAB_END:
            EXPECT_EQ(VQP_CONN_CLOSED, vqp->conn.state);
            if (!vqp->ep) {
                forget(vqp, action.status);
            } else {
                EXPECT_EQ(0u, vqp->failed++);
                EXPECT_LT(action.status, 0);
                vqp->status = action.status;
            }
            break;
        default:
            ADD_FAILURE() << "unknown action " << action.type;
            break;
        }
    }

    void forget(Vqp *vqp, vqp_status_t status)
    {
        gone.push_back({vqp->conn.peer_id, vqp->conn.number, status,
                        vqp->live});
        for (auto it = vqps.begin(); it != vqps.end(); ++it) {
            if (&*it == vqp) {
                if (!no_release) {
                    vqp_conn_release(&vqp->conn);
                }
                vqps.erase(it);
                break;
            }
        }
    }

    void create_passive(const vqp_wire_msg_t *req)
    {
        if (no_memory) {
            vqp_conntab_lack(&tab, req);
            return;
        }

        if (refuse) {
            vqp_conntab_refuse(&tab, req);
            return;
        }

        Vqp *vqp            = new_vqp();
        vqp_conn_params_t p = params(vqp, nullptr);
        ASSERT_EQ(VQP_OK,
                  vqp_conn_accept(&tab, &vqp->conn, &p, req, net.now));
    }
};

/* Let the next thing happen, unless it is later than @a until */
inline bool step(Net &net, uint64_t until = VQP_CONNTAB_NEVER)
{
    uint64_t next = VQP_CONNTAB_NEVER;

    for (auto &it : net.nodes) {
        next = std::min(next, vqp_conntab_next_timeout(&it.second->tab));
    }

    if (!net.queue.empty()) {
        next = std::min(next, net.queue.begin()->first.first);
    }

    if ((next == VQP_CONNTAB_NEVER) || (next > until)) {
        return false;
    }

    net.now = std::max(net.now, next);
    if (!net.queue.empty() && (net.queue.begin()->first.first <= net.now)) {
        Datagram dgram = net.queue.begin()->second;
        net.queue.erase(net.queue.begin());
        auto node = net.nodes.find(dgram.to);
        if (node != net.nodes.end()) {
            node->second->recv(dgram);
        }
    }

    for (auto &it : net.nodes) {
        it.second->tick();
    }

    return true;
}

/* Until nothing is left to happen, or the time is over */
inline void run(Net &net, uint64_t duration = 3600 * SEC)
{
    uint64_t end = net.now + duration;

    while (step(net, end)) {
    }

    if (duration < 3600 * SEC) {
        net.now = end;
    }
}

} // namespace vqp_test

#endif
