/* Records that share an immediate, as sent. How they are received is in vqp_test.cc. */
#include "txkit.h"

extern "C" {
#include "core/data/pack.h"
}

class pack : public txkit {
protected:
    static constexpr uint32_t RECORD = sizeof(vqp_record_t);

    pack() {
        m_cfg.pack       = 1;
        m_cfg.ring_size  = 65536; /* AMs take others up to 1024 bytes: */
        m_cfg.fsn_window = 128;   /* half of the window carries the ring */
        m_num_ops        = 256;
        m_depth          = 250;
    }

    /* An AM that is copied; false if it was refused */
    bool copy(uint32_t length, int user_kind = 0, uint8_t id = 1) {
        vqp_tx_am_t am;

        if (!vqp_tx_am_begin(&m_tx, length, 1, &am)) {
            return false;
        }
        am.op->user      = nullptr;
        am.op->user_kind = (uint8_t)user_kind;
        vqp_tx_am_commit(&m_tx, am, id, length, length, &m_credit);
        return true;
    }

    /* The same by the path that the glue takes. @return it was posted at once */
    bool send(uint32_t length = 8) {
        vqp_tx_am_t am;
        vqp_sge_t sge[2];
        vqp_frag_t frag;

        EXPECT_TRUE(vqp_tx_am_begin(&m_tx, length, 1, &am));
        am.op->user_kind = 0;
        return vqp_tx_send_am(&m_tx, &am, 1, length, length, &m_credit, 1, sge, &frag) ==
               VQP_SEND_FRAG;
    }

    const vqp_record_t &record(uint32_t offset) const {
        return *(const vqp_record_t*)&m_mirror[offset];
    }

    /* So many of the window are used that short AMs wait for others */
    void use_half() {
        while (!vqp_tx_lacks_fsns(&m_tx)) {
            ASSERT_TRUE(am(8));
            ASSERT_EQ(1u, dispatch().size());
        }
    }

    /* Accept a short AM that waits */
    void hold() {
        use_half();
        hold_again();
    }

    void hold_again() {
        ASSERT_TRUE(copy(8));
        ASSERT_TRUE(dispatch().empty());
        ASSERT_TRUE(m_tx.pack.is_held);
    }
};

TEST_F(pack, an_am_that_was_not_dispatched_takes_others) {
    start(1);
    m_credit = {1, 2};
    ASSERT_TRUE(copy(20));
    m_credit = {3, 4};
    ASSERT_TRUE(copy(1, 0, 2));
    ASSERT_TRUE(copy(8, 0, 3));
    auto frags = dispatch();

    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(48u + 32 + RECORD + 8, frags[0].length);
    EXPECT_EQ(RING_ADDR, frags[0].raddr);
    EXPECT_EQ((uintptr_t)m_mirror.data(), frags[0].sge[0].addr);
    EXPECT_EQ(frags[0].length, frags[0].sge[0].length);
    EXPECT_EQ(m_cfg.first_fsn | VQP_IMM_LAST, frags[0].imm);
    EXPECT_EQ(1u, vqp_tx_fsns_out(&m_tx));
    EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
    EXPECT_EQ(48u + 32 + 32, m_tx.fc.ring_head);
    EXPECT_EQ(3u, m_stats.ops);
    EXPECT_EQ(2u, m_stats.packed);

    EXPECT_EQ(VQP_RECORD_MORE, record(0).flags);
    EXPECT_EQ(VQP_RECORD_MORE, record(48).flags);
    EXPECT_EQ(0u, record(80).flags);
    EXPECT_EQ(20u, record(0).length);
    EXPECT_EQ(1u, record(48).length);
    EXPECT_EQ(2u, record(48).am_id);
    EXPECT_EQ(3u, record(80).am_id);
    /* the newest credit, once */
    EXPECT_EQ(3u, record(0).credit_ring);
    EXPECT_EQ(4u, record(0).credit_fsn);
    EXPECT_EQ(0u, record(48).credit_ring | record(48).credit_fsn);
    EXPECT_EQ(0u, record(80).credit_ring | record(80).credit_fsn);
}

TEST_F(pack, copies_what_may_join_once_half_of_the_window_is_in_use) {
    start(1);
    EXPECT_FALSE(vqp_tx_wants_copy(&m_tx, 8)); /* nobody has looked at the credit */
    while (!vqp_tx_lacks_fsns(&m_tx)) {
        ASSERT_TRUE(am(8));
        ASSERT_EQ(1u, dispatch().size());
        EXPECT_EQ(vqp_tx_lacks_fsns(&m_tx), vqp_tx_wants_copy(&m_tx, 8) != 0);
    }
    EXPECT_TRUE(vqp_tx_wants_copy(&m_tx, 1024 - RECORD - 1));
    EXPECT_FALSE(vqp_tx_wants_copy(&m_tx, 1024 - RECORD));
    m_tx.limits.frag_shift = 10; /* two records must fit */
    EXPECT_TRUE(vqp_tx_wants_copy(&m_tx, 512 - RECORD));
    EXPECT_FALSE(vqp_tx_wants_copy(&m_tx, 512 - RECORD + 1));
    m_tx.cfg.comp_post = 1; /* it would be complete before the others */
    EXPECT_FALSE(vqp_tx_wants_copy(&m_tx, 8));
    m_tx.cfg.comp_post = 0;
    m_tx.cfg.pack      = 0; /* the peer does not know it */
    EXPECT_FALSE(vqp_tx_wants_copy(&m_tx, 8));
}

/* It would wait for nothing */
TEST_F(pack, an_am_without_room_for_another_does_not_wait) {
    start(1);
    m_tx.limits.frag_shift = 10;
    use_half();
    ASSERT_TRUE(copy(512 - RECORD));
    ASSERT_TRUE(dispatch().empty()); /* two of these fill the frag */
    ASSERT_TRUE(copy(512 - RECORD));
    EXPECT_EQ(1u, dispatch().size());
    ASSERT_TRUE(copy(513 - RECORD));
    EXPECT_EQ(1u, dispatch().size());
}

TEST_F(pack, it_goes_inline_while_it_is_short_enough) {
    start(1);
    ASSERT_TRUE(copy(8));
    ASSERT_TRUE(copy(8));
    EXPECT_NE(0, dispatch().at(0).flags & VQP_FRAG_INLINE);
    ASSERT_TRUE(copy(8));
    ASSERT_TRUE(copy(8));
    ASSERT_TRUE(copy(8));
    EXPECT_EQ(0, dispatch().at(0).flags & VQP_FRAG_INLINE);
}

TEST_F(pack, one_slot_is_enough_for_many) {
    m_num_ops = 2;
    start(1);
    for (unsigned i = 0; i < 20; ++i) {
        ASSERT_TRUE(copy(8));
    }
    auto frags = dispatch();
    ASSERT_EQ(1u, frags.size());
    vqp_tx_reclaim(&m_tx);
    confirm(dispatch());
    EXPECT_EQ(m_tx.fc.ring_head, m_tx.fc.ring_local);
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.am));
}

TEST_F(pack, an_am_takes_no_more_than_the_limit) {
    start(1);
    ASSERT_TRUE(copy(1000)); /* 1016 bytes */
    ASSERT_TRUE(copy(500));
    ASSERT_TRUE(copy(8));
    EXPECT_EQ(2u, dispatch().size());
}

TEST_F(pack, an_am_takes_no_more_records_than_the_limit) {
    m_cfg.ring_size = 1 << 20;
    start(1);
    for (unsigned i = 0; i < 3 * VQP_PACK_RECORDS; ++i) {
        ASSERT_TRUE(copy(8));
    }
    EXPECT_EQ(3u, dispatch().size());
    hold();
    for (unsigned i = 0; i < VQP_PACK_RECORDS - 2; ++i) {
        ASSERT_TRUE(copy(8));
        ASSERT_TRUE(dispatch().empty());
    }
    ASSERT_TRUE(copy(8));
    EXPECT_EQ(1u, dispatch().size());
}

TEST_F(pack, an_am_is_never_more_than_a_frag) {
    m_cfg.frag_shift = 9;
    start(1);
    ASSERT_TRUE(copy(400));
    ASSERT_TRUE(copy(200));
    EXPECT_EQ(2u, dispatch().size());
}

TEST_F(pack, ams_of_users_are_alone) {
    start(1);
    ASSERT_TRUE(copy(8, 1));
    ASSERT_TRUE(copy(8));
    ASSERT_TRUE(am(8)); /* it may not join */
    ASSERT_TRUE(copy(8));
    EXPECT_EQ(3u, dispatch().size());
}

TEST_F(pack, a_peer_that_lacks_it_gets_single_records) {
    m_cfg.pack = 0;
    start(1);
    for (unsigned i = 0; i < 12; ++i) {
        ASSERT_TRUE(copy(8));
        EXPECT_EQ(1u, dispatch().size());
    }
    EXPECT_EQ(0u, m_stats.packed);
}

TEST_F(pack, with_am_order_all_each_record_is_alone) {
    m_cfg.order_all = 1;
    start(1);
    ASSERT_TRUE(copy(8));
    ASSERT_TRUE(copy(8));
    EXPECT_EQ(2u, dispatch().size());
}

TEST_F(pack, a_record_at_the_begin_of_the_ring_is_alone) {
    start(1);
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_TRUE(am(20000));
        confirm(dispatch());
        credit_all();
    }
    ASSERT_TRUE(am(65536 - 3 * 20016 - 2 * RECORD - 64));
    confirm(dispatch());
    credit_all();
    ASSERT_TRUE(copy(64)); /* ends where the ring ends */
    ASSERT_EQ(0u, m_tx.fc.ring_head % m_cfg.ring_size);
    ASSERT_TRUE(copy(8));
    auto frags = dispatch();
    ASSERT_EQ(2u, frags.size());
    EXPECT_EQ(RING_ADDR, frags[1].raddr);
}

TEST_F(pack, a_record_that_finds_no_room_in_the_ring_is_refused) {
    m_cfg.ring_size = 4096; /* AMs take others up to 64 bytes */
    start(1);
    ASSERT_TRUE(am(1008));
    confirm(dispatch());
    credit_all();
    ASSERT_TRUE(am(1504));
    ASSERT_TRUE(am(1536 - 2 * RECORD));
    confirm(dispatch());
    ASSERT_EQ(4064u, m_tx.fc.ring_head);
    ASSERT_EQ(m_tx.fc.ring_head, m_tx.fc.ring_local);
    while (copy(1)) { /* to the end of the ring, and from there to what is not consumed */
        ASSERT_LE(m_tx.fc.ring_head, 4096u + 1024);
    }
    EXPECT_EQ(4096u + 1024, m_tx.fc.ring_head);
    EXPECT_EQ(1u, m_stats.credit_stalls);
    EXPECT_LT(vqp_opring_at(&m_tx.am, m_tx.am.tail - 1)->length, m_tx.limits.pack);
    EXPECT_GT(m_stats.packed, 15u);
}

TEST_F(pack, a_record_of_another_ring_is_alone) {
    std::vector<char> mirror(65536);
    vqp_tx_ring_t ring = {mirror.data(), &m_lkey, 0x900000, m_rkeys, 65536};

    start(1);
    ASSERT_TRUE(copy(8));
    vqp_tx_set_ring(&m_tx, &ring);
    ASSERT_TRUE(copy(8));
    ASSERT_TRUE(copy(8));
    auto frags = dispatch();
    ASSERT_EQ(2u, count(frags, VQP_KIND_AM));
    EXPECT_EQ(RING_ADDR, frags[0].raddr);
    EXPECT_EQ(0x900000u + 32, frags[1].raddr);
    EXPECT_EQ(1u, m_stats.packed);
}

TEST_F(pack, a_record_behind_a_fence_joins_if_the_fence_is_over) {
    start(1);
    ASSERT_TRUE(rma(VQP_KIND_PUT, 8));
    ASSERT_TRUE(copy(8));
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(copy(8)); /* the put comes first */
    EXPECT_EQ(0u, m_stats.packed);
    ASSERT_TRUE(copy(8));
    EXPECT_EQ(1u, m_stats.packed);
    vqp_tx_fence(&m_tx);
    confirm(dispatch());
    done();
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(copy(8));
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(copy(8));
    EXPECT_EQ(2u, m_stats.packed);
}

TEST_F(pack, half_of_the_window_is_for_single_records) {
    unsigned posted = 0;

    start(1);
    while (send()) {
        ++posted;
    }
    EXPECT_EQ(m_cfg.fsn_window / 2 - VQP_CONTROL_RESERVE, posted);
    EXPECT_TRUE(dispatch().empty());
    EXPECT_FALSE(send());
    EXPECT_EQ(1u, m_stats.packed);
    EXPECT_TRUE(dispatch().empty());
}

TEST_F(pack, an_am_waits_until_it_has_enough_others) {
    start(1);
    hold();
    ASSERT_TRUE(copy(900));
    EXPECT_TRUE(dispatch().empty());
    ASSERT_TRUE(copy(100));
    EXPECT_EQ(1u, dispatch().size());
    EXPECT_FALSE(m_tx.pack.is_held);
}

TEST_F(pack, an_am_that_is_long_enough_does_not_wait) {
    start(1);
    use_half();
    ASSERT_TRUE(copy(1100));
    EXPECT_EQ(1u, dispatch().size());
    ASSERT_TRUE(copy(100));
    EXPECT_TRUE(dispatch().empty());
}

TEST_F(pack, an_am_waits_no_more_if_no_other_comes) {
    start(1);
    hold();
    EXPECT_TRUE(dispatch().empty()); /* one call of progress */
    ASSERT_TRUE(copy(8));            /* it sends on */
    EXPECT_TRUE(dispatch().empty());
    EXPECT_TRUE(dispatch().empty());
    EXPECT_EQ(1u, dispatch().size());
    EXPECT_EQ(1u, m_stats.packed);
}

TEST_F(pack, an_am_waits_no_more_if_another_op_follows) {
    start(1);
    hold();
    ASSERT_TRUE(am(8));
    EXPECT_EQ(2u, dispatch().size());
}

TEST_F(pack, an_am_waits_no_more_if_a_put_is_behind_it) {
    start(1);
    hold();
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(rma(VQP_KIND_PUT, 8));
    EXPECT_EQ(2u, dispatch().size());
}

TEST_F(pack, an_am_waits_no_more_if_it_is_flushed) {
    start(1);
    hold();
    vqp_tx_reclaim(&m_tx);
    EXPECT_EQ(1u, count(dispatch(), VQP_KIND_AM));
}

TEST_F(pack, an_am_waits_no_more_if_credit_comes) {
    start(1);
    hold();
    credit_all();
    EXPECT_EQ(1u, dispatch().size());
}

TEST_F(pack, an_am_of_several_frags_does_not_wait) {
    m_cfg.frag_shift = 8;
    start(2);
    use_half();
    ASSERT_TRUE(copy(600));
    EXPECT_LT(1u, dispatch().size());
}

TEST_F(pack, an_am_waits_no_more_if_another_one_is_refused) {
    start(1);
    hold();
    while (am(4000)) { /* the ring is full */
        confirm(dispatch());
    }
    hold_again();
    EXPECT_FALSE(am(4000));
    EXPECT_EQ(1u, dispatch().size());
}

TEST_F(pack, nothing_waits_after_a_failure) {
    start(1);
    hold();
    vqp_tx_fail(&m_tx, VQP_ERR_CANCELED);
    EXPECT_FALSE(m_tx.pack.is_held);
}

/* A credit update overtakes an AM that waits, which then takes another record: its credit is
 * the newest again, as the owner thinks that it is advertised */
TEST_F(pack, a_record_that_joins_brings_its_credit_along) {
    start(1);
    m_credit = {10, 1};
    hold();
    m_credit = {20, 2};
    want_credit();
    EXPECT_EQ(1u, count(dispatch(), VQP_KIND_CREDIT));
    m_credit = {30, 3};
    ASSERT_TRUE(copy(8));
    vqp_tx_reclaim(&m_tx);
    auto frags = dispatch();
    ASSERT_EQ(1u, count(frags, VQP_KIND_AM));
    auto *first = (const vqp_record_t*)frags[0].sge[0].addr;
    EXPECT_EQ(30u, first->credit_ring);
    EXPECT_EQ(3u, first->credit_fsn);
}

/* If none joins, it has the credit of the update */
TEST_F(pack, a_record_that_was_overtaken_has_the_credit_of_the_update) {
    start(1);
    m_credit = {10, 1};
    hold();
    m_credit = {20, 2};
    want_credit();
    EXPECT_EQ(1u, count(dispatch(), VQP_KIND_CREDIT));
    m_credit = {30, 3};
    vqp_tx_reclaim(&m_tx);
    auto frags = dispatch();
    ASSERT_EQ(1u, count(frags, VQP_KIND_AM));
    EXPECT_EQ(20u, ((const vqp_record_t*)frags[0].sge[0].addr)->credit_ring);
}

TEST_F(pack, the_window_bounds_packed_ams_too) {
    m_cfg.ring_size = 1 << 20;
    start(1);
    for (unsigned i = 0; i < 20000; ++i) {
        if (!copy(100)) {
            dispatch();
        }
    }
    EXPECT_EQ(m_cfg.fsn_window - VQP_CONTROL_RESERVE, vqp_tx_fsns_out(&m_tx));
    EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
}
