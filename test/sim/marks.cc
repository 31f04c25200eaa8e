/* The counts of the core's coverage marks, see core/mark.h. */
#include "marks.h"

#include <cstdint>
#include <cstdio>

extern "C" {
#include "core/mark.h"

uint64_t vqp_marks[VQP_MARK_LAST];
}

namespace sim {

uint64_t overtakings()
{
    return vqp_marks[VQP_MARK_WINDOW_AHEAD];
}

uint64_t wraps()
{
    return vqp_marks[VQP_MARK_WINDOW_WRAP];
}

bool print_marks()
{
    static const struct {
        const char *name, *help;
    } marks[] = {
#define SIM_MARK(_name, _help) {#_name, _help},
        VQP_MARKS(SIM_MARK)
#undef SIM_MARK
    };
    unsigned missing = 0;

    for (unsigned i = 0; i < VQP_MARK_LAST; ++i) {
        printf("%12lu  %-26s %s\n", (unsigned long)vqp_marks[i],
               marks[i].name, marks[i].help);
        missing += vqp_marks[i] == 0;
    }
    printf("%u of %u marks were never reached\n", missing,
           (unsigned)VQP_MARK_LAST);
    return missing == 0;
}

} /* namespace sim */
