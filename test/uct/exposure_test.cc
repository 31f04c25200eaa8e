/*
 * What the keys of a connection expose. A peer of bare verbs connects by the
 * protocol, and then accesses memory outside of its rights.
 */
#include "uct_fixture.h"

#include <infiniband/verbs.h>

/* C++ has templates in the first, C linkage is for the rest */
extern "C" {
#include "core/conn/addr.h"
#include "core/data/record.h"
#include "core/conn/wire.h"
#include "verbs/gid.h"
#include "verbs/port.h"
#include "verbs/qp.h"
#include "verbs/ud.h"
}

/* A control queue pair, and queue pairs for one work request each */
class raw_peer {
public:
    static constexpr unsigned PATHS = 4;

    raw_peer(const node &victim, uint64_t cookie) : cookie(cookie)
    {
        std::string text           = victim.address();
        vqp_ib_ud_params_t params  = {};
        vqp_ib_qp_params_t qp_size = {};

        EXPECT_EQ(VQP_OK, vqp_iface_addr_unpack(
                                  text.data() + victim.attr.device_addr_len,
                                  SIZE_MAX, &victim_addr));
        EXPECT_EQ(VQP_OK, vqp_ib_dev_open(&dev, devices()[0].c_str()));
        EXPECT_EQ(VQP_OK, vqp_ib_port_query(&dev, 1, &port));
        EXPECT_EQ(VQP_OK, vqp_ib_gid_select(&dev, &port, VQP_IB_GID_AUTO,
                                            &gid));
        EXPECT_EQ(VQP_OK, vqp_ib_resolver_init(&resolver, &dev,
                                               port.link == VQP_IB_LINK_ETH));
        params.dev       = &dev;
        params.resolver  = &resolver;
        params.port      = &port;
        params.gid       = &gid;
        params.hop_limit = 64;
        params.num_recvs = params.num_sends = params.num_ahs = 16;
        EXPECT_EQ(VQP_OK, vqp_ib_ud_init(&ud, &params));

        cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
        EXPECT_NE(nullptr, cq);
        mr = ibv_reg_mr(dev.pd, data, sizeof(data), IBV_ACCESS_LOCAL_WRITE);
        EXPECT_NE(nullptr, mr);
        qp_size.send_depth   = qp_size.recv_depth = 4;
        qp_size.max_send_sge = 1;
        for (vqp_ib_qp_t &qp : qps) {
            EXPECT_EQ(VQP_OK, vqp_ib_qp_create(&qp, &dev, cq, &qp_size));
            EXPECT_EQ(VQP_OK, vqp_ib_qp_to_init(&qp, 1, 0));
        }
    }

    ~raw_peer()
    {
        for (vqp_ib_qp_t &qp : qps) {
            vqp_ib_qp_destroy(&qp);
        }
        EXPECT_EQ(0, ibv_dereg_mr(mr));
        EXPECT_EQ(0, ibv_destroy_cq(cq));
        vqp_ib_ud_cleanup(&ud);
        vqp_ib_resolver_cleanup(&resolver);
        vqp_ib_dev_close(&dev);
    }

    raw_peer(const raw_peer &)            = delete;
    raw_peer &operator=(const raw_peer &) = delete;

    /* Both round trips of the handshake: the second REQ proves that the first REP
     * was heard, and only then the other side connects its queue pairs */
    bool connect(const options &config)
    {
        vqp_wire_header_t hdr = {};
        vqp_wire_info_t info  = {};

        hdr.type       = VQP_WIRE_REQ;
        hdr.number     = 1;
        hdr.src_iface  = cookie; /* as good as any */
        hdr.dst_iface  = victim_addr.id;
        hdr.src_cookie = cookie;
        fill(info, config);
        if (!request(hdr, info, 0) || !connect_qps()) {
            return false;
        }

        hdr.dst_cookie = answer.hdr.src_cookie;
        hdr.flags      = VQP_WIRE_FLAG_HAVE_YOURS;
        return request(hdr, info, VQP_WIRE_FLAG_HAVE_YOURS);
    }

    /* One work request on a path, which is broken after an error */
    enum ibv_wc_status access(unsigned path, enum ibv_wr_opcode opcode,
                              uint64_t addr, uint32_t length)
    {
        return access(path, opcode, addr, length, theirs.rails[0].ring_rkey);
    }

    enum ibv_wc_status access(unsigned path, enum ibv_wr_opcode opcode,
                              uint64_t addr, uint32_t length, uint32_t rkey)
    {
        struct ibv_send_wr wr = {}, *bad;
        struct ibv_sge sge    = {(uintptr_t)data, length, mr->lkey};
        struct ibv_wc wc      = {};

        wr.sg_list             = &sge;
        wr.num_sge             = 1;
        wr.opcode              = opcode;
        wr.send_flags          = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = addr;
        wr.wr.rdma.rkey        = rkey;
        EXPECT_EQ(0, ibv_post_send(qps[path].qp, &wr, &bad));
        EXPECT_TRUE(until([&] { return ibv_poll_cq(cq, 1, &wc) == 1; }));
        return wc.status;
    }

    vqp_wire_info_t theirs;

private:
    /* Send REQ until a REP with @a flags comes */
    bool request(const vqp_wire_header_t &hdr, const vqp_wire_info_t &info,
                 unsigned flags)
    {
        char buf[VQP_WIRE_MAX_LEN];
        size_t length       = vqp_wire_encode(&hdr, &info, buf);
        vqp_ib_ud_addr_t to = {};
        double sent         = 0;
        vqp_ib_ud_msg_t msg;
        bool done;

        memcpy(to.gid, victim_addr.dev.rails[0].gid, sizeof(to.gid));
        to.qpn       = victim_addr.ud_qpn[0];
        to.is_global = 1;
        done         = until([&] {
            if (now() - sent > 0.1) {
                (void)vqp_ib_ud_send(&ud, &to, buf, (uint32_t)length);
                sent = now();
            }
            return (vqp_ib_ud_poll(&ud, &msg) == VQP_OK) &&
                   (vqp_wire_decode(msg.data, msg.length, &answer) ==
                    VQP_OK) && (answer.hdr.type == VQP_WIRE_REP) &&
                   ((answer.hdr.flags & flags) == flags);
        });
        theirs = answer.info;
        return done;
    }

    void fill(vqp_wire_info_t &info, const options &config)
    {
        info.ring_addr  = info.cell_addr = (uintptr_t)data;
        info.ring_size  = (uint32_t)std::stoul(config.at("RING_SIZE"));
        info.fsn_window = 128;
        info.rx_depth   = 256;
        info.max_reads  = 1;
        info.num_rails  = 1;
        info.num_paths  = PATHS;
        info.rails[0].ud_qpn    = ud.qpn;
        info.rails[0].mtu       = IBV_MTU_1024;
        info.rails[0].link      = VQP_LINK_ETH;
        info.rails[0].ring_rkey = mr->rkey;
        memcpy(info.rails[0].gid, gid.raw, sizeof(gid.raw));
        for (unsigned i = 0; i < PATHS; ++i) {
            info.paths[i].qpn = qps[i].qpn;
        }
        EXPECT_EQ(VQP_OK, vqp_wire_info_check(&info));
    }

    bool connect_qps()
    {
        bool done = true;

        for (unsigned i = 0; i < PATHS; ++i) {
            vqp_ib_qp_conn_t conn = {};

            memcpy(conn.av.dgid, theirs.rails[0].gid, sizeof(conn.av.dgid));
            conn.av.port       = 1;
            conn.av.sgid_index = gid.index;
            conn.av.is_global  = 1;
            conn.av.hop_limit  = 64;
            conn.dest_qpn      = theirs.paths[i].qpn;
            conn.rq_psn        = theirs.paths[i].psn;
            conn.mtu           = IBV_MTU_1024;
            conn.timeout       = 14;
            conn.retry_cnt     = conn.rnr_retry = 6;
            conn.max_rd_atomic = conn.max_dest_rd_atomic = 1;
            done = done && (vqp_ib_qp_to_rtr(&qps[i], &conn) == VQP_OK) &&
                   (vqp_ib_qp_to_rts(&qps[i], &conn) == VQP_OK);
        }
        return done;
    }

    const uint64_t   cookie;
    vqp_wire_msg_t   answer = {};
    vqp_iface_addr_t victim_addr;
    vqp_ib_dev_t     dev;
    vqp_ib_port_t    port;
    vqp_ib_gid_t     gid;
    vqp_ib_resolver_t resolver;
    vqp_ib_ud_t      ud;
    struct ibv_cq   *cq;
    struct ibv_mr   *mr;
    vqp_ib_qp_t      qps[PATHS];
    char             data[4096] = {};
};

class exposure_test : public uct_test {
protected:
    const options config = {{"RING_SIZE", "16384"}, {"NUM_PATHS", "4"}};

    static uint64_t ring_end(const raw_peer &peer)
    {
        return peer.theirs.ring_addr + peer.theirs.ring_size;
    }

    static uint64_t cells_end(const raw_peer &peer)
    {
        return peer.theirs.cell_addr +
               (uint64_t)peer.theirs.num_paths * VQP_CELL_STRIDE;
    }

    /* May the 16 bytes be written? */
    static bool is_open(const raw_peer &peer, uint64_t addr)
    {
        return ((addr >= peer.theirs.ring_addr) &&
                (addr + 16 <= ring_end(peer))) ||
               ((addr >= peer.theirs.cell_addr) &&
                (addr + 16 <= cells_end(peer)));
    }
};

TEST_F(exposure_test, the_ring_and_the_receivers_cells_can_be_written)
{
    open(config);
    raw_peer peer(*b, 1001);

    ASSERT_TRUE(peer.connect(config));
    EXPECT_EQ(IBV_WC_SUCCESS, peer.access(0, IBV_WR_RDMA_WRITE,
                                          peer.theirs.ring_addr, 16));
    EXPECT_EQ(IBV_WC_SUCCESS, peer.access(1, IBV_WR_RDMA_WRITE,
                                          ring_end(peer) - 16, 16));
    EXPECT_EQ(IBV_WC_SUCCESS, peer.access(2, IBV_WR_RDMA_WRITE,
                                          peer.theirs.cell_addr, 16));
    EXPECT_EQ(IBV_WC_SUCCESS, peer.access(3, IBV_WR_RDMA_WRITE,
                                          cells_end(peer) - 16, 16));
}

/* All there is between the ring and its neighbors in both directions: mirror,
 * cells that are sent from, results of atomics, and other connections */
TEST_F(exposure_test, nothing_else_of_the_process_can_be_written)
{
    const int64_t reach = 4 * 49152;
    uint64_t cookie     = 2000;
    int64_t at          = -reach;
    uint64_t addr;

    open(config);
    while (at < reach) {
        raw_peer peer(*b, ++cookie);
        raw_peer neighbor(*b, ++cookie); /* its memory is near */
        unsigned path = 0;

        ASSERT_TRUE(peer.connect(config));
        ASSERT_TRUE(neighbor.connect(config));
        for (; (at < reach) && (path < peer.PATHS); at += 4096 - 16) {
            addr = peer.theirs.ring_addr + (uint64_t)at;
            if (is_open(peer, addr)) {
                continue;
            }
            ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
                      peer.access(path++, IBV_WR_RDMA_WRITE, addr, 16))
                    << at << " bytes from the start of the ring";
        }
    }
    expect_violations("remote_key");
}

TEST_F(exposure_test, the_key_ends_with_the_byte)
{
    open(config);
    raw_peer peer(*b, 3001);

    ASSERT_TRUE(peer.connect(config));
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
              peer.access(0, IBV_WR_RDMA_WRITE, peer.theirs.ring_addr - 1, 1));
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
              peer.access(1, IBV_WR_RDMA_WRITE, cells_end(peer), 1));
    expect_violations("remote_key");
}

/* What probes of paths write, and not what own probes send, which is next to it */
TEST_F(exposure_test, the_scratch_can_be_written_and_nothing_behind_it)
{
    open(config);
    raw_peer peer(*b, 4001);

    ASSERT_TRUE(peer.connect(config));

    uint64_t addr = peer.theirs.scratch_addr;
    uint32_t rkey = peer.theirs.rails[0].scratch_rkey;

    ASSERT_NE(0u, addr);
    EXPECT_EQ(IBV_WC_SUCCESS,
              peer.access(0, IBV_WR_RDMA_WRITE, addr, 1, rkey));
    EXPECT_EQ(IBV_WC_SUCCESS, peer.access(0, IBV_WR_RDMA_WRITE,
                                          addr + VQP_SCRATCH_SIZE - 1, 1, rkey));
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, peer.access(1, IBV_WR_RDMA_WRITE,
                                                 addr + VQP_SCRATCH_SIZE, 1, rkey));
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
              peer.access(2, IBV_WR_RDMA_READ, addr, 1, rkey));
    expect_violations("remote_key");
}

TEST_F(exposure_test, nothing_can_be_read)
{
    open(config);
    raw_peer peer(*b, 4001);

    ASSERT_TRUE(peer.connect(config));
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
              peer.access(0, IBV_WR_RDMA_READ, peer.theirs.ring_addr, 16));
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
              peer.access(1, IBV_WR_RDMA_READ, peer.theirs.cell_addr, 16));
    expect_violations("remote_key");
}
