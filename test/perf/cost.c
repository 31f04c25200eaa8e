/*
 * What an operation costs the CPU: ns of posting, of its completion, and of
 * the receiver, for vqp with several numbers of paths and for stock rc_verbs,
 * in one process. They take turns in slices of some microseconds, and a ratio
 * is the median of those of neighboring slices: a disturbance of the
 * machine affects both. Bare verbs take turns too, and give the cost of the
 * device itself: on the software fabric a post executes the
 * request, data and all.
 *
 *   contrib/fabric-run --violations off -o YIELD=0 -- \
 *       contrib/vqp-run test/perf/cost [--rounds N] [--only OPERATION]
 *
 * With --config NAME --only OPERATION --count N it makes N such operations
 * (rounded up to slices), or N calls of progress for OPERATION "idle", on that
 * configuration alone, and prints nothing. With --length BYTES, OPERATION is a name
 * without its length, and has this one, in one part. It is for callgrind: all of it
 * is in the function measured().
 *
 * Prints CSV: bench,config,parameter,value,unit,ratio. The ratio is to
 * rc_verbs. The value is of one operation, or of one part of it, where
 * rc_verbs takes several calls for the same.
 */
#include "cost.h"

#include <ucs/time/time.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BATCH       = 8,   /* posts between two calls of progress */
    BATCHES     = 8,   /* of a slice */
    WARM_UP     = 40,  /* slices before instructions are counted */
    MAX_ROUNDS  = 100000,
    IDLE_CALLS  = 256,
    NUM_CONFIGS = 6
};

typedef enum { POST, COMPLETE, RECEIVE, ALL, PHASES } phase_t;

static const char *phase_names[PHASES] = {"cost_post", "cost_complete",
                                          "cost_receive", "cost"};

static cost_config_t configs[NUM_CONFIGS] = {
    {.name = "rc_verbs", .tl = "rc_verbs", .options = "", .paths = 1},
    /* the stock 4096 buffers of 8 KiB are more than caches hold */
    {.name = "rc_verbs-rx256", .tl = "rc_verbs", .options = "IB_RX_QUEUE_LEN=256",
     .paths = 1},
    {.name = "verbs", .paths = 8},
    /* by default: nothing here fills a path, so it has one */
    {.name = "vqp", .tl = "vqp", .options = "", .paths = 1},
    {.name = "vqp-4", .tl = "vqp", .options = "NUM_PATHS=4 MIN_PATHS=4", .paths = 4},
    {.name = "vqp-8", .tl = "vqp", .options = "NUM_PATHS=8 MIN_PATHS=8", .paths = 8}
};

/* Ticks of each phase: [config][phase][round] */
static uint64_t *ticks[NUM_CONFIGS][PHASES];
static unsigned rounds = 1500;

/* ---- slices ---- */

/* Post, with progress if there is no room: that is part of posting then */
static void post(cost_config_t *config, const cost_operation_t *op,
                 uint32_t length)
{
    ucs_status_t status;

    while ((status = op->post(config, length)) == UCS_ERR_NO_RESOURCE) {
        perf_progress(&config->a, &config->b);
    }
    perf_check(status == UCS_OK, "%s on %s: %s", op->name, config->name,
               ucs_status_string(status));
}

static void transport_slice(cost_config_t *config, const cost_operation_t *op,
                            uint64_t *spent)
{
    unsigned calls        = (config->paths == 1) ? op->parts : 1;
    unsigned long count   = (unsigned long)BATCH * BATCHES * calls;
    unsigned long due     = cost_completed;
    unsigned long done    = cost_completed + (op->completes ? count : 0);
    unsigned long arrived = cost_received + (op->is_message ? count : 0);
    uint64_t t0, t1, t2, t3;
    unsigned batch, i;

    for (batch = 0; (batch < BATCHES) || (cost_completed < done) ||
                    (cost_received < arrived); ++batch) {
        t0 = ucs_get_time();
        for (i = 0; (batch < BATCHES) && (i < (BATCH * calls)); ++i) {
            post(config, op, op->length / calls);
        }
        t1 = ucs_get_time();
        due += (batch < BATCHES) && op->completes ? BATCH * calls : 0;
        do { /* an op that waits for room would be posted in here */
            uct_worker_progress(config->a.worker);
        } while (cost_completed < due);
        t2 = ucs_get_time();
        if (op->is_message) {
            uct_worker_progress(config->b.worker);
        }
        t3 = ucs_get_time();
        spent[POST]     += t1 - t0;
        spent[COMPLETE] += t2 - t1;
        spent[RECEIVE]  += t3 - t2;
    }
}

/* Without a completion of their own, one of 16 is signaled */
static void bare_slice(cost_config_t *config, const cost_operation_t *op,
                       uint64_t *spent)
{
    bare_t *bare      = &config->bare;
    unsigned open     = 0;
    unsigned posted   = 0;
    unsigned last_sgn = BATCH * BATCHES * op->parts;
    uint64_t t0, t1, t2;
    unsigned batch, i, flags;

    for (batch = 0; (batch < BATCHES) || (open > 0); ++batch) {
        t0 = ucs_get_time();
        for (i = 0; (batch < BATCHES) && (i < (BATCH * op->parts)); ++i) {
            flags = op->bare_flags;
            ++posted;
            if (((posted % 16) == 0) || (posted == last_sgn)) {
                flags |= IBV_SEND_SIGNALED;
            }
            open += !!(flags & IBV_SEND_SIGNALED);
            bare_write(bare, i % op->parts % bare->paths,
                       op->length / op->parts, flags);
        }
        t1    = ucs_get_time();
        open -= (unsigned)bare_poll(bare);
        t2    = ucs_get_time();
        spent[POST]     += t1 - t0;
        spent[COMPLETE] += t2 - t1;
    }
}

static int takes_part(const cost_config_t *config, const cost_operation_t *op)
{
    return (config->tl != NULL) || op->has_bare;
}

static void measure(const cost_operation_t *op)
{
    uint64_t spent[PHASES];
    unsigned round, c, phase;

    for (round = 0; round < rounds; ++round) {
        for (c = 0; c < NUM_CONFIGS; ++c) {
            if (!takes_part(&configs[c], op)) {
                continue;
            }
            memset(spent, 0, sizeof(spent));
            if (configs[c].tl == NULL) {
                bare_slice(&configs[c], op, spent);
            } else {
                transport_slice(&configs[c], op, spent);
            }
            spent[ALL] = spent[POST] + spent[COMPLETE] + spent[RECEIVE];
            for (phase = 0; phase < PHASES; ++phase) {
                ticks[c][phase][round] = spent[phase];
            }
        }
    }
}

/* ---- what comes out ---- */

/* The first tenth warms up */
static double middle(unsigned c, unsigned phase, unsigned base_config)
{
    static double values[MAX_ROUNDS];
    unsigned count = 0, round;
    double base;

    for (round = rounds / 10; round < rounds; ++round) {
        base = (base_config == NUM_CONFIGS) ? 1. :
               (double)ticks[base_config][phase][round];
        if (base > 0) {
            values[count++] = (double)ticks[c][phase][round] / base;
        }
    }
    return (count == 0) ? 0 : perf_quantile(values, count, 0.5);
}

static void print(const char *bench, unsigned c, const char *parameter,
                  double divisor, unsigned phase)
{
    double ns = ucs_time_to_nsec(1) * middle(c, phase, NUM_CONFIGS) / divisor;

    printf("%s,%s,%s,%.1f,ns,", bench, configs[c].name, parameter, ns);
    if (c == 0) {
        printf("1\n");
    } else {
        printf("%.3f\n", middle(c, phase, 0));
    }
}

static void print_operation(const cost_operation_t *op)
{
    double divisor = BATCH * BATCHES * op->parts;
    unsigned c, phase;

    for (phase = 0; phase < PHASES; ++phase) {
        for (c = 0; c < NUM_CONFIGS; ++c) {
            if (takes_part(&configs[c], op) &&
                ((phase != RECEIVE) || op->is_message)) {
                print(phase_names[phase], c, op->name, divisor, phase);
            }
        }
    }
}

/* What a call of progress takes with nothing to do */
static void idle(const char *parameter)
{
    unsigned round, c, i;
    uint64_t start;

    for (round = 0; round < rounds; ++round) {
        for (c = 0; c < NUM_CONFIGS; ++c) {
            start = ucs_get_time();
            for (i = 0; i < IDLE_CALLS; ++i) {
                if (configs[c].tl == NULL) {
                    bare_poll(&configs[c].bare);
                } else {
                    uct_worker_progress(configs[c].a.worker);
                }
            }
            ticks[c][ALL][round] = ucs_get_time() - start;
        }
    }
    for (c = 0; c < NUM_CONFIGS; ++c) {
        print("idle", c, parameter, IDLE_CALLS, ALL);
    }
}

/* Until nothing remembers the traffic */
static void settle(void)
{
    struct timespec pause = {.tv_nsec = 250000000};
    unsigned c;

    nanosleep(&pause, NULL);
    for (c = 0; c < NUM_CONFIGS; ++c) {
        if (configs[c].tl != NULL) {
            uct_worker_progress(configs[c].a.worker);
        }
    }
}

static void open_all(int small_frags)
{
    unsigned c;

    for (c = 0; c < NUM_CONFIGS; ++c) {
        cost_config_open(&configs[c], small_frags);
    }
}

static void close_all(void)
{
    unsigned c;

    for (c = 0; c < NUM_CONFIGS; ++c) {
        cost_config_close(&configs[c]);
    }
}

/* What callgrind counts: start-up, which waits for the peer, takes any number of polls.
 * @a op: NULL: calls of progress */
static void __attribute__((noinline, noclone))
measured(cost_config_t *config, const cost_operation_t *op, unsigned long count)
{
    uint64_t spent[PHASES] = {0};
    unsigned long i;

    if (op == NULL) {
        for (i = 0; i < count; ++i) {
            uct_worker_progress(config->a.worker);
        }
    } else {
        for (i = 0; i < count; i += BATCH * BATCHES) {
            transport_slice(config, op, spent);
        }
    }
}

/* Without turns, for counting instructions. @a length: 0: the operation's own */
static void repeat(const char *name, const char *only, unsigned long length,
                   unsigned long count)
{
    const cost_operation_t *op = cost_operations;
    int is_idle                = !strcmp(only, "idle");
    size_t matches             = strlen(only) + (length == 0); /* all of the name */
    uint64_t spent[PHASES]     = {0};
    cost_operation_t of_length;
    unsigned c = 0;
    unsigned i;

    while ((c < NUM_CONFIGS) && strcmp(configs[c].name, name)) {
        ++c;
    }
    while (!is_idle && (op->name != NULL) && strncmp(op->name, only, matches)) {
        ++op;
    }
    perf_check((c < NUM_CONFIGS) && (configs[c].tl != NULL) &&
               (op->name != NULL), "no configuration '%s', or no operation "
               "'%s'", name, only);

    if (length != 0) {
        perf_check(length <= COST_MAX_LENGTH, "--length is at most %d",
                   COST_MAX_LENGTH);
        of_length        = *op;
        of_length.length = (uint32_t)length;
        of_length.parts  = 1;
        op               = &of_length;
    }

    cost_config_open(&configs[c], !is_idle && (op->parts > 1));
    for (i = 0; !is_idle && (i < WARM_UP); ++i) {
        transport_slice(&configs[c], op, spent);
    }
    measured(&configs[c], is_idle ? NULL : op, count);
    cost_config_close(&configs[c]);
}

static void run(const char *only)
{
    const cost_operation_t *op;
    int small_frags;

    for (small_frags = 0; small_frags <= 1; ++small_frags) {
        open_all(small_frags);
        for (op = cost_operations; op->name != NULL; ++op) {
            if (((only == NULL) || (strstr(op->name, only) != NULL)) &&
                ((op->parts > 1) == small_frags)) {
                measure(op);
                print_operation(op);
                fflush(stdout);
            }
        }
        if (!small_frags && ((only == NULL) || !strcmp(only, "idle"))) {
            /* vqp looks at the clock for a while after it had paths to measure */
            idle("progress just after traffic");
            settle();
            idle("progress");
        }
        close_all();
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"rounds", required_argument, NULL, 'r'},
        {"only", required_argument, NULL, 'o'},
        {"config", required_argument, NULL, 'c'},
        {"count", required_argument, NULL, 'n'},
        {"length", required_argument, NULL, 'l'},
        {NULL, 0, NULL, 0}
    };
    const char *only   = NULL;
    const char *config = NULL;
    unsigned long count  = 0;
    unsigned long length = 0;
    unsigned c, phase;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'r':
            rounds = (unsigned)atoi(optarg);
            perf_check((rounds >= 10) && (rounds <= MAX_ROUNDS),
                       "--rounds needs 10 to %d", MAX_ROUNDS);
            break;
        case 'o':
            only = optarg;
            break;
        case 'c':
            config = optarg;
            break;
        case 'n':
            count = strtoul(optarg, NULL, 10);
            break;
        case 'l':
            length = strtoul(optarg, NULL, 10);
            break;
        default:
            fprintf(stderr, "usage: cost [--rounds N] [--only OPERATION] "
                    "[--config NAME --count N [--length BYTES]]\n");
            return 2;
        }
    }

    perf_check((length == 0) || ((config != NULL) && (only != NULL) &&
                                 strcmp(only, "idle")),
               "--length needs --config, and --only with an operation");
    if (config != NULL) {
        perf_check(only != NULL, "--config needs --only");
        repeat(config, only, length, count);
        return 0;
    }

    for (c = 0; c < NUM_CONFIGS; ++c) {
        for (phase = 0; phase < PHASES; ++phase) {
            ticks[c][phase] = calloc(rounds, sizeof(uint64_t));
            perf_check(ticks[c][phase] != NULL, "no memory");
        }
    }
    printf("bench,config,parameter,value,unit,ratio\n");
    run(only);
    return 0;
}
