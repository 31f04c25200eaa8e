/* Max-min fair rates by progressive filling, see fluid.h. */
#include "fluid.h"

#include <algorithm>
#include <functional>

namespace clos {

fluid::fluid(std::vector<double> capacity) : m_capacity(std::move(capacity)) {}

/* Demands by link, as one array with the place where each link's begin */
void fluid::index(const std::vector<demand> &demands)
{
    m_first.assign(m_capacity.size() + 1, 0);
    m_weight.assign(m_capacity.size(), 0);
    for (const demand &one : demands) {
        for (uint32_t link : one.link) {
            ++m_first[link + 1];
            m_weight[link] += one.weight;
        }
    }

    for (size_t i = 1; i < m_first.size(); ++i) {
        m_first[i] += m_first[i - 1];
    }

    m_users.resize(demands.size() * 4);
    std::vector<uint32_t> next(m_first.begin(), m_first.end() - 1);
    for (uint32_t i = 0; i < demands.size(); ++i) {
        for (uint32_t link : demands[i].link) {
            m_users[next[link]++] = i;
        }
    }
}

void fluid::push(uint32_t link, double share)
{
    m_heap.emplace_back(share, link);
    std::push_heap(m_heap.begin(), m_heap.end(), std::greater<>());
}

/* The link is full: its flows stay at what they have */
void fluid::fix(std::vector<demand> &demands, uint32_t link, double share)
{
    for (uint32_t i = m_first[link]; i < m_first[link + 1]; ++i) {
        demand &one = demands[m_users[i]];

        if (one.rate >= 0) {
            continue;
        }
        one.rate = share;
        for (uint32_t other : one.link) {
            m_left[other]   -= share * one.weight;
            m_weight[other] -= one.weight;
        }
    }
}

void fluid::solve(std::vector<demand> &demands)
{
    index(demands);
    m_left = m_capacity;
    m_heap.clear();
    for (demand &one : demands) {
        one.rate = -1;
    }

    for (uint32_t link = 0; link < m_capacity.size(); ++link) {
        if (m_weight[link] > 0) {
            push(link, m_left[link] / m_weight[link]);
        }
    }

    /* A link's share grows when others fill up first: looked at again then */
    while (!m_heap.empty()) {
        double   seen = m_heap.front().first;
        uint32_t link = m_heap.front().second;

        std::pop_heap(m_heap.begin(), m_heap.end(), std::greater<>());
        m_heap.pop_back();
        if (m_weight[link] == 0) {
            continue;
        }

        double share = std::max(m_left[link], 0.0) / m_weight[link];
        if (share > seen * (1 + 1e-12)) {
            push(link, share);
        } else {
            fix(demands, link, share);
        }
    }
}

} /* namespace */
