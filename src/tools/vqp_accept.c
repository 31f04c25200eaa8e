/*
 * vqp-accept: what `vqp-run --accept` tries between two ports of this host, or on one
 * port: it connects two interfaces of this process, sends streams whose result is verified,
 * breaks paths meanwhile, and measures. A line for each step, that begins with "ok:",
 * "warning:" or "problem:", then a line "verdict:". UCX's public UCT API, the format of
 * telemetry files, and libc; the module is loaded by the shim. Installed beside it.
 */
#include "tools/accept.h"
#include "tools/accept_measure.h"
#include "tools/accept_stream.h"
#include "tools/accept_tele.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACCEPT_SECONDS 5.0  /* of a stream, by default... */
#define ACCEPT_LEAST   0.2  /* ...and of a measurement at least */
#define ACCEPT_BREAKS  10   /* paths that are broken in a stream, about */
#define ACCEPT_BACK    30.0 /* seconds in which they must be back */
#define ACCEPT_LOOK    0.05 /* seconds between two looks at the telemetry */
#define ACCEPT_PATHS   4

typedef ucs_status_t (*accept_break_func_t)(uct_ep_h ep, unsigned path);

typedef struct accept {
    uct_component_h      component;
    accept_port_t        ports[ACCEPT_PORTS_MAX];
    unsigned             num_ports;
    const accept_port_t *from, *to;
    char                 dir[64];  /* of telemetry files */
    double               seconds;
    int                  counts;   /* both ports count what they execute */
    int                  has_failover;
} accept_t;

/* Of the step that breaks paths */
typedef struct accept_breaker {
    accept_break_func_t func;
    double              period;
    double              next;
    unsigned            breaks;
    ucs_status_t        status; /* of the last one */
} accept_breaker_t;

static void accept_failed(const accept_pair_t *pair, const char *step)
{
    accept_problem("%s: %s: %s; repeat it with UCX_LOG_LEVEL=info for the reason", step,
                   pair->failed, ucs_status_string(pair->status));
}

static void accept_set_paths(unsigned num)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", num);
    accept_option("UCX_VQP_NUM_PATHS", (num != 0) ? text : NULL);
    accept_option("UCX_VQP_MIN_PATHS", (num != 0) ? text : NULL);
}

/* A pair of the ports of this run. Its telemetry files are removed when it is closed */
static int accept_open(const accept_t *self, accept_pair_t *pair, unsigned paths)
{
    accept_set_paths(paths);
    return accept_pair_open(pair, self->component, self->from, self->to, self->dir);
}

/* ---- step 1 and 2: ports, a connection ---- */

static int accept_find_ports(accept_t *self)
{
    self->component = accept_component();
    if (self->component == NULL) {
        accept_problem("UCX does not know the transport vqp: run it by vqp-run --accept");
        return 0;
    }

    self->num_ports = accept_ports(self->component, self->ports);
    if (self->num_ports == 0) {
        accept_problem("vqp is offered on no port, or on none of UCX_NET_DEVICES: "
                       "vqp-run --check names the reason");
        return 0;
    }

    return 1;
}

static void accept_say_connected(accept_t *self, const accept_tele_t *tele, double time)
{
    self->has_failover = (strcmp(tele[0].source, "-") != 0) &&
                         (strcmp(tele[1].source, "-") != 0);
    self->counts       = (strcmp(tele[0].source, "psn") == 0) &&
                         (strcmp(tele[1].source, "psn") == 0);
    accept_ok("connect: %s and %s, in %.1f ms; %u of at most %u paths; executed requests "
              "are counted by source %s and %s", self->from->dev, self->to->dev,
              time * 1e3, tele[0].num_paths, tele[0].max_paths, tele[0].source,
              tele[1].source);
    if (!self->has_failover) {
        accept_warning("failover is off: an endpoint fails with its first path; "
                       "UCX_VQP_FAILOVER=auto, the default, switches it on");
    } else if (!self->counts) {
        accept_warning("a port does not count what it executes (source imm): after a "
                       "failure of a path an endpoint fails if puts or atomics were in "
                       "flight on it; with UCX_VQP_FAILOVER=y it continues, "
                       "docs/failover.md says what is not guaranteed then");
    }
}

/* @return whether these two can be connected; the failure is in *pair then */
static int accept_try_ports(accept_t *self, accept_pair_t *pair, const accept_port_t *to)
{
    double begin = accept_now();
    accept_tele_t tele[2];
    double time;
    int is_good;

    self->from = &self->ports[0];
    self->to   = to;
    is_good    = accept_open(self, pair, 0);
    time       = accept_now() - begin;
    if (is_good && !accept_tele_wait(pair, tele)) {
        (void)accept_fail(pair, "there is no telemetry", UCS_ERR_NO_ELEM);
        is_good = 0;
    }

    accept_pair_close(pair);
    if (is_good) {
        accept_say_connected(self, tele, time);
    }

    return is_good;
}

/* Two ports of a host do not reach each other in many networks: then one is used */
static int accept_connect(accept_t *self)
{
    static accept_pair_t pair;

    if (self->num_ports > 1) {
        if (getenv("UCX_VQP_CONNECT_TIMEOUT") == NULL) {
            accept_option("UCX_VQP_CONNECT_TIMEOUT", "5s");
        }
        if (accept_try_ports(self, &pair, &self->ports[1])) {
            return 1;
        }
        accept_warning("connect: %s does not reach %s (%s): two ports of a host need a "
                       "route between them; %s is tried with itself", self->ports[0].dev,
                       self->ports[1].dev, ucs_status_string(pair.status),
                       self->ports[0].dev);
    }

    if (!accept_try_ports(self, &pair, &self->ports[0])) {
        accept_failed(&pair, "connect");
        return 0;
    }

    return 1;
}

/* ---- step 3: a stream ---- */

static void accept_say_stream(const char *step, const accept_stream_params_t *params,
                              const accept_stream_result_t *result, const char *more)
{
    char atomics[64];

    if (params->ams_only) {
        accept_ok("%s: %llu messages: all exact, once and in order; no puts and atomics, "
                  "see the warning above%s", step, (unsigned long long)result->ams, more);
        return;
    }

    if (result->has_atomics) {
        snprintf(atomics, sizeof(atomics), "%llu atomics",
                 (unsigned long long)result->atomics);
    } else {
        snprintf(atomics, sizeof(atomics), "no atomics, which the device does not have");
    }

    accept_ok("%s: %llu puts (%.1f MB), %llu messages, %s: all exact, once and in order%s",
              step, (unsigned long long)result->puts, (double)result->put_bytes * 1e-6,
              (unsigned long long)result->ams, atomics, more);
}

static void accept_say_wrong(const accept_pair_t *pair, const char *step,
                             const accept_stream_result_t *result)
{
    if (result->wrong[0] != '\0') {
        accept_problem("%s: %s: do not use vqp with this device, and report it", step,
                       result->wrong);
    } else {
        accept_failed(pair, step);
    }
}

/* @return whether further steps make sense */
static int accept_step_stream(const accept_t *self)
{
    accept_stream_params_t params = {.seconds = self->seconds};
    static accept_stream_result_t result;
    static accept_pair_t pair;
    int is_good = 0;

    if (!accept_open(self, &pair, 0)) {
        accept_failed(&pair, "stream");
    } else if (accept_stream(&pair, &params, &result)) {
        accept_say_stream("stream", &params, &result, "");
        is_good = 1;
    } else {
        accept_say_wrong(&pair, "stream", &result);
    }

    accept_pair_close(&pair);
    return is_good;
}

/* ---- step 4: a stream whose paths fail ---- */

static void accept_break(accept_pair_t *pair, void *arg)
{
    accept_breaker_t *breaker = arg;
    unsigned i;

    if (accept_now() < breaker->next) {
        return;
    }

    for (i = 0; i < ACCEPT_PATHS; ++i) {
        breaker->status = breaker->func(pair->side[0].ep,
                                        (breaker->breaks + i) % ACCEPT_PATHS);
        if (breaker->status == UCS_OK) {
            ++breaker->breaks;
            breaker->next = accept_now() + breaker->period;
            return;
        }
    }
}

/* The function of the module that breaks a path; NULL: this module has none */
static accept_break_func_t accept_find_break(void)
{
    const char *name         = getenv("VQP_MODULE");
    accept_break_func_t func = NULL;
    void *module;

    module = (name != NULL) ? dlopen(name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (module != NULL) {
        *(void**)&func = dlsym(module, "uct_vqp_ep_break_path");
        dlclose(module);
    }

    return func;
}

/* @return whether all paths are up again, and the telemetry has seen all that happened */
static int accept_is_back(accept_pair_t *pair, const accept_breaker_t *breaker,
                          accept_tele_t *tele)
{
    double end  = accept_now() + ACCEPT_BACK;
    double next = 0;

    memset(tele, 0, sizeof(*tele));
    while ((accept_now() < end) && accept_progress(pair, end)) {
        if (accept_now() < next) {
            continue;
        }
        next = accept_now() + ACCEPT_LOOK;
        (void)accept_tele_read(&pair->side[0], tele);
        if ((tele->downs >= breaker->breaks) && (tele->ups >= tele->downs) &&
            (tele->num_up == tele->num_paths)) {
            return 1;
        }
    }

    return 0;
}

static void accept_judge_breaks(accept_pair_t *pair, const accept_breaker_t *breaker,
                                const accept_stream_params_t *params,
                                const accept_stream_result_t *result)
{
    accept_tele_t tele;
    char more[256], lost[100] = "";

    if (result->lost > 0) {
        snprintf(lost, sizeof(lost), ", %llu atomics were executed once and their result "
                 "was lost", (unsigned long long)result->lost);
    }

    if (breaker->breaks == 0) {
        accept_problem("failover: no path could be moved to ERR: %s",
                       ucs_status_string(breaker->status));
    } else if (!accept_is_back(pair, breaker, &tele)) {
        accept_problem("failover: a path was moved to ERR %u times, paths went down %llu "
                       "times and came back %llu times, %u of %u are up: repeat it with "
                       "UCX_LOG_LEVEL=diag, and report it", breaker->breaks,
                       (unsigned long long)tele.downs, (unsigned long long)tele.ups,
                       tele.num_up, tele.num_paths);
    } else {
        snprintf(more, sizeof(more), "; %u times a path was moved to ERR, paths went down "
                 "%llu times and came back, %llu requests were sent again%s",
                 breaker->breaks, (unsigned long long)tele.downs,
                 (unsigned long long)tele.replayed, lost);
        accept_say_stream("failover", params, result, more);
    }
}

static void accept_step_failover(const accept_t *self)
{
    accept_breaker_t breaker      = {
        .func   = accept_find_break(),
        .period = self->seconds / ACCEPT_BREAKS,
        .status = UCS_ERR_NO_ELEM
    };
    accept_stream_params_t params = {
        .seconds       = self->seconds,
        .ams_only      = !self->counts, /* the endpoint may fail with others */
        .in_the_middle = accept_break,
        .has_faults    = 1,
        .arg           = &breaker
    };
    static accept_stream_result_t result;
    static accept_pair_t pair;

    if (!self->has_failover) {
        return; /* there is a warning already */
    }

    if (breaker.func == NULL) {
        accept_problem("failover: the module has no uct_vqp_ep_break_path: it is of "
                       "another version than vqp-run");
        return;
    }

    if (!accept_open(self, &pair, ACCEPT_PATHS)) {
        accept_failed(&pair, "failover");
    } else if (accept_stream(&pair, &params, &result)) {
        accept_judge_breaks(&pair, &breaker, &params, &result);
    } else {
        accept_say_wrong(&pair, "failover", &result);
    }

    accept_pair_close(&pair);
}

/* ---- steps 5 and 6: figures ---- */

static double accept_measured_seconds(const accept_t *self)
{
    return (self->seconds / 5 > ACCEPT_LEAST) ? (self->seconds / 5) : ACCEPT_LEAST;
}

static void accept_step_bandwidth(const accept_t *self)
{
    static const unsigned paths[] = {1, 2, 4};
    static accept_pair_t pair;
    char text[160] = "";
    size_t length  = 0;
    double rate;
    unsigned i;

    for (i = 0; i < 3; ++i) {
        rate = accept_open(self, &pair, paths[i]) ?
                       accept_bandwidth(&pair, accept_measured_seconds(self)) : 0;
        if (rate <= 0) {
            accept_failed(&pair, "bandwidth");
            accept_pair_close(&pair);
            return;
        }

        accept_pair_close(&pair);
        length += (size_t)snprintf(text + length, sizeof(text) - length,
                                   "%s%.0f MB/s with %u", (i > 0) ? ", " : "", rate * 1e-6,
                                   paths[i]);
    }

    accept_ok("bandwidth: puts of 1 MiB: %s paths; within this host the network has no "
              "part in it", text);
}

static void accept_step_latency(const accept_t *self)
{
    static accept_pair_t pair;
    double latency = 0;

    if (accept_open(self, &pair, 1)) {
        latency = accept_latency(&pair, accept_measured_seconds(self));
    }

    if (latency > 0) {
        accept_ok("latency: messages of 8 bytes: %.2f us, half of a round trip, both ends "
                  "in one thread", latency * 1e6);
    } else {
        accept_failed(&pair, "latency");
    }

    accept_pair_close(&pair);
}

static void accept_step_memory(const accept_t *self)
{
    static accept_pair_t pair;
    accept_memory_t memory;

    if (!accept_open(self, &pair, 0) || !accept_memory(&pair, &memory)) {
        accept_failed(&pair, "memory");
    } else if (memory.pinned > 0) {
        accept_ok("memory: a connected endpoint takes %.0f KiB, and pins %.0f KiB",
                  memory.resident / 1024, memory.pinned / 1024);
    } else {
        accept_ok("memory: a connected endpoint takes %.0f KiB; the kernel counts none "
                  "of it as pinned", memory.resident / 1024);
    }

    accept_pair_close(&pair);
}

/* ---- the whole ---- */

/* What the user has set, and what is needed in any case */
static void accept_say_options(const accept_t *self)
{
    extern char **environ;
    char **each;

    printf("UCX_TLS=vqp");
    for (each = environ; *each != NULL; ++each) {
        if ((strncmp(*each, "UCX_VQP_", 8) == 0) ||
            (strncmp(*each, "UCX_NET_DEVICES=", 16) == 0)) {
            printf(" %s", *each);
        }
    }
    if (self->has_failover && !self->counts && (getenv("UCX_VQP_FAILOVER") == NULL)) {
        printf(" (UCX_VQP_FAILOVER=y if endpoints have to outlive a path)");
    }
    printf("\n");
}

static void accept_verdict(const accept_t *self)
{
    accept_set_paths(0);
    accept_option("UCX_VQP_TELEMETRY", NULL);
    accept_option("UCX_VQP_CONNECT_TIMEOUT", NULL);
    if (accept_problems > 0) {
        printf("verdict: not usable: problems: %u, warnings: %u\n", accept_problems,
               accept_warnings);
        return;
    }

    printf("verdict: ok on this host, warnings: %u; set: ", accept_warnings);
    accept_say_options(self);
}

static void accept_run(accept_t *self)
{
    if (!accept_tele_dir_create(self->dir, sizeof(self->dir))) {
        accept_problem("no directory can be created in /dev/shm or /tmp");
        return;
    }

    if (accept_find_ports(self) && accept_connect(self) && accept_step_stream(self)) {
        accept_step_failover(self);
        accept_step_bandwidth(self);
        accept_step_latency(self);
        accept_step_memory(self);
    }

    accept_tele_dir_remove(self->dir);
}

int main(int argc, char **argv)
{
    static accept_t self;
    char *end = "";

    self.seconds = ACCEPT_SECONDS;
    if (argc == 2) {
        self.seconds = strtod(argv[1], &end);
    }
    if ((argc > 2) || (*end != '\0') || !(self.seconds > 0) || !(self.seconds <= 60)) {
        fprintf(stderr, "Usage: vqp-accept [SECONDS]\n"
                        "SECONDS is a number above 0, at most 60; see vqp-run --accept\n");
        return 2;
    }

    setvbuf(stdout, NULL, _IOLBF, 0);
    accept_run(&self);
    accept_verdict(&self);
    return (accept_problems == 0) ? 0 : 1;
}
