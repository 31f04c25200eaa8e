/*
 * The connection protocol under a seeded simulation: nodes that create, close
 * and abort endpoints at random, over a network that loses, repeats, reorders
 * and delays, with processes that die. A failure prints its seed; run that one
 * with VQP_TEST_SEED=N.
 */
#include "conn_node.h"

#include <cstdlib>

using namespace vqp_test;

namespace {

struct Faults {
    const char *name;
    unsigned    loss;
    unsigned    duplication;
    uint64_t    jitter;
    bool        crash;  /* processes die and come back */
    bool        hard;   /* aborts, failing queue pairs, refused creates */
    bool        slow;   /* queue pairs take their time */
    bool        late;   /* so bad that giving up is right */
    unsigned    seeds;
    unsigned    idle = 64; /* peers remembered without a connection */
};

void PrintTo(const Faults &faults, std::ostream *os)
{
    *os << faults.name;
}

class Sim {
public:
    Sim(uint64_t seed, const Faults &a_faults) :
        net(seed), faults(a_faults)
    {
        unsigned count = 2 + (net.random() % 2);

        for (unsigned i = 0; i < count; ++i) {
            nodes.emplace_back(new Node(net, faults.idle));
            /* Without memory a late REQ makes a connection, soon reset */
            nodes.back()->unique_numbers = faults.idle > count;
            ids.insert(nodes.back()->id());
        }
        net.loss        = faults.loss;
        net.duplication = faults.duplication;
        net.jitter      = faults.jitter;
    }

    void simulate()
    {
        for (unsigned i = 0; i < 60; ++i) {
            act();
            run(net, net.random() % (faults.jitter + 20 * MSEC));
            finish_qps(false);
            for (auto &node : nodes) {
                node->check();
            }
        }

        /* Faults stop: everything must come to rest, in agreement */
        net.loss = net.duplication = 0;
        settle();
        expect_agreement();

        for (auto &node : nodes) {
            for (Vqp *vqp : endpoints(*node)) {
                node->close(vqp);
            }
        }
        settle();
        expect_empty();
    }

private:
    Node &any() { return *nodes[net.random() % nodes.size()]; }

    std::vector<Vqp*> endpoints(Node &node)
    {
        std::vector<Vqp*> eps;
        for (Vqp &vqp : node.vqps) {
            if (vqp.ep) {
                eps.push_back(&vqp);
            }
        }
        return eps;
    }

    void act()
    {
        Node &node             = any();
        std::vector<Vqp*> eps  = endpoints(node);
        unsigned choice        = net.random() % 100;
        Vqp *ep                = eps.empty() ? nullptr :
                                 eps[net.random() % eps.size()];

        if (faults.slow) {
            node.defer_qps = net.chance(50);
        }
        node.refuse    = faults.hard && net.chance(5);
        node.no_memory = faults.hard && net.chance(10);

        if ((ep == nullptr) || (choice < 45)) {
            /* Nodes know each other's address when they start */
            node.connect(any());
        } else if (choice < 90) {
            node.close(ep);
        } else if (faults.hard && (choice < 95)) {
            node.abort(ep);
        } else if (faults.hard && (choice < 97)) {
            node.fail(ep, VQP_ERR_IO);
        } else if (faults.crash) {
            node.restart();
            ids.insert(node.id());
        } else {
            /* An immediate comes in on a connection whose peer is LIVE */
            Vqp *peer = partner(*ep);
            if ((peer != nullptr) && ep->is_live() &&
                (peer->conn.state == VQP_CONN_READY)) {
                vqp_conn_first_imm(&peer->conn, net.now);
                peer->node->drain();
            }
        }
    }

    void finish_qps(bool all)
    {
        for (auto &node : nodes) {
            for (Vqp &vqp : node->vqps) {
                if ((vqp.conn.state == VQP_CONN_PEER) &&
                    (all || net.chance(30))) {
                    vqp_conn_qps_ready(&vqp.conn, net.now);
                }
            }
            node->drain();
        }
    }

    Vqp *partner(const Vqp &vqp)
    {
        for (auto &node : nodes) {
            if (node->id() == vqp.conn.peer_id) {
                Vqp *found = node->find(vqp.conn.peer_cookie);
                if ((found != nullptr) &&
                    (found->conn.state != VQP_CONN_FAILED) &&
                    (found->conn.peer_cookie == vqp.conn.cookie)) {
                    return found;
                }
            }
        }
        return nullptr;
    }

    /* Time without end, and the probing of connections, which finds those
     * whose other side has gone */
    void settle()
    {
        for (auto &node : nodes) {
            node->defer_qps = node->refuse = node->no_memory = false;
        }

        for (unsigned round = 0; round < 3; ++round) {
            finish_qps(true);
            run(net);
            for (auto &node : nodes) {
                std::vector<Vqp*> lost;
                for (Vqp &vqp : node->vqps) {
                    if (vqp.is_live() && (partner(vqp) == nullptr)) {
                        lost.push_back(&vqp);
                    }
                }
                ASSERT_TRUE(lost.empty() || may_fail())
                        << "a side is left alone without a cause";
                for (Vqp *vqp : lost) {
                    node->fail(vqp, VQP_ERR_TIMEOUT);
                }
            }
        }
        ASSERT_TRUE(net.queue.empty());
    }

    bool may_fail() const
    {
        return faults.crash || faults.hard || faults.late;
    }

    void expect_agreement()
    {
        for (auto &node : nodes) {
            node->check();
            EXPECT_EQ(VQP_CONNTAB_NEVER,
                      vqp_conntab_next_timeout(&node->tab));
            for (Vqp &vqp : node->vqps) {
                if (vqp.conn.state == VQP_CONN_FAILED) {
                    EXPECT_TRUE(vqp.ep);
                    EXPECT_TRUE(may_fail())
                            << "failed without a cause: " << vqp.status;
                    continue;
                }

                ASSERT_TRUE(vqp.is_live())
                        << vqp_conn_state_name(vqp.conn.state);
                Vqp *peer = partner(vqp);
                ASSERT_NE(nullptr, peer);
                EXPECT_NE(&vqp, peer);
                EXPECT_TRUE(peer->is_live());
                EXPECT_EQ(vqp.conn.number, peer->conn.number);
                EXPECT_EQ(vqp.qpn, peer->peer_qpn);
                EXPECT_EQ(peer->qpn, vqp.peer_qpn);
                EXPECT_TRUE(vqp.ep || peer->ep) << "nobody uses it";
            }
        }
    }

    void expect_empty()
    {
        for (auto &node : nodes) {
            EXPECT_TRUE(node->vqps.empty())
                    << vqp_conn_state_name(node->vqps.front().conn.state);
            EXPECT_EQ(0u, node->tab.num_conns);
            EXPECT_EQ(nullptr, node->tab.timers);
            EXPECT_EQ(0u, node->tab.stats.overruns);
            EXPECT_EQ(0u, node->tab.stats.malformed);
            for (const Gone &gone : node->gone) {
                EXPECT_TRUE((gone.status == VQP_OK) || may_fail())
                        << "ended without a cause: " << gone.status;
            }
        }
    }

    Net                                net;
    Faults                             faults;
    std::vector<std::unique_ptr<Node>> nodes;
    std::set<uint64_t>                 ids;
};

class conn_sim : public ::testing::TestWithParam<Faults> {
};

TEST_P(conn_sim, both_sides_agree_and_nothing_stays)
{
    const char *only = getenv("VQP_TEST_SEED");
    uint64_t first   = (only != nullptr) ? strtoull(only, nullptr, 0) : 1;
    uint64_t last    = (only != nullptr) ? first : GetParam().seeds;

    for (uint64_t seed = first; seed <= last; ++seed) {
        Sim sim(seed, GetParam());
        sim.simulate();
        ASSERT_FALSE(::testing::Test::HasFailure())
                << "VQP_TEST_SEED=" << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(
        faults, conn_sim,
        ::testing::Values(
                Faults {"none", 0, 0, 0, false, false, false, false, 300},
                Faults {"reorder", 0, 0, 30 * MSEC, false, false, false,
                        false, 500},
                Faults {"duplicates", 0, 50, 100 * MSEC, false, false, false,
                        false, 500},
                Faults {"loss", 20, 0, MSEC, false, false, false, false, 500},
                Faults {"all_of_them", 15, 20, 50 * MSEC, false, false, true,
                        false, 1000},
                Faults {"slow_queue_pairs", 5, 5, MSEC, false, false, true,
                        false, 500},
                Faults {"late_duplicates", 5, 50, SEC, false, false, true,
                        true, 500},
                Faults {"heavy_loss", 70, 10, 50 * MSEC, false, false, false,
                        true, 300},
                Faults {"errors", 10, 10, 20 * MSEC, false, true, true, false,
                        700},
                Faults {"crashes", 10, 10, 20 * MSEC, true, true, true, false,
                        700},
                Faults {"forgetful", 10, 20, 50 * MSEC, true, true, true,
                        true, 500, 1}),
        [](const ::testing::TestParamInfo<Faults> &info) {
            return std::string(info.param.name);
        });

/* Forged and damaged messages may end connections, but never the table */
TEST(conn_garbage, breaks_no_structure)
{
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        Net net(seed);
        Node a(net), b(net);
        std::vector<Datagram> old;

        net.filter = [&](const Datagram &dgram) {
            Datagram bad = dgram;

            old.push_back(dgram);
            if (net.chance(50)) {
                bad = old[net.random() % old.size()];
            }
            for (unsigned n = net.random() % 3; n > 0; --n) {
                /* Mostly the header, which decides */
                size_t limit = net.chance(80) ? VQP_WIRE_HEADER_LEN :
                                                bad.data.size();
                bad.data[net.random() % limit] ^=
                        (uint8_t)(1u << (net.random() % 8));
            }
            net.queue.emplace(std::make_pair(net.now + net.random() % MSEC,
                                             (1ull << 40) + old.size()), bad);
            return false;
        };

        for (unsigned i = 0; i < 40; ++i) {
            Node &node = net.chance(50) ? a : b;
            if (net.chance(60) || node.vqps.empty()) {
                node.connect(net.chance(80) ? ((&node == &a) ? b : a) : node);
            } else if (node.vqps.front().ep) {
                node.close(&node.vqps.front());
            }
            run(net, 5 * MSEC);
            ASSERT_NO_FATAL_FAILURE(a.check()) << "seed " << seed;
            ASSERT_NO_FATAL_FAILURE(b.check()) << "seed " << seed;
            if (old.size() > 10000) {
                break;
            }
        }
    }
}

} // namespace
