/* An endpoint's life, see ep.h. */
#include "ep.h"
#include "node.h"
#include "world.h"

#include <algorithm>

namespace sim {

namespace {

const uint64_t MAX_PATIENCE = 10000000; /* ns between two looks */

} /* namespace */

ep::ep(node &owner, uint32_t a_id, unsigned lives) :
    id(a_id), m_node(owner), m_world(owner.w), m_lives(lives)
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

/* ---- its life ---- */

void ep::open()
{
    world &w = m_world;

    m_peer = w.nodes[(w.base.senders > 0) ? 0 :
                     w.work.below(w.nodes.size())].get();
    --m_lives;
    m_vqp = m_node.connect(*m_peer);
    if (w.failed()) {
        return;
    }

    m_vqp->user = this;
    m_node.run_actions();
    m_vqp->live = m_vqp->is_live() && m_vqp->connected;
    m_vqp->update_ready();
    m_todo      = w.work.chance(w.base.hasty) ? 0 : w.base.batches;
    m_waiting   = m_failed = m_has_plan = m_has_flushed = false;
    m_patience  = 0;
    m_is_final  = (m_lives == 0) && w.work.chance(50);
}

/* What uct_ep_destroy does */
void ep::close()
{
    vqp *v = m_vqp;

    m_world.trace("%s: endpoint is destroyed", v->name().c_str());
    m_pending.clear();
    m_vqp      = nullptr;
    v->user    = nullptr;
    v->ready   = false;
    v->closing = true;
    if (v->must_cancel()) {
        v->reported = true;
        v->fail(VQP_ERR_CANCELED);
        v->cancel_all();
    } else if (v->connected) {
        v->begin_last_flush();
        vqp_tx_kick(&v->tx);
        v->pump();
    }
    v->run_closing();
    v->touch();
}

void ep::end_of_life()
{
    if (!m_is_final || m_vqp->failed) {
        close();
        if (m_lives > 0) {
            schedule(m_world.work.below(4 * m_world.base.think + 1));
        }
    }
}

void ep::close_now()
{
    m_lives = 0;
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
bool ep::must_end() const
{
    return m_failed || m_vqp->canceled ||
           (!m_is_final && m_world.may_disturb() &&
            m_world.work.chance(m_world.base.cancel) &&
            m_world.work.chance(5));
}

/* What it waits for has to come by itself. Then a flush, for what nobody waits
 * for and yet uses its memory; else destroy would cancel. */
void ep::leave()
{
    bool may_cancel = !m_is_final &&
                      m_world.work.chance(m_world.base.cancel);

    if (is_satisfied() && !m_has_flushed && m_vqp->must_cancel()) {
        m_has_flushed = flush();
    }
    if (may_cancel || (is_satisfied() && (m_vqp->peer_gone ||
                                          !m_vqp->must_cancel()))) {
        end_of_life();
        return;
    }

    /* Is the peer still there? What should come by itself is not to be helped
     * along, though, where nobody can be gone. */
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
    if (m_vqp->slot.conn.state == VQP_CONN_CLOSED) {
        m_world.fail("handshake", "a closed connection has an endpoint");
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
        if (m_lives > 0) {
            open();
            schedule(m_world.work.below(m_world.base.think + 1));
        }
        return;
    }

    if (must_end()) {
        end_of_life();
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
        if (m_failed || (m_vqp == nullptr) || m_vqp->failed) {
            m_has_plan = false;
            return;
        }

        if (m_vqp->no_resource && m_world.work.chance(m_world.base.pend) &&
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
    if (m_vqp->connected && (m_vqp->tx.slow != 0)) {
        m_vqp->pump(); /* asks for what brings room back */
    }
    m_vqp->no_resource = true;
    return false;
}

bool ep::perform(const plan &p)
{
    bool is_done;

    if (m_vqp->peer_gone) {
        m_vqp->fail(VQP_ERR_RESET);
    }
    if (m_vqp->failed) {
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
        vqp_tx_fence(&m_vqp->tx);
        m_vqp->sent->fence();
        m_world.trace("%s: fence", m_vqp->name().c_str());
        return true;
    case FLUSH:
        return flush();
    default:
        is_done = start_rma(p);
        break;
    }

    return is_done ? (m_vqp->pump(), true) : refused();
}

bool ep::flush()
{
    vqp *v = m_vqp;

    /* CANCEL: ends what is under way as canceled, and is no error */
    if ((m_world.base.cancel > 0) && m_world.may_disturb() &&
        m_world.work.chance(m_world.base.cancel) && m_world.work.chance(5)) {
        m_world.trace("%s: flush with CANCEL", v->name().c_str());
        m_pending.clear();
        v->canceled = true;
        v->fail(VQP_ERR_CANCELED);
        schedule(m_world.work.below(m_world.base.think + 1));
        return true;
    }

    if (v->peer_gone) {
        v->fail(VQP_ERR_RESET); /* who asks is told */
        return false;
    }
    if (!v->ready) {
        return refused();
    }
    if (vqp_tx_is_flushed(&v->tx)) {
        v->sent->check_all_deliverable();
        return true;
    }
    m_world.trace("%s: flush", v->name().c_str());
    v->sent->flush(v->tx);
    vqp_tx_kick(&v->tx);
    v->pump();
    return true;
}

/* The handler */
void ep::on_am(const vqp_rx_am_t &)
{
    const params &base = m_world.base;

    if (m_vqp->ready && m_world.work.chance(base.echo) &&
        send_am((uint32_t)m_world.work.below(40), 40, false)) {
        m_vqp->pump();
    }
    if ((base.cancel > 0) && m_world.may_disturb() && !m_in_act &&
        !m_in_pending && m_world.work.rarely(base.cancel / 10)) {
        close();
        if (m_lives > 0) {
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
           ", lives " + std::to_string(m_lives) + ", batches " +
           std::to_string(m_todo) + (m_waiting ? ", waiting" : "") +
           (m_failed ? ", failed" : "") + ", pending " +
           std::to_string(m_pending.size());
}

} /* namespace sim */
