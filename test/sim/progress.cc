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
            again.epoch  = (uint16_t)(c.epoch - 1);
            again.status = w.fault.chance(50) ? VQP_OK : VQP_ERR_IO;
            again.pos    = (uint16_t)w.fault.next();
        }
        m_cqs[rail].push_back(again);
    }
    wake();
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
    w.at(w.now + 1 + delay, EV_PROGRESS, index);
}

bool node::is_idle() const
{
    for (const auto &cq : m_cqs) {
        if (!cq.empty()) {
            return false;
        }
    }
    return touched.empty() && !m_awake;
}

/* After a proper close of its side a peer may end its process: an endpoint that
 * waits for nothing need not hear of it before it sends again */
void node::on_failed_mark(vqp &v)
{
    if ((v.mark_status == VQP_ERR_RESET) && v.slot.conn.peer_closed &&
        v.connected && !vqp_tx_uses_buffers(&v.tx) && !v.sent->has_flush() &&
        (v.user != nullptr) && !v.user->is_waiting()) {
        v.peer_gone = true;
        v.ready     = false;
        return;
    }
    v.fail(v.mark_status);
}

void node::run_marks()
{
    for (size_t i = 0; i < vqps.size(); ++i) {
        vqp &v = *vqps[i];

        if (v.mark_live) {
            v.mark_live = false;
            if (!v.failed && !v.dying) {
                v.live = true;
                v.update_ready();
                v.no_resource = true; /* who waited for it may go on */
                v.touch();
            }
        }
        if (v.mark_failed) {
            v.mark_failed = false;
            on_failed_mark(v);
        }
        if (v.mark_destroy) {
            v.mark_destroy = false;
            v.bury();
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
            (v->paths[c.path].epoch != c.epoch)) {
            ++stale;
        } else {
            v->on_cqe(c);
        }
        return true;
    }
    return false;
}

void node::run_touched()
{
    while (!touched.empty() && !w.failed()) {
        vqp *v = w.find_vqp(touched.front());

        touched.pop_front();
        if (v != nullptr) {
            v->is_touched = false;
            v->run();
        }
    }
}

void node::progress()
{
    uint64_t budget = 1 + w.net.below(16);

    m_awake = false;
    run_marks();
    while ((budget-- > 0) && !w.failed() && poll()) {
    }
    run_touched();
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
            vqps.erase(it);
            return;
        }
    }
}

} /* namespace sim */
