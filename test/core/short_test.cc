/*
 * Paths of the handshake whose send queues are short: elastic.h. The first path that is added
 * on their rails replaces each of them.
 */
#include "elastickit.h"

namespace {

class short_queue : public elastickit {
protected:
    static constexpr unsigned DRAINED = VQP_WIRE_FLAG_DRAINED;

    short_queue() { m_num_short = 1; }

    /* Until a path is added, or so many times: the process computes for longer than a
     * measurement takes, and finds all confirmed that was in flight */
    void compute(unsigned times) {
        for (unsigned i = 0; (i < times) && (m_vqp.elastic.state == VQP_ELASTIC_STEADY);
             ++i) {
            fill();
            m_now += 10 * PERIOD;
            confirm_all(0);
            (void)done();
            fill();
            timer();
        }
    }

    /* The peer agrees to drop the path: it is off */
    void leave(unsigned i) {
        hear_down(LEAVING | UNUSED, m_paths[i].fo.epoch, i);
        ASSERT_EQ(VQP_PATH_LEAVE, state(i));
        confirm_all(i);
        (void)done();
        (void)next();
        hear_down(LEAVING | UNUSED | DRAINED, m_paths[i].fo.epoch, i);
        quiesce(i);
        flush_recvs(i);
        ASSERT_TRUE(event(VQP_EVENT_PATH_COUNT, i));
        vqp_path_counted(&m_vqp, &m_paths[i], VQP_SOURCE_MSN, 0);
        hear_down(DRAINED | HAVE | UNUSED, m_paths[i].fo.epoch, i);
        ASSERT_TRUE(vqp_path_is_off(&m_paths[i])) << state(i);
    }
};

TEST_F(short_queue, path_stays_without_load) {
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
    EXPECT_EQ(SHORT, path(0).depth);
}

/* Without a trial: the rate has not risen */
TEST_F(short_queue, path_is_replaced_under_load) {
    open(4);
    come_up(1, {4});
    load(STEP, {2, 2});
    EXPECT_TRUE(is_dropped(0));
    EXPECT_EQ(VQP_ELASTIC_STEADY, m_vqp.elastic.state);
    EXPECT_EQ(LEAVING | UNUSED, next_message(0).flags);
    leave(0);
    EXPECT_EQ(VQP_PATH_UP, state(1));
    EXPECT_FALSE(is_dropped(1));
    EXPECT_EQ(1u, m_vqp.elastic.wanted);
    EXPECT_EQ(0u, m_vqp.stats.replayed);
}

TEST_F(short_queue, path_of_a_process_that_computes_is_replaced) {
    open(4);
    compute(20);
    EXPECT_EQ(VQP_ELASTIC_ADDING, m_vqp.elastic.state);
    EXPECT_EQ(1u, m_vqp.elastic.swaps);
}

/* To another rail of the peer: nothing was measured that it could be judged by */
TEST_F(short_queue, path_that_replaces_none_without_a_measurement_is_dropped) {
    open(4);
    compute(20);
    ASSERT_TRUE(is_trial(1));
    m_paths[1].peer_rail = 1;
    reach_probe(1);
    (void)next();
    confirm_all(1);
    (void)next();
    ASSERT_EQ(VQP_PATH_UP, state(1));
    m_now += 10 * PERIOD;
    timer();
    EXPECT_EQ(VQP_ELASTIC_STEADY, m_vqp.elastic.state);
    EXPECT_TRUE(is_dropped(1));
    EXPECT_FALSE(is_dropped(0));
    EXPECT_EQ(1u, m_vqp.elastic.wanted);
}

TEST_F(short_queue, process_that_computes_gets_no_further_path) {
    m_num_short = 0;
    open(4);
    compute(100);
    EXPECT_FALSE(is_trial(1));
}

TEST_F(short_queue, trials_after_that_are_judged) {
    open(3);
    come_up(1, {4});
    load(STEP, {2, 2});
    leave(0);
    come_up(2, {0, 4});
    load(4 * MS, {0, 2, 2});
    EXPECT_TRUE(is_dropped(2));
    EXPECT_FALSE(is_dropped(1));
}

TEST_F(short_queue, next_queue_pair_of_a_path_that_was_off_has_all_slots) {
    m_num_short = 2;
    open(3);
    ASSERT_TRUE(try_path(1, {4}));
    EXPECT_EQ(m_depth, vqp_path_next_depth(&m_vqp, &path(1)));
    EXPECT_EQ(SHORT, vqp_path_next_depth(&m_vqp, &path(0)));
    vqp_path_rebuilt(&m_vqp, &path(1), QPN, PSN);
    EXPECT_EQ(m_depth, vqp_path_next_depth(&m_vqp, &path(1)));
    vqp_path_down(&m_vqp, &path(0), VQP_ERR_TIMEOUT);
    EXPECT_EQ(SHORT, vqp_path_next_depth(&m_vqp, &path(0)));
}

/* Each on its rail, in turn */
TEST_F(short_queue, paths_of_two_rails_are_replaced_by_paths_of_the_same) {
    m_two_rails = true;
    m_num_short = m_num_connected = m_min_paths = 2;
    open(4);
    path(2).rail = 0;
    path(3).rail = 1;
    come_up(2, {4, 4});
    load(STEP, {4, 4, 4});
    EXPECT_TRUE(is_dropped(0));
    EXPECT_FALSE(is_dropped(1));
    leave(0);
    come_up(3, {0, 4, 4});
    load(STEP, {0, 4, 4, 4});
    EXPECT_TRUE(is_dropped(1));
    EXPECT_FALSE(is_dropped(2) || is_dropped(3));
}

/* Atomics stay on their rail */
TEST_F(short_queue, path_to_another_rail_of_the_peer_is_on_trial) {
    open(3);
    ASSERT_TRUE(try_path(1, {4}));
    m_paths[1].peer_rail = 1;
    reach_probe(1);
    (void)next();
    confirm_all(1);
    (void)next();
    load(STEP, {2, 2});
    EXPECT_FALSE(is_dropped(0));
    EXPECT_EQ(VQP_ELASTIC_TRIAL, m_vqp.elastic.state);
}

TEST_F(short_queue, path_without_room_for_all_slots_is_on_trial) {
    open(2);
    ASSERT_TRUE(try_path(1, {4}));
    path(1).depth = SHORT;
    reach_probe(1);
    (void)next();
    confirm_all(1);
    (void)next();
    load(STEP, {2, 2});
    EXPECT_FALSE(is_dropped(0));
    EXPECT_EQ(VQP_ELASTIC_TRIAL, m_vqp.elastic.state);
}

/* Both sides have added one, for the same reason */
TEST_F(short_queue, path_that_comes_up_after_another_one_is_dropped) {
    open(3);
    ASSERT_TRUE(try_path(1, {4}));
    reach_probe(1);
    hear_up(0, 1, 2);
    ASSERT_TRUE(event(VQP_EVENT_PATH_REBUILD, 2));
    path(2).peer_rail = 0;
    reach_probe(2);
    (void)next();
    confirm_all(1);
    confirm_all(2);
    (void)next();
    ASSERT_EQ(VQP_PATH_UP, state(1));
    ASSERT_EQ(VQP_PATH_UP, state(2));
    load(STEP, {2, 2, 2});
    EXPECT_TRUE(is_dropped(1));
    EXPECT_FALSE(is_dropped(0) || is_dropped(2));
    EXPECT_EQ(VQP_ELASTIC_STEADY, m_vqp.elastic.state);
}

/* The new path was not UP there. The short one would count in the rates of a trial */
TEST_F(short_queue, peer_that_ignores_the_request_is_asked_again_before_trials) {
    unsigned asked = 0;

    open(3);
    come_up(1, {4});
    load(STEP, {2, 2});
    ASSERT_EQ(LEAVING | UNUSED, next_message(0).flags);
    for (unsigned i = 0; (i < 40) && !is_trial(2); ++i) {
        load(STEP, {2, 2});
        asked += path(0).fo.mover == VQP_MOVER_REQUEST;
        (void)next_message(0);
    }
    EXPECT_EQ(7u, asked);
    EXPECT_TRUE(try_path(2, {2, 2})); /* it may never agree */
    vqp_path_rebuilt(&m_vqp, &path(2), 0, 0);
    load(110 * MS, {2, 2});
    EXPECT_EQ(VQP_MOVER_REQUEST, path(0).fo.mover);
    EXPECT_FALSE(is_dropped(1));
}

} /* namespace */
