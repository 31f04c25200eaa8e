/*
 * One end of an RC connection, for the tests of queue pairs and of posting: a
 * pool of completion queues, a queue pair and a registered buffer.
 */
#ifndef VQP_TEST_VERBS_QP_END_H
#define VQP_TEST_VERBS_QP_END_H

#include "verbs_fixture.h"


static const uint32_t RECVS = 200; /* more than one batch */
static const uint32_t SENDS = 64;

/* One end: pool, QP, and a registered buffer */
struct qp_end {
    rail             *r;
    vqp_ib_cq_pool_t pool;
    vqp_ib_qp_t      qp;
    vqp_ib_mr_t      mr;
    unsigned         cq_index;
    char             buffer[8192];

    explicit qp_end(rail *r_) : r(r_)
    {
        vqp_ib_cq_pool_params_t pool_params = {16, 0};
        vqp_ib_qp_params_t qp_params        = {SENDS, RECVS, 128, 4, 0,
                                               VQP_IB_LOG_ERROR};
        vqp_ib_dev_t *devs[]                = {&r->dev};
        vqp_ib_mr_params_t mr_params        = {
            buffer, sizeof(buffer), VQP_IB_ACCESS_REMOTE_WRITE, 0,
            VQP_IB_LOG_ERROR, 0, nullptr};

        memset(buffer, 0, sizeof(buffer));
        EXPECT_EQ(VQP_OK,
                  vqp_ib_cq_pool_init(&pool, &r->dev, &pool_params));
        EXPECT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, RECVS + SENDS,
                                                 VQP_IB_LOG_ERROR, &cq_index));
        EXPECT_EQ(VQP_OK, vqp_ib_qp_create(&qp, &r->dev, cq(), &qp_params));
        EXPECT_EQ(VQP_OK, vqp_ib_mr_reg(&mr, devs, 1, &mr_params));
    }

    ~qp_end()
    {
        vqp_ib_qp_destroy(&qp);
        vqp_ib_cq_pool_release(&pool, cq_index, RECVS + SENDS);
        vqp_ib_mr_dereg(&mr);
        vqp_ib_cq_pool_cleanup(&pool);
    }

    struct ibv_cq *cq() { return pool.cqs[cq_index].cq; }

    void connect(const qp_end &peer, uint32_t sq_psn, uint32_t rq_psn)
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

    void write_imm(const qp_end &peer, uint32_t imm, uint32_t length)
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

#endif
