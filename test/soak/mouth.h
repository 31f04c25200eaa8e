/*
 * One life of an endpoint in the mix: random operations of all kinds, each
 * looked at when it completes. Ends in peace (flushed, everything confirmed
 * and heard), or in the middle.
 */
#ifndef VQP_SOAK_MOUTH_H
#define VQP_SOAK_MOUTH_H

#include "ears.h"

#include <memory>
#include <random>

class mouth {
public:
    /* @param card     Of the ears to speak to.
     * @param life     Not used before with these ears.
     * @param harmed   Errors of the endpoint are to be expected: by faults, or
     *                 because the peer cancels, which ends a connection that
     *                 both sides use. */
    mouth(node &own, const std::string &card, uint32_t life, uint64_t seed,
          bool harmed);
    ~mouth();

    void act();      /* one operation, or none */
    bool finish();   /* call until true: flushed, and nothing is under way */
    void cut();      /* destroy: in the middle, if not finished, and then
                        perhaps after a cancel */
    void expect_harm() { harmed = true; }
    bool failed() const { return ep->errors > 0; }
    unsigned said() const { return messages; }
    uint32_t number() const { return life; }
    const std::string &complaints() const { return text; }
    std::string state() const; /* what is under way, in words */
    uint64_t operations = 0;

private:
    enum { OPS = 16 };

    struct op {
        completion  done;
        const char  *name = nullptr; /* while under way */
        size_t      index;
        size_t      length;
        uint32_t    batch;           /* what a get has to bring */
        uint64_t    result, least;   /* of a fetch */
    };

    struct pending {
        uct_pending_req_t super;
        mouth             *owner;
        bool              waits;
    };

    op *take(const char *name);
    bool started(op *which, ucs_status_t status);
    void completed(op *which);
    void complain(const std::string &what);
    void fence();
    void put();
    void get();
    void message();
    void atomic();
    bool fetch(uint64_t value, uint64_t least);
    void flush_some();
    bool idle() const;
    char *data_of(const op *which) const;
    ucs_status_t post_message(stream_kind kind, size_t length, bool tells);
    static ucs_status_t pending_func(uct_pending_req_t *self);

    node        &own;
    uint32_t     life;
    std::mt19937 random;
    bool         harmed, cancelled = false;
    memory       local;              /* a slot for each operation */
    std::unique_ptr<remote_key> key;
    uint64_t     base;               /* of our seat */
    std::unique_ptr<endpoint> ep;
    op           ops[OPS];
    op           copied;             /* of what is done when it is accepted */
    pending      wait;
    unsigned     unfenced = 0;       /* puts since the last fence */
    uint32_t     batch;              /* of the last put */
    size_t       put_lengths[STREAM_SLOTS] = {};
    uint32_t     put_batches[STREAM_SLOTS] = {};
    unsigned     messages = 0;
    uint64_t     added    = 0;       /* to the counter of our seat */
    unsigned     stage    = 0;       /* of finish() */
    std::string  text;
};

#endif
