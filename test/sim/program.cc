/* The calls of an endpoint's program, and their data. See ep.h. */
#include "ep.h"
#include "node.h"
#include "world.h"

#include <algorithm>
#include <cstring>

namespace sim {

ep::plan ep::draw()
{
    static const call ams[]  = {AM_SHORT, AM_SHORT, AM_BCOPY, AM_BCOPY,
                                AM_ZCOPY};
    static const call rmas[] = {PUT_SHORT, PUT, PUT, GET, CHECK};
    const params &base       = m_world.base;
    rng &random              = m_world.work;
    uint32_t limit           = vqp_record_max_payload((uint32_t)base.ring);
    plan p {};

    if (random.chance(base.fence)) {
        p.what = FENCE;
        return p;
    }
    if (random.chance(base.flush)) {
        p.what = FLUSH;
        return p;
    }
    if (random.chance(base.rma)) {
        p.what   = random.chance(base.amo) ?
                           (random.below(2) ? FADD : CSWAP) :
                           rmas[random.below(5)];
        p.length = 1 + (uint32_t)random.below(
                           random.chance(base.huge) ? 100000 :
                           random.below(4)          ? 300 : 6000);
        return p;
    }

    p.what   = ams[random.below(5)];
    limit    = std::min(limit, 1u << random.below(base.big + 1));
    p.max    = (uint32_t)random.below(limit + 1);
    p.length = (p.what == AM_BCOPY) ? (uint32_t)random.below(p.max + 1) :
                                      p.max;
    return p;
}

/* Give the op its memory in random pieces, some of them empty */
void ep::split(vqp_op_t *core, op *user, bool is_am)
{
    rng &random     = m_world.work;
    unsigned first  = is_am ? 1 : 0;
    unsigned niov   = first + 1 + (unsigned)random.below(vqp::MAX_IOV - first);
    vqp_iov_t *iov;
    char *memory    = user->memory.data();
    uint64_t left   = user->memory.size();
    uint64_t length;

    if (!is_am && random.chance(50)) {
        niov = 1;
    }
    iov = vqp_tx_op_iov(&m_vqp->core.tx, core, niov);
    for (unsigned i = first; i < niov; ++i) {
        length        = (i == niov - 1) ? left : random.below(left + 1);
        iov[i].addr   = (uintptr_t)memory;
        iov[i].length = length;
        iov[i].lkeys  = m_node.lkeys;
        memory       += length;
        left         -= length;
    }
}

/* ---- active messages ---- */

bool ep::send_am(uint32_t length, uint32_t max, bool zcopy)
{
    uint32_t in_mirror = zcopy ? (uint32_t)m_world.work.below(
                                         std::min(length, 64u) + 1) : length;
    vqp *v             = m_vqp;
    unsigned nsge      = zcopy ? 0 : 1;
    vqp_frag_t frag;
    vqp_sge_t sge[2];
    vqp_tx_am_t am;
    uint8_t am_id;
    uint32_t pattern   = v->sent->am_pattern();
    op *user;

    if (!vqp_tx_am_begin(&v->core.tx, max, !zcopy, &am) &&
        (!vqp_wants_mirror(&v->core) || !v->get_first_mirror() ||
         !vqp_tx_am_begin(&v->core.tx, max, !zcopy, &am))) {
        return false;
    }

    user  = (am.imms == 0) ? (op*)am.op->user : /* it joins an earlier one */
                             v->sent->accept(VQP_KIND_AM, length,
                                             sizeof(*am.record) + length);
    am_id = (uint8_t)(pattern % 32);
    pattern_fill((char*)(am.record + 1), in_mirror, pattern);
    am.op->user      = user;
    am.op->user_kind = 0;
    if (zcopy) {
        user->memory.resize(length - in_mirror);
        pattern_fill(user->memory.data(), user->memory.size(), pattern, in_mirror);
        user->awaited    = user->signal = true;
        am.op->user_kind = 1;
        am.op->flags    |= VQP_OP_SIGNAL | VQP_OP_BUFFER;
        if (length > in_mirror) {
            split(am.op, user, true);
            nsge = (am.op->niov == 2) ? 2 : 0;
        }
    }

    m_world.trace("%s: AM %u of %u bytes%s", v->name().c_str(), user->index,
                  length, zcopy ? ", zcopy" : "");
    v->sent->accept_am(user, pattern, am_id, length);
    if (vqp_send_am(&v->core, &am, am_id, length, in_mirror, nsge, sge,
                    &frag) == VQP_SEND_FRAG) {
        v->post_one(frag);
    } else {
        user->total = am.op->length;
        v->tx_progress();
    }
    return true;
}

/* ---- puts, gets, atomics ---- */

/* Read what a fenced put wrote, or what nobody wrote */
void ep::find_source_of_get(op *user)
{
    const std::vector<op*> &effects = m_vqp->sent->effects;
    size_t fenced                   = m_vqp->sent->fenced;

    for (size_t i = fenced; (i > 0) && m_world.work.below(2); --i) {
        if (effects[i - 1]->kind == VQP_KIND_PUT) {
            user->remote  = effects[i - 1]->remote;
            user->length  = user->total = effects[i - 1]->length;
            user->pattern = effects[i - 1]->id;
            return;
        }
    }

    user->remote  = m_peer->target(user->length);
    user->pattern = ~user->id;
    if (user->remote != nullptr) {
        pattern_fill(user->remote, user->length, user->pattern);
    }
}

/* @return whether there is memory left for it at the peer */
bool ep::find_target(const plan &p, op *user)
{
    if (p.what == FADD) {
        user->remote = m_peer->counter();
    } else if (p.what == GET) {
        find_source_of_get(user);
    } else {
        user->remote = m_peer->target(user->length);
    }
    if ((p.what == CSWAP) && (user->remote != nullptr)) {
        memcpy(&user->expected, user->remote, sizeof(user->expected));
    }
    return user->remote != nullptr;
}

void ep::fill_rma(const plan &p, vqp_op_t *core, op *user)
{
    core->flags      = user->signal ? VQP_OP_SIGNAL : 0;
    core->length     = user->length;
    core->raddr      = (uintptr_t)user->remote;
    core->rma.rkeys  = m_peer->heap_rkeys;
    core->user       = user;
    core->user_kind  = user->awaited;
    core->kind       = (uint8_t)user->kind;
    core->frag_shift = 31;

    switch (p.what) {
    case PUT_SHORT:
        core->flags |= VQP_OP_INLINE | (user->awaited ? VQP_OP_BUFFER : 0);
        pattern_fill((char*)core->data, user->length, user->id);
        break;
    case PUT:
    case GET:
        core->flags |= VQP_OP_BUFFER;
        user->memory.resize(user->length);
        if (p.what == PUT) {
            pattern_fill(user->memory.data(), user->length, user->id);
        }
        split(core, user, false);
        vqp_tx_rma_set_frag_size(&m_vqp->core.tx, core);
        break;
    case FADD:
    case CSWAP:
        core->flags          |= user->awaited ? VQP_OP_BUFFER : 0;
        core->amo.compare_add = (p.what == FADD) ? 1 : user->expected;
        core->amo.swap        = user->id;
        core->amo.result      = user->awaited ? &user->result : nullptr;
        core->amo.rail        = (uint8_t)m_vqp->future_peer_rail(
                (unsigned)(user->id % m_vqp->core.tx.paths.count));
        break;
    default:
        break;
    }
}

bool ep::start_rma(const plan &p)
{
    static const vqp_kind_t kinds[] = {VQP_KIND_PUT, VQP_KIND_PUT, VQP_KIND_GET,
                                       VQP_KIND_FADD, VQP_KIND_CSWAP};
    vqp *v          = m_vqp;
    vqp_op_t *core  = vqp_tx_rma_begin(&v->core.tx);
    uint64_t length = (p.what == PUT_SHORT) ? 1 + p.length % VQP_OP_DATA_MAX :
                      (p.what >= FADD)      ? 8 : p.length;
    op *user;

    if (core == nullptr) {
        return false;
    }

    user = v->sent->accept(kinds[p.what - PUT_SHORT], length, length);
    if (!find_target(p, user)) {
        v->sent->forget_last(); /* nothing left to write to: nothing to do */
        return true;
    }

    user->awaited = (p.what == PUT) || (p.what == GET) ||
                    m_world.work.below(2);
    user->signal  = user->awaited && m_world.work.below(2);
    fill_rma(p, core, user);
    v->sent->accept_effect(user);
    m_world.trace("%s: op %u %s of %lu bytes%s", v->name().c_str(),
                  user->index, kind_name(user->kind),
                  (unsigned long)user->length,
                  user->signal ? ", signaled" : "");
    send_rma(core);
    return true;
}

void ep::send_rma(vqp_op_t *core)
{
    vqp *v         = m_vqp;
    unsigned flags = (core->flags & VQP_OP_INLINE) ? VQP_FRAG_INLINE : 0;
    vqp_frag_t frag;
    vqp_sge_t sge;

    switch (vqp_tx_send_rma(&v->core.tx, core, (vqp_kind_t)core->kind, flags,
                            &sge, &frag)) {
    case VQP_SEND_FRAG:
        v->post_one(frag);
        break;
    case VQP_SEND_SPREAD:
        while (!v->is_failed() &&
               vqp_tx_spread_next(&v->core.tx, core, &sge, &frag)) {
            v->post_one(frag);
        }
        break;
    default:
        break;
    }
}

} /* namespace sim */
