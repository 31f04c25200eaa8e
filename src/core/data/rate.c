/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring the rate of a path, see rate.h. Pure: libc only. */
#include "core/data/rate.h"

#include "core/cover.h"
#include "core/status.h"

static uint32_t vqp_rate_since(const vqp_rate_t *rate, uint64_t end)
{
    uint64_t cost = ((end - rate->start) << VQP_RATE_UNIT_SHIFT) / rate->bytes;

    return (uint32_t)vqp_min(vqp_max(cost, 1ul), (uint64_t)UINT32_MAX);
}

static void vqp_rate_follow(vqp_rate_t *rate, int is_busy, uint64_t seen,
                            uint64_t now)
{
    uint64_t end = is_busy ? now : seen;
    uint64_t cost;

    if (end <= rate->start) {
        return;
    }

    cost         = vqp_rate_since(rate, end);
    rate->recent = (vqp_rate_recent(rate, now) == 0) ?
                           (uint32_t)cost :
                           (uint32_t)((3ul * rate->recent + cost) / 4);
}

static int vqp_rate_sample(vqp_rate_t *rate, int is_busy, uint64_t seen,
                           uint64_t now)
{
    uint32_t known = vqp_rate_cost(rate, now);
    uint32_t cost  = vqp_rate_since(rate, now);

    if (known != 0) {
        if (!is_busy && (cost >= known)) {
            return 0;
        }
        vqp_rate_set(rate, (uint32_t)((3ul * known + cost) / 4), now);
    } else if (is_busy) {
        vqp_rate_set(rate, cost, now);
    } else if (seen > rate->start) {
        /* with the latency in it, but better than nothing: a path that is much
         * slower than others shows */
        vqp_rate_set(rate, vqp_rate_since(rate, seen), now);
    } else {
        return 0;
    }

    return 1;
}

static uint32_t vqp_rate_gap(uint64_t looked, uint64_t now)
{
    return (uint32_t)vqp_min(now - looked, (uint64_t)UINT32_MAX);
}

/* The interval ends, and the next one begins no more exactly */
static void vqp_rate_restart(vqp_rate_t *rate, uint64_t looked, uint64_t now)
{
    vqp_rate_begin(rate, now);
    rate->gap = vqp_rate_gap(looked, now);
}

/* Is the time between polls short, compared with the interval? Of a path that has run
 * empty, the empty polls say what is known */
static int vqp_rate_is_exact(const vqp_rate_t *rate, int is_busy, uint64_t now)
{
    if (!is_busy || (VQP_RATE_GAPS * (uint64_t)rate->gap <= now - rate->start)) {
        return 1;
    }

    vqp_cover(RATE_AWAY);
    return 0;
}

int vqp_rate_confirmed(vqp_rate_t *rate, uint64_t bytes, uint64_t left,
                       uint64_t seen, uint64_t looked, uint64_t now)
{
    int is_new = 0;

    if (rate->start == 0) {
        return 0;
    }

    rate->bytes += bytes;
    rate->gap    = vqp_max(rate->gap, vqp_rate_gap(vqp_max(looked, rate->start), now));
    if (rate->bytes >= VQP_RATE_SAMPLE) {
        if (vqp_rate_is_exact(rate, left > 0, now)) {
            vqp_rate_follow(rate, left > 0, seen, now);
            is_new = vqp_rate_sample(rate, left > 0, seen, now);
            vqp_rate_restart(rate, looked, now);
        } else if (now - rate->start >= VQP_RATE_LONG) {
            vqp_rate_restart(rate, looked, now); /* it says nothing */
        }
    }

    if (left == 0) {
        rate->start = 0;
    }

    return is_new;
}
