/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending end of a verified stream, see accept_stream.h. */
#include "tools/accept_stream.h"

#include "tools/accept_round.h"

#include <stdio.h>
#include <string.h>

#define STREAM_AM_MAX 8192

/* Everything of a stream. Static: completions may be called late */
typedef struct stream {
    accept_end_t           *end;
    accept_stream_result_t *result;
    accept_mem_t           *from;
    const accept_remote_t  *to;
    const accept_remote_t  *cell;     /* for atomics */
    accept_round_t          round;
    uint64_t                random;
    uint64_t                base;     /* sum of the atomics before this round */
    struct {
        uint64_t            value;
        const accept_comp_t *comp;
    } fetched[ACCEPT_ROUND_OPS];      /* results of atomics */
    unsigned                num_fetched;
    accept_comp_t           comps[ACCEPT_ROUND_OPS];
    unsigned                num_comps;
    size_t                  place;    /* of the next put */
    double                  until;    /* a wait ends then */
} stream_t;

static stream_t stream;

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

/* ---- active messages ---- */

static size_t stream_pack_am(void *dest, void *arg)
{
    const accept_am_t *am = arg;
    unsigned char *bytes  = (unsigned char*)dest + sizeof(*am);
    size_t i;

    memcpy(dest, am, sizeof(*am));
    for (i = 0; i < am->length; ++i) {
        bytes[i] = accept_am_byte(am->number, i);
    }

    return sizeof(*am) + am->length;
}

/* The number is the header of a short message */
static ucs_status_t stream_am_short(stream_t *self, const accept_am_t *am)
{
    unsigned char payload[sizeof(*am) + 64];

    (void)stream_pack_am(payload, (void*)am);
    return uct_ep_am_short(self->end->ep, ACCEPT_ROUND_AM_ID, am->number,
                           payload + sizeof(am->number),
                           (unsigned)(sizeof(am->length) + am->length));
}

static ucs_status_t stream_am(stream_t *self)
{
    const uct_iface_attr_t *attr = &self->end->attr;
    size_t max                   = attr->cap.am.max_bcopy - sizeof(accept_am_t);
    accept_am_t am               = {.number = self->round.ams};
    ssize_t packed;

    am.length = accept_random(&self->random) % (((am.number % 2) == 0) ? 32 : STREAM_AM_MAX);
    am.length = (am.length > max) ? max : am.length;
    if ((am.length < 32) && (sizeof(am) + am.length <= attr->cap.am.max_short)) {
        return stream_am_short(self, &am);
    }

    packed = uct_ep_am_bcopy(self->end->ep, ACCEPT_ROUND_AM_ID, stream_pack_am, &am, 0);
    return (packed < 0) ? (ucs_status_t)packed : UCS_OK;
}

/* ---- puts and atomics ---- */

/* From a byte to 256 KiB, small ones as often as large ones; places do not overlap in a
 * round, since puts are not ordered */
static ucs_status_t stream_put(stream_t *self)
{
    const uct_iface_attr_t *attr = &self->end->attr;
    size_t gap                   = accept_random(&self->random) % 64;
    size_t size                  = 1 + (accept_random(&self->random) %
                                        (1ul << (accept_random(&self->random) % 19)));
    uct_ep_h ep                  = self->end->ep;
    accept_round_t *round        = &self->round;
    uint64_t target              = self->to->address + self->place + gap;
    char *source                 = self->from->data + self->place + gap;
    uct_iov_t iov;
    ucs_status_t status;

    if (self->place + gap + size > ACCEPT_ROUND_SIZE) {
        return UCS_OK; /* there is no place left: not sent */
    }

    if (size <= attr->cap.put.max_short) {
        status = uct_ep_put_short(ep, source, (unsigned)size, target,
                                  self->to->rkey.rkey);
    } else {
        iov.buffer = source;
        iov.length = size;
        iov.memh   = self->from->memh;
        iov.stride = 0;
        iov.count  = 1;
        accept_comp_init(&self->comps[self->num_comps]);
        status = uct_ep_put_zcopy(ep, &iov, 1, target, self->to->rkey.rkey,
                                  &self->comps[self->num_comps].super);
    }

    if (status == UCS_INPROGRESS) {
        ++self->num_comps;
        status = UCS_OK;
    }
    if (status == UCS_OK) {
        round->puts[round->num_puts].offset = (uint32_t)(self->place + gap);
        round->puts[round->num_puts].size   = (uint32_t)size;
        ++round->num_puts;
        self->place             += gap + size;
        self->result->put_bytes += size;
        ++self->result->puts;
    }

    return status;
}

/* Each second one has a result: all results are different */
static ucs_status_t stream_atomic(stream_t *self)
{
    uct_ep_h ep = self->end->ep;
    uint64_t at = self->cell->address;
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
        ++self->round.sum;
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
            self->round.ams += (kind == 0);
            return 1;
        } else if (status != UCS_ERR_NO_RESOURCE) {
            return accept_fail(self->end, "an operation has failed", status);
        } else if (!accept_progress(self->end, self->until)) {
            return 0;
        }
    }
}

/* Each ended once: the flush is behind all of them */
static void stream_check_calls(stream_t *self)
{
    unsigned i;

    for (i = 0; i < self->num_comps; ++i) {
        if (self->comps[i].calls != 1) {
            STREAM_WRONG(self, "a completion was called %u times", self->comps[i].calls);
        }
    }
}

/* All ended well. Of an atomic that was executed the result may be lost with a path that
 * fails */
static void stream_check_statuses(stream_t *self, int has_faults)
{
    unsigned i, next = 0;
    int is_atomic;

    for (i = 0; i < self->num_comps; ++i) {
        is_atomic = (next < self->num_fetched) &&
                    (self->fetched[next].comp == &self->comps[i]);
        next     += (unsigned)is_atomic;
        if (is_atomic && has_faults &&
            (self->comps[i].super.status == UCS_ERR_IO_ERROR)) {
            ++self->result->lost;
        } else if (self->comps[i].super.status != UCS_OK) {
            STREAM_WRONG(self, "an operation has ended with: %s",
                         ucs_status_string(self->comps[i].super.status));
        }
    }
}

static void stream_check_results(stream_t *self)
{
    uint64_t num                = self->round.sum - self->base;
    char seen[ACCEPT_ROUND_OPS] = {0};
    uint64_t value;
    unsigned i;

    for (i = 0; i < self->num_fetched; ++i) {
        value = self->fetched[i].value;
        if ((self->fetched[i].comp->super.status == UCS_OK) &&
            ((value - self->base >= num) || seen[value - self->base]++)) {
            STREAM_WRONG(self, "an atomic has returned %llu, twice or out of its range",
                         (unsigned long long)value);
        }
    }
}

/* The receiving end compares */
static int stream_account(stream_t *self)
{
    accept_link_t *link = self->end->link;

    if (!accept_send(self->end, &self->round, sizeof(self->round)) ||
        !accept_receive_any(self->end)) {
        return 0;
    }

    if (link->in.head.length == 0) {
        return accept_fail(self->end, "the other process has ended the stream",
                           UCS_ERR_CANCELED);
    }

    accept_link_clean(link->in.data, link->in.head.length);
    if (link->in.data[0] != '\0') {
        STREAM_WRONG(self, "%.*s", (int)sizeof(self->result->wrong) - 1, link->in.data);
    }

    return 1;
}

static int stream_round(stream_t *self, const accept_stream_params_t *params)
{
    unsigned i;

    self->num_comps      = 0;
    self->num_fetched    = 0;
    self->place          = 0;
    self->base           = self->round.sum;
    self->until          = accept_now() + ACCEPT_LIMIT;
    self->round.num_puts = 0;
    self->round.seed     = ~accept_random(&self->random) | 1;
    if (!params->ams_only) {
        accept_round_fill(self->from->data, self->round.seed);
    }

    for (i = 0; i < ACCEPT_ROUND_OPS; ++i) {
        if ((i == ACCEPT_ROUND_OPS / 2) && (params->in_the_middle != NULL)) {
            params->in_the_middle(self->end, params->arg);
        }
        if (!stream_post(self, params, i)) {
            return 0;
        }
    }

    if (!accept_flush(self->end, self->end->ep)) {
        return 0;
    }

    stream_check_calls(self);
    if (!stream_account(self)) {
        return 0;
    }

    stream_check_calls(self);
    stream_check_statuses(self, params->has_faults);
    stream_check_results(self);
    return !stream_wrong(self);
}

static int stream_open(stream_t *self)
{
    const uint64_t ops = self->end->attr.cap.atomic64.op_flags &
                         self->end->attr.cap.atomic64.fop_flags;

    self->random              = 0x9e3779b97f4a7c15ul;
    self->result->has_atomics = (ops & UCS_BIT(UCT_ATOMIC_OP_ADD)) != 0;
    self->from                = accept_mem_get(self->end, ACCEPT_ROUND_SIZE);
    self->to                  = (self->from != NULL) ? accept_remote_get(self->end) : NULL;
    self->cell                = (self->to != NULL) ? accept_remote_get(self->end) : NULL;
    return self->cell != NULL;
}

int accept_stream(accept_end_t *end, const accept_stream_params_t *params,
                  accept_stream_result_t *result)
{
    double until = accept_now() + params->seconds;
    int is_good;

    memset(&stream, 0, sizeof(stream));
    memset(result, 0, sizeof(*result));
    stream.end    = end;
    stream.result = result;
    is_good       = stream_open(&stream);
    while (is_good && (accept_now() < until)) {
        is_good = stream_round(&stream, params);
    }

    result->ams = stream.round.ams;
    return is_good;
}
