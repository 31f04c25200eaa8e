/* An endpoint, see ep.h. */
#include "ep.h"
#include "node.h"
#include "world.h"

#include <algorithm>

extern "C" {
#include "core/data/lost.h"
}

namespace sim {

namespace {

const uint64_t MAX_PATIENCE = 10000000; /* ns between two looks */

} /* namespace */

ep::ep(node &owner, uint32_t a_id, unsigned sessions) :
    id(a_id), m_node(owner), m_world(owner.w), m_sessions(sessions)
{
    m_world.eps[id] = this;
    schedule(m_world.work.below(4 * m_world.base.think + 1));
}

ep::~ep()
{
    m_world.eps.erase(id);
}

void ep::schedule(uint64_t delay)
{
    if (!m_scheduled) {
        m_scheduled = true;
        m_world.at(m_world.now + 1 + delay, EV_ACT, id);
    }
}

/* ---- its sessions ---- */

void ep::open()
{
    world &w = m_world;

    m_peer = w.nodes[(w.base.senders > 0) ? 0 :
                     w.work.below(w.nodes.size())].get();
    --m_sessions;
    m_vqp = m_node.connect(*m_peer);
    if (w.failed()) {
        return;
    }

    m_vqp->user = this;
    vqp_open(&m_vqp->core);
    m_node.run_actions();
    if (m_vqp->is_live() && m_vqp->is_connected()) {
        vqp_set_live(&m_vqp->core);
    }
    m_vqp->update_ready();
    m_todo      = w.work.chance(w.base.hasty) ? 0 : w.base.batches;
    m_waiting   = m_failed = m_has_plan = m_has_flushed = false;
    m_patience  = 0;
    m_is_final  = (m_sessions == 0) && w.work.chance(50);
}

void ep::close()
{
    vqp *v = m_vqp;

    m_pending.clear();
    m_vqp = nullptr;
    v->close();
}

void ep::end_session()
{
    if (!m_is_final || m_vqp->is_failed()) {
        close();
        if (m_sessions > 0) {
            schedule(m_world.work.below(4 * m_world.base.think + 1));
        }
    }
}

void ep::close_now()
{
    m_sessions = 0;
    if (m_vqp != nullptr) {
        close();
    }
}

bool ep::is_satisfied() const
{
    return (m_vqp == nullptr) ||
           (m_pending.empty() && !m_has_plan && m_vqp->sent->is_satisfied());
}

/* Some go in the middle of everything */
bool ep::must_end()
{
    if (m_failed || m_vqp->core.canceled) {
        return true;
    }
    if (m_is_final || !m_world.may_disturb() ||
        !m_world.work.chance(m_world.base.cancel) ||
        !m_world.work.chance(5)) {
        return false;
    }

    m_world.hard_fault();
    return true;
}

/* What is signaled has to end by itself. Then a flush, for the rest that uses the
 * user's memory: a close would cancel it. */
void ep::leave()
{
    bool may_cancel = !m_is_final &&
                      m_world.work.chance(m_world.base.cancel);

    if (may_cancel) {
        m_world.hard_fault();
    }
    if (is_satisfied() && !m_has_flushed &&
        (m_vqp->sent->has_unreported() || m_world.work.chance(30))) {
        m_has_flushed = flush();
    }
    if (may_cancel || (is_satisfied() && !m_vqp->sent->has_unreported())) {
        end_session();
        return;
    }

    /* Is the peer still there? Not where nothing may fail: the probe would help
     * along what has to end by itself. */
    if ((m_patience == MAX_PATIENCE) && m_world.base.may_fail()) {
        m_vqp->check();
    }
    m_patience = std::min(2 * m_patience + 1000, MAX_PATIENCE);
    schedule(m_patience);
}

void ep::on_failure()
{
    if (m_failed) {
        m_world.fail("once", "the error handler is called twice");
    }
    m_failed = true;
    m_pending.clear();
    m_has_plan = false;
    schedule(m_world.work.below(m_world.base.think + 1));
}

void ep::act()
{
    m_scheduled = false;
    if (m_vqp == nullptr) {
        if (m_sessions > 0) {
            open();
            schedule(m_world.work.below(m_world.base.think + 1));
        }
        return;
    }

    if (must_end()) {
        end_session();
        return;
    }

    if (m_waiting) {
        return; /* resume() goes on */
    }

    if (m_todo == 0) {
        leave();
        return;
    }

    m_in_act = true;
    batch();
    m_in_act = false;
    if ((m_vqp != nullptr) && !m_waiting) {
        schedule(m_world.work.below(m_world.base.think + 1));
    }
}

/* ---- calls ---- */

void ep::batch()
{
    uint64_t count = 1 + m_world.work.below(m_world.base.batch);

    for (; (count > 0) && !m_world.failed(); --count) {
        if (!m_has_plan) {
            m_plan = draw();
        }
        m_has_plan = !perform(m_plan);
        if (!m_has_plan) {
            continue;
        }
        if (m_failed || (m_vqp == nullptr) || m_vqp->is_failed()) {
            m_has_plan = false;
            return;
        }

        if (m_vqp->core.refused && m_world.work.chance(m_world.base.pend) &&
            (m_pending.size() < 6)) {
            m_pending.push_back(m_plan);
            m_has_plan = false;
            m_vqp->update_ready();
            continue;
        }

        m_waiting = true;
        if (m_world.work.below(4) == 0) {
            m_has_plan = false; /* will try something else, which may fit */
        }
        return;
    }
    --m_todo;
    ++m_world.batches;
}

/* Pending requests first, in their order; then the program may go on */
void ep::resume()
{
    if (m_in_act || m_in_pending || m_failed) {
        return;
    }

    m_in_pending = true;
    m_vqp->update_ready();
    while (!m_pending.empty() && perform(m_pending.front()) &&
           !m_pending.empty()) { /* a failure purges them */
        m_pending.pop_front();
    }
    m_in_pending = false;
    if (m_vqp == nullptr) {
        return;
    }

    m_vqp->update_ready();
    if (m_waiting && m_pending.empty()) {
        m_waiting = false;
        schedule(0);
    }
}

bool ep::refused()
{
    if (m_vqp->core.tx.slow & VQP_TX_WORK) {
        m_vqp->tx_progress(); /* asks for what it lacks */
    }
    vqp_refuse(&m_vqp->core);
    return false;
}

bool ep::perform(const plan &p)
{
    bool is_done;

    m_vqp->use();
    if (m_vqp->is_failed()) {
        return false;
    }
    if (!m_vqp->ready) {
        return refused();
    }

    switch (p.what) {
    case AM_SHORT:
        is_done = send_am(p.length, p.length, false);
        break;
    case AM_BCOPY:
        is_done = send_am(p.length, p.max, false);
        break;
    case AM_ZCOPY:
        is_done = send_am(p.length, p.length, true);
        break;
    case FENCE:
        vqp_tx_fence(&m_vqp->core.tx);
        m_vqp->sent->fence();
        m_world.trace("%s: fence", m_vqp->name().c_str());
        return true;
    case FLUSH:
        return flush();
    case CHECK:
        m_vqp->check();
        return true;
    default:
        is_done = start_rma(p);
        break;
    }

    return is_done ? (m_vqp->tx_progress(), true) : refused();
}

bool ep::flush()
{
    vqp *v = m_vqp;

    /* CANCEL: ends what is under way as canceled, and is no error */
    if ((m_world.base.cancel > 0) && m_world.may_disturb() &&
        m_world.work.chance(m_world.base.cancel) && m_world.work.chance(5)) {
        m_world.trace("%s: flush with CANCEL", v->name().c_str());
        m_pending.clear();
        m_world.hard_fault();
        v->cancel();
        if (!v->is_flushed() && vqp_tx_may_barrier(&v->core.tx)) {
            vqp_flush(&v->core, VQP_OP_BUFFER, v->sent->flush(), 1);
            v->schedule();
        }
        schedule(m_world.work.below(m_world.base.think + 1));
        return true;
    }

    v->use();
    if (v->is_failed()) {
        return false;
    }
    if (!v->ready) {
        return refused();
    }
    if (v->is_flushed()) {
        v->sent->check_all_deliverable();
        v->sent->check_lost_flushed(vqp_tx_take_lost(&v->core.tx, VQP_LOST_ENDPOINT));
        return true;
    }
    if (!vqp_tx_may_barrier(&v->core.tx)) {
        vqp_tx_reclaim(&v->core.tx);
        return refused();
    }
    m_world.trace("%s: flush", v->name().c_str());
    vqp_flush(&v->core, VQP_OP_BUFFER, v->sent->flush(), 1);
    v->tx_progress();
    return true;
}

/* The handler */
void ep::on_am(const vqp_rx_am_t &)
{
    const params &base = m_world.base;

    if (m_vqp->ready && m_world.work.chance(base.echo) &&
        send_am((uint32_t)m_world.work.below(40), 40, false)) {
        m_vqp->tx_progress();
    }
    if ((base.cancel > 0) && m_world.may_disturb() && !m_in_act &&
        !m_in_pending && m_world.work.rarely(base.cancel / 10)) {
        m_world.hard_fault();
        close();
        if (m_sessions > 0) {
            schedule(m_world.work.below(base.think + 1));
        }
    }
}

std::string ep::str() const
{
    return "endpoint " + std::to_string(id) + " of node " +
           std::to_string(m_node.index) +
           ((m_vqp == nullptr) ? ", closed" :
                                 ", vqp " + std::to_string(m_vqp->id)) +
           ", sessions " + std::to_string(m_sessions) + ", batches " +
           std::to_string(m_todo) + (m_waiting ? ", waiting" : "") +
           (m_failed ? ", failed" : "") + ", pending " +
           std::to_string(m_pending.size());
}

} /* namespace sim */
