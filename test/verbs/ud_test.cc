/*
 * The control queue pair: datagrams there and back, bounded resources, and
 * its return after an error.
 */
#include "verbs_fixture.h"

#include "test/fabric/fabric.h"

namespace {

struct node {
    rail        *r;
    vqp_ib_resolver_t resolver;
    vqp_ib_ud_t       ud;

    node(rail *r_, uint32_t mtu, uint32_t num_sends, uint32_t num_ahs) : r(r_)
    {
        vqp_ib_port_t port        = r->port;
        vqp_ib_ud_params_t params = {};
        uint16_t pkey;

        port.mtu         = mtu;
        EXPECT_EQ(VQP_OK, vqp_ib_resolver_init(&resolver, &r->dev,
                                               port.link == VQP_IB_LINK_ETH));
        params.dev       = &r->dev;
        params.resolver  = &resolver;
        params.port      = &port;
        params.gid       = &r->gid;
        params.hop_limit = 64;
        params.num_recvs = 16;
        params.num_sends = num_sends;
        params.num_ahs   = num_ahs;
        EXPECT_EQ(VQP_OK, vqp_ib_port_find_pkey(&r->dev, &r->port, 0,
                                                &params.pkey_index, &pkey));
        EXPECT_EQ(VQP_OK, vqp_ib_ud_init(&ud, &params));
    }

    ~node()
    {
        vqp_ib_ud_cleanup(&ud);
        vqp_ib_resolver_cleanup(&resolver);
    }

    vqp_ib_ud_addr_t addr() const
    {
        vqp_ib_ud_addr_t to = {};

        memcpy(to.gid, r->gid.raw, sizeof(to.gid));
        to.lid       = r->port.lid;
        to.qpn       = ud.qpn;
        to.is_global = r->port.grh_required;
        return to;
    }

    /* Poll until a datagram comes */
    bool receive(vqp_ib_ud_msg_t *msg)
    {
        return eventually([&] { return vqp_ib_ud_poll(&ud, msg) == VQP_OK; });
    }

    /* Poll until nothing is outstanding; datagrams are dropped */
    bool settle()
    {
        vqp_ib_ud_msg_t msg;

        return eventually([&] {
            while (vqp_ib_ud_poll(&ud, &msg) == VQP_OK) {
            }
            return ud.send_head == ud.send_tail;
        });
    }
};

} // namespace

class ud : public verbs_test {
protected:
    void SetUp() override
    {
        verbs_test::SetUp();
        if (a != nullptr) {
            x = new node(a, a->port.mtu, 8, 4);
            y = new node(b, 1024, 8, 4);
        }
    }

    void TearDown() override
    {
        delete y;
        delete x;
        verbs_test::TearDown();
    }

    std::string text(const vqp_ib_ud_msg_t &msg)
    {
        return std::string((const char*)msg.data, msg.length);
    }

    node *x = nullptr;
    node *y = nullptr;
};

TEST_F(ud, datagram_arrives_and_is_answered_to_its_source)
{
    vqp_ib_ud_addr_t to = y->addr();
    vqp_ib_ud_msg_t msg;

    ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "hello", 5));
    ASSERT_TRUE(y->receive(&msg));
    EXPECT_EQ("hello", text(msg));
    EXPECT_EQ(x->ud.qpn, msg.from.qpn);
    EXPECT_EQ(0, memcmp(msg.from.gid, x->addr().gid, 16));

    ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&y->ud, &msg.from, "to you", 6));
    ASSERT_TRUE(x->receive(&msg));
    EXPECT_EQ("to you", text(msg));
}

TEST_F(ud, to_itself)
{
    vqp_ib_ud_addr_t to = x->addr();
    vqp_ib_ud_msg_t msg;

    ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "loop", 4));
    ASSERT_TRUE(x->receive(&msg));
    EXPECT_EQ("loop", text(msg));
}

TEST_F(ud, many_more_than_there_are_buffers)
{
    vqp_ib_ud_addr_t to = y->addr();
    vqp_ib_ud_msg_t msg;

    for (uint32_t i = 0; i < 300; ++i) {
        ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, &i, sizeof(i)));
        ASSERT_TRUE(y->receive(&msg));
        ASSERT_EQ(sizeof(i), msg.length);
        ASSERT_EQ(0, memcmp(msg.data, &i, sizeof(i)));
        ASSERT_TRUE(x->settle());
    }
    EXPECT_EQ(300u, x->ud.stats.sent);
    EXPECT_EQ(300u, y->ud.stats.received);
    EXPECT_EQ(1u, x->ud.ahs.created);
}

TEST_F(ud, full_size_and_zero_length)
{
    vqp_ib_ud_addr_t to = x->addr();
    std::string big(x->ud.max_msg, 'b');
    vqp_ib_ud_msg_t msg;
    log_capture log;

    ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, big.data(), big.size()));
    ASSERT_TRUE(x->receive(&msg));
    EXPECT_EQ(big, text(msg));
    ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "", 0));
    ASSERT_TRUE(x->receive(&msg));
    EXPECT_EQ(0u, msg.length);

    big += "b";
    EXPECT_EQ(VQP_ERR_INVALID_PARAM,
              vqp_ib_ud_send(&x->ud, &to, big.data(), big.size()));
    EXPECT_TRUE(log.has("exceeds the MTU"));
}

TEST_F(ud, send_slots_are_bounded_and_come_back)
{
    vqp_ib_ud_addr_t to = y->addr();
    vqp_status_t status = VQP_OK;
    int sent;

    for (sent = 0; (sent < 100) && (status == VQP_OK); ++sent) {
        status = vqp_ib_ud_send(&x->ud, &to, "x", 1);
    }
    EXPECT_EQ(9, sent);
    EXPECT_EQ(VQP_ERR_NO_RESOURCE, status);
    ASSERT_TRUE(x->settle());
    EXPECT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "x", 1));
}

TEST_F(ud, address_handles_are_bounded_but_never_taken_from_a_send)
{
    vqp_ib_ud_addr_t to = x->addr();
    int i;

    if (!x->ud.is_eth || !a->gid.is_ipv4) {
        GTEST_SKIP() << "makes addresses by their IPv4 form";
    }

    /* Other traffic classes stand for other peers: all of them resolve */
    for (i = 0; i < 20; ++i) {
        x->ud.tclass = i * 4;
        if (vqp_ib_ud_send(&x->ud, &to, "x", 1) != VQP_OK) {
            break;
        }
    }
    EXPECT_EQ(4, i);
    EXPECT_EQ(4u, x->ud.ahs.num);

    ASSERT_TRUE(x->settle());
    EXPECT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "x", 1));
    EXPECT_EQ(4u, x->ud.ahs.num);
    EXPECT_EQ(5u, x->ud.ahs.created);
    /* The oldest had to go, so the second one is still there */
    x->ud.tclass = 4;
    EXPECT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "x", 1));
    EXPECT_EQ(5u, x->ud.ahs.created);
    ASSERT_TRUE(x->settle());
}

/* Also of the GID that it had before: the kernel may have freed the entry in between */
TEST_F(ud, address_handles_are_not_used_after_the_gid_has_moved)
{
    vqp_ib_ud_addr_t to = y->addr();
    vqp_ib_ud_msg_t msg;

    if (!x->ud.is_eth) {
        GTEST_SKIP() << "no GID is used";
    }

    ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "x", 1));
    ASSERT_TRUE(y->receive(&msg));
    vqp_ib_ud_set_gid_index(&x->ud, a->gid.index); /* the send is not complete yet */
    ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "x", 1));
    EXPECT_EQ(2u, x->ud.ahs.created);
    EXPECT_EQ(2u, x->ud.ahs.num);
    ASSERT_TRUE(x->settle());
    vqp_ib_ud_set_gid_index(&x->ud, a->gid.index);
    EXPECT_EQ(0u, x->ud.ahs.num);
    ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "x", 1));
    EXPECT_EQ(3u, x->ud.ahs.created);
    ASSERT_TRUE(x->settle());
}

TEST_F(ud, too_long_a_datagram_breaks_it_and_it_comes_back)
{
    vqp_ib_ud_addr_t to = y->addr();
    std::string big(x->ud.max_msg, 'b');
    uint32_t qpn = y->ud.qpn;
    vqp_ib_ud_msg_t msg;

    if (x->ud.max_msg <= y->ud.max_msg) {
        GTEST_SKIP() << "the port's MTU is too small";
    }

    /* Ordinary messages around it, so that buffers are in every state */
    for (int round = 0; round < 3; ++round) {
        ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "before", 6));
        ASSERT_TRUE(y->receive(&msg));
        ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, big.data(), big.size()));
        ASSERT_TRUE(eventually([&] {
            (void)vqp_ib_ud_poll(&y->ud, &msg);
            return y->ud.stats.rebuilds == (uint64_t)round + 1;
        }));
        EXPECT_EQ(qpn, y->ud.qpn);
        ASSERT_TRUE(x->settle());

        for (int i = 0; i < 40; ++i) {
            ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "after", 5));
            ASSERT_TRUE(y->receive(&msg));
            EXPECT_EQ("after", text(msg));
            ASSERT_TRUE(x->settle());
        }
    }
}

TEST_F(ud, broken_mark_rebuilds_with_sends_outstanding)
{
    vqp_ib_ud_addr_t to = y->addr();
    vqp_ib_ud_msg_t msg;

    for (int i = 0; i < 5; ++i) {
        ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "lost?", 5));
    }
    vqp_ib_ud_set_broken(&x->ud);
    EXPECT_EQ(VQP_ERR_NO_RESOURCE, vqp_ib_ud_send(&x->ud, &to, "no", 2));
    EXPECT_NE(VQP_ERR_IO, vqp_ib_ud_poll(&x->ud, &msg));
    EXPECT_EQ(x->ud.send_head, x->ud.send_tail);
    ASSERT_TRUE(y->settle());

    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "again", 5));
        ASSERT_TRUE(y->receive(&msg));
        ASSERT_TRUE(x->settle());
    }
}

TEST_F(ud, rebuild_takes_back_the_buffer_that_the_caller_read)
{
    vqp_ib_ud_addr_t to = y->addr();
    vqp_ib_ud_msg_t msg;

    ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "held", 4));
    ASSERT_TRUE(y->receive(&msg));
    vqp_ib_ud_set_broken(&y->ud);
    EXPECT_EQ(VQP_INPROGRESS, vqp_ib_ud_poll(&y->ud, &msg));
    EXPECT_EQ(y->ud.num_recvs, y->ud.held);

    for (int i = 0; i < 40; ++i) {
        ASSERT_TRUE(x->settle());
        ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "again", 5));
        ASSERT_TRUE(y->receive(&msg));
    }
    EXPECT_EQ(1u, y->ud.stats.rebuilds);
}

TEST_F(ud, descriptor_wakes_up_after_arming)
{
    vqp_ib_ud_addr_t to = y->addr();
    struct pollfd pfd   = {vqp_ib_ud_fd(&y->ud), POLLIN, 0};
    vqp_ib_ud_msg_t msg;

    for (int i = 0; i < 100; ++i) {
        vqp_ib_ud_arm(&y->ud);
        ASSERT_FALSE(y->ud.no_event);
        ASSERT_EQ(VQP_INPROGRESS, vqp_ib_ud_poll(&y->ud, &msg));
        ASSERT_EQ(0, poll(&pfd, 1, 0));
        ASSERT_EQ(VQP_OK, vqp_ib_ud_send(&x->ud, &to, "wake", 4));
        ASSERT_EQ(1, poll(&pfd, 1, wait_limit_ms()));
        vqp_ib_ud_arm(&y->ud);
        ASSERT_FALSE(y->ud.no_event);
        ASSERT_EQ(VQP_OK, vqp_ib_ud_poll(&y->ud, &msg));
        ASSERT_TRUE(x->settle());
    }
}

TEST_F(ud, address_that_does_not_resolve_is_unreachable)
{
    vqp_ib_ud_addr_t to = y->addr();
    log_capture log;

    if (!x->ud.is_eth || !a->gid.is_ipv4) {
        GTEST_SKIP() << "makes an address by its IPv4 form";
    }

    to.gid[15] = 250; /* the same network, without a host */
    EXPECT_TRUE(eventually([&] {
        return vqp_ib_ud_send(&x->ud, &to, "x", 1) == VQP_ERR_UNREACHABLE;
    }));
    EXPECT_TRUE(log.has("ibv_create_ah"));
    /* The failure leaves the cache as it was */
    to = y->addr();
    EXPECT_TRUE(eventually([&] {
        return vqp_ib_ud_send(&x->ud, &to, "x", 1) == VQP_OK;
    }));
    ASSERT_TRUE(x->settle());
}

TEST_F(ud, send_does_not_wait_for_a_host_that_is_not_there)
{
    vqp_ib_ud_addr_t to = y->addr();

    if (vqp_fabric() == nullptr) {
        GTEST_SKIP() << "needs the software fabric";
    }

    /* One that waits gets the answer */
    vqp_fabric()->faults("resolve count=all stall=10s", nullptr, 0);
    EXPECT_EQ(VQP_INPROGRESS, vqp_ib_ud_send(&x->ud, &to, "x", 1));
    EXPECT_TRUE(eventually([] { return vqp_fabric()->stalled() == 1; }));
    vqp_fabric()->faults(nullptr, nullptr, 0);
}
