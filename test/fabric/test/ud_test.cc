/*
 * Datagrams: they arrive complete or not at all, without an error.
 */
#include "fabric_fixture.h"

#include <arpa/inet.h>
#include <thread>
#include <unistd.h>

class ud : public fabric_test {
protected:
    void SetUp() override
    {
        qp_options options;

        fabric_test::SetUp();
        options.type = IBV_QPT_UD;
        a.reset(new endpoint(*dev, options));
        b.reset(new endpoint(*dev, options));
        a->start_ud();
        b->start_ud();
        a->buffer.fill(1);
        ah = address(b->dev.gid);
    }

    void TearDown() override
    {
        EXPECT_EQ(0, ibv_destroy_ah(ah));
        fabric_test::TearDown();
    }

    ibv_ah *address(const union ibv_gid &gid)
    {
        ibv_ah_attr attr = {};
        bool is_roce     = dev->port.link_layer == IBV_LINK_LAYER_ETHERNET;

        attr.port_num       = 1;
        attr.dlid           = dev->port.lid;
        attr.is_global      = is_roce;
        attr.grh.dgid       = gid;
        attr.grh.sgid_index = is_roce;
        attr.grh.hop_limit  = 64;
        ibv_ah *made        = ibv_create_ah(dev->pd, &attr);
        EXPECT_NE(nullptr, made);
        return made;
    }

    ibv_send_wr datagram(size_t length)
    {
        ibv_send_wr wr = a->wr(IBV_WR_SEND, *b, length);

        wr.wr.ud.ah          = ah;
        wr.wr.ud.remote_qpn  = b->qp->qp_num;
        wr.wr.ud.remote_qkey = b->options.qkey;
        return wr;
    }

    /* Sending always succeeds */
    void send(const ibv_send_wr &wr)
    {
        ASSERT_EQ(0, a->post(wr));
        EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    }

    /* Attributes of a queue pair without a peer */
    int connect(const union ibv_gid &gid)
    {
        endpoint c(*dev);

        EXPECT_EQ(0, c.to_init());
        return c.to_rtr(0x11, gid, 0);
    }

    ibv_ah *ah = nullptr;
};

TEST_F(ud, a_datagram_comes_behind_its_header)
{
    ibv_wc wc;

    ASSERT_EQ(0, b->recv(3, 0, 4096 + 40));
    send(datagram(100));
    wc = b->next();
    EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
    EXPECT_EQ(IBV_WC_RECV, wc.opcode);
    EXPECT_EQ(3u, wc.wr_id);
    EXPECT_EQ(140u, wc.byte_len);
    EXPECT_EQ(a->qp->qp_num, wc.src_qp);
    EXPECT_EQ(b->qp->qp_num, wc.qp_num);
    EXPECT_TRUE(wc.wc_flags & IBV_WC_GRH);
    EXPECT_EQ(0, memcmp(a->buffer.data, b->buffer.data + 40, 100));
    /* RoCE v2 on IPv4: the address of the sender at byte 12 of a header at 20 */
    EXPECT_EQ(0x45, b->buffer.data[20]);
    EXPECT_EQ(0, memcmp(b->buffer.data + 32, dev->gid.raw + 12, 4));
}

TEST_F(ud, the_answer_reaches_the_sender)
{
    ibv_ah *back;
    ibv_wc wc;

    ASSERT_EQ(0, b->recv(0, 0, 4096 + 40));
    send(datagram(8));
    wc   = b->next();
    back = ibv_create_ah_from_wc(dev->pd, &wc, (ibv_grh*)b->buffer.data, 1);
    ASSERT_NE(nullptr, back);
    ASSERT_EQ(0, a->recv(9, 8192, 4096));
    ibv_send_wr wr       = b->wr(IBV_WR_SEND_WITH_IMM, *a, 8);
    wr.imm_data          = 55;
    wr.wr.ud.ah          = back;
    wr.wr.ud.remote_qpn  = wc.src_qp;
    wr.wr.ud.remote_qkey = a->options.qkey;
    ASSERT_EQ(0, b->post(wr));
    wc = a->next();
    EXPECT_EQ(9u, wc.wr_id);
    EXPECT_EQ(55u, wc.imm_data);
    EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(IBV_WC_SUCCESS, b->next().status);
    EXPECT_EQ(0, ibv_destroy_ah(back));
}

TEST_F(ud, a_wrong_key_is_dropped)
{
    ibv_send_wr wr = datagram(8);

    ASSERT_EQ(0, b->recv(0, 0, 4096));
    wr.wr.ud.remote_qkey ^= 1;
    send(wr);
    EXPECT_TRUE(b->quiet());
}

TEST_F(ud, a_datagram_to_an_unknown_qp_is_dropped)
{
    ibv_send_wr wr = datagram(8);

    wr.wr.ud.remote_qpn = 0xabcdef;
    send(wr);
    EXPECT_TRUE(b->quiet());
}

TEST_F(ud, a_datagram_that_is_lost_is_sent_with_success)
{
    ASSERT_EQ(0, b->recv(0, 0, 4096));
    faults("lose nth=1");
    send(datagram(8));
    EXPECT_TRUE(b->quiet());
    send(datagram(8));
    EXPECT_EQ(IBV_WC_SUCCESS, b->next().status);
}

TEST_F(ud, an_unknown_address_does_not_resolve)
{
    ibv_ah_attr attr = {};

    attr.port_num       = 1;
    attr.is_global      = 1;
    attr.grh.dgid       = dev->gid;
    attr.grh.sgid_index = 1;
    attr.grh.hop_limit  = 64;

    attr.grh.dgid.raw[15] = 200;
    EXPECT_EQ(nullptr, ibv_create_ah(dev->pd, &attr));
    EXPECT_EQ(EHOSTUNREACH, errno);
    EXPECT_EQ(EHOSTUNREACH, connect(attr.grh.dgid));
}

TEST_F(ud, an_address_does_not_resolve_after_a_stall)
{
    auto start      = std::chrono::steady_clock::now();
    unsigned stalls = fabric().stalls_here();
    ibv_ah_attr attr = {};

    attr.port_num       = 1;
    attr.is_global      = 1;
    attr.grh.dgid       = dev->gid;
    attr.grh.sgid_index = 1;
    attr.grh.hop_limit  = 64;
    faults("resolve dev=fab0 stall=30ms");
    EXPECT_EQ(nullptr, ibv_create_ah(dev->pd, &attr));
    EXPECT_EQ(ETIMEDOUT, errno);
    EXPECT_GE(std::chrono::steady_clock::now() - start,
              std::chrono::milliseconds(30));
    EXPECT_EQ(1u, fabric().fault_hits());
    EXPECT_EQ(stalls + 1, fabric().stalls_here());
    EXPECT_EQ(0, ibv_destroy_ah(ibv_create_ah(dev->pd, &attr)));
    /* Other faults end it */
    faults("resolve stall=1000s");
    std::thread waits([&] { EXPECT_EQ(nullptr, ibv_create_ah(dev->pd, &attr)); });
    EXPECT_TRUE(eventually([] { return fabric().stalled() == 1; }));
    faults("");
    waits.join();
    EXPECT_EQ(0u, fabric().stalled());
    EXPECT_EQ(stalls + 1, fabric().stalls_here());
    /* A queue pair resolves it when it is connected; other devices are not hit */
    faults("resolve dev=fab1 count=all");
    EXPECT_EQ(0, connect(dev->gid));
    faults("resolve dev=fab0 errno=EINVAL");
    EXPECT_EQ(EINVAL, connect(dev->gid));
}

TEST_F(ud, without_a_receive_it_is_dropped)
{
    send(datagram(8));
    ASSERT_EQ(0, b->recv(0, 0, 4096));
    EXPECT_TRUE(b->quiet());
    send(datagram(8));
    EXPECT_EQ(IBV_WC_SUCCESS, b->next().status);
}

TEST_F(ud, the_largest_datagram_fits)
{
    ASSERT_EQ(0, b->recv(0, 0, 4096 + 40));
    send(datagram(4096));
    EXPECT_EQ(4136u, b->next().byte_len);
    EXPECT_EQ(0, memcmp(a->buffer.data, b->buffer.data + 40, 4096));
}

TEST_F(ud, a_buffer_that_is_too_small_breaks_the_receiver)
{
    ASSERT_EQ(0, b->recv(0, 0, 100));
    send(datagram(61));
    EXPECT_NE(IBV_WC_SUCCESS, b->next().status);
    EXPECT_EQ(IBV_QPS_ERR, b->state());
    EXPECT_EQ(IBV_QPS_RTS, a->state());
}

TEST_F(ud, error_flushes_receives)
{
    ASSERT_EQ(0, b->recv(1, 0, 4096));
    ASSERT_EQ(0, b->recv(2, 4096, 4096));
    ASSERT_EQ(0, b->to(IBV_QPS_ERR));
    for (const ibv_wc &wc : b->drain(2)) {
        EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
    }
}

TEST_F(ud, has_no_writes)
{
    EXPECT_NE(0, a->post(IBV_WR_RDMA_WRITE, *b));
}

TEST_F(ud, from_an_index_that_has_another_gid_nothing_arrives)
{
    if (dev->port.link_layer != IBV_LINK_LAYER_ETHERNET) {
        GTEST_SKIP() << "the table of InfiniBand does not move";
    }

    ASSERT_EQ(0, b->recv(3, 0, 4096 + 40));
    ASSERT_EQ(0, fabric().act("gids to=1", nullptr, 0));
    send(datagram(100));
    EXPECT_TRUE(b->quiet());
    ASSERT_EQ(0, fabric().act("gids to=0", nullptr, 0));
    send(datagram(100));
    EXPECT_EQ(IBV_WC_SUCCESS, b->next().status);
}
