/* The bytes in flight of a path, and how they follow from what a process finds confirmed */
#include "txkit.h"

extern "C" {
#include "core/data/pathcap.h"
}

class pathcap : public txkit {
protected:
    static constexpr uint64_t CAP = 1000;

    void open(unsigned num_paths, unsigned growth = 2)
    {
        m_cfg.path_cap   = m_cap;
        m_cfg.cap_growth = (uint8_t)growth;
        m_cfg.signal_every = 1;
        m_depth   = m_depth_set;
        m_num_ops = 256;
        start(num_paths);
        m_tx.clock.now = 1000;
        wait();
    }

    /* Post until so many ops wait that several polls take none of the last ones */
    void wait()
    {
        do {
            rma(VQP_KIND_PUT, m_size);
            take();
        } while (m_tx.rma.tail - m_tx.rma.post < 20);
    }

    void take()
    {
        auto some = dispatch();

        m_out.insert(m_out.end(), some.begin(), some.end());
    }

    uint64_t in_flight()
    {
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < m_tx.paths.count; ++i) {
            bytes += m_paths[i].bytes;
        }
        return bytes;
    }

    /* One poll after @a away ns: so many frags are confirmed, and what waits is dispatched */
    void poll(size_t count, uint64_t away)
    {
        std::vector<vqp_frag_t> some;

        m_tx.clock.now += away;
        count = std::min(count, m_out.size());
        some.assign(m_out.begin(), m_out.begin() + (ptrdiff_t)count);
        m_out.erase(m_out.begin(), m_out.begin() + (ptrdiff_t)count);
        confirm(some);
        (void)done();
        take();
        wait();
    }

    /* All that is in flight is confirmed in so many polls */
    void drain(unsigned polls, uint64_t away, uint64_t between)
    {
        size_t each = (m_out.size() + polls - 1) / polls;

        for (unsigned i = 0; i < polls; ++i) {
            poll(each, (i == 0) ? away : between);
        }
    }

    /* However often the process was away */
    void expect_stays()
    {
        for (unsigned i = 0; i < 5; ++i) {
            drain(1, 1000, 0);
            EXPECT_EQ(m_cap, cap());
        }
    }

    uint64_t cap() const { return m_tx.limits.path_cap; }

    std::vector<vqp_frag_t> m_out;
    uint16_t                m_depth_set = 60;
    uint64_t                m_size      = 100;
    uint64_t                m_cap       = CAP;
};

/* ---- growing ---- */

TEST_F(pathcap, doubles_when_all_was_confirmed_while_the_process_was_away) {
    open(1);
    EXPECT_EQ(CAP, cap());
    EXPECT_GE(in_flight(), CAP);
    drain(1, 1000, 0);
    EXPECT_EQ(2 * CAP, cap());
    EXPECT_GE(in_flight(), 2 * CAP);
    drain(1, 1000, 0);
    EXPECT_EQ(4 * CAP, cap());
    drain(1, 1000, 0); /* no further */
    EXPECT_EQ(4 * CAP, cap());
    EXPECT_LT(in_flight(), 4 * CAP + 200);
}

TEST_F(pathcap, stays_where_it_is_set) {
    open(1, 0);
    expect_stays();
}

/* A poll takes a few completions, and the paths are refilled before the next one: they are
 * never found empty, although the devices were idle */
TEST_F(pathcap, doubles_when_several_polls_at_once_find_all_confirmed) {
    open(2);
    drain(5, 1000, 10);
    EXPECT_EQ(2 * CAP, cap());
    drain(10, 1000, 10);
    EXPECT_EQ(4 * CAP, cap());
}

TEST_F(pathcap, stays_when_it_is_confirmed_bit_by_bit) {
    open(2);
    for (unsigned i = 0; i < 40; ++i) {
        drain(5, 100, 100);
        EXPECT_EQ(CAP, cap());
    }
}

/* The time was not known when the paths became full */
TEST_F(pathcap, begins_with_the_first_time_that_is_known) {
    m_tx.clock.now = 0;
    m_cfg.path_cap     = CAP;
    m_cfg.cap_growth   = 2;
    m_cfg.signal_every = 1;
    start(1);
    rma(VQP_KIND_PUT, 1100);
    rma(VQP_KIND_PUT, 1100);
    take();
    ASSERT_TRUE(vqp_pathcap_needs_time(&m_tx));
    poll(1, 1000000);
    EXPECT_EQ(CAP, cap());
    drain(1, 1000, 0);
    EXPECT_EQ(2 * CAP, cap());
}

TEST_F(pathcap, stays_when_no_op_waits) {
    m_cfg.path_cap   = CAP;
    m_cfg.cap_growth = 2;
    start(1);
    for (unsigned i = 0; i < 10; ++i) {
        m_tx.clock.now += 1000;
        rma(VQP_KIND_PUT, 1100);
        take();
        EXPECT_FALSE(vqp_pathcap_needs_time(&m_tx));
        confirm(m_out);
        m_out.clear();
        (void)done();
        EXPECT_EQ(CAP, cap());
    }
}

TEST_F(pathcap, stays_when_the_send_queue_is_what_limits) {
    m_depth_set = 8;
    m_cap       = 1 << 20;
    open(1);
    expect_stays();
}

/* Several paths split an op. More of its frags do not fit into the queues, larger ones do */
TEST_F(pathcap, doubles_with_the_frags_when_the_send_queues_are_full_of_them) {
    m_cfg.min_shift  = 6;
    m_cfg.frag_shift = 7;
    m_cfg.max_shift  = 10;
    m_depth_set      = 8;
    m_size           = 1 << 14;
    m_cap            = 1 << 20;
    open(2, 8);
    uint64_t before = in_flight();
    ASSERT_LT(before, cap());
    for (unsigned i = 0; i < 2000; ++i) { /* ops that wait keep their frags */
        drain(1, 1000, 0);
        ASSERT_EQ(1ul << (20 + m_tx.cap.shift), cap());
    }
    EXPECT_EQ(10, m_tx.limits.frag_shift); /* the longest messages of the devices */
    EXPECT_GE(in_flight(), before * 8);
}

/* Else a path that is busy all the time would look as if its bytes were just enough */
TEST_F(pathcap, frags_grow_as_far_as_a_path_has_eight) {
    m_cfg.frag_shift = 8;
    open(2, 8);
    m_tx.cap.shift = 5;
    vqp_tx_set_shares(&m_tx);
    EXPECT_EQ(32 * CAP, cap());
    EXPECT_EQ(11, m_tx.limits.frag_shift); /* 2048 of 32000 */
    m_tx.cap.shift = 1;
    vqp_tx_set_shares(&m_tx);
    EXPECT_EQ(8, m_tx.limits.frag_shift); /* never smaller than set */
}

/* The ops of one path are not split */
TEST_F(pathcap, stays_when_the_send_queue_is_full_of_large_ops) {
    m_cfg.frag_shift   = 7;
    m_cfg.single_shift = 12;
    m_depth_set        = 8;
    m_size             = 1 << 12;
    m_cap              = 1 << 20;
    open(1);
    expect_stays();
}

/* Small ops have a frag each, however large frags may be */
TEST_F(pathcap, stays_when_the_send_queues_are_full_of_small_ops) {
    m_cfg.frag_shift = 8;
    m_depth_set      = 8;
    m_cap            = 1 << 20;
    open(2);
    expect_stays();
}

/* A credit update in flight takes bytes, and is confirmed as no op is */
TEST_F(pathcap, stays_when_a_credit_update_is_posted) {
    open(1);
    poll(0, 1000);
    m_tx.slow |= VQP_TX_CREDIT;
    take();
    poll(0, 1000);
    poll(0, 1000);
    EXPECT_EQ(CAP, cap());
}

TEST_F(pathcap, stays_while_no_path_is_up) {
    open(1);
    poll(0, 1000);
    m_paths[0].fo.state = VQP_PATH_DOWN;
    m_paths[0].bytes    = 0; /* they are sent again */
    vqp_tx_link_paths(&m_tx);
    for (unsigned i = 0; i < 5; ++i) {
        m_tx.clock.now += 1000;
        EXPECT_TRUE(dispatch().empty());
        EXPECT_EQ(CAP, cap());
    }
}

/* The scheduler leaves a slow path free where a fast one is sooner, however long that is full */
TEST_F(pathcap, doubles_while_a_slow_path_is_left_out) {
    m_cfg.sched = VQP_SCHED_LEFT;
    open(2);
    for (uint64_t cap_before = CAP; cap_before < 4 * CAP; cap_before *= 2) {
        vqp_rate_set(&m_paths[0].rate, 1000, m_tx.clock.now + 1000);
        vqp_rate_set(&m_paths[1].rate, 10000000, m_tx.clock.now + 1000);
        m_tx.slow |= VQP_TX_ASYMMETRIC;
        m_tx.clock.rated = m_tx.clock.now;
        ASSERT_EQ(cap_before, cap());
        drain(1, 1000, 0);
        EXPECT_EQ(2 * cap_before, cap());
        EXPECT_TRUE(m_tx.clock.deferred);
    }
}

/* ---- shrinking ---- */

TEST_F(pathcap, is_halved_when_it_is_confirmed_bit_by_bit_for_long) {
    open(1);
    drain(1, 1000, 0);
    drain(1, 1000, 0);
    ASSERT_EQ(4 * CAP, cap());
    for (uint64_t next : {2 * CAP, CAP}) {
        unsigned count = 0;

        for (; cap() != next; ++count) {
            ASSERT_EQ(2 * next, cap());
            ASSERT_LT(count, VQP_PATHCAP_CALM);
            drain(8, 100, 100);
        }
        EXPECT_GE(count, VQP_PATHCAP_CALM * 3 / 4); /* more is in flight than the new limit */
    }
    for (unsigned i = 0; i < 40; ++i) {
        drain(8, 100, 100);
        EXPECT_EQ(CAP, cap());
    }
}

/* A process that needs no more than it has never waits */
TEST_F(pathcap, is_halved_when_no_op_waits_for_long) {
    open(1);
    drain(1, 1000, 0);
    drain(1, 1000, 0);
    ASSERT_EQ(4 * CAP, cap());
    uint64_t now = m_tx.clock.now;
    vqp_pathcap_age(&m_tx, now + 5000000000); /* the process computes, and ops wait */
    EXPECT_EQ(4 * CAP, cap());
    vqp_pathcap_restart(&m_tx); /* none does */
    vqp_pathcap_age(&m_tx, now + 999999999);
    EXPECT_EQ(4 * CAP, cap());
    for (uint64_t next : {2 * CAP, CAP, CAP}) { /* once in a second, however late it is */
        now += 100000000000;
        vqp_pathcap_age(&m_tx, now);
        vqp_pathcap_age(&m_tx, now + 999999999);
        EXPECT_EQ(next, cap());
    }
}

/* The more is in flight the longer each time takes */
TEST_F(pathcap, is_halved_earlier_when_it_is_large) {
    open(1, 8);
    m_tx.cap.shift = 7;
    m_tx.cap.calm  = VQP_PATHCAP_CALM / 4 - 1;
    drain(8, 100, 100);
    EXPECT_EQ(6, m_tx.cap.shift);
    m_tx.cap.shift = 3;
    m_tx.cap.calm  = VQP_PATHCAP_CALM / 2 - 2;
    drain(8, 100, 100);
    EXPECT_EQ(3, m_tx.cap.shift);
}

TEST_F(pathcap, is_halved_when_the_send_queue_is_what_limits) {
    m_depth_set = 30;
    open(1);
    drain(1, 1000, 0);
    drain(1, 1000, 0);
    ASSERT_EQ(4 * CAP, cap());
    ASSERT_LT(in_flight(), 4 * CAP);
    for (unsigned i = 0; i < VQP_PATHCAP_CALM; ++i) {
        drain(8, 100, 100);
    }
    EXPECT_EQ(2 * CAP, cap());
}

TEST_F(pathcap, stays_while_it_is_just_enough) {
    open(1);
    drain(1, 1000, 0);
    for (unsigned i = 0; i < 100; ++i) {
        drain(3, 1000, 1000);
        ASSERT_EQ(2 * CAP, cap());
    }
}

/* Large frags: a process that polls finds half of it confirmed each time. A path that has
 * more in flight than it needs hides for long what another one would bring */
TEST_F(pathcap, stays_while_two_frags_fill_a_path) {
    open(1);
    for (unsigned i = 0; i < 100; ++i) {
        drain(2, 1000, 1000);
        ASSERT_EQ(CAP, cap());
    }
}

TEST_F(pathcap, stays_while_the_process_computes_at_times) {
    open(1);
    drain(1, 1000, 0);
    drain(1, 1000, 0);
    for (unsigned i = 0; i < 100; ++i) {
        drain((i % 10 == 0) ? 1 : 8, 100, 100);
        ASSERT_EQ(4 * CAP, cap());
    }
}

/* ---- with what depends on it ---- */

TEST_F(pathcap, counts_for_one_path_and_for_several) {
    m_cfg.single_cap = 4 * CAP;
    open(2);
    drain(1, 1000, 0);
    EXPECT_EQ(2 * CAP, cap());
    m_paths[1].fo.state = VQP_PATH_DOWN;
    vqp_tx_link_paths(&m_tx);
    EXPECT_EQ(8 * CAP, cap());
}
