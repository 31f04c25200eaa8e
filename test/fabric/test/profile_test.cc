/*
 * What the profiles of the fabric have of the devices that they are named after: see
 * fab_profile.h and main.cc.
 */
#include "fabric_fixture.h"

class profile_test : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        open();
    }

    uint32_t expected() { return b->query().rq_psn; }

    void writes(unsigned count)
    {
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
            ASSERT_EQ(IBV_WC_SUCCESS, a->next().status);
        }
    }

    ibv_device_attr limits()
    {
        ibv_device_attr attr;

        EXPECT_EQ(0, ibv_query_device(dev->context, &attr));
        return attr;
    }

    /* Can a queue pair be had that differs from the usual ones in this? */
    bool creates(const std::function<void(ibv_qp_init_attr&)> &set)
    {
        ibv_qp_init_attr attr = {};
        ibv_qp *qp;

        attr.send_cq = attr.recv_cq = a->cq;
        attr.qp_type                = IBV_QPT_RC;
        attr.cap                    = {16, 16, 1, 1, 0};
        set(attr);
        qp = ibv_create_qp(dev->pd, &attr);
        return (qp != nullptr) && (ibv_destroy_qp(qp) == 0);
    }

    /* Completions that are in the queue when the queue pair is moved to RESET. @return
     * those that can be polled afterwards. */
    int left_by_reset()
    {
        ibv_wc wc[4];

        for (unsigned i = 0; i < 3; ++i) {
            EXPECT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
        }
        EXPECT_EQ(0, a->to(IBV_QPS_RESET));
        return ibv_poll_cq(a->cq, 4, wc);
    }
};

/* ---- ConnectX, the default ---- */

TEST_F(profile_test, reset_takes_the_completions_along)
{
    EXPECT_EQ(0, left_by_reset());
}

/* ---- Soft-RoCE ---- */

class rxe_profile : public profile_test {
};

TEST_F(rxe_profile, reset_leaves_the_completions)
{
    EXPECT_EQ(3, left_by_reset());
}

TEST_F(rxe_profile, rq_psn_is_exact)
{
    writes(3);
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    EXPECT_EQ(1003u, expected());
}

/* ---- irdma ---- */

class irdma_profile : public profile_test {
};

TEST_F(irdma_profile, rq_psn_is_what_modify_has_set)
{
    writes(3);
    EXPECT_EQ(1000u, expected());
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    EXPECT_EQ(1000u, expected());
}

TEST_F(irdma_profile, has_neither_atomics_nor_shared_receive_queues)
{
    EXPECT_EQ(IBV_ATOMIC_NONE, limits().atomic_cap);
    EXPECT_EQ(0, limits().max_srq);
    EXPECT_EQ(13, limits().max_sge);
}

TEST_F(irdma_profile, an_option_goes_before_the_profile)
{
    EXPECT_EQ(4711, limits().max_mr); /* as set in main.cc */
}

TEST_F(irdma_profile, reset_takes_the_completions_along)
{
    EXPECT_EQ(0, left_by_reset());
}

/* ---- garbage for a PSN ---- */

class garbage_profile : public profile_test {
};

TEST_F(garbage_profile, rq_psn_is_any_number)
{
    writes(3);
    EXPECT_NE(1003u, expected());
    EXPECT_NE(1000u, expected());
}

/* ---- other ways to count ---- */

class discarded_profile : public profile_test {
};

TEST_F(discarded_profile, rq_psn_counts_what_is_discarded_in_ERR)
{
    writes(3);
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    EXPECT_EQ(1003u, expected());
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
    EXPECT_EQ(1004u, expected());
}

class messages_profile : public profile_test {
};

TEST_F(messages_profile, rq_psn_counts_a_long_request_once)
{
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 10000));
    ASSERT_EQ(IBV_WC_SUCCESS, a->next().status);
    writes(1);
    EXPECT_EQ(1002u, expected());
}

/* ---- bnxt ---- */

class bnxt_profile : public profile_test {
};

TEST_F(bnxt_profile, has_six_pieces_and_96_bytes_inline)
{
    EXPECT_EQ(6, limits().max_sge);
    EXPECT_EQ(IBV_ATOMIC_GLOB, limits().atomic_cap);
    EXPECT_TRUE(creates([](ibv_qp_init_attr &attr) {
        attr.cap.max_send_sge    = 6;
        attr.cap.max_inline_data = 96;
    }));
    EXPECT_FALSE(creates([](ibv_qp_init_attr &attr) {
        attr.cap.max_send_sge = 7;
    }));
    EXPECT_FALSE(creates([](ibv_qp_init_attr &attr) {
        attr.cap.max_inline_data = 97;
    }));
}

/* ---- low limits ---- */

class small_profile : public profile_test {
protected:
    void SetUp() override
    {
        qp_options options;

        fabric_test::SetUp();
        options.sge           = 3;
        options.inline_size   = 0;
        options.max_rd_atomic = 1;
        open(options);
    }
};

TEST_F(small_profile, refuses_what_exceeds_a_limit)
{
    EXPECT_TRUE(creates([](ibv_qp_init_attr &attr) {
        attr.cap.max_send_wr  = 256;
        attr.cap.max_send_sge = 3;
    }));
    EXPECT_FALSE(creates([](ibv_qp_init_attr &attr) {
        attr.cap.max_send_wr = 257;
    }));
    EXPECT_FALSE(creates([](ibv_qp_init_attr &attr) {
        attr.cap.max_send_sge = 4;
    }));
    EXPECT_FALSE(creates([](ibv_qp_init_attr &attr) {
        attr.cap.max_inline_data = 17;
    }));
    EXPECT_EQ(1, limits().max_qp_rd_atom);
    EXPECT_EQ(65536u, dev->port.max_msg_sz);
}

TEST_F(small_profile, rq_psn_is_not_there_in_error)
{
    ibv_qp_init_attr init_attr;
    ibv_qp_attr attr;

    writes(2);
    EXPECT_EQ(1002u, expected());
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    EXPECT_EQ(EIO, ibv_query_qp(b->qp, &attr, IBV_QP_STATE, &init_attr));
}

/* ---- no RC ---- */

class efa_profile : public fabric_test {
};

TEST_F(efa_profile, is_another_transport_without_rc)
{
    device dev;
    ibv_qp_init_attr attr = {};
    ibv_cq *cq            = ibv_create_cq(dev.context, 8, nullptr, nullptr, 0);
    ibv_qp *qp;

    EXPECT_EQ(IBV_TRANSPORT_UNSPECIFIED, dev.context->device->transport_type);
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type                = IBV_QPT_RC;
    attr.cap                    = {8, 8, 1, 1, 0};
    EXPECT_EQ(nullptr, ibv_create_qp(dev.pd, &attr));
    EXPECT_EQ(EOPNOTSUPP, errno);
    attr.qp_type = IBV_QPT_UD;
    qp           = ibv_create_qp(dev.pd, &attr);
    ASSERT_NE(nullptr, qp);
    EXPECT_EQ(0, ibv_destroy_qp(qp));
    EXPECT_EQ(0, ibv_destroy_cq(cq));
}
