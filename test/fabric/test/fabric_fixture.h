/*
 * What the tests of the software fabric share: a device, a queue pair with all
 * it needs, connected pairs, a second process. They use verbs as any program
 * does, and fabric.h to make faults and to look behind the stage.
 *
 * A suite whose name begins with that of a layout (main.cc) runs on a fabric
 * of that kind, all others on the default one.
 */
#ifndef VQP_FABRIC_FIXTURE_H
#define VQP_FABRIC_FIXTURE_H

/* Before the C headers below: it has C++ templates of its own */
#include <infiniband/verbs.h>

#include "../fabric.h"
#include "test/lib/process.h"

#include <gtest/gtest.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

/* The control functions */
const vqp_fabric_t &fabric();

double now(); /* seconds, monotonic */

/* Wait for a condition, mostly asleep. Not longer than two minutes of the machine's
 * time, also with the virtual clock: only what hangs takes longer */
bool eventually(const std::function<bool()> &condition);

/* An open device with a protection domain */
class device {
public:
    explicit device(unsigned index = 0);
    ~device();
    device(const device &)            = delete;
    device &operator=(const device &) = delete;
    std::string name() const { return ibv_get_device_name(context->device); }

    ibv_context   *context = nullptr;
    ibv_pd        *pd      = nullptr;
    ibv_port_attr port;
    union ibv_gid gid; /* of index 1: RoCE v2 on IPv4 */
};

/* Registered memory, all zeros */
class memory {
public:
    memory(device &dev, size_t size, unsigned access = all);
    ~memory();
    memory(const memory &)            = delete;
    memory &operator=(const memory &) = delete;
    void deregister();
    void fill(unsigned seed);
    bool holds(unsigned seed, size_t offset, size_t length) const;
    uint64_t addr(size_t offset = 0) const { return (uintptr_t)data + offset; }
    ibv_sge sge(size_t offset, size_t length) const;

    static constexpr unsigned all =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

    char   *data;
    size_t size;
    ibv_mr *mr;
};

struct qp_options {
    ibv_qp_type type          = IBV_QPT_RC;
    uint32_t    sends         = 32;
    uint32_t    recvs         = 32;
    uint32_t    sge           = 4;
    uint32_t    inline_size   = 64;
    int         sig_all       = 0;
    int         cqe           = 128;
    bool        channel       = false;
    ibv_srq     *srq          = nullptr;
    ibv_cq      *cq           = nullptr; /* of another owner */
    unsigned    access        = memory::all;
    uint8_t     timeout       = 10; /* 4.2 ms */
    uint8_t     retry         = 2;
    uint8_t     rnr_retry     = 7;
    uint8_t     min_rnr_timer = 1;  /* 10 us */
    uint8_t     max_rd_atomic = 4;
    uint32_t    psn           = 1000; /* of the first packet that it sends */
    uint32_t    qkey          = 0x11111111;
};

/* A queue pair with its CQ and a registered buffer */
class endpoint {
public:
    explicit endpoint(device &dev, const qp_options &options = {});
    ~endpoint();
    endpoint(const endpoint &)            = delete;
    endpoint &operator=(const endpoint &) = delete;

    /* States; 0 or the result of ibv_modify_qp */
    int to_init();
    int to_rtr(uint32_t dest_qpn, const union ibv_gid &gid, uint32_t rq_psn);
    int to_rts();
    int to(ibv_qp_state state);
    void connect(endpoint &peer); /* this side, up to RTS */
    void start_ud();              /* the same, without a peer */
    ibv_qp_state state();
    ibv_qp_attr query();
    void destroy_qp();

    /* A WR with all its defaults: signaled, the first bytes of the buffer to
     * the same place of the peer's */
    ibv_send_wr wr(ibv_wr_opcode op, endpoint &peer, size_t length = 64);
    int post(ibv_send_wr wr);
    int post(ibv_wr_opcode op, endpoint &peer, size_t length = 64);
    int recv(uint64_t wr_id = 0, size_t offset = 0, size_t length = 0);
    int recvs(unsigned count);

    int poll(ibv_wc *wc) { return ibv_poll_cq(cq, 1, wc); }
    ibv_wc next();                   /* fails the test if there is none */
    bool quiet();                    /* nothing to poll */
    std::vector<ibv_wc> drain(size_t count);

    device           &dev;
    qp_options       options;
    memory           buffer;
    ibv_comp_channel *channel = nullptr;
    ibv_cq           *cq      = nullptr;
    ibv_qp           *qp      = nullptr;
    ibv_qp_cap       cap;
    ibv_sge          sge; /* of the last wr() */
};

/* Two connected queue pairs, of one device, in one process. No test may leave
 * a violation unnoticed: see expect_violations(). */
class fabric_test : public ::testing::Test {
protected:
    void SetUp() override;
    void TearDown() override;

    /* Both sides with these options, connected */
    void open(const qp_options &options = {});
    void open(const qp_options &options_a, const qp_options &options_b);
    void faults(const std::string &script);

    /* Violations against this rule were made on purpose: so many, at least one */
    void expect_violations(const std::string &rule);

    std::unique_ptr<device>   dev;
    std::unique_ptr<endpoint> a, b;
};

#endif
