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

static int measure_put(accept_pair_t *pair, const accept_mem_t *from,
                       const accept_mem_t *to, unsigned i, double end)
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
        status = uct_ep_put_zcopy(pair->side[0].ep, &iov, 1,
                                  (uintptr_t)to->data + (i * MEASURE_PUT), to->rkey.rkey,
                                  &measure_comps[i].super);
    } while ((status == UCS_ERR_NO_RESOURCE) && accept_progress(pair, end));

    if (status == UCS_OK) {
        measure_comps[i].calls = 1;
    }

    return (status == UCS_OK) || (status == UCS_INPROGRESS) ||
           accept_fail(pair, "a put has failed", status);
}

double accept_bandwidth(accept_pair_t *pair, double seconds)
{
    accept_mem_t *from = accept_mem_get(pair, 0, MEASURE_WINDOW * MEASURE_PUT);
    accept_mem_t *to   = accept_mem_get(pair, 1, MEASURE_WINDOW * MEASURE_PUT);
    double begin       = accept_now();
    uint64_t count     = 0;
    unsigned i;

    if ((from == NULL) || (to == NULL)) {
        return 0;
    }

    for (i = 0; accept_now() < begin + seconds; i = (i + 1) % MEASURE_WINDOW) {
        if (count >= MEASURE_WINDOW) {
            while (measure_comps[i].calls == 0) {
                if (!accept_progress(pair, begin + seconds + ACCEPT_LIMIT)) {
                    return 0;
                }
            }
        }
        if (!measure_put(pair, from, to, i, begin + seconds + ACCEPT_LIMIT)) {
            return 0;
        }
        ++count;
    }

    return accept_flush(pair, pair->side[0].ep) ?
                   (double)(count * MEASURE_PUT) / (accept_now() - begin) : 0;
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

static int measure_send(accept_pair_t *pair, unsigned side, const uint64_t *arrived,
                        double end)
{
    uint64_t before = *arrived;
    ucs_status_t status;

    while ((status = uct_ep_am_short(pair->side[side].ep, MEASURE_AM_ID, before, NULL,
                                     0)) == UCS_ERR_NO_RESOURCE) {
        if (!accept_progress(pair, end)) {
            return 0;
        }
    }

    if (status != UCS_OK) {
        return accept_fail(pair, "a message has failed", status);
    }

    while (*arrived == before) {
        if (!accept_progress(pair, end)) {
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

double accept_latency(accept_pair_t *pair, double seconds)
{
    static uint64_t arrived[2]; /* at each side */
    double *samples = calloc(MEASURE_SAMPLES, sizeof(*samples));
    double end      = accept_now() + seconds;
    double result   = 0;
    unsigned count  = 0;
    double begin;
    unsigned i;

    pair->side[1].ep = accept_ep_create(pair, 1);
    if ((samples == NULL) || (pair->side[1].ep == NULL)) {
        free(samples);
        return 0;
    }

    for (i = 0; i < 2; ++i) {
        if (uct_iface_set_am_handler(pair->side[i].iface, MEASURE_AM_ID, measure_on_am,
                                     &arrived[i], 0) != UCS_OK) {
            (void)accept_fail(pair, "no handler of messages can be set", UCS_ERR_IO_ERROR);
        }
    }

    while ((count < MEASURE_SAMPLES) && (accept_now() < end)) {
        begin = accept_now();
        if (!measure_send(pair, 0, &arrived[1], begin + ACCEPT_LIMIT) ||
            !measure_send(pair, 1, &arrived[0], begin + ACCEPT_LIMIT)) {
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

int accept_memory(accept_pair_t *pair, accept_memory_t *memory)
{
    double pinned   = measure_status("VmPin");
    double resident = measure_status("VmRSS");
    uct_ep_h eps[MEASURE_EPS];
    unsigned i, count;
    int is_good = 1;

    for (count = 0; is_good && (count < MEASURE_EPS); ++count) {
        eps[count] = accept_ep_create(pair, 0);
        if (eps[count] == NULL) {
            is_good = 0;
            break;
        }
        is_good = accept_flush(pair, eps[count]);
    }

    memory->pinned   = (measure_status("VmPin") - pinned) / (2 * MEASURE_EPS);
    memory->resident = (measure_status("VmRSS") - resident) / (2 * MEASURE_EPS);
    for (i = 0; i < count; ++i) {
        uct_ep_destroy(eps[i]);
    }

    return is_good;
}
