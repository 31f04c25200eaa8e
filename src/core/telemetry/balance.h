/*
 * Do the paths of a connection carry equal shares? Looks at their byte counters about
 * once a second; nothing is done when a frag is posted. Time is a parameter. Pure:
 * libc only.
 */
#ifndef VQP_CORE_TELEMETRY_BALANCE_H
#define VQP_CORE_TELEMETRY_BALANCE_H

#include "core/data/path.h"

#define VQP_BALANCE_TIME 10000000000ull /* ns of a low share until it is reported */
#define VQP_BALANCE_MIN  1000000ull     /* bytes per second and path: with less traffic
                                           shares say nothing */

/** What is known of a path. Zero at first. */
typedef struct vqp_balance {
    uint64_t bytes;     /* at the last look */
    uint64_t rate;      /* bytes per second, between the last two looks */
    uint64_t low_since; /* ns: since then it has less than half of its share; 0: it
                           has more */
    uint8_t  was_up;    /* at the last look */
    uint8_t  is_low;    /* it has been low for VQP_BALANCE_TIME */
    uint8_t  logged;    /* the owner's: is_low as it was logged */
} vqp_balance_t;

/**
 * Look at the counters. The share of a path is the bytes of all paths that are up,
 * divided by their number. A path that is not up, at this look or at the last one, has
 * no share.
 *
 * @param [in] balance  One for each path.
 * @param [in] last     ns: time of the last look, 0: this is the first one.
 * @param [in] now      ns, not 0.
 *
 * @return The share, in bytes per second.
 */
uint64_t vqp_balance_look(vqp_balance_t *balance, const vqp_path_t *paths,
                          unsigned num_paths, uint64_t last, uint64_t now);

#endif
