/*
 * Faults: the script's grammar, and each kind of fault.
 */
#include "fabric_fixture.h"

#include <algorithm>

#include <poll.h>
#include <unistd.h>

/* ---- grammar ---- */

class fault_script : public fabric_test {
protected:
    static std::string error(const std::string &script)
    {
        char text[128] = "";

        return (fabric().faults(script.c_str(), text, sizeof(text)) == 0) ?
                       "" : text;
    }
};

TEST_F(fault_script, takes_rules_blanks_and_comments)
{
    for (const char *good : {"", ";;\n", "# nothing", "call", "call verb=any",
                             "call verb=reg_mr nth=3 errno=EIO count=2",
                             "call errno=22;", "  wr\tstatus=REM_OP_ERR  ",
                             "wr op=RDMA_READ dev=fab0 qpn=0x11 p=0.5",
                             "unacked every=10\nrnr count=all # often",
                             "withhold dir=recv; duplicate dir=send nth=2",
                             "garbage count=all status=WR_FLUSH_ERR",
                             "seed value=9",
                             "chain after=3 errno=EIO qpn=17 dev=fab0 nth=2",
                             "unacked more=all; unacked more=0; wr part=4",
                             "lose op=RDMA_READ count=all",
                             "duplicate xor=0x10000 as=WR_FLUSH_ERR dir=recv",
                             "rate at=1ms to=100; delay at=0s to=1ms for=2ms",
                             "linger for=5ms; linger for=1s nth=2 dev=fab0 qpn=5",
                             "kill role=x nth=3 op=SEND; kill proc=1 at=5ms",
                             "dark at=0s; dark path=1/4 at=1ms for=5ms every=1s",
                             "dark dev=fab1 at=0s every=9ms for=1ms qpn=5",
                             "dark over=1000 at=0s",
                             "qp path=0/4 at=1ms every=2ms; qp path=3 at=1s",
                             "rate path=3/4 dev=fab0 at=1s every=1s to=0",
                             "rate port=1 at=1s to=5; delay qpn=17 at=1s to=0s",
                             "gids at=1s to=3 for=1ms every=2s dev=fab0 port=1"}) {
        EXPECT_EQ("", error(good)) << good;
    }
}

TEST_F(fault_script, says_what_is_wrong)
{
    EXPECT_EQ("no such kind of fault: 'cal'", error("cal verb=reg_mr"));
    EXPECT_EQ("no such key for this kind of fault: 'status=SUCCESS'",
              error("call status=SUCCESS"));
    EXPECT_EQ("not KEY=VALUE: 'reg_mr'", error("call reg_mr"));
    EXPECT_EQ("needs a time: for=: 'linger'", error("linger nth=2"));
    for (const char *bad : {"call verb=regmr", "call errno=0", "call errno=",
                            "call errno=EWHAT", "call nth=0", "call nth=-1",
                            "call nth=1x", "call count=0", "wr p=0", "wr p=1.5",
                            "wr p=x", "wr status=IBV_WC_SUCCESS", "wr op=WRITE",
                            "wr dev=mlx5_0", "wr dev=fab", "wr qpn=any",
                            "unacked more=-1", "wr part=x", "chain after=",
                            "chain after=0x100000000", "duplicate xor=0",
                            "duplicate as=NONE"}) {
        EXPECT_NE(std::string::npos, error(bad).find("not understood")) << bad;
    }
    for (const char *bad : {"rate at=1s path=4/4 to=1", "rate at=1s to=1ms",
                            "rate at=1s path=/4 to=1", "delay at=1s to=5",
                            "qp at=5", "dark at=1s path=4/4", "dark at=0s for=0s",
                            "dark at=0s every=5", "port at=1h", "port for=1ms at=-1ms"}) {
        EXPECT_NE(std::string::npos, error(bad).find("not understood")) << bad;
    }
    for (const char *bad : {"wr more=1", "unacked part=1", "call after=1",
                            "chain verb=post_send", "dark at=0s nth=2",
                            "qp at=0s for=1ms", "withhold xor=1"}) {
        EXPECT_NE(std::string::npos, error(bad).find("no such key")) << bad;
    }
    EXPECT_NE("", error("port for=1ms"));
    EXPECT_NE("", error("qp"));
    EXPECT_EQ("needs a time: at=: 'dark'", error("dark for=1ms"));
    EXPECT_EQ("needs a time: at=: 'rate'", error("rate to=5"));
    EXPECT_EQ("needs a value: to=: 'rate'", error("rate at=1s"));
    EXPECT_EQ("needs a value: to=: 'gids'", error("gids at=1s"));
    EXPECT_EQ("of a port or of a path: 'rate'",
              error("rate at=1s to=5 port=1 path=0"));
}

TEST_F(fault_script, an_invalid_script_leaves_the_one_in_force)
{
    faults("call verb=alloc_pd");
    EXPECT_NE("", error("call verb=nonsense"));
    EXPECT_EQ(nullptr, ibv_alloc_pd(dev->context));
}

TEST_F(fault_script, has_an_end)
{
    std::string many;

    for (unsigned i = 0; i < 64; ++i) {
        many += "rnr;";
    }
    EXPECT_EQ("", error(many));
    EXPECT_NE("", error(many + "rnr"));
}

TEST_F(fault_script, survives_noise)
{
    uint64_t bits = 1;

    for (unsigned i = 0; i < 20000; ++i) {
        static const char *const parts[] = {
            "call", "wr", "qp", "verb=", "reg_mr", "nth=", "=", " ", ";", "\n",
            "1", "999999999999999999999", "p=", "0.5", "at=", "ms", "#", "x"};
        std::string script;

        for (unsigned k = 0; k < 12; ++k) {
            bits    = bits * 6364136223846793005ull + 1442695040888963407ull;
            script += parts[(bits >> 40) % 18];
        }
        script += std::string((bits >> 50) % 200, 'y');
        error(script);
    }
}

TEST_F(fault_script, acts_at_once_or_says_why_not)
{
    char text[128] = "";

    EXPECT_EQ(-1, fabric().act("wr", text, sizeof(text)));
    EXPECT_STREQ("not to be done at once: 'wr'", text);
    EXPECT_EQ(-1, fabric().act("dark", text, sizeof(text)));
    EXPECT_STREQ("not to be done at once: 'dark'", text);
    EXPECT_EQ(-1, fabric().act("rate to=5", text, sizeof(text)));
    EXPECT_STREQ("rate: No such file or directory", text); /* not timed */
    EXPECT_EQ(-1, fabric().act("port dev=fab9", text, sizeof(text)));
    EXPECT_STREQ("port: No such device", text);
    open();
    ASSERT_EQ(0, fabric().act("qp", text, sizeof(text))) << text;
    EXPECT_EQ(IBV_QPS_ERR, a->state());
}

/* ---- calls ---- */

class fault_call : public fabric_test {
protected:
    /* Whether ibv_alloc_pd works, and with which errno it does not */
    int alloc()
    {
        ibv_pd *pd = ibv_alloc_pd(dev->context);

        if (pd == nullptr) {
            return errno;
        }

        EXPECT_EQ(0, ibv_dealloc_pd(pd));
        return 0;
    }
};

TEST_F(fault_call, the_nth_fails_and_no_other)
{
    faults("call verb=alloc_pd nth=3 errno=EIO");
    EXPECT_EQ(0, alloc());
    EXPECT_EQ(0, alloc());
    EXPECT_EQ(EIO, alloc());
    EXPECT_EQ(0, alloc());
    EXPECT_EQ(1u, fabric().fault_hits());
    EXPECT_EQ(4u, fabric().calls("alloc_pd"));
    EXPECT_EQ(3u, fabric().calls("dealloc_pd"));
    EXPECT_EQ(7u, fabric().calls(nullptr));
    EXPECT_EQ(0u, fabric().calls("nonsense"));
}

TEST_F(fault_call, in_a_row_and_again)
{
    std::string pattern;

    faults("call verb=alloc_pd nth=2 count=2 every=5");
    for (unsigned i = 0; i < 12; ++i) {
        pattern += (alloc() == 0) ? '.' : 'x';
    }
    EXPECT_EQ(".xx...xx...x", pattern);
}

TEST_F(fault_call, all_from_there_on)
{
    faults("call verb=alloc_pd nth=2 count=all");
    EXPECT_EQ(0, alloc());
    EXPECT_EQ(ENOMEM, alloc());
    EXPECT_EQ(ENOMEM, alloc());
}

TEST_F(fault_call, by_chance_and_repeatable)
{
    std::string first, second;

    faults("seed value=5; call verb=alloc_pd p=0.3");
    for (unsigned i = 0; i < 300; ++i) {
        first += (alloc() == 0) ? '.' : 'x';
    }
    faults("seed value=5; call verb=alloc_pd p=0.3");
    for (unsigned i = 0; i < 300; ++i) {
        second += (alloc() == 0) ? '.' : 'x';
    }
    EXPECT_EQ(first, second);
    size_t hits = std::count(first.begin(), first.end(), 'x');
    EXPECT_GT(hits, 50u);
    EXPECT_LT(hits, 140u);
}

/* Each verb fails with an errno */
TEST_F(fault_call, any_verb)
{
    ibv_ah_attr ah_attr = {};
    ibv_send_wr *bad_send;
    ibv_recv_wr recv = {}, *bad_recv;
    ibv_qp_init_attr init = {};
    ibv_device_attr device_attr;
    ibv_port_attr port;
    ibv_qp_attr attr = {};
    union ibv_gid gid;
    ibv_wc wc;

    open();
    ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);
    init.send_cq = init.recv_cq = a->cq;
    init.qp_type                = IBV_QPT_RC;
    init.cap.max_send_wr        = 1;
    faults("call count=all errno=EIO");
    EXPECT_EQ(nullptr, ibv_get_device_list(nullptr));
    EXPECT_EQ(nullptr, ibv_open_device(dev->context->device));
    EXPECT_EQ(EIO, ibv_query_device(dev->context, &device_attr));
    EXPECT_EQ(EIO, ibv_query_port(dev->context, 1, &port));
    EXPECT_NE(0, ibv_query_gid(dev->context, 1, 0, &gid));
    EXPECT_EQ(nullptr, ibv_alloc_pd(dev->context));
    EXPECT_EQ(nullptr, ibv_reg_mr(dev->pd, a->buffer.data, 4096, 0));
    EXPECT_EQ(EIO, ibv_dereg_mr(a->buffer.mr));
    EXPECT_EQ(nullptr, ibv_create_comp_channel(dev->context));
    EXPECT_EQ(nullptr, ibv_create_cq(dev->context, 10, nullptr, nullptr, 0));
    EXPECT_EQ(EIO, errno);
    EXPECT_EQ(EIO, ibv_resize_cq(a->cq, 200));
    EXPECT_NE(0, ibv_req_notify_cq(a->cq, 0));
    EXPECT_LT(ibv_poll_cq(a->cq, 1, &wc), 0);
    EXPECT_EQ(nullptr, ibv_create_qp(dev->pd, &init));
    EXPECT_EQ(EIO, ibv_modify_qp(a->qp, &attr, IBV_QP_STATE));
    EXPECT_EQ(EIO, ibv_query_qp(a->qp, &attr, 0, &init));
    EXPECT_EQ(EIO, ibv_post_send(a->qp, &wr, &bad_send));
    EXPECT_EQ(&wr, bad_send);
    EXPECT_EQ(EIO, ibv_post_recv(a->qp, &recv, &bad_recv));
    EXPECT_EQ(&recv, bad_recv);
    EXPECT_EQ(EIO, ibv_destroy_qp(a->qp));
    EXPECT_EQ(EIO, ibv_destroy_cq(a->cq));
    EXPECT_EQ(nullptr, ibv_create_ah(dev->pd, &ah_attr));
    faults("");
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
}

/* ---- work requests and completions ---- */

class fault_wr : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        open();
        a->buffer.fill(1);
    }
};

TEST_F(fault_wr, the_nth_completes_with_a_status_and_the_rest_is_flushed)
{
    faults("wr nth=2 status=REM_OP_ERR");
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    }
    auto all = a->drain(3);
    ASSERT_EQ(3u, all.size());
    EXPECT_EQ(IBV_WC_SUCCESS, all[0].status);
    EXPECT_EQ(IBV_WC_REM_OP_ERR, all[1].status);
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, all[2].status);
    EXPECT_EQ(IBV_QPS_ERR, a->state());
}

TEST_F(fault_wr, of_one_operation)
{
    faults("wr op=RDMA_READ status=LOC_PROT_ERR");
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_READ, *b));
    EXPECT_EQ(IBV_WC_LOC_PROT_ERR, a->next().status);
}

TEST_F(fault_wr, of_one_queue_pair)
{
    faults("wr qpn=" + std::to_string(b->qp->qp_num));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    ASSERT_EQ(0, b->post(IBV_WR_RDMA_WRITE, *a));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, b->next().status);
}

TEST_F(fault_wr, a_failed_one_was_not_executed)
{
    faults("wr");
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
    EXPECT_FALSE(b->buffer.holds(1, 0, 64));
}

TEST_F(fault_wr, an_unacknowledged_one_was_executed)
{
    faults("unacked");
    ASSERT_EQ(0, b->recv(3));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
    EXPECT_TRUE(b->buffer.holds(1, 0, 64));
    EXPECT_EQ(3u, b->next().wr_id);
}

TEST_F(fault_wr, a_withheld_completion_never_comes)
{
    faults("withhold nth=2 dir=send");
    for (unsigned i = 0; i < 3; ++i) {
        ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);
        wr.wr_id       = i;
        ASSERT_EQ(0, a->post(wr));
    }
    EXPECT_EQ(0u, a->next().wr_id);
    EXPECT_EQ(2u, a->next().wr_id);
    EXPECT_TRUE(a->quiet());
}

TEST_F(fault_wr, a_duplicate_comes_once_more)
{
    ibv_wc wc[4];

    faults("duplicate dir=recv nth=2");
    ASSERT_EQ(0, b->recvs(3));
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b));
    }
    EXPECT_EQ(3u, a->drain(3).size());
    ASSERT_EQ(4, ibv_poll_cq(b->cq, 4, wc));
    EXPECT_EQ(1u, wc[3].wr_id);
    EXPECT_TRUE(b->quiet());
}

TEST_F(fault_wr, a_duplicate_can_be_of_another_request_and_status)
{
    ibv_wc wc;

    faults("duplicate nth=2 xor=0x70000 as=WR_FLUSH_ERR");
    for (unsigned i = 0; i < 3; ++i) {
        ibv_send_wr wr = a->wr(IBV_WR_RDMA_WRITE, *b);
        wr.wr_id       = 0x10000 + i;
        ASSERT_EQ(0, a->post(wr));
    }
    for (uint64_t i = 0; i < 3; ++i) {
        wc = a->next();
        EXPECT_EQ(0x10000 + i, wc.wr_id);
        EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
    }
    wc = a->next();
    EXPECT_EQ(0x60001u, wc.wr_id);
    EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
    EXPECT_EQ(a->qp->qp_num, wc.qp_num);
    EXPECT_TRUE(a->quiet());
    EXPECT_EQ(IBV_QPS_RTS, a->state());
    EXPECT_EQ(1u, fabric().fault_hits());
}

TEST_F(fault_wr, garbage_leaves_what_is_defined)
{
    unsigned spoilt = 0;

    faults("garbage count=all");
    ASSERT_EQ(0, a->recvs(20));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_RDMA_WRITE, a->next().opcode); /* a success has all fields */
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    for (uint64_t i = 0; i < 20; ++i) {
        ibv_wc wc = a->next();
        EXPECT_EQ(i, wc.wr_id);
        EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
        EXPECT_EQ(a->qp->qp_num, wc.qp_num);
        spoilt += !(wc.opcode & IBV_WC_RECV) && (wc.byte_len != 0);
    }
    EXPECT_GT(spoilt, 3u);
}

/* ---- at a time, and by the control functions ---- */

class fault_time : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        open();
    }

    /* The next event of the device, or -1 */
    int event()
    {
        ibv_async_event found;
        bool there = eventually([&] {
            struct pollfd p = {dev->context->async_fd, POLLIN, 0};
            return ::poll(&p, 1, 0) == 1;
        });

        if (!there) {
            return -1;
        }
        EXPECT_EQ(0, ibv_get_async_event(dev->context, &found));
        ibv_ack_async_event(&found);
        return found.event_type;
    }

    ibv_port_state port_state()
    {
        ibv_port_attr attr = {};

        EXPECT_EQ(0, ibv_query_port(dev->context, 1, &attr));
        return attr.state;
    }
};

TEST_F(fault_time, a_queue_pair_goes_to_error)
{
    double begin = now();

    ASSERT_EQ(0, a->recvs(2));
    faults("qp dev=fab0 qpn=" + std::to_string(a->qp->qp_num) + " at=5ms");
    ibv_qp_state before = a->state();
    if (now() < begin + 0.005) { /* the machine may have suspended this thread */
        EXPECT_EQ(IBV_QPS_RTS, before);
    }
    for (const ibv_wc &wc : a->drain(2)) {
        EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
    }
    EXPECT_GE(now(), begin + 0.005);
    EXPECT_EQ(IBV_QPS_ERR, a->state());
    EXPECT_EQ(IBV_QPS_RTS, b->state());
}

/* a and b of the fixture are paths 0 and 1, c and d here 2 and 3 */
TEST_F(fault_time, connected_paths_go_to_error_by_number_again_and_again)
{
    endpoint c(*dev), d(*dev), other(*dev);

    c.connect(d);
    d.connect(c);
    ASSERT_EQ(0, other.to_init()); /* path 4 */
    faults("qp path=0/2 at=1ms every=1ms");
    EXPECT_TRUE(eventually([&] {
        return (a->state() == IBV_QPS_ERR) && (c.state() == IBV_QPS_ERR);
    }));
    EXPECT_EQ(IBV_QPS_RTS, b->state());
    EXPECT_EQ(IBV_QPS_RTS, d.state());
    EXPECT_TRUE(eventually([&] { /* the fault may come between two states */
        return (c.to(IBV_QPS_RESET) == 0) && (c.to_init() == 0) &&
               (c.to_rtr(d.qp->qp_num, dev->gid, d.options.psn) == 0) &&
               (c.to_rts() == 0);
    }));
    EXPECT_TRUE(eventually([&] { return c.state() == IBV_QPS_ERR; }));
    EXPECT_EQ(IBV_QPS_INIT, other.state());
}

TEST_F(fault_time, a_dark_path_answers_again)
{
    qp_options patient;

    patient.timeout = 10;
    patient.retry   = 7;
    endpoint c(*dev, patient), d(*dev, patient);
    c.connect(d);
    d.connect(c);
    /* A process that is not run for 20 ms misses it */
    EXPECT_TRUE(eventually([&] {
        double begin = now();

        faults("dark path=2 at=0s for=20ms; dark dev=fab1 at=0s");
        EXPECT_EQ(0, c.post(IBV_WR_RDMA_WRITE, d));
        EXPECT_EQ(0, d.post(IBV_WR_RDMA_WRITE, c)); /* path 3 */
        EXPECT_EQ(IBV_WC_SUCCESS, d.next().status);
        EXPECT_EQ(IBV_WC_SUCCESS, c.next().status);
        if (fabric().fault_hits() == 0) {
            return false;
        }
        EXPECT_GE(now(), begin + 0.02);
        return true;
    }));
}

TEST_F(fault_time, long_sends_stay_dark)
{
    faults("dark over=64 at=0s");
    EXPECT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 64));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 65));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
}

TEST_F(fault_time, darkness_begins_at_a_time_and_outlasts_the_retries)
{
    double begin = now();

    faults("dark path=0/2 at=30ms for=10s every=20s");
    EXPECT_TRUE(eventually([&] {
        if (a->post(IBV_WR_RDMA_WRITE, *b) == 0) {
            (void)a->next();
        }
        return a->state() == IBV_QPS_ERR;
    }));
    EXPECT_GE(now(), begin + 0.03);
    EXPECT_EQ(4u, fabric().fault_hits()); /* attempts of the last one */
}

TEST_F(fault_time, darkness_comes_back)
{
    unsigned changes = 0;
    bool was_dark    = true;
    qp_options patient;

    patient.timeout = 14; /* 67 ms: a busy machine makes up for few retries at once */
    patient.retry   = 7;
    endpoint c(*dev, patient), d(*dev, patient);
    c.connect(d);
    d.connect(c);
    faults("dark at=0s for=3ms every=10ms");
    EXPECT_TRUE(eventually([&] {
        uint64_t hits = fabric().fault_hits();

        EXPECT_EQ(0, c.post(IBV_WR_RDMA_WRITE, d));
        EXPECT_EQ(IBV_WC_SUCCESS, c.next().status); /* a retry comes through */
        if ((fabric().fault_hits() != hits) != was_dark) {
            was_dark = !was_dark;
            ++changes;
        }
        return changes == 6;
    }));
}

TEST_F(fault_time, a_queue_pair_goes_to_error_now)
{
    std::string name = dev->name();

    ASSERT_EQ(0, fabric().qp_error(name.c_str(), a->qp->qp_num));
    EXPECT_EQ(IBV_QPS_ERR, a->state());
    EXPECT_EQ(ENOENT, fabric().qp_error(name.c_str(), 0xabcdef));
    EXPECT_EQ(ENODEV, fabric().qp_error("nonsense", a->qp->qp_num));
}

TEST_F(fault_time, a_port_goes_down_and_up)
{
    faults("port dev=fab0 at=1ms for=30ms");
    EXPECT_EQ(IBV_EVENT_PORT_ERR, event());
    EXPECT_EQ(IBV_PORT_DOWN, port_state());
    EXPECT_EQ(IBV_EVENT_PORT_ACTIVE, event());
    EXPECT_EQ(IBV_PORT_ACTIVE, port_state());
}

TEST_F(fault_time, a_port_is_not_left_down_by_a_script_that_ends)
{
    faults("port dev=fab0 at=1ms for=1000s");
    EXPECT_EQ(IBV_EVENT_PORT_ERR, event());
    faults("");
    EXPECT_EQ(IBV_EVENT_PORT_ACTIVE, event());
    EXPECT_EQ(IBV_PORT_ACTIVE, port_state());
}

/* What is connected goes on; an address handle of before leads nowhere */
TEST_F(fault_time, gids_have_other_indexes)
{
    const std::string file = "/sys/class/infiniband/fab0/ports/1/gid_attrs/types/";
    union ibv_gid gid;
    endpoint c(*dev);

    if (dev->port.link_layer != IBV_LINK_LAYER_ETHERNET) {
        GTEST_SKIP() << "the table of InfiniBand does not move";
    }

    ASSERT_EQ(0, c.to_init());
    EXPECT_EQ(0, access((file + "1").c_str(), R_OK));
    ASSERT_EQ(0, fabric().act("gids to=3", nullptr, 0));
    EXPECT_EQ(IBV_EVENT_GID_CHANGE, event());
    EXPECT_NE(0, access((file + "1").c_str(), R_OK));
    EXPECT_EQ(0, access((file + "4").c_str(), R_OK));
    ASSERT_EQ(0, ibv_query_gid(dev->context, 1, 4, &gid));
    EXPECT_EQ(0, memcmp(&gid, &dev->gid, sizeof(gid)));
    EXPECT_EQ(EINVAL, c.to_rtr(a->qp->qp_num, dev->gid, 0)); /* index 1 */
    EXPECT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    ASSERT_EQ(0, fabric().act("gids to=1000", nullptr, 0)); /* gone */
    EXPECT_EQ(IBV_EVENT_GID_CHANGE, event());
    EXPECT_NE(0, access((file + "4").c_str(), R_OK));
    ASSERT_EQ(0, fabric().act("gids to=0", nullptr, 0));
    EXPECT_EQ(IBV_EVENT_GID_CHANGE, event());
    EXPECT_EQ(0, c.to_rtr(a->qp->qp_num, dev->gid, 0));
}

TEST_F(fault_time, a_device_fails_for_good)
{
    std::string name = dev->name();
    ibv_port_attr attr = {};

    EXPECT_EQ(ENODEV, fabric().device("nonsense", 0));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    ASSERT_EQ(0, fabric().device(name.c_str(), 0));
    EXPECT_EQ(IBV_EVENT_DEVICE_FATAL, event());
    EXPECT_EQ(IBV_EVENT_PORT_ERR, event());
    EXPECT_EQ(EIO, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(EIO, ibv_query_port(dev->context, 1, &attr));
    EXPECT_EQ(nullptr, ibv_reg_mr(dev->pd, &attr, sizeof(attr), 0));
    EXPECT_EQ(EIO, errno);
    ASSERT_EQ(0, fabric().device(name.c_str(), 1));
    EXPECT_EQ(IBV_EVENT_PORT_ACTIVE, event());
    EXPECT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
}

TEST_F(fault_time, with_the_port_down_sends_fail)
{
    std::string name = dev->name();

    ASSERT_EQ(0, fabric().port(name.c_str(), 1, 0));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b));
    EXPECT_NE(IBV_WC_SUCCESS, a->next().status);
    ASSERT_EQ(0, fabric().port(name.c_str(), 1, 1));
    EXPECT_EQ(IBV_EVENT_PORT_ERR, event());
    EXPECT_EQ(IBV_EVENT_PORT_ACTIVE, event());
    EXPECT_EQ(EINVAL, fabric().port(name.c_str(), 9, 0));
    EXPECT_EQ(ENODEV, fabric().port("nonsense", 1, 0));
}

TEST_F(fault_time, a_short_loss_of_the_peer_s_port_is_retried)
{
    qp_options patient;

    patient.timeout = 14;
    patient.retry   = 7;
    device far(1);
    endpoint c(*dev, patient), d(far, patient);
    c.connect(d);
    d.connect(c);
    ASSERT_EQ(0, fabric().port(far.name().c_str(), 1, 0));
    ASSERT_EQ(0, c.post(IBV_WR_RDMA_WRITE, d));
    EXPECT_TRUE(c.quiet());
    ASSERT_EQ(0, fabric().port(far.name().c_str(), 1, 1));
    EXPECT_EQ(IBV_WC_SUCCESS, c.next().status);
}

TEST_F(fault_time, an_event_is_raised)
{
    ASSERT_EQ(0, fabric().event(dev->context, IBV_EVENT_QP_FATAL,
                                (uintptr_t)a->qp));
    EXPECT_EQ(IBV_EVENT_QP_FATAL, event());
    EXPECT_EQ(EINVAL, fabric().event(dev->context, 1000, 0));
}

TEST_F(fault_time, an_event_of_a_queue_pair_is_raised_by_its_number)
{
    const vqp_fabric_t &f = fabric();
    std::string name      = dev->name();

    for (int type : {IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_CQ_ERR,
                     IBV_EVENT_PORT_ERR, IBV_EVENT_DEVICE_FATAL}) {
        ASSERT_EQ(0, f.qp_event(name.c_str(), a->qp->qp_num, type));
        EXPECT_EQ(type, event());
    }
    EXPECT_EQ(IBV_QPS_RTS, a->state());
    EXPECT_EQ(ENOENT, f.qp_event(name.c_str(), 0xabcdef, IBV_EVENT_QP_FATAL));
    EXPECT_EQ(ENODEV, f.qp_event("nonsense", 17, IBV_EVENT_QP_FATAL));
    EXPECT_EQ(EINVAL, f.qp_event(name.c_str(), a->qp->qp_num,
                                 IBV_EVENT_SRQ_ERR));
}

TEST_F(fault_time, traffic_is_counted)
{
    vqp_fabric_traffic_t traffic, port;
    std::string name = dev->name();

    ASSERT_EQ(0, b->recv());
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE, *b, 100));
    ASSERT_EQ(0, a->post(IBV_WR_RDMA_WRITE_WITH_IMM, *b, 10));
    EXPECT_EQ(2u, a->drain(2).size());
    b->next();
    ASSERT_EQ(0, fabric().qp_traffic(name.c_str(), a->qp->qp_num, &traffic));
    EXPECT_EQ(2u, traffic.wrs);
    EXPECT_EQ(110u, traffic.bytes);
    EXPECT_EQ(2u, traffic.cqes);
    ASSERT_EQ(0, fabric().qp_traffic(name.c_str(), b->qp->qp_num, &traffic));
    EXPECT_EQ(0u, traffic.wrs);
    EXPECT_EQ(1u, traffic.messages);
    ASSERT_EQ(0, fabric().port_traffic(name.c_str(), 1, &port));
    EXPECT_GE(port.wrs, 2u);
    EXPECT_GE(port.bytes, 110u);
}
