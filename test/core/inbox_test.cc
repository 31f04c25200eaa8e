/* Path messages that wait for progress, and questions that are withdrawn meanwhile */
#include "failkit.h"

extern "C" {
#include "core/failover/silence.h"
}

class inbox : public failkit {
protected:
    static constexpr unsigned ASK       = VQP_WIRE_FLAG_SILENT;
    static constexpr unsigned WITHDRAWN = VQP_WIRE_FLAG_SILENT | VQP_WIRE_FLAG_WITHDRAWN;
    static constexpr unsigned HEARD     = VQP_WIRE_FLAG_SILENT | VQP_WIRE_FLAG_HAVE_YOURS |
                                          VQP_WIRE_FLAG_ANSWER;

    static vqp_path_msg_t down_message(unsigned flags, uint32_t count = 0,
                                       uint32_t epoch = 0) {
        vqp_path_msg_t msg {};

        msg.type       = VQP_WIRE_PATH_DOWN;
        msg.flags      = (uint16_t)flags;
        msg.epoch      = epoch;
        msg.down.count = count;
        return msg;
    }

    static vqp_path_msg_t up_message(unsigned flags, uint32_t epoch) {
        vqp_path_msg_t msg {};

        msg.type    = VQP_WIRE_PATH_UP;
        msg.flags   = (uint16_t)flags;
        msg.epoch   = epoch;
        msg.up.path = 3;
        return msg;
    }

    void expect_answer(unsigned flags, uint32_t count, uint32_t epoch = 0) {
        EXPECT_EQ(VQP_WIRE_PATH_DOWN, m_answer.type);
        EXPECT_EQ(flags, m_answer.flags);
        EXPECT_EQ(count, m_answer.down.count);
        EXPECT_EQ(epoch, m_answer.epoch);
    }
};

/* ---- the process computes ---- */

TEST_F(inbox, the_newest_message_of_a_type_is_kept) {
    open();
    arrive(0, down_message(0));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, m_answer.type);
    arrive(0, down_message(DRAINED));
    arrive(0, up_message(0, 0));
    EXPECT_EQ(2u, take(0));
    EXPECT_TRUE(path().fo.peer_counted);
    EXPECT_EQ(0u, take(0));
}

/* The peer learns that the process exists */
TEST_F(inbox, a_second_message_is_answered) {
    open();
    arrive(0, up_message(0, 7));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, m_answer.type);
    arrive(0, up_message(0, 7));
    expect_answer(ANSWER | VQP_WIRE_FLAG_BUSY, 0, 7);
    EXPECT_EQ(3, m_answer.down.path);
    arrive(0, up_message(ANSWER, 7));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, m_answer.type);
}

TEST_F(inbox, a_busy_peer_replaces_no_message) {
    open();
    arrive(0, down_message(DRAINED));
    arrive(0, down_message(ANSWER | VQP_WIRE_FLAG_BUSY));
    EXPECT_EQ(1u, take(0));
    EXPECT_TRUE(path().fo.peer_counted);
}

/* ---- a question ---- */

TEST_F(inbox, a_question_that_is_withdrawn_never_gets_to_progress) {
    open();
    arrive(0, down_message(ASK, 1));
    arrive(0, down_message(WITHDRAWN, 1));
    expect_answer(HEARD, 1);
    EXPECT_EQ(0u, take(0));
    EXPECT_EQ(VQP_PATH_UP, state());
}

/* Messages take several rails, and overtake each other */
TEST_F(inbox, a_copy_that_arrives_after_the_withdrawal_is_dropped) {
    open();
    arrive(0, down_message(WITHDRAWN, 7));
    expect_answer(HEARD, 7);
    arrive(0, down_message(ASK, 7));
    EXPECT_EQ(VQP_WIRE_TYPE_NONE, m_answer.type);
    arrive(0, down_message(ASK, 6));
    EXPECT_EQ(0u, take(0));
    arrive(0, down_message(WITHDRAWN, 5)); /* an old one changes nothing */
    arrive(0, down_message(WITHDRAWN, 7)); /* the answer was lost */
    expect_answer(HEARD, 7);
    hear(0, down_message(ASK, 7));
    EXPECT_EQ(VQP_PATH_UP, state());
    hear(0, down_message(ASK, 8));
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
}

TEST_F(inbox, another_message_does_not_bring_a_question_back) {
    open();
    arrive(0, down_message(ASK, 1));
    arrive(0, down_message(WITHDRAWN, 1));
    arrive(0, down_message(VQP_WIRE_FLAG_LEAVING));
    arrive(0, down_message(ASK, 1));
    EXPECT_EQ(1u, take(0));
    EXPECT_EQ(VQP_PATH_LEAVE, state());
}

TEST_F(inbox, a_withdrawal_leaves_what_else_has_arrived) {
    open();
    arrive(0, down_message(DRAINED));
    arrive(0, down_message(WITHDRAWN, 1));
    EXPECT_EQ(1u, take(0));
    EXPECT_TRUE(path().fo.peer_counted);
    arrive(1, down_message(ASK, 2));
    arrive(1, down_message(WITHDRAWN, 1)); /* of the question before */
    EXPECT_EQ(1u, take(1));
}

/* Its queue pair is in ERR: the peer must not use the path again */
TEST_F(inbox, a_withdrawal_that_comes_too_late_is_not_answered) {
    open();
    hear(0, down_message(ASK, 1));
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    /* The peer may have asked once more */
    for (uint32_t number : {1, 1, 2, 3}) {
        arrive(0, down_message(WITHDRAWN, number));
        EXPECT_EQ(VQP_WIRE_TYPE_NONE, m_answer.type);
        EXPECT_EQ(0u, take(0));
    }
    arrive(0, down_message(WITHDRAWN, 4, 1)); /* the path has been rebuilt */
    expect_answer(HEARD, 4, 1);
}

/* PATH_DOWN is lost */
TEST_F(inbox, a_question_that_was_agreed_to_is_answered_again) {
    open();
    hear(0, down_message(ASK, 1));
    (void)next_message();
    hear(0, down_message(ASK, 1));
    EXPECT_EQ(ANSWER, next_message().flags);
}

/* Nor is one of an older epoch */
TEST_F(inbox, a_question_that_progress_ignores_can_be_withdrawn) {
    uint64_t result = 0;
    int user        = 0;

    open();
    only(0, [&] { ASSERT_TRUE(fadd(&result, &user)); });
    hear(0, down_message(ASK, 1));
    EXPECT_EQ(VQP_PATH_UP, state());
    arrive(0, down_message(WITHDRAWN, 1));
    expect_answer(HEARD, 1);
    confirm_all(0);
    hear(0, down_message(ASK, 2, 1));
    EXPECT_EQ(VQP_PATH_UP, state());
    arrive(0, down_message(WITHDRAWN, 2, 1));
    expect_answer(HEARD, 2, 1);
}

/* 24 bits */
TEST_F(inbox, numbers_of_questions_wrap) {
    open();
    for (uint32_t i = 1; i <= 4; ++i) {
        arrive(0, down_message(WITHDRAWN, i * (VQP_FSN_MASK / 4)));
    }
    arrive(0, down_message(WITHDRAWN, VQP_FSN_MASK));
    hear(0, down_message(ASK, VQP_FSN_MASK));
    EXPECT_EQ(VQP_PATH_UP, state());
    hear(0, down_message(ASK, 0));
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    arrive(0, down_message(WITHDRAWN, 1, 1));
    expect_answer(HEARD, 1, 1);
    EXPECT_EQ(1u, m_inboxes[0].over);
}

/* None was withdrawn for long: half of the numbers are used */
TEST_F(inbox, questions_that_were_agreed_to_make_older_ones_old) {
    vqp_path_msg_t msg = down_message(ASK, VQP_FSN_MASK - 2);

    open();
    hear(0, down_message(ASK, VQP_FSN_MASK / 2));
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
    m_inboxes[1]  = m_inboxes[0]; /* of a path that was rebuilt */
    msg.down.path = 1;
    hear(1, msg);
    EXPECT_EQ(VQP_PATH_QUIESCE, state(1));
}

TEST_F(inbox, a_message_of_a_path_that_does_not_exist_is_ignored) {
    open();
    vqp_path_msg_t msg = down_message(ASK, 1);

    msg.down.path = 2;
    hear(0, msg);
    EXPECT_EQ(VQP_PATH_UP, state(0));
    EXPECT_FALSE(m_inboxes[0].is_agreed);
}
