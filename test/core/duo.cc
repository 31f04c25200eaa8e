/* The pair: parameters, time, and what has to hold at the end. See duo.h. */
#include "duo.h"

#include <algorithm>
#include <sstream>

namespace {

template<typename T>
T one_of(std::mt19937 &rng, std::initializer_list<T> list)
{
    return list.begin()[rng() % list.size()];
}

} /* namespace */

duo_params duo_params::draw(std::mt19937 &rng)
{
    duo_params p;

    p.num_paths    = one_of(rng, {1u, 2u, 4u, 7u});
    p.window       = one_of(rng, {16u, 16u, 64u, 256u});
    if (p.num_paths <= 4) {
        p.window   = one_of(rng, {p.window, 8u});
    }
    p.ring_size    = one_of(rng, {4096u, 4096u, 16384u, 65536u});
    p.depth        = one_of<uint16_t>(rng, {6, 8, 16, 64});
    p.imms_max     = (uint16_t)(one_of(rng, {p.window / 2, p.window}) +
                                2 * VQP_CONTROL_RESERVE);
    p.rx_batch     = one_of<uint16_t>(rng, {1, 4, 16});
    p.reads_max    = one_of<uint16_t>(rng, {1, 2, 16});
    p.am_ops       = one_of(rng, {1u, 4u, 16u, 64u});
    p.rma_ops      = one_of(rng, {1u, 4u, 16u, 64u});
    p.signal_every = 1 + rng() % (p.depth - VQP_CONTROL_RESERVE - 1);
    p.path_cap     = one_of<uint64_t>(rng, {500, 10000, 1u << 20});
    p.inline_max   = one_of(rng, {0u, 64u, 256u});
    p.min_shift    = (uint8_t)(6 + rng() % 6);
    p.frag_shift   = (uint8_t)(p.min_shift + rng() % 6);
    p.notify       = one_of<uint8_t>(rng, {VQP_NOTIFY_SPRAY, VQP_NOTIFY_TAIL,
                                           VQP_NOTIFY_DQPLB});
    p.sched        = one_of<uint8_t>(rng, {VQP_SCHED_RR, VQP_SCHED_LEAST,
                                           VQP_SCHED_LEFT, VQP_SCHED_FIXED});
    p.order_all    = (rng() % 4) == 0;
    p.comp_post    = rng() % 2;
    p.no_fast      = rng() % 2;
    p.first_fsn    = one_of<uint32_t>(rng, {0, 12345, VQP_FSN_MASK - 100,
                                            VQP_FSN_MASK});
    p.first_pos    = one_of<uint32_t>(rng, {0, (uint32_t)-8192,
                                            0x80000000u - 4096});
    p.max_delay    = one_of(rng, {2u, 20u, 200u});
    p.slow_path    = rng() % 8;
    p.actions      = 20 + rng() % 100;
    p.stall_percent = one_of(rng, {0u, 0u, 1u, 5u});
    p.rma_percent  = one_of(rng, {0u, 20u, 50u, 90u});
    p.echo_percent = one_of(rng, {0u, 0u, 10u, 50u});
    return p;
}

std::string duo_params::str() const
{
    std::ostringstream os;

    os << "paths " << num_paths << ", window " << window << ", ring "
       << ring_size << ", depth " << depth << ", imms " << imms_max
       << ", rx_batch " << rx_batch << ", reads " << reads_max << ", ops "
       << am_ops << "/" << rma_ops << ", signal_every " << signal_every
       << ", cap " << path_cap << ", inline " << inline_max << ", frags 2^"
       << (unsigned)min_shift << "..2^" << (unsigned)frag_shift << ", "
       << ((notify == VQP_NOTIFY_SPRAY) ? "spray" :
           (notify == VQP_NOTIFY_TAIL)  ? "tail" : "dqplb") << ", "
       << "sched " << (unsigned)sched
       << (order_all ? ", order all" : "") << (comp_post ? ", post" : ", any")
       << (no_fast ? "" : ", fast")
       << ", first fsn " << first_fsn << ", delay " << max_delay
       << ", slow path " << slow_path << ", actions " << actions;
    return os.str();
}

duo::duo(uint32_t seed) : rng(seed), m_seed(seed), m_params {}
{
    m_params = duo_params::draw(rng);
    for (unsigned i = 0; i < 2; ++i) {
        m_nodes[i].reset(new duo_node(*this, i, m_params));
    }
    m_nodes[0]->peer = m_nodes[1].get();
    m_nodes[1]->peer = m_nodes[0].get();
    for (auto &node : m_nodes) {
        node->connect();
    }
}

void duo::fail(const std::string &text)
{
    if (!m_failure.empty()) {
        return;
    }

    m_failure = text + "\n  replay with VQP_SEED=" + std::to_string(m_seed) +
                "\n  " + m_params.str();
    for (auto &node : m_nodes) {
        m_failure += "\n  " + node->str();
    }
}

/* One tick; false if nothing can happen any more */
bool duo::step()
{
    bool is_idle = true;

    ++now;
    for (auto &node : m_nodes) {
        node->deliver();
    }

    for (auto &node : m_nodes) {
        if ((rng() % 100) < m_params.stall_percent) {
            node->stalled = now + rng() % (10 * m_params.max_delay);
        }
        node->progress();
        if ((rng() % 3) == 0) {
            node->act();
        }
        is_idle = is_idle && node->is_idle();
    }

    return !is_idle && m_failure.empty();
}

bool duo::settle()
{
    const uint64_t limit = now + 2000000;

    while (step()) {
        if (now == limit) {
            fail("does not come to rest");
        }
    }

    return m_failure.empty();
}

bool duo::run()
{
    if (!settle()) {
        return false;
    }

    for (auto &node : m_nodes) {
        if (!node->is_satisfied()) {
            fail("deadlock: all is quiet and something is waited for");
            return false;
        }
    }

    for (auto &node : m_nodes) {
        node->kick();
    }

    if (!settle()) {
        return false;
    }

    for (auto &node : m_nodes) {
        node->check_drained();
    }

    return m_failure.empty();
}

bool duo::run_failing()
{
    uint64_t moment = rng() % (m_params.actions * 8);

    while ((now < moment) && step()) {
    }

    for (auto &node : m_nodes) {
        if ((rng() % 2) == 0) {
            node->fail_post = true;
        } else {
            node->break_path((unsigned)(rng() % m_params.num_paths));
        }
    }

    /* One that has nothing to post can not fail to */
    if (!settle()) {
        return false;
    }

    for (auto &node : m_nodes) {
        if (!node->is_broken()) {
            node->break_all();
        }
    }

    if (!settle()) {
        return false;
    }

    for (auto &node : m_nodes) {
        node->check_broken();
    }

    return m_failure.empty();
}
