/* The product's sender and a fixed split, see sender.h. */
#include "sender.h"

#include <algorithm>

namespace clos {

namespace {

/* Defaults of the transport's options */
const uint64_t KIB          = 1024;
const uint32_t SEND_DEPTH   = 64;
const uint32_t NUM_OPS      = 128;
const uint32_t RING_SIZE    = 128 * KIB;
const uint32_t FSN_WINDOW   = 128;
const uint8_t  FRAG_SHIFT   = 16;
const uint8_t  MIN_SHIFT    = 14;
const uint8_t  LARGE_SHIFT  = 30; /* of frags on a single path */

class vqp_sender : public sender {
public:
    vqp_sender(vqp_sched_t sched, unsigned paths, uint64_t path_bytes) :
        m_paths(paths, vqp_path_t()), m_inflight(paths * SEND_DEPTH),
        m_am_ops(NUM_OPS), m_rma_ops(NUM_OPS), m_mirror(RING_SIZE),
        m_cells(paths * VQP_CELL_STRIDE), m_results(NUM_OPS)
    {
        for (unsigned i = 0; i < paths; ++i) {
            vqp_path_t &path = m_paths[i];

            path.inflight  = &m_inflight[i * SEND_DEPTH];
            path.mask      = SEND_DEPTH - 1;
            path.depth     = SEND_DEPTH - 1;
            path.index     = (uint8_t)i;
            path.up        = 1;
        }

        vqp_tx_config_t cfg = vqp_tx_config_t();

        cfg.ring_size    = RING_SIZE;
        cfg.fsn_window   = FSN_WINDOW;
        cfg.path_cap     = (path_bytes > 0) ? path_bytes :
                           ((paths == 1) ? 1024 * KIB :
                            std::max(128 * KIB, 512 * KIB / paths));
        cfg.signal_every = std::max(1u, std::min(SEND_DEPTH / 4,
                                                 NUM_OPS / (4 * paths)));
        cfg.max_shift    = 31;
        cfg.frag_shift   = (paths == 1) ? LARGE_SHIFT : FRAG_SHIFT;
        cfg.min_shift    = MIN_SHIFT;
        cfg.notify       = VQP_NOTIFY_DQPLB;
        cfg.sched        = (uint8_t)sched;
        cfg.mirror       = m_mirror.data();
        cfg.local_lkeys  = &m_key;
        cfg.ring_rkeys   = &m_key;
        cfg.cells        = (vqp_cell_t*)m_cells.data();
        cfg.amo_results  = m_results.data();
        vqp_tx_init(&m_tx, &cfg, m_am_ops.data(), NUM_OPS, m_rma_ops.data(),
                    NUM_OPS, m_paths.data(), paths, &m_stats);
    }

    void start(uint64_t length, uint64_t now) override
    {
        vqp_op_t *op = vqp_tx_rma_begin(&m_tx);

        m_tx.clock.now = now;
        op->kind       = VQP_KIND_PUT;
        op->flags      = VQP_OP_SIGNAL;
        op->length     = length;
        op->raddr      = 0;
        op->rma.rkeys  = &m_key;
        op->user       = this;
        op->user_kind  = 1;
        *vqp_tx_op_iov(&m_tx, op, 1) = vqp_iov_t {0, length, &m_key};
        vqp_tx_rma_set_frag_size(&m_tx, op);
        vqp_tx_rma_commit(&m_tx, op);
    }

    bool confirm(unsigned path, uint16_t slot, uint64_t seen,
                 uint64_t now) override
    {
        vqp_done_t done;

        m_tx.clock.seen   = seen;
        m_tx.clock.now    = now;
        m_tx.clock.looked = now; /* it polls all the time */
        vqp_tx_retire(&m_tx, &m_paths[path], slot, VQP_OK);
        return vqp_tx_pop_done(&m_tx, &done) != 0;
    }

    void take(std::vector<post> &posts) override
    {
        const vqp_credit_t credit = vqp_credit_t();

        do {
            m_batch.count = 0;
            vqp_tx_dispatch(&m_tx, &m_batch, &credit);
            for (unsigned i = 0; i < m_batch.count; ++i) {
                const vqp_frag_t &frag = m_batch.frags[i];

                posts.push_back({frag.path->index, frag.slot, frag.length,
                                 (frag.flags & VQP_FRAG_SIGNALED) != 0});
            }
        } while (m_batch.count == VQP_BATCH_MAX);
    }

private:
    vqp_tx_t                    m_tx;
    vqp_batch_t                 m_batch;
    vqp_stats_t                 m_stats = vqp_stats_t();
    uint32_t                    m_key   = 0;
    std::vector<vqp_path_t>     m_paths;
    std::vector<vqp_inflight_t> m_inflight;
    std::vector<vqp_op_t>       m_am_ops, m_rma_ops;
    std::vector<char>           m_mirror, m_cells;
    std::vector<uint64_t>       m_results;
};

class fixed_sender : public sender {
public:
    explicit fixed_sender(unsigned paths) : m_num_paths(paths) {}

    void start(uint64_t length, uint64_t) override
    {
        m_parts.clear();
        for (unsigned i = 0; i < m_num_paths; ++i) {
            uint64_t begin = length * i / m_num_paths;
            uint64_t end   = length * (i + 1) / m_num_paths;

            m_parts.push_back({i, 0, (uint32_t)(end - begin), true});
        }
        m_pending = m_num_paths;
    }

    bool confirm(unsigned, uint16_t, uint64_t, uint64_t) override
    {
        return --m_pending == 0;
    }

    void take(std::vector<post> &posts) override
    {
        posts.insert(posts.end(), m_parts.begin(), m_parts.end());
        m_parts.clear();
    }

private:
    unsigned          m_num_paths;
    unsigned          m_pending = 0;
    std::vector<post> m_parts;
};

} /* namespace */

std::unique_ptr<sender>
sender::make(policy which, unsigned paths, uint64_t path_bytes)
{
    vqp_sched_t sched = (which == policy::LEFT) ? VQP_SCHED_LEFT : VQP_SCHED_RR;

    if (which == policy::FIXED) {
        return std::unique_ptr<sender>(new fixed_sender(paths));
    }

    return std::unique_ptr<sender>(new vqp_sender(sched, paths, path_bytes));
}

} /* namespace */
