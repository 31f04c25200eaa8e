/* Paths that do not come up move to other rails: rails.h */
#include "railskit.h"

#include <algorithm>

namespace {

class rails : public railskit {};

TEST_F(rails, path_moves_after_three_failures) {
    open(4);
    die(1, msn(0));
    for (unsigned n = 0; n < 2; ++n) {
        fail(1);
        EXPECT_EQ(pair(1, 1), next(1));
        EXPECT_EQ(n + 1, path(1).fo.fails);
    }
    follow(1);
    post_probe();
    drain(1);
    vqp_path_msg_t msg = next_message(1);
    EXPECT_EQ(1u, msg.down.rail); /* 0 */
    EXPECT_EQ(0u, msg.down.fails);
    EXPECT_EQ(pair(0, 0), next(1));
    hear_down(DRAINED | HAVE, path(1).fo.epoch, 1);
    follow(1);
    EXPECT_EQ(pair(0, 0), now(1));
    EXPECT_EQ(1u, m_stats.rail_moves);
    probe(1);
    EXPECT_EQ(VQP_NEED_RAIL, m_tx.limits.amo_needs);
}

TEST_F(rails, message_has_the_failures_of_this_side) {
    open(4);
    drain(1);
    EXPECT_EQ(0u, next_message(1).down.fails);
    hear_down(DRAINED | HAVE, 0, 1);
    follow(1);
    post_probe();
    drain(1);
    EXPECT_EQ(1u, next_message(1).down.fails);
    EXPECT_EQ(0u, next_message(1).down.rail);
}

TEST_F(rails, failures_before_a_path_was_up_do_not_count) {
    open(4);
    die(1, msn(0));
    for (unsigned n = 0; n < 3; ++n) {
        fail(1);
        fail(1);
        follow(1);
        probe(1);
        die(1, msn(0));
        EXPECT_EQ(pair(1, 1), next(1)) << n;
    }
}

TEST_F(rails, last_path_of_a_rail_stays) {
    open(3);
    die(1, msn(0));
    for (unsigned n = 0; n < 7; ++n) {
        fail(1);
        EXPECT_EQ(pair(1, 1), next(1)) << n;
    }
}

/* The own end is the last one of its rail, that of the peer is not */
TEST_F(rails, one_end_moves_if_only_the_other_one_is_the_last_of_its_rail) {
    open(3);
    path(1).peer_rail = path(1).fo.base_peer = path(1).fo.next_peer = 0;
    die(1, msn(0));
    fail(1);
    fail(1);
    fail(1);
    EXPECT_EQ(pair(1, 1), next(1));
}

/* Path 3 is to move, and has not done so yet: path 1 is the last one */
TEST_F(rails, paths_that_leave_a_rail_are_not_on_it_any_more) {
    open(4);
    die(1, msn(0));
    die(3, msn(0));
    for (unsigned n = 0; n < 3; ++n) {
        fail(3);
    }
    EXPECT_EQ(pair(0, 0), next(3));
    for (unsigned n = 0; n < 4; ++n) {
        fail(1);
        EXPECT_EQ(pair(1, 1), next(1));
    }
}

TEST_F(rails, without_a_path_that_is_up_one_failure_is_enough) {
    open(1);
    die(0, msn(0));
    EXPECT_EQ(pair(0, 0), next());
    for (pair to : {pair(1, 1), pair(0, 1), pair(1, 0), pair(0, 0), pair(1, 1)}) {
        fail();
        EXPECT_EQ(to, next());
    }
}

TEST_F(rails, peer_with_one_rail) {
    open(1);
    m_vqp.peer_rails = 1;
    die(0, msn(0));
    for (pair to : {pair(1, 0), pair(0, 0), pair(1, 0)}) {
        fail();
        EXPECT_EQ(to, next());
    }
}

TEST_F(rails, all_pairs_of_any_numbers_of_rails_are_tried) {
    for (unsigned own = 1; own <= VQP_MAX_RAILS; ++own) {
        for (unsigned peer = 1; peer <= VQP_MAX_RAILS; ++peer) {
            std::vector<pair> all;

            open(1);
            m_vqp.failover.num_rails = (uint8_t)own;
            m_vqp.peer_rails         = (uint8_t)peer;
            die(0, msn(0));
            for (unsigned n = 0; n < own * peer; ++n) {
                fail();
                all.push_back(next());
            }
            std::sort(all.begin(), all.end());
            EXPECT_EQ(all.end(), std::unique(all.begin(), all.end())) << own << " " << peer;
        }
    }
}

/* A port of this side is down: the owner leaves the path where it is */
TEST_F(rails, end_that_can_not_move_is_counted_on) {
    open(1);
    die(0, msn(0));
    fail();
    EXPECT_EQ(pair(1, 1), next());
    path().fo.next_rail = 0;
    fail();
    EXPECT_EQ(pair(0, 1), now());
    EXPECT_EQ(pair(1, 0), next());
}

/* The only other pair, once more: the peer has one rail, and this side's other one had no
 * queue pair left */
TEST_F(rails, move_that_was_not_made_is_made_again) {
    open(1);
    m_vqp.peer_rails = 1;
    die(0, msn(0));
    fail();
    for (unsigned n = 0; n < 3; ++n) {
        EXPECT_EQ(pair(1, 0), next());
        path().fo.next_rail = 0; /* the owner could not */
        fail();
    }
    EXPECT_EQ(pair(1, 0), next());
}

/* ---- the port of this side is down, or its device is broken ---- */

TEST_F(rails, only_path_takes_a_rail_whose_port_is_up) {
    open(1);
    die(0, msn(0));
    m_good = 1u << 1;
    follow();
    EXPECT_EQ(pair(1, 0), now());
    EXPECT_EQ(1u, m_stats.rail_moves);
    EXPECT_EQ(1u, path().fo.next_rail);
    EXPECT_EQ(1u, next_message().up.rail);
}

TEST_F(rails, path_waits_for_its_port_if_it_may_not_move) {
    m_failover.num_rails = m_failover.decides = 0;
    open(1);
    die(0, msn(0));
    EXPECT_EQ(0u, vqp_rails_choose(&m_vqp, &path(), 1u << 1, m_now));
}

TEST_F(rails, path_waits_for_its_port_while_another_one_works) {
    open(2);
    die(0, msn(0));
    EXPECT_EQ(0u, vqp_rails_choose(&m_vqp, &path(), 1u << 1, m_now));
    hear_down(LEAVING, 0, 1);
    ASSERT_EQ(VQP_PATH_LEAVE, state(1));
    EXPECT_EQ(0u, vqp_rails_choose(&m_vqp, &path(), 1u << 1, m_now));
}

/* The other path is about to come up on its own rail: but not for ever */
TEST_F(rails, path_waits_for_its_port_while_another_one_may_come_up) {
    open(2);
    die(0, msn(0));
    die(1, msn(0));
    timer();
    m_now += m_failover.outage / 4;
    EXPECT_EQ(0u, vqp_rails_choose(&m_vqp, &path(), 1u << 1, m_now));
    ++m_now;
    EXPECT_EQ(1u, vqp_rails_choose(&m_vqp, &path(), 1u << 1, m_now));
    EXPECT_EQ(0u, vqp_rails_choose(&m_vqp, &path(), 1u << 0, m_now));
    EXPECT_EQ(0u, vqp_rails_choose(&m_vqp, &path(), 0, m_now));
}

TEST_F(rails, wish_for_a_rail_whose_port_is_down_is_not_followed) {
    open(1);
    die(0, msn(0));
    fail();
    ASSERT_EQ(pair(1, 1), next());
    EXPECT_EQ(0u, vqp_rails_choose(&m_vqp, &path(), 1u << 0, m_now));
    m_good = 1u << 0;
    follow();
    EXPECT_EQ(pair(0, 1), now());
    EXPECT_EQ(pair(0, 1), next());
}

/* ---- the side that does not decide ---- */

TEST_F(rails, other_side_does_what_it_is_asked) {
    m_failover.decides = 0;
    open(1);
    drain(0);
    hear_drained(0, 0, 2);
    EXPECT_EQ(1u, path().fo.next_rail);
    for (unsigned n = 0; n < 4; ++n) {
        fail();
        EXPECT_EQ(pair(1, 0), next());
    }
}

TEST_F(rails, other_side_knows_its_rails) {
    m_failover.decides = 0;
    open(1);
    drain(0);
    hear_drained(0, 0, 3);
    EXPECT_EQ(0u, path().fo.next_rail);
}

TEST_F(rails, deciding_side_is_not_asked) {
    open(1);
    drain(0);
    hear_drained(0, 0, 2);
    EXPECT_EQ(0u, path().fo.next_rail);
}

TEST_F(rails, failures_of_the_peer_count) {
    open(4);
    hear_drained(1, 3, 0, 0);
    quiesce(1);
    flush_recvs(1);
    EXPECT_TRUE(event(VQP_EVENT_PATH_COUNT, 1));
    vqp_path_counted(&m_vqp, &path(1), VQP_SOURCE_MSN, 0);
    EXPECT_EQ(pair(0, 0), next(1));
    hear_drained(1, 4, 0); /* of the old rails */
    follow(1);
    post_probe();
    die(1, msn(0));
    EXPECT_EQ(pair(0, 0), next(1));
}

TEST_F(rails, peer_without_the_feature_stays) {
    m_failover.num_rails = m_failover.decides = 0;
    open(1);
    die(0, msn(0));
    for (unsigned n = 0; n < 4; ++n) {
        fail();
        EXPECT_EQ(pair(0, 0), next());
    }
    rebuild();
    hear_up_on(0, 1);
    EXPECT_FALSE(event(VQP_EVENT_PATH_CONNECT));
    EXPECT_EQ(0u, path().peer_rail);
}

TEST_F(rails, peer_has_no_other_rails) {
    open(1);
    die(0, msn(0));
    rebuild();
    hear_up_on(0, 2);
    EXPECT_FALSE(event(VQP_EVENT_PATH_CONNECT));
    EXPECT_EQ(0u, path().peer_rail);
}

/* The path is added, and the peer has moved its end before it was heard here */
TEST_F(rails, peer_tells_where_a_path_was_first) {
    for (unsigned first = 0; first < 4; ++first) {
        vqp_path_msg_t msg {};

        m_num_connected = 1;
        open(2);
        path(1).fo.base_rail = 1;
        msg.type     = VQP_WIRE_PATH_UP;
        msg.epoch    = 1;
        msg.up       = {1, 0, QPN + 1, PSN + 1, (uint8_t)first};
        vqp_on_path_message(&m_vqp, &msg, m_now);
        EXPECT_EQ(0u, path(1).peer_rail);
        EXPECT_EQ(first == 2 ? 1u : 0u, path(1).fo.base_peer) << first;
        EXPECT_EQ(first == 2 ? 1u : 0u, m_tx.paths.moved);
        ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 1));
        rebuild(1);
        EXPECT_EQ(2u, next_message(1).up.first);
    }
}

/* ---- addresses ---- */

TEST_F(rails, path_without_an_answer_of_the_host_goes_down_for_another_rail) {
    open(4);
    die(1, msn(0));
    rebuild(1);
    hear_up_on(1, 1);
    for (unsigned n = 0; n < 2; ++n) {
        vqp_path_connected(&m_vqp, &path(1), VQP_ERR_UNREACHABLE);
        EXPECT_EQ(VQP_PATH_CONNECT, state(1));
        vqp_path_connected(&m_vqp, &path(1), VQP_INPROGRESS);
    }
    vqp_path_connected(&m_vqp, &path(1), VQP_ERR_UNREACHABLE);
    EXPECT_EQ(VQP_PATH_DRAINED, state(1));
    EXPECT_EQ(pair(0, 0), next(1));
}

TEST_F(rails, last_path_without_an_answer_of_the_host_waits) {
    open(2);
    die(1, msn(0));
    rebuild(1);
    hear_up_on(1, 1);
    for (unsigned n = 0; n < 10; ++n) {
        vqp_path_connected(&m_vqp, &path(1), VQP_ERR_UNREACHABLE);
        EXPECT_EQ(VQP_PATH_CONNECT, state(1));
    }
}

} /* namespace */
