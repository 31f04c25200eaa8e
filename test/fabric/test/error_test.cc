/*
 * What goes wrong, which completion it has, and what becomes of both sides.
 */
#include "fabric_fixture.h"

class rc_error : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        open();
    }

    /* Post it; it fails with this status, and the sender is in ERR */
    void expect_failed(ibv_send_wr wr, ibv_wc_status status)
    {
        ibv_wc wc;

        wr.wr_id = 321;
        ASSERT_EQ(0, a->post(wr));
        wc = a->next();
        EXPECT_EQ(status, wc.status) << ibv_wc_status_str(wc.status);
        EXPECT_EQ(321u, wc.wr_id);
        EXPECT_EQ(a->qp->qp_num, wc.qp_num);
        EXPECT_EQ(IBV_QPS_ERR, a->state());
    }

    void expect_peer(ibv_qp_state state) { EXPECT_EQ(state, b->state()); }
};

TEST_F(rc_error, a_wrong_rkey_breaks_both_sides)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);

    wr.wr.rdma.rkey ^= 0x55500;
    expect_failed(wr, IBV_WC_REM_ACCESS_ERR);
    expect_peer(IBV_QPS_ERR);
    expect_violations("remote_key");
}

TEST_F(rc_error, nothing_is_written_past_the_end_of_a_region)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 64);

    b->buffer.fill(3);
    wr.wr.rdma.remote_addr = b->buffer.addr(b->buffer.size - 63);
    expect_failed(wr, IBV_WC_REM_ACCESS_ERR);
    EXPECT_TRUE(b->buffer.holds(3, 0, b->buffer.size));
    expect_violations("remote_key");
}

TEST_F(rc_error, nothing_is_written_before_the_start_of_a_region)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_READ, *b, 64);

    wr.wr.rdma.remote_addr -= 1;
    expect_failed(wr, IBV_WC_REM_ACCESS_ERR);
    expect_violations("remote_key");
}

TEST_F(rc_error, an_address_that_wraps_around_is_out_of_bounds)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 64);

    wr.wr.rdma.remote_addr = UINT64_MAX - 10;
    expect_failed(wr, IBV_WC_REM_ACCESS_ERR);
    expect_violations("remote_key");
}

TEST_F(rc_error, a_region_grants_what_it_was_registered_for)
{
    static const struct {
        ibv_wr_opcode op;
        unsigned      access;
    } needs[] = {
        {IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
        {IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
        {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC},
    };

    for (const auto &need : needs) {
        memory region(*dev, 4096, memory::all & ~need.access);
        open();
        ibv_send_wr wr = a->wr(need.op, *b, 8);
        if (need.op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            wr.wr.atomic.remote_addr = region.addr();
            wr.wr.atomic.rkey        = region.mr->rkey;
        } else {
            wr.wr.rdma.remote_addr = region.addr();
            wr.wr.rdma.rkey        = region.mr->rkey;
        }
        expect_failed(wr, IBV_WC_REM_ACCESS_ERR);
        expect_violations("remote_key");
    }
}

TEST_F(rc_error, a_queue_pair_grants_what_it_was_created_for)
{
    qp_options open_options, closed;

    closed.access = IBV_ACCESS_REMOTE_READ;
    open(open_options, closed);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_READ, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_NE(IBV_WC_SUCCESS, a->next().status);
    fabric().violations_reset();
}

TEST_F(rc_error, a_region_of_another_domain_is_not_there)
{
    device other;
    memory region(other, 4096);
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 8);

    wr.wr.rdma.remote_addr = region.addr();
    wr.wr.rdma.rkey        = region.mr->rkey;
    expect_failed(wr, IBV_WC_REM_ACCESS_ERR);
    expect_violations("remote_key");
}

TEST_F(rc_error, a_region_that_was_deregistered_is_gone)
{
    memory region(*dev, 4096);
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 8);

    wr.wr.rdma.remote_addr = region.addr();
    wr.wr.rdma.rkey        = region.mr->rkey;
    region.deregister();
    memory another(*dev, 4096); /* its key is a new one */
    expect_failed(wr, IBV_WC_REM_ACCESS_ERR);
    expect_violations("remote_key");
}

TEST_F(rc_error, a_wrong_lkey_breaks_the_sender_only)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);

    a->sge.lkey ^= 0x55500;
    expect_failed(wr, IBV_WC_LOC_PROT_ERR);
    expect_peer(IBV_QPS_RTS);
    expect_violations("local_key");
}

TEST_F(rc_error, a_read_needs_a_place_that_may_be_written)
{
    memory region(*dev, 4096, IBV_ACCESS_REMOTE_READ);
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_READ, *b, 8);

    a->sge = region.sge(0, 8);
    expect_failed(wr, IBV_WC_LOC_PROT_ERR);
    expect_violations("local_key");
}

TEST_F(rc_error, a_message_longer_than_its_receive)
{
    ASSERT_EQ(0, b->recv(9, 0, 63));
    expect_failed(a->wr(IBV_WR_SEND, *b, 64), IBV_WC_REM_INV_REQ_ERR);
    ibv_wc wc = b->next();
    EXPECT_EQ(IBV_WC_LOC_LEN_ERR, wc.status);
    EXPECT_EQ(9u, wc.wr_id);
    expect_peer(IBV_QPS_ERR);
}

TEST_F(rc_error, an_atomic_that_is_not_aligned)
{
    ibv_send_wr wr = a->wr(IBV_WR_ATOMIC_FETCH_AND_ADD, *b, 8);

    wr.wr.atomic.remote_addr += 4;
    expect_failed(wr, IBV_WC_REM_INV_REQ_ERR);
    expect_peer(IBV_QPS_ERR);
    fabric().violations_reset();
}

TEST_F(rc_error, everything_outstanding_is_flushed)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);
    std::vector<ibv_wc> all;

    ASSERT_EQ(0, a->recvs(4));
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    wr.send_flags = 0; /* an error has a completion even so */
    for (wr.wr_id = 10; wr.wr_id < 13; ++wr.wr_id) {
        ASSERT_EQ(0, a->post(wr));
    }
    ASSERT_EQ(0, a->recv(4));
    all = a->drain(8);
    ASSERT_EQ(8u, all.size());
    for (const ibv_wc &wc : all) {
        EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
        EXPECT_EQ(a->qp->qp_num, wc.qp_num);
    }
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(i, all[i].wr_id);
    }
    EXPECT_TRUE(a->quiet());
}

TEST_F(rc_error, what_follows_a_failure_is_flushed_in_order)
{
    ibv_send_wr wrs[4], *bad;
    std::vector<ibv_wc> all;

    for (unsigned i = 0; i < 4; ++i) {
        wrs[i]            = a->wr(IBV_WR_RDMA_WRITE, *b);
        wrs[i].wr_id      = i;
        wrs[i].send_flags = 0;
        wrs[i].next       = (i < 3) ? &wrs[i + 1] : nullptr;
    }
    wrs[1].wr.rdma.rkey ^= 0x55500;
    ASSERT_EQ(0, ibv_post_send(a->qp, wrs, &bad));
    all = a->drain(3); /* the first one succeeded: unsignaled, none */
    ASSERT_EQ(3u, all.size());
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, all[0].status);
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, all[1].status);
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, all[2].status);
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(i + 1, all[i].wr_id);
    }
    expect_violations("remote_key");
}

TEST_F(rc_error, receives_of_the_responder_are_flushed_too)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);

    ASSERT_EQ(0, b->recvs(3));
    wr.wr.rdma.rkey ^= 0x55500;
    expect_failed(wr, IBV_WC_REM_ACCESS_ERR);
    for (const ibv_wc &wc : b->drain(3)) {
        EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
    }
    expect_violations("remote_key");
}

/* The flush of its receives is the end of it, and nothing before */
TEST_F(rc_error, a_queue_pair_may_go_on_executing_in_error)
{
    ASSERT_EQ(0, b->recvs(2));
    ASSERT_EQ(0, fabric().faults("linger for=500ms", NULL, 0));
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    expect_peer(IBV_QPS_ERR);
    a->buffer.fill(1);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_TRUE(b->buffer.holds(1, 0, 64));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(IBV_WC_SUCCESS, b->next().status);
    EXPECT_EQ(a->options.psn + 2, b->query().rq_psn);
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, b->next().status);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
    EXPECT_EQ(a->options.psn + 2, b->query().rq_psn);
}

TEST_F(rc_error, a_queue_pair_works_again_after_reset)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);

    wr.wr.rdma.rkey ^= 0x55500;
    expect_failed(wr, IBV_WC_REM_ACCESS_ERR);
    expect_violations("remote_key");
    for (auto side : {a.get(), b.get()}) {
        ASSERT_EQ(0, side->to(IBV_QPS_RESET));
    }
    a->connect(*b);
    b->connect(*a);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
}

/* ---- peers that do not answer ---- */

class rc_retry : public rc_error {
protected:
    /* Fails with RETRY_EXC, after this time at least */
    void expect_lost(double least)
    {
        double start = now();

        expect_failed(a->wr(IBV_WR_RDMA_WRITE, *b), IBV_WC_RETRY_EXC_ERR);
        EXPECT_GE(now() - start, least);
    }
};

TEST_F(rc_retry, a_peer_in_error)
{
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    expect_lost(0.008); /* (2 + 1) * 4.2 ms */
}

TEST_F(rc_retry, a_peer_in_reset)
{
    ASSERT_EQ(0, b->to(IBV_QPS_RESET));
    expect_lost(0.008);
}

TEST_F(rc_retry, a_peer_that_was_destroyed)
{
    endpoint c(*dev), d(*dev);

    c.connect(d);
    d.connect(c);
    uint32_t rkey = d.buffer.mr->rkey;
    d.destroy_qp();
    ibv_send_wr wr  = c.wr(IBV_WR_RDMA_WRITE, d);
    wr.wr.rdma.rkey = rkey;
    ASSERT_EQ(0, c.post(wr));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, c.next().status);
}

TEST_F(rc_retry, a_peer_connected_to_another_queue_pair)
{
    endpoint c(*dev);

    ASSERT_EQ(0, c.to_init()); /* b is connected to a, not to c */
    ASSERT_EQ(0, c.to_rtr(b->qp->qp_num, dev->gid, 1000));
    ASSERT_EQ(0, c.to_rts());
    ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, c.next().status);
}

TEST_F(rc_retry, a_peer_that_comes_up_in_time)
{
    qp_options patient;

    patient.timeout = 14; /* 67 ms */
    patient.retry   = 7;
    a.reset(new endpoint(*dev, patient));
    b.reset(new endpoint(*dev, patient));
    ASSERT_EQ(0, b->to_init());
    a->connect(*b);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_TRUE(a->quiet());
    ASSERT_EQ(0, b->to_rtr(a->qp->qp_num, dev->gid, 1000));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
}

TEST_F(rc_retry, a_peer_without_the_packet_that_it_waits_for)
{
    endpoint c(*dev), d(*dev);

    ASSERT_EQ(0, d.to_init());
    ASSERT_EQ(0, d.to_rtr(c.qp->qp_num, dev->gid, 900000)); /* another PSN */
    c.connect(d);
    ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE, d));
    EXPECT_NE(IBV_WC_SUCCESS, c.next().status);
}
