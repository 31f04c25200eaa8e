/* The toy network: posting, delivery, acknowledgement. See duo.h. */
#include "duo.h"

#include <algorithm>
#include <cstring>

void duo_node::check_frag(const vqp_frag_t &frag)
{
    const vqp_path_t &path = *frag.path;
    uint64_t sum           = 0;

    if (frag.pos != m_next_pos[path.index]++) {
        fail("positions of a path are not consecutive");
    }
    if (vqp_path_outstanding(&path) > path.depth + tx.failed) {
        fail("send queue overrun");
    }
    if (path.imms > path.imms_max) {
        fail("more immediates than receives");
    }
    if (path.reads > path.reads_max) {
        fail("more READs than allowed");
    }
    if (vqp_tx_fsns_out(&tx) > m_params.window) {
        fail("more numbers than the window has");
    }
    if (frag.nsge > VQP_FRAG_MAX_SGE) {
        fail("too many pieces");
    }
    if (frag.rkey != peer->m_rkeys[path.peer_rail]) {
        fail("key of another rail");
    }

    for (unsigned i = 0; i < frag.nsge; ++i) {
        sum += frag.sge[i].length;
        if (!(frag.flags & VQP_FRAG_INLINE) &&
            (frag.sge[i].lkey != m_lkeys[path.rail])) {
            fail("local key of another rail");
        }
    }

    if (sum != frag.length) {
        fail("pieces do not add up to the frag");
    }
    if ((frag.flags & VQP_FRAG_INLINE) && (sum > m_params.inline_max) &&
        (frag.kind != VQP_KIND_PUT)) {
        fail("inline although it is too long");
    }
}

void duo_node::gather(const vqp_frag_t &frag, char *to)
{
    for (unsigned i = 0; i < frag.nsge; ++i) {
        memcpy(to, (const char*)(uintptr_t)frag.sge[i].addr,
               frag.sge[i].length);
        to += frag.sge[i].length;
    }
}

void duo_node::post_one(const vqp_frag_t &frag)
{
    unsigned index = frag.path->index;
    unsigned delay = m_params.max_delay *
                     ((index == m_params.slow_path) ? 10 : 1);
    duo_wr wr {};

    check_frag(frag);
    if (m_dead[index]) { /* a broken queue pair takes it and flushes it */
        m_cq.push_back({false, index, frag.pos, 0, VQP_ERR_CANCELED});
        return;
    }

    wr.frag       = frag;
    wr.owner      = (frag.op == nullptr) ? nullptr : (duo_op*)frag.op->user;
    wr.deliver_at = std::max(m_last_deliver[index],
                             m_world.now + random(delay));
    if (frag.flags & VQP_FRAG_FENCE) {
        for (const duo_wr &other : m_wires[index]) {
            if (other.frag.opcode >= VQP_WR_READ) {
                wr.deliver_at = std::max(wr.deliver_at, other.ack_at + 1);
            }
        }
    }
    wr.ack_at = std::max(m_last_ack[index],
                         wr.deliver_at + 1 + random(delay));
    m_last_deliver[index] = wr.deliver_at;
    m_last_ack[index]     = wr.ack_at;

    if (frag.flags & VQP_FRAG_INLINE) {
        wr.data.resize(frag.length);
        gather(frag, wr.data.data());
    }
    if ((frag.opcode == VQP_WR_FADD) || (frag.opcode == VQP_WR_CSWAP)) {
        wr.add  = frag.op->amo.compare_add;
        wr.swap = frag.op->amo.swap;
    }
    m_wires[index].push_back(std::move(wr));
}

/* What was not posted is given up: nothing will come for it */
void duo_node::post_failed(const vqp_batch_t &batch, unsigned first)
{
    std::vector<bool> given_up(m_params.num_paths);

    vqp_tx_fail(&tx, VQP_ERR_IO);
    for (unsigned i = first; i < batch.count; ++i) {
        vqp_path_t *path = batch.frags[i].path;

        if (!given_up[path->index]) {
            given_up[path->index] = true;
            vqp_tx_abandon(&tx, path, batch.frags[i].pos, VQP_ERR_IO);
        }
    }
    break_all();
}

void duo_node::post(const vqp_batch_t &batch)
{
    unsigned good = batch.count;

    if (fail_post && (batch.count > 0)) {
        good = random(batch.count);
    }

    for (unsigned i = 0; i < good; ++i) {
        post_one(batch.frags[i]);
    }

    if (good != batch.count) {
        post_failed(batch, good);
    }
}

/* Is all of it inside memory that the other side gave? */
void duo_node::check_remote(const duo_wr &wr)
{
    const char *begin = (const char*)(uintptr_t)wr.frag.raddr;
    const char *end   = begin + wr.frag.length;

    for (const std::vector<char> *memory : {&peer->m_ring, &peer->m_cells_in,
                                            &peer->m_heap}) {
        if ((begin >= memory->data()) &&
            (end <= memory->data() + memory->size())) {
            return;
        }
    }

    if ((wr.frag.length > 0) && (begin != (const char*)&peer->m_counter)) {
        fail("access outside of remote memory");
    }
}

/* The peer's memory has it: was it its turn? */
void duo_node::effect(duo_wr &wr)
{
    if ((wr.owner == nullptr) || (wr.owner->kind == VQP_KIND_AM)) {
        return;
    }

    if (!precede(wr.owner->after)) {
        fail("executed before what a fence puts in front of it");
    }
    wr.owner->effect += wr.frag.length;
}

/* The frag arrives at the peer */
void duo_node::execute(duo_wr &wr)
{
    char *remote   = (char*)(uintptr_t)wr.frag.raddr;
    unsigned index = wr.frag.path->index;

    check_remote(wr);
    switch (wr.frag.opcode) {
    case VQP_WR_READ:
        return; /* its response may be as late as its acknowledgement */
    case VQP_WR_FADD:
    case VQP_WR_CSWAP:
        memcpy(&wr.result, remote, sizeof(wr.result));
        if (wr.frag.opcode == VQP_WR_FADD) {
            wr.swap = wr.result + wr.add;
        }
        if ((wr.frag.opcode == VQP_WR_FADD) || (wr.result == wr.add)) {
            memcpy(remote, &wr.swap, sizeof(wr.swap));
        }
        break;
    default:
        if (!(wr.frag.flags & VQP_FRAG_INLINE)) {
            wr.data.resize(wr.frag.length);
            gather(wr.frag, wr.data.data());
        }
        std::copy(wr.data.begin(), wr.data.end(), remote);
    }

    effect(wr);
    if (wr.frag.opcode == VQP_WR_WRITE_IMM) {
        if (peer->m_receives[index]-- == 0) {
            fail("receiver not ready: an immediate without a receive");
        }
        peer->m_cq.push_back({true, index, 0, wr.frag.imm, VQP_OK});
    }
}

/* An HCA may read the source again until it is acknowledged. (Control cells
 * change meanwhile: any mixture of them is true.) */
void duo_node::check_source(const duo_wr &wr)
{
    std::vector<char> again(wr.data.size());

    if ((wr.frag.flags & VQP_FRAG_INLINE) || wr.data.empty() ||
        (wr.frag.kind == VQP_KIND_CONTROL)) {
        return;
    }

    gather(wr.frag, again.data());
    if (again != wr.data) {
        fail("source changed before it was acknowledged");
    }
}

/* The acknowledgement or the response is back */
void duo_node::acknowledge(duo_wr &wr)
{
    const char *remote = (const char*)(uintptr_t)wr.frag.raddr;

    check_source(wr);
    if (wr.frag.opcode == VQP_WR_READ) {
        effect(wr);
        for (unsigned i = 0; i < wr.frag.nsge; ++i) {
            memcpy((char*)(uintptr_t)wr.frag.sge[i].addr, remote,
                   wr.frag.sge[i].length);
            remote += wr.frag.sge[i].length;
        }
    } else if (wr.frag.opcode > VQP_WR_READ) {
        memcpy((char*)(uintptr_t)wr.frag.sge[0].addr, &wr.result,
               sizeof(wr.result));
    }

    if (wr.frag.flags & VQP_FRAG_SIGNALED) {
        m_cq.push_back({false, wr.frag.path->index, wr.frag.pos, 0, VQP_OK});
    }
}

void duo_node::deliver()
{
    for (unsigned i = 0; i < m_params.num_paths; ++i) {
        std::deque<duo_wr> &wire = m_wires[i];
        size_t &count            = m_delivered[i];

        while ((count < wire.size()) &&
               (wire[count].deliver_at <= m_world.now)) {
            execute(wire[count++]);
        }

        while ((count > 0) && (wire.front().ack_at <= m_world.now)) {
            acknowledge(wire.front());
            wire.pop_front();
            --count;
        }
    }
}

void duo_node::break_path(unsigned index)
{
    for (const duo_wr &wr : m_wires[index]) {
        m_cq.push_back({false, index, wr.frag.pos, 0, VQP_ERR_TIMEOUT});
    }
    m_wires[index].clear();
    m_delivered[index] = 0;
    m_dead[index]      = true;
}

void duo_node::break_all()
{
    if (!tx.failed) {
        vqp_tx_fail(&tx, VQP_ERR_RESET);
    }
    m_touched = true; /* there may be no CQE to report from */
    for (unsigned i = 0; i < m_params.num_paths; ++i) {
        break_path(i);
    }

    for (vqp_tx_last_words(&tx, m_batch.get()); m_batch->count > 0;
         vqp_tx_last_words(&tx, m_batch.get())) {
        for (unsigned i = 0; i < m_batch->count; ++i) {
            post_one(m_batch->frags[i]);
        }
    }
}
