/* The receiver of the order run, see receiver.h. */
#include "receiver.h"

#include "sender.h"

#include <algorithm>

receiver::receiver(unsigned senders, unsigned num_batches, bool small,
                   const options &config) :
        own(0, config),
        target(own, senders * STREAM_SLOTS * STREAM_SLOT_SIZE),
        batches(stream_make(num_batches, small, stream_limits_of(own.attr))),
        from(senders), pattern_source(own, STREAM_PATTERN)
{
    pattern_source.fill(1);
    for (const stream_batch &batch : batches) {
        expected += batch.messages.size();
    }
    latencies.reserve((size_t)senders * num_batches);

    own.on_am(sender::hello_id, [this](const char *, size_t) {
        ++num_hellos;
        return UCS_OK;
    });
    own.on_am(sender::am_id, [this](const char *data, size_t length) {
        return receive(data, length);
    });
}

void receiver::report(const stream_head &head, const state &at,
                      const char *what)
{
    if (num_wrong++ < 10) {
        text += "sender " + std::to_string(head.sender) + " message " +
                std::to_string(head.message) + " of batch " +
                std::to_string(head.batch) + ": " + what + " (expected " +
                std::to_string(at.message) + " of " +
                std::to_string(at.batch) + ")\n";
    }
}

void receiver::check(const stream_head &head, const char *data, size_t length,
                     const state &at)
{
    const stream_op &put = batches[at.batch].put;
    const char *slot     = target.data +
                           (head.sender * STREAM_SLOTS +
                            at.batch % STREAM_SLOTS) * STREAM_SLOT_SIZE;
    size_t offset        = stream_offset(head.sender, head.message, head.length);

    if ((length != sizeof(head) + head.length) ||
        (head.length != batches[at.batch].messages[at.index].length)) {
        report(head, at, "its length is wrong");
    } else if (memcmp(data + sizeof(head), pattern_source.data + offset,
                      head.length) != 0) {
        report(head, at, "its bytes are wrong");
    }
    if (!stream_put_check(slot, put.length, at.batch)) {
        report(head, at, "the put before it has not arrived");
    }
}

void receiver::advance(const stream_head &head, state &at)
{
    ++at.message;
    if (++at.index < batches[at.batch].messages.size()) {
        return;
    }

    latencies.push_back((float)(now() * 1e6 - (double)head.stamp / 1e3));
    num_bytes += batches[at.batch].put.length;
    at.index   = 0;
    if (++at.batch == batches.size()) {
        if (num_ended++ == 0) {
            slowest = expected;
            for (const state &each : from) {
                slowest = std::min(slowest, each.message);
            }
        }
    }
}

ucs_status_t receiver::receive(const char *data, size_t length)
{
    stream_head head = {};

    memcpy(&head, data, std::min(length, sizeof(head)));
    ++num_messages;
    num_bytes += length;
    if ((length < sizeof(head)) || (head.sender >= from.size())) {
        ++num_wrong;
        text += "a message of an unknown sender\n";
        return UCS_OK;
    }

    state &at = from[head.sender];
    if ((at.batch == batches.size()) || (head.message != at.message) ||
        (head.batch != at.batch)) {
        report(head, at, "out of order, or twice");
        return UCS_OK;
    }
    check(head, data, length, at);
    advance(head, at);
    return UCS_OK;
}

unsigned receiver::messages_missing() const
{
    unsigned missing = 0;

    for (const state &each : from) {
        missing += expected - each.message;
    }

    return missing;
}

double receiver::latency(double percent)
{
    if (latencies.empty()) {
        return 0;
    }

    size_t nth = (size_t)((double)(latencies.size() - 1) * percent / 100);
    std::nth_element(latencies.begin(), latencies.begin() + (long)nth,
                     latencies.end());
    return latencies[nth];
}
