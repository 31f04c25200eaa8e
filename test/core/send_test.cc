/*
 * The fast path and dispatch do the same: two senders get the same calls, one
 * takes the fast path where it is allowed, and they stay equal.
 */
#include "txkit.h"

#include <random>

extern "C" {
#include "core/data/send.h"
}

namespace {

/* A frag, as far as both ways fill it in */
struct sent {
    unsigned path;
    uint16_t slot;
    uint8_t  opcode;
    uint32_t length;
    uint64_t raddr;
    uint32_t rkey;
    uint32_t imm;
    unsigned flags;
    unsigned kind;
    uint8_t  nsge;
    uint64_t addr; /* of the last piece: first_byte() of it */
    uint32_t bytes;
    uint32_t lkey;

    bool operator==(const sent &other) const {
        return (path == other.path) && (slot == other.slot) &&
               (opcode == other.opcode) && (length == other.length) &&
               (raddr == other.raddr) && (rkey == other.rkey) &&
               (imm == other.imm) && (flags == other.flags) &&
               (kind == other.kind) && (nsge == other.nsge) &&
               (addr == other.addr) && (bytes == other.bytes) &&
               (lkey == other.lkey);
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
    using txkit::m_cfg;
    using txkit::m_depth;

    void report_in_order(bool is_on) {
        m_cfg.comp_post = is_on;
    }

    void fence() {
        vqp_tx_fence(&m_tx);
    }

    void flush() {
        barrier(u);
        send();
    }

    /* All in the mirror, or the last bytes from the user */
    bool send_am(uint32_t length, uint32_t in_mirror, void *user, bool is_fast) {
        vqp_tx_am_t am;

        if (!vqp_tx_am_begin(&m_tx, length, 0, &am)) {
            send();
            return false;
        }

        am.op->user      = user;
        am.op->user_kind = user != nullptr;
        if (user != nullptr) {
            am.op->flags |= VQP_OP_SIGNAL;
        }
        if (length != in_mirror) {
            vqp_tx_op_iov(&m_tx, am.op, 2)[1] = {USER_ADDR, length - in_mirror,
                                                 &m_lkey};
        }

        if (!is_fast) {
            vqp_tx_am_commit(&m_tx, am, 1, length, in_mirror, &m_credit);
            send();
        } else if (length == in_mirror) {
            posted(vqp_tx_send_am(&m_tx, &am, 1, length, in_mirror, &m_credit,
                                  1, m_sge, &m_frag), am.op);
        } else {
            posted(vqp_tx_send_am(&m_tx, &am, 1, length, in_mirror, &m_credit,
                                  2, m_sge, &m_frag), am.op);
        }
        return true;
    }

    template <vqp_kind_t KIND>
    bool send_rma(uint32_t length, void *user, uint8_t op_flags, bool is_fast,
                  unsigned flags = 0) {
        vqp_op_t *op = begin(KIND, user, op_flags);

        if (op == nullptr) {
            send();
            return false;
        }

        op->length = length;
        if (KIND == VQP_KIND_FADD) {
            op->frag_shift = 3;
            op->amo.result = nullptr;
        } else if (flags & VQP_FRAG_INLINE) {
            op->frag_shift = 16;
            op->flags     |= VQP_OP_INLINE;
        } else {
            *vqp_tx_op_iov(&m_tx, op, 1) = {USER_ADDR, length, &m_lkey};
            vqp_tx_rma_set_frag_size(&m_tx, op);
        }

        if (is_fast) {
            posted(vqp_tx_send_rma(&m_tx, op, KIND, flags, m_sge, &m_frag), op);
        } else {
            vqp_tx_rma_commit(&m_tx, op);
            send();
        }
        return true;
    }

    void confirm_first(size_t n) {
        for (; (n > 0) && !m_sent.empty(); --n) {
            if (m_sent.front().flags & VQP_FRAG_SIGNALED) {
                vqp_tx_retire(&m_tx, &m_paths[m_sent.front().path],
                              m_sent.front().slot, VQP_OK);
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
        ASSERT_EQ(a.paths.next, b.paths.next);
        ASSERT_EQ(a.fc.fsn_next, b.fc.fsn_next);
        ASSERT_EQ(a.fc.fsn_reserved, b.fc.fsn_reserved);
        ASSERT_EQ(a.fc.ring_head, b.fc.ring_head);
        ASSERT_EQ(a.fc.ring_local, b.fc.ring_local);
        ASSERT_EQ(a.fence.am, b.fence.am);
        ASSERT_EQ(a.barriers, b.barriers);
        for (auto ring : {&vqp_tx_t::am, &vqp_tx_t::rma}) {
            ASSERT_EQ((a.*ring).head, (b.*ring).head);
            ASSERT_EQ((a.*ring).post, (b.*ring).post);
            ASSERT_EQ((a.*ring).tail, (b.*ring).tail);
        }
        for (size_t i = 0; i < m_paths.size(); ++i) {
            check_paths(m_paths[i], other.m_paths[i]);
        }
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
        ASSERT_EQ(a.signaled, b.signaled);
        ASSERT_EQ(a.ring_signaled, b.ring_signaled);
        ASSERT_EQ(a.bytes, b.bytes);
        ASSERT_EQ(a.rma, b.rma);
        ASSERT_EQ(a.reads, b.reads);
        ASSERT_EQ(a.stats.frags, b.stats.frags);
        ASSERT_EQ(a.stats.bytes, b.stats.bytes);
        ASSERT_EQ(a.stats.imms, b.stats.imms);
        for (uint16_t slot = a.head; slot != a.tail; ++slot) {
            const vqp_inflight_t &ea = a.inflight[slot & a.mask];
            const vqp_inflight_t &eb = b.inflight[slot & b.mask];

            ASSERT_EQ(ea.op, eb.op);
            ASSERT_EQ(ea.kind, eb.kind);
            ASSERT_EQ(ea.offset, eb.offset);
            ASSERT_EQ(ea.length, eb.length);
        }
    }

    /* An address, or the offset in what each sender has of its own */
    uint64_t first_byte(uint64_t addr) const {
        const std::pair<uintptr_t, size_t> own[] = {
            {(uintptr_t)m_mirror.data(), m_mirror.size()},
            {(uintptr_t)m_cells.data(), m_cells.size()},
            {(uintptr_t)m_results.data(), 8 * m_results.size()},
            {(uintptr_t)m_rma_ops.data(), sizeof(vqp_op_t) * m_rma_ops.size()}
        };

        for (const auto &area : own) {
            if (addr - area.first < area.second) {
                return addr - area.first;
            }
        }
        return addr;
    }

    void add(const vqp_frag_t &frag) {
        const vqp_sge_t none {};
        const vqp_sge_t &sge = (frag.nsge == 0) ? none :
                                                  frag.sge[frag.nsge - 1];

        m_sent.push_back({frag.path->index, frag.slot, frag.opcode, frag.length,
                          frag.raddr, frag.rkey,
                          (frag.opcode == VQP_WR_WRITE_IMM) ? frag.imm : 0,
                          frag.flags & VQP_FRAG_SEND, frag.kind, frag.nsge,
                          first_byte(sge.addr), sge.length, sge.lkey});
    }

    void posted(vqp_send_t how, const vqp_op_t *op) {
        if (how == VQP_SEND_FRAG) {
            ASSERT_EQ(op, m_frag.op);
            add(m_frag);
            ++m_fast;
            return;
        }

        if (how == VQP_SEND_SPREAD) {
            while (vqp_tx_spread_next(&m_tx, (vqp_op_t*)op, m_sge, &m_frag)) {
                ASSERT_EQ(op, m_frag.op);
                add(m_frag);
                ++m_fast;
            }
        }
        send(); /* what is left of it */
    }

    /* By dispatch */
    void send() {
        for (const vqp_frag_t &frag : dispatch()) {
            add(frag);
        }
    }

    vqp_sge_t          m_sge[2];
    vqp_frag_t         m_frag;
    std::vector<sent>  m_sent;
    std::vector<void*> m_done;
};

/* One call, of a kind that @a rng draws; false if it was refused */
bool random_call(twin &sender, std::mt19937 rng, bool is_fast) {
    uint32_t length = 1 + (uint32_t)(rng() % 200);
    uint8_t flags   = (rng() % 2) ? VQP_OP_SIGNAL : 0;
    void *user      = (rng() % 2) ? sender.u : nullptr;
    size_t n        = rng() % 10;

    switch (rng() % 11) {
    case 0:
    case 1:
        return sender.send_am(length, length, nullptr, is_fast);
    case 2:
        return sender.send_am(length, length / 2, user, is_fast);
    case 3:
    case 4:
        return sender.send_rma<VQP_KIND_PUT>(length, user, flags, is_fast);
    case 5:
        return sender.send_rma<VQP_KIND_PUT>(1 + length % 64, nullptr, flags,
                                             is_fast, VQP_FRAG_INLINE);
    case 6:
        return sender.send_rma<VQP_KIND_GET>(length, user, flags, is_fast);
    case 7:
        return sender.send_rma<VQP_KIND_FADD>(8, user, flags, is_fast);
    case 8:
    case 9:
        sender.confirm_first(n);
        return true;
    default:
        if (n == 0) {
            sender.fence();
        } else if (n == 1) {
            sender.flush();
        } else {
            sender.credit();
        }
        return true;
    }
}

TEST(send, does_the_same_as_commit_and_dispatch) {
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
            std::mt19937 call(rng());

            ASSERT_EQ(random_call(slow, call, false),
                      random_call(fast, call, true)) << "seed " << seed;
            ASSERT_NO_FATAL_FAILURE(fast.check_equal(slow))
                    << "seed " << seed << ", call " << i;
        }

        count += fast.m_fast;
    }

    EXPECT_GT(count, 200 * 45u);
}

/* A put of a frag per path. Nothing is full here: otherwise dispatch continues
 * with the put, and requests CQEs for the frags that it sees together. */
TEST(send, spreads_a_put_as_dispatch_does) {
    uint64_t count = 0;

    for (uint32_t seed = 0; seed < 50; ++seed) {
        std::mt19937 rng(seed);
        unsigned num_paths = 2 + rng() % 3;
        twin fast, slow;

        fast.start(num_paths);
        slow.start(num_paths);
        for (unsigned i = 0; i < 100; ++i) {
            uint32_t length = 1 + (uint32_t)(rng() % 1200);
            uint8_t flags   = (rng() % 2) ? VQP_OP_SIGNAL : 0;

            for (twin *sender : {&fast, &slow}) {
                ASSERT_TRUE(sender->send_rma<VQP_KIND_PUT>(length, sender->u,
                                                           flags,
                                                           sender == &fast));
            }
            ASSERT_NO_FATAL_FAILURE(fast.check_equal(slow)) << "seed " << seed;
            for (twin *sender : {&fast, &slow}) {
                sender->flush();
                sender->confirm_first(100);
            }
        }
        count += fast.m_fast;
    }

    EXPECT_GT(count, 50 * 100u);
}

class fast_path : public txkit {
protected:
    bool am_open() {
        vqp_tx_am_t am;

        return vqp_tx_am_begin(&m_tx, 8, 0, &am) &&
               !(am.op->flags & VQP_OP_FENCE) &&
               (vqp_tx_fast_path(&m_tx, &m_tx.am,
                                 m_tx.slow & ~VQP_TX_FENCE_RMA, 8) != nullptr);
    }

    bool put_open() {
        return vqp_tx_fast_path(&m_tx, &m_tx.rma, m_tx.slow, 8) != nullptr;
    }

    template <vqp_kind_t KIND>
    vqp_send_t send(uint32_t length, unsigned pieces = 1, uint8_t flags = 0) {
        vqp_op_t *op = begin(KIND, nullptr, flags);

        op->length = length;
        for (unsigned i = 0; i < pieces; ++i) {
            vqp_tx_op_iov(&m_tx, op, pieces)[i] = {USER_ADDR, length / pieces,
                                                   &m_lkey};
        }
        vqp_tx_rma_set_frag_size(&m_tx, op);
        return vqp_tx_send_rma(&m_tx, op, KIND, 0, &m_sge, &m_frag);
    }

    vqp_send_t send_am(uint32_t length) {
        vqp_tx_am_t am;

        EXPECT_TRUE(vqp_tx_am_begin(&m_tx, length, 0, &am));
        am.op->user_kind = 0;
        return vqp_tx_send_am(&m_tx, &am, 1, length, length, &m_credit, 1,
                              &m_sge, &m_frag);
    }

    vqp_sge_t  m_sge;
    vqp_frag_t m_frag;
};

TEST_F(fast_path, is_allowed_when_nothing_is_in_front) {
    start(2);
    EXPECT_TRUE(am_open());
    EXPECT_TRUE(put_open());
}

/* left: in turn while that is as good */
TEST_F(fast_path, is_allowed_to_left_while_paths_are_symmetric_and_idle_enough) {
    m_cfg.sched    = VQP_SCHED_LEFT;
    m_cfg.path_cap = 4 * VQP_RATE_SAMPLE;
    start(2);
    m_tx.clock.now = 1000000000;
    EXPECT_TRUE(put_open());
    m_paths[0].bytes = m_cfg.path_cap / 2;
    EXPECT_FALSE(put_open());
    m_paths[0].bytes = 0;

    /* a put of two frags, measured: one path takes three times as long */
    EXPECT_EQ(VQP_SEND_QUEUED, send<VQP_KIND_PUT>(VQP_RATE_SAMPLE * 2));
    vqp_tx_reclaim(&m_tx);
    std::vector<vqp_frag_t> frags = dispatch();
    ASSERT_EQ(2u, frags.size());
    EXPECT_TRUE(vqp_tx_is_rated(&m_paths[0]));
    for (unsigned i : {0, 1}) {
        m_tx.clock.seen = m_tx.clock.now + 1000 + 2000 * i;
        m_tx.clock.looked = m_tx.clock.seen;
        m_tx.clock.now    = m_tx.clock.seen + 1;
        retire(frags[i]);
    }
    EXPECT_FALSE(vqp_tx_is_rated(&m_paths[0]));
    EXPECT_TRUE(m_tx.slow & VQP_TX_ASYMMETRIC);
    EXPECT_FALSE(put_open());
    EXPECT_FALSE(am_open());

    /* old rates are discarded */
    m_tx.clock.now += 2ul * VQP_RATE_FORGET;
    EXPECT_TRUE(dispatch().empty());
    EXPECT_TRUE(put_open());
    EXPECT_TRUE(am_open());
}

/* Paths that have taken frags of the fast path only have no measured rate */
TEST_F(fast_path, is_not_allowed_to_fill_the_slower_of_two_paths) {
    unsigned on_slow = 0;

    m_cfg.sched     = VQP_SCHED_LEFT;
    m_cfg.path_cap  = 4 * VQP_RATE_SAMPLE;
    m_cfg.min_shift = 12;
    start(2);
    m_tx.clock.now = 1000000000;
    for (unsigned i = 0; i < 20; ++i) {
        if (send<VQP_KIND_PUT>(2048, 1, VQP_OP_SIGNAL) == VQP_SEND_FRAG) {
            on_slow += m_frag.path == &m_paths[0];
            if (m_frag.path == &m_paths[1]) {
                retire(m_frag);
            }
        } else {
            for (const vqp_frag_t &frag : dispatch()) {
                ASSERT_EQ(&m_paths[1], frag.path);
                retire(frag);
            }
        }
    }
    EXPECT_EQ(m_tx.limits.ahead / 2048 + 2, on_slow);
}

/* What has no CQE may be executed. Without further frags the path would get none */
TEST_F(fast_path, is_allowed_on_a_path_that_has_no_cqe_to_come) {
    m_cfg.sched    = VQP_SCHED_LEFT;
    m_cfg.path_cap = 4 * VQP_RATE_SAMPLE;
    start(2);
    m_paths[0].bytes = VQP_RATE_SAMPLE;
    ASSERT_FALSE(vqp_path_awaits_cqe(&m_paths[0]));
    EXPECT_TRUE(put_open());
}

/* rr has no other choice */
TEST_F(fast_path, is_allowed_to_rr_whatever_is_in_flight) {
    m_cfg.sched    = VQP_SCHED_RR;
    m_cfg.path_cap = 4 * VQP_RATE_SAMPLE;
    start(2);
    m_paths[0].bytes = VQP_RATE_SAMPLE;
    ++m_paths[0].tail;
    m_paths[0].signaled = m_paths[0].tail;
    ASSERT_TRUE(vqp_path_awaits_cqe(&m_paths[0]));
    EXPECT_TRUE(put_open());
}

TEST_F(fast_path, is_not_allowed_before_what_dispatch_has_to_do_first) {
    start(2);
    want_credit();
    EXPECT_FALSE(am_open());
    EXPECT_FALSE(put_open());
}

TEST_F(fast_path, is_not_allowed_behind_older_ops_of_the_ring) {
    start(1);
    m_paths[0].up = 0;
    am(8);
    m_paths[0].up = 1;
    EXPECT_FALSE(am_open());
    EXPECT_TRUE(put_open());
    rma(VQP_KIND_PUT, 8);
    EXPECT_FALSE(put_open());
}

TEST_F(fast_path, is_not_allowed_behind_a_barrier_that_is_not_dispatched) {
    start(1);
    rma(VQP_KIND_PUT, 8);
    dispatch();
    barrier(&u[0]);
    EXPECT_FALSE(put_open());
    dispatch();
    EXPECT_TRUE(put_open());
}

TEST_F(fast_path, is_not_allowed_behind_a_fence) {
    start(1);
    rma(VQP_KIND_PUT, 8);
    dispatch();
    vqp_tx_fence(&m_tx);
    EXPECT_FALSE(am_open());
    EXPECT_FALSE(put_open());
}

/* A message does not end the fence of a put, and is not delayed by it */
TEST_F(fast_path, is_allowed_to_messages_behind_the_one_that_had_the_fence) {
    start(1);
    rma(VQP_KIND_PUT, 8);
    dispatch();
    vqp_tx_fence(&m_tx);
    am(8);
    dispatch();
    EXPECT_TRUE(am_open());
    EXPECT_FALSE(put_open());
}

TEST_F(fast_path, is_not_allowed_without_a_budget) {
    m_depth = 8;
    start(1);
    EXPECT_TRUE(am_open());
    EXPECT_TRUE(put_open());
    while (send_am(8) == VQP_SEND_FRAG) {
    }
    EXPECT_EQ(8u - VQP_CONTROL_RESERVE, vqp_path_outstanding(&m_paths[0]));
    EXPECT_FALSE(put_open());

    start(1);
    EXPECT_TRUE(put_open());
    m_paths[0].up = 0;
    vqp_tx_refill(&m_tx, &m_paths[0]);
    EXPECT_FALSE(am_open());
    EXPECT_FALSE(put_open());
}

TEST_F(fast_path, is_not_allowed_to_what_is_cut_or_gathered) {
    start(1);
    EXPECT_EQ(VQP_SEND_FRAG, send<VQP_KIND_PUT>(65536));
    EXPECT_EQ(VQP_SEND_QUEUED, send<VQP_KIND_PUT>(65537));
    dispatch();
    EXPECT_EQ(VQP_SEND_QUEUED, send<VQP_KIND_GET>(65537));
    dispatch();
    EXPECT_EQ(VQP_SEND_QUEUED, send<VQP_KIND_PUT>(100, 2));
}

TEST_F(fast_path, spreads_a_put_of_a_frag_per_path_and_not_a_get) {
    start(2);
    EXPECT_EQ(VQP_SEND_SPREAD, send<VQP_KIND_PUT>(512));
    dispatch();
    EXPECT_EQ(VQP_SEND_QUEUED, send<VQP_KIND_GET>(512));
    dispatch();
    EXPECT_EQ(VQP_SEND_QUEUED, send<VQP_KIND_PUT>(600)); /* three frags */
    dispatch();
    EXPECT_EQ(VQP_SEND_QUEUED, send<VQP_KIND_PUT>(512, 2));
}

TEST_F(fast_path, a_spread_put_that_finds_no_room_is_left_to_dispatch) {
    std::vector<vqp_frag_t> frags;
    unsigned count = 0;

    m_cfg.path_cap = 1000;
    start(2);
    m_paths[1].bytes = 1000;
    EXPECT_EQ(VQP_SEND_SPREAD, send<VQP_KIND_PUT>(512));
    while (vqp_tx_spread_next(&m_tx, &m_rma_ops[0], &m_sge, &m_frag)) {
        ++count;
    }
    EXPECT_EQ(1u, count);
    EXPECT_TRUE(vqp_tx_has_work(&m_tx));
    frags = dispatch();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(0, frags[0].path->index);
    EXPECT_EQ(HEAP_ADDR + 256, frags[0].raddr);
}

TEST_F(fast_path, control_takes_the_unchecked_messages_away) {
    m_cfg.signal_every = 100;
    start(1);
    EXPECT_TRUE(am_open());
    EXPECT_GT(m_tx.fc.am_credits, 0u);
    want_credit();
    dispatch();
    EXPECT_EQ(0u, m_tx.fc.am_credits);
}

/* Both ways spend from one budget: neither gets past what a send queue holds */
TEST_F(fast_path, shares_the_budget_of_a_path_with_dispatch) {
    unsigned queued = 0, posted = 0;

    m_cfg.signal_every = 100;
    m_depth            = 16;
    start(1);
    for (unsigned i = 0; i < 20; ++i) {
        if (i % 3 == 0) {
            am(8);
            dispatch();
        } else if (send<VQP_KIND_PUT>(8) == VQP_SEND_FRAG) {
            ++posted;
        } else {
            ++queued;
        }
    }
    EXPECT_GT(posted, 0u);
    EXPECT_GT(queued, 0u);
    EXPECT_EQ(16u - VQP_CONTROL_RESERVE, vqp_tx_outstanding(&m_tx));
    EXPECT_EQ(m_paths[0].tail, m_paths[0].signaled); /* the last one: a CQE */
}

TEST_F(fast_path, is_not_allowed_by_configuration) {
    m_cfg.no_fast = 1;
    start(2);
    EXPECT_FALSE(am_open());
    EXPECT_FALSE(put_open());
}

} /* namespace */
