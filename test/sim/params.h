/*
 * What a run is made of: drawn from its seed, and overridden by --config. Every
 * parameter is a number, so that each can be named on the command line.
 */
#ifndef VQP_SIM_PARAMS_H
#define VQP_SIM_PARAMS_H

#include "rng.h"

#include <string>

namespace sim {

/* The same on all nodes of a run */
#define SIM_WORLD_PARAMS(_) \
    _(nodes, "interfaces") \
    _(senders, "all but node 0 connect, and only to it") \
    _(eps, "endpoints of each node, one after the other or at once") \
    _(sessions, "how often each endpoint is created") \
    _(hasty, "percent of sessions that end before they begin") \
    _(batches, "batches of operations in a session") \
    _(batch, "operations of a batch, at most") \
    _(window, "fsns") \
    _(ring, "bytes of an AM ring") \
    _(ring_growth, "log2 of what the rings may grow by; 0: no rings are changed") \
    _(ring_fails, "percent of these that find no memory") \
    _(mirrors, "first mirrors of a node at once, at most; 0: any number") \
    _(most_ops, "slots that a ring of ops may get, a power of two; 0: those that it has") \
    _(ring_idle, "ns without messages until a larger ring is given back") \
    _(fsn_before_wrap, "fsns until 24 bits wrap, at most; 0: start at 0") \
    _(first_pos, "ring position and op number to start with") \
    _(delay, "ns that a frag or an acknowledgement is late, at most") \
    _(slow_path, "path that is 10 times slower, if there is such a one") \
    _(poll, "ns between a completion and the next poll, at most") \
    _(think, "ns between two batches, at most") \
    _(stall, "polls in a thousand that come very late") \
    _(rma, "percent of operations that are puts, gets, atomics") \
    _(huge, "percent of puts and gets that are up to 100000 bytes") \
    _(amo, "percent of these that are atomics") \
    _(fence, "percent of operations that are fences") \
    _(flush, "percent of operations that are flushes") \
    _(big, "log2 of the largest AM, as far as the ring allows") \
    _(echo, "percent of AMs whose handler sends one") \
    _(pend, "percent of refused operations that are left pending") \
    _(cancel, "percent of endpoints that end with operations under way") \
    _(ud_loss, "percent of datagrams that get lost") \
    _(ud_dup, "percent of datagrams that arrive twice") \
    _(ud_jitter, "ns that a datagram is late, at most") \
    _(garble, "percent of datagrams that arrive damaged") \
    _(refuse, "percent of passive connections that are refused") \
    _(no_memory, "percent of passive connections that find no memory") \
    _(slow_qps, "percent of connections whose queue pairs take long") \
    _(idle_peers, "peers remembered without a connection") \
    _(unproven, "passive connections of peers that did not echo a cookie") \
    _(dup_imm, "immediates in a thousand that come twice") \
    _(stale_cqe, "completions in a thousand that come again") \
    _(flaps, "times that a path stands still for a while") \
    _(narrows, "times that the link of a path drops full packets for a while") \
    _(parks, "times that a path gets no work for a while") \
    _(kills, "paths that fail") \
    _(late_packets, "percent of a failed path's frags that are executed") \
    _(flush_time, "ns that a queue pair in ERR executes what arrives, at most, until its " \
                  "receives are flushed") \
    _(post_fails, "posts that fail in their middle") \
    _(aborts, "connections that their owner aborts or fails") \
    _(byzantine, "malformed immediates, records and credit of a peer") \
    _(crashes, "processes that die and come back") \
    _(gone, "ns until these come back") \
    _(gap_timeout, "ns until a missing immediate fails a connection; 0: never") \
    _(probe, "ns until a passive side probes its peer; 0: never") \
    _(fault_time, "ns in which all these faults happen") \
    _(failover, "1: a path that fails is given up and rebuilt") \
    _(source, "of executed counts: 0 immediates, 1 PSN, 2 MSN, 3 a PSN that can not be one") \
    _(exact, "1: a connection fails if it is unknown what was executed") \
    _(qp_fails, "percent of rebuilds, or of moves to ERR, that fail") \
    _(port_fails, "percent of rebuilds that find a port down") \
    _(waits, "percent of rebuilds that the owner makes later") \
    _(quota, "rebuilds of a node in 10 ms, at least 4") \
    _(outage, "ns without a path until a connection fails") \
    _(silence, "ns that a path may be silent while others are not; 0: for ever") \
    _(slow, "ns that a path may be much slower than others; 0: for ever") \
    _(rehash, "the flow of a slow path is changed first: 0 no, 1 yes, 2 this fails") \
    _(moves, "times that a path is moved to another flow") \
    _(first, "paths of the handshake, the others are added later; 0: all") \
    _(min_paths, "paths that a side wants at least") \
    _(elastic, "ns of a measurement that shows whether a path pays; 0: none is tried") \
    _(short_depth, "places of a send queue of the handshake; 0: as of others") \
    _(adds, "times that a path is added") \
    _(drops, "times that a path is dropped") \
    _(stops, "times that all processes stand still for up to 10 s") \
    _(rerail, "1: paths that do not come up move to other rails") \
    _(busy, "percent of path messages that find the peer computing") \
    _(heap, "KiB of each node's memory for puts and gets") \
    _(audit, "events between two full audits of a connection")

/* Each node has its own */
#define SIM_NODE_PARAMS(_) \
    _(paths, "paths, 1 .. 8") \
    _(depth, "places of a send queue") \
    _(imms, "receives posted on each path") \
    _(rx_batch, "receives are reposted in batches of so many") \
    _(am_ops, "accepted AMs, a power of two") \
    _(rma_ops, "accepted puts, gets and atomics, a power of two, not 1") \
    _(signal_every, "frags without a completion of their own") \
    _(cap, "bytes in flight at which a path is full") \
    _(cap_growth, "how often this may be doubled") \
    _(inline_max, "bytes that go inline") \
    _(min_shift, "log2 of the smallest frag") \
    _(frag_shift, "log2 of the largest frag") \
    _(notify, "0 spray, 1 dqplb, 2 tail, 3 auto") \
    _(sched, "0 rr, 1 left") \
    _(order_all, "AM_ORDER: 0 fence, 1 all") \
    _(comp_post, "COMP_ORDER: 0 any, 1 post") \
    _(no_fast, "1: the fast path is not taken") \
    _(pack, "1: AMs that wait share an immediate")

#define SIM_PARAM_FIELD(_name, _help) uint64_t _name;

struct params {
    SIM_WORLD_PARAMS(SIM_PARAM_FIELD)
    SIM_NODE_PARAMS(SIM_PARAM_FIELD)

    static params draw(rng &random);

    /* The same world, another node */
    params another_node(rng &random) const;

    /**
     * Apply "name=value,name=value" or the name of a scenario, see scenario().
     *
     * @return Empty, or what is wrong with it.
     */
    std::string set(const std::string &text);

    /* Pull what was set by hand back to what makes sense */
    void fit();

    /* Do connections fail with a path, as the count leaves something undecided? */
    bool fails_undecided() const
    {
        return failover && exact &&
               ((source == 0) || (source == 3) || (qp_fails > 0));
    }

    /* Does a path go down only where both sides agree, and by a count that is exact? */
    bool gives_up_only() const
    {
        return (kills + post_fails + narrows + qp_fails + crashes + aborts + cancel +
                byzantine == 0) && ((source == 1) || (source == 2));
    }

    /* Might a connection fail, by what the run does on purpose? */
    bool may_fail() const
    {
        return aborts + byzantine + crashes + cancel + refuse + gap_timeout > 0 ||
               ((!failover || (outage < 1000000000)) &&
                (kills + post_fails > 0)) || fails_undecided() || loses_messages();
    }

    /* Might a handshake fail for want of messages? */
    bool loses_messages() const
    {
        return garble > 0 || ud_loss > 40 || ud_jitter > 500000000;
    }

    /* Does every program come to its end? */
    bool is_complete() const { return !may_fail() && (hasty == 0); }

    std::string str() const;

private:
    void draw_world(rng &random);
    void draw_node(rng &random);
    void draw_network(rng &random);
    void draw_faults(rng &random);
    void draw_timers(rng &random);
    void draw_failover(rng random);
    bool set_one(const std::string &name, uint64_t value);
    bool scenario(const std::string &name);
};

/** All parameters and scenarios, for --help. */
std::string params_help();

} /* namespace sim */

#endif
