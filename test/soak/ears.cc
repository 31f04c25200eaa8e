/* Who hears in the mix, see ears.h. */
#include "ears.h"

#include <algorithm>

ears::ears(node &where_) :
        where(where_), seats(where, SEATS * SEAT_SIZE), source(STREAM_PATTERN, 0)
{
    for (size_t i = 0; i < source.size(); ++i) {
        source[i] = pattern(1, i);
    }
    where.on_am(am_id, [this](const char *data, size_t length) {
        return hear(data, length);
    });
}

std::string ears::card() const
{
    return to_hex(where.address()) + " " + to_hex(seats.packed_key()) + " " +
           std::to_string(seats.addr());
}

void ears::complain(const stream_head &head, const std::string &what)
{
    if (text.size() < 2000) {
        text += "message " + std::to_string(head.message) + " of life " +
                std::to_string(head.sender) + ": " + what + "\n";
    }
}

ucs_status_t ears::hear(const char *data, size_t length)
{
    stream_head head = {};

    memcpy(&head, data, std::min(length, sizeof(head)));
    ++total;
    if (length != sizeof(head) + head.length) {
        complain(head, "has " + std::to_string(length) + " bytes");
        return UCS_OK;
    }

    unsigned &next     = lives[head.sender];
    const char *seat   = seats.data + (head.sender % SEATS) * SEAT_SIZE;
    size_t put_length  = head.stamp;
    size_t offset      = stream_offset(head.sender, head.message, head.length);

    if (head.message != next) {
        complain(head, std::to_string(next) + " was to come");
    }
    next = head.message + 1;
    if (memcmp(data + sizeof(head), source.data() + offset, head.length) != 0) {
        complain(head, "its bytes are wrong");
    }
    if (head.last && !stream_put_check(seat + (head.batch % STREAM_SLOTS) *
                                       STREAM_SLOT_SIZE, put_length,
                                       head.batch)) {
        complain(head, "the put of which it tells is not there");
    }
    return UCS_OK;
}
