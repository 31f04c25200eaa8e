/*
 * A path that brings no completion while others bring some is given up. Time passes
 * in looks: steps of a quarter of the time of a silence.
 */
#include "failkit.h"

extern "C" {
#include "core/data/control.h"
#include "core/failover/silence.h"
}

namespace {

class silence : public failkit {
protected:
    static constexpr uint64_t TIME = 400000, STEP = TIME / 4, MSEC = 1000000;

    silence() { m_failover.silence = TIME; }

    void look(uint64_t after = STEP, bool is_drained = true) {
        m_now += after;
        vqp_on_time(&m_vqp, m_now, is_drained);
    }

    bool is_quiet() { return vqp_next_timeout(&m_vqp) == UINT64_MAX; }

    /* A frag with a CQE on the path, and without an op, the slots of which are few */
    void signaled(unsigned i) {
        m_batch.count = 0;
        vqp_tx_emit_nop(&m_tx, &m_batch, &path(i));
        if (m_tx.slow & VQP_TX_QUIET) {
            vqp_silence_start(&m_vqp);
        }
        ASSERT_TRUE(vqp_path_awaits_cqe(&path(i)));
    }

    void unsignaled(unsigned i) {
        (void)only(i, [&] { EXPECT_TRUE(rma(VQP_KIND_GET, 64, nullptr, 0)); });
        ASSERT_FALSE(vqp_path_awaits_cqe(&path(i)));
    }

    void moves(unsigned i) {
        signaled(i);
        confirm_all(i);
    }

    /* Path 0 is still, others move: that often */
    void others_move(unsigned looks) {
        for (unsigned n = 0; n < looks; ++n) {
            moves(1);
            look();
        }
    }

    /* Path 0 has something in flight, and was looked at once */
    void start(unsigned num_paths = 2) {
        open(num_paths);
        signaled(0);
        look();
        ASSERT_FALSE(is_quiet());
    }

    void expect_withdrawn(uint32_t number, vqp_path_state_t was = VQP_PATH_UP) {
        EXPECT_EQ(VQP_PATH_SILENT, state(0));
        vqp_path_msg_t msg = next_message();
        EXPECT_EQ(VQP_WIRE_FLAG_SILENT | VQP_WIRE_FLAG_WITHDRAWN, msg.flags);
        EXPECT_EQ(number, msg.down.count);
        EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
        hear_down(VQP_WIRE_FLAG_SILENT | HAVE | ANSWER, 0, 0, {0, number, 0});
        EXPECT_EQ(was, state(0));
        EXPECT_EQ(was == VQP_PATH_UP, path().up);
    }

    void silent_path_reaches_probe(uint32_t epoch = 0) {
        agree();
        quiesce();
        flush_sends();
        flush_recvs();
        ASSERT_TRUE(event(VQP_EVENT_PATH_COUNT));
        vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
        hear_down(DRAINED | HAVE, epoch);
        reach_probe();
    }

    /* Looks until path 0 is SILENT, while the others move */
    unsigned looks_until_down(unsigned max = 1000) {
        unsigned looks = 0;

        while ((state(0) == VQP_PATH_UP) && (looks < max)) {
            others_move(1);
            ++looks;
        }
        return looks;
    }
};

/* Only a path that works shows that the one in use does not. The first that is added may take
 * the same link: then its probe does not come back */
TEST_F(silence, path_is_added_while_the_only_one_is_stalled) {
    unsigned looks = 0;

    m_num_connected = 1;
    start(3);
    while (!event(VQP_EVENT_PATH_REBUILD, 1) && (looks < 100)) {
        look();
        ++looks;
    }
    EXPECT_GE(looks, 4u);
    EXPECT_LE(looks, 16u); /* what is in flight may take its time */
    m_paths[1].peer_rail = 0;
    reach_probe(1);
    (void)next();
    for (unsigned n = 0; n < looks / 2; ++n) {
        look();
        EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 2)) << "one for each such time";
    }
    for (unsigned n = 0; n < looks; ++n) {
        look();
    }
    EXPECT_TRUE(event(VQP_EVENT_PATH_REBUILD, 2));
    confirm_all(1);
    EXPECT_LE(looks_until_down(), looks + 4);
    EXPECT_EQ(VQP_PATH_SILENT, state(0));
}

/* A device without queue pairs, while the network pauses: not at each look */
TEST_F(silence, path_that_can_not_be_added_is_tried_less_and_less) {
    unsigned tries = 0;

    m_num_connected = 1;
    start(2);
    for (unsigned n = 0; n < 1000; ++n) {
        look();
        if (event(VQP_EVENT_PATH_REBUILD, 1)) {
            vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
            ++tries;
        }
    }
    EXPECT_GE(tries, 4u);
    EXPECT_LE(tries, 9u);
}

TEST_F(silence, no_path_is_added_while_the_only_one_makes_progress) {
    m_num_connected = 1;
    start(2);
    for (unsigned n = 0; n < 100; ++n) {
        moves(0);
        signaled(0);
        look();
        look();
    }
    EXPECT_FALSE(event(VQP_EVENT_PATH_REBUILD, 1));
}

TEST_F(silence, a_path_that_is_still_while_another_moves_is_given_up) {
    start();
    others_move(3);
    EXPECT_EQ(VQP_PATH_UP, state(0));
    others_move(1);
    EXPECT_EQ(VQP_PATH_SILENT, state(0));
    EXPECT_FALSE(path().up);
    EXPECT_EQ(0u, m_stats.path_downs);
    agree();
    EXPECT_EQ(VQP_ERR_RESET, path().fo.status);
    EXPECT_EQ(TIME, path().fo.why_silent);
    EXPECT_EQ(1u, m_stats.silences);
    EXPECT_EQ(1u, m_stats.path_downs);
    EXPECT_EQ(VQP_PATH_UP, state(1));
}

/* ---- while the peer is asked ---- */

static const unsigned ASK = VQP_WIRE_FLAG_SILENT;
static const unsigned WITHDRAWN = VQP_WIRE_FLAG_SILENT | VQP_WIRE_FLAG_WITHDRAWN;
static const unsigned HEARD = VQP_WIRE_FLAG_SILENT | VQP_WIRE_FLAG_HAVE_YOURS |
                              VQP_WIRE_FLAG_ANSWER;

TEST_F(silence, peer_is_asked_again_and_again) {
    start();
    (void)looks_until_down();
    uint64_t expected = m_failover.retry_first;
    for (unsigned i = 0; i < 4; ++i) {
        vqp_path_msg_t msg = next_message();
        ASSERT_EQ(VQP_WIRE_PATH_DOWN, msg.type);
        EXPECT_EQ(ASK, msg.flags);
        EXPECT_EQ(0u, msg.epoch);
        EXPECT_EQ(0u, msg.down.path);
        EXPECT_EQ(1u, msg.down.count);
        EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
        EXPECT_EQ(m_now + expected, path().fo.due);
        expected = std::min(2 * expected, m_failover.retry_max);
        m_now    = path().fo.due;
        timer();
    }
}

/* A lost packet, which RC has sent again, while the peer computes */
TEST_F(silence, a_completion_withdraws_the_question) {
    start();
    (void)looks_until_down();
    (void)next_message();
    for (unsigned i = 0; i < 1000; ++i) {
        others_move(1); /* no matter how long, path 0 is not given up */
        ASSERT_EQ(VQP_PATH_SILENT, state(0));
    }
    while (next_message().type != VQP_WIRE_TYPE_NONE) {
    }
    confirm_all(0);
    (void)next(); /* no look is needed */
    expect_withdrawn(1);
    EXPECT_TRUE(event(VQP_EVENT_RESUME));
    EXPECT_EQ(0u, m_stats.silences);
    EXPECT_EQ(0u, m_stats.path_downs);
    signaled(0);
    look();
    (void)looks_until_down(100000);
    EXPECT_EQ(2u, next_message().down.count);
}

/* The peer may have agreed: the result of an atomic would be lost */
TEST_F(silence, nothing_is_sent_until_the_withdrawal_is_answered) {
    start();
    (void)looks_until_down();
    (void)next_message();
    confirm_all(0);
    (void)next();
    uint64_t expected = m_failover.retry_first;
    for (unsigned i = 0; i < 4; ++i) { /* the message, or its answer, is lost */
        EXPECT_EQ(WITHDRAWN, next_message().flags);
        EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
        EXPECT_EQ(m_now + expected, path().fo.due);
        expected = std::min(2 * expected, m_failover.retry_max);
        m_now    = path().fo.due;
        timer();
        EXPECT_FALSE(path().up);
    }
    hear_down(HEARD, 0, 0, {0, 0, 0}); /* of a question before, late */
    EXPECT_FALSE(path().up);
    hear_down(HEARD, 0, 0, {0, 1, 0});
    EXPECT_TRUE(path().up);
    EXPECT_TRUE(event(VQP_EVENT_RESUME));
    EXPECT_EQ(UINT64_MAX, path().fo.due);
}

/* Its queue pairs are gone. The user waits for nothing */
TEST_F(silence, a_peer_that_closes_while_a_path_is_silent_is_no_error) {
    start();
    (void)looks_until_down();
    vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
    ASSERT_EQ(VQP_STATE_PEER_CLOSED, m_vqp.state);
    fail_send(0, path().head);
    vqp_on_recv_error(&m_vqp, &path(), VQP_ERR_CANCELED);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(0u, vqp_path_outstanding(&path()));
}

/* Its silence had ended, and is not the reason */
TEST_F(silence, an_error_of_rc_after_a_withdrawal_is_reported_as_that) {
    start();
    signaled(0);
    (void)looks_until_down();
    ASSERT_EQ(1u, vqp_on_send(&m_vqp, &path(), path().head));
    (void)next();
    ASSERT_EQ(VQP_QUESTION_OVER, path().fo.question);
    fail_send(0, path().head, VQP_ERR_TIMEOUT);
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
    EXPECT_EQ(0u, path().fo.why_silent);
    EXPECT_EQ(VQP_ERR_TIMEOUT, path().fo.status);
}

TEST_F(silence, a_question_that_was_agreed_to_can_not_be_withdrawn) {
    start();
    (void)looks_until_down();
    confirm_all(0);
    (void)next();
    hear_down(0);
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
    EXPECT_EQ(1u, m_stats.silences);
    EXPECT_EQ(TIME, path().fo.why_silent);
    hear_down(HEARD, 0, 0, {0, 1, 0});
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
}

/* The process of the peer has ended, perhaps: then RC reports it */
TEST_F(silence, others_are_asked_while_a_withdrawal_is_not_answered) {
    start();
    (void)looks_until_down();
    (void)next_message();
    confirm_all(0);
    (void)next();
    EXPECT_EQ(WITHDRAWN, next_message().flags);
    confirm_all(1);
    (void)next();
    uint64_t nops = m_stats.nops;
    m_now = path().fo.due;
    timer();
    EXPECT_EQ(1u, on_path(next(), 1));
    EXPECT_EQ(nops + 1, m_stats.nops);
}

/* The frags behind the one that was confirmed have no CQE of their own */
TEST_F(silence, a_path_is_asked_while_a_withdrawal_is_not_answered) {
    start();
    uint16_t first = path().head;
    (void)only(0, [&] { EXPECT_TRUE(rma(VQP_KIND_PUT, 64, nullptr, 0)); });
    (void)looks_until_down();
    (void)next_message();
    ASSERT_EQ(1u, vqp_on_send(&m_vqp, &path(), first));
    (void)next();
    ASSERT_EQ(VQP_QUESTION_OVER, path().fo.question);
    EXPECT_TRUE(vqp_path_awaits_cqe(&path()));
    EXPECT_FALSE(path().up);
    confirm_all(0);
    EXPECT_EQ(0u, vqp_path_outstanding(&path()));
}

/* One of two frags was confirmed. The process of the peer is stopped, perhaps */
TEST_F(silence, a_path_may_be_silent_again_before_the_answer) {
    start();
    signaled(0);
    (void)looks_until_down();
    (void)next_message();
    ASSERT_EQ(1u, vqp_on_send(&m_vqp, &path(), path().head));
    (void)next();
    EXPECT_EQ(WITHDRAWN, next_message().flags);
    for (unsigned i = 0; (i < 1000) && (path().fo.question == VQP_QUESTION_OVER); ++i) {
        others_move(1);
    }
    vqp_path_msg_t msg = next_message();
    EXPECT_EQ(ASK, msg.flags);
    EXPECT_EQ(2u, msg.down.count);
    hear_down(HEARD, 0, 0, {0, 1, 0}); /* of the first one */
    EXPECT_EQ(VQP_PATH_SILENT, state(0));
    confirm_all(0);
    (void)next();
    expect_withdrawn(2);
}

/* The looks count it, too: for the outage, and against others */
TEST_F(silence, a_completion_that_ends_it_is_seen_by_the_next_look) {
    start();
    (void)looks_until_down();
    confirm_all(0);
    (void)next();
    ASSERT_EQ(VQP_QUESTION_OVER, path().fo.question);
    look();
    EXPECT_EQ(m_now, m_vqp.acked_at);
}

/* A move that was to be requested is not, since the rate is that of a silent path */
TEST_F(silence, a_path_that_falls_silent_is_not_moved) {
    start();
    path().fo.mover = VQP_MOVER_REQUEST;
    (void)looks_until_down();
    EXPECT_EQ(VQP_MOVER_NONE, path().fo.mover);
}

/* The question is that, whether it is asked or an answer */
TEST_F(silence, an_answer_of_a_silent_path_is_marked_as_one) {
    start();
    (void)looks_until_down();
    (void)next_message();
    hear_down(VQP_WIRE_FLAG_LEAVING);
    EXPECT_EQ(ASK | VQP_WIRE_FLAG_ANSWER, next_message().flags);
}

TEST_F(silence, an_error_of_rc_does_not_wait_for_the_answer) {
    start();
    (void)looks_until_down();
    fail_send(0, path().head, VQP_ERR_TIMEOUT);
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
    EXPECT_EQ(VQP_ERR_TIMEOUT, path().fo.status);
    EXPECT_EQ(0u, m_stats.silences);
    EXPECT_EQ(0u, path().fo.is_suspect);
    EXPECT_EQ(0u, next_message().flags); /* a PATH_DOWN */
}

/* Nothing is to be found out on the others */
TEST_F(silence, others_are_not_asked_once_the_peer_is) {
    start();
    (void)looks_until_down();
    (void)next();
    confirm_all(1);
    uint64_t nops = m_stats.nops;
    for (uint64_t end = m_now + 1000 * TIME; m_now < end; ) {
        m_now = std::max(vqp_next_timeout(&m_vqp), m_now + 1);
        timer();
        (void)next_message();
        (void)next();
    }
    EXPECT_EQ(nops, m_stats.nops);
    EXPECT_EQ(VQP_PATH_SILENT, state(0));
}

TEST_F(silence, a_question_takes_the_path_down_here_too) {
    open();
    hear_down(ASK, 0, 0, {0, 1, 0});
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
    EXPECT_EQ(0u, next_message().flags);
    hear_down(ASK, 0, 0, {0, 1, 0}); /* the answer was lost */
    EXPECT_EQ(ANSWER, next_message().flags);
}

TEST_F(silence, a_question_of_another_epoch_is_ignored) {
    open();
    hear_down(ASK, 1, 0, {0, 1, 0});
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
}

/* ---- fetching atomics ---- */

class silence_fetch : public silence {
protected:
    /* A fetch is under way on the first path, which is silent */
    void fetch_falls_silent()
    {
        open();
        only(0, [&] { ASSERT_TRUE(fadd(&result, &user)); });
        for (unsigned i = 0; i < 20; ++i) {
            others_move(1);
        }
        ASSERT_EQ(VQP_PATH_SILENT, state(0));
    }

    uint64_t result = 0;
    int      user   = 0;
};

/* RC may still bring the result, which would be lost with the path */
TEST_F(silence_fetch, peer_is_not_asked_while_a_result_is_under_way) {
    fetch_falls_silent();
    EXPECT_FALSE(path().up);
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
    *vqp_tx_amo_cell(&m_tx, m_tx.rma.ops) = 42;
    confirm_all(0);
    EXPECT_EQ((ends_t {{&user, VQP_OK}}), ends());
    EXPECT_EQ(42u, result);
    others_move(1);
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type); /* nothing is to be withdrawn */
}

TEST_F(silence_fetch, an_error_of_rc_ends_the_wait_for_a_result) {
    fetch_falls_silent();
    hear_down(VQP_WIRE_FLAG_LEAVING); /* nor is an answer a question */
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
    fail_send(0, path().head, VQP_ERR_TIMEOUT);
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
}

/* It is the peer's fault then, and no answer */
TEST_F(silence_fetch, a_path_that_the_peer_takes_down_unasked_is_not_agreed_on) {
    fetch_falls_silent();
    hear_down(0);
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
    EXPECT_EQ(0u, m_stats.silences);
    EXPECT_EQ(0u, path().fo.is_suspect);
}

/* An atomic without a result is executed or not: the count decides */
TEST_F(silence, peer_is_asked_while_an_atomic_without_a_result_is_under_way) {
    open();
    only(0, [&] { ASSERT_TRUE(fadd(nullptr)); });
    for (unsigned i = 0; i < 20; ++i) {
        others_move(1);
    }
    EXPECT_EQ(ASK, next_message().flags);
}

TEST_F(silence_fetch, a_question_waits_while_an_own_result_is_under_way) {
    open();
    only(0, [&] { ASSERT_TRUE(fadd(&result, &user)); });
    hear_down(ASK, 0, 0, {0, 1, 0});
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, next_message().type);
    confirm_all(0);
    hear_down(ASK, 0, 0, {0, 1, 0});
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
}

/* Both sides may ask */
TEST_F(silence, questions_that_cross_are_answers) {
    start();
    (void)looks_until_down();
    hear_down(ASK, 0, 0, {0, 1, 0});
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
    EXPECT_EQ(0u, next_message().flags);
}

/* ---- when it is still ---- */

TEST_F(silence, nothing_is_looked_at_while_nothing_is_in_flight) {
    open();
    EXPECT_TRUE(is_quiet());
    EXPECT_FALSE(vqp_take_event(&m_vqp, VQP_EVENT_TIMER));
    (void)puts(0, 1);
    EXPECT_TRUE(vqp_take_event(&m_vqp, VQP_EVENT_TIMER));
    EXPECT_FALSE(vqp_take_event(&m_vqp, VQP_EVENT_TIMER));
    EXPECT_EQ(0u, vqp_next_timeout(&m_vqp));
    look();
    EXPECT_EQ(m_now + STEP, vqp_next_timeout(&m_vqp));
    confirm_all(0);
    look(STEP - 1); /* too early */
    EXPECT_FALSE(is_quiet());
    look(1);
    EXPECT_FALSE(is_quiet()); /* there was traffic: more may follow */
    look();
    EXPECT_TRUE(is_quiet());
    EXPECT_EQ((uint32_t)VQP_TX_QUIET, m_tx.slow);
    (void)puts(1, 1);
    EXPECT_EQ(0u, m_tx.slow); /* the fast path is allowed again */
    EXPECT_TRUE(vqp_take_event(&m_vqp, VQP_EVENT_TIMER));
}

/* As in a ping-pong: the fast path is not given up for each of them */
TEST_F(silence, ops_that_follow_each_other_do_not_begin_it_again) {
    open();
    (void)puts(0, 1);
    for (unsigned i = 0; i < 100; ++i) {
        confirm_all(0);
        look();
        EXPECT_EQ(0u, m_tx.slow);
        (void)puts(i % 2, 1);
        confirm_all(i % 2);
    }
    EXPECT_TRUE(vqp_take_event(&m_vqp, VQP_EVENT_TIMER));
    EXPECT_FALSE(vqp_take_event(&m_vqp, VQP_EVENT_TIMER));
}

TEST_F(silence, is_off_without_failover) {
    m_failover.is_on = 0;
    open(2);
    EXPECT_EQ(0u, m_tx.slow);
    signaled(0);
    EXPECT_TRUE(is_quiet());
}

/* There are looks, to see whether the peer is there */
TEST_F(silence, gives_up_nothing_without_a_time) {
    m_failover.silence = 0;
    open(2);
    m_tx.slow |= VQP_TX_QUIET;
    signaled(0);
    for (unsigned i = 0; i < 1000; ++i) {
        moves(1);
        look(MSEC);
    }
    EXPECT_EQ(VQP_PATH_UP, state());
    confirm_all(0);
    for (unsigned i = 0; (i < 100) && !is_quiet(); ++i) {
        look(MSEC);
    }
    EXPECT_TRUE(is_quiet());
}

/* What is unsignaled looks like a peer that does not answer */
TEST_F(silence, of_one_path_brings_a_nop) {
    open(1);
    unsignaled(0);
    for (unsigned i = 0; (i < 100) && next().empty(); ++i) {
        look(MSEC);
    }
    EXPECT_TRUE(vqp_path_awaits_cqe(&path()));
    confirm_all(0);
    for (unsigned i = 0; (i < 100) && !is_quiet(); ++i) {
        look(MSEC);
    }
    EXPECT_TRUE(is_quiet());
}

/* The peer or the network pauses */
TEST_F(silence, all_paths_may_be_still_for_ever) {
    start();
    signaled(1);
    for (unsigned i = 0; i < 1000; ++i) {
        look();
    }
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_EQ(VQP_PATH_UP, state(1));
    /* both go on: not in the same moment */
    confirm_all(1);
    look(100 * STEP);
    EXPECT_EQ(VQP_PATH_UP, state(0));
    confirm_all(0);
    look();
    look();
    EXPECT_TRUE(is_quiet());
}

/* Looks cost time, and show nothing then */
TEST_F(silence, while_all_are_still_looks_are_few_and_then_many_again) {
    unsigned looks = 0;
    uint64_t begin;

    start();
    signaled(1);
    begin = m_now;
    while (m_now < begin + 1000 * STEP) {
        m_now = vqp_next_timeout(&m_vqp);
        look(0);
        ++looks;
    }
    EXPECT_LT(looks, 25u);
    confirm_all(1);
    m_now = vqp_next_timeout(&m_vqp);
    look(0);
    EXPECT_EQ(m_now + STEP, vqp_next_timeout(&m_vqp));
}

TEST_F(silence, a_path_that_moves_now_and_then_is_not_silent) {
    start();
    for (unsigned i = 0; i < 50; ++i) {
        others_move(3);
        signaled(0);
        vqp_on_send(&m_vqp, &path(0), path(0).head);
        look();
        ASSERT_EQ(VQP_PATH_UP, state(0)) << i;
    }
}

/* Nobody calls progress: completions wait in the queue */
TEST_F(silence, time_without_a_look_does_not_count) {
    start();
    moves(1);
    look(1000 * TIME);
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_EQ(STEP, path().fo.silent);
}

/* Completions wait behind others */
TEST_F(silence, time_in_which_completions_wait_does_not_count) {
    start();
    for (unsigned i = 0; i < 100; ++i) {
        moves(1);
        look(STEP, false);
    }
    EXPECT_EQ(0u, path().fo.silent);
    EXPECT_EQ(VQP_PATH_UP, state(0));
}

TEST_F(silence, what_is_in_flight_has_the_time_that_it_should_take) {
    m_failover.silence = 4000; /* little beside that of the bytes */
    open();
    (void)puts(0, 20, nullptr, 5000);
    ASSERT_GT(path().bytes, 40000u);
    look();
    /* 8 ns a byte, four times */
    const uint64_t limit = 4000 + (4 * 8 * path().bytes);
    uint64_t begin       = m_now;
    while ((state(0) == VQP_PATH_UP) && (m_now < begin + 2 * limit)) {
        moves(1);
        look(1000);
    }
    EXPECT_GE(m_now - begin, limit);
    EXPECT_LT(m_now - begin, limit + 8000);
}

TEST_F(silence, a_measured_path_has_the_time_that_its_rate_says) {
    start();
    vqp_rate_set(&path().rate, 100 * TIME, m_now); /* for 64 KiB */
    path().bytes += 65536;
    others_move(300);
    EXPECT_EQ(VQP_PATH_UP, state(0));
    path().bytes -= 65536;
    others_move(10);
    EXPECT_EQ(VQP_PATH_SILENT, state(0));
}

/* The process got no CPU while it was measured. RC reports an error after seconds */
TEST_F(silence, a_rate_that_can_not_be_does_not_keep_a_broken_path) {
    m_failover.silence = 10000000;
    open(2);
    signaled(0);
    look(2500000);
    vqp_rate_set(&path().rate, UINT32_MAX, m_now);
    path().bytes += 1 << 20;
    for (unsigned i = 0; i < 440; ++i) {
        moves(1);
        look(2500000);
    }
    EXPECT_EQ(VQP_PATH_SILENT, state(0));
    path().bytes -= 1 << 20;
}

/* A completion of an unsignaled frag is not to come. */
TEST_F(silence, a_nop_asks_for_a_completion_where_none_is_under_way) {
    open();
    unsignaled(0);
    look();
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(0u, next().size()) << i;
        look();
    }
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_KIND_NOP, frags[0].kind);
    EXPECT_EQ(0, frags[0].path->index);
    EXPECT_EQ(2u, confirm_all(0));
    look();
    look();
    EXPECT_TRUE(is_quiet());
}

/* It is posted only to where something is in flight, and once */
/* A side that only sends credit has unsignaled frags on each path: these are asked
 * after the time of a silence, not later because none of them moves */
TEST_F(silence, paths_that_all_lack_a_completion_are_asked_in_time) {
    uint64_t start;

    open(2);
    unsignaled(0);
    unsignaled(1);
    start = m_now;
    while ((m_stats.nops == 0) && (m_now < start + 20 * TIME)) {
        m_now = vqp_next_timeout(&m_vqp);
        m_now = (m_now < start) ? start : m_now;
        vqp_on_time(&m_vqp, m_now, true);
        (void)next();
    }
    EXPECT_LE(m_now - start, TIME + STEP);
}

TEST_F(silence, an_idle_side_posts_one_nop_and_is_quiet) {
    open();
    unsignaled(0);
    look();
    for (unsigned i = 0; i < 20; ++i) {
        look();
        for (const vqp_frag_t &frag : next()) {
            vqp_on_send(&m_vqp, frag.path, frag.slot);
        }
    }
    EXPECT_EQ(1u, m_stats.nops);
    EXPECT_TRUE(is_quiet());
}

/* Paths that have nothing to do are no sign that the silent one is broken */
TEST_F(silence, idle_siblings_get_a_nop_that_shows_whether_they_work) {
    unsigned looks = 0;

    start(3);
    while ((state(0) == VQP_PATH_UP) && (looks++ < 30)) {
        look();
        for (const vqp_frag_t &frag : next()) {
            ASSERT_EQ(VQP_KIND_NOP, frag.kind);
            ASSERT_NE(0, frag.path->index);
            if (frag.path->index == 1) { /* the third one is broken, too */
                vqp_on_send(&m_vqp, frag.path, frag.slot);
            }
        }
    }
    EXPECT_EQ(VQP_PATH_SILENT, state(0));
    /* half of the time passes before they are asked, then all of it */
    EXPECT_LE(looks, 7u);
    EXPECT_EQ(VQP_PATH_UP, state(1));
}

TEST_F(silence, nops_that_do_not_come_back_prove_nothing) {
    start();
    for (unsigned i = 0; i < 100; ++i) {
        look();
        (void)next();
    }
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_EQ(VQP_PATH_UP, state(1));
    EXPECT_EQ(2u, m_stats.nops); /* the one on path 0, and one on path 1 */
}

/* It was slow and not broken: the next time it gets longer */
TEST_F(silence, a_path_that_goes_on_after_a_long_silence_raises_the_limit) {
    start();
    unsigned first = looks_until_down();
    start();
    others_move(first - 1);
    confirm_all(0);
    look();
    signaled(0);
    look();
    unsigned second = looks_until_down();
    EXPECT_EQ(4 * (first - 1), second);
}

TEST_F(silence, limit_has_a_maximum_and_decays) {
    start();
    for (unsigned looks : {3, 10, 30, 60}) {
        others_move(looks);
        confirm_all(0);
        look();
        signaled(0);
        look();
        ASSERT_EQ(VQP_PATH_UP, state(0));
        EXPECT_GT(m_vqp.silence.limit,
                  std::min(looks, 15u) * (TIME - TIME / 16));
        EXPECT_LE(m_vqp.silence.limit, 16 * TIME);
    }
    for (unsigned i = 0; i < 20000; ++i) {
        signaled(0);
        confirm_all(0);
        look();
    }
    EXPECT_LE(m_vqp.silence.limit, TIME + (1 << 10));
}

/* The path may have been slow only */
TEST_F(silence, a_path_given_up_that_works_at_once_raises_the_limit) {
    start();
    (void)looks_until_down();
    EXPECT_EQ(TIME, m_vqp.silence.limit);
    silent_path_reaches_probe();
    probe();
    look();
    EXPECT_EQ(2 * TIME, m_vqp.silence.limit);
    look();
    EXPECT_LT(m_vqp.silence.limit, 2 * TIME);
}

/* It loses a packet now and then: the probe succeeds, and the vqp stalls at each
 * loss for the limit */
TEST_F(silence, a_path_given_up_again_and_again_is_not_waited_for_longer) {
    start();
    for (unsigned i = 0; i < 5; ++i) {
        EXPECT_LE(m_vqp.silence.limit, 2 * TIME);
        (void)looks_until_down();
        silent_path_reaches_probe(i);
        probe();
        look();
        ASSERT_EQ(VQP_PATH_UP, state(0));
        signaled(0);
    }
    EXPECT_LE(m_vqp.silence.limit, 2 * TIME);
    EXPECT_GT(m_vqp.silence.limit, TIME);
}

/* The silence was a failure. It does not raise the limit, nor does that of the probe. */
TEST_F(silence, a_path_given_up_that_does_not_work_does_not_raise_the_limit) {
    start();
    (void)looks_until_down();
    silent_path_reaches_probe();
    post_probe();
    others_move(8);
    silent_path_reaches_probe(1);
    EXPECT_EQ(2u, m_stats.silences);
    probe();
    others_move(1);
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_EQ(TIME, m_vqp.silence.limit);
}

/* They share a link, perhaps: one is not waited for longer due to the other */
TEST_F(silence, paths_that_are_silent_together_are_given_up_together) {
    open(4);
    for (unsigned i : {0, 2, 3}) {
        signaled(i);
    }
    look();
    (void)looks_until_down();
    for (unsigned i : {0, 2, 3}) {
        agree(i);
    }
    EXPECT_EQ(3u, m_stats.silences);
}

/* Control datagrams come through, and data does not. */
TEST_F(silence, a_path_that_is_probed_may_be_silent) {
    open();
    die(0, msn(0));
    reach_probe();
    post_probe();
    others_move(8);
    agree();
    EXPECT_EQ(0u, m_stats.path_ups);
}

/* Its rate is known no more, but it was slow */
TEST_F(silence, a_slow_path_does_not_get_less_time_when_its_rate_is_forgotten) {
    start();
    vqp_rate_set(&path().rate, 100 * TIME, m_now);
    path().bytes += 65536;
    m_now += VQP_RATE_FORGET;
    look();
    others_move(300);
    EXPECT_EQ(VQP_PATH_UP, state(0));
}

/* What the path was given up for says nothing about its next queue pair */
TEST_F(silence, a_probe_begins_without_the_silence_before_it) {
    start();
    (void)looks_until_down();
    uint64_t limit = m_vqp.silence.limit;
    silent_path_reaches_probe();
    (void)next();
    moves(1);
    look();
    EXPECT_LE(m_vqp.silence.limit, limit);
}

/* It has moved only to another queue pair */
TEST_F(silence, a_probe_without_an_answer_is_no_sign_of_life) {
    start();
    signaled(1);
    look(100 * STEP);
    for (unsigned n = 0; n < 20; ++n) {
        die(1, msn(0));
        reach_probe(1);
        (void)next();
        look(100 * STEP);
    }
    EXPECT_EQ(0u, path(0).fo.silent);
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_EQ(0u, m_stats.silences);
}

/* What comes back from a queue pair in ERR is no sign that it works */
TEST_F(silence, a_path_that_is_given_up_is_no_sibling) {
    start();
    signaled(1);
    vqp_path_down(&m_vqp, &path(1), VQP_ERR_IO);
    quiesce(1);
    look();
    flush_sends(1);
    look();
    EXPECT_EQ(0u, path(0).fo.silent);
    EXPECT_EQ(0u, m_stats.silences);
}

} // namespace
