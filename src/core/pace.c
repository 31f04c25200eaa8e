/* Measuring a path's pace, see pace.h. Pure: libc only. */
#include "core/pace.h"

#include "core/status.h"

static uint32_t vqp_pace_since(const vqp_pace_t *pace, uint64_t end)
{
    uint64_t cost = ((end - pace->start) << VQP_PACE_UNIT_SHIFT) / pace->bytes;

    return (uint32_t)vqp_min(vqp_max(cost, 1ul), (uint64_t)UINT32_MAX);
}

static int vqp_pace_sample(vqp_pace_t *pace, int is_busy, uint64_t seen,
                           uint64_t now)
{
    uint32_t known = vqp_pace_cost(pace, now);
    uint32_t cost  = vqp_pace_since(pace, now);

    if (known != 0) {
        if (!is_busy && (cost >= known)) {
            return 0;
        }
        vqp_pace_set(pace, (uint32_t)((3ul * known + cost) / 4), now);
    } else if (is_busy) {
        vqp_pace_set(pace, cost, now);
    } else if (seen > pace->start) {
        /* with the latency in it, but better than nothing: a path that is much
         * slower than others shows */
        vqp_pace_set(pace, vqp_pace_since(pace, seen), now);
    } else {
        return 0;
    }

    return 1;
}

int vqp_pace_confirmed(vqp_pace_t *pace, uint64_t bytes, uint64_t left,
                       uint64_t seen, uint64_t now)
{
    uint64_t sum = pace->bytes + bytes;
    int is_new   = 0;

    if (pace->start == 0) {
        return 0;
    }

    pace->bytes = (uint32_t)vqp_min(sum, (uint64_t)UINT32_MAX);
    if (pace->bytes >= VQP_PACE_SAMPLE) {
        is_new = vqp_pace_sample(pace, left > 0, seen, now);
        vqp_pace_begin(pace, now);
    }

    if (left == 0) {
        pace->start = 0;
    }

    return is_new;
}
