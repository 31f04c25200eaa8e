/*
 * The fabric's time: that of the machine, or a virtual one (CLOCK=virtual) that
 * goes on by STEP with each poll and each post of the process, and by nothing
 * else. The process sees it as CLOCK_MONOTONIC. So what a timed run measures is
 * what the network and the transport's decisions make of it, however busy the
 * machine is. For one process: time that several share would be nobody's. While one
 * thread polls, what others have to do is done before much time has gone by.
 * May call libc.
 */
#ifndef FAB_CLOCK_H
#define FAB_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "fab_config.h"

/** Nanoseconds; of CLOCK_MONOTONIC, the same in all processes, unless virtual. */
uint64_t fab_now(void);

/** Virtual time goes on by a step. Any thread. */
void fab_clock_step(void);

/** The same for a poll. It waits now and then until other threads have run: for a second of
 *  the machine's time at most. */
void fab_clock_step_of_poll(void);

/** A post takes its time. */
static inline void fab_clock_on_post(void)
{
    if (__builtin_expect(fab_config.clock == FAB_CLOCK_VIRTUAL, 0)) {
        fab_clock_step();
    }
}

/** A poll does. */
static inline void fab_clock_on_poll(void)
{
    if (__builtin_expect(fab_config.clock == FAB_CLOCK_VIRTUAL, 0)) {
        fab_clock_step_of_poll();
    }
}

/** Advance virtual time to @a due, if it is earlier, when no thread polls. */
void fab_clock_skip(uint64_t due);

/**
 * @return Whether all other threads of the process sleep. A thread that wants to run
 *         and that the machine does not run is not asleep, nor is one that waits in
 *         fab_clock_step_of_poll().
 */
bool fab_clock_is_idle(void);

/** In the child after fork(): only this thread is left. */
void fab_clock_forked(void);

#endif
