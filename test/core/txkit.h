/*
 * A sender alone, for tests of single frags: nothing is executed, so addresses
 * are only numbers.
 */
#ifndef VQP_TEST_TXKIT_H
#define VQP_TEST_TXKIT_H

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <vector>

extern "C" {
#include "core/data/control.h"
#include "core/vqp.h"
}

class txkit : public ::testing::Test {
protected:
    static constexpr uint64_t RING_ADDR = 0x100000, CELLS_ADDR = 0x200000,
                              HEAP_ADDR = 0x7f0000000000, USER_ADDR = 0x5000;

    /* Change m_cfg and the numbers below before start() */
    txkit() {
        m_cfg.ring_size    = 4096;
        m_cfg.fsn_window   = 64;
        m_cfg.first_fsn    = 100;
        m_cfg.path_cap     = UINT64_MAX;
        m_cfg.signal_every = 1000;
        m_cfg.inline_max   = 64;
        m_cfg.frag_shift   = 16;
        m_cfg.max_shift    = 31;
        m_cfg.min_shift    = 8;
        m_cfg.notify       = VQP_NOTIFY_DQPLB;
        m_cfg.sched        = VQP_SCHED_RR;
    }

    /* A sender */
    void start(unsigned num_paths) {
        prepare(num_paths);
        vqp_tx_init(&m_tx, &m_cfg, m_am_ops.data(), m_num_ops,
                    m_rma_ops.data(), m_num_ops, m_paths.data(), num_paths,
                    &m_stats);
    }

    void prepare(unsigned num_paths) {
        unsigned entries = 1;

        while (entries < m_depth + 2u) { /* see vqp_replay_pack() */
            entries *= 2;
        }

        m_mirror.resize(m_cfg.ring_size);
        m_cells.resize(num_paths * VQP_CELL_STRIDE);
        m_results.resize(std::max(m_num_ops, m_cfg.most_ops));
        m_am_ops.resize(m_num_ops);
        m_rma_ops.resize(m_num_ops);
        m_paths.assign(num_paths, vqp_path_t {});
        m_inflight.assign(num_paths, std::vector<vqp_inflight_t>(entries));
        for (unsigned i = 0; i < num_paths; ++i) {
            m_paths[i].inflight  = m_inflight[i].data();
            m_paths[i].mask      = (uint16_t)(entries - 1);
            m_paths[i].depth     = m_depth;
            m_paths[i].index     = (uint8_t)i;
            m_paths[i].up        = 1;
        }

        m_cfg.mirror      = m_mirror.data();
        m_cfg.local_lkeys = &m_lkey;
        m_cfg.ring_raddr  = RING_ADDR;
        m_cfg.cells_raddr = CELLS_ADDR;
        m_cfg.ring_rkeys  = m_rkeys;
        m_cfg.cells       = (vqp_cell_t*)m_cells.data();
        m_cfg.amo_results = m_results.data();
    }

    /* An AM in the mirror; false if it was refused */
    bool am(uint32_t length, void *user = nullptr, uint32_t max = 0) {
        vqp_tx_am_t am;

        if (!vqp_tx_am_begin(&m_tx, max ? max : length, 0, &am)) {
            return false;
        }
        am.op->user      = user;
        am.op->user_kind = user != nullptr;
        vqp_tx_am_commit(&m_tx, am, 1, length, length, &m_credit);
        return true;
    }

    /* Calls of the owner of the sender */
    void want_credit() { m_tx.slow |= VQP_TX_CREDIT; }

    void probe()
    {
        ASSERT_TRUE(vqp_tx_barrier(&m_tx, VQP_OP_PROBE, nullptr, 0, VQP_OK));
    }

    /* A put or get from one piece */
    bool rma(vqp_kind_t kind, uint64_t length, void *user = nullptr,
             uint16_t flags = VQP_OP_SIGNAL) {
        return rma_iov(kind, {{USER_ADDR, length, &m_lkey}}, user, flags);
    }

    bool rma_iov(vqp_kind_t kind, const std::vector<vqp_iov_t> &pieces,
                 void *user = nullptr, uint16_t flags = VQP_OP_SIGNAL) {
        vqp_op_t *op = begin(kind, user, flags);
        vqp_iov_t *iov;

        if (op == nullptr) {
            return false;
        }
        iov = vqp_tx_op_iov(&m_tx, op, (unsigned)pieces.size());
        for (size_t i = 0; i < pieces.size(); ++i) {
            iov[i]      = pieces[i];
            op->length += pieces[i].length;
        }
        vqp_tx_rma_set_frag_size(&m_tx, op);
        vqp_tx_rma_commit(&m_tx, op);
        return true;
    }

    bool fadd(uint64_t *result, void *user = nullptr,
              uint16_t flags = VQP_OP_SIGNAL, uint8_t rail = 0) {
        vqp_op_t *op = begin(VQP_KIND_FADD, user, flags);

        if (op == nullptr) {
            return false;
        }
        op->length          = 8;
        op->frag_shift      = 3;
        op->amo.compare_add = 1;
        op->amo.result      = result;
        op->amo.rail        = rail;
        vqp_tx_rma_commit(&m_tx, op);
        return true;
    }

    bool barrier(void *user, unsigned flags = VQP_OP_BUFFER) {
        return vqp_tx_barrier(&m_tx, flags, user, user != nullptr, VQP_OK) != 0;
    }

    vqp_op_t *begin(vqp_kind_t kind, void *user, uint16_t flags) {
        vqp_op_t *op = vqp_tx_rma_begin(&m_tx);

        if (op != nullptr) {
            op->kind      = (uint8_t)kind;
            op->flags     = flags;
            op->length    = 0;
            op->raddr     = HEAP_ADDR;
            op->rma.rkeys = m_rkeys;
            op->user      = user;
            op->user_kind = user != nullptr;
        }
        return op;
    }

    /* One batch */
    std::vector<vqp_frag_t> batch() {
        std::vector<vqp_frag_t> frags;

        m_batch.count = 0;
        vqp_tx_dispatch(&m_tx, &m_batch, &m_credit);
        for (unsigned i = 0; i < m_batch.count; ++i) {
            vqp_frag_t frag = m_batch.frags[i];

            /* The batch is used again */
            m_sges.emplace_back(frag.sge, frag.sge + frag.nsge);
            frag.sge = m_sges.back().data();
            frags.push_back(frag);
        }
        return frags;
    }

    /* All that may be sent */
    std::vector<vqp_frag_t> dispatch() {
        std::vector<vqp_frag_t> all, some;

        do {
            some = batch();
            all.insert(all.end(), some.begin(), some.end());
        } while (some.size() == VQP_BATCH_MAX);
        return all;
    }

    unsigned retire(const vqp_frag_t &frag, vqp_status_t status = VQP_OK) {
        return vqp_tx_retire(&m_tx, frag.path, frag.slot, status);
    }

    /* All CQEs of the frags come, in order */
    void confirm(const std::vector<vqp_frag_t> &frags,
                 vqp_status_t status = VQP_OK) {
        for (const vqp_frag_t &frag : frags) {
            if (frag.flags & VQP_FRAG_SIGNALED) {
                retire(frag, status);
            }
        }
    }

    /* The peer has consumed all that was sent */
    void credit_all() {
        EXPECT_GE(vqp_tx_credit(&m_tx, m_tx.fc.ring_head, m_tx.fc.fsn_next), 0);
    }

    std::vector<void*> done(vqp_status_t status = VQP_OK) {
        std::vector<void*> users;
        vqp_done_t done;

        while (vqp_tx_pop_done(&m_tx, &done)) {
            EXPECT_EQ(status, done.status);
            users.push_back(done.user);
        }
        return users;
    }

    static unsigned count(const std::vector<vqp_frag_t> &frags,
                          vqp_kind_t kind) {
        unsigned n = 0;

        for (const vqp_frag_t &frag : frags) {
            n += frag.kind == kind;
        }
        return n;
    }

    static unsigned signaled(const std::vector<vqp_frag_t> &frags) {
        unsigned n = 0;

        for (const vqp_frag_t &frag : frags) {
            n += (frag.flags & VQP_FRAG_SIGNALED) != 0;
        }
        return n;
    }

    static uint64_t bytes(const std::vector<vqp_frag_t> &frags) {
        uint64_t sum = 0;

        for (const vqp_frag_t &frag : frags) {
            sum += frag.length;
        }
        return sum;
    }

    /* Users: only their addresses matter */
    int                                      u[8];
    vqp_tx_config_t                          m_cfg {};
    uint16_t                                 m_depth     = 40;
    uint32_t                                 m_num_ops   = 64;
    vqp_credit_t                             m_credit {7, 9};
    vqp_t                                    m_vqp {};
    vqp_tx_t                                &m_tx    = m_vqp.tx;
    vqp_stats_t                             &m_stats = m_vqp.stats;
    uint32_t                                 m_lkey = 11, m_rkeys[2] = {22, 23};
    vqp_batch_t                              m_batch;
    std::list<std::vector<vqp_sge_t>>        m_sges; /* of batches before */
    std::vector<vqp_path_t>                  m_paths;
    std::vector<std::vector<vqp_inflight_t>> m_inflight;
    std::vector<vqp_op_t>                    m_am_ops, m_rma_ops;
    std::vector<char>                        m_mirror, m_cells;
    std::vector<uint64_t>                    m_results;
};

#endif
