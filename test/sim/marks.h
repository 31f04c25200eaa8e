/* The counts of the core's coverage marks, see core/mark.h. */
#ifndef VQP_SIM_MARKS_H
#define VQP_SIM_MARKS_H

namespace sim {

/** Print all marks. @return whether each was reached. */
bool print_marks();

} /* namespace sim */

#endif
