/* The counts of the core's coverage points, see core/cover.h. */
#ifndef VQP_SIM_COVER_H
#define VQP_SIM_COVER_H

#include <cstdint>

namespace sim {

/** Immediates that came early; and those from behind the wrap of their number. */
uint64_t overtakings();
uint64_t wraps();

/** Print all coverage points. @return whether each was reached. */
bool print_coverage();

} /* namespace sim */

#endif
