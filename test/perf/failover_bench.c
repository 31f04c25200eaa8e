/*
 * What a cut link costs: one endpoint over several links of the software fabric,
 * with traffic, again and again on a new connection. A link is cut while the traffic
 * runs, and healed later. One process that has both ends, so that the fabric's
 * virtual clock can be used. What test/perf/bench/failover and contrib/demo.sh run.
 *
 * Data are checked, and each operation completes once, see ops.h. The program fails
 * if an operation ends with an error, if the link that was cut does not carry its
 * share again, or if no path went down and came back. With --until-error it fails
 * unless the connection fails.
 */
#include "link.h"
#include "ops.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINKS = 4, MAX_CYCLES = 1000 };

#define STUCK 0.5e-3 /* s: no send that is answered takes so long */

static const char usage[] =
"usage: failover_bench [OPTION]...\n"
"  --tl NAME         vqp, over all links; rc_verbs, over the first [vqp]\n"
"  --options LIST    of the interfaces: \"NAME=VALUE NAME=VALUE\"\n"
"  --links N         from device i to device i + N; of vqp a bond [4]\n"
"  --rate MB/s       of a link, for shares of it [1000]\n"
"  --op OP           put or am [put]\n"
"  --size N          bytes of an operation [65536]\n"
"  --window N        operations at a time [32]\n"
"  --busy S          seconds between two calls of progress of the receiver [0]\n"
"  --cut HOW         lost, unanswered, both, lossy, port, one, slow (link.h), or\n"
"                    error: the queue pair fails and the link stays [lost]\n"
"  --cycles N        connections, each with one cut [1]\n"
"  --warm S          seconds before the first figure of a cycle [0.005]\n"
"  --measure S       of measuring before the cut, and after the share is back\n"
"                    [0.005]\n"
"  --dark S          from the cut until the link is healed [0.02]\n"
"  --limit S         for the share to be back, and for an error [5]\n"
"  --stats FILE      where the sender's counters go\n"
"  --until-error     measure the time to the error instead\n"
"  --each            print the figures of each cycle too\n"
"  --trace S         print the bandwidth of each link for each S seconds instead\n";

static struct {
    const char *tl, *options, *op, *stats;
    unsigned   links, window, cycles;
    size_t     size;
    perf_cut_t cut;
    int        until_error, each;
    double     rate, warm, measure, dark, limit, trace, busy;
} opts = {.tl = "vqp", .options = "", .op = "put", .links = 4, .window = 32,
          .cycles = 1, .size = 65536, .cut = PERF_CUT_LOST, .rate = 1000,
          .warm = 0.005, .measure = 0.005, .dark = 0.02, .limit = 5};

/* Of each cycle; times in seconds from the cut, but for the last one */
typedef struct figures {
    double next;      /* to the next completed operation */
    double gap;       /* the longest time without one */
    double ops;       /* until all that were posted before the path was given up are
                         complete */
    double share;     /* from the end of the fault until the share is back */
    double error;     /* to the error */
    double cut_bytes; /* in flight on the link at the cut */
    double end_bytes; /* in flight on the link when its path was given up */
    double before, after; /* percent of the links' sum */
    double during;        /* percent of what the other links carried before; of what
                             the link did, if there is no other one */
} figures_t;

typedef struct bench {
    perf_side_t a, b;
    perf_ops_t  ops;
    perf_link_t links[MAX_LINKS];
    figures_t   figures[MAX_CYCLES];
    unsigned    cycle;
} bench_t;

/* What has passed by a moment, of the stream and of each link */
typedef struct moment {
    double   time;
    double   bytes;
    uint64_t link[MAX_LINKS];
} moment_t;

static moment_t take_moment(const bench_t *bench)
{
    moment_t moment = {.time = perf_now(),
                       .bytes = (double)bench->ops.done *
                                (double)bench->ops.size};
    unsigned i;

    for (i = 0; i < opts.links; ++i) {
        moment.link[i] = perf_link_bytes(&bench->links[i]);
    }
    return moment;
}

/* Percent of what so many links carry */
static double share(const moment_t *from, const moment_t *to, unsigned links)
{
    return 100 * (to->bytes - from->bytes) / (to->time - from->time) /
           (links * opts.rate * 1e6);
}

static void run_until(bench_t *bench, double time)
{
    while (perf_now() < time) {
        perf_ops_turn(&bench->ops);
    }
}

/* ---- a cycle ---- */

/* Some moment of a millisecond, and another one in each cycle */
static double phase(const bench_t *bench)
{
    return (double)((bench->cycle * 2654435761u) >> 12 & 1023) / 1023 * 1e-3;
}

static perf_link_t *cut_link(bench_t *bench)
{
    return &bench->links[bench->cycle % opts.links];
}

/* From the cut until the path is given up, and what was posted before is complete */
static void watch_outage(bench_t *bench, figures_t *figures, double cut)
{
    perf_link_t *link = cut_link(bench);
    perf_ops_t *ops   = &bench->ops;
    uint64_t done     = ops->done;
    int64_t pending   = perf_link_pending(link);
    double stuck      = cut; /* since then something was pending */
    int is_over       = !perf_cut_kills_path(opts.cut);

    figures->cut_bytes = figures->end_bytes = (double)pending;
    ops->gap           = 0;
    ops->last          = cut;
    perf_link_cut(link, opts.cut);
    if (is_over) {
        perf_ops_mark(ops);
    }
    while (!is_over || (ops->marked > 0)) {
        perf_ops_turn(ops);
        perf_link_turn(link);
        perf_check(perf_now() < cut + opts.limit,
                   "cycle %u: operations do not end", bench->cycle);
        if ((figures->next == 0) && (ops->done > done)) {
            figures->next = perf_now() - cut;
        }
        pending = perf_link_pending(link);
        if (pending > 0) {
            figures->end_bytes = is_over ? figures->end_bytes : (double)pending;
            continue;
        }
        if (!is_over && ((opts.cut == PERF_CUT_ERROR) || (pending < 0) ||
                         (perf_now() > stuck + STUCK))) {
            is_over = 1; /* its sends were flushed, or there were none */
            perf_ops_mark(ops);
        }
        stuck = perf_now();
    }
    figures->ops = ops->mark_end - cut;
}

/* Until the link that was cut carries at least 90 % of the mean of the others, for
 * half a millisecond. Since when it does. */
static double watch_share(bench_t *bench, double from)
{
    const perf_link_t *link = cut_link(bench);
    moment_t start, end;
    uint64_t all, own;
    unsigned i;

    do {
        start = take_moment(bench);
        run_until(bench, start.time + 0.5e-3);
        end = take_moment(bench);
        for (i = 0, all = 0, own = 0; i < opts.links; ++i) {
            all += end.link[i] - start.link[i];
            if (&bench->links[i] == link) {
                own = end.link[i] - start.link[i];
            }
        }
        perf_check(start.time < from + opts.limit,
                   "cycle %u: the link does not get its share back",
                   bench->cycle);
    } while ((double)own * (opts.links - 1) < 0.9 * (double)(all - own));
    return start.time;
}

static void run_cycle(bench_t *bench, figures_t *figures)
{
    double start = perf_now() + opts.warm;
    unsigned others = (opts.links > 1) ? opts.links - 1 : 1;
    moment_t before, cut, dark, heal, back, end;

    run_until(bench, start);
    before = take_moment(bench);
    run_until(bench, start + opts.measure + phase(bench));
    perf_link_find(cut_link(bench));
    cut = take_moment(bench);
    watch_outage(bench, figures, cut.time);
    dark = take_moment(bench);
    if (opts.cut != PERF_CUT_ERROR) {
        run_until(bench, cut.time + opts.dark);
    }
    figures->gap = perf_now() - bench->ops.last; /* one that has not ended */
    figures->gap = (bench->ops.gap > figures->gap) ? bench->ops.gap : figures->gap;
    perf_link_heal(cut_link(bench));
    heal           = take_moment(bench);
    figures->share = watch_share(bench, heal.time) -
                     ((opts.cut == PERF_CUT_ERROR) ? cut.time : heal.time);
    back = take_moment(bench);
    run_until(bench, back.time + opts.measure);
    end = take_moment(bench);

    figures->before = share(&before, &cut, opts.links);
    figures->during = (opts.cut == PERF_CUT_ERROR) ? 0 :
                      100 * share(&dark, &heal, others) /
                      figures->before;
    figures->after  = share(&back, &end, opts.links);
}

/* The time until something says that the connection has failed */
static void run_until_error(bench_t *bench, figures_t *figures)
{
    double cut;

    run_until(bench, perf_now() + opts.warm);
    perf_link_find(cut_link(bench));
    cut = perf_now();
    perf_link_cut(cut_link(bench), opts.cut);
    while ((bench->ops.failed == 0) && (bench->a.errors == 0)) {
        perf_ops_turn(&bench->ops);
        perf_check(perf_now() < cut + opts.limit, "cycle %u: no error",
                   bench->cycle);
    }
    figures->error = perf_now() - cut;
    perf_link_heal(cut_link(bench));
}

/* ---- bandwidth over time ---- */

/* A cycle, in which each link's bytes are counted */
static void trace(bench_t *bench)
{
    const double begin = perf_now();
    const double cut   = begin + opts.warm;
    const double heal  = cut + opts.dark;
    const double end   = heal + opts.limit;
    moment_t last      = take_moment(bench);
    int state          = 0;
    moment_t now;
    double due;
    unsigned i;

    perf_link_find(&bench->links[1 % opts.links]);
    for (due = begin + opts.trace; last.time < end; due += opts.trace) {
        while (perf_now() < due) {
            perf_ops_turn(&bench->ops);
            if ((state == 0) && (perf_now() >= cut)) {
                perf_link_cut(&bench->links[1 % opts.links], opts.cut);
                state = 1;
            } else if ((state == 1) && (perf_now() >= heal)) {
                perf_link_heal(&bench->links[1 % opts.links]);
                state = 2;
            }
        }

        now = take_moment(bench);
        for (i = 0; i < opts.links; ++i) {
            printf("trace,link %u,%.3f,%.0f,MB/s,\n", i + 1,
                   (last.time - begin) * 1e3,
                   (double)(now.link[i] - last.link[i]) /
                   (now.time - last.time) / 1e6);
        }
        printf("trace,all,%.3f,%.0f,MB/s,\n", (last.time - begin) * 1e3,
               (now.bytes - last.bytes) / (now.time - last.time) / 1e6);
        last = now;
    }
}

/* ---- results ---- */

static void print_cycle(unsigned cycle, const figures_t *f)
{
    printf("cycle %u: next %.4g pause %.4g operations %.4g share %.4g error %.4g "
           "ms; in flight %.4g %.4g KiB; %.4g %.4g %.4g %%\n", cycle,
           f->next * 1e3, f->gap * 1e3, f->ops * 1e3, f->share * 1e3,
           f->error * 1e3, f->cut_bytes / 1024, f->end_bytes / 1024, f->before,
           f->during, f->after);
}

/* Of one field of all cycles, at these quantiles; -1: the mean */
static double summary(const bench_t *bench, size_t field, double quantile)
{
    double values[MAX_CYCLES], sum = 0;
    unsigned i;

    for (i = 0; i < opts.cycles; ++i) {
        values[i] = *(const double*)((const char*)&bench->figures[i] + field);
        sum      += values[i];
    }
    if (quantile < 0) {
        return sum / opts.cycles;
    }
    return perf_quantile(values, opts.cycles, quantile);
}

static void print(const bench_t *bench, const char *name, size_t field,
                  double scale, const char *unit, int is_time)
{
    if (is_time) {
        printf("%s p50,%.4g,%s\n", name, summary(bench, field, 0.5) * scale,
               unit);
        printf("%s p99,%.4g,%s\n", name, summary(bench, field, 0.99) * scale,
               unit);
    } else {
        printf("%s,%.4g,%s\n", name, summary(bench, field, -1) * scale, unit);
    }
}

static void print_figures(const bench_t *bench)
{
#define PRINT(_name, _field, _scale, _unit, _is_time) \
    print(bench, _name, offsetof(figures_t, _field), _scale, _unit, _is_time)
    if (opts.until_error) {
        PRINT("error", error, 1e3, "ms", 1);
        return;
    }
    PRINT("next operation", next, 1e3, "ms", 1);
    PRINT("longest pause", gap, 1e3, "ms", 1);
    PRINT("all operations", ops, 1e3, "ms", 1);
    PRINT("share back", share, 1e3, "ms", 1);
    PRINT("in flight at the cut", cut_bytes, 1. / 1024, "KiB", 0);
    PRINT("in flight at the end", end_bytes, 1. / 1024, "KiB", 0);
    PRINT("before", before, 1, "%", 0);
    if (opts.cut != PERF_CUT_ERROR) {
        PRINT("during", during, 1, "%", 0);
    }
    PRINT("after", after, 1, "%", 0);
#undef PRINT
}

/* ---- the program ---- */

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"tl", 1, NULL, 't'},      {"options", 1, NULL, 'o'},
        {"links", 1, NULL, 'l'},   {"rate", 1, NULL, 'r'},
        {"op", 1, NULL, 'p'},      {"size", 1, NULL, 's'},
        {"window", 1, NULL, 'w'},  {"cut", 1, NULL, 'c'},
        {"cycles", 1, NULL, 'n'},  {"warm", 1, NULL, 'W'},
        {"measure", 1, NULL, 'm'}, {"dark", 1, NULL, 'd'},
        {"limit", 1, NULL, 'L'},   {"stats", 1, NULL, 'f'},
        {"until-error", 0, NULL, 'e'}, {"trace", 1, NULL, 'T'},
        {"each", 0, NULL, 'E'},    {"busy", 1, NULL, 'b'},
        {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 't': opts.tl = optarg; break;
        case 'o': opts.options = optarg; break;
        case 'l': opts.links = (unsigned)atoi(optarg); break;
        case 'r': opts.rate = atof(optarg); break;
        case 'p': opts.op = optarg; break;
        case 's': opts.size = strtoul(optarg, NULL, 0); break;
        case 'w': opts.window = (unsigned)atoi(optarg); break;
        case 'c': opts.cut = perf_cut_by_name(optarg); break;
        case 'n': opts.cycles = (unsigned)atoi(optarg); break;
        case 'W': opts.warm = atof(optarg); break;
        case 'm': opts.measure = atof(optarg); break;
        case 'd': opts.dark = atof(optarg); break;
        case 'L': opts.limit = atof(optarg); break;
        case 'f': opts.stats = optarg; break;
        case 'e': opts.until_error = 1; break;
        case 'E': opts.each = 1; break;
        case 'b': opts.busy = atof(optarg); break;
        case 'T': opts.trace = atof(optarg); break;
        default: fputs(usage, stderr); exit(2);
        }
    }
    if ((optind != argc) || (opts.links < 1) || (opts.links > MAX_LINKS) ||
        (opts.window < 1) || (opts.cycles < 1) || (opts.cycles > MAX_CYCLES) ||
        (opts.cut == PERF_CUT_NUM)) {
        fputs(usage, stderr);
        exit(2);
    }
}

static void open_bench(bench_t *bench)
{
    int is_vqp = strcmp(opts.tl, "vqp") == 0;
    char options[512];
    unsigned i;

    for (i = 0; i < opts.links; ++i) {
        bench->links[i].from = perf_device(i);
        bench->links[i].to   = perf_device(i + opts.links);
        bench->links[i].rate = (opts.cut == PERF_CUT_SLOW) ?
                               (unsigned)(opts.rate * 8) : 0;
    }
    snprintf(options, sizeof(options), " %s%s%s", opts.options,
             (opts.stats != NULL) ? " STATS_FILE=" : "",
             (opts.stats != NULL) ? opts.stats : "");
    is_vqp = is_vqp && (opts.links > 1);
    perf_side_open(&bench->a, opts.tl, is_vqp ? "bond0" : bench->links[0].from,
                   options);
    snprintf(options, sizeof(options), " %s", opts.options);
    perf_side_open(&bench->b, opts.tl, is_vqp ? "bond1" : bench->links[0].to,
                   options);
    bench->a.may_fail = bench->b.may_fail = opts.until_error;
    perf_ops_init(&bench->ops, &bench->a, &bench->b, opts.op, opts.size,
                  opts.window);
    bench->ops.busy = opts.busy;
}

static void run_connection(bench_t *bench)
{
    perf_pair_t pair;

    bench->a.errors = 0;
    perf_connect(&bench->a, &bench->b, 0, &pair);
    perf_ops_start(&bench->ops, pair.a_to_b);
    if (opts.trace > 0) {
        trace(bench);
    } else if (opts.until_error) {
        run_until_error(bench, &bench->figures[bench->cycle]);
    } else {
        run_cycle(bench, &bench->figures[bench->cycle]);
    }
    perf_ops_finish(&bench->ops);
    if (opts.each) {
        print_cycle(bench->cycle, &bench->figures[bench->cycle]);
    }
    perf_disconnect(&bench->a, &bench->b, &pair);
}

int main(int argc, char **argv)
{
    static bench_t bench;

    parse(argc, argv);
    perf_async_mode = UCS_ASYNC_MODE_POLL;
    open_bench(&bench);
    for (bench.cycle = 0; bench.cycle < opts.cycles; ++bench.cycle) {
        run_connection(&bench);
    }
    perf_ops_cleanup(&bench.ops);
    perf_side_close(&bench.a);
    perf_side_close(&bench.b);
    if (opts.trace == 0) {
        print_figures(&bench);
    }
    return 0;
}
