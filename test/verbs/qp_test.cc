/*
 * RC queue pairs: a connected pair between two rails, immediates into
 * zero-length receives, and what comes back in ERR.
 */
#include "qp_end.h"

#include "test/fabric/fabric.h"

class qp : public verbs_test {
protected:
    void SetUp() override
    {
        verbs_test::SetUp();
        if (a != nullptr) {
            x = new qp_end(a);
            y = new qp_end(b);
        }
    }

    void TearDown() override
    {
        delete y;
        delete x;
        verbs_test::TearDown();
    }

    void connect()
    {
        x->connect(*y, 0xfffffe, 100);
        y->connect(*x, 100, 0xfffffe);
    }

    qp_end *x = nullptr;
    qp_end *y = nullptr;
};

TEST_F(qp, granted_is_at_least_what_was_asked)
{
    EXPECT_GE(x->qp.granted.send_depth, 64u);
    EXPECT_GE(x->qp.granted.recv_depth, RECVS);
    EXPECT_GE(x->qp.granted.max_send_sge, 4u);
    EXPECT_EQ(x->qp.qp->qp_num, x->qp.qpn);
}

TEST_F(qp, too_much_inline_is_lowered)
{
    vqp_ib_qp_params_t params = {16, 16, 1 << 20, 1, 0, VQP_IB_LOG_ERROR};
    vqp_ib_qp_t other;

    ASSERT_EQ(VQP_OK, vqp_ib_qp_create(&other, &a->dev, x->cq(), &params));
    EXPECT_LT(other.granted.max_inline, 1u << 20);
    EXPECT_GT(other.granted.max_inline, 0u);
    vqp_ib_qp_destroy(&other);
}

/* Limits of devices are such numbers: half of what was asked could be less */
TEST_F(qp, inline_is_lowered_to_powers_of_two)
{
    vqp_ib_qp_params_t params = {16, 16, 60, 1, 0, VQP_IB_LOG_ERROR};
    char error[128]           = "";
    vqp_ib_qp_t other;

    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "faults are made by the software fabric";
    }
    ASSERT_EQ(0, vqp_fabric()->faults("call verb=create_qp count=2 errno=EINVAL",
                                      error, sizeof(error))) << error;
    ASSERT_EQ(VQP_OK, vqp_ib_qp_create(&other, &a->dev, x->cq(), &params));
    vqp_fabric()->faults(NULL, NULL, 0);
    EXPECT_EQ(16u, other.granted.max_inline);
    vqp_ib_qp_destroy(&other);
}

/* What the device has granted once is not at fault */
TEST_F(qp, inline_is_not_lowered_below_what_is_needed)
{
    vqp_ib_qp_params_t params = {16, 16, 60, 1, 60, VQP_IB_LOG_DIAG};
    char error[128]           = "";
    log_capture log;
    vqp_ib_qp_t other;

    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "faults are made by the software fabric";
    }
    ASSERT_EQ(0, vqp_fabric()->faults("call verb=create_qp nth=1 errno=ENOMEM",
                                      error, sizeof(error))) << error;
    EXPECT_EQ(VQP_ERR_NO_MEMORY, vqp_ib_qp_create(&other, &a->dev, x->cq(), &params));
    ASSERT_EQ(VQP_OK, vqp_ib_qp_create(&other, &a->dev, x->cq(), &params));
    vqp_fabric()->faults(NULL, NULL, 0);
    EXPECT_GE(other.granted.max_inline, 60u);
    vqp_ib_qp_destroy(&other);
    EXPECT_TRUE(log.has("ibv_create_qp"));
}

TEST_F(qp, too_deep_a_queue_is_refused_with_the_limit)
{
    log_capture log;
    vqp_ib_qp_params_t params = {a->dev.caps.max_qp_wr + 1, 16, 0, 1, 0,
                                 VQP_IB_LOG_ERROR};
    vqp_ib_qp_t other;

    EXPECT_EQ(VQP_ERR_EXCEEDS_LIMIT,
              vqp_ib_qp_create(&other, &a->dev, x->cq(), &params));
    EXPECT_TRUE(log.has(std::to_string(a->dev.caps.max_qp_wr)));
}

TEST_F(qp, immediate_arrives_in_a_zero_length_receive)
{
    struct ibv_wc wc;

    connect();
    strcpy(x->buffer, "over two packets");
    for (uint32_t i = 0; i < RECVS; ++i) {
        x->write_imm(*y, i, (i == 0) ? 8000 : 0);
        wc = x->wait_wc();
        ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
        wc = y->wait_wc();
        ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
        ASSERT_EQ(77u, wc.wr_id);
        ASSERT_EQ(i, wc.imm_data);
        ASSERT_EQ(y->qp.qpn, wc.qp_num);
    }
    EXPECT_STREQ("over two packets", y->buffer);

    /* And once more from receives that were posted again */
    uint32_t posted;
    ASSERT_EQ(VQP_OK, vqp_ib_qp_post_recvs(&y->qp, 78, 1, &posted));
    x->write_imm(*y, 9, 0);
    EXPECT_EQ(78u, y->wait_wc().wr_id);
    x->wait_wc();
}

TEST_F(qp, returns_how_many_receives_were_posted_when_one_fails)
{
    uint32_t posted = 0;
    struct ibv_wc wc;
    log_capture log;

    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "failures are made by the software fabric";
    }

    ASSERT_EQ(VQP_OK, vqp_ib_qp_to_init(&x->qp, a->port.num, 0));
    ASSERT_EQ(0, vqp_fabric()->faults("call verb=post_recv nth=2", NULL, 0));
    EXPECT_EQ(VQP_ERR_IO, vqp_ib_qp_post_recvs(&x->qp, 5, 150, &posted));
    EXPECT_TRUE(log.has("ibv_post_recv"));
    vqp_fabric()->faults(NULL, NULL, 0);
    EXPECT_GT(posted, 0u);
    EXPECT_LT(posted, 150u);
    ASSERT_EQ(VQP_OK, vqp_ib_qp_to_error(&x->qp));
    for (uint32_t i = 0; i < posted; ++i) {
        ASSERT_EQ(5u, x->wait_wc().wr_id);
    }
    EXPECT_EQ(0, ibv_poll_cq(x->cq(), 1, &wc));
}

TEST_F(qp, expected_psn_counts_packets_and_wraps)
{
    vqp_ib_qp_info_t info;

    connect();
    ASSERT_EQ(VQP_OK, vqp_ib_qp_query(&y->qp, &info));
    EXPECT_EQ(IBV_QPS_RTS, info.state);
    EXPECT_EQ(0xfffffeu, info.rq_psn);
    for (int i = 0; i < 3; ++i) {
        x->write_imm(*y, 0, 0);
        x->wait_wc();
        y->wait_wc();
    }
    ASSERT_EQ(VQP_OK, vqp_ib_qp_query(&y->qp, &info));
    EXPECT_EQ(1u, info.rq_psn);
}

TEST_F(qp, error_state_returns_every_receive)
{
    struct ibv_wc wc;

    connect();
    ASSERT_EQ(VQP_OK, vqp_ib_qp_to_error(&y->qp));
    for (uint32_t i = 0; i < RECVS; ++i) {
        wc = y->wait_wc();
        ASSERT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
        ASSERT_EQ(77u, wc.wr_id);
    }
    EXPECT_EQ(0, ibv_poll_cq(y->cq(), 1, &wc));
    EXPECT_EQ(IBV_QPS_ERR, y->qp.state);
}

/* Soft-RoCE's post is no system call: only the next modify flushes what is posted in ERR */
TEST_F(qp, a_receive_that_is_posted_in_error_state_returns_with_another_modify)
{
    struct ibv_wc wc;
    uint32_t posted;

    connect();
    ASSERT_EQ(VQP_OK, vqp_ib_qp_to_error(&y->qp));
    for (uint32_t i = 0; i < RECVS; ++i) {
        (void)y->wait_wc();
    }
    ASSERT_EQ(VQP_OK, vqp_ib_qp_post_recvs(&y->qp, 78, 1, &posted));
    ASSERT_EQ(VQP_OK, vqp_ib_qp_to_error(&y->qp));
    wc = y->wait_wc();
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
    EXPECT_EQ(78u, wc.wr_id);
}

TEST_F(qp, wrong_transition_is_logged_with_both_states)
{
    log_capture log;
    vqp_ib_qp_conn_t conn = {};

    EXPECT_NE(VQP_OK, vqp_ib_qp_to_rts(&x->qp, &conn));
    EXPECT_TRUE(log.has("RTS"));
    EXPECT_TRUE(log.has(a->dev.name));
    EXPECT_EQ(IBV_QPS_RESET, x->qp.state);
}

TEST_F(qp, channel_wakes_up_for_a_completion_after_arming)
{
    struct pollfd pfd = {vqp_ib_chan_fd(&y->pool.chan), POLLIN, 0};

    connect();
    for (int i = 0; i < 150; ++i) { /* beyond a batch of acknowledgements */
        ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_arm(&y->pool));
        ASSERT_EQ(0, poll(&pfd, 1, 0));
        x->write_imm(*y, i, 0);
        ASSERT_EQ(1, poll(&pfd, 1, wait_limit_ms()));
        EXPECT_EQ(1u, vqp_ib_chan_drain(&y->pool.chan));
        EXPECT_EQ(0u, vqp_ib_chan_drain(&y->pool.chan));
        x->wait_wc();
        y->wait_wc();
    }
    /* TearDown destroys the CQ: an event without acknowledgement would hang */
}
