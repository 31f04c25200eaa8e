/*
 * Who hears active messages in the mix, and the memory that puts, gets and
 * atomics go to. Each endpoint of a speaker is a life with a number of its own,
 * and has a seat in the memory. Of a life, messages come in order from the
 * first one on, each with its bytes, and not before the put that it tells of.
 */
#ifndef VQP_SOAK_EARS_H
#define VQP_SOAK_EARS_H

#include "stream.h"

#include "test/uct/uct_fixture.h"

#include <map>

constexpr size_t   SEAT_SLOTS = STREAM_SLOTS * STREAM_SLOT_SIZE;
constexpr size_t   SEAT_SIZE  = SEAT_SLOTS + 4096; /* a counter behind them */
constexpr unsigned SEATS      = 32;

class ears {
public:
    enum { am_id = 1 };

    explicit ears(node &where);

    unsigned heard(uint32_t life) const
    {
        auto found = lives.find(life);

        return (found == lives.end()) ? 0 : found->second;
    }

    /* All but the first life, which lasts */
    void forget_guests() { lives.erase(lives.upper_bound(1), lives.end()); }

    const std::string &complaints() const { return text; }

    /* Address and key of the memory, for one that speaks */
    std::string card() const;

    uint64_t total = 0; /* messages */

private:
    ucs_status_t hear(const char *data, size_t length);
    void complain(const stream_head &head, const std::string &what);

    node   &where;
    memory seats;
    std::string source; /* the pattern */
    std::map<uint32_t, unsigned> lives; /* messages of each */
    std::string text;
};

#endif
