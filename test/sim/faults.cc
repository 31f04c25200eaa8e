/* What goes wrong, and when. See world.h. */
#include "ep.h"
#include "node.h"
#include "world.h"

namespace sim {

namespace {

enum {
    KILL, POST_FAIL, FLAP, PARK, ABORT, EVIL, CRASH, CALM
};

} /* namespace */

/* All moments are drawn at the beginning, so that one more fault of a kind does
 * not move the others */
void world::plan_faults()
{
    const uint64_t counts[] = {base.kills, base.post_fails, base.flaps,
                               base.parks, base.aborts, base.evil,
                               base.crashes};

    for (uint64_t kind = 0; kind < sizeof(counts) / sizeof(counts[0]);
         ++kind) {
        for (uint64_t i = 0; i < counts[kind]; ++i) {
            at(now + fault.below(base.fault_time), EV_FAULT, 0, kind);
        }
    }
    /* what goes wrong at random ends some time, too */
    at(now + base.fault_time * 4 + 2000000000, EV_FAULT, 0, CALM);
}

void world::calm_down()
{
    m_calm = true;
}

vqp *world::any_vqp()
{
    for (unsigned i = 0; i < 10; ++i) {
        uint32_t id = (vqps.empty()) ? 0 :
                      1 + (uint32_t)fault.below(vqps.rbegin()->first);
        auto it     = vqps.lower_bound(id);

        if ((it != vqps.end()) && it->second->connected &&
            !it->second->failed && !it->second->dying) {
            return it->second;
        }
    }
    return nullptr;
}

void world::unpark(uint32_t id, unsigned path)
{
    vqp *v = find_vqp(id);

    if ((v != nullptr) && v->connected && !v->paths[path].up) {
        v->paths[path].up = 1;
        v->pump();
        v->no_resource = true; /* room may have come back */
        v->touch();
    }
}

/* Lies of a peer: whatever they lead to, the own user gets his due */
void world::lie(vqp &v)
{
    vqp *from     = partner(v);
    unsigned path = (unsigned)fault.below(v.tx.num_paths);
    uint32_t imm  = (uint32_t)fault.next();

    if (from == nullptr) {
        return;
    }

    v.sent->tainted = from->sent->tainted = true;
    trace("%s: is told lies", v.name().c_str());
    switch (fault.below(6)) {
    case 0: /* any immediate */
        v.path_qp(path).receive_extra(imm);
        break;
    case 1: /* any number, and flags that make sense */
        v.path_qp(path).receive_extra((imm & VQP_FSN_MASK) | VQP_IMM_LAST);
        break;
    case 2: /* one in the window */
        v.path_qp(path).receive_extra(
                vqp_fsn_add(v.rx.window.base, imm % base.window) |
                (imm & VQP_IMM_FLAGS));
        break;
    case 3: /* the next one, with a record at the begin of the ring */
        v.path_qp(path).receive_extra(v.rx.window.base | VQP_IMM_LAST |
                                      VQP_IMM_WRAP);
        break;
    case 4: /* a record that is none */
        for (uint64_t i = 0; i < base.ring; i += 4) {
            if (fault.chance(20)) {
                *(uint32_t*)(v.rx.ring + i) = (uint32_t)fault.next();
            }
        }
        break;
    default: /* credit of any kind */
        for (uint64_t i = 0; i < v.tx.num_paths; ++i) {
            vqp_cell_t *cell = (vqp_cell_t*)(v.rx.cells +
                                             i * VQP_CELL_STRIDE);

            cell->credit_ring = (uint32_t)fault.next();
            cell->credit_fsn  = (uint32_t)fault.next();
            cell->flags       = (uint32_t)fault.next();
        }
        v.path_qp(path).receive_extra(v.rx.window.base | VQP_IMM_CONTROL);
        break;
    }
}

void world::disturb(uint64_t which)
{
    uint64_t until = now + fault.below(fault.below(2) ? 10 * base.delay :
                                                        2000000);
    unsigned path;
    vqp *v;

    if (which == CALM) {
        calm_down();
        return;
    }
    if (m_calm) {
        return;
    }
    if (which == CRASH) {
        nodes[fault.below(nodes.size())]->restart();
        return;
    }
    if ((v = any_vqp()) == nullptr) {
        /* too early, or too late: there is nothing to break */
        return;
    }

    path = (unsigned)fault.below(v->tx.num_paths);
    switch (which) {
    case KILL:
        v->path_qp(path).fail(fault.below(2) ? VQP_ERR_TIMEOUT : VQP_ERR_IO);
        break;
    case POST_FAIL:
        v->fail_post = true;
        break;
    case FLAP:
        trace("%s: path %u stands still for %lu ns", v->name().c_str(), path,
              (unsigned long)(until - now));
        v->path_qp(path).freeze(until);
        break;
    case PARK:
        trace("%s: path %u gets no work", v->name().c_str(), path);
        v->paths[path].up = 0;
        at(until, EV_UNPARK, v->id, path);
        break;
    case ABORT:
        if (v->user == nullptr) {
            vqp_conn_abort(&v->slot.conn, now);
        } else {
            vqp_conn_fail(&v->slot.conn, VQP_ERR_IO, now);
        }
        v->owner.run_actions();
        break;
    case EVIL:
        lie(*v);
        break;
    default:
        break;
    }
}

} /* namespace sim */
