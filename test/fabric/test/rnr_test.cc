/*
 * A message for which the peer has no receive.
 */
#include "fabric_fixture.h"

#include <unistd.h>

class rnr : public fabric_test {
protected:
    void start(uint8_t rnr_retry, uint8_t timer = 1)
    {
        qp_options options;

        options.rnr_retry     = rnr_retry;
        options.min_rnr_timer = timer;
        open(options);
    }
};

TEST_F(rnr, seven_retries_are_endless)
{
    start(7);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b));
    usleep(20000);
    EXPECT_TRUE(a->quiet());
    ASSERT_EQ(0, b->recv(5));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(5u, b->next().wr_id);
}

TEST_F(rnr, no_retry_fails_at_once_and_the_peer_lives)
{
    start(0);
    ASSERT_EQ(0, a->post(IBV_WR_SEND, *b));
    EXPECT_EQ(IBV_WC_RNR_RETRY_EXC_ERR, a->next().status);
    EXPECT_EQ(IBV_QPS_ERR, a->state());
    EXPECT_EQ(IBV_QPS_RTS, b->state());
}

TEST_F(rnr, retries_take_at_least_the_rnr_timer_each)
{
    start(3, 14); /* 1 ms each */
    double begin = now();
    ASSERT_EQ(0, a->post(IBV_WR_SEND, *b));
    EXPECT_EQ(IBV_WC_RNR_RETRY_EXC_ERR, a->next().status);
    EXPECT_GE(now() - begin, 0.0029);
}

TEST_F(rnr, later_requests_wait_in_order)
{
    start(7);
    a->buffer.fill(1);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 8));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 5000));
    EXPECT_TRUE(a->quiet());
    EXPECT_FALSE(b->buffer.holds(1, 100, 4900));
    ASSERT_EQ(0, b->recv());
    EXPECT_EQ(2u, a->drain(2).size());
    EXPECT_TRUE(b->buffer.holds(1, 0, 5000));
}

TEST_F(rnr, other_queue_pairs_do_not_wait)
{
    start(7);
    endpoint c(*dev), d(*dev);
    c.connect(d);
    d.connect(c);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 8));
    ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE, d, 8));
    EXPECT_EQ(IBV_WC_SUCCESS, c.next().status);
    EXPECT_TRUE(a->quiet());
}

TEST_F(rnr, many_rnr_naks_only_delay_requests)
{
    start(7);
    faults("rnr nth=2 count=20");
    ASSERT_EQ(0, b->recvs(10));
    for (unsigned i = 0; i < 10; ++i) {
        ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 8));
    }
    EXPECT_EQ(10u, a->drain(10).size());
    EXPECT_EQ(10u, b->drain(10).size());
    EXPECT_EQ(20u, fabric().fault_hits());
}

TEST_F(rnr, an_error_of_the_sender_flushes_what_waits)
{
    start(7);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 8));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 8));
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    for (const ibv_wc &wc : a->drain(2)) {
        EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
    }
    ASSERT_EQ(0, b->recv());
    EXPECT_TRUE(b->quiet());
}

TEST_F(rnr, reset_forgets_what_waits)
{
    start(7);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 8));
    ASSERT_EQ(0, a->to(IBV_QPS_RESET));
    ASSERT_EQ(0, b->recv());
    EXPECT_TRUE(a->quiet());
    EXPECT_TRUE(b->quiet());
}
