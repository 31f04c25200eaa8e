/* Hosts, puts and time, see world.h. */
#include "world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

extern "C" {
#include "core/conn/entropy.h"
}

namespace clos {

namespace {

/* splitmix64: the standard's distributions differ between libraries */
class random {
public:
    explicit random(uint64_t seed) : m_state(seed) {}

    uint64_t next()
    {
        uint64_t z = (m_state += 0x9e3779b97f4a7c15ull);

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }

    unsigned below(unsigned limit) { return (unsigned)(next() % limit); }
    double unit() { return (double)(next() >> 11) / 9007199254740992.0; }

private:
    uint64_t m_state;
};

/* Each host sends to another one, each receives from one, never in one leaf */
std::vector<unsigned> permutation(const topology &topo, random &draw)
{
    std::vector<unsigned> to(topo.num_hosts());
    auto is_near = [&](unsigned src, unsigned dst) {
        return src / topo.hosts == dst / topo.hosts;
    };

    for (unsigned i = 0; i < to.size(); ++i) {
        to[i] = i;
        std::swap(to[i], to[draw.below(i + 1)]);
    }

    for (unsigned i = 0; i < to.size(); ++i) {
        while (is_near(i, to[i])) {
            unsigned other = draw.below((unsigned)to.size());

            if (!is_near(i, to[other]) && !is_near(other, to[i])) {
                std::swap(to[i], to[other]);
            }
        }
    }
    return to;
}

double percentile(std::vector<double> values, double share)
{
    size_t rank = (size_t)std::ceil(share * (double)values.size());

    rank = std::min(std::max(rank, (size_t)1), values.size()) - 1;
    std::nth_element(values.begin(), values.begin() + (long)rank, values.end());
    return values[rank];
}

} /* namespace */

world::world(const scenario &what) :
    m_what(what), m_fluid(what.topo.capacities())
{
    make_hosts();
    m_rates.resize(m_hosts.size() * m_what.topo.spines);
}

void world::make_hosts()
{
    const topology &topo = m_what.topo;
    random draw(m_what.seed);
    std::vector<unsigned> to = permutation(topo, draw);

    for (unsigned src = 0; src < topo.num_hosts(); ++src) {
        uint64_t salt  = draw.next();
        double   delay = draw.unit() * (double)m_what.size / topo.link_rate;

        if (draw.unit() >= m_what.load) {
            continue;
        }

        host one;

        one.id    = src;
        one.dst   = to[src];
        one.tx    = sender::make(m_what.sched, m_what.paths,
                                 m_what.path_bytes);
        one.begin = delay;
        one.paths.resize(m_what.paths);
        one.active.resize(topo.spines);
        for (unsigned i = 0; i < m_what.paths; ++i) {
            uint16_t port = (m_what.ports == ports_kind::SALTED) ?
                            vqp_entropy_port(vqp_entropy_label(salt, i)) :
                            (uint16_t)(0xffc0 + i);

            one.paths[i].spine = topo.pick_spine(src, to[src], port);
        }
        m_hosts.push_back(std::move(one));
    }
    m_busy = (unsigned)m_hosts.size();
}

void world::post_all(uint32_t index)
{
    host &one = m_hosts[index];

    m_posts.clear();
    one.tx->take(m_posts);
    for (const post &wr : m_posts) {
        path &on = one.paths[wr.path];

        if (on.sent >= (double)on.posted) {
            ++one.active[on.spine];
            m_changed = true;
        }
        on.posted += wr.length;
        if (wr.signaled) {
            on.marks.push_back({on.posted, wr.slot});
        }
    }
}

void world::begin_put(uint32_t index)
{
    m_hosts[index].begin = m_now;
    m_hosts[index].tx->start(m_what.size, (uint64_t)m_now);
    post_all(index);
}

/* Completions that have come back since the last step. Of each host the first
 * put is not measured: the rate is not known, and load not complete. */
void world::handle_events()
{
    while (!m_events.empty() && (m_events.top().time <= m_now)) {
        event next = m_events.top();
        host &one  = m_hosts[next.host];

        m_events.pop();
        if (!one.tx->confirm(next.path, next.slot,
                             (uint64_t)(m_now - m_what.step),
                             (uint64_t)m_now)) {
            post_all(next.host);
            continue;
        }

        if ((one.ends.size() >= 1) && (one.ends.size() <= m_what.puts)) {
            m_times.push_back(m_now - one.begin);
            m_busy -= (one.ends.size() == m_what.puts);
        }
        one.ends.push_back(m_now);
        begin_put(next.host);
    }
}

void world::solve()
{
    const topology &topo = m_what.topo;
    std::vector<double> use(m_fluid.capacity().size());

    m_demands.clear();
    for (const host &one : m_hosts) {
        for (unsigned spine = 0; spine < topo.spines; ++spine) {
            if (one.active[spine] > 0) {
                m_demands.push_back(
                        {{topo.link_up(one.id),
                          topo.link_rise(one.id / topo.hosts, spine),
                          topo.link_fall(spine, one.dst / topo.hosts),
                          topo.link_down(one.dst)}, one.active[spine], 0});
            }
        }
    }

    m_fluid.solve(m_demands);
    size_t next = 0;
    for (size_t i = 0; i < m_hosts.size(); ++i) {
        for (unsigned spine = 0; spine < topo.spines; ++spine) {
            m_rates[i * topo.spines + spine] =
                    (m_hosts[i].active[spine] > 0) ? m_demands[next++].rate : 0;
        }
    }

    for (const demand &one : m_demands) {
        for (uint32_t link : one.link) {
            use[link] += one.rate * one.weight;
        }
    }
    for (size_t link = 0; link < use.size(); ++link) {
        m_overload = std::max(m_overload, use[link] / m_fluid.capacity()[link]);
    }
}

/* A step of one host's paths */
void world::send(uint32_t index, double step)
{
    host &one = m_hosts[index];

    for (size_t i = 0; i < one.paths.size(); ++i) {
        path &on  = one.paths[i];
        double at = on.sent;

        if (on.sent >= (double)on.posted) {
            continue;
        }

        double rate = m_rates[index * m_what.topo.spines + on.spine];

        on.sent = std::min((double)on.posted, at + rate * step);
        while (!on.marks.empty() && ((double)on.marks.front().end <= on.sent)) {
            double took = ((double)on.marks.front().end - at) / rate;

            m_events.push({m_now + took + m_what.rtt, m_number++, index,
                           (uint16_t)i, on.marks.front().slot});
            on.marks.pop_front();
        }

        if (on.sent >= (double)on.posted) {
            --one.active[on.spine];
            m_changed = true;
        }
    }
}

result world::run()
{
    std::vector<bool> begun(m_hosts.size());

    for (; (m_busy > 0) && (m_now < m_what.max_time); m_now += m_what.step) {
        for (uint32_t i = 0; i < m_hosts.size(); ++i) {
            if (!begun[i] && (m_hosts[i].begin <= m_now)) {
                begun[i] = true;
                begin_put(i);
            }
        }

        handle_events();
        if (m_changed) {
            m_changed = false;
            solve();
        }

        for (uint32_t i = 0; i < m_hosts.size(); ++i) {
            send(i, m_what.step);
        }
        ++m_steps;
    }
    return sum_up();
}

result world::sum_up() const
{
    double ideal = (double)m_what.size / m_what.topo.link_rate;
    result sum   = result();

    if (m_busy > 0) {
        fprintf(stderr, "clos: %u of %zu senders did not get through\n", m_busy,
                m_hosts.size());
        exit(1);
    }

    sum.worst = 1;
    for (const host &one : m_hosts) {
        double took = one.ends[m_what.puts] - one.ends[0];
        double rate = ideal * m_what.puts / took;

        sum.mean += rate / (double)m_hosts.size();
        sum.worst = std::min(sum.worst, rate);
    }

    sum.p50      = percentile(m_times, 0.50) / ideal;
    sum.p99      = percentile(m_times, 0.99) / ideal;
    sum.longest  = percentile(m_times, 1.00) / ideal;
    sum.flows    = (unsigned)m_hosts.size() * m_what.paths;
    sum.steps    = m_steps;
    sum.overload = m_overload;
    return sum;
}

} /* namespace */
