/*
 * Two cores and a toy network between them, deterministic from a seed: paths
 * are FIFO, delays are random, so paths overtake each other. The network reads
 * and writes the real memory of both sides when a frag is delivered, as late as
 * an HCA may. Whatever does not hold ends the run with a message in failure().
 */
#ifndef VQP_TEST_DUO_H
#define VQP_TEST_DUO_H

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "core/fast.h"
#include "core/rx.h"
#include "core/tx.h"
}

/* Byte i of a message or of memory */
inline char duo_byte(uint32_t seed, uint64_t i)
{
    return (char)((seed * 2654435761u + (uint32_t)i * 40503u) >> 13);
}

inline void
duo_fill(char *to, uint64_t length, uint32_t seed, uint64_t first = 0)
{
    for (uint64_t i = 0; i < length; ++i) {
        to[i] = duo_byte(seed, first + i);
    }
}

inline bool duo_matches(const char *data, uint64_t length, uint32_t seed,
                        uint64_t first = 0)
{
    for (uint64_t i = 0; i < length; ++i) {
        if (data[i] != duo_byte(seed, first + i)) {
            return false;
        }
    }
    return true;
}

const size_t   DUO_HEAP_SIZE = 256 * 1024; /* the target of puts and gets */
const uint32_t DUO_HEAP_SEED = 0;          /* ids of ops start with 1 */
const unsigned DUO_MAX_IOV   = 7;

/* What a pair is made of: drawn from the seed */
struct duo_params {
    unsigned num_paths;
    uint32_t window;
    uint32_t ring_size;
    uint16_t depth;
    uint16_t imms_max;
    uint16_t rx_batch;     /* receives are reposted in batches of so many */
    uint16_t reads_max;
    uint32_t am_ops;
    uint32_t rma_ops;
    uint32_t signal_every;
    uint64_t path_cap;
    uint32_t inline_max;
    uint8_t  frag_shift;
    uint8_t  min_shift;
    uint8_t  notify;
    uint8_t  sched;
    uint8_t  order_all;
    uint8_t  comp_post;
    uint8_t  no_fast;
    uint32_t first_fsn;
    uint32_t first_pos;    /* ring position and op number to start with */
    unsigned max_delay;
    unsigned slow_path;    /* takes much longer, if there is such a path */
    unsigned actions;      /* of each side */
    unsigned stall_percent;
    unsigned rma_percent;
    unsigned echo_percent; /* handlers that send on the same connection */

    static duo_params draw(std::mt19937 &rng);
    std::string str() const;
};

/* One accepted call, as its user sees it */
struct duo_op {
    vqp_kind_t        kind;
    uint32_t          id;
    std::vector<char> memory;        /* source or target */
    char             *remote   = nullptr;
    uint64_t          length   = 0;
    uint64_t          effect   = 0;  /* bytes executed at the peer */
    size_t            after    = 0;  /* effects that precede it */
    uint32_t          pattern  = 0;  /* of a get: what is to be read */
    uint64_t          result   = 0;  /* of an atomic */
    uint64_t          expected = 0;  /* cswap: what is found there */
    bool              signal   = false;
    bool              awaited  = false;
    unsigned          reported = 0;
    uint32_t          seq      = 0;
};

/* An AM on its way, as the sender remembers it */
struct duo_am {
    uint32_t length;
    uint8_t  id;
    size_t   after; /* effects that have to be seen by then */
};

struct duo_cqe {
    bool         is_recv;
    unsigned     path;
    uint16_t     pos;
    uint32_t     imm;
    vqp_status_t status;
};

/* A posted work request */
struct duo_wr {
    vqp_frag_t        frag;
    duo_op           *owner;
    std::vector<char> data; /* written, or given inline */
    uint64_t          add, swap, result;
    uint64_t          deliver_at, ack_at;
};

class duo;

/* One side: a core, its memory, the glue, and a program that uses it */
class duo_node {
public:
    duo_node(duo &world, unsigned index, const duo_params &params);

    /* After the peer is known */
    void connect();
    /* The program's next call, if it has one and does not wait */
    void act();
    /* Poll completions, deliver, report, dispatch, retry */
    void progress();
    void kick();
    /* The network: delivery and acknowledgement of what this side posted */
    void deliver();
    bool is_idle() const;
    /* Everything that the program waits for has come */
    bool is_satisfied() const;
    /* Nothing is on the way, nothing is held, all memory is as it must be */
    void check_drained();

    /* What is on the path ends with errors; the rest follows */
    void break_path(unsigned index);
    void break_all();
    bool is_broken() const { return tx.failed; }
    /* Each op was reported once */
    void check_broken();
    std::string str() const;

    bool        fail_post = false; /* the next post fails in its middle */
    uint64_t    stalled   = 0;     /* does not progress before this time */
    duo_node   *peer      = nullptr;
    vqp_tx_t    tx;
    vqp_rx_t    rx;
    vqp_stats_t stats {};

private:
    enum what {
        AM_SHORT, AM_BCOPY, AM_ZCOPY, PUT_SHORT, PUT, GET, FADD, CSWAP, CHECK,
        FENCE, FLUSH
    };

    struct plan {
        what     call;
        uint32_t length;
        uint32_t max;
        bool     valid;
    };

    struct flush {
        uint32_t mark;
        size_t   effects;
    };

    /* duo_program.cc: what the program does */
    void draw_plan();
    bool perform();
    bool send_am(uint32_t length, uint32_t max, bool zcopy);
    bool send_fast_am(vqp_op_t *op, vqp_record_t *record, uint8_t id,
                      uint32_t length);
    bool start_rma();
    bool start_fast_put(vqp_op_t *op);
    void post_fast(vqp_path_t *path, vqp_op_t *op, uint64_t addr,
                   uint32_t lkey, unsigned flags);
    void fill_rma(vqp_op_t *op, duo_op *user);
    void fill_get(duo_op *user);
    duo_op *new_op(vqp_kind_t kind, uint64_t length);
    void split(vqp_op_t *op, duo_op *user, bool is_am);
    char *target(uint64_t length);

    /* duo_node.cc: the glue, and what it checks */
    uint32_t random(uint32_t below);
    void setup_tx();
    void pump();
    void on_send(const duo_cqe &cqe);
    void on_recv(const duo_cqe &cqe);
    void on_flags(uint32_t flags);
    void deliver_am(const vqp_rx_am_t &am);
    void report();
    void check_done(duo_op &op, const vqp_done_t &done);
    void check_flushes();
    void check_heap();
    bool precede(size_t effects);
    void fail(const std::string &text);

    /* duo_net.cc: the network */
    void post(const vqp_batch_t &batch);
    void post_one(const vqp_frag_t &frag);
    void post_failed(const vqp_batch_t &batch, unsigned first);
    void check_frag(const vqp_frag_t &frag);
    void check_remote(const duo_wr &wr);
    void check_source(const duo_wr &wr);
    void gather(const vqp_frag_t &frag, char *to);
    void execute(duo_wr &wr);
    void acknowledge(duo_wr &wr);
    void effect(duo_wr &wr);

    duo                                     &m_world;
    unsigned                                 m_index;
    duo_params                               m_params;
    std::vector<vqp_path_t>                  m_paths;
    std::vector<std::vector<vqp_inflight_t>> m_inflight;
    std::vector<vqp_op_t>                    m_am_ops, m_rma_ops;
    std::vector<vqp_iov_t>                   m_iov_ext;
    std::vector<uint8_t>                     m_fsn_path, m_map;
    std::vector<char>                        m_ring, m_mirror;
    std::vector<char>                        m_cells_in, m_cells_out;
    std::vector<uint64_t>                    m_amo_results;
    std::vector<char>                        m_heap; /* the peer's target */
    size_t                                   m_heap_used = 0;
    uint64_t                                 m_counter   = 0;
    uint32_t                                 m_lkeys[2], m_rkeys[2];
    std::unique_ptr<vqp_batch_t>             m_batch;

    std::vector<std::deque<duo_wr>>          m_wires;     /* not acknowledged */
    std::vector<size_t>                      m_delivered; /* of these */
    std::vector<bool>                        m_dead;      /* in error */
    std::vector<uint64_t>                    m_last_deliver, m_last_ack;
    std::vector<unsigned>                    m_receives, m_to_repost;
    std::vector<uint16_t>                    m_next_pos;
    std::deque<duo_cqe>                      m_cq;

    plan                                     m_plan {};
    unsigned                                 m_todo;
    bool                                     m_waiting = false;
    bool                                     m_touched = false;
    std::vector<std::unique_ptr<duo_op>>     m_ops;
    std::vector<duo_op*>                     m_effects;
    size_t                                   m_effects_seen = 0;
    size_t                                   m_fenced       = 0;
    std::vector<duo_am>                      m_ams;
    size_t                                   m_ams_seen     = 0; /* peer's */
    std::vector<flush>                       m_flushes;
    std::vector<bool>                        m_fetched;
    uint64_t                                 m_fadds        = 0;
    uint32_t                                 m_last_seq     = 0;
};

class duo {
public:
    explicit duo(uint32_t seed);

    /* Run the workload, then to quiescence, then drain */
    bool run();
    /* The same, with a failure on the way */
    bool run_failing();

    const std::string &failure() const { return m_failure; }
    duo_node &node(unsigned index) { return *m_nodes[index]; }

    std::mt19937 rng;
    uint64_t     now = 1;

private:
    friend class duo_node;

    bool step();
    bool settle();
    void fail(const std::string &text);

    uint32_t                  m_seed;
    duo_params                m_params;
    std::unique_ptr<duo_node> m_nodes[2];
    std::string               m_failure;
};

#endif
