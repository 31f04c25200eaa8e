/*
 * What was on its way when its queue pair failed: it arrives all the same,
 * unless the peer has stopped listening. On the layout with delays.
 */
#include "fabric_fixture.h"

#include <unistd.h>

class timed_ghost : public fabric_test {
protected:
    static constexpr size_t LENGTH = 64;

    /* A write is flushed before it has arrived; a busy machine may need a few
     * attempts to be that quick */
    bool flush_one()
    {
        for (int attempt = 0; attempt < 100; ++attempt) {
            b.reset();
            a.reset();
            open();
            a->buffer.fill(attempt + 1);
            seed = attempt + 1;
            EXPECT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, LENGTH));
            EXPECT_EQ(0, a->to(IBV_QPS_ERR));
            if ((a->next().status == IBV_WC_WR_FLUSH_ERR) && !arrived()) {
                return true;
            }
        }

        return false;
    }

    bool arrived() const { return b->buffer.holds(seed, 0, LENGTH); }

    unsigned seed = 0;
};

TEST_F(timed_ghost, a_flushed_write_arrives_as_it_was_posted)
{
    ASSERT_TRUE(flush_one());
    a->buffer.fill(1000); /* it was flushed: the buffer is the caller's */
    EXPECT_TRUE(eventually([&] { return arrived(); }));
}

TEST_F(timed_ghost, it_outlives_its_queue_pair)
{
    ASSERT_TRUE(flush_one());
    a->destroy_qp();
    EXPECT_TRUE(eventually([&] { return arrived(); }));
}

TEST_F(timed_ghost, it_counts_in_the_expected_psn)
{
    ASSERT_TRUE(flush_one());
    EXPECT_TRUE(eventually([&] { return arrived(); }));
    EXPECT_EQ(a->options.psn + 1, b->query().rq_psn);
}

TEST_F(timed_ghost, a_peer_in_error_is_not_written_to)
{
    for (int attempt = 0; attempt < 100; ++attempt) {
        ASSERT_TRUE(flush_one());
        ASSERT_EQ(0, b->to(IBV_QPS_ERR));
        if (!arrived()) {
            usleep(10000);
            EXPECT_FALSE(arrived());
            return;
        }
    }
    FAIL() << "the machine is too slow for this test";
}

TEST_F(timed_ghost, a_chain_of_them_keeps_its_order_and_immediates)
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
