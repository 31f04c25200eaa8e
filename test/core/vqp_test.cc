/*
 * The connection object: its states and events, what it posts, and how it ends.
 * Nothing is executed; what the peer writes, the tests write.
 */
#include "txkit.h"

#include <algorithm>
#include <cstring>

namespace {

class vqp : public txkit {
protected:
    static constexpr uint16_t RECVS = 20;
    static constexpr uint32_t PEER_FIRST = 500;

    vqp() { m_cfg.first_fsn = 100; }

    /* Not connected, and no endpoint has it */
    void create(unsigned num_paths = 2) {
        prepare(num_paths);
        for (vqp_path_t &path : m_paths) {
            path.recv_posted = RECVS;
        }
        vqp_init(&m_vqp, m_paths.data(), num_paths, 0);
    }

    /* Connected; LIVE and with an endpoint */
    void open(unsigned num_paths = 2) {
        create(num_paths);
        connect();
        vqp_open(&m_vqp);
        vqp_set_live(&m_vqp);
        EXPECT_EQ(events_t({VQP_EVENT_STATE}), events());
    }

    void connect() {
        vqp_config_t config {};

        m_ring.assign(m_cfg.ring_size, 0);
        m_rx_cells.assign(m_paths.size() * VQP_CELL_STRIDE, 0);
        m_map.resize(m_cfg.fsn_window);
        config.tx             = m_cfg;
        config.am_ops         = m_am_ops.data();
        config.rma_ops        = m_rma_ops.data();
        config.num_am_ops     = m_num_ops;
        config.num_rma_ops    = m_num_ops;
        config.num_paths      = (uint32_t)m_paths.size();
        config.peer_first_fsn = PEER_FIRST;
        config.recv_batch     = 4;
        config.am_ids         = 8;
        config.map            = m_map.data();
        config.ring           = m_ring.data();
        config.rx_cells       = m_rx_cells.data();
        config.gap            = m_gap;
        config.probe          = m_probe;
        vqp_connect(&m_vqp, &config);
    }

    typedef std::vector<int> events_t;

    bool take(vqp_event_t event) { return vqp_take_event(&m_vqp, event); }

    /* But TIMER */
    events_t events() {
        events_t all;
        int event;

        while ((event = vqp_next_event(&m_vqp)) != VQP_EVENT_NONE) {
            if (event != VQP_EVENT_TIMER) {
                all.push_back(event);
            }
            if (event == VQP_EVENT_RELEASE) {
                break;
            }
        }
        m_vqp.logged = m_vqp.state;
        return all;
    }

    vqp_send_t send_am(uint32_t length = 8, void *user = nullptr) {
        vqp_tx_am_t am;

        EXPECT_TRUE(vqp_tx_am_begin(&m_tx, length, 0, &am));
        am.op->user      = user;
        am.op->user_kind = user != nullptr;
        return vqp_send_am(&m_vqp, &am, 1, length, length, 1, m_sge, &m_frag);
    }

    std::vector<vqp_frag_t> next() {
        vqp_next_batch(&m_vqp, &m_batch);
        return {m_batch.frags, m_batch.frags + m_batch.count};
    }

    std::vector<void*> reported(vqp_status_t status = VQP_OK) {
        std::vector<void*> users;
        vqp_done_t done;

        while (vqp_next_done(&m_vqp, &done)) {
            EXPECT_EQ(status, done.status);
            users.push_back(done.user);
        }
        return users;
    }

    /* What the peer does */
    void record(uint32_t offset, uint32_t length, uint8_t id = 1,
                vqp_credit_t credit = {0, 100}, uint8_t flags = 0) {
        vqp_record_t rec = {length, id, flags, 0, credit.ring, credit.fsn};

        memcpy(&m_ring[offset], &rec, sizeof(rec));
    }

    /* One that shares the immediate of the one before it */
    void next_record(uint32_t offset, uint32_t length, uint8_t flags = 0,
                     vqp_credit_t credit = {0, 0}, uint8_t id = 2) {
        record(offset, length, id, credit, flags);
    }

    /* Returns how many AMs were delivered, or the error */
    int recv(uint32_t imm, unsigned path = 0) {
        int count = 0, ret;
        vqp_rx_am_t am;

        ret = vqp_recv_fast(&m_vqp, &m_paths[path], imm, &am);
        if (ret == 0) {
            ret = vqp_recv(&m_vqp, &m_paths[path], imm, &am);
        }
        for (; (ret == 1) && (count < 1000);
             ret = vqp_recv_next(&m_vqp, &m_paths[path], &am)) {
            vqp_recv_done(&m_vqp, &am);
            ++count;
        }
        return (ret < 0) ? ret : count;
    }

    /* Neither side needs it any more */
    void release() {
        m_vqp.owner = VQP_OWNER_NONE;
        vqp_on_conn_end(&m_vqp, VQP_OK, 0, 0);
    }

    void all_recvs_back() {
        for (vqp_path_t &path : m_paths) {
            path.recv_used = path.recv_posted;
        }
    }

    static const uint64_t MSEC = 1000000; /* ns */

    vqp_sge_t            m_sge[2];
    vqp_frag_t           m_frag;
    std::vector<char>    m_ring, m_rx_cells;
    std::vector<uint8_t> m_map;
    uint64_t             m_gap = 0, m_probe = 0;
};

/* ---- states ---- */

TEST_F(vqp, states_have_names) {
    EXPECT_STREQ("CONNECTING", vqp_state_name(VQP_STATE_CONNECTING));
    EXPECT_STREQ("DRAINING", vqp_state_name(VQP_STATE_DRAINING));
    EXPECT_STREQ("unknown", vqp_state_name(VQP_STATE_LAST));
}

TEST_F(vqp, is_connecting_and_silent_at_first) {
    create();
    EXPECT_EQ(VQP_STATE_CONNECTING, m_vqp.state);
    EXPECT_FALSE(vqp_is_connected(&m_vqp));
    EXPECT_FALSE(vqp_has_events(&m_vqp));
    EXPECT_TRUE(next().empty());
    EXPECT_EQ(events_t(), events());
}

TEST_F(vqp, becomes_live_once) {
    create();
    connect();
    EXPECT_TRUE(vqp_is_connected(&m_vqp));
    EXPECT_EQ(VQP_STATE_CONNECTING, m_vqp.state);
    vqp_set_live(&m_vqp);
    vqp_set_live(&m_vqp);
    EXPECT_EQ(VQP_STATE_LIVE, m_vqp.state);
    EXPECT_EQ(VQP_STATE_CONNECTING, m_vqp.logged);
    EXPECT_EQ(events_t({VQP_EVENT_STATE}), events());
    vqp_set_live(&m_vqp);
    EXPECT_EQ(events_t(), events());
}

TEST_F(vqp, that_failed_does_not_become_live) {
    create();
    vqp_fail(&m_vqp, VQP_ERR_UNREACHABLE);
    connect();
    vqp_set_live(&m_vqp);
    EXPECT_EQ(VQP_STATE_FAILED, m_vqp.state);
    EXPECT_EQ(VQP_ERR_UNREACHABLE, m_vqp.status);
}

TEST_F(vqp, fails_once_and_with_the_first_status) {
    open();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE, VQP_EVENT_FAILED}),
              events());
    vqp_fail(&m_vqp, VQP_ERR_RESET);
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
    EXPECT_EQ(events_t(), events());
}

TEST_F(vqp, fails_before_it_is_connected) {
    create();
    vqp_open(&m_vqp);
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE, VQP_EVENT_FAILED}),
              events());
    EXPECT_TRUE(next().empty());
}

/* The control plane has to be notified; the user has canceled */
TEST_F(vqp, what_is_canceled_is_marked_so) {
    open();
    rma(VQP_KIND_PUT, 8, &u[0]);
    vqp_cancel(&m_vqp);
    EXPECT_EQ(VQP_STATE_FAILED, m_vqp.state);
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE, VQP_EVENT_FAILED}),
              events());
    EXPECT_TRUE(m_vqp.canceled);
    EXPECT_EQ(std::vector<void*>{&u[0]}, reported(VQP_ERR_CANCELED));
    vqp_cancel(&m_vqp);
    EXPECT_EQ(events_t(), events());
}

TEST_F(vqp, a_cancel_does_not_take_a_failure_back) {
    open();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    vqp_cancel(&m_vqp);
    EXPECT_FALSE(m_vqp.canceled);
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE, VQP_EVENT_FAILED}),
              events());
}

TEST_F(vqp, a_release_ends_in_draining_from_any_state) {
    for (int from = VQP_STATE_CONNECTING; from < VQP_STATE_DRAINING; ++from) {
        create();
        if (from != VQP_STATE_CONNECTING) {
            connect();
            vqp_set_live(&m_vqp);
            vqp_open(&m_vqp);
        }
        if (from == VQP_STATE_PEER_CLOSED) {
            vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
        } else if (from == VQP_STATE_FAILED) {
            vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
        }
        ASSERT_EQ(from, m_vqp.state);
        events();
        release();
        EXPECT_EQ(VQP_STATE_DRAINING, m_vqp.state);
        EXPECT_TRUE(vqp_is_failed(&m_vqp));
        all_recvs_back();
        EXPECT_EQ((from == VQP_STATE_FAILED) ?
                  events_t({VQP_EVENT_STATE, VQP_EVENT_RELEASE}) :
                  events_t({VQP_EVENT_QPS, VQP_EVENT_STATE, VQP_EVENT_RELEASE}),
                  events());
    }
}

/* The peer's RST, because of the access, may be handled before the CQE */
TEST_F(vqp, a_refused_access_is_reported_as_such_in_both_orders) {
    for (int reset_first : {0, 1}) {
        open(1);
        ASSERT_TRUE(rma(VQP_KIND_PUT, 64, this));
        auto frags = next();
        ASSERT_EQ(1u, frags.size());
        if (reset_first) {
            vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 0, 0);
        }
        vqp_on_send_error(&m_vqp, frags[0].path, frags[0].slot,
                          VQP_ERR_REMOTE);
        EXPECT_EQ(VQP_ERR_REMOTE, m_vqp.status);
        EXPECT_EQ(std::vector<void*>({this}), reported(VQP_ERR_REMOTE));
    }
}

TEST_F(vqp, a_peer_that_closes_is_noticed_by_the_next_use) {
    open();
    vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
    EXPECT_EQ(VQP_STATE_PEER_CLOSED, m_vqp.state);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(events_t({VQP_EVENT_STATE}), events());
    vqp_use(&m_vqp);
    EXPECT_EQ(VQP_STATE_FAILED, m_vqp.state);
    EXPECT_EQ(VQP_ERR_RESET, m_vqp.status);
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE, VQP_EVENT_FAILED}),
              events());
}

TEST_F(vqp, a_use_means_nothing_in_other_states) {
    open();
    vqp_use(&m_vqp);
    EXPECT_EQ(VQP_STATE_LIVE, m_vqp.state);
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    vqp_use(&m_vqp);
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
}

TEST_F(vqp, a_closed_peer_is_a_failure_while_something_waits) {
    for (unsigned why = 0; why < 4; ++why) {
        vqp_status_t status = VQP_ERR_RESET;

        open();
        switch (why) {
        case 0:
            rma(VQP_KIND_PUT, 8, &u[0], VQP_OP_SIGNAL | VQP_OP_BUFFER);
            vqp_on_conn_end(&m_vqp, status, 1, 0);
            break;
        case 1:
            vqp_on_conn_end(&m_vqp, status, 1, 1);
            break;
        case 2:
            vqp_on_conn_end(&m_vqp, status, 0, 0);
            break;
        case 3:
            status = VQP_ERR_TIMEOUT;
            vqp_on_conn_end(&m_vqp, status, 1, 0);
            break;
        default:
            break;
        }
        EXPECT_EQ(VQP_STATE_FAILED, m_vqp.state) << why;
        EXPECT_EQ(status, m_vqp.status) << why;
    }
}

/* Whichever side of it fails first: nobody is there to get a report */
TEST_F(vqp, one_without_an_endpoint_that_fails_is_released) {
    for (int by_conn : {0, 1}) {
        create();
        connect();
        vqp_set_live(&m_vqp);
        events();
        if (by_conn) {
            vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
        } else {
            vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
        }
        EXPECT_TRUE(take(VQP_EVENT_QPS));
        vqp_qps_failed(&m_vqp);
        EXPECT_EQ(VQP_STATE_DRAINING, m_vqp.state);
        EXPECT_EQ(events_t({VQP_EVENT_STATE}), events());
        all_recvs_back();
        EXPECT_EQ(events_t({VQP_EVENT_RELEASE}), events());
    }
}

/* The end of the connection is reported to the endpoint. It is released when that closes,
 * in whatever order the connection and the queue pairs failed */
TEST_F(vqp, one_with_an_endpoint_that_fails_is_released_when_that_closes) {
    for (int by_conn : {0, 1, 2}) {
        open();
        if (by_conn > 0) {
            vqp_on_conn_end(&m_vqp, VQP_ERR_TIMEOUT, 0, 0);
        }
        if (by_conn != 1) {
            vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
        }
        EXPECT_TRUE(take(VQP_EVENT_QPS));
        vqp_qps_failed(&m_vqp);
        if (by_conn == 0) { /* it was on its way */
            vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 0, 0);
        }
        all_recvs_back();
        EXPECT_EQ(events_t({VQP_EVENT_STATE, VQP_EVENT_FAILED}), events());
        EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
        EXPECT_EQ(1, vqp_close(&m_vqp));
        EXPECT_EQ(events_t({VQP_EVENT_CLOSED, VQP_EVENT_STATE,
                            VQP_EVENT_RELEASE}), events());
        EXPECT_EQ(VQP_STATE_DRAINING, m_vqp.state);
    }
}

/* ---- refused and resumed ---- */

TEST_F(vqp, a_refused_user_is_resumed_once) {
    open();
    vqp_refuse(&m_vqp);
    vqp_refuse(&m_vqp);
    EXPECT_TRUE(m_vqp.refused);
    EXPECT_EQ(2u, m_stats.no_resource);
    EXPECT_TRUE(vqp_has_events(&m_vqp));
    EXPECT_EQ(events_t({VQP_EVENT_RESUME}), events());
    EXPECT_FALSE(m_vqp.refused);
    EXPECT_EQ(events_t(), events());
}

TEST_F(vqp, a_resume_by_the_owner_takes_the_event_back) {
    open();
    vqp_refuse(&m_vqp);
    vqp_resume(&m_vqp);
    EXPECT_FALSE(m_vqp.refused);
    EXPECT_EQ(events_t(), events());
}

TEST_F(vqp, events_for_the_log_come_first_and_events_for_users_last) {
    open();
    vqp_refuse(&m_vqp);
    recv((PEER_FIRST + m_cfg.fsn_window) & VQP_FSN_MASK, 1);
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE, VQP_EVENT_BROKEN,
                        VQP_EVENT_FIRST_IMM, VQP_EVENT_RESUME,
                        VQP_EVENT_FAILED}), events());
    EXPECT_EQ(1u, m_vqp.broken.path);
    EXPECT_NE(nullptr, m_vqp.broken.what);
}

/* ---- receiving ---- */

TEST_F(vqp, the_first_immediate_is_an_event_and_only_the_first) {
    open();
    record(0, 8);
    record(32, 8);
    EXPECT_EQ(1, recv(PEER_FIRST | VQP_IMM_LAST));
    EXPECT_EQ(events_t({VQP_EVENT_FIRST_IMM}), events());
    EXPECT_EQ(1, recv((PEER_FIRST + 1) | VQP_IMM_LAST));
    EXPECT_EQ(events_t(), events());
    EXPECT_EQ(2u, m_paths[0].stats.rx_cqes);
}

TEST_F(vqp, the_first_immediate_counts_although_it_is_out_of_order) {
    open();
    EXPECT_EQ(0, recv(PEER_FIRST + 5)); /* ahead of its order */
    EXPECT_EQ(events_t({VQP_EVENT_FIRST_IMM}), events());
}

TEST_F(vqp, delivers_what_a_late_immediate_lets_pass) {
    open();
    record(0, 8, 1);
    record(32, 8, 2);
    EXPECT_EQ(0, recv((PEER_FIRST + 2) | VQP_IMM_LAST));
    EXPECT_EQ(0, recv(PEER_FIRST + 1));
    EXPECT_EQ(2, recv(PEER_FIRST | VQP_IMM_LAST));
    EXPECT_EQ(2u, m_stats.ams_rx);
}

TEST_F(vqp, control_brings_credit_before_its_order) {
    vqp_cell_t cell = {32, 101, VQP_CELL_REQUEST, 0};

    open();
    EXPECT_EQ(VQP_SEND_FRAG, send_am());
    memcpy(&m_rx_cells[VQP_CELL_STRIDE], &cell, sizeof(cell));
    EXPECT_EQ(0, recv((PEER_FIRST + 1) | VQP_IMM_CREDIT, 1));
    EXPECT_EQ(32u, m_tx.fc.ring_peer);
    EXPECT_EQ(101u, m_tx.fc.fsn_peer);
    EXPECT_TRUE(m_vqp.rx.requested);
}

TEST_F(vqp, a_protocol_error_fails_it_and_its_credit_is_ignored) {
    struct {
        const char  *what;
        uint32_t     imm;
        uint32_t     length;
        uint8_t      id;
        vqp_credit_t credit;
    } cases[] = {
        {"window", PEER_FIRST + 64, 8, 1, {0, 100}},
        {"flags", PEER_FIRST | (1u << 30), 8, 1, {0, 100}},
        {"record", PEER_FIRST | VQP_IMM_LAST, 4096, 1, {0, 100}},
        {"id", PEER_FIRST | VQP_IMM_LAST, 8, 8, {0, 100}},
        {"credit", PEER_FIRST | VQP_IMM_LAST, 8, 1, {16, 100}},
        {"fsn", PEER_FIRST | VQP_IMM_LAST, 8, 1, {0, 101}},
    };

    for (const auto &c : cases) {
        open();
        record(0, c.length, c.id, c.credit);
        EXPECT_EQ(VQP_ERR_PROTOCOL, recv(c.imm)) << c.what;
        EXPECT_EQ(VQP_ERR_PROTOCOL, m_vqp.status) << c.what;
        events_t all = events();
        EXPECT_EQ(1, std::count(all.begin(), all.end(), +VQP_EVENT_BROKEN));

        uint32_t base = m_vqp.rx.window.base;
        record(0, 8);
        for (uint32_t fsn = PEER_FIRST; fsn < PEER_FIRST + 3; ++fsn) {
            EXPECT_EQ(0, recv(fsn | VQP_IMM_LAST)) << c.what;
        }
        EXPECT_EQ(0u, m_stats.ams_rx) << c.what;
        EXPECT_EQ(base, m_vqp.rx.window.base) << c.what;
        EXPECT_EQ(events_t(), events()) << c.what;
    }
}

TEST_F(vqp, nothing_behind_an_invalid_record_is_delivered) {
    open();
    record(0, 8);
    EXPECT_EQ(0, recv((PEER_FIRST + 1) | VQP_IMM_LAST));
    EXPECT_EQ(0, recv((PEER_FIRST + 2) | VQP_IMM_LAST));
    record(32, 4096);
    EXPECT_EQ(VQP_ERR_PROTOCOL, recv(PEER_FIRST | VQP_IMM_LAST));
    EXPECT_EQ(1u, m_stats.ams_rx); /* the first was good */
    vqp_rx_am_t am;
    EXPECT_EQ(0, vqp_recv_next(&m_vqp, 0, &am));
}

TEST_F(vqp, records_that_share_an_immediate_are_delivered) {
    open();
    record(0, 8, 1, {0, 100}, VQP_RECORD_MORE);
    next_record(32, 20, VQP_RECORD_MORE);
    next_record(80, 0);
    EXPECT_EQ(3, recv(PEER_FIRST | VQP_IMM_LAST));
    EXPECT_EQ(3u, m_stats.ams_rx);
    EXPECT_EQ(96u, vqp_rx_credit(&m_vqp.rx).ring);
    EXPECT_EQ(PEER_FIRST + 1u, vqp_rx_credit(&m_vqp.rx).fsn);
    record(96, 8);
    EXPECT_EQ(1, recv((PEER_FIRST + 1) | VQP_IMM_LAST));
}

TEST_F(vqp, they_come_before_what_was_ahead) {
    std::vector<unsigned> ids;
    vqp_rx_am_t am;

    open();
    record(0, 8, 1, {0, 100}, VQP_RECORD_MORE);
    next_record(32, 8);
    record(64, 8, 3, {0, 100}, VQP_RECORD_MORE);
    next_record(96, 8, 0, {0, 0}, 4);
    EXPECT_EQ(0, vqp_recv(&m_vqp, &m_paths[1], (PEER_FIRST + 1) | VQP_IMM_LAST, &am));
    for (int ret = vqp_recv(&m_vqp, &m_paths[0], PEER_FIRST | VQP_IMM_LAST, &am); ret == 1;
         ret = vqp_recv_next(&m_vqp, &m_paths[0], &am)) {
        ids.push_back(am.id);
        vqp_recv_done(&m_vqp, &am);
    }
    EXPECT_EQ(std::vector<unsigned>({1, 2, 3, 4}), ids);
}

TEST_F(vqp, a_bad_record_behind_another_one_breaks_the_peer) {
    const uint8_t more = VQP_RECORD_MORE;
    const struct {
        const char  *what;
        uint32_t     length;
        uint8_t      flags, id;
        vqp_credit_t credit;
    } cases[] = {
        {"too long", 4096, 0, 2, {0, 0}},
        {"unknown id", 8, 0, 8, {0, 0}},
        {"unknown flag", 8, 2, 2, {0, 0}},
        {"credit for bytes", 8, 0, 2, {16, 0}},
        {"credit for fsns", 8, 0, 2, {0, 100}},
    };

    for (const auto &c : cases) {
        open();
        record(0, 8, 1, {0, 100}, more);
        next_record(32, c.length, c.flags, c.credit, c.id);
        EXPECT_EQ(VQP_ERR_PROTOCOL, recv(PEER_FIRST | VQP_IMM_LAST)) << c.what;
        EXPECT_EQ(1u, m_stats.ams_rx) << c.what;
    }

    /* not one of them is at the begin of the ring: this would go on for ever */
    open();
    for (uint32_t offset = 0; offset < m_cfg.ring_size; offset += 1024) {
        record(offset, 1008, 1, {0, 0}, more); /* old credit, for the first one */
    }
    EXPECT_EQ(VQP_ERR_PROTOCOL, recv(PEER_FIRST | VQP_IMM_LAST));
    EXPECT_EQ(m_cfg.ring_size / 1024, m_stats.ams_rx);
}

TEST_F(vqp, a_receive_error_fails_it) {
    open();
    vqp_on_recv_error(&m_vqp, &m_paths[0], VQP_ERR_REMOTE);
    EXPECT_EQ(VQP_ERR_REMOTE, m_vqp.status);
    open();
    vqp_on_recv_error(&m_vqp, &m_paths[0], VQP_ERR_CANCELED); /* by the device */
    EXPECT_EQ(VQP_ERR_RESET, m_vqp.status);
}

TEST_F(vqp, receives_are_posted_again_a_batch_at_a_time) {
    open();
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(0, vqp_recv_used(&m_vqp, &m_paths[0]));
    }
    EXPECT_EQ(1, vqp_recv_used(&m_vqp, &m_paths[0]));
    EXPECT_EQ(4, m_paths[0].recv_used);
    vqp_recv_posted(&m_vqp, &m_paths[0], 4);
    EXPECT_EQ(+RECVS, m_paths[0].recv_posted);
    EXPECT_EQ(0, m_paths[0].recv_used);
    EXPECT_EQ(VQP_STATE_LIVE, m_vqp.state);
}

TEST_F(vqp, receives_that_could_not_be_posted_fail_it_and_are_not_waited_for) {
    open(1);
    m_paths[0].recv_used = 4;
    vqp_recv_posted(&m_vqp, &m_paths[0], 1);
    EXPECT_EQ(RECVS - 3, m_paths[0].recv_posted);
    EXPECT_EQ(VQP_ERR_IO, m_vqp.status);
    release();
    for (int i = 0; i < RECVS - 3; ++i) {
        EXPECT_EQ(events().back() == VQP_EVENT_RELEASE, false);
        vqp_set_event(&m_vqp, VQP_EVENT_STATE); /* so that back() has something */
        EXPECT_EQ(0, vqp_recv_used(&m_vqp, &m_paths[0]));
    }
    EXPECT_EQ(+VQP_EVENT_RELEASE, events().back());
}

TEST_F(vqp, a_failed_one_posts_no_receives) {
    open();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    for (unsigned i = 0; i < 10; ++i) {
        EXPECT_EQ(0, vqp_recv_used(&m_vqp, &m_paths[0]));
    }
}

/* ---- the state of a path ---- */

/* A path has a budget of frags that go without any check */
TEST_F(vqp, a_path_that_goes_down_takes_no_frag_and_one_that_is_up_does) {
    open();
    EXPECT_EQ(VQP_SEND_FRAG, send_am());
    EXPECT_EQ(VQP_SEND_FRAG, send_am());
    EXPECT_EQ(1, vqp_path_outstanding(&m_paths[0]));
    vqp_set_path_up(&m_vqp, 0, 0);
    for (unsigned i = 0; i < 4; ++i) {
        send_am();
        next();
    }
    EXPECT_EQ(1, vqp_path_outstanding(&m_paths[0]));
    EXPECT_EQ(5, vqp_path_outstanding(&m_paths[1]));

    vqp_set_path_up(&m_vqp, 0, 1);
    for (unsigned i = 0; i < 4; ++i) {
        send_am();
        next();
    }
    EXPECT_EQ(3, vqp_path_outstanding(&m_paths[0]));
    EXPECT_EQ(7, vqp_path_outstanding(&m_paths[1]));
}

/* ---- credit that goes out ---- */

TEST_F(vqp, a_message_advertises_the_credit) {
    open();
    record(0, 8);
    recv(PEER_FIRST | VQP_IMM_LAST);
    EXPECT_EQ(VQP_SEND_FRAG, send_am());
    EXPECT_EQ(32u, m_vqp.rx.advertised.ring);
    EXPECT_EQ(PEER_FIRST + 1, m_vqp.rx.advertised.fsn);
    auto *rec = (vqp_record_t*)m_mirror.data();
    EXPECT_EQ(32u, rec->credit_ring);
    EXPECT_EQ(PEER_FIRST + 1, rec->credit_fsn);
}

TEST_F(vqp, a_message_that_waits_for_a_path_advertises_when_it_goes) {
    open();
    for (vqp_path_t &path : m_paths) {
        path.up = 0;
        vqp_path_stop(&path);
    }
    for (uint32_t i = 0; i < m_cfg.fsn_window / 2; ++i) {
        recv(PEER_FIRST + i);
    }
    EXPECT_EQ(VQP_SEND_QUEUED, send_am());
    EXPECT_TRUE(m_vqp.am_queued);
    EXPECT_TRUE(next().empty());
    EXPECT_FALSE(m_vqp.am_queued);
    EXPECT_EQ(+PEER_FIRST, m_vqp.rx.advertised.fsn);
    EXPECT_EQ(PEER_FIRST + 32, m_vqp.rx.queued.fsn);
    EXPECT_TRUE(vqp_has_output(&m_vqp)); /* a credit update is due */
    EXPECT_TRUE(m_tx.slow & VQP_TX_CREDIT);

    for (vqp_path_t &path : m_paths) {
        path.up = 1;
    }
    auto frags = next();
    ASSERT_EQ(2u, frags.size());
    EXPECT_EQ(VQP_KIND_CREDIT, (int)frags[0].kind);
    EXPECT_EQ(PEER_FIRST + 32, m_vqp.rx.advertised.fsn);
    EXPECT_FALSE(vqp_has_output(&m_vqp));
}

TEST_F(vqp, a_queued_message_that_dispatch_sends_at_once_advertises) {
    open();
    record(0, 8);
    recv(PEER_FIRST | VQP_IMM_LAST);
    EXPECT_EQ(VQP_SEND_QUEUED, send_am(600)); /* of several frags */
    EXPECT_EQ(0u, m_vqp.rx.advertised.ring);
    EXPECT_EQ(3u, next().size());
    EXPECT_EQ(32u, m_vqp.rx.advertised.ring);
}

TEST_F(vqp, control_goes_out_at_a_share_of_the_ring) {
    open();
    record(0, m_cfg.ring_size / 4 - 16);
    EXPECT_FALSE(vqp_has_output(&m_vqp));
    recv(PEER_FIRST | VQP_IMM_LAST);
    EXPECT_TRUE(vqp_has_output(&m_vqp));
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(VQP_KIND_CREDIT, (int)frags[0].kind);
    EXPECT_EQ(m_cfg.ring_size / 4, m_cfg.cells->credit_ring);
    EXPECT_EQ(m_cfg.ring_size / 4, m_vqp.rx.advertised.ring);
    EXPECT_FALSE(vqp_has_output(&m_vqp));
}

/* ---- posting fails ---- */

TEST_F(vqp, of_a_batch_each_path_fails_from_its_own_frag_on) {
    open(4);
    for (unsigned i = 0; i < 8; ++i) {
        rma(VQP_KIND_PUT, 8, &u[i]);
    }
    auto frags = next(); /* two on each path */
    ASSERT_EQ(8u, frags.size());
    frags[5].flags |= VQP_FRAG_UNPOSTED; /* the second on path 1 */
    frags[2].flags |= VQP_FRAG_UNPOSTED; /* both on path 2 */
    vqp_post_failed(&m_vqp, frags.data(), 8);
    EXPECT_EQ(VQP_ERR_IO, m_vqp.status);
    EXPECT_EQ((std::vector<void*>{&u[2], &u[6], &u[5]}), reported(VQP_ERR_IO));
    EXPECT_EQ(5u, vqp_tx_outstanding(&m_tx));
    EXPECT_EQ(2, vqp_path_outstanding(&m_paths[0]));
    EXPECT_EQ(1, vqp_path_outstanding(&m_paths[1]));
    EXPECT_EQ(0, vqp_path_outstanding(&m_paths[2]));
    EXPECT_EQ(2, vqp_path_outstanding(&m_paths[3]));
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE, VQP_EVENT_FAILED}),
              events());

    /* Path 1 has lost the CQE that would confirm the rest; the others have one */
    EXPECT_TRUE(next().empty());
    vqp_qps_failed(&m_vqp);
    auto nops = next();
    ASSERT_EQ(1u, nops.size());
    EXPECT_EQ(&m_paths[1], nops[0].path);
    vqp_on_send_error(&m_vqp, nops[0].path, nops[0].slot, VQP_ERR_CANCELED);
    EXPECT_EQ(std::vector<void*>{&u[1]}, reported(VQP_OK));
}

TEST_F(vqp, one_frag_of_the_fast_path_that_fails_ends_its_op) {
    open(1);
    EXPECT_EQ(VQP_SEND_FRAG, send_am(8, &u[0]));
    m_frag.flags |= VQP_FRAG_UNPOSTED;
    vqp_post_failed(&m_vqp, &m_frag, 1);
    EXPECT_EQ(std::vector<void*>{&u[0]}, reported(VQP_ERR_IO));
    EXPECT_EQ(0u, vqp_tx_outstanding(&m_tx));
}

TEST_F(vqp, a_drain_nop_that_can_not_be_posted_gives_its_path_up) {
    open(4);
    for (unsigned i = 0; i < 8; ++i) {
        rma(VQP_KIND_PUT, 8, &u[i], 0);
    }
    next();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    vqp_qps_failed(&m_vqp);
    auto nops = next();
    ASSERT_EQ(4u, nops.size());
    nops[1].flags |= VQP_FRAG_UNPOSTED; /* in the middle */
    vqp_post_failed(&m_vqp, nops.data(), 4);
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
    EXPECT_EQ((std::vector<void*>{&u[1], &u[5]}), reported(VQP_ERR_TIMEOUT));
    EXPECT_EQ(9u, vqp_tx_outstanding(&m_tx));
    EXPECT_TRUE(next().empty());
    for (unsigned i : {0, 2, 3}) {
        vqp_on_send_error(&m_vqp, nops[i].path, nops[i].slot,
                          VQP_ERR_CANCELED);
    }
    EXPECT_EQ(6u, reported(VQP_OK).size());
    EXPECT_EQ(0u, vqp_tx_outstanding(&m_tx));
}

/* The one that is due is taken, whatever is due before it, and stays taken */
TEST_F(vqp, an_event_may_be_taken_ahead_of_the_others) {
    open();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    vqp_set_event(&m_vqp, VQP_EVENT_TIMER);
    EXPECT_FALSE(take(VQP_EVENT_CLOSED));
    EXPECT_TRUE(take(VQP_EVENT_TIMER));
    EXPECT_FALSE(take(VQP_EVENT_TIMER));
    EXPECT_EQ(VQP_EVENT_QPS, vqp_next_event(&m_vqp));
    EXPECT_FALSE(take(VQP_EVENT_QPS));
    EXPECT_EQ(VQP_EVENT_STATE, vqp_next_event(&m_vqp));
    EXPECT_EQ(VQP_EVENT_FAILED, vqp_next_event(&m_vqp));
    EXPECT_EQ(VQP_EVENT_NONE, vqp_next_event(&m_vqp));
}

TEST_F(vqp, drain_nops_wait_for_the_queue_pairs) {
    open();
    rma(VQP_KIND_GET, 8, &u[0], 0);
    next();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    EXPECT_TRUE(next().empty());
    EXPECT_TRUE(take(VQP_EVENT_QPS));
    EXPECT_FALSE(take(VQP_EVENT_QPS));
    vqp_qps_failed(&m_vqp);
    EXPECT_EQ(1u, next().size());
    EXPECT_TRUE(next().empty());
}

TEST_F(vqp, a_destroyed_path_ends_what_is_in_flight_there) {
    open();
    rma(VQP_KIND_PUT, 8, &u[0]);
    rma(VQP_KIND_PUT, 8, &u[1]);
    auto frags = next();
    vqp_fail(&m_vqp, VQP_ERR_IO);
    vqp_path_destroyed(&m_vqp, 0);
    EXPECT_EQ(std::vector<void*>{&u[0]}, reported(VQP_ERR_IO));
    EXPECT_EQ(0, m_paths[0].recv_posted);
    vqp_on_send_error(&m_vqp, frags[0].path, frags[0].slot, VQP_ERR_CANCELED);
    EXPECT_TRUE(reported().empty());

    release();
    vqp_path_destroyed(&m_vqp, 1);
    EXPECT_EQ(std::vector<void*>{&u[1]}, reported(VQP_ERR_IO));
    EXPECT_EQ(+VQP_EVENT_RELEASE, events().back());
}

TEST_F(vqp, paths_are_destroyed_before_it_is_connected) {
    create();
    release();
    vqp_path_destroyed(&m_vqp, 0);
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE}), events());
    vqp_path_destroyed(&m_vqp, 1);
    EXPECT_EQ(events_t({VQP_EVENT_RELEASE}), events());
}

/* ---- completions ---- */

TEST_F(vqp, a_send_error_fails_it) {
    open();
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = next();
    vqp_on_send_error(&m_vqp, frags[0].path, frags[0].slot, VQP_ERR_REMOTE);
    EXPECT_EQ(VQP_ERR_REMOTE, m_vqp.status);
    EXPECT_EQ(std::vector<void*>{&u[0]}, reported(VQP_ERR_REMOTE));
}

TEST_F(vqp, a_flushed_send_without_a_reason_is_a_reset) {
    open();
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = next();
    vqp_on_send_error(&m_vqp, frags[0].path, frags[0].slot, VQP_ERR_CANCELED);
    EXPECT_EQ(VQP_ERR_RESET, m_vqp.status);
    EXPECT_EQ(std::vector<void*>{&u[0]}, reported(VQP_ERR_RESET));
}

TEST_F(vqp, a_stale_completion_confirms_nothing) {
    open();
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = next();
    EXPECT_EQ(0u, vqp_on_send(&m_vqp, &m_paths[1], 7));
    EXPECT_EQ(1u, vqp_on_send(&m_vqp, frags[0].path, frags[0].slot));
    EXPECT_EQ(0u, vqp_on_send(&m_vqp, frags[0].path, frags[0].slot));
    EXPECT_EQ(1u, reported().size());
}

/* ---- flush ---- */

TEST_F(vqp, a_flush_of_a_failed_one_has_its_status) {
    open();
    rma(VQP_KIND_PUT, 8, &u[0]);
    auto frags = next();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    EXPECT_TRUE(vqp_flush(&m_vqp, VQP_OP_BUFFER, &u[1], 1));
    EXPECT_TRUE(reported().empty());
    vqp_on_send_error(&m_vqp, frags[0].path, frags[0].slot, VQP_ERR_CANCELED);
    EXPECT_EQ((std::vector<void*>{&u[0], &u[1]}), reported(VQP_ERR_TIMEOUT));
    EXPECT_TRUE(vqp_flush(&m_vqp, VQP_OP_BUFFER, &u[2], 1));
    EXPECT_EQ(std::vector<void*>{&u[2]}, reported(VQP_ERR_TIMEOUT));
}

TEST_F(vqp, a_flush_ends_when_it_fails) {
    open();
    rma(VQP_KIND_GET, 8, nullptr, 0);
    next();
    vqp_flush(&m_vqp, VQP_OP_BUFFER, &u[0], 1);
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    vqp_qps_failed(&m_vqp);
    EXPECT_TRUE(reported().empty());
    for (const vqp_frag_t &nop : next()) {
        vqp_on_send_error(&m_vqp, nop.path, nop.slot, VQP_ERR_CANCELED);
    }
    EXPECT_EQ(std::vector<void*>{&u[0]}, reported(VQP_ERR_TIMEOUT));
}

/* ---- close ---- */

TEST_F(vqp, a_close_of_an_idle_one_is_over_at_once) {
    open();
    EXPECT_EQ(0, vqp_close(&m_vqp));
    EXPECT_EQ(VQP_OWNER_CLOSING, m_vqp.owner);
    EXPECT_TRUE(take(VQP_EVENT_CLOSED));
    EXPECT_EQ(VQP_OWNER_NONE, m_vqp.owner);
    EXPECT_FALSE(take(VQP_EVENT_CLOSED));
    EXPECT_EQ(events_t(), events());
    EXPECT_EQ(VQP_STATE_LIVE, m_vqp.state);
}

TEST_F(vqp, a_close_before_it_is_connected_is_over_at_once) {
    create();
    vqp_open(&m_vqp);
    EXPECT_EQ(0, vqp_close(&m_vqp));
    EXPECT_EQ(events_t({VQP_EVENT_CLOSED}), events());
    EXPECT_EQ(VQP_OWNER_NONE, m_vqp.owner);
}

TEST_F(vqp, a_close_waits_for_what_needs_no_memory_of_the_user) {
    open();
    EXPECT_EQ(VQP_SEND_FRAG, send_am());
    EXPECT_EQ(0, vqp_close(&m_vqp));
    EXPECT_EQ(events_t(), events());
    auto nops = next();
    ASSERT_EQ(1u, nops.size());
    EXPECT_EQ(1u + 1u, vqp_on_send(&m_vqp, nops[0].path, nops[0].slot));
    EXPECT_TRUE(reported().empty()); /* the barrier of the close is not shown */
    EXPECT_EQ(events_t({VQP_EVENT_CLOSED}), events());
    EXPECT_EQ(VQP_STATE_LIVE, m_vqp.state);
    EXPECT_EQ(VQP_OWNER_NONE, m_vqp.owner);
}

TEST_F(vqp, a_close_finds_a_slot_in_a_full_ring) {
    m_num_ops = 4;
    open();
    while (rma(VQP_KIND_PUT, 8)) {
    }
    EXPECT_EQ(0, vqp_close(&m_vqp));
    for (const vqp_frag_t &frag : next()) {
        vqp_on_send(&m_vqp, frag.path, frag.slot);
    }
    reported();
    EXPECT_EQ(events_t({VQP_EVENT_CLOSED}), events());
}

TEST_F(vqp, a_close_cancels_what_uses_memory_of_the_user) {
    uint64_t result = 1;
    vqp_tx_iter_t iter;
    vqp_op_t *op;

    open();
    fadd(&result, &u[0], VQP_OP_SIGNAL);
    m_rma_ops[0].flags |= VQP_OP_BUFFER;
    auto frags = next();
    EXPECT_EQ(1, vqp_close(&m_vqp));
    EXPECT_EQ(VQP_STATE_FAILED, m_vqp.state);
    EXPECT_EQ(VQP_ERR_CANCELED, m_vqp.status);

    vqp_tx_iter_init(&m_tx, &iter);
    op = vqp_cancel_next(&m_vqp, &iter);
    ASSERT_NE(nullptr, op);
    EXPECT_EQ(&u[0], op->user);
    op->user_kind = 0;
    EXPECT_EQ(nullptr, vqp_cancel_next(&m_vqp, &iter));

    EXPECT_TRUE(take(VQP_EVENT_QPS));
    EXPECT_TRUE(take(VQP_EVENT_CLOSED));
    *(uint64_t*)(uintptr_t)frags[0].sge[0].addr = 4711;
    vqp_on_send(&m_vqp, frags[0].path, frags[0].slot); /* it was executed */
    EXPECT_TRUE(reported().empty());
    EXPECT_EQ(1u, result);
}

TEST_F(vqp, a_close_cancels_a_flush_that_somebody_waits_for) {
    open();
    send_am();
    vqp_flush(&m_vqp, VQP_OP_BUFFER, &u[0], 1);
    EXPECT_EQ(1, vqp_close(&m_vqp));
    EXPECT_EQ(VQP_ERR_CANCELED, m_vqp.status);
}

TEST_F(vqp, a_close_of_a_failed_one_is_over_at_once) {
    open();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    events();
    EXPECT_EQ(1, vqp_close(&m_vqp));
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
    EXPECT_EQ(events_t({VQP_EVENT_CLOSED}), events());
}

TEST_F(vqp, a_close_after_the_peer_closed_fails_it) {
    open();
    vqp_on_conn_end(&m_vqp, VQP_ERR_RESET, 1, 0);
    EXPECT_EQ(1, vqp_close(&m_vqp));
    EXPECT_EQ(VQP_STATE_FAILED, m_vqp.state);
    EXPECT_TRUE(take(VQP_EVENT_CLOSED));
}

TEST_F(vqp, a_failure_ends_a_close_that_waits) {
    open();
    send_am();
    EXPECT_EQ(0, vqp_close(&m_vqp));
    auto nops = next();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE, VQP_EVENT_CLOSED,
                        VQP_EVENT_FAILED}), events());
    EXPECT_EQ(VQP_OWNER_NONE, m_vqp.owner);

    /* The barrier ends later, and is not a second event */
    vqp_on_send_error(&m_vqp, nops[0].path, nops[0].slot, VQP_ERR_CANCELED);
    EXPECT_TRUE(reported().empty());
    EXPECT_EQ(events_t(), events());
}

TEST_F(vqp, a_close_that_ends_while_another_endpoint_has_it_is_no_event) {
    open();
    send_am();
    vqp_close(&m_vqp);
    auto nops = next();
    vqp_open(&m_vqp);
    vqp_on_send(&m_vqp, nops[0].path, nops[0].slot);
    EXPECT_TRUE(reported().empty());
    EXPECT_EQ(events_t(), events());
    EXPECT_EQ(VQP_OWNER_OPEN, m_vqp.owner);
}

/* ---- release ---- */

TEST_F(vqp, a_release_waits_for_sends_and_receives) {
    open();
    rma(VQP_KIND_PUT, 8, nullptr);
    auto frags = next();
    release();
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE}), events());
    m_paths[0].recv_used = RECVS;
    m_paths[1].recv_used = RECVS - 1;
    EXPECT_EQ(events_t(), events());
    ++m_paths[1].recv_used;
    EXPECT_EQ(events_t(), events());
    vqp_on_send_error(&m_vqp, frags[0].path, frags[0].slot, VQP_ERR_CANCELED);
    EXPECT_EQ(events_t({VQP_EVENT_RELEASE}), events());
    EXPECT_EQ(events_t({VQP_EVENT_RELEASE}), events()); /* until it is gone */
}

TEST_F(vqp, a_release_reports_nothing_to_users) {
    open();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    release();
    EXPECT_EQ(events_t({VQP_EVENT_QPS, VQP_EVENT_STATE}), events());
}

/* ---- time ---- */

TEST_F(vqp, a_gap_beyond_its_limit_fails_it) {
    m_gap = 80;
    open();
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
    recv(PEER_FIRST + 1);
    EXPECT_TRUE(take(VQP_EVENT_TIMER));
    EXPECT_EQ(0u, vqp_next_timeout(&m_vqp));
    vqp_on_time(&m_vqp, 2000, 1); /* seen first */
    EXPECT_EQ(2010u, vqp_next_timeout(&m_vqp));
    recv(PEER_FIRST + 2);
    EXPECT_FALSE(take(VQP_EVENT_TIMER)); /* it is known */
    vqp_on_time(&m_vqp, 2080, 1);
    EXPECT_EQ(VQP_STATE_LIVE, m_vqp.state);
    vqp_on_time(&m_vqp, 2100, 0); /* it may be in a completion queue */
    EXPECT_EQ(VQP_STATE_LIVE, m_vqp.state);
    EXPECT_EQ(2100 + MSEC, vqp_next_timeout(&m_vqp)); /* others are due before */
    vqp_on_time(&m_vqp, 2100 + MSEC, 1);
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
    EXPECT_EQ(100 + MSEC, m_vqp.gap.failed);
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

TEST_F(vqp, a_gap_that_is_filled_stops_its_timer_until_the_next_one) {
    m_gap = 80;
    open();
    for (uint32_t first = PEER_FIRST; first != PEER_FIRST + 6; first += 2) {
        recv(first + 1);
        EXPECT_TRUE(take(VQP_EVENT_TIMER));
        vqp_on_time(&m_vqp, 1000, 1);
        recv(first);
        vqp_on_time(&m_vqp, 99000, 1);
        EXPECT_EQ(99010u, vqp_next_timeout(&m_vqp)); /* there may be more of them */
        vqp_on_time(&m_vqp, 99010, 1);
        EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
    }
    EXPECT_EQ(VQP_STATE_LIVE, m_vqp.state);
}

TEST_F(vqp, a_gap_without_a_limit_is_not_looked_at) {
    open();
    recv(PEER_FIRST + 1);
    EXPECT_FALSE(take(VQP_EVENT_TIMER));
    EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp));
}

/* A duplicate is not ahead of anything */
TEST_F(vqp, a_duplicate_starts_no_timer) {
    m_gap = 80;
    open();
    recv(PEER_FIRST);
    recv(PEER_FIRST);
    EXPECT_FALSE(take(VQP_EVENT_TIMER));
}

TEST_F(vqp, a_passive_one_checks_its_peer_after_silence) {
    m_probe = 80;
    open();
    m_vqp.owner = VQP_OWNER_NONE;
    vqp_on_time(&m_vqp, 40, 1);
    EXPECT_EQ(80u, vqp_next_timeout(&m_vqp));
    EXPECT_FALSE(vqp_has_output(&m_vqp));
    vqp_on_time(&m_vqp, 80, 1);
    EXPECT_TRUE(vqp_has_output(&m_vqp));
    auto nops = next();
    ASSERT_EQ(1u, nops.size());
    EXPECT_EQ(VQP_KIND_NOP, (int)nops[0].kind);
    EXPECT_TRUE(nops[0].flags & VQP_FRAG_SIGNALED);
    vqp_on_time(&m_vqp, 150, 1);
    EXPECT_FALSE(vqp_has_output(&m_vqp));
    vqp_on_time(&m_vqp, 160, 1);
    EXPECT_TRUE(next().empty()); /* the first one is still in flight */
}

TEST_F(vqp, traffic_is_a_sign_of_life) {
    m_probe = 80;
    open();
    m_vqp.owner = VQP_OWNER_NONE;
    record(0, 8);
    recv(PEER_FIRST | VQP_IMM_LAST);
    vqp_on_time(&m_vqp, 100, 1);
    EXPECT_FALSE(vqp_has_output(&m_vqp));
    vqp_on_time(&m_vqp, 140, 1);
    EXPECT_FALSE(vqp_has_output(&m_vqp));
    vqp_on_time(&m_vqp, 180, 1);
    EXPECT_TRUE(vqp_has_output(&m_vqp));
}

TEST_F(vqp, an_open_or_failed_one_or_one_without_an_interval_checks_nothing) {
    for (unsigned why = 0; why < 3; ++why) {
        m_probe = (why == 0) ? 0 : 80;
        open();
        m_vqp.owner = (why == 1) ? VQP_OWNER_OPEN : VQP_OWNER_NONE;
        if (why == 2) {
            vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
        }
        EXPECT_EQ(UINT64_MAX, vqp_next_timeout(&m_vqp)) << why;
        vqp_on_time(&m_vqp, 1000, 1);
        EXPECT_TRUE(next().empty()) << why;
    }
}

/* Its owner looks at the timer when the endpoint has gone */
TEST_F(vqp, the_probes_begin_with_the_end_of_the_endpoint) {
    m_probe = 80;
    open();
    EXPECT_EQ(0, vqp_close(&m_vqp));
    EXPECT_TRUE(take(VQP_EVENT_CLOSED));
    EXPECT_TRUE(take(VQP_EVENT_TIMER));
    EXPECT_EQ(0u, vqp_next_timeout(&m_vqp));
}

TEST_F(vqp, a_check_gets_a_cqe_for_what_is_in_flight) {
    open();
    EXPECT_EQ(VQP_SEND_FRAG, send_am());
    EXPECT_FALSE(m_frag.flags & VQP_FRAG_SIGNALED);
    vqp_check(&m_vqp);
    auto nops = next();
    ASSERT_EQ(1u, nops.size()); /* and no other */
    EXPECT_EQ(m_frag.path, nops[0].path);
}

} /* namespace */
