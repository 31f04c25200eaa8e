/* Flushes: what is on the way, and what only looks as if it had arrived. */
#include "txkit.h"

extern "C" {
#include "core/flush.h"
}

namespace {

class flush : public txkit {
protected:
    void begin() { vqp_tx_flush_begin(&m_tx, &m_flush); }

    bool ended() { return vqp_tx_flush_ended(&m_tx, &m_flush) != 0; }

    /* An AM behind a put, which is confirmed; and its fence is not */
    std::vector<vqp_frag_t> fenced_am() {
        rma(VQP_KIND_PUT, 8);
        vqp_tx_fence(&m_tx);
        am(8);
        auto frags = dispatch(); /* put on 0, fence on 0, AM on 1 */
        EXPECT_EQ(3u, frags.size());
        retire(frags[0]);
        retire(frags[2]);
        EXPECT_EQ(m_tx.seq, vqp_tx_oldest(&m_tx));
        return frags;
    }

    vqp_tx_flush_t m_flush {};
};

TEST_F(flush, of_an_idle_sender_is_over) {
    start(2);
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
    begin();
    EXPECT_TRUE(ended());
}

TEST_F(flush, waits_for_ops_of_before_alone) {
    start(2);
    rma(VQP_KIND_PUT, 8);
    auto frags = dispatch();
    begin();
    rma(VQP_KIND_PUT, 8);
    dispatch();
    EXPECT_FALSE(vqp_tx_is_flushed(&m_tx));
    EXPECT_FALSE(ended());
    retire(frags[0]);
    EXPECT_TRUE(ended());
}

TEST_F(flush, waits_for_the_fence_that_the_peer_needs_for_the_message) {
    start(2);
    auto frags = fenced_am();

    EXPECT_FALSE(vqp_tx_is_flushed(&m_tx));
    begin();
    EXPECT_FALSE(ended());
    auto kicks = dispatch(); /* the fence has no CQE of its own */
    ASSERT_EQ(1u, count(kicks, VQP_KIND_KICK));
    EXPECT_EQ(frags[1].path, kicks[0].path);
    retire(kicks[0]);
    EXPECT_TRUE(ended());
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
}

TEST_F(flush, waits_for_control_that_the_peer_needs_for_the_message) {
    start(2);
    vqp_tx_want_control(&m_tx);
    am(8);
    auto frags = dispatch();
    ASSERT_EQ(2u, frags.size());
    ASSERT_EQ(VQP_KIND_CONTROL, frags[0].kind);
    ASSERT_NE(frags[0].path, frags[1].path);
    begin();
    retire(frags[1]);
    EXPECT_FALSE(ended());
    retire(frags[0]);
    EXPECT_TRUE(ended());
}

TEST_F(flush, does_not_wait_for_control_that_no_message_needs) {
    start(2);
    am(8);
    auto frags = dispatch();
    vqp_tx_want_control(&m_tx);
    auto control = dispatch();
    ASSERT_EQ(1u, count(control, VQP_KIND_CONTROL));
    begin();
    retire(frags[0]);
    EXPECT_TRUE(ended());
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
    EXPECT_EQ(1u, m_tx.loose);

    am(8); /* this one has a later number */
    auto second = dispatch();
    begin();
    retire(second[0]);
    EXPECT_FALSE(vqp_tx_is_flushed(&m_tx));
    EXPECT_FALSE(ended());
    retire(control[0]);
    EXPECT_TRUE(ended());
}

TEST_F(flush, ends_although_the_places_of_a_path_come_round) {
    m_cfg.signal_every = 1;
    start(2);
    rma(VQP_KIND_PUT, 8); /* on path 0, then 1 */
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    am(8); /* fences on 0 and 1, AM on 0 */
    auto frags = dispatch();
    ASSERT_EQ(2u, count(frags, VQP_KIND_FENCE));
    begin();
    for (const vqp_frag_t &frag : frags) {
        if ((frag.kind != VQP_KIND_FENCE) || (frag.path == &m_paths[0])) {
            retire(frag);
        }
        if (frag.kind == VQP_KIND_PUT) {
            EXPECT_FALSE(ended());
        }
    }
    EXPECT_FALSE(ended()); /* path 1 */
    m_paths[0].head = m_paths[0].tail = (uint16_t)(m_paths[0].head + 40000);
    EXPECT_FALSE(ended());
    for (const vqp_frag_t &frag : frags) {
        if ((frag.kind == VQP_KIND_FENCE) && (frag.path == &m_paths[1])) {
            retire(frag);
        }
    }
    m_tx.loose = 1; /* a later one */
    EXPECT_TRUE(ended());
}

TEST_F(flush, does_not_wait_for_control_of_later) {
    start(2);
    auto frags = fenced_am();

    begin();
    EXPECT_FALSE(ended());
    vqp_tx_want_control(&m_tx);
    auto later = dispatch();
    ASSERT_EQ(1u, count(later, VQP_KIND_CONTROL));
    retire(frags[1]);
    EXPECT_TRUE(ended());
    EXPECT_EQ(1u, m_tx.loose);
}

TEST_F(flush, of_a_failed_sender_waits_for_ops_alone) {
    start(2);
    fenced_am();
    begin();
    vqp_tx_fail(&m_tx, VQP_ERR_TIMEOUT);
    EXPECT_TRUE(ended());
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
}

TEST_F(flush, what_was_never_posted_is_not_waited_for) {
    start(2);
    auto frags = fenced_am();

    vqp_tx_fail(&m_tx, VQP_ERR_IO);
    vqp_tx_abandon(&m_tx, frags[1].path, frags[1].pos, VQP_ERR_IO);
    EXPECT_EQ(0u, m_tx.loose);
}

} /* namespace */
