/* Rings of ops that grow. */
#include "txkit.h"

#include "core/data/send.h"

namespace {

class opring_grows : public testing::Test {
protected:
    void init(uint32_t size, uint32_t most, uint8_t reserve = 0) {
        m_ops.resize(size);
        vqp_opring_init(&m_ring, m_ops.data(), size, most, reserve);
    }

    unsigned fill() {
        unsigned count = 0;

        while (vqp_opring_make_room(&m_ring)) {
            ++m_ring.tail;
            ++count;
        }
        return count;
    }

    void give() {
        m_more.resize(m_ring.most);
        vqp_opring_give(&m_ring, m_more.data());
    }

    std::vector<vqp_op_t> m_ops, m_more;
    vqp_opring_t          m_ring;
};

TEST_F(opring_grows, that_is_full_wants_more) {
    init(4, 16);
    EXPECT_FALSE(m_ring.wants);
    EXPECT_EQ(4u, fill());
    EXPECT_TRUE(m_ring.wants);
    give();
    EXPECT_FALSE(m_ring.wants);
}

TEST_F(opring_grows, that_has_all_its_slots_wants_none) {
    init(4, 4);
    EXPECT_EQ(4u, fill());
    EXPECT_FALSE(m_ring.wants);
}

TEST_F(opring_grows, takes_nothing_until_it_is_empty_then_it_has_more_slots) {
    init(4, 16);
    fill();
    give();
    for (m_ring.head = 1; m_ring.head < 4; ++m_ring.head) {
        EXPECT_FALSE(vqp_opring_takes(&m_ring));
        EXPECT_FALSE(vqp_opring_make_room(&m_ring));
        EXPECT_EQ(&m_ops[m_ring.head], vqp_opring_at(&m_ring, m_ring.head));
    }
    EXPECT_TRUE(vqp_opring_takes(&m_ring));
    EXPECT_EQ(&m_ops[0], vqp_opring_at(&m_ring, m_ring.tail)); /* to ask changes nothing */
    EXPECT_EQ(16u, fill());
    EXPECT_EQ(&m_more[4], vqp_opring_at(&m_ring, 4));
    EXPECT_EQ(&m_more[3], vqp_opring_at(&m_ring, 19));
    EXPECT_FALSE(m_ring.wants);
}

TEST_F(opring_grows, keeps_its_reserve) {
    init(4, 8, 1);
    EXPECT_EQ(3u, fill());
    give();
    m_ring.head = m_ring.tail;
    EXPECT_EQ(7u, fill());
}

TEST_F(opring_grows, goes_on_without_memory_and_asks_again) {
    init(4, 16);
    fill();
    vqp_opring_give(&m_ring, nullptr);
    EXPECT_FALSE(m_ring.wants);
    ++m_ring.head;
    EXPECT_EQ(1u, fill());
    EXPECT_TRUE(m_ring.wants);
}

/* The rings of a sender */
class ops_grow : public txkit {
protected:
    void SetUp() override {
        m_num_ops      = 4;
        m_cfg.most_ops = 16;
    }

    void give(vqp_opring_t &ring) {
        ASSERT_EQ(&ring, vqp_tx_short_ring(&m_tx));
        m_more.resize(ring.most);
        vqp_tx_give_ops(&m_tx, &ring, m_more.data());
        EXPECT_EQ(nullptr, vqp_tx_short_ring(&m_tx));
    }

    /* Accepted until one is refused */
    template<typename F> unsigned until_refused(F &&accept) {
        unsigned count = 0;

        while (accept(&m_users[count])) {
            ++count;
        }
        return count;
    }

    unsigned puts() {
        return until_refused([&](char *user) { return rma(VQP_KIND_PUT, 8, user); });
    }

    unsigned ams() {
        return until_refused([&](char *user) { return am(8, user); });
    }

    /* Those of the first @a count ops that puts() or ams() has had accepted */
    std::vector<void*> users(unsigned count) {
        std::vector<void*> all;

        for (unsigned i = 0; i < count; ++i) {
            all.push_back(&m_users[i]);
        }
        return all;
    }

    /* A message, by the fast path */
    bool sent(uint32_t length) {
        vqp_tx_am_t am;
        vqp_frag_t frag;
        vqp_sge_t sge;

        if (!vqp_tx_am_begin(&m_tx, length, 0, &am)) {
            return false;
        }
        am.op->user      = nullptr;
        am.op->user_kind = 0;
        return vqp_tx_send_am(&m_tx, &am, 1, length, length, &m_credit, 1, &sge, &frag) ==
               VQP_SEND_FRAG;
    }

    std::vector<vqp_op_t> m_more;
    char                  m_users[32];
};

TEST_F(ops_grow, puts_wait_until_all_before_have_ended)
{
    start(2);
    EXPECT_EQ(3u, puts());
    EXPECT_FALSE(m_tx.am.wants);
    give(m_tx.rma);

    auto frags = dispatch();
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_FALSE(rma(VQP_KIND_PUT, 8));
        EXPECT_FALSE(vqp_tx_may_barrier(&m_tx));
        confirm({frags[i]});
        EXPECT_EQ(std::vector<void*> {&m_users[i]}, done());
    }
    EXPECT_TRUE(vqp_tx_may_barrier(&m_tx));
    EXPECT_EQ(15u, puts());
    EXPECT_TRUE(barrier(nullptr, VQP_OP_CLOSE));
    confirm(dispatch());
    EXPECT_EQ(users(15), done());
    EXPECT_TRUE(m_tx.closed);
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
}

TEST_F(ops_grow, messages_wait_until_all_before_have_ended)
{
    start(2);
    EXPECT_EQ(4u, ams());
    EXPECT_FALSE(m_tx.rma.wants);
    give(m_tx.am);
    EXPECT_FALSE(am(8));
    confirm(dispatch());
    EXPECT_EQ(users(4), done());
    EXPECT_EQ(16u, ams());
}

/* The ring was full, and has room again when the slots are given */
TEST_F(ops_grow, messages_that_were_free_to_go_wait_too)
{
    start(2);
    EXPECT_EQ(4u, ams());
    auto frags = dispatch();
    confirm({frags[0], frags[1]});
    EXPECT_EQ(users(2), done());
    EXPECT_TRUE(sent(8));
    EXPECT_EQ(1u, m_tx.fc.am_credits); /* one more needs no check */
    give(m_tx.am);
    EXPECT_FALSE(am(8));
}

TEST_F(ops_grow, a_barrier_is_an_op_too)
{
    start(2);
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_TRUE(am(8)); /* it waits for these */
        EXPECT_TRUE(barrier(nullptr));
    }
    EXPECT_FALSE(barrier(nullptr));
    give(m_tx.rma);
    EXPECT_TRUE(barrier(nullptr, VQP_OP_CLOSE)); /* it has its slot, whatever is waited for */
    confirm(dispatch());
    (void)done();
    EXPECT_TRUE(am(8));
    EXPECT_TRUE(barrier(nullptr)); /* the ring is empty: it grows */
    EXPECT_EQ(14u, puts());
}

/* Between the gift and the growth */
TEST_F(ops_grow, all_ends_if_the_sender_fails_meanwhile)
{
    start(2);
    EXPECT_EQ(3u, puts());
    give(m_tx.rma);
    auto frags = dispatch();
    vqp_tx_fail(&m_tx, VQP_ERR_IO);
    for (const vqp_frag_t &frag : frags) {
        retire(frag, VQP_ERR_IO);
    }
    EXPECT_EQ(users(3), done(VQP_ERR_IO));
    EXPECT_TRUE(vqp_opring_is_empty(&m_tx.rma));
}

TEST_F(ops_grow, pieces_have_memory_for_all_slots) {
    std::vector<vqp_iov_t> ext;

    start(1);
    EXPECT_EQ(32u * 5, vqp_tx_iov_ext_count(&m_tx, 5));
    ext.resize(32 * 5);
    vqp_tx_set_iov_ext(&m_tx, ext.data(), 5);
    EXPECT_EQ(&ext[16 * 5], vqp_tx_op_iov(&m_tx, &m_am_ops[0], 3));
}

} /* namespace */
