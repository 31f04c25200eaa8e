/*
 * Devices, memory and queue pairs of the tests of the software fabric.
 */
#include "fabric_fixture.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

const vqp_fabric_t &fabric()
{
    static const vqp_fabric_t *table = vqp_fabric();

    if (table == nullptr) {
        fprintf(stderr, "the fabric is not loaded\n");
        abort();
    }

    return *table;
}

double now()
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds of the machine's time, which is never virtual */
static double machine_time()
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

bool eventually(const std::function<bool()> &condition)
{
    const char *clock = getenv("VQP_FABRIC_CLOCK");
    bool is_virtual   = (clock != nullptr) && (std::string(clock) == "virtual");
    double end        = machine_time() + 120;
    double before     = now();

    while (!condition()) {
        if (machine_time() > end) {
            return false;
        }
        if (!is_virtual || (now() == before)) {
            usleep(20);
        }
        before = now();
    }

    return true;
}

device::device(unsigned index)
{
    int count;
    ibv_device **list = ibv_get_device_list(&count);

    EXPECT_NE(nullptr, list);
    EXPECT_LT((int)index, count);
    context = ibv_open_device(list[index]);
    EXPECT_NE(nullptr, context);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    EXPECT_NE(nullptr, pd);
    EXPECT_EQ(0, ibv_query_port(context, 1, &port));
    EXPECT_EQ(0, ibv_query_gid(context, 1,
                               port.link_layer == IBV_LINK_LAYER_ETHERNET,
                               &gid));
}

device::~device()
{
    EXPECT_EQ(0, ibv_dealloc_pd(pd));
    EXPECT_EQ(0, ibv_close_device(context));
}

memory::memory(device &dev, size_t size_, unsigned access) : size(size_)
{
    data = (char*)mmap(nullptr, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE((char*)MAP_FAILED, data);
    mr = ibv_reg_mr(dev.pd, data, size, access);
    EXPECT_NE(nullptr, mr);
}

memory::~memory()
{
    deregister();
    munmap(data, size);
}

void memory::deregister()
{
    if (mr != nullptr) {
        EXPECT_EQ(0, ibv_dereg_mr(mr));
        mr = nullptr;
    }
}

static char pattern(unsigned seed, size_t i)
{
    return (char)((i * 2654435761u + seed * 40503u + (i >> 12)) >> 7);
}

void memory::fill(unsigned seed)
{
    for (size_t i = 0; i < size; ++i) {
        data[i] = pattern(seed, i);
    }
}

bool memory::holds(unsigned seed, size_t offset, size_t length) const
{
    for (size_t i = offset; i < offset + length; ++i) {
        if (data[i] != pattern(seed, i)) {
            return false;
        }
    }

    return true;
}

ibv_sge memory::sge(size_t offset, size_t length) const
{
    return {addr(offset), (uint32_t)length, (mr == nullptr) ? 0 : mr->lkey};
}

endpoint::endpoint(device &dev_, const qp_options &options_) :
    dev(dev_), options(options_), buffer(dev_, 1 << 20)
{
    ibv_qp_init_attr attr = {};

    if (options.channel) {
        channel = ibv_create_comp_channel(dev.context);
        EXPECT_NE(nullptr, channel);
    }

    cq = options.cq;
    if (cq == nullptr) {
        cq = ibv_create_cq(dev.context, options.cqe, this, channel, 0);
        EXPECT_NE(nullptr, cq);
    }

    attr.send_cq             = cq;
    attr.recv_cq             = cq;
    attr.srq                 = options.srq;
    attr.qp_type             = options.type;
    attr.sq_sig_all          = options.sig_all;
    attr.cap.max_send_wr     = options.sends;
    attr.cap.max_recv_wr     = options.srq ? 0 : options.recvs;
    attr.cap.max_send_sge    = options.sge;
    attr.cap.max_recv_sge    = options.srq ? 0 : options.sge;
    attr.cap.max_inline_data = options.inline_size;
    qp                       = ibv_create_qp(dev.pd, &attr);
    EXPECT_NE(nullptr, qp) << strerror(errno);
    cap = attr.cap;
}

endpoint::~endpoint()
{
    destroy_qp();
    if (options.cq == nullptr) {
        EXPECT_EQ(0, ibv_destroy_cq(cq));
    }
    if (channel != nullptr) {
        EXPECT_EQ(0, ibv_destroy_comp_channel(channel));
    }
}

/* As a well-behaved program: nothing is left behind in the CQ */
void endpoint::destroy_qp()
{
    if (qp != nullptr) {
        EXPECT_EQ(0, to(IBV_QPS_RESET));
        EXPECT_EQ(0, ibv_destroy_qp(qp));
        qp = nullptr;
    }
}

int endpoint::to(ibv_qp_state state)
{
    ibv_qp_attr attr = {};

    attr.qp_state = state;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

int endpoint::to_init()
{
    ibv_qp_attr attr = {};
    int mask         = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

    attr.qp_state        = IBV_QPS_INIT;
    attr.port_num        = 1;
    attr.qp_access_flags = options.access & ~(unsigned)IBV_ACCESS_LOCAL_WRITE;
    attr.qkey            = options.qkey;
    mask |= (options.type == IBV_QPT_UD) ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    return ibv_modify_qp(qp, &attr, mask);
}

int endpoint::to_rtr(uint32_t dest_qpn, const union ibv_gid &gid, uint32_t rq_psn)
{
    ibv_qp_attr attr = {};
    bool is_roce     = dev.port.link_layer == IBV_LINK_LAYER_ETHERNET;

    attr.qp_state               = IBV_QPS_RTR;
    attr.path_mtu               = IBV_MTU_1024;
    attr.dest_qp_num            = dest_qpn;
    attr.rq_psn                 = rq_psn;
    attr.max_dest_rd_atomic     = options.max_rd_atomic;
    attr.min_rnr_timer          = options.min_rnr_timer;
    attr.ah_attr.port_num       = 1;
    attr.ah_attr.dlid           = dev.port.lid;
    attr.ah_attr.is_global      = is_roce;
    attr.ah_attr.grh.dgid       = gid;
    attr.ah_attr.grh.sgid_index = is_roce;
    attr.ah_attr.grh.hop_limit  = 64;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                         IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int endpoint::to_rts()
{
    ibv_qp_attr attr = {};
    int mask         = IBV_QP_STATE | IBV_QP_SQ_PSN;

    attr.qp_state      = IBV_QPS_RTS;
    attr.sq_psn        = options.psn;
    attr.timeout       = options.timeout;
    attr.retry_cnt     = options.retry;
    attr.rnr_retry     = options.rnr_retry;
    attr.max_rd_atomic = options.max_rd_atomic;
    if (options.type != IBV_QPT_UD) {
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return ibv_modify_qp(qp, &attr, mask);
}

void endpoint::connect(endpoint &peer)
{
    ASSERT_EQ(0, to_init());
    ASSERT_EQ(0, to_rtr(peer.qp->qp_num, peer.dev.gid, peer.options.psn));
    ASSERT_EQ(0, to_rts());
}

void endpoint::start_ud()
{
    ASSERT_EQ(0, to_init());
    ASSERT_EQ(0, to(IBV_QPS_RTR));
    ASSERT_EQ(0, to_rts());
}

ibv_qp_attr endpoint::query()
{
    ibv_qp_init_attr init;
    ibv_qp_attr attr = {};

    EXPECT_EQ(0, ibv_query_qp(qp, &attr,
                              IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN,
                              &init));
    return attr;
}

ibv_qp_state endpoint::state()
{
    return query().qp_state;
}

ibv_send_wr endpoint::wr(ibv_wr_opcode op, endpoint &peer, size_t length)
{
    bool is_atomic = (op == IBV_WR_ATOMIC_CMP_AND_SWP) ||
                     (op == IBV_WR_ATOMIC_FETCH_AND_ADD);
    ibv_send_wr wr = {};

    sge           = buffer.sge(0, length);
    wr.opcode     = op;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list    = &sge;
    wr.num_sge    = (length == 0) ? 0 : 1;
    if (is_atomic) {
        wr.wr.atomic.remote_addr = peer.buffer.addr();
        wr.wr.atomic.rkey        = peer.buffer.mr->rkey;
    } else {
        wr.wr.rdma.remote_addr = peer.buffer.addr();
        wr.wr.rdma.rkey        = peer.buffer.mr->rkey;
    }
    return wr;
}

int endpoint::post(ibv_send_wr wr)
{
    ibv_send_wr *bad;

    return ibv_post_send(qp, &wr, &bad);
}

int endpoint::post(ibv_wr_opcode op, endpoint &peer, size_t length)
{
    return post(wr(op, peer, length));
}

int endpoint::recv(uint64_t wr_id, size_t offset, size_t length)
{
    ibv_sge list   = buffer.sge(offset, length);
    ibv_recv_wr wr = {}, *bad;

    wr.wr_id   = wr_id;
    wr.sg_list = &list;
    wr.num_sge = (length == 0) ? 0 : 1;
    return ibv_post_recv(qp, &wr, &bad);
}

int endpoint::recvs(unsigned count)
{
    int rc = 0;

    for (unsigned i = 0; (i < count) && (rc == 0); ++i) {
        rc = recv(i);
    }

    return rc;
}

ibv_wc endpoint::next()
{
    ibv_wc wc = {};
    int found = 0;

    EXPECT_TRUE(eventually([&] { return (found = poll(&wc)) != 0; }));
    EXPECT_EQ(1, found);
    return wc;
}

bool endpoint::quiet()
{
    ibv_wc wc;

    usleep(1000);
    return poll(&wc) == 0;
}

std::vector<ibv_wc> endpoint::drain(size_t count)
{
    std::vector<ibv_wc> all;
    ibv_wc wc;

    eventually([&] {
        while ((all.size() < count) && (poll(&wc) == 1)) {
            all.push_back(wc);
        }
        return all.size() == count;
    });
    EXPECT_EQ(count, all.size());
    return all;
}

void fabric_test::SetUp()
{
    fabric().faults(nullptr, nullptr, 0);
    fabric().violations_reset();
    dev.reset(new device);
}

void fabric_test::TearDown()
{
    vqp_fabric_objects_t left;
    char text[400];

    fabric().faults(nullptr, nullptr, 0);
    a.reset();
    b.reset();
    dev.reset();
    fabric().violation_text(text, sizeof(text));
    EXPECT_EQ(0u, fabric().violations(nullptr)) << text;
    fabric().violations_reset();
    fabric().objects(&left);
    EXPECT_EQ(0u, left.contexts + left.pds + left.mrs + left.channels +
                  left.cqs + left.srqs + left.qps + left.ahs);
}

void fabric_test::open(const qp_options &options)
{
    open(options, options);
}

void fabric_test::open(const qp_options &options_a, const qp_options &options_b)
{
    a.reset(new endpoint(*dev, options_a));
    b.reset(new endpoint(*dev, options_b));
    a->connect(*b);
    b->connect(*a);
}

void fabric_test::faults(const std::string &script)
{
    char error[128] = "";

    ASSERT_EQ(0, fabric().faults(script.c_str(), error, sizeof(error)))
            << error;
}

void fabric_test::expect_violations(const std::string &rule)
{
    char text[400];

    fabric().violation_text(text, sizeof(text));
    EXPECT_GT(fabric().violations(rule.c_str()), 0u) << rule;
    EXPECT_EQ(fabric().violations(nullptr), fabric().violations(rule.c_str()))
            << text;
    fabric().violations_reset();
}
