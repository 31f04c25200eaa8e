/* An interface: its completion queues and its progress function, see node.h. */
#include "ep.h"
#include "node.h"
#include "world.h"

namespace sim {

void node::push_cqe(unsigned rail, const cqe &c)
{
    const params &base = w.base;

    m_cqs[rail].push_back(c);
    if (w.may_disturb() && w.fault.rarely(base.stale_cqe) && !c.is_recv) {
        cqe again = c;

        if (w.fault.chance(50) || (c.status != VQP_OK)) {
            again.qp_tag = (uint16_t)(c.qp_tag - 1);
            again.status = w.fault.chance(50) ? VQP_OK : VQP_ERR_IO;
            again.slot   = (uint16_t)w.fault.next();
        }
        m_cqs[rail].push_back(again);
    }
    wake();
}

bool node::has_cqe(const vqp &v, unsigned path) const
{
    for (const auto &cq : m_cqs) {
        for (const cqe &c : cq) {
            if ((c.vqp_id == v.id) && (c.path == path) &&
                (c.qp_tag == v.paths[path].qp_tag)) {
                return true;
            }
        }
    }
    return false;
}

void node::wake()
{
    uint64_t delay = w.net.below(w.base.poll);

    if (m_awake) {
        return;
    }

    m_awake = true;
    if (w.may_disturb() && w.fault.rarely(w.base.stall)) {
        delay += w.fault.below(20 * (w.base.poll + w.base.delay));
    }
    if ((w.base.busy > 0) && w.may_disturb() && (w.move.below(10000) < w.base.busy)) {
        delay += w.move.below(5000000); /* a callback of the user computes */
    }
    w.at(w.now + 1 + delay, EV_PROGRESS, index);
}

bool node::is_drained() const
{
    for (const auto &cq : m_cqs) {
        if (!cq.empty()) {
            return false;
        }
    }
    return true;
}

bool node::is_idle() const
{
    return is_drained() && scheduled.empty() && !m_awake;
}

void node::run_cm_notes()
{
    for (size_t i = 0; i < vqps.size(); ++i) {
        vqp &v = *vqps[i];

        if (v.cm_live) {
            v.cm_live = false;
            vqp_set_live(&v.core);
            v.update_ready();
            v.schedule();
        }
        if (v.cm_end) {
            v.cm_end = false;
            v.conn_end();
        }
    }
}

/* Dispatch of the vqp waits for a busy path: again later, if nothing happens */
void node::defer(vqp &v)
{
    if (m_deferred.insert(v.id).second && (m_deferred.size() == 1)) {
        w.at(w.now + DEFER, EV_DEFERRED, index);
    }
}

void node::run_deferred()
{
    std::set<uint32_t> ids;

    ids.swap(m_deferred);
    for (uint32_t id : ids) {
        vqp *v = w.find_vqp(id);

        if ((v != nullptr) && (&v->owner == this)) {
            v->schedule();
        }
    }
}

/* One completion of either queue: between rails there is no order */
bool node::poll()
{
    unsigned first = (unsigned)w.net.below(vqp::RAILS);

    for (unsigned i = 0; i < vqp::RAILS; ++i) {
        std::deque<cqe> &cq = m_cqs[(first + i) % vqp::RAILS];
        vqp *v;
        cqe c;

        if (cq.empty()) {
            continue;
        }

        c = cq.front();
        cq.pop_front();
        v = w.find_vqp(c.vqp_id);
        if ((v == nullptr) || (&v->owner != this) ||
            (v->paths[c.path].qp_tag != c.qp_tag)) {
            return true; /* a completion of nobody */
        }
        v->on_cqe(c);
        return true;
    }
    return false;
}

void node::run_scheduled()
{
    while (!scheduled.empty() && !w.failed()) {
        vqp *v = w.find_vqp(scheduled.front());

        scheduled.pop_front();
        if (v != nullptr) {
            v->is_scheduled = false;
            v->run();
        }
    }
}

void node::set_clock(vqp_tx_t &tx) const
{
    tx.clock.now    = w.now;
    tx.clock.seen   = seen;
    tx.clock.looked = looked;
}

void node::progress()
{
    uint64_t budget = 1 + w.net.below(16);

    m_awake = false;
    run_cm_notes();
    for (; (budget > 0) && !w.failed(); --budget) {
        if (!poll()) {
            seen = w.now;
            break;
        }
    }
    looked = w.now;
    run_scheduled();
    for (const auto &cq : m_cqs) {
        if (!cq.empty()) {
            wake();
        }
    }
}

void node::destroy(vqp *v)
{
    m_slow.erase(v->id);
    for (auto it = vqps.begin(); it != vqps.end(); ++it) {
        if (it->get() == v) {
            vqp_conn_release(&v->slot.conn);
            vqps.erase(it);
            return;
        }
    }
}

} /* namespace sim */
