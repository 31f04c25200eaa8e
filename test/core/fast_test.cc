/*
 * The short way and the long way do the same: two senders get the same calls,
 * one takes the short way where it is open, and they stay equal.
 */
#include "txkit.h"

#include <random>

extern "C" {
#include "core/fast.h"
}

namespace {

/* What was sent: the short way gives no more than this */
struct sent {
    unsigned path;
    uint16_t pos;
    uint32_t length;
    uint64_t raddr;
    uint32_t imm;
    unsigned flags;

    bool operator==(const sent &other) const {
        return (path == other.path) && (pos == other.pos) &&
               (length == other.length) && (raddr == other.raddr) &&
               (imm == other.imm) && (flags == other.flags);
    }
};

class twin : public txkit {
public:
    twin() {
        m_cfg.signal_every = 5;
        m_cfg.path_cap     = 3000;
        m_cfg.fsn_window   = 32;
        m_depth            = 12;
    }

    void TestBody() override {
    }

    using txkit::start;
    using txkit::u;

    void report_in_order(bool is_on) {
        m_cfg.comp_post = is_on;
    }

    void fence() {
        vqp_tx_fence(&m_tx);
    }

    bool send_am(uint32_t length, bool is_fast) {
        unsigned flags = 0;
        uint32_t imm;
        vqp_record_t *record;
        vqp_op_t *op     = vqp_tx_am_begin(&m_tx, length, &record);
        vqp_path_t *path = nullptr;

        if (op == nullptr) {
            send();
            return false;
        }

        op->user_kind = 0;
        if (is_fast && ((path = vqp_tx_fast_am_path(&m_tx, op)) != nullptr)) {
            uint16_t pos = vqp_tx_fast_am(&m_tx, path, op, record, 1, length,
                                          &m_credit, &imm, &flags);

            m_sent.push_back({path->index, pos, (uint32_t)op->length, op->raddr,
                              imm, flags});
            ++m_fast;
            return true;
        }

        vqp_tx_am_commit(&m_tx, op, 1, length, length, &m_credit);
        send();
        return true;
    }

    bool send_put(uint32_t length, void *user, uint8_t op_flags, bool is_fast) {
        unsigned flags   = 0;
        vqp_op_t *op     = begin(VQP_KIND_PUT, user, op_flags);
        vqp_path_t *path = nullptr;

        if (op == nullptr) {
            send();
            return false;
        }

        op->length = length;
        *vqp_tx_op_iov(&m_tx, op, 1) = {USER_ADDR, length, &m_lkey};
        vqp_tx_rma_cut(&m_tx, op);
        if (is_fast && ((path = vqp_tx_fast_put_path(&m_tx)) != nullptr)) {
            uint16_t pos = vqp_tx_fast_put(&m_tx, path, op, &flags);

            m_sent.push_back({path->index, pos, length, op->raddr, 0, flags});
            ++m_fast;
            return true;
        }

        vqp_tx_rma_commit(&m_tx, op);
        send();
        return true;
    }

    bool send_get(uint32_t length, void *user, uint8_t op_flags, bool is_fast) {
        unsigned flags   = 0;
        vqp_op_t *op     = begin(VQP_KIND_GET, user, op_flags);
        vqp_path_t *path = nullptr;

        if (op == nullptr) {
            send();
            return false;
        }

        op->length = length;
        *vqp_tx_op_iov(&m_tx, op, 1) = {USER_ADDR, length, &m_lkey};
        vqp_tx_rma_cut(&m_tx, op);
        if (is_fast && (length <= (1u << op->frag_shift)) &&
            ((path = vqp_tx_fast_read_path(&m_tx)) != nullptr)) {
            uint16_t pos = vqp_tx_fast_read(&m_tx, path, op, &flags);

            m_sent.push_back({path->index, pos, length, op->raddr, 0, flags});
            ++m_fast;
            return true;
        }

        vqp_tx_rma_commit(&m_tx, op);
        send();
        return true;
    }

    void confirm_first(size_t n) {
        for (; (n > 0) && !m_sent.empty(); --n) {
            if (m_sent.front().flags & VQP_FRAG_SIGNALED) {
                vqp_tx_retire(&m_tx, &m_paths[m_sent.front().path],
                              m_sent.front().pos, VQP_OK);
            }
            m_sent.erase(m_sent.begin());
        }
        m_done = done();
        send();
    }

    void credit() {
        credit_all();
        send();
    }

    void check_equal(const twin &other) const {
        const vqp_tx_t &a = m_tx, &b = other.m_tx;

        ASSERT_EQ(a.seq, b.seq);
        ASSERT_EQ(a.slow, b.slow);
        ASSERT_EQ(a.next_path, b.next_path);
        ASSERT_EQ(a.fsn_next, b.fsn_next);
        ASSERT_EQ(a.fsn_reserved, b.fsn_reserved);
        ASSERT_EQ(a.ring_head, b.ring_head);
        ASSERT_EQ(a.ring_local, b.ring_local);
        ASSERT_EQ(a.fence_am, b.fence_am);
        ASSERT_EQ(a.fence_rma, b.fence_rma);
        for (auto ring : {&vqp_tx_t::am, &vqp_tx_t::rma}) {
            ASSERT_EQ((a.*ring).head, (b.*ring).head);
            ASSERT_EQ((a.*ring).post, (b.*ring).post);
            ASSERT_EQ((a.*ring).tail, (b.*ring).tail);
        }
        for (size_t i = 0; i < m_paths.size(); ++i) {
            check_paths(m_paths[i], other.m_paths[i]);
        }
        ASSERT_EQ(m_fsn_path, other.m_fsn_path);
        ASSERT_EQ(m_mirror, other.m_mirror);
        ASSERT_EQ(m_stats.ops, other.m_stats.ops);
        ASSERT_TRUE(m_sent == other.m_sent);
        ASSERT_EQ(m_done.size(), other.m_done.size());
    }

    uint64_t m_fast = 0;

private:
    static void check_paths(const vqp_path_t &a, const vqp_path_t &b) {
        ASSERT_EQ(a.head, b.head);
        ASSERT_EQ(a.tail, b.tail);
        ASSERT_EQ(a.unsignaled, b.unsignaled);
        ASSERT_EQ(a.unsignaled_bytes, b.unsignaled_bytes);
        ASSERT_EQ(a.bytes, b.bytes);
        ASSERT_EQ(a.imms, b.imms);
        ASSERT_EQ(a.rma, b.rma);
        ASSERT_EQ(a.reads, b.reads);
        ASSERT_EQ(a.stats.frags, b.stats.frags);
        ASSERT_EQ(a.stats.bytes, b.stats.bytes);
        ASSERT_EQ(a.stats.imms, b.stats.imms);
        for (uint16_t pos = a.head; pos != a.tail; ++pos) {
            const vqp_inflight_t &ea = a.inflight[pos & a.mask];
            const vqp_inflight_t &eb = b.inflight[pos & b.mask];

            ASSERT_EQ(ea.op, eb.op);
            ASSERT_EQ(ea.kind, eb.kind);
            ASSERT_EQ(ea.offset, eb.offset);
            ASSERT_EQ(ea.length, eb.length);
        }
    }

    /* The long way */
    void send() {
        for (const vqp_frag_t &frag : dispatch()) {
            m_sent.push_back({frag.path->index, frag.pos, frag.length,
                              frag.raddr,
                              (frag.opcode == VQP_WR_WRITE_IMM) ? frag.imm : 0,
                              (unsigned)frag.flags & VQP_FRAG_SIGNALED});
        }
    }

    std::vector<sent>  m_sent;
    std::vector<void*> m_done;
};

TEST(fast, does_the_same_as_the_long_way) {
    uint64_t count = 0;

    for (uint32_t seed = 0; seed < 200; ++seed) {
        std::mt19937 rng(seed);
        unsigned num_paths = 1 + rng() % 4;
        twin fast, slow;

        fast.report_in_order(seed % 2);
        slow.report_in_order(seed % 2);
        fast.start(num_paths);
        slow.start(num_paths);
        for (unsigned i = 0; i < 300; ++i) {
            uint32_t length = 1 + (uint32_t)(rng() % 200);
            uint8_t flags   = (rng() % 2) ? VQP_OP_SIGNAL : 0;
            bool user       = rng() % 2;
            size_t n        = rng() % 10;

            switch (rng() % 9) {
            case 8:
                ASSERT_EQ(fast.send_get(length, user ? fast.u : nullptr, flags,
                                        true),
                          slow.send_get(length, user ? slow.u : nullptr, flags,
                                        false));
                break;
            case 0:
            case 1:
            case 2:
                ASSERT_EQ(fast.send_am(length, true),
                          slow.send_am(length, false));
                break;
            case 3:
            case 4:
            case 5:
                ASSERT_EQ(fast.send_put(length, user ? fast.u : nullptr, flags,
                                        true),
                          slow.send_put(length, user ? slow.u : nullptr, flags,
                                        false));
                break;
            case 6:
                fast.confirm_first(n);
                slow.confirm_first(n);
                break;
            default:
                if (n == 0) {
                    fast.fence();
                    slow.fence();
                } else {
                    fast.credit();
                    slow.credit();
                }
            }

            ASSERT_NO_FATAL_FAILURE(fast.check_equal(slow)) << "seed " << seed;
        }

        count += fast.m_fast;
    }

    EXPECT_GT(count, 200 * 45u);
}

class fast_way : public txkit {
protected:
    bool am_open() {
        vqp_record_t *record;
        vqp_op_t *op = vqp_tx_am_begin(&m_tx, 8, &record);

        return (op != nullptr) &&
               (vqp_tx_fast_am_path(&m_tx, op) != nullptr);
    }

    bool read_open() {
        return vqp_tx_fast_read_path(&m_tx) != nullptr;
    }

    bool put_open() {
        return vqp_tx_fast_put_path(&m_tx) != nullptr;
    }
};

TEST_F(fast_way, is_open_when_nothing_is_in_front) {
    start(2);
    EXPECT_TRUE(am_open());
    EXPECT_TRUE(put_open());
}

/* left: in turn while that is as good */
TEST_F(fast_way, is_open_to_left_while_paths_are_even_and_little_is_in_flight) {
    m_cfg.sched    = VQP_SCHED_LEFT;
    m_cfg.path_cap = 4 * VQP_PACE_SAMPLE;
    start(2);
    m_tx.now = 1000000000;
    EXPECT_TRUE(put_open());
    m_paths[0].bytes = m_cfg.path_cap / 2;
    EXPECT_FALSE(put_open());
    m_paths[0].bytes = 0;

    /* a put of two frags, measured: one path takes three times as long */
    rma(VQP_KIND_PUT, VQP_PACE_SAMPLE * 2);
    std::vector<vqp_frag_t> frags = dispatch();
    ASSERT_EQ(2u, frags.size());
    EXPECT_TRUE(vqp_tx_is_paced(&m_paths[0]));
    for (unsigned i : {0, 1}) {
        m_tx.seen = m_tx.now + 1000 + 2000 * i;
        m_tx.now  = m_tx.seen + 1;
        retire(frags[i]);
    }
    done();
    EXPECT_FALSE(vqp_tx_is_paced(&m_paths[0]));
    EXPECT_FALSE(put_open());
    EXPECT_FALSE(am_open());

    /* what is old is forgotten */
    m_tx.now += 2ul * VQP_PACE_FORGET;
    EXPECT_TRUE(dispatch().empty());
    EXPECT_TRUE(put_open());
    EXPECT_TRUE(am_open());
}

TEST_F(fast_way, is_closed_by_what_dispatch_has_to_do_first) {
    start(2);
    vqp_tx_want_control(&m_tx);
    EXPECT_FALSE(am_open());
    EXPECT_FALSE(put_open());
}

TEST_F(fast_way, is_closed_by_older_ops_of_the_ring) {
    start(1);
    m_paths[0].up = 0;
    am(8);
    m_paths[0].up = 1;
    EXPECT_FALSE(am_open());
    EXPECT_TRUE(put_open());
    rma(VQP_KIND_PUT, 8);
    EXPECT_FALSE(put_open());
}

TEST_F(fast_way, is_closed_by_a_fence) {
    start(1);
    rma(VQP_KIND_PUT, 8);
    dispatch();
    vqp_tx_fence(&m_tx);
    EXPECT_FALSE(am_open());
    EXPECT_FALSE(put_open());
}

TEST_F(fast_way, is_closed_without_room_or_receives) {
    start(1);
    m_paths[0].imms = m_paths[0].imms_max;
    EXPECT_FALSE(am_open());
    EXPECT_TRUE(put_open());
    m_paths[0].up = 0;
    EXPECT_FALSE(put_open());
}

TEST_F(fast_way, is_closed_to_reads_without_their_credit) {
    start(1);
    m_paths[0].reads = m_paths[0].reads_max - 1;
    EXPECT_TRUE(read_open());
    m_paths[0].reads = m_paths[0].reads_max;
    EXPECT_FALSE(read_open());
    EXPECT_TRUE(put_open());
}

TEST_F(fast_way, looks_again_after_another_way_has_spent_credits) {
    uint32_t length = 8;
    unsigned flags  = 0;

    m_cfg.signal_every = 100;
    start(1);
    vqp_op_t *op = begin(VQP_KIND_PUT, nullptr, 0);
    op->length = length;
    *vqp_tx_op_iov(&m_tx, op, 1) = {USER_ADDR, length, &m_lkey};
    vqp_tx_rma_cut(&m_tx, op);
    vqp_tx_fast_put(&m_tx, vqp_tx_fast_put_path(&m_tx), op, &flags);
    EXPECT_GT(m_paths[0].free_frags, 0u);

    rma(VQP_KIND_PUT, 8);
    dispatch();
    EXPECT_EQ(0u, m_paths[0].free_frags);
    EXPECT_TRUE(am_open());
    EXPECT_GT(m_tx.free_ams, 0u);
    vqp_tx_want_control(&m_tx);
    dispatch();
    EXPECT_EQ(0u, m_tx.free_ams);
}

TEST_F(fast_way, is_closed_for_schedulers_that_look_at_all_paths) {
    m_cfg.sched = VQP_SCHED_LEAST;
    start(2);
    EXPECT_FALSE(am_open());
    EXPECT_FALSE(put_open());
}

TEST_F(fast_way, is_closed_on_request) {
    m_cfg.no_fast = 1;
    start(2);
    EXPECT_FALSE(am_open());
    EXPECT_FALSE(put_open());
}

} /* namespace */
