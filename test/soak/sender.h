/*
 * One sender of the order run: an interface, an endpoint to the receiver, and
 * the operations to post next. It never blocks: step() posts until an operation
 * is refused.
 */
#ifndef VQP_SOAK_SENDER_H
#define VQP_SOAK_SENDER_H

#include "stream.h"

#include "test/uct/uct_fixture.h"

#include <memory>

/* Where the puts of all senders go */
struct stream_target {
    uint64_t   address;
    uct_rkey_t rkey;
};

class sender {
public:
    enum { am_id = 1, hello_id = 2 };

    /* @param domain   Of a node on the same device, or NULL.
     * @param source   The pattern, registered in the same domain. */
    sender(unsigned number, const std::vector<stream_batch> &batches,
           unsigned device, const options &config, node *domain,
           const memory &source, const std::string &address,
           const stream_target &target);

    /* The first message, of an id of its own, which makes the connection.
     * @return false while it is not accepted. */
    bool hello();

    /* Post at most so many operations. @return whether any was accepted. */
    bool step(unsigned count);
    bool posted() const { return batch == batches.size(); }

    /* Everything is posted, confirmed, and reported once. */
    bool done();
    std::string trouble() const { return error; }

    node own;

private:
    bool post_put();
    bool post_am(const stream_op &op);
    bool accepted(ucs_status_t status);

    unsigned         number;
    const std::vector<stream_batch> &batches;
    const memory    &source;
    stream_target    target;
    memory           slots; /* where puts are sent from */
    endpoint         ep;
    completion       put_done[STREAM_SLOTS], am_done;
    unsigned         puts[STREAM_SLOTS] = {};
    unsigned         zcopies = 0;

    unsigned         batch = 0, message = 0, index = 0;
    bool             put_posted = false;
    uint64_t         stamp      = 0;
    std::string      error;
};

#endif
