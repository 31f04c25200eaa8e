/* The counts of the core's coverage points, see core/cover.h. */
#include "cover.h"

#include <cstdint>
#include <cstdio>
#include <string>

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

int coverage_point(const std::string &name)
{
    for (int i = 0; i < VQP_COVER_LAST; ++i) {
        if (name == points[i].name) {
            return i;
        }
    }
    return -1;
}

const char *coverage_name(int point)
{
    return points[point].name;
}

uint64_t coverage_count(int point)
{
    return vqp_cover_counts[point];
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
