/* Time, runs and verdicts, see world.h. */
#include "world.h"
#include "ep.h"
#include "node.h"

#include <cstdarg>
#include <cstdio>

namespace sim {

namespace {

const uint64_t MAX_TIME = 300ull * 1000000000; /* ns of a run; it ends long
                                                  before, by every timeout */


} /* namespace */

const char *kind_name(unsigned kind)
{
    static const char *const names[] = {"AM", "PUT", "GET", "FADD", "CSWAP",
                                        "BARRIER", "NOTIFY", "FENCE", "CONTROL",
                                        "NOP", "FREE"};

    return (kind < sizeof(names) / sizeof(names[0])) ? names[kind] : "?";
}

world::world(uint64_t seed, const std::string &config, trace_sink *sink) :
    net(stream(seed, 2)), work(stream(seed, 3)), fault(stream(seed, 4)),
    move(stream(seed, 5)), stop(stream(seed, 6)), narrow(stream(seed, 7)),
    elastic(stream(seed, 8)), rings(stream(seed, 9)), queues(stream(seed, 10)),
    ud(*this), m_seed(seed), m_config(config), m_trace(sink)
{
    rng random = stream(seed, 1);

    base       = params::draw(random);
    base.stops   = stop.pick<uint64_t>({0, 0, 0, 3}); /* its own: seeds keep their meaning */
    base.narrows = narrow.pick<uint64_t>({0, 0, 0, 3});
    base.first   = (base.garble > 0) ? 0 : /* both sides know the same features */
                   elastic.pick<uint64_t>({0, 0, 1, 2});
    base.adds    = elastic.pick<uint64_t>({0, 1, 10});
    base.drops   = elastic.pick<uint64_t>({0, 1, 10});
    base.elastic   = elastic.pick<uint64_t>({0, 20000, 1000000});
    base.min_paths = elastic.pick<uint64_t>({1, 1, 1, 2});
    base.ring_growth = rings.pick<uint64_t>({0, 2, 3, 5});
    base.ring_fails  = rings.pick<uint64_t>({0, 0, 30});
    base.ring_idle   = rings.pick<uint64_t>({20000, 1000000, 100000000});
    base.short_depth = (base.first == 0) ? 0 : queues.pick<uint64_t>({0, 0, 6});
    base.rerail      = (base.garble > 0) ? 0 : stream(seed, 11).below(2);
    base.port_fails  = (base.garble > 0) ? 0 : stream(seed, 12).pick<uint64_t>({0, 0, 20});
    base.mirrors     = stream(seed, 14).pick<uint64_t>({0, 0, 1, 2});
    base.most_ops    = stream(seed, 13).pick<uint64_t>({0, 16, 64});
    base.set(config);
    base.fit();
    m_is_hard = base.loses_messages();
    for (unsigned i = 0; i < base.nodes; ++i) {
        params p = (i == 0) ? base : base.another_node(random);

        p.set(config);
        p.fit();
        nodes.emplace_back(new node(*this, i, p));
    }
}

world::~world()
{
    for (auto &one : nodes) {
        one->eps.clear();
        one->vqps.clear();
    }
}

void world::at(uint64_t when, event_kind kind, uint32_t id, uint64_t arg)
{
    m_queue.push({when, m_order++, arg, id, kind});
}

void world::fail(const char *checker, const std::string &text)
{
    if (m_failure.empty()) {
        m_failure = text;
        m_checker = checker;
        trace("VIOLATED %s: %s", checker, text.c_str());
    }
}

void world::trace(const char *format, ...)
{
    char line[4096];
    va_list args;
    int used;

    if (m_trace == nullptr) {
        return;
    }

    used = snprintf(line, sizeof(line), "%12.3f us: ",
                    (double)(now - 1000000000) * 1e-3);
    va_start(args, format);
    vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
    va_end(args);
    m_trace->line(line);
}

uint64_t world::ams_delivered() const
{
    uint64_t sum = 0;

    for (auto &one : m_channels) {
        sum += one->ams_seen;
    }
    return sum;
}

channel *world::new_channel(bool comp_post, bool order_all,
                            std::shared_ptr<channel> *out)
{
    *out = std::make_shared<channel>(*this, (uint32_t)m_channels.size() + 1,
                                     comp_post, order_all);
    (*out)->tainted = base.garble > 0; /* anybody may meet anybody */
    m_channels.push_back(*out);
    return out->get();
}

vqp *world::find_vqp(uint32_t id)
{
    auto it = vqps.find(id);

    return (it == vqps.end()) ? nullptr : it->second;
}

vqp *world::partner(const vqp &v)
{
    const vqp_conn_t &conn = v.slot.conn;

    for (auto &one : nodes) {
        vqp_conn_t *found;

        if (one->iface_id() != conn.peer_id) {
            continue;
        }
        found = vqp_conntab_find_cookie(&one->table, conn.peer_cookie);
        if ((found != nullptr) &&
            (found->peer_cookie == conn.cookie) && (found != &conn)) {
            return vqp::of(found);
        }
    }
    return nullptr;
}

void world::fetched(const char *remote, uint64_t value)
{
    if (!m_counters[remote].fetched.insert(value).second) {
        fail("memory", "two fadds fetched the same value");
    }
}

void world::added(const char *remote, uint64_t value)
{
    m_counters[remote].sum += value;
}

/* ---- events ---- */

void world::dispatch(const event &e)
{
    datagram d;

    /* devices go on meanwhile; what has come is received first */
    if ((now < m_stopped) && (e.kind != EV_WIRE) && (e.kind != EV_DUPLICATE)) {
        at(m_stopped + (e.kind != EV_DATAGRAM), e.kind, e.id, e.arg);
        return;
    }

    switch (e.kind) {
    case EV_WIRE: {
        auto it = qps.find(e.id);
        if (it != qps.end()) {
            it->second->run();
        }
        break;
    }
    case EV_DUPLICATE: {
        auto it = qps.find(e.id);
        if (it != qps.end()) {
            it->second->receive_extra((uint32_t)e.arg);
        }
        break;
    }
    case EV_DATAGRAM:
        if (ud.take(e.id, &d)) {
            for (auto &one : nodes) {
                if (one->ud_qpn == d.to) {
                    one->on_datagram(d);
                }
            }
        }
        break;
    case EV_TICK:
        nodes[e.id]->on_tick();
        break;
    case EV_PROGRESS:
        nodes[e.id]->progress();
        break;
    case EV_ACT: {
        auto it = eps.find(e.id);
        if (it != eps.end()) {
            it->second->act();
        }
        break;
    }
    case EV_QPS:
        nodes[e.id]->on_qps((uint32_t)e.arg);
        break;
    case EV_FAULT:
        disturb(e.arg);
        break;
    case EV_DEFERRED:
        nodes[e.id]->run_deferred();
        break;
    case EV_TIMER: {
        vqp *v = find_vqp(e.id);
        if (v != nullptr) {
            v->on_timer();
        }
        break;
    }
    case EV_UNPARK:
        unpark(e.id, (unsigned)e.arg);
        break;
    }
}

bool world::step()
{
    event e;

    if (m_queue.empty() || failed()) {
        return false;
    }

    e = m_queue.top();
    m_queue.pop();
    now = e.when;
    ++m_events;
    dispatch(e);
    return true;
}

/* Until nothing can happen any more */
void world::settle()
{
    while (step()) {
        if (now > MAX_TIME) {
            fail("progress", "does not come to rest");
        }
    }
}

/* A peer that is gone, its RST lost, is found by a probe */
void world::settle_probing()
{
    for (unsigned round = 0; (round < 3) && !failed(); ++round) {
        probe_all();
        settle();
    }
}

void world::start_programs()
{
    for (unsigned i = (base.senders > 0) ? 1 : 0; i < nodes.size(); ++i) {
        for (unsigned j = 0; j < base.eps; ++j) {
            nodes[i]->eps.emplace_back(new ep(*nodes[i], next_id++,
                                              (unsigned)base.sessions));
        }
    }
}

/* Of what is not idle, and not of a hundred */
void world::trace_state()
{
    unsigned lines = 0;

    for (auto &one : vqps) {
        if (one.second->is_busy() && (++lines < 10)) {
            trace("  %s", one.second->str().c_str());
        }
    }
    for (auto &one : eps) {
        if (!one.second->is_over() && (++lines < 20)) {
            trace("  %s", one.second->str().c_str());
        }
    }
}

bool world::run()
{
    bool good = live();

    if (!good) {
        trace_state();
    }
    return good;
}

bool world::live()
{
    trace("seed %lu, %s", (unsigned long)m_seed, base.str().c_str());
    start_programs();
    plan_faults();
    settle();

    /* Faults stop: everything must come to rest, in agreement */
    calm_down();
    settle();
    if (!base.may_fail()) {
        check_rest();
    }
    settle_probing();
    check_rest();
    check_agreement();

    close_all();
    settle();
    settle_probing();
    check_end();
    return !failed();
}

} /* namespace sim */
