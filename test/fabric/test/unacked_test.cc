/*
 * Requests that the responder has executed when a queue pair fails, and the
 * requester's knowledge of them: lost acknowledgements and answers, writes that
 * end between two packets, attempts without an answer. The expected PSN of the
 * responder is exact in each case. In immediate mode and on the layout with
 * delays.
 */
#include "fabric_fixture.h"

#include <unistd.h>

class unacked : public fabric_test {
protected:
    static constexpr size_t LENGTH = 2048; /* two packets */
    static constexpr size_t SLOT   = 4096;

    void SetUp() override
    {
        fabric_test::SetUp();
        open_patient(14); /* 67 ms, three times: a busy machine posts in time */
    }

    void open_patient(uint8_t timeout)
    {
        qp_options patient;

        patient.timeout = timeout;
        open(patient);
        a->buffer.fill(1);
    }

    /* Write slot i of a's buffer to slot i of b's */
    void write(unsigned i, ibv_wr_opcode op = IBV_WR_RDMA_WRITE)
    {
        ibv_send_wr wr = a->wr(op, *b, LENGTH);

        a->sge.addr            += i * SLOT;
        wr.wr.rdma.remote_addr += i * SLOT;
        wr.wr_id                = i;
        wr.imm_data             = i;
        ASSERT_EQ(0, a->post(wr));
    }

    bool landed(unsigned i) const
    {
        return b->buffer.holds(1, i * SLOT, LENGTH);
    }

    uint32_t executed() { return b->query().rq_psn - a->options.psn; }

    /* Completions of the WRs first, first + 1...: the first one with a status,
     * the others flushed */
    void expect_failed(unsigned first, unsigned count,
                       ibv_wc_status status = IBV_WC_RETRY_EXC_ERR)
    {
        for (const ibv_wc &wc : a->drain(count)) {
            EXPECT_EQ(first, wc.wr_id);
            EXPECT_EQ(status, wc.status);
            status = IBV_WC_WR_FLUSH_ERR;
            ++first;
        }
        EXPECT_TRUE(a->quiet());
        EXPECT_EQ(IBV_QPS_ERR, a->state());
    }

    /* Of 6 writes after a good one all reach the peer, as far as @a more lets
     * them, and none is acknowledged */
    void fail_after(unsigned more)
    {
        faults("unacked nth=2 more=" + std::to_string(more));
        write(0);
        EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
        for (unsigned i = 1; i < 7; ++i) {
            write(i);
        }
        expect_failed(1, 6);
        for (unsigned i = 0; i < 7; ++i) {
            EXPECT_EQ(i <= 1 + more, landed(i)) << i;
        }
        EXPECT_EQ(2 * (std::min(more, 5u) + 2), executed());
    }
};

class timed_unacked : public unacked {
};

TEST_F(unacked, none_more_is_executed)     { fail_after(0); }
TEST_F(unacked, one_more_is_executed)      { fail_after(1); }
TEST_F(unacked, some_more_are_executed)    { fail_after(3); }
TEST_F(unacked, all_more_are_executed)     { fail_after(5); }
TEST_F(unacked, more_than_there_are)       { fail_after(50); } /* until the time-out */
TEST_F(timed_unacked, some_more_are_executed)   { fail_after(3); }
TEST_F(timed_unacked, more_than_there_are)      { fail_after(50); }

/* The rest of a chain is flushed, as all that is posted to a QP in ERR */
TEST_F(unacked, in_the_middle_of_a_chain)
{
    ibv_send_wr wr[6], *bad;
    ibv_sge sge[6];

    for (unsigned i = 0; i < 6; ++i) {
        wr[i]                      = a->wr(IBV_WR_RDMA_WRITE, *b, LENGTH);
        sge[i]                     = a->sge;
        sge[i].addr               += i * SLOT;
        wr[i].sg_list              = &sge[i];
        wr[i].wr.rdma.remote_addr += i * SLOT;
        wr[i].wr_id                = i;
        wr[i].send_flags           = (i == 5) ? IBV_SEND_SIGNALED : 0;
        wr[i].next                 = (i == 5) ? nullptr : &wr[i + 1];
    }
    faults("unacked nth=2 more=2");
    ASSERT_EQ(0, ibv_post_send(a->qp, wr, &bad));
    expect_failed(1, 5);
    EXPECT_EQ(8u, executed());
    EXPECT_TRUE(landed(3));
    EXPECT_FALSE(landed(4));
}

TEST_F(unacked, a_queue_pair_that_is_moved_to_error_has_flushes_only)
{
    open_patient(20); /* 4 s */
    faults("unacked more=all");
    for (unsigned i = 0; i < 4; ++i) {
        write(i);
    }
    EXPECT_TRUE(a->quiet());
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    expect_failed(0, 4, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(8u, executed());
    EXPECT_TRUE(landed(3));
}

TEST_F(timed_unacked, a_queue_pair_that_is_moved_to_error_has_flushes_only)
{
    open_patient(20);
    faults("unacked more=all");
    for (unsigned i = 0; i < 4; ++i) {
        write(i);
    }
    ASSERT_TRUE(eventually([&] { return landed(3); }));
    EXPECT_TRUE(a->quiet());
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    expect_failed(0, 4, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(8u, executed());
}

TEST_F(unacked, immediates_of_what_was_executed_arrive)
{
    ASSERT_EQ(0, b->recvs(8));
    faults("unacked more=2");
    for (unsigned i = 0; i < 5; ++i) {
        write(i, IBV_WR_RDMA_WRITE_WITH_IMM);
    }
    expect_failed(0, 5);
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(i, b->next().imm_data);
    }
    EXPECT_TRUE(b->quiet());
    EXPECT_EQ(6u, executed());
}

/* The last one finds no receive: the RNR NAK would be lost */
TEST_F(unacked, without_a_receive_nothing_more_is_executed)
{
    ASSERT_EQ(0, b->recvs(2));
    faults("unacked more=5");
    for (unsigned i = 0; i < 4; ++i) {
        write(i, IBV_WR_RDMA_WRITE_WITH_IMM);
    }
    expect_failed(0, 4);
    EXPECT_EQ(4u, executed());
}

TEST_F(unacked, answers_of_reads_and_atomics_are_lost_too)
{
    uint64_t *counter = (uint64_t*)b->buffer.data;

    a->buffer.fill(9);
    *counter = 5;
    faults("unacked more=2");
    ibv_send_wr add           = a->wr(IBV_WR_ATOMIC_FETCH_AND_ADD, *b, 8);
    add.wr.atomic.compare_add = 3;
    add.wr_id                 = 0;
    ASSERT_EQ(0, a->post(add));
    add.wr_id = 1;
    ASSERT_EQ(0, a->post(add));
    write(2, IBV_WR_RDMA_READ);
    expect_failed(0, 3);
    EXPECT_EQ(11u, *counter);
    EXPECT_TRUE(a->buffer.holds(9, 0, a->buffer.size));
    EXPECT_EQ(4u, executed());
}

TEST_F(unacked, the_answer_of_one_read_is_lost)
{
    a->buffer.fill(9);
    faults("unacked");
    write(0, IBV_WR_RDMA_READ);
    expect_failed(0, 1);
    EXPECT_TRUE(a->buffer.holds(9, 0, LENGTH));
    EXPECT_EQ(2u, executed());
}

/* Hardware does not send them before the answer has arrived */
TEST_F(unacked, what_waits_for_a_lost_answer_is_not_executed)
{
    faults("unacked more=5");
    write(0, IBV_WR_RDMA_READ);
    write(1); /* does not wait */
    ibv_send_wr fenced = a->wr(IBV_WR_RDMA_WRITE, *b, LENGTH);
    a->sge.addr                += 2 * SLOT;
    fenced.wr.rdma.remote_addr += 2 * SLOT;
    fenced.wr_id                = 2;
    fenced.send_flags          |= IBV_SEND_FENCE;
    ASSERT_EQ(0, a->post(fenced));
    write(3);
    expect_failed(0, 4);
    EXPECT_TRUE(landed(1));
    EXPECT_FALSE(landed(2));
    EXPECT_FALSE(landed(3));
    EXPECT_EQ(4u, executed());
}

TEST_F(unacked, reads_beyond_their_depth_are_not_executed)
{
    faults("unacked more=all");
    for (unsigned i = 0; i < 6; ++i) {
        write(i, IBV_WR_RDMA_READ);
    }
    expect_failed(0, 6);
    EXPECT_EQ(2 * a->options.max_rd_atomic, executed());
}

/* ... and what has waited in the queue since then goes the same way */
TEST_F(unacked, behind_one_that_waited)
{
    faults("rnr nth=1; unacked nth=1 more=2");
    ASSERT_EQ(0, b->recvs(8));
    for (unsigned i = 0; i < 5; ++i) {
        write(i, IBV_WR_RDMA_WRITE_WITH_IMM);
    }
    expect_failed(0, 5);
    EXPECT_EQ(6u, executed());
}

TEST_F(unacked, the_queue_pair_works_again_after_a_reset)
{
    faults("unacked more=1");
    write(0);
    write(1);
    expect_failed(0, 2);
    for (endpoint *each : {a.get(), b.get()}) {
        ASSERT_EQ(0, each->to(IBV_QPS_RESET));
    }
    a->connect(*b);
    b->connect(*a);
    write(2);
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(2u, executed());
}

/* ---- a part of a write ---- */

class partial_write : public unacked {
protected:
    void part(ibv_wr_opcode op, unsigned packets, unsigned expected)
    {
        ibv_send_wr wr = a->wr(op, *b, 5000); /* five packets */
        ibv_sge sge[3] = {a->buffer.sge(0, 500), a->buffer.sge(500, 2000),
                          a->buffer.sge(2500, 2500)};

        wr.sg_list = sge;
        wr.num_sge = 3;
        faults("wr part=" + std::to_string(packets));
        ASSERT_EQ(0, b->recvs(1));
        ASSERT_EQ(0, a->post(wr));
        EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
        EXPECT_EQ(expected, executed());
        EXPECT_TRUE(b->buffer.holds(1, 0, expected * 1024));
        for (size_t i = expected * 1024; i < 5120; ++i) {
            ASSERT_EQ(0, b->buffer.data[i]) << i;
        }
        EXPECT_TRUE(b->quiet());
    }
};

TEST_F(partial_write, of_a_write)            { part(IBV_WR_RDMA_WRITE, 3, 3); }
TEST_F(partial_write, of_one_packet)         { part(IBV_WR_RDMA_WRITE, 1, 1); }
TEST_F(partial_write, never_the_last_packet) { part(IBV_WR_RDMA_WRITE, 9, 4); }

TEST_F(partial_write, has_no_immediate)
{
    part(IBV_WR_RDMA_WRITE_WITH_IMM, 4, 4);
}

TEST_F(partial_write, of_what_has_one_packet_is_nothing)
{
    faults("wr part=1");
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 1024));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
    EXPECT_EQ(0u, executed());
}

/* ---- attempts without an answer ---- */

TEST_F(unacked, a_lost_attempt_is_retried)
{
    faults("lose nth=2 count=2");
    for (unsigned i = 0; i < 3; ++i) {
        write(i);
    }
    for (unsigned i = 0; i < 3; ++i) {
        ibv_wc wc = a->next();
        EXPECT_EQ(i, wc.wr_id);
        EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
    }
    EXPECT_EQ(2u, fabric().fault_hits());
    EXPECT_EQ(6u, executed());
}

TEST_F(timed_unacked, a_lost_attempt_is_retried)
{
    faults("lose nth=2 count=2");
    for (unsigned i = 0; i < 3; ++i) {
        write(i);
    }
    for (const ibv_wc &wc : a->drain(3)) {
        EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
    }
    EXPECT_EQ(6u, executed());
}

TEST_F(unacked, no_answer_until_the_retries_end)
{
    faults("lose nth=2 count=all");
    for (unsigned i = 0; i < 4; ++i) {
        write(i);
    }
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    expect_failed(1, 3);
    EXPECT_EQ(2u, executed());
    EXPECT_EQ(4u, fabric().fault_hits()); /* one, and three retries */
}

/* ---- a port that goes down behind them ---- */

TEST_F(timed_unacked, a_port_that_goes_down_takes_the_acknowledgements)
{
    std::string name = dev->name();
    ibv_wc wc;

    /* The delay of the acknowledgements is the time to take the port down in */
    open();
    ASSERT_EQ(0, fabric().act("delay path=0/1 to=30ms", nullptr, 0));
    a->buffer.fill(1);
    for (unsigned i = 0; i < 4; ++i) {
        write(i);
    }
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(0, a->poll(&wc)); /* virtual time goes on by it */
        return landed(1);
    }));
    ASSERT_EQ(0, fabric().port(name.c_str(), 1, 0));
    auto all      = a->drain(4);
    uint32_t done = executed();
    ASSERT_EQ(0, fabric().port(name.c_str(), 1, 1));
    ASSERT_EQ(4u, all.size());
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, all[0].status);
    EXPECT_EQ(0u, done % 2);
    EXPECT_GE(done, 4u);
    EXPECT_LE(done, 8u);
    for (unsigned i = 1; i < 4; ++i) {
        EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, all[i].status);
        EXPECT_EQ(i < done / 2, landed(i));
    }
}

TEST_F(timed_unacked, acknowledgements_come_again_when_the_port_is_back)
{
    std::string name = dev->name();
    qp_options patient;

    patient.timeout = 12; /* 17 ms */
    patient.retry   = 6;
    open(patient);
    a->buffer.fill(1);
    write(0);
    ASSERT_EQ(0, fabric().port(name.c_str(), 1, 0));
    EXPECT_TRUE(a->quiet());
    ASSERT_EQ(0, fabric().port(name.c_str(), 1, 1));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(2u, executed());
    EXPECT_TRUE(landed(0));
}

/* ---- a chain that is refused half way ---- */

class refused_chain : public fabric_test {
protected:
    /* Post chains of so many writes. @return how many were accepted. */
    unsigned post(unsigned count)
    {
        std::vector<ibv_send_wr> wrs(count);
        ibv_send_wr *bad = nullptr;
        ibv_sge sge;

        for (unsigned i = 0; i < count; ++i) {
            wrs[i]                      = a->wr(IBV_WR_RDMA_WRITE, *b, 8);
            sge                         = a->sge;
            wrs[i].sg_list              = &sge;
            wrs[i].wr.rdma.remote_addr += 8 * i;
            wrs[i].wr_id                = i;
            wrs[i].next = (i == count - 1) ? nullptr : &wrs[i + 1];
        }

        error = ibv_post_send(a->qp, wrs.data(), &bad);
        return (error == 0) ? count : (unsigned)(bad - wrs.data());
    }

    int error = 0;
};

TEST_F(refused_chain, is_accepted_up_to_the_one_that_is_refused)
{
    for (unsigned after = 0; after < 5; ++after) {
        open();
        memset(a->buffer.data, 7, 8);
        faults("chain errno=EINVAL after=" + std::to_string(after));
        EXPECT_EQ(after, post(5));
        EXPECT_EQ(EINVAL, error);
        for (unsigned i = 0; i < after; ++i) {
            ibv_wc wc = a->next();
            EXPECT_EQ(i, wc.wr_id);
            EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
        }
        EXPECT_TRUE(a->quiet());
        for (unsigned i = 0; i < 5; ++i) {
            EXPECT_EQ((i < after) ? 7 : 0, b->buffer.data[8 * i]);
        }
        EXPECT_EQ(after, b->query().rq_psn - a->options.psn);

        /* what was refused has left no trace */
        EXPECT_EQ(5u, post(5));
        EXPECT_EQ(5u, a->drain(5).size());
    }
}

TEST_F(refused_chain, shorter_ones_do_not_count)
{
    open();
    faults("chain after=2 nth=2");
    EXPECT_EQ(2u, post(2));
    EXPECT_EQ(3u, post(3)); /* the first */
    EXPECT_EQ(1u, post(1));
    EXPECT_EQ(2u, post(4)); /* the second */
    EXPECT_EQ(ENOMEM, error);
    EXPECT_EQ(3u, post(3));
    EXPECT_EQ(1u, fabric().fault_hits());
    EXPECT_EQ(11u, a->drain(11).size());
}

TEST_F(refused_chain, of_one_queue_pair)
{
    open();
    faults("chain qpn=" + std::to_string(b->qp->qp_num));
    EXPECT_EQ(2u, post(2));
    EXPECT_EQ(2u, a->drain(2).size());
    EXPECT_EQ(ENOMEM, b->post(IBV_WR_RDMA_WRITE, *a));
}

/* ---- a READ and what is posted behind it ---- */

class timed_read : public unacked {
protected:
    /* Read a megabyte, then write the first words of it. @return whether the
     * READ has brought what was written. */
    bool overtaken(unsigned flags)
    {
        ibv_send_wr write;

        b->buffer.fill(5);
        EXPECT_EQ(0, a->post(IBV_WR_RDMA_READ, *b, a->buffer.size / 2));
        memset(a->buffer.data + a->buffer.size / 2, 1, 64);
        write              = a->wr(IBV_WR_RDMA_WRITE, *b);
        a->sge.addr       += a->buffer.size / 2;
        write.send_flags  |= flags;
        EXPECT_EQ(0, a->post(write));
        for (const ibv_wc &wc : a->drain(2)) {
            EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
        }
        EXPECT_TRUE(a->buffer.holds(5, 64, a->buffer.size / 2 - 64));
        EXPECT_EQ(1, b->buffer.data[0]);
        return a->buffer.data[0] == 1;
    }
};

TEST_F(timed_read, is_overtaken_by_a_write_without_the_fence_flag)
{
    EXPECT_TRUE(eventually([&] { return overtaken(0); }));
}

TEST_F(timed_read, is_not_overtaken_by_a_fenced_write)
{
    for (unsigned i = 0; i < 20; ++i) {
        EXPECT_FALSE(overtaken(IBV_SEND_FENCE));
    }
}
