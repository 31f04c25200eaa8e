/*
 * What must be true of one direction of a connection: what its user accepted,
 * what happened to it at the peer, what was reported. Knows nothing of how the
 * core does it; counts frags and completions for itself.
 */
#ifndef VQP_SIM_ORACLE_H
#define VQP_SIM_ORACLE_H

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "core/vqp.h"
}

namespace sim {

class world;

/* Byte i of a message or of memory */
inline char pattern_byte(uint32_t seed, uint64_t i)
{
    return (char)((seed * 2654435761u + (uint32_t)i * 40503u) >> 13);
}

void pattern_fill(char *to, uint64_t length, uint32_t seed,
                  uint64_t first = 0);
bool pattern_matches(const char *data, uint64_t length, uint32_t seed,
                     uint64_t first = 0);

/* One accepted call, as its user sees it */
struct op {
    vqp_kind_t        kind;
    uint32_t          id;                 /* also the pattern of its bytes */
    uint32_t          index;              /* in order of acceptance */
    std::vector<char> memory;             /* source or target */
    char             *remote    = nullptr;
    uint64_t          length    = 0;
    uint64_t          executed  = 0;      /* bytes that are at the peer */
    uint64_t          twice     = 0;      /* bytes that may be executed again, for
                                             nobody knew that they were */
    size_t            after     = 0;      /* effects that come first */
    size_t            after_ams = 0;      /* AMs whose bytes come first; of a
                                             flush, that can be delivered */
    uint32_t          pattern   = 0;      /* of a get: what is to be read */
    uint64_t          result    = 0;      /* of an atomic */
    uint64_t          expected  = 0;      /* cswap: what is found there */
    bool              signal    = false;
    bool              awaited   = false;  /* its user wants a report */
    unsigned          reported  = 0;
    vqp_status_t      status    = VQP_OK; /* as reported */
    /* by the oracle's own count */
    uint64_t          total     = 0;      /* bytes that frags carry */
    uint64_t          posted    = 0;
    unsigned          frags     = 0;
    unsigned          again     = 0;      /* of the frags: to be posted again */
    unsigned          confirmed = 0;
    bool              may_fail  = false;  /* nobody knows whether it was executed */
    bool              is_own    = false;  /* an op of the core's own */
    bool              announced = false;  /* AM: its last immediate is posted */
    uint32_t          fsn       = 0;      /* of that */

    bool is_executed(uint64_t bytes) const
    {
        return (executed >= bytes) && (executed <= bytes + twice);
    }

    bool is_complete() const
    {
        if (kind == VQP_KIND_BARRIER) {
            return is_own || (reported > 0);
        }
        return (frags > 0) && (frags == confirmed) && (posted == total) &&
               ((kind != VQP_KIND_AM) || announced);
    }
};

/* Whose frag it is; none for control, nops, and the frags that a barrier waits for */
static inline op *owner_of(const vqp_frag_t &frag)
{
    return ((frag.op == nullptr) || (frag.op->kind == VQP_KIND_BARRIER)) ?
                   nullptr : (op*)frag.op->user;
}

class channel {
public:
    channel(world &w, uint32_t id, bool comp_post, bool order_all);

    /* ---- its user ---- */
    op *accept(vqp_kind_t kind, uint64_t length, uint64_t total);
    void forget_last();
    /* A number for the content of the next AM */
    uint32_t am_pattern() const;
    /* o: whose frags carry it */
    void accept_am(op *o, uint32_t pattern, uint8_t am_id, uint32_t payload);
    void accept_effect(op *o);
    void fence();
    op *flush();
    /* An atomic without a user, of which the core does not know whether it was executed */
    void lost(const op *o);
    /* The endpoint has ended: the next one is not told what this one has lost */
    void forget_lost() { m_lost.clear(); }
    /* A flush had nothing to wait for */
    void check_lost_flushed(bool is_reported);
    /* The core has accepted an op of its own: a barrier that probes the peer, or a
     * control record */
    void own_op();
    void report(op *o, const vqp_done_t &done, bool failed);
    void cancel(op *o);

    /* ---- its queue pairs ---- */
    void posted(op *o, const vqp_frag_t &frag, bool is_replay);
    void confirmed(op *o);
    /* A post failed, and will be made on another queue pair */
    void delayed(op *o);
    /* It will be posted again: its queue pair has died before it was executed, or
     * before anybody knew */
    void unposted(op *o, uint64_t length, bool announced, bool executed);
    void executed(op *o, uint64_t bytes, bool is_late);
    void number_landed(uint32_t fsn);

    /* ---- the peer ---- */
    bool delivered(const vqp_rx_am_t &am);

    /* After completions were handled: what is complete was reported, nothing else was. */
    void check_reports(const vqp_tx_t &tx);
    void check_flushes(const vqp_tx_t &tx);
    /* Each AM so far waits for nothing that is not at the peer */
    void check_all_deliverable();
    /* Nothing is under way */
    void check_ended();
    /* All that was sent has arrived: unless it was broken */
    void check_delivered();
    void check_memory();
    bool is_satisfied() const;
    /* Does the user wait for an op, or does one use its memory? */
    bool has_unreported() const;
    std::string str() const;

    uint32_t id;
    bool     broken  = false;  /* one of its ends failed, or its process died */
    bool     crashed = false;  /* its user died */
    bool     tainted = false;  /* of a byzantine peer: only the user's side holds */
    bool     stalled = false;  /* a path stood still for long */
    size_t   ams_seen = 0;
    uint32_t next_fsn = 0;     /* numbers before this one are at the peer */

    std::vector<op*> effects;
    size_t           fenced     = 0;
    size_t           fenced_ams = 0;

private:
    uint32_t number_of_oldest(const vqp_tx_t &tx) const;
    struct am {
        op      *owner;
        uint32_t pattern;
        uint32_t length;
        uint8_t  am_id;
        size_t   after;
    };

    bool effects_done(size_t count);
    bool ams_landed(size_t count);
    void check_deliverable(size_t count);
    void fail(const char *checker, const std::string &text);
    void check_result(op *o);
    void check_flush(const op *o);
    void flush_ended(op *o);
    void check_lost(size_t before, bool is_reported);

    world                          &m_world;
    bool                            m_comp_post, m_order_all;
    std::vector<std::unique_ptr<op>> m_ops;
    std::vector<am>                 m_ams;
    std::deque<op*>                 m_flushes;
    std::vector<size_t>             m_lost; /* atomics without a user: not reported yet */
    std::set<uint32_t>              m_fsns_ahead; /* at the peer, too early */
    std::vector<op*>                m_fresh; /* complete since the last check */
    size_t                          m_effects_done = 0;
    size_t                          m_ams_landed   = 0;
    size_t                          m_oldest       = 0; /* not complete */
    uint32_t                        m_last_index   = 0; /* reported, + 1 */
};

} /* namespace sim */

#endif
