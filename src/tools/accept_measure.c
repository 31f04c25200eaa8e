/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures of a connection, see accept_measure.h. */
#include "tools/accept_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEASURE_AM_ID   8
#define MEASURE_PUT     (1ul << 20)
#define MEASURE_WINDOW  8     /* puts that are under way */
#define MEASURE_SAMPLES 20000 /* round trips, at most */
#define MEASURE_EPS     16

/* ---- bandwidth ---- */

/* Completions may be called late: static */
static accept_comp_t measure_comps[MEASURE_WINDOW];

static int measure_put(accept_end_t *end, const accept_mem_t *from,
                       const accept_remote_t *to, unsigned i, double until)
{
    uct_iov_t iov = {
        .buffer = from->data + (i * MEASURE_PUT),
        .length = MEASURE_PUT,
        .memh   = from->memh,
        .count  = 1
    };
    ucs_status_t status;

    accept_comp_init(&measure_comps[i]);
    do {
        status = uct_ep_put_zcopy(end->ep, &iov, 1, to->address + (i * MEASURE_PUT),
                                  to->rkey.rkey, &measure_comps[i].super);
    } while ((status == UCS_ERR_NO_RESOURCE) && accept_progress(end, until));

    if (status == UCS_OK) {
        measure_comps[i].calls = 1;
    }

    return (status == UCS_OK) || (status == UCS_INPROGRESS) ||
           accept_fail(end, "a put has failed", status);
}

double accept_bandwidth(accept_end_t *end, double seconds, uint64_t *bytes)
{
    accept_mem_t *from        = accept_mem_get(end, MEASURE_WINDOW * MEASURE_PUT);
    const accept_remote_t *to = (from != NULL) ? accept_remote_get(end) : NULL;
    double begin              = accept_now();
    double until              = begin + seconds + ACCEPT_LIMIT;
    uint64_t count            = 0;
    unsigned i;

    if (to == NULL) {
        return 0;
    }

    for (i = 0; accept_now() < begin + seconds; i = (i + 1) % MEASURE_WINDOW) {
        if (count >= MEASURE_WINDOW) {
            while (measure_comps[i].calls == 0) {
                if (!accept_progress(end, until)) {
                    return 0;
                }
            }
        }
        if (!measure_put(end, from, to, i, until)) {
            return 0;
        }
        ++count;
    }

    *bytes = count * MEASURE_PUT;
    return accept_flush(end, end->ep) ? (double)*bytes / (accept_now() - begin) : 0;
}

void accept_bandwidth_serve(accept_end_t *end)
{
    const accept_mem_t *to = accept_mem_get(end, MEASURE_WINDOW * MEASURE_PUT);

    if ((to != NULL) && accept_mem_offer(end, to)) {
        (void)accept_receive_any(end);
    }
}

/* ---- latency ---- */

static ucs_status_t measure_on_am(void *arg, void *data, size_t length, unsigned flags)
{
    (void)data;
    (void)length;
    (void)flags;
    ++*(uint64_t*)arg;
    return UCS_OK;
}

/* @return where messages are counted; NULL: see status */
static const uint64_t *measure_open(accept_end_t *end)
{
    static uint64_t arrived;
    ucs_status_t status;

    arrived = 0;
    status  = uct_iface_set_am_handler(end->iface, MEASURE_AM_ID, measure_on_am, &arrived,
                                       0);
    if (status != UCS_OK) {
        (void)accept_fail(end, "no handler of messages can be set", status);
        return NULL;
    }

    return &arrived;
}

static int measure_send(accept_end_t *end, uint64_t number, double until)
{
    ucs_status_t status;

    while ((status = uct_ep_am_short(end->ep, MEASURE_AM_ID, number, NULL, 0)) ==
           UCS_ERR_NO_RESOURCE) {
        if (!accept_progress(end, until)) {
            return 0;
        }
    }

    return (status == UCS_OK) || accept_fail(end, "a message has failed", status);
}

static int measure_round_trip(accept_end_t *end, const uint64_t *arrived)
{
    double until    = accept_now() + ACCEPT_LIMIT;
    uint64_t before = *arrived;

    if (!measure_send(end, before, until)) {
        return 0;
    }

    while (*arrived == before) {
        if (!accept_progress(end, until)) {
            return 0;
        }
    }

    return 1;
}

static int measure_compare(const void *a, const void *b)
{
    double x = *(const double*)a;
    double y = *(const double*)b;

    return (x > y) - (x < y);
}

/* The other end has an endpoint when it sends the first data */
double accept_latency(accept_end_t *end, double seconds)
{
    const uint64_t *arrived = measure_open(end);
    double *samples         = calloc(MEASURE_SAMPLES, sizeof(*samples));
    double result           = 0;
    unsigned count          = 0;
    double until, begin;

    if ((samples == NULL) || (arrived == NULL) || !accept_receive_any(end)) {
        free(samples);
        return 0;
    }

    until = accept_now() + seconds;
    while ((count < MEASURE_SAMPLES) && (accept_now() < until)) {
        begin = accept_now();
        if (!measure_round_trip(end, arrived)) {
            count = 0;
            break;
        }
        samples[count++] = (accept_now() - begin) / 2;
    }

    if (count > 0) {
        qsort(samples, count, sizeof(*samples), measure_compare);
        result = samples[count / 2];
    }

    free(samples);
    return result;
}

void accept_latency_serve(accept_end_t *end)
{
    const uint64_t *arrived = measure_open(end);
    double until            = accept_now() + ACCEPT_SILENCE;
    uint64_t answered       = 0;

    end->ep = accept_ep_create(end);
    if ((arrived == NULL) || (end->ep == NULL) || !accept_flush(end, end->ep) ||
        !accept_send(end, "ready", 5)) {
        return;
    }

    while (accept_progress(end, until) && !end->arrived) {
        if (*arrived > answered) {
            answered = *arrived;
            if (!measure_send(end, answered, until)) {
                return;
            }
        }
    }
}

/* ---- memory ---- */

/* A line of /proc/self/status, in bytes; 0 if the kernel has none */
static double measure_status(const char *name)
{
    FILE *file    = fopen("/proc/self/status", "re");
    size_t length = strlen(name);
    double kib    = 0;
    char line[256];

    if (file == NULL) {
        return 0;
    }

    while (fgets(line, sizeof(line), file) != NULL) {
        if ((strncmp(line, name, length) == 0) && (line[length] == ':')) {
            kib = strtod(line + length + 1, NULL);
        }
    }

    fclose(file);
    return kib * 1024;
}

static void measure_memory(accept_memory_t *memory)
{
    memory->pinned   = measure_status("VmPin");
    memory->resident = measure_status("VmRSS");
}

/* What an endpoint takes that was created after the first look */
static void measure_difference(accept_memory_t *memory, const accept_memory_t *before)
{
    measure_memory(memory);
    memory->pinned   = (memory->pinned - before->pinned) / MEASURE_EPS;
    memory->resident = (memory->resident - before->resident) / MEASURE_EPS;
}

int accept_memory(accept_end_t *end, accept_memory_t *here, accept_memory_t *there)
{
    double until = accept_now() + ACCEPT_LIMIT;
    uct_ep_h eps[MEASURE_EPS];
    accept_memory_t before;
    unsigned i, count;
    int is_good = 1;

    if (!accept_receive_any(end)) {
        return 0;
    }

    measure_memory(&before);
    for (count = 0; is_good && (count < MEASURE_EPS); ++count) {
        eps[count] = accept_ep_create(end);
        if (eps[count] == NULL) {
            is_good = 0;
            break;
        }
        is_good = accept_flush(end, eps[count]);
        if (is_good && (accept_now() > until)) {
            is_good = accept_fail(end, "it takes too long to connect", UCS_ERR_TIMED_OUT);
        }
    }

    measure_difference(here, &before);
    is_good = is_good && accept_send(end, "connected", 9) &&
              accept_receive(end, there, sizeof(*there));
    for (i = 0; i < count; ++i) {
        uct_ep_destroy(eps[i]);
    }

    return is_good;
}

void accept_memory_serve(accept_end_t *end)
{
    accept_memory_t before, memory;

    measure_memory(&before);
    if (accept_send(end, "ready", 5) && accept_receive_any(end)) {
        measure_difference(&memory, &before);
        (void)accept_send(end, &memory, sizeof(memory));
    }
}
