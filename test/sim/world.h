/*
 * The seeded world: a virtual clock, the nodes, the faults, and the verdict.
 * One run is one object; the same seed and configuration give the same run.
 */
#ifndef VQP_SIM_WORLD_H
#define VQP_SIM_WORLD_H

#include "net.h"
#include "oracle.h"
#include "params.h"

#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

namespace sim {

class ep;
class node;
class qp;
class vqp;

enum event_kind : uint8_t {
    EV_WIRE,      /* a queue pair delivers or acknowledges */
    EV_DUPLICATE, /* an immediate comes again */
    EV_DATAGRAM,
    EV_TICK,      /* a timer of a connection table */
    EV_PROGRESS,  /* a node polls */
    EV_ACT,       /* an endpoint's program goes on */
    EV_QPS,       /* queue pairs that took long are connected */
    EV_FAULT,
    EV_UNPARK,
    EV_TIMER,     /* the timer of a vqp */
    EV_DEFERRED   /* dispatch that waits for a busy path is tried again */
};

const char *kind_name(unsigned kind);

/* Where a trace goes, line by line */
class trace_sink {
public:
    virtual ~trace_sink() = default;
    virtual void line(const char *text) = 0;
};

class world {
public:
    /* @a sink may be nullptr: tracing costs a lot. */
    world(uint64_t seed, const std::string &config, trace_sink *sink);
    ~world();

    /* All of it: workload with faults, then without, then the end.
     * @return whether everything held. */
    bool run();

    void at(uint64_t when, event_kind kind, uint32_t id, uint64_t arg = 0);
    /* The first violation counts; what follows from it does not */
    void fail(const char *checker, const std::string &text);
    bool failed() const { return !m_failure.empty(); }
    const std::string &failure() const { return m_failure; }
    const std::string &checker() const { return m_checker; }
    uint64_t events() const { return m_events; }
    /* Messages that came as they were sent, on all connections */
    uint64_t ams_delivered() const;

    /* Something happens that may fail a connection */
    void hard_fault() { m_is_hard = true; }
    /* Might a connection have failed by now? */
    bool had_hard_fault() const { return m_is_hard; }
    /* Do faults still happen? */
    bool may_disturb() const { return !m_calm; }

    bool trace_on() const { return m_trace != nullptr; }
    void trace(const char *format, ...) __attribute__((format(printf, 2, 3)));

    channel *new_channel(bool comp_post, bool order_all,
                         std::shared_ptr<channel> *out);
    vqp *find_vqp(uint32_t id);
    /* The other side of a connection, if it still is one */
    vqp *partner(const vqp &v);

    /* Atomics: what was found at @a remote, and what was added there */
    void fetched(const char *remote, uint64_t value);
    void added(const char *remote, uint64_t value);

    params   base;
    uint64_t batches = 0; /* of all programs, to their end */
    rng      net, work, fault, move, stop, narrow, elastic, rings, queues;
    uint64_t now = 1000000000;
    datagrams ud;
    std::vector<std::unique_ptr<node>> nodes;
    std::map<uint32_t, qp*>            qps;
    std::map<uint32_t, vqp*>           vqps;
    std::map<uint32_t, ep*>            eps;
    uint32_t next_qpn = 0x100;
    uint32_t next_id  = 1;

private:
    struct event {
        uint64_t   when, order, arg;
        uint32_t   id;
        event_kind kind;

        bool operator<(const event &other) const
        {
            return (when != other.when) ? (when > other.when) :
                                          (order > other.order);
        }
    };

    struct counter {
        std::set<uint64_t> fetched;
        uint64_t           sum = 0;
    };

    bool live();
    void trace_state();
    bool step();
    void dispatch(const event &e);
    void settle();
    void settle_probing();
    void start_programs();
    /* faults.cc */
    void plan_faults();
    void disturb(uint64_t which);
    vqp *any_vqp();
    vqp *random_vqp(rng &random);
    void move_path();
    void narrow_path();
    void change_path(bool is_add);
    void check_paths(vqp &v, vqp &peer);
    void send_byzantine(vqp &v);
    void unpark(uint32_t vqp_id, unsigned path);
    void calm_down();
    /* check.cc */
    void probe_all();
    void check_rest();
    void check_agreement();
    uint64_t planned_batches() const;
    void check_end();
    void close_all();

    uint64_t                              m_seed;
    std::string                           m_config;
    trace_sink                           *m_trace;
    std::string                           m_failure, m_checker;
    std::priority_queue<event>            m_queue;
    uint64_t                              m_order  = 0;
    uint64_t                              m_events = 0;
    bool                                  m_calm        = false;
    uint64_t                              m_stopped     = 0; /* until then */
    bool                                  m_is_hard     = false;
    std::vector<std::shared_ptr<channel>> m_channels;
    std::map<const char*, counter>        m_counters;
};

} /* namespace sim */

#endif
