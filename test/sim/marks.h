/* The counts of the core's coverage marks, see core/mark.h. */
#ifndef VQP_SIM_MARKS_H
#define VQP_SIM_MARKS_H

#include <cstdint>

namespace sim {

/** Immediates that came early; and those from behind the wrap of their number. */
uint64_t overtakings();
uint64_t wraps();

/** Print all marks. @return whether each was reached. */
bool print_marks();

} /* namespace sim */

#endif
