/*
 * The failover of paths: the states of a path, and the messages of both sides.
 * How a failed queue pair is drained: drain_test.cc. What happens to its frags:
 * trim_test.cc and replay_test.cc.
 */
#include "failkit.h"

#include <memory>
#include <random>

namespace {

class failover : public failkit {
protected:
    /* It is tried again after that time, and not before */
    void rebuild_fails(uint64_t wait) {
        ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
        vqp_path_rebuilt(&m_vqp, &path(), 0, 0);
        EXPECT_EQ(VQP_PATH_DOWN, state());
        EXPECT_EQ(0u, path().fo.epoch);
        EXPECT_LE(vqp_next_timeout(&m_vqp), m_now);
        timer();
        m_now += wait - 1;
        timer();
        EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD)) << wait;
        ++m_now;
        timer();
    }

    void down(unsigned i = 0, vqp_status_t status = VQP_ERR_TIMEOUT) {
        vqp_path_down(&m_vqp, &m_paths[i], status);
    }

    /* All messages that are due */
    /* Time passes, and progress is called */
    void pass(uint64_t time) {
        for (; time > 0; time -= std::min<uint64_t>(time, 100)) {
            m_now += std::min<uint64_t>(time, 100);
            timer();
        }
    }

    void stop_asking(unsigned i = 0) {
        while (next_message(i).type != VQP_WIRE_TYPE_NONE) {
        }
    }

    bool counts(unsigned i = 0) { return event(VQP_EVENT_PATH_COUNT, i); }
};

TEST_F(failover, states_have_names) {
    EXPECT_STREQ("UP", vqp_path_state_name(VQP_PATH_UP));
    EXPECT_STREQ("READY", vqp_path_state_name(VQP_PATH_READY));
    EXPECT_STREQ("unknown", vqp_path_state_name(VQP_PATH_STATE_LAST));
}

/* ---- states ---- */

TEST_F(failover, a_path_goes_down_and_comes_back) {
    vqp_path_msg_t msg;

    open();
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
    down();
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_EQ(1u, m_stats.path_downs);
    EXPECT_EQ(VQP_ERR_TIMEOUT, path().fo.status);
    EXPECT_FALSE(path().up);
    EXPECT_TRUE(event(VQP_EVENT_PATH_STATE));
    EXPECT_TRUE(event(VQP_EVENT_PATH_QUIESCE));
    EXPECT_TRUE(event(VQP_EVENT_PATH_SEND));
    msg = next_message();
    EXPECT_EQ(VQP_WIRE_PATH_DOWN, msg.type);
    EXPECT_EQ(0u, msg.flags);
    EXPECT_EQ(0u, msg.epoch);
    EXPECT_EQ(0u, msg.down.path);
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);

    vqp_path_quiesced(&m_vqp, &path(), 0, 1);
    EXPECT_EQ(RECVS + 1, path().recv_posted);
    flush_recvs();
    ASSERT_TRUE(counts());
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_PSN, 0x5000005);
    EXPECT_EQ(VQP_PATH_DRAINED, state());
    msg = next_message();
    EXPECT_EQ(VQP_WIRE_PATH_DOWN, msg.type);
    EXPECT_EQ(DRAINED, msg.flags);
    EXPECT_EQ(VQP_SOURCE_PSN, msg.down.source);
    EXPECT_EQ(5u, msg.down.count); /* 24 bits */
    EXPECT_EQ(0u, msg.down.imms);

    hear_down(DRAINED | HAVE);
    EXPECT_EQ(VQP_PATH_DOWN, state());
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
    rebuild();
    EXPECT_EQ(1u, path().fo.epoch);
    stop_asking();
    EXPECT_FALSE(event(VQP_EVENT_PATH_CONNECT));

    hear_up(0);
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT));
    EXPECT_EQ(QPN + 1, path().fo.peer_qpn);
    EXPECT_EQ(PSN + 1, path().fo.peer_psn);
    connected();
    EXPECT_EQ(VQP_PATH_READY, state());
    EXPECT_FALSE(path().up);
    msg = next_message();
    EXPECT_EQ(VQP_WIRE_PATH_UP, msg.type);
    EXPECT_EQ(HAVE, msg.flags);
    EXPECT_EQ(1u, msg.epoch);
    EXPECT_EQ(QPN, msg.up.qpn);
    EXPECT_EQ(PSN, msg.up.psn);

    hear_up(HAVE);
    EXPECT_EQ(0u, m_stats.path_ups);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
    probe();
    EXPECT_EQ(1u, m_stats.path_ups);
    EXPECT_TRUE(path().up);
    EXPECT_TRUE(event(VQP_EVENT_RESUME));
    (void)next();
    EXPECT_EQ(0u, m_tx.slow & VQP_TX_REPLAY);
    EXPECT_EQ(0u, vqp_next_timeout(&m_vqp)); /* to count what the outage took */
    timer();
    m_now += 100000000;
    timer();
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

/* ---- what the others do meanwhile ---- */

TEST_F(failover, path_that_waits_for_its_rebuild_costs_the_others_nothing) {
    open();
    m_tx.slow = 0;
    down();
    EXPECT_NE(0u, m_tx.slow & VQP_TX_REPLAY);
    EXPECT_FALSE(m_tx.paths.settled);
    quiesce();
    flush_recvs();
    ASSERT_TRUE(counts());
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
    hear_down(DRAINED | HAVE);
    (void)next();
    EXPECT_EQ(0u, m_tx.slow);
    EXPECT_EQ(1u, send_am(8).path->index);
    EXPECT_FALSE(m_tx.paths.settled); /* its timer runs */
    EXPECT_LE(vqp_next_timeout(&m_vqp), m_now);
    timer();
    rebuild();
    (void)next();
    EXPECT_EQ(0u, m_tx.slow);
    hear_up(HAVE);
    connected();
    EXPECT_NE(0u, m_tx.slow & VQP_TX_REPLAY); /* for the probe */
    probe();
    (void)next();
    EXPECT_EQ(0u, m_tx.slow);
    EXPECT_TRUE(m_tx.paths.settled);
}

TEST_F(failover, ops_are_split_over_the_paths_that_take_frags) {
    open(4);
    EXPECT_EQ(4u, m_tx.paths.usable);
    EXPECT_EQ(2u, m_tx.limits.path_shift);
    EXPECT_EQ(1u << m_cfg.min_shift, m_tx.limits.one_frag);
    down(0);
    EXPECT_EQ(3u, m_tx.paths.usable);
    EXPECT_EQ(2u, m_tx.limits.path_shift);
    down(1);
    EXPECT_EQ(1u, m_tx.limits.path_shift);
    down(2);
    EXPECT_EQ(1u, m_tx.paths.usable);
    EXPECT_EQ(0u, m_tx.limits.path_shift);
    EXPECT_EQ(1u << m_cfg.frag_shift, m_tx.limits.one_frag);
    EXPECT_EQ(m_cfg.frag_shift, vqp_tx_frag_shift(&m_tx, 4ul << m_cfg.min_shift));
    down(3);
    EXPECT_EQ(1u, m_tx.paths.usable);
}

TEST_F(failover, with_one_path_left_nothing_is_to_be_chosen) {
    m_cfg.sched        = VQP_SCHED_LEFT;
    m_cfg.single_cap   = 8 * m_cfg.path_cap;
    m_cfg.single_shift = (uint8_t)(m_cfg.frag_shift + 2);
    open();
    EXPECT_EQ(m_cfg.path_cap, m_tx.limits.path_cap);
    EXPECT_EQ(m_cfg.path_cap / 2, m_tx.limits.fast_cap);
    EXPECT_EQ(m_cfg.frag_shift, m_tx.limits.frag_shift);
    down();
    EXPECT_EQ(m_cfg.single_cap, m_tx.limits.path_cap);
    EXPECT_EQ(m_cfg.single_cap, m_tx.limits.fast_cap);
    EXPECT_EQ(m_cfg.single_shift, m_tx.limits.frag_shift);
    EXPECT_EQ(1u << m_cfg.single_shift, m_tx.limits.one_frag);
    EXPECT_EQ(UINT64_MAX, m_tx.limits.fast_max);
}

/* ---- addresses that do not resolve ---- */

TEST_F(failover, path_that_is_not_resolved_at_first_is_connected_later) {
    vqp_path_msg_t msg;

    connect(2, 1 << 1);
    EXPECT_EQ(VQP_PATH_CONNECT, state(1));
    /* Before it is live nothing is sent */
    take();
    EXPECT_FALSE(event(VQP_EVENT_PATH_CONNECT, 1));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message(1).type);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));

    vqp_set_live(&m_vqp);
    EXPECT_EQ(1u, m_stats.path_downs);
    EXPECT_EQ(VQP_ERR_UNREACHABLE, path(1).fo.status);
    EXPECT_FALSE(path(1).up);
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT, 1));
    EXPECT_EQ(FIRST_QPN + 11, path(1).fo.peer_qpn);
    EXPECT_EQ(PSN + 1, path(1).fo.peer_psn);
    connected(1, VQP_ERR_UNREACHABLE);
    EXPECT_EQ(VQP_PATH_CONNECT, state(1));
    msg = next_message(1);
    EXPECT_EQ(VQP_WIRE_PATH_UP, msg.type);
    EXPECT_EQ(0u, msg.flags);
    EXPECT_EQ(0u, msg.epoch);
    EXPECT_EQ(FIRST_QPN + 1, msg.up.qpn);

    m_now += 10;
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT, 1));
    connected(1);
    EXPECT_EQ(VQP_PATH_READY, state(1));
    EXPECT_EQ(HAVE, next_message(1).flags);
    hear_up(HAVE, 0, 1);
    probe(1);
    EXPECT_EQ(1u, m_stats.path_ups);
    EXPECT_EQ(1u, m_stats.path_downs);
}

TEST_F(failover, unresolved_path_of_a_peer_that_has_it_up_gets_an_answer) {
    open();
    hear_up(0, 0);
    EXPECT_EQ(VQP_PATH_UP, state());
    EXPECT_EQ(HAVE | ANSWER, next_message().flags);
    hear_up(0, 0);
    EXPECT_EQ(FIRST_QPN, next_message().up.qpn);
}

TEST_F(failover, unresolved_path_that_the_peer_gives_up_has_executed_nothing) {
    connect(2, 1 << 1);
    live();
    hear_down(0, 0, 1);
    EXPECT_EQ(VQP_PATH_DRAINED, state(1));
    EXPECT_EQ(VQP_SOURCE_MSN, path(1).fo.own.source);
    EXPECT_EQ(0u, path(1).fo.own.count);
    hear_down(DRAINED | HAVE, 0, 1);
    EXPECT_EQ(VQP_PATH_DOWN, state(1));
    EXPECT_EQ(1u, path(1).fo.downs);
}

TEST_F(failover, path_that_is_rebuilt_before_it_is_live_waits_for_the_peer) {
    connect();
    die(0, msn(0));
    rebuild();
    vqp_set_live(&m_vqp);
    EXPECT_EQ(VQP_PATH_CONNECT, state());
    EXPECT_FALSE(event(VQP_EVENT_PATH_CONNECT));
    hear_up(0);
    EXPECT_TRUE(event(VQP_EVENT_PATH_CONNECT));
    EXPECT_EQ(QPN + 1, path().fo.peer_qpn);
}

TEST_F(failover, new_queue_pair_is_asked_for_until_the_address_resolves) {
    open();
    die(0, msn(0));
    rebuild();
    stop_asking();
    hear_up(0);
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT)) << i;
        connected(0, VQP_INPROGRESS);
        EXPECT_EQ(VQP_PATH_CONNECT, state());
        stop_asking();
        EXPECT_FALSE(event(VQP_EVENT_PATH_CONNECT)) << i;
        m_now += 35;
        timer();
    }
    EXPECT_EQ(1u, path().fo.epoch);
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT));
    connected();
    m_now += 35;
    timer();
    EXPECT_FALSE(event(VQP_EVENT_PATH_CONNECT));
}

/* ---- both sides ---- */

TEST_F(failover, both_sides_may_give_a_path_up_at_once) {
    open();
    down();
    hear_down(0);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_EQ(1u, m_stats.path_downs);
    EXPECT_EQ(VQP_ERR_TIMEOUT, path().fo.status);
    hear_down(DRAINED); /* its count is kept until there is the own one */
    quiesce();
    flush_recvs();
    ASSERT_TRUE(counts());
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
    EXPECT_EQ(VQP_PATH_DRAINED, state());
    EXPECT_EQ(DRAINED | HAVE, next_message().flags);
    hear_down(DRAINED | HAVE | ANSWER);
    EXPECT_EQ(VQP_PATH_DOWN, state());
}

TEST_F(failover, the_peer_can_give_a_path_up) {
    open();
    hear_down(0, 0, 1);
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_EQ(VQP_PATH_QUIESCE, state(1));
    EXPECT_EQ(VQP_ERR_RESET, path(1).fo.status);
    EXPECT_TRUE(event(VQP_EVENT_PATH_QUIESCE, 1));
    EXPECT_EQ(VQP_WIRE_PATH_DOWN, next_message(1).type);
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message(1).type); /* the request answers, too */
}

TEST_F(failover, a_path_is_given_up_once) {
    open();
    down(0, VQP_ERR_TIMEOUT);
    down(0, VQP_ERR_IO);
    EXPECT_EQ(1u, m_stats.path_downs);
    EXPECT_EQ(VQP_ERR_TIMEOUT, path().fo.status);
    quiesce();
    EXPECT_FALSE(event(VQP_EVENT_PATH_QUIESCE));
    vqp_path_rebuilt(&m_vqp, &path(), QPN, PSN); /* in no such state */
    vqp_path_connected(&m_vqp, &path(), VQP_OK);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_EQ(0u, path().fo.epoch);
}

TEST_F(failover, a_path_that_waits_for_the_peer_can_go_down_again) {
    open();
    die(0, msn(0));
    rebuild();
    hear_up(0);
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT));
    connected();
    EXPECT_EQ(VQP_PATH_READY, state());
    stop_asking();
    down();
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_EQ(1u, next_message().epoch);
    quiesce();
    flush_recvs();
    EXPECT_TRUE(counts());
    /* the counts of the epoch before do not apply to this one */
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
    EXPECT_EQ(VQP_PATH_DRAINED, state());
    EXPECT_EQ(DRAINED, next_message().flags);
    hear_down(DRAINED | HAVE, 1);
    EXPECT_EQ(VQP_PATH_DOWN, state());
}

TEST_F(failover, what_was_not_connected_has_executed_nothing) {
    vqp_path_msg_t msg;

    open();
    die(0, msn(0));
    rebuild();
    stop_asking();
    down();
    EXPECT_EQ(VQP_PATH_DRAINED, state());
    EXPECT_FALSE(event(VQP_EVENT_PATH_QUIESCE));
    msg = next_message();
    EXPECT_EQ(DRAINED, msg.flags);
    EXPECT_EQ(1u, msg.epoch);
    EXPECT_EQ(0u, msg.down.count);
    hear_down(DRAINED | HAVE, 1);
    EXPECT_EQ(VQP_PATH_DOWN, state());
    revive();
    EXPECT_EQ(2u, path().fo.epoch);
}

/* ---- messages ---- */

TEST_F(failover, messages_of_other_epochs_mean_nothing) {
    open();
    hear_down(DRAINED | HAVE, 5);
    hear_down(DRAINED | HAVE, 1);
    hear_up(HAVE, 3);
    hear_up(HAVE, 1); /* the next one, of a path that is UP here */
    EXPECT_EQ(VQP_PATH_UP, state());
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);

    drain();
    stop_asking();
    hear_down(DRAINED | HAVE, 7);
    hear_up(HAVE, 2);
    EXPECT_EQ(VQP_PATH_DRAINED, state());
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
}

/* The peer is behind, and lacks the message that lets it continue */
TEST_F(failover, the_epoch_before_is_told_of_the_new_one) {
    vqp_path_msg_t msg;

    open();
    die(0, msn(0));
    rebuild();
    stop_asking();
    hear_down(DRAINED, 0);
    EXPECT_EQ(VQP_PATH_CONNECT, state());
    msg = next_message();
    EXPECT_EQ(VQP_WIRE_PATH_UP, msg.type);
    EXPECT_EQ(ANSWER, msg.flags);
    EXPECT_EQ(1u, msg.epoch);
    hear_down(DRAINED | ANSWER, 0);
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
}

TEST_F(failover, requests_are_answered_and_answers_are_not) {
    for (unsigned flags : {0u, ANSWER}) {
        int type_down = flags ? VQP_WIRE_TYPE_NONE : VQP_WIRE_PATH_DOWN;
        int type_up   = flags ? VQP_WIRE_TYPE_NONE : VQP_WIRE_PATH_UP;

        open();
        hear_up(flags | HAVE, 0); /* UP: it has not received that */
        EXPECT_EQ(type_up, next_message().type);
        down();
        stop_asking();
        hear_down(flags);
        EXPECT_EQ(type_down, next_message().type);
        EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
        drain();
        stop_asking();
        hear_down(flags);
        EXPECT_EQ(type_down, next_message().type);
        hear_down(flags | DRAINED);
        EXPECT_EQ(type_down, next_message().type);
        hear_down(DRAINED | HAVE | ANSWER);
        EXPECT_EQ(VQP_PATH_DOWN, state());
        stop_asking();
        hear_down(flags | DRAINED | HAVE);
        EXPECT_EQ(type_down, next_message().type);
        rebuild();
        stop_asking();
        hear_up(flags);
        EXPECT_EQ(type_up, next_message().type);
        connected();
        stop_asking();
        hear_up(flags);
        EXPECT_EQ(type_up, next_message().type);
        EXPECT_EQ(VQP_PATH_READY, state());
    }
}

TEST_F(failover, an_answer_says_that_it_is_one) {
    open();
    down();
    stop_asking();
    hear_down(0);
    EXPECT_EQ(ANSWER, next_message().flags);
    hear_down(DRAINED);
    EXPECT_EQ(ANSWER | HAVE, next_message().flags);
}

/* The peer, which lacks nothing but our HAVE_YOURS, would have to repeat it. */
TEST_F(failover, the_request_that_ends_the_wait_is_answered) {
    vqp_path_msg_t msg;

    open();
    drain();
    stop_asking();
    hear_down(DRAINED | HAVE);
    EXPECT_EQ(VQP_PATH_DOWN, state());
    msg = next_message();
    EXPECT_EQ(VQP_WIRE_PATH_DOWN, msg.type);
    EXPECT_EQ(DRAINED | HAVE | ANSWER, msg.flags);
}

/* A peer that is READY has sent this, and waits for our message. */
TEST_F(failover, a_peer_that_is_ready_hears_that_we_are) {
    open();
    die(0, msn(0));
    rebuild();
    stop_asking();
    m_now += 10;
    timer(); /* it is just to be repeated */
    hear_up(HAVE);
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT));
    connected();
    EXPECT_EQ(VQP_PATH_PROBE, state());
    vqp_path_msg_t msg = next_message();
    EXPECT_EQ(VQP_WIRE_PATH_UP, msg.type);
    EXPECT_EQ(HAVE, msg.flags & HAVE);
}

TEST_F(failover, both_counts_must_be_known_to_both_sides) {
    open();
    drain();
    hear_down(HAVE);
    EXPECT_EQ(VQP_PATH_DRAINED, state());
    hear_down(DRAINED);
    EXPECT_EQ(VQP_PATH_DOWN, state());

    open();
    drain();
    hear_down(DRAINED);
    EXPECT_EQ(VQP_PATH_DRAINED, state());
    hear_down(DRAINED | HAVE);
    EXPECT_EQ(VQP_PATH_DOWN, state());

    /* it can not have a message that was not sent yet */
    open();
    down();
    hear_down(DRAINED | HAVE);
    quiesce();
    flush_recvs();
    ASSERT_TRUE(counts());
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
    EXPECT_EQ(VQP_PATH_DRAINED, state());
}

TEST_F(failover, the_next_epoch_has_both_counts) {
    open();
    drain();
    hear_down(DRAINED);
    hear_up(0, 1);
    EXPECT_EQ(VQP_PATH_DOWN, state());
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD)); /* no hold: the peer waits */
    rebuild();
    EXPECT_TRUE(event(VQP_EVENT_PATH_CONNECT));
    connected();
    EXPECT_EQ(VQP_PATH_READY, state());
    hear_up(HAVE, 1);
    probe();
}

/* Control datagrams come through, the data of the path does not. */
TEST_F(failover, a_path_whose_probe_fails_takes_no_frags) {
    open();
    die(0, msn(0));
    reach_probe();
    post_probe();
    for (unsigned i = 0; i < 10; ++i) {
        EXPECT_TRUE(rma(VQP_KIND_PUT, 64));
    }
    EXPECT_EQ(0u, on_path(next(), 0));
    fail_send(0, (uint16_t)(path().tail - 1), VQP_ERR_TIMEOUT);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_EQ(2u, m_stats.path_downs);
    EXPECT_EQ(0u, m_stats.path_ups);
}

/* An empty one would pass where the MTU of a link is too small. */
TEST_F(failover, a_probe_fills_a_packet_of_the_peers_scratch) {
    const uint32_t lkeys[] = {11, 12}, rkeys[] = {13, 14};

    m_two_rails          = true;
    m_cfg.scratch.source = 0x1000;
    m_cfg.scratch.lkeys  = lkeys;
    m_cfg.scratch.raddr  = 0x2000;
    m_cfg.scratch.rkeys  = rkeys;
    open();
    die(1, msn(0));
    reach_probe(1);
    post_probe();
    ASSERT_EQ(1u, m_batch.count);

    const vqp_frag_t &frag = m_batch.frags[0];

    EXPECT_EQ(VQP_WR_WRITE, frag.opcode);
    EXPECT_EQ(1u << MTU_SHIFT, frag.length);
    EXPECT_EQ(0x2000u, frag.raddr);
    EXPECT_EQ(14u, frag.rkey);
    ASSERT_EQ(1u, frag.nsge);
    EXPECT_EQ(0x1000u, frag.sge[0].addr);
    EXPECT_EQ(1u << MTU_SHIFT, frag.sge[0].length);
    EXPECT_EQ(12u, frag.sge[0].lkey);
    EXPECT_TRUE(frag.flags & VQP_FRAG_SIGNALED);
    EXPECT_EQ(1u << MTU_SHIFT, path(1).bytes);

    fail_send(1, frag.slot, VQP_ERR_TIMEOUT);
    die(1, msn(0));
    EXPECT_EQ(0u, path(1).bytes);
    reach_probe(1);
    probe(1);
    EXPECT_EQ(0u, path(1).bytes);
}

TEST_F(failover, a_probe_is_empty_if_the_peer_has_no_scratch) {
    open();
    die(0, msn(0));
    reach_probe();
    post_probe();
    ASSERT_EQ(1u, m_batch.count);
    EXPECT_EQ(0u, m_batch.frags[0].length);
    EXPECT_EQ(0u, m_batch.frags[0].nsge);
}

TEST_F(failover, a_probe_that_can_not_be_posted_takes_the_path_down) {
    open();
    die(0, msn(0));
    reach_probe();
    post_probe();
    ASSERT_EQ(1u, m_batch.count);
    m_batch.frags[0].flags |= VQP_FRAG_UNPOSTED;
    vqp_post_failed(&m_vqp, m_batch.frags, 1);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    quiesce();
    flush_recvs();
    EXPECT_TRUE(counts());
}

/* The peer has probed it already, and uses it. */
TEST_F(failover, a_path_that_is_probed_may_be_given_up_by_the_peer) {
    open();
    die(0, msn(0));
    rebuild();
    hear_up(HAVE);
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT));
    connected();
    stop_asking();
    hear_up(0); /* it asks again: our answer was lost */
    EXPECT_EQ(VQP_WIRE_PATH_UP, next_message().type);
    EXPECT_EQ(VQP_PATH_PROBE, state());
    hear_down(0, 1);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
}

TEST_F(failover, a_peer_that_is_up_ends_the_hold) {
    open();
    die(0, msn(0));
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
    vqp_path_rebuilt(&m_vqp, &path(), 0, 0);
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD));
    hear_up(0, 1);
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD));
}

/* Its PATH_UP was lost, and its new queue pair failed before it was connected. It
 * was rebuilt, so the peer has both counts. */
TEST_F(failover, the_next_epoch_has_both_counts_when_it_is_down) {
    open();
    drain();
    hear_down(DRAINED);
    hear_down(DRAINED, 1);
    EXPECT_EQ(VQP_PATH_DOWN, state());
}

TEST_F(failover, nonsense_is_ignored) {
    open();
    hear_down(0);
    stop_asking();
    vqp_path_msg_t msg {};
    msg.type      = VQP_WIRE_PATH_DOWN;
    msg.down.path = 2;
    vqp_on_path_message(&m_vqp, &msg, m_now);
    EXPECT_EQ(VQP_PATH_UP, state(1));

    open();
    die(0, msn(0));
    rebuild();
    stop_asking();
    msg         = {};
    msg.type    = VQP_WIRE_PATH_UP;
    msg.epoch = 1;
    msg.up.rail = 3; /* no such path */
    vqp_on_path_message(&m_vqp, &msg, m_now);
    EXPECT_FALSE(event(VQP_EVENT_PATH_CONNECT));
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    hear_up(0);
    hear_down(0, 0, 1);
    EXPECT_EQ(VQP_PATH_UP, state(1));
    EXPECT_FALSE(event(VQP_EVENT_PATH_SEND));
}

/* ---- time ---- */

TEST_F(failover, a_message_is_repeated_and_rarer_each_time) {
    open();
    down();
    EXPECT_EQ(VQP_WIRE_PATH_DOWN, next_message().type);
    for (uint64_t interval : {10, 20, 35, 35}) {
        EXPECT_EQ(m_now + interval, vqp_next_timeout(&m_vqp));
        m_now += interval - 1;
        timer();
        EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
        ++m_now;
        timer();
        EXPECT_EQ(VQP_WIRE_PATH_DOWN, next_message().type);
        EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
    }
    quiesce();
    flush_recvs();
    ASSERT_TRUE(counts());
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0); /* something new */
    EXPECT_EQ(DRAINED, next_message().flags);
    EXPECT_EQ(m_now + 10, vqp_next_timeout(&m_vqp));
}

TEST_F(failover, a_rebuild_that_fails_is_tried_again) {
    open();
    die(0, msn(0));
    timer();
    for (uint64_t wait : {100, 200, 400}) {
        rebuild_fails(wait);
    }
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
    revive();
    EXPECT_EQ(1u, path().fo.epoch);
}

/* The port is down, for example: of thousands of endpoints, none asks every 10 ms */
TEST_F(failover, rebuilds_that_fail_become_rare_without_any_path_too) {
    open(1);
    die(0, msn(0));
    timer();
    for (uint64_t wait : {100, 200, 250, 250}) { /* a quarter of hold_max, at most */
        rebuild_fails(wait);
    }
    /* Since it flaps, and for no lack of a queue pair: a short time */
    revive();
    die(0, msn(0));
    timer();
    m_now += m_failover.hold_first;
    timer();
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD));
}

TEST_F(failover, a_rebuild_that_has_failed_may_be_tried_again_at_once) {
    open();
    EXPECT_EQ(0, vqp_path_retry(&m_vqp, &path())); /* it is UP */
    die(0, msn(0));
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
    EXPECT_EQ(0, vqp_path_retry(&m_vqp, &path())); /* it is being rebuilt */
    vqp_path_rebuilt(&m_vqp, &path(), 0, 0);
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD));
    EXPECT_EQ(1, vqp_path_retry(&m_vqp, &path()));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
    revive();
}

/* An interface with thousands of endpoints has more to rebuild than it does at once */
TEST_F(failover, a_rebuild_that_has_to_wait_is_no_failure) {
    open();
    die(0, msn(0));
    timer();
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
        vqp_path_rebuild_later(&m_vqp, &path(), m_now + 20);
        EXPECT_EQ(m_now + 20, vqp_next_timeout(&m_vqp));
        EXPECT_EQ(0, vqp_path_retry(&m_vqp, &path())); /* there is nothing to wait for */
        m_now += 19;
        timer();
        EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD));
        ++m_now;
        timer();
    }
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
    EXPECT_EQ(0, path().fo.hold);

    vqp_path_rebuilt(&m_vqp, &path(), 0, 0); /* no queue pair: its port is down */
    EXPECT_EQ(1, vqp_path_retry(&m_vqp, &path()));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
    vqp_path_rebuild_later(&m_vqp, &path(), m_now + 20);
    EXPECT_EQ(0, vqp_path_retry(&m_vqp, &path())); /* it has its turn */
    EXPECT_EQ(m_now + 20, vqp_next_timeout(&m_vqp));
    m_now += 20;
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
    revive();
    vqp_path_rebuild_later(&m_vqp, &path(), m_now + 20); /* it is UP */
    EXPECT_EQ(VQP_PATH_UP, state());
    m_now += 20;
    timer();
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD));
}

/* While no path works the vqp asks in the line of those that need one, once for all */
TEST_F(failover, a_vqp_without_a_path_needs_a_turn) {
    vqp_turns_t turns;

    vqp_turns_init(&turns, 100, 4);
    turns.left = 0;
    open(2);
    die(0, msn(0));
    (void)vqp_path_take_turn(&m_vqp, &path(0), &turns, 10); /* the other one works */
    EXPECT_EQ(0u, turns.lines[VQP_TURN_NEEDED].given);
    EXPECT_EQ(1u, turns.lines[VQP_TURN_SPARE].given);

    vqp_path_down(&m_vqp, &path(1), VQP_ERR_IO);
    ASSERT_EQ(VQP_PATH_QUIESCE, state(1));
    (void)vqp_path_take_turn(&m_vqp, &path(0), &turns, 20);
    (void)vqp_path_take_turn(&m_vqp, &path(1), &turns, 30);
    EXPECT_EQ(1u, turns.lines[VQP_TURN_NEEDED].given);
    EXPECT_EQ(1u, turns.lines[VQP_TURN_SPARE].given);
    EXPECT_EQ(0u, vqp_path_take_turn(&m_vqp, &path(1), &turns, 100));
    EXPECT_FALSE(m_vqp.needed_turn.is_held);
}

/* Each side has begun with another path, and neither works without the other side */
TEST_F(failover, a_path_that_only_the_peer_has_is_needed) {
    vqp_turns_t turns;

    vqp_turns_init(&turns, 100, 4);
    turns.left = 0;
    open(2);
    vqp_path_down(&m_vqp, &path(0), VQP_ERR_IO);
    vqp_path_down(&m_vqp, &path(1), VQP_ERR_IO);
    path(0).fo.state = VQP_PATH_CONNECT;
    path(1).fo.state = VQP_PATH_DOWN;
    path(1).fo.peer_is_up = 0;
    (void)vqp_path_take_turn(&m_vqp, &path(1), &turns, 10);
    EXPECT_EQ(0u, turns.lines[VQP_TURN_NEEDED].given);
    path(1).fo.peer_is_up = 1;
    (void)vqp_path_take_turn(&m_vqp, &path(1), &turns, 20);
    EXPECT_EQ(1u, turns.lines[VQP_TURN_NEEDED].given);
    path(0).fo.state = VQP_PATH_READY; /* the peer has this one, too */
    path(1).fo.spare_turn.is_held = 0;
    (void)vqp_path_take_turn(&m_vqp, &path(1), &turns, 30);
    EXPECT_EQ(1u, turns.lines[VQP_TURN_NEEDED].given);
}

/* Its queue pair would never be released */
TEST_F(failover, nothing_is_rebuilt_of_a_vqp_that_has_failed) {
    open();
    die(0, msn(0));
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD));
    vqp_path_rebuilt(&m_vqp, &path(), 0, 0);
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    EXPECT_EQ(0, vqp_path_retry(&m_vqp, &path()));
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD));
}

TEST_F(failover, a_connect_that_fails_takes_the_path_down) {
    open();
    die(0, msn(0));
    rebuild();
    hear_up(0);
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT));
    stop_asking();
    connected(0, VQP_ERR_IO);
    EXPECT_EQ(VQP_PATH_DRAINED, state());
    EXPECT_EQ(VQP_ERR_IO, path().fo.status);
    EXPECT_EQ(0u, path().recv_posted);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(1u, next_message().epoch);
    hear_down(DRAINED | HAVE, 1);
    EXPECT_EQ(VQP_PATH_DOWN, state());
}

TEST_F(failover, the_peers_connect_that_fails_takes_the_path_down) {
    open();
    die(0, msn(0));
    rebuild();
    stop_asking();
    hear_down(DRAINED, 1);
    EXPECT_EQ(VQP_PATH_DRAINED, state());
    EXPECT_EQ(DRAINED, next_message().flags & DRAINED);
}

TEST_F(failover, a_path_that_flaps_is_held_down_longer) {
    open();
    for (uint64_t hold : {0, 100, 200, 400, 800, 1000, 1000}) {
        die(0, msn(0));
        timer();
        if (hold > 0) {
            EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD)) << hold;
            m_now += hold - 1;
            timer();
            EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD)) << hold;
            ++m_now;
            timer();
        }
        ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD)) << hold;
        revive();
    }

    m_now += 2 * m_failover.hold_max; /* it was up for long */
    die(0, msn(0));
    timer();
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD));
}

/* No other path can take it */
TEST_F(failover, a_path_that_an_atomic_waits_for_is_not_held_down_long) {
    m_two_rails = true;
    open();
    for (uint64_t hold : {0, 100, 100, 100, 100}) {
        die(1, msn(hold == 0 ? 0 : 1)); /* the probe was executed */
        if (hold == 0) {
            ASSERT_TRUE(fadd(nullptr, nullptr, VQP_OP_SIGNAL, 1));
        }
        (void)next();
        timer();
        if (hold > 0) {
            EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 1)) << hold;
            m_now += hold;
            timer();
        }
        ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1)) << hold;
        revive(1);
        (void)next();
    }
}

TEST_F(failover, an_outage_that_lasts_fails_the_vqp) {
    open();
    down(0);
    timer();
    m_now += 10 * m_failover.outage; /* the other path is UP */
    timer();
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    down(1);
    timer();
    stop_asking(0);
    stop_asking(1);
    pass(m_failover.outage - 1);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    pass(1);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

/* The queue pair of each probe fails, while path messages pass */
TEST_F(failover, probes_that_fail_for_too_long_fail_the_vqp) {
    open(1);
    puts(0, 1, u);
    die(0, msn(0));
    timer();
    for (uint64_t begin = m_now; m_now < begin + m_failover.outage - 11; ) {
        reach_probe();
        ASSERT_EQ(1u, next().size());
        pass(10);
        ASSERT_FALSE(vqp_is_failed(&m_vqp)) << m_now - begin;
        die(0, msn(0));
    }
    pass(11);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
    EXPECT_EQ((ends_t {{&u[0], VQP_ERR_TIMEOUT}}), ends());
}

/* What a peer says is no path */
TEST_F(failover, a_peer_that_speaks_does_not_end_the_outage) {
    open(1);
    down();
    timer();
    pass(m_failover.outage - 1);
    hear_down(0);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    ++m_now;
    EXPECT_LE(vqp_next_timeout(&m_vqp), m_now);
    timer();
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
}

/* It can not say more, and may do so for as long as it likes */
TEST_F(failover, a_peer_that_computes_is_waited_for) {
    open(1);
    down();
    timer();
    stop_asking();
    for (uint64_t end = m_now + 10 * m_failover.outage; m_now < end; ) {
        m_now += 2 * m_failover.retry_max; /* each second request is lost */
        hear_down(ANSWER | VQP_WIRE_FLAG_BUSY);
        timer();
        ASSERT_FALSE(vqp_is_failed(&m_vqp));
    }
    pass(m_failover.outage);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
}

/* It is an answer to what it names, and says nothing of the path */
TEST_F(failover, a_peer_that_computes_changes_nothing) {
    open();
    hear_down(ANSWER | VQP_WIRE_FLAG_BUSY);
    EXPECT_EQ(VQP_PATH_UP, state());
    die(0, msn(0));
    rebuild();
    while (next_message().type != VQP_WIRE_TYPE_NONE) {
    }
    hear_down(ANSWER | VQP_WIRE_FLAG_BUSY | HAVE, 1);
    EXPECT_EQ(VQP_PATH_CONNECT, state());
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
}

/* The program computes: no path can come back meanwhile */
TEST_F(failover, time_without_progress_is_no_outage) {
    open(1);
    down();
    timer();
    pass(m_failover.outage / 2);
    m_now += 10 * m_failover.outage;
    timer();
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    pass(m_failover.outage / 2 - m_failover.hold_max - 1);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    pass(1);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
}

TEST_F(failover, a_path_that_comes_back_ends_the_outage) {
    open(1);
    die(0, msn(0));
    timer();
    revive();
    (void)next();
    timer();
    m_now += m_failover.outage;
    die(0, msn(0));
    timer();
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
}

/* It takes no new frags before the waiting ones are sent, but it is UP. */
TEST_F(failover, a_path_that_is_up_and_replays_is_no_outage) {
    open(1);
    puts(0, 4, u);
    die(0, msn(0));
    timer();
    revive();
    EXPECT_TRUE(vqp_path_has_replay(&path()));
    m_now += m_failover.outage;
    timer();
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
}

/* ---- without failover ---- */

TEST_F(failover, an_undecided_put_fails_the_vqp_that_has_to_be_exact) {
    int user;

    m_failover.is_exact = 1;
    open();
    puts(0, 1, &user);
    drain();
    hear_down(DRAINED | HAVE, 0, 0, imm(0));
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_ERR_UNDECIDED, m_vqp.status);
    EXPECT_EQ((ends_t{{&user, VQP_ERR_UNDECIDED}}), ends());
}

TEST_F(failover, an_undecided_posted_atomic_fails_the_vqp_that_has_to_be_exact) {
    m_failover.is_exact = 1;
    open();
    only(0, [&] { EXPECT_TRUE(rma(VQP_KIND_FADD, 8)); });
    drain();
    hear_down(DRAINED | HAVE, 0, 0, imm(0));
    EXPECT_EQ(VQP_ERR_UNDECIDED, m_vqp.status);
}

TEST_F(failover, messages_and_gets_leave_nothing_undecided) {
    m_failover.is_exact = 1;
    open();
    (void)send_am(100);
    only(1, [&] { EXPECT_TRUE(rma(VQP_KIND_GET, 64)); });
    for (unsigned i = 0; i < 2; ++i) {
        drain(i);
        hear_down(DRAINED | HAVE, 0, i, imm(0));
        EXPECT_EQ(VQP_PATH_DOWN, state(i));
    }
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
}

TEST_F(failover, an_exact_count_leaves_nothing_undecided) {
    m_failover.is_exact = 1;
    open();
    puts(0, 2, nullptr);
    die(0, psn(1));
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
}

TEST_F(failover, what_was_not_posted_leaves_nothing_undecided) {
    vqp_frag_t frag;

    m_failover.is_exact = 1;
    open();
    frag = puts(0, 1, nullptr)[0];
    EXPECT_TRUE(vqp_path_on_post_error(&m_vqp, &path(), frag.slot));
    quiesce();
    flush_sends();
    flush_recvs();
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
    hear_down(DRAINED | HAVE, 0, 0, imm(0));
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
}

TEST_F(failover, without_it_the_vqp_fails_with_its_path) {
    m_failover.is_on = 0;
    for (unsigned why = 0; why < 5; ++why) {
        open();
        auto frags = puts(0, 1, u);
        switch (why) {
        case 0:
            down();
            break;
        case 1:
            fail_send(0, frags[0].slot, VQP_ERR_TIMEOUT);
            break;
        case 2:
            vqp_on_recv_error(&m_vqp, &path(), VQP_ERR_TIMEOUT);
            break;
        case 3:
            m_paths[0].recv_used = 4;
            vqp_recv_posted(&m_vqp, &path(), 3);
            break;
        default:
            frags[0].flags |= VQP_FRAG_UNPOSTED;
            vqp_post_failed(&m_vqp, frags.data(), 1);
        }
        EXPECT_TRUE(vqp_is_failed(&m_vqp)) << why;
        EXPECT_EQ(VQP_PATH_UP, state()) << why;
        EXPECT_FALSE(event(VQP_EVENT_PATH_QUIESCE)) << why;
    }
    open();
    hear_down(0);
    EXPECT_EQ(VQP_PATH_UP, state());
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
}

TEST_F(failover, a_peer_that_has_closed_does_not_come_back) {
    open();
    vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
    ASSERT_EQ(VQP_STATE_PEER_CLOSED, m_vqp.state);
    down(0, VQP_ERR_IO);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_ERR_RESET, m_vqp.status);

    open();
    down();
    vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

/* ---- two sides ---- */

class side : public failkit {
public:
    void TestBody() override {}

    side() { open(1); }

    /* All events, as an owner handles them. With @a is_bad something may fail */
    void run(std::mt19937 &rng, bool is_bad, std::vector<vqp_path_msg_t> *out) {
        vqp_path_msg_t msg;
        int what;

        vqp_on_time(&m_vqp, m_now, 1);
        (void)next();
        if ((state() == VQP_PATH_PROBE) && path().fo.has_probe &&
            (rng() % 2 == 0)) {
            confirm_all(0);
        }
        while ((what = vqp_next_event(&m_vqp)) != VQP_EVENT_NONE) {
            bool fails = is_bad && (rng() % 3 == 0);

            switch (what) {
            case VQP_EVENT_PATH_QUIESCE:
                vqp_path_quiesced(&m_vqp, &path(), fails, 0);
                break;
            case VQP_EVENT_PATH_COUNT:
                vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
                break;
            case VQP_EVENT_PATH_REBUILD:
                vqp_path_rebuilt(&m_vqp, &path(), fails ? 0 : QPN, PSN);
                break;
            case VQP_EVENT_PATH_CONNECT:
                connected(0, fails ? VQP_ERR_IO : VQP_OK);
                break;
            case VQP_EVENT_PATH_SEND:
                while (vqp_path_message(&m_vqp, &path(), m_now, &msg)) {
                    out->push_back(msg);
                }
                break;
            default:
                break;
            }
        }
        if ((state() == VQP_PATH_QUIESCE) && path().fo.quiesced &&
            (rng() % 2 == 0)) {
            flush_sends();
            flush_recvs();
        }
    }

    void hear(const vqp_path_msg_t &msg) {
        vqp_on_path_message(&m_vqp, &msg, m_now);
    }

    using failkit::m_now;
    using failkit::m_vqp;
    using failkit::path;
    using failkit::state;
};

/* Messages are lost and overtaken, rebuilds and connects fail, paths fail at any
 * time. When this ends, the path is UP on both sides. */
TEST_F(failover, both_sides_come_back_whatever_has_happened) {
    for (unsigned seed = 0; seed < 300; ++seed) {
        std::mt19937 rng(seed);
        auto sides = std::make_unique<side[]>(2);
        std::vector<vqp_path_msg_t> wires[2];

        for (unsigned step = 0; step < 1000; ++step) {
            bool is_bad   = step < 300;
            unsigned from = rng() & 1;
            side &here    = sides[from];
            auto &wire    = wires[!from]; /* from the other one */

            sides[0].m_now = sides[1].m_now += 1 + rng() % 20;
            if (is_bad && (rng() % 20 == 0)) {
                vqp_path_down(&here.m_vqp, &here.path(), VQP_ERR_IO);
            }
            while (!wire.empty()) {
                size_t i = is_bad ? rng() % wire.size() : 0;

                if (!is_bad || (rng() % 2 == 0)) {
                    here.hear(wire[i]);
                }
                wire.erase(wire.begin() + (long)i);
            }
            here.run(rng, is_bad, &wires[from]);
        }

        EXPECT_EQ(VQP_PATH_UP, sides[0].state()) << seed;
        EXPECT_EQ(VQP_PATH_UP, sides[1].state()) << seed;
        ASSERT_EQ(sides[0].path().fo.epoch, sides[1].path().fo.epoch)
                << seed;
        EXPECT_FALSE(vqp_is_failed(&sides[0].m_vqp)) << seed;
    }
}

} // namespace
