/*
 * Two processes: the same operations, and a peer that dies.
 */
#include "fabric_fixture.h"

#include <sstream>
#include <unistd.h>

/* Connection data of one side for the other */
static std::string address(const endpoint &e)
{
    std::ostringstream out;

    out << e.qp->qp_num << ' ' << e.buffer.addr() << ' ' << e.buffer.mr->rkey;
    return out.str();
}

struct remote {
    uint32_t qpn;
    uint64_t addr;
    uint32_t rkey;

    explicit remote(const std::string &line)
    {
        std::istringstream in(line);

        in >> qpn >> addr >> rkey;
    }
};

static void connect(endpoint &e, const remote &r)
{
    ASSERT_EQ(0, e.to_init());
    ASSERT_EQ(0, e.to_rtr(r.qpn, e.dev.gid, e.options.psn));
    ASSERT_EQ(0, e.to_rts());
}

/* A peer with receives posted, that answers each immediate by one of its own,
 * with what it found in its buffer */
VQP_ROLE(echo)
{
    device dev;
    endpoint e(dev);
    role_write(address(e));
    remote r(role_read());
    connect(e, r);
    for (unsigned i = 0; i < 16; ++i) {
        EXPECT_EQ(0, e.recv(i));
    }
    role_write("ready");
    for (;;) {
        ibv_wc wc = e.next();
        if (wc.status != IBV_WC_SUCCESS) {
            return 1;
        }
        if (!(wc.opcode & IBV_WC_RECV)) {
            continue;
        }
        if (wc.imm_data == 0) {
            return ::testing::Test::HasFailure();
        }
        EXPECT_EQ(0, e.recv());
        ibv_send_wr wr         = e.wr(IBV_WR_RDMA_WRITE_WITH_IMM, e,
                                      wc.byte_len);
        wr.imm_data            = wc.imm_data;
        wr.wr.rdma.remote_addr = r.addr + (1 << 19);
        wr.wr.rdma.rkey        = r.rkey;
        EXPECT_EQ(0, e.post(wr));
    }
}

class two_processes : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        peer.reset(new process("echo"));
        there.reset(new remote(peer->read()));
        a.reset(new endpoint(*dev));
        connect(*a, *there);
        ASSERT_EQ(0, a->recvs(16));
        peer->write(address(*a));
        ASSERT_EQ("ready", peer->read());
    }

    ibv_send_wr wr(ibv_wr_opcode op, size_t length)
    {
        ibv_send_wr wr = a->wr(op, *a, length);

        if ((op == IBV_WR_ATOMIC_FETCH_AND_ADD) ||
            (op == IBV_WR_ATOMIC_CMP_AND_SWP)) {
            wr.wr.atomic.remote_addr = there->addr;
            wr.wr.atomic.rkey        = there->rkey;
        } else {
            wr.wr.rdma.remote_addr = there->addr;
            wr.wr.rdma.rkey        = there->rkey;
        }
        return wr;
    }

    void bye()
    {
        ibv_send_wr last = wr(IBV_WR_RDMA_WRITE_WITH_IMM, 0);

        last.imm_data = 0;
        ASSERT_EQ(0, a->post(last));
        EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
        EXPECT_EQ(0, peer->wait());
    }

    std::unique_ptr<process> peer;
    std::unique_ptr<remote>  there;
};

TEST_F(two_processes, an_echo_comes_back_complete)
{
    for (size_t length : {0, 1, 100, 4096, 500000}) {
        ibv_send_wr ping = wr(IBV_WR_RDMA_WRITE_WITH_IMM, length);

        a->buffer.fill((unsigned)length);
        ping.imm_data = 5;
        ASSERT_EQ(0, a->post(ping));
        for (const ibv_wc &wc : a->drain(2)) {
            EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
        }
        EXPECT_EQ(0, memcmp(a->buffer.data, a->buffer.data + (1 << 19),
                            length));
        ASSERT_EQ(0, a->recv());
    }
    bye();
}

TEST_F(two_processes, read_and_atomics)
{
    uint64_t *word = (uint64_t*)a->buffer.data;

    *word = 40;
    ASSERT_EQ(0, a->post(wr(IBV_WR_RDMA_WRITE, 8)));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    ibv_send_wr add           = wr(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    add.wr.atomic.compare_add = 2;
    ASSERT_EQ(0, a->post(add));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(40u, *word);
    ASSERT_EQ(0, a->post(wr(IBV_WR_RDMA_READ, 8)));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    EXPECT_EQ(42u, *word);
    bye();
}

TEST_F(two_processes, a_peer_that_is_killed_does_not_answer)
{
    ASSERT_EQ(0, a->post(wr(IBV_WR_RDMA_WRITE, 8)));
    EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    peer->kill();
    ASSERT_EQ(0, a->post(wr(IBV_WR_RDMA_WRITE, 8)));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
    EXPECT_EQ(IBV_QPS_ERR, a->state());
}

TEST_F(two_processes, a_peer_that_is_killed_in_the_middle)
{
    for (unsigned i = 0; i < 8; ++i) {
        ibv_send_wr ping = wr(IBV_WR_RDMA_WRITE_WITH_IMM, 100000);
        ping.imm_data    = 1;
        ASSERT_EQ(0, a->post(ping));
        if (i == 4) {
            peer->kill();
        }
    }
    unsigned failed = 0;
    ibv_wc wc;
    EXPECT_TRUE(eventually([&] {
        while (a->poll(&wc) == 1) {
            failed += wc.status != IBV_WC_SUCCESS;
        }
        return failed > 0;
    }));
}

TEST_F(two_processes, a_new_process_replaces_a_dead_one)
{
    peer->kill();
    a.reset();
    SetUp();
    ibv_send_wr ping = wr(IBV_WR_RDMA_WRITE_WITH_IMM, 100);
    ping.imm_data    = 1;
    ASSERT_EQ(0, a->post(ping));
    EXPECT_EQ(2u, a->drain(2).size());
    bye();
}

/* Adds one to a word of the test, many times */
VQP_ROLE(adder)
{
    device dev;
    endpoint e(dev);
    role_write(address(e));
    remote r(role_read());
    connect(e, r);
    role_write("ready");
    for (unsigned i = 0; i < 20000; ++i) {
        ibv_send_wr wr           = e.wr(IBV_WR_ATOMIC_FETCH_AND_ADD, e, 8);
        wr.wr.atomic.remote_addr = r.addr;
        wr.wr.atomic.rkey        = r.rkey;
        wr.wr.atomic.compare_add = 1;
        EXPECT_EQ(0, e.post(wr));
        EXPECT_EQ(IBV_WC_SUCCESS, e.next().status);
    }
    return ::testing::Test::HasFailure();
}

TEST_F(fabric_test, atomics_of_two_processes_lose_nothing)
{
    open();
    endpoint c(*dev);
    process other("adder");
    remote r(other.read());
    connect(c, r);
    uint64_t *word = (uint64_t*)c.buffer.data;
    other.write(address(c));
    ASSERT_EQ("ready", other.read());
    for (unsigned i = 0; i < 20000; ++i) {
        ibv_send_wr wr           = a->wr(IBV_WR_ATOMIC_FETCH_AND_ADD, *b, 8);
        wr.wr.atomic.remote_addr = c.buffer.addr();
        wr.wr.atomic.rkey        = c.buffer.mr->rkey;
        wr.wr.atomic.compare_add = 1;
        ASSERT_EQ(0, a->post(wr));
        EXPECT_EQ(IBV_WC_SUCCESS, a->next().status);
    }
    EXPECT_EQ(0, other.wait());
    EXPECT_EQ(40000u, *word);
}

/* The same, by the script that all processes of a job have */
class killed_by_script : public two_processes {
protected:
    void SetUp() override
    {
        setenv("VQP_FABRIC_ROLE", "echo", 1);
        setenv("VQP_FABRIC_FAULTS",
               "kill role=nobody; kill role=echo op=RDMA_WRITE_WITH_IMM nth=3",
               1);
        two_processes::SetUp();
        unsetenv("VQP_FABRIC_ROLE");
        unsetenv("VQP_FABRIC_FAULTS");
    }
};

TEST_F(killed_by_script, at_its_third_answer)
{
    for (unsigned i = 1; i <= 3; ++i) {
        ibv_send_wr ping = wr(IBV_WR_RDMA_WRITE_WITH_IMM, 8);

        ping.imm_data = i;
        ASSERT_EQ(0, a->post(ping));
        EXPECT_EQ(i == 3 ? 1u : 2u, a->drain(i == 3 ? 1 : 2).size());
    }
    EXPECT_EQ(-1, peer->wait()); /* by a signal */
    ASSERT_EQ(0, a->post(wr(IBV_WR_RDMA_WRITE, 8)));
    EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, a->next().status);
}

/* The same, in the middle of it: the receive has its completion, and is in the queue */
class killed_in_the_middle : public two_processes {
protected:
    void SetUp() override
    {
        setenv("VQP_FABRIC_ROLE", "echo", 1);
        setenv("VQP_FABRIC_FAULTS",
               "kill role=echo op=RDMA_WRITE_WITH_IMM nth=3 part=1", 1);
        two_processes::SetUp();
        unsetenv("VQP_FABRIC_ROLE");
        unsetenv("VQP_FABRIC_FAULTS");
        for (unsigned i = 1; i <= 3; ++i) {
            ibv_send_wr ping = wr(IBV_WR_RDMA_WRITE_WITH_IMM, 8);

            ping.imm_data = i;
            ASSERT_EQ(0, a->post(ping));
            recvs += (i < 3) ? received(a->drain(2)) : 0;
        }
        EXPECT_EQ(-1, peer->wait());
    }

    static unsigned received(const std::vector<ibv_wc> &wcs)
    {
        unsigned count = 0;

        for (const ibv_wc &wc : wcs) {
            count += (wc.opcode & IBV_WC_RECV) != 0;
        }
        return count;
    }

    unsigned recvs = 0;
};

TEST_F(killed_in_the_middle, each_receive_completes_once)
{
    ASSERT_EQ(2u, recvs);
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    /* of the third write, its answer, and the other receives */
    EXPECT_EQ(1u + 1 + 13, a->drain(15).size());
    EXPECT_TRUE(a->quiet());
}

TEST_F(killed_in_the_middle, also_if_it_was_polled_before)
{
    EXPECT_EQ(2u, a->drain(2).size());
    ASSERT_EQ(0, a->to(IBV_QPS_ERR));
    EXPECT_EQ(13u, a->drain(13).size());
    EXPECT_TRUE(a->quiet());
}

/* The kernel frees the slot before it pushes the completion: whoever polls that may post */
class rxe_killed_in_the_middle : public killed_in_the_middle {
};

TEST_F(rxe_killed_in_the_middle, the_slot_of_a_polled_receive_is_free)
{
    const unsigned left = 16 - 3; /* posted by SetUp(), and not consumed */

    ASSERT_EQ(2u, a->drain(2).size());
    ASSERT_LT(left, a->cap.max_recv_wr);
    for (unsigned i = left; i < a->cap.max_recv_wr; ++i) {
        ASSERT_EQ(0, a->recv()) << i << " are posted";
    }
}
