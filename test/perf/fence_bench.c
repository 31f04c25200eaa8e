/*
 * The cost of a put and its notification of the peer: put, fence, active message,
 * against waiting at the sender (put, flush, active message), for vqp and stock
 * rc_verbs. Both ends are in this process, so that one clock sees the call and
 * the handler. On the software fabric with its virtual clock (test/perf/fence)
 * the times are those of the network alone, and alike on any machine.
 *
 *   contrib/fabric-run --mode timed -o CLOCK=virtual -o DELAY=1ms -- \
 *       contrib/vqp-run test/perf/fence_bench [--size BYTES] [--count N]
 *           [--delay WORD]
 *
 * Prints CSV without a head line: bench,config,WORD,value,unit,
 *   fence_arrival  from the call of the put to the handler of the message
 *   fence_sender   from there until the sender has been let go
 *   fence_stream   each of many in a row, nothing waited for between
 * For callgrind: --only CONFIG --count N makes N in a row and prints nothing.
 */
#include "side.h"

#include <getopt.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef enum { NOTHING, FENCE, FLUSH } between_t;

typedef struct fence_config {
    const char *name;
    const char *tl;
    const char *options;
    between_t  between;
} fence_config_t;

static const fence_config_t configs[] = {
    {"rc_verbs fence", "rc_verbs", "", FENCE},
    {"rc_verbs wait", "rc_verbs", "", FLUSH},
    {"vqp-1 fence", "vqp", "NUM_PATHS=1", FENCE},
    {"vqp-1 wait", "vqp", "NUM_PATHS=1", FLUSH},
    {"vqp-4 fence", "vqp", "NUM_PATHS=4 MIN_PATHS=4", FENCE},
    {"vqp-4 wait", "vqp", "NUM_PATHS=4 MIN_PATHS=4", FLUSH},
    {"vqp-4 AM_ORDER=all", "vqp", "NUM_PATHS=4 MIN_PATHS=4 AM_ORDER=all", NOTHING},
    {"vqp-4 unordered", "vqp", "NUM_PATHS=4 MIN_PATHS=4", NOTHING}
};

enum { NUM_CONFIGS = sizeof(configs) / sizeof(configs[0]), AM_ID = 1 };

typedef struct fence_world {
    perf_side_t   a, b;
    perf_pair_t   pair;
    perf_memory_t source, target;
    uint64_t      heard;  /* messages */
    uint64_t      at;     /* when the last one was, in ns */
    size_t        size;
    int           ordered;
} fence_world_t;

typedef struct fence_times {
    double arrival, sender, stream; /* us */
} fence_times_t;

static int yields;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void progress(fence_world_t *w)
{
    if ((perf_progress(&w->a, &w->b) == 0) && yields) {
        sched_yield();
    }
}

/* The message's number stands at both ends of the put before it */
static ucs_status_t hear(void *arg, void *data, size_t length, unsigned flags)
{
    fence_world_t *w     = arg;
    const uint64_t *last = (const uint64_t*)(w->target.data + w->size) - 1;
    uint64_t number;

    (void)flags;
    perf_check(length == sizeof(number), "a message of %zu bytes", length);
    memcpy(&number, data, sizeof(number));
    w->at = now_ns();
    ++w->heard;
    if (w->ordered) {
        perf_check((*(const uint64_t*)w->target.data >= number) &&
                   (*last >= number), "a message came before its put");
    }
    return UCS_OK;
}

static void put(fence_world_t *w)
{
    uct_iov_t iov = {.buffer = w->source.data, .length = w->size,
                     .memh = w->source.memh, .count = 1};
    ucs_status_t status;

    while ((status = uct_ep_put_zcopy(w->pair.a_to_b, &iov, 1,
                                      (uint64_t)w->target.data,
                                      w->target.key.rkey, NULL)) ==
           UCS_ERR_NO_RESOURCE) {
        progress(w);
    }
    perf_check(status == UCS_INPROGRESS, "put: %s", ucs_status_string(status));
}

static void flush(fence_world_t *w)
{
    while (uct_ep_flush(w->pair.a_to_b, 0, NULL) != UCS_OK) {
        progress(w);
    }
}

static void notify(fence_world_t *w, between_t between, uint64_t number)
{
    ucs_status_t status;

    if (between == FENCE) {
        perf_check(uct_ep_fence(w->pair.a_to_b, 0) == UCS_OK, "fence");
    } else if (between == FLUSH) {
        flush(w);
    }
    while ((status = uct_ep_am_short(w->pair.a_to_b, AM_ID, number, NULL, 0)) ==
           UCS_ERR_NO_RESOURCE) {
        progress(w);
    }
    perf_check(status == UCS_OK, "message: %s", ucs_status_string(status));
}

static void mark(fence_world_t *w, uint64_t number)
{
    uint64_t *last = (uint64_t*)(w->source.data + w->size) - 1;

    *(uint64_t*)w->source.data = number;
    *last                      = number;
}

static void open_world(fence_world_t *w, const fence_config_t *config,
                       size_t size)
{
    memset(w, 0, sizeof(*w));
    w->size    = size;
    w->ordered = strstr(config->name, "unordered") == NULL;
    perf_side_open(&w->a, config->tl, perf_device(0), config->options);
    perf_side_open(&w->b, config->tl, perf_device(1), config->options);
    perf_check(uct_iface_set_am_handler(w->b.iface, AM_ID, hear, w, 0) ==
               UCS_OK, "handler");
    perf_memory_init(&w->source, &w->a, size);
    perf_memory_init(&w->target, &w->b, size);
    perf_connect(&w->a, &w->b, 1, &w->pair);
}

static void close_world(fence_world_t *w)
{
    flush(w);
    perf_disconnect(&w->a, &w->b, &w->pair);
    perf_memory_cleanup(&w->source);
    perf_memory_cleanup(&w->target);
    perf_side_close(&w->a);
    perf_side_close(&w->b);
}

/* Many in a row; the source is not changed, because it is in flight */
static double stream(fence_world_t *w, between_t between, unsigned count)
{
    uint64_t begin = now_ns(), first = w->heard;
    unsigned i;

    for (i = 0; i < count; ++i) {
        put(w);
        notify(w, between, 0);
    }
    while (w->heard != first + count) {
        progress(w);
    }
    return (double)(w->at - begin) / 1e3 / count;
}

static fence_times_t measure(fence_world_t *w, between_t between, unsigned count)
{
    fence_times_t times = {0, 0, 0};
    uint64_t begin, number;

    for (number = 1; number <= count; ++number) {
        mark(w, number);
        begin = now_ns();
        put(w);
        notify(w, between, number);
        times.sender += (double)(now_ns() - begin) / 1e3 / count;
        while (w->heard != number) {
            progress(w);
        }
        times.arrival += (double)(w->at - begin) / 1e3 / count;
        flush(w);
    }
    times.stream = stream(w, between, count);
    return times;
}

static void print_row(const char *bench, const char *config,
                      const char *parameter, double value)
{
    printf("%s,%s,%s,%.2f,us,\n", bench, config, parameter, value);
}

static void compare(const char *delay, size_t size, unsigned count)
{
    fence_times_t times;
    fence_world_t w;
    unsigned i;

    for (i = 0; i < NUM_CONFIGS; ++i) {
        open_world(&w, &configs[i], size);
        times = measure(&w, configs[i].between, count);
        close_world(&w);
        print_row("fence_arrival", configs[i].name, delay, times.arrival);
        print_row("fence_sender", configs[i].name, delay, times.sender);
        print_row("fence_stream", configs[i].name, delay, times.stream);
    }
}

static void only(const char *name, size_t size, unsigned count)
{
    fence_world_t w;
    unsigned i;

    for (i = 0; i < NUM_CONFIGS; ++i) {
        if (strcmp(configs[i].name, name) == 0) {
            open_world(&w, &configs[i], size);
            stream(&w, configs[i].between, count);
            close_world(&w);
            return;
        }
    }
    perf_check(0, "there is no configuration %s", name);
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"size", 1, NULL, 's'},
                                          {"count", 1, NULL, 'c'},
                                          {"delay", 1, NULL, 'd'},
                                          {"only", 1, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    const char *clock = getenv("VQP_FABRIC_CLOCK");
    const char *delay = "";
    const char *name  = NULL;
    size_t size       = 65536;
    unsigned count    = 100;
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 's':
            size = strtoul(optarg, NULL, 0);
            break;
        case 'c':
            count = (unsigned)strtoul(optarg, NULL, 0);
            break;
        case 'd':
            delay = optarg;
            break;
        case 'o':
            name = optarg;
            break;
        default:
            return 2;
        }
    }
    perf_check((size >= 8) && (size % 8 == 0) && (count > 0),
               "--size: whole words; --count: at least one");
    yields = (clock == NULL) || (strcmp(clock, "virtual") != 0);
    if (name != NULL) {
        only(name, size, count);
    } else {
        compare(delay, size, count);
    }
    return 0;
}
