/* Paths that are silent while others are not, see silence.h. Pure: libc only. */
#include "core/failover/silence.h"

#include "core/failover/alive.h"
#include "core/failover/failover_int.h"
#include "core/failover/slow.h"

#define VQP_SILENCE_LOOKS    4      /* in failover.silence, at least */
#define VQP_SILENCE_STEP     10000000ul /* ns between two, at most */
#define VQP_SILENCE_PAUSE    300000000ul /* the same, while all are still: less than
                                        what counts as time without progress */
#define VQP_SILENCE_COST     524288u /* ns for 64 KiB, of a path without a measured
                                        rate: that of 1 Gb/s */
#define VQP_SILENCE_COST_MAX (1u << 28) /* the same: the product has 64 bits */
#define VQP_SILENCE_BYTES    1000000000ul /* ns for what is in flight, at most: a process
                                       that gets no CPU measures any rate */
#define VQP_SILENCE_PATIENCE 16     /* times failover.silence, at most, for paths that
                                       were slow... */
#define VQP_SILENCE_DOUBT    2      /* ...and for those that may have been: if they lose
                                       packets, the vqp may stop so long at each loss */
#define VQP_SILENCE_FORGET   10     /* log2 of the looks until most of the patience
                                       has gone */
#define VQP_SILENCE_LULL     6u     /* looks, while all paths are still, until they
                                       are not fewer any more */

void vqp_silence_init(vqp_t *vqp)
{
    vqp->silence.due      = UINT64_MAX;
    vqp->silence.patience = vqp->failover.silence;
    if (vqp->failover.is_on) {
        vqp->tx.slow |= VQP_TX_QUIET;
    }
}

/* Are paths given up? Else the looks are for alive.h only */
static int vqp_silence_is_on(const vqp_t *vqp)
{
    return (vqp->failover.silence != 0) && (vqp->tx.paths.count > 1);
}

void vqp_silence_start(vqp_t *vqp)
{
    vqp->tx.slow       &= ~(uint32_t)VQP_TX_QUIET;
    vqp->silence.due    = 0;
    vqp->silence.looked = 0;
    vqp->todo          |= VQP_TODO_TIMER;
}

/* What a look at all paths has shown */
typedef struct vqp_look {
    uint64_t now;
    uint64_t elapsed; /* ns since the last one, as far as they count */
    unsigned moved;   /* paths that brought completions since */
    unsigned idle;    /* paths that take frags, and have none in flight */
    unsigned mute;    /* still ones without a CQE under way: a nop will ask them */
} vqp_look_t;

/* The path was silent for a while and was not broken, or may not have been */
static void vqp_silence_learn(vqp_t *vqp, uint64_t patience, unsigned max)
{
    vqp->silence.patience = vqp_max(vqp->silence.patience,
                                    vqp_min(patience,
                                            max * vqp->failover.silence));
}

/* The path is still if it has something in flight, and no completion has come */
static void vqp_silence_compare(vqp_t *vqp, vqp_path_t *path, vqp_look_t *look)
{
    vqp_failover_t *fo = &path->fo;
    int has_moved      = path->head != fo->seen;
    int is_idle        = vqp_path_outstanding(path) == 0;

    look->moved += has_moved;
    look->idle  += is_idle && path->up;
    fo->has_moved = (uint8_t)has_moved;
    fo->is_still  = !has_moved && !is_idle;
    look->mute  += fo->is_still && !vqp_path_awaits_cqe(path);
    if (fo->is_doubtful && (fo->state == VQP_PATH_UP)) {
        vqp_cover(SILENCE_DOUBTFUL);
        ++vqp->stats.false_alarms;
        fo->is_doubtful = 0;
        vqp_silence_learn(vqp, 2 * vqp->silence.patience, VQP_SILENCE_DOUBT);
    }
    if (!fo->is_still) {
        vqp_cover_if(fo->silent != 0, SILENCE_ENDS);
        vqp_silence_learn(vqp, 4 * fo->silent, VQP_SILENCE_PATIENCE);
        vqp_path_not_silent(path);
    }
}

/* How long the path may be silent */
static uint64_t vqp_silence_limit(const vqp_t *vqp, const vqp_path_t *path,
                                  uint64_t now)
{
    uint32_t cost = vqp_rate_cost(&path->rate, now);

    if (cost == 0) { /* what it was long ago, if that is slow */
        cost = vqp_max(path->rate.cost, VQP_SILENCE_COST);
    }

    return vqp->silence.patience +
           vqp_min(4 * vqp_rate_finish(vqp_min(cost, VQP_SILENCE_COST_MAX),
                                       path->bytes), VQP_SILENCE_BYTES);
}

/* The path is still */
static void
vqp_silence_judge(vqp_t *vqp, vqp_path_t *path, const vqp_look_t *look)
{
    vqp_failover_t *fo = &path->fo;
    int is_up          = fo->state == VQP_PATH_UP;
    int is_on          = vqp_silence_is_on(vqp);

    fo->still += look->elapsed;
    if (!vqp_path_awaits_cqe(path)) {
        if (fo->still >= (is_on ? vqp->failover.silence : VQP_SILENCE_STEP)) {
            vqp_cover(SILENCE_NOP);
            vqp->tx.slow |= VQP_TX_NOP; /* on all paths that lack one */
        }
        return;
    }
    if (!is_on) {
        return;
    }

    if (look->moved != 0) {
        fo->silent += look->elapsed;
    }

    /* Those that moved may have nothing more to send: they are asked for the next
     * look too */
    if ((look->idle != 0) && (2 * fo->still >= vqp->failover.silence)) {
        vqp_cover(SILENCE_WITNESS);
        vqp_path_ask_idle(vqp);
    }

    if ((fo->silent != 0) &&
        (fo->silent >= vqp_silence_limit(vqp, path, look->now))) {
        vqp_cover(PATH_SILENT);
        ++vqp->stats.silences;
        vqp_path_down(vqp, path, VQP_ERR_TIMEOUT);
        fo->why_silent  = fo->silent;
        fo->is_doubtful = is_up;
    }
}

void vqp_silence_look(vqp_t *vqp, uint64_t now, int is_drained)
{
    uint64_t step   = vqp_silence_is_on(vqp) ?
                      vqp_min(vqp->failover.silence / VQP_SILENCE_LOOKS,
                              VQP_SILENCE_STEP) : VQP_SILENCE_STEP;
    vqp_look_t look = {.now = now};
    int is_busy     = 0;
    vqp_path_t *path;
    uint32_t i;

    if (now < vqp->silence.due) {
        return;
    }

    /* While nobody polled, completions may have come: that time proves nothing */
    if ((vqp->silence.looked != 0) && is_drained) {
        look.elapsed = vqp_min(now - vqp->silence.looked, step);
    }
    vqp->silence.looked    = now;
    vqp->silence.patience -= (vqp->silence.patience - vqp->failover.silence) >>
                             VQP_SILENCE_FORGET;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path              = &vqp->tx.paths.list[i];
        path->fo.is_still = 0;
        if ((path->fo.state == VQP_PATH_UP) ||
            (path->fo.state == VQP_PATH_LEAVE) ||
            (path->fo.state == VQP_PATH_PROBE)) {
            vqp_silence_compare(vqp, path, &look);
            is_busy |= vqp_path_outstanding(path) != 0;
        }
    }

    vqp_alive_look(vqp, now, look.moved != 0, is_busy);
    /* Quiet after a time without traffic, not between one op and the next */
    if (!is_busy && (look.moved == 0)) {
        vqp->silence.due = UINT64_MAX;
        vqp->tx.slow    |= VQP_TX_QUIET;
        return;
    }

    /* While all are still, there is nothing to see */
    vqp->silence.lull = ((look.moved | look.idle | look.mute) != 0) ? 0 :
                        vqp_min(vqp->silence.lull + 1u, VQP_SILENCE_LULL);
    vqp->silence.due  = now + vqp_min(step << vqp->silence.lull,
                                      VQP_SILENCE_PAUSE);
    for (i = 0; (i < vqp->tx.paths.count) && !vqp_is_failed(vqp); ++i) {
        if (vqp->tx.paths.list[i].fo.is_still) {
            vqp_silence_judge(vqp, &vqp->tx.paths.list[i], &look);
        }
    }
    if (vqp_silence_is_on(vqp)) {
        vqp_slow_look(vqp, now, look.elapsed);
    }
}
