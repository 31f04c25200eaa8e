/* How many paths an endpoint uses: elastic.h. The links are the test's. */
#include "elastickit.h"

extern "C" {
#include "core/failover/failover_int.h"
}

namespace {

class elastic : public elastickit {
};

TEST_F(elastic, no_path_is_added_while_the_first_one_is_not_full) {
    open(4);
    for (unsigned i = 0; i < 100; ++i) {
        EXPECT_TRUE(rma(VQP_KIND_PUT, 64));
        (void)next();
        m_now += STEP;
        timer();
        confirm_all(0);
        (void)done();
    }
    EXPECT_FALSE(is_trial(1));
}

TEST_F(elastic, no_path_is_added_without_the_rule) {
    m_failover.elastic = 0;
    open(4);
    load(20 * MS, {2});
    EXPECT_FALSE(is_trial(1));
}

TEST_F(elastic, path_that_raises_the_rate_is_kept) {
    open(4);
    come_up(1, {2});
    load(4 * MS, {2, 2});
    EXPECT_EQ(2u, m_vqp.elastic.wanted);
    EXPECT_FALSE(is_dropped(1));
    come_up(2, {2, 2});
    load(4 * MS, {2, 2, 2});
    EXPECT_EQ(3u, m_vqp.elastic.wanted);
}

TEST_F(elastic, path_that_shares_a_link_is_dropped_and_tried_again) {
    open(2);
    come_up(1, {4});
    load(4 * MS, {2, 2});
    EXPECT_EQ(1u, m_vqp.elastic.wanted);
    EXPECT_TRUE(is_dropped(1));
    EXPECT_EQ(LEAVING | UNUSED, next_message(1).flags);
}

TEST_F(elastic, small_gain_of_an_unequal_link_counts) {
    open(2);
    come_up(1, {8});
    load(4 * MS, {8, 2});
    EXPECT_EQ(2u, m_vqp.elastic.wanted);
}

TEST_F(elastic, path_that_the_peer_refuses_is_tried_later) {
    open(2);
    for (unsigned i = 0; (i < 100) && (m_vqp.elastic.next == 0); ++i) {
        EXPECT_TRUE(try_path(1, {4})) << i;
        vqp_path_rebuilt(&m_vqp, &path(1), 0, 0); /* as well: this side can not */
        load(STEP, {4});
    }
    EXPECT_GT(m_vqp.elastic.next, m_now + 900 * MS);
    load(10 * MS, {4});
    EXPECT_FALSE(is_trial(1));
    m_now = m_vqp.elastic.next;
    EXPECT_TRUE(try_path(1, {4}));
    vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
    load(1 * MS, {4});
    EXPECT_GT(m_vqp.elastic.next, m_now + 1900 * MS); /* and later each time */
}

/* With little in flight one path may do. Trials then say nothing about a greater load */
TEST_F(elastic, trials_with_little_in_flight_put_off_none_with_more) {
    m_cfg.path_cap = 8192;
    open(2);
    for (unsigned i = 0; (i < 200) && (m_vqp.elastic.next == 0); ++i) {
        while (path(0).bytes < 4096) {
            ASSERT_TRUE(rma(VQP_KIND_PUT, 1024));
            (void)next();
        }
        m_now += STEP;
        timer();
        if (is_trial(1)) {
            vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
        }
        vqp_on_send(&m_vqp, &m_paths[0], m_paths[0].head);
        (void)done();
    }
    ASSERT_GT(m_vqp.elastic.next, m_now + 900 * MS);
    for (unsigned i = 0; i < 16; ++i) {
        EXPECT_TRUE(try_path(1, {4})) << i;
        vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
        load(STEP, {4});
    }
    EXPECT_FALSE(try_path(1, {4}));
    EXPECT_EQ(m_vqp.elastic.wait, 2000 * MS);
}

TEST_F(elastic, path_that_can_not_be_added_keeps_no_other_from_being_tried) {
    open(3);
    ASSERT_TRUE(try_path(1, {4}));
    vqp_path_rebuilt(&m_vqp, &path(1), 0, 0);
    EXPECT_TRUE(try_path(2, {4}));
}

TEST_F(elastic, path_on_trial_that_fails_ends_the_trial) {
    open(2);
    come_up(1, {4});
    load(STEP, {2, 2});
    ASSERT_EQ(VQP_ELASTIC_TRIAL, m_vqp.elastic.state);
    vqp_path_down(&m_vqp, &path(1), VQP_ERR_TIMEOUT);
    load(1 * MS, {4});
    EXPECT_EQ(VQP_ELASTIC_STEADY, m_vqp.elastic.state);
    EXPECT_EQ(1u, m_vqp.elastic.wanted);
}

TEST_F(elastic, nothing_is_measured_while_completions_wait) {
    open(2);
    for (unsigned i = 0; i < 40; ++i) {
        fill();
        m_now += STEP;
        vqp_on_time(&m_vqp, m_now, 0);
    }
    EXPECT_FALSE(is_trial(1));
}

TEST_F(elastic, paths_that_are_not_used_for_long_are_dropped_once_each) {
    m_num_connected = 3;
    open(3);
    m_vqp.elastic.wanted = 3;
    load(4 * MS, {2, 2, 2});
    drain_all();
    for (unsigned i = 0; i < 100; ++i) { /* it is quiet */
        m_now += 10 * MS;
        timer();
    }
    EXPECT_FALSE(is_dropped(2));
    m_now += 10000 * MS;
    timer();
    EXPECT_TRUE(is_dropped(2));
    EXPECT_FALSE(is_dropped(1));
    EXPECT_EQ(1u, m_vqp.elastic.wanted);
    m_now += 100 * MS;
    timer();
    EXPECT_TRUE(is_dropped(1));
    EXPECT_FALSE(is_dropped(0)); /* the last one */
    m_now += 100 * MS;
    timer();
    EXPECT_EQ(UINT64_MAX, m_vqp.elastic.due);
    load(4 * MS, {2, 2, 2}); /* the peer has not agreed */
    EXPECT_FALSE(path(1).fo.unused);
}

/* Those were trials of one more than there are now */
TEST_F(elastic, trials_that_failed_put_off_none_after_paths_were_dropped) {
    m_num_connected = 2;
    open(3);
    m_vqp.elastic.wanted = 2;
    for (unsigned i = 0; i < 20; ++i) {
        if (try_path(2, {2, 2})) {
            vqp_path_rebuilt(&m_vqp, &path(2), 0, 0);
            load(STEP, {2, 2});
        }
        m_now = vqp_max(m_now, m_vqp.elastic.next);
    }
    EXPECT_GT(m_vqp.elastic.wait, 8000 * MS);
    drain_all();
    pass_until_quiet();
    m_now += 10000 * MS;
    timer();
    m_now += 100 * MS;
    timer();
    ASSERT_TRUE(is_dropped(1));
    m_vqp.elastic.next = m_now + 60000 * MS;
    EXPECT_TRUE(try_path(2, {2, 2}));
}

TEST_F(elastic, path_that_was_used_until_now_is_not_dropped) {
    for (unsigned looks : {255, 256, 257}) {
        m_num_connected = 2;
        m_now           = 100 * MS;
        open(2);
        m_vqp.elastic.wanted = 2;
        load(looks * STEP, {2, 2});
        drain_all();
        pass_until_quiet();
        EXPECT_FALSE(is_dropped(1)) << looks;
    }
}

TEST_F(elastic, bursts_between_two_looks_are_use) {
    m_num_connected = 2;
    open(2);
    m_vqp.elastic.wanted = 2;
    for (unsigned burst = 0; burst < 100; ++burst) {
        ASSERT_TRUE(rma(VQP_KIND_PUT, 64));
        (void)next();
        drain_all(); /* before the first look */
        pass_until_quiet();
        m_now += 1000 * MS;
        timer();
        ASSERT_FALSE(is_dropped(0) || is_dropped(1)) << burst;
    }
    EXPECT_EQ(2u, m_vqp.elastic.wanted);
}

TEST_F(elastic, frags_without_an_operation_are_no_use) {
    m_num_connected = 2;
    open(2);
    for (unsigned i = 0; i < 100; ++i) { /* the peer's path on trial comes and goes */
        vqp_path_nop_idle(&m_vqp);
        (void)next();
        m_now += STEP / 2;
        timer();
        drain_all();
        pass_until_quiet();
        ASSERT_FALSE(is_dropped(0) || is_dropped(1)) << i;
    }
    m_now += 10000 * MS;
    timer();
    EXPECT_TRUE(is_dropped(1));
}

TEST_F(elastic, path_that_pays_here_is_not_dropped_for_the_peer) {
    m_num_connected = 2;
    open(2);
    m_vqp.elastic.wanted = 2;
    hear_down(LEAVING | UNUSED, 0, 1);
    EXPECT_EQ(VQP_PATH_UP, state(1));
    m_vqp.elastic.wanted = 1;
    hear_down(LEAVING | UNUSED, 0, 1);
    EXPECT_EQ(VQP_PATH_LEAVE, state(1));
}

TEST_F(elastic, path_is_not_dropped_for_the_peer_during_a_trial) {
    m_num_connected = 2;
    open(3);
    m_vqp.elastic.wanted = 2;
    come_up(2, {2, 2});
    hear_down(LEAVING | UNUSED, 0, 1);
    EXPECT_EQ(VQP_PATH_UP, state(1));
    load(4 * MS, {2, 2, 0});
    EXPECT_TRUE(is_dropped(2));
    EXPECT_FALSE(is_dropped(1));
}

TEST_F(elastic, trial_during_which_another_path_fails_shows_nothing) {
    m_num_connected = 2;
    open(3);
    m_vqp.elastic.wanted = 2;
    come_up(2, {2, 2});
    vqp_path_down(&m_vqp, &path(1), VQP_ERR_TIMEOUT);
    load(4 * MS, {2, 0, 2});
    EXPECT_EQ(2u, m_vqp.elastic.wanted);
    EXPECT_EQ(0u, m_vqp.elastic.tries);
    EXPECT_FALSE(is_dropped(2)); /* two are wanted */
}

/* ---- do the paths carry what they can? ---- */

class spread : public elastic {
protected:
    spread() {
        m_num_connected = 2;
        open(2);
    }

    bool is_spread() {
        (void)next();
        return vqp_elastic_is_spread(&m_vqp) != 0;
    }

    /* Until the first one waits */
    void wait_for(vqp_kind_t kind) {
        do {
            ASSERT_TRUE(rma(kind, 8));
            (void)next();
        } while (m_tx.rma.post == m_tx.rma.tail);
    }
};

TEST_F(spread, put_that_waits_for_room_fills_the_paths) {
    EXPECT_FALSE(is_spread());
    EXPECT_TRUE(rma(VQP_KIND_PUT, 8));
    EXPECT_FALSE(is_spread());
    wait_for(VQP_KIND_PUT);
    EXPECT_TRUE(is_spread());
}

TEST_F(spread, message_that_waits_for_room_fills_the_paths) {
    wait_for(VQP_KIND_PUT);
    for (unsigned i = 0; i < 2; ++i) { /* what waits is sent, but one */
        confirm_all(i);
        (void)done();
    }
    (void)next();
    EXPECT_FALSE(is_spread());
    while (m_tx.am.post == m_tx.am.tail) {
        ASSERT_TRUE(am(8));
        (void)next();
    }
    EXPECT_TRUE(is_spread());
}

TEST_F(spread, paths_with_much_in_flight_are_full) {
    fill();
    for (unsigned i = 0; i < 2; ++i) {
        EXPECT_GE(m_paths[i].bytes, m_cfg.path_cap);
    }
    EXPECT_TRUE(is_spread());
}

/* Atomics go to one rail: it is no fault of the other one's */
TEST_F(spread, what_waits_for_a_rail_does_not_fill_the_paths) {
    wait_for(VQP_KIND_FADD);
    EXPECT_FALSE(is_spread());
    ASSERT_TRUE(rma(VQP_KIND_PUT, 8)); /* behind it */
    EXPECT_FALSE(is_spread());
    for (unsigned i = 0; i < 2; ++i) {
        confirm_all(i);
    }
    (void)done();
    EXPECT_FALSE(is_spread());
    wait_for(VQP_KIND_GET);
    EXPECT_TRUE(is_spread());
}

TEST_F(spread, what_waits_for_a_fence_does_not_fill_the_paths) {
    ASSERT_TRUE(am(8));
    (void)next();
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(rma(VQP_KIND_PUT, 8));
    (void)next();
    ASSERT_NE(m_tx.rma.post, m_tx.rma.tail);
    EXPECT_FALSE(is_spread());
    for (unsigned i = 0; i < 2; ++i) {
        confirm_all(i);
    }
    (void)done();
    wait_for(VQP_KIND_FADD);
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(am(8));
    (void)next();
    ASSERT_NE(m_tx.am.post, m_tx.am.tail);
    EXPECT_FALSE(is_spread());
}

} /* namespace */
