/*
 * A vqp whose paths fail: the test makes the calls of its owner and the messages
 * of the peer. Nothing is executed.
 */
#ifndef VQP_TEST_FAILKIT_H
#define VQP_TEST_FAILKIT_H

#include "txkit.h"

#include <algorithm>
#include <map>
#include <utility>

extern "C" {
#include "core/failover/inbox.h"
}

class failkit : public txkit {
protected:
    static constexpr uint16_t RECVS = 20;
    static constexpr uint32_t PEER_FIRST = 500, FIRST_QPN = 40, QPN = 77,
                              PSN = 7;
    static constexpr unsigned MTU_SHIFT = 12, SHORT = 6;
    static constexpr unsigned HAVE = VQP_WIRE_FLAG_HAVE_YOURS,
                              DRAINED = VQP_WIRE_FLAG_DRAINED,
                              ANSWER = VQP_WIRE_FLAG_ANSWER;

    unsigned m_num_connected = 0; /* paths of the handshake; 0: all */
    unsigned m_min_paths     = 1;
    unsigned m_num_short     = 0; /* paths with short send queues, from the first one on */
    uint32_t m_ring_max      = 0; /* 0: rings do not change */
    std::map<unsigned, vqp_inbox_t> m_inboxes;
    vqp_path_msg_t m_answer {}; /* of the control plane, to the last message */

    failkit() {
        m_depth                = 30; /* 32 entries: none to spare */
        m_failover.is_on       = 1;
        m_failover.retry_first = 10;
        m_failover.retry_max   = 35;
        m_failover.hold_first  = 100;
        m_failover.hold_max    = 1000;
        m_failover.outage      = 5000;
    }

    /* Connected; LIVE and with an endpoint */
    void open(unsigned num_paths = 2) {
        connect(num_paths);
        live();
    }

    void connect(unsigned num_paths = 2, uint64_t unresolved = 0) {
        std::vector<vqp_wire_path_t> own(num_paths), peer(num_paths);
        vqp_config_t config {};

        prepare(num_paths);
        m_ring.assign(m_cfg.ring_size, 0);
        m_rx_cells.assign(num_paths * VQP_CELL_STRIDE, 0);
        m_map.resize(m_cfg.fsn_window);
        m_cfg.local_lkeys = m_lkeys;
        m_cfg.ring_rkeys  = m_rkeys;
        for (vqp_path_t &path : m_paths) {
            path.recv_posted = ((unresolved & (1u << path.index)) ||
                                ((m_num_connected != 0) &&
                                 (path.index >= m_num_connected))) ? 0 : RECVS;
            path.mtu_shift   = MTU_SHIFT;
            if (path.index < m_num_short) {
                path.depth = SHORT;
            }
            if (m_two_rails) {
                path.rail = path.peer_rail = path.index & 1;
            }
        }
        config.tx             = m_cfg;
        config.am_ops         = m_am_ops.data();
        config.rma_ops        = m_rma_ops.data();
        config.num_am_ops     = m_num_ops;
        config.num_rma_ops    = m_num_ops;
        config.num_paths      = num_paths;
        config.num_connected  = (m_num_connected != 0) ? m_num_connected : num_paths;
        config.min_paths      = m_min_paths;
        config.depth          = m_depth;
        config.peer_rails     = 2;
        config.peer_first_fsn = PEER_FIRST;
        config.recv_batch     = 4;
        config.am_ids         = 8;
        config.map            = m_map.data();
        config.ring           = m_ring.data();
        config.rx_cells       = m_rx_cells.data();
        config.failover       = m_failover;
        config.rings_on       = m_ring_max != 0;
        config.ring_max       = m_ring_max;
        config.ring_idle      = 1000;
        for (unsigned i = 0; i < num_paths; ++i) {
            own[i]  = {FIRST_QPN + i, PSN, m_paths[i].rail};
            peer[i] = {FIRST_QPN + 10 + i, PSN + 1, m_paths[i].peer_rail};
        }
        config.own_paths  = own.data();
        config.peer_paths = peer.data();
        config.down = unresolved;
        vqp_init(&m_vqp, m_paths.data(), num_paths, 0);
        vqp_connect(&m_vqp, &config);
        if (m_failover.silence == 0) { /* looks are for tests of them */
            m_tx.slow &= ~(uint32_t)VQP_TX_QUIET;
        }
        vqp_open(&m_vqp);
    }

    void timer() { vqp_on_time(&m_vqp, m_now, 1); }

    void live() {
        vqp_set_live(&m_vqp);
        m_events.clear();
        take();
        m_events.clear();
    }

    vqp_path_t &path(unsigned i = 0) { return m_paths[i]; }

    int state(unsigned i = 0) { return m_paths[i].fo.state; }

    /* ---- events ---- */

    void take() {
        int event;

        while ((event = vqp_next_event(&m_vqp)) != VQP_EVENT_NONE) {
            m_events.emplace_back(event, m_vqp.event_path);
            if (event == VQP_EVENT_RELEASE) {
                break;
            }
        }
    }

    /* Was there such an event? Clears it */
    bool event(vqp_event_t event, unsigned i = 0) {
        take();
        auto it = std::find(m_events.begin(), m_events.end(),
                            std::make_pair((int)event, i));
        if (it == m_events.end()) {
            return false;
        }
        m_events.erase(it);
        return true;
    }

    /* ---- messages ---- */

    /* The message that is to be sent; its type is NONE if there is none */
    vqp_path_msg_t next_message(unsigned i = 0) {
        vqp_path_msg_t msg {};

        (void)event(VQP_EVENT_PATH_SEND, i);
        if (!vqp_path_message(&m_vqp, &m_paths[i], m_now, &msg)) {
            msg.type = VQP_WIRE_TYPE_NONE;
        }
        return msg;
    }

    void hear_down(unsigned flags, uint32_t epoch = 0, unsigned i = 0,
                   vqp_executed_t executed = {VQP_SOURCE_MSN, 0, 0}) {
        vqp_path_msg_t msg {};

        msg.type        = VQP_WIRE_PATH_DOWN;
        msg.flags       = (uint16_t)flags;
        msg.epoch  = epoch;
        msg.down.path   = (uint8_t)i;
        msg.down.source = (uint8_t)executed.source;
        msg.down.count  = executed.count;
        msg.down.imms   = executed.imms;
        hear(i, msg);
    }

    /* Progress comes at once */
    void hear(unsigned i, const vqp_path_msg_t &msg) {
        arrive(i, msg);
        take(i);
    }

    void arrive(unsigned i, const vqp_path_msg_t &msg) {
        vqp_path_msg_t answer {};
        unsigned todo = vqp_inbox_put(&m_inboxes[i], &msg, &answer);

        m_answer = (todo & VQP_INBOX_ANSWER) ? answer : vqp_path_msg_t {};
    }

    unsigned take(unsigned i) {
        unsigned count = 0;
        vqp_path_msg_t msg;

        for (unsigned type = 0; type < VQP_INBOX_TYPES; ++type) {
            if (vqp_inbox_take(&m_inboxes[i], &m_vqp, type, &msg)) {
                vqp_on_path_message(&m_vqp, &msg, m_now);
                ++count;
            }
        }
        return count;
    }

    void hear_up(unsigned flags, uint32_t epoch = 1, unsigned i = 0) {
        vqp_path_msg_t msg {};

        msg.type       = VQP_WIRE_PATH_UP;
        msg.flags      = (uint16_t)flags;
        msg.epoch = epoch;
        msg.up.path    = (uint8_t)i;
        msg.up.rail    = m_paths[i].peer_rail;
        msg.up.qpn     = QPN + 1;
        msg.up.psn     = PSN + 1;
        hear(i, msg);
    }

    /* ---- what the owner and its device do ---- */

    void fail_send(unsigned i, uint16_t slot,
                   vqp_status_t status = VQP_ERR_CANCELED) {
        vqp_on_send_error(&m_vqp, &m_paths[i], slot, status);
    }

    void flush_recvs(unsigned i = 0) {
        while (m_paths[i].recv_used < m_paths[i].recv_posted) {
            vqp_on_recv_error(&m_vqp, &m_paths[i], VQP_ERR_CANCELED);
        }
    }

    /* The queue pair is in ERR: what was posted to it comes back */
    void flush_sends(unsigned i = 0) {
        vqp_path_t &p = m_paths[i];

        for (uint16_t slot = p.head; slot != p.fo.end; ++slot) {
            fail_send(i, slot);
        }
    }

    void quiesce(unsigned i = 0) {
        EXPECT_TRUE(event(VQP_EVENT_PATH_QUIESCE, i));
        vqp_path_quiesced(&m_vqp, &m_paths[i], 0, 0);
    }

    /* It is given up, and nothing is in flight any more; the peer executed
     * nothing here */
    void drain(unsigned i = 0, vqp_status_t status = VQP_ERR_TIMEOUT) {
        vqp_path_down(&m_vqp, &m_paths[i], status);
        quiesce(i);
        flush_sends(i);
        flush_recvs(i);
        EXPECT_TRUE(event(VQP_EVENT_PATH_COUNT, i));
        vqp_path_counted(&m_vqp, &m_paths[i], VQP_SOURCE_MSN, 0);
        EXPECT_EQ(VQP_PATH_DRAINED, state(i));
    }

    /* The same, and the peer has executed that */
    void die(unsigned i, vqp_executed_t executed) {
        uint32_t epoch = m_paths[i].fo.epoch;

        drain(i);
        hear_down(DRAINED | HAVE, epoch, i, executed);
        EXPECT_EQ(VQP_PATH_DOWN, state(i));
    }

    /* The path is SILENT, and the peer gives it up */
    void agree(unsigned i = 0) {
        ASSERT_EQ(VQP_PATH_SILENT, state(i));
        hear_down(0, m_paths[i].fo.epoch, i);
        EXPECT_EQ(VQP_PATH_QUIESCE, state(i));
    }

    void rebuild(unsigned i = 0) {
        vqp_path_rebuilt(&m_vqp, &m_paths[i], QPN, PSN);
        EXPECT_EQ(VQP_PATH_CONNECT, state(i));
    }

    void connected(unsigned i = 0, vqp_status_t status = VQP_OK) {
        m_paths[i].recv_posted = RECVS;
        m_paths[i].recv_used   = 0;
        vqp_path_connected(&m_vqp, &m_paths[i], status);
    }

    /* The nop that probes the path is posted, and comes back */
    void probe(unsigned i = 0) {
        EXPECT_EQ(VQP_PATH_PROBE, state(i));
        EXPECT_FALSE(m_paths[i].up);
        post_probe();
        EXPECT_EQ(VQP_PATH_PROBE, state(i));
        EXPECT_EQ(1u, confirm_all(i));
        post_probe();
        EXPECT_EQ(VQP_PATH_UP, state(i));
    }

    void post_probe() {
        m_batch.count = 0;
        vqp_path_drain(&m_vqp, &m_batch);
    }

    /* From DOWN on */
    void reach_probe(unsigned i = 0) {
        rebuild(i);
        hear_up(HAVE, m_paths[i].fo.epoch, i);
        EXPECT_TRUE(event(VQP_EVENT_PATH_CONNECT, i));
        connected(i);
        EXPECT_EQ(VQP_PATH_PROBE, state(i));
    }

    void revive(unsigned i = 0) {
        reach_probe(i);
        probe(i);
    }

    /* ---- traffic ---- */

    std::vector<vqp_frag_t> next() {
        std::vector<vqp_frag_t> frags;

        do {
            vqp_next_batch(&m_vqp, &m_batch);
            for (unsigned i = 0; i < m_batch.count; ++i) {
                vqp_frag_t frag = m_batch.frags[i];

                m_sges.emplace_back(frag.sge, frag.sge + frag.nsge);
                frag.sge = m_sges.back().data();
                frags.push_back(frag);
            }
        } while (m_batch.count == VQP_BATCH_MAX);
        return frags;
    }

    /* A fast AM: all in the mirror, or with a second piece of the user's */
    vqp_frag_t send_am(uint32_t length, void *user = nullptr,
                       uint32_t piece = 0) {
        vqp_sge_t sge[2];
        vqp_frag_t frag {};
        vqp_tx_am_t am;

        EXPECT_TRUE(vqp_tx_am_begin(&m_tx, length + piece, 0, &am));
        am.op->user      = user;
        am.op->user_kind = user != nullptr;
        if (piece != 0) {
            am.op->g.iov[1] = {USER_ADDR, piece, m_lkeys};
            EXPECT_EQ(VQP_SEND_FRAG,
                      vqp_send_am(&m_vqp, &am, 1, length + piece, length, 2,
                                  sge, &frag));
        } else {
            EXPECT_EQ(VQP_SEND_FRAG,
                      vqp_send_am(&m_vqp, &am, 1, length, length, 1, sge,
                                  &frag));
        }
        m_sges.emplace_back(sge, sge + frag.nsge);
        frag.sge = m_sges.back().data();
        return frag;
    }

    /* Sends while only that path takes frags */
    template <typename F>
    std::vector<vqp_frag_t> only(unsigned i, F &&post) {
        std::vector<vqp_frag_t> frags;

        for (unsigned j = 0; j < m_paths.size(); ++j) {
            vqp_set_path_up(&m_vqp, j, j == i);
        }
        post();
        frags = next();
        for (unsigned j = 0; j < m_paths.size(); ++j) {
            vqp_set_path_up(&m_vqp, j, 1);
        }
        EXPECT_EQ(frags.size(), on_path(frags, i));
        return frags;
    }

    /* That many puts on one path, and what their users are */
    std::vector<vqp_frag_t> puts(unsigned i, unsigned count, int *users = nullptr,
                                 uint64_t length = 64) {
        return only(i, [&] {
            for (unsigned n = 0; n < count; ++n) {
                EXPECT_TRUE(rma(VQP_KIND_PUT, length,
                                users ? users + n : nullptr));
            }
        });
    }

    /* Ops that have ended, with their status */
    typedef std::vector<std::pair<void*, int>> ends_t;

    ends_t ends() {
        vqp_done_t done;
        ends_t all;

        while (vqp_next_done(&m_vqp, &done)) {
            all.emplace_back(done.user, done.status);
        }
        return all;
    }

    unsigned confirm_all(unsigned i) {
        return vqp_on_send(&m_vqp, &m_paths[i],
                           (uint16_t)(m_paths[i].tail - 1));
    }

    static vqp_executed_t msn(uint32_t count, uint32_t imms = 0) {
        return {VQP_SOURCE_MSN, count, imms};
    }

    static vqp_executed_t psn(uint32_t count, uint32_t imms = 0) {
        return {VQP_SOURCE_PSN, count & VQP_FSN_MASK, imms};
    }

    static vqp_executed_t imm(uint32_t imms) {
        return {VQP_SOURCE_IMM, imms, imms};
    }

    static std::vector<uint32_t> imms(const std::vector<vqp_frag_t> &frags) {
        std::vector<uint32_t> all;

        for (const vqp_frag_t &frag : frags) {
            if (frag.opcode == VQP_WR_WRITE_IMM) {
                all.push_back(frag.imm);
            }
        }
        return all;
    }

    static std::vector<vqp_op_t*> ops(const std::vector<vqp_frag_t> &frags) {
        std::vector<vqp_op_t*> all;

        for (const vqp_frag_t &frag : frags) {
            all.push_back(frag.op);
        }
        return all;
    }

    static unsigned on_path(const std::vector<vqp_frag_t> &frags, unsigned i) {
        unsigned n = 0;

        for (const vqp_frag_t &frag : frags) {
            n += frag.path->index == i;
        }
        return n;
    }

    typedef std::vector<void*> users_t;

    vqp_failover_config_t             m_failover {};
    bool                              m_two_rails = false;
    uint64_t                          m_now = 1000;
    uint32_t                          m_lkeys[2] = {11, 12};
    std::vector<std::pair<int, unsigned>> m_events;
    std::vector<char>                 m_ring, m_rx_cells;
    std::vector<uint8_t>              m_map;
};

#endif
