/* What senders say, see stream.h. */
#include "stream.h"

#include <string.h>

#include <algorithm>
#include <random>

static stream_op
stream_draw(std::mt19937 &random, size_t max, const size_t *limits)
{
    static constexpr size_t small[] = {0, 1, 8, 40, 100, 200};
    stream_kind kind = (stream_kind)(random() % STREAM_KINDS);
    size_t length    = small[random() % 6];

    if (random() % 4 == 0) {
        length = random() % (max + 1);
    }
    return {kind, std::min({length, max, limits[kind]})};
}

stream_limits stream_limits_of(const uct_iface_attr_t &attr)
{
    size_t head = sizeof(stream_head);
    stream_limits limits;

    limits.put_max   = STREAM_SLOT_SIZE;
    limits.put_short = attr.cap.put.max_short;
    limits.put_bcopy = attr.cap.put.max_bcopy;
    limits.am_max    = 60000;
    limits.am_short  = attr.cap.am.max_short - head;
    limits.am_bcopy  = attr.cap.am.max_bcopy - head;
    limits.am_zcopy  = attr.cap.am.max_zcopy - head;
    return limits;
}

static stream_batch
stream_one(unsigned batch, bool small, const stream_limits &limits)
{
    size_t put[] = {limits.put_short, limits.put_bcopy, limits.put_max};
    size_t am[]  = {limits.am_short, limits.am_bcopy, limits.am_zcopy};
    std::mt19937 random(batch * 2654435761u + 1);
    stream_batch result;

    result.put = stream_draw(random, small ? 256 : limits.put_max, put);
    result.put.length &= ~(size_t)7; /* whole words, see stream_put_check */
    for (unsigned i = 1 + random() % 4; i > 0; --i) {
        result.messages.push_back(
                stream_draw(random, small ? 256 : limits.am_max, am));
    }

    return result;
}

std::vector<stream_batch>
stream_make(unsigned batches, bool small, const stream_limits &limits)
{
    std::vector<stream_batch> all;

    for (unsigned batch = 0; batch < batches; ++batch) {
        all.push_back(stream_one(batch, small, limits));
    }

    return all;
}

static uint64_t stream_word(unsigned batch, size_t index)
{
    return ((uint64_t)(batch + 1) << 20) | index;
}

void stream_put_fill(char *data, size_t length, unsigned batch)
{
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = stream_word(batch, i);

        memcpy(data + i, &word, std::min<size_t>(8, length - i));
    }
}

bool stream_put_check(const char *data, size_t length, unsigned batch)
{
    for (size_t i = 0; i + 8 <= length; i += 8) {
        uint64_t word;
        unsigned found;

        memcpy(&word, data + i, 8);
        found = (unsigned)(word >> 20) - 1;
        if ((word != stream_word(found, i)) || (found < batch) ||
            ((found - batch) % STREAM_SLOTS != 0)) {
            return false;
        }
    }

    return true;
}

size_t stream_offset(unsigned sender, unsigned message, size_t length)
{
    return (sender * 131u + message * 7919u) % (STREAM_PATTERN - length);
}
