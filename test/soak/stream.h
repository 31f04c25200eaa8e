/*
 * The data of the senders of the order run. Every byte is a function of the
 * numbers of the sender, the batch and the message, so that the receiver can
 * compute it.
 */
#ifndef VQP_SOAK_STREAM_H
#define VQP_SOAK_STREAM_H

#include <uct/api/uct.h>

#include <stddef.h>
#include <stdint.h>

#include <vector>

/* At the front of each active message */
struct stream_head {
    uint32_t sender;
    uint32_t message;  /* number among all of this sender */
    uint32_t batch;
    uint32_t last : 1; /* of its batch */
    uint32_t length : 31; /* of what follows the head */
    uint64_t stamp;    /* when the batch was begun, in ns */
};

enum stream_kind { STREAM_SHORT, STREAM_BCOPY, STREAM_ZCOPY, STREAM_KINDS };

struct stream_op {
    stream_kind kind;
    size_t      length;
};

/* One batch: a put and then messages, the same for all senders */
struct stream_batch {
    stream_op              put;
    std::vector<stream_op> messages;
};

struct stream_limits {
    size_t put_max;
    size_t put_short, put_bcopy;
    size_t am_max, am_short, am_bcopy, am_zcopy; /* without the head */
};

stream_limits stream_limits_of(const uct_iface_attr_t &attr);

/* All batches of a sender.
 * @param small  Nothing above a few hundred bytes. */
std::vector<stream_batch> stream_make(unsigned batches, bool small,
                                      const stream_limits &limits);

/* Where the puts of a sender go: slots that are taken in turn */
constexpr unsigned STREAM_SLOTS     = 4;
constexpr size_t   STREAM_SLOT_SIZE = 40960;

/* Each word of a put contains its batch and its position: words of an earlier
 * batch in the same slot are detected */
void stream_put_fill(char *data, size_t length, unsigned batch);

/* @return whether all words are of this batch or of a later one with the same
 * slot, and at their position. */
bool stream_put_check(const char *data, size_t length, unsigned batch);

/* The bytes behind the head of a message are a part of this pattern */
constexpr size_t STREAM_PATTERN = 1 << 18;
size_t stream_offset(unsigned sender, unsigned message, size_t length);

#endif
