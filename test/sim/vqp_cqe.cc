/* One side of a connection: what follows from completions. See vqp.h. */
#include "ep.h"
#include "node.h"
#include "vqp.h"
#include "world.h"

namespace sim {

void vqp::bad_peer(const char *what)
{
    if (!sent->tainted) {
        owner.w.fail("contract", name() + ": protocol error of an honest "
                                          "peer: " + what);
    }
    fail(VQP_ERR_PROTOCOL);
}

void vqp::credit(const vqp_credit_t &c)
{
    if (vqp_tx_credit(&tx, c.ring, c.fsn) < 0) {
        bad_peer("credit for what was never sent");
    }
}

/* ---- send ---- */

/* What the completion at @a pos confirms, by the oracle's own count */
void vqp::confirm(unsigned path, uint16_t pos)
{
    std::deque<cover> &covers = m_covers[path];
    bool found                = false;

    for (const cover &c : covers) {
        found = found || (c.pos == pos);
    }
    while (found && !covers.empty()) {
        cover c = covers.front();

        covers.pop_front();
        if (c.owner != nullptr) {
            sent->confirmed(c.owner);
        }
        found = c.pos != pos;
    }
}

void vqp::on_send(const cqe &c)
{
    unsigned count;

    if (c.status == VQP_OK) {
        unsigned before = (unsigned)m_covers[c.path].size();

        confirm(c.path, c.pos);
        count = vqp_tx_retire(&tx, &paths[c.path], c.pos, VQP_OK);
        if (count != before - m_covers[c.path].size()) {
            owner.w.fail("slots", name() + ": a completion confirms " +
                                  std::to_string(count) + " frags, not " +
                                  std::to_string(before -
                                                 m_covers[c.path].size()));
        }
        return;
    }

    if (!failed) {
        fail((c.status == VQP_ERR_CANCELED) ? VQP_ERR_RESET : c.status);
    }
    /* what stood before the failed one was acknowledged */
    while (!m_covers[c.path].empty() && (m_covers[c.path].front().pos != c.pos)) {
        cover before = m_covers[c.path].front();

        m_covers[c.path].pop_front();
        if (before.owner != nullptr) {
            sent->confirmed(before.owner);
        }
    }
    if (!m_covers[c.path].empty()) {
        m_covers[c.path].pop_front();
    }
    vqp_tx_retire(&tx, &paths[c.path], c.pos, status);
}

/* ---- receive ---- */

void vqp::repost(const cqe &c)
{
    if (c.extra) {
        return;
    }

    --m_recv_posted[c.path];
    if ((c.status != VQP_OK) || failed ||
        (++m_recv_missing[c.path] < owner.p.rx_batch)) {
        return;
    }

    m_qps[c.path]->post_recv(m_recv_missing[c.path]);
    m_recv_posted[c.path] += m_recv_missing[c.path];
    m_recv_missing[c.path] = 0;
}

bool vqp::deliver(uint32_t flags)
{
    vqp_rx_am_t am;

    if ((vqp_rx_record(&rx, flags, &am) != VQP_OK) || (am.id >= 32)) {
        bad_peer("malformed active message");
        return false;
    }

    credit(am.credit);
    owner.w.trace("%s: AM of %u bytes, id %u", name().c_str(), am.length,
                  am.id);
    if (m_received == nullptr) {
        owner.w.fail("am-order", name() + ": an AM of nobody");
        return false;
    }
    if (!m_received->delivered(am)) {
        return false;
    }
    if (user != nullptr) {
        user->on_am(am); /* may send, and may destroy the endpoint */
    }
    vqp_rx_consumed(&rx, &am);
    return true;
}

void vqp::on_recv(const cqe &c)
{
    uint32_t flags;
    int passed;

    repost(c);
    if (c.status != VQP_OK) {
        fail((c.status == VQP_ERR_CANCELED) ? VQP_ERR_RESET : c.status);
        return;
    }

    if (!saw_imm) {
        saw_imm = true;
        vqp_conn_first_imm(&slot.conn, owner.w.now);
        owner.run_actions();
    }

    /* A replay is never so late that it is outside of the window */
    if (c.extra && !sent->tainted &&
        (vqp_fsn_diff(vqp_imm_fsn(c.imm), rx.window.base) <
         -(int32_t)(rx.window.mask + 1))) {
        return;
    }

    passed = vqp_rx_imm(&rx, c.imm);
    if (passed < 0) {
        bad_peer("an immediate outside of the window");
        return;
    }
    if (c.imm & VQP_IMM_CONTROL) {
        credit(vqp_rx_control(&rx, c.path));
    }

    flags = c.imm;
    for (; passed > 0; passed = vqp_window_next(&rx.window, &flags)) {
        if ((flags & VQP_IMM_LAST) && !deliver(flags)) {
            return;
        }
    }
}

void vqp::on_cqe(const cqe &c)
{
    touch();
    tx.now = owner.w.now;
    if (c.is_recv) {
        on_recv(c);
    } else {
        on_send(c);
    }
}

/* ---- what follows ---- */

void vqp::report()
{
    vqp_done_t done;

    while (vqp_tx_pop_done(&tx, &done)) {
        if (done.user_kind != 0) {
            sent->report((sim::op*)done.user, done);
        }
    }
}

void vqp::report_failure()
{
    reported = true;
    if ((slot.conn.state != VQP_CONN_FAILED) &&
        (slot.conn.state != VQP_CONN_CLOSED)) {
        vqp_conn_fail(&slot.conn, status, owner.w.now);
        owner.run_actions();
    }
    if ((user != nullptr) && !canceled) {
        user->on_failure();
    }
}

void vqp::run()
{
    if (connected) {
        report();
        if (!tx.failed) {
            sent->check_reports(tx);
        } else if ((vqp_tx_outstanding(&tx) == 0) &&
                   (vqp_tx_oldest(&tx) != tx.seq)) {
            owner.w.fail("once", name() + " has failed and has nothing in "
                                          "flight, and an op goes on");
        }
        sent->check_flushes(tx, failed);
        if (vqp_rx_must_tell(&rx)) {
            vqp_tx_want_control(&tx);
        }
        if (vqp_tx_has_work(&tx)) {
            pump();
        }
        if ((++m_events % owner.w.base.audit) == 0) {
            audit();
        }
    }

    if (no_resource) {
        no_resource = false;
        if (user != nullptr) {
            user->resume();
        }
    }
    if (closing) {
        run_closing();
    }
    if (failed && !reported) {
        report_failure();
    }
    if (dying) {
        try_destroy();
    }
}

} /* namespace sim */
