/* One side of a connection: what follows from completions. See vqp.h. */
#include "ep.h"
#include "node.h"
#include "vqp.h"
#include "world.h"

namespace sim {

/* ---- send ---- */

/* What the completion of @a slot confirms, by the oracle's own count */
void vqp::confirm(unsigned path, uint16_t slot)
{
    std::deque<cover> &covers = m_covers[path];
    bool found                = false;

    for (const cover &c : covers) {
        found = found || (c.slot == slot);
    }
    while (found && !covers.empty()) {
        cover c = covers.front();

        covers.pop_front();
        if (c.owner != nullptr) {
            sent->confirmed(c.owner);
        }
        found = c.slot != slot;
    }
}

/* What stood before the failed one was acknowledged */
void vqp::cover_failed(unsigned path, uint16_t slot)
{
    std::deque<cover> &covers = m_covers[path];

    while (!covers.empty() && (covers.front().slot != slot)) {
        cover before = covers.front();

        covers.pop_front();
        if (before.owner != nullptr) {
            sent->confirmed(before.owner);
        }
    }
    if (!covers.empty()) {
        covers.pop_front();
    }
}

void vqp::on_send(const cqe &c)
{
    unsigned before = (unsigned)m_covers[c.path].size();
    unsigned count;

    if (c.status != VQP_OK) {
        if (core.failover.is_on && !is_failed()) {
            vqp_on_send_error(&core, &paths[c.path], c.slot, c.status);
            /* A nop ends quietly once the peer has closed */
            if (is_failed() || ((core.state == VQP_STATE_PEER_CLOSED) &&
                                (vqp_path_outstanding(&paths[c.path]) < before))) {
                cover_failed(c.path, c.slot);
            }
        } else {
            cover_failed(c.path, c.slot);
            vqp_on_send_error(&core, &paths[c.path], c.slot, c.status);
        }
        handle_failure();
        return;
    }

    confirm(c.path, c.slot);
    count = vqp_on_send(&core, &paths[c.path], c.slot);
    if (count != before - m_covers[c.path].size()) {
        owner.w.fail("slots", name() + ": a completion confirms " +
                              std::to_string(count) + " frags, not " +
                              std::to_string(before -
                                             m_covers[c.path].size()));
    }
}

/* ---- receive ---- */

void vqp::repost(const cqe &c)
{
    vqp_path_t *path = &paths[c.path];
    uint16_t posted;

    if (c.extra || !vqp_recv_used(&core, path)) {
        return;
    }

    posted      = fail_repost ? (uint16_t)owner.w.fault.below(path->recv_used) :
                                path->recv_used;
    fail_repost = false;
    m_qps[c.path]->post_recv(posted);
    vqp_recv_posted(&core, path, posted);
    handle_failure();
}

bool vqp::deliver(const vqp_rx_am_t &am)
{
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
    vqp_recv_done(&core, &am);
    return true;
}

void vqp::on_recv(const cqe &c)
{
    vqp_rx_am_t am;
    int has_am;

    if (c.status != VQP_OK) {
        vqp_on_recv_error(&core, &paths[c.path], c.status);
        handle_failure();
        return;
    }

    repost(c);

    /* A late duplicate is never so late that it is outside of the window */
    if (c.extra && !sent->tainted &&
        (vqp_fsn_diff(vqp_imm_fsn(c.imm), core.rx.window.base) <
         -(int32_t)(core.rx.window.mask + 1))) {
        return;
    }

    if (c.extra) {
        ++paths[c.path].fo.imms_came; /* no queue pair brings one twice */
    }

    has_am = vqp_recv_fast(&core, &paths[c.path], c.imm, &am);
    if (has_am == 0) {
        has_am = vqp_recv(&core, &paths[c.path], c.imm, &am);
    }
    for (; has_am > 0; has_am = vqp_recv_next(&core, &paths[c.path], &am)) {
        if (!deliver(am)) {
            return;
        }
    }
    if (has_am < 0) {
        handle_failure();
    }
}

void vqp::on_cqe(const cqe &c)
{
    schedule();
    owner.set_clock(core.tx);
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

    while (vqp_next_done(&core, &done)) {
        if (done.user_kind != 0) {
            sent->report((sim::op*)done.user, done, is_failed());
        }
    }
}

void vqp::report_failure()
{
    if ((user != nullptr) && !core.canceled) {
        user->on_failure();
    }
}

void vqp::handle_ring_event(vqp_event_t event)
{
    switch (event) {
    case VQP_EVENT_RING_PUT:
        std::vector<char>().swap(m_rings[core.rings.put - 1]);
        break;
    case VQP_EVENT_RING_GET:
        get_ring();
        break;
    case VQP_EVENT_MIRROR_PUT:
        put_mirror();
        break;
    default:
        get_mirror();
        break;
    }
    schedule(); /* what the core sends about it */
}

/* The object may be gone afterwards */
void vqp::handle_events()
{
    bool is_resumed = false;

    for (;;) {
        vqp_event_t event = vqp_next_event(&core);

        switch (event) {
        case VQP_EVENT_QPS:
            fail_qps();
            break;
        case VQP_EVENT_STATE:
            owner.w.trace("%s: %s -> %s", name().c_str(),
                          vqp_state_name(core.logged),
                          vqp_state_name(core.state));
            core.logged = core.state;
            break;
        case VQP_EVENT_BROKEN:
            break; /* see check_cause */
        case VQP_EVENT_FIRST_IMM:
            vqp_conn_first_imm(&slot.conn, owner.w.now);
            owner.run_actions();
            break;
        case VQP_EVENT_RESUME:
            give_ops();
            is_resumed = true; /* when the events have been handled */
            break;
        case VQP_EVENT_CLOSED:
            closed();
            break;
        case VQP_EVENT_FAILED:
            report_failure();
            break;
        case VQP_EVENT_TIMER:
            set_timer();
            break;
        case VQP_EVENT_MIRROR_NEEDED:
            if (get_first_mirror()) {
                schedule();
            }
            break;
        case VQP_EVENT_RING_PUT:
        case VQP_EVENT_RING_GET:
        case VQP_EVENT_MIRROR_PUT:
        case VQP_EVENT_MIRROR_GET:
            handle_ring_event(event);
            break;
        case VQP_EVENT_RELEASE:
            if (!is_scheduled && !cm_end) {
                if (!sent->crashed) {
                    sent->check_ended();
                }
                owner.destroy(this); /* we are gone */
            }
            return;
        case VQP_EVENT_PING:
            ping();
            break;
        case VQP_EVENT_PATH_STATE:
        case VQP_EVENT_PATH_QUIESCE:
        case VQP_EVENT_PATH_COUNT:
        case VQP_EVENT_PATH_REBUILD:
        case VQP_EVENT_PATH_CONNECT:
        case VQP_EVENT_PATH_SEND:
        case VQP_EVENT_PATH_REHASH:
            handle_path_event(event);
            break;
        default:
            if (is_resumed && (user != nullptr)) {
                user->resume();
            }
            return;
        }
    }
}

void vqp::run()
{
    if (is_connected()) {
        report();
        if (!is_failed()) {
            sent->check_reports(core.tx);
        } else if ((vqp_tx_outstanding(&core.tx) == 0) &&
                   (vqp_tx_oldest(&core.tx) != core.tx.seq)) {
            owner.w.fail("once", name() + " has failed and has nothing in "
                                          "flight, and an op goes on");
        }
        sent->check_flushes(core.tx);
        if (vqp_has_output(&core)) {
            tx_progress();
        }
        if ((++m_events % owner.w.base.audit) == 0) {
            audit();
        }
    }

    handle_failure();
    check_lost();
    set_timer();
    handle_events();
}

} /* namespace sim */
