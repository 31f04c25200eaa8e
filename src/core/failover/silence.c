/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection of silent paths, see silence.h. Pure: libc only. */
#include "core/failover/silence.h"

#include "core/failover/alive.h"
#include "core/failover/failover_int.h"
#include "core/failover/slow.h"

#define VQP_SILENCE_LOOKS       4            /* within failover.silence, at least */
#define VQP_SILENCE_STEP        10000000ul   /* ns between two looks, at most */
#define VQP_SILENCE_STEP_QUIET  300000000ul  /* the same, while all paths are stalled; less
                                                than what counts as time without progress */
#define VQP_SILENCE_COST        524288u      /* ns for 64 KiB, if no rate was measured:
                                                1 Gb/s */
#define VQP_SILENCE_COST_MAX    (1u << 28)   /* the same, at most: the product has 64 bits */
#define VQP_SILENCE_BYTES       1000000000ul /* ns for the bytes in flight, at most: a
                                                process without CPU measures any rate */
#define VQP_SILENCE_MAX_SLOW    16           /* largest limit, in failover.silence, after
                                                paths that were slow... */
#define VQP_SILENCE_MAX_SUSPECT 2            /* ...or may have been slow: if these lose
                                                packets, each loss stalls for the limit */
#define VQP_SILENCE_DECAY       10           /* log2 of the looks until most of what was
                                                added to the limit is gone */
#define VQP_SILENCE_MAX_QUIET   6u           /* looks with all paths stalled, each of which
                                                doubles the step */

void vqp_silence_init(vqp_t *vqp)
{
    vqp->silence.due   = UINT64_MAX;
    vqp->silence.limit = vqp->failover.silence;
    if (vqp->failover.is_on) {
        vqp->tx.slow |= VQP_TX_QUIET;
    }
}

/* May paths be given up? If not, the looks serve alive.h only */
static int vqp_silence_is_on(const vqp_t *vqp)
{
    return (vqp->failover.silence != 0) && (vqp->tx.paths.count > 1);
}

void vqp_silence_start(vqp_t *vqp)
{
    vqp->tx.slow       &= ~(uint32_t)VQP_TX_QUIET;
    vqp->silence.due    = 0;
    vqp->silence.looked = 0;
    vqp_set_event(vqp, VQP_EVENT_TIMER);
}

/* The result of a look at all paths */
typedef struct vqp_look {
    uint64_t now;        /* ns */
    uint64_t elapsed;    /* ns since the last look, as far as they count */
    unsigned progressed; /* paths with a completion since */
    unsigned idle;       /* paths that take frags and have none in flight */
    unsigned unsignaled; /* stalled paths without a CQE under way */
    unsigned undecided;  /* stalled paths that are not SILENT yet */
} vqp_look_t;

/* A silent path had not failed, or may not have failed: raise the limit to @a limit, at
 * most @a max times failover.silence */
static void vqp_silence_adapt(vqp_t *vqp, uint64_t limit, unsigned max)
{
    vqp->silence.limit = vqp_max(vqp->silence.limit,
                                 vqp_min(limit, max * vqp->failover.silence));
}

/* ---- SILENT ---- */

int vqp_silence_message(const vqp_path_t *path, vqp_path_msg_t *msg)
{
    msg->type   = VQP_WIRE_PATH_DOWN;
    msg->flags |= VQP_WIRE_FLAG_SILENT;
    msg->flags |= (path->fo.question == VQP_QUESTION_OVER) ? VQP_WIRE_FLAG_WITHDRAWN : 0;
    msg->down   = (vqp_wire_path_down_t){.path  = path->index,
                                         .count = path->fo.asks};
    return path->fo.question != VQP_QUESTION_NONE;
}

/* May the path be given up although RC has reported no error? Not while an own fetching
 * atomic waits for its result on it */
static int vqp_silence_may_give_up(vqp_t *vqp, vqp_path_t *path)
{
    const vqp_inflight_t *entry;
    uint16_t slot;

    for (slot = path->head; slot != path->tail; ++slot) {
        entry = vqp_path_at(path, slot);
        if (((entry->kind == VQP_KIND_FADD) || (entry->kind == VQP_KIND_CSWAP)) &&
            (vqp_tx_op_of(&vqp->tx, entry->op)->amo.result != NULL)) {
            vqp_cover(SILENCE_RESULT);
            return 0;
        }
    }

    return 1;
}

/* The path takes no frags from now on */
static void vqp_silence_enter(vqp_t *vqp, vqp_path_t *path)
{
    vqp_cover(PATH_SILENT);
    path->fo.resume   = path->fo.state;
    path->fo.question = VQP_QUESTION_NONE;
    path->fo.due      = UINT64_MAX; /* until a message is sent */
    if (path->fo.mover == VQP_MOVER_REQUEST) {
        path->fo.mover  = VQP_MOVER_NONE; /* its rate says nothing now */
        path->fo.unused = 0;
    }
    vqp_path_set_state(vqp, path, VQP_PATH_SILENT);
}

/* Use the path no more, and ask the peer to give it up, if nothing is lost by that */
static void vqp_silence_ask(vqp_t *vqp, vqp_path_t *path)
{
    if (path->fo.state != VQP_PATH_SILENT) {
        vqp_silence_enter(vqp, path);
    }
    path->fo.why_silent = path->fo.silent;
    if (vqp_silence_may_give_up(vqp, path)) {
        path->fo.question = VQP_QUESTION_ASKED;
        path->fo.asks     = vqp_fsn_add(path->fo.asks, 1);
        vqp_path_request(vqp, path);
    }
}

/* Use the path again */
static void vqp_silence_leave(vqp_t *vqp, vqp_path_t *path)
{
    vqp_failover_t *fo = &path->fo;

    fo->messages = 0;
    vqp_path_set_state(vqp, path, (vqp_path_state_t)fo->resume);
    fo->due = UINT64_MAX;
    if (fo->state == VQP_PATH_LEAVE) {
        vqp_path_request(vqp, path);
    }
    vqp_set_event(vqp, VQP_EVENT_RESUME); /* there is room again */
}

/* A completion has come: the path works. What the peer has been asked is withdrawn, until it
 * has answered that */
static void vqp_silence_withdraw(vqp_t *vqp, vqp_path_t *path)
{
    vqp_failover_t *fo = &path->fo;

    if (fo->question == VQP_QUESTION_NONE) {
        vqp_silence_leave(vqp, path);
    } else if (fo->question == VQP_QUESTION_ASKED) {
        vqp_cover(SILENCE_WITHDRAWN);
        fo->question = VQP_QUESTION_OVER;
        vqp_path_request(vqp, path);
    }
}

int vqp_silence_agrees(vqp_t *vqp, const vqp_path_msg_t *msg)
{
    vqp_path_t *path;

    if (!vqp_is_connected(vqp) || (msg->down.path >= vqp->tx.paths.count)) {
        return 0;
    }

    path = &vqp->tx.paths.list[msg->down.path];
    return (msg->epoch == path->fo.epoch) &&
           ((path->fo.state < VQP_PATH_QUIESCE) || (path->fo.state > VQP_PATH_DOWN)) &&
           vqp_silence_may_give_up(vqp, path);
}

/* The peer gets no completions on the path: give it up. Its own side goes on until then,
 * since RC may repair it */
static void vqp_silence_on_question(vqp_t *vqp, vqp_path_t *path, const vqp_path_msg_t *msg)
{
    vqp_failover_t *fo = &path->fo;

    vqp_cover_if(msg->epoch != fo->epoch, PATH_OLD_MESSAGE);
    if (vqp_silence_agrees(vqp, msg)) {
        vqp_path_down(vqp, path, VQP_ERR_RESET);
    }
    if (!vqp_is_failed(vqp) && (msg->epoch == fo->epoch) &&
        (fo->state >= VQP_PATH_QUIESCE) && (fo->state <= VQP_PATH_DOWN)) {
        vqp_path_answer(vqp, path, msg);
    }
}

void vqp_silence_on_message(vqp_t *vqp, vqp_path_t *path, const vqp_path_msg_t *msg)
{
    vqp_failover_t *fo = &path->fo;

    if (vqp_path_is_question(msg)) {
        vqp_silence_on_question(vqp, path, msg);
    } else if ((msg->flags & VQP_WIRE_FLAG_HAVE_YOURS) && (fo->state == VQP_PATH_SILENT) &&
               (fo->question == VQP_QUESTION_OVER) && (msg->down.count == fo->asks)) {
        vqp_silence_leave(vqp, path);
    }
}

/* The path is not stalled (any more) */
static void vqp_silence_end(vqp_t *vqp, vqp_path_t *path)
{
    vqp_cover_if(path->fo.silent != 0, SILENCE_ENDS);
    vqp_silence_adapt(vqp, 4 * path->fo.silent, VQP_SILENCE_MAX_SLOW);
    vqp_path_reset_silence(path);
    if (path->fo.state == VQP_PATH_SILENT) {
        vqp_silence_withdraw(vqp, path);
    }
}

void vqp_silence_resume(vqp_t *vqp)
{
    vqp_path_t *path;
    uint16_t seen;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        seen = path->fo.seen;
        if ((path->fo.state == VQP_PATH_SILENT) && (path->head != seen)) {
            vqp_silence_end(vqp, path);
            path->fo.seen = seen; /* the next look sees the progress */
        }
    }
}

/* ---- looks ---- */

/* Is there nothing to find out about the path? It may be silent again before the peer has
 * answered that a question is withdrawn */
static int vqp_silence_is_settled(const vqp_path_t *path)
{
    return (path->fo.state == VQP_PATH_SILENT) && !vqp_path_is_withheld(path);
}

/* Compare the path with the last look */
static void vqp_silence_compare(vqp_t *vqp, vqp_path_t *path, vqp_look_t *look)
{
    vqp_failover_t *fo = &path->fo;
    int has_progress   = path->head != fo->seen;
    int is_idle        = vqp_path_outstanding(path) == 0;

    fo->has_progress  = (uint8_t)has_progress;
    fo->is_stalled    = !has_progress && !is_idle;
    look->progressed += has_progress;
    look->idle       += is_idle && path->up;
    look->unsignaled += fo->is_stalled && !vqp_path_awaits_cqe(path);
    look->undecided  += fo->is_stalled && !vqp_silence_is_settled(path);
    if (fo->is_suspect && (fo->state == VQP_PATH_UP)) {
        vqp_cover(SILENCE_SUSPECT);
        ++vqp->stats.false_alarms;
        fo->is_suspect = 0;
        vqp_silence_adapt(vqp, 2 * vqp->silence.limit, VQP_SILENCE_MAX_SUSPECT);
    }
    if (!fo->is_stalled) {
        vqp_silence_end(vqp, path);
    }
}

/* ns for which the path may be silent */
static uint64_t vqp_silence_limit(const vqp_t *vqp, const vqp_path_t *path,
                                  uint64_t now)
{
    uint32_t cost = vqp_rate_cost(&path->rate, now);

    if (cost == 0) { /* an old measurement counts if it is slow */
        cost = vqp_max(path->rate.cost, VQP_SILENCE_COST);
    }

    return vqp->silence.limit +
           vqp_min(4 * vqp_rate_finish(vqp_min(cost, VQP_SILENCE_COST_MAX),
                                       path->bytes), VQP_SILENCE_BYTES);
}

/* Only a path that works shows that the stalled one does not. If none could, add a path after
 * the time that it may be silent, and others, with other flow labels, after twice that time,
 * four times and so on: the network or the peer may pause, or there may be no memory */
static void
vqp_silence_add(vqp_t *vqp, const vqp_path_t *path, const vqp_look_t *look)
{
    uint64_t limit = vqp_silence_limit(vqp, path, look->now);
    uint64_t times = path->fo.stalled / limit;
    uint32_t i;

    if ((times == (path->fo.stalled - look->elapsed) / limit) ||
        ((times & (times - 1)) != 0)) {
        return;
    }

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        if (vqp_path_add(vqp, &vqp->tx.paths.list[i])) {
            vqp_cover(SILENCE_ADD);
            return;
        }
    }
}

/* Ask the peer to give up the stalled path, or find out more about it */
static void
vqp_silence_decide(vqp_t *vqp, vqp_path_t *path, const vqp_look_t *look)
{
    vqp_failover_t *fo = &path->fo;
    int is_on          = vqp_silence_is_on(vqp);

    fo->stalled += look->elapsed;
    if (!vqp_path_awaits_cqe(path)) {
        if (fo->stalled >= (is_on ? vqp->failover.silence : VQP_SILENCE_STEP)) {
            vqp_cover(SILENCE_NOP);
            vqp->tx.slow |= VQP_TX_NOP; /* on all paths that lack a CQE */
        }
        return;
    }
    if (!is_on) {
        return;
    }

    if (look->progressed != 0) {
        fo->silent += look->elapsed;
    } else if ((look->idle == 0) && vqp->tx.paths.has_off &&
               (fo->state == VQP_PATH_UP)) {
        vqp_silence_add(vqp, path, look);
    }

    if (vqp_silence_is_settled(path)) {
        return;
    }

    /* Paths that made progress may have become idle: the next look needs a nop of them
     * too */
    if ((look->idle != 0) && (2 * fo->stalled >= vqp->failover.silence)) {
        vqp_cover(SILENCE_WITNESS);
        vqp_path_nop_idle(vqp);
    }

    if ((fo->silent != 0) &&
        (fo->silent >= vqp_silence_limit(vqp, path, look->now))) {
        vqp_silence_ask(vqp, path);
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

    /* Completions may have arrived and not been polled: that time does not count */
    if ((vqp->silence.looked != 0) && is_drained) {
        look.elapsed = vqp_min(now - vqp->silence.looked, step);
    }
    vqp->silence.looked = now;
    vqp->silence.limit -= (vqp->silence.limit - vqp->failover.silence) >>
                          VQP_SILENCE_DECAY;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path                = &vqp->tx.paths.list[i];
        path->fo.is_stalled = 0;
        if ((path->fo.state <= VQP_PATH_LEAVE) ||
            (path->fo.state == VQP_PATH_PROBE)) {
            vqp_silence_compare(vqp, path, &look);
            is_busy |= vqp_path_outstanding(path) != 0;
        }
    }

    vqp_alive_look(vqp, now, look.progressed != 0, is_busy);
    /* No traffic since the last look: the next frag starts the looks again */
    if (!is_busy && (look.progressed == 0)) {
        vqp->silence.due = UINT64_MAX;
        vqp->tx.slow    |= VQP_TX_QUIET;
        return;
    }

    /* Look less often while all paths are stalled and none can be added, or those that are
     * stalled are SILENT: there is nothing to find out */
    vqp->silence.quiet_looks =
            ((look.progressed | look.unsignaled) != 0) ||
            (((look.idle != 0) || vqp->tx.paths.has_off) && (look.undecided != 0)) ? 0 :
            vqp_min(vqp->silence.quiet_looks + 1u, VQP_SILENCE_MAX_QUIET);
    vqp->silence.due = now + vqp_min(step << vqp->silence.quiet_looks,
                                     VQP_SILENCE_STEP_QUIET);
    for (i = 0; i < vqp->tx.paths.count; ++i) {
        if (vqp->tx.paths.list[i].fo.is_stalled) {
            vqp_silence_decide(vqp, &vqp->tx.paths.list[i], &look);
        }
    }
    if (vqp_silence_is_on(vqp)) {
        vqp_slow_look(vqp, now, look.elapsed);
    }
}
