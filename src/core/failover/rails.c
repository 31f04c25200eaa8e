/* Paths move to other rails, see rails.h. Pure: libc only. */
#include "core/failover/rails.h"

#include "core/cover.h"

#define VQP_RAILS_FAILS_MAX 254 /* the count stays there */

/* A pair of rails, of a path */
typedef struct vqp_rails_pair {
    unsigned own;
    unsigned peer;
} vqp_rails_pair_t;

void vqp_rails_init(vqp_t *vqp)
{
    vqp_path_t *path;
    uint32_t i;

    vqp->back_due = UINT64_MAX;
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
    path->fo.fails = (uint8_t)vqp_min(path->fo.fails + 1, VQP_RAILS_FAILS_MAX);
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

void vqp_rails_on_up(vqp_path_t *path)
{
    path->fo.fails = path->fo.peer_fails = 0;
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

/* Is there another path that is, or will be, on the rail of this side, or of the peer? */
static int vqp_rails_has_other(const vqp_t *vqp, const vqp_path_t *path, int is_own)
{
    const vqp_path_t *other;
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        other = &vqp->tx.paths.list[i];
        if ((other != path) && !vqp_path_is_off(other) &&
            (is_own ? (other->fo.next_rail == path->rail) :
                      (other->fo.next_peer == path->peer_rail))) {
            return 1;
        }
    }

    return 0;
}

static int vqp_rails_may_leave(const vqp_t *vqp, const vqp_path_t *path, int is_up,
                               vqp_rails_pair_t pair)
{
    return !is_up ||
           (((pair.own == path->rail) || vqp_rails_has_other(vqp, path, 1)) &&
            ((pair.peer == path->peer_rail) || vqp_rails_has_other(vqp, path, 0)));
}

static int vqp_rails_is_any_up(const vqp_t *vqp)
{
    uint32_t i;

    for (i = 0; i < vqp->tx.paths.count; ++i) {
        if (vqp->tx.paths.list[i].fo.state == VQP_PATH_UP) {
            return 1;
        }
    }

    return 0;
}

/* The next pair of rails that the path may move to. @return Its number; that of the last one
 * if there is none */
static unsigned vqp_rails_next(const vqp_t *vqp, const vqp_path_t *path)
{
    unsigned count = vqp->failover.num_rails * vqp->peer_rails;
    int is_up      = vqp_rails_is_any_up(vqp);
    vqp_rails_pair_t pair;
    unsigned turn, i;

    for (i = 1; i < count; ++i) {
        turn = (path->fo.turn + i) % count;
        pair = vqp_rails_pair(vqp, path, turn);
        if (((pair.own != path->rail) || (pair.peer != path->peer_rail)) &&
            vqp_rails_may_leave(vqp, path, is_up, pair)) {
            return turn;
        }
    }

    return path->fo.turn;
}

void vqp_rails_decide(vqp_t *vqp, vqp_path_t *path)
{
    vqp_failover_t *fo = &path->fo;
    unsigned limit     = vqp_rails_is_any_up(vqp) ? VQP_RAILS_FAILS : 1;
    unsigned fails     = vqp_max(fo->fails, fo->peer_fails);
    vqp_rails_pair_t pair;
    unsigned turn;

    if (!vqp->failover.decides || fo->unused || (path->peer_rail == VQP_RAIL_NONE) ||
        (fails < limit)) {
        return;
    }

    turn = vqp_rails_next(vqp, path);
    if (turn == fo->turn) {
        vqp_cover_if(vqp->failover.num_rails * vqp->peer_rails > 1, RAILS_LAST);
        return;
    }

    vqp_cover(RAILS_MOVES);
    pair          = vqp_rails_pair(vqp, path, turn);
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

    return !vqp->failover.decides || (vqp_rails_next(vqp, path) != path->fo.turn);
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

void vqp_path_set_rail(vqp_t *vqp, vqp_path_t *path)
{
    ++vqp->stats.rail_moves;
    path->rail     = path->fo.next_rail;
    path->fo.fails = 0;
}
