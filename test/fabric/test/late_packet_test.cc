/*
 * Late packets: a request that has left when its queue pair fails still
 * arrives, unless the peer's queue pair is in error. On the layout with delays.
 */
#include "fabric_fixture.h"

#include <unistd.h>

class timed_late_packet : public fabric_test {
protected:
    static constexpr size_t LENGTH = 64;

    /* Flush a write before it arrives: its delay is longer than a busy machine
     * suspends this thread */
    void flush_one()
    {
        char error[128] = "";

        open();
        ASSERT_EQ(0, vqp_fabric()->act("delay to=300ms", error, sizeof(error)))
                << error;
        a->buffer.fill(seed);
        ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, LENGTH));
        ASSERT_EQ(0, a->to(IBV_QPS_ERR));
        ASSERT_EQ(IBV_WC_WR_FLUSH_ERR, a->next().status);
        ASSERT_FALSE(arrived());
    }

    bool arrived() const { return b->buffer.holds(seed, 0, LENGTH); }

    static constexpr unsigned seed = 1;
};

TEST_F(timed_late_packet, a_flushed_write_arrives_as_it_was_posted)
{
    ASSERT_NO_FATAL_FAILURE(flush_one());
    a->buffer.fill(1000); /* it was flushed: the buffer is the caller's */
    EXPECT_TRUE(eventually([&] { return arrived(); }));
}

TEST_F(timed_late_packet, a_late_write_outlives_its_queue_pair)
{
    ASSERT_NO_FATAL_FAILURE(flush_one());
    a->destroy_qp();
    EXPECT_TRUE(eventually([&] { return arrived(); }));
}

TEST_F(timed_late_packet, a_late_write_counts_in_the_expected_psn)
{
    ASSERT_NO_FATAL_FAILURE(flush_one());
    EXPECT_TRUE(eventually([&] { return arrived(); }));
    EXPECT_EQ(a->options.psn + 1, b->query().rq_psn);
}

TEST_F(timed_late_packet, a_peer_in_error_is_not_written_to)
{
    ASSERT_NO_FATAL_FAILURE(flush_one());
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    EXPECT_FALSE(arrived());
    usleep(600000);
    EXPECT_FALSE(arrived());
}

TEST_F(timed_late_packet, a_late_chain_keeps_its_order_and_immediates)
{
    open();
    ASSERT_EQ(0, b->recvs(8));
    for (unsigned i = 0; i < 8; ++i) {
        ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, LENGTH);
        wr.imm_data    = i;
        ASSERT_EQ(0, a->post(wr));
    }
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    for (unsigned i = 0; i < 8; ++i) {
        EXPECT_EQ(i, b->next().imm_data);
    }
}
