/*
 * Fabrics of another kind than the default one: see main.cc.
 *
 * Times are bounds from below, which hold on a machine of any load; clock_test.cc
 * has the exact ones, with the virtual clock.
 */
#include "fabric_fixture.h"

#include <unistd.h>

/* ---- timed: 200 to 300 us to the peer, and as long back ---- */

class timed_path : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        open();
        a->buffer.fill(1);
    }

    /* 100 ms each way: time to do something while a request is under way, also
     * for a thread that a busy machine does not run at once */
    static void slow_down()
    {
        ASSERT_EQ(0, fabric().act("delay path=0/1 to=100ms", nullptr, 0));
    }
};

TEST_F(timed_path, a_completion_takes_at_least_the_round_trip)
{
    double begin = now();

    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_GE(now() - begin, 0.0004);
}

TEST_F(timed_path, data_lands_before_the_completion_and_not_at_once)
{
    slow_down();
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 64));
    EXPECT_FALSE(b->buffer.holds(1, 0, 64));
    EXPECT_TRUE(eventually([&] { return b->buffer.holds(1, 0, 64); }));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
}

TEST_F(timed_path, progress_needs_no_poll)
{
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 64));
    EXPECT_TRUE(eventually([&] { return b->buffer.holds(1, 0, 64); }));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
}

TEST_F(timed_path, a_queue_pair_keeps_its_order)
{
    ASSERT_EQ(0, b->recvs(30));
    for (unsigned i = 0; i < 30; ++i) {
        ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 8);
        wr.wr_id       = i;
        wr.imm_data    = i;
        ASSERT_EQ(0, a->post(wr));
    }
    for (unsigned i = 0; i < 30; ++i) {
        EXPECT_EQ(i, b->next().imm_data);
        EXPECT_EQ(i, a->next().wr_id);
    }
}

TEST_F(timed_path, queue_pairs_overtake_each_other)
{
    qp_options shared;
    unsigned overtakes = 0;
    uint32_t last      = 0;

    shared.cq = b->cq;
    endpoint c(*dev), d(*dev, shared);
    c.connect(d);
    d.connect(c);
    ASSERT_EQ(0, b->recvs(20));
    ASSERT_EQ(0, d.recvs(20));
    for (unsigned i = 0; i < 40; ++i) {
        endpoint &from = (i % 2) ? c : *a;
        ibv_send_wr wr = from.wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 0);
        wr.imm_data    = i;
        ASSERT_EQ(0, from.post(wr)); /* at once: jitter is what parts them */
    }
    for (const ibv_wc &wc : b->drain(40)) {
        overtakes += wc.imm_data < last;
        last       = wc.imm_data;
    }
    EXPECT_GT(overtakes, 0u);
    EXPECT_EQ(20u, a->drain(20).size());
    EXPECT_EQ(20u, c.drain(20).size());
}

TEST_F(timed_path, a_source_must_stay_until_the_completion)
{
    slow_down();
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 64));
    a->buffer.data[10] ^= 1;
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    expect_violations("changed");
}

TEST_F(timed_path, error_flushes_what_is_under_way)
{
    for (unsigned i = 0; i < 5; ++i) {
        ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 64));
    }
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    EXPECT_EQ(5u, a->drain(5).size());
    EXPECT_TRUE(a->quiet());
}

TEST_F(timed_path, reads_and_atomics_wait_for_their_answer)
{
    slow_down();
    b->buffer.fill(2);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_READ, *b, 5000));
    EXPECT_FALSE(a->buffer.holds(2, 0, 5000));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_TRUE(a->buffer.holds(2, 0, 5000));
}

/* ---- rated: a path has 1000 Mb/s ---- */

class rated_path : public fabric_test {
};

TEST_F(rated_path, a_megabyte_takes_at_least_eight_milliseconds)
{
    double begin;

    open();
    begin = now();
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 1000000));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_GE(now() - begin, 0.0078);
}

TEST_F(rated_path, each_path_has_a_rate_of_its_own)
{
    double begin;

    open();
    endpoint c(*dev), d(*dev);
    c.connect(d);
    d.connect(c);
    begin = now();
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 1000000));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 1000000));
    EXPECT_EQ(2u, a->drain(2).size());
    EXPECT_GE(now() - begin, 0.0156);
    begin = now();
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 1000000));
    ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE, d, 1000000));
    EXPECT_EQ(1u, a->drain(1).size());
    EXPECT_EQ(1u, c.drain(1).size());
    EXPECT_GE(now() - begin, 0.0078);
}

/* ---- rxe: the limits and habits of Soft-RoCE ---- */

class rxe_habits : public fabric_test {
};

TEST_F(rxe_habits, limits)
{
    ibv_device_attr attr;

    ASSERT_EQ(0, ibv_query_device(dev->context, &attr));
    EXPECT_EQ(32767, attr.max_cqe);
    EXPECT_EQ(32, attr.max_sge);
    EXPECT_EQ(8u << 20, dev->port.max_msg_sz);
    EXPECT_EQ(nullptr, ibv_create_cq(dev->context, 40000, nullptr, nullptr, 0));
}

TEST_F(rxe_habits, seven_retries_are_endless)
{
    qp_options patient;

    patient.retry = 7;
    open(patient);
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    usleep(200000);
    EXPECT_TRUE(a->quiet());
}

TEST_F(rxe_habits, a_bad_lkey_is_an_operation_error)
{
    open();
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);
    a->sge.lkey   ^= 0x55500;
    ASSERT_EQ(0, a->post(wr));
    EXPECT_EQ(IBV_WC_LOC_QP_OP_ERR, a->next().status);
    expect_violations("local_key");
}

/* ---- InfiniBand: LIDs instead of addresses ---- */

class ib_link : public fabric_test {
};

TEST_F(ib_link, has_lids)
{
    EXPECT_EQ(IBV_LINK_LAYER_INFINIBAND, dev->port.link_layer);
    EXPECT_NE(0, dev->port.lid);
}

TEST_F(ib_link, lids_lead_to_the_peer)
{
    open();
    a->buffer.fill(1);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 100));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_TRUE(b->buffer.holds(1, 0, 100));
}
