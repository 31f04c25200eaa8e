/*
 * A path whose rate is a fraction of that of others is moved to another flow: with
 * nothing in flight on either side.
 */
#include "failkit.h"

extern "C" {
#include "core/data/control.h"
#include "core/failover/move.h"
#include "core/failover/silence.h"
#include "core/failover/slow.h"
}

#include <algorithm>

namespace {

class slow : public failkit {
protected:
    static constexpr uint64_t TIME = 400000, STEP = TIME / 4, SLOW = 10 * STEP,
                              FIRST = 100 * STEP, MAX = 1000 * STEP;
    static constexpr unsigned LEAVING = VQP_WIRE_FLAG_LEAVING;

    slow() {
        m_failover.silence    = TIME;
        m_failover.slow       = SLOW;
        m_failover.slow_first = FIRST;
        m_failover.slow_max   = MAX;
        m_failover.outage     = 1000000 * STEP;
    }

    void set_rate(unsigned i, uint32_t cost) {
        vqp_rate_set(&path(i).rate, cost, m_now);
        path(i).rate.recent = cost;
    }

    /* A look, before which all paths brought a completion; these are their costs */
    void look(const std::vector<uint32_t> &costs) {
        for (unsigned i = 0; i < costs.size(); ++i) {
            m_batch.count = 0;
            if (state(i) != VQP_PATH_UP) {
                continue;
            }
            vqp_tx_emit_nop(&m_tx, &m_batch, &path(i));
            if (m_tx.slow & VQP_TX_QUIET) {
                vqp_silence_start(&m_vqp);
            }
            confirm_all(i);
            if (costs[i] != 0) {
                set_rate(i, costs[i]);
            }
        }
        m_now += STEP;
        vqp_on_time(&m_vqp, m_now, 1);
    }

    void falls_silent_while_it_leaves() {
        open(2);
        (void)puts(0, 3);
        hear_down(LEAVING);
        (void)next();
        for (unsigned i = 0; (i < 20) && (state() == VQP_PATH_LEAVE); ++i) {
            look({0, 0});
        }
        ASSERT_EQ(VQP_PATH_SILENT, state());
    }

    /* Until the peer is asked to move a path. @return looks */
    unsigned looks_until_asked(const std::vector<uint32_t> &costs, unsigned max,
                               unsigned i = 0) {
        for (unsigned n = 1; n <= max; ++n) {
            look(costs);
            for (unsigned j = 0; j < costs.size(); ++j) {
                vqp_path_msg_t msg = next_message(j);

                if ((msg.type == VQP_WIRE_PATH_DOWN) && (msg.flags & LEAVING) &&
                    (state(j) == VQP_PATH_UP)) {
                    EXPECT_EQ(LEAVING, msg.flags);
                    EXPECT_EQ(i, j);
                    return n;
                }
            }
        }
        return 0;
    }

    static size_t messages(const std::vector<vqp_frag_t> &frags) {
        return (size_t)std::count_if(frags.begin(), frags.end(),
                                     [](const vqp_frag_t &frag) {
                                         return frag.kind == VQP_KIND_AM;
                                     });
    }

    /* The peer answers, and has nothing in flight; nothing is sent again */
    void move(unsigned i = 0) {
        uint32_t epoch = path(i).fo.epoch;

        hear_down(LEAVING | DRAINED, epoch, i);
        EXPECT_EQ(VQP_PATH_LEAVE, state(i));
        (void)next();
        EXPECT_EQ(VQP_PATH_QUIESCE, state(i));
        quiesce(i);
        flush_recvs(i);
        EXPECT_TRUE(event(VQP_EVENT_PATH_COUNT, i));
        vqp_path_counted(&m_vqp, &path(i), VQP_SOURCE_MSN, 0);
        hear_down(DRAINED | HAVE, epoch, i);
        EXPECT_EQ(VQP_PATH_DOWN, state(i));
        revive(i);
        (void)next();
        EXPECT_EQ(0u, m_stats.replayed);
    }
};

/* ---- another flow without another queue pair ---- */

TEST_F(slow, a_path_gets_another_flow_first_if_its_owner_can) {
    m_failover.rehash = 1;
    open(4);
    EXPECT_EQ(0u, looks_until_asked({401, 100, 100, 100}, SLOW / STEP + 1));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REHASH));
    EXPECT_EQ(VQP_PATH_UP, state());
    vqp_path_rehashed(&m_vqp, &path(0), VQP_OK);
    EXPECT_EQ(1u, m_stats.rehashes);

    /* it is slow as before: then it is moved, after the time between two moves */
    EXPECT_EQ(FIRST / STEP, looks_until_asked({401, 100, 100, 100}, 1000));
    move();
    EXPECT_EQ(1u, m_stats.moves);

    /* the new queue pair is a new try */
    EXPECT_EQ(0u, looks_until_asked({401, 100, 100, 100}, FIRST / STEP));
    EXPECT_EQ(0u, looks_until_asked({401, 100, 100, 100}, FIRST / STEP + 1));
    EXPECT_TRUE(event(VQP_EVENT_PATH_REHASH));
}

TEST_F(slow, a_path_whose_flow_can_not_be_changed_is_moved_then_and_later) {
    m_failover.rehash = 1;
    open(4);
    EXPECT_EQ(0u, looks_until_asked({401, 100, 100, 100}, SLOW / STEP + 1));
    ASSERT_TRUE(event(VQP_EVENT_PATH_REHASH));
    vqp_path_rehashed(&m_vqp, &path(0), VQP_ERR_UNSUPPORTED);
    EXPECT_EQ(LEAVING, next_message().flags);
    EXPECT_EQ(0u, m_stats.rehashes);
    move();
    EXPECT_NE(0u, looks_until_asked({100, 401, 100, 100}, 1000, 1));
    EXPECT_FALSE(event(VQP_EVENT_PATH_REHASH, 1));
}

TEST_F(slow, the_flow_of_a_path_that_is_not_up_any_more_is_not_changed) {
    m_failover.rehash = 1;
    open(4);
    EXPECT_EQ(0u, looks_until_asked({401, 100, 100, 100}, SLOW / STEP));
    look({401, 100, 100, 100});
    hear_down(LEAVING);
    EXPECT_EQ(VQP_PATH_LEAVE, state());
    EXPECT_FALSE(event(VQP_EVENT_PATH_REHASH));
}

/* ---- the rule ---- */

TEST_F(slow, a_path_at_less_than_a_quarter_of_the_rate_of_others_is_moved) {
    open(4);
    /* the first look has no time before it */
    EXPECT_EQ(SLOW / STEP + 1, looks_until_asked({401, 100, 100, 100}, 20));
    EXPECT_EQ(0u, m_stats.moves);
    move();
    EXPECT_EQ(1u, m_stats.moves);
    EXPECT_EQ(1u, m_stats.path_downs);
    EXPECT_EQ(1u, m_stats.path_ups);
}

TEST_F(slow, a_path_at_a_quarter_is_kept) {
    open(4);
    EXPECT_EQ(0u, looks_until_asked({400, 100, 100, 100}, 1000));
}

/* What counts is the median: one fast path does not make all others slow */
TEST_F(slow, one_fast_path_makes_no_other_one_slow) {
    open(4);
    EXPECT_EQ(0u, looks_until_asked({1000, 1000, 1000, 100}, 1000));
}

TEST_F(slow, of_two_paths_the_slower_one_is_moved) {
    open(2);
    EXPECT_NE(0u, looks_until_asked({100, 1000}, 20, 1));
}

TEST_F(slow, a_path_that_is_slow_now_and_then_is_kept) {
    open(4);
    for (unsigned i = 0; i < 100; ++i) {
        EXPECT_EQ(0u, looks_until_asked({1000, 100, 100, 100}, SLOW / STEP - 1));
        EXPECT_EQ(0u, looks_until_asked({300, 100, 100, 100}, 1));
    }
}

TEST_F(slow, is_off_without_a_time_and_without_failover) {
    m_failover.slow = 0;
    open(4);
    EXPECT_EQ(0u, looks_until_asked({1000, 100, 100, 100}, 1000));
    m_failover.slow  = SLOW;
    m_failover.is_on = 0;
    open(4);
    EXPECT_EQ(0u, looks_until_asked({1000, 100, 100, 100}, 1000));
}

/* Completions wait in the queue, or nothing goes over the path */
TEST_F(slow, time_in_which_nothing_is_seen_does_not_count) {
    open(2);
    look({1000, 100});
    for (unsigned i = 0; i < 100; ++i) {
        m_batch.count = 0;
        vqp_tx_emit_nop(&m_tx, &m_batch, &path(1));
        confirm_all(1);
        set_rate(0, 1000);
        set_rate(1, 100);
        m_now += STEP;
        vqp_on_time(&m_vqp, m_now, 1);
    }
    EXPECT_EQ(0u, path(0).fo.slow);
    for (unsigned i = 0; i < 100; ++i) {
        for (unsigned j = 0; j < 2; ++j) {
            m_batch.count = 0;
            vqp_tx_emit_nop(&m_tx, &m_batch, &path(j));
            confirm_all(j);
        }
        m_now += STEP;
        vqp_on_time(&m_vqp, m_now, 0);
    }
    EXPECT_EQ(0u, path(0).fo.slow);
}

/* A rail is slow, and has no better flow */
TEST_F(slow, paths_are_compared_with_those_of_their_rail) {
    m_two_rails = true;
    open(4); /* rails 0, 1, 0, 1 */
    EXPECT_EQ(0u, looks_until_asked({1000, 100, 1000, 100}, 1000));
    EXPECT_NE(0u, looks_until_asked({1000, 100, 5000, 100}, 20, 2));
}

/* ---- back-off ---- */

TEST_F(slow, a_path_that_stays_slow_is_tried_rarely) {
    uint64_t last = 0, gap = FIRST;

    open(4);
    for (unsigned i = 0; i < 8; ++i) {
        ASSERT_NE(0u, looks_until_asked({1000, 100, 100, 100}, 2000)) << i;
        if (i > 0) {
            EXPECT_GE(m_now - last, gap);
            EXPECT_LE(m_now - last, gap + 2 * SLOW);
            gap = std::min(2 * gap, MAX);
        }
        last = m_now;
        move();
    }
}

TEST_F(slow, a_path_that_was_good_for_long_is_moved_at_once_again) {
    open(4);
    for (unsigned i = 0; i < 5; ++i) {
        EXPECT_LE(looks_until_asked({1000, 100, 100, 100}, 20), 20u);
        move();
        EXPECT_EQ(0u, looks_until_asked({100, 100, 100, 100}, 3 * FIRST / STEP));
    }
}

TEST_F(slow, two_paths_are_moved_one_after_the_other) {
    open(8);
    std::vector<uint32_t> costs(8, 100);
    costs[2] = costs[5] = 1000;
    ASSERT_NE(0u, looks_until_asked(costs, 20, 2));
    uint64_t first = m_now;
    hear_down(LEAVING, 0, 2);
    EXPECT_EQ(VQP_PATH_LEAVE, state(2));
    EXPECT_EQ(LEAVING, next_message(2).flags);
    EXPECT_EQ(0u, looks_until_asked(costs, 2 * FIRST / STEP, 5));
    move(2);
    costs[2] = 100;
    ASSERT_NE(0u, looks_until_asked(costs, 200, 5));
    EXPECT_GE(m_now - first, FIRST);
}

TEST_F(slow, none_is_moved_while_another_one_is_down) {
    open(4);
    die(3, msn(0));
    EXPECT_EQ(0u, looks_until_asked({1000, 100, 100, 0}, 50));
}

/* ---- measuring ---- */

TEST_F(slow, other_schedulers_measure_what_is_in_flight_at_a_look) {
    m_cfg.sched = VQP_SCHED_RR;
    open(2);
    (void)puts(0, 4, nullptr, 20000);
    ASSERT_GE(path().bytes, (uint64_t)VQP_RATE_SAMPLE);
    vqp_tx_reclaim(&m_tx);
    (void)next();
    EXPECT_FALSE(vqp_tx_is_rated(&path()));
    m_now += STEP;
    vqp_on_time(&m_vqp, m_now, 1);
    EXPECT_TRUE(vqp_tx_is_rated(&path()));
    EXPECT_FALSE(vqp_tx_is_rated(&path(1)));
}

/* An interval would hold the time until more is sent */
TEST_F(slow, other_schedulers_do_not_measure_what_has_no_completion_to_come) {
    m_cfg.sched = VQP_SCHED_RR;
    open(2);
    (void)puts(0, 4, nullptr, 20000);
    vqp_tx_reclaim(&m_tx);
    (void)next();
    look({0, 0});
    confirm_all(0);
    (void)only(0, [&] { EXPECT_TRUE(rma(VQP_KIND_GET, 64, nullptr, 0)); });
    vqp_rate_begin(&path().rate, m_now); /* as with several CQEs on the way */
    look({}); /* none of them is left */
    EXPECT_FALSE(vqp_tx_is_rated(&path()));
}

/* ---- leaving ---- */

TEST_F(slow, the_path_is_used_until_the_peer_answers) {
    open(2);
    ASSERT_NE(0u, looks_until_asked({1000, 100}, 20));
    EXPECT_TRUE(path().up);
    EXPECT_EQ(3u, on_path(puts(0, 3), 0));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type); /* it is asked once */
}

/* The peer, which did not agree to drop it, would not agree now either */
TEST_F(slow, a_path_that_was_to_be_dropped_is_moved) {
    open(2);
    m_vqp.elastic.wanted = 1;
    ASSERT_EQ(1, vqp_path_drop(&m_vqp, &path()));
    EXPECT_EQ(LEAVING | VQP_WIRE_FLAG_UNUSED, next_message().flags);
    EXPECT_NE(0u, looks_until_asked({1000, 100}, 20));
}

TEST_F(slow, it_goes_down_when_nothing_is_in_flight_on_either_side) {
    int users[3];

    open(2);
    (void)only(0, [&] {
        for (int &user : users) {
            EXPECT_TRUE(rma(VQP_KIND_PUT, 64, &user, 0));
        }
    });
    hear_down(LEAVING);
    EXPECT_EQ(VQP_PATH_LEAVE, state());
    EXPECT_FALSE(path().up);
    EXPECT_EQ(LEAVING, next_message().flags);
    /* the frags had no completion of their own */
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_KIND_NOP, frags[0].kind);
    EXPECT_EQ(0, frags[0].path->index);
    EXPECT_EQ(0u, next().size());
    hear_down(LEAVING | DRAINED);
    EXPECT_EQ(VQP_PATH_LEAVE, state());
    EXPECT_EQ(LEAVING | ANSWER, next_message().flags);
    confirm_all(0);
    EXPECT_EQ(3u, ends().size());
    EXPECT_EQ(0u, next().size());
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_EQ(0u, next_message().flags & LEAVING);
}

/* The peer is drained, and goes on at once: its last message of LEAVE may be overwritten
 * by the next one. That is no fault, unless this side is not drained */
TEST_F(slow, a_peer_that_goes_on_ends_the_move_too) {
    for (bool is_drained : {true, false}) {
        open(2);
        if (!is_drained) {
            (void)puts(0, 1);
        }
        hear_down(LEAVING);
        (void)next();
        EXPECT_EQ(is_drained ? LEAVING | DRAINED : LEAVING, next_message().flags);
        hear_down(0);
        EXPECT_EQ(VQP_PATH_QUIESCE, state());
        EXPECT_EQ(is_drained ? VQP_OK : VQP_ERR_RESET, path().fo.status);
    }
}

TEST_F(slow, a_side_with_nothing_in_flight_says_so_and_waits) {
    open(2);
    hear_down(LEAVING);
    EXPECT_EQ(0u, next().size());
    EXPECT_EQ(LEAVING | DRAINED, next_message().flags);
    EXPECT_EQ(VQP_PATH_LEAVE, state());
    (void)puts(1, 2);
    EXPECT_EQ(VQP_PATH_LEAVE, state());
    hear_down(LEAVING | DRAINED);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
}

/* The message of the peer was overtaken: it knows that nothing is in flight */
TEST_F(slow, path_down_without_leaving_takes_it_down_at_once) {
    open(2);
    hear_down(LEAVING);
    (void)next();
    hear_down(0);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    hear_down(LEAVING | DRAINED); /* an old one: no count */
    EXPECT_FALSE(path().fo.peer_counted);
}

TEST_F(slow, a_path_that_fails_while_it_leaves_is_given_up) {
    open(2);
    (void)puts(0, 3);
    hear_down(LEAVING);
    (void)next();
    fail_send(0, (uint16_t)(path().tail - 1), VQP_ERR_TIMEOUT);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_EQ(VQP_ERR_TIMEOUT, path().fo.status);
}

TEST_F(slow, a_path_that_falls_silent_while_it_leaves_is_given_up) {
    falls_silent_while_it_leaves();
    agree();
    EXPECT_EQ(1u, m_stats.silences);
}

TEST_F(slow, a_path_that_was_silent_leaves_nevertheless) {
    falls_silent_while_it_leaves();
    confirm_all(0);
    look({0, 0});
    EXPECT_EQ(VQP_WIRE_FLAG_SILENT | VQP_WIRE_FLAG_WITHDRAWN, next_message().flags);
    hear_down(VQP_WIRE_FLAG_SILENT | HAVE | ANSWER, 0, 0, {0, 1, 0});
    ASSERT_EQ(VQP_PATH_LEAVE, state());
    EXPECT_EQ(LEAVING, next_message().flags);
    (void)next();
    EXPECT_EQ(LEAVING | DRAINED, next_message().flags);
}

/* An AM behind a fence needs nothing of a path on which all is confirmed */
TEST_F(slow, a_fence_does_not_wait_for_the_peer) {
    open(2);
    (void)puts(0, 1);
    vqp_tx_fence(&m_tx);
    hear_down(LEAVING);
    EXPECT_TRUE(am(64));
    EXPECT_EQ(0u, messages(next()));
    confirm_all(0);
    EXPECT_EQ(1u, messages(next()));
    EXPECT_EQ(VQP_PATH_LEAVE, state());
}

TEST_F(slow, a_path_that_is_not_up_ignores_it) {
    open(2);
    die(0, msn(0));
    rebuild();
    hear_down(LEAVING, 1);
    EXPECT_EQ(VQP_PATH_CONNECT, state());
    EXPECT_EQ(0u, m_stats.moves);
}

} // namespace
