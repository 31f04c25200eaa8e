/* The counts of the core's coverage points, see core/cover.h. */
#ifndef VQP_SIM_COVER_H
#define VQP_SIM_COVER_H

#include <cstdint>
#include <string>
#include <vector>

namespace sim {

/** Immediates that came early; and those from behind the wrap of their number. */
uint64_t overtakings();
uint64_t wraps();

/** Coverage points that one run has to reach, all of them. */
class coverage_goal {
public:
    /** Add the points of a list NAME[,NAME]... @return false if a name is no
     * coverage point; @a unknown is then the first such name. */
    bool add(const std::string &names, std::string *unknown);

    bool is_empty() const;

    /** Call it before a run: what earlier runs have reached does not count. */
    void begin_run();

    /** @return whether each point was reached since begin_run(). */
    bool is_reached() const;

    /** @return the names, separated by ", ". */
    std::string str() const;

private:
    std::vector<unsigned> m_points;
    std::vector<uint64_t> m_before; /* their counts when the run began */
};

/** Print all coverage points. @return whether each was reached. */
bool print_coverage();

} /* namespace sim */

#endif
