/*
 * Completion queues: polling, size, events.
 */
#include "fabric_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <thread>
#include <unistd.h>

static bool readable(int fd, int milliseconds)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, milliseconds) == 1;
}

class cq_poll : public fabric_test {
};

TEST_F(cq_poll, takes_as_many_as_it_is_asked_for)
{
    ibv_wc wc[8];

    open();
    for (unsigned i = 0; i < 5; ++i) {
        ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);
        wr.wr_id       = i;
        ASSERT_EQ(0, a->post(wr));
    }
    ASSERT_EQ(2, ibv_poll_cq(a->cq, 2, wc));
    EXPECT_EQ(0u, wc[0].wr_id);
    EXPECT_EQ(1u, wc[1].wr_id);
    ASSERT_EQ(3, ibv_poll_cq(a->cq, 8, wc));
    EXPECT_EQ(2u, wc[0].wr_id);
    EXPECT_EQ(0, ibv_poll_cq(a->cq, 8, wc));
}

TEST_F(cq_poll, has_at_least_the_size_asked_for)
{
    ibv_cq *cq = ibv_create_cq(dev->context, 100, nullptr, nullptr, 0);

    ASSERT_NE(nullptr, cq);
    EXPECT_GE(cq->cqe, 100);
    EXPECT_EQ(0, ibv_destroy_cq(cq));
    EXPECT_EQ(nullptr, ibv_create_cq(dev->context, 1 << 30, nullptr, nullptr,
                                     0));
    EXPECT_EQ(nullptr, ibv_create_cq(dev->context, 0, nullptr, nullptr, 0));
}

TEST_F(cq_poll, grows_and_shrinks_with_completions_inside)
{
    ibv_wc wc;

    open();
    for (unsigned i = 0; i < 10; ++i) {
        ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);
        wr.wr_id       = i;
        ASSERT_EQ(0, a->post(wr));
        if (i == 4) {
            ASSERT_EQ(1, a->poll(&wc));
            ASSERT_EQ(0, ibv_resize_cq(a->cq, 1000));
            EXPECT_GE(a->cq->cqe, 1000);
        }
    }
    ASSERT_EQ(0, ibv_resize_cq(a->cq, 12));
    EXPECT_EQ(EINVAL, ibv_resize_cq(a->cq, 3)); /* nine are inside */
    for (unsigned i = 1; i < 10; ++i) {
        EXPECT_EQ(i, a->next().wr_id);
    }
    EXPECT_TRUE(a->quiet());
}

TEST_F(cq_poll, does_not_grow_beyond_the_device)
{
    open();
    EXPECT_EQ(EINVAL, ibv_resize_cq(a->cq, 1 << 30));
}

TEST_F(cq_poll, an_overrun_is_a_fatal_event)
{
    ibv_async_event event;
    qp_options small;

    small.cqe = 4;
    open(small);
    int slots = a->cq->cqe;
    for (int i = 0; i < slots + 1; ++i) {
        ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    }
    ASSERT_EQ(0, ibv_get_async_event(dev->context, &event));
    EXPECT_EQ(IBV_EVENT_CQ_ERR, event.event_type);
    EXPECT_EQ(a->cq, event.element.cq);
    ibv_ack_async_event(&event);
    EXPECT_GT(fabric().violations("cq_overrun"), 0u);
    EXPECT_GT(fabric().violations("cq_slots"), 0u);
    fabric().violations_reset();
}

class cq_event : public fabric_test {
protected:
    void SetUp() override
    {
        qp_options options;

        fabric_test::SetUp();
        options.channel = true;
        open(options);
    }

    void arm(bool solicited = false)
    {
        ASSERT_EQ(0, ibv_req_notify_cq(b->cq, solicited));
    }

    /* An immediate, or an immediate with the solicited bit */
    void notify(bool solicited = false)
    {
        ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 0);

        wr.send_flags |= solicited ? IBV_SEND_SOLICITED : 0;
        ASSERT_EQ(0, b->recv());
        ASSERT_EQ(0, a->post(wr));
        EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    }

    /* Longer than an event takes on a busy machine */
    static constexpr int long_enough = 120000;

    bool raised(int milliseconds = 20)
    {
        return readable(b->channel->fd, milliseconds);
    }

    void take()
    {
        void *context;
        ibv_cq *cq;

        ASSERT_EQ(0, ibv_get_cq_event(b->channel, &cq, &context));
        EXPECT_EQ(b->cq, cq);
        EXPECT_EQ(b.get(), context);
        ibv_ack_cq_events(cq, 1);
    }
};

TEST_F(cq_event, is_raised_once_for_each_arming)
{
    arm();
    EXPECT_FALSE(raised());
    notify();
    EXPECT_TRUE(raised(long_enough));
    take();
    EXPECT_FALSE(raised());
    notify();
    EXPECT_FALSE(raised());
    arm();
    notify();
    EXPECT_TRUE(raised(long_enough));
    take();
}

TEST_F(cq_event, is_not_raised_without_arming)
{
    notify();
    EXPECT_FALSE(raised());
}

TEST_F(cq_event, is_not_raised_for_what_is_there_already)
{
    notify();
    arm();
    EXPECT_FALSE(raised());
    notify();
    EXPECT_TRUE(raised(long_enough));
    take();
}

/* As a ConnectX, where a queue is armed for what comes after the last poll */
class arm_event : public cq_event {
};

TEST_F(arm_event, is_raised_for_what_is_there_already)
{
    notify();
    arm(true);
    EXPECT_FALSE(raised());
    arm();
    EXPECT_TRUE(raised(long_enough));
    take();
    EXPECT_FALSE(raised()); /* once */
    b->next();
    arm();
    EXPECT_FALSE(raised()); /* nothing is there */
    notify(true);
    EXPECT_TRUE(raised(long_enough));
    take();
    arm(true);
    EXPECT_TRUE(raised(long_enough));
    take();
}

TEST_F(cq_event, solicited_only)
{
    arm(true);
    notify();
    EXPECT_FALSE(raised());
    notify(true);
    EXPECT_TRUE(raised(long_enough));
    take();
}

TEST_F(cq_event, an_error_is_solicited)
{
    arm(true);
    ASSERT_EQ(0, b->recv());
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    EXPECT_TRUE(raised(long_enough));
    take();
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, b->next().status);
}

TEST_F(cq_event, a_nonblocking_channel_returns_eagain)
{
    void *context;
    ibv_cq *cq;
    int fd = b->channel->fd;

    ASSERT_EQ(0, fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
    EXPECT_EQ(-1, ibv_get_cq_event(b->channel, &cq, &context));
    EXPECT_EQ(EAGAIN, errno);
    arm();
    notify();
    ASSERT_TRUE(raised(long_enough));
    take();
    EXPECT_EQ(-1, ibv_get_cq_event(b->channel, &cq, &context));
}

TEST_F(cq_event, wakes_a_thread_that_waits)
{
    arm();
    std::thread waiter([this] { take(); });
    usleep(10000);
    notify();
    waiter.join();
}

TEST_F(cq_event, none_is_lost_between_arming_and_sleeping)
{
    const unsigned rounds = 2000;
    unsigned got          = 0;
    std::thread sender([this] {
        for (unsigned i = 0; i < rounds; ++i) {
            ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 0);
            EXPECT_EQ(0, a->post(wr));
            EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
        }
    });

    ASSERT_EQ(0, b->recvs(16));
    while (got < rounds) {
        ibv_wc wc;

        arm();
        bool some = false;
        while (b->poll(&wc) == 1) {
            some = true;
            ++got;
            EXPECT_EQ(0, b->recv());
        }
        if (!some && (got < rounds)) {
            if (!raised(long_enough)) {
                ADD_FAILURE() << "asleep for ever after " << got;
                break;
            }
            take();
        } else if (raised(0)) {
            take();
        }
    }
    sender.join();
    while (raised(10)) {
        take();
    }
}

/* ---- the order in which objects go ---- */

class destroy_order : public fabric_test {
};

TEST_F(destroy_order, what_is_in_use_stays)
{
    open();
    EXPECT_EQ(EBUSY, ibv_destroy_cq(a->cq));
    EXPECT_EQ(EBUSY, ibv_dealloc_pd(dev->pd));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
}

TEST_F(destroy_order, a_channel_outlives_its_queues)
{
    qp_options options;

    options.channel = true;
    open(options);
    EXPECT_EQ(EBUSY, ibv_destroy_comp_channel(a->channel));
}

TEST_F(destroy_order, completions_stay_when_their_queue_pair_goes)
{
    qp_options shared;
    ibv_wc wc;

    open();
    shared.cq = b->cq;
    {
        endpoint c(*dev, shared), d(*dev, shared);
        c.connect(d);
        d.connect(c);
        ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE, d));
        EXPECT_EQ(0, ibv_destroy_qp(c.qp));
        c.qp = nullptr;
    }
    EXPECT_GE(ibv_poll_cq(b->cq, 1, &wc), 0);
    fabric().violations_reset(); /* qp_left, if one was there */
}
