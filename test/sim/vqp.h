/*
 * One side of a connection: the core object, its queue pairs, and what passes frags,
 * completions and events between them. It decides nothing: that is the core's.
 */
#ifndef VQP_SIM_VQP_H
#define VQP_SIM_VQP_H

#include "fabric.h"
#include "params.h"

#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "core/conn/conndrive.h"
#include "core/failover/alive.h"
#include "core/failover/elastic.h"
#include "core/failover/inbox.h"
#include "core/failover/replay.h"
#include "core/failover/slow.h"
#include "core/mirror.h"
#include "core/rings.h"
#include "core/vqp.h"
}

namespace sim {

class ep;
class node;
class vqp;

/* So that a vqp_conn_t leads to its vqp */
struct conn_slot {
    vqp_conn_t conn;
    vqp       *self;
};

class vqp {
public:
    static const uint16_t FIRST_SLOT = (uint16_t)-20;
    static const unsigned MAX_IOV   = 7;
    static const unsigned RAILS     = 2;
    static const unsigned MTU_SHIFT = 9; /* log2 of the bytes of a packet */

    vqp(node &owner, uint32_t id);
    ~vqp();

    static vqp *of(vqp_conn_t *conn) { return ((conn_slot*)conn)->self; }

    /* ---- the connection ---- */
    vqp_status_t connect(const vqp_wire_info_t &peer);
    void fail(vqp_status_t status);
    void use();
    void cancel();
    void conn_end();
    /* What uct_ep_destroy does */
    void close();
    void schedule();
    /* After completions: report, dispatch, do what the core asks for */
    void run();
    void update_ready();
    /* Is anything under way? */
    bool is_busy() const;
    bool is_live() const { return slot.conn.state == VQP_CONN_LIVE; }
    bool is_connected() const { return vqp_is_connected(&core); }
    bool is_failed() const { return vqp_is_failed(&core); }
    bool allows(uint64_t addr, uint64_t length, uint32_t rkey,
                unsigned rail) const;

    /* ---- frags and completions ---- */
    void on_cqe(const cqe &c);
    void tx_progress();
    void post_one(vqp_frag_t &frag);
    /* The mirror of ring 0, if the core lacks it: does it have it now? */
    bool get_first_mirror();
    /* Another vqp needs it: is it free? */
    bool give_up_first_mirror();
    bool ask_for_first_mirror();
    bool has_first_mirror() const { return !m_mirror.empty(); }
    void note_posted(const vqp_frag_t &frag, op *owner);
    void note_unposted(const vqp_frag_t &frag);
    void note_executed(unsigned path, uint16_t slot);
    /* The data of a READ is here */
    void note_read(unsigned path, uint16_t slot);
    /* A path message has come, or is due */
    void on_path_message(const vqp_wire_msg_t &msg);
    void take_path_messages();
    void on_timer();
    void check();
    /* Once a second */
    bool is_flushed() const
    {
        return !is_connected() || vqp_tx_is_flushed(&core.tx);
    }

    /* ---- what must hold ---- */
    void audit();
    std::string name() const;
    std::string str() const;
    uint32_t any_qpn(unsigned path, uint32_t imm);
    qp &path_qp(unsigned path) { return *m_qps[path]; }
    unsigned peer_rail(unsigned path) const { return paths[path].peer_rail; }
    unsigned rails_of(unsigned path) const
    {
        return paths[path].rail * 256u + paths[path].peer_rail;
    }
    /* The same, although the path may be off yet */
    unsigned future_peer_rail(unsigned path) const
    {
        return (peer_info.paths[0].rail + path) % RAILS;
    }

    conn_slot                 slot {};
    node                     &owner;
    uint32_t                  id;
    vqp_t                     core;
    vqp_wire_info_t           info {};
    vqp_wire_info_t           peer_info {};
    std::vector<vqp_path_t>   paths;
    std::shared_ptr<channel>  sent;     /* the direction from here */
    ep                       *user = nullptr;
    unsigned                  num_paths;
    bool ready        = false;
    bool is_scheduled = false;
    bool fail_post    = false;           /* the next one, in its middle */
    uint64_t narrow_until[8] = {};       /* by path: full packets are dropped, between... */
    unsigned narrow_rails[8] = {};       /* ...this pair of rails */
    bool fail_repost  = false;
    /* what the control plane reports, until the next progress call */
    bool cm_live = false, cm_end = false;

    /* The direction to here; known when connected */
    channel *received() { return m_received.get(); }

private:
    void note_own(uint32_t seq);
    struct cover {
        uint16_t slot;
        op      *owner;
        uint32_t length, imm;
        uint8_t  kind, opcode;
        bool     fence, executed, read;
    };

    void make_info();
    void set_depth(vqp_path_t &path, uint16_t depth);
    void init_paths(const vqp_wire_info_t &peer);
    void fill_tx_config(const vqp_wire_info_t &peer, vqp_tx_config_t &cfg);
    void init_core(const vqp_wire_info_t &peer, uint64_t unresolved);
    uint64_t draw_unresolved(unsigned count);
    unsigned count_paths(const vqp_wire_info_t &peer) const;
    unsigned count_connected(const vqp_wire_info_t &peer) const;
    bool has_failover() const;
    bool has_rails() const;
    uint32_t good_rails();
    void on_send(const cqe &c);
    void on_recv(const cqe &c);
    void repost(const cqe &c);
    void confirm(unsigned path, uint16_t slot);
    void cover_failed(unsigned path, uint16_t slot);
    bool deliver(const vqp_rx_am_t &am);
    void post(vqp_batch_t &batch);
    void drain();
    void handle_failure();
    void fail_qps();
    void handle_events();
    void handle_ring_event(vqp_event_t event);
    bool handle_path_event(vqp_event_t event);
    void quiesce(vqp_path_t &path);
    void count(vqp_path_t &path);
    void destroy(vqp_path_t &path);
    void rebuild(vqp_path_t &path);
    void reconnect(vqp_path_t &path);
    void connect_qp(unsigned path, uint32_t peer_qpn);
    void send_path_messages(vqp_path_t &path);
    void give_ops();
    void get_ring();
    void get_mirror();
    void put_mirror();
    void ping();
    void check_dead();
    void set_timer(uint64_t pause = 0);
    void check_gap();
    void check_lost();
    void check_trims();
    void trim(unsigned path);
    void check_cause();
    void cancel_all();
    void closed();
    void report();
    void report_failure();
    /* audit.cc */
    std::vector<uint16_t> in_flight(vqp_path_t &path);
    void audit_paths();
    void audit_ops();
    void audit_fsns();
    void audit_ring();
    void audit_window();
    void audit_peer();
    void broke(const char *what, uint64_t is, uint64_t should);

    std::vector<std::unique_ptr<qp>>         m_qps;
    std::vector<std::vector<vqp_inflight_t>> m_inflight;
    std::vector<vqp_op_t>                    m_am_ops, m_rma_ops;
    std::vector<vqp_op_t>                    m_more_am_ops, m_more_rma_ops;
    std::vector<vqp_iov_t>                   m_iov_ext;
    std::vector<uint8_t>                     m_map;
    std::vector<char>                        m_ring, m_mirror;
    std::vector<char>                        m_rings[2], m_mirrors[2]; /* 1 and 2 */
    unsigned                                 m_num_rings = 0;
    uint32_t                                 m_rings_rkeys[2][RAILS];
    uint32_t                                 m_ring_limit = 0; /* of bytes out */
    uint64_t                                 m_switches = 0; /* at the last audit */
    std::vector<char>                        m_cells_in, m_cells_out;
    std::vector<uint64_t>                    m_amo_results;
    std::vector<std::deque<cover>>           m_covers;
    uint32_t                                 m_ring_rkeys[RAILS];
    uint32_t                                 m_peer_rkeys[RAILS];
    uint32_t                                 m_scratch_rkeys[RAILS];
    std::unique_ptr<vqp_batch_t>             m_batch;
    std::shared_ptr<channel>                 m_received; /* the other way */
    unsigned                                 m_events  = 0;
    uint64_t                                 m_timer = UINT64_MAX;
    std::vector<bool>                        m_trimmed, m_lost;
    std::vector<vqp_inbox_t>                 m_inboxes;
    bool                                     m_has_messages = false;
    bool                                     m_is_destroyed = false; /* a queue pair */
};

} /* namespace sim */

#endif
