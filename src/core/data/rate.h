/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured rate of a path, as its inverse: nanoseconds for VQP_RATE_UNIT
 * bytes, measured while the path has bytes in flight, as a moving average. Time
 * comes in as a parameter. A measured interval costs divisions, a frag none.
 * Pure: libc only.
 *
 * Confirmations are seen when somebody polls, not when they come. So only an
 * interval at whose end the path was still busy shows how long its bytes took, and
 * only if it is several times as long as the process was away from its polls. It
 * goes on until it is, or until it has become too long.
 * Of a path that has run empty in between, the interval is an upper bound, and
 * the time until the last empty poll a lower bound. The lower bound counts as
 * long as nothing better is known.
 */
#ifndef VQP_CORE_DATA_RATE_H
#define VQP_CORE_DATA_RATE_H

#include <stdint.h>

#define VQP_RATE_UNIT_SHIFT 16         /* the cost is that of 64 KiB */
#define VQP_RATE_SAMPLE     (64 << 10) /* bytes of an interval, at least */
#define VQP_RATE_FORGET     100000000  /* ns: an older average is not used */
#define VQP_RATE_LATE       1000000    /* ns: a path that is expected to finish
                                          earlier is not late before this */
#define VQP_RATE_GAPS       4          /* that an interval lasts, at least */
#define VQP_RATE_LONG       (VQP_RATE_FORGET / 2) /* ns: an interval that is not exact
                                                     ends without a measurement */
#define VQP_RATE_INV_SHIFT  28         /* the inverse is per 2^28 ns */

typedef struct vqp_rate {
    uint64_t start;   /* of the interval that is measured; 0: none is */
    uint64_t last;    /* end of the last one that was measured */
    uint64_t bytes;   /* confirmed since start */
    uint32_t gap;     /* ns: longest time in which nobody looked, before it or in it */
    uint32_t cost;    /* ns per unit; 0: not known */
    uint32_t inverse; /* units per 2^28 ns */
    uint32_t recent;  /* ns per unit, of all intervals: see vqp_rate_recent() */
} vqp_rate_t;

static inline void vqp_rate_set(vqp_rate_t *rate, uint32_t cost, uint64_t now)
{
    rate->cost    = cost;
    rate->inverse = (1u << VQP_RATE_INV_SHIFT) / cost;
    rate->last    = now;
}

/** The path gets a frag at @a now, and was not measured. */
static inline void vqp_rate_begin(vqp_rate_t *rate, uint64_t now)
{
    rate->start = now;
    rate->bytes = 0;
    rate->gap   = 0;
}

/** The measured cost of the path, in ns per unit; 0: not known. */
static inline uint32_t vqp_rate_cost(const vqp_rate_t *rate, uint64_t now)
{
    return (now - rate->last < VQP_RATE_FORGET) ? rate->cost : 0;
}

/**
 * An average that follows a path which runs empty, too: there it is that of the lower
 * bounds, with the latency in them. To be compared with that of other paths.
 *
 * @return ns per unit; 0: not known.
 */
static inline uint32_t vqp_rate_recent(const vqp_rate_t *rate, uint64_t now)
{
    return (now - rate->last < VQP_RATE_FORGET) ? rate->recent : 0;
}

/** Time that @a bytes take, in ns. */
static inline uint64_t vqp_rate_finish(uint32_t cost, uint64_t bytes)
{
    return (bytes * cost) >> VQP_RATE_UNIT_SHIFT;
}

/**
 * Is the path far behind its measured rate? Then the average says nothing about
 * when its bytes in flight will be confirmed.
 *
 * @param [in] bytes  Bytes in flight on the path.
 *
 * @return 1 if the current interval has lasted four times as long as its bytes
 *         should take, and VQP_RATE_LATE at least; else 0.
 */
static inline int
vqp_rate_is_late(const vqp_rate_t *rate, uint64_t bytes, uint64_t now)
{
    uint64_t expected = 4 * vqp_rate_finish(rate->cost, bytes + rate->bytes);

    return (rate->start != 0) && (now > rate->start) &&
           (now - rate->start > expected) &&
           (now - rate->start > VQP_RATE_LATE);
}

/**
 * @a bytes were confirmed.
 *
 * @param [in] left  Bytes that are still in flight on the path.
 * @param [in] seen  Time of the newest poll that found nothing and began after
 *                   all earlier completions were handled; 0: not known.
 * @param [in] looked  Time of the poll before this one, whatever it found.
 *
 * @return 1 if the cost has changed.
 */
int vqp_rate_confirmed(vqp_rate_t *rate, uint64_t bytes, uint64_t left,
                       uint64_t seen, uint64_t looked, uint64_t now);

#endif
