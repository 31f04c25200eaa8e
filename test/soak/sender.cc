/* A sender of the order run, see sender.h. */
#include "sender.h"

#include <algorithm>

sender::sender(unsigned number_, const std::vector<stream_batch> &batches_,
               unsigned device, const options &config, node *domain,
               const memory &source_, const std::string &address,
               const stream_target &target_) :
        own(device, config, domain), number(number_), batches(batches_),
        source(source_), target(target_),
        slots(own, STREAM_SLOTS * STREAM_SLOT_SIZE), ep(own, address)
{
    for (completion &each : put_done) {
        each.super.count = 1 << 30; /* counted down, never called */
    }
    am_done.super.count = 1 << 30;
}

bool sender::hello()
{
    return accepted(uct_ep_am_short(ep, hello_id, number, NULL, 0));
}

bool sender::accepted(ucs_status_t status)
{
    if ((status != UCS_OK) && (status != UCS_INPROGRESS) &&
        (status != UCS_ERR_NO_RESOURCE)) {
        error = std::string("an operation failed: ") +
                ucs_status_string(status);
    }
    return (status == UCS_OK) || (status == UCS_INPROGRESS);
}

bool sender::post_put()
{
    const stream_op &put = batches[batch].put;
    unsigned slot        = batch % STREAM_SLOTS;
    char *data           = slots.data + slot * STREAM_SLOT_SIZE;
    uint64_t address     = target.address +
                           (number * STREAM_SLOTS + slot) * STREAM_SLOT_SIZE;
    size_t length        = put.length;
    bytes packed         = {data, length};
    uct_iov_t iov        = slots.iov(slot * STREAM_SLOT_SIZE, length);
    ucs_status_t status;
    ssize_t size;

    if (put_done[slot].super.count + (int)puts[slot] != 1 << 30) {
        return false; /* the one before still reads this slot */
    }

    stream_put_fill(data, length, batch);
    if (put.kind == STREAM_SHORT) {
        status = uct_ep_put_short(ep, data, (unsigned)length, address,
                                  target.rkey);
    } else if (put.kind == STREAM_BCOPY) {
        size   = uct_ep_put_bcopy(ep, pack_bytes, &packed, address,
                                  target.rkey);
        status = (size >= 0) ? UCS_OK : (ucs_status_t)size;
    } else {
        status = uct_ep_put_zcopy(ep, &iov, 1, address, target.rkey,
                                  &put_done[slot].super);
        puts[slot] += status == UCS_INPROGRESS;
    }
    return accepted(status);
}

bool sender::post_am(const stream_op &op)
{
    stream_head head = {number, message, batch,
                        index + 1 == batches[batch].messages.size(),
                        (uint32_t)op.length, stamp};
    size_t offset    = stream_offset(number, message, op.length);
    uct_iov_t iov    = source.iov(offset, op.length);
    char buffer[16384];
    bytes packed     = {buffer, sizeof(head) + op.length};
    uint64_t front;
    ucs_status_t status;
    ssize_t size;

    if (op.kind == STREAM_ZCOPY) {
        status = uct_ep_am_zcopy(ep, am_id, &head, sizeof(head), &iov, 1, 0,
                                 &am_done.super);
        zcopies += status == UCS_INPROGRESS;
        return accepted(status);
    }

    memcpy(buffer, &head, sizeof(head));
    memcpy(buffer + sizeof(head), source.data + offset, op.length);
    if (op.kind == STREAM_SHORT) {
        memcpy(&front, buffer, 8);
        status = uct_ep_am_short(ep, am_id, front, buffer + 8,
                                 (unsigned)packed.length - 8);
    } else {
        size   = uct_ep_am_bcopy(ep, am_id, pack_bytes, &packed, 0);
        status = (size >= 0) ? UCS_OK : (ucs_status_t)size;
    }
    return accepted(status);
}

bool sender::step(unsigned count)
{
    bool any = false;

    for (; (count > 0) && !posted() && error.empty(); --count) {
        if (stamp == 0) {
            stamp = (uint64_t)(now() * 1e9);
        }
        if (!put_posted) {
            if (!post_put()) {
                break;
            }
            put_posted = true;
            accepted(uct_ep_fence(ep, 0));
        } else if (!post_am(batches[batch].messages[index])) {
            break;
        } else {
            ++message;
            if (++index == batches[batch].messages.size()) {
                ++batch;
                put_posted = false;
                index      = 0;
                stamp      = 0;
            }
        }
        any = true;
    }

    return any;
}

bool sender::done()
{
    ucs_status_t status = uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, NULL);

    if ((status == UCS_INPROGRESS) || (status == UCS_ERR_NO_RESOURCE)) {
        return false;
    }

    accepted(status);
    for (unsigned i = 0; i < STREAM_SLOTS; ++i) {
        if (put_done[i].super.count + (int)puts[i] != 1 << 30) {
            error = "a put was not reported once";
        }
    }
    if (am_done.super.count + (int)zcopies != 1 << 30) {
        error = "a message was not reported once";
    }
    return true;
}
