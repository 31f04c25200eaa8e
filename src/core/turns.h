/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order in which paths get new queue pairs. To create one takes the owner some 100 us.
 * When a port is up again, thousands of paths want one, and progress has other work too:
 * so many are made in an interval, and the others wait for their turn. Of one interface.
 * Pure: libc only.
 *
 * A turn is a place in a line: it is kept while others go, so each path gets its queue
 * pair however many want one. There are two lines. In NEEDED are the vqps without a path,
 * one turn at a time: they fail if their outage lasts for long. The other paths are in SPARE,
 * which gets a quarter of an interval, and what NEEDED leaves.
 */
#ifndef VQP_CORE_TURNS_H
#define VQP_CORE_TURNS_H

#include <stdint.h>

typedef enum vqp_turn_line {
    VQP_TURN_NEEDED,
    VQP_TURN_SPARE,
    VQP_TURN_LINES
} vqp_turn_line_t;

/** A place in a line. All zero: none. A new vqp and a new path have none. */
typedef struct vqp_turn {
    uint32_t number;
    uint8_t  is_held;
} vqp_turn_t;

typedef struct vqp_turns {
    uint64_t     interval; /* ns */
    uint32_t     quota;    /* turns that come up in an interval, at least 4 */
    uint32_t     left;     /* of them, in this interval */
    uint64_t     start;    /* ns: of this interval */
    struct {
        uint32_t given;    /* numbers, from 0 on */
        uint32_t open;     /* the turns before this number have come up */
    } lines[VQP_TURN_LINES];
} vqp_turns_t;

void vqp_turns_init(vqp_turns_t *turns, uint64_t interval, uint32_t quota);

/**
 * May the holder of @a turn go now? If it has none it is given one, at the end of @a line.
 * A turn that has come up is used by this call. One that nobody uses takes its share of an
 * interval, and ends with it.
 *
 * @return 0 if it may, else when to ask again, in ns.
 */
uint64_t vqp_turns_take(vqp_turns_t *turns, vqp_turn_line_t line, vqp_turn_t *turn,
                        uint64_t now);

#endif
