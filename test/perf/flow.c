/*
 * Latency and bandwidth between two UCP workers of one process, each on a
 * device of its own, over sizes. What is compared is set from outside, by
 * UCX_TLS and the transports' options: vqp with its paths, rc_verbs with its
 * own multi-path (UCX_IB_NUM_PATHS). One process, so that the software fabric
 * can run it by a virtual clock (VQP_FABRIC_CLOCK), where the time that this
 * machine takes does not count; times are those of CLOCK_MONOTONIC.
 *
 *   contrib/fabric-run --mode timed -o PATH_RATE=400 -- env UCX_TLS=vqp \
 *       contrib/vqp-run test/perf/flow [--name CONFIG] [--tests LIST]
 *           [--sizes LIST] [--time SECONDS] [--window N] [--busy US] [--nap]
 *
 * Prints CSV without a head line: TEST,CONFIG,SIZE,value,unit,
 */
#include "side.h"
#include "ucp.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_WINDOW = 1024, MAX_TIMES = 1000, TAG = 7 };

typedef struct flow {
    perf_ucp_t a, b;
    size_t     max_size;
    int        nap;
    const char *name;
    double     seconds; /* of a measurement, at least */
    unsigned   min_ops;
    unsigned   window;  /* operations under way in a measurement of bandwidth */
    double     busy;    /* seconds that the receiver computes between calls of progress */
    double     idle_at; /* it does so until then */
} flow_t;

typedef struct test {
    const char *name;
    double    (*run)(flow_t *flow, size_t size);
    const char *unit;
} test_t;

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void check(ucs_status_t status, const char *what)
{
    perf_check(status == UCS_OK, "%s: %s", what, ucs_status_string(status));
}

/* ---- requests ---- */

/* The receiver handles all that is there, then computes */
static unsigned receiver_progress(flow_t *flow)
{
    unsigned count = 0;

    if (flow->busy == 0) {
        return ucp_worker_progress(flow->b.worker);
    }

    if (now() >= flow->idle_at) {
        while (ucp_worker_progress(flow->b.worker) != 0) {
            ++count;
        }
        flow->idle_at = now() + flow->busy;
    }
    return count;
}

/* Sleep where time passes only for sleepers */
static void progress(flow_t *flow)
{
    struct timespec nap = {.tv_nsec = 1000};
    unsigned count      = ucp_worker_progress(flow->a.worker);

    count += receiver_progress(flow);
    if ((count == 0) && flow->nap) {
        nanosleep(&nap, NULL);
    }
}

static int is_done(ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        check(UCS_PTR_STATUS(request), "request");
        return 1;
    }
    return ucp_request_check_status(request) != UCS_INPROGRESS;
}

static void finish(ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_PTR(request)) {
        check(ucp_request_check_status(request), "request");
        ucp_request_free(request);
    }
}

static void wait_for(flow_t *flow, ucs_status_ptr_t request)
{
    while (!is_done(request)) {
        progress(flow);
    }
    finish(request);
}

static ucs_status_ptr_t put(perf_ucp_t *from, perf_ucp_t *to, size_t size)
{
    ucp_request_param_t param = {0};

    return ucp_put_nbx(from->ep, from->data, size, (uintptr_t)to->data,
                       from->rkey, &param);
}

static ucs_status_ptr_t get(perf_ucp_t *from, perf_ucp_t *to, size_t size)
{
    ucp_request_param_t param = {0};

    return ucp_get_nbx(from->ep, from->data, size, (uintptr_t)to->data,
                       from->rkey, &param);
}

static ucs_status_ptr_t tag_send(perf_ucp_t *from, size_t size)
{
    ucp_request_param_t param = {0};

    return ucp_tag_send_nbx(from->ep, from->data, size, TAG, &param);
}

static ucs_status_ptr_t tag_receive(perf_ucp_t *to, size_t size)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};

    return ucp_tag_recv_nbx(to->worker, to->data, size, TAG, (ucp_tag_t)-1,
                            &param);
}

static void flush(flow_t *flow, perf_ucp_t *end)
{
    ucp_request_param_t param = {0};

    wait_for(flow, ucp_ep_flush_nbx(end->ep, &param));
}

/* ---- latency: the median, in us ---- */

static void put_once(flow_t *flow, size_t size)
{
    wait_for(flow, put(&flow->a, &flow->b, size));
    flush(flow, &flow->a);
}

static void get_once(flow_t *flow, size_t size)
{
    wait_for(flow, get(&flow->a, &flow->b, size));
}

static void ping_pong(flow_t *flow, size_t size)
{
    ucs_status_ptr_t ping = tag_receive(&flow->b, size);
    ucs_status_ptr_t pong = tag_receive(&flow->a, size);
    ucs_status_ptr_t first, second;

    first = tag_send(&flow->a, size);
    wait_for(flow, ping);
    second = tag_send(&flow->b, size);
    wait_for(flow, pong);
    wait_for(flow, first);
    wait_for(flow, second);
}

static double latency(flow_t *flow, size_t size,
                      void (*once)(flow_t *flow, size_t size), double parts)
{
    static double times[MAX_TIMES];
    unsigned count = 0;
    double start, begin;

    once(flow, size); /* connects, registers */
    once(flow, size);
    begin = now();
    do {
        start          = now();
        once(flow, size);
        times[count++] = (now() - start) / parts;
    } while ((count < MAX_TIMES) && ((count < flow->min_ops) ||
                                     ((now() - begin) < flow->seconds)));
    return perf_quantile(times, count, 0.5) * 1e6;
}

static double put_lat(flow_t *flow, size_t size)
{
    return latency(flow, size, put_once, 1);
}

static double get_lat(flow_t *flow, size_t size)
{
    return latency(flow, size, get_once, 1);
}

static double tag_lat(flow_t *flow, size_t size)
{
    return latency(flow, size, ping_pong, 2);
}

/* ---- bandwidth: MB/s, with a window of operations under way ---- */

static ucs_status_ptr_t start_put(flow_t *flow, size_t size,
                                  ucs_status_ptr_t *other)
{
    *other = NULL;
    return put(&flow->a, &flow->b, size);
}

static ucs_status_ptr_t start_get(flow_t *flow, size_t size,
                                  ucs_status_ptr_t *other)
{
    *other = NULL;
    return get(&flow->a, &flow->b, size);
}

static ucs_status_ptr_t start_tag(flow_t *flow, size_t size,
                                  ucs_status_ptr_t *other)
{
    *other = tag_receive(&flow->b, size);
    return tag_send(&flow->a, size);
}

typedef ucs_status_ptr_t (*start_func_t)(flow_t *flow, size_t size,
                                         ucs_status_ptr_t *other);

static double bandwidth(flow_t *flow, size_t size, start_func_t func)
{
    ucs_status_ptr_t request[MAX_WINDOW], other[MAX_WINDOW];
    unsigned long count = 0, i;
    double begin;

    put_once(flow, size);
    begin = now();
    for (i = 0; i < flow->window; ++i, ++count) {
        request[i] = func(flow, size, &other[i]);
    }
    do {
        i = count % flow->window;
        wait_for(flow, request[i]);
        wait_for(flow, other[i]);
        request[i] = func(flow, size, &other[i]);
        ++count;
    } while ((count < (flow->window + flow->min_ops)) ||
             ((now() - begin) < flow->seconds));
    for (i = 0; i < flow->window; ++i) {
        wait_for(flow, request[i]);
        wait_for(flow, other[i]);
    }
    flush(flow, &flow->a);
    return (double)size * (double)count / (now() - begin) / 1e6;
}

static double put_bw(flow_t *flow, size_t size)
{
    return bandwidth(flow, size, start_put);
}

static double get_bw(flow_t *flow, size_t size)
{
    return bandwidth(flow, size, start_get);
}

static double tag_bw(flow_t *flow, size_t size)
{
    return bandwidth(flow, size, start_tag);
}

static const test_t tests[] = {
    {"put_lat", put_lat, "us"},  {"get_lat", get_lat, "us"},
    {"tag_lat", tag_lat, "us"},  {"put_bw", put_bw, "MB/s"},
    {"get_bw", get_bw, "MB/s"},  {"tag_bw", tag_bw, "MB/s"}
};

/* ---- the program ---- */

static int in_list(const char *list, const char *name)
{
    size_t length = strlen(name);
    const char *at;

    for (at = list; (at = strstr(at, name)) != NULL; at += length) {
        if (((at == list) || (at[-1] == ',')) &&
            ((at[length] == ',') || (at[length] == '\0'))) {
            return 1;
        }
    }
    return 0;
}

static void run(flow_t *flow, const char *names, const char *sizes)
{
    const char *at;
    char *end;
    unsigned i;
    size_t size;

    for (i = 0; i < (sizeof(tests) / sizeof(tests[0])); ++i) {
        if (!in_list(names, tests[i].name)) {
            continue;
        }
        for (at = sizes; *at != '\0'; at = (*end == ',') ? (end + 1) : end) {
            size = strtoul(at, &end, 10);
            perf_check((end != at) && (size > 0) && (size <= flow->max_size),
                       "--sizes: %s", at);
            printf("%s,%s,%zu,%.4g,%s,\n", tests[i].name, flow->name, size,
                   tests[i].run(flow, size), tests[i].unit);
            fflush(stdout);
        }
    }
}

static void open_end(flow_t *flow, perf_ucp_t *end, unsigned device)
{
    char name[64];

    snprintf(name, sizeof(name), "%s:1", perf_device(device));
    perf_ucp_open(end, name, flow->max_size);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"name", required_argument, NULL, 'c'},
        {"tests", required_argument, NULL, 't'},
        {"sizes", required_argument, NULL, 's'},
        {"time", required_argument, NULL, 'd'},
        {"min", required_argument, NULL, 'm'},
        {"window", required_argument, NULL, 'w'},
        {"busy", required_argument, NULL, 'b'},
        {"nap", no_argument, NULL, 'n'},
        {NULL, 0, NULL, 0}
    };
    flow_t flow       = {.max_size = 16 << 20, .name = "", .seconds = 0.05,
                         .min_ops = 4, .window = 8};
    const char *names = "put_lat,put_bw";
    const char *sizes = "8,4096,65536,1048576,16777216";
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'c': flow.name = optarg; break;
        case 't': names = optarg; break;
        case 's': sizes = optarg; break;
        case 'd': flow.seconds = atof(optarg); break;
        case 'm': flow.min_ops = (unsigned)atoi(optarg); break;
        case 'w': flow.window = (unsigned)atoi(optarg); break;
        case 'b': flow.busy = atof(optarg) / 1e6; break;
        case 'n': flow.nap = 1; break;
        default:
            fprintf(stderr, "usage: flow [--name CONFIG] [--tests LIST] "
                    "[--sizes LIST] [--time SECONDS] [--min N] [--window N] "
                    "[--busy US] [--nap]\n");
            return 2;
        }
    }
    perf_check((flow.window > 0) && (flow.window <= MAX_WINDOW), "--window: 1 to %d",
               MAX_WINDOW);

    open_end(&flow, &flow.a, 0);
    open_end(&flow, &flow.b, 1);
    perf_ucp_connect(&flow.a, &flow.b, UCP_ERR_HANDLING_MODE_NONE);
    run(&flow, names, sizes);
    perf_ucp_disconnect(&flow.a, &flow.b, 0);
    perf_ucp_close(&flow.a);
    perf_ucp_close(&flow.b);
    return 0;
}
