/*
 * Receives the active messages of the mix, and owns the target memory of puts,
 * gets and atomics. Each endpoint of a sender is a session, which has a number
 * and a slot of the memory. The messages of a session arrive in order, each
 * with its bytes, and after the put that it announces.
 */
#ifndef VQP_SOAK_MIX_RECEIVER_H
#define VQP_SOAK_MIX_RECEIVER_H

#include "stream.h"

#include "test/uct/uct_fixture.h"

#include <map>

constexpr size_t   COUNTER_OFFSET = STREAM_SLOTS * STREAM_SLOT_SIZE;
constexpr size_t   SLOT_SIZE      = COUNTER_OFFSET + 4096;
constexpr unsigned SLOTS          = 32;

class mix_receiver {
public:
    enum { am_id = 1 };

    explicit mix_receiver(node &where);

    unsigned received(uint32_t session) const
    {
        auto found = sessions.find(session);

        return (found == sessions.end()) ? 0 : found->second;
    }

    /* All sessions but the first, which lasts for the whole run */
    void forget_guests()
    {
        sessions.erase(sessions.upper_bound(1), sessions.end());
    }

    const std::string &errors_found() const { return text; }

    /* Interface address, key and address of the memory, in text for a sender */
    std::string address() const;

    uint64_t total = 0; /* messages */

private:
    ucs_status_t receive(const char *data, size_t length);
    void report(const stream_head &head, const std::string &what);

    node   &where;
    memory slots;
    std::string source; /* the pattern */
    std::map<uint32_t, unsigned> sessions; /* messages of each */
    std::string text;
};

#endif
