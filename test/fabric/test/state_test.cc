/*
 * States of a queue pair: which changes there are, what they need, and what may
 * be posted in which.
 */
#include "fabric_fixture.h"

class qp_state : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        a.reset(new endpoint(*dev));
        b.reset(new endpoint(*dev));
    }

    int rtr() { return a->to_rtr(b->qp->qp_num, dev->gid, 5); }
};

TEST_F(qp_state, begins_in_reset)
{
    EXPECT_EQ(IBV_QPS_RESET, a->state());
    EXPECT_EQ(IBV_QPS_RESET, a->qp->state);
}

TEST_F(qp_state, goes_up_step_by_step)
{
    EXPECT_EQ(0, a->to_init());
    EXPECT_EQ(IBV_QPS_INIT, a->state());
    EXPECT_EQ(0, rtr());
    EXPECT_EQ(IBV_QPS_RTR, a->state());
    EXPECT_EQ(0, a->to_rts());
    EXPECT_EQ(IBV_QPS_RTS, a->state());
    EXPECT_EQ(IBV_QPS_RTS, a->qp->state);
}

TEST_F(qp_state, no_step_can_be_left_out)
{
    EXPECT_EQ(EINVAL, rtr());
    EXPECT_EQ(EINVAL, a->to_rts());
    ASSERT_EQ(0, a->to_init());
    EXPECT_EQ(EINVAL, a->to_rts());
    EXPECT_EQ(IBV_QPS_INIT, a->state());
}

TEST_F(qp_state, a_step_needs_its_attributes)
{
    ibv_qp_attr attr = {};

    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    EXPECT_EQ(EINVAL, ibv_modify_qp(a->qp, &attr,
                                    IBV_QP_STATE | IBV_QP_PORT));
    ASSERT_EQ(0, a->to_init());
    attr.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(EINVAL, ibv_modify_qp(a->qp, &attr, IBV_QP_STATE));
    ASSERT_EQ(0, rtr());
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(EINVAL, ibv_modify_qp(a->qp, &attr,
                                    IBV_QP_STATE | IBV_QP_SQ_PSN));
    EXPECT_EQ(IBV_QPS_RTR, a->state());
}

TEST_F(qp_state, a_missing_port_is_refused)
{
    ibv_qp_attr attr = {};

    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 9;
    EXPECT_EQ(EINVAL, ibv_modify_qp(a->qp, &attr,
                                    IBV_QP_STATE | IBV_QP_PORT |
                                    IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
}

TEST_F(qp_state, error_and_reset_are_reached_from_anywhere)
{
    EXPECT_EQ(0, a->to(IBV_QPS_ERR));
    EXPECT_EQ(0, a->to(IBV_QPS_RESET));
    ASSERT_EQ(0, a->to_init());
    EXPECT_EQ(0, a->to(IBV_QPS_ERR));
    EXPECT_EQ(IBV_QPS_ERR, a->state());
    EXPECT_EQ(0, a->to(IBV_QPS_RESET));
    ASSERT_EQ(0, a->to_init());
    ASSERT_EQ(0, rtr());
    ASSERT_EQ(0, a->to_rts());
    EXPECT_EQ(0, a->to(IBV_QPS_ERR));
}

TEST_F(qp_state, from_error_only_reset_leads_on)
{
    ASSERT_EQ(0, a->to_init());
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    EXPECT_EQ(EINVAL, rtr());
    EXPECT_EQ(EINVAL, a->to_rts());
    EXPECT_EQ(0, a->to(IBV_QPS_RESET));
    EXPECT_EQ(0, a->to_init());
}

TEST_F(qp_state, receives_are_posted_from_init_on)
{
    EXPECT_EQ(EINVAL, a->recv());
    fabric().violations_reset();
    ASSERT_EQ(0, a->to_init());
    EXPECT_EQ(0, a->recv());
}

TEST_F(qp_state, sends_are_posted_from_rts_on)
{
    EXPECT_EQ(EINVAL, a->post(IBV_WR_RDMA_WRITE, *b));
    ASSERT_EQ(0, a->to_init());
    EXPECT_EQ(EINVAL, a->post(IBV_WR_RDMA_WRITE, *b));
    ASSERT_EQ(0, rtr());
    EXPECT_EQ(EINVAL, a->post(IBV_WR_RDMA_WRITE, *b));
}

TEST_F(qp_state, query_returns_the_attributes_that_were_set)
{
    ibv_qp_init_attr init;
    ibv_qp_attr attr;

    a->connect(*b);
    ASSERT_EQ(0, ibv_query_qp(a->qp, &attr, 0xffffff, &init));
    EXPECT_EQ(IBV_QPS_RTS, attr.qp_state);
    EXPECT_EQ(IBV_MTU_1024, attr.path_mtu);
    EXPECT_EQ(b->qp->qp_num, attr.dest_qp_num);
    EXPECT_EQ(1000u, attr.rq_psn);
    EXPECT_EQ(1000u, attr.sq_psn);
    EXPECT_EQ(a->options.timeout, attr.timeout);
    EXPECT_EQ(a->options.retry, attr.retry_cnt);
    EXPECT_EQ(a->options.rnr_retry, attr.rnr_retry);
    EXPECT_EQ(a->options.min_rnr_timer, attr.min_rnr_timer);
    EXPECT_EQ(0, memcmp(&dev->gid, &attr.ah_attr.grh.dgid, 16));
    EXPECT_EQ(a->cap.max_send_wr, init.cap.max_send_wr);
    EXPECT_EQ(a->cap.max_recv_wr, init.cap.max_recv_wr);
    EXPECT_EQ(IBV_QPT_RC, init.qp_type);
    EXPECT_EQ(a->cq, init.send_cq);
}

TEST_F(qp_state, at_least_what_was_asked_for_is_granted)
{
    EXPECT_GE(a->cap.max_send_wr, a->options.sends);
    EXPECT_GE(a->cap.max_recv_wr, a->options.recvs);
    EXPECT_GE(a->cap.max_send_sge, a->options.sge);
    EXPECT_GE(a->cap.max_inline_data, a->options.inline_size);
}

TEST_F(qp_state, more_than_the_device_has_is_refused)
{
    ibv_qp_init_attr attr = {};

    attr.send_cq         = a->cq;
    attr.recv_cq         = a->cq;
    attr.qp_type         = IBV_QPT_RC;
    attr.cap.max_send_wr = 1 << 30;
    EXPECT_EQ(nullptr, ibv_create_qp(dev->pd, &attr));
    attr.cap.max_send_wr  = 1;
    attr.cap.max_send_sge = 1000;
    EXPECT_EQ(nullptr, ibv_create_qp(dev->pd, &attr));
    attr.cap.max_send_sge    = 1;
    attr.cap.max_inline_data = 1 << 20;
    EXPECT_EQ(nullptr, ibv_create_qp(dev->pd, &attr));
}

TEST_F(qp_state, qp_numbers_are_reused_late)
{
    uint32_t first = a->qp->qp_num;

    for (unsigned i = 0; i < 100; ++i) {
        endpoint c(*dev);
        EXPECT_NE(first, c.qp->qp_num);
        EXPECT_NE(b->qp->qp_num, c.qp->qp_num);
    }
}

TEST_F(qp_state, reset_makes_no_completions)
{
    ibv_wc wc;

    a->connect(*b);
    b->connect(*a);
    ASSERT_EQ(0, b->recvs(3));
    ASSERT_EQ(0, b->to(IBV_QPS_RESET));
    EXPECT_EQ(0, b->poll(&wc));
}

/* As libibverbs does: struct ibv_qp is the caller's view */
TEST_F(qp_state, the_handle_s_state_is_what_was_last_set_or_asked_for)
{
    ibv_qp_init_attr init;
    ibv_qp_attr attr = {};

    a->connect(*b);
    b->connect(*a);
    EXPECT_EQ(IBV_QPS_RTS, a->qp->state);
    ASSERT_EQ(0, fabric().qp_error(dev->name().c_str(), a->qp->qp_num));
    EXPECT_EQ(IBV_QPS_RTS, a->qp->state);
    ASSERT_EQ(0, ibv_query_qp(a->qp, &attr, IBV_QP_AV | IBV_QP_DEST_QPN,
                              &init));
    EXPECT_EQ(IBV_QPS_RTS, a->qp->state);
    ASSERT_EQ(0, ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init));
    EXPECT_EQ(IBV_QPS_ERR, a->qp->state);
}
