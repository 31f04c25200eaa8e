/*
 * The sender: what is accepted, what is confirmed, what is reported, and the
 * credit that limits it.
 */
#include "txkit.h"

namespace {

class tx : public txkit {
};

/* ---- acceptance ---- */

TEST_F(tx, am_is_accepted_until_the_ring_is_full) {
    start(1);
    EXPECT_TRUE(am(2032));
    EXPECT_TRUE(am(2032));
    EXPECT_FALSE(am(0));
    EXPECT_EQ(1u, m_stats.credit_stalls);
    EXPECT_EQ(2u, m_stats.ops);
}

TEST_F(tx, a_record_takes_half_the_ring_at_most_so_it_always_fits_an_empty_one) {
    start(1);
    for (unsigned i = 0; i < 20; ++i) {
        ASSERT_TRUE(am(1 + 16 * i));
        confirm(dispatch());
        credit_all();
        ASSERT_TRUE(am(2032));
        vqp_tx_reclaim(&m_tx);
        confirm(dispatch());
        credit_all();
    }
}

TEST_F(tx, ring_bytes_need_both_the_peer_and_the_local_confirmation) {
    start(1);
    am(2032);
    am(2032);
    auto frags = dispatch();
    credit_all();
    EXPECT_FALSE(am(0)); /* the HCA may still read the mirror */
    confirm(frags);
    EXPECT_TRUE(am(0));
}

TEST_F(tx, mirror_bytes_without_a_cqe_get_a_nop) {
    start(1);
    m_tx.limits.am_max_unsignaled = UINT32_MAX;
    am(2032);
    am(2032);
    EXPECT_EQ(0u, signaled(dispatch()));
    credit_all();
    EXPECT_FALSE(am(0));
    auto frags = dispatch();
    EXPECT_EQ(1u, frags.size());
    EXPECT_EQ(1u, count(frags, VQP_KIND_NOP));
    confirm(frags);
    EXPECT_TRUE(am(0));
}

TEST_F(tx, local_confirmation_alone_is_not_enough) {
    start(1);
    am(2032);
    am(2032);
    vqp_tx_reclaim(&m_tx);
    confirm(dispatch());
    EXPECT_FALSE(am(0));
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, 2048, 101));
    EXPECT_TRUE(am(0));
}

TEST_F(tx, wrap_puts_a_record_at_the_start_of_the_ring) {
    start(1);
    am(2032);
    am(1000);
    vqp_tx_reclaim(&m_tx);
    confirm(dispatch());
    credit_all();
    EXPECT_TRUE(am(1500));
    auto frags = dispatch();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(+RING_ADDR, frags[0].raddr);
    EXPECT_EQ(VQP_IMM_LAST | VQP_IMM_WRAP, frags[0].imm & ~VQP_FSN_MASK);
    EXPECT_EQ(4096 + vqp_record_size(1500), m_tx.fc.ring_head);
}

TEST_F(tx, a_record_that_ends_with_the_ring_does_not_wrap) {
    start(1);
    am(2032);
    am(2032);
    auto frags = dispatch();
    EXPECT_EQ((uint32_t)VQP_IMM_LAST, frags[1].imm & ~VQP_FSN_MASK);
    EXPECT_EQ(RING_ADDR + 2048, frags[1].raddr);
}

TEST_F(tx, a_message_shorter_than_announced_takes_its_real_size) {
    start(1);
    am(10, nullptr, 2000);
    EXPECT_EQ(vqp_record_size(10), m_tx.fc.ring_head);
}

TEST_F(tx, a_shorter_message_never_takes_more_fsns_than_were_checked) {
    m_cfg.ring_size = 1 << 16;
    start(4);
    for (uint32_t max : {4096u - 16, 8192u - 16, 16384u - 16, 20000u}) {
        for (uint32_t length = 0; length <= max; length += 13) {
            uint32_t reserved = m_tx.fc.fsn_reserved;
            vqp_tx_am_t am;

            ASSERT_TRUE(vqp_tx_am_begin(&m_tx, max, 0, &am));
            am.op->user_kind = 0;
            vqp_tx_am_commit(&m_tx, am, 1, length, length, &m_credit);
            ASSERT_LE(m_tx.fc.fsn_reserved - reserved, am.imms) << length;
            vqp_tx_reclaim(&m_tx);
            confirm(dispatch());
            credit_all();
            ASSERT_EQ(0u, m_tx.fc.fsn_reserved);
        }
    }
}

TEST_F(tx, fsns_are_limited_by_the_window_less_the_reserve) {
    m_cfg.fsn_window = 16;
    start(1);
    for (unsigned i = 0; i < 16 - VQP_CONTROL_RESERVE; ++i) {
        EXPECT_TRUE(am(0));
    }
    EXPECT_FALSE(am(0));
    EXPECT_EQ(14u, m_tx.fc.fsn_reserved);
    dispatch();
    EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
    EXPECT_FALSE(am(0));
    vqp_tx_credit(&m_tx, 0, 101);
    EXPECT_TRUE(am(0));
}

TEST_F(tx, one_path_carries_the_whole_window_when_the_others_take_nothing) {
    m_depth = 100;
    start(4);
    for (unsigned i = 0; i < 3; ++i) {
        m_paths[i].up = 0;
    }

    for (unsigned i = 0; i < m_cfg.fsn_window - VQP_CONTROL_RESERVE; ++i) {
        ASSERT_TRUE(am(0));
    }
    EXPECT_EQ(m_cfg.fsn_window - VQP_CONTROL_RESERVE, dispatch().size());
    for (unsigned i = 0; i < VQP_CONTROL_RESERVE; ++i) {
        m_tx.slow |= VQP_TX_CREDIT;
        EXPECT_EQ(1u, count(dispatch(), VQP_KIND_CREDIT));
    }
    EXPECT_EQ(m_cfg.fsn_window, m_paths[3].stats.imms);
    EXPECT_EQ(m_cfg.fsn_window, vqp_tx_fsns_out(&m_tx));
}

TEST_F(tx, control_leaves_accepted_messages_their_numbers) {
    m_cfg.fsn_window = 16;
    start(1);
    m_paths[0].up = 0;
    while (am(0)) {
    }
    m_paths[0].up = 1;
    m_paths[0].bytes = 1; /* full for data only */
    m_tx.limits.path_cap = m_tx.limits.fast_cap = 1;
    for (unsigned i = 0; i < 5; ++i) {
        want_credit();
        dispatch();
    }
    EXPECT_EQ(2u, m_stats.credit_updates_tx);
    EXPECT_EQ(16u, vqp_tx_fsns_out(&m_tx) + m_tx.fc.fsn_reserved);
}

TEST_F(tx, a_small_window_makes_frags_larger) {
    m_cfg.fsn_window = 8;
    m_cfg.ring_size  = 1 << 16;
    start(4);
    EXPECT_TRUE(am(30000));
    auto frags = dispatch();
    EXPECT_LE(frags.size(), 6u);
    EXPECT_EQ(30016u, bytes(frags));
}

/* One slot stays free, for the barrier of a close */
TEST_F(tx, rma_is_refused_when_its_ring_is_full) {
    m_num_ops = 4;
    start(1);
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_TRUE(rma(VQP_KIND_PUT, 8, &u[i]));
    }
    EXPECT_FALSE(rma(VQP_KIND_PUT, 8));
    confirm(dispatch());
    EXPECT_FALSE(rma(VQP_KIND_PUT, 8)); /* not reported yet */
    EXPECT_EQ(3u, done().size());
    EXPECT_TRUE(rma(VQP_KIND_PUT, 8));
}

TEST_F(tx, a_full_ring_of_unsignaled_ops_is_reclaimed) {
    m_num_ops = 4;
    start(2);
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_TRUE((i == 3) || rma(VQP_KIND_PUT, 8, nullptr, 0));
        EXPECT_TRUE(am(8));
    }
    EXPECT_EQ(0u, signaled(dispatch()));
    EXPECT_FALSE(rma(VQP_KIND_PUT, 8, nullptr, 0));
    EXPECT_FALSE(am(8));
    auto frags = dispatch();
    EXPECT_EQ(2u, count(frags, VQP_KIND_NOP));
    confirm(frags);
    EXPECT_TRUE(rma(VQP_KIND_PUT, 8, nullptr, 0));
    EXPECT_TRUE(am(8));
}

TEST_F(tx, pieces_beyond_two_need_memory_of_their_own) {
    std::vector<vqp_iov_t> ext;
    vqp_op_t *op;

    start(1);
    op = begin(VQP_KIND_PUT, nullptr, 0);
    EXPECT_EQ(op->g.iov, vqp_tx_op_iov(&m_tx, op, 2));
    EXPECT_EQ(nullptr, vqp_tx_op_iov(&m_tx, op, 3));
    ext.resize(vqp_tx_iov_ext_count(&m_tx, 5));
    vqp_tx_set_iov_ext(&m_tx, ext.data(), 5);
    EXPECT_EQ(&ext[0], vqp_tx_op_iov(&m_tx, op, 5));
    EXPECT_EQ(nullptr, vqp_tx_op_iov(&m_tx, op, 6));
    EXPECT_EQ(&ext[64 * 5], vqp_tx_op_iov(&m_tx, &m_am_ops[0], 3));
    EXPECT_EQ(ext.data() + ext.size() - 5,
              vqp_tx_op_iov(&m_tx, &m_am_ops[63], 3));
}

/* ---- credit ---- */

TEST_F(tx, credit_gives_back_numbers_with_or_without_bytes) {
    start(2);
    for (unsigned i = 0; i < 4; ++i) {
        am(0);
    }
    dispatch();
    EXPECT_EQ(4u, vqp_tx_fsns_out(&m_tx));
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, 16, 101));
    EXPECT_EQ(3u, vqp_tx_fsns_out(&m_tx));
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, 16, 103)); /* a parked message's */
    EXPECT_EQ(1u, vqp_tx_fsns_out(&m_tx));
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, 64, 104));
    EXPECT_EQ(0u, vqp_tx_fsns_out(&m_tx));
}

TEST_F(tx, old_credit_changes_nothing) {
    start(1);
    am(0);
    am(0);
    dispatch();
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, 32, 102));
    EXPECT_EQ(0, vqp_tx_credit(&m_tx, 16, 101));
    EXPECT_EQ(0, vqp_tx_credit(&m_tx, 32, 102));
    EXPECT_EQ(32u, m_tx.fc.ring_peer);
}

TEST_F(tx, new_credit_of_one_kind_does_not_take_the_other_back) {
    start(1);
    am(0);
    am(0);
    dispatch();
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, 32, 101));
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, 16, 102));
    EXPECT_EQ(32u, m_tx.fc.ring_peer);
    EXPECT_EQ(102u, m_tx.fc.fsn_peer);
}

TEST_F(tx, bogus_credit_is_a_protocol_error) {
    start(1);
    am(0);
    dispatch();
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_tx_credit(&m_tx, 0, 102));
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_tx_credit(&m_tx, 17, 101));
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_tx_credit(&m_tx, 0, 1u << 24));
    EXPECT_EQ(1u, vqp_tx_fsns_out(&m_tx));
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, 16, 101));
}

/* A peer that gives credit for a number that no frag has carried yet breaks the
 * protocol. It affects only its own reception: here all ops end */
TEST_F(tx, credit_for_a_message_without_its_notify_harms_nothing_here) {
    m_cfg.notify = VQP_NOTIFY_SPRAY;
    start(2);
    am(1000, &u[0]);
    auto frags = dispatch();
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, m_tx.fc.ring_peer, m_tx.fc.fsn_next));
    EXPECT_EQ(0u, vqp_tx_fsns_out(&m_tx));
    confirm(frags);
    auto notify = dispatch();
    EXPECT_EQ(1u, count(notify, VQP_KIND_NOTIFY));
    confirm(notify);
    EXPECT_EQ((std::vector<void*>{&u[0]}), done());
}

/* The oldest possible credit: every later immediate of the window has advertised
 * a full ring */
TEST_F(tx, credit_that_is_a_ring_behind_for_each_number_is_old) {
    m_cfg.ring_size  = 1 << 20;
    m_cfg.fsn_window = VQP_FSN_WINDOW_MAX;
    start(1);
    for (uint32_t updates = 0; updates < m_cfg.fsn_window; ++updates) {
        for (int i = 0; i < 2; ++i) {
            ASSERT_TRUE(am(vqp_record_max_payload(m_cfg.ring_size)));
            vqp_tx_reclaim(&m_tx);
            confirm(dispatch());
        }
        credit_all();
    }
    EXPECT_EQ(0x80000000u, m_tx.fc.ring_peer);
    EXPECT_EQ(0, vqp_tx_credit(&m_tx, 0, m_cfg.first_fsn));
    EXPECT_EQ(0x80000000u, m_tx.fc.ring_peer);
}

TEST_F(tx, numbers_and_positions_wrap) {
    m_cfg.first_fsn = VQP_FSN_MASK;
    start(1);
    m_tx.fc.ring_head = m_tx.fc.ring_peer = m_tx.fc.ring_local = 0xfffffff0u;
    am(0);
    am(0);
    auto frags = dispatch();
    EXPECT_EQ(VQP_FSN_MASK, vqp_imm_fsn(frags[0].imm));
    EXPECT_EQ(0u, vqp_imm_fsn(frags[1].imm));
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, 16, 1));
    EXPECT_EQ(0u, vqp_tx_fsns_out(&m_tx));
}

/* The peer would not advertise what it has consumed by itself */
TEST_F(tx, a_sender_stalled_below_a_share_requests_credit_once) {
    start(1);
    am(1536);
    dispatch();
    credit_all();
    am(900);
    vqp_tx_reclaim(&m_tx);
    confirm(dispatch());
    EXPECT_FALSE(am(2032)); /* must wrap */
    EXPECT_FALSE(am(2032));
    auto frags = dispatch();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_KIND_CREDIT, frags[0].kind);
    EXPECT_EQ((uint32_t)VQP_CELL_REQUEST, m_cfg.cells->flags);
    EXPECT_FALSE(am(2032));
    EXPECT_EQ(0u, dispatch().size());
    EXPECT_EQ(1u, m_stats.credit_requests);
    credit_all();
    EXPECT_FALSE(m_tx.fc.requested);
    EXPECT_TRUE(am(2032));
}

TEST_F(tx, a_sender_stalled_for_bytes_only_requests_credit_too) {
    start(1);
    am(1536);
    dispatch();
    credit_all();
    am(900);
    vqp_tx_reclaim(&m_tx);
    confirm(dispatch());
    vqp_tx_credit(&m_tx, m_tx.fc.ring_peer, m_tx.fc.fsn_next);
    EXPECT_FALSE(am(2032));
    EXPECT_EQ(1u, count(dispatch(), VQP_KIND_CREDIT));
    EXPECT_EQ(1u, m_stats.credit_requests);
}

TEST_F(tx, a_sender_that_waits_for_the_local_confirmation_requests_nothing) {
    start(1);
    am(1024);
    dispatch();
    credit_all();
    am(992);
    am(992);
    dispatch();
    credit_all();
    m_tx.fc.ring_local = 0;
    EXPECT_FALSE(am(2032));
    EXPECT_EQ(0u, count(dispatch(), VQP_KIND_CREDIT));
}

TEST_F(tx, beyond_a_share_the_peer_sends_its_credit_by_itself) {
    start(1);
    am(2032);
    am(992);
    dispatch();
    EXPECT_FALSE(am(2000));
    EXPECT_EQ(0u, dispatch().size());
    EXPECT_EQ(0u, m_stats.credit_requests);
}

TEST_F(tx, with_messages_to_dispatch_nothing_is_requested) {
    start(1);
    am(1024);
    dispatch();
    credit_all();
    m_paths[0].up = 0;
    am(992);
    am(992);
    EXPECT_FALSE(am(2032));
    EXPECT_FALSE(m_tx.fc.want_request);
}

/* ---- confirmation ---- */

TEST_F(tx, a_completion_confirms_what_stands_before_it) {
    start(1);
    rma(VQP_KIND_PUT, 8, &u[0], 0);
    rma(VQP_KIND_PUT, 8, &u[1], 0);
    rma(VQP_KIND_PUT, 8, &u[2]);
    auto frags = dispatch();
    EXPECT_EQ(24u, m_paths[0].bytes);
    EXPECT_EQ(3u, retire(frags[2]));
    EXPECT_EQ((std::vector<void*>{&u[0], &u[1], &u[2]}), done());
    EXPECT_EQ(0u, m_paths[0].bytes);
    EXPECT_EQ(0, m_paths[0].rma);
}

TEST_F(tx, a_completion_of_nothing_is_ignored) {
    start(1);
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = dispatch();
    EXPECT_EQ(0u, vqp_tx_retire(&m_tx, &m_paths[0], 1, VQP_OK));
    EXPECT_EQ(0u, vqp_tx_retire(&m_tx, &m_paths[0], 0xffff, VQP_OK));
    EXPECT_EQ(1u, retire(frags[0]));
    EXPECT_EQ(0u, retire(frags[0]));
    EXPECT_EQ(1u, done().size());
}

TEST_F(tx, an_op_is_done_with_its_last_frag_on_any_path) {
    start(4);
    rma(VQP_KIND_PUT, 4096, &u[0]);
    auto frags = dispatch();
    ASSERT_EQ(4u, frags.size());
    for (unsigned i : {3, 0, 2}) {
        retire(frags[i]);
        EXPECT_TRUE(done().empty());
    }
    retire(frags[1]);
    EXPECT_EQ(1u, done().size());
}

TEST_F(tx, any_order_reports_what_is_confirmed) {
    start(2);
    rma(VQP_KIND_PUT, 8, &u[0]);
    rma(VQP_KIND_PUT, 8, &u[1]);
    auto frags = dispatch();
    retire(frags[1]);
    EXPECT_EQ(std::vector<void*>{&u[1]}, done());
    retire(frags[0]);
    EXPECT_EQ(std::vector<void*>{&u[0]}, done());
}

TEST_F(tx, post_order_reports_in_order_over_both_rings) {
    m_cfg.comp_post = 1;
    start(2);
    rma(VQP_KIND_PUT, 8, &u[0]);
    am(8, &u[1]);
    rma(VQP_KIND_PUT, 8); /* without a completion of the user */
    rma(VQP_KIND_PUT, 8, &u[3]);
    vqp_tx_reclaim(&m_tx);
    auto frags = dispatch(); /* the AM, then the puts */
    retire(frags[0]);
    retire(frags[2]);
    EXPECT_TRUE(done().empty());
    retire(frags[1]);
    EXPECT_EQ((std::vector<void*>{&u[0], &u[1]}), done());
    retire(frags[3]);
    EXPECT_EQ(std::vector<void*>{&u[3]}, done());
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.rma));
}

TEST_F(tx, first_error_of_an_op_wins) {
    start(2);
    rma(VQP_KIND_PUT, 2048, &u[0]);
    auto frags = dispatch();
    retire(frags[1], VQP_ERR_TIMEOUT);
    retire(frags[0], VQP_ERR_CANCELED);
    for (size_t i = 2; i < frags.size(); ++i) {
        retire(frags[i], VQP_ERR_CANCELED);
    }
    EXPECT_EQ(1u, done(VQP_ERR_TIMEOUT).size());
}

TEST_F(tx, an_error_confirms_what_stands_before_it) {
    start(1);
    rma(VQP_KIND_PUT, 8, &u[0], 0);
    rma(VQP_KIND_PUT, 8, &u[1]);
    EXPECT_EQ(2u, retire(dispatch()[1], VQP_ERR_TIMEOUT));
    vqp_done_t first, second;
    ASSERT_TRUE(vqp_tx_pop_done(&m_tx, &first));
    ASSERT_TRUE(vqp_tx_pop_done(&m_tx, &second));
    EXPECT_EQ(VQP_OK, first.status);
    EXPECT_EQ(VQP_ERR_TIMEOUT, second.status);
}

TEST_F(tx, a_fetched_value_is_delivered_with_the_completion) {
    uint64_t result = 1;

    start(2);
    fadd(&result, &u[0]);
    auto frags = dispatch();
    *(uint64_t*)(uintptr_t)frags[0].sge[0].addr = 4711;
    EXPECT_EQ(1u, result);
    retire(frags[0]);
    EXPECT_EQ(4711u, result);
    EXPECT_EQ(0, m_paths[0].reads);
}

TEST_F(tx, a_failed_fetch_leaves_the_result_alone) {
    uint64_t result = 1;

    start(1);
    fadd(&result, &u[0]);
    auto frags = dispatch();
    *(uint64_t*)(uintptr_t)frags[0].sge[0].addr = 4711;
    retire(frags[0], VQP_ERR_TIMEOUT);
    EXPECT_EQ(1u, result);
}

/* ---- flush ---- */

TEST_F(tx, oldest_is_the_low_water_mark_over_both_rings) {
    start(1);
    EXPECT_EQ(m_tx.seq, vqp_tx_oldest(&m_tx));
    rma(VQP_KIND_PUT, 8);
    am(8);
    rma(VQP_KIND_PUT, 8);
    EXPECT_EQ(0u, vqp_tx_oldest(&m_tx));
    vqp_tx_reclaim(&m_tx);
    auto frags = dispatch(); /* AM first */
    retire(frags[0]);
    EXPECT_EQ(0u, vqp_tx_oldest(&m_tx));
    retire(frags[1]);
    EXPECT_EQ(2u, vqp_tx_oldest(&m_tx));
    retire(frags[2]);
    EXPECT_EQ(m_tx.seq, vqp_tx_oldest(&m_tx));
}

TEST_F(tx, reclaim_gets_everything_confirmed) {
    start(4);
    for (unsigned i = 0; i < 8; ++i) {
        rma(VQP_KIND_PUT, 8, nullptr, 0);
    }
    EXPECT_EQ(4u, signaled(dispatch())); /* the first on each path */
    am(8); /* accepted, not dispatched: will be signaled itself */
    vqp_tx_reclaim(&m_tx);
    auto frags = dispatch();
    EXPECT_EQ(1u, count(frags, VQP_KIND_AM));
    EXPECT_EQ(3u, count(frags, VQP_KIND_NOP));
    confirm(frags);
    EXPECT_EQ(m_tx.seq, vqp_tx_oldest(&m_tx));
    EXPECT_EQ(0u, vqp_tx_outstanding(&m_tx));
}

TEST_F(tx, reclaim_of_an_idle_sender_sends_nothing) {
    start(4);
    vqp_tx_reclaim(&m_tx);
    EXPECT_TRUE(dispatch().empty());
    EXPECT_FALSE(vqp_tx_has_work(&m_tx));
}

TEST_F(tx, reclaim_waits_for_a_slot_in_the_send_queue) {
    m_depth = 8;
    start(1);
    for (unsigned i = 0; i < 5; ++i) { /* the one that fills it has a CQE */
        rma(VQP_KIND_PUT, 8, nullptr, 0);
    }
    auto frags = dispatch();
    EXPECT_EQ(5u, frags.size());
    EXPECT_EQ(1u, signaled(frags)); /* the first */
    m_paths[0].depth = 5;
    vqp_tx_reclaim(&m_tx);
    EXPECT_TRUE(dispatch().empty());
    EXPECT_TRUE(vqp_tx_has_work(&m_tx));
    m_paths[0].depth = 8;
    EXPECT_EQ(1u, dispatch().size());
    EXPECT_FALSE(vqp_tx_has_work(&m_tx));
}

/* ---- failure ---- */

TEST_F(tx, fail_ends_what_has_no_frag_in_flight) {
    start(1);
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = dispatch();
    rma(VQP_KIND_PUT, 8, &u[1]);
    am(8, &u[2]);
    vqp_tx_fail(&m_tx, VQP_ERR_RESET);
    EXPECT_EQ((std::vector<void*>{&u[2], &u[1]}), done(VQP_ERR_RESET));
    EXPECT_TRUE(dispatch().empty());
    EXPECT_FALSE(vqp_tx_has_work(&m_tx));
    retire(frags[0], VQP_ERR_CANCELED);
    EXPECT_EQ(std::vector<void*>{&u[0]}, done(VQP_ERR_CANCELED));
}

TEST_F(tx, completely_posted_ops_may_still_succeed) {
    start(1);
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = dispatch();
    vqp_tx_fail(&m_tx, VQP_ERR_RESET);
    retire(frags[0]);
    EXPECT_EQ(1u, done(VQP_OK).size());
}

TEST_F(tx, partly_posted_ops_can_not_succeed) {
    m_depth = 8;
    start(1);
    rma(VQP_KIND_PUT, 100 << 16, &u[0]);
    auto frags = dispatch();
    ASSERT_EQ(6u, frags.size());
    vqp_tx_fail(&m_tx, VQP_ERR_RESET);
    EXPECT_TRUE(done().empty());
    retire(frags[5]);
    EXPECT_EQ(1u, done(VQP_ERR_RESET).size());
}

TEST_F(tx, a_sprayed_message_without_its_notify_can_not_succeed) {
    m_cfg.notify = VQP_NOTIFY_SPRAY;
    start(2);
    am(1000, &u[0]);
    auto frags = dispatch();
    vqp_tx_fail(&m_tx, VQP_ERR_RESET);
    confirm(frags);
    EXPECT_EQ(1u, done(VQP_ERR_RESET).size());
}

TEST_F(tx, abandon_ends_what_was_not_posted) {
    start(1);
    rma(VQP_KIND_PUT, 8, &u[0], 0);
    rma(VQP_KIND_PUT, 8, &u[1]);
    auto frags = dispatch();
    vqp_tx_fail(&m_tx, VQP_ERR_IO);
    vqp_tx_abandon(&m_tx, &m_paths[0], frags[1].slot, VQP_ERR_IO);
    EXPECT_EQ(std::vector<void*>{&u[1]}, done(VQP_ERR_IO));
    EXPECT_EQ(1u, vqp_tx_outstanding(&m_tx));
    retire(frags[0], VQP_ERR_CANCELED);
    EXPECT_EQ(1u, done(VQP_ERR_CANCELED).size());
    EXPECT_EQ(0u, m_paths[0].bytes);
}

TEST_F(tx, drain_nops_bring_back_what_was_acknowledged_without_a_cqe) {
    vqp_batch_t batch;

    start(2);
    rma(VQP_KIND_GET, 8, &u[0], 0);
    rma(VQP_KIND_PUT, 8, &u[1]);
    dispatch();
    vqp_tx_fail(&m_tx, VQP_ERR_RESET);
    vqp_tx_drain_nops(&m_tx, &batch);
    ASSERT_EQ(1u, batch.count); /* the other path's newest frag has a CQE */
    EXPECT_EQ(&m_paths[0], batch.frags[0].path);
    EXPECT_EQ(VQP_FRAG_SIGNALED, batch.frags[0].flags);
    EXPECT_EQ(2u, retire(batch.frags[0], VQP_ERR_CANCELED));
    EXPECT_EQ(std::vector<void*>{&u[0]}, done(VQP_OK));
    vqp_tx_drain_nops(&m_tx, &batch);
    EXPECT_EQ(0u, batch.count);
}

TEST_F(tx, drain_nops_follow_what_was_abandoned) {
    vqp_batch_t batch;

    start(1);
    rma(VQP_KIND_PUT, 8, &u[0], 0);
    rma(VQP_KIND_PUT, 8, &u[1]);
    auto frags = dispatch();
    vqp_tx_fail(&m_tx, VQP_ERR_IO);
    vqp_tx_abandon(&m_tx, &m_paths[0], frags[1].slot, VQP_ERR_IO);
    vqp_tx_drain_nops(&m_tx, &batch);
    EXPECT_EQ(1u, batch.count);
}

TEST_F(tx, post_order_holds_in_a_failure) {
    m_cfg.comp_post = 1;
    start(2);
    rma(VQP_KIND_PUT, 8, &u[0]);
    rma(VQP_KIND_PUT, 8, &u[1]);
    auto frags = dispatch();
    am(8, &u[2]);
    vqp_tx_fail(&m_tx, VQP_ERR_RESET);
    EXPECT_TRUE(done().empty());
    retire(frags[1], VQP_ERR_RESET);
    EXPECT_TRUE(done().empty());
    retire(frags[0], VQP_ERR_RESET);
    EXPECT_EQ((std::vector<void*>{&u[0], &u[1], &u[2]}), done(VQP_ERR_RESET));
}

TEST_F(tx, buffers_are_in_use_until_reported) {
    start(1);
    rma(VQP_KIND_PUT, 8, nullptr, VQP_OP_SIGNAL);
    EXPECT_FALSE(vqp_tx_uses_buffers(&m_tx));
    rma(VQP_KIND_PUT, 8, &u[0], VQP_OP_SIGNAL | VQP_OP_BUFFER);
    EXPECT_TRUE(vqp_tx_uses_buffers(&m_tx));
    confirm(dispatch());
    done();
    EXPECT_FALSE(vqp_tx_uses_buffers(&m_tx));
}

} /* namespace */
