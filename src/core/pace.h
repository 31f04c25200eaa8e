/*
 * How fast a path is: nanoseconds for VQP_PACE_UNIT bytes, measured while it has
 * bytes in flight, as a moving average. Time comes in as a parameter; divisions
 * for each measured interval, none for a frag. Pure: libc only.
 *
 * Confirmations are seen when somebody polls, not when they come. So only an
 * interval at whose end the path was still busy tells how long its bytes took;
 * of a path that has run empty in between we know that it took no longer, and
 * that it took at least until the last time when somebody looked in vain. The
 * latter counts as long as nothing better is known.
 */
#ifndef VQP_CORE_PACE_H
#define VQP_CORE_PACE_H

#include <stdint.h>

#define VQP_PACE_UNIT_SHIFT 16         /* the cost is that of 64 KiB */
#define VQP_PACE_SAMPLE     (64 << 10) /* bytes of an interval, at least */
#define VQP_PACE_FORGET     100000000  /* ns: an older average says nothing */
#define VQP_PACE_RATE_SHIFT 28         /* the rate is that in 2^28 ns */

typedef struct vqp_pace {
    uint64_t start; /* of the interval that is measured; 0: none is */
    uint64_t last;  /* end of the last one that was measured */
    uint32_t bytes; /* confirmed since start */
    uint32_t cost;  /* ns per unit; 0: not known */
    uint32_t rate;  /* units per 2^28 ns: the inverse of cost */
} vqp_pace_t;

static inline void vqp_pace_set(vqp_pace_t *pace, uint32_t cost, uint64_t now)
{
    pace->cost = cost;
    pace->rate = (1u << VQP_PACE_RATE_SHIFT) / cost;
    pace->last = now;
}

/** The path gets a frag at @a now, and was not measured. */
static inline void vqp_pace_begin(vqp_pace_t *pace, uint64_t now)
{
    pace->start = now;
    pace->bytes = 0;
}

/** What the path costs, as far as it was seen lately; 0: not known. */
static inline uint32_t vqp_pace_cost(const vqp_pace_t *pace, uint64_t now)
{
    return (now - pace->last < VQP_PACE_FORGET) ? pace->cost : 0;
}

/** When the path would be through with @a bytes, in ns from now. */
static inline uint64_t vqp_pace_finish(uint32_t cost, uint64_t bytes)
{
    return (bytes * cost) >> VQP_PACE_UNIT_SHIFT;
}

/**
 * @a bytes were confirmed.
 *
 * @param [in] left  Bytes that are still in flight on the path.
 * @param [in] seen  When all that had come until then was seen, and this was not
 *                   yet there; 0 if that is not known.
 *
 * @return 1 if the cost is another one now.
 */
int vqp_pace_confirmed(vqp_pace_t *pace, uint64_t bytes, uint64_t left,
                       uint64_t seen, uint64_t now);

#endif
