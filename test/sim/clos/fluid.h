/*
 * Rates of flows that share links: max-min fair, that is, nobody's rate can be
 * raised without lowering that of somebody who has no more. What an ideal
 * congestion control would settle at. C++ standard library only.
 */
#ifndef VQP_TEST_CLOS_FLUID_H
#define VQP_TEST_CLOS_FLUID_H

#include <cstdint>
#include <vector>

namespace clos {

/* Flows over the same links count as one with a weight */
struct demand {
    uint32_t link[4]; /* all different */
    uint32_t weight;  /* flows, at least 1 */
    double   rate;    /* result: of each flow, in the unit of the capacities */
};

class fluid {
public:
    explicit fluid(std::vector<double> capacity);

    /* Set the rates of all demands */
    void solve(std::vector<demand> &demands);

    const std::vector<double> &capacity() const { return m_capacity; }

private:
    void index(const std::vector<demand> &demands);
    void fix(std::vector<demand> &demands, uint32_t link, double share);
    void push(uint32_t link, double share);

    std::vector<double>   m_capacity;
    std::vector<double>   m_left;   /* capacity that is not given yet */
    std::vector<uint32_t> m_weight; /* flows without a rate, by link */
    std::vector<uint32_t> m_first;  /* demands of a link: m_users[first...] */
    std::vector<uint32_t> m_users;
    std::vector<std::pair<double, uint32_t>> m_heap; /* lowest share first */
};

} /* namespace */

#endif
