/*
 * Splitting ops into frags: sizes, pieces, fsns, requested completions, fences,
 * and the limits of a path.
 */
#include "txkit.h"

#include <algorithm>

namespace {

class dispatch : public txkit {
protected:
    /* Frags cover [0, length) of the source and of the target, in order */
    static void check_cover(const std::vector<vqp_frag_t> &frags,
                            uint64_t length) {
        uint64_t offset = 0;

        for (const vqp_frag_t &frag : frags) {
            ASSERT_EQ(HEAP_ADDR + offset, frag.raddr);
            ASSERT_EQ(1, frag.nsge);
            ASSERT_EQ(USER_ADDR + offset, frag.sge[0].addr);
            ASSERT_EQ(frag.length, frag.sge[0].length);
            ASSERT_GT(frag.length, 0u);
            offset += frag.length;
        }
        ASSERT_EQ(length, offset);
    }
};

/* ---- frags ---- */

TEST_F(dispatch, one_path_cuts_only_at_the_largest_frag) {
    start(1);
    rma(VQP_KIND_PUT, 65536);
    EXPECT_EQ(1u, txkit::dispatch().size());
    rma(VQP_KIND_PUT, 65537);
    auto frags = batch();
    ASSERT_EQ(2u, frags.size());
    EXPECT_EQ(1u, frags[1].length);
}

TEST_F(dispatch, several_paths_get_power_of_two_frags) {
    start(4);
    for (uint64_t length : {255, 256, 257, 1000, 1024, 1025, 5000, 65536}) {
        rma(VQP_KIND_PUT, length);
        auto frags = batch();

        check_cover(frags, length);
        EXPECT_LE(frags.size(), 8u);
        for (const vqp_frag_t &frag : frags) {
            EXPECT_TRUE((&frag == &frags.back()) ||
                        (frag.length == frags[0].length));
        }
        EXPECT_TRUE((frags.size() == 1) ||
                    ((frags[0].length & (frags[0].length - 1)) == 0));
        EXPECT_TRUE((frags.size() == 1) || (frags[0].length >= 256));
        confirm(frags);
    }
}

TEST_F(dispatch, a_large_op_uses_all_paths_evenly) {
    start(7);
    m_tx.limits.frag_shift = 10;
    rma(VQP_KIND_PUT, 70 * 1024);
    auto frags = txkit::dispatch();
    EXPECT_EQ(70u, frags.size());
    for (const vqp_path_t &path : m_paths) {
        EXPECT_EQ(10u, path.stats.frags);
        EXPECT_EQ(10240u, path.stats.bytes);
    }
}

TEST_F(dispatch, small_messages_rotate_over_the_paths) {
    start(4);
    for (unsigned i = 0; i < 8; ++i) {
        am(8);
    }
    txkit::dispatch();
    for (const vqp_path_t &path : m_paths) {
        EXPECT_EQ(2u, path.stats.frags);
    }
}

TEST_F(dispatch, frag_borders_are_not_piece_borders) {
    vqp_iov_t ext[128 * 4];

    start(2);
    vqp_tx_set_iov_ext(&m_tx, ext, 4);
    rma_iov(VQP_KIND_PUT, {{1000, 300, &m_lkey}, {2000, 0, &m_lkey},
                           {3000, 400, &m_lkey}, {4000, 324, &m_lkey}});
    auto frags = batch();
    ASSERT_EQ(2u, frags.size());
    ASSERT_EQ(512u, frags[0].length);
    ASSERT_EQ(2, frags[0].nsge);
    EXPECT_EQ(1000u, frags[0].sge[0].addr);
    EXPECT_EQ(300u, frags[0].sge[0].length);
    EXPECT_EQ(3000u, frags[0].sge[1].addr);
    EXPECT_EQ(212u, frags[0].sge[1].length);
    ASSERT_EQ(2, frags[1].nsge);
    EXPECT_EQ(3212u, frags[1].sge[0].addr);
    EXPECT_EQ(188u, frags[1].sge[0].length);
    EXPECT_EQ(4000u, frags[1].sge[1].addr);
    EXPECT_EQ(324u, frags[1].sge[1].length);
}

TEST_F(dispatch, empty_pieces_at_both_ends_are_skipped) {
    vqp_iov_t ext[128 * 4];

    start(1);
    vqp_tx_set_iov_ext(&m_tx, ext, 4);
    rma_iov(VQP_KIND_PUT, {{1, 0, &m_lkey}, {2, 0, &m_lkey},
                           {3000, 5, &m_lkey}, {4, 0, &m_lkey}});
    auto frags = batch();
    ASSERT_EQ(1u, frags.size());
    ASSERT_EQ(1, frags[0].nsge);
    EXPECT_EQ(3000u, frags[0].sge[0].addr);
}

TEST_F(dispatch, keys_are_those_of_the_paths_rails) {
    uint32_t lkeys[2] = {31, 32}, rkeys[2] = {41, 42};

    start(2);
    m_paths[1].rail      = 1;
    m_paths[0].peer_rail = 1;
    m_lkey = 0;
    vqp_op_t *op = begin(VQP_KIND_PUT, nullptr, 0);
    op->rma.rkeys  = rkeys;
    op->length = 512;
    *vqp_tx_op_iov(&m_tx, op, 1) = {USER_ADDR, 512, lkeys};
    vqp_tx_rma_set_frag_size(&m_tx, op);
    vqp_tx_rma_commit(&m_tx, op);
    auto frags = batch();
    ASSERT_EQ(2u, frags.size());
    EXPECT_EQ(42u, frags[0].rkey);
    EXPECT_EQ(31u, frags[0].sge[0].lkey);
    EXPECT_EQ(41u, frags[1].rkey);
    EXPECT_EQ(32u, frags[1].sge[0].lkey);
}

TEST_F(dispatch, lengths_around_2_and_4_gib_are_covered_whole) {
    m_cfg.frag_shift = 26;
    m_depth          = 1000;
    for (unsigned num_paths : {1, 4}) {
        for (uint64_t length : {1ul << 31, 3000000000ul, (1ul << 32) - 1,
                                1ul << 32, (1ul << 32) + 1, 5000000000ul}) {
            for (vqp_kind_t kind : {VQP_KIND_PUT, VQP_KIND_GET}) {
                start(num_paths);
                rma(kind, length, &u[0]);
                auto frags = txkit::dispatch();

                check_cover(frags, length);
                confirm(frags);
                vqp_done_t done;
                ASSERT_TRUE(vqp_tx_pop_done(&m_tx, &done));
                EXPECT_EQ(length, done.length);
                EXPECT_EQ(0u, m_paths[0].bytes);
            }
        }
    }
}

TEST_F(dispatch, a_frag_may_have_2_gib) {
    m_cfg.frag_shift = 31;
    start(1);
    rma(VQP_KIND_PUT, 5000000000ul, &u[0]);
    auto frags = batch();
    EXPECT_EQ(3u, frags.size());
    EXPECT_EQ(1u << 31, frags[0].length);
    check_cover(frags, 5000000000ul);
}

TEST_F(dispatch, a_probe_is_an_empty_write) {
    start(2);
    probe();
    auto frags = batch();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_KIND_NOP, (int)frags[0].kind);
    EXPECT_EQ(VQP_WR_WRITE, frags[0].opcode);
    EXPECT_EQ(0u, frags[0].length);
    EXPECT_EQ(0, frags[0].nsge);
    EXPECT_EQ(m_rkeys[0], frags[0].rkey);
    EXPECT_EQ(+CELLS_ADDR, frags[0].raddr);
    EXPECT_EQ((unsigned)VQP_FRAG_SIGNALED,
              frags[0].flags & VQP_FRAG_SIGNALED);
    EXPECT_TRUE(batch().empty());
    EXPECT_EQ(1u, vqp_opring_count(&m_tx.rma)); /* a barrier, which waits for it */
    confirm(frags);
    EXPECT_EQ(0u, vqp_tx_outstanding(&m_tx));
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.rma));
}

TEST_F(dispatch, a_probe_needs_no_frag_of_its_own_if_something_is_in_flight) {
    start(2);
    rma(VQP_KIND_PUT, 8);
    probe();
    auto frags = batch();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_KIND_PUT, (int)frags[0].kind);
    EXPECT_FALSE(vqp_tx_has_work(&m_tx));
    confirm(frags);
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.rma));
}

TEST_F(dispatch, a_probe_without_a_path_waits_for_one) {
    start(2);
    m_paths[0].up = m_paths[1].up = 0;
    probe();
    EXPECT_TRUE(batch().empty());
    EXPECT_EQ(1u, vqp_opring_count(&m_tx.rma));
    m_paths[1].up = 1;
    confirm(batch());
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.rma));
}

TEST_F(dispatch, opcodes_and_atomics) {
    uint64_t result;

    start(1);
    rma(VQP_KIND_GET, 8);
    fadd(&result);
    auto frags = batch();
    EXPECT_EQ(VQP_WR_READ, frags[0].opcode);
    EXPECT_EQ(VQP_WR_FADD, frags[1].opcode);
    EXPECT_EQ((uintptr_t)&m_results[1], frags[1].sge[0].addr);
    EXPECT_EQ(2, m_paths[0].reads);
    EXPECT_EQ(2, m_paths[0].rma);
}

TEST_F(dispatch, short_messages_go_inline_from_the_mirror) {
    start(1);
    am(48);
    am(49);
    auto frags = batch();
    EXPECT_TRUE(frags[0].flags & VQP_FRAG_INLINE);
    EXPECT_FALSE(frags[1].flags & VQP_FRAG_INLINE);
    EXPECT_EQ((uintptr_t)m_mirror.data(), frags[0].sge[0].addr);
    EXPECT_EQ(64u, frags[0].length);
}

TEST_F(dispatch, a_zcopy_message_takes_header_from_mirror_and_rest_from_user) {
    vqp_tx_am_t am;

    start(1);
    ASSERT_TRUE(vqp_tx_am_begin(&m_tx, 500, 0, &am));
    vqp_record_t *record = am.record;
    am.op->user_kind     = 0;
    vqp_iov_t *iov       = vqp_tx_op_iov(&m_tx, am.op, 2);
    iov[1] = {USER_ADDR, 490, &m_lkey};
    vqp_tx_am_commit(&m_tx, am, 3, 500, 10, &m_credit);
    auto frags = batch();
    ASSERT_EQ(1u, frags.size());
    ASSERT_EQ(2, frags[0].nsge);
    EXPECT_EQ((uintptr_t)record, frags[0].sge[0].addr);
    EXPECT_EQ(sizeof(*record) + 10, frags[0].sge[0].length);
    EXPECT_EQ(+USER_ADDR, frags[0].sge[1].addr);
    EXPECT_EQ(490u, frags[0].sge[1].length);
    EXPECT_EQ(500u, record->length);
    EXPECT_EQ(3, record->am_id);
    EXPECT_EQ(m_credit.ring, record->credit_ring);
    EXPECT_EQ(m_credit.fsn, record->credit_fsn);
}

/* ---- order and fsns ---- */

TEST_F(dispatch, order_is_control_am_rma) {
    start(1);
    rma(VQP_KIND_PUT, 8);
    am(8);
    want_credit();
    auto frags = batch();
    ASSERT_EQ(3u, frags.size());
    EXPECT_EQ(VQP_KIND_CREDIT, frags[0].kind);
    EXPECT_EQ(VQP_KIND_AM, frags[1].kind);
    EXPECT_EQ(VQP_KIND_PUT, frags[2].kind);
}

TEST_F(dispatch, puts_gets_and_nops_take_no_fsns) {
    start(4);
    rma(VQP_KIND_PUT, 4096);
    rma(VQP_KIND_GET, 4096);
    probe();
    for (const vqp_frag_t &frag : batch()) {
        EXPECT_NE(VQP_WR_WRITE_IMM, frag.opcode);
    }
    EXPECT_EQ(0u, vqp_tx_fsns_out(&m_tx));
}

TEST_F(dispatch, dqplb_gives_every_frag_an_fsn_and_closes_with_the_last) {
    start(4);
    am(1000);
    am(8);
    auto frags = batch();
    ASSERT_EQ(5u, frags.size());
    for (unsigned i = 0; i < 5; ++i) {
        EXPECT_EQ(VQP_WR_WRITE_IMM, frags[i].opcode);
        EXPECT_EQ(100 + i, vqp_imm_fsn(frags[i].imm));
        EXPECT_EQ(i >= 3, (frags[i].imm & VQP_IMM_LAST) != 0);
    }
}

TEST_F(dispatch, control_advertises_the_credit_in_the_cell_of_its_path) {
    start(2);
    am(8);
    batch();
    want_credit();
    auto frags = batch();
    ASSERT_EQ(1u, frags.size());
    auto *cell = (vqp_cell_t*)&m_cells[VQP_CELL_STRIDE];
    EXPECT_EQ(101u | VQP_IMM_CREDIT, frags[0].imm);
    EXPECT_EQ(CELLS_ADDR + VQP_CELL_STRIDE, frags[0].raddr);
    EXPECT_EQ((uintptr_t)cell, frags[0].sge[0].addr);
    EXPECT_EQ(m_credit.ring, cell->credit_ring);
    EXPECT_EQ(m_credit.fsn, cell->credit_fsn);
    EXPECT_EQ(0u, cell->flags);
    EXPECT_FALSE(vqp_tx_has_work(&m_tx));
}

TEST_F(dispatch, control_is_sent_when_data_can_not_be) {
    m_depth = 8;
    start(1);
    for (unsigned i = 0; i < 10; ++i) {
        rma(VQP_KIND_PUT, 8);
    }
    EXPECT_EQ(6u, batch().size());
    want_credit();
    EXPECT_EQ(1u, batch().size());
    want_credit();
    EXPECT_EQ(1u, batch().size());
    want_credit();
    EXPECT_TRUE(batch().empty());
    EXPECT_TRUE(vqp_tx_has_work(&m_tx));
}

TEST_F(dispatch, control_is_not_counted_as_data) {
    start(1);
    want_credit();
    batch();
    EXPECT_EQ(0u, m_paths[0].stats.frags);
    EXPECT_EQ(0u, m_paths[0].stats.bytes);
    EXPECT_EQ(1u, m_paths[0].stats.imms);
}

TEST_F(dispatch, atomics_go_to_the_rail_that_the_key_names) {
    start(4);
    m_paths[1].peer_rail = m_paths[3].peer_rail = 1;
    m_tx.limits.amo_needs = VQP_NEED_RAIL; /* as init sees it */
    for (unsigned i = 0; i < 6; ++i) {
        fadd(nullptr);
        m_rma_ops[i].amo.rail = 1;
    }
    for (const vqp_frag_t &frag : batch()) {
        EXPECT_EQ(1, frag.path->peer_rail);
    }
    rma(VQP_KIND_PUT, 8);
    rma(VQP_KIND_PUT, 8);
    EXPECT_EQ(2u, batch().size()); /* puts go anywhere */
}

/* ---- spray ---- */

TEST_F(dispatch, spray_notifies_when_all_data_is_acknowledged) {
    m_cfg.notify = VQP_NOTIFY_SPRAY;
    start(2);
    am(1000, &u[0]);
    auto data = batch();
    ASSERT_GE(data.size(), 2u);
    for (const vqp_frag_t &frag : data) {
        EXPECT_EQ(VQP_WR_WRITE, frag.opcode);
    }
    EXPECT_EQ(1u, vqp_tx_fsns_out(&m_tx));

    confirm({data.begin(), data.end() - 1});
    EXPECT_TRUE(batch().empty());
    confirm({data.back()});
    EXPECT_TRUE(done().empty());
    auto notify = batch();
    ASSERT_EQ(1u, notify.size());
    EXPECT_EQ(VQP_WR_WRITE_IMM, notify[0].opcode);
    EXPECT_EQ(100u | VQP_IMM_LAST, notify[0].imm);
    EXPECT_EQ(0u, notify[0].length);
    confirm(notify);
    EXPECT_EQ(1u, done().size());
}

TEST_F(dispatch, spray_of_one_frag_is_its_own_notify) {
    m_cfg.notify = VQP_NOTIFY_SPRAY;
    start(2);
    am(100);
    auto frags = batch();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(100u | VQP_IMM_LAST, frags[0].imm);
}

TEST_F(dispatch, sprayed_messages_are_pipelined) {
    m_cfg.notify = VQP_NOTIFY_SPRAY;
    start(2);
    am(1000);
    am(1000);
    am(0);
    auto frags = batch();
    auto first = std::vector<vqp_frag_t>(), second = first;
    for (const vqp_frag_t &frag : frags) {
        if (frag.op == &m_am_ops[0]) {
            first.push_back(frag);
        } else if (frag.op == &m_am_ops[1]) {
            second.push_back(frag);
        }
    }
    EXPECT_EQ(102u | VQP_IMM_LAST, frags.back().imm);

    /* A CQE of the second would confirm the first only on the same path. So the
     * second is done first if the first is alone on its path */
    for (const vqp_frag_t &frag : second) {
        retire(frag);
    }
    auto notify = batch();
    ASSERT_EQ(2u, notify.size());
    EXPECT_EQ(100u | VQP_IMM_LAST, notify[0].imm);
    EXPECT_EQ(101u | VQP_IMM_LAST, notify[1].imm);
}

TEST_F(dispatch, second_sprayed_message_acknowledged_first_notifies_first) {
    m_cfg.notify = VQP_NOTIFY_SPRAY;
    start(4);
    m_paths[2].up = m_paths[3].up = 0;
    am(1000);
    auto first = batch();
    m_paths[2].up = m_paths[3].up = 1;
    m_paths[0].up = m_paths[1].up = 0;
    am(1000);
    auto second = batch();
    confirm(second);
    auto notify = batch();
    ASSERT_EQ(1u, notify.size());
    EXPECT_EQ(101u | VQP_IMM_LAST, notify[0].imm);
    confirm(first);
    notify = batch();
    ASSERT_EQ(1u, notify.size());
    EXPECT_EQ(100u | VQP_IMM_LAST, notify[0].imm);
}

/* ---- tail ---- */

class tail : public dispatch {
protected:
    tail() {
        m_cfg.notify     = VQP_NOTIFY_TAIL;
        m_cfg.frag_shift = m_cfg.min_shift = 8;
    }

    static std::vector<vqp_frag_t> immediates(const std::vector<vqp_frag_t> &f) {
        std::vector<vqp_frag_t> imms;

        for (const vqp_frag_t &frag : f) {
            if (frag.opcode == VQP_WR_WRITE_IMM) {
                imms.push_back(frag);
            }
        }
        return imms;
    }
};

TEST_F(tail, the_last_frag_on_each_path_carries_the_immediate) {
    start(4);
    am(1500); /* 6 frags: two on paths 0 and 1, one on 2 and 3 */
    auto frags = batch();
    ASSERT_EQ(6u, frags.size());
    for (unsigned i = 0; i < 2; ++i) {
        EXPECT_EQ(VQP_WR_WRITE, frags[i].opcode);
    }
    EXPECT_EQ(102u, frags[2].imm);
    EXPECT_EQ(103u | VQP_IMM_LAST, frags[3].imm);
    EXPECT_EQ(100u, frags[4].imm);
    EXPECT_EQ(101u, frags[5].imm);
    EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
    EXPECT_EQ(4u, vqp_tx_fsns_out(&m_tx));
}

TEST_F(tail, fewer_paths_than_reserved_give_their_fsns_back) {
    start(4);
    m_paths[1].up = m_paths[3].up = 0;
    am(1500, &u[0]);
    auto frags = batch();
    EXPECT_EQ(2u, immediates(frags).size());
    EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
    EXPECT_EQ(2u, vqp_tx_fsns_out(&m_tx));
    vqp_tx_reclaim(&m_tx);
    confirm(frags);
    confirm(batch());
    EXPECT_EQ(1u, done().size());
}

TEST_F(tail, a_path_whose_last_frag_is_out_gets_an_empty_one) {
    m_cfg.path_cap = 256; /* a frag per path and batch */
    start(2);
    am(700, &u[0]); /* 3 frags */
    auto first = batch();
    ASSERT_EQ(2u, first.size());
    EXPECT_TRUE(immediates(first).empty());
    retire(first[0]); /* path 0 takes the third */
    auto rest = batch();
    ASSERT_EQ(2u, rest.size());
    EXPECT_EQ(100u, rest[0].imm);
    EXPECT_EQ(0, rest[0].path->index);
    EXPECT_EQ(101u | VQP_IMM_LAST, rest[1].imm);
    EXPECT_EQ(0u, rest[1].length);
    EXPECT_EQ(1, rest[1].path->index);

    vqp_tx_reclaim(&m_tx);
    confirm(first);
    EXPECT_TRUE(done().empty());
    confirm(rest);
    confirm(batch());
    EXPECT_EQ(1u, done().size());
}

TEST_F(tail, an_am_that_owes_immediates_is_not_over_and_nothing_passes_it) {
    m_cfg.path_cap = 256;
    start(2);
    am(700, &u[0]);
    am(0, &u[1]);
    auto first = batch();
    retire(first[0]);
    m_paths[1].up = 0; /* no path takes the empty immediate */
    auto rest = batch();
    ASSERT_EQ(1u, rest.size());
    EXPECT_EQ(100u, rest[0].imm);
    m_paths[1].up = 1;
    retire(first[1]);
    retire(rest[0]);
    m_paths[1].up = 0;
    EXPECT_TRUE(done().empty());
    EXPECT_TRUE(batch().empty());
    m_paths[1].up = 1;
    rest = batch();
    ASSERT_EQ(2u, rest.size());
    EXPECT_EQ(101u | VQP_IMM_LAST, rest[0].imm);
    EXPECT_EQ(102u | VQP_IMM_LAST, rest[1].imm);
    vqp_tx_reclaim(&m_tx);
    confirm(batch());
    EXPECT_EQ(2u, done().size());
}

TEST_F(tail, a_failure_ends_an_am_that_owes_immediates) {
    m_cfg.path_cap = 256;
    start(2);
    am(700, &u[0]);
    auto first = batch();
    retire(first[0]);
    m_paths[1].up = 0;
    auto rest = batch();
    retire(first[1]);
    retire(rest[0]);
    vqp_tx_fail(&m_tx, VQP_ERR_IO);
    EXPECT_EQ(1u, done(VQP_ERR_IO).size());
}

TEST_F(tail, of_one_frag_is_its_own_notify) {
    start(2);
    am(100);
    auto frags = batch();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(100u | VQP_IMM_LAST, frags[0].imm);
}

TEST_F(tail, on_one_path_one_immediate_announces_all_frags) {
    start(1);
    am(1500);
    auto frags = batch();
    ASSERT_EQ(6u, frags.size());
    ASSERT_EQ(1u, immediates(frags).size());
    EXPECT_EQ(100u | VQP_IMM_LAST, frags[5].imm);
}

/* ---- auto ---- */

class notify_auto : public tail {
protected:
    notify_auto() {
        m_cfg.notify = VQP_NOTIFY_AUTO;
    }
};

TEST_F(notify_auto, with_no_more_frags_than_paths_each_carries_an_immediate) {
    start(4);
    am(1000); /* 4 frags with the header */
    auto frags = batch();
    ASSERT_EQ(4u, frags.size());
    EXPECT_EQ(4u, immediates(frags).size());
    EXPECT_EQ(103u | VQP_IMM_LAST, frags[3].imm);
    EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
}

TEST_F(notify_auto, with_more_the_last_on_each_path_does) {
    start(4);
    am(1010); /* 5 frags */
    auto frags = batch();
    ASSERT_EQ(5u, frags.size());
    EXPECT_EQ(4u, immediates(frags).size());
    EXPECT_EQ(VQP_WR_WRITE, frags[0].opcode);
    EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
}

TEST_F(notify_auto, one_frag_is_its_own_notify) {
    start(4);
    am(100);
    auto frags = batch();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(100u | VQP_IMM_LAST, frags[0].imm);
}

TEST_F(notify_auto, messages_announced_in_different_ways_keep_their_order) {
    start(2);
    am(1000); /* 4 frags: tail */
    am(500);  /* 3 frags, as begun: tail */
    am(400);  /* 2 frags: dqplb */
    am(10);
    auto frags = immediates(batch());
    ASSERT_EQ(7u, frags.size());
    std::sort(frags.begin(), frags.end(),
              [](const vqp_frag_t &x, const vqp_frag_t &y) {
        return (x.imm & VQP_FSN_MASK) < (y.imm & VQP_FSN_MASK);
    });
    for (unsigned i = 0; i < 7; ++i) {
        EXPECT_EQ(100u + i, frags[i].imm & VQP_FSN_MASK);
    }
    for (unsigned last : {1u, 3u, 5u, 6u}) {
        EXPECT_TRUE(frags[last].imm & VQP_IMM_LAST);
    }
}

/* begin reserves for the longest message. The committed message may be announced
 * in another way, and must not need more */
TEST_F(notify_auto, a_shorter_message_than_begun_keeps_within_what_was_reserved) {
    for (uint32_t max = 600; max <= 2000; max += 100) {
        for (uint32_t length = 0; length <= max; length += 50) {
            m_cfg.frag_shift = 10;
            start(3);
            am(length, nullptr, max);
            auto frags = batch();
            EXPECT_EQ(0u, m_tx.fc.fsn_reserved) << length << " of " << max;
            EXPECT_EQ(length + sizeof(vqp_record_t), bytes(frags));
            EXPECT_EQ(vqp_tx_fsns_out(&m_tx), immediates(frags).size());
            EXPECT_EQ(1u, std::count_if(frags.begin(), frags.end(),
                                        [](const vqp_frag_t &frag) {
                return (frag.opcode == VQP_WR_WRITE_IMM) &&
                       (frag.imm & VQP_IMM_LAST);
            }));
        }
    }
}

/* ---- requested completions ---- */

TEST_F(dispatch, a_path_is_refilled_a_quarter_at_a_time) {
    m_cfg.path_cap   = 1024;
    m_cfg.frag_shift = m_cfg.min_shift = 7;
    start(1);
    rma(VQP_KIND_PUT, 2048, &u[0]);
    auto frags = batch();
    ASSERT_EQ(8u, frags.size());
    for (unsigned i = 0; i < 8; ++i) { /* 256 bytes each */
        EXPECT_EQ(i % 2, signaled({frags[i]})) << i;
    }
    retire(frags[1]);
    EXPECT_EQ(2u, batch().size());
}

TEST_F(dispatch, an_op_asks_for_one_cqe_per_path_of_a_batch) {
    start(2);
    m_tx.limits.frag_shift = 8;
    rma(VQP_KIND_PUT, 256 * 8, &u[0]);
    auto frags = batch();
    ASSERT_EQ(8u, frags.size());
    EXPECT_EQ(2u, signaled(frags));
    EXPECT_TRUE(frags[6].flags & VQP_FRAG_SIGNALED);
    EXPECT_TRUE(frags[7].flags & VQP_FRAG_SIGNALED);
    confirm(frags);
    EXPECT_EQ(1u, done().size());
}

TEST_F(dispatch, a_frag_that_needs_no_cqe_keeps_its_other_flags) {
    start(1);
    m_tx.limits.frag_shift = 8;
    rma(VQP_KIND_GET, 8);
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 512);
    auto frags = batch();
    ASSERT_EQ(3u, frags.size());
    EXPECT_EQ(VQP_FRAG_FENCE, frags[1].flags);
    EXPECT_EQ(VQP_FRAG_SIGNALED, frags[2].flags);
}

TEST_F(dispatch, an_op_keeps_its_cqe_whatever_stood_there_in_the_last_batch) {
    start(1);
    for (unsigned i = 0; i < 3; ++i) {
        rma(VQP_KIND_PUT, 8, &u[i]);
        auto frags = batch();
        ASSERT_EQ(1u, frags.size());
        EXPECT_TRUE(frags[0].flags & VQP_FRAG_SIGNALED) << i;
    }
}

TEST_F(dispatch, a_notify_keeps_its_cqe_whatever_stood_there_in_the_last_batch) {
    m_cfg.notify = VQP_NOTIFY_SPRAY;
    start(2);
    am(500, &u[0]);
    auto data = batch();
    ASSERT_EQ(3u, data.size());
    confirm(data);
    auto notify = batch();
    ASSERT_EQ(1u, notify.size());
    EXPECT_TRUE(notify[0].flags & VQP_FRAG_SIGNALED);
}

TEST_F(dispatch, each_op_keeps_its_own_cqe) {
    start(1);
    rma(VQP_KIND_PUT, 8, &u[0]);
    rma(VQP_KIND_PUT, 8, &u[1]);
    EXPECT_EQ(2u, signaled(batch()));
}

TEST_F(dispatch, every_nth_frag_is_signaled) {
    m_cfg.signal_every = 4;
    start(1);
    for (unsigned i = 0; i < 10; ++i) {
        am(0);
    }
    auto frags = batch();
    for (unsigned i = 0; i < 10; ++i) {
        EXPECT_EQ((i % 4) == 3, (frags[i].flags & VQP_FRAG_SIGNALED) != 0);
    }
}

/* Whatever signal_every is: a path that is full of unsignaled frags would stay
 * full */
TEST_F(dispatch, messages_that_fill_a_path_bring_a_cqe) {
    for (uint32_t every = 1; every <= 40; ++every) {
        m_cfg.signal_every = every;
        m_cfg.ring_size    = 1 << 16;
        start(1);
        while (am(0)) {
        }
        auto frags = txkit::dispatch();
        ASSERT_EQ((size_t)m_depth - VQP_CONTROL_RESERVE, frags.size());
        unsigned unsignaled = 0;
        for (const vqp_frag_t &frag : frags) {
            unsignaled = (frag.flags & VQP_FRAG_SIGNALED) ? 0 : unsignaled + 1;
            EXPECT_LT(unsignaled, every) << every;
        }
        EXPECT_EQ(0u, unsignaled) << every;
    }
}

TEST_F(dispatch, many_bytes_of_messages_are_signaled) {
    start(1);
    am(500);
    am(500);
    auto frags = batch();
    EXPECT_FALSE(frags[0].flags & VQP_FRAG_SIGNALED && frags[1].flags == 0);
    EXPECT_EQ(1u, signaled({frags[1]}));
}

TEST_F(dispatch, the_frag_that_fills_a_path_is_signaled) {
    m_cfg.path_cap = 100;
    start(1);
    for (unsigned i = 0; i < 4; ++i) {
        rma(VQP_KIND_PUT, 60, nullptr, 0);
    }
    auto frags = batch();
    ASSERT_EQ(2u, frags.size());
    EXPECT_TRUE(frags[1].flags & VQP_FRAG_SIGNALED);
    confirm(frags);
    EXPECT_EQ(2u, batch().size());
}

/* ---- limits of a path ---- */

TEST_F(dispatch, a_put_waits_for_room_and_goes_on_where_it_was) {
    m_depth = 6;
    start(2);
    m_tx.limits.frag_shift = 8;
    rma(VQP_KIND_PUT, 256 * 20, &u[0]);
    std::vector<vqp_frag_t> all, some = batch();
    EXPECT_EQ(8u, some.size());
    while (!some.empty()) {
        all.insert(all.end(), some.begin(), some.end());
        confirm(some);
        some = batch();
    }
    check_cover(all, 256 * 20);
    EXPECT_EQ(1u, done().size());
}

TEST_F(dispatch, a_batch_is_never_exceeded) {
    m_depth = 200;
    start(1);
    m_tx.limits.frag_shift = 8;
    rma(VQP_KIND_PUT, 256 * 100);
    EXPECT_EQ((size_t)VQP_BATCH_MAX, batch().size());
    EXPECT_EQ(100u - VQP_BATCH_MAX, txkit::dispatch().size());
}

TEST_F(dispatch, a_message_overtakes_an_accepted_large_put) {
    m_cfg.path_cap = 1000;
    start(1);
    m_tx.limits.frag_shift = 10;
    rma(VQP_KIND_PUT, 1 << 20);
    auto frags = batch();
    EXPECT_EQ(1u, frags.size());
    am(8);
    EXPECT_TRUE(batch().empty());
    confirm(frags);
    frags = batch();
    EXPECT_EQ(VQP_KIND_AM, frags[0].kind);
}

/* However long a message waits, the credit in it is not far behind */
TEST_F(dispatch, a_message_that_waited_advertises_what_a_control_message_advertised) {
    std::vector<vqp_frag_t> frags;
    const vqp_record_t *record;

    m_cfg.path_cap = 1000;
    start(1);
    rma(VQP_KIND_PUT, 1 << 18);
    vqp_tx_fence(&m_tx);
    am(8);
    frags    = batch();
    m_credit = {70000, 70};
    m_tx.slow |= VQP_TX_CREDIT;
    EXPECT_EQ(1u, count(batch(), VQP_KIND_CREDIT));
    m_credit = {80000, 80};
    am(8); /* later than the credit update: its credit is newer */
    while (count(frags, VQP_KIND_AM) == 0) {
        ASSERT_FALSE(frags.empty());
        vqp_tx_reclaim(&m_tx);
        confirm(frags);
        frags = batch();
    }
    record = (const vqp_record_t*)m_cfg.mirror;
    EXPECT_EQ(70000u, record->credit_ring);
    EXPECT_EQ(70u, record->credit_fsn);
    record = (const vqp_record_t*)(m_cfg.mirror + vqp_record_size(8));
    EXPECT_EQ(80000u, record->credit_ring);
    EXPECT_EQ(80u, record->credit_fsn);
}

/* ---- fences ---- */

TEST_F(dispatch, fence_of_an_idle_sender_does_nothing) {
    start(4);
    vqp_tx_fence(&m_tx);
    am(8);
    rma(VQP_KIND_PUT, 8);
    EXPECT_EQ(0u, count(batch(), VQP_KIND_FENCE));
}

TEST_F(dispatch, fence_sends_an_empty_immediate_behind_each_put) {
    start(4);
    rma(VQP_KIND_PUT, 8);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    am(8);
    auto frags = batch();
    ASSERT_EQ(5u, frags.size());
    EXPECT_EQ(VQP_KIND_PUT, frags[0].kind);
    EXPECT_EQ(VQP_KIND_PUT, frags[1].kind);
    EXPECT_EQ(VQP_KIND_FENCE, frags[2].kind);
    EXPECT_EQ(VQP_KIND_FENCE, frags[3].kind);
    EXPECT_EQ(frags[0].path, frags[2].path);
    EXPECT_EQ(frags[1].path, frags[3].path);
    EXPECT_EQ(100u, frags[2].imm);
    EXPECT_EQ(101u, frags[3].imm);
    EXPECT_EQ(0u, frags[3].length);
    EXPECT_EQ(102u | VQP_IMM_LAST, frags[4].imm);
    EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
    EXPECT_EQ(2u, m_stats.fences);
}

/* Fence frags belong to their message: without CQEs the message and a flush
 * behind it would not end */
TEST_F(dispatch, fence_frags_of_a_message_that_is_reclaimed_have_cqes) {
    start(4);
    for (vqp_path_t &path : m_paths) {
        path.up = 0;
    }
    for (unsigned i = 0; i < 3; ++i) {
        rma(VQP_KIND_PUT, 8, nullptr, 0);
    }
    vqp_tx_fence(&m_tx);
    am(8);
    vqp_tx_reclaim(&m_tx);
    EXPECT_TRUE(batch().empty()); /* nothing is in flight that needs a nop */
    for (vqp_path_t &path : m_paths) {
        path.up = 1;
    }
    auto frags = batch();
    EXPECT_EQ(3u, count(frags, VQP_KIND_FENCE));
    EXPECT_EQ(0u, count(frags, VQP_KIND_NOP));
    confirm(frags);
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.am));
    EXPECT_EQ(0u, vqp_tx_outstanding(&m_tx));
}

/* put, fence, message, fence, put: the second put waits for the message */
TEST_F(dispatch, a_put_behind_a_fenced_message_is_not_stranded) {
    start(2);
    for (unsigned i = 0; i < 4; ++i) { /* the second on a path has no CQE */
        rma(VQP_KIND_PUT, 8, nullptr, 0);
    }
    (void)batch();
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8, nullptr, 0); /* held: it reclaims those */
    vqp_tx_fence(&m_tx);
    am(8);
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_GET, 8, &u[0]);
    for (unsigned i = 0; (i < 10) && done().empty(); ++i) {
        ASSERT_LT(i, 9u);
        confirm(batch());
    }
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.am));
}

TEST_F(dispatch, fence_needs_nothing_behind_confirmed_puts) {
    start(4);
    rma(VQP_KIND_PUT, 8, &u[0]);
    confirm(batch()); /* not reported, but executed */
    vqp_tx_fence(&m_tx);
    am(8);
    auto frags = batch();
    EXPECT_EQ(1u, frags.size());
    EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
}

TEST_F(dispatch, fence_is_idempotent_and_serves_one_message) {
    start(2);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    vqp_tx_fence(&m_tx);
    am(8);
    am(8);
    EXPECT_EQ(1u, count(batch(), VQP_KIND_FENCE));
}

TEST_F(dispatch, without_a_fence_messages_do_not_wait_for_puts) {
    m_cfg.path_cap = 1000;
    start(2);
    rma(VQP_KIND_PUT, 1 << 20);
    am(8);
    EXPECT_EQ(VQP_KIND_AM, batch()[0].kind);
}

TEST_F(dispatch, a_fenced_message_waits_until_earlier_puts_are_dispatched) {
    m_cfg.path_cap = 1000;
    start(1);
    m_tx.limits.frag_shift = 10;
    rma(VQP_KIND_PUT, 4096);
    vqp_tx_fence(&m_tx);
    am(8);
    for (unsigned i = 0; i < 4; ++i) {
        auto frags = batch();
        ASSERT_EQ(1u, frags.size());
        EXPECT_EQ(VQP_KIND_PUT, frags[0].kind);
        confirm(frags);
    }
    EXPECT_EQ(VQP_KIND_AM, batch()[0].kind);
}

TEST_F(dispatch, on_one_path_the_order_of_the_queue_is_the_fence) {
    start(1);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    am(8);
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8);
    auto frags = batch();
    ASSERT_EQ(3u, frags.size());
    EXPECT_EQ(VQP_KIND_PUT, frags[0].kind);
    EXPECT_EQ(VQP_KIND_AM, frags[1].kind);
    EXPECT_EQ(VQP_KIND_PUT, frags[2].kind);
    EXPECT_FALSE(frags[1].flags & VQP_FRAG_FENCE);
}

TEST_F(dispatch, on_one_path_reads_need_the_fence_flag) {
    start(1);
    rma(VQP_KIND_GET, 8);
    vqp_tx_fence(&m_tx);
    am(8);
    rma(VQP_KIND_PUT, 8);
    rma(VQP_KIND_PUT, 8);
    auto frags = batch();
    ASSERT_EQ(4u, frags.size());
    EXPECT_EQ(VQP_KIND_AM, frags[1].kind);
    EXPECT_TRUE(frags[1].flags & VQP_FRAG_FENCE);
    EXPECT_TRUE(frags[2].flags & VQP_FRAG_FENCE);
    EXPECT_FALSE(frags[3].flags & VQP_FRAG_FENCE);
}

TEST_F(dispatch, on_several_paths_the_empty_immediate_has_the_fence_flag) {
    start(2);
    rma(VQP_KIND_GET, 8);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    am(8);
    auto frags = batch();
    ASSERT_EQ(5u, frags.size());
    EXPECT_TRUE(frags[2].flags & VQP_FRAG_FENCE);
    EXPECT_FALSE(frags[3].flags & VQP_FRAG_FENCE);
}

TEST_F(dispatch, a_put_behind_a_fence_is_held_until_all_is_confirmed) {
    start(2);
    for (unsigned i = 0; i < 3; ++i) { /* the second on a path has no CQE */
        rma(VQP_KIND_PUT, 8, nullptr, 0);
    }
    am(8);
    (void)batch();
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto nop = batch();
    ASSERT_EQ(2u, nop.size()); /* one for each path: its newest frag has no CQE */
    EXPECT_EQ(2u, count(nop, VQP_KIND_NOP));
    EXPECT_TRUE(batch().empty()); /* once is enough */
    retire(nop[0]);
    EXPECT_TRUE(batch().empty());
    retire(nop[1]);
    EXPECT_EQ(1u, count(batch(), VQP_KIND_PUT));
}

/* put, fence, put, message: the message waits for the dispatch of the first put
 * alone, and not for the second, which is held until the first is confirmed */
TEST_F(dispatch, a_message_passes_a_put_that_the_fence_of_both_holds) {
    start(2);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8);
    am(8);
    auto frags = batch();
    ASSERT_EQ(5u, frags.size());
    EXPECT_EQ(VQP_KIND_PUT, (int)frags[0].kind);
    EXPECT_EQ(VQP_KIND_FENCE, (int)frags[1].kind);
    EXPECT_EQ(frags[0].path, frags[1].path);
    EXPECT_EQ(VQP_KIND_AM, (int)frags[2].kind);
    EXPECT_EQ(2u, count(frags, VQP_KIND_NOP)); /* the held put reclaims */
    EXPECT_TRUE(batch().empty());
    retire(frags[0]);
    EXPECT_EQ(1u, count(batch(), VQP_KIND_PUT));
}

/* The fence of the message waits for the puts of before it, however many were
 * accepted behind */
TEST_F(dispatch, a_message_waits_for_the_dispatch_of_what_is_before_its_fence) {
    m_cfg.path_cap = 8;
    start(2);
    for (unsigned i = 0; i < 3; ++i) {
        rma(VQP_KIND_PUT, 8);
    }
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8);
    am(8);
    auto frags = batch();
    EXPECT_EQ(2u, frags.size());
    EXPECT_EQ(2u, count(frags, VQP_KIND_PUT));
    confirm(frags);
    frags = batch(); /* the third, its fence, and the message on the other path */
    EXPECT_EQ(1u, count(frags, VQP_KIND_PUT));
    EXPECT_EQ(1u, count(frags, VQP_KIND_FENCE));
    EXPECT_EQ(1u, count(frags, VQP_KIND_AM));
}

TEST_F(dispatch, on_one_path_a_message_passes_no_put) {
    start(1);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8);
    am(8);
    auto frags = batch(); /* AMs are first, and need only the first put */
    ASSERT_EQ(3u, frags.size());
    EXPECT_EQ(VQP_KIND_PUT, (int)frags[0].kind);
    EXPECT_EQ(0u, count(frags, VQP_KIND_FENCE));
}

TEST_F(dispatch, with_order_all_a_message_waits_for_every_earlier_put) {
    m_cfg.order_all = 1;
    start(2);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8); /* held */
    am(8);
    auto frags = batch();
    EXPECT_EQ(0u, count(frags, VQP_KIND_AM));
    confirm(frags);
    frags = batch();
    EXPECT_EQ(1u, count(frags, VQP_KIND_PUT));
    EXPECT_EQ(1u, count(frags, VQP_KIND_AM));
}

TEST_F(dispatch, later_messages_pass_a_held_put) {
    start(2);
    rma(VQP_KIND_PUT, 8);
    auto first = batch();
    vqp_tx_fence(&m_tx);
    m_tx.fence.am = 0;
    rma(VQP_KIND_PUT, 8);
    am(8);
    EXPECT_EQ(1u, count(batch(), VQP_KIND_AM));
    confirm(first);
    EXPECT_EQ(1u, count(batch(), VQP_KIND_PUT));
}

TEST_F(dispatch, a_held_put_does_not_wait_for_messages_behind_the_fence) {
    start(2);
    rma(VQP_KIND_PUT, 8);
    auto first = batch();
    vqp_tx_fence(&m_tx);
    m_tx.fence.am = 0;
    am(8); /* accepted before the put */
    rma(VQP_KIND_PUT, 8);
    EXPECT_EQ(1u, count(batch(), VQP_KIND_AM));
    confirm(first);
    EXPECT_EQ(1u, count(batch(), VQP_KIND_PUT));
}

TEST_F(dispatch, a_put_behind_two_fences_waits_for_the_messages_between) {
    start(2);
    rma(VQP_KIND_PUT, 8);
    auto first = batch();
    vqp_tx_fence(&m_tx);
    m_tx.fence.am = 0;
    am(8);
    ASSERT_EQ(1u, count(batch(), VQP_KIND_AM));
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8);
    auto nop = batch();
    ASSERT_EQ(1u, count(nop, VQP_KIND_NOP)); /* for the message's path */
    confirm(first);
    EXPECT_EQ(0u, count(batch(), VQP_KIND_PUT));
    confirm(nop);
    EXPECT_EQ(1u, count(batch(), VQP_KIND_PUT));
}

/* Positions of a fence do not change: 2^31 ops later they seem to be ahead */
static void pass_2g_ops(vqp_opring_t &ring)
{
    ring.head += (1u << 31) + 2;
    ring.post += (1u << 31) + 2;
    ring.tail += (1u << 31) + 2;
}

TEST_F(dispatch, a_put_goes_2g_messages_after_the_fence) {
    start(2);
    ASSERT_TRUE(am(16));
    vqp_tx_fence(&m_tx);
    vqp_tx_reclaim(&m_tx);
    confirm(txkit::dispatch());
    ASSERT_TRUE(vqp_opring_is_empty(&m_tx.am));
    pass_2g_ops(m_tx.am);
    ASSERT_TRUE(rma(VQP_KIND_PUT, 64, this));
    EXPECT_EQ(1u, txkit::dispatch().size());
}

TEST_F(dispatch, a_message_goes_2g_puts_after_the_fence) {
    for (unsigned num_paths : {1u, 2u}) {
        start(num_paths);
        ASSERT_TRUE(rma(VQP_KIND_PUT, 64, this));
        vqp_tx_fence(&m_tx);
        confirm(txkit::dispatch());
        EXPECT_EQ(1u, done().size());
        pass_2g_ops(m_tx.rma);
        ASSERT_TRUE(am(16));
        EXPECT_EQ(1u, txkit::dispatch().size()) << num_paths;
    }
}

TEST_F(dispatch, a_path_that_is_down_does_not_keep_others_from_their_cqes) {
    start(2);
    ASSERT_TRUE(rma(VQP_KIND_GET, 64, nullptr, 0));
    ASSERT_TRUE(rma(VQP_KIND_GET, 64, nullptr, 0));
    ASSERT_EQ(2u, txkit::dispatch().size());
    m_paths[0].up = 0;
    vqp_tx_reclaim(&m_tx);
    EXPECT_EQ(1u, txkit::dispatch().size());
    m_paths[0].up = 1;
    EXPECT_EQ(1u, txkit::dispatch().size());
}

TEST_F(dispatch, order_all_fences_every_message) {
    m_cfg.order_all = 1;
    start(2);
    rma(VQP_KIND_PUT, 8);
    am(8);
    am(8);
    auto frags = batch();
    EXPECT_EQ(2u, count(frags, VQP_KIND_FENCE));
    EXPECT_EQ(VQP_KIND_PUT, frags[0].kind);
    EXPECT_EQ(VQP_KIND_FENCE, frags[1].kind);
}

TEST_F(dispatch, a_chain_of_fences_goes_out_in_one_batch) {
    start(1);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    am(8);
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8);
    vqp_tx_fence(&m_tx);
    am(8);
    vqp_tx_fence(&m_tx);
    rma(VQP_KIND_PUT, 8);
    auto frags = batch();
    ASSERT_EQ(5u, frags.size());
    for (unsigned i = 0; i < 5; ++i) {
        EXPECT_EQ((i % 2) ? VQP_KIND_AM : VQP_KIND_PUT, frags[i].kind);
    }
}

/* ---- the scheduler left ---- */

class dispatch_left : public dispatch {
protected:
    static constexpr uint64_t FRAG = 64 << 10;

    dispatch_left() {
        m_cfg.sched    = VQP_SCHED_LEFT;
        m_cfg.path_cap = 4 * FRAG;
    }

    /* A fast path that is full, and a slow one that is idle */
    void start_asymmetric() {
        start(2);
        m_tx.clock.now = 1000000000;
        vqp_rate_set(&m_paths[0].rate, 1000, m_tx.clock.now);
        vqp_rate_set(&m_paths[1].rate, 100000, m_tx.clock.now);
        m_tx.slow       |= VQP_TX_ASYMMETRIC;
        m_tx.clock.rated = m_tx.clock.now;
        m_paths[1].up    = 0;
        rma(VQP_KIND_PUT, 4 * FRAG);
        m_busy        = txkit::dispatch();
        m_paths[1].up = 1;
        ASSERT_EQ(0, m_busy.back().path->index);
        ASSERT_EQ(m_cfg.path_cap, m_paths[0].bytes);
    }

    std::vector<vqp_frag_t> m_busy;
};

TEST_F(dispatch_left, an_op_waits_for_the_busy_path_and_is_marked_deferred) {
    start_asymmetric();
    rma(VQP_KIND_PUT, FRAG, &u[0]);
    EXPECT_TRUE(batch().empty());
    EXPECT_TRUE(m_tx.clock.deferred);
    EXPECT_TRUE(vqp_tx_has_work(&m_tx));
    m_tx.clock.now += 4000;
    confirm(m_busy);
    auto frags = batch();
    ASSERT_FALSE(frags.empty());
    EXPECT_EQ(0, frags[0].path->index);
    EXPECT_FALSE(m_tx.clock.deferred);
}

/* The busy path has stopped: its completion will not come, and the op must not
 * wait while another path is idle */
TEST_F(dispatch_left, an_op_goes_to_the_idle_path_when_the_busy_one_is_late) {
    start_asymmetric();
    rma(VQP_KIND_PUT, FRAG, &u[0]);
    EXPECT_TRUE(batch().empty());
    m_tx.clock.now += VQP_RATE_LATE;
    EXPECT_TRUE(batch().empty());
    EXPECT_TRUE(m_tx.clock.deferred); /* dispatch again later */
    m_tx.clock.now += 1;
    auto frags = txkit::dispatch();
    ASSERT_FALSE(frags.empty());
    for (const vqp_frag_t &frag : frags) {
        EXPECT_EQ(1, frag.path->index);
    }
    EXPECT_EQ(FRAG, bytes(frags));
    EXPECT_FALSE(m_tx.clock.deferred);
    confirm(frags);
    EXPECT_EQ(1u, done().size());
}

TEST_F(dispatch_left, a_message_goes_to_the_idle_path_when_the_busy_one_is_late) {
    start_asymmetric();
    vqp_rate_set(&m_paths[1].rate, 10000000, m_tx.clock.now);
    am(2000);
    EXPECT_TRUE(batch().empty());
    EXPECT_TRUE(m_tx.clock.deferred);
    m_tx.clock.now += VQP_RATE_LATE + 1;
    auto frags = batch();
    EXPECT_EQ(2016u, bytes(frags));
    for (const vqp_frag_t &frag : frags) {
        EXPECT_EQ(1, frag.path->index);
    }
}

/* A frag without a CQE is confirmed by the CQE of a later one: the idle time
 * between them must not count as transfer time */
TEST_F(dispatch_left, idle_time_is_not_measured) {
    m_cfg.path_cap = 4 * FRAG;
    start(2);
    m_tx.clock.now = 1000;
    want_credit();
    auto control = txkit::dispatch();
    ASSERT_EQ(1u, control.size());
    ASSERT_FALSE(control[0].flags & VQP_FRAG_SIGNALED);
    m_tx.clock.now += 1000000000;
    for (int i = 0; i < 8; ++i) {
        ASSERT_TRUE(rma(VQP_KIND_PUT, FRAG, this));
    }
    auto frags = txkit::dispatch();
    m_tx.clock.now   += 10000;
    m_tx.clock.looked = m_tx.clock.now;
    for (const vqp_frag_t &frag : frags) {
        if ((frag.path == control[0].path) &&
            (m_paths[frag.path->index].bytes > FRAG) &&
            (frag.flags & VQP_FRAG_SIGNALED)) {
            retire(frag);
        }
    }
    EXPECT_GT(control[0].path->rate.cost, 0u);
    EXPECT_LE(control[0].path->rate.cost, (10000u << 16) / (FRAG / 2));
}

} /* namespace */
