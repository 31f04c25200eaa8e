/* The counts of the core's coverage points, see core/cover.h. */
#include "cover.h"

#include <cstdint>
#include <cstdio>

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

bool print_coverage()
{
    static const struct {
        const char *name, *help;
    } points[] = {
#define SIM_COVER_POINT(_name, _help) {#_name, _help},
        VQP_COVER_POINTS(SIM_COVER_POINT)
#undef SIM_COVER_POINT
    };
    unsigned missing = 0;

    for (unsigned i = 0; i < VQP_COVER_LAST; ++i) {
        printf("%12lu  %-26s %s\n", (unsigned long)vqp_cover_counts[i],
               points[i].name, points[i].help);
        missing += vqp_cover_counts[i] == 0;
    }
    printf("%u of %u coverage points were never reached\n", missing,
           (unsigned)VQP_COVER_LAST);
    return missing == 0;
}

} /* namespace sim */
