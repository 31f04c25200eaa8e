/*
 * Violations of the caller: each rule broken once, and what is allowed close to
 * it. The rules about keys, CQ overruns, and the depth of the send queue are in
 * the tests of what they belong to.
 */
#include "fabric_fixture.h"

#include <sys/mman.h>
#include <unistd.h>

class violations : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        open();
        a->buffer.fill(1);
    }

    void expect_none()
    {
        char text[400];

        fabric().violation_text(text, sizeof(text));
        EXPECT_EQ(0u, fabric().violations(nullptr)) << text;
    }
};

TEST_F(violations, a_correct_program_violates_nothing)
{
    for (unsigned round = 0; round < 10; ++round) {
        ASSERT_EQ(0, b->recvs(8));
        for (unsigned i = 0; i < 8; ++i) {
            ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 100000));
        }
        EXPECT_EQ(8u, a->drain(8).size());
        EXPECT_EQ(8u, b->drain(8).size());
        a->buffer.fill(round);
    }
    expect_none();
}

TEST_F(violations, more_receives_than_the_queue_holds)
{
    uint32_t depth = b->cap.max_recv_wr;

    ASSERT_EQ(0, b->recvs(depth));
    expect_none();
    EXPECT_EQ(ENOMEM, b->recv());
    expect_violations("rq_depth");
}

TEST_F(violations, a_source_is_changed_before_its_completion)
{
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 300));
    a->buffer.data[299] ^= 1;
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    expect_violations("changed");
}

TEST_F(violations, the_source_of_an_unsignaled_send_waits_for_a_later_one)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 16);

    wr.send_flags = 0;
    ASSERT_EQ(0, a->post(wr));
    a->buffer.data[3] ^= 1;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    ASSERT_EQ(0, a->post(wr));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    expect_violations("changed");
}

TEST_F(violations, a_source_may_change_after_its_completion)
{
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 300));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    a->buffer.data[299] ^= 1;
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 300));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    expect_none();
}

TEST_F(violations, a_source_may_change_when_the_queue_pair_is_in_error)
{
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 300));
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    a->buffer.data[299] ^= 1;
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    expect_none();
}

TEST_F(violations, inline_data_and_the_target_of_a_read_may_change)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 16);

    wr.send_flags |= IBV_SEND_INLINE;
    ASSERT_EQ(0, a->post(wr));
    a->buffer.data[3] ^= 1;
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_READ, *b, 16));
    EXPECT_EQ(2u, a->drain(2).size());
    expect_none();
}

TEST_F(violations, a_source_is_unmapped_before_its_completion)
{
    memory region(*dev, 8192);

    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 16);
    a->sge         = region.sge(4096, 16);
    ASSERT_EQ(0, a->post(wr));
    ASSERT_EQ(0, munmap(region.data + 4096, 4096));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    expect_violations("unmapped");
}

TEST_F(violations, memory_of_a_send_is_deregistered)
{
    memory region(*dev, 4096);

    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 16);
    a->sge         = region.sge(0, 16);
    ASSERT_EQ(0, a->post(wr));
    region.deregister();
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    expect_violations("dereg");
}

TEST_F(violations, memory_of_a_receive_is_deregistered)
{
    memory region(*dev, 4096);
    ibv_sge sge    = region.sge(0, 100);
    ibv_recv_wr wr = {}, *bad;

    wr.sg_list = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(0, ibv_post_recv(b->qp, &wr, &bad));
    region.deregister();
    expect_violations("dereg");
}

TEST_F(violations, memory_of_a_queue_pair_in_error_may_go)
{
    memory region(*dev, 8192);

    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 16);
    a->sge         = region.sge(4096, 16);
    ASSERT_EQ(0, a->post(wr));
    region.deregister();
    ASSERT_EQ(0, munmap(region.data + 4096, 4096));
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, a->next().status);
    expect_none();
}

TEST_F(violations, memory_of_completed_requests_may_go)
{
    memory region(*dev, 4096);

    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 16);
    a->sge         = region.sge(0, 16);
    ASSERT_EQ(0, a->post(wr));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    region.deregister();
    expect_none();
}

TEST_F(violations, a_queue_pair_leaves_a_send_in_a_cq_that_is_used)
{
    qp_options shared;

    shared.cq = a->cq;
    endpoint c(*dev, shared);
    c.connect(c);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 16));
    EXPECT_EQ(0, ibv_destroy_qp(a->qp));
    a->qp = nullptr;
    expect_none();
    ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE, c, 16));
    EXPECT_EQ(IBV_WC_SUCCESS, c.next().status);
    expect_violations("qp_left");
}

TEST_F(violations, a_queue_pair_leaves_a_receive_in_a_cq_that_is_used)
{
    qp_options shared;

    shared.cq = b->cq;
    endpoint c(*dev, shared);
    c.connect(c);
    ASSERT_EQ(0, b->recv());
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 16));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(0, ibv_destroy_qp(b->qp));
    b->qp = nullptr;
    expect_none();
    ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE, c, 16));
    EXPECT_EQ(IBV_WC_SUCCESS, c.next().status);
    expect_violations("qp_left");
}

TEST_F(violations, a_queue_pair_leaves_a_receive_in_a_cq_that_goes_too)
{
    ASSERT_EQ(0, b->recv());
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 16));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(0, ibv_destroy_qp(b->qp));
    b->qp = nullptr;
    b.reset();
    expect_none();
}

TEST_F(violations, receives_that_wait_are_dropped_with_their_queue_pair)
{
    ASSERT_EQ(0, b->recvs(2));
    EXPECT_EQ(0, ibv_destroy_qp(b->qp));
    b->qp = nullptr;
    expect_none();
}

TEST_F(violations, a_queue_pair_may_go_when_all_came_back)
{
    ASSERT_EQ(0, b->recvs(2));
    ASSERT_EQ(0, b->post(IBV_WR_RDMA_WRITE, *a, 16));
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    EXPECT_EQ(3u, b->drain(3).size());
    EXPECT_EQ(0, ibv_destroy_qp(b->qp));
    b->qp = nullptr;
    expect_none();
}

TEST_F(violations, more_requests_than_the_cq_has_slots)
{
    qp_options small;

    small.cqe = 8;
    open(small);
    uint32_t slots = (uint32_t)b->cq->cqe;
    ASSERT_LT(slots, b->cap.max_recv_wr);
    ASSERT_EQ(0, b->recvs(slots));
    expect_none();
    ASSERT_EQ(0, b->recv());
    expect_violations("cq_slots");
    ASSERT_EQ(0, ibv_resize_cq(b->cq, 100));
    ASSERT_EQ(0, b->recv());
    expect_none();
}

TEST_F(violations, events_are_acknowledged_before_the_cq_goes)
{
    ibv_comp_channel *channel = ibv_create_comp_channel(dev->context);
    ibv_cq *cq = ibv_create_cq(dev->context, 10, nullptr, channel, 0);
    qp_options options;
    void *context;
    ibv_cq *raised;

    options.cq = cq;
    {
        endpoint c(*dev, options);
        c.connect(c);
        ASSERT_EQ(0, ibv_req_notify_cq(cq, 0));
        ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE, c, 0));
        EXPECT_EQ(IBV_WC_SUCCESS, c.next().status);
        ASSERT_EQ(0, ibv_get_cq_event(channel, &raised, &context));
    }
    expect_none();
    EXPECT_EQ(0, ibv_destroy_cq(cq));
    expect_violations("events");
    EXPECT_EQ(0, ibv_destroy_comp_channel(channel));
}

TEST_F(violations, a_post_that_failed_is_not_counted)
{
    faults("call verb=post_send errno=ENOMEM; call verb=post_recv");
    EXPECT_EQ(ENOMEM, a->post(IBV_WR_RDMA_WRITE, *b, 16));
    EXPECT_EQ(ENOMEM, a->recv());
    EXPECT_EQ(0, ibv_destroy_qp(a->qp));
    a->qp = nullptr;
    expect_none();
}

TEST_F(violations, are_off_when_switched_off)
{
    ASSERT_EQ(0, fabric().set_violations("off"));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 300));
    a->buffer.data[299] ^= 1;
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(EINVAL, fabric().set_violations("nonsense"));
    ASSERT_EQ(0, fabric().set_violations("warn"));
    expect_none();
}

/* ---- what a violation does to the process ---- */

static int one_violation(const char *level)
{
    device dev;
    endpoint c(dev);

    fabric().set_violations(level);
    c.connect(c);
    c.post(IBV_WR_RDMA_WRITE, c, 16);
    c.buffer.data[3] ^= 1;
    c.next();
    return 0;
}

VQP_ROLE(warned) { return one_violation("warn"); }
VQP_ROLE(failed) { return one_violation("fail"); }
VQP_ROLE(aborted) { return one_violation("abort"); }

TEST(violations_level, decides_how_the_process_ends)
{
    EXPECT_EQ(0, process("warned").wait());
    EXPECT_EQ(86, process("failed").wait());
    EXPECT_EQ(-1, process("aborted").wait());
}
