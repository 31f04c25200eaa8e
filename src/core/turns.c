/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of new queue pairs, see turns.h. Pure: libc only. */
#include "core/turns.h"

#include "core/cover.h"
#include "core/status.h"

void vqp_turns_init(vqp_turns_t *turns, uint64_t interval, uint32_t quota)
{
    *turns = (vqp_turns_t){.interval = interval, .quota = quota, .left = quota};
}

/* At most @a count turns of the line come up */
static void vqp_turns_open(vqp_turns_t *turns, vqp_turn_line_t line, uint32_t count)
{
    count = vqp_min(count, turns->lines[line].given - turns->lines[line].open);
    turns->lines[line].open += count;
    turns->left             -= count;
}

/* What an interval leaves is not added to the next one: whoever asks after a long time
 * does not find more work than after a short one */
static void vqp_turns_begin_interval(vqp_turns_t *turns, uint64_t now)
{
    turns->left  = turns->quota;
    turns->start = now;
    vqp_turns_open(turns, VQP_TURN_NEEDED, turns->quota - (turns->quota / 4));
    vqp_turns_open(turns, VQP_TURN_SPARE, turns->left);
    vqp_turns_open(turns, VQP_TURN_NEEDED, turns->left);
}

uint64_t vqp_turns_take(vqp_turns_t *turns, vqp_turn_line_t line, vqp_turn_t *turn,
                        uint64_t now)
{
    uint32_t ahead, waiting;

    if (now - turns->start >= turns->interval) {
        vqp_turns_begin_interval(turns, now);
    }

    if (!turn->is_held) {
        turn->number  = turns->lines[line].given++;
        turn->is_held = 1;
        vqp_turns_open(turns, line, turns->left); /* if any is left, nobody waits */
    }

    ahead   = turn->number - turns->lines[line].open;
    waiting = turns->lines[line].given - turns->lines[line].open;
    if (ahead < waiting) {
        return turns->start + ((1 + (ahead / turns->quota)) * turns->interval);
    }

    vqp_cover_if(line == VQP_TURN_NEEDED, TURN_NEEDED);
    turn->is_held = 0;
    return 0;
}
