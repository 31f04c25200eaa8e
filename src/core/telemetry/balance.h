/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do the paths of a connection carry equal shares? Looks at their byte counters about
 * once a second; nothing is done when a frag is posted. Time is a parameter. Pure:
 * libc only.
 */
#ifndef VQP_CORE_TELEMETRY_BALANCE_H
#define VQP_CORE_TELEMETRY_BALANCE_H

#include "core/data/path.h"

#define VQP_BALANCE_TIME 10000000000ull /* ns of a low share until it is reported */
#define VQP_BALANCE_MIN  1000000ull     /* bytes per second: a smaller share says
                                           nothing */
#define VQP_BALANCE_STEP 2000000000ull  /* ns that count between two looks, at most: the
                                           process may have been elsewhere */
#define VQP_BALANCE_IDLE 5              /* looks in a row that do not count, after which the
                                           time begins anew */

/** What is known of a path. Zero at first. */
typedef struct vqp_balance {
    uint64_t bytes;     /* at the last look */
    uint64_t rate;      /* bytes per second, between the last two looks */
    uint64_t share;     /* what it should be; 0: it has none */
    uint64_t low;       /* ns for which it had less than half of its share, while the
                           paths were full; 0 when it has more */
    uint8_t  was_up;    /* at the last look */
    uint8_t  was_full;  /* then */
    uint8_t  idle;      /* looks in a row that did not count, at most VQP_BALANCE_IDLE */
    uint8_t  is_low;    /* low has reached VQP_BALANCE_TIME */
    uint8_t  logged;    /* the owner sets it: is_low was logged. 0 again when the path had
                           half of its share while the paths were full */
} vqp_balance_t;

/**
 * Look at the counters. The bytes of all paths that are up are shared by the rails that have
 * such paths, by their weights, and the share of a rail equally by its paths. A path that
 * is not up, at this look or at the last one, has no share.
 *
 * @param [in] balance  One for each path.
 * @param [in] weights  Of each rail, not 0: their ratio is that of the rates of the ports.
 * @param [in] last     ns: time of the last look, 0: this is the first one.
 * @param [in] now      ns, not 0.
 * @param [in] is_full  The paths have as much to carry as they can, see
 *                      vqp_elastic_is_spread(). If not, now and at the last look, a low
 *                      share may be all that is needed of the path: the time since the last
 *                      look does not count.
 */
void vqp_balance_look(vqp_balance_t *balance, const vqp_path_t *paths,
                      unsigned num_paths, const uint32_t *weights, uint64_t last,
                      uint64_t now, int is_full);

#endif
