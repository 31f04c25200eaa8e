/* The sender of the mix, see mix_sender.h. */
#include "mix_sender.h"

#include <algorithm>
#include <sstream>

mix_sender::mix_sender(node &own_, const std::string &receiver_address,
                       uint32_t session_, uint64_t seed,
                       bool harmed_) :
        own(own_), session(session_),
        random((unsigned)(seed ^ session_ * 2654435761u)),
        harmed(harmed_), local(own, OPS * STREAM_SLOT_SIZE),
        batch((session_ & 0xfff) << 20)
{
    std::istringstream words(receiver_address);
    std::string address, packed;

    words >> address >> packed >> base;
    base += (session % SLOTS) * SLOT_SIZE;
    key   = std::make_unique<remote_key>(from_hex(packed));
    ep    = std::make_unique<endpoint>(own, from_hex(address));
    for (op &each : ops) {
        each.index     = (size_t)(&each - ops);
        each.done.func = [this, &each] { completed(&each); };
    }
    wait       = {};
    wait.owner = this;
}

mix_sender::~mix_sender()
{
    if (ep->ep != nullptr) {
        destroy();
    }
}

void mix_sender::report(const std::string &what)
{
    if (text.size() < 2000) {
        text += "session " + std::to_string(session) + ": " + what + "\n";
    }
}

/* ---- operations in flight ---- */

char *mix_sender::data_of(const op *which) const
{
    return local.data + which->index * STREAM_SLOT_SIZE;
}

bool mix_sender::idle() const
{
    return !wait.waits && std::none_of(ops, ops + OPS, [](const op &each) {
        return each.name != nullptr;
    });
}

std::string mix_sender::state() const
{
    std::string words = "session " + std::to_string(session) + " at stage " +
                        std::to_string(stage) + (wait.waits ? " pending" : "");

    for (const op &each : ops) {
        words += (each.name == nullptr) ? "" : std::string(" ") + each.name;
    }
    return words + ", flush: " +
           ucs_status_string(uct_ep_flush(*ep, UCT_FLUSH_FLAG_LOCAL, NULL));
}

mix_sender::op *mix_sender::start(const char *name)
{
    for (op &each : ops) {
        if (each.name == nullptr) {
            each.name              = name;
            each.done.calls        = 0;
            each.done.super.count  = 1;
            each.done.super.status = UCS_OK;
            return &each;
        }
    }
    return nullptr;
}

/* Evaluate the status of a call. @return whether the operation was accepted. */
bool mix_sender::started(op *which, ucs_status_t status)
{
    const char *name = which->name;

    if (status != UCS_INPROGRESS) {
        which->name = nullptr; /* there is no completion */
    }
    if ((status != UCS_OK) && (status != UCS_INPROGRESS) &&
        (status != UCS_ERR_NO_RESOURCE) && !harmed) {
        report(std::string(name) + ": " + ucs_status_string(status));
    }

    operations += (status == UCS_OK) || (status == UCS_INPROGRESS);
    return (status == UCS_OK) || (status == UCS_INPROGRESS);
}

void mix_sender::completed(op *which)
{
    const char *name = which->name;

    if (name == nullptr) {
        report("an unexpected or a second completion");
        return;
    }

    which->name = nullptr;
    if (cuts && (strcmp(name, "fetch") == 0) &&
        (which->done.status == UCS_ERR_IO_ERROR) && !failed()) {
        stage = (stage == 2) ? 1 : stage; /* finish() asks again */
    } else if (which->done.status != UCS_OK) {
        if (!harmed && !canceled) {
            report(std::string(name) + " ended with " +
                   ucs_status_string(which->done.status));
        }
    } else if (strcmp(name, "get") == 0) {
        if (!stream_put_check(data_of(which), which->length, which->batch)) {
            report("a get of " + std::to_string(which->length) +
                   " bytes returns other data than the put");
        }
    } else if (strcmp(name, "fetch") == 0) {
        if ((which->result < which->least) || (which->result > added)) {
            report("the counter is " + std::to_string(which->result) +
                   ", and " + std::to_string(added) + " were added");
        }
    }
}

/* ---- random operations ---- */

void mix_sender::fence()
{
    ucs_status_t status = (random() % 4 == 0) ?
                                  uct_iface_fence(own.iface, 0) :
                                  uct_ep_fence(*ep, 0);

    if ((status != UCS_OK) && !harmed) {
        report(std::string("fence: ") + ucs_status_string(status));
    }
    unfenced = 0;
}

/* Two puts to the same slot need a fence between them: the second could
 * overtake the first */
void mix_sender::put()
{
    op *which        = start("put");
    uint32_t next    = batch + 1;
    unsigned slot    = next % STREAM_SLOTS;
    size_t max[]     = {own.attr.cap.put.max_short, own.attr.cap.put.max_bcopy,
                        STREAM_SLOT_SIZE};
    unsigned kind    = random() % 3;
    size_t length    = std::min(random() % 2 ? random() % 256 :
                                random() % STREAM_SLOT_SIZE, max[kind]) & ~7ul;
    uint64_t address = base + slot * STREAM_SLOT_SIZE;
    char *data;
    ucs_status_t status;

    if (which == nullptr) {
        return;
    }
    if (unfenced == STREAM_SLOTS) {
        fence();
    }

    data          = data_of(which);
    bytes packed  = {data, length};
    uct_iov_t iov = local.iov((size_t)(data - local.data), length);
    stream_put_fill(data, length, next);
    if (kind == STREAM_SHORT) {
        status = uct_ep_put_short(*ep, data, (unsigned)length, address,
                                  key->bundle.rkey);
    } else if (kind == STREAM_BCOPY) {
        ssize_t size = uct_ep_put_bcopy(*ep, pack_bytes, &packed, address,
                                        key->bundle.rkey);
        status = (size < 0) ? (ucs_status_t)size : UCS_OK;
    } else {
        status = uct_ep_put_zcopy(*ep, &iov, 1, address, key->bundle.rkey,
                                  &which->done.super);
    }
    if (started(which, status)) {
        batch             = next;
        put_lengths[slot] = length;
        put_batches[slot] = next;
        ++unfenced;
    }
}

static void unpack(void *arg, const void *data, size_t length)
{
    memcpy(arg, data, length);
}

void mix_sender::get()
{
    unsigned slot    = random() % STREAM_SLOTS;
    op *which        = (put_batches[slot] == 0) ? nullptr : start("get");
    uint64_t address = base + slot * STREAM_SLOT_SIZE;
    ucs_status_t status;

    if (which == nullptr) {
        return;
    }
    if (unfenced > 0) {
        fence();
    }

    which->batch  = put_batches[slot];
    which->length = put_lengths[slot];
    if ((random() % 2) && (which->length <= own.attr.cap.get.max_bcopy)) {
        status = uct_ep_get_bcopy(*ep, unpack, data_of(which), which->length,
                                  address, key->bundle.rkey,
                                  &which->done.super);
    } else {
        uct_iov_t iov = local.iov((size_t)(data_of(which) - local.data),
                                  which->length);

        status = uct_ep_get_zcopy(*ep, &iov, 1, address, key->bundle.rkey,
                                  &which->done.super);
    }
    started(which, status);
}

ucs_status_t mix_sender::post_message(stream_kind kind, size_t length,
                                      bool after_put)
{
    size_t offset    = stream_offset(session, messages, length);
    unsigned slot    = batch % STREAM_SLOTS;
    op *which        = (kind == STREAM_ZCOPY) ? start("message") : &copied;
    stream_head head = {session, messages, batch, after_put, (uint32_t)length,
                        after_put ? put_lengths[slot] : 0};
    char buffer[16384];
    bytes packed     = {buffer, sizeof(head) + length};
    ucs_status_t status;
    uint64_t front;
    char *data;

    if (which == nullptr) {
        return UCS_ERR_BUSY; /* no free op here: not a case for pending */
    }

    copied.name = "message";
    data = (kind == STREAM_ZCOPY) ? data_of(which) : buffer + sizeof(head);
    for (size_t i = 0; i < length; ++i) {
        data[i] = pattern(1, offset + i);
    }
    memcpy(buffer, &head, sizeof(head));
    if (kind == STREAM_SHORT) {
        memcpy(&front, buffer, 8);
        status = uct_ep_am_short(*ep, mix_receiver::am_id, front, buffer + 8,
                                 (unsigned)(packed.length - 8));
    } else if (kind == STREAM_BCOPY) {
        ssize_t size = uct_ep_am_bcopy(*ep, mix_receiver::am_id, pack_bytes,
                                       &packed, 0);
        status = (size < 0) ? (ucs_status_t)size : UCS_OK;
    } else {
        uct_iov_t iov = local.iov((size_t)(data - local.data), length);

        status = uct_ep_am_zcopy(*ep, mix_receiver::am_id, &head, sizeof(head),
                                 &iov, 1, 0, &which->done.super);
    }
    messages += started(which, status);
    return status;
}

ucs_status_t mix_sender::pending_func(uct_pending_req_t *self)
{
    pending *request    = (pending*)self;
    mix_sender *owner        = request->owner;
    ucs_status_t status = owner->post_message(STREAM_SHORT, 40, false);

    if (status == UCS_ERR_NO_RESOURCE) {
        return status;
    }
    request->waits = false;
    return UCS_OK;
}

void mix_sender::message()
{
    stream_limits limits = stream_limits_of(own.attr);
    size_t max[]     = {limits.am_short, limits.am_bcopy,
                        std::min(limits.am_zcopy, STREAM_SLOT_SIZE)};
    stream_kind kind = (stream_kind)(random() % STREAM_KINDS);
    size_t length    = std::min<size_t>(random() % 4 ? random() % 256 :
                                        random() % STREAM_SLOT_SIZE, max[kind]);
    bool after_put       = (random() % 2) && put_batches[batch % STREAM_SLOTS];

    if (after_put) {
        fence();
    }
    if ((post_message(kind, length, after_put) == UCS_ERR_NO_RESOURCE) &&
        (random() % 2)) {
        wait.super.func = pending_func;
        wait.waits      = uct_ep_pending_add(*ep, &wait.super, 0) == UCS_OK;
    }
}

bool mix_sender::fetch(uint64_t value, uint64_t least)
{
    op *which = start("fetch");

    if (which == nullptr) {
        return false;
    }
    which->least = least;
    if (!started(which, uct_ep_atomic64_fetch(*ep, UCT_ATOMIC_OP_ADD, value,
                                              &which->result,
                                              base + COUNTER_OFFSET,
                                              key->bundle.rkey,
                                              &which->done.super))) {
        return false;
    }
    added += value;
    return true;
}

/* Set the counter to zero by a put and a fence before the first atomic */
void mix_sender::atomic()
{
    uint64_t zero = 0;
    op *which;

    if (!(own.attr.cap.atomic64.fop_flags & UCS_BIT(UCT_ATOMIC_OP_ADD))) {
        return;
    }
    if (added == 0) {
        which = start("put");
        if ((which == nullptr) ||
            !started(which, uct_ep_put_short(*ep, &zero, 8,
                                             base + COUNTER_OFFSET,
                                             key->bundle.rkey))) {
            return;
        }
        fence();
    }
    if (random() % 2) {
        fetch(1 + random() % 100, 0);
    } else if ((which = start("add")) != nullptr) {
        if (started(which, uct_ep_atomic64_post(*ep, UCT_ATOMIC_OP_ADD, 7,
                                                base + COUNTER_OFFSET,
                                                key->bundle.rkey))) {
            added += 7;
        }
    }
}

void mix_sender::flush_some()
{
    op *which = start("flush");

    if (which == nullptr) {
        return;
    }
    started(which, uct_ep_flush(*ep, UCT_FLUSH_FLAG_LOCAL, &which->done.super));
}

void mix_sender::step()
{
    unsigned what = random() % 100;

    completion::order.clear();
    if (wait.waits || failed()) {
        return;
    }
    if (what < 30) {
        put();
    } else if (what < 45) {
        get();
    } else if (what < 85) {
        message();
    } else if (what < 95) {
        atomic();
    } else if (what < 98) {
        fence();
    } else {
        flush_some();
    }
}

bool mix_sender::finish()
{
    ucs_status_t status;

    if ((stage == 0) && idle()) {
        status = uct_ep_flush(*ep, UCT_FLUSH_FLAG_LOCAL, NULL);
        stage  = (status == UCS_OK) ? 1 : 0;
    }
    if (stage == 1) {
        stage = ((added == 0) || fetch(0, added)) ? 2 : 1;
    }
    return (stage == 2) && idle();
}

static void purged(uct_pending_req_t *, void *arg)
{
    *(bool*)arg = false;
}

/* Every operation in flight completes now, exactly once */
void mix_sender::destroy()
{
    ucs_status_t status = UCS_OK;

    canceled = true;
    if ((stage != 2) && (random() % 3 == 0)) {
        uct_ep_pending_purge(*ep, purged, &wait.waits);
        until([&] {
            status = uct_ep_flush(*ep, UCT_FLUSH_FLAG_CANCEL, NULL);
            return (status != UCS_INPROGRESS) &&
                   (status != UCS_ERR_NO_RESOURCE);
        }, 10);
    }
    uct_ep_pending_purge(*ep, purged, &wait.waits);
    ep->destroy();
    if (!until([&] { return idle(); }, 10)) {
        for (const op &each : ops) {
            if (each.name != nullptr) {
                report(std::string("no completion of a ") + each.name);
            }
        }
    }
}
