/* The receiver of the mix, see mix_receiver.h. */
#include "mix_receiver.h"

#include <algorithm>

mix_receiver::mix_receiver(node &where_) :
        where(where_), slots(where, SLOTS * SLOT_SIZE),
        source(STREAM_PATTERN, 0)
{
    for (size_t i = 0; i < source.size(); ++i) {
        source[i] = pattern(1, i);
    }
    where.on_am(am_id, [this](const char *data, size_t length) {
        return receive(data, length);
    });
}

std::string mix_receiver::address() const
{
    return to_hex(where.address()) + " " + to_hex(slots.packed_key()) + " " +
           std::to_string(slots.addr());
}

void mix_receiver::report(const stream_head &head, const std::string &what)
{
    if (text.size() < 2000) {
        text += "message " + std::to_string(head.message) + " of session " +
                std::to_string(head.sender) + ": " + what + "\n";
    }
}

ucs_status_t mix_receiver::receive(const char *data, size_t length)
{
    stream_head head = {};

    memcpy(&head, data, std::min(length, sizeof(head)));
    ++total;
    if (length != sizeof(head) + head.length) {
        report(head, "has " + std::to_string(length) + " bytes");
        return UCS_OK;
    }

    unsigned &next     = sessions[head.sender];
    const char *slot   = slots.data + (head.sender % SLOTS) * SLOT_SIZE;
    size_t put_length  = head.stamp;
    size_t offset      = stream_offset(head.sender, head.message, head.length);

    if (head.message != next) {
        report(head, std::to_string(next) + " was expected");
    }
    next = head.message + 1;
    if (memcmp(data + sizeof(head), source.data() + offset, head.length) != 0) {
        report(head, "its bytes are wrong");
    }
    if (head.last && !stream_put_check(slot + (head.batch % STREAM_SLOTS) *
                                       STREAM_SLOT_SIZE, put_length,
                                       head.batch)) {
        report(head, "the put that it announces has not arrived");
    }
    return UCS_OK;
}
