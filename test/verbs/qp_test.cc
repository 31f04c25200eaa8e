/*
 * RC queue pairs: a connected pair between two rails, immediates into
 * zero-length receives, and what comes back in ERR.
 */
#include "verbs_fixture.h"

namespace {

const uint32_t RECVS = 200; /* more than one batch */

/* One end: pool, QP, and a registered buffer */
struct end {
    rail             *r;
    vqp_ib_cq_pool_t pool;
    vqp_ib_qp_t      qp;
    vqp_ib_mr_t      mr;
    unsigned         cq_index;
    char             buffer[8192];

    explicit end(rail *r_) : r(r_)
    {
        vqp_ib_cq_pool_params_t pool_params = {16, 0, 64};
        vqp_ib_qp_params_t qp_params        = {64, RECVS, 128, 4};
        vqp_ib_dev_t *devs[]                = {&r->dev};
        vqp_ib_mr_params_t mr_params        = {
            buffer, sizeof(buffer), VQP_IB_ACCESS_REMOTE_WRITE, 0,
            VQP_IB_LOG_ERROR, 0};

        memset(buffer, 0, sizeof(buffer));
        EXPECT_EQ(VQP_OK,
                  vqp_ib_cq_pool_init(&pool, &r->dev, &pool_params));
        EXPECT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, RECVS, &cq_index));
        EXPECT_EQ(VQP_OK, vqp_ib_qp_create(&qp, &r->dev, cq(), &qp_params));
        EXPECT_EQ(VQP_OK, vqp_ib_mr_reg(&mr, devs, 1, &mr_params));
    }

    ~end()
    {
        vqp_ib_qp_destroy(&qp);
        vqp_ib_cq_pool_release(&pool, cq_index, RECVS);
        vqp_ib_mr_dereg(&mr);
        vqp_ib_cq_pool_cleanup(&pool);
    }

    struct ibv_cq *cq() { return pool.cqs[cq_index].cq; }

    void connect(const end &peer, uint32_t sq_psn, uint32_t rq_psn)
    {
        vqp_ib_qp_conn_t conn = {};
        uint16_t index, pkey;

        memcpy(conn.av.dgid, peer.r->gid.raw, 16);
        conn.av.port            = r->port.num;
        conn.av.sgid_index      = r->gid.index;
        conn.av.is_global       = r->port.grh_required;
        conn.av.dlid            = peer.r->port.lid;
        conn.av.hop_limit       = 64;
        conn.av.flow_label      = 0x12345;
        conn.dest_qpn           = peer.qp.qpn;
        conn.sq_psn             = sq_psn;
        conn.rq_psn             = rq_psn;
        conn.mtu                = vqp_ib_mtu_enum(r->port.mtu);
        conn.timeout            = 14;
        conn.retry_cnt          = 5;
        conn.rnr_retry          = 6;
        conn.min_rnr_timer      = 12;
        conn.max_rd_atomic      = 1;
        conn.max_dest_rd_atomic = 1;

        ASSERT_EQ(VQP_OK, vqp_ib_port_find_pkey(&r->dev, &r->port, 0, &index,
                                                &pkey));
        ASSERT_EQ(VQP_OK, vqp_ib_qp_to_init(&qp, r->port.num, index));
        uint32_t posted;
        ASSERT_EQ(VQP_OK, vqp_ib_qp_post_recvs(&qp, 77, RECVS, &posted));
        EXPECT_EQ((uint32_t)RECVS, posted);
        ASSERT_EQ(VQP_OK, vqp_ib_qp_to_rtr(&qp, &conn));
        ASSERT_EQ(VQP_OK, vqp_ib_qp_to_rts(&qp, &conn));
    }

    void write_imm(const end &peer, uint32_t imm, uint32_t length)
    {
        struct ibv_sge sge   = {(uintptr_t)buffer, length, mr.lkey[0]};
        struct ibv_send_wr wr = {}, *bad;

        wr.wr_id               = 5;
        wr.sg_list             = &sge;
        wr.num_sge             = 1;
        wr.opcode              = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.send_flags          = IBV_SEND_SIGNALED;
        wr.imm_data            = imm;
        wr.wr.rdma.remote_addr = (uintptr_t)peer.buffer;
        wr.wr.rdma.rkey        = peer.mr.rkey[0];
        ASSERT_EQ(0, ibv_post_send(qp.qp, &wr, &bad));
    }

    struct ibv_wc wait_wc()
    {
        struct ibv_wc wc = {};

        EXPECT_TRUE(eventually([&] { return ibv_poll_cq(cq(), 1, &wc) == 1; }));
        return wc;
    }
};

} // namespace

class qp : public verbs_test {
protected:
    void SetUp() override
    {
        verbs_test::SetUp();
        if (a != nullptr) {
            x = new end(a);
            y = new end(b);
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

    end *x = nullptr;
    end *y = nullptr;
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
    vqp_ib_qp_params_t params = {16, 16, 1 << 20, 1};
    vqp_ib_qp_t other;

    ASSERT_EQ(VQP_OK, vqp_ib_qp_create(&other, &a->dev, x->cq(), &params));
    EXPECT_LT(other.granted.max_inline, 1u << 20);
    EXPECT_GT(other.granted.max_inline, 0u);
    vqp_ib_qp_destroy(&other);
}

TEST_F(qp, too_deep_a_queue_is_refused_with_the_limit)
{
    log_capture log;
    vqp_ib_qp_params_t params = {a->dev.caps.max_qp_wr + 1, 16, 0, 1};
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

TEST_F(qp, reset_qp_connects_again)
{
    connect();
    ASSERT_EQ(VQP_OK, vqp_ib_qp_to_reset(&x->qp));
    ASSERT_EQ(VQP_OK, vqp_ib_qp_to_reset(&y->qp));
    connect();
    x->write_imm(*y, 3, 0);
    EXPECT_EQ(3u, y->wait_wc().imm_data);
    x->wait_wc();
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
        ASSERT_EQ(1, poll(&pfd, 1, 5000));
        EXPECT_EQ(1u, vqp_ib_chan_drain(&y->pool.chan));
        EXPECT_EQ(0u, vqp_ib_chan_drain(&y->pool.chan));
        x->wait_wc();
        y->wait_wc();
    }
    /* TearDown destroys the CQ: an event without acknowledgement would hang */
}
