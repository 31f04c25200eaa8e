/*
 * Paths that are added and dropped while a vqp is used: failover.h, move.h. Two sides that want
 * different things: the simulator.
 */
#include "failkit.h"

extern "C" {
#include "core/failover/move.h"
}

namespace {

class add : public failkit {
protected:
    static constexpr unsigned LEAVING = VQP_WIRE_FLAG_LEAVING,
                              UNUSED = VQP_WIRE_FLAG_UNUSED;

    /* One path of two is connected */
    void open_one() {
        m_num_connected = 1;
        open();
    }

    bool is_off(unsigned i = 1) { return vqp_path_is_off(&m_paths[i]); }

    /* Both sides have nothing in flight: it goes down, and is off */
    void leave(unsigned i = 1) {
        uint32_t epoch = m_paths[i].fo.epoch;

        ASSERT_EQ(VQP_PATH_LEAVE, state(i));
        (void)next();
        EXPECT_EQ(LEAVING | DRAINED | UNUSED, next_message(i).flags);
        hear_down(LEAVING | DRAINED | UNUSED, epoch, i);
        quiesce(i);
        flush_recvs(i);
        ASSERT_TRUE(event(VQP_EVENT_PATH_COUNT, i));
        vqp_path_counted(&m_vqp, &m_paths[i], VQP_SOURCE_MSN, 0);
        hear_down(DRAINED | HAVE | UNUSED, epoch, i);
        EXPECT_EQ(VQP_PATH_DOWN, state(i));
    }
};

/* ---- off ---- */

TEST_F(add, path_beyond_the_handshake_is_off) {
    open_one();
    EXPECT_TRUE(is_off());
    EXPECT_EQ(VQP_RAIL_NONE, path(1).peer_rail);
    EXPECT_FALSE(path(1).up);
    EXPECT_EQ(1u, m_tx.paths.usable);
    EXPECT_TRUE(m_tx.paths.settled);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
    m_now += 10000;
    timer();
    take();
    EXPECT_TRUE(m_events.empty());
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message(1).type);
    EXPECT_EQ(0u, send_am(8).path->index);
    EXPECT_EQ(0u, send_am(8).path->index);
}

TEST_F(add, path_that_is_off_is_not_rebuilt_with_others) {
    m_num_connected = 2;
    open(3);
    die(1, msn(0));
    timer();
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 2));
    EXPECT_GT(vqp_next_timeout(&m_vqp), m_now);
}

TEST_F(add, path_that_is_off_answers) {
    open_one();
    hear_down(DRAINED, 0, 1);
    EXPECT_EQ(DRAINED | HAVE | UNUSED | ANSWER, next_message(1).flags);
    EXPECT_TRUE(is_off());
}

TEST_F(add, only_atomics_of_a_peer_with_several_rails_need_a_certain_one) {
    open_one();
    EXPECT_EQ(VQP_NEED_RAIL, m_tx.limits.amo_needs);
    m_num_connected = 0;
    open();
    EXPECT_EQ(0u, m_tx.limits.amo_needs);
}

/* ---- add ---- */

TEST_F(add, path_comes_up_and_takes_frags) {
    vqp_path_msg_t msg;

    open_one();
    EXPECT_EQ(1, vqp_path_add(&m_vqp, &path(1)));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    rebuild(1);
    EXPECT_EQ(1u, m_stats.path_adds);
    EXPECT_EQ(0, vqp_path_add(&m_vqp, &path(1)));
    msg = next_message(1);
    EXPECT_EQ(VQP_WIRE_PATH_UP, msg.type);
    EXPECT_EQ(0u, msg.flags);
    EXPECT_EQ(1u, msg.epoch);
    path(1).peer_rail = 1; /* for the message of the peer */
    hear_up(HAVE, 1, 1);
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT, 1));
    connected(1);
    probe(1);
    EXPECT_EQ(2u, m_tx.paths.usable);
    EXPECT_EQ(0u, m_stats.path_downs);
    EXPECT_TRUE(path(1).fo.added);
}

TEST_F(add, peer_adds_a_path_on_any_of_its_rails) {
    for (unsigned rail = 0; rail < 3; ++rail) {
        vqp_path_msg_t msg {};

        open_one();
        msg.type     = VQP_WIRE_PATH_UP;
        msg.epoch    = 1;
        msg.up.path  = 1;
        msg.up.rail  = (uint8_t)rail;
        msg.up.qpn   = QPN + 1;
        vqp_on_path_message(&m_vqp, &msg, m_now);
        EXPECT_EQ(rail < 2, event(VQP_EVENT_PATH_REBUILD, 1)) << rail;
        EXPECT_EQ((rail < 2) ? rail : VQP_RAIL_NONE, path(1).peer_rail);
    }
}

TEST_F(add, peer_stays_on_the_rail_that_it_had) {
    vqp_path_msg_t msg {};

    open_one();
    path(1).peer_rail = 1;
    msg.type     = VQP_WIRE_PATH_UP;
    msg.epoch    = 1;
    msg.up.path  = 1;
    msg.up.rail  = 0;
    msg.up.qpn   = QPN + 1;
    vqp_on_path_message(&m_vqp, &msg, m_now);
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 1));
}

TEST_F(add, path_without_a_queue_pair_stays_off) {
    open_one();
    EXPECT_EQ(1, vqp_path_add(&m_vqp, &path(1)));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
    EXPECT_TRUE(is_off());
    EXPECT_EQ(0u, path(1).fo.epoch);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message(1).type);
    EXPECT_EQ(1, vqp_path_add(&m_vqp, &path(1)));
}

TEST_F(add, without_a_queue_pair_the_peer_is_refused) {
    vqp_path_msg_t msg;

    open_one();
    path(1).peer_rail = 0;
    hear_up(0, 1, 1);
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
    EXPECT_EQ(VQP_PATH_DRAINED, state(1));
    EXPECT_EQ(0u, m_stats.path_downs);
    msg = next_message(1);
    EXPECT_EQ(VQP_WIRE_PATH_DOWN, msg.type);
    EXPECT_EQ(DRAINED | UNUSED, msg.flags);
    EXPECT_EQ(1u, msg.epoch);
    EXPECT_EQ(0u, msg.down.count);
    hear_up(0, 1, 1); /* repeated */
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 1));
    hear_down(DRAINED | HAVE | UNUSED, 1, 1);
    EXPECT_TRUE(is_off());
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

/* The interface has many queue pairs to create */
TEST_F(add, path_that_has_to_wait_for_its_queue_pair_is_added_later) {
    open_one();
    EXPECT_EQ(1, vqp_path_add(&m_vqp, &path(1)));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    vqp_path_rebuild_later(&m_vqp, &path(1), m_now + 20);
    EXPECT_FALSE(is_off());
    EXPECT_FALSE(m_tx.paths.settled);
    EXPECT_FALSE(m_tx.paths.has_off);
    EXPECT_EQ(0, vqp_path_add(&m_vqp, &path(1)));
    EXPECT_EQ(m_now + 20, vqp_next_timeout(&m_vqp));
    m_now += 20;
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    rebuild(1);
    EXPECT_EQ(VQP_WIRE_PATH_UP, next_message(1).type);
    EXPECT_EQ(1u, m_stats.path_adds);
}

TEST_F(add, path_that_waits_and_gets_no_queue_pair_is_off) {
    open_one();
    EXPECT_EQ(1, vqp_path_add(&m_vqp, &path(1)));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    vqp_path_rebuild_later(&m_vqp, &path(1), m_now + 20);
    m_now += 20;
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
    EXPECT_TRUE(is_off());
    EXPECT_TRUE(m_tx.paths.settled);
    EXPECT_TRUE(m_tx.paths.has_off);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

TEST_F(add, peer_is_not_refused_because_it_has_to_wait) {
    vqp_path_msg_t msg;

    open_one();
    path(1).peer_rail = 0;
    hear_up(0, 1, 1);
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    vqp_path_rebuild_later(&m_vqp, &path(1), m_now + 20);
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message(1).type);
    hear_up(0, 1, 1); /* repeated */
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 1));
    m_now += 20;
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    rebuild(1);
    msg = next_message(1);
    EXPECT_EQ(VQP_WIRE_PATH_UP, msg.type);
    EXPECT_EQ(1u, msg.epoch);
    ASSERT_TRUE(event(VQP_EVENT_PATH_CONNECT, 1));
    connected(1);
    EXPECT_EQ(VQP_PATH_READY, state(1));
}

/* No other path is UP any more: now it is tried as often as it takes */
TEST_F(add, path_that_waits_is_needed_meanwhile) {
    open_one();
    EXPECT_EQ(1, vqp_path_add(&m_vqp, &path(1)));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    vqp_path_rebuild_later(&m_vqp, &path(1), m_now + 20);
    vqp_paths_turn_on(&m_vqp);
    EXPECT_EQ(m_now + 20, path(1).fo.due);
    m_now += 20;
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
    EXPECT_FALSE(is_off());
    EXPECT_NE(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

TEST_F(add, path_that_the_peer_refuses_is_off_again) {
    open_one();
    EXPECT_EQ(1, vqp_path_add(&m_vqp, &path(1)));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    rebuild(1);
    hear_down(DRAINED | UNUSED, 1, 1);
    EXPECT_EQ(VQP_PATH_DRAINED, state(1));
    EXPECT_EQ(DRAINED | HAVE | UNUSED, next_message(1).flags);
    hear_down(DRAINED | HAVE | UNUSED, 1, 1);
    EXPECT_TRUE(is_off());
    EXPECT_TRUE(event(VQP_EVENT_PATH_DESTROY, 1));
    EXPECT_EQ(0u, m_stats.path_downs);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

TEST_F(add, path_that_fails_after_it_was_added_is_rebuilt) {
    open_one();
    EXPECT_EQ(1, vqp_path_add(&m_vqp, &path(1)));
    path(1).peer_rail = 0;
    revive(1);
    drain(1);
    hear_down(DRAINED | HAVE, 1, 1);
    EXPECT_EQ(VQP_PATH_DOWN, state(1));
    EXPECT_FALSE(is_off());
    EXPECT_EQ(1u, m_stats.path_downs);
    timer();
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
}

TEST_F(add, all_are_needed_when_no_path_is_up) {
    open_one();
    drain();
    EXPECT_TRUE(is_off());
    timer(); /* the outage begins */
    EXPECT_FALSE(is_off());
    EXPECT_EQ(1u, m_stats.path_adds);
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
    EXPECT_EQ(VQP_PATH_DOWN, state(1));
    EXPECT_NE(UINT64_MAX, vqp_next_timeout(&m_vqp));
    m_now += m_failover.hold_max;
    timer();
    m_now += m_failover.hold_max;
    timer();
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1)); /* as often as it takes */
}

TEST_F(add, all_are_needed_when_an_atomic_lacks_its_rail) {
    open_one();
    ASSERT_TRUE(fadd(nullptr, nullptr, VQP_OP_SIGNAL, 1));
    (void)next();
    EXPECT_FALSE(is_off());
    EXPECT_TRUE(event(VQP_EVENT_TIMER));
    timer();
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    path(1).peer_rail = 1;
    revive(1);
    EXPECT_EQ(1u, on_path(next(), 1));
}

/* ---- drop ---- */

TEST_F(add, path_is_dropped_when_nothing_is_in_flight) {
    open();
    EXPECT_EQ(1, vqp_path_drop(&m_vqp, &path(1)));
    EXPECT_EQ(LEAVING | UNUSED, next_message(1).flags);
    EXPECT_EQ(VQP_PATH_UP, state(1)); /* the peer need not agree */
    EXPECT_TRUE(path(1).up);
    hear_down(LEAVING | UNUSED | ANSWER, 0, 1);
    leave();
    EXPECT_TRUE(is_off());
    EXPECT_TRUE(event(VQP_EVENT_PATH_DESTROY, 1));
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 1));
    EXPECT_EQ(1u, m_stats.path_drops);
    EXPECT_EQ(0u, m_stats.moves);
    (void)next();
    EXPECT_EQ(0u, m_tx.slow & VQP_TX_REPLAY);
    EXPECT_TRUE(m_tx.paths.settled);
    timer();
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 1));
}

TEST_F(add, path_that_was_dropped_is_added_by_the_peer) {
    open();
    hear_down(LEAVING | UNUSED, 0, 1);
    leave();
    ASSERT_TRUE(event(VQP_EVENT_PATH_DESTROY, 1));
    hear_up(0, 1, 1);
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    rebuild(1);
    EXPECT_EQ(1u, m_stats.path_adds);
    EXPECT_TRUE(event(VQP_EVENT_PATH_CONNECT, 1));
}

/* The peer, where a path is UP first, asks once that it is dropped or moved */
class asked_early : public add {
protected:
    void ask(unsigned flags) {
        open();
        hear_down(LEAVING | UNUSED, 0, 1);
        leave();
        hear_up(0, 1, 1);
        reach_probe(1);
        (void)next();
        hear_down(flags, 1, 1);
        EXPECT_EQ(VQP_PATH_PROBE, state(1));
    }

    void confirm_probe() {
        confirm_all(1);
        (void)next();
    }
};

TEST_F(asked_early, path_is_dropped_when_it_is_up) {
    ask(LEAVING | UNUSED);
    confirm_probe();
    EXPECT_EQ(VQP_PATH_LEAVE, state(1));
    EXPECT_TRUE(path(1).fo.unused);
}

TEST_F(asked_early, path_is_moved_when_it_is_up) {
    ask(LEAVING);
    confirm_probe();
    EXPECT_EQ(VQP_PATH_LEAVE, state(1));
    EXPECT_FALSE(path(1).fo.unused);
}

TEST_F(asked_early, path_that_this_side_wants_is_kept) {
    ask(LEAVING | UNUSED);
    m_vqp.elastic.wanted = 2;
    confirm_probe();
    EXPECT_EQ(VQP_PATH_UP, state(1));
    EXPECT_FALSE(path(1).fo.unused);
}

TEST_F(asked_early, request_ends_with_the_queue_pair) {
    ask(LEAVING);
    vqp_path_down(&m_vqp, &path(1), VQP_ERR_TIMEOUT);
    EXPECT_EQ(VQP_PATH_ASKED_NOTHING, path(1).fo.asked);
}

TEST_F(add, last_path_is_not_dropped) {
    open_one();
    EXPECT_EQ(0, vqp_path_drop(&m_vqp, &path()));
    hear_down(LEAVING | UNUSED);
    EXPECT_EQ(VQP_PATH_UP, state());
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
    EXPECT_FALSE(path().fo.unused);
}

TEST_F(add, side_that_wants_more_paths_adds_them_and_drops_none) {
    m_num_connected = 1;
    m_min_paths     = 2;
    connect(3);
    vqp_set_live(&m_vqp);
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 2));
    path(1).peer_rail = 0;
    revive(1);
    EXPECT_EQ(0, vqp_path_drop(&m_vqp, &path(1)));
    hear_down(LEAVING | UNUSED, 1, 1);
    EXPECT_EQ(VQP_PATH_UP, state(1));
}

TEST_F(add, two_sides_do_not_drop_both_of_two_paths) {
    open();
    EXPECT_EQ(1, vqp_path_drop(&m_vqp, &path(1)));
    (void)next_message(1);
    EXPECT_EQ(0, vqp_path_drop(&m_vqp, &path(0)));
    hear_down(LEAVING | UNUSED, 0, 0);
    EXPECT_EQ(VQP_PATH_UP, state(0));
}

TEST_F(add, peer_that_agrees_too_late_gets_a_move) {
    open();
    EXPECT_EQ(1, vqp_path_drop(&m_vqp, &path(1)));
    EXPECT_EQ(LEAVING | UNUSED, next_message(1).flags);
    die(0, msn(0));
    hear_down(LEAVING | UNUSED | ANSWER, 0, 1);
    EXPECT_EQ(VQP_PATH_LEAVE, state(1)); /* the peer is, too */
    EXPECT_FALSE(path(1).fo.unused);
    EXPECT_EQ(1u, m_stats.moves);
    EXPECT_EQ(0u, m_stats.path_drops);
    (void)next();
    EXPECT_EQ(LEAVING | DRAINED, next_message(1).flags);
}

TEST_F(add, path_that_fails_while_its_drop_is_requested_is_rebuilt) {
    open();
    EXPECT_EQ(1, vqp_path_drop(&m_vqp, &path(1)));
    die(1, msn(0));
    EXPECT_FALSE(is_off());
    timer();
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
}

TEST_F(add, path_that_fails_while_it_leaves_is_off) {
    open();
    hear_down(LEAVING | UNUSED, 0, 1);
    ASSERT_EQ(VQP_PATH_LEAVE, state(1));
    die(1, msn(0));
    EXPECT_TRUE(is_off());
}

} /* namespace */
