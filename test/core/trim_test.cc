/*
 * The frags of a failed path that the peer has executed end, the others wait for
 * their replay. On one path: slots are in posting order.
 */
#include "failkit.h"

#include <functional>

extern "C" {
#include "core/data/lost.h"
}

namespace {

class trim : public failkit {
protected:
    /* Frags that go again when the path is back */
    std::vector<vqp_frag_t> again() {
        revive();
        return next();
    }

    /* One op at a time, so that they are posted in this order */
    void post(vqp_kind_t kind, uint64_t length, void *user) {
        EXPECT_TRUE(rma(kind, length, user));
        EXPECT_EQ(1u, next().size());
    }

    void post_am(void *user) {
        EXPECT_TRUE(am(8, user));
        EXPECT_EQ(1u, next().size());
    }

    void post_fadd(uint64_t *result, void *user) {
        EXPECT_TRUE(fadd(result, user));
        EXPECT_EQ(1u, next().size());
    }
};

TEST_F(trim, requests_are_counted_by_the_msn) {
    open(1);
    puts(0, 5, u);
    die(0, msn(3));
    EXPECT_EQ((users_t {&u[0], &u[1], &u[2]}), done());
    EXPECT_EQ(0u, vqp_path_outstanding(&path()));
    EXPECT_EQ(2u, again().size());
    confirm_all(0);
    EXPECT_EQ((users_t {&u[3], &u[4]}), done());
}

TEST_F(trim, what_was_confirmed_before_is_in_the_count) {
    open(1);
    auto frags = puts(0, 5, u);
    vqp_on_send(&m_vqp, &path(), frags[1].slot);
    EXPECT_EQ(2u, done().size());
    die(0, msn(3));
    EXPECT_EQ(users_t {&u[2]}, done());
    EXPECT_EQ(2u, again().size());
}

TEST_F(trim, the_count_begins_with_the_queue_pair) {
    open(1);
    puts(0, 5, u);
    die(0, msn(4));
    EXPECT_EQ(1u, again().size());
    puts(0, 2, u + 5);
    done();
    die(0, msn(3)); /* the probe, what was replayed, and one more */
    EXPECT_EQ((users_t {&u[4], &u[5]}), done());
    auto frags = again();
    EXPECT_EQ(1u, frags.size());
    confirm_all(0);
    EXPECT_EQ(users_t {&u[6]}, done());
}

/* 10000 bytes are three packets, 4096 one, 4097 two, and an AM has an immediate */
TEST_F(trim, packets_are_counted_by_the_psn) {
    struct {
        uint32_t count;
        size_t   executed;
    } cases[] = {{0, 0}, {2, 0}, {3, 1}, {4, 2}, {5, 2}, {6, 3}, {7, 4}};

    for (uint32_t before : {0u, 0xfffffcu}) {
        for (const auto &c : cases) {
            open(1);
            path().fo.packets = before; /* as after long use */
            post(VQP_KIND_PUT, 10000, &u[0]);
            post(VQP_KIND_PUT, 4096, &u[1]);
            post(VQP_KIND_PUT, 4097, &u[2]);
            post(VQP_KIND_PUT, 8, &u[3]);
            die(0, psn(before + c.count));
            EXPECT_EQ(c.executed, done().size()) << before << " " << c.count;
            EXPECT_EQ(4 - c.executed, again().size());
        }
    }
}

TEST_F(trim, packets_that_were_confirmed_are_in_the_count) {
    open(1);
    auto first = puts(0, 2, u, 10000);
    vqp_on_send(&m_vqp, &path(), first[0].slot);
    done();
    die(0, psn(6));
    EXPECT_EQ(users_t {&u[1]}, done());
}

/* They are counted before their slots are taken again, also if a budget begins with almost
 * half of the slots filled */
TEST_F(trim, packets_of_earlier_rounds_are_in_the_count) {
    uint32_t packets = 0;
    uint32_t slots;
    unsigned i;

    open(1);
    slots = path().mask + 1u;
    for (i = 0; i < 5 * slots; ++i) {
        if (i % slots == slots / 2 - 1) {
            vqp_tx_refill(&m_vqp.tx, &path());
        }
        bool is_long = i / slots % 2 == 0; /* of another length in the same slot */
        ASSERT_TRUE(rma(VQP_KIND_PUT, is_long ? 10000 : 8, u));
        auto frags = next();
        ASSERT_EQ(1u, frags.size());
        vqp_on_send(&m_vqp, &path(), frags[0].slot);
        ASSERT_EQ(1u, done().size());
        packets += is_long ? 3 : 1;
    }
    post(VQP_KIND_PUT, 10000, &u[0]);
    post(VQP_KIND_PUT, 8, &u[1]);
    die(0, psn(packets + 3));
    EXPECT_EQ(users_t {&u[0]}, done());
    EXPECT_EQ(1u, again().size());
}

/* Few bytes are taken to be frags of one packet without a look at each */
TEST_F(trim, one_byte_more_than_a_packet_is_two) {
    open(1);
    post(VQP_KIND_PUT, 4097, &u[0]);
    die(0, psn(2));
    EXPECT_EQ(users_t {&u[0]}, done());
}

TEST_F(trim, a_get_takes_a_psn_for_each_packet_of_its_answer) {
    open(1);
    post(VQP_KIND_GET, 10000, &u[0]);
    post(VQP_KIND_PUT, 8, &u[1]);
    die(0, psn(4));
    EXPECT_EQ(users_t {&u[1]}, done());
}

TEST_F(trim, counts_of_24_bits_wrap) {
    open(1);
    path().fo.wrs = 0xffffff; /* as after long use */
    puts(0, 4, u);
    die(0, msn(2));
    EXPECT_EQ((users_t {&u[0], &u[1], &u[2]}), done());
}

TEST_F(trim, immediates_prove_what_is_in_front_of_them) {
    open(1);
    post(VQP_KIND_PUT, 8, &u[0]);
    post_am(&u[1]);
    post(VQP_KIND_PUT, 8, &u[2]);
    post_am(&u[3]);
    post(VQP_KIND_PUT, 8, &u[4]);
    die(0, imm(1));
    EXPECT_EQ((users_t {&u[0], &u[1]}), done());
    EXPECT_EQ(3u, again().size());
}

TEST_F(trim, immediates_are_counted_from_the_rebuild_on) {
    open(1);
    post_am(&u[0]);
    post_am(&u[1]);
    die(0, imm(1));
    again(); /* the second one */
    post_am(&u[2]);
    done();
    die(0, imm(1));
    EXPECT_EQ(users_t {&u[1]}, done());
    EXPECT_EQ(1u, again().size());
}

TEST_F(trim, counts_that_can_not_be_are_not_believed) {
    for (vqp_executed_t executed : {msn(6, 1), msn(1, 1), psn(99, 1),
                                    msn(0xffffff, 1)}) {
        open(1);
        post(VQP_KIND_PUT, 8, &u[0]);
        post_am(&u[1]);
        post(VQP_KIND_PUT, 8, &u[2]);
        die(0, executed);
        EXPECT_EQ((users_t {&u[0], &u[1]}), done()) << executed.count;
        EXPECT_EQ(1u, again().size());
    }
}

TEST_F(trim, immediates_that_can_not_be_prove_nothing) {
    for (uint32_t came : {2u, 0xffffffu}) {
        open(1);
        post(VQP_KIND_PUT, 8, &u[0]);
        post_am(&u[1]);
        die(0, imm(came));
        EXPECT_TRUE(done().empty()) << came;
        EXPECT_EQ(2u, again().size());
    }
}

TEST_F(trim, a_get_is_always_sent_again) {
    open(1);
    post(VQP_KIND_GET, 8, &u[0]);
    post(VQP_KIND_PUT, 8, &u[1]);
    die(0, msn(2));
    EXPECT_EQ(users_t {&u[1]}, done());
    auto frags = again();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_WR_READ, frags[0].opcode);
    confirm_all(0);
    EXPECT_EQ(users_t {&u[0]}, done());
}

/* The later op has waited for the answer of the get, by the fence flag: its
 * execution proves that the get has ended. A second get may see what it, or the
 * handler of the message, has changed. */
TEST_F(trim, a_get_before_an_executed_fence_is_not_sent_again) {
    open(1);
    post(VQP_KIND_GET, 8, &u[0]);
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(rma(VQP_KIND_PUT, 8, &u[1]));
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    ASSERT_TRUE(frags[0].flags & VQP_FRAG_FENCE);
    die(0, msn(2));
    EXPECT_EQ((users_t {&u[0], &u[1]}), done());
    EXPECT_EQ(0u, again().size());
}

TEST_F(trim, an_executed_atomic_whose_result_is_wanted_is_undecided) {
    uint64_t result = 5;

    open(1);
    post_fadd(&result, &u[0]);
    post_fadd(nullptr, &u[1]);
    post_fadd(&result, &u[2]);
    die(0, msn(2));
    EXPECT_EQ((ends_t {{&u[0], VQP_ERR_UNDECIDED}, {&u[1], VQP_OK}}), ends());
    EXPECT_EQ(5u, result);
    EXPECT_EQ(1u, m_stats.undecided);

    auto frags = again(); /* the third one was certainly not executed */
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_WR_FADD, frags[0].opcode);
    *(uint64_t*)frags[0].sge[0].addr = 42;
    confirm_all(0);
    EXPECT_EQ((ends_t {{&u[2], VQP_OK}}), ends());
    EXPECT_EQ(42u, result);
}

TEST_F(trim, an_atomic_that_may_be_executed_is_undecided) {
    uint64_t result = 5;

    open(1);
    post_fadd(nullptr, &u[0]);
    post_am(&u[1]);
    post_fadd(&result, &u[2]);
    post_fadd(nullptr, &u[3]);
    post(VQP_KIND_PUT, 8, &u[4]);
    die(0, imm(1));
    EXPECT_EQ((ends_t {{&u[0], VQP_OK}, {&u[1], VQP_OK},
                       {&u[2], VQP_ERR_UNDECIDED}, {&u[3], VQP_ERR_UNDECIDED}}), ends());
    EXPECT_EQ(2u, m_stats.undecided);
    auto frags = again();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_WR_WRITE, frags[0].opcode);
}

/* ---- an atomic without a completion, whose execution is unknown ---- */

/* Once by a flush of the endpoint, and once by one of the interface */
TEST_F(trim, the_next_flush_of_each_kind_reports_a_lost_atomic) {
    open(1);
    post_fadd(nullptr, nullptr);
    die(0, imm(0));
    again();
    for (vqp_status_t status : {VQP_ERR_UNDECIDED, VQP_OK}) {
        ASSERT_TRUE(barrier(&u[0], 0));
        ASSERT_TRUE(barrier(&u[1]));
        EXPECT_EQ((ends_t {{&u[0], status}, {&u[1], status}}), ends());
    }
}

TEST_F(trim, a_flush_that_waits_reports_a_lost_atomic) {
    open(1);
    post_fadd(nullptr, nullptr);
    ASSERT_TRUE(barrier(&u[0]));
    ASSERT_TRUE(barrier(&u[1]));
    ASSERT_TRUE(barrier(&u[2], 0));
    die(0, imm(0));
    EXPECT_EQ((ends_t {{&u[0], VQP_ERR_UNDECIDED}, {&u[1], VQP_OK},
                       {&u[2], VQP_ERR_UNDECIDED}}), ends());
    again();
    ASSERT_TRUE(barrier(&u[3]));
    EXPECT_EQ((ends_t {{&u[3], VQP_OK}}), ends());
}

/* It waits for what was before the atomic, which was executed */
TEST_F(trim, a_flush_in_front_of_a_lost_atomic_is_good) {
    open(1);
    post(VQP_KIND_PUT, 8, nullptr);
    ASSERT_TRUE(barrier(&u[0]));
    ASSERT_TRUE(am(8, nullptr));
    ASSERT_TRUE(fadd(nullptr));
    (void)next();
    die(0, imm(1));
    EXPECT_EQ((ends_t {{&u[0], VQP_OK}}), ends());
    again();
    EXPECT_EQ((unsigned)VQP_LOST_ENDPOINT, vqp_tx_take_lost(&m_tx, VQP_LOST_ENDPOINT));
    EXPECT_EQ(0u, vqp_tx_take_lost(&m_tx, VQP_LOST_ENDPOINT));
    ASSERT_TRUE(barrier(&u[1], 0));
    EXPECT_EQ((ends_t {{&u[1], VQP_ERR_UNDECIDED}}), ends());
}

TEST_F(trim, an_atomic_whose_user_has_the_error_is_none_of_a_flush) {
    uint64_t result;

    open(1);
    post_fadd(&result, &u[0]);
    ASSERT_TRUE(barrier(&u[1]));
    die(0, imm(0));
    EXPECT_EQ((ends_t {{&u[0], VQP_ERR_UNDECIDED}, {&u[1], VQP_OK}}), ends());
    again();
    ASSERT_TRUE(barrier(&u[2], 0));
    EXPECT_EQ((ends_t {{&u[2], VQP_OK}}), ends());
}

TEST_F(trim, an_atomic_that_was_not_posted_was_not_executed) {
    uint64_t result;

    open(1);
    for (int &user : {std::ref(u[0]), std::ref(u[1])}) {
        ASSERT_TRUE(fadd(&result, &user));
    }
    auto frags = next();
    ASSERT_EQ(2u, frags.size());
    frags[1].flags |= VQP_FRAG_UNPOSTED;
    vqp_post_failed(&m_vqp, frags.data(), 2);
    die(0, imm(0));
    EXPECT_EQ((ends_t {{&u[0], VQP_ERR_UNDECIDED}}), ends());
    EXPECT_EQ(1u, again().size());
    confirm_all(0);
    EXPECT_EQ((ends_t {{&u[1], VQP_OK}}), ends());
}

TEST_F(trim, a_path_that_died_holds_no_credit) {
    open(1);
    post(VQP_KIND_PUT, 8, &u[0]);
    post(VQP_KIND_GET, 8, &u[1]);
    post_fadd(nullptr, &u[2]);
    post_am(&u[3]);
    post(VQP_KIND_PUT, 8, &u[4]);
    die(0, msn(1));
    EXPECT_EQ(0u, path().bytes);
    EXPECT_EQ(0u, path().reads);
    EXPECT_EQ(0u, path().rma);
    /* credit for what that queue pair has carried */
    EXPECT_EQ(1u, vqp_tx_fsns_out(&m_tx));
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, m_tx.fc.ring_head, m_tx.fc.fsn_next));
    EXPECT_EQ(0u, vqp_tx_fsns_out(&m_tx));
}

TEST_F(trim, a_nop_of_the_drain_was_not_executed) {
    open(1);
    ASSERT_TRUE(rma(VQP_KIND_PUT, 8, &u[0], 0));
    ASSERT_TRUE(rma(VQP_KIND_PUT, 8, &u[1], 0)); /* without a CQE */
    next();
    vqp_path_down(&m_vqp, &path(), VQP_ERR_TIMEOUT);
    quiesce();
    auto nop = next();
    ASSERT_EQ(1u, nop.size());
    fail_send(0, nop[0].slot);
    flush_recvs();
    ASSERT_TRUE(event(VQP_EVENT_PATH_COUNT));
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
    hear_down(DRAINED | HAVE, 0, 0, msn(2));
    EXPECT_EQ((users_t {&u[0], &u[1]}), done());
    EXPECT_EQ(0u, again().size());
}

} // namespace
