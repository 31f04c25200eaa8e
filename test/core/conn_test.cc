/*
 * The connection protocol, as a specification: connecting, adopting, closing,
 * failing, and the handling of unexpected messages. conn_table_test.cc has what one
 * event does in each state.
 */
#include "conn_node.h"

#include <algorithm>

using namespace vqp_test;

namespace {

class ConnTest : public ::testing::Test {
protected:
    Net  net;
    Node a {net};
    Node b {net};

    void TearDown() override
    {
        a.check();
        b.check();
    }

    /* An endpoint of a at b, LIVE on both sides */
    Vqp *connected()
    {
        Vqp *vqp = a.connect(b);
        run(net);
        EXPECT_TRUE(vqp->is_live());
        return vqp;
    }

    Vqp *other(const Vqp *vqp)
    {
        return (vqp->node == &a ? b : a).find(vqp->conn.peer_cookie);
    }

    void expect_paired(Vqp *x, Vqp *y)
    {
        ASSERT_NE(nullptr, x);
        ASSERT_NE(nullptr, y);
        EXPECT_NE(x, y);
        EXPECT_TRUE(x->is_live());
        EXPECT_TRUE(y->is_live());
        EXPECT_EQ(x->conn.number, y->conn.number);
        EXPECT_EQ(x->conn.cookie, y->conn.peer_cookie);
        EXPECT_EQ(y->conn.cookie, x->conn.peer_cookie);
        EXPECT_EQ(x->qpn, y->peer_qpn);
        EXPECT_EQ(y->qpn, x->peer_qpn);
        EXPECT_EQ(1u, x->live);
        EXPECT_EQ(1u, y->live);
    }

    /* The REQ of a connection, sent or not */
    Datagram request(const Vqp *vqp)
    {
        vqp_wire_header_t hdr {};

        vqp_conn_header(&vqp->conn, VQP_CONN_ACT_REQ, &hdr);
        return message(*vqp->node, hdr, &vqp->info);
    }

    /* A datagram from the first rail of @a from to the other one's */
    Datagram message(const Node &from, const vqp_wire_header_t &hdr,
                     const void *body)
    {
        const Node &to = (&from == &b) ? a : b;
        Datagram dgram {to.ud_qpn, from.dest(), std::vector<uint8_t>(1024),
                        hdr.type};

        dgram.data.resize(vqp_wire_encode(&hdr, body, dgram.data.data()));
        return dgram;
    }

    uint64_t total_sent() const
    {
        uint64_t sum = 0;
        for (auto &it : net.sent) {
            sum += it.second;
        }
        return sum;
    }

    std::vector<Datagram> in_flight() const
    {
        std::vector<Datagram> all;
        for (auto &it : net.queue) {
            all.push_back(it.second);
        }
        return all;
    }
};

using conn_connect = ConnTest;
using conn_adopt = ConnTest;
using conn_closing = ConnTest;
using conn_failing = ConnTest;
using conn_stray = ConnTest;
using conn_loop = ConnTest;
using conn_memory = ConnTest;

/* Changes of state as they are handed out to be logged */
class conn_states : public ConnTest {
protected:
    conn_states() { a.tab.config.log_states = b.tab.config.log_states = 1; }

    static std::string take(Node &node)
    {
        std::string text;

        for (auto &change : node.states) {
            text += std::string(text.empty() ? "" : ", ") +
                    vqp_conn_state_name((unsigned)change.first) + ">" +
                    vqp_conn_state_name((unsigned)change.second);
        }
        node.states.clear();
        return text;
    }
};

/* Two nodes with two rails each */
class conn_rails : public ConnTest {
protected:
    /* Of the four routes between rails of the same number, one loses all messages
     * in each direction */
    void silence(Node &first, Node &second, unsigned to_first,
                 unsigned to_second)
    {
        net.silent = {first.ud_qpn + to_first, second.ud_qpn + to_second};
    }

    Node c {net, 16, 2};
    Node d {net, 16, 2};
};

/* Messages of another sender than the peer, or of a hostile peer */
class conn_forged : public ConnTest {
protected:
    /* The first REQ of a connection from @a claimed's interface id, behind the
     * rails of @a behind */
    Datagram req(const Node &claimed, Node &behind, const Node &to,
                 uint32_t number, uint64_t cookie)
    {
        vqp_wire_header_t hdr {};
        Vqp *vqp = behind.new_vqp();
        Datagram dgram {to.ud_qpn, behind.dest(), std::vector<uint8_t>(1024),
                        VQP_WIRE_REQ};

        hdr.type       = VQP_WIRE_REQ;
        hdr.number     = number;
        hdr.src_iface  = claimed.id();
        hdr.dst_iface  = to.id();
        hdr.src_cookie = cookie;
        dgram.data.resize(vqp_wire_encode(&hdr, &vqp->info,
                                          dgram.data.data()));
        behind.vqps.pop_back();
        return dgram;
    }

    /* As many requests without proof as b takes, and more; nobody gets an answer */
    void flood()
    {
        for (unsigned i = 0; i < 200; ++i) {
            b.recv(req(a, a, b, 100 + i, 1000 + i));
        }
        EXPECT_EQ(b.config.max_unproven, b.tab.num_unproven);
        net.queue.clear();
    }

    /* What b demands in answer to the request */
    Datagram with_proof(Datagram dgram)
    {
        vqp_wire_header_t rst {};

        net.queue.clear();
        EXPECT_EQ(VQP_ERR_NO_RESOURCE, b.recv(dgram));
        EXPECT_EQ(1u, net.queue.size());
        for (auto &it : net.queue) {
            rst = it.second.header();
        }
        EXPECT_EQ(VQP_WIRE_FLAG_PROVE, rst.flags);
        memcpy(&dgram.data[40], &rst.src_cookie, 8);
        dgram.data[48] = VQP_WIRE_FLAG_PROVE;
        return dgram;
    }

    /* A RST for @a to's connection */
    Datagram rst(const Vqp *to, uint64_t src_cookie, uint64_t dst_cookie,
                 uint16_t flags = 0)
    {
        const Node &from = (to->node == &a) ? b : a;
        vqp_wire_header_t hdr {};

        hdr.type       = VQP_WIRE_RST;
        hdr.number     = to->conn.number;
        hdr.src_iface  = from.id();
        hdr.dst_iface  = to->node->id();
        hdr.src_cookie = src_cookie;
        hdr.dst_cookie = dst_cookie;
        hdr.flags      = flags;
        return message(from, hdr, nullptr);
    }

    /* Endpoints in both directions still work, and those of others */
    void expect_all_connect()
    {
        Vqp *x = connected();
        Vqp *y = b.connect(a);
        Node other_node(net);
        Vqp *z = other_node.connect(b);

        run(net);
        expect_paired(x, y);
        EXPECT_TRUE(z->is_live());
        a.close(x);
        b.close(y);
        other_node.close(z);
        run(net);
        EXPECT_TRUE(a.vqps.empty());
        EXPECT_TRUE(b.vqps.empty());
    }

    Node thief {net};
};

} // namespace

/*
 * Connecting
 */

TEST_F(conn_connect, four_messages_make_both_sides_live)
{
    Vqp *vqp = a.connect(b);

    EXPECT_EQ(VQP_CONN_REQ, vqp->conn.state);
    run(net);
    expect_paired(vqp, other(vqp));
    EXPECT_TRUE(other(vqp)->conn.passive);
    EXPECT_FALSE(other(vqp)->conn.owned);
    EXPECT_EQ(4u, total_sent()); /* REQ, REP, and both with have_yours */
    EXPECT_EQ(VQP_CONNTAB_NEVER, vqp_conntab_next_timeout(&a.tab));
    EXPECT_EQ(VQP_CONNTAB_NEVER, vqp_conntab_next_timeout(&b.tab));
}

TEST_F(conn_connect, any_message_may_be_lost)
{
    for (unsigned lost = 0; lost < 12; ++lost) {
        unsigned count = 0;
        net.filter = [&](const Datagram&) { return count++ == lost; };
        Vqp *vqp = a.connect(b);
        run(net);
        expect_paired(vqp, other(vqp));
        a.close(vqp);
        run(net);
        EXPECT_TRUE(a.vqps.empty());
        EXPECT_TRUE(b.vqps.empty());
    }
}

TEST_F(conn_connect, every_message_may_come_twice)
{
    net.duplication = 100;
    Vqp *vqp = a.connect(b);
    run(net);
    expect_paired(vqp, other(vqp));
    EXPECT_EQ(1u, b.vqps.size());
    a.close(vqp);
    run(net);
    EXPECT_TRUE(a.vqps.empty());
    EXPECT_TRUE(b.vqps.empty());
    EXPECT_GT(a.tab.stats.duplicates + b.tab.stats.duplicates, 0u);
}

TEST_F(conn_connect, requests_repeat_with_growing_distance)
{
    std::vector<uint64_t> times;

    net.filter = [&](const Datagram&) {
        times.push_back(net.now);
        return true;
    };
    Vqp *vqp = a.connect(b);
    run(net);
    EXPECT_EQ(1u, vqp->failed);
    EXPECT_EQ(VQP_ERR_TIMEOUT, vqp->status);
    ASSERT_GT(times.size(), 8u);
    ASSERT_LT(times.size(), 60u);
    uint64_t last = 0;
    for (size_t i = 1; i < times.size(); ++i) {
        uint64_t distance = times[i] - times[i - 1];
        EXPECT_GE(distance, last);
        EXPECT_GE(distance, 10 * MSEC);
        EXPECT_LE(distance, 250 * MSEC);
        last = distance;
    }
    EXPECT_LT(times.back() - times.front(), 5 * SEC);
    EXPECT_EQ(vqp->conn.retransmits, times.size() - 1);
}

/* The first of 200 is answered at once, the last one after twelve times the time-out */
TEST_F(conn_connect, a_peer_that_answers_others_is_waited_for)
{
    std::map<uint64_t, uint64_t> begin; /* of each request, by its cookie */
    std::vector<Vqp*> vqps;

    net.filter = [&](const Datagram &dgram) {
        if (dgram.to != b.ud_qpn) {
            return false;
        }
        return net.now < begin.emplace(dgram.header().src_cookie,
                                       begin.size() * 300 * MSEC).first->second;
    };
    for (unsigned i = 0; i < 200; ++i) {
        vqps.push_back(a.connect(b));
    }
    run(net);
    for (Vqp *vqp : vqps) {
        expect_paired(vqp, other(vqp));
    }
    EXPECT_GT(net.now, 50 * SEC);
}

TEST_F(conn_connect, a_peer_that_answers_no_more_is_a_timeout)
{
    std::vector<Vqp*> vqps;

    vqps.push_back(connected());
    run(net, 2 * SEC);
    b.vanish();
    for (unsigned i = 0; i < 100; ++i) {
        vqps.push_back(a.connect(b));
    }
    EXPECT_GT(vqp_conntab_next_timeout(&a.tab), net.now); /* no timer is late yet */
    run(net, 5 * SEC - 1);
    EXPECT_EQ(0u, a.tab.stats.timeouts);
    run(net, 1);
    for (unsigned i = 1; i <= 100; ++i) {
        EXPECT_EQ(VQP_ERR_TIMEOUT, vqps[i]->status) << i;
    }
}

/* What does not wait for the peer is not kept for its answers to others */
TEST_F(conn_connect, answers_to_others_keep_no_side_that_ends)
{
    Vqp *vqp = connected();

    net.filter = [&](const Datagram &dgram) { return dgram.type == VQP_WIRE_BYE; };
    a.close(vqp);
    run(net, 4 * SEC);
    vqp = a.connect(b);
    run(net, SEC);
    EXPECT_TRUE(vqp->is_live());
    ASSERT_EQ(1u, a.gone.size());
    EXPECT_EQ(VQP_ERR_TIMEOUT, a.gone[0].status);
}

/* Its queue pairs may never be connected, whatever the peer says */
TEST_F(conn_connect, answers_to_others_keep_no_side_without_its_queue_pairs)
{
    a.wait_qps = 1000;
    Vqp *vqp   = a.connect(b);
    run(net, 4 * MSEC);
    a.wait_qps = 0;
    EXPECT_EQ(VQP_CONN_PEER, vqp->conn.state);
    net.filter = [&](const Datagram &dgram) { /* it tries with each message */
        return dgram.header().number == vqp->conn.number;
    };
    run(net, 4 * SEC);
    EXPECT_EQ(0u, vqp->failed);
    Vqp *second = a.connect(b);
    run(net, SEC);
    EXPECT_TRUE(second->is_live());
    EXPECT_EQ(VQP_ERR_TIMEOUT, vqp->status);
}

/* The hour is that of who waited, and not more than the time-out */
TEST_F(conn_connect, who_begins_after_a_stop_gets_no_time_of_it)
{
    Vqp *first = a.connect(0x777, b.dests());
    Vqp *vqp;

    b.vanish();
    run(net, 100 * MSEC);
    net.now += 3600 * SEC;
    vqp      = a.connect(b);
    a.tick();
    run(net, 4 * SEC);
    EXPECT_EQ(0u, first->failed);
    run(net, SEC - 1);
    EXPECT_EQ(VQP_ERR_TIMEOUT, first->status);
    EXPECT_EQ(0u, vqp->failed);
    run(net, 1);
    EXPECT_EQ(VQP_ERR_TIMEOUT, vqp->status);
}

TEST_F(conn_connect, time_in_which_the_process_is_stopped_does_not_count)
{
    bool is_lost = true;

    net.filter  = [&](const Datagram&) { return is_lost; };
    b.defer_qps = true;
    Vqp *vqp    = a.connect(b);
    for (unsigned i = 0; i < 5; ++i) {
        run(net, 500 * MSEC);
        net.now += 60 * SEC;
        a.tick();
    }
    EXPECT_EQ(0u, vqp->failed);
    is_lost = false;
    run(net, SEC);
    Vqp *peer = &b.vqps.front();
    EXPECT_EQ(VQP_CONN_PEER, peer->conn.state);
    net.now += 60 * SEC; /* one that repeats nothing */
    b.tick();
    EXPECT_EQ(VQP_CONN_PEER, peer->conn.state);
    b.connect_qps(peer);
    run(net);
    expect_paired(vqp, peer);
}

/* A side that repeats nothing does not wake up meanwhile either */
TEST_F(conn_connect, time_in_which_a_passive_side_is_stopped_does_not_count)
{
    bool is_lost = true;

    net.filter = [&](const Datagram &dgram) {
        return is_lost && (dgram.to == a.ud_qpn);
    };
    Vqp *vqp = a.connect(b);
    for (unsigned i = 0; i < 10; ++i) {
        run(net, 300 * MSEC);
        net.now += SEC;
        a.tick();
        b.tick();
    }
    is_lost = false;
    run(net);
    expect_paired(vqp, other(vqp));
    EXPECT_TRUE(b.gone.empty());
}

TEST_F(conn_connect, simultaneous_connects_pair_on_one_number)
{
    Vqp *x = a.connect(b);
    Vqp *y = b.connect(a);

    run(net);
    expect_paired(x, y);
    EXPECT_EQ(1u, x->conn.number);
    EXPECT_EQ(1u, a.vqps.size());
    EXPECT_EQ(1u, b.vqps.size());
}

TEST_F(conn_connect, simultaneous_connects_of_unequal_count_pair_as_far_as_they_go)
{
    Vqp *x[4], *y[2];

    for (auto &vqp : x) {
        vqp = a.connect(b);
    }
    for (auto &vqp : y) {
        vqp = b.connect(a);
    }
    run(net);
    EXPECT_EQ(4u, a.vqps.size());
    EXPECT_EQ(4u, b.vqps.size());
    expect_paired(x[0], y[0]);
    expect_paired(x[1], y[1]);
    expect_paired(x[2], other(x[2]));
    expect_paired(x[3], other(x[3]));
}

TEST_F(conn_connect, queue_pairs_that_wait_are_connected_later)
{
    a.wait_qps = 3;
    b.wait_qps = 4;
    Vqp *vqp = a.connect(b);
    run(net);
    expect_paired(vqp, &b.vqps.front());
    EXPECT_EQ(0u, a.wait_qps + b.wait_qps);
    EXPECT_LE(total_sent(), 20u); /* at growing intervals */
}

TEST_F(conn_connect, a_refused_peer_fails_at_once)
{
    b.refuse = true;
    Vqp *vqp = a.connect(b);
    run(net);
    EXPECT_EQ(1u, vqp->failed);
    EXPECT_EQ(VQP_ERR_RESET, vqp->status);
    EXPECT_EQ(1u, b.tab.stats.rst_sent);
    EXPECT_EQ(1u, a.tab.stats.rst_received);
}

TEST_F(conn_connect, a_peer_short_of_memory_is_asked_again)
{
    b.no_memory = true;
    Vqp *vqp = a.connect(b);
    run(net, 100 * MSEC);
    EXPECT_TRUE(b.vqps.empty());
    b.no_memory = false;
    run(net);
    expect_paired(vqp, other(vqp));
}

TEST_F(conn_connect, a_peer_that_stays_short_of_memory_fails_with_this_reason)
{
    b.no_memory = true;
    Vqp *vqp = a.connect(b);
    run(net, 2 * SEC - MSEC);
    EXPECT_EQ(0u, vqp->failed);
    run(net, 2 * SEC + 300 * MSEC); /* an interval of repetition later */
    EXPECT_EQ(1u, vqp->failed);
    EXPECT_EQ(VQP_ERR_NO_MEMORY, vqp->status);
    EXPECT_TRUE(b.vqps.empty());
}

/* Before that it was asked twice only. Copies of answers do not count */
TEST_F(conn_connect, a_peer_short_of_memory_is_asked_again_after_a_stop)
{
    net.duplication = 100;
    b.no_memory     = true;
    Vqp *vqp = a.connect(b);
    run(net, 5 * MSEC);
    net.now += 3 * SEC;
    run(net, 5 * MSEC);
    EXPECT_LT(4u, a.tab.stats.rst_received);
    EXPECT_EQ(0u, vqp->failed);
    b.no_memory = false;
    run(net);
    expect_paired(vqp, other(vqp));
}

TEST_F(conn_connect, a_connection_to_a_peer_short_of_memory_is_closed_at_once)
{
    b.no_memory = true;
    Vqp *vqp = a.connect(b);
    run(net, 100 * MSEC);
    a.close(vqp);
    run(net, 500 * MSEC);
    ASSERT_EQ(1u, a.gone.size());
    EXPECT_EQ(VQP_OK, a.gone[0].status);
}

/* Its own connection has the same number, and pairs with the one that is being closed: an
 * earlier answer is too old to end that one */
TEST_F(conn_connect, a_peer_that_was_short_of_memory_connects_to_one_that_is_closed)
{
    std::vector<Datagram> late;

    b.no_memory = true;
    net.filter  = [&late](const Datagram &dgram) {
        if (dgram.type == VQP_WIRE_RST) {
            late.push_back(dgram);
        }
        return (dgram.type == VQP_WIRE_RST) || !late.empty();
    };
    Vqp *x = a.connect(b);
    a.close(x);
    run(net, 5 * MSEC);
    ASSERT_EQ(1u, late.size());

    b.no_memory = false;
    net.filter  = nullptr;
    Vqp *y      = b.connect(a);
    while ((x->conn.asked_by == 0) && step(net, net.now + SEC)) {
    }
    ASSERT_EQ(y->conn.cookie, x->conn.asked_by);
    a.recv(late[0]);
    run(net);
    expect_paired(x, y);
    EXPECT_EQ(0u, y->failed);
}

TEST_F(conn_connect, overtaken_requests_all_connect)
{
    std::vector<Vqp*> vqps;

    net.jitter = 5 * MSEC;
    for (unsigned i = 0; i < 200; ++i) {
        vqps.push_back(a.connect(b));
    }
    EXPECT_EQ(64u, net.sent[VQP_WIRE_REQ]); /* the others wait */
    EXPECT_EQ(VQP_CONN_NEW, vqps[64]->conn.state);
    run(net);
    for (Vqp *vqp : vqps) {
        expect_paired(vqp, other(vqp));
    }
    EXPECT_EQ(200u, b.vqps.size());
}

TEST_F(conn_connect, requests_held_back_go_on_when_the_first_ones_fail)
{
    std::vector<Vqp*> vqps;

    b.refuse = true;
    for (unsigned i = 0; i < 100; ++i) {
        vqps.push_back(a.connect(b));
    }
    run(net);
    for (Vqp *vqp : vqps) {
        EXPECT_EQ(VQP_ERR_RESET, vqp->status);
    }
}

TEST_F(conn_connect, cookies_must_be_new_and_infos_valid)
{
    Vqp *vqp              = connected();
    Vqp *bad              = a.new_vqp();
    vqp_conn_dest_t to    = b.dest();
    vqp_conn_params_t p   = a.params(bad, &to);
    uint64_t now          = net.now;

    p.peer_id = b.id();
    p.cookie  = 0;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM,
              vqp_conn_connect(&a.tab, &bad->conn, &p, now));
    p.cookie = vqp->conn.cookie;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM,
              vqp_conn_connect(&a.tab, &bad->conn, &p, now));
    p.cookie           = 12345;
    bad->info.num_paths = 0;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM,
              vqp_conn_connect(&a.tab, &bad->conn, &p, now));
    a.vqps.pop_back();
}

TEST_F(conn_connect, a_request_of_the_peer_answers_one_that_was_held_back)
{
    std::vector<Vqp*> x, y;

    for (unsigned i = 0; i < 70; ++i) {
        x.push_back(a.connect(b));
    }
    net.queue.clear();
    ASSERT_EQ(VQP_CONN_NEW, x[69]->conn.state);

    for (unsigned i = 0; i < 70; ++i) {
        y.push_back(b.connect(a));
    }

    /* A peer that does not limit its REQs: its own numbers are the same */
    a.recv(request(y[69]));
    EXPECT_EQ(VQP_CONN_NEW, x[69]->conn.state);
    run(net);
    for (unsigned i = 0; i < 70; ++i) {
        expect_paired(x[i], y[i]);
    }
}

TEST_F(conn_connect, the_owner_may_keep_a_request_and_accept_it_later)
{
    Vqp *x = a.connect(b);
    Datagram req = in_flight().at(0);
    vqp_conntab_action_t action;
    Vqp *y = b.new_vqp();
    vqp_conn_params_t p = b.params(y, nullptr);

    net.queue.clear();
    ASSERT_EQ(VQP_OK, vqp_conntab_recv(&b.tab, &req.from, req.data.data(),
                                       req.data.size(), net.now));
    ASSERT_TRUE(vqp_conntab_next_action(&b.tab, &action));
    ASSERT_EQ(VQP_CONNTAB_CREATE_PASSIVE, action.type);
    auto kept = std::unique_ptr<vqp_wire_msg_t>(
            new vqp_wire_msg_t(*action.peer));
    b.recv({b.ud_qpn, a.dest(), {1, 2, 3}, VQP_WIRE_REQ}); /* overwrites */

    p.cookie = 0;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM,
              vqp_conn_accept(&b.tab, &y->conn, &p, kept.get(), net.now));
    p.cookie = 77;
    ASSERT_EQ(VQP_OK,
              vqp_conn_accept(&b.tab, &y->conn, &p, kept.get(), net.now));
    b.drain();

    Vqp *late = b.new_vqp();
    p         = b.params(late, nullptr);
    EXPECT_EQ(VQP_ERR_CANCELED,
              vqp_conn_accept(&b.tab, &late->conn, &p, kept.get(), net.now));
    b.vqps.pop_back();
    run(net);
    expect_paired(x, y);
}

TEST_F(conn_connect, a_connect_without_a_free_number_is_refused)
{
    Vqp *x = connected();

    x->conn.peer->highest = VQP_WIRE_NUMBER_MAX;
    Vqp *y              = a.new_vqp();
    vqp_conn_dest_t to  = b.dest();
    vqp_conn_params_t p = a.params(y, &to);
    p.peer_id           = b.id();
    EXPECT_EQ(VQP_ERR_EXCEEDS_LIMIT,
              vqp_conn_connect(&a.tab, &y->conn, &p, net.now));
    p.num_dests = 0;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM,
              vqp_conn_connect(&a.tab, &y->conn, &p, net.now));

    a.close(x);
    run(net);
    p.num_dests = 1; /* no connection is left to hold the record */
    EXPECT_EQ(VQP_ERR_EXCEEDS_LIMIT,
              vqp_conn_connect(&a.tab, &y->conn, &p, net.now));
    a.vqps.pop_back();
}

TEST_F(conn_connect, states_and_actions_have_names)
{
    EXPECT_STREQ("NEW", vqp_conn_state_name(VQP_CONN_NEW));
    EXPECT_STREQ("CLOSED", vqp_conn_state_name(VQP_CONN_CLOSED));
    EXPECT_STREQ("unknown", vqp_conn_state_name(VQP_CONN_STATE_LAST));
    EXPECT_STREQ("SEND", vqp_conntab_action_name(VQP_CONNTAB_SEND));
    EXPECT_STREQ("unknown", vqp_conntab_action_name(VQP_CONNTAB_ACTION_LAST));
}

TEST_F(conn_states, each_change_is_reported)
{
    Vqp *x = connected();
    Vqp *y = b.connect(a);

    EXPECT_EQ("NEW>REQ, REQ>PEER, PEER>READY, READY>LIVE", take(a));
    EXPECT_EQ("NEW>ASKED, ASKED>PEER, PEER>LIVE", take(b));
    a.close(x);
    run(net);
    EXPECT_EQ("LIVE>CLOSING, CLOSING>LIVE", take(a)); /* b is still used */
    EXPECT_EQ("", take(b));
    b.fail(y, VQP_ERR_IO);
    run(net);
    EXPECT_EQ("LIVE>CLOSED", take(a));
    EXPECT_EQ("LIVE>CLOSED", take(b));
    b.close(y);
    EXPECT_EQ("", take(b));
}

TEST_F(conn_states, nothing_is_reported_to_who_does_not_log)
{
    a.tab.config.log_states = 0;
    connected();
    EXPECT_EQ("", take(a));
}

TEST_F(conn_connect, messages_rotate_over_the_rails_of_the_peer)
{
    std::vector<uint32_t> to;
    vqp_conn_dest_t dests[2] = {b.dest(), b.dest()};
    Vqp *vqp                 = a.new_vqp();
    vqp_conn_params_t p      = a.params(vqp, dests);

    dests[1].qpn = 0x999;
    p.num_dests  = 2;
    p.peer_id    = b.id();
    net.filter   = [&](const Datagram &dgram) {
        to.push_back(dgram.to);
        return true;
    };
    ASSERT_EQ(VQP_OK, vqp_conn_connect(&a.tab, &vqp->conn, &p, net.now));
    vqp->ep = true;
    a.drain();
    run(net, 100 * MSEC);
    ASSERT_GE(to.size(), 3u);
    EXPECT_EQ(b.ud_qpn, to[0]);
    EXPECT_EQ(0x999u, to[1]);
    EXPECT_EQ(b.ud_qpn, to[2]);
}

/*
 * Which connection an endpoint gets
 */

TEST_F(conn_adopt, lowest_number_first)
{
    Vqp *x[3];

    for (auto &vqp : x) {
        vqp = a.connect(b);
    }
    net.jitter = 0;
    run(net);
    for (auto &vqp : x) {
        EXPECT_EQ(other(vqp), b.connect(a));
    }
    Vqp *y = b.connect(a); /* none left: a new one, above all */
    EXPECT_EQ(4u, y->conn.number);
    run(net);
    expect_paired(y, other(y));
}

TEST_F(conn_adopt, other_peers_connections_are_not_taken)
{
    Node c(net);

    connected();
    Vqp *y = b.connect(c);
    EXPECT_EQ(1u, y->conn.number); /* of another pair */
    run(net);
    EXPECT_EQ(2u, b.vqps.size());
    EXPECT_TRUE(y->is_live());
}

TEST_F(conn_adopt, numbers_are_not_reused)
{
    for (uint32_t n = 1; n <= 20; ++n) {
        Vqp *vqp = (n & 1) ? a.connect(b) : b.connect(a);
        EXPECT_EQ(n, vqp->conn.number);
        run(net);
        vqp->node->close(vqp);
        run(net);
        ASSERT_TRUE(a.vqps.empty());
        ASSERT_TRUE(b.vqps.empty());
    }
}

/*
 * Closing
 */

TEST_F(conn_closing, a_half_closed_side_may_be_adopted_again)
{
    Vqp *x = connected();
    Vqp *y = b.connect(a);

    for (unsigned i = 0; i < 3; ++i) {
        a.close(x);
        run(net);
        EXPECT_EQ(x, a.connect(b));
        b.close(y);
        run(net);
        expect_paired(x, y);
        EXPECT_EQ(y, b.connect(a));
    }
    EXPECT_EQ(1u, a.vqps.size());
    EXPECT_EQ(3u, x->conn.serial); /* a new one with each close */
}

/* Found by vqp_sim: the number was lost, and the peer's request got a reset */
TEST_F(conn_closing, before_anything_was_sent_the_peer_may_use_the_same_number)
{
    Vqp *x = nullptr, *y = nullptr;

    for (unsigned i = 0; i < 65; ++i) {
        x = a.connect(b);
        y = b.connect(a);
    }
    ASSERT_EQ(VQP_CONN_NEW, x->conn.state);
    ASSERT_EQ(x->conn.number, y->conn.number);
    a.close(x);
    run(net);
    EXPECT_EQ(0u, y->failed);
    expect_paired(y, other(y));
}

/*
 * Failing
 */

TEST_F(conn_failing, a_restarted_peer_answers_with_a_reset)
{
    Vqp *x = connected();

    b.restart();
    a.close(x);
    run(net);
    EXPECT_TRUE(a.vqps.empty());
    EXPECT_EQ(VQP_OK, a.gone[0].status);

    uint64_t old_id = b.id() ^ 2;
    Vqp *y = a.connect(old_id, b.dests());
    run(net);
    EXPECT_EQ(1u, y->failed);
    EXPECT_EQ(VQP_ERR_RESET, y->status);
    EXPECT_TRUE(b.vqps.empty());
}

/*
 * Rails
 */

TEST_F(conn_rails, one_silent_rail_in_each_direction_stops_nothing)
{
    for (unsigned mask = 0; mask < 16; ++mask) {
        SCOPED_TRACE(mask);
        Vqp *x, *y;

        silence(c, d, mask & 1, (mask >> 1) & 1);
        x = c.connect(d);
        run(net, 2 * SEC);
        y = d.connect(c);
        run(net, 10 * SEC);
        expect_paired(x, y);
        silence(c, d, (mask >> 2) & 1, (mask >> 3) & 1);
        c.close(x); /* "still active": c continues as the passive side */
        run(net, 10 * SEC);
        expect_paired(x, y);
        EXPECT_EQ(0u, y->failed);
        d.close(y);
        run(net, 10 * SEC);
        ASSERT_TRUE(c.vqps.empty());
        ASSERT_TRUE(d.vqps.empty());
    }
}

TEST_F(conn_rails, an_answer_goes_to_the_rail_that_asked)
{
    std::vector<uint32_t> to;

    net.silent   = {d.ud_qpn + RAIL0};
    net.filter = [&](const Datagram &dgram) {
        if ((dgram.from.qpn >= d.ud_qpn) && (dgram.type == VQP_WIRE_REP)) {
            to.push_back(dgram.to);
            EXPECT_EQ(d.ud_qpn + RAIL1, dgram.from.qpn);
        }
        return false;
    };
    Vqp *x = c.connect(d);
    run(net, 2 * SEC);
    EXPECT_TRUE(x->is_live());
    ASSERT_GE(to.size(), 1u);
    EXPECT_EQ(c.ud_qpn + RAIL1, to[0]);
}

TEST_F(conn_rails, answers_to_copies_take_all_rails_in_turn)
{
    Vqp *x = c.connect(d);
    std::vector<uint32_t> to;

    run(net);
    Datagram copy {d.ud_qpn, c.dest(RAIL0), {}, VQP_WIRE_REQ};
    copy.data = request(x).data;
    net.filter = [&](const Datagram &dgram) {
        to.push_back(dgram.to);
        return true;
    };
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(VQP_OK, d.recv(copy));
    }
    ASSERT_EQ(4u, to.size());
    for (unsigned i = 1; i < 4; ++i) {
        EXPECT_NE(to[i - 1], to[i]);
    }
}

/* It is not answered, and so not repeated */
TEST_F(conn_rails, a_reset_is_sent_to_each_rail)
{
    for (unsigned silent : {RAIL0, RAIL1}) {
        net.silent = {};
        Vqp *x   = c.connect(d);
        run(net);
        EXPECT_TRUE(x->is_live());
        ASSERT_EQ(1u, d.vqps.size());
        net.silent = {d.ud_qpn + silent};
        c.abort(x);
        run(net, 100 * MSEC);
        ASSERT_TRUE(d.vqps.empty());
    }
}

/* Rails of one side are more than those of the other */
TEST_F(conn_rails, each_rail_of_either_side_is_tried)
{
    for (unsigned silent : {RAIL0, RAIL1}) {
        net.silent = {c.ud_qpn + silent};
        net.mute = {c.ud_qpn + silent};
        Vqp *x = c.connect(a);
        run(net, 10 * SEC);
        EXPECT_TRUE(x->is_live());
        Vqp *y = b.connect(c);
        run(net, 10 * SEC);
        EXPECT_TRUE(y->is_live());
        c.close(x);
        b.close(y);
        run(net, 10 * SEC);
        ASSERT_TRUE(a.vqps.empty() && b.vqps.empty() && c.vqps.empty());
    }
}

/*
 * Forged messages
 */

TEST_F(conn_forged, one_request_makes_no_number_jump)
{
    b.recv(req(a, a, b, VQP_WIRE_NUMBER_MAX, 99));
    ASSERT_EQ(1u, b.vqps.size());
    Vqp *x = connected();
    EXPECT_EQ(1u, x->conn.number);
    Vqp *y = b.connect(a);
    expect_paired(x, y);
    a.close(x);
    b.close(y);
    run(net); /* the forged one has timed out */
    expect_all_connect();
    EXPECT_EQ(2u, connected()->conn.number - 1);
}

TEST_F(conn_forged, an_endpoint_takes_no_number_that_the_peer_can_not_have_given)
{
    b.recv(req(a, a, b, VQP_WIRE_NUMBER_MAX, 99));
    Vqp *y = b.connect(a);
    EXPECT_EQ(1u, y->conn.number);
    run(net);
    EXPECT_TRUE(y->is_live());
}

/* It stops its own connecting, and that of no other peer */
TEST_F(conn_forged, numbers_that_a_peer_wastes_are_its_own)
{
    Node hub(net, 1);
    Vqp *bad = thief.connect(hub);

    ASSERT_EQ(VQP_OK, vqp_conntab_renumber(&thief.tab, &bad->conn,
                                           VQP_WIRE_NUMBER_MAX - 1));
    net.queue.clear();
    run(net);
    EXPECT_TRUE(bad->is_live());
    EXPECT_EQ(VQP_WIRE_NUMBER_MAX + 0u, bad->conn.number);
    thief.close(bad);
    run(net);
    for (unsigned i = 0; i < 3; ++i) { /* its record is overwritten */
        Vqp *x = a.connect(hub);
        Vqp *y = hub.connect(b);
        run(net);
        EXPECT_TRUE(x->is_live());
        EXPECT_TRUE(y->is_live());
        a.close(x);
        hub.close(y);
        run(net);
    }
    EXPECT_TRUE(hub.vqps.empty());
}

TEST_F(conn_forged, a_stolen_interface_id_gets_no_endpoint)
{
    b.recv(req(a, thief, b, 1, 99));
    ASSERT_EQ(1u, b.vqps.size());
    Vqp *stolen = &b.vqps.front();

    /* The attacker even proves that it receives our messages */
    Datagram proof        = req(a, thief, b, 1, 99);
    uint64_t dst_cookie   = stolen->conn.cookie;
    memcpy(&proof.data[40], &dst_cookie, sizeof(dst_cookie));
    proof.data[48] = VQP_WIRE_FLAG_HAVE_YOURS;
    EXPECT_EQ(VQP_OK, b.recv(proof));
    EXPECT_TRUE(stolen->is_live());

    Vqp *y = b.connect(a);
    EXPECT_NE(stolen, y);
    run(net, SEC);
    expect_paired(y, other(y));
    Vqp *x = a.connect(b);
    expect_paired(x, y);
    EXPECT_EQ(1u, b.vqps.size()); /* the attacker's interface has no connection */
}

/* This requires control of a packet's source address */
TEST_F(conn_forged, an_endpoint_on_an_unproven_connection_gets_the_true_peer)
{
    b.recv(req(a, a, b, 1, 99)); /* a has no such cookie */
    Vqp *forged = &b.vqps.front();
    Vqp *y      = b.connect(a);
    EXPECT_EQ(forged, y);
    run(net);
    expect_paired(y, other(y));
    expect_paired(a.connect(b), y);
}

TEST_F(conn_forged, an_endpoint_that_connects_gets_the_true_peer)
{
    Vqp *y = b.connect(a);

    EXPECT_EQ(VQP_OK, b.recv(req(a, a, b, 1, 99)));   /* the same number */
    b.recv(req(a, thief, b, 1, 98)); /* claims to be another peer's */
    run(net, SEC);
    expect_paired(y, other(y));
    EXPECT_EQ(0u, y->failed);
}

TEST_F(conn_forged, a_request_from_elsewhere_than_its_rails_is_dropped)
{
    Datagram dgram = req(a, a, b, 1, 99);

    dgram.from = thief.dest();
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, b.recv(dgram));
    EXPECT_EQ(1u, b.tab.stats.misplaced);
    EXPECT_TRUE(b.vqps.empty());
    EXPECT_EQ(0u, total_sent());
}

TEST_F(conn_forged, a_reset_needs_both_cookies_once_both_are_known)
{
    Vqp *x = connected();
    Vqp *y = b.connect(a);

    for (Vqp *vqp : {x, y}) {
        uint64_t own = vqp->conn.cookie, its = vqp->conn.peer_cookie;

        EXPECT_EQ(VQP_ERR_RESET, vqp->node->recv(rst(vqp, 0, own)));
        EXPECT_EQ(VQP_ERR_RESET, vqp->node->recv(rst(vqp, its, 0)));
        EXPECT_EQ(VQP_ERR_RESET, vqp->node->recv(rst(vqp, its ^ 1, own)));
        EXPECT_EQ(VQP_ERR_RESET, vqp->node->recv(rst(vqp, its, own ^ 1)));
        EXPECT_EQ(0u, vqp->failed);
    }
    expect_paired(x, y);
    EXPECT_EQ(VQP_OK, a.recv(rst(x, x->conn.peer_cookie, x->conn.cookie)));
    EXPECT_EQ(1u, x->failed);
}

TEST_F(conn_forged, a_reset_of_an_unanswered_request_needs_its_cookie)
{
    Vqp *x = a.connect(b);

    EXPECT_EQ(VQP_ERR_RESET, a.recv(rst(x, 0, x->conn.cookie ^ 1)));
    EXPECT_EQ(VQP_ERR_RESET, a.recv(rst(x, 77, 0)));
    run(net);
    expect_paired(x, other(x));
}

TEST_F(conn_forged, a_flood_of_requests_is_bounded)
{
    for (unsigned i = 0; i < 1000; ++i) {
        b.recv(req(a, a, b, 1 + i, 1000 + i));
        EXPECT_LE(b.vqps.size(), b.config.max_unproven);
    }
    EXPECT_EQ(1000 - b.config.max_unproven, b.tab.stats.refused);
    EXPECT_EQ(b.config.max_unproven, b.tab.num_unproven);
    net.queue.clear();
    run(net); /* silence ends them */
    EXPECT_TRUE(b.vqps.empty());
    EXPECT_EQ(0u, b.tab.num_unproven);
    EXPECT_EQ(0u, b.tab.stats.accepts - b.gone.size());
}

TEST_F(conn_forged, a_flood_does_not_keep_an_honest_peer_out)
{
    Node honest(net);

    flood();
    Vqp *x = honest.connect(b);
    run(net, 100 * MSEC);
    EXPECT_TRUE(x->is_live());
    EXPECT_EQ(1u, b.tab.stats.proven);
    EXPECT_EQ(b.config.max_unproven, b.tab.num_unproven);
}

/* A busy process, or one with many interfaces, takes its time to answer */
TEST_F(conn_forged, a_flood_does_not_push_out_an_honest_peer_that_is_slow)
{
    Node honest(net);
    Vqp *x = honest.connect(b);

    net.filter = [&](const Datagram &dgram) { return dgram.to == b.ud_qpn; };
    run(net, 100 * MSEC);
    EXPECT_EQ(1u, b.vqps.size());
    for (unsigned i = 0; i < 30; ++i) {
        b.recv(req(a, a, b, 5, 1000 + i));
        flood();
        run(net, 100 * MSEC);
    }
    net.filter = nullptr;
    run(net, SEC);
    EXPECT_TRUE(x->is_live());
}

TEST_F(conn_forged, a_proof_is_for_one_request_of_its_sender)
{
    flood();
    Datagram good = with_proof(req(a, a, b, 7, 77));
    EXPECT_EQ(VQP_OK, b.recv(good));
    EXPECT_EQ(b.config.max_unproven + 1, b.vqps.size());
    for (const Datagram &other : {req(thief, thief, b, 7, 77), req(a, thief, b, 7, 77),
                                  req(a, a, b, 8, 77), req(a, a, b, 9, 78)}) {
        Datagram bad = other;

        std::copy(&good.data[40], &good.data[50], &bad.data[40]);
        EXPECT_EQ(VQP_ERR_NO_RESOURCE, b.recv(bad));
    }
    EXPECT_EQ(b.config.max_unproven + 1, b.vqps.size());
    EXPECT_EQ(1u, b.tab.stats.proven);
}

/* It is asked for the right one, and not answered that it is unknown */
TEST_F(conn_forged, a_wrong_proof_is_as_good_as_none)
{
    Vqp *x = a.connect(b);

    EXPECT_EQ(VQP_OK, a.recv(rst(x, 99, x->conn.cookie, VQP_WIRE_FLAG_PROVE)));
    EXPECT_EQ(99u, x->conn.proof);
    flood();
    run(net, 100 * MSEC);
    EXPECT_TRUE(x->is_live());
    EXPECT_EQ(1u, b.tab.stats.proven);
}

TEST_F(conn_forged, a_demand_of_a_proof_ends_nothing)
{
    Vqp *x = connected();
    Vqp *y = a.connect(b);

    EXPECT_EQ(VQP_OK, a.recv(rst(x, x->conn.peer_cookie, x->conn.cookie,
                                 VQP_WIRE_FLAG_PROVE)));
    EXPECT_EQ(VQP_OK, a.recv(rst(y, 0, y->conn.cookie, VQP_WIRE_FLAG_PROVE)));
    EXPECT_EQ(0u, y->conn.proof);
    EXPECT_EQ(2u, a.tab.stats.ignored);
    run(net);
    expect_paired(x, other(x));
    expect_paired(y, other(y));
}

TEST_F(conn_forged, a_request_with_the_cookie_of_our_side_makes_no_second_one)
{
    b.recv(req(a, a, b, 5, 99));
    ASSERT_EQ(1u, b.vqps.size());
    EXPECT_EQ(VQP_ERR_RESET,
              b.recv(req(a, a, b, 5, b.vqps.front().conn.cookie)));
    EXPECT_EQ(1u, b.vqps.size());
}

TEST_F(conn_forged, what_is_destroyed_counts_until_it_is_freed)
{
    b.no_release = true;
    for (unsigned i = 0; i < b.config.max_unproven; ++i) {
        b.recv(req(a, a, b, 1 + i, 1000 + i));
    }
    net.queue.clear();
    run(net);
    EXPECT_EQ(0u, b.tab.num_conns);
    EXPECT_EQ(b.config.max_unproven, b.tab.num_unproven);
    EXPECT_EQ(VQP_ERR_NO_RESOURCE, b.recv(req(a, a, b, 1, 1)));
    b.no_release       = false;
    b.tab.num_unproven = 0;
}

TEST_F(conn_forged, requests_push_no_record_of_a_peer_out)
{
    Node hub(net, 1);
    Vqp *x = a.connect(hub);

    run(net);
    a.close(x);
    run(net);
    for (unsigned i = 0; i < 50; ++i) {
        Node stranger(net);
        hub.recv(req(stranger, stranger, hub, 1, 5));
        net.queue.clear();
        run(net);
    }
    EXPECT_EQ(2u, hub.connect(a)->conn.number);
    EXPECT_EQ(0u, hub.tab.stats.renumbered);
}

TEST_F(conn_forged, a_peer_that_comes_and_goes_pushes_no_record_out)
{
    Node hub(net, 3);
    Node often(net);
    Vqp *x = a.connect(hub);

    run(net);
    a.close(x);
    run(net);
    for (unsigned i = 0; i < 10; ++i) {
        x = often.connect(hub);
        run(net);
        often.close(x);
        run(net);
    }
    EXPECT_EQ(2u, hub.connect(a)->conn.number);
    EXPECT_EQ(0u, hub.tab.stats.renumbered);
}

/*
 * Messages that should not have come
 */

TEST_F(conn_stray, another_request_of_the_same_number_is_reset)
{
    Vqp *x       = a.connect(b);
    Datagram req = in_flight().at(0);

    run(net);
    req.data[32] ^= 0xff; /* the source cookie */
    EXPECT_EQ(VQP_ERR_RESET, b.recv(req));
    run(net);
    expect_paired(x, other(x));
}

TEST_F(conn_stray, wrong_ids_numbers_or_cookies_are_reset)
{
    Vqp *x = connected();

    for (unsigned offset : {12, 16, 24, 32, 40}) {
        a.close(x);
        Datagram bye = in_flight().at(0);
        ASSERT_EQ(VQP_WIRE_BYE, bye.type);
        net.queue.clear();
        bye.data[offset] ^= 0x40;
        EXPECT_EQ(VQP_ERR_RESET, b.recv(bye)) << offset;
        net.queue.clear();
        EXPECT_EQ(1u, b.vqps.size());
        run(net);
        x = connected();
    }
}

TEST_F(conn_stray, garbage_is_counted_and_not_answered)
{
    Datagram junk = {b.ud_qpn, a.dest(), std::vector<uint8_t>(200, 0x5a),
                     VQP_WIRE_REQ};

    EXPECT_EQ(VQP_ERR_PROTOCOL, b.recv(junk));
    EXPECT_EQ(1u, b.tab.stats.malformed);
    EXPECT_EQ(0u, total_sent());
}

TEST_F(conn_stray, unknown_types_and_versions_are_counted_and_not_answered)
{
    a.connect(b);
    Datagram req = in_flight().at(0);

    net.queue.clear();
    req.data[5] = 99;
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, b.recv(req));
    req.data[5] = VQP_WIRE_REQ;
    req.data[4] = 99;
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, b.recv(req));
    EXPECT_EQ(2u, b.tab.stats.unknown_type);
    EXPECT_EQ(0u, b.tab.stats.sent);
}

TEST_F(conn_stray, unknown_features_are_ignored)
{
    a.tab.config.features = 0x80000000;
    Vqp *x = connected();

    EXPECT_GT(b.tab.stats.unknown_feature, 0u);
    EXPECT_EQ(0x80000000u, other(x)->conn.peer_features);
}

TEST_F(conn_stray, path_messages_are_of_connections_that_are_set_up)
{
    Vqp *x = a.connect(b);
    vqp_wire_path_down_t down {};
    vqp_conntab_action_t action;

    EXPECT_EQ(0, vqp_conntab_path_message(&x->conn, VQP_WIRE_PATH_DOWN, 0, 0,
                                          &down, NULL, &action));
}

TEST_F(conn_stray, path_messages_take_all_pairs_of_rails)
{
    Vqp *x = connected();
    vqp_wire_path_down_t down {};

    for (unsigned rails = 1; rails <= VQP_MAX_RAILS; ++rails) {
        for (unsigned dests = 1; dests <= VQP_MAX_RAILS; ++dests) {
            std::set<std::pair<unsigned, uint32_t>> pairs;

            a.tab.config.num_rails = (uint8_t)rails;
            x->conn.num_dests      = (uint8_t)dests;
            x->conn.path_turn      = 0;
            for (unsigned i = 0; i < dests; ++i) {
                x->conn.dests[i].qpn = 100 + i;
            }
            for (unsigned i = 0; i < rails * dests; ++i) {
                vqp_conntab_action_t action;

                ASSERT_EQ(1, vqp_conntab_path_message(
                                     &x->conn, VQP_WIRE_PATH_DOWN, 0, 0, &down,
                                     NULL, &action));
                pairs.insert({action.to.rail, action.to.qpn});
            }
            EXPECT_EQ(rails * dests, pairs.size()) << rails << " " << dests;
        }
    }
    EXPECT_EQ(100u, a.tab.stats.path_sent);
}

/* A rail that is cut takes its path down: what is said about that path has another
 * way */
TEST_F(conn_stray, path_messages_avoid_rails_if_there_are_others)
{
    Vqp *x = connected();
    vqp_conntab_action_t action;
    vqp_wire_path_down_t down {};
    vqp_conn_dest_t dests[VQP_MAX_RAILS] {};

    for (unsigned rails = 1; rails <= VQP_MAX_RAILS; ++rails) {
        a.tab.config.num_rails = (uint8_t)rails;
        x->conn.num_dests      = (uint8_t)rails;
        for (unsigned i = 0; i < rails; ++i) {
            dests[i].qpn      = 100 + i;
            x->conn.dests[i]  = dests[i];
        }
        for (unsigned i = 0; i < 4 * rails; ++i) {
            vqp_conn_route_t avoid {i % rails, i % rails};

            ASSERT_EQ(1, vqp_conntab_path_message(&x->conn, VQP_WIRE_PATH_DOWN,
                                                  0, 0, &down, &avoid,
                                                  &action));
            ASSERT_LT(action.to.rail, rails);
            if (rails > 1) {
                EXPECT_NE(avoid.rail, action.to.rail);
                EXPECT_NE(100 + avoid.peer_rail, action.to.qpn);
            }
        }
    }
}

TEST_F(conn_stray, a_message_before_the_actions_were_drained_is_dropped)
{
    Vqp *x       = a.connect(b);
    Datagram req = in_flight().at(0);

    EXPECT_EQ(VQP_OK, vqp_conntab_recv(&b.tab, &req.from, req.data.data(),
                                       req.data.size(), net.now));
    EXPECT_EQ(VQP_ERR_NO_RESOURCE,
              vqp_conntab_recv(&b.tab, &req.from, req.data.data(),
                               req.data.size(), net.now));
    EXPECT_EQ(1u, b.tab.stats.overruns);
    b.drain();
    run(net);
    expect_paired(x, other(x));
}

/*
 * Loopback
 */

TEST_F(conn_loop, an_endpoint_pairs_with_a_passive_twin)
{
    Vqp *x = a.connect(a);

    run(net);
    ASSERT_EQ(2u, a.vqps.size());
    expect_paired(x, a.find(x->conn.peer_cookie));
    a.close(x);
    run(net);
    EXPECT_TRUE(a.vqps.empty());
}

TEST_F(conn_loop, two_endpoints_created_in_turn_share_one_pair)
{
    Vqp *x = a.connect(a);

    run(net);
    Vqp *y = a.connect(a);
    EXPECT_EQ(2u, a.vqps.size());
    expect_paired(x, y);
    a.close(x);
    run(net);
    expect_paired(x, y);
    a.close(y);
    run(net);
    EXPECT_TRUE(a.vqps.empty());
}

TEST_F(conn_loop, endpoints_created_at_once_get_a_twin_each)
{
    Vqp *x = a.connect(a);
    Vqp *y = a.connect(a);

    run(net);
    EXPECT_EQ(4u, a.vqps.size());
    expect_paired(x, a.find(x->conn.peer_cookie));
    expect_paired(y, a.find(y->conn.peer_cookie));
    EXPECT_NE(x->conn.peer_cookie, y->conn.cookie);
}

TEST_F(conn_loop, a_copy_of_the_request_makes_no_second_twin)
{
    net.duplication = 100;
    net.jitter      = 50 * MSEC;
    for (unsigned i = 0; i < 20; ++i) {
        Vqp *x = a.connect(a);
        run(net);
        ASSERT_EQ(2u, a.vqps.size());
        a.close(x);
        run(net);
        ASSERT_TRUE(a.vqps.empty());
    }
}

TEST_F(conn_loop, a_request_for_a_number_that_was_not_given_is_refused)
{
    Vqp *x = a.connect(a);
    Datagram dgram = net.queue.begin()->second;

    dgram.data[12] = 77; /* the number */
    EXPECT_EQ(VQP_ERR_RESET, a.recv(dgram));
    EXPECT_EQ(1u, a.vqps.size());
    run(net);
    EXPECT_EQ(2u, a.vqps.size());
    expect_paired(x, a.find(x->conn.peer_cookie));
}

/*
 * The records of peers
 */

TEST_F(conn_memory, the_record_of_a_peer_moves_when_its_holder_goes)
{
    std::vector<Vqp*> vqps;

    for (unsigned i = 0; i < 8; ++i) {
        vqps.push_back(connected());
    }
    for (Vqp *vqp : vqps) {
        EXPECT_EQ(8u, vqp->conn.peer->highest);
        a.close(vqp);
        run(net);
        a.check();
        b.check();
    }
    EXPECT_EQ(9u, connected()->conn.number);
}

TEST_F(conn_memory, an_overwritten_record_never_lets_a_number_be_reused)
{
    Node hub(net, 2);
    std::vector<std::unique_ptr<Node>> peers;
    std::map<uint64_t, std::set<uint32_t>> seen;

    for (unsigned i = 0; i < 10; ++i) {
        peers.emplace_back(new Node(net));
    }
    for (unsigned round = 0; round < 200; ++round) {
        Node &peer = *peers[net.random() % peers.size()];
        Vqp *vqp   = (round & 1) ? hub.connect(peer) : peer.connect(hub);
        run(net);
        ASSERT_TRUE(vqp->is_live());
        ASSERT_TRUE(seen[peer.id()].insert(vqp->conn.number).second);
        hub.check();
        vqp->node->close(vqp);
        run(net);
        hub.check();
        ASSERT_TRUE(hub.vqps.empty());
    }
}

TEST_F(conn_memory, a_side_without_a_record_learns_the_highest_number)
{
    Node hub(net, 1), forgetful(net, 1);

    for (unsigned i = 0; i < 10; ++i) {
        Vqp *vqp = hub.connect(forgetful);
        run(net);
        hub.close(vqp);
        run(net);
    }
    Vqp *vqp = forgetful.connect(a); /* the record of the hub is overwritten */
    run(net);
    forgetful.close(vqp);
    run(net);

    Vqp *x[3], *y;
    for (auto &one : x) {
        one = forgetful.connect(hub);
    }
    EXPECT_EQ(1u, x[0]->conn.number);
    run(net);
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_TRUE(x[i]->is_live());
        EXPECT_GT(x[i]->conn.number, 10u);
    }
    EXPECT_EQ(3u, forgetful.tab.stats.renumbered);
    y = hub.connect(forgetful);
    EXPECT_TRUE(y->is_live());
    forgetful.check();
    hub.check();
}

TEST_F(conn_memory, both_sides_may_lose_their_records_and_connect_at_once)
{
    for (unsigned seed = 0; seed < 100; ++seed) {
        Net world(seed);
        Node one(world, 1), two(world, 1), third(world, 1);
        std::vector<Vqp*> all;

        for (Node *node : {&one, &two, &third}) {
            node->unique_numbers = false; /* not recorded any more */
        }
        world.jitter      = 30 * MSEC;
        world.loss        = 10;
        world.duplication = 30;
        for (unsigned i = 0; i < 60; ++i) {
            Node &from = (world.random() & 1) ? one : two;
            Node &to   = (&from == &one) ? two : one;
            Vqp *vqp   = (world.random() % 4) ? from.connect(to) :
                                                from.connect(third);
            all.push_back(vqp);
            run(world, world.random() % (20 * MSEC));
            if (world.random() % 3 == 0) {
                run(world, 5 * SEC);
                for (Vqp *each : all) {
                    ASSERT_TRUE(each->is_live()) << "seed " << seed;
                    each->node->close(each);
                }
                all.clear();
                run(world, 10 * SEC);
            }
        }
        run(world, 5 * SEC);
        for (Vqp *each : all) {
            ASSERT_TRUE(each->is_live()) << "seed " << seed;
        }
        one.check();
        two.check();
    }
}

TEST_F(conn_memory, sizes_are_what_the_documentation_says)
{
    EXPECT_LE(sizeof(vqp_conn_t), 488u);
    EXPECT_LE(sizeof(vqp_peer_t), 64u);
    RecordProperty("sizeof_conn", (int)sizeof(vqp_conn_t));
}

TEST_F(conn_memory, an_invalid_configuration_is_refused)
{
    vqp_conntab_t tab;
    vqp_conntab_config_t good = a.config, bad;
    std::vector<uint64_t> mem(1000);

    EXPECT_EQ(VQP_OK, vqp_conntab_init(&tab, &good, mem.data()));
    bad = good; bad.iface_id = 0;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, vqp_conntab_init(&tab, &bad, mem.data()));
    bad = good; bad.retry_first = 0;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, vqp_conntab_init(&tab, &bad, mem.data()));
    bad = good; bad.retry_max = bad.retry_first - 1;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, vqp_conntab_init(&tab, &bad, mem.data()));
    bad = good; bad.num_rails = 0;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, vqp_conntab_init(&tab, &bad, mem.data()));
    bad = good; bad.hash_order = 25;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, vqp_conntab_init(&tab, &bad, mem.data()));
    bad = good; bad.num_idle = 0;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, vqp_conntab_init(&tab, &bad, mem.data()));
    bad = good; bad.max_unproven = 0;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, vqp_conntab_init(&tab, &bad, mem.data()));
}
