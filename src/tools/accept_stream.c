/* A verified stream, see accept_stream.h. */
#include "tools/accept_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_VISIBLE 0.1 /* seconds until what was written is seen, at most */
#define STREAM_AM_ID  7
#define STREAM_SIZE   (2ul << 20) /* bytes of the target */
#define STREAM_OPS    96          /* of a round: each third is of one kind */
#define STREAM_AM_MAX 8192

/* What the messages begin with; the payload follows from the number */
typedef struct stream_am {
    uint64_t number;
    uint64_t length; /* of the payload */
} stream_am_t;

/* Everything of a stream. Static: completions may be called late */
typedef struct stream {
    accept_pair_t          *pair;
    accept_stream_result_t *result;
    accept_mem_t           *from;
    accept_mem_t           *to;
    accept_mem_t           *cell;     /* for atomics */
    char                   *expected; /* what the target must be */
    uint64_t                random;
    uint64_t                ams_rx;   /* number of the next message */
    uint64_t                sum;      /* value of the cell after this round... */
    uint64_t                base;     /* ...and before it */
    struct {
        uint64_t            value;
        const accept_comp_t *comp;
    } fetched[STREAM_OPS];            /* results of atomics */
    unsigned                num_fetched;
    accept_comp_t           comps[STREAM_OPS];
    unsigned                num_comps;
    size_t                  place;    /* of the next put */
    double                  end;      /* a wait ends then */
} stream_t;

static stream_t stream;

/* xorshift64 */
static uint64_t stream_random(stream_t *self)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->random;
}

static int stream_wrong(stream_t *self)
{
    return self->result->wrong[0] != '\0';
}

/* What was found first is said */
#define STREAM_WRONG(_self, ...) \
    do { \
        if (!stream_wrong(_self)) { \
            snprintf((_self)->result->wrong, sizeof((_self)->result->wrong), \
                     __VA_ARGS__); \
        } \
    } while (0)

static unsigned char stream_byte(uint64_t number, size_t i)
{
    return (unsigned char)((number * 131u) + (i * 7u));
}

/* ---- active messages ---- */

static ucs_status_t
stream_on_am(void *arg, void *data, size_t length, unsigned flags)
{
    stream_t *self       = arg;
    const unsigned char *bytes = (const unsigned char*)data + sizeof(stream_am_t);
    stream_am_t am;
    size_t i;

    (void)flags;
    if (length < sizeof(am)) {
        STREAM_WRONG(self, "a message of %zu bytes has arrived, none so short was sent",
                     length);
        return UCS_OK;
    }

    memcpy(&am, data, sizeof(am));
    if (am.number != self->ams_rx) {
        STREAM_WRONG(self, "message %llu has arrived in place of message %llu",
                     (unsigned long long)am.number, (unsigned long long)self->ams_rx);
    } else if (am.length != length - sizeof(am)) {
        STREAM_WRONG(self, "message %llu has arrived with %zu bytes, %llu were sent",
                     (unsigned long long)am.number, length - sizeof(am),
                     (unsigned long long)am.length);
    } else {
        for (i = 0; (i < am.length) && (bytes[i] == stream_byte(am.number, i)); ++i) {
        }
        if (i < am.length) {
            STREAM_WRONG(self, "byte %zu of message %llu is wrong", i,
                         (unsigned long long)am.number);
        }
    }

    ++self->ams_rx;
    return UCS_OK;
}

static size_t stream_pack_am(void *dest, void *arg)
{
    const stream_am_t *am = arg;
    unsigned char *bytes  = (unsigned char*)dest + sizeof(*am);
    size_t i;

    memcpy(dest, am, sizeof(*am));
    for (i = 0; i < am->length; ++i) {
        bytes[i] = stream_byte(am->number, i);
    }

    return sizeof(*am) + am->length;
}

/* The number is the header of a short message */
static ucs_status_t stream_am_short(stream_t *self, const stream_am_t *am)
{
    unsigned char payload[sizeof(*am) + 64];

    (void)stream_pack_am(payload, (void*)am);
    return uct_ep_am_short(self->pair->side[0].ep, STREAM_AM_ID, am->number,
                           payload + sizeof(am->number),
                           (unsigned)(sizeof(am->length) + am->length));
}

static ucs_status_t stream_am(stream_t *self)
{
    const uct_iface_attr_t *attr = &self->pair->side[0].attr;
    size_t max                   = attr->cap.am.max_bcopy - sizeof(stream_am_t);
    stream_am_t am               = {.number = self->result->ams};
    ssize_t packed;

    am.length = stream_random(self) % (((am.number % 2) == 0) ? 32 : STREAM_AM_MAX);
    am.length = (am.length > max) ? max : am.length;
    if ((am.length < 32) && (sizeof(am) + am.length <= attr->cap.am.max_short)) {
        return stream_am_short(self, &am);
    }

    packed = uct_ep_am_bcopy(self->pair->side[0].ep, STREAM_AM_ID, stream_pack_am, &am, 0);
    return (packed < 0) ? (ucs_status_t)packed : UCS_OK;
}

/* ---- puts and atomics ---- */

/* From a byte to 256 KiB, small ones as often as large ones; places do not overlap in a
 * round, since puts are not ordered */
static ucs_status_t stream_put(stream_t *self)
{
    const uct_iface_attr_t *attr = &self->pair->side[0].attr;
    size_t gap                   = stream_random(self) % 64;
    size_t size                  = 1 + (stream_random(self) %
                                        (1ul << (stream_random(self) % 19)));
    uct_ep_h ep                  = self->pair->side[0].ep;
    char *source, *target;
    uct_iov_t iov;
    ucs_status_t status;

    if (self->place + gap + size > STREAM_SIZE) {
        return UCS_OK; /* there is no place left: not sent */
    }

    source = self->from->data + self->place + gap;
    target = self->to->data + self->place + gap;
    if (size <= attr->cap.put.max_short) {
        status = uct_ep_put_short(ep, source, (unsigned)size, (uintptr_t)target,
                                  self->to->rkey.rkey);
    } else {
        iov.buffer = source;
        iov.length = size;
        iov.memh   = self->from->memh;
        iov.stride = 0;
        iov.count  = 1;
        accept_comp_init(&self->comps[self->num_comps]);
        status = uct_ep_put_zcopy(ep, &iov, 1, (uintptr_t)target, self->to->rkey.rkey,
                                  &self->comps[self->num_comps].super);
    }

    if (status == UCS_INPROGRESS) {
        ++self->num_comps;
        status = UCS_OK;
    }
    if (status == UCS_OK) {
        memcpy(self->expected + self->place + gap, source, size);
        self->place            += gap + size;
        self->result->put_bytes += size;
        ++self->result->puts;
    }

    return status;
}

/* Each second one has a result: all results are different */
static ucs_status_t stream_atomic(stream_t *self)
{
    uct_ep_h ep = self->pair->side[0].ep;
    uint64_t at = (uintptr_t)self->cell->data;
    ucs_status_t status;

    if ((self->result->atomics % 2) == 0) {
        status = uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, at,
                                      self->cell->rkey.rkey);
    } else {
        accept_comp_init(&self->comps[self->num_comps]);
        status = uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1,
                                       &self->fetched[self->num_fetched].value, at,
                                       self->cell->rkey.rkey,
                                       &self->comps[self->num_comps].super);
        if (status == UCS_INPROGRESS) {
            self->fetched[self->num_fetched++].comp = &self->comps[self->num_comps++];
            status = UCS_OK;
        }
    }

    if (status == UCS_OK) {
        ++self->sum;
        ++self->result->atomics;
    }

    return status;
}

/* ---- a round ---- */

/* A refused operation is tried again, with other random numbers */
static int stream_post(stream_t *self, const accept_stream_params_t *params, unsigned i)
{
    unsigned kind = params->ams_only ? 0 : (i % 3);
    ucs_status_t status;

    if ((kind == 2) && !self->result->has_atomics) {
        kind = 1;
    }

    for (;;) {
        if (kind == 0) {
            status = stream_am(self);
        } else {
            status = (kind == 1) ? stream_put(self) : stream_atomic(self);
        }

        if (status == UCS_OK) {
            self->result->ams += (kind == 0);
            return 1;
        } else if (status != UCS_ERR_NO_RESOURCE) {
            return accept_fail(self->pair, "an operation has failed", status);
        } else if (!accept_progress(self->pair, self->end)) {
            return 0;
        }
    }
}

static void stream_fill(stream_t *self)
{
    uint64_t value;
    size_t i;

    for (i = 0; i < STREAM_SIZE; i += sizeof(value)) {
        value = stream_random(self);
        memcpy(self->from->data + i, &value, sizeof(value));
    }
}

/* All ended once, and well. Of an atomic that was executed the result may be lost with a path
 * that fails */
static void stream_check_comps(stream_t *self, int has_faults)
{
    unsigned i, next = 0;
    int is_atomic;

    for (i = 0; i < self->num_comps; ++i) {
        is_atomic = (next < self->num_fetched) &&
                    (self->fetched[next].comp == &self->comps[i]);
        next     += (unsigned)is_atomic;
        if (self->comps[i].calls != 1) {
            STREAM_WRONG(self, "a completion was called %u times",
                         self->comps[i].calls);
        } else if (is_atomic && has_faults &&
                   (self->comps[i].super.status == UCS_ERR_IO_ERROR)) {
            ++self->result->lost;
        } else if (self->comps[i].super.status != UCS_OK) {
            STREAM_WRONG(self, "an operation has ended with: %s",
                         ucs_status_string(self->comps[i].super.status));
        }
    }
}

static void stream_check_atomics(stream_t *self)
{
    uint64_t num          = self->sum - self->base;
    char seen[STREAM_OPS] = {0};
    uint64_t cell, value;
    unsigned i;

    for (i = 0; i < self->num_fetched; ++i) {
        value = self->fetched[i].value;
        if ((self->fetched[i].comp->super.status == UCS_OK) &&
            ((value - self->base >= num) || seen[value - self->base]++)) {
            STREAM_WRONG(self, "an atomic has returned %llu, twice or out of its range",
                         (unsigned long long)value);
        }
    }

    cell = __atomic_load_n((uint64_t*)self->cell->data, __ATOMIC_ACQUIRE);
    if (cell != self->sum) {
        STREAM_WRONG(self, "the sum of the atomics is %llu, not %llu",
                     (unsigned long long)cell, (unsigned long long)self->sum);
    }
}

static void stream_check_memory(stream_t *self)
{
    size_t i;

    if (memcmp(self->to->data, self->expected, STREAM_SIZE) == 0) {
        return;
    }

    for (i = 0; self->to->data[i] == self->expected[i]; ++i) {
    }
    STREAM_WRONG(self, "byte %zu of the target of the puts is wrong, after %llu puts", i,
                 (unsigned long long)self->result->puts);
}

/* The acknowledgement of a write says that the peer's device has it, not that a CPU there
 * sees it: two devices, or relaxed ordering, may need a moment */
static void stream_await_memory(stream_t *self)
{
    double end = accept_now() + STREAM_VISIBLE;

    while (((__atomic_load_n((uint64_t*)self->cell->data, __ATOMIC_ACQUIRE) != self->sum) ||
            (memcmp(self->to->data, self->expected, STREAM_SIZE) != 0)) &&
           (accept_now() < end)) {
    }
}

static int stream_round(stream_t *self, const accept_stream_params_t *params)
{
    unsigned i;

    self->num_comps   = 0;
    self->num_fetched = 0;
    self->place       = 0;
    self->base        = self->sum;
    self->end         = accept_now() + ACCEPT_LIMIT;
    if (!params->ams_only) {
        stream_fill(self);
    }

    for (i = 0; i < STREAM_OPS; ++i) {
        if ((i == STREAM_OPS / 2) && (params->in_the_middle != NULL)) {
            params->in_the_middle(self->pair, params->arg);
        }
        if (!stream_post(self, params, i)) {
            return 0;
        }
    }

    if (!accept_flush(self->pair, self->pair->side[0].ep)) {
        return 0;
    }

    /* a flush does not wait for the handler of a message */
    while ((self->ams_rx < self->result->ams) && !stream_wrong(self)) {
        if (!accept_progress(self->pair, self->end)) {
            return 0;
        }
    }

    stream_await_memory(self);
    stream_check_comps(self, params->has_faults);
    stream_check_atomics(self);
    stream_check_memory(self);
    return !stream_wrong(self);
}

static int stream_open(stream_t *self)
{
    const uint64_t ops = self->pair->side[0].attr.cap.atomic64.op_flags &
                         self->pair->side[0].attr.cap.atomic64.fop_flags;
    ucs_status_t status;

    self->random              = 0x9e3779b97f4a7c15ul;
    self->result->has_atomics = (ops & UCS_BIT(UCT_ATOMIC_OP_ADD)) != 0;
    self->from                = accept_mem_get(self->pair, 0, STREAM_SIZE);
    self->to                  = accept_mem_get(self->pair, 1, STREAM_SIZE);
    self->cell                = accept_mem_get(self->pair, 1, 4096);
    if ((self->from == NULL) || (self->to == NULL) || (self->cell == NULL)) {
        return 0;
    }

    self->expected = calloc(1, STREAM_SIZE);
    if (self->expected == NULL) {
        return accept_fail(self->pair, "there is no memory", UCS_ERR_NO_MEMORY);
    }

    status = uct_iface_set_am_handler(self->pair->side[1].iface, STREAM_AM_ID,
                                      stream_on_am, self, 0);
    return (status == UCS_OK) ||
           accept_fail(self->pair, "no handler of messages can be set", status);
}

int accept_stream(accept_pair_t *pair, const accept_stream_params_t *params,
                  accept_stream_result_t *result)
{
    double end = accept_now() + params->seconds;
    int is_good;

    memset(&stream, 0, sizeof(stream));
    memset(result, 0, sizeof(*result));
    stream.pair   = pair;
    stream.result = result;
    is_good       = stream_open(&stream);
    while (is_good && (accept_now() < end)) {
        is_good = stream_round(&stream, params);
    }

    free(stream.expected);
    stream.expected = NULL;
    return is_good;
}
