/*
 * What a cut link costs a program that uses UCP: UCP's own failover between the lanes of
 * an endpoint, or vqp's below UCP. Puts go over two devices of the software fabric; the
 * link of one is cut, or loses some packets, or becomes slow, again and again on new
 * workers, and healed. Both ends are in this process, so that the fabric's virtual clock
 * can be used. The data of each put are checked, and that it completes once. What
 * test/perf/ucp-failover runs.
 */
#include "link.h"
#include "side.h"
#include "ucp.h"

#include <ucs/async/async.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#if UCP_API_VERSION >= UCP_VERSION(1, 21)

enum { LINKS = 2, MAX_WINDOW = 256, MAX_CYCLES = 100, STRIDE = 256 };

#define MEASURE 5e-3  /* s */
#define DARK    20e-3 /* s: from the last put of before the cut, until the link is healed */
#define PARTIAL 1.0   /* s: from the cut, if it is partial, until the link is healed */
#define BACK    1.2   /* s: for the link to be used again. vqp tries each 0.5 s at least,
                         RC sends again after 1.07 s */
#define LIMIT   100   /* s: for the puts of before the cut */
#define RATE    8000  /* Mb/s of a link */

typedef struct bench bench_t;

typedef struct op {
    bench_t  *bench;
    uint64_t number;
    int      is_busy;
} op_t;

/* Of each cycle: ms from the cut, and MB/s */
typedef struct figures {
    double next, gap, ops, before, during, after;
} figures_t;

struct bench {
    perf_ucp_t a, b;
    op_t       ops[MAX_WINDOW];
    size_t     size;
    unsigned   window, cycles;
    uint64_t   posted, done;
    uint64_t   mark;      /* number of the first put after the cut */
    uint64_t   marked;    /* those before it that are not complete */
    double     first;     /* s: of the first completion after the cut; 0: none yet */
    double     mark_end;  /* s: of the last one of those before the cut */
    double     last, gap; /* s: of the last completion; the longest time without one */
    double     async_due; /* s */
    double     busy;      /* s: for which the peer computes between two calls of progress */
    double     busy_end;  /* s */
    figures_t  figures[MAX_CYCLES];
};

static uint64_t *word(const bench_t *bench, char *data, const op_t *op, size_t at)
{
    return (uint64_t*)(data + (size_t)(op - bench->ops) * bench->size + at);
}

static void put_done(void *request, ucs_status_t status, void *arg)
{
    op_t *op       = arg;
    bench_t *bench = op->bench;
    double now     = perf_now();
    size_t at;

    perf_check(status == UCS_OK, "put: %s", ucs_status_string(status));
    perf_check(op->is_busy, "a put has completed twice");
    op->is_busy = 0;
    for (at = 0; at < bench->size; at += STRIDE) {
        perf_check(*word(bench, bench->b.data, op, at) == (op->number << 20) + at,
                   "put %lu: wrong data at byte %zu", (unsigned long)op->number, at);
    }
    bench->gap   = (now - bench->last > bench->gap) ? now - bench->last : bench->gap;
    bench->last  = now;
    bench->first = (bench->first == 0) ? now : bench->first;
    if (op->number < bench->mark) {
        --bench->marked;
        bench->mark_end = now;
    }
    ++bench->done;
    ucp_request_free(request);
}

static void post(bench_t *bench, op_t *op)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_MEMH |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.send      = put_done,
                                 .user_data    = op,
                                 .memh         = bench->a.memh};
    ucs_status_ptr_t request;
    size_t at;

    op->number  = bench->posted++;
    op->is_busy = 1;
    for (at = 0; at < bench->size; at += STRIDE) {
        *word(bench, bench->a.data, op, at) = (op->number << 20) + at;
    }
    request = ucp_put_nbx(bench->a.ep, word(bench, bench->a.data, op, 0), bench->size,
                          (uintptr_t)word(bench, bench->b.data, op, 0), bench->a.rkey,
                          &param);
    perf_check(UCS_PTR_IS_PTR(request), "put: %s",
               ucs_status_string(UCS_PTR_STATUS(request)));
}

static void progress(bench_t *bench)
{
    if (perf_now() >= bench->busy_end) {
        perf_ucp_progress(&bench->a, &bench->b);
        bench->busy_end = perf_now() + bench->busy;
    } else {
        ucp_worker_progress(bench->a.worker);
    }
    if (perf_now() > bench->async_due) {
        /* the async thread comes when the machine lets it, whatever this clock says; if
         * it is at work it shall get the CPU, since others wait for its lock */
        ucs_async_poll(NULL);
        sched_yield();
        bench->async_due = perf_now() + 20e-6;
    }
}

static void turn(bench_t *bench)
{
    unsigned i;

    for (i = 0; i < bench->window; ++i) {
        if (!bench->ops[i].is_busy) {
            post(bench, &bench->ops[i]);
        }
    }
    progress(bench);
}

/* @return MB/s */
static double run_for(bench_t *bench, double seconds)
{
    double begin  = perf_now();
    uint64_t done = bench->done;

    while (perf_now() < begin + seconds) {
        turn(bench);
    }
    return (double)(bench->done - done) * (double)bench->size /
           (perf_now() - begin) / 1e6;
}

static void wait_for_marked(bench_t *bench, double cut)
{
    while (bench->marked > 0) {
        turn(bench);
        perf_check(perf_now() < cut + LIMIT, "puts do not end");
    }
}

static void run_cycle(bench_t *bench, figures_t *figures, unsigned cycle, perf_cut_t cut)
{
    perf_link_t link = {.from = perf_device(cycle % LINKS),
                        .to   = perf_device(cycle % LINKS + LINKS),
                        .rate = (cut == PERF_CUT_SLOW) ? RATE : 0};
    double at;

    while (bench->done < 10 * bench->window) { /* connects, registers */
        turn(bench);
    }
    /* another moment in each cycle */
    figures->before = run_for(bench, MEASURE + (cycle * 2654435761u >> 12 & 1023) * 1e-6);
    perf_link_find(&link);
    bench->last   = at = perf_now();
    bench->first  = bench->gap = 0;
    bench->mark   = bench->posted;
    bench->marked = bench->posted - bench->done;
    perf_link_cut(&link, cut);
    if (!perf_cut_kills_path(cut)) { /* all puts may be complete at once, or after it */
        figures->during = run_for(bench, PARTIAL);
        perf_link_heal(&link);
        wait_for_marked(bench, at);
    } else {
        wait_for_marked(bench, at);
        figures->during = run_for(bench, DARK);
        perf_link_heal(&link);
    }
    run_for(bench, BACK);
    figures->after = run_for(bench, MEASURE);
    figures->next  = (bench->first - at) * 1e3;
    figures->ops   = (bench->mark_end - at) * 1e3;
    figures->gap   = bench->gap * 1e3;
}

static void run_connection(bench_t *bench, unsigned cycle, perf_cut_t cut)
{
    size_t length = bench->size * bench->window;
    char devices[2][80];
    unsigned i;

    for (i = 0; i < 2; ++i) {
        snprintf(devices[i], sizeof(devices[i]), "%s:1,%s:1", perf_device(i * LINKS),
                 perf_device(i * LINKS + 1));
    }
    perf_ucp_open(&bench->a, devices[0], length);
    perf_ucp_open(&bench->b, devices[1], length);
    perf_ucp_connect(&bench->a, &bench->b, UCP_ERR_HANDLING_MODE_FAILOVER);
    bench->posted = bench->done = bench->mark = 0;
    run_cycle(bench, &bench->figures[cycle], cycle, cut);
    while (bench->done < bench->posted) {
        progress(bench);
    }
    perf_ucp_disconnect(&bench->a, &bench->b, 1);
    perf_ucp_close(&bench->a);
    perf_ucp_close(&bench->b);
}

static void print(const bench_t *bench, const char *name, size_t field, const char *unit,
                  int is_time)
{
    double values[MAX_CYCLES];
    unsigned i;

    for (i = 0; i < bench->cycles; ++i) {
        values[i] = *(const double*)((const char*)&bench->figures[i] + field);
    }
    printf("%s p50,%.4g,%s\n", name, perf_quantile(values, bench->cycles, 0.5), unit);
    if (is_time) {
        printf("%s p99,%.4g,%s\n", name, perf_quantile(values, bench->cycles, 0.99), unit);
    }
}

int main(int argc, char **argv)
{
    static bench_t bench;
    perf_cut_t cut;
    unsigned i;

    perf_check(argc == 6, "usage: ucp_failover CUT SIZE WINDOW CYCLES BUSY\n"
               "CUT: lost, lossy, slow, error (link.h). SIZE: bytes of a put. WINDOW: puts "
               "at a time.\nBUSY: seconds between two calls of progress of the peer");
    cut          = perf_cut_by_name(argv[1]);
    bench.size   = strtoul(argv[2], NULL, 0);
    bench.window = (unsigned)atoi(argv[3]);
    bench.cycles = (unsigned)atoi(argv[4]);
    bench.busy   = atof(argv[5]);
    perf_check((cut != PERF_CUT_NUM) && (bench.size > 0) && (bench.size % STRIDE == 0) &&
               (bench.window - 1 < MAX_WINDOW) && (bench.cycles - 1 < MAX_CYCLES),
               "an argument is out of range");
    for (i = 0; i < bench.window; ++i) {
        bench.ops[i].bench = &bench;
    }
    for (i = 0; i < bench.cycles; ++i) {
        run_connection(&bench, i, cut);
    }
    print(&bench, "next operation", offsetof(figures_t, next), "ms", 1);
    print(&bench, "longest pause", offsetof(figures_t, gap), "ms", 1);
    print(&bench, "all operations", offsetof(figures_t, ops), "ms", 1);
    print(&bench, "before", offsetof(figures_t, before), "MB/s", 0);
    print(&bench, "during", offsetof(figures_t, during), "MB/s", 0);
    print(&bench, "after", offsetof(figures_t, after), "MB/s", 0);
    return 0;
}

#else

int main(void)
{
    fprintf(stderr, "ucp_failover: UCX %s has no UCP_ERR_HANDLING_MODE_FAILOVER\n",
            ucp_get_version_string());
    return 77;
}

#endif
