/* SPDX-License-Identifier: BSD-3-Clause */
/* The number of paths, see elastic.h. Pure: libc only. */
#include "core/failover/elastic.h"

#include "core/failover/move.h"

#define VQP_ELASTIC_LOOKS 4u           /* in a measurement, at least */
#define VQP_ELASTIC_FRAGS 8u           /* in a measurement, unless it takes so many times as
                                          long: a rate is one of whole frags */
#define VQP_ELASTIC_GAIN  6ul          /* a path is kept if the rate of n others rises by more
                                          than 1/6n: a sixth of a fair share */
#define VQP_ELASTIC_BUSY  65536ul      /* bytes in flight that may keep a path busy, at most:
                                          where they do not, a trial shows it */
#define VQP_ELASTIC_TRIES 16u          /* flow labels that are tried one after the other... */
#define VQP_ELASTIC_WAIT  1000000000ul /* ...until the next trial waits that long, ns... */
#define VQP_ELASTIC_MAX   64000000000ul /* ...and twice as long each time, up to that */
#define VQP_ELASTIC_IDLE  10000000000ul /* ns without an operation until a path is dropped */
#define VQP_ELASTIC_DROPS 100000000ul  /* ns between two drops of idle paths, and between two
                                          requests to drop a short one... */
#define VQP_ELASTIC_ASKS  8u           /* ...after those that follow each measurement */

static void vqp_elastic_restart(vqp_t *vqp)
{
    vqp->elastic.full  = vqp->elastic.bytes = 0;
    vqp->elastic.load  = UINT64_MAX;
    vqp->elastic.looks = 0;
}

void vqp_elastic_init(vqp_t *vqp)
{
    vqp->elastic.due    = UINT64_MAX;
    vqp->elastic.wait   = VQP_ELASTIC_WAIT;
    vqp->elastic.wanted = vqp->min_paths;
    vqp_elastic_restart(vqp);
}

/* ---- measuring ---- */

/* Add up what is in flight, and what is confirmed */
static void vqp_elastic_count(const vqp_t *vqp, uint64_t *in_flight, uint64_t *confirmed)
{
    uint32_t i;

    *in_flight = *confirmed = 0;
    for (i = 0; i < vqp->tx.paths.count; ++i) {
        *in_flight += vqp->tx.paths.list[i].bytes;
        *confirmed += vqp->tx.paths.list[i].stats.bytes;
    }
    *confirmed -= *in_flight;
}

/* Has each path as much in flight as may keep it busy when there are several? */
static int vqp_elastic_is_busy(const vqp_t *vqp)
{
    uint64_t busy = vqp_min(vqp->tx.cfg.path_cap / 2, VQP_ELASTIC_BUSY);
    const vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if (path->up && (path->bytes < busy)) {
            return 0;
        }
    }

    return 1;
}

static int vqp_elastic_am_waits(const vqp_t *vqp)
{
    return (vqp->tx.am.post != vqp->tx.am.tail) && !vqp->tx.pack.is_held;
}

/* Are the paths full? Operations wait, or each path is busy */
static int vqp_elastic_is_full(const vqp_t *vqp)
{
    return (vqp->tx.rma.post != vqp->tx.rma.tail) || vqp_elastic_am_waits(vqp) ||
           vqp_elastic_is_busy(vqp);
}

/* Atomics may wait for one rail, and what is behind a fence for what is in flight: neither
 * says that a path has no room */
int vqp_elastic_is_spread(const vqp_t *vqp)
{
    const vqp_tx_t *tx = &vqp->tx;
    const vqp_op_t *op;

    if (vqp_elastic_am_waits(vqp)) {
        op = vqp_opring_at(&tx->am, tx->am.post);
        if (!(op->flags & VQP_OP_FENCE)) {
            return 1;
        }
    }

    if (tx->rma.post != tx->rma.tail) {
        op = vqp_opring_at(&tx->rma, tx->rma.post);
        if ((op->kind < VQP_KIND_FADD) && !(op->flags & VQP_OP_FENCE)) {
            return 1;
        }
    }

    return vqp_elastic_is_busy(vqp);
}

static uint64_t vqp_elastic_step(const vqp_t *vqp)
{
    return vqp_max(vqp->failover.elastic / VQP_ELASTIC_LOOKS, 1ul);
}

/* Count the time since the last look, and its bytes, if the paths were full. @return 1 if
 * the measurement is complete */
static int vqp_elastic_measure(vqp_t *vqp, uint64_t now, int is_drained)
{
    uint64_t elapsed = now - vqp->elastic.looked;
    int is_full      = vqp_elastic_is_full(vqp);
    uint64_t in_flight, confirmed;

    vqp->elastic.looks = (is_full && vqp->elastic.was_full) ?
                                 (uint8_t)vqp_min(vqp->elastic.looks + 1u, 255u) : 0;
    vqp_elastic_count(vqp, &in_flight, &confirmed);
    if (is_full && vqp->elastic.was_full && is_drained &&
        (elapsed <= VQP_ELASTIC_LOOKS * vqp_elastic_step(vqp))) {
        vqp->elastic.full  += elapsed;
        vqp->elastic.bytes += confirmed - vqp->elastic.confirmed;
        vqp->elastic.load   = vqp_min(vqp->elastic.load, in_flight);
    }

    vqp->elastic.confirmed = confirmed;
    vqp->elastic.looked    = now;
    vqp->elastic.was_full  = (uint8_t)is_full;
    return (vqp->elastic.full >= vqp->failover.elastic) &&
           ((vqp->elastic.bytes * vqp_max(vqp_tx_outstanding(&vqp->tx), 1u) >=
             VQP_ELASTIC_FRAGS * in_flight) ||
            (vqp->elastic.full >= VQP_ELASTIC_FRAGS * vqp->failover.elastic));
}

/* Bytes in 2^20 ns */
static uint64_t vqp_elastic_rate(const vqp_t *vqp)
{
    return (vqp->elastic.bytes << 20) / vqp_max(vqp->elastic.full, 1ul);
}

static vqp_path_t *vqp_elastic_path(vqp_t *vqp)
{
    return &vqp->tx.paths.list[vqp->elastic.path];
}

static void vqp_elastic_go(vqp_t *vqp, vqp_elastic_state_t state)
{
    vqp->elastic.state = (uint8_t)state;
    vqp_elastic_restart(vqp);
}

/* ---- short paths ---- */

static int vqp_elastic_is_short(const vqp_t *vqp, const vqp_path_t *path)
{
    return (path->fo.state == VQP_PATH_UP) && (path->depth < vqp->depth);
}

/* A short path over these rails, with any rail of the peer if that one is not known, that
 * this side has not requested to drop; or NULL */
static vqp_path_t *
vqp_elastic_find_short(vqp_t *vqp, unsigned rail, unsigned peer_rail)
{
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if (vqp_elastic_is_short(vqp, path) && !path->fo.unused && (path->rail == rail) &&
            ((peer_rail == VQP_RAIL_NONE) || (path->peer_rail == peer_rail))) {
            return path;
        }
    }

    return NULL;
}

/* The path that was added is UP. Does it replace a short one, over the same rails? Then that
 * is dropped, and nothing is judged: a longer queue is no other link. @return 0 if not */
static int vqp_elastic_swap(vqp_t *vqp, uint64_t now)
{
    vqp_path_t *path = vqp_elastic_path(vqp);
    vqp_path_t *old  = vqp_elastic_find_short(vqp, path->rail, path->peer_rail);

    if (!vqp->elastic.swaps || (old == NULL) || vqp_elastic_is_short(vqp, path)) {
        return 0;
    }

    if (vqp_paths_kept(vqp, NULL) > vqp->elastic.num + 1u) {
        vqp_cover(ELASTIC_SWAP_VOID); /* the peer has added one for the same reason */
        (void)vqp_path_drop(vqp, path);
    } else if (vqp_path_drop(vqp, old)) {
        vqp_cover(ELASTIC_SWAP);
        vqp->elastic.asked = now;
        vqp->elastic.asks  = 1;
        vqp->elastic.tried = 0; /* with a short queue */
    } else {
        return 0;
    }

    vqp_elastic_go(vqp, VQP_ELASTIC_STEADY);
    return 1;
}

/* The peer has ignored the request if the new path was not UP there yet. @return 1 if trials
 * wait for it: the short path would count in the rate of others, and then leave */
static int vqp_elastic_ask_again(vqp_t *vqp, uint64_t now)
{
    int is_asked = 0;
    vqp_path_t *path;
    uint32_t i;

    if ((vqp->elastic.asks >= VQP_ELASTIC_ASKS) &&
        (now - vqp->elastic.asked < VQP_ELASTIC_DROPS)) {
        return 0;
    }

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if (vqp_elastic_is_short(vqp, path) && path->fo.unused &&
            vqp_path_drop(vqp, path)) {
            vqp_cover(ELASTIC_ASKS_AGAIN);
            vqp->elastic.asked = now;
            is_asked           = 1;
        }
    }

    vqp->elastic.asks = (uint8_t)(vqp->elastic.asks +
                                  (vqp->elastic.asks < VQP_ELASTIC_ASKS));
    return is_asked && (vqp->elastic.asks < VQP_ELASTIC_ASKS);
}

/* ---- trials ---- */

/* The path on trial is gone, or has not paid: when is the next trial? */
static void vqp_elastic_failed(vqp_t *vqp, uint64_t now)
{
    if (++vqp->elastic.tries >= VQP_ELASTIC_TRIES) {
        vqp->elastic.next  = now + vqp->elastic.wait;
        vqp->elastic.wait  = vqp_min(2 * vqp->elastic.wait, VQP_ELASTIC_MAX);
        vqp->elastic.tries = VQP_ELASTIC_TRIES - 1; /* one at a time from now on */
    }
    vqp_elastic_go(vqp, VQP_ELASTIC_STEADY);
}

/* Is the load another one than that of the trials? With little in flight one path may do, and
 * with twice as much another one may pay */
static int vqp_elastic_is_greater(const vqp_t *vqp)
{
    return vqp->elastic.load / 2 >= vqp->elastic.tried;
}

/* Add the next path in turn: that of the last trial may be on a rail that does not work.
 * @a swaps: only one on the rail of a short path, to replace that */
static int vqp_elastic_add(vqp_t *vqp, int swaps)
{
    uint32_t index = vqp->elastic.path;
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        index = (index + 1 == vqp->tx.paths.count) ? 0 : index + 1;
        path  = &vqp->tx.paths.list[index];
        if ((!swaps || (vqp_elastic_find_short(vqp, path->fo.next_rail, VQP_RAIL_NONE) !=
                         NULL)) &&
            vqp_path_add(vqp, path)) {
            vqp->elastic.path  = (uint8_t)index;
            vqp->elastic.swaps = (uint8_t)swaps;
            return 1;
        }
    }

    return 0;
}

/* Wait for the path that was added */
static void vqp_elastic_await(vqp_t *vqp)
{
    vqp_cover(ELASTIC_TRIAL);
    vqp->elastic.num = (uint8_t)vqp_paths_kept(vqp, NULL);
    vqp_elastic_go(vqp, VQP_ELASTIC_ADDING);
}

/* A longer queue is not judged, so nothing has to be measured: a process that computes for
 * long between its calls of progress gets one too */
static void vqp_elastic_lengthen(vqp_t *vqp, uint64_t now)
{
    if (vqp_elastic_ask_again(vqp, now)) {
        vqp->elastic.looks = 0;
    } else if (vqp->tx.paths.has_off && (now >= vqp->elastic.next) &&
               vqp_elastic_add(vqp, 1)) {
        vqp_cover(ELASTIC_LENGTHENS);
        vqp->elastic.rate = 0; /* unknown */
        vqp_elastic_await(vqp);
    }
}

static void vqp_elastic_begin(vqp_t *vqp)
{
    if (vqp_elastic_is_greater(vqp)) {
        vqp->elastic.tried = vqp_max(vqp->elastic.load, 1ul); /* 0 would restart them again */
        vqp->elastic.tries = 0;
        vqp->elastic.next  = 0;
        vqp->elastic.wait  = VQP_ELASTIC_WAIT;
    }

    if (vqp_elastic_add(vqp, 1) || vqp_elastic_add(vqp, 0)) {
        vqp->elastic.rate = vqp_max(vqp_elastic_rate(vqp), 1ul);
        vqp_elastic_await(vqp);
    }
}

static void vqp_elastic_judge(vqp_t *vqp, uint64_t now)
{
    uint64_t gain = VQP_ELASTIC_GAIN * vqp->elastic.num;

    if (gain * vqp_elastic_rate(vqp) > (gain + 1) * vqp->elastic.rate) {
        vqp_cover(ELASTIC_PAYS);
        vqp->elastic.wanted = vqp_max(vqp->elastic.wanted,
                                      (uint8_t)(vqp->elastic.num + 1));
        vqp->elastic.tried  = 0; /* the next trial is the first one */
        vqp_elastic_go(vqp, VQP_ELASTIC_STEADY);
        return;
    }

    vqp_cover(ELASTIC_PAYS_NOT);
    (void)vqp_path_drop(vqp, vqp_elastic_path(vqp));
    vqp_elastic_failed(vqp, now);
}

/* ---- looks ---- */

/* Were operations posted since the last look? What was requested without traffic is no wish
 * any more then. Frags without an operation, as those that empty a path, are no use */
static void vqp_elastic_note_use(vqp_t *vqp, uint64_t now)
{
    uint64_t frags = 0;
    vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        frags += vqp->tx.paths.list[i].stats.frags;
    }
    if ((frags == vqp->elastic.frags) && (vqp->elastic.used != 0)) {
        return;
    }

    vqp->elastic.frags = frags;
    vqp->elastic.used  = now;
    for (i = 0; (i < vqp->tx.paths.count) && vqp->elastic.requested; ++i) {
        path             = &vqp->tx.paths.list[i];
        path->fo.unused &= path->fo.state != VQP_PATH_UP;
    }
    vqp->elastic.requested = 0;
}

/* Was no path used for long? Then request to drop one path after the other, once each: the
 * peer may need them */
static void vqp_elastic_idle(vqp_t *vqp, uint64_t now)
{
    vqp_path_t *path;
    uint32_t i;

    if (now - vqp->elastic.used < VQP_ELASTIC_IDLE) {
        vqp->elastic.due = vqp->elastic.used + VQP_ELASTIC_IDLE;
        return;
    }

    vqp->elastic.due    = UINT64_MAX;
    vqp->elastic.wanted = vqp->min_paths;
    vqp->elastic.tried  = 0; /* with more paths than there will be */
    for (i = vqp->tx.paths.count; i > 0; --i) {
        path = &vqp->tx.paths.list[i - 1];
        if (!path->fo.unused && vqp_path_drop(vqp, path)) {
            vqp_cover(ELASTIC_IDLE);
            vqp->elastic.requested = 1;
            vqp->elastic.due       = now + VQP_ELASTIC_DROPS;
            return;
        }
    }
}

static void vqp_elastic_steady(vqp_t *vqp, uint64_t now, int is_measured)
{
    if (!vqp->tx.paths.settled) { /* failures change the rate */
        vqp_elastic_restart(vqp);
        return;
    }
    if (!is_measured) {
        if (vqp->elastic.looks >= VQP_ELASTIC_LOOKS) {
            vqp_elastic_lengthen(vqp, now);
        }
        return;
    }

    if (!vqp_elastic_ask_again(vqp, now) && vqp->tx.paths.has_off &&
        ((now >= vqp->elastic.next) || vqp_elastic_is_greater(vqp))) {
        vqp_elastic_begin(vqp);
    } else {
        vqp_elastic_restart(vqp);
    }
}

void vqp_elastic_look(vqp_t *vqp, uint64_t now, int is_drained)
{
    int is_measured;
    int is_up;

    if (now < vqp->elastic.due) {
        return;
    }

    vqp_elastic_note_use(vqp, now);
    if (vqp->tx.slow & VQP_TX_QUIET) {
        vqp_elastic_idle(vqp, now);
        return;
    }

    is_measured      = vqp_elastic_measure(vqp, now, is_drained);
    vqp->elastic.due = now + vqp_elastic_step(vqp);
    is_up            = vqp_elastic_path(vqp)->fo.state == VQP_PATH_UP;
    switch (vqp->elastic.state) {
    case VQP_ELASTIC_ADDING:
        if (is_up && vqp_elastic_swap(vqp, now)) {
            break;
        }
        if (is_up && (vqp->elastic.rate == 0)) {
            vqp_cover(ELASTIC_NOT_LONGER);
            (void)vqp_path_drop(vqp, vqp_elastic_path(vqp));
            vqp_elastic_failed(vqp, now); /* without a measurement it can not be judged */
        } else if (is_up) {
            vqp_elastic_go(vqp, VQP_ELASTIC_TRIAL);
            vqp->elastic.was_full = 0; /* the next interval does not count */
        } else if (vqp_path_is_off(vqp_elastic_path(vqp))) {
            vqp_elastic_failed(vqp, now);
        }
        break;
    case VQP_ELASTIC_TRIAL:
        if (!is_up) {
            vqp_elastic_failed(vqp, now);
        } else if (vqp->tx.paths.usable <= vqp->elastic.num) {
            vqp_cover(ELASTIC_VOID); /* another path is not UP any more */
            (void)vqp_path_drop(vqp, vqp_elastic_path(vqp));
            vqp_elastic_go(vqp, VQP_ELASTIC_STEADY);
        } else if (is_measured) {
            vqp_elastic_judge(vqp, now);
        }
        break;
    default:
        vqp_elastic_steady(vqp, now, is_measured);
        break;
    }
}
