/*
 * One side of a connection: the cores of both directions, its queue pairs, and
 * the glue between them, as a transport has it.
 */
#ifndef VQP_SIM_VQP_H
#define VQP_SIM_VQP_H

#include "fabric.h"
#include "params.h"

#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "core/confirm.h"
#include "core/conntab.h"
#include "core/fast.h"
#include "core/rx.h"
#include "core/tx.h"
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
    static const uint16_t FIRST_POS = (uint16_t)-20;
    static const unsigned MAX_IOV   = 7;
    static const unsigned RAILS     = 2;

    vqp(node &owner, uint32_t id);
    ~vqp();

    static vqp *of(vqp_conn_t *conn) { return ((conn_slot*)conn)->self; }

    /* ---- the connection ---- */
    vqp_status_t connect(const vqp_wire_info_t &peer);
    void fail(vqp_status_t status);
    void touch();
    /* After completions: report, tell credit, dispatch, serve who waits */
    void run();
    void cancel_all();
    bool must_cancel() const;
    void begin_last_flush() { vqp_tx_flush_begin(&tx, &m_last_flush); }
    void run_closing();
    void bury();
    bool try_destroy();
    void update_ready();
    /* Is anything under way? */
    bool is_busy() const;
    bool is_live() const { return slot.conn.state == VQP_CONN_LIVE; }
    bool allows(uint64_t addr, uint64_t length, uint32_t rkey,
                unsigned rail) const;

    /* ---- completions ---- */
    void on_cqe(const cqe &c);
    void pump();
    void post(vqp_batch_t &batch);
    /* A post of one frag, not through dispatch */
    void post_one(vqp_frag_t &frag);
    void note_posted(const vqp_frag_t &frag, op *owner);
    void check();

    /* ---- what must hold ---- */
    void audit();
    std::string name() const;
    std::string str() const;
    uint32_t any_qpn(unsigned path, uint32_t imm);
    qp &path_qp(unsigned path) { return *m_qps[path]; }
    unsigned peer_rail(unsigned path) const { return paths[path].peer_rail; }

    conn_slot                 slot {};
    node                     &owner;
    uint32_t                  id;
    vqp_tx_t                  tx {};
    vqp_rx_t                  rx {};
    vqp_stats_t               stats {};
    vqp_wire_info_t           info {};
    vqp_wire_info_t           peer_info {};
    std::vector<vqp_path_t>   paths;
    std::shared_ptr<channel>  sent;     /* the direction from here */
    ep                       *user = nullptr;
    unsigned                  num_paths;
    bool connected = false, failed = false, live = false, ready = false;
    bool canceled = false, closing = false, dying = false, peer_gone = false;
    bool reported = false, no_resource = false, is_touched = false;
    bool saw_imm  = false;
    bool fail_post = false;              /* the next one, in its middle */
    vqp_status_t status = VQP_OK;
    /* marks of the control plane */
    bool mark_live = false, mark_failed = false, mark_destroy = false;
    vqp_status_t mark_status = VQP_OK;

    /* The direction to here; known when connected */
    channel *received() { return m_received.get(); }

private:
    struct cover {
        uint16_t pos;
        op      *owner;
    };

    void make_info();
    void init_core(const vqp_wire_info_t &peer);
    void init_paths(const vqp_wire_info_t &peer);
    void on_send(const cqe &c);
    void on_recv(const cqe &c);
    void repost(const cqe &c);
    void confirm(unsigned path, uint16_t pos);
    bool deliver(uint32_t flags);
    void credit(const vqp_credit_t &c);
    void bad_peer(const char *what);
    void set_failed(vqp_status_t a_status);
    void last_words();
    void post_failed(vqp_batch_t &batch);
    void report();
    void report_failure();
    bool is_quiet() const;
    /* audit.cc */
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
    std::vector<vqp_iov_t>                   m_iov_ext;
    std::vector<uint8_t>                     m_fsn_path, m_map;
    std::vector<char>                        m_ring, m_mirror;
    std::vector<char>                        m_cells_in, m_cells_out;
    std::vector<uint64_t>                    m_amo_results;
    vqp_tx_flush_t                           m_last_flush {};
    std::vector<std::deque<cover>>           m_covers;
    std::vector<unsigned>                    m_recv_posted, m_recv_missing;
    uint32_t                                 m_ring_rkeys[RAILS];
    uint32_t                                 m_peer_rkeys[RAILS];
    std::unique_ptr<vqp_batch_t>             m_batch;
    std::shared_ptr<channel>                 m_received; /* the other way */
    unsigned                                 m_events = 0;
};

} /* namespace sim */

#endif
