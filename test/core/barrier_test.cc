/*
 * Barriers: frags in flight, and frags that may have arrived without a
 * completion.
 */
#include "txkit.h"

namespace {

class barrier_op : public txkit {
protected:
    /* The users of u[] that were reported since the last call */
    std::vector<void*> users(std::vector<int> which) {
        std::vector<void*> expected;

        for (int i : which) {
            expected.push_back(&u[i]);
        }
        return expected;
    }

    /* An AM behind a put, confirmed but for its fence frag */
    std::vector<vqp_frag_t> fenced_am() {
        rma(VQP_KIND_PUT, 8);
        vqp_tx_fence(&m_tx);
        am(8);
        auto frags = dispatch(); /* put on 0, fence on 0, AM on 1 */
        EXPECT_EQ(3u, frags.size());
        EXPECT_EQ(VQP_KIND_FENCE, (int)frags[1].kind);
        retire(frags[0]);
        vqp_tx_reclaim(&m_tx);
        return frags;
    }
};

TEST_F(barrier_op, of_an_idle_sender_ends_at_once) {
    start(2);
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
    EXPECT_TRUE(barrier(&u[0]));
    EXPECT_EQ(users({0}), done());
    EXPECT_EQ(0u, m_tx.barriers);
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
    EXPECT_TRUE(dispatch().empty());
}

TEST_F(barrier_op, waits_for_earlier_ops_only) {
    start(2);
    rma(VQP_KIND_PUT, 8);
    auto frags = dispatch();
    barrier(&u[0]);
    rma(VQP_KIND_PUT, 8);
    dispatch();
    EXPECT_FALSE(vqp_tx_is_flushed(&m_tx));
    EXPECT_TRUE(done().empty());
    retire(frags[0]);
    EXPECT_EQ(users({0}), done());
    EXPECT_FALSE(vqp_tx_is_flushed(&m_tx));
}

TEST_F(barrier_op, waits_for_earlier_ams_only) {
    start(2);
    am(8);
    barrier(&u[0]);
    auto frags = dispatch();
    am(8);
    dispatch();
    EXPECT_TRUE(done().empty());
    confirm(frags);
    EXPECT_EQ(users({0}), done());
}

TEST_F(barrier_op, waits_for_ops_that_are_not_dispatched) {
    start(1);
    m_paths[0].up = 0;
    rma(VQP_KIND_PUT, 8, nullptr, 0);
    am(8);
    barrier(&u[0]);
    EXPECT_TRUE(dispatch().empty());
    EXPECT_TRUE(done().empty());
    m_paths[0].up = 1;
    auto frags = dispatch(); /* each with a CQE: nothing else would bring them */
    EXPECT_EQ(2u, signaled(frags));
    confirm(frags);
    EXPECT_EQ(users({0}), done());
}

TEST_F(barrier_op, has_what_is_in_flight_reclaimed) {
    start(2);
    rma(VQP_KIND_GET, 8, nullptr, 0);
    am(8);
    EXPECT_EQ(0u, signaled(dispatch()));
    barrier(&u[0]);
    auto nops = dispatch();
    ASSERT_EQ(2u, count(nops, VQP_KIND_NOP));
    retire(nops[0]);
    EXPECT_TRUE(done().empty());
    retire(nops[1]);
    EXPECT_EQ(users({0}), done());
}

/* As one put and its flush with a single work request */
TEST_F(barrier_op, behind_a_put_on_an_idle_path_needs_no_nop) {
    start(1);
    for (unsigned i = 0; i < 2; ++i) {
        rma(VQP_KIND_PUT, 8, nullptr, 0);
        auto frags = dispatch();
        EXPECT_EQ(1u, signaled(frags));
        barrier(&u[i]);
        EXPECT_TRUE(dispatch().empty());
        confirm(frags);
        EXPECT_EQ(users({(int)i}), done());
    }
}

TEST_F(barrier_op, behind_a_put_on_a_busy_path_needs_a_nop) {
    start(1);
    rma(VQP_KIND_PUT, 8, nullptr, 0);
    rma(VQP_KIND_PUT, 8, nullptr, 0);
    auto frags = dispatch();
    ASSERT_EQ(2u, frags.size());
    EXPECT_TRUE(frags[0].flags & VQP_FRAG_SIGNALED);
    EXPECT_FALSE(frags[1].flags & VQP_FRAG_SIGNALED);
    retire(frags[0]);
    barrier(&u[0]);
    auto nops = dispatch();
    ASSERT_EQ(1u, count(nops, VQP_KIND_NOP));
    confirm(nops);
    EXPECT_EQ(users({0}), done());
}

/* More than one frag on a path: its end has to have a CQE, not its beginning */
TEST_F(barrier_op, behind_a_put_of_several_frags_needs_a_nop) {
    start(1);
    rma(VQP_KIND_PUT, 2u << m_cfg.frag_shift, nullptr, 0);
    auto frags = dispatch();
    ASSERT_EQ(2u, frags.size());
    EXPECT_EQ(0u, signaled(frags));
    barrier(&u[0]);
    auto nops = dispatch();
    ASSERT_EQ(1u, count(nops, VQP_KIND_NOP));
    confirm(nops);
    EXPECT_EQ(users({0}), done());
}

TEST_F(barrier_op, several_at_once_each_end_with_their_earlier_ops) {
    start(4);
    rma(VQP_KIND_PUT, 8);
    auto first = dispatch();
    barrier(&u[0]);
    am(8);
    vqp_tx_reclaim(&m_tx);
    auto second = dispatch();
    barrier(&u[1]);
    barrier(&u[2]);
    rma(VQP_KIND_PUT, 8);
    auto third = dispatch();
    barrier(&u[3]);
    EXPECT_EQ(4u, m_tx.barriers);

    /* The AM ends first, but is behind the put that u[0] waits for */
    confirm(second);
    confirm(third);
    EXPECT_TRUE(done().empty());
    EXPECT_EQ(4u, m_tx.barriers);
    retire(first[0]);
    EXPECT_EQ(users({0, 1, 2, 3}), done());
    EXPECT_EQ(0u, m_tx.barriers);
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.rma));
}

TEST_F(barrier_op, does_not_stop_dispatch) {
    start(1);
    rma(VQP_KIND_PUT, 8);
    barrier(&u[0]);
    rma(VQP_KIND_PUT, 8);
    barrier(&u[1]);
    am(8);
    EXPECT_EQ(3u, dispatch().size());
    EXPECT_EQ(m_tx.rma.tail, m_tx.rma.post);
}

TEST_F(barrier_op, that_ends_before_its_dispatch_leaves_no_trace) {
    start(2);
    rma(VQP_KIND_PUT, 8);
    auto frags = dispatch();
    barrier(&u[0]); /* rma.post points to it */
    retire(frags[0]);
    EXPECT_EQ(users({0}), done());
    EXPECT_EQ(m_tx.rma.tail, m_tx.rma.post);
    EXPECT_EQ(m_tx.rma.tail, m_tx.rma.head);
    rma(VQP_KIND_PUT, 8, &u[1]);
    confirm(dispatch());
    EXPECT_EQ(users({1}), done());
}

TEST_F(barrier_op, waits_for_both_rings) {
    start(2);
    am(8);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_reclaim(&m_tx);
    auto frags = dispatch();
    barrier(&u[0]);
    for (const vqp_frag_t &frag : frags) {
        if (frag.kind == VQP_KIND_PUT) {
            retire(frag);
        }
    }
    EXPECT_TRUE(done().empty());
    for (const vqp_frag_t &frag : frags) {
        if (frag.kind != VQP_KIND_PUT) {
            retire(frag);
        }
    }
    EXPECT_EQ(users({0}), done());
}

/* ---- what the peer needs to deliver the AMs ---- */

/* A fence frag belongs to its AM, which does not end without it */
TEST_F(barrier_op, waits_for_the_fence_that_the_peer_needs_for_the_message) {
    start(2);
    auto frags = fenced_am();

    retire(frags[2]);
    EXPECT_EQ(1u, vqp_opring_count(&m_tx.am));
    EXPECT_FALSE(vqp_tx_is_flushed(&m_tx));
    barrier(&u[0]);
    EXPECT_TRUE(done().empty());
    auto nops = dispatch(); /* the fence has no CQE of its own */
    ASSERT_EQ(1u, count(nops, VQP_KIND_NOP));
    EXPECT_EQ(frags[1].path, nops[0].path);
    retire(nops[0]);
    EXPECT_EQ(users({0}), done());
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
}

TEST_F(barrier_op, waits_for_control_that_the_peer_needs_for_the_message) {
    start(2);
    want_credit();
    am(8);
    auto frags = dispatch();
    ASSERT_EQ(2u, frags.size());
    ASSERT_EQ(VQP_KIND_CREDIT, (int)frags[0].kind);
    ASSERT_NE(frags[0].path, frags[1].path);
    barrier(&u[0]);
    retire(frags[1]);
    EXPECT_TRUE(done().empty());
    EXPECT_FALSE(vqp_tx_is_flushed(&m_tx));
    retire(frags[0]);
    EXPECT_EQ(users({0}), done());
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
}

TEST_F(barrier_op, has_the_control_that_it_waits_for_reclaimed) {
    start(2);
    want_credit();
    am(8);
    auto frags = dispatch();
    retire(frags[1]);
    ASSERT_TRUE(vqp_opring_is_empty(&m_tx.am));
    barrier(&u[0]);
    EXPECT_TRUE(done().empty());
    auto nops = dispatch();
    ASSERT_EQ(1u, nops.size());
    EXPECT_EQ(VQP_KIND_NOP, (int)nops[0].kind);
    EXPECT_EQ(frags[0].path, nops[0].path);
    retire(nops[0]);
    EXPECT_EQ(users({0}), done());
}

/* Control goes out after the barrier was accepted: with fsns before those of the
 * AM, which has still to be dispatched */
TEST_F(barrier_op, waits_for_control_that_overtakes_its_messages) {
    start(2);
    m_paths[0].bytes = m_paths[1].bytes = 1; /* full, but for control */
    m_tx.limits.path_cap = m_tx.limits.fast_cap = 1;
    am(8);
    barrier(&u[0]);
    want_credit();
    auto control = dispatch();
    ASSERT_EQ(1u, count(control, VQP_KIND_CREDIT));
    m_paths[0].bytes -= 1;
    m_paths[1].bytes -= 1;
    m_tx.limits.path_cap = m_tx.limits.fast_cap = UINT64_MAX;
    auto frags = dispatch();
    ASSERT_EQ(1u, count(frags, VQP_KIND_AM));
    ASSERT_NE(control[0].path, frags[0].path);
    confirm(frags);
    EXPECT_TRUE(done().empty());
    retire(control[0]);
    EXPECT_EQ(users({0}), done());
}

TEST_F(barrier_op, does_not_wait_for_control_that_no_message_needs) {
    start(2);
    am(8);
    auto frags = dispatch();
    want_credit();
    auto control = dispatch();
    ASSERT_EQ(1u, count(control, VQP_KIND_CREDIT));
    barrier(&u[0]);
    retire(frags[0]);
    EXPECT_EQ(users({0}), done());
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
    EXPECT_EQ(1u, m_tx.credit_updates);

    am(8); /* this one has a later fsn */
    auto second = dispatch();
    barrier(&u[1]);
    retire(second[0]);
    EXPECT_FALSE(vqp_tx_is_flushed(&m_tx));
    EXPECT_TRUE(done().empty());
    retire(control[0]);
    EXPECT_EQ(users({1}), done());
    EXPECT_EQ(0u, m_tx.credit_updates);
}

TEST_F(barrier_op, does_not_wait_for_later_control) {
    start(2);
    auto frags = fenced_am();

    retire(frags[2]);
    barrier(&u[0]);
    EXPECT_TRUE(done().empty());
    want_credit();
    auto later = dispatch();
    ASSERT_EQ(1u, count(later, VQP_KIND_CREDIT));
    retire(frags[1]);
    EXPECT_EQ(users({0}), done());
    EXPECT_EQ(1u, m_tx.credit_updates);
}

TEST_F(barrier_op, waits_for_control_on_each_path) {
    start(4);
    for (unsigned i = 0; i < 3; ++i) {
        want_credit();
        dispatch();
    }
    am(8);
    auto frags = dispatch();
    ASSERT_EQ(3u, frags[0].path->index);
    barrier(&u[0]);
    retire(frags[0]);
    auto nops = dispatch();
    ASSERT_EQ(3u, count(nops, VQP_KIND_NOP));
    retire(nops[2]);
    retire(nops[0]);
    EXPECT_TRUE(done().empty());
    EXPECT_EQ(1u, m_tx.credit_updates);
    retire(nops[1]);
    EXPECT_EQ(users({0}), done());
}

TEST_F(barrier_op, ends_although_the_slots_of_a_path_wrap) {
    start(2);
    for (vqp_path_t &path : m_paths) {
        path.head = path.tail = path.signaled = 0xffff;
    }
    want_credit();
    am(8);
    auto frags = dispatch();
    ASSERT_EQ(0xffff, frags[0].slot);
    retire(frags[1]);
    barrier(&u[0]);
    EXPECT_TRUE(done().empty());
    confirm(dispatch());
    EXPECT_EQ(users({0}), done());
}

/* ---- completions in posting order ---- */

TEST_F(barrier_op, is_reported_in_order) {
    m_cfg.comp_post = 1;
    start(2);
    rma(VQP_KIND_PUT, 8, &u[0]);
    am(8, &u[1]);
    auto frags = dispatch(); /* the AM, then the put */
    barrier(&u[2]);
    barrier(&u[3]);
    rma(VQP_KIND_PUT, 8, &u[4]);
    auto later = dispatch();
    confirm(later);
    retire(frags[0]);
    EXPECT_TRUE(done().empty());
    retire(frags[1]);
    EXPECT_EQ(users({0, 1, 2, 3, 4}), done());
}

TEST_F(barrier_op, in_posting_order_waits_for_ops_without_a_completion_too) {
    m_cfg.comp_post = 1;
    start(2);
    rma(VQP_KIND_GET, 8, nullptr, 0);
    auto frags = dispatch();
    barrier(&u[0]);
    EXPECT_TRUE(done().empty());
    confirm(dispatch());
    EXPECT_EQ(users({0}), done());
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.rma));
}

/* ---- the slot of a close ---- */

TEST_F(barrier_op, of_a_close_finds_a_slot_when_the_ring_is_full) {
    m_num_ops = 4;
    start(1);
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_TRUE(rma(VQP_KIND_PUT, 8));
    }
    EXPECT_FALSE(rma(VQP_KIND_PUT, 8));
    EXPECT_FALSE(vqp_tx_may_barrier(&m_tx));
    EXPECT_FALSE(barrier(&u[0]));
    EXPECT_TRUE(barrier(&u[1], VQP_OP_CLOSE));
    EXPECT_EQ(4u, vqp_opring_count(&m_tx.rma));
    EXPECT_FALSE(barrier(&u[0]));
    EXPECT_FALSE(rma(VQP_KIND_PUT, 8));
    confirm(dispatch());
    EXPECT_EQ(users({1}), done());
    EXPECT_TRUE(barrier(&u[0]));
    EXPECT_EQ(users({0}), done());
}

TEST_F(barrier_op, barriers_take_slots_as_ops_do) {
    m_num_ops = 4;
    start(1);
    m_paths[0].up = 0;
    EXPECT_TRUE(rma(VQP_KIND_PUT, 8));
    EXPECT_TRUE(barrier(&u[0]));
    EXPECT_TRUE(barrier(&u[1]));
    EXPECT_FALSE(barrier(&u[2]));
    EXPECT_TRUE(barrier(&u[2], VQP_OP_CLOSE));
    m_paths[0].up = 1;
    confirm(dispatch());
    EXPECT_EQ(users({0, 1, 2}), done());
}

/* ---- failure ---- */

TEST_F(barrier_op, fails_with_the_earlier_ops_and_not_before_them) {
    start(2);
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = dispatch();
    barrier(&u[1]);
    vqp_tx_fail(&m_tx, VQP_ERR_TIMEOUT);
    EXPECT_TRUE(done().empty());
    retire(frags[0], VQP_ERR_TIMEOUT);
    EXPECT_EQ(users({0, 1}), done(VQP_ERR_TIMEOUT));
    EXPECT_EQ(0u, m_tx.barriers);
}

TEST_F(barrier_op, of_a_failing_sender_is_an_error_although_the_ops_succeed) {
    vqp_done_t first, second;

    start(2);
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = dispatch();
    barrier(&u[1]);
    vqp_tx_fail(&m_tx, VQP_ERR_TIMEOUT);
    retire(frags[0]); /* it was executed */
    ASSERT_TRUE(vqp_tx_pop_done(&m_tx, &first));
    ASSERT_TRUE(vqp_tx_pop_done(&m_tx, &second));
    EXPECT_EQ(VQP_OK, first.status);
    EXPECT_EQ(VQP_KIND_BARRIER, second.kind);
    EXPECT_EQ(VQP_ERR_TIMEOUT, second.status);
}

TEST_F(barrier_op, that_is_not_dispatched_ends_with_a_failure) {
    start(1);
    m_paths[0].up = 0;
    rma(VQP_KIND_PUT, 8, &u[0]);
    barrier(&u[1]);
    am(8, &u[2]);
    barrier(&u[3]);
    vqp_tx_fail(&m_tx, VQP_ERR_RESET);
    auto reported = done(VQP_ERR_RESET);
    EXPECT_EQ(4u, reported.size());
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.rma));
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.am));
}

TEST_F(barrier_op, of_a_failed_sender_ends_with_its_status) {
    start(2);
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = dispatch();
    vqp_tx_fail(&m_tx, VQP_ERR_TIMEOUT);
    EXPECT_TRUE(vqp_tx_barrier(&m_tx, VQP_OP_BUFFER, &u[1], 1,
                               VQP_ERR_TIMEOUT));
    EXPECT_TRUE(done().empty());
    EXPECT_TRUE(dispatch().empty());
    retire(frags[0], VQP_ERR_TIMEOUT);
    EXPECT_EQ(users({0, 1}), done(VQP_ERR_TIMEOUT));
    EXPECT_TRUE(vqp_tx_barrier(&m_tx, VQP_OP_BUFFER, &u[2], 1,
                               VQP_ERR_TIMEOUT));
    EXPECT_EQ(users({2}), done(VQP_ERR_TIMEOUT));
}

TEST_F(barrier_op, of_a_failed_sender_ends_when_its_control_is_back) {
    start(2);
    want_credit();
    am(8);
    auto frags = dispatch();
    retire(frags[1]);
    barrier(&u[0]);
    EXPECT_TRUE(done().empty());
    vqp_tx_fail(&m_tx, VQP_ERR_TIMEOUT);
    EXPECT_TRUE(done().empty());
    retire(frags[0], VQP_ERR_TIMEOUT);
    EXPECT_EQ(users({0}), done(VQP_ERR_TIMEOUT));
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
    EXPECT_EQ(0u, m_tx.credit_updates);
}

TEST_F(barrier_op, of_a_sender_that_has_failed_follows_one_that_waits) {
    start(2);
    want_credit();
    am(8);
    auto frags = dispatch();
    retire(frags[1]);
    barrier(&u[0]);
    vqp_tx_fail(&m_tx, VQP_ERR_TIMEOUT);
    EXPECT_TRUE(vqp_tx_barrier(&m_tx, VQP_OP_BUFFER, &u[1], 1,
                               VQP_ERR_TIMEOUT));
    EXPECT_TRUE(done().empty());
    retire(frags[0], VQP_ERR_TIMEOUT);
    EXPECT_EQ(users({0, 1}), done(VQP_ERR_TIMEOUT));
}

TEST_F(barrier_op, that_probes_ends_with_its_nop) {
    start(2);
    EXPECT_TRUE(vqp_tx_barrier(&m_tx, VQP_OP_PROBE, &u[0], 1, VQP_OK));
    EXPECT_TRUE(done().empty());
    auto frags = dispatch();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_KIND_NOP, (int)frags[0].kind);
    barrier(&u[1]);
    EXPECT_TRUE(dispatch().empty());
    EXPECT_TRUE(done().empty());
    retire(frags[0]);
    EXPECT_EQ(users({0, 1}), done());
}

TEST_F(barrier_op, that_probes_fails_with_its_nop) {
    start(2);
    EXPECT_TRUE(vqp_tx_barrier(&m_tx, VQP_OP_PROBE, &u[0], 1, VQP_OK));
    auto frags = dispatch();
    vqp_tx_fail(&m_tx, VQP_ERR_TIMEOUT);
    EXPECT_TRUE(done().empty());
    retire(frags[0], VQP_ERR_TIMEOUT);
    EXPECT_EQ(users({0}), done(VQP_ERR_TIMEOUT));
}

TEST_F(barrier_op, that_probes_fails_before_it_is_dispatched) {
    start(2);
    EXPECT_TRUE(vqp_tx_barrier(&m_tx, VQP_OP_PROBE, &u[0], 1, VQP_OK));
    vqp_tx_fail(&m_tx, VQP_ERR_TIMEOUT);
    EXPECT_EQ(users({0}), done(VQP_ERR_TIMEOUT));
}

TEST_F(barrier_op, does_not_wait_for_ops_that_were_never_posted) {
    start(2);
    auto frags = fenced_am();

    retire(frags[2]);
    barrier(&u[0]);
    vqp_tx_fail(&m_tx, VQP_ERR_IO);
    EXPECT_TRUE(done(VQP_ERR_IO).empty());
    vqp_tx_abandon(&m_tx, frags[1].path, frags[1].slot, VQP_ERR_IO);
    EXPECT_EQ(users({0}), done(VQP_ERR_IO));
}

TEST_F(barrier_op, is_in_use_while_a_user_waits) {
    start(1);
    rma(VQP_KIND_PUT, 8, nullptr);
    EXPECT_FALSE(vqp_tx_uses_buffers(&m_tx));
    barrier(&u[0]);
    EXPECT_TRUE(vqp_tx_uses_buffers(&m_tx));
    confirm(dispatch());
    done();
    EXPECT_FALSE(vqp_tx_uses_buffers(&m_tx));
}

} /* namespace */
