/*
 * Receives that queue pairs share.
 */
#include "fabric_fixture.h"

#include <poll.h>

class srq : public fabric_test {
protected:
    void SetUp() override
    {
        ibv_srq_init_attr attr = {};
        qp_options own, shared;

        fabric_test::SetUp();
        attr.attr.max_wr  = 16;
        attr.attr.max_sge = 1;
        queue             = ibv_create_srq(dev->pd, &attr);
        ASSERT_NE(nullptr, queue);
        shared.srq        = queue;
        own.rnr_retry     = 7;
        open(own, shared);
    }

    void TearDown() override
    {
        a.reset();
        b.reset();
        EXPECT_EQ(0, ibv_destroy_srq(queue));
        fabric_test::TearDown();
    }

    int recv(uint64_t wr_id, size_t length = 1000)
    {
        ibv_sge sge    = b->buffer.sge(0, length);
        ibv_recv_wr wr = {}, *bad;

        wr.wr_id   = wr_id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        return ibv_post_srq_recv(queue, &wr, &bad);
    }

    /* The next event of the device; -1: none has come, and none was waited for */
    int event(bool wait = true)
    {
        ibv_async_event found;
        int fd = dev->context->async_fd;
        struct pollfd p = {fd, POLLIN, 0};

        if (poll(&p, 1, wait ? 120000 : 50) != 1) {
            return -1;
        }
        EXPECT_EQ(0, ibv_get_async_event(dev->context, &found));
        ibv_ack_async_event(&found);
        return found.event_type;
    }

    void limit(uint32_t level)
    {
        ibv_srq_attr attr = {};

        attr.srq_limit = level;
        ASSERT_EQ(0, ibv_modify_srq(queue, &attr, IBV_SRQ_LIMIT));
    }

    ibv_srq *queue = nullptr;
};

TEST_F(srq, serves_messages_in_order)
{
    for (uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(0, recv(i));
    }
    for (uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(0, a->post(IBV_WR_SEND, *b, 10));
    }
    for (uint64_t i = 0; i < 4; ++i) {
        ibv_wc wc = b->next();
        EXPECT_EQ(i, wc.wr_id);
        EXPECT_EQ(IBV_WC_RECV, wc.opcode);
        EXPECT_EQ(b->qp->qp_num, wc.qp_num);
    }
    EXPECT_EQ(4u, a->drain(4).size());
}

TEST_F(srq, an_empty_one_is_not_ready)
{
    ASSERT_EQ(0, a->post(IBV_WR_SEND, *b, 10));
    EXPECT_TRUE(a->quiet());
    ASSERT_EQ(0, recv(7));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(7u, b->next().wr_id);
}

TEST_F(srq, holds_the_granted_number_of_receives)
{
    ibv_srq_attr attr;
    unsigned count = 0;

    ASSERT_EQ(0, ibv_query_srq(queue, &attr));
    EXPECT_GE(attr.max_wr, 16u);
    while ((count < 100000) && (recv(0) == 0)) {
        ++count;
    }
    EXPECT_GE(count, 16u);
    EXPECT_LT(count, 100000u);
}

TEST_F(srq, a_queue_pair_in_error_flushes_none_of_it)
{
    ASSERT_EQ(0, recv(1));
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    EXPECT_TRUE(b->quiet());
    EXPECT_EQ(IBV_EVENT_QP_LAST_WQE_REACHED, event());
}

TEST_F(srq, the_limit_event_is_raised_once)
{
    for (uint64_t i = 0; i < 6; ++i) {
        ASSERT_EQ(0, recv(i));
    }
    limit(5);
    EXPECT_EQ(-1, event(false));
    ASSERT_EQ(0, a->post(IBV_WR_SEND, *b, 10)); /* five are left */
    EXPECT_EQ(-1, event(false));
    ASSERT_EQ(0, a->post(IBV_WR_SEND, *b, 10));
    EXPECT_EQ(IBV_EVENT_SRQ_LIMIT_REACHED, event());
    ASSERT_EQ(0, a->post(IBV_WR_SEND, *b, 10));
    EXPECT_EQ(-1, event(false));
    EXPECT_EQ(3u, a->drain(3).size());
}

TEST_F(srq, is_busy_while_it_has_queue_pairs)
{
    EXPECT_EQ(EBUSY, ibv_destroy_srq(queue));
}
