/* A peer that died told apart from an outage, see alive.h. Pure: libc only. */
#include "core/failover/alive.h"

#include "core/failover/end.h"

#define VQP_ALIVE_FIRST 250000000ul  /* ns of silence until the peer is asked first */
#define VQP_ALIVE_HURRY 25000000ul   /* ns, half of the first interval when RC has given
                                        a path up */
#define VQP_ALIVE_MAX   1000000000ul /* ns between two questions, at most */
#define VQP_ALIVE_TIMES 3            /* that only the host answers, until it is dead */

/* What was confirmed and received on all paths: the looks may be rarer than the
 * questions, and do not see what is received */
static uint64_t vqp_alive_moves(const vqp_t *vqp)
{
    uint64_t moves = 0;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        moves += vqp->tx.paths.list[i].head + vqp->tx.paths.list[i].stats.rx_cqes;
    }

    return moves;
}

/* Between two questions, at most: a short outage has several, too */
static uint64_t vqp_alive_max(const vqp_t *vqp)
{
    return vqp_max(vqp_min(VQP_ALIVE_MAX, vqp->failover.outage / 4),
                   VQP_ALIVE_HURRY);
}

static void vqp_alive_start(vqp_t *vqp, uint64_t since)
{
    uint64_t first = vqp->alive.rc ? VQP_ALIVE_HURRY :
                     vqp_min(VQP_ALIVE_FIRST, vqp_alive_max(vqp));

    vqp->alive.since    = since;
    vqp->alive.interval = first;
    vqp->alive.due      = since + first;
    vqp->alive.asked    = 0;
    vqp->alive.times    = 0;
    vqp->alive.moves    = vqp_alive_moves(vqp);
}

void vqp_alive_init(vqp_t *vqp)
{
    vqp->alive.since = 0;
    vqp->alive.due   = UINT64_MAX;
    vqp->alive.rc    = vqp->alive.hurries = 0;
}

void vqp_alive_heard(vqp_t *vqp, uint64_t now)
{
    vqp_alive_init(vqp);
    if (vqp->in_outage) {
        vqp_alive_miss(vqp, now);
    }
}

void vqp_alive_miss(vqp_t *vqp, uint64_t now)
{
    if (vqp->alive.since == 0) {
        vqp_alive_start(vqp, now);
    }
}

void vqp_alive_look(vqp_t *vqp, uint64_t now, int has_moved, int is_busy)
{
    if (has_moved) {
        vqp_alive_heard(vqp, now);
    } else if (is_busy) {
        vqp_alive_miss(vqp, now);
    } else if (!(vqp->tx.slow & VQP_TX_REPLAY)) {
        vqp_alive_init(vqp); /* all paths are up, and nothing is awaited */
    }
}

void vqp_alive_skip(vqp_t *vqp, uint64_t skipped, uint64_t now)
{
    if ((vqp->alive.since != 0) && (skipped != 0)) {
        vqp->alive.since = vqp_min(vqp->alive.since + skipped, now);
        vqp->alive.times = 0;
    }
}

void vqp_alive_on_timer(vqp_t *vqp, uint64_t now)
{
    if (vqp->alive.since == 0) {
        return;
    }

    if (vqp->alive.rc && !vqp->alive.hurries) {
        vqp->alive.hurries  = 1;
        vqp->alive.interval = VQP_ALIVE_HURRY;
        /* an answer to the last question may be on its way */
        vqp->alive.due      = (vqp->alive.asked == 0) ?
                                      now : vqp_max(now, vqp->alive.asked +
                                                         (2 * VQP_ALIVE_HURRY));
    }

    if (now < vqp->alive.due) {
        return;
    }

    if (vqp->alive.moves != vqp_alive_moves(vqp)) {
        vqp_cover(ALIVE_MOVES); /* it sends, or confirms without a look that saw it */
        vqp_alive_start(vqp, now);
    } else {
        vqp->alive.due = now + vqp->alive.interval; /* if it is not asked */
        vqp->todo     |= VQP_TODO_PING;
    }
}

void vqp_alive_asked(vqp_t *vqp, const vqp_conn_answers_t *answers, uint64_t now)
{
    uint64_t asked = vqp->alive.asked;

    if ((vqp->alive.since == 0) || vqp_is_failed(vqp)) {
        return;
    }

    vqp->alive.asked    = now;
    vqp->alive.interval = vqp_min(2 * vqp->alive.interval, vqp_alive_max(vqp));
    vqp->alive.due      = now + vqp->alive.interval;
    if ((asked != 0) && (answers->heard >= asked)) {
        vqp_cover(ALIVE_ANSWERS);
        vqp->alive.since = now;
        vqp->alive.times = 0;
    } else if ((asked != 0) && (answers->host >= asked)) {
        vqp_cover(ALIVE_HOST_ANSWERS);
        ++vqp->alive.times;
    } else if (answers->host_asked) {
        vqp->alive.times = 0; /* the host may be cut off */
    }

    if ((vqp->alive.times >= VQP_ALIVE_TIMES) && vqp->alive.rc) {
        vqp_cover(ALIVE_DEAD);
        vqp->alive.is_dead = 1;
        vqp_fail(vqp, VQP_ERR_TIMEOUT);
    }
}
