/*
 * What it costs to announce an active message of several frags, by policy:
 * receive completions and work requests per message, and the time from the
 * call that sends it to the call of the handler. Both ends are in this process;
 * the policies take turns, message by message, so that what disturbs the
 * machine disturbs all of them. test/perf/notify is the way to start it.
 *
 *   notify_cost [--rounds N] [--paths LIST] [--frags LIST] [--policies LIST]
 *
 * Prints lines "paths frags policy receive_cqes work_requests ns", the last
 * three of one message, the time a median. With one policy it calls
 * notify_mark() before and after the rounds of each line, for callgrind.
 */
#include "side.h"

#include "../fabric/fabric.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    AM_ID        = 7,
    FRAG         = 256, /* the smallest that UCX_VQP_MIN_FRAG takes */
    RECORD       = 16,  /* header of a message in the ring, part of a frag */
    MAX_FRAGS    = 64,
    MAX_POLICIES = 4,
    MAX_ROUNDS   = 100000,
    WARM_UP      = 4
};

typedef struct policy {
    char          name[16];
    char          stats[64]; /* file of the receiver's counters */
    perf_side_t   a, b;
    perf_pair_t   pair;
    perf_memory_t source;
    unsigned long received;
    unsigned long sent;
    unsigned long work_requests;
    double        *ns;       /* of each round */
} policy_t;

static policy_t policies[MAX_POLICIES];
static unsigned num_policies;
static unsigned rounds = 101;

/* Callgrind dumps what was counted when this is called (--dump-before) */
void notify_mark(void);

void __attribute__((noinline)) notify_mark(void)
{
    __asm__ volatile("" ::: "memory");
}

static ucs_status_t handler(void *arg, void UCS_V_UNUSED *data,
                            size_t UCS_V_UNUSED length,
                            unsigned UCS_V_UNUSED flags)
{
    ++((policy_t*)arg)->received;
    return UCS_OK;
}

/* ---- one policy's connection ---- */

static void open_policy(policy_t *policy, unsigned paths)
{
    char options[256], far[384];

    snprintf(options, sizeof(options),
             "NUM_PATHS=%u MIN_PATHS=%u NOTIFY=%.15s FRAG_SIZE=%u MIN_FRAG=%u "
             "FSN_WINDOW=256 SCHED=rr TX_QUEUE_LEN=128 RING_MIN=128k", paths, paths,
             policy->name, FRAG, FRAG);
    snprintf(policy->stats, sizeof(policy->stats), "/tmp/notify.%d.json",
             (int)getpid());
    snprintf(far, sizeof(far), "%s STATS_FILE=%s", options, policy->stats);

    policy->received = policy->sent = policy->work_requests = 0;
    perf_side_open(&policy->a, "vqp", perf_device(0), options);
    perf_side_open(&policy->b, "vqp", perf_device(1), far);
    uct_iface_set_am_handler(policy->b.iface, AM_ID, handler, policy, 0);
    perf_connect(&policy->a, &policy->b, 0, &policy->pair);
    perf_memory_init(&policy->source, &policy->a, FRAG * MAX_FRAGS);
}

/* A counter of the paths, from the only line of the file */
static unsigned long read_counter(const char *file, const char *name,
                                  unsigned paths)
{
    static char text[1 << 17];
    FILE *f           = fopen(file, "r");
    unsigned long sum = 0;
    char key[32], *at;

    perf_check(f != NULL, "%s: %s", file, strerror(errno));
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);

    snprintf(key, sizeof(key), "\"%s\":", name);
    for (at = text; paths > 0; --paths) { /* first of all stand their sums */
        at = strstr(at, key);
        perf_check(at != NULL, "%s: too few of %s", file, name);
        at  += strlen(key);
        sum += strtoul(at, NULL, 10);
    }
    return sum;
}

/* @return receive completions of all its messages */
static unsigned long close_policy(policy_t *policy, unsigned paths)
{
    unsigned long cqes;

    perf_flush(&policy->a, &policy->b, policy->pair.a_to_b);
    perf_memory_cleanup(&policy->source);
    perf_disconnect(&policy->a, &policy->b, &policy->pair);
    perf_side_close(&policy->a);
    perf_side_close(&policy->b);
    cqes = read_counter(policy->stats, "rx_cqes", paths);
    unlink(policy->stats);
    return cqes;
}

static unsigned long executed(void)
{
    vqp_fabric_traffic_t traffic;

    perf_check((vqp_fabric() != NULL) &&
               (vqp_fabric()->port_traffic(perf_device(0), 1, &traffic) == 0),
               "start this by contrib/fabric-run");
    return traffic.wrs;
}

/* The fabric's virtual clock is this one */
static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Send a message, and progress until it was received. @return ns */
static double exchange(policy_t *policy, size_t length)
{
    unsigned long due = policy->received + 1;
    uct_iov_t iov     = {
        .buffer = policy->source.data,
        .length = length,
        .memh   = policy->source.memh,
        .count  = 1
    };
    double start, end;
    ucs_status_t status;

    start = now();
    while ((status = uct_ep_am_zcopy(policy->pair.a_to_b, AM_ID, NULL, 0, &iov,
                                     1, 0, NULL)) == UCS_ERR_NO_RESOURCE) {
        perf_progress(&policy->a, &policy->b); /* for credit */
    }
    perf_check(status == UCS_INPROGRESS, "am_zcopy: %s",
               ucs_status_string(status));
    while (policy->received < due) {
        uct_worker_progress(policy->b.worker);
        if (policy->received < due) {
            uct_worker_progress(policy->a.worker);
        }
    }
    end = now();

    /* the next one shall find nothing of it under way */
    perf_flush(&policy->a, &policy->b, policy->pair.a_to_b);
    return end - start;
}

/* Messages in a row. Times are kept behind those of earlier calls. */
static void turn(policy_t *policy, size_t length, unsigned count)
{
    unsigned long before = executed();
    unsigned i;

    for (i = 0; i < count; ++i) {
        policy->ns[policy->sent++] = exchange(policy, length);
    }
    policy->work_requests += executed() - before;
}

static void line(unsigned paths, unsigned frags)
{
    size_t length = (size_t)frags * FRAG - RECORD;
    policy_t *policy;
    unsigned long cqes;
    unsigned i, p;

    for (p = 0; p < num_policies; ++p) {
        open_policy(&policies[p], paths);
        turn(&policies[p], length, WARM_UP);
    }

    if (num_policies == 1) {
        notify_mark();
        turn(&policies[0], length, rounds);
        notify_mark();
    } else {
        for (i = 0; i < rounds; ++i) {
            for (p = 0; p < num_policies; ++p) {
                turn(&policies[p], length, 1);
            }
        }
    }

    for (p = 0; p < num_policies; ++p) {
        policy = &policies[p];
        cqes   = close_policy(policy, paths);
        printf("%u %u %s %.2f %.2f %.0f\n", paths, frags, policy->name,
               (double)cqes / policy->sent,
               (double)policy->work_requests / policy->sent,
               perf_quantile(policy->ns + WARM_UP, rounds, 0.5));
        fflush(stdout);
    }
}

/* ---- the command line ---- */

static unsigned parse_list(const char *text, unsigned *values, unsigned max,
                           unsigned limit)
{
    unsigned count = 0;
    char *end;

    do {
        perf_check(count < max, "%s: too long a list", text);
        values[count] = (unsigned)strtoul(text, &end, 10);
        perf_check((end != text) && (values[count] >= 1) &&
                   (values[count] <= limit), "%s: not 1 to %u", text, limit);
        ++count;
        text = end + (*end == ',');
    } while (*text != '\0');
    return count;
}

static void parse_policies(char *text)
{
    char *name;

    num_policies = 0;
    for (name = strtok(text, ","); name != NULL; name = strtok(NULL, ",")) {
        perf_check(num_policies < MAX_POLICIES, "too many policies");
        snprintf(policies[num_policies].name, sizeof(policies[0].name), "%s",
                 name);
        ++num_policies;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"rounds", required_argument, NULL, 'r'},
        {"paths", required_argument, NULL, 'p'},
        {"frags", required_argument, NULL, 'f'},
        {"policies", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0}
    };
    char all[]         = "dqplb,tail,spray,auto";
    unsigned paths[16] = {1, 2, 4, 8}, num_paths = 4;
    unsigned frags[16] = {1, 2, 4, 8, 16, 32, 64}, num_frags = 7;
    unsigned i, j;
    int c;

    parse_policies(all);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'r':
            perf_check(parse_list(optarg, &rounds, 1, MAX_ROUNDS) == 1,
                       "--rounds: one number");
            break;
        case 'p':
            num_paths = parse_list(optarg, paths, 16, 64);
            break;
        case 'f':
            num_frags = parse_list(optarg, frags, 16, MAX_FRAGS);
            break;
        case 'n':
            parse_policies(optarg);
            break;
        default:
            fprintf(stderr, "usage: notify_cost [--rounds N] [--paths LIST] "
                    "[--frags LIST] [--policies LIST]\n");
            return 126;
        }
    }

    for (i = 0; i < num_policies; ++i) {
        policies[i].ns = calloc(rounds + WARM_UP, sizeof(double));
        perf_check(policies[i].ns != NULL, "no memory");
    }
    for (i = 0; i < num_paths; ++i) {
        for (j = 0; j < num_frags; ++j) {
            line(paths[i], frags[j]);
        }
    }
    for (i = 0; i < num_policies; ++i) {
        free(policies[i].ns);
    }
    return 0;
}
