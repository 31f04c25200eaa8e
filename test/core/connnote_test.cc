/*
 * What a connection that never becomes LIVE remembers: the reason that the user gets.
 */
#include "conn_node.h"

extern "C" {
#include "core/conn/connnote.h"
}

using namespace vqp_test;

namespace {

class ConnNoteTest : public ::testing::Test {
protected:
    Net  net;
    Node a {net};
    Node b {net};

    /* Where the last REQ or REP of a went */
    void watch()
    {
        net.filter = [this](const Datagram &dgram) {
            last = dgram;
            return false;
        };
    }

    /* All that @a from sends is lost if the condition holds */
    void lose(const Node &from, const std::function<bool(const vqp_wire_header_t&)> &which)
    {
        net.filter = [&from, which](const Datagram &dgram) {
            return (dgram.from.qpn == from.ud_qpn) && which(dgram.header());
        };
    }

    static bool all(const vqp_wire_header_t &) { return true; }

    /* It has ended: in this state, after this message */
    static void expect(const Vqp *vqp, vqp_conn_state_t stopped, vqp_conn_heard_t heard,
                       vqp_status_t status = VQP_ERR_TIMEOUT)
    {
        EXPECT_EQ(status, vqp->status);
        EXPECT_EQ(VQP_CONN_CLOSED, vqp->conn.state);
        EXPECT_TRUE(vqp_conn_was_never_live(&vqp->conn));
        EXPECT_STREQ(vqp_conn_state_name(stopped),
                     vqp_conn_state_name(vqp->conn.notes.stopped));
        EXPECT_EQ(heard, vqp->conn.notes.heard);
        EXPECT_EQ(0, vqp->conn.notes.version);
    }

    /* A REQ of b to a, as another version would send it */
    Datagram other_version(unsigned version)
    {
        Vqp *vqp = b.connect(a);
        Datagram dgram;

        for (auto &it : net.queue) {
            if (it.second.to == a.ud_qpn) {
                dgram = it.second;
            }
        }
        b.abort(vqp);
        net.queue.clear();
        dgram.data.at(4) = (uint8_t)version;
        return dgram;
    }

    Datagram last;
};

using conn_note = ConnNoteTest;

TEST_F(conn_note, of_a_silent_peer_has_what_was_sent)
{
    Vqp *vqp = a.connect(b);

    b.vanish();
    run(net, 10 * SEC);
    expect(vqp, VQP_CONN_REQ, VQP_CONN_HEARD_NOTHING);
    EXPECT_EQ(vqp->conn.retransmits + 1, vqp->conn.notes.reqs);
    EXPECT_EQ(net.sent[VQP_WIRE_REQ], vqp->conn.notes.reqs);
    EXPECT_EQ(0u, vqp->conn.notes.reps);
    EXPECT_EQ(5 * SEC, vqp->conn.notes.ended - vqp->conn.notes.began);
}

TEST_F(conn_note, names_the_rails_of_the_last_message)
{
    Node one(net, 16, 2), two(net, 16, 2);
    std::set<unsigned> seen;
    Vqp *vqp;

    two.vanish();
    watch();
    vqp = one.connect(two);
    while (vqp->failed == 0) {
        uint32_t to = vqp->conn.dests[vqp->conn.notes.dest].qpn;

        EXPECT_EQ(last.to, to);
        EXPECT_EQ(last.from.qpn, one.ud_qpn + vqp->conn.notes.rail);
        seen.insert(to);
        ASSERT_TRUE(step(net));
    }
    EXPECT_EQ(2u, seen.size());
    EXPECT_EQ(VQP_CONN_REQ, vqp->conn.notes.stopped);
}

TEST_F(conn_note, counts_what_the_owner_could_not_send)
{
    Vqp *vqp = a.connect(b);

    b.vanish();
    vqp_conn_note_unsent(&vqp->conn, VQP_WIRE_REQ);
    vqp_conn_note_unsent(&vqp->conn, VQP_WIRE_RST);
    EXPECT_EQ(1u, vqp->conn.notes.unsent);
    for (unsigned i = 0; i < 70000; ++i) {
        vqp_conn_note_unsent(&vqp->conn, VQP_WIRE_REP);
    }
    EXPECT_EQ(UINT16_MAX, vqp->conn.notes.unsent);
}

TEST_F(conn_note, of_a_connection_that_only_waited_has_no_message)
{
    Vqp *vqp = nullptr;

    b.vanish();
    for (unsigned i = 0; i <= VQP_PEER_MAX_UNANSWERED; ++i) {
        vqp = a.connect(b);
    }
    EXPECT_EQ(VQP_CONN_NEW, vqp->conn.state);
    a.fail(vqp, VQP_ERR_IO);
    expect(vqp, VQP_CONN_NEW, VQP_CONN_HEARD_NOTHING, VQP_ERR_IO);
    EXPECT_EQ(0u, vqp->conn.notes.reqs);
}

TEST_F(conn_note, of_a_peer_whose_own_request_arrives)
{
    Vqp *vqp;

    lose(a, all);
    vqp = a.connect(b);
    b.connect(a);
    run(net, 10 * SEC);
    expect(vqp, VQP_CONN_REQ, VQP_CONN_HEARD_REQ);
    EXPECT_GT(vqp->conn.notes.reqs, 0u);
    EXPECT_GT(vqp->conn.notes.reps, 0u);
}

TEST_F(conn_note, of_an_endpoint_that_adopts_begins_with_it)
{
    Vqp *vqp;

    lose(a, all);
    b.connect(a);
    run(net, SEC);
    ASSERT_EQ(1u, a.vqps.size());
    EXPECT_GT(a.vqps.front().conn.notes.reps, 0u);
    vqp = a.connect(b);
    EXPECT_EQ(net.now, vqp->conn.notes.began);
    EXPECT_EQ(1u, vqp->conn.notes.reqs);
    EXPECT_EQ(0u, vqp->conn.notes.reps);
    EXPECT_EQ(VQP_CONN_HEARD_REQ, vqp->conn.notes.heard);
}

TEST_F(conn_note, of_a_peer_that_requires_a_proof)
{
    Node third(net);
    Vqp *vqp;

    b.tab.config.max_unproven = 1;
    lose(a, [](const vqp_wire_header_t &hdr) {
        return (hdr.flags & VQP_WIRE_FLAG_PROVE) != 0;
    });
    third.connect(b);
    third.vanish(); /* its REQ arrives, no answer does */
    run(net, SEC);
    ASSERT_EQ(1u, b.tab.num_unproven);
    vqp = a.connect(b);
    run(net, 3 * SEC);
    EXPECT_EQ(VQP_CONN_REQ, vqp->conn.state);
    EXPECT_EQ(VQP_CONN_HEARD_PROVE, vqp->conn.notes.heard);
}

TEST_F(conn_note, of_a_peer_without_memory)
{
    Vqp *vqp;

    b.no_memory = true;
    vqp         = a.connect(b);
    run(net, 10 * SEC);
    expect(vqp, VQP_CONN_REQ, VQP_CONN_HEARD_LACKS, VQP_ERR_NO_MEMORY);
}

TEST_F(conn_note, of_a_peer_that_has_restarted)
{
    Vqp *vqp = a.connect(b);

    b.restart();
    run(net, SEC);
    expect(vqp, VQP_CONN_REQ, VQP_CONN_HEARD_UNKNOWN, VQP_ERR_RESET);
}

TEST_F(conn_note, of_a_number_that_can_not_be_used)
{
    Vqp *vqp = a.connect(b);
    vqp_wire_header_t hdr {};
    Datagram dgram {a.ud_qpn, b.dest(), std::vector<uint8_t>(1024), VQP_WIRE_RST};

    hdr.type       = VQP_WIRE_RST;
    hdr.number     = vqp->conn.number;
    hdr.src_iface  = b.id();
    hdr.dst_iface  = a.id();
    hdr.dst_cookie = vqp->conn.cookie;
    hdr.flags      = VQP_WIRE_FLAG_NUMBER_USED;
    hdr.serial     = VQP_WIRE_NUMBER_MAX;
    dgram.data.resize(vqp_wire_encode(&hdr, nullptr, dgram.data.data()));
    EXPECT_EQ(VQP_OK, a.recv(dgram));
    expect(vqp, VQP_CONN_REQ, VQP_CONN_HEARD_NUMBER_USED, VQP_ERR_RESET);
}

TEST_F(conn_note, of_queue_pairs_that_wait)
{
    Vqp *vqp;

    a.wait_qps = 1000;
    vqp        = a.connect(b);
    run(net, 10 * SEC);
    expect(vqp, VQP_CONN_PEER, VQP_CONN_HEARD_REQ); /* the peer is READY */
}

TEST_F(conn_note, of_queue_pairs_that_can_not_be_connected)
{
    Vqp *vqp;

    a.defer_qps = true;
    vqp         = a.connect(b);
    run(net, SEC);
    a.fail(vqp, VQP_ERR_INVALID_PARAM);
    expect(vqp, VQP_CONN_PEER, VQP_CONN_HEARD_REP, VQP_ERR_INVALID_PARAM);
}

TEST_F(conn_note, of_a_peer_that_does_not_confirm)
{
    Vqp *vqp;

    lose(b, [](const vqp_wire_header_t &hdr) {
        return (hdr.flags & VQP_WIRE_FLAG_HAVE_YOURS) != 0;
    });
    vqp = a.connect(b);
    run(net, 10 * SEC);
    expect(vqp, VQP_CONN_READY, VQP_CONN_HEARD_REP);
}

TEST_F(conn_note, of_a_peer_whose_queue_pairs_can_not_be_connected)
{
    Vqp *vqp;

    b.defer_qps = true;
    vqp         = a.connect(b);
    run(net, SEC);
    EXPECT_EQ(VQP_CONN_READY, vqp->conn.state);
    b.fail(&b.vqps.front(), VQP_ERR_IO);
    run(net, SEC);
    expect(vqp, VQP_CONN_READY, VQP_CONN_HEARD_RESET, VQP_ERR_RESET);
}

TEST_F(conn_note, of_a_peer_whose_interface_is_closed)
{
    Vqp *vqp;

    b.defer_qps = true;
    vqp         = a.connect(b);
    run(net, SEC);
    b.abort(&b.vqps.front());
    run(net, SEC);
    expect(vqp, VQP_CONN_READY, VQP_CONN_HEARD_CLOSED, VQP_ERR_RESET);
}

TEST_F(conn_note, of_an_answer_from_elsewhere)
{
    Vqp *vqp;

    lose(a, all);
    vqp = a.connect(b);
    net.filter = nullptr;
    net.silent.insert(a.ud_qpn);
    run(net, SEC); /* b has answered */
    net.silent.clear();
    net.filter = [&](const Datagram &dgram) {
        if (dgram.to == a.ud_qpn) {
            Datagram moved = dgram;

            moved.from.gid[0] = 0x77;
            EXPECT_EQ(VQP_ERR_INVALID_PARAM, a.recv(moved));
        }
        return dgram.to == a.ud_qpn;
    };
    run(net, 10 * SEC);
    expect(vqp, VQP_CONN_REQ, VQP_CONN_HEARD_MISPLACED);
}

TEST_F(conn_note, of_a_peer_of_another_version_has_it)
{
    Datagram dgram = other_version(VQP_WIRE_VERSION + 1);
    Vqp *vqp       = a.connect(b);

    b.vanish();
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, a.recv(dgram));
    EXPECT_EQ(VQP_WIRE_VERSION + 1, vqp->conn.notes.version);
    EXPECT_EQ(VQP_CONN_HEARD_NOTHING, vqp->conn.notes.heard);
    run(net, 10 * SEC);
    EXPECT_EQ(VQP_ERR_TIMEOUT, vqp->status);
    EXPECT_EQ(VQP_WIRE_VERSION + 1, vqp->conn.notes.version);
}

TEST_F(conn_note, ignores_versions_of_others)
{
    Datagram dgram   = other_version(VQP_WIRE_VERSION + 1);
    Datagram unknown = other_version(VQP_WIRE_VERSION);
    Vqp *vqp         = a.connect(b);

    b.vanish();
    unknown.data[5] = 99; /* of this version, of a type that is not known */
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, a.recv(unknown));
    dgram.from.gid[0] = 0x77;
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, a.recv(dgram));
    EXPECT_EQ(0, vqp->conn.notes.version);
}

TEST_F(conn_note, is_written_no_more_when_the_connection_is_live)
{
    Datagram dgram = other_version(VQP_WIRE_VERSION + 1);
    Vqp *vqp       = a.connect(b);
    Vqp *peer;

    run(net);
    ASSERT_TRUE(vqp->is_live());
    EXPECT_EQ(VQP_CONN_HEARD_REP, vqp->conn.notes.heard);
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, a.recv(dgram));
    EXPECT_EQ(0, vqp->conn.notes.version);
    EXPECT_FALSE(vqp_conn_was_never_live(&vqp->conn));

    peer = b.find(vqp->conn.peer_cookie);
    ASSERT_NE(nullptr, peer);
    b.abort(peer);
    run(net);
    EXPECT_EQ(1u, vqp->failed);
    EXPECT_EQ(VQP_CONN_HEARD_REP, vqp->conn.notes.heard);
    EXPECT_EQ(VQP_CONN_LIVE, vqp->conn.notes.stopped);
    EXPECT_FALSE(vqp_conn_was_never_live(&vqp->conn));
}

} // namespace
