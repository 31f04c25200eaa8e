/* Queue pairs and the network between them, see fabric.h. */
#include "fabric.h"
#include "node.h"
#include "vqp.h"
#include "world.h"

#include <algorithm>
#include <cstring>

namespace sim {

namespace {

const uint64_t RETRY_TIME = 400000000; /* ns until nobody has answered */

} /* namespace */

qp::qp(world &w, vqp &owner, uint32_t a_qpn, unsigned path, unsigned rail,
       uint16_t first_slot) :
    qpn(a_qpn), m_world(w), m_owner(owner), m_path(path), m_rail(rail),
    m_next_slot(first_slot)
{
    m_world.qps[qpn] = this;
}

qp::~qp()
{
    m_world.qps.erase(qpn);
}

qp *qp::peer()
{
    auto it = m_world.qps.find(m_peer);

    return (it == m_world.qps.end()) ? nullptr : it->second;
}

void qp::connect(uint32_t peer_qpn)
{
    m_peer      = peer_qpn;
    m_peer_rail = m_owner.peer_rail(m_path);
    state       = CONNECTED;
}

void qp::post_recv(unsigned count)
{
    receives += count;
    if ((state == ERROR) && (m_flush_at == 0)) {
        flush_receives();
    }
}

/* ---- completions ---- */

void qp::push(cqe entry)
{
    entry.vqp_id = m_owner.id;
    entry.path   = (uint8_t)m_path;
    entry.qp_tag = m_owner.paths[m_path].qp_tag;
    if (entry.status != VQP_OK) {
        entry.imm = (uint32_t)m_world.net.next(); /* undefined in an error */
    }
    m_owner.owner.push_cqe(m_rail, entry);
}

void qp::complete(uint16_t slot, vqp_status_t status)
{
    push({0, 0, 0, 0, slot, status, 0, 0});
}

void qp::receive(uint32_t imm)
{
    if (receives == 0) {
        m_world.fail("receives", "an immediate finds no receive on path " +
                                 std::to_string(m_path) + " of " +
                                 m_owner.name());
        return;
    }

    --receives;
    push({0, 0, 1, 0, 0, VQP_OK, imm, 0});
}

void qp::receive_extra(uint32_t imm)
{
    if (state == CONNECTED) {
        push({0, 0, 1, 0, 0, VQP_OK, imm, 1});
    }
}

/* ---- posting ---- */

void qp::check_frag(const vqp_frag_t &frag)
{
    const vqp_path_t &path = *frag.path;
    const vqp_tx_t &tx     = m_owner.core.tx;
    uint64_t sum           = 0;

    if ((frag.slot != m_next_slot++) && (state != ERROR)) {
        m_world.fail("slots", "slots of a path are not consecutive");
    }
    if (vqp_path_outstanding(&path) >
        path.depth + (tx.failed || (path.fo.state == VQP_PATH_QUIESCE))) { /* drain nop */
        m_world.fail("slots", "send queue overrun");
    }
    if (vqp_tx_fsns_out(&tx) > tx.cfg.fsn_window) {
        m_world.fail("credit", "more numbers than the window has");
    }
    if (frag.nsge > VQP_FRAG_MAX_SGE) {
        m_world.fail("contract", "too many pieces");
        return;
    }

    for (unsigned i = 0; i < frag.nsge; ++i) {
        sum += frag.sge[i].length;
        if (!(frag.flags & VQP_FRAG_INLINE) &&
            (frag.sge[i].lkey != m_owner.owner.lkeys[path.rail])) {
            m_world.fail("contract", "local key of another rail");
        }
    }

    if (sum != frag.length) {
        m_world.fail("contract", "pieces do not add up to the frag");
    }
    if ((frag.flags & VQP_FRAG_INLINE) && (sum > tx.cfg.inline_max) &&
        (frag.kind != VQP_KIND_PUT)) {
        m_world.fail("contract", "inline although it is too long");
    }
}

void qp::post(const vqp_frag_t &frag)
{
    const params &p  = m_world.base;
    uint64_t slow    = (m_path == p.slow_path) ? 10 : 1;
    op *owner        = owner_of(frag);
    uint64_t now     = m_world.now;

    check_frag(frag);
    if (m_world.trace_on()) {
        m_world.trace("%s: post path %u slot %u %s length %u%s imm 0x%x",
                      m_owner.name().c_str(), m_path, frag.slot,
                      kind_name(frag.kind), frag.length,
                      (frag.flags & VQP_FRAG_SIGNALED) ? " signaled" : "",
                      (frag.opcode == VQP_WR_WRITE_IMM) ? frag.imm : 0);
    }
    m_owner.note_posted(frag, owner);
    if (state == ERROR) { /* takes it and flushes it */
        complete(frag.slot, VQP_ERR_CANCELED);
        return;
    }

    m_wire.emplace_back();
    wr &w      = m_wire.back();
    w.kind     = (uint8_t)frag.kind;
    w.opcode   = frag.opcode;
    w.flags    = (uint8_t)frag.flags;
    w.slot     = frag.slot;
    w.imm      = frag.imm;
    w.rkey     = frag.rkey;
    w.length   = frag.length;
    w.raddr    = frag.raddr;
    w.owner    = owner;
    w.from     = m_owner.sent.get();
    w.sge.assign(frag.sge, frag.sge + frag.nsge);
    w.deliver_at = std::max(m_last_deliver,
                            now + 1 + m_world.net.below(slow * p.delay));
    if (frag.flags & VQP_FRAG_FENCE) {
        for (const wr &other : m_wire) {
            if ((other.opcode >= VQP_WR_READ) && (&other != &w)) {
                w.deliver_at = std::max(w.deliver_at, other.ack_at + 1);
            }
        }
    }
    w.ack_at       = std::max(m_last_ack, w.deliver_at + 1 +
                                          m_world.net.below(slow * p.delay));
    m_last_deliver = w.deliver_at;
    m_last_ack     = w.ack_at;

    if (frag.flags & VQP_FRAG_INLINE) {
        snapshot(w);
    }
    if ((frag.opcode == VQP_WR_FADD) || (frag.opcode == VQP_WR_CSWAP)) {
        w.add  = frag.op->amo.compare_add;
        w.swap = frag.op->amo.swap;
    }
    schedule();
}

void qp::schedule()
{
    uint64_t next = UINT64_MAX;

    if (m_delivered < m_wire.size()) {
        next = m_wire[m_delivered].deliver_at;
    }
    if (m_delivered > 0) {
        next = std::min(next, m_wire.front().ack_at);
    }
    if (!m_late.empty()) {
        next = std::min(next, m_late.front().deliver_at);
    }
    if (next == UINT64_MAX) {
        return;
    }

    next = std::max({next, m_frozen, m_world.now});
    if (next < m_scheduled) {
        m_scheduled = next;
        m_world.at(next, EV_WIRE, qpn);
    }
}

/* ---- execution ---- */

void qp::gather(const wr &w, char *to)
{
    for (const vqp_sge_t &sge : w.sge) {
        memcpy(to, (const char*)(uintptr_t)sge.addr, sge.length);
        to += sge.length;
    }
}

void qp::snapshot(wr &w)
{
    w.data.resize(w.length);
    gather(w, w.data.data());
}

/* Is all of it inside memory that the other side gave, by the right key? An address that
 * was damaged on its way is not used */
bool qp::check_remote(const wr &w, const vqp &target)
{
    bool is_allowed = target.allows(w.raddr, w.length, w.rkey,
                                    m_peer_rail);

    if (!is_allowed && !w.from->tainted) {
        m_world.fail("memory", "access outside of remote memory, or by the "
                               "key of another rail");
    }
    return is_allowed || !m_world.base.garble;
}

void qp::atomic(wr &w)
{
    char *remote = (char*)(uintptr_t)w.raddr;

    memcpy(&w.result, remote, sizeof(w.result));
    if (w.opcode == VQP_WR_FADD) {
        w.swap = w.result + w.add;
        m_world.added(remote, w.add);
    }
    if ((w.opcode == VQP_WR_FADD) || (w.result == w.add)) {
        memcpy(remote, &w.swap, sizeof(w.swap));
    }
}

void qp::write(wr &w, qp &to)
{
    if (w.length > 0) {
        std::copy(w.data.begin(), w.data.end(), (char*)(uintptr_t)w.raddr);
    }
    if (w.opcode != VQP_WR_WRITE_IMM) {
        return;
    }

    w.from->number_landed(w.imm & VQP_FSN_MASK);
    to.receive(w.imm);
    if (m_world.may_disturb() && m_world.fault.rarely(m_world.base.dup_imm)) {
        m_world.at(m_world.now + m_world.fault.below(2 * m_world.base.delay +
                                                     m_world.base.poll),
                   EV_DUPLICATE, to.m_owner.any_qpn(to.m_path, w.imm), w.imm);
    }
}

uint32_t qp::executed(vqp_source_t source) const
{
    return (source == VQP_SOURCE_MSN) ? m_msn : m_packets;
}

void qp::count(const wr &w)
{
    ++m_msn;
    m_packets += std::max(1u, (w.length + (1u << vqp::MTU_SHIFT) - 1) >>
                              vqp::MTU_SHIFT);
}

/* The frag arrives at the peer */
void qp::execute(wr &w, qp &to, bool is_late)
{
    if (!check_remote(w, to.m_owner) || m_world.failed()) {
        return;
    }

    to.count(w);
    m_owner.note_executed(m_path, w.slot);

    if ((w.opcode != VQP_WR_READ) && (w.owner != nullptr)) {
        w.from->executed(w.owner, w.length, is_late);
    }
    switch (w.opcode) {
    case VQP_WR_READ:
        return; /* its response may be as late as its acknowledgement */
    case VQP_WR_FADD:
    case VQP_WR_CSWAP:
        atomic(w);
        return;
    default:
        if (!(w.flags & VQP_FRAG_INLINE) && !is_late) {
            snapshot(w);
        }
        write(w, to);
    }
}

/* An HCA may read the source again until it is acknowledged. (Control cells
 * change meanwhile: any mixture of them is true.) */
void qp::check_source(const wr &w)
{
    std::vector<char> again;

    if ((w.flags & VQP_FRAG_INLINE) || w.data.empty() ||
        (w.kind == VQP_KIND_CREDIT)) {
        return;
    }

    again.resize(w.data.size());
    gather(w, again.data());
    if (again != w.data) {
        m_world.fail("memory", "a source changed before it was acknowledged");
    }
}

/* The acknowledgement or the response is back */
void qp::acknowledge(wr &w)
{
    const char *remote = (const char*)(uintptr_t)w.raddr;

    check_source(w);
    if (w.opcode == VQP_WR_READ) {
        w.from->executed(w.owner, w.length, false);
        m_owner.note_read(m_path, w.slot);
        for (const vqp_sge_t &sge : w.sge) {
            memcpy((char*)(uintptr_t)sge.addr, remote, sge.length);
            remote += sge.length;
        }
    } else if (w.opcode > VQP_WR_READ) {
        memcpy((char*)(uintptr_t)w.sge[0].addr, &w.result, sizeof(w.result));
    }

    if (w.flags & VQP_FRAG_SIGNALED) {
        complete(w.slot, VQP_OK);
    }
}

void qp::run()
{
    m_scheduled = UINT64_MAX;
    if ((m_flush_at != 0) && (m_flush_at <= m_world.now)) {
        flush_receives();
    }
    run_late();

    while ((state != ERROR) && (m_frozen <= m_world.now) &&
           !m_world.failed()) {
        uint64_t deliver = (m_delivered < m_wire.size()) ?
                                   m_wire[m_delivered].deliver_at : UINT64_MAX;
        uint64_t ack     = (m_delivered > 0) ? m_wire.front().ack_at :
                                               UINT64_MAX;

        if (std::min(deliver, ack) > m_world.now) {
            break;
        }

        if (ack <= deliver) {
            acknowledge(m_wire.front());
            m_wire.pop_front();
            --m_delivered;
            continue;
        }

        qp *to         = peer();
        bool is_narrow = (m_wire[m_delivered].length >= (1u << vqp::MTU_SHIFT)) &&
                         (m_owner.narrow_until[m_path] > m_world.now) &&
                         (m_owner.narrow_rails[m_path] == m_owner.rails_of(m_path));
        if ((to == nullptr) || !to->executes(m_wire[m_delivered]) || is_narrow) {
            if (!is_narrow && (to != nullptr) && (to->state == INIT) &&
                !to->is_unresolved && !m_owner.sent->tainted) {
                m_world.fail("handshake", "a frag reaches a queue pair that is "
                                          "not connected yet");
            }
            if (m_retry_until > m_world.now || m_retry_until == 0) {
                m_retry_until = m_world.now + RETRY_TIME;
                freeze(m_retry_until);
            } else {
                fail(VQP_ERR_TIMEOUT); /* nobody answers */
            }
            break;
        }
        m_retry_until = 0;
        execute(m_wire[m_delivered++], *to, false);
    }

    schedule();
}

/* Does it execute this request of the peer? In ERR too until its receives are flushed, on
 * some devices, and later than all receives were used */
bool qp::executes(const wr &w) const
{
    return (state == CONNECTED) ||
           ((state == ERROR) && (m_flush_at != 0) &&
            ((w.opcode != VQP_WR_WRITE_IMM) || (receives > 0)));
}

void qp::run_late()
{
    while (!m_late.empty() && (m_late.front().deliver_at <= m_world.now) &&
           !m_world.failed()) {
        wr w   = std::move(m_late.front());
        qp *to = peer();

        m_late.pop_front();
        if ((to != nullptr) && to->executes(w)) {
            execute(w, *to, true);
        }
    }
}

/* ---- failure ---- */

void qp::fail(vqp_status_t status)
{
    if (state == ERROR) {
        return;
    }

    size_t late = (m_world.fault.chance(m_world.base.late_packets) &&
                     (status != VQP_ERR_TIMEOUT || peer() != nullptr)) ?
                            m_world.fault.below(m_wire.size() - m_delivered +
                                                1) : 0;

    bool has_read      = false;
    bool was_connected = state == CONNECTED;

    m_world.trace("%s: path %u fails, status %d, %zu posted, %zu late packets",
                  m_owner.name().c_str(), m_path, status, m_wire.size(),
                  late);
    state = ERROR;
    for (size_t i = 0; i < m_wire.size(); ++i) {
        wr &w = m_wire[i];

        has_read = has_read || (w.opcode >= VQP_WR_READ);
        if (has_read && (w.flags & VQP_FRAG_FENCE) && (i >= m_delivered)) {
            late = 0; /* it never left, for it waits for an answer */
        }

        complete(w.slot, (i == 0) ? status : VQP_ERR_CANCELED);
        if ((i >= m_delivered) && (i < m_delivered + late)) {
            if ((w.opcode == VQP_WR_WRITE) || (w.opcode == VQP_WR_WRITE_IMM)) {
                if (!(w.flags & VQP_FRAG_INLINE)) {
                    snapshot(w);
                }
                m_late.push_back(std::move(w));
            } else {
                late = 0; /* FIFO: nothing behind it is executed */
            }
        }
    }
    m_wire.clear();
    m_delivered = 0;

    if (was_connected && (m_world.base.flush_time > 0)) {
        m_flush_at = m_world.now + 1 + m_world.fault.below(m_world.base.flush_time);
        m_world.at(m_flush_at, EV_WIRE, qpn);
    } else {
        flush_receives();
    }
    schedule();
}

void qp::flush_receives()
{
    m_flush_at = 0;
    for (; receives > 0; --receives) {
        push({0, 0, 1, 0, 0, VQP_ERR_CANCELED, 0, 0});
    }
}

void qp::lose()
{
    state = ERROR;
    m_wire.clear();
    m_delivered = 0;
    m_flush_at  = 0;
    receives    = 0;
}

void qp::freeze(uint64_t until)
{
    m_frozen = std::max(m_frozen, until);
}

} /* namespace sim */
