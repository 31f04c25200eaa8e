/*
 * Operations of a connected queue pair, byte by byte, and the fields of their
 * completions.
 */
#include "fabric_fixture.h"

class rc_data : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        open();
        a->buffer.fill(1);
        b->buffer.fill(2);
    }

    void expect_sent(ibv_wc_opcode opcode, uint64_t wr_id = 0)
    {
        ibv_wc wc = a->next();

        EXPECT_EQ(IBV_WC_SUCCESS, wc.status) << ibv_wc_status_str(wc.status);
        EXPECT_EQ(opcode, wc.opcode);
        EXPECT_EQ(wr_id, wc.wr_id);
        EXPECT_EQ(a->qp->qp_num, wc.qp_num);
    }
};

TEST_F(rc_data, write_changes_the_bytes_it_names_and_no_others)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 100);

    wr.wr_id                = 17;
    a->sge.addr            += 7;
    wr.wr.rdma.remote_addr += 7;
    ASSERT_EQ(0, a->post(wr));
    expect_sent(IBV_WC_RDMA_WRITE, 17);
    EXPECT_TRUE(b->buffer.holds(2, 0, 7));
    EXPECT_TRUE(b->buffer.holds(1, 7, 100));
    EXPECT_TRUE(b->buffer.holds(2, 107, 5000));
    EXPECT_TRUE(b->quiet());
}

TEST_F(rc_data, write_of_many_packets)
{
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 1000001));
    expect_sent(IBV_WC_RDMA_WRITE);
    EXPECT_TRUE(b->buffer.holds(1, 0, 1000001));
    EXPECT_TRUE(b->buffer.holds(2, 1000001, 100));
}

TEST_F(rc_data, an_empty_write_needs_no_key)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 0);

    wr.wr.rdma.rkey        = 0;
    wr.wr.rdma.remote_addr = 0;
    ASSERT_EQ(0, a->post(wr));
    expect_sent(IBV_WC_RDMA_WRITE);
}

TEST_F(rc_data, immediate_consumes_a_receive_without_buffers)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 300);
    ibv_wc wc;

    wr.imm_data = 0x12345678;
    ASSERT_EQ(0, b->recv(99));
    ASSERT_EQ(0, a->post(wr));
    expect_sent(IBV_WC_RDMA_WRITE);
    wc = b->next();
    EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
    EXPECT_EQ(IBV_WC_RECV_RDMA_WITH_IMM, wc.opcode);
    EXPECT_EQ(99u, wc.wr_id);
    EXPECT_EQ(300u, wc.byte_len);
    EXPECT_EQ(0x12345678u, wc.imm_data);
    EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(b->qp->qp_num, wc.qp_num);
    EXPECT_TRUE(b->buffer.holds(1, 0, 300));
}

TEST_F(rc_data, an_immediate_alone_needs_no_key)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 0);

    wr.wr.rdma.rkey        = 0;
    wr.wr.rdma.remote_addr = 0;
    ASSERT_EQ(0, b->recv());
    ASSERT_EQ(0, a->post(wr));
    expect_sent(IBV_WC_RDMA_WRITE);
    EXPECT_EQ(0u, b->next().byte_len);
}

TEST_F(rc_data, read_fetches)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_READ, *b, 3000);

    ASSERT_EQ(0, a->post(wr));
    ibv_wc wc = a->next();
    EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
    EXPECT_EQ(IBV_WC_RDMA_READ, wc.opcode);
    EXPECT_EQ(3000u, wc.byte_len);
    EXPECT_TRUE(a->buffer.holds(2, 0, 3000));
    EXPECT_TRUE(a->buffer.holds(1, 3000, 3000));
}

TEST_F(rc_data, send_fills_the_receive)
{
    ibv_wc wc;

    ASSERT_EQ(0, b->recv(4, 1000, 500));
    ASSERT_EQ(0, a->post(IBV_WR_SEND, *b, 400));
    expect_sent(IBV_WC_SEND);
    wc = b->next();
    EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
    EXPECT_EQ(IBV_WC_RECV, wc.opcode);
    EXPECT_EQ(4u, wc.wr_id);
    EXPECT_EQ(400u, wc.byte_len);
    EXPECT_FALSE(wc.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(0, memcmp(a->buffer.data, b->buffer.data + 1000, 400));
    EXPECT_TRUE(b->buffer.holds(2, 1400, 100));
}

TEST_F(rc_data, send_with_immediate)
{
    ibv_send_wr wr = a->wr(IBV_WR_SEND_WITH_IMM, *b, 10);
    ibv_wc wc;

    wr.imm_data = 7;
    ASSERT_EQ(0, b->recv(0, 0, 10));
    ASSERT_EQ(0, a->post(wr));
    wc = b->next();
    EXPECT_EQ(IBV_WC_RECV, wc.opcode);
    EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(7u, wc.imm_data);
}

TEST_F(rc_data, lists_are_gathered_and_scattered)
{
    ibv_send_wr wr   = a->wr(IBV_WR_SEND, *b);
    ibv_sge gather[] = {a->buffer.sge(0, 10), a->buffer.sge(100, 0),
                        a->buffer.sge(200, 30)};
    ibv_sge scatter[] = {b->buffer.sge(0, 25), b->buffer.sge(500, 100)};
    ibv_recv_wr recv  = {}, *bad;

    recv.sg_list = scatter;
    recv.num_sge = 2;
    ASSERT_EQ(0, ibv_post_recv(b->qp, &recv, &bad));
    wr.sg_list = gather;
    wr.num_sge = 3;
    ASSERT_EQ(0, a->post(wr));
    EXPECT_EQ(40u, b->next().byte_len);
    EXPECT_EQ(0, memcmp(b->buffer.data, a->buffer.data, 10));
    EXPECT_EQ(0, memcmp(b->buffer.data + 10, a->buffer.data + 200, 15));
    EXPECT_EQ(0, memcmp(b->buffer.data + 500, a->buffer.data + 215, 15));
    EXPECT_TRUE(b->buffer.holds(2, 515, 100));
}

TEST_F(rc_data, inline_data_needs_no_key_and_is_taken_at_once)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 64);
    char local[64];

    memcpy(local, a->buffer.data, sizeof(local));
    wr.send_flags |= IBV_SEND_INLINE;
    a->sge.addr    = (uintptr_t)local;
    a->sge.lkey    = 0;
    ASSERT_EQ(0, a->post(wr));
    memset(local, 0, sizeof(local));
    expect_sent(IBV_WC_RDMA_WRITE);
    EXPECT_TRUE(b->buffer.holds(1, 0, 64));
}

TEST_F(rc_data, more_inline_data_than_granted_is_refused)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, a->cap.max_inline_data + 1);

    wr.send_flags |= IBV_SEND_INLINE;
    EXPECT_NE(0, a->post(wr));
    EXPECT_EQ(IBV_QPS_RTS, a->state());
}

TEST_F(rc_data, more_entries_than_granted_are_refused)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);
    std::vector<ibv_sge> list(a->cap.max_send_sge + 1, a->sge);

    wr.sg_list = list.data();
    wr.num_sge = (int)list.size();
    EXPECT_NE(0, a->post(wr));
}

TEST_F(rc_data, fetch_and_add)
{
    ibv_send_wr wr  = a->wr(IBV_WR_ATOMIC_FETCH_AND_ADD, *b, 8);
    uint64_t *local = (uint64_t*)a->buffer.data;
    uint64_t *there = (uint64_t*)b->buffer.data;

    *there                   = 0xffffffffull;
    wr.wr.atomic.compare_add = 2;
    ASSERT_EQ(0, a->post(wr));
    expect_sent(IBV_WC_FETCH_ADD);
    EXPECT_EQ(0xffffffffull, *local);
    EXPECT_EQ(0x100000001ull, *there);
}

TEST_F(rc_data, compare_and_swap)
{
    ibv_send_wr wr  = a->wr(IBV_WR_ATOMIC_CMP_AND_SWP, *b, 8);
    uint64_t *local = (uint64_t*)a->buffer.data;
    uint64_t *there = (uint64_t*)b->buffer.data;

    *there                   = 5;
    wr.wr.atomic.compare_add = 4;
    wr.wr.atomic.swap        = 9;
    ASSERT_EQ(0, a->post(wr));
    expect_sent(IBV_WC_COMP_SWAP);
    EXPECT_EQ(5u, *local);
    EXPECT_EQ(5u, *there);
    wr.wr.atomic.compare_add = 5;
    ASSERT_EQ(0, a->post(wr));
    expect_sent(IBV_WC_COMP_SWAP);
    EXPECT_EQ(5u, *local);
    EXPECT_EQ(9u, *there);
}

TEST_F(rc_data, both_directions_and_itself)
{
    endpoint c(*dev);

    c.connect(c);
    c.buffer.fill(3);
    ASSERT_EQ(0, b->post(IBV_WR_RDMA_WRITE, *a, 50));
    EXPECT_EQ(IBV_WC_SUCCESS, b->next().status);
    EXPECT_TRUE(a->buffer.holds(2, 0, 50));
    ibv_send_wr wr         = c.wr(IBV_WR_RDMA_WRITE, c, 50);
    wr.wr.rdma.remote_addr = c.buffer.addr(4096);
    ASSERT_EQ(0, c.post(wr));
    EXPECT_EQ(IBV_WC_SUCCESS, c.next().status);
    EXPECT_EQ(0, memcmp(c.buffer.data, c.buffer.data + 4096, 50));
}

TEST_F(rc_data, between_two_devices)
{
    device other(1);
    endpoint c(other), d(*dev);

    c.connect(d);
    d.connect(c);
    c.buffer.fill(5);
    ASSERT_EQ(0, d.recv(3));
    ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE_WITH_IMM, d, 2000));
    EXPECT_EQ(IBV_WC_SUCCESS, c.next().status);
    EXPECT_EQ(3u, d.next().wr_id);
    EXPECT_TRUE(d.buffer.holds(5, 0, 2000));
}

TEST_F(rc_data, only_signaled_sends_have_completions)
{
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);

    wr.send_flags = 0;
    for (wr.wr_id = 0; wr.wr_id < 5; ++wr.wr_id) {
        ASSERT_EQ(0, a->post(wr));
    }
    EXPECT_TRUE(a->quiet());
    wr.send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(0, a->post(wr));
    expect_sent(IBV_WC_RDMA_WRITE, 5);
    EXPECT_TRUE(a->quiet());
}

TEST_F(rc_data, a_queue_that_signals_all_asks_no_flag)
{
    qp_options options;

    options.sig_all = 1;
    open(options);
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);
    wr.send_flags  = 0;
    wr.wr_id       = 8;
    ASSERT_EQ(0, a->post(wr));
    expect_sent(IBV_WC_RDMA_WRITE, 8);
}

TEST_F(rc_data, slots_are_free_when_a_later_completion_was_polled)
{
    uint32_t depth = a->cap.max_send_wr;
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b, 8);
    ibv_send_wr *bad;

    for (uint32_t i = 0; i < depth; ++i) {
        wr.send_flags = (i == depth - 1) ? IBV_SEND_SIGNALED : 0;
        ASSERT_EQ(0, a->post(wr));
    }

    EXPECT_EQ(ENOMEM, ibv_post_send(a->qp, &wr, &bad));
    EXPECT_EQ(&wr, bad);
    expect_violations("sq_depth");
    expect_sent(IBV_WC_RDMA_WRITE);
    for (uint32_t i = 0; i < depth; ++i) {
        wr.send_flags = (i == depth - 1) ? IBV_SEND_SIGNALED : 0;
        ASSERT_EQ(0, a->post(wr));
    }
    expect_sent(IBV_WC_RDMA_WRITE);
}

TEST_F(rc_data, a_chain_is_accepted_up_to_the_bad_one)
{
    ibv_send_wr first  = a->wr(IBV_WR_RDMA_WRITE, *b, 8), *bad;
    ibv_send_wr second = first, third = first;

    first.next    = &second;
    second.next   = &third;
    second.opcode = (ibv_wr_opcode)77;
    EXPECT_NE(0, ibv_post_send(a->qp, &first, &bad));
    EXPECT_EQ(&second, bad);
    expect_sent(IBV_WC_RDMA_WRITE);
    EXPECT_TRUE(a->quiet());
}

TEST_F(rc_data, a_hundred_thousand_in_order)
{
    const unsigned rounds = 100000;
    unsigned posted = 0, sent = 0, got = 0;
    ibv_send_wr wr  = a->wr(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 8);
    ibv_wc wc[16];

    ASSERT_EQ(0, b->recvs(32));
    while (got < rounds) {
        while ((posted < rounds) && (posted - sent < 32) &&
               (posted - got < 32)) {
            wr.wr_id    = posted;
            wr.imm_data = posted++;
            ASSERT_EQ(0, a->post(wr));
        }
        for (int i = ibv_poll_cq(a->cq, 16, wc); i > 0; --i) {
            ++sent;
        }
        for (int i = 0, n = ibv_poll_cq(b->cq, 16, wc); i < n; ++i) {
            ASSERT_EQ(got++, wc[i].imm_data);
            ASSERT_EQ(0, b->recv());
        }
    }
}
