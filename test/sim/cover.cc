/* The counts of the core's coverage points, see core/cover.h. */
#include "cover.h"

#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
#include "core/cover.h"

uint64_t vqp_cover_counts[VQP_COVER_LAST];
}

namespace sim {

uint64_t overtakings()
{
    return vqp_cover_counts[VQP_COVER_WINDOW_AHEAD];
}

uint64_t wraps()
{
    return vqp_cover_counts[VQP_COVER_WINDOW_WRAP];
}

static const struct {
    const char *name, *help;
} points[] = {
#define SIM_COVER_POINT(_name, _help) {#_name, _help},
    VQP_COVER_POINTS(SIM_COVER_POINT)
#undef SIM_COVER_POINT
};

/* @return VQP_COVER_LAST if there is no such point. */
static unsigned find_point(const std::string &name)
{
    unsigned i = 0;

    while ((i < VQP_COVER_LAST) && (name != points[i].name)) {
        ++i;
    }
    return i;
}

bool coverage_goal::add(const std::string &names, std::string *unknown)
{
    std::istringstream list(names + ",");
    std::string name;

    while (std::getline(list, name, ',')) {
        m_points.push_back(find_point(name));
        if (m_points.back() == VQP_COVER_LAST) {
            *unknown = name;
            return false;
        }
    }
    return true;
}

bool coverage_goal::is_empty() const
{
    return m_points.empty();
}

void coverage_goal::begin_run()
{
    m_before.clear();
    for (unsigned point : m_points) {
        m_before.push_back(vqp_cover_counts[point]);
    }
}

bool coverage_goal::is_reached() const
{
    for (size_t i = 0; i < m_points.size(); ++i) {
        if (vqp_cover_counts[m_points[i]] == m_before[i]) {
            return false;
        }
    }
    return true;
}

std::string coverage_goal::str() const
{
    std::string text;

    for (unsigned point : m_points) {
        text += (text.empty() ? "" : ", ") + std::string(points[point].name);
    }
    return text;
}

bool print_coverage()
{
    unsigned missing = 0;

    for (unsigned i = 0; i < VQP_COVER_LAST; ++i) {
        printf("%12lu  %-26s %s\n", (unsigned long)vqp_cover_counts[i],
               points[i].name, points[i].help);
    }
    for (unsigned i = 0; i < VQP_COVER_LAST; ++i) {
        if (vqp_cover_counts[i] == 0) {
            printf("FAIL %s was never reached; vqp_sim --reach %s searches for a "
                   "seed\n", points[i].name, points[i].name);
            ++missing;
        }
    }
    printf("%u of %u coverage points were never reached\n", missing,
           (unsigned)VQP_COVER_LAST);
    return missing == 0;
}

} /* namespace sim */
