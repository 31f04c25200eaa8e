/*
 * A path that is given up is drained: when all completions have arrived, and how
 * the state of the other frags is determined. See failover_test.cc.
 */
#include "failkit.h"

namespace {

class failover_drain : public failkit {
protected:
    void down(unsigned i = 0, vqp_status_t status = VQP_ERR_TIMEOUT) {
        vqp_path_down(&m_vqp, &m_paths[i], status);
    }

    /* An immediate of the peer that is no message */
    void recv_imm(uint32_t fsn, unsigned i = 0) {
        vqp_rx_am_t am;

        EXPECT_EQ(0, vqp_recv_fast(&m_vqp, &m_paths[i], fsn, &am));
        EXPECT_EQ(0, vqp_recv(&m_vqp, &m_paths[i], fsn, &am));
        (void)vqp_recv_used(&m_vqp, &m_paths[i]);
    }

    bool counts(unsigned i = 0) { return event(VQP_EVENT_PATH_COUNT, i); }
};

TEST_F(failover_drain, an_error_completion_takes_the_path_down) {
    open();
    auto frags = puts(0, 3, u);
    fail_send(0, frags[0].slot, VQP_ERR_TIMEOUT);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(3u, vqp_path_outstanding(&path())); /* they may be replayed */
    quiesce();
    flush_recvs();
    fail_send(0, frags[1].slot);
    EXPECT_FALSE(counts());
    fail_send(0, frags[2].slot);
    EXPECT_TRUE(counts());
    EXPECT_TRUE(done().empty());
}

TEST_F(failover_drain, what_has_succeeded_does_not_come_with_an_error) {
    open();
    auto frags = puts(0, 3, u);
    down();
    quiesce();
    flush_recvs();
    EXPECT_EQ(2u, vqp_on_send(&m_vqp, &path(), frags[1].slot));
    EXPECT_TRUE(next().empty());
    EXPECT_FALSE(counts());
    EXPECT_EQ(1u, vqp_on_send(&m_vqp, &path(), frags[2].slot));
    EXPECT_TRUE(next().empty());
    EXPECT_TRUE(counts());
    EXPECT_EQ((users_t {&u[0], &u[1], &u[2]}), done());
}

TEST_F(failover_drain, nothing_in_flight_needs_no_completion) {
    open();
    down();
    EXPECT_FALSE(counts());
    quiesce();
    EXPECT_FALSE(counts());
    flush_recvs();
    EXPECT_TRUE(counts());
}

TEST_F(failover_drain, receives_are_waited_for) {
    open();
    auto frags = puts(0, 1, u);
    down();
    quiesce();
    fail_send(0, frags[0].slot);
    while (path().recv_used + 1 < path().recv_posted) {
        vqp_on_recv_error(&m_vqp, &path(), VQP_ERR_CANCELED);
    }
    EXPECT_TRUE(next().empty());
    EXPECT_FALSE(counts());
    (void)vqp_recv_used(&m_vqp, &path()); /* the last one was used, after all */
    EXPECT_TRUE(next().empty());
    EXPECT_TRUE(counts());
}

TEST_F(failover_drain, a_receive_with_an_error_takes_the_path_down) {
    open();
    vqp_on_recv_error(&m_vqp, &path(1), VQP_ERR_CANCELED);
    EXPECT_EQ(VQP_PATH_QUIESCE, state(1));
    EXPECT_EQ(1u, path(1).recv_used);

    open();
    m_paths[0].recv_used = 4;
    vqp_recv_posted(&m_vqp, &path(), 3);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_EQ(RECVS - 1, path().recv_posted);
}

/* In ERR no event would report it */
TEST_F(failover_drain, a_nop_brings_what_was_acknowledged_without_a_completion) {
    open();
    only(0, [&] {
        rma(VQP_KIND_PUT, 64, nullptr, 0);
        rma(VQP_KIND_PUT, 64, nullptr, 0);
    });
    down();
    EXPECT_TRUE(next().empty()); /* not in ERR yet */
    quiesce();
    flush_recvs();
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_KIND_NOP, (int)frags[0].kind);
    EXPECT_EQ(0, frags[0].path->index);
    EXPECT_TRUE(frags[0].flags & VQP_FRAG_SIGNALED);
    EXPECT_TRUE(next().empty()); /* one is enough */
    EXPECT_FALSE(counts());
    fail_send(0, (uint16_t)(frags[0].slot - 1)); /* not acknowledged after all */
    EXPECT_FALSE(counts());
    fail_send(0, frags[0].slot);
    EXPECT_TRUE(counts());
}

TEST_F(failover_drain, a_nop_that_can_not_be_posted_is_not_waited_for) {
    open();
    only(0, [&] { rma(VQP_KIND_GET, 64, nullptr, 0); });
    down();
    quiesce();
    flush_recvs();
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    frags[0].flags |= VQP_FRAG_UNPOSTED;
    vqp_post_failed(&m_vqp, frags.data(), 1);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    EXPECT_TRUE(counts());
}

TEST_F(failover_drain, a_post_that_fails_in_a_chain_takes_the_path_down) {
    open();
    auto frags = puts(0, 4, u);
    frags[2].flags |= VQP_FRAG_UNPOSTED;
    vqp_post_failed(&m_vqp, frags.data(), 4);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    quiesce();
    flush_recvs();
    fail_send(0, frags[0].slot);
    EXPECT_FALSE(counts());
    fail_send(0, frags[1].slot); /* the last one that was posted */
    EXPECT_TRUE(counts());
    EXPECT_EQ(4u, vqp_path_outstanding(&path()));
}

TEST_F(failover_drain, a_chain_that_was_not_posted_at_all_brings_nothing) {
    open();
    auto frags = puts(0, 2, u);
    frags[0].flags |= VQP_FRAG_UNPOSTED;
    vqp_post_failed(&m_vqp, frags.data(), 2);
    quiesce();
    flush_recvs();
    EXPECT_TRUE(counts());
}

TEST_F(failover_drain, a_nop_stands_behind_what_was_not_posted) {
    open();
    auto frags = only(0, [&] {
        rma(VQP_KIND_PUT, 64, nullptr, 0);
        rma(VQP_KIND_PUT, 64, nullptr, 0);
        rma(VQP_KIND_PUT, 64, &u[0]);
    });
    frags[1].flags |= VQP_FRAG_UNPOSTED;
    vqp_post_failed(&m_vqp, frags.data(), 3);
    quiesce();
    flush_recvs();
    auto nops = next();
    ASSERT_EQ(1u, nops.size());
    EXPECT_EQ(frags[2].slot + 1, nops[0].slot);
    EXPECT_FALSE(counts());
    fail_send(0, nops[0].slot);
    EXPECT_TRUE(counts());
}

TEST_F(failover_drain, a_queue_pair_that_is_destroyed_brings_nothing) {
    vqp_path_msg_t msg;

    open();
    puts(0, 3, u);
    recv_imm(PEER_FIRST);
    down();
    ASSERT_TRUE(event(VQP_EVENT_PATH_QUIESCE));
    vqp_path_quiesced(&m_vqp, &path(), 1, 0);
    ASSERT_TRUE(counts());
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 9); /* unknown */
    msg = next_message();
    EXPECT_EQ(VQP_SOURCE_IMM, msg.down.source);
    EXPECT_EQ(1u, msg.down.count);
    EXPECT_EQ(1u, msg.down.imms);
    hear_down(DRAINED | HAVE, 0, 0, msn(3));
    EXPECT_EQ((users_t {&u[0], &u[1], &u[2]}), done());
}

TEST_F(failover_drain, immediates_are_counted_from_the_last_rebuild_on) {
    open();
    recv_imm(PEER_FIRST);
    recv_imm(PEER_FIRST + 1);
    drain();
    vqp_path_msg_t msg = next_message();
    EXPECT_EQ(2u, msg.down.imms);
    hear_down(DRAINED | HAVE);
    revive();
    recv_imm(PEER_FIRST + 2);
    drain();
    msg = next_message();
    EXPECT_EQ(1u, msg.down.imms);
    EXPECT_EQ(0u, msg.down.count);
}

TEST_F(failover_drain, an_error_of_what_is_confirmed_is_ignored) {
    open();
    auto frags = puts(0, 1, u);
    confirm_all(0);
    fail_send(0, frags[0].slot);
    EXPECT_EQ(VQP_PATH_UP, state());
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
}

} // namespace
