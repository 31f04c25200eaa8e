/*
 * The mirror of ring 0, which is there while messages are sent: the test makes the calls
 * of the owner. Nothing is executed.
 */
#include "failkit.h"

extern "C" {
#include "core/mirror.h"
#include "core/rings.h"
}

namespace {

class mirror : public failkit {
protected:
    static constexpr uint32_t RING = 4096;
    static constexpr uint64_t IDLE = 1000, AGAIN = 1000000; /* ns */

    mirror() {
        m_ring_max       = 16 * RING;
        m_cfg.inline_max = 0;
        m_num_ops        = 64;
    }

    /* It has none */
    void begin() {
        open(1);
        ASSERT_EQ(1, vqp_take_mirror(&m_vqp));
        ASSERT_TRUE(vqp_lacks_mirror(&m_vqp));
    }

    void refuse() {
        EXPECT_FALSE(am(100));
        EXPECT_TRUE(m_tx.needs_mirror);
        vqp_refuse(&m_vqp);
    }

    void make() { vqp_first_mirror_made(&m_vqp, m_memory.data(), m_keys); }
    void make_none() { vqp_first_mirror_made(&m_vqp, nullptr, nullptr); }

    bool is_put() {
        return event(VQP_EVENT_MIRROR_PUT) && (vqp_mirrors_put(&m_vqp) == 1);
    }

    void confirm() {
        confirm_all(0);
        (void)ends();
    }

    std::vector<char> m_memory = std::vector<char>(RING);
    uint32_t          m_keys[2] = {31, 32};
};

TEST_F(mirror, messages_are_sent_from_what_the_owner_gives) {
    begin();
    EXPECT_FALSE(am(100));
    EXPECT_FALSE(am(100)); /* nor by the fast path */
    EXPECT_TRUE(next().empty());
    EXPECT_EQ(0u, m_tx.fc.ring_head);
    EXPECT_EQ(0u, m_stats.credit_stalls); /* the peer is not asked for anything */
    make();
    ASSERT_TRUE(am(100));
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ((uintptr_t)m_memory.data(), frags[0].sge[0].addr);
    EXPECT_EQ(31u, frags[0].sge[0].lkey);
    EXPECT_EQ(RING_ADDR + 0u, frags[0].raddr);
}

TEST_F(mirror, goes_back_when_no_message_was_sent_for_some_time) {
    begin();
    EXPECT_EQ(UINT64_MAX, m_vqp.rings.mirror_due);
    make();
    EXPECT_TRUE(event(VQP_EVENT_TIMER));
    timer(); /* the first look: it is new */
    EXPECT_EQ(m_now + IDLE, vqp_next_timeout(&m_vqp));
    ASSERT_TRUE(am(100));
    next();
    confirm();
    m_now += IDLE;
    timer(); /* there was one */
    EXPECT_FALSE(is_put());
    EXPECT_FALSE(vqp_lacks_mirror(&m_vqp));
    m_now += IDLE;
    timer();
    EXPECT_TRUE(is_put());
    EXPECT_TRUE(vqp_lacks_mirror(&m_vqp));
    EXPECT_EQ(UINT64_MAX, m_vqp.rings.mirror_due);
    EXPECT_FALSE(am(100));
    make();
    ASSERT_TRUE(am(100));
    EXPECT_EQ(RING_ADDR + 128, next()[0].raddr); /* positions go on */
}

TEST_F(mirror, stays_while_the_device_may_read_it) {
    begin();
    make();
    ASSERT_TRUE(am(100));
    EXPECT_EQ(0u, next()[0].flags & VQP_FRAG_SIGNALED);
    for (int i = 0; i < 4; ++i) {
        timer();
        m_now += IDLE;
    }
    EXPECT_FALSE(is_put());
    auto frags = next(); /* its completion was asked for */
    ASSERT_EQ(1u, frags.size());
    EXPECT_NE(0u, frags[0].flags & VQP_FRAG_SIGNALED);
    EXPECT_EQ(0, vqp_take_mirror(&m_vqp));
    confirm();
    timer();
    EXPECT_TRUE(is_put());
}

/* The owner has not taken the event yet, and may give what it still has */
TEST_F(mirror, that_goes_back_may_come_at_once) {
    begin();
    make();
    timer();
    m_now += IDLE;
    timer();
    m_now += IDLE;
    timer();
    ASSERT_TRUE(vqp_lacks_mirror(&m_vqp));
    ASSERT_TRUE(vqp_has_event(&m_vqp, VQP_EVENT_MIRROR_PUT));
    make();
    EXPECT_FALSE(is_put());
    EXPECT_TRUE(am(100));
}

TEST_F(mirror, that_can_not_be_made_is_needed_until_it_is) {
    begin();
    refuse();
    make_none();
    EXPECT_TRUE(event(VQP_EVENT_TIMER));
    EXPECT_FALSE(event(VQP_EVENT_MIRROR_NEEDED));
    for (int i = 0; i < 3; ++i) {
        refuse();
        ASSERT_LE(vqp_next_timeout(&m_vqp), m_now);
        timer();
        EXPECT_TRUE(event(VQP_EVENT_MIRROR_NEEDED));
        make_none();
        EXPECT_EQ(m_now + AGAIN, vqp_next_timeout(&m_vqp));
        m_now += AGAIN;
    }
    make();
    timer();
    EXPECT_FALSE(event(VQP_EVENT_MIRROR_NEEDED));
    EXPECT_EQ(m_now + IDLE, vqp_next_timeout(&m_vqp));
}

TEST_F(mirror, that_nobody_waits_for_any_more_is_not_needed) {
    begin();
    refuse();
    make_none();
    timer();
    EXPECT_TRUE(vqp_can_use_mirror(&m_vqp));
    EXPECT_TRUE(event(VQP_EVENT_MIRROR_NEEDED)); /* RESUME was handed out, too */
    m_now += AGAIN;
    timer();
    EXPECT_FALSE(event(VQP_EVENT_MIRROR_NEEDED));
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));

    vqp_cancel(&m_vqp);
    EXPECT_FALSE(vqp_can_use_mirror(&m_vqp));
}

/* The peer does not run. Who has no mirror would get one for nothing, and lose it again */
TEST_F(mirror, is_not_needed_before_the_peer_has_room_for_a_message) {
    begin();
    make();
    while (am(900)) {
        next();
    }
    vqp_refuse(&m_vqp);
    timer();
    confirm(); /* the device has read all */
    EXPECT_EQ(1, vqp_take_mirror(&m_vqp));
    EXPECT_FALSE(am(900));
    EXPECT_FALSE(vqp_wants_mirror(&m_vqp));
    EXPECT_FALSE(am(0));
    EXPECT_TRUE(vqp_wants_mirror(&m_vqp)); /* there is room for this one */
    make_none();
    EXPECT_FALSE(am(900));
    vqp_refuse(&m_vqp);
    timer();
    EXPECT_TRUE(vqp_has_event(&m_vqp, VQP_EVENT_MIRROR_NEEDED)); /* still, by the small one */
    EXPECT_EQ(m_now + AGAIN, vqp_next_timeout(&m_vqp));
    make();
    EXPECT_TRUE(am(0));
}

TEST_F(mirror, is_not_needed_before_the_peer_has_room_for_a_control_record) {
    begin();
    make();
    while (am(112)) {
        next();
    }
    ASSERT_EQ(m_tx.ring.size, m_tx.fc.ring_head - m_tx.fc.ring_peer);
    confirm();
    next(); /* the path has room for the last ones */
    confirm();
    timer();
    m_vqp.rings.send  = 1u << VQP_RING_WANT;
    m_tx.slow        |= VQP_TX_RINGS;
    ASSERT_EQ(1, vqp_take_mirror(&m_vqp));
    next();
    EXPECT_FALSE(event(VQP_EVENT_MIRROR_NEEDED));
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
    credit_all();
    next();
    EXPECT_TRUE(event(VQP_EVENT_MIRROR_NEEDED));
}

/* Else the user and the timer would call each other for ever, while the peer does not run */
TEST_F(mirror, is_looked_at_seldom_while_messages_wait_for_room) {
    begin();
    make();
    while (am(900)) {
        next();
    }
    for (int i = 0; i < 10; ++i) {
        vqp_refuse(&m_vqp);
        timer();
        EXPECT_TRUE(event(VQP_EVENT_RESUME));
        EXPECT_FALSE(am(900));
        EXPECT_EQ(m_now + IDLE, vqp_next_timeout(&m_vqp));
        m_now += IDLE;
    }
}

/* Else two would take it from each other */
TEST_F(mirror, that_is_new_is_used_or_looked_at_first) {
    begin();
    make();
    EXPECT_EQ(0, vqp_take_mirror(&m_vqp));
    EXPECT_EQ(0, vqp_ask_for_mirror(&m_vqp));
    EXPECT_FALSE(m_tx.am_paused);
    timer();
    EXPECT_EQ(1, vqp_take_mirror(&m_vqp));
    make();
    ASSERT_TRUE(am(100));
    next();
    confirm();
    EXPECT_EQ(1, vqp_take_mirror(&m_vqp));
    make();
    vqp_cancel(&m_vqp);
    vqp_qps_failed(&m_vqp);
    EXPECT_EQ(1, vqp_take_mirror(&m_vqp)); /* no message uses it */
}

/* Else a stream without a pause would keep it as long as it lasts */
TEST_F(mirror, that_is_asked_for_takes_no_further_message) {
    begin();
    make();
    timer();
    ASSERT_TRUE(am(100));
    next();
    EXPECT_EQ(0, vqp_take_mirror(&m_vqp));
    ASSERT_TRUE(am(100)); /* nobody has asked yet */
    next();
    vqp_ask_for_mirror(&m_vqp);
    EXPECT_FALSE(am(100));
    vqp_refuse(&m_vqp);
    EXPECT_EQ(1u, next().size()); /* a nop */
    confirm();
    EXPECT_EQ(1, vqp_take_mirror(&m_vqp));
    EXPECT_TRUE(event(VQP_EVENT_RESUME)); /* it may ask for another one */
    make();
    EXPECT_TRUE(am(100));
}

TEST_F(mirror, that_is_asked_for_stays_if_nobody_takes_it) {
    begin();
    make();
    timer();
    ASSERT_TRUE(am(100));
    next();
    vqp_ask_for_mirror(&m_vqp);
    vqp_refuse(&m_vqp);
    next();
    EXPECT_TRUE(event(VQP_EVENT_TIMER));
    timer();
    m_now += 3 * AGAIN;
    timer();
    EXPECT_FALSE(am(100));
    vqp_refuse(&m_vqp);
    m_now += AGAIN;
    vqp_ask_for_mirror(&m_vqp); /* does not make it longer */
    timer();
    EXPECT_TRUE(event(VQP_EVENT_RESUME));
    EXPECT_TRUE(am(100));
    EXPECT_EQ(m_now + IDLE, vqp_next_timeout(&m_vqp));
}

TEST_F(mirror, is_needed_for_a_control_record) {
    vqp_ring_msg_t want = {VQP_RING_WANT, 0, 0, 0, 16 * RING, 0, {0}};
    std::vector<char> ring(16 * RING);
    uint32_t rkeys[2] = {41, 42};
    vqp_record_t rec  = {sizeof(want), 0, 0, 0, 0, m_cfg.first_fsn};
    vqp_rx_am_t got;

    begin();
    memcpy(m_ring.data(), &rec, sizeof(rec));
    memcpy(m_ring.data() + sizeof(rec), &want, sizeof(want));
    ASSERT_EQ(0, vqp_recv(&m_vqp, &m_paths[0],
                          m_vqp.rx.window.base | VQP_IMM_LAST | VQP_IMM_CONTROL, &got));
    ASSERT_TRUE(event(VQP_EVENT_RING_GET));
    vqp_ring_made(&m_vqp, ring.data(), rkeys, 2);
    EXPECT_TRUE(next().empty());
    EXPECT_TRUE(event(VQP_EVENT_MIRROR_NEEDED));
    make();
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_NE(0u, frags[0].imm & VQP_IMM_CONTROL);
    EXPECT_EQ((uintptr_t)m_memory.data(), frags[0].sge[0].addr);
}

/* Else the memory of a connection that has failed would be lacking until it is destroyed */
TEST_F(mirror, of_a_failed_vqp_can_be_had_when_nothing_is_in_flight) {
    begin();
    make();
    ASSERT_TRUE(am(100));
    next();
    vqp_cancel(&m_vqp);
    EXPECT_EQ(0, vqp_take_mirror(&m_vqp));
    vqp_ask_for_mirror(&m_vqp); /* no effect: it will be free, and sends no more */
    vqp_qps_failed(&m_vqp);
    EXPECT_EQ(0, vqp_take_mirror(&m_vqp));
    EXPECT_EQ(0u, m_tx.slow & VQP_TX_NOP);
    vqp_on_send_error(&m_vqp, &m_paths[0], path().head, VQP_ERR_CANCELED);
    EXPECT_EQ(1, vqp_take_mirror(&m_vqp));
}

/* Its device has failed when nothing was in flight any more */
TEST_F(mirror, of_a_failed_vqp_can_be_had_if_nothing_is_lost) {
    begin();
    make();
    ASSERT_TRUE(am(100));
    next();
    confirm();
    vqp_cancel(&m_vqp);
    vqp_qps_failed(&m_vqp);
    vqp_path_lost(&m_vqp, 0);
    EXPECT_EQ(1, vqp_take_mirror(&m_vqp));
}

/* Its queue pair may be in RTS: only the end of the vqp ends that */
TEST_F(mirror, of_a_failed_vqp_stays_if_no_completion_comes) {
    begin();
    make();
    ASSERT_TRUE(am(100));
    next();
    vqp_cancel(&m_vqp);
    vqp_path_lost(&m_vqp, 0);
    vqp_qps_failed(&m_vqp);
    EXPECT_EQ(0, vqp_take_mirror(&m_vqp));
}

TEST_F(mirror, is_not_taken_from_a_larger_ring) {
    std::vector<char> large(4 * RING);

    begin();
    make();
    m_vqp.rings.tx_next = 1;
    m_vqp.rings.tx_ring = {nullptr, nullptr, 0x900000, m_rkeys, 4 * RING};
    vqp_mirror_made(&m_vqp, large.data(), m_lkeys);
    EXPECT_EQ(1u, next().size()); /* SWITCH */
    EXPECT_EQ(0, vqp_take_mirror(&m_vqp));
    confirm();
    next(); /* RELEASE */
    EXPECT_TRUE(is_put());
    EXPECT_EQ(0, vqp_take_mirror(&m_vqp));
    EXPECT_FALSE(vqp_lacks_mirror(&m_vqp));
    timer();
    EXPECT_EQ(UINT64_MAX, m_vqp.rings.mirror_due); /* its ring decides when it goes */
}

} /* namespace */
