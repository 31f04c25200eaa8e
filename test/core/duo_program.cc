/* The program of one side of a pair: random calls and their data. See duo.h. */
#include "duo.h"

#include <algorithm>
#include <cstring>

void duo_node::draw_plan()
{
    static const what ams[]  = {AM_SHORT, AM_SHORT, AM_BCOPY, AM_BCOPY,
                                AM_ZCOPY};
    static const what rmas[] = {PUT_SHORT, PUT, PUT, GET, FADD, CSWAP, CHECK};
    uint32_t limit           = vqp_record_max_payload(m_params.ring_size);
    uint32_t dice            = random(100);

    m_plan.valid = true;
    if (dice < 10) {
        m_plan.call = (dice < 8) ? FENCE : FLUSH;
    } else if (random(100) < m_params.rma_percent) {
        m_plan.call   = rmas[random(7)];
        m_plan.length = 1 + random(random(4) ? 300 : 6000);
        return;
    } else {
        m_plan.call = ams[random(5)];
    }

    limit       = std::min(limit, 1u << random(16));
    m_plan.max  = random(limit + 1);
    m_plan.length = (m_plan.call == AM_BCOPY) ? random(m_plan.max + 1) :
                                                m_plan.max;
}

duo_op *duo_node::new_op(vqp_kind_t kind, uint64_t length)
{
    m_ops.emplace_back(new duo_op {});
    duo_op *op = m_ops.back().get();

    op->kind   = kind;
    op->id     = (uint32_t)m_ops.size();
    op->length = length;
    op->after  = m_fenced;
    op->seq    = tx.seq;
    return op;
}

/* A place in the peer's memory that nobody used before */
char *duo_node::target(uint64_t length)
{
    char *place = peer->m_heap.data() + peer->m_heap_used;

    length = (length + 7) & ~7ul;
    if (peer->m_heap_used + length > DUO_HEAP_SIZE) {
        return nullptr;
    }
    peer->m_heap_used += length;
    return place;
}

/* Give the op its memory in random pieces, some of them empty */
void duo_node::split(vqp_op_t *op, duo_op *user, bool is_am)
{
    unsigned first  = is_am ? 1 : 0;
    unsigned niov   = first + 1 + random(DUO_MAX_IOV - first);
    vqp_iov_t *iov  = vqp_tx_op_iov(&tx, op, niov);
    char *memory    = user->memory.data();
    uint64_t left   = user->memory.size();
    uint64_t length;

    for (unsigned i = first; i < niov; ++i) {
        length        = (i == niov - 1) ? left : random((uint32_t)left + 1);
        iov[i].addr   = (uintptr_t)memory;
        iov[i].length = length;
        iov[i].lkeys  = m_lkeys;
        memory       += length;
        left         -= length;
    }
}

bool duo_node::send_am(uint32_t length, uint32_t max, bool zcopy)
{
    uint32_t id        = (uint32_t)m_ams.size() + 1000 * m_index;
    uint32_t in_mirror = zcopy ? random(std::min(length, 64u) + 1) : length;
    vqp_credit_t credit;
    vqp_record_t *record;
    vqp_op_t *op;
    duo_op *user;

    op = vqp_tx_am_begin(&tx, max, &record);
    if (op == nullptr) {
        return false;
    }

    user = new_op(VQP_KIND_AM, length);
    duo_fill((char*)(record + 1), in_mirror, id);
    op->user      = user;
    op->user_kind = 0;
    if (zcopy) {
        user->memory.resize(length - in_mirror);
        duo_fill(user->memory.data(), user->memory.size(), id, in_mirror);
        user->awaited = true;
        user->signal  = true;
        op->user_kind = 1;
        op->flags    |= VQP_OP_SIGNAL | VQP_OP_BUFFER;
        if (length > in_mirror) {
            split(op, user, true);
        }
    }

    m_ams.push_back({length, (uint8_t)(id % 32),
                     m_params.order_all ? m_effects.size() : m_fenced});
    credit = vqp_rx_credit(&rx);
    if (zcopy || !send_fast_am(op, record, (uint8_t)(id % 32), length)) {
        vqp_tx_am_commit(&tx, op, (uint8_t)(id % 32), length, in_mirror,
                         &credit);
    }
    vqp_rx_told(&rx, &credit);
    return true;
}

/* The short way, where it is open */
bool duo_node::send_fast_am(vqp_op_t *op, vqp_record_t *record, uint8_t id,
                            uint32_t length)
{
    uint32_t limit      = 1u << ((m_params.num_paths == 1) ?
                                 m_params.frag_shift : m_params.min_shift);
    vqp_credit_t credit = vqp_rx_credit(&rx);
    unsigned flags      = 0;
    vqp_frag_t &frag    = m_batch->frags[0];
    vqp_path_t *path    = vqp_tx_fast_am_path(&tx, op);

    if ((path == nullptr) || (sizeof(*record) + length > limit)) {
        return false;
    }

    frag.pos    = vqp_tx_fast_am(&tx, path, op, record, id, length, &credit,
                                 &frag.imm, &flags);
    frag.opcode = VQP_WR_WRITE_IMM;
    frag.kind   = VQP_KIND_AM;
    if (op->length <= m_params.inline_max) {
        flags |= VQP_FRAG_INLINE;
    }
    post_fast(path, op, (uintptr_t)record, m_lkeys[path->rail], flags);
    return true;
}

bool duo_node::start_fast_put(vqp_op_t *op)
{
    unsigned flags   = 0;
    vqp_frag_t &frag = m_batch->frags[0];
    vqp_path_t *path = vqp_tx_fast_put_path(&tx);
    bool is_inline   = op->flags & VQP_OP_INLINE;

    if ((path == nullptr) || (op->kind != VQP_KIND_PUT) ||
        (!is_inline && ((op->niov != 1) ||
                        (op->length > (1ul << op->frag_shift))))) {
        return false;
    }

    frag.pos    = vqp_tx_fast_put(&tx, path, op, &flags);
    frag.opcode = VQP_WR_WRITE;
    frag.kind   = VQP_KIND_PUT;
    post_fast(path, op,
              is_inline ? (uintptr_t)op->data : op->g.iov[0].addr,
              m_lkeys[path->rail], flags | (is_inline ? VQP_FRAG_INLINE : 0));
    return true;
}

void duo_node::post_fast(vqp_path_t *path, vqp_op_t *op, uint64_t addr,
                         uint32_t lkey, unsigned flags)
{
    vqp_frag_t &frag = m_batch->frags[0];

    frag.path   = path;
    frag.op     = op;
    frag.flags  = (uint8_t)flags;
    frag.nsge   = 1;
    frag.rkey   = peer->m_rkeys[path->peer_rail];
    frag.length = (uint32_t)op->length;
    frag.raddr  = op->raddr;
    frag.sge[0] = {addr, frag.length, lkey};
    m_batch->count = 1;
    post(*m_batch);
}

/* Read what a fenced put wrote, or what was there from the beginning */
void duo_node::fill_get(duo_op *user)
{
    const duo_op *put = nullptr;

    for (size_t i = m_fenced; (i > 0) && (put == nullptr); --i) {
        if (m_effects[i - 1]->kind == VQP_KIND_PUT) {
            put = m_effects[i - 1];
        }
    }

    if ((put != nullptr) && random(2)) {
        user->remote  = put->remote;
        user->length  = put->length;
        user->pattern = put->id;
    } else {
        user->remote  = target(user->length);
        user->pattern = DUO_HEAP_SEED;
    }
}

void duo_node::fill_rma(vqp_op_t *op, duo_op *user)
{
    op->flags      = 0;
    op->length     = user->length;
    op->raddr      = (uintptr_t)user->remote;
    op->rkeys      = peer->m_rkeys;
    op->user       = user;
    op->kind       = (uint8_t)user->kind;
    op->frag_shift = m_params.frag_shift;
    if (user->signal) {
        op->flags |= VQP_OP_SIGNAL;
    }
    op->user_kind = user->awaited;

    switch (m_plan.call) {
    case PUT_SHORT:
        op->flags |= VQP_OP_INLINE;
        duo_fill((char*)op->data, user->length, user->id);
        break;
    case PUT:
    case GET:
        user->memory.resize(user->length);
        if (m_plan.call == PUT) {
            duo_fill(user->memory.data(), user->length, user->id);
        }
        split(op, user, false);
        vqp_tx_rma_cut(&tx, op);
        break;
    case FADD:
    case CSWAP:
        op->amo.compare_add = (m_plan.call == FADD) ? 1 : user->expected;
        op->amo.swap        = user->id;
        op->amo.result      = user->awaited ? &user->result : nullptr;
        op->amo.rail        = m_paths[user->id % tx.num_paths].peer_rail;
        break;
    default:
        break;
    }
}

bool duo_node::start_rma()
{
    static const vqp_kind_t kinds[] = {VQP_KIND_PUT, VQP_KIND_PUT, VQP_KIND_GET,
                                       VQP_KIND_FADD, VQP_KIND_CSWAP,
                                       VQP_KIND_CHECK};
    vqp_op_t *op                    = vqp_tx_rma_begin(&tx);
    uint64_t length                 = m_plan.length;
    duo_op *user;

    if (op == nullptr) {
        return false;
    }

    length = (m_plan.call == PUT_SHORT) ? 1 + length % (1u << 6) :
             (m_plan.call >= CHECK)     ? 0 :
             (m_plan.call >= FADD)      ? 8 : length;
    user   = new_op(kinds[m_plan.call - PUT_SHORT], length);
    user->awaited = (m_plan.call == PUT) || (m_plan.call == GET) || random(2);
    user->signal  = user->awaited && random(2);

    if (m_plan.call == FADD) {
        user->remote = (char*)&peer->m_counter;
    } else if (m_plan.call == GET) {
        fill_get(user);
    } else {
        user->remote = target(length);
    }

    if (user->remote == nullptr) {
        m_ops.pop_back(); /* the peer's memory is used up: nothing to do */
        return true;
    }

    if (m_plan.call == CSWAP) {
        memcpy(&user->expected, user->remote, sizeof(user->expected));
    }
    m_fadds += (m_plan.call == FADD);
    fill_rma(op, user);
    if (m_plan.call != CHECK) {
        m_effects.push_back(user);
    }
    if (!start_fast_put(op)) {
        vqp_tx_rma_commit(&tx, op);
    }
    return true;
}

bool duo_node::perform()
{
    switch (m_plan.call) {
    case AM_SHORT:
        return send_am(m_plan.length, m_plan.length, false);
    case AM_BCOPY:
        return send_am(m_plan.length, m_plan.max, false);
    case AM_ZCOPY:
        return send_am(m_plan.length, m_plan.length, true);
    case FENCE:
        vqp_tx_fence(&tx);
        m_fenced = m_effects.size();
        return true;
    case FLUSH:
        vqp_tx_kick(&tx);
        m_flushes.push_back({tx.seq, m_effects.size()});
        check_flushes(); /* there may be nothing to wait for */
        return true;
    default:
        return start_rma();
    }
}

/* Nothing is tried again but by progress: who sleeps has to be woken */
void duo_node::act()
{
    if (tx.failed || m_waiting || (m_todo == 0)) {
        return;
    }

    if (!m_plan.valid) {
        draw_plan();
    }

    m_waiting = !perform();
    if (!m_waiting) {
        m_plan.valid = false;
        --m_todo;
    } else if (random(4) == 0) {
        m_plan.valid = false; /* will try something else, which may fit */
    }
    pump();
}

void duo_node::kick()
{
    vqp_tx_kick(&tx);
    pump();
}
