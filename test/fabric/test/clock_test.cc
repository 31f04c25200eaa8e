/*
 * The virtual clock: time is what polls and posts make of it, so timed runs
 * give the same figures on a machine that is busy with something else.
 */
#include "fabric_fixture.h"

#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

class virtual_clock : public fabric_test {
protected:
    static uint64_t ns()
    {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000000ul + (uint64_t)ts.tv_nsec;
    }

    /* Of this thread */
    static uint64_t cpu_ns()
    {
        struct timespec ts;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        return (uint64_t)ts.tv_sec * 1000000000ul + (uint64_t)ts.tv_nsec;
    }
};

TEST_F(virtual_clock, stands_still_while_nobody_polls)
{
    uint64_t begin = ns();

    usleep(2000);
    EXPECT_EQ(begin, ns());
}

TEST_F(virtual_clock, a_poll_takes_a_step)
{
    ibv_wc wc;

    open();
    uint64_t begin = ns();
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(0, a->poll(&wc));
    }
    EXPECT_EQ(begin + 1000 * 100, ns());
}

/* A thread that wakes has 5 ms of work. Without CPU it has it for longer */
TEST_F(virtual_clock, other_threads_run_before_a_millisecond_is_over)
{
    std::atomic<bool> is_done {false};
    sem_t begin;
    ibv_wc wc;

    open();
    ASSERT_EQ(0, sem_init(&begin, 0, 0));
    std::thread thread([&] {
        sem_wait(&begin);
        while (cpu_ns() < 5000000) {
        }
        is_done = true;
    });
    uint64_t before = ns();
    sem_post(&begin);
    while ((ns() < before + 1000000) && !HasFailure()) {
        EXPECT_EQ(0, a->poll(&wc));
    }
    EXPECT_TRUE(is_done);
    thread.join();
    sem_destroy(&begin);
}

TEST_F(virtual_clock, a_megabyte_takes_what_rate_and_delay_say)
{
    ibv_wc wc;

    open();
    uint64_t begin = ns();
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 1000000));
    while (a->poll(&wc) == 0) {
    }
    EXPECT_EQ(IBV_WC_SUCCESS, wc.status);

    /* 1 Gb/s, 10 us to the peer and back, a step for the post, some to see it */
    EXPECT_NEAR(8000000 + 2 * 10000, (double)(ns() - begin), 500);
}

TEST_F(virtual_clock, who_sleeps_is_woken)
{
    qp_options options;
    void *context;
    ibv_cq *cq;

    options.channel = true;
    open(options);
    ASSERT_EQ(0, ibv_req_notify_cq(a->cq, 0));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 1000));
    ASSERT_EQ(0, ibv_get_cq_event(a->channel, &cq, &context));
    ibv_ack_cq_events(cq, 1);
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
}
