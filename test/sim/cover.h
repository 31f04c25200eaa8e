/* The counts of the core's coverage points, see core/cover.h. */
#ifndef VQP_SIM_COVER_H
#define VQP_SIM_COVER_H

#include <cstdint>
#include <string>

namespace sim {

/** Immediates that came early; and those from behind the wrap of their number. */
uint64_t overtakings();
uint64_t wraps();

/** @return the number of the coverage point @a name, or -1. */
int coverage_point(const std::string &name);

const char *coverage_name(int point);

/** @return how often all runs so far have reached the point. */
uint64_t coverage_count(int point);

/** Print all coverage points. @return whether each was reached. */
bool print_coverage();

} /* namespace sim */

#endif
