/* Shares of the paths, see balance.h. Pure: libc only. */
#include "core/telemetry/balance.h"

/* Without overflow below 18 GB in the interval, and then with less precision */
static uint64_t vqp_balance_rate(uint64_t bytes, uint64_t interval)
{
    return (bytes < UINT64_MAX / 1000000000) ?
                   (bytes * 1000000000) / interval :
                   (bytes / vqp_max(interval / 1000, 1ul)) * 1000000;
}

static void vqp_balance_judge(vqp_balance_t *balance, uint64_t share, uint64_t elapsed)
{
    if ((share < VQP_BALANCE_MIN) || (balance->rate >= share / 2)) {
        balance->low = 0;
    } else {
        balance->low += elapsed;
    }

    balance->is_low = balance->low >= VQP_BALANCE_TIME;
}

uint64_t vqp_balance_look(vqp_balance_t *balance, const vqp_path_t *paths,
                          unsigned num_paths, uint64_t last, uint64_t now,
                          int is_full)
{
    uint64_t elapsed = is_full ? vqp_min(now - last, VQP_BALANCE_STEP) : 0;
    uint64_t total   = 0;
    unsigned num     = 0;
    uint64_t share;
    unsigned i;

    for (i = 0; i < num_paths; ++i) {
        balance[i].rate = ((last == 0) || (now <= last)) ? 0 :
                vqp_balance_rate(paths[i].stats.bytes - balance[i].bytes, now - last);
        balance[i].bytes = paths[i].stats.bytes;
        if (paths[i].up && balance[i].was_up) {
            total += balance[i].rate;
            ++num;
        }
    }

    share = total / vqp_max(num, 1u);
    for (i = 0; i < num_paths; ++i) {
        vqp_balance_judge(&balance[i],
                          (paths[i].up && balance[i].was_up) ? share : 0,
                          elapsed);
        balance[i].was_up = paths[i].up;
    }

    return share;
}
