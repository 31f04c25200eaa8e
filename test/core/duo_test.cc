/*
 * Seeded runs of two cores against each other. VQP_SEED=n replays one seed,
 * VQP_SEEDS=n runs so many instead of the default.
 */
#include "duo.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

uint32_t number(const char *name, uint32_t value)
{
    const char *text = getenv(name);

    return (text == nullptr) ? value : (uint32_t)strtoul(text, nullptr, 0);
}

/* Runs each seed until the first one that fails */
void run_seeds(bool (duo::*run)(), uint32_t count)
{
    uint32_t first = number("VQP_SEED", 1);
    uint32_t last  = getenv("VQP_SEED") ? first : number("VQP_SEEDS", count);

    for (uint32_t seed = first; seed <= last; ++seed) {
        duo pair(seed);

        ASSERT_TRUE((pair.*run)()) << pair.failure();
    }
}

TEST(duo, everything_arrives_once_in_order_and_drains) {
    run_seeds(&duo::run, 1500);
}

TEST(duo, after_a_failure_each_op_is_reported_once) {
    run_seeds(&duo::run_failing, 500);
}

} /* namespace */
