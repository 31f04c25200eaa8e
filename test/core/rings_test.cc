/*
 * Rings that grow and shrink: the test makes the calls of the owner, and writes what
 * the peer would. Nothing is executed.
 */
#include "failkit.h"

#include <cstring>

extern "C" {
#include "core/mirror.h"
#include "core/rings.h"
}

namespace {

class rings : public failkit {
protected:
    static constexpr uint32_t RING = 4096, MAX = 65536;
    static constexpr uint64_t BIG_ADDR = 0x900000;

    rings() {
        m_ring_max       = MAX;
        m_cfg.inline_max = 0;
        m_num_ops        = 64;
    }

    /* ---- the sender ---- */

    /* Fill the ring, until an AM is refused */
    std::vector<vqp_frag_t> fill(uint32_t length = 480) {
        std::vector<vqp_frag_t> all, some;

        while (am(length)) {
            some = next();
            all.insert(all.end(), some.begin(), some.end());
        }
        return all;
    }

    void confirm_paths() {
        for (unsigned i = 0; i < m_paths.size(); ++i) {
            (void)confirm_all(i);
        }
        (void)ends();
    }

    /* The peer has consumed all of it */
    void consume() {
        confirm_paths();
        credit_all();
    }

    /* As many stalls as the sender needs to find the ring too small */
    void stall(unsigned count = 4) {
        for (unsigned i = 0; i < count; ++i) {
            fill();
            consume();
        }
    }

    static const vqp_ring_msg_t *message(const vqp_frag_t &frag) {
        return (const vqp_ring_msg_t*)(frag.sge[0].addr + sizeof(vqp_record_t));
    }

    /* The control records among them */
    static std::vector<vqp_frag_t> control(const std::vector<vqp_frag_t> &frags) {
        std::vector<vqp_frag_t> all;

        for (const vqp_frag_t &frag : frags) {
            if ((frag.opcode == VQP_WR_WRITE_IMM) && (frag.imm & VQP_IMM_CONTROL)) {
                all.push_back(frag);
            }
        }
        return all;
    }

    /* The only control record that is sent now */
    vqp_ring_msg_t sent() {
        auto frags = control(next());

        EXPECT_EQ(1u, frags.size());
        return frags.empty() ? vqp_ring_msg_t {} : *message(frags[0]);
    }

    /* ---- the receiver ---- */

    /* A record of the peer in the ring that this side reads */
    int hear(const void *payload, uint32_t length, uint32_t flags) {
        uint32_t offset  = m_vqp.rx.ring_pos & (m_vqp.rx.ring_size - 1);
        vqp_record_t rec = {length, 0, 0, 0, m_tx.fc.ring_peer, m_tx.fc.fsn_peer};
        vqp_rx_am_t am;
        int ret;

        memcpy(m_vqp.rx.ring + offset, &rec, sizeof(rec));
        memcpy(m_vqp.rx.ring + offset + sizeof(rec), payload, length);
        ret = vqp_recv(&m_vqp, &m_paths[0], m_vqp.rx.window.base | flags, &am);
        if (ret > 0) {
            m_taken.assign((const char*)am.data, am.length);
            vqp_recv_done(&m_vqp, &am);
        }
        return ret;
    }

    /* An offer is one that this side has wanted */
    int hear(const vqp_ring_msg_t &msg, bool is_wanted = true) {
        m_vqp.rings.is_wanted |= (msg.type == VQP_RING_OFFER) && is_wanted;
        return hear(&msg, sizeof(msg), VQP_IMM_LAST | VQP_IMM_CONTROL);
    }

    int hear_text(const std::string &text) {
        return hear(text.data(), (uint32_t)text.size(), VQP_IMM_LAST);
    }

    static vqp_ring_msg_t want(uint32_t size = MAX) {
        return {VQP_RING_WANT, 0, 0, 0, size, 0, {0}};
    }

    static vqp_ring_msg_t offer(uint8_t number = 1, uint32_t size = 4 * RING) {
        if (number == 0) {
            return {VQP_RING_OFFER, 0, 0, 0, 0, 0, {0}};
        }
        return {VQP_RING_OFFER, number, 2, 0, size, BIG_ADDR, {71, 72}};
    }

    static vqp_ring_msg_t other(vqp_ring_type_t type, uint8_t number) {
        return {(uint8_t)type, number, 0, 0, 0, 0, {0}};
    }

    /* The peer has offered a ring, and its mirror is there */
    void take_offer(uint8_t number = 1) {
        ASSERT_EQ(0, hear(offer(number)));
        ASSERT_TRUE(event(VQP_EVENT_MIRROR_GET));
        ASSERT_EQ(4u * RING, vqp_mirror_wanted(&m_vqp));
        ASSERT_EQ(number, m_vqp.rings.tx_next);
        m_big_mirror.assign(vqp_mirror_wanted(&m_vqp), 0);
        vqp_mirror_made(&m_vqp, m_big_mirror.data(), m_big_lkeys);
    }

    /* This side has offered a ring, and the peer writes to it */
    void give_ring() {
        ASSERT_EQ(0, hear(want()));
        ASSERT_TRUE(event(VQP_EVENT_RING_GET));
        m_big_ring.assign(vqp_ring_wanted(&m_vqp), 0);
        vqp_ring_made(&m_vqp, m_big_ring.data(), m_big_rkeys, 2);
        ASSERT_EQ(VQP_RING_OFFER, sent().type);
        ASSERT_EQ(0, hear(other(VQP_RING_SWITCH, 1)));
        ASSERT_EQ(0, hear(other(VQP_RING_RELEASE, 0)));
        consume();
        take();
        m_events.clear();
    }

    std::vector<char> m_big_mirror, m_big_ring;
    uint32_t          m_big_lkeys[2] = {31, 32}, m_big_rkeys[2] = {41, 42};
    std::string       m_taken;
};

/* ---- when a ring is too small ---- */

TEST_F(rings, a_sender_that_stalls_again_and_again_wants_a_larger_one) {
    open(1);
    stall(3);
    EXPECT_TRUE(control(next()).empty());
    stall(1);
    auto msg = sent();
    EXPECT_EQ(VQP_RING_WANT, msg.type);
    EXPECT_EQ(0, msg.number);
    EXPECT_EQ(+MAX, msg.size);
    EXPECT_TRUE(control(next()).empty());
    EXPECT_EQ(0u, m_tx.slow & VQP_TX_RINGS);
}

TEST_F(rings, one_stall_counts_once) {
    open(1);
    fill();
    for (int i = 0; i < 10; ++i) {
        EXPECT_FALSE(am(480));
    }
    consume();
    EXPECT_TRUE(control(next()).empty());
}

TEST_F(rings, stalls_that_are_far_apart_do_not_count) {
    open(1);
    for (int i = 0; i < 20; ++i) {
        stall(1);
        for (int j = 0; j < 40; ++j) { /* more than four rings */
            ASSERT_TRUE(am(480));
            next();
            consume();
        }
    }
    EXPECT_FALSE(m_vqp.rings.is_wanted);
}

/* Then it is not the ring that holds it up */
TEST_F(rings, messages_that_wait_for_a_path_want_no_ring) {
    open(1);
    for (int i = 0; i < 8; ++i) {
        vqp_set_path_up(&m_vqp, 0, 0);
        while (am(480)) {
            next();
        }
        vqp_set_path_up(&m_vqp, 0, 1);
        EXPECT_TRUE(control(next()).empty());
        consume();
    }
    EXPECT_FALSE(m_vqp.rings.is_wanted);
}

TEST_F(rings, a_peer_that_gives_none_is_asked_less_and_less) {
    unsigned asked = 0;

    open(1);
    for (int i = 0; i < 60; ++i) {
        stall(1);
        asked += (unsigned)control(next()).size();
        consume();
    }
    EXPECT_EQ(4u, asked); /* after 4, 8, 16, 32 */
}

/* A second wish waits for room when the offer comes, and must not follow it: the peer would
 * take it for a wish for the next ring */
TEST_F(rings, a_wish_that_was_answered_is_not_sent) {
    open(1);
    stall(4);
    EXPECT_EQ(VQP_RING_WANT, sent().type);
    consume();
    stall(7);
    fill(); /* the eighth one: there is no room for the wish */
    EXPECT_TRUE(control(next()).empty());
    EXPECT_NE(0u, m_vqp.rings.send);
    ASSERT_EQ(0, hear(offer(), false));
    ASSERT_TRUE(event(VQP_EVENT_MIRROR_GET));
    vqp_mirror_made(&m_vqp, nullptr, nullptr);
    consume();
    EXPECT_EQ(VQP_RING_RELEASE, sent().type); /* alone */
    EXPECT_FALSE(m_vqp.rings.is_wanted);
}

TEST_F(rings, a_wish_that_waits_does_not_allow_an_offer) {
    open(1);
    stall(3);
    fill();
    EXPECT_TRUE(control(next()).empty());
    EXPECT_EQ(VQP_ERR_PROTOCOL, hear(offer(), false));
}

TEST_F(rings, without_the_feature_nothing_is_asked) {
    m_ring_max = 0;
    open(1);
    stall(8);
    EXPECT_FALSE(m_vqp.rings.is_wanted);
    EXPECT_EQ(0u, m_tx.slow & VQP_TX_RINGS);
    EXPECT_EQ(VQP_ERR_PROTOCOL, hear(want()));
}

TEST_F(rings, a_side_that_has_the_largest_mirror_does_not_ask) {
    m_ring_max = RING;
    open(1);
    stall(8);
    EXPECT_FALSE(m_vqp.rings.is_wanted);
    EXPECT_EQ(0u, m_tx.slow & VQP_TX_RINGS);
}

/* ---- the sender goes to another ring ---- */

TEST_F(rings, what_follows_the_switch_is_in_the_other_ring) {
    open(2);
    ASSERT_TRUE(am(100));
    auto before = next();
    ASSERT_EQ(1u, before.size());
    EXPECT_EQ(+RING_ADDR, before[0].raddr);

    take_offer();
    auto last = control(next());
    ASSERT_EQ(1u, last.size());
    EXPECT_EQ(VQP_RING_SWITCH, message(last[0])->type);
    EXPECT_EQ(1, message(last[0])->number);
    EXPECT_EQ(RING_ADDR + 128, last[0].raddr); /* the last one of the ring before */
    EXPECT_EQ(m_rkeys[0], last[0].rkey);
    EXPECT_EQ(1u, m_stats.ring_switches);

    ASSERT_TRUE(am(100));
    auto after = next();
    ASSERT_EQ(1u, after.size());
    EXPECT_EQ(BIG_ADDR + 128 + 48, after[0].raddr); /* positions go on */
    EXPECT_EQ(71u, after[0].rkey);
    EXPECT_EQ((uintptr_t)m_big_mirror.data() + 128 + 48, after[0].sge[0].addr);
    EXPECT_EQ(31u, after[0].sge[0].lkey);
}

TEST_F(rings, the_ring_before_is_released_when_all_in_it_is_confirmed) {
    open(1);
    ASSERT_TRUE(am(100, &u[0]));
    next();
    take_offer();
    EXPECT_EQ(1u, control(next()).size());
    EXPECT_NE(0u, m_tx.slow & VQP_TX_RINGS);
    EXPECT_TRUE(control(next()).empty());
    confirm_all(0);
    EXPECT_TRUE(control(next()).empty()); /* its slot is still used */
    EXPECT_EQ(1u, ends().size());
    auto msg = sent();
    EXPECT_EQ(VQP_RING_RELEASE, msg.type);
    EXPECT_EQ(0, msg.number);
    EXPECT_TRUE(event(VQP_EVENT_MIRROR_PUT));
    EXPECT_EQ(1u << 0, vqp_mirrors_put(&m_vqp));
    EXPECT_EQ(0u, m_tx.slow & VQP_TX_RINGS);
}

TEST_F(rings, a_mirror_is_freed_when_its_ring_is_released) {
    open(1);
    take_offer(1);
    EXPECT_EQ(VQP_RING_SWITCH, sent().type);
    consume();
    EXPECT_EQ(VQP_RING_RELEASE, sent().type);
    EXPECT_TRUE(event(VQP_EVENT_MIRROR_PUT));
    EXPECT_EQ(1u << 0, vqp_mirrors_put(&m_vqp));
    consume();

    ASSERT_EQ(0, hear(offer(0)));
    EXPECT_FALSE(event(VQP_EVENT_MIRROR_GET)); /* it comes with the next message */
    EXPECT_EQ(VQP_RING_SWITCH, sent().type);
    EXPECT_FALSE(event(VQP_EVENT_MIRROR_PUT));
    consume();
    EXPECT_TRUE(control(next()).empty());
    ASSERT_TRUE(event(VQP_EVENT_MIRROR_NEEDED));
    vqp_first_mirror_made(&m_vqp, m_mirror.data(), m_lkeys);
    auto msg = sent();
    EXPECT_EQ(VQP_RING_RELEASE, msg.type);
    EXPECT_EQ(1, msg.number);
    EXPECT_TRUE(event(VQP_EVENT_MIRROR_PUT));
    EXPECT_EQ(1u << 1, vqp_mirrors_put(&m_vqp));

    consume();
    ASSERT_TRUE(am(100));
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_LT(frags[0].raddr, RING_ADDR + RING);
    EXPECT_EQ(m_rkeys[0], frags[0].rkey);
}

TEST_F(rings, a_ring_without_a_mirror_is_refused) {
    open(1);
    ASSERT_EQ(0, hear(offer()));
    ASSERT_TRUE(event(VQP_EVENT_MIRROR_GET));
    vqp_mirror_made(&m_vqp, nullptr, nullptr);
    auto msg = sent();
    EXPECT_EQ(VQP_RING_RELEASE, msg.type);
    EXPECT_EQ(1, msg.number);
    ASSERT_TRUE(am(100));
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(RING_ADDR + 48, frags[0].raddr);
    EXPECT_EQ(0, hear(offer())); /* it may offer it again */
}

/* What was accepted before the switch, and waits for a path, is in the ring before */
TEST_F(rings, a_message_that_waits_stays_in_its_ring) {
    open(1);
    vqp_set_path_up(&m_vqp, 0, 0);
    ASSERT_TRUE(am(100));
    EXPECT_TRUE(next().empty());
    take_offer();
    EXPECT_TRUE(next().empty()); /* the SWITCH waits, too */
    ASSERT_TRUE(am(100));
    vqp_set_path_up(&m_vqp, 0, 1);
    auto frags = next();
    ASSERT_EQ(3u, frags.size());
    EXPECT_EQ(+RING_ADDR, frags[0].raddr);
    EXPECT_EQ(m_rkeys[0], frags[0].rkey);
    EXPECT_EQ(RING_ADDR + 128, frags[1].raddr);
    EXPECT_EQ(BIG_ADDR + 176, frags[2].raddr);
    EXPECT_EQ(71u, frags[2].rkey);
}

TEST_F(rings, a_replay_writes_to_the_ring_of_the_message) {
    open(2);
    auto lost = only(1, [&] { ASSERT_TRUE(am(100)); });
    ASSERT_EQ(1u, lost.size());
    only(0, [&] { take_offer(); });
    only(0, [&] { ASSERT_TRUE(am(100)); });

    die(1, msn(0));
    auto again = next();
    ASSERT_EQ(1u, again.size());
    EXPECT_EQ(lost[0].raddr, again[0].raddr);
    EXPECT_EQ(lost[0].rkey, again[0].rkey);
    EXPECT_EQ(lost[0].sge[0].addr, again[0].sge[0].addr);
    EXPECT_EQ(lost[0].sge[0].lkey, again[0].sge[0].lkey);
    EXPECT_EQ(lost[0].imm, again[0].imm);
    confirm_all(0);
    (void)ends();
    EXPECT_EQ(VQP_RING_RELEASE, sent().type);
}

/* ---- the receiver has another ring ---- */

TEST_F(rings, a_wish_makes_a_ring_of_four_times_the_size) {
    open(1);
    ASSERT_EQ(0, hear(want()));
    ASSERT_TRUE(event(VQP_EVENT_RING_GET));
    EXPECT_EQ(1, m_vqp.rings.next);
    EXPECT_EQ(4u * RING, vqp_ring_wanted(&m_vqp));
    EXPECT_TRUE(control(next()).empty());
    m_big_ring.assign(4 * RING, 0);
    vqp_ring_made(&m_vqp, m_big_ring.data(), m_big_rkeys, 2);
    auto msg = sent();
    EXPECT_EQ(VQP_RING_OFFER, msg.type);
    EXPECT_EQ(1, msg.number);
    EXPECT_EQ(2, msg.num_rkeys);
    EXPECT_EQ(4u * RING, msg.size);
    EXPECT_EQ((uintptr_t)m_big_ring.data(), msg.addr);
    EXPECT_EQ(41u, msg.rkeys[0]);
    EXPECT_EQ(42u, msg.rkeys[1]);
    EXPECT_EQ(0u, msg.rkeys[2]);
}

TEST_F(rings, a_ring_is_no_larger_than_both_sides_want) {
    m_ring_max = 2 * RING;
    open(1);
    ASSERT_EQ(0, hear(want()));
    ASSERT_TRUE(event(VQP_EVENT_RING_GET));
    EXPECT_EQ(2u * RING, vqp_ring_wanted(&m_vqp));
    vqp_ring_made(&m_vqp, nullptr, nullptr, 0);
    ASSERT_EQ(0, hear(want(RING))); /* the peer has no larger mirror */
    EXPECT_FALSE(event(VQP_EVENT_RING_GET));
}

TEST_F(rings, records_behind_the_switch_are_read_in_the_new_ring) {
    open(1);
    EXPECT_EQ(1, hear_text("in the first"));
    give_ring();
    EXPECT_EQ(m_big_ring.data(), m_vqp.rx.ring);
    EXPECT_EQ(4u * RING, m_vqp.rx.ring_size);
    EXPECT_EQ(1, hear_text("in the second"));
    EXPECT_EQ("in the second", m_taken);
    EXPECT_EQ(2u, m_stats.ams_rx); /* control records are none of the user's */
}

TEST_F(rings, wishes_are_ignored_while_a_ring_changes) {
    open(1);
    ASSERT_EQ(0, hear(want()));
    ASSERT_TRUE(event(VQP_EVENT_RING_GET));
    ASSERT_EQ(0, hear(want()));
    EXPECT_FALSE(event(VQP_EVENT_RING_GET));
    m_big_ring.assign(4 * RING, 0);
    vqp_ring_made(&m_vqp, m_big_ring.data(), m_big_rkeys, 2);
    EXPECT_EQ(VQP_RING_OFFER, sent().type);
    ASSERT_EQ(0, hear(want()));
    ASSERT_EQ(0, hear(other(VQP_RING_SWITCH, 1)));
    ASSERT_EQ(0, hear(want()));
    EXPECT_FALSE(event(VQP_EVENT_RING_GET));
    EXPECT_FALSE(event(VQP_EVENT_RING_PUT)); /* the first ring stays */
    ASSERT_EQ(0, hear(other(VQP_RING_RELEASE, 0)));
    EXPECT_FALSE(event(VQP_EVENT_RING_PUT));
    ASSERT_EQ(0, hear(want()));
    EXPECT_TRUE(event(VQP_EVENT_RING_GET));
    EXPECT_EQ(2, m_vqp.rings.next);
    EXPECT_EQ(16u * RING, vqp_ring_wanted(&m_vqp));
}

TEST_F(rings, a_ring_that_is_refused_is_freed) {
    open(1);
    ASSERT_EQ(0, hear(want()));
    ASSERT_TRUE(event(VQP_EVENT_RING_GET));
    m_big_ring.assign(4 * RING, 0);
    vqp_ring_made(&m_vqp, m_big_ring.data(), m_big_rkeys, 2);
    EXPECT_EQ(VQP_RING_OFFER, sent().type);
    ASSERT_EQ(0, hear(other(VQP_RING_RELEASE, 1)));
    EXPECT_TRUE(event(VQP_EVENT_RING_PUT));
    EXPECT_EQ(1, m_vqp.rings.put);
    EXPECT_EQ(+RING, m_vqp.rx.ring_size);
    ASSERT_EQ(0, hear(want()));
    EXPECT_TRUE(event(VQP_EVENT_RING_GET));
}

TEST_F(rings, without_memory_it_stays_as_it_is) {
    open(1);
    ASSERT_EQ(0, hear(want()));
    ASSERT_TRUE(event(VQP_EVENT_RING_GET));
    vqp_ring_made(&m_vqp, nullptr, nullptr, 0);
    EXPECT_TRUE(control(next()).empty());
    ASSERT_EQ(0, hear(want()));
    EXPECT_TRUE(event(VQP_EVENT_RING_GET));
}

TEST_F(rings, an_idle_ring_is_given_back) {
    open(1);
    give_ring();
    timer(); /* the first look */
    EXPECT_EQ(m_now + 1000, vqp_next_timeout(&m_vqp));
    EXPECT_EQ(1, hear_text("traffic"));
    m_now += 1000;
    timer();
    EXPECT_TRUE(control(next()).empty());
    m_now += 1000;
    vqp_on_time(&m_vqp, m_now, 0); /* there may be messages that were not handled */
    EXPECT_TRUE(control(next()).empty());
    m_now += 1000000;
    timer();
    EXPECT_EQ(UINT64_MAX, m_vqp.rings.due);
    auto msg = sent();
    EXPECT_EQ(VQP_RING_OFFER, msg.type);
    EXPECT_EQ(0, msg.number);
    EXPECT_EQ(0u, msg.addr);
    ASSERT_EQ(0, hear(other(VQP_RING_SWITCH, 0)));
    EXPECT_EQ(m_ring.data(), m_vqp.rx.ring);
    EXPECT_EQ(+RING, m_vqp.rx.ring_size);
    EXPECT_EQ(UINT64_MAX, m_vqp.rings.due);
    EXPECT_FALSE(event(VQP_EVENT_RING_PUT));
    ASSERT_EQ(0, hear(other(VQP_RING_RELEASE, 1)));
    EXPECT_TRUE(event(VQP_EVENT_RING_PUT));
    EXPECT_EQ(1, hear_text("small again"));
    EXPECT_EQ("small again", m_taken);
}

/* ---- peers that break the rules ---- */

TEST_F(rings, what_can_not_be_is_a_protocol_error) {
    vqp_ring_msg_t odd = offer(), tiny = offer(1, RING / 2), huge = offer(1, 2 * MAX),
                   nowhere = offer(), over = offer(), keys = offer(), type = want();

    odd.size       = 3 * RING;
    nowhere.addr   = 0;
    over.addr      = UINT64_MAX - RING;
    keys.num_rkeys = 1;
    type.type      = 9;
    for (const vqp_ring_msg_t &msg : {
                 odd, tiny, huge, nowhere, over, keys, type,
                 offer(3), offer(0), /* it writes to ring 0 */
                 other(VQP_RING_SWITCH, 1), other(VQP_RING_SWITCH, 0),
                 other(VQP_RING_RELEASE, 0), other(VQP_RING_RELEASE, 1),
                 other(VQP_RING_SWITCH, VQP_RING_NONE),
                 other(VQP_RING_RELEASE, VQP_RING_NONE)}) {
        open(1);
        EXPECT_EQ(VQP_ERR_PROTOCOL, hear(msg)) << (int)msg.type << (int)msg.number;
        EXPECT_TRUE(vqp_is_failed(&m_vqp));
        EXPECT_NE(nullptr, m_vqp.broken.what);
        m_vqp = vqp_t {};
        m_events.clear();
    }
}

TEST_F(rings, a_ring_that_is_being_made_was_not_offered) {
    for (vqp_ring_type_t type : {VQP_RING_SWITCH, VQP_RING_RELEASE}) {
        open(1);
        ASSERT_EQ(0, hear(want()));
        EXPECT_EQ(VQP_ERR_PROTOCOL, hear(other(type, 1)));
        m_vqp = vqp_t {};
        m_events.clear();
    }
}

TEST_F(rings, a_second_offer_is_a_protocol_error) {
    open(1);
    ASSERT_EQ(0, hear(offer(1)));
    EXPECT_EQ(VQP_ERR_PROTOCOL, hear(offer(2)));
}

TEST_F(rings, an_offer_that_was_not_wanted_is_a_protocol_error) {
    open(1);
    EXPECT_EQ(VQP_ERR_PROTOCOL, hear(offer(1), false));
}

/* The user has no room for a longer one, however large the ring is */
TEST_F(rings, a_message_takes_half_of_the_first_ring_at_most) {
    std::string longest(RING / 2 - sizeof(vqp_record_t), 'x');

    open(1);
    give_ring();
    EXPECT_EQ(1, hear_text(longest));
    EXPECT_EQ(VQP_ERR_PROTOCOL, hear_text(longest + "x"));
}

TEST_F(rings, a_control_record_has_its_length) {
    vqp_ring_msg_t msg = want();

    for (uint32_t length : {0u, 1u, (uint32_t)sizeof(msg) - 1}) {
        open(1);
        EXPECT_EQ(VQP_ERR_PROTOCOL,
                  hear(&msg, length, VQP_IMM_LAST | VQP_IMM_CONTROL));
        m_vqp = vqp_t {};
        m_events.clear();
    }
}

/* ---- the end ---- */

TEST_F(rings, a_side_that_sends_no_more_takes_part_no_more) {
    open(1);
    vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
    ASSERT_EQ(VQP_STATE_PEER_CLOSED, m_vqp.state);
    EXPECT_EQ(0, hear(want()));
    EXPECT_EQ(0, hear(offer()));
    EXPECT_FALSE(event(VQP_EVENT_RING_GET));
    EXPECT_FALSE(event(VQP_EVENT_MIRROR_GET));
}

/* Nobody waits for that record: an endpoint that waits for nothing gets the error when it
 * uses the vqp next */
TEST_F(rings, a_record_that_a_closed_peer_does_not_get_is_no_failure) {
    for (int failover : {0, 1}) {
        m_failover.is_on = (uint8_t)failover;
        open(1);
        take_offer();
        auto frags = control(next());
        ASSERT_EQ(1u, frags.size());
        vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
        vqp_on_send_error(&m_vqp, frags[0].path, frags[0].slot, VQP_ERR_TIMEOUT);
        vqp_on_recv_error(&m_vqp, &m_paths[0], VQP_ERR_CANCELED);
        EXPECT_EQ(VQP_STATE_PEER_CLOSED, m_vqp.state);
        EXPECT_FALSE(event(VQP_EVENT_FAILED));
        vqp_use(&m_vqp);
        EXPECT_TRUE(event(VQP_EVENT_FAILED));
        EXPECT_EQ(VQP_ERR_RESET, m_vqp.status);
        m_vqp = vqp_t {};
        m_events.clear();
    }
}

/* The error shows that what was sent before it on the path has arrived */
TEST_F(rings, a_message_before_that_record_does_not_matter) {
    open(1);
    ASSERT_TRUE(am(100));
    next();
    take_offer();
    auto frags = control(next());
    ASSERT_EQ(1u, frags.size());
    vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
    vqp_on_send_error(&m_vqp, frags[0].path, frags[0].slot, VQP_ERR_TIMEOUT);
    EXPECT_EQ(VQP_STATE_PEER_CLOSED, m_vqp.state);
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.am));
}

TEST_F(rings, a_message_that_a_closed_peer_does_not_get_is_a_failure) {
    open(1);
    ASSERT_TRUE(am(100));
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
    ASSERT_EQ(VQP_STATE_PEER_CLOSED, m_vqp.state);
    vqp_on_send_error(&m_vqp, frags[0].path, frags[0].slot, VQP_ERR_TIMEOUT);
    EXPECT_TRUE(event(VQP_EVENT_FAILED));
}

TEST_F(rings, a_failed_vqp_reads_on_in_the_new_ring) {
    open(1);
    give_ring();
    vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 0, 0);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(1, hear_text("what was sent before"));
    EXPECT_EQ("what was sent before", m_taken);
}

} /* namespace */
