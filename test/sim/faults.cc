/* What goes wrong, and when. See world.h. */
#include "ep.h"
#include "node.h"
#include "world.h"

#include <iterator>

extern "C" {
#include "core/failover/move.h"
}

namespace sim {

namespace {

enum {
    KILL, POST_FAIL, FLAP, PARK, ABORT, BYZANTINE, CRASH, CALM, MOVE, STOP,
    NARROW, ADD, DROP
};

} /* namespace */

/* All moments are drawn at the beginning, so that one more fault of a kind does
 * not move the others */
void world::plan_faults()
{
    const uint64_t counts[] = {base.kills, base.post_fails, base.flaps,
                               base.parks, base.aborts, base.byzantine,
                               base.crashes};

    for (uint64_t kind = 0; kind < sizeof(counts) / sizeof(counts[0]);
         ++kind) {
        for (uint64_t i = 0; i < counts[kind]; ++i) {
            at(now + fault.below(base.fault_time), EV_FAULT, 0, kind);
        }
    }
    for (uint64_t i = 0; i < base.moves; ++i) {
        at(now + move.below(base.fault_time), EV_FAULT, 0, MOVE);
    }
    for (uint64_t i = 0; i < base.stops; ++i) {
        at(now + stop.below(base.fault_time), EV_FAULT, 0, STOP);
    }
    for (uint64_t i = 0; base.failover && (i < base.narrows); ++i) {
        at(now + narrow.below(base.fault_time), EV_FAULT, 0, NARROW);
    }
    for (uint64_t i = 0; base.failover && (i < base.adds); ++i) {
        at(now + elastic.below(base.fault_time), EV_FAULT, 0, ADD);
    }
    for (uint64_t i = 0; base.failover && (i < base.drops); ++i) {
        at(now + elastic.below(base.fault_time), EV_FAULT, 0, DROP);
    }
    /* what goes wrong at random ends some time, too */
    at(now + base.fault_time * 4 + 2000000000, EV_FAULT, 0, CALM);
}

void world::calm_down()
{
    m_calm = true;
    for (auto &one : vqps) { /* probes without an end: it never came to rest */
        one.second->core.idle.due = UINT64_MAX;
    }
}

vqp *world::any_vqp()
{
    for (unsigned i = 0; i < 10; ++i) {
        uint32_t id = (vqps.empty()) ? 0 :
                      1 + (uint32_t)fault.below(vqps.rbegin()->first);
        auto it     = vqps.lower_bound(id);

        if ((it != vqps.end()) && it->second->is_connected() &&
            !it->second->is_failed()) {
            return it->second;
        }
    }
    return nullptr;
}

void world::unpark(uint32_t id, unsigned path)
{
    vqp *v = find_vqp(id);

    if ((v != nullptr) && v->is_connected() && !v->paths[path].up) {
        vqp_set_path_up(&v->core, path, 1);
        v->tx_progress();
        v->schedule(); /* room may have come back */
    }
}

/* A byzantine peer: whatever it sends, the ops of the own user end once each */
void world::send_byzantine(vqp &v)
{
    vqp *from     = partner(v);
    unsigned path = (unsigned)fault.below(v.core.tx.paths.count);
    uint32_t imm  = (uint32_t)fault.next();

    if (from == nullptr) {
        return;
    }

    v.sent->tainted = from->sent->tainted = true;
    trace("%s: its peer is byzantine", v.name().c_str());
    switch (fault.below(6)) {
    case 0: /* any immediate */
        v.path_qp(path).receive_extra(imm);
        break;
    case 1: /* any number, and flags that make sense */
        v.path_qp(path).receive_extra((imm & VQP_FSN_MASK) | VQP_IMM_LAST);
        break;
    case 2: /* one in the window */
        v.path_qp(path).receive_extra(
                vqp_fsn_add(v.core.rx.window.base, imm % base.window) |
                (imm & VQP_IMM_FLAGS));
        break;
    case 3: /* the next one, with a record at the begin of the ring */
        v.path_qp(path).receive_extra(v.core.rx.window.base | VQP_IMM_LAST |
                                      VQP_IMM_WRAP);
        break;
    case 4: /* a record that is none */
        for (uint64_t i = 0; i < base.ring; i += 4) {
            if (fault.chance(20)) {
                *(uint32_t*)(v.core.rx.ring + i) = (uint32_t)fault.next();
            }
        }
        break;
    default: /* credit of any kind */
        for (uint64_t i = 0; i < v.core.tx.paths.count; ++i) {
            vqp_cell_t *cell = (vqp_cell_t*)(v.core.rx.cells +
                                             i * VQP_CELL_STRIDE);

            cell->credit_ring = (uint32_t)fault.next();
            cell->credit_fsn  = (uint32_t)fault.next();
            cell->flags       = (uint32_t)fault.next();
        }
        v.path_qp(path).receive_extra(v.core.rx.window.base | VQP_IMM_CREDIT);
        break;
    }
}

/* Of any state, unlike any_vqp(); NULL if there is none */
vqp *world::random_vqp(rng &random)
{
    auto it = vqps.begin();

    if (vqps.empty()) {
        return nullptr;
    }

    std::advance(it, random.below(vqps.size()));
    return it->second;
}

/* As if it were slow: nothing may fail for it, or be sent again */
void world::move_path()
{
    vqp *v = random_vqp(move);

    if (v == nullptr) {
        return;
    }

    vqp_path_t &path = v->paths[move.below(v->num_paths)];

    if (v->is_connected() && v->core.failover.is_on &&
        (v->core.state == VQP_STATE_LIVE) && (path.index < v->core.tx.paths.count) &&
        (path.fo.state == VQP_PATH_UP)) {
        trace("%s: path %u is to be moved", v->name().c_str(), path.index);
        vqp_path_request_move(&v->core, &path);
        v->schedule();
    }
}

/* A path is added or dropped, as if the load had changed */
void world::change_path(bool is_add)
{
    vqp *v = random_vqp(elastic);

    if ((v == nullptr) || !v->is_connected() || !v->core.failover.is_on) {
        return;
    }

    vqp_path_t &path = v->paths[elastic.below(v->core.tx.paths.count)];

    if (is_add ? vqp_path_add(&v->core, &path) : vqp_path_drop(&v->core, &path)) {
        trace("%s: path %u is to be %s", v->name().c_str(), path.index,
              is_add ? "added" : "dropped");
        v->schedule();
    }
}

/* The link of a path drops full packets. So the path fails with the first one, unless
 * that is delayed for less than the retries of RC take */
void world::narrow_path()
{
    vqp *v = random_vqp(narrow);

    if (v == nullptr) {
        return;
    }

    unsigned path  = (unsigned)narrow.below(v->num_paths);
    uint64_t until = now + narrow.below(1500000000);

    if (!v->is_connected() || !v->core.failover.is_on) {
        return; /* the connection would fail */
    }
    if (base.outage < 4000000000 || base.gap_timeout > 0) {
        hard_fault();
    }
    trace("%s: path %u drops full packets until %.3f us", v->name().c_str(), path,
          (double)(until - 1000000000) * 1e-3);
    v->narrow_until[path] = until;
    v->narrow_rails[path] = v->rails_of(path);
}

void world::disturb(uint64_t which)
{
    if (which == NARROW) {
        if (!m_calm) {
            narrow_path();
        }
        return;
    }

    if (which == MOVE) {
        if (!m_calm) {
            move_path();
        }
        return;
    }

    if ((which == ADD) || (which == DROP)) {
        change_path(which == ADD);
        return;
    }

    if (which == STOP) {
        /* no connection may fail for it */
        m_stopped = now + stop.below(10000000000);
        trace("all processes stand still until %.3f us",
              (double)(m_stopped - 1000000000) * 1e-3);
        return;
    }

    uint64_t until = now + fault.below(fault.below(2) ? 10 * base.delay :
                                                        2000000);
    unsigned path;
    bool is_path;
    vqp *v;

    if (which == CALM) {
        calm_down();
        return;
    }
    if (m_calm) {
        return;
    }
    if (which == CRASH) {
        hard_fault();
        nodes[fault.below(nodes.size())]->restart();
        return;
    }
    if ((v = any_vqp()) == nullptr) {
        /* too early, or too late: there is nothing to break */
        return;
    }

    path = (unsigned)fault.below(v->core.tx.paths.count);
    is_path = v->core.failover.is_on && (base.outage >= 1000000000) && ((which == KILL) || (which == POST_FAIL));
    if ((which != FLAP) && (which != PARK) && !is_path) {
        hard_fault();
    }
    switch (which) {
    case KILL:
        v->path_qp(path).fail(is_path ? VQP_ERR_TIMEOUT :
                              fault.pick<vqp_status_t>({VQP_ERR_TIMEOUT, VQP_ERR_IO,
                                                        VQP_ERR_RESPONDER}));
        break;
    case POST_FAIL:
        (fault.chance(20) ? v->fail_repost : v->fail_post) = true;
        break;
    case FLAP:
        if ((base.silence > 0) && (path & 1)) { /* as if it were broken */
            until = now + 20 * (until - now);
        }
        if ((base.gap_timeout > 0) && fault.chance(50)) {
            until            = now + fault.below(8 * base.gap_timeout);
            v->sent->stalled = true;
            hard_fault();
        }
        trace("%s: path %u stands still for %lu ns", v->name().c_str(), path,
              (unsigned long)(until - now));
        v->path_qp(path).freeze(until);
        break;
    case PARK:
        trace("%s: path %u gets no work", v->name().c_str(), path);
        vqp_set_path_up(&v->core, path, 0);
        at(until, EV_UNPARK, v->id, path);
        break;
    case ABORT:
        if (v->user == nullptr) { /* as at the end of an interface */
            vqp_conn_abort(&v->slot.conn, 1, now);
            v->cm_end = true;
            v->owner.wake();
        } else {
            vqp_conn_fail(&v->slot.conn, VQP_ERR_IO, now);
        }
        v->owner.run_actions();
        break;
    case BYZANTINE:
        send_byzantine(*v);
        break;
    default:
        break;
    }
}

} /* namespace sim */
