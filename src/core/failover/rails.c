/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths move to other rails, see rails.h. Pure: libc only. */
#include "core/failover/rails.h"

#include "core/cover.h"

#define VQP_RAILS_FAILS_MAX (255 - 255 % VQP_RAILS_FAILS) /* from there it counts to the
                                                            next multiple, again and again */

/* A pair of rails, of a path */
typedef struct vqp_rails_pair {
    unsigned own;
    unsigned peer;
} vqp_rails_pair_t;

void vqp_rails_init(vqp_t *vqp)
{
    vqp_path_t *path;
    uint32_t i;

    vqp->missed.wait = vqp->failover.hold_max;
    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path               = &vqp->tx.paths.list[i];
        path->fo.base_rail = path->fo.next_rail = path->rail;
        path->fo.base_peer = path->fo.next_peer = path->peer_rail;
        path->fo.logged_peer = path->peer_rail;
    }
}

/* ---- failures ---- */

static void vqp_rails_count(vqp_path_t *path)
{
    if (path->fo.fails == VQP_RAILS_FAILS_MAX) {
        path->fo.fails -= VQP_RAILS_FAILS;
    }
    ++path->fo.fails;
}

void vqp_rails_on_down(vqp_t *vqp, vqp_path_t *path)
{
    vqp_failover_t *fo = &path->fo;

    (void)vqp;
    fo->decided   = 0;
    fo->next_rail = path->rail;
    fo->next_peer = path->peer_rail;
    if (fo->state == VQP_PATH_LEAVE) { /* it works: so may the rails that it had first */
        fo->next_rail = fo->base_rail;
        fo->next_peer = fo->base_peer;
        fo->turn      = 0;
    } else if ((fo->state >= VQP_PATH_CONNECT) && !fo->unused) {
        vqp_rails_count(path);
    }
}

void vqp_rails_on_up(vqp_t *vqp, vqp_path_t *path)
{
    path->fo.fails = path->fo.peer_fails = 0;
    if (!vqp_rails_is_away(path)) {
        vqp->missed.wait = vqp->failover.hold_max;
    }
    vqp_rails_on_change(vqp);
}

void vqp_rails_on_change(vqp_t *vqp)
{
    if ((vqp->failover.num_rails > 1) && (vqp->missed.due == UINT64_MAX)) {
        vqp->missed.due = VQP_RAILS_SOON;
    }
}

void vqp_rails_on_fails(vqp_path_t *path, const vqp_wire_path_down_t *down)
{
    /* In DRAINED this side has decided, and the count is that of the old rails */
    if ((path->fo.state != VQP_PATH_DRAINED) && (path->fo.state != VQP_PATH_DOWN)) {
        path->fo.peer_fails = down->fails;
    }
}

/* ---- the choice ---- */

/* Pair number @a turn of the path. The first ones change both rails: each side's rails may
 * be networks of their own, that are connected with those of the same number only */
static vqp_rails_pair_t
vqp_rails_pair(const vqp_t *vqp, const vqp_path_t *path, unsigned turn)
{
    unsigned own  = vqp->failover.num_rails;
    unsigned peer = vqp->peer_rails;
    unsigned both = own; /* turns until both have begun again: the pairs are shifted then */

    while (both % peer != 0) {
        both += own;
    }

    return (vqp_rails_pair_t){
        .own  = (path->fo.base_rail + turn) % own,
        .peer = (path->fo.base_peer + turn + (turn / both)) % peer
    };
}

/* Is there another path that is, or will be, on this rail of this side, or of the peer? */
static int vqp_rails_has_other(const vqp_t *vqp, const vqp_path_t *path, int is_own,
                               unsigned rail)
{
    const vqp_path_t *other;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        other = &vqp->tx.paths.list[i];
        if ((other != path) && !vqp_path_is_off(other) &&
            ((is_own ? other->fo.next_rail : other->fo.next_peer) == rail)) {
            return 1;
        }
    }

    return 0;
}

static int vqp_rails_may_leave(const vqp_t *vqp, const vqp_path_t *path, int works,
                               vqp_rails_pair_t pair)
{
    return !works ||
           (((pair.own == path->rail) || vqp_rails_has_other(vqp, path, 1, path->rail)) &&
            ((pair.peer == path->peer_rail) || vqp_rails_has_other(vqp, path, 0, path->peer_rail)));
}

/* Does a path but @a except work? In LEAVE it does, too */
static int vqp_rails_any_works(const vqp_t *vqp, const vqp_path_t *except)
{
    const vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if ((path != except) &&
            ((path->fo.state == VQP_PATH_UP) || (path->fo.state == VQP_PATH_LEAVE))) {
            return 1;
        }
    }

    return 0;
}

/* The next pair of rails that the path may move to. That of the last move comes last: it
 * may not have been made. @return Its number; -1 if there is none */
static int vqp_rails_next(const vqp_t *vqp, const vqp_path_t *path)
{
    unsigned count = vqp->failover.num_rails * vqp->peer_rails;
    int works      = vqp_rails_any_works(vqp, path);
    vqp_rails_pair_t pair;
    unsigned turn, i;

    for (i = 1; i <= count; ++i) {
        turn = (path->fo.turn + i) % count;
        pair = vqp_rails_pair(vqp, path, turn);
        if (((pair.own != path->rail) || (pair.peer != path->peer_rail)) &&
            vqp_rails_may_leave(vqp, path, works, pair)) {
            return (int)turn;
        }
    }

    return -1;
}

void vqp_rails_decide(vqp_t *vqp, vqp_path_t *path)
{
    vqp_failover_t *fo = &path->fo;
    unsigned limit     = vqp_rails_any_works(vqp, path) ? VQP_RAILS_FAILS : 1;
    unsigned fails     = vqp_max(fo->fails, fo->peer_fails);
    vqp_rails_pair_t pair;
    int turn;

    if (!vqp->failover.decides || fo->unused || (path->peer_rail == VQP_RAIL_NONE) ||
        (fails < limit)) {
        return;
    }

    turn = vqp_rails_next(vqp, path);
    if (turn < 0) {
        vqp_cover_if(vqp->failover.num_rails * vqp->peer_rails > 1, RAILS_LAST);
        return;
    }

    vqp_cover(RAILS_MOVES);
    pair          = vqp_rails_pair(vqp, path, (unsigned)turn);
    fo->turn      = (uint8_t)turn;
    fo->next_rail = (uint8_t)pair.own;
    fo->next_peer = (uint8_t)pair.peer;
    fo->fails     = fo->peer_fails = 0;
    fo->decided   = 1;
}

int vqp_rails_on_unreachable(const vqp_t *vqp, vqp_path_t *path)
{
    if ((vqp->failover.num_rails * vqp->peer_rails <= 1) || path->fo.unused) {
        return 0;
    }

    vqp_rails_count(path);
    if (path->fo.fails % VQP_RAILS_FAILS != 0) {
        return 0;
    }

    return !vqp->failover.decides || (vqp_rails_next(vqp, path) >= 0);
}

/* ---- both sides ---- */

void vqp_rails_message(const vqp_path_t *path, vqp_wire_path_down_t *down)
{
    down->fails = path->fo.fails;
    down->rail  = path->fo.decided ? (uint8_t)(path->fo.next_peer + 1) : 0;
}

void vqp_rails_on_drained(const vqp_t *vqp, vqp_path_t *path,
                          const vqp_wire_path_down_t *down)
{
    if ((down->rail != 0) && (down->rail <= vqp->failover.num_rails) &&
        !vqp->failover.decides) {
        vqp_cover(RAILS_ASKED);
        path->fo.next_rail = (uint8_t)(down->rail - 1);
    }
}

int vqp_rails_on_up_message(vqp_t *vqp, vqp_path_t *path, const vqp_wire_path_up_t *up)
{
    int is_first  = path->peer_rail == VQP_RAIL_NONE;
    unsigned rail = up->rail;

    if ((path->peer_rail == rail) || (rail >= vqp->peer_rails) ||
        (!is_first && (vqp->failover.num_rails == 0))) {
        path->fo.next_peer = path->peer_rail;
        return path->peer_rail == rail;
    }

    if (is_first) { /* the peer may have moved it already, before this was heard */
        path->fo.base_peer   = ((up->first == 0) || (up->first > vqp->peer_rails)) ?
                                       (uint8_t)rail : (uint8_t)(up->first - 1);
        vqp->tx.paths.moved |= path->fo.base_peer != rail;
    } else { /* paths go to several rails now, or not to the one that they went to */
        vqp_cover(RAILS_PEER_MOVES);
        vqp->tx.paths.moved      = 1;
        vqp->tx.limits.amo_needs = VQP_NEED_RAIL;
        path->fo.fails           = 0;
    }
    path->peer_rail = path->fo.next_peer = (uint8_t)rail;
    return 1;
}

/* ---- this side ---- */

/* Has a path a rail, or the wish for one, on which it can come up? */
static int vqp_rails_any_good(const vqp_t *vqp, uint32_t good)
{
    const vqp_path_t *path;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if (!vqp_path_is_off(path) && (good & (1u << path->fo.next_rail))) {
            return 1;
        }
    }

    return 0;
}

unsigned vqp_rails_choose(const vqp_t *vqp, const vqp_path_t *path, uint32_t good,
                          uint64_t now)
{
    unsigned num = vqp->failover.num_rails;
    unsigned rail, i;
    int is_long;

    if (good & (1u << path->fo.next_rail)) {
        return path->fo.next_rail;
    }
    if ((good & (1u << path->rail)) || vqp_rails_any_works(vqp, NULL)) {
        return path->rail;
    }

    is_long = (vqp->all_down != 0) && (now - vqp->all_down > vqp->failover.outage / 4);
    if (!is_long && vqp_rails_any_good(vqp, good)) {
        return path->rail;
    }

    for (i = 1; i < num; ++i) {
        rail = (path->rail + i) % num;
        if (good & (1u << rail)) {
            vqp_cover(RAILS_STRANDED);
            return rail;
        }
    }

    return path->rail;
}

void vqp_rails_on_moved(vqp_t *vqp, vqp_path_t *path)
{
    ++vqp->stats.rail_moves;
    path->fo.fails = 0;
}

/* ---- back ---- */

/* Has the path left a rail of this side to which no other one goes? */
static int vqp_rails_is_missed(const vqp_t *vqp, const vqp_path_t *path)
{
    return (path->rail != path->fo.base_rail) &&
           !vqp_rails_has_other(vqp, path, 1, path->fo.base_rail);
}

/* Does another path carry frags, and is to go on doing so? Without one the path is better
 * where it works */
static int vqp_rails_has_partner(const vqp_t *vqp, const vqp_path_t *path)
{
    const vqp_path_t *other;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        other = &vqp->tx.paths.list[i];
        if ((other != path) && (other->fo.state == VQP_PATH_UP) && !other->fo.unused &&
            (other->fo.mover != VQP_MOVER_REQUEST)) {
            return 1;
        }
    }

    return 0;
}

vqp_path_t *vqp_rails_find_missed(const vqp_t *vqp, int *is_open)
{
    vqp_path_t *path;
    uint32_t i;

    *is_open = 0;
    for (i = 0; i < vqp->tx.paths.count; ++i) {
        path = &vqp->tx.paths.list[i];
        if ((path->fo.state != VQP_PATH_UP) || path->fo.unused || /* it is to be dropped */
            !vqp_rails_is_missed(vqp, path) || !vqp_rails_has_partner(vqp, path)) {
            continue;
        }
        *is_open = 1;
        if (vqp->good_rails & (1u << path->fo.base_rail)) {
            return path; /* again, if the request was lost */
        }
    }

    return NULL;
}
