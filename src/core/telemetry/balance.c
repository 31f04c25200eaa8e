/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares of the paths, see balance.h. Pure: libc only. */
#include "core/telemetry/balance.h"

/* Without overflow below 18 GB in the interval, and then with less precision */
static uint64_t vqp_balance_rate(uint64_t bytes, uint64_t interval)
{
    return (bytes < UINT64_MAX / 1000000000) ?
                   (bytes * 1000000000) / interval :
                   (bytes / vqp_max(interval / 1000, 1ul)) * 1000000;
}

static int vqp_balance_counts(const vqp_balance_t *balance, const vqp_path_t *path)
{
    return path->up && balance->was_up;
}

/* Each rail has as many parts as its weight, and its paths have equal ones of these */
static void vqp_balance_split(vqp_balance_t *balance, const vqp_path_t *paths,
                              unsigned num_paths, const uint32_t *weights)
{
    unsigned num[VQP_MAX_RAILS] = {0};
    uint64_t total              = 0;
    uint64_t parts              = 0;
    unsigned i;

    for (i = 0; i < num_paths; ++i) {
        if (vqp_balance_counts(&balance[i], &paths[i])) {
            total += balance[i].rate;
            parts += (num[paths[i].rail]++ == 0) ? weights[paths[i].rail] : 0;
        }
    }

    for (i = 0; i < num_paths; ++i) {
        balance[i].share = vqp_balance_counts(&balance[i], &paths[i]) ?
                total * weights[paths[i].rail] / parts / num[paths[i].rail] : 0;
    }
}

/* elapsed: ns that count, 0: none */
static void vqp_balance_judge(vqp_balance_t *balance, uint64_t elapsed)
{
    if ((elapsed == 0) || (balance->share < VQP_BALANCE_MIN)) {
        balance->idle = (uint8_t)vqp_min(balance->idle + 1, VQP_BALANCE_IDLE);
        if (balance->idle == VQP_BALANCE_IDLE) {
            balance->low = 0;
        }
    } else {
        balance->idle = 0;
        if (balance->rate >= balance->share / 2) {
            balance->low    = 0;
            balance->logged = 0;
        } else {
            balance->low += elapsed;
        }
    }

    balance->is_low = balance->low >= VQP_BALANCE_TIME;
}

void vqp_balance_look(vqp_balance_t *balance, const vqp_path_t *paths,
                      unsigned num_paths, const uint32_t *weights, uint64_t last,
                      uint64_t now, int is_full)
{
    uint64_t elapsed = ((last == 0) || (now <= last)) ? 0 : now - last;
    unsigned i;

    for (i = 0; i < num_paths; ++i) {
        balance[i].rate = (elapsed == 0) ? 0 :
                vqp_balance_rate(paths[i].stats.bytes - balance[i].bytes, elapsed);
        balance[i].bytes = paths[i].stats.bytes;
    }

    vqp_balance_split(balance, paths, num_paths, weights);
    for (i = 0; i < num_paths; ++i) {
        if (!vqp_balance_counts(&balance[i], &paths[i])) {
            balance[i].low = 0; /* it comes back with another queue pair */
        }
        vqp_balance_judge(&balance[i], (is_full && balance[i].was_full) ?
                                               vqp_min(elapsed, VQP_BALANCE_STEP) : 0);
        balance[i].was_up   = paths[i].up;
        balance[i].was_full = is_full != 0;
    }
}
