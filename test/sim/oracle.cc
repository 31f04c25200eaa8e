/* The truth about one direction of a connection, see oracle.h. */
#include "oracle.h"
#include "world.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace sim {

void pattern_fill(char *to, uint64_t length, uint32_t seed, uint64_t first)
{
    for (uint64_t i = 0; i < length; ++i) {
        to[i] = pattern_byte(seed, first + i);
    }
}

bool pattern_matches(const char *data, uint64_t length, uint32_t seed,
                     uint64_t first)
{
    for (uint64_t i = 0; i < length; ++i) {
        if (data[i] != pattern_byte(seed, first + i)) {
            return false;
        }
    }
    return true;
}

channel::channel(world &w, uint32_t a_id, bool comp_post, bool order_all) :
    id(a_id), m_world(w), m_comp_post(comp_post), m_order_all(order_all)
{
}

void channel::fail(const char *checker, const std::string &text)
{
    m_world.fail(checker, "channel " + std::to_string(id) + ": " + text);
}

/* ---- its user ---- */

op *channel::accept(vqp_kind_t kind, uint64_t length, uint64_t total)
{
    op *o = new op {};

    m_ops.emplace_back(o);
    o->kind      = kind;
    o->index     = (uint32_t)m_ops.size();
    o->id        = id * 100003u + o->index;
    o->length    = length;
    o->total     = total;
    o->after     = fenced;
    o->after_ams = fenced_ams;
    return o;
}

void channel::forget_last()
{
    m_ops.pop_back();
}

uint32_t channel::am_pattern() const
{
    return id * 100003u + (uint32_t)m_ams.size();
}

void channel::accept_am(op *o, uint32_t pattern, uint8_t am_id, uint32_t payload)
{
    m_ams.push_back({o, pattern, payload, am_id,
                     m_order_all ? effects.size() : fenced});
}

void channel::accept_effect(op *o)
{
    effects.push_back(o);
}

void channel::fence()
{
    fenced     = effects.size();
    fenced_ams = m_ams.size();
}

op *channel::flush()
{
    op *o = accept(VQP_KIND_BARRIER, 0, 0);

    o->after     = effects.size();
    o->after_ams = m_ams.size();
    o->awaited   = true;
    m_flushes.push_back(o);
    return o;
}

void channel::own_op()
{
    accept(VQP_KIND_BARRIER, 0, 0)->is_own = true;
}

void channel::check_result(op *o)
{
    const char *remote = o->remote;
    uint64_t found     = 0;

    switch (o->kind) {
    case VQP_KIND_PUT:
        if (!pattern_matches(remote, o->length, o->id)) {
            fail("memory", "a put is not what stands at the peer");
        }
        break;
    case VQP_KIND_GET:
        if (!pattern_matches(o->memory.data(), o->length, o->pattern)) {
            fail("memory", "a get brought something else");
        }
        break;
    case VQP_KIND_CSWAP:
        memcpy(&found, remote, sizeof(found));
        if ((o->result != o->expected) || (found != o->id)) {
            fail("memory", "a cswap found or left something else");
        }
        break;
    case VQP_KIND_FADD:
        m_world.fetched(remote, o->result);
        break;
    default:
        break;
    }
}

void channel::report(op *o, const vqp_done_t &done, bool failed)
{
    if (++o->reported != 1) {
        fail("once", "an op was reported twice");
    }
    if (!o->awaited) {
        fail("once", "an op was reported that nobody waits for");
    }
    if (m_comp_post && (o->index <= m_last_index)) {
        fail("post-order", "an op was reported after a later one");
    }
    m_last_index = o->index;
    o->status    = done.status;

    if ((done.kind != o->kind) || (done.length != o->total)) {
        fail("once", "an op was reported as something else");
    }
    if (o->kind == VQP_KIND_BARRIER) {
        if (!failed && !tainted) {
            check_flush(o);
        }
        flush_ended(o);
        if (!failed) {
            check_lost(o->index, done.status != VQP_OK);
            return;
        }
    }
    if (done.status != VQP_OK) {
        if (!broken && !(o->may_fail && (done.status == VQP_ERR_UNDECIDED))) {
            fail("once", "an op ended with status " +
                         std::to_string(done.status) + " without a cause");
        }
    } else {
        if (!tainted && (o->kind != VQP_KIND_BARRIER) &&
            !o->is_executed(o->total)) {
            fail("late-write", "op " + std::to_string(o->index) +
                 " was reported, " + std::to_string(o->executed) + " bytes of " +
                 std::to_string(o->total) + " are executed, " +
                 std::to_string(o->twice) + " may be again");
        }
        if (!o->is_complete()) {
            fail("once", "an op was reported before its last completion");
        }
        if (!tainted) {
            check_result(o);
        }
    }

    /* The user does with it what he likes now */
    std::fill(o->memory.begin(), o->memory.end(), (char)0xdd);
}

/* What a flush has waited for */
void channel::check_flush(const op *o)
{
    if (!effects_done(o->after)) {
        fail("flush", "ended before what it waits for was executed");
    }
    check_deliverable(o->after_ams);
    while ((m_oldest + 1 < o->index) && m_ops[m_oldest]->is_complete()) {
        ++m_oldest;
    }
    if (m_oldest + 1 < o->index) {
        fail("flush", "ended before what it waits for");
    }
}

void channel::lost(const op *o)
{
    m_lost.push_back(o->index);
}

/* Whoever has posted an atomic that may be lost gets to know it by the next flush */
void channel::check_lost(size_t before, bool is_reported)
{
    size_t num = m_lost.size();

    m_lost.erase(std::remove_if(m_lost.begin(), m_lost.end(),
                                [&](size_t index) { return index < before; }),
                 m_lost.end());
    if (is_reported != (m_lost.size() < num)) {
        fail("lost", is_reported ? "a flush reports a loss that was none" :
                                   "a flush reports no loss");
    }
}

void channel::check_lost_flushed(bool is_reported)
{
    check_lost(SIZE_MAX, is_reported);
}

void channel::flush_ended(op *o)
{
    m_flushes.erase(std::remove(m_flushes.begin(), m_flushes.end(), o),
                    m_flushes.end());
}

void channel::cancel(op *o)
{
    if (++o->reported != 1) {
        fail("once", "an op was reported, and canceled");
    }
    flush_ended(o);
    o->status = VQP_ERR_CANCELED;
    std::fill(o->memory.begin(), o->memory.end(), (char)0xdd);
}

/* ---- its queue pairs ---- */

void channel::posted(op *o, const vqp_frag_t &frag, bool is_replay)
{
    o->posted += frag.length;
    if (is_replay) {
        if (o->again-- == 0) {
            fail("once", "a frag is sent again that was not lost");
        }
    } else {
        ++o->frags;
    }
    if ((frag.opcode == VQP_WR_WRITE_IMM) && (frag.imm & VQP_IMM_LAST)) {
        if (o->announced) {
            fail("once", "an AM was announced twice");
        }
        o->announced = true;
        o->fsn       = frag.imm & VQP_FSN_MASK;
    }
    if (o->posted > o->total) {
        fail("once", "frags carry more than their op has");
    }
}

void channel::unposted(op *o, uint64_t length, bool announced, bool executed)
{
    o->posted -= length;
    ++o->again;
    if (announced) {
        o->announced = false;
    }
    if (executed) {
        o->twice += length;
    }
}

void channel::delayed(op *o)
{
    ++o->frags;
    ++o->again;
}

void channel::confirmed(op *o)
{
    ++o->confirmed;
    if (o->is_complete()) {
        m_fresh.push_back(o);
    }
}

bool channel::effects_done(size_t count)
{
    while ((m_effects_done < effects.size()) &&
           ((effects[m_effects_done]->executed >=
             effects[m_effects_done]->length) ||
            effects[m_effects_done]->may_fail)) {
        ++m_effects_done;
    }
    return m_effects_done >= count;
}

bool channel::ams_landed(size_t count)
{
    while ((m_ams_landed < m_ams.size()) &&
           (m_ams[m_ams_landed].owner->executed >=
            m_ams[m_ams_landed].owner->total)) {
        ++m_ams_landed;
    }
    return m_ams_landed >= count;
}

void channel::executed(op *o, uint64_t bytes, bool is_late)
{
    /* credit that a byzantine peer forged ends an AM before its replay */
    if ((o->kind != VQP_KIND_AM) && !tainted) {
        if (!effects_done(o->after)) {
            fail("fence", "executed before what a fence puts in front of it");
        }
        if (!ams_landed(o->after_ams)) {
            fail("fence", "executed before an AM that a fence puts in front");
        }
    }
    if ((o->reported > 0) && (o->status == VQP_OK) && (bytes > 0)) {
        fail("late-write", "executed after it was reported");
    }
    if ((o->reported > 0) && !is_late && (o->kind == VQP_KIND_GET)) {
        fail("late-write", "data of a get came after it was reported");
    }
    o->executed += bytes;
}

/* What a message's number waits for at the peer is all there */
void channel::number_landed(uint32_t fsn)
{
    if (vqp_fsn_diff(fsn, next_fsn) >= 0) {
        m_fsns_ahead.insert(fsn);
    }
    while (m_fsns_ahead.erase(next_fsn) > 0) {
        next_fsn = vqp_fsn_add(next_fsn, 1);
    }
}

/* ---- the peer ---- */

bool channel::delivered(const vqp_rx_am_t &rx_am)
{
    if (tainted) {
        return true;
    }

    if (ams_seen >= m_ams.size()) {
        fail("am-order", "an AM that nobody sent");
        return false;
    }

    const am &sent = m_ams[ams_seen++];

    if ((rx_am.length != sent.length) || (rx_am.id != sent.am_id) ||
        !pattern_matches((const char*)rx_am.data, rx_am.length, sent.pattern)) {
        fail("am-order", "AM " + std::to_string(ams_seen - 1) +
                         " is not the next one that was sent");
    }
    if (!effects_done(sent.after)) {
        fail("fence", "AM delivered before what a fence puts in front of it");
    }
    return true;
}

/* ---- what must hold ---- */

uint32_t channel::number_of_oldest(const vqp_tx_t &tx) const
{
    return tx.seq - (uint32_t)(m_ops.size() - m_oldest);
}

void channel::check_reports(const vqp_tx_t &tx)
{
    uint32_t oldest;

    /* only the core knows what its own ops wait for */
    while ((m_oldest < m_ops.size()) && m_ops[m_oldest]->is_complete() &&
           !(m_ops[m_oldest]->is_own &&
             (vqp_tx_oldest(&tx) == number_of_oldest(tx)))) {
        ++m_oldest;
    }

    for (const op *o : m_fresh) {
        if (o->awaited && (o->reported == 0) &&
            (!m_comp_post || (o->index <= m_oldest))) {
            fail("once", "op " + std::to_string(o->index) +
                         " is confirmed and was not reported");
        }
    }

    m_fresh.erase(std::remove_if(m_fresh.begin(), m_fresh.end(),
                                 [&](const op *o) {
                                     return !o->awaited || (o->reported > 0);
                                 }), m_fresh.end());

    oldest = number_of_oldest(tx);
    if (!tainted && (vqp_tx_oldest(&tx) != oldest)) {
        fail("flush", "the oldest unconfirmed op is number " +
                      std::to_string(oldest) + ", not " +
                      std::to_string(vqp_tx_oldest(&tx)) +
                      " as the core says");
    }
}

void channel::check_deliverable(size_t count)
{
    if (!tainted && (count > 0) &&
        (vqp_fsn_diff(next_fsn, m_ams[count - 1].owner->fsn) <= 0)) {
        fail("flush", "ended before the peer can deliver the last AM");
    }
}

void channel::check_all_deliverable()
{
    check_deliverable(m_ams.size());
}

void channel::check_flushes(const vqp_tx_t &tx)
{
    if (!m_flushes.empty() && (m_oldest + 1 >= m_flushes.front()->index) &&
        (tx.credit_updates == 0)) {
        fail("flush", "all before it is confirmed, and it goes on waiting");
    }
}

bool channel::is_satisfied() const
{
    if (!m_flushes.empty()) {
        return false;
    }
    for (size_t i = m_ops.size(); i > 0; --i) {
        const op *o = m_ops[i - 1].get();
        if (o->signal && (o->reported == 0)) {
            return false;
        }
    }
    return true;
}

bool channel::has_unreported() const
{
    return std::any_of(m_ops.begin(), m_ops.end(),
                       [](const std::unique_ptr<op> &o) {
                           return o->awaited && (o->reported == 0);
                       });
}

void channel::check_ended()
{
    for (const auto &o : m_ops) {
        if (!crashed && (o->reported != (o->awaited ? 1 : 0))) {
            fail("once", "op " + std::to_string(o->index) + " was reported " +
                         std::to_string(o->reported) + " times");
            return;
        }
    }
    if (!crashed && !m_flushes.empty()) {
        fail("flush", "never ended");
    }
}

void channel::check_delivered()
{
    if (!broken && !tainted && (ams_seen != m_ams.size())) {
        fail("am-order", std::to_string(m_ams.size()) + " AMs sent, " +
                         std::to_string(ams_seen) + " delivered");
    }
}

void channel::check_memory()
{
    if (tainted) {
        return;
    }

    for (op *o : effects) {
        uint64_t found = 0;

        if (!o->is_executed(o->length)) {
            if (!broken && !o->may_fail) {
                fail("memory", "something was never executed");
            }
        } else if (o->kind == VQP_KIND_PUT) {
            /* Of a put that has not ended the bytes of one frag may count twice, and
             * those of another not at all */
            if (!(broken && (o->twice > 0)) &&
                !pattern_matches(o->remote, o->length, o->id)) {
                fail("memory", "a put wrote something else");
            }
        } else if (o->kind == VQP_KIND_CSWAP) {
            memcpy(&found, o->remote, sizeof(found));
            if (found != o->id) {
                fail("memory", "a cswap wrote something else");
            }
        }
    }
}

std::string channel::str() const
{
    std::ostringstream os;

    os << "channel " << id << ": ops " << m_ops.size() << " (" << m_oldest
       << " confirmed), AMs " << m_ams.size() << " (" << m_ams_landed
       << " landed, " << ams_seen << " delivered), effects " << effects.size()
       << " (" << m_effects_done << " executed, " << fenced
       << " fenced), flushes " << m_flushes.size()
       << (broken ? ", broken" : "") << (crashed ? ", crashed" : "")
       << (tainted ? ", tainted" : "");
    return os.str();
}

} /* namespace sim */
