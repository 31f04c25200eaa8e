/* Paths that have moved to other rails go back: rails.h, move.h */
#include "railskit.h"

namespace {

class rails_back : public railskit {
protected:
    /* Paths 0 and 1 were down, and came up on rail 1 of both sides */
    void gather() {
        open(2);
        die(0, msn(0));
        die(1, msn(0));
        fail(0);
        ASSERT_EQ(pair(1, 1), next(0));
        follow(0);
        follow(1);
        probe(1);
        probe(0);
        m_vqp.good_rails = ~0u;
        timer();
    }

    /* Path 0 is in LEAVE, and goes down; @a flags: of the peer's messages, too */
    void leave(unsigned flags = 0) {
        hear_down(LEAVING | flags, path(0).fo.epoch, 0);
        (void)failkit::next();
        hear_down(LEAVING | DRAINED | flags, path(0).fo.epoch, 0);
        quiesce(0);
        flush_recvs(0);
        EXPECT_TRUE(event(VQP_EVENT_PATH_COUNT, 0));
        vqp_path_counted(&m_vqp, &path(0), VQP_SOURCE_MSN, 0);
        hear_down(DRAINED | HAVE, path(0).fo.epoch, 0);
    }

    /* The only path has gone to rail 1. An atomic was not executed on rail 0, where all
     * atomics go to: it waits there */
    void strand(int *user) {
        open(1);
        ASSERT_TRUE(rma(VQP_KIND_FADD, 8, user));
        EXPECT_EQ(1u, failkit::next().size());
        die(0, msn(0));
        fail();
        follow();
        EXPECT_EQ(pair(1, 1), now());
        probe();
    }

    /* Does path 0 leave its rails? */
    bool goes_back(uint64_t after) {
        m_now += after;
        timer();
        return next_message(0).flags == LEAVING;
    }
};

TEST_F(rails_back, path_goes_back_to_a_rail_that_has_none) {
    gather();
    EXPECT_FALSE(goes_back(m_failover.hold_max - 1));
    EXPECT_TRUE(goes_back(1));
    hear_down(LEAVING, path(0).fo.epoch, 0);
    (void)failkit::next();
    hear_down(LEAVING | DRAINED, path(0).fo.epoch, 0);
    EXPECT_EQ(pair(0, 0), next(0));
    EXPECT_EQ(VQP_PATH_UP, state(1));
}

/* There its probe fails: it is the last one of its rail, and stays */
TEST_F(rails_back, path_stays_where_it_went_back_to) {
    gather();
    ASSERT_TRUE(goes_back(m_failover.hold_max));
    leave();
    for (unsigned n = 0; n < 5; ++n) {
        fail(0);
        EXPECT_EQ(pair(0, 0), next(0));
    }
}

/* If both did it at the same time, there might be no path left */
TEST_F(rails_back, side_that_does_not_decide_looks_later) {
    m_failover.decides = 0;
    open(2);
    path(0).rail = path(0).fo.next_rail = 1; /* it was asked to, or had no port */
    drain(0);
    hear_down(DRAINED | HAVE, 0, 0);
    follow(0);
    probe(0);
    m_vqp.good_rails = ~0u;
    timer();
    EXPECT_FALSE(goes_back(m_failover.hold_max * 3 / 2 - 1));
    EXPECT_TRUE(goes_back(1));
}

TEST_F(rails_back, path_stays_while_the_other_one_is_about_to_leave) {
    gather();
    vqp_path_request_move(&m_vqp, &path(1));
    EXPECT_FALSE(goes_back(m_failover.hold_max));
}

/* A path of rail 0 goes from there to rail 1, and the last one of rail 0 is dropped */
TEST_F(rails_back, path_goes_back_when_the_last_one_of_its_rail_is_dropped) {
    open(4);
    die(0, msn(0));
    fail(0);
    fail(0);
    fail(0);
    follow(0);
    probe(0);
    ASSERT_EQ(pair(1, 1), now(0));
    timer();
    ASSERT_EQ(UINT64_MAX, m_vqp.missed.due);
    m_vqp.good_rails = ~0u;
    die(2, msn(0));
    path(2).fo.unused = 1;
    vqp_rails_on_change(&m_vqp);
    timer();
    EXPECT_TRUE(goes_back(m_failover.hold_max));
}

/* Its first rail has no queue pair for it: it comes up where it was */
TEST_F(rails_back, attempts_become_rare) {
    gather();
    m_good = 1u << 1;
    for (uint64_t waits : {1, 1, 2, 4, 8}) {
        EXPECT_FALSE(goes_back(waits * m_failover.hold_max - 1));
        ASSERT_TRUE(goes_back(1));
        leave();
        follow(0);
        probe(0);
        EXPECT_EQ(1u, path(0).rail);
    }
}

TEST_F(rails_back, path_stays_while_its_first_port_is_down) {
    gather();
    m_vqp.good_rails = 1u << 1;
    EXPECT_FALSE(goes_back(m_failover.hold_max));
    EXPECT_FALSE(goes_back(m_failover.hold_max));
    m_vqp.good_rails = 3;
    EXPECT_TRUE(goes_back(m_failover.hold_max));
}

TEST_F(rails_back, path_stays_while_no_other_one_works) {
    gather();
    die(1, msn(0));
    EXPECT_FALSE(goes_back(m_failover.hold_max));
    follow(1);
    probe(1);
    timer();
    EXPECT_TRUE(goes_back(m_failover.hold_max));
}

TEST_F(rails_back, path_stays_if_another_one_is_on_its_first_rail) {
    open(4);
    die(1, msn(0));
    fail(1);
    fail(1);
    fail(1);
    follow(1);
    probe(1);
    ASSERT_EQ(pair(0, 0), now(1));
    timer();
    EXPECT_EQ(UINT64_MAX, m_vqp.missed.due);
}

TEST_F(rails_back, only_path_stays) {
    open(1);
    die(0, msn(0));
    fail();
    follow();
    probe();
    ASSERT_EQ(pair(1, 1), now());
    timer();
    EXPECT_EQ(UINT64_MAX, m_vqp.missed.due);
}

/* ---- atomics ---- */

TEST_F(rails_back, path_goes_back_for_an_atomic_that_waits) {
    int user = 0;

    strand(&user);
    m_now += 10000;
    EXPECT_EQ(0u, failkit::next().size());
    EXPECT_EQ(0u, m_vqp.back_due);
    timer();
    EXPECT_EQ(LEAVING, next_message().flags);
    EXPECT_EQ(m_now + m_failover.hold_max, m_vqp.back_due);

    hear_down(LEAVING, path().fo.epoch);
    (void)failkit::next();
    EXPECT_EQ(LEAVING | DRAINED, next_message().flags & ~ANSWER);
    hear_down(LEAVING | DRAINED, path().fo.epoch);
    EXPECT_EQ(VQP_PATH_QUIESCE, state());
    EXPECT_EQ(pair(0, 0), next());
    quiesce();
    flush_recvs();
    EXPECT_TRUE(event(VQP_EVENT_PATH_COUNT));
    vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
    hear_down(DRAINED | HAVE, path().fo.epoch);
    follow();
    EXPECT_EQ(pair(0, 0), now());
    probe();
    std::vector<vqp_frag_t> frags = failkit::next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_WR_FADD, frags[0].opcode);
    EXPECT_EQ(m_lkeys[0], frags[0].sge[0].lkey);
    m_now += 10000;
    timer();
    EXPECT_EQ(UINT64_MAX, m_vqp.back_due);
}

/* The peer, which wants to drop another path, does not agree to drop this one: so the
 * request to go back is not one to drop it */
TEST_F(rails_back, path_that_was_to_be_dropped_goes_back_for_an_atomic) {
    int user = 0;

    strand(&user);
    m_vqp.elastic.wanted = 0;
    ASSERT_EQ(1, vqp_path_drop(&m_vqp, &path()));
    EXPECT_EQ(LEAVING | VQP_WIRE_FLAG_UNUSED, next_message().flags);
    m_now += 10000;
    EXPECT_EQ(0u, failkit::next().size());
    timer();
    EXPECT_EQ(LEAVING, next_message().flags);

    leave(VQP_WIRE_FLAG_UNUSED); /* it has agreed after all: this side rebuilds the path */
    EXPECT_EQ(1u, m_stats.moves);
    EXPECT_EQ(0u, m_stats.path_drops);
    follow();
    EXPECT_EQ(pair(0, 0), now());
    EXPECT_FALSE(path().fo.unused);
}

TEST_F(rails_back, puts_do_not_wait_for_the_rail_that_they_were_sent_to) {
    open(1);
    ASSERT_TRUE(rma_iov(VQP_KIND_PUT, {{USER_ADDR, 64, m_lkeys}}));
    EXPECT_EQ(1u, failkit::next().size());
    die(0, msn(0));
    fail();
    follow();
    probe();
    std::vector<vqp_frag_t> frags = failkit::next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(m_rkeys[1], frags[0].rkey);
    timer();
    EXPECT_EQ(UINT64_MAX, m_vqp.back_due);
}

} /* namespace */
