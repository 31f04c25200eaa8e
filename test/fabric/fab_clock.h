/*
 * The fabric's time: that of the machine, or a virtual one (CLOCK=virtual) that
 * goes on by STEP with each poll and each post of the process, and by nothing
 * else. The process sees it as CLOCK_MONOTONIC. So what a timed run measures is
 * what the network and the transport's decisions make of it, however busy the
 * machine is. For one process: time that several share would be nobody's.
 * May call libc.
 */
#ifndef FAB_CLOCK_H
#define FAB_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "fab_config.h"

/** Nanoseconds; of CLOCK_MONOTONIC, the same in all processes, unless virtual. */
uint64_t fab_now(void);

/** A poll or a post takes its time. Any thread. */
void fab_clock_step(void);

static inline void fab_clock_tick(void)
{
    if (__builtin_expect(fab_config.clock == FAB_CLOCK_VIRTUAL, 0)) {
        fab_clock_step();
    }
}

/** Advance virtual time to @a due, if it is earlier, when no thread polls. */
void fab_clock_skip(uint64_t due);

/**
 * @return Whether all other threads of the process sleep. A thread that wants to run
 *         and that the machine does not run is not asleep.
 */
bool fab_clock_is_idle(void);

#endif
