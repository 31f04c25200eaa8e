/*
 * A peer that died told apart from an outage: what the vqp concludes from the answers
 * of the peer, and of its host; and whom the connection asks.
 */
#include "failkit.h"
#include "conn_node.h"

extern "C" {
#include "core/failover/alive.h"
#include "core/data/control.h"
#include "core/failover/failover_int.h"
#include "core/failover/silence.h"
}

namespace {

using vqp_test::MSEC;
using vqp_test::SEC;

class alive : public failkit {
protected:
    alive() {
        m_now                  = SEC;
        m_failover.silence     = 2 * MSEC;
        m_failover.retry_first = 2 * MSEC;
        m_failover.retry_max   = 200 * MSEC;
        m_failover.hold_first  = 10 * MSEC;
        m_failover.hold_max    = 500 * MSEC;
        m_failover.outage      = 5 * SEC;
    }

    /* So that much is in flight on each path, and nothing comes back */
    void start(unsigned num_paths = 2) {
        open(num_paths);
        for (unsigned i = 0; i < num_paths; ++i) {
            m_batch.count = 0;
            vqp_tx_emit_nop(&m_tx, &m_batch, &path(i));
        }
        vqp_silence_start(&m_vqp);
        timer();
        timer();
        m_since = m_now;
    }

    /* Time passes, and nothing happens but what these say: who answers from now on */
    void pass(uint64_t time) {
        uint64_t end = m_now + time;

        while (m_now < end) {
            uint64_t next = vqp_next_timeout(&m_vqp);

            m_now = std::min(end, std::max(m_now + MSEC, next));
            timer();
            ask_if_wanted();
            for (unsigned i = 0; i < m_paths.size(); ++i) {
                if ((next_message(i).type != VQP_WIRE_TYPE_NONE) && m_computes) {
                    hear_down(ANSWER | VQP_WIRE_FLAG_BUSY, path(i).fo.epoch, i);
                }
            }
            (void)this->next();
        }
    }

    void ask_if_wanted() {
        take();
        for (auto &each : m_events) {
            if (each.first == VQP_EVENT_PING) {
                ask();
                break;
            }
        }
        m_events.clear();
    }

    void ask() {
        ++m_asked;
        m_answers.host_pinged = !m_has_port || (m_asked % 2 == 1);
        vqp_alive_pinged(&m_vqp, &m_answers, m_now);
        if (m_peer_answers) {
            m_answers.peer = m_now + MSEC;
        }
        if ((m_host_answers && (!m_has_port || (m_asked % 2 == 0))) ||
            (m_flaps && (m_asked % 2))) {
            m_answers.host = m_now + MSEC;
        }
    }

    /* RC has found out on a path, and so on the others as soon as they are asked */
    void rc_gives_up(unsigned i = 0) {
        vqp_on_send_error(&m_vqp, &path(i), path(i).head, VQP_ERR_TIMEOUT);
        timer();
        ask_if_wanted();
    }

    void all_go_down(vqp_status_t status = VQP_ERR_TIMEOUT) {
        for (vqp_path_t &each : m_paths) {
            if (vqp_path_outstanding(&each) != 0) {
                vqp_on_send_error(&m_vqp, &each, each.head, status);
            } else {
                vqp_path_down(&m_vqp, &each, status);
            }
        }
        timer();
    }

    bool is_dead() { return vqp_is_failed(&m_vqp); }

    bool            m_peer_answers = false, m_host_answers = false, m_flaps = false;
    bool            m_computes = false;
    bool            m_has_port = false; /* one of two of the peer has no witness */
    unsigned        m_asked = 0;
    uint64_t        m_since = 0;
    vqp_conn_answers_t m_answers {};
};

TEST_F(alive, peer_is_dead_when_rc_has_given_up_and_only_its_host_answers) {
    m_host_answers = true;
    start();
    pass(1900 * MSEC);
    EXPECT_FALSE(is_dead());
    rc_gives_up();
    EXPECT_TRUE(is_dead());
    EXPECT_TRUE(m_vqp.alive.is_dead);
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
    EXPECT_LE(m_asked, 5u);
}

/* With a short time-out of RC */
TEST_F(alive, peer_is_dead_soon_when_rc_is_fast) {
    m_host_answers = true;
    start();
    pass(20 * MSEC);
    rc_gives_up();
    EXPECT_FALSE(is_dead());
    pass(400 * MSEC);
    EXPECT_TRUE(m_vqp.alive.is_dead);
}

/* One of two ports was down for long, and the other one goes down after an idle time */
TEST_F(alive, outage_after_an_idle_time_has_all_of_its_time) {
    start();
    confirm_all(0);
    confirm_all(1);
    timer();
    die(1, msn(0));
    for (uint64_t end = m_now + 20 * SEC; m_now < end; ) {
        m_now = std::min(end, std::max(m_now + MSEC, vqp_next_timeout(&m_vqp)));
        timer();
        if (event(VQP_EVENT_PATH_REBUILD, 1)) {
            vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
        }
        (void)next();
        confirm_all(0);
    }
    ASSERT_EQ(VQP_PATH_UP, state(0));
    vqp_path_down(&m_vqp, &path(0), VQP_ERR_IO);
    timer();
    pass(m_failover.outage - 100 * MSEC);
    EXPECT_FALSE(is_dead());
    pass(200 * MSEC);
    EXPECT_TRUE(is_dead());
}

/* Data does not pass, path messages do. The peer calls progress every few ms: the second
 * message of each failure is answered BUSY. The time of the probe before is none in which
 * the peer was busy. */
TEST_F(alive, busy_answer_after_a_probe_is_no_excuse_for_the_probe) {
    auto wait = [&](uint64_t time) {
        for (uint64_t end = m_now + time; (m_now < end) && !is_dead(); ) {
            m_now = std::min(end, std::max(m_now + MSEC, vqp_next_timeout(&m_vqp)));
            timer();
        }
    };
    start(1);
    while (!is_dead() && (m_now < m_since + 20 * SEC)) {
        uint32_t epoch = path().fo.epoch;

        wait(1900 * MSEC); /* RC gives up */
        if (is_dead()) {
            break;
        }
        fail_send(0, path().head, VQP_ERR_TIMEOUT);
        quiesce();
        (void)next_message();
        flush_sends();
        flush_recvs();
        ASSERT_TRUE(event(VQP_EVENT_PATH_COUNT));
        vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
        (void)next_message();
        hear_down(ANSWER | VQP_WIRE_FLAG_BUSY, epoch);
        wait(3 * MSEC);
        hear_down(DRAINED | HAVE, epoch);
        timer();
        wait(20 * MSEC);
        if (!is_dead()) {
            reach_probe();
            post_probe();
        }
    }
    EXPECT_TRUE(is_dead());
    EXPECT_LE(m_now - m_since, 2 * m_failover.outage);
}

TEST_F(alive, outage_is_survived_when_nobody_answers) {
    start();
    pass(1900 * MSEC);
    all_go_down();
    pass(m_since + 4900 * MSEC - m_now);
    EXPECT_FALSE(is_dead());
    pass(200 * MSEC);
    EXPECT_TRUE(is_dead()); /* counted from the last sign of life on */
    EXPECT_FALSE(m_vqp.alive.is_dead);
}

TEST_F(alive, peer_has_some_time_after_the_last_path) {
    start();
    pass(8 * SEC); /* a device may retry for longer than all of it */
    all_go_down();
    pass(m_failover.outage / 4 - 10 * MSEC);
    EXPECT_FALSE(is_dead());
    pass(20 * MSEC);
    EXPECT_TRUE(is_dead());
}

/* A program that computes, while all paths are down, however short an outage may be */
TEST_F(alive, peer_that_computes_is_waited_for) {
    for (uint64_t outage : {5 * SEC, SEC}) {
        m_failover.outage = outage;
        m_peer_answers = m_host_answers = m_computes = true;
        start();
        pass(1900 * MSEC);
        all_go_down();
        pass(20 * SEC);
        EXPECT_FALSE(is_dead());
        m_peer_answers = m_host_answers = m_computes = false;
        pass(7 * SEC);
        EXPECT_TRUE(is_dead());
    }
}

/* The control plane works, and no path comes up: that is an outage, too */
TEST_F(alive, peer_that_answers_and_takes_no_data_is_not_waited_for) {
    m_peer_answers = m_host_answers = true;
    start();
    pass(1900 * MSEC);
    all_go_down();
    pass(m_since + m_failover.outage - m_now - 100 * MSEC);
    EXPECT_FALSE(is_dead());
    pass(200 * MSEC);
    EXPECT_TRUE(is_dead());
    EXPECT_FALSE(m_vqp.alive.is_dead);
}

TEST_F(alive, host_that_answers_once_proves_nothing) {
    start();
    pass(1900 * MSEC);
    all_go_down();
    m_flaps = true;
    pass(3 * SEC);
    EXPECT_GT(m_asked, 6u);
    EXPECT_FALSE(is_dead());
}

TEST_F(alive, host_that_answers_does_not_end_a_vqp_that_rc_has_not_given_up) {
    m_host_answers = true;
    start();
    pass(20 * SEC);
    EXPECT_FALSE(is_dead());
}

/* It is found by comparison, long before RC reports anything */
TEST_F(alive, silence_of_a_path_is_no_timeout_of_rc) {
    start();
    vqp_path_down(&m_vqp, &path(), VQP_ERR_TIMEOUT); /* as silence.c does */
    EXPECT_EQ(0, m_vqp.alive.rc_timeout);
    rc_gives_up(1);
    EXPECT_EQ(1, m_vqp.alive.rc_timeout);
}

/* A path that comes back may lack a completion for long: that is no reason to ask again
 * and again */
TEST_F(alive, idle_paths_are_asked_once) {
    open(2);
    m_batch.count = 0;
    vqp_tx_emit_empty(&m_tx, &m_batch, &path(), NULL, VQP_KIND_NOP, 0);
    vqp_path_down(&m_vqp, &path(), VQP_ERR_IO);
    vqp_path_quiesced(&m_vqp, &path(), 1, 0);
    ASSERT_TRUE(vqp_path_lacks_cqe(&path()));
    vqp_path_nop_idle(&m_vqp);
    (void)next();
    EXPECT_EQ(1u, vqp_path_outstanding(&path(1)));
    EXPECT_FALSE(m_tx.slow & VQP_TX_WITNESS);
}

TEST_F(alive, completion_is_a_sign_of_life) {
    m_host_answers = true;
    start();
    pass(1890 * MSEC);
    confirm_all(1);
    pass(10 * MSEC);
    rc_gives_up();
    EXPECT_FALSE(is_dead());
    EXPECT_EQ(0u, m_vqp.alive.host_only);
}

TEST_F(alive, immediate_is_a_sign_of_life) {
    m_host_answers = true;
    start();
    for (unsigned i = 0; i < 10; ++i) {
        pass(190 * MSEC);
        ++path(1).stats.rx_cqes;
    }
    rc_gives_up();
    EXPECT_FALSE(is_dead());
}

/* It sends nothing that it would confirm, and receives. That takes no look */
TEST_F(alive, peer_that_sends_is_not_asked) {
    start();
    for (unsigned i = 0; i < 50; ++i) {
        pass(100 * MSEC);
        ++path(1).stats.rx_cqes;
    }
    EXPECT_EQ(0u, m_asked);
    pass(600 * MSEC);
    EXPECT_GE(m_asked, 1u);
}

TEST_F(alive, peer_that_sent_until_rc_gave_up_is_asked_soon) {
    m_host_answers = true;
    start();
    pass(100 * MSEC);
    ++path(1).stats.rx_cqes;
    rc_gives_up();
    pass(400 * MSEC);
    EXPECT_TRUE(m_vqp.alive.is_dead);
}

/* The questions to the other port have witnesses, and they answer */
TEST_F(alive, question_without_a_witness_proves_nothing) {
    m_host_answers = m_has_port = true;
    start();
    pass(1900 * MSEC);
    rc_gives_up();
    pass(2 * SEC);
    EXPECT_TRUE(m_vqp.alive.is_dead);
}

TEST_F(alive, peer_is_asked_before_a_short_outage_ends) {
    m_failover.outage = 200 * MSEC;
    m_peer_answers    = true;
    start();
    all_go_down(VQP_ERR_IO); /* RC has not given it up */
    pass(190 * MSEC);
    EXPECT_GE(m_asked, 3u);
    EXPECT_FALSE(is_dead());
}

TEST_F(alive, path_message_is_a_sign_of_life) {
    m_host_answers = true;
    start();
    pass(1890 * MSEC);
    hear_down(0);
    rc_gives_up(1);
    EXPECT_FALSE(is_dead());
}

TEST_F(alive, nobody_is_asked_while_all_is_well) {
    start();
    for (unsigned i = 0; i < 2; ++i) {
        confirm_all(i);
    }
    pass(10 * SEC);
    EXPECT_EQ(0u, m_asked);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

/* The program was busy with something else */
TEST_F(alive, time_in_which_nobody_looks_does_not_count) {
    start();
    pass(100 * MSEC);
    m_now += 10 * SEC;
    all_go_down();
    pass(4 * SEC);
    EXPECT_FALSE(is_dead());
    pass(2 * SEC);
    EXPECT_TRUE(is_dead());
}

TEST_F(alive, single_path_is_looked_at_too) {
    m_host_answers = true;
    start(1);
    pass(1900 * MSEC);
    rc_gives_up();
    EXPECT_TRUE(m_vqp.alive.is_dead);
}

TEST_F(alive, time_of_an_outage_is_counted) {
    start(1);
    vqp_path_down(&m_vqp, &path(), VQP_ERR_IO);
    timer();
    m_now += 300 * MSEC;
    timer();
    quiesce();
    flush_sends();
    flush_recvs();
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
    hear_down(DRAINED | HAVE, 0, 0, msn(0));
    revive();
    timer();
    EXPECT_EQ(300u, m_stats.outage_ms);
}

/* ---- whom the connection asks ---- */

using namespace vqp_test;

class ping : public ::testing::Test {
protected:
    ping() : a(net), b(net), c(net) {
        ab = a.connect(b);
        ac = a.connect(c);
        run(net, SEC);
        EXPECT_TRUE(ab->is_live() && ac->is_live());
    }

    /* Ask, and let the answers come. @return how many were asked */
    unsigned ask(Vqp *vqp, uint32_t rails = 1) {
        vqp_conntab_action_t actions[2];
        unsigned count = vqp_conn_ping(&vqp->conn, rails, net.now, &answers, actions);

        asked = net.now;
        for (unsigned i = 0; i < count; ++i) {
            EXPECT_EQ(VQP_CONNTAB_SEND, actions[i].type);
            net.send({actions[i].to.qpn, a.dest(),
                      {actions[i].data, actions[i].data + actions[i].len},
                      actions[i].msg_type});
        }
        run(net, 100 * MSEC);
        return count;
    }

    /* What the next question will say about the last one */
    bool answered(Vqp *vqp) {
        uint64_t when = asked;

        (void)ask(vqp);
        return answers.peer >= when;
    }

    bool host_answered(Vqp *vqp) {
        uint64_t when = asked;

        (void)ask(vqp);
        return answers.host >= when;
    }

    /* The own interface is elsewhere */
    void move_away() {
        ab->info.rails[0].gid[0] = 77;
    }

    Net net;
    Node a, b, c;
    Vqp *ab, *ac;
    vqp_conn_answers_t answers {};
    uint64_t asked = 0;
};

TEST_F(ping, is_answered_whatever_the_program_does) {
    EXPECT_EQ(2u, ask(ab));
    EXPECT_TRUE(answered(ab));
    EXPECT_TRUE(ab->is_live());
    EXPECT_EQ(1u, ab->live);
}

TEST_F(ping, is_answered_to_a_passive_side) {
    Vqp *ba = &b.vqps.front();

    net.filter = [&](const Datagram &d) { return d.type == VQP_WIRE_RST; };
    vqp_conntab_action_t actions[2];
    ASSERT_LE(1u, vqp_conn_ping(&ba->conn, 1, net.now, &answers, actions));
    net.send({actions[0].to.qpn, b.dest(),
              {actions[0].data, actions[0].data + actions[0].len},
              actions[0].msg_type});
    asked = net.now;
    run(net, 100 * MSEC);
    EXPECT_GE(ba->conn.last_rx, asked);
}

TEST_F(ping, witness_answers_for_the_host) {
    move_away();
    net.silent.insert(b.ud_qpn);
    EXPECT_EQ(2u, ask(ab));
    EXPECT_FALSE(answered(ab));
    EXPECT_TRUE(host_answered(ab));
}

TEST_F(ping, silent_witness_proves_nothing) {
    move_away();
    net.silent = {b.ud_qpn, c.ud_qpn};
    EXPECT_EQ(2u, ask(ab));
    EXPECT_FALSE(host_answered(ab));
}

TEST_F(ping, connection_with_the_same_process_is_no_witness) {
    Vqp *other = a.connect(b);

    a.close(ac);
    run(net, SEC);
    ASSERT_TRUE(other->is_live());
    move_away();
    EXPECT_EQ(1u, ask(ab));
}

TEST_F(ping, process_of_another_host_is_no_witness) {
    move_away();
    ac->conn.dests[0].gid[3] = 9;
    EXPECT_EQ(1u, ask(ab));
}

/* It may have come over another rail of the witness */
TEST_F(ping, answer_from_elsewhere_proves_nothing) {
    move_away();
    net.silent.insert(b.ud_qpn);
    (void)ask(ab);
    ac->conn.last_rx_from.gid[3] = 9;
    EXPECT_FALSE(host_answered(ab));
}

/* They may have died with the peer. Then one that answers is needed several times in a
 * row */
TEST_F(ping, witness_that_does_not_answer_is_replaced) {
    Node more[4] = {Node(net), Node(net), Node(net), Node(net)};
    unsigned in_a_row = 0;

    for (Node &each : more) {
        (void)a.connect(each);
    }
    run(net, SEC);
    move_away();
    net.silent = {b.ud_qpn, c.ud_qpn, more[0].ud_qpn, more[1].ud_qpn, more[3].ud_qpn};
    (void)ask(ab);
    for (unsigned i = 0; i < 9; ++i) {
        in_a_row = host_answered(ab) ? in_a_row + 1 : 0;
    }
    EXPECT_GE(in_a_row, 3u);
}

/* All questions of an interface together, else an outage takes all the time */
TEST_F(ping, search_for_witnesses_is_bounded) {
    vqp_conntab_action_t actions[2];
    std::list<Node> others;
    uint8_t gid = ac->conn.dests[0].gid[3];

    for (unsigned i = 0; i < 100; ++i) {
        others.emplace_back(net);
        (void)a.connect(others.back());
    }
    run(net, 2 * SEC);
    for (Vqp &each : a.vqps) {
        if (&each != ab) {
            each.conn.dests[0].gid[3] = 9;
        }
    }
    move_away();
    for (unsigned i = 0; i < 65536 / 100; ++i) {
        ASSERT_EQ(1u, vqp_conn_ping(&ab->conn, 1, net.now, &answers, actions)) << i;
    }
    ac->conn.dests[0].gid[3] = gid;
    EXPECT_EQ(1u, vqp_conn_ping(&ab->conn, 1, net.now, &answers, actions));
    EXPECT_EQ(2u, vqp_conn_ping(&ab->conn, 1, net.now + SEC, &answers, actions));
    EXPECT_EQ(ac->conn.cookie, ab->conn.witness);
}

/* One rail of each side may be dead */
TEST_F(ping, witness_that_answers_from_elsewhere_is_replaced) {
    Node other(net);

    (void)a.connect(other);
    run(net, SEC);
    move_away();
    (void)ask(ab);
    uint64_t first = ab->conn.witness;
    Vqp *witness   = nullptr;
    for (Vqp &each : a.vqps) {
        if (each.conn.cookie == first) {
            witness = &each;
        }
    }
    ASSERT_NE(nullptr, witness);
    witness->conn.last_rx_from.gid[3] = 9;
    (void)ask(ab);
    EXPECT_NE(first, ab->conn.witness);
}

TEST_F(ping, takes_all_pairs_of_rails) {
    std::set<std::pair<unsigned, uint32_t>> pairs;

    a.tab.config.num_rails = 2;
    ab->conn.num_dests     = 2;
    ab->conn.dests[1]      = ab->conn.dests[0];
    ab->conn.dests[1].qpn  = 999;
    ab->conn.dests[1].gid[0] ^= 1;
    for (unsigned i = 0; i < 4; ++i) {
        vqp_conntab_action_t actions[2];

        ASSERT_LE(1u, vqp_conn_ping(&ab->conn, 3, net.now, &answers, actions));
        pairs.insert({actions[0].to.rail, actions[0].to.qpn});
    }
    EXPECT_EQ(4u, pairs.size());
}

TEST_F(ping, own_host_needs_no_witness) {
    net.silent.insert(b.ud_qpn);
    (void)ask(ab);
    EXPECT_FALSE(answered(ab));
    EXPECT_TRUE(host_answered(ab));
    (void)ask(ab, 0); /* unless the port is down */
    EXPECT_LT(answers.host, net.now - 100 * MSEC);
}

TEST_F(ping, nobody_is_asked_without_a_rail) {
    EXPECT_EQ(0u, ask(ab, 0));
}

/* Another process has the queue pair now */
TEST_F(ping, peer_that_was_restarted_answers_with_a_reset) {
    b.restart();
    (void)ask(ab);
    EXPECT_EQ(1u, ab->failed);
    EXPECT_EQ(VQP_ERR_RESET, ab->status);
}

} // namespace
