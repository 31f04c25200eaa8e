/*
 * One session of an endpoint in the mix: random operations of all kinds, each
 * checked when it completes. A session ends by finish() (flushed, confirmed and
 * received), or by destroy() with operations in flight.
 */
#ifndef VQP_SOAK_MIX_SENDER_H
#define VQP_SOAK_MIX_SENDER_H

#include "mix_receiver.h"

#include <memory>
#include <random>

class mix_sender {
public:
    /* @param receiver_address  mix_receiver::address() of the peer.
     * @param session  Number not used before with this receiver.
     * @param harmed   Errors of the endpoint are expected: from faults, or
     *                 because the peer cancels, which fails the shared
     *                 connection. */
    mix_sender(node &own, const std::string &receiver_address,
               uint32_t session, uint64_t seed, bool harmed);
    ~mix_sender();

    void step();    /* one operation, or none */
    bool finish();  /* call until true: flushed, and nothing is in flight */
    void destroy(); /* if not finished: with operations in flight, at random
                       after a cancel */
    void expect_harm() { harmed = true; }
    void expect_cuts() { cuts = true; } /* paths fail, the endpoint must not: a
                                           fetch may lose its result */
    bool failed() const { return ep->errors > 0; }
    unsigned sent() const { return messages; }
    uint32_t number() const { return session; }
    const std::string &errors_found() const { return text; }
    std::string state() const; /* operations in flight, in words */
    uint64_t operations = 0;

private:
    enum { OPS = 16 };

    struct op {
        completion  done;
        const char  *name = nullptr; /* while in flight */
        size_t      index;
        size_t      length;
        uint32_t    batch;           /* expected by a get */
        uint64_t    result, least;   /* of a fetch */
    };

    struct pending {
        uct_pending_req_t super;
        mix_sender             *owner;
        bool              waits;
    };

    op *start(const char *name);
    bool started(op *which, ucs_status_t status);
    void completed(op *which);
    void report(const std::string &what);
    void fence();
    void put();
    void get();
    void message();
    void atomic();
    bool fetch(uint64_t value, uint64_t least);
    void flush_some();
    bool idle() const;
    char *data_of(const op *which) const;
    ucs_status_t post_message(stream_kind kind, size_t length, bool after_put);
    static ucs_status_t pending_func(uct_pending_req_t *self);

    node        &own;
    uint32_t     session;
    std::mt19937 random;
    bool         harmed, cuts = false, canceled = false;
    memory       local;              /* a slot for each operation */
    std::unique_ptr<remote_key> key;
    uint64_t     base;               /* of our slot at the receiver */
    std::unique_ptr<endpoint> ep;
    op           ops[OPS];
    op           copied;             /* of an operation that completes at once */
    pending      wait;
    unsigned     unfenced = 0;       /* puts since the last fence */
    uint32_t     batch;              /* of the last put */
    size_t       put_lengths[STREAM_SLOTS] = {};
    uint32_t     put_batches[STREAM_SLOTS] = {};
    unsigned     messages = 0;
    uint64_t     added    = 0;       /* to the counter of our slot */
    unsigned     stage    = 0;       /* of finish() */
    std::string  text;
};

#endif
