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
#define VQP_BALANCE_STEP 2000000000ull  /* ns that count between two looks, at most: the
                                           process may have been elsewhere */

/** What is known of a path. Zero at first. */
typedef struct vqp_balance {
    uint64_t bytes;     /* at the last look */
    uint64_t rate;      /* bytes per second, between the last two looks */
    uint64_t low;       /* ns for which it had less than half of its share, while the
                           paths were full; 0 when it has more */
    uint8_t  was_up;    /* at the last look */
    uint8_t  is_low;    /* low has reached VQP_BALANCE_TIME */
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
 * @param [in] is_full  The paths have as much to carry as they can, see
 *                      vqp_elastic_is_full(). If not, a low share may be all that is
 *                      needed of the path: the time since the last look does not count.
 *
 * @return The share, in bytes per second.
 */
uint64_t vqp_balance_look(vqp_balance_t *balance, const vqp_path_t *paths,
                          unsigned num_paths, uint64_t last, uint64_t now,
                          int is_full);

#endif
