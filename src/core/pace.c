/* Measuring a path's pace, see pace.h. Pure: libc only. */
#include "core/pace.h"

#include "core/status.h"

static void vqp_pace_sample(vqp_pace_t *pace, int is_busy, uint64_t now)
{
    uint64_t cost  = ((now - pace->start) << VQP_PACE_UNIT_SHIFT) / pace->bytes;
    uint32_t known = vqp_pace_cost(pace, now);

    cost = vqp_min(vqp_max(cost, 1ul), (uint64_t)UINT32_MAX);
    if (!is_busy && ((known == 0) || (cost >= known))) {
        return;
    }

    vqp_pace_set(pace, (known == 0) ? (uint32_t)cost :
                                      (uint32_t)((3ul * known + cost) / 4),
                 now);
}

void vqp_pace_confirmed(vqp_pace_t *pace, uint64_t bytes, uint64_t left,
                        uint64_t now)
{
    uint64_t sum = pace->bytes + bytes;

    pace->bytes = (uint32_t)vqp_min(sum, (uint64_t)UINT32_MAX);
    if (pace->bytes < VQP_PACE_SAMPLE) {
        return;
    }

    vqp_pace_sample(pace, left > 0, now);
    vqp_pace_begin(pace, now);
}
