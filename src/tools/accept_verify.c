/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving end of a verified stream, see accept_verify.h. */
#include "tools/accept_verify.h"

#include "tools/accept_round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERIFY_VISIBLE 0.1 /* seconds until what was written is seen, at most */

typedef struct verify {
    accept_end_t *end;
    accept_mem_t *to;
    accept_mem_t *cell;      /* for atomics */
    char         *source;    /* of the puts of a round */
    char         *expected;  /* what the target must be */
    uint64_t      ams;       /* number of the next message */
    uint64_t      puts;
    char          wrong[256]; /* what was not as it must be; or "" */
} verify_t;

/* What was found first is said */
#define VERIFY_WRONG(_self, ...) \
    do { \
        if ((_self)->wrong[0] == '\0') { \
            snprintf((_self)->wrong, sizeof((_self)->wrong), __VA_ARGS__); \
        } \
    } while (0)

static ucs_status_t
verify_on_am(void *arg, void *data, size_t length, unsigned flags)
{
    verify_t *self             = arg;
    const unsigned char *bytes = (const unsigned char*)data + sizeof(accept_am_t);
    accept_am_t am;
    size_t i;

    (void)flags;
    if (length < sizeof(am)) {
        VERIFY_WRONG(self, "a message of %zu bytes has arrived, none so short was sent",
                     length);
        return UCS_OK;
    }

    memcpy(&am, data, sizeof(am));
    if (am.number != self->ams) {
        VERIFY_WRONG(self, "message %llu has arrived in place of message %llu",
                     (unsigned long long)am.number, (unsigned long long)self->ams);
    } else if (am.length != length - sizeof(am)) {
        VERIFY_WRONG(self, "message %llu has arrived with %zu bytes, %llu were sent",
                     (unsigned long long)am.number, length - sizeof(am),
                     (unsigned long long)am.length);
    } else {
        for (i = 0; (i < am.length) && (bytes[i] == accept_am_byte(am.number, i)); ++i) {
        }
        if (i < am.length) {
            VERIFY_WRONG(self, "byte %zu of message %llu is wrong", i,
                         (unsigned long long)am.number);
        }
    }

    ++self->ams;
    return UCS_OK;
}

/* The acknowledgement of a write says that this device has it, not that a CPU sees it:
 * relaxed ordering may need a moment */
static void verify_await_memory(const verify_t *self, uint64_t sum)
{
    double until = accept_now() + VERIFY_VISIBLE;

    while (((__atomic_load_n((uint64_t*)self->cell->data, __ATOMIC_ACQUIRE) != sum) ||
            (memcmp(self->to->data, self->expected, ACCEPT_ROUND_SIZE) != 0)) &&
           (accept_now() < until)) {
    }
}

static void verify_memory(verify_t *self, uint64_t sum)
{
    uint64_t cell;
    size_t i;

    verify_await_memory(self, sum);
    cell = __atomic_load_n((uint64_t*)self->cell->data, __ATOMIC_ACQUIRE);
    if (cell != sum) {
        VERIFY_WRONG(self, "the sum of the atomics is %llu, not %llu",
                     (unsigned long long)cell, (unsigned long long)sum);
    }

    if (memcmp(self->to->data, self->expected, ACCEPT_ROUND_SIZE) == 0) {
        return;
    }

    /* what arrives late may be there now */
    for (i = 0; (i + 1 < ACCEPT_ROUND_SIZE) && (self->to->data[i] == self->expected[i]);
         ++i) {
    }
    VERIFY_WRONG(self, "byte %zu of the target of the puts is wrong, after %llu puts", i,
                 (unsigned long long)self->puts);
}

/* @return 0: the account is none */
static int verify_expect(verify_t *self, const accept_round_t *round)
{
    unsigned i;

    if ((round->num_puts > ACCEPT_ROUND_OPS) || (round->seed == 0)) {
        return 0;
    }

    if (round->num_puts > 0) {
        accept_round_fill(self->source, round->seed);
    }

    for (i = 0; i < round->num_puts; ++i) {
        if ((round->puts[i].size > ACCEPT_ROUND_SIZE) ||
            (round->puts[i].offset > ACCEPT_ROUND_SIZE - round->puts[i].size)) {
            return 0;
        }
        memcpy(self->expected + round->puts[i].offset,
               self->source + round->puts[i].offset, round->puts[i].size);
    }

    self->puts += round->num_puts;
    return 1;
}

static int verify_round(verify_t *self, const accept_round_t *round)
{
    double until = accept_now() + ACCEPT_LIMIT;

    if (!verify_expect(self, round)) {
        return accept_fail(self->end, "the other process sends no account of a round",
                           UCS_ERR_INVALID_PARAM);
    }

    /* a flush does not wait for the handler of a message */
    while ((self->ams < round->ams) && (self->wrong[0] == '\0')) {
        if (!accept_progress(self->end, until)) {
            return 0;
        }
    }

    verify_memory(self, round->sum);
    return accept_send(self->end, self->wrong, strlen(self->wrong) + 1);
}

static int verify_open(verify_t *self)
{
    ucs_status_t status;

    self->to       = accept_mem_get(self->end, ACCEPT_ROUND_SIZE);
    self->cell     = (self->to != NULL) ? accept_mem_get(self->end, 4096) : NULL;
    self->source   = malloc(ACCEPT_ROUND_SIZE);
    self->expected = calloc(1, ACCEPT_ROUND_SIZE);
    if (self->cell == NULL) {
        return 0;
    } else if ((self->source == NULL) || (self->expected == NULL)) {
        return accept_fail(self->end, "there is no memory", UCS_ERR_NO_MEMORY);
    }

    status = uct_iface_set_am_handler(self->end->iface, ACCEPT_ROUND_AM_ID, verify_on_am,
                                      self, 0);
    if (status != UCS_OK) {
        return accept_fail(self->end, "no handler of messages can be set", status);
    }

    return accept_mem_offer(self->end, self->to) && accept_mem_offer(self->end, self->cell);
}

/* Messages may arrive until the end is closed: static */
void accept_verify(accept_end_t *end)
{
    static verify_t verify;
    const accept_frame_t *in = &end->link->in;
    accept_round_t round;
    int is_good;

    memset(&verify, 0, sizeof(verify));
    verify.end = end;
    is_good    = verify_open(&verify);
    while (is_good && accept_receive_any(end) && (in->head.length == sizeof(round))) {
        memcpy(&round, in->data, sizeof(round));
        is_good = verify_round(&verify, &round);
    }

    free(verify.source);
    free(verify.expected);
}
