/*
 * The expected PSN as a log of executed requests: after an error it shows which
 * of the sender's requests have landed.
 */
#include "fabric_fixture.h"

class psn_log : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        open();
    }

    uint32_t expected() { return b->query().rq_psn; }

    /* Executed with success; @return by how much the expected PSN moved */
    uint32_t step(const ibv_send_wr &wr)
    {
        uint32_t before = expected();

        EXPECT_EQ(0, a->post(wr));
        EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
        return (expected() - before) & 0xffffff;
    }
};

TEST_F(psn_log, begins_where_it_was_set)
{
    EXPECT_EQ(1000u, expected());
}

TEST_F(psn_log, a_write_counts_its_packets)
{
    EXPECT_EQ(1u, step(a->wr(IBV_WR_RDMA_WRITE, *b, 0)));
    EXPECT_EQ(1u, step(a->wr(IBV_WR_RDMA_WRITE, *b, 1)));
    EXPECT_EQ(1u, step(a->wr(IBV_WR_RDMA_WRITE, *b, 1024)));
    EXPECT_EQ(2u, step(a->wr(IBV_WR_RDMA_WRITE, *b, 1025)));
    EXPECT_EQ(10u, step(a->wr(IBV_WR_RDMA_WRITE, *b, 10240)));
}

TEST_F(psn_log, an_immediate_is_a_packet)
{
    ASSERT_EQ(0, b->recvs(2));
    EXPECT_EQ(1u, step(a->wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 0)));
    EXPECT_EQ(3u, step(a->wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 3000)));
}

TEST_F(psn_log, a_read_counts_the_packets_of_its_response)
{
    EXPECT_EQ(1u, step(a->wr(IBV_WR_RDMA_READ, *b, 100)));
    EXPECT_EQ(4u, step(a->wr(IBV_WR_RDMA_READ, *b, 4096)));
}

TEST_F(psn_log, an_atomic_is_a_packet)
{
    EXPECT_EQ(1u, step(a->wr(IBV_WR_ATOMIC_FETCH_AND_ADD, *b, 8)));
}

TEST_F(psn_log, wraps_at_24_bits)
{
    qp_options late;

    late.psn = 0xfffffe;
    open(late);
    EXPECT_EQ(5u, step(a->wr(IBV_WR_RDMA_WRITE, *b, 5 * 1024)));
    EXPECT_EQ(3u, expected());
}

TEST_F(psn_log, what_was_refused_does_not_count)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);

    EXPECT_EQ(1u, step(wr));
    wr.wr.rdma.rkey ^= 0x55500;
    ASSERT_EQ(0, a->post(wr));
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, a->next().status);
    EXPECT_EQ(1001u, expected());
    expect_violations("remote_key");
}

TEST_F(psn_log, survives_in_error)
{
    EXPECT_EQ(7u, step(a->wr(IBV_WR_RDMA_WRITE, *b, 7000)));
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    EXPECT_EQ(1007u, expected());
}

TEST_F(psn_log, counts_what_was_executed_and_not_acknowledged)
{
    faults("unacked nth=2");
    EXPECT_EQ(1u, step(a->wr(IBV_WR_RDMA_WRITE, *b)));
    a->buffer.fill(4);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 2048));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
    EXPECT_EQ(1003u, expected());
    EXPECT_TRUE(b->buffer.holds(4, 0, 2048));
}

TEST_F(psn_log, does_not_count_what_was_not_executed)
{
    faults("wr nth=2 status=RETRY_EXC_ERR");
    EXPECT_EQ(1u, step(a->wr(IBV_WR_RDMA_WRITE, *b)));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 2048));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
    EXPECT_EQ(1001u, expected());
}

TEST_F(psn_log, an_rnr_nak_does_not_count)
{
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 3000));
    EXPECT_TRUE(a->quiet());
    EXPECT_EQ(1000u, expected());
    ASSERT_EQ(0, b->recv());
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(1003u, expected());
}

/* For any mixture, in both directions: each side counts the other's */
TEST_F(psn_log, is_the_sum_of_the_packets_of_all_that_was_executed)
{
    static const struct {
        ibv_wr_opcode op;
        size_t        length;
        uint32_t      packets;
    } all[] = {
        {IBV_WR_RDMA_WRITE, 0, 1},           {IBV_WR_RDMA_WRITE, 1023, 1},
        {IBV_WR_RDMA_READ, 2049, 3},         {IBV_WR_RDMA_READ, 0, 1},
        {IBV_WR_ATOMIC_CMP_AND_SWP, 8, 1},   {IBV_WR_SEND, 0, 1},
        {IBV_WR_SEND_WITH_IMM, 0, 1},        {IBV_WR_RDMA_READ, 1024, 1},
        {IBV_WR_RDMA_WRITE_WITH_IMM, 65536, 64},
        {IBV_WR_RDMA_WRITE, 1 << 20, 1024}
    };
    uint32_t sum = 1000;

    ASSERT_EQ(0, b->recvs(3));
    for (const auto &each : all) {
        ASSERT_EQ(0, a->post(each.op, *b, each.length));
        EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
        sum += each.packets;
        EXPECT_EQ(sum, expected()) << each.op << " " << each.length;
    }
    EXPECT_EQ(1000u, a->query().rq_psn);
}
