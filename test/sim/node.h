/*
 * An interface: its table of connections, its completion queues, its memory,
 * and the progress function.
 */
#ifndef VQP_SIM_NODE_H
#define VQP_SIM_NODE_H

#include "fabric.h"
#include "net.h"
#include "params.h"
#include "vqp.h"

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace sim {

class ep;
class world;

class node {
public:
    node(world &w, unsigned index, const params &p);
    ~node();

    /* ---- the control plane ---- */
    vqp *connect(node &peer);
    vqp_conn_dest_t address(unsigned rail) const;
    void on_datagram(const datagram &d);
    void on_tick();
    /* Queue pairs that took long are there */
    void on_qps(uint32_t vqp_id);
    void run_actions();
    void send(const vqp_conntab_action_t &action);
    /* The process dies; another one gets the same control queue pair */
    void restart();
    uint64_t iface_id() const { return config.iface_id; }

    /* ---- completions ---- */
    void push_cqe(unsigned rail, const cqe &c);
    bool has_cqe(const vqp &v, unsigned path) const;
    void wake();
    void progress();
    void set_clock(vqp_tx_t &tx) const;
    void defer(vqp &v);
    void run_deferred();
    bool is_idle() const;
    /* Does no completion wait to be polled? */
    bool is_drained() const;

    /* ---- memory ---- */
    /* A place for puts and gets that nobody used before, or nullptr */
    char *target(uint64_t length);
    bool owns(const char *begin, uint64_t length) const;
    char *counter() { return m_heap.get(); }

    /* May a vqp get a mirror? Takes one of another vqp if there are no more */
    bool find_mirror();

    void destroy(vqp *v);
    /* Structural invariants of the table */
    void check_table();

    world                &w;
    unsigned              index;
    params                p;
    uint32_t              ud_qpn;
    vqp_conntab_t         table {};
    vqp_conntab_config_t  config {};
    uint32_t              lkeys[vqp::RAILS], heap_rkeys[vqp::RAILS];
    uint32_t              scratch_rkeys[vqp::RAILS];
    vqp_turns_t           turns {}; /* of rebuilds */
    std::vector<char>     scratch; /* of peers' probes, then what own probes send */
    std::deque<uint32_t>  scheduled;
    std::vector<std::unique_ptr<vqp>> vqps;
    std::vector<std::unique_ptr<ep>>  eps;
    uint64_t              seen = 0;   /* ns: newest poll that found nothing */
    uint64_t              looked = 0; /* ns: newest poll */

private:
    void init_table();
    void act(const vqp_conntab_action_t &action);
    void create_passive(const vqp_wire_msg_t *req);
    void connect_qps(vqp &v, const vqp_wire_info_t &peer);
    void note_created(const vqp &v);
    void set_timer();
    void run_cm_notes();
    bool poll();
    void run_scheduled();

    std::vector<uint64_t>                          m_mem;
    /* zeroed, and taken from the system when it is scheduled */
    std::unique_ptr<char, void(*)(void*)>          m_heap;
    size_t                                         m_heap_size;
    size_t                                         m_heap_used = 64;
    std::deque<cqe>                                m_cqs[vqp::RAILS];
    bool                                           m_awake     = false;
    bool                                           m_in_action = false;
    uint64_t                                       m_tick      = UINT64_MAX;
    uint64_t m_absent = 0; /* the process that has died is not back before */
    std::set<std::tuple<uint64_t, uint32_t, bool>> m_created;
    static const uint64_t DEFER = 100000; /* ns */

    std::set<uint32_t>                             m_deferred;
    std::map<uint32_t, vqp_wire_info_t>            m_slow; /* being connected */
    std::set<uint64_t>                             m_lacked; /* found no memory */
};

} /* namespace sim */

#endif
