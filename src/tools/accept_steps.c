/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of vqp-accept and their lines, see accept_steps.h. */
#include "tools/accept_steps.h"

#include "tools/accept_measure.h"
#include "tools/accept_stream.h"
#include "tools/accept_tele.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_LEAST    0.2  /* seconds of a measurement, at least */
#define STEP_BREAKS   10   /* paths that are broken in a stream, about */
#define STEP_BACK     30.0 /* seconds in which they must be back */
#define STEP_SNAPSHOT 3.0  /* seconds in which the telemetry has a new snapshot */
#define STEP_PATHS    4

typedef ucs_status_t (*accept_break_func_t)(uct_ep_h ep, unsigned path);

/* Of the step that breaks paths */
typedef struct accept_breaker {
    accept_break_func_t func;
    double              period;
    double              next;
    unsigned            breaks;
    ucs_status_t        status; /* of the last one */
} accept_breaker_t;

/* Completions may be called until it is closed */
static accept_end_t end;

static void accept_failed(const char *step)
{
    accept_problem("%s: %s; repeat it with UCX_LOG_LEVEL=info for the reason", step,
                   end.failed);
}

static int accept_open(const accept_run_t *self, accept_step_t step, unsigned paths)
{
    const accept_command_t command = {
        .step  = step,
        .port  = self->peer_port,
        .paths = paths
    };

    return accept_step_open(&end, self->site, self->link, self->port, &command);
}

/* ---- a connection ---- */

static void accept_say_connected(accept_run_t *self, const accept_tele_t *here,
                                 const accept_tele_t *there, double time)
{
    self->has_failover = (strcmp(here->source, "-") != 0) &&
                         (strcmp(there->source, "-") != 0);
    self->counts       = (strcmp(here->source, "psn") == 0) &&
                         (strcmp(there->source, "psn") == 0);
    accept_ok("connect: %s and %s, in %.1f ms; %u of at most %u paths; executed requests "
              "are counted by source %s and %s", self->port->dev,
              self->link->peer.ports[self->peer_port], time * 1e3, here->num_paths,
              here->max_paths, here->source, there->source);
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

/* @return whether the two ports can be connected; the failure is in the end then */
static int accept_try_ports(accept_run_t *self, const accept_port_t *port,
                            uint32_t peer_port)
{
    double begin = accept_now();
    accept_tele_t here, there;
    double time;
    int is_good;

    self->port      = port;
    self->peer_port = peer_port;
    is_good         = accept_open(self, ACCEPT_CONNECT, 0);
    time            = accept_now() - begin;
    is_good         = is_good && accept_tele_wait(&end, self->site->dir, &here) &&
                      accept_receive(&end, &there, sizeof(there));
    accept_end_close(&end);
    if (is_good) {
        accept_link_clean(there.source, sizeof(there.source));
        accept_say_connected(self, &here, &there, time);
    }

    return is_good;
}

static void accept_say_not_connected(const accept_run_t *self)
{
    accept_problem("connect: %s and %s: %s; repeat it with UCX_LOG_LEVEL=info for the "
                   "reason; UCX_NET_DEVICES leaves out ports, at both ends",
                   self->port->dev, self->link->peer.ports[self->peer_port], end.failed);
}

/* Two ports of a host do not reach each other in many networks: then one is used */
static int accept_connect_local(accept_run_t *self)
{
    const accept_port_t *port = &self->site->ports[0];

    if (self->link->peer.num_ports > 1) {
        if (getenv("UCX_VQP_CONNECT_TIMEOUT") == NULL) {
            accept_option("UCX_VQP_CONNECT_TIMEOUT", "5s");
        }
        if (accept_try_ports(self, port, 1)) {
            return 1;
        }
        accept_warning("connect: %s does not reach %s (%s): two ports of a host need a "
                       "route between them; %s is tried with itself", port->dev,
                       self->link->peer.ports[1], end.failed, port->dev);
    }

    if (!accept_try_ports(self, port, 0)) {
        accept_say_not_connected(self);
        return 0;
    }

    return 1;
}

/* @return the port of the other host that has a name; or -1 */
static int accept_find_peer(const accept_hello_t *peer, const char *name)
{
    unsigned i;

    for (i = 0; i < peer->num_ports; ++i) {
        if (strcmp(peer->ports[i], name) == 0) {
            return (int)i;
        }
    }

    return -1;
}

/* @return the port of the other host that a port of this one is tried with: of the same name,
 * else that at the same place in the list, if no port here has its name; or -1 */
static int accept_match(const accept_run_t *self, unsigned index)
{
    const accept_hello_t *peer = &self->link->peer;
    int found                  = accept_find_peer(peer, self->site->ports[index].dev);
    unsigned i;

    if ((found >= 0) || (index >= peer->num_ports)) {
        return found;
    }

    for (i = 0; i < self->site->num_ports; ++i) {
        if (strcmp(self->site->ports[i].dev, peer->ports[index]) == 0) {
            return -1;
        }
    }

    return (int)index;
}

/* ---- a stream ---- */

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

static void accept_say_wrong(const char *step, const accept_stream_result_t *result)
{
    if (result->wrong[0] != '\0') {
        accept_problem("%s: %s: do not use vqp with this device, and report it", step,
                       result->wrong);
    } else {
        accept_failed(step);
    }
}

/* @return whether further steps make sense */
static int accept_step_stream(const accept_run_t *self)
{
    accept_stream_params_t params = {.seconds = self->seconds};
    static accept_stream_result_t result;
    int is_good = 0;

    if (!accept_open(self, ACCEPT_STREAM, 0)) {
        accept_failed("stream");
    } else if (accept_stream(&end, &params, &result)) {
        accept_say_stream("stream", &params, &result, "");
        is_good = 1;
    } else {
        accept_say_wrong("stream", &result);
    }

    accept_end_close(&end);
    return is_good;
}

/* ---- a stream whose paths fail ---- */

static void accept_break(accept_end_t *of, void *arg)
{
    accept_breaker_t *breaker = arg;
    unsigned i;

    if (accept_now() < breaker->next) {
        return;
    }

    for (i = 0; i < STEP_PATHS; ++i) {
        breaker->status = breaker->func(of->ep, (breaker->breaks + i) % STEP_PATHS);
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

/* All paths are up again, and the telemetry has seen all that happened */
static int accept_is_back(const accept_tele_t *tele, int is_live, const void *arg)
{
    const accept_breaker_t *breaker = arg;

    (void)is_live;
    return (tele->downs >= breaker->breaks) && (tele->ups >= tele->downs) &&
           (tele->num_up == tele->num_paths);
}

static void accept_judge_breaks(const accept_run_t *self, const accept_breaker_t *breaker,
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
    } else if (!accept_tele_await(&end, self->site->dir, &tele, STEP_BACK, accept_is_back,
                                  breaker)) {
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

static void accept_step_failover(const accept_run_t *self)
{
    accept_breaker_t breaker      = {
        .func   = accept_find_break(),
        .period = self->seconds / STEP_BREAKS,
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

    if (!self->has_failover) {
        return; /* there is a warning already */
    }

    if (breaker.func == NULL) {
        accept_problem("failover: the module has no uct_vqp_ep_break_path: it is of "
                       "another version than vqp-run");
        return;
    }

    if (!accept_open(self, ACCEPT_STREAM, STEP_PATHS)) {
        accept_failed("failover");
    } else if (accept_stream(&end, &params, &result)) {
        accept_judge_breaks(self, &breaker, &params, &result);
    } else {
        accept_say_wrong("failover", &result);
    }

    accept_end_close(&end);
}

/* ---- figures ---- */

static double accept_measured_seconds(const accept_run_t *self)
{
    return (self->seconds / 5 > STEP_LEAST) ? (self->seconds / 5) : STEP_LEAST;
}

static uint64_t accept_sum(const accept_tele_t *tele)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < STEP_PATHS; ++i) {
        sum += tele->paths[i].bytes;
    }

    return sum;
}

static int accept_has_bytes(const accept_tele_t *tele, int is_live, const void *arg)
{
    (void)is_live;
    return accept_sum(tele) >= *(const uint64_t*)arg;
}

/* What each path has carried, and by which member port of a bonded device */
static void accept_text_shares(const accept_run_t *self, uint64_t bytes, char *text,
                               size_t size)
{
    accept_tele_t tele;
    size_t length = 0;
    unsigned i;

    if (!accept_tele_await(&end, self->site->dir, &tele, STEP_SNAPSHOT, accept_has_bytes,
                           &bytes)) {
        snprintf(text, size, "; the telemetry has no part of each");
        return;
    }

    for (i = 0; i < STEP_PATHS; ++i) {
        length += (size_t)snprintf(text + length, size - length, "%s%.0f %%",
                                   (i > 0) ? ", " : "; each of the last had ",
                                   100.0 * (double)tele.paths[i].bytes /
                                   (double)accept_sum(&tele));
        if (tele.paths[i].lag_port != 0) {
            length += (size_t)snprintf(text + length, size - length, " by member port %u",
                                       tele.paths[i].lag_port);
        }
    }
}

static void accept_step_bandwidth(const accept_run_t *self)
{
    static const unsigned paths[] = {1, 2, 4};
    char text[160] = "", shares[200] = "";
    size_t length  = 0;
    uint64_t bytes = 0;
    double rate;
    unsigned i;

    for (i = 0; i < 3; ++i) {
        rate = accept_open(self, ACCEPT_BANDWIDTH, paths[i]) ?
                       accept_bandwidth(&end, accept_measured_seconds(self), &bytes) : 0;
        if (rate <= 0) {
            accept_failed("bandwidth");
            accept_end_close(&end);
            return;
        }

        if (paths[i] == STEP_PATHS) {
            accept_text_shares(self, bytes, shares, sizeof(shares));
        }
        accept_end_close(&end);
        length += (size_t)snprintf(text + length, sizeof(text) - length,
                                   "%s%.0f MB/s with %u", (i > 0) ? ", " : "", rate * 1e-6,
                                   paths[i]);
    }

    accept_ok("bandwidth: puts of 1 MiB: %s paths%s%s", text, shares, self->is_same_host ?
              "; within this host the network has no part in it" : "");
}

static void accept_step_latency(const accept_run_t *self)
{
    double latency = 0;

    if (accept_open(self, ACCEPT_LATENCY, 1)) {
        latency = accept_latency(&end, accept_measured_seconds(self));
    }

    if (latency > 0) {
        accept_ok("latency: messages of 8 bytes: %.2f us, half of a round trip%s",
                  latency * 1e6, self->is_same_host ? " within this host" : "");
    } else {
        accept_failed("latency");
    }

    accept_end_close(&end);
}

static void accept_step_memory(const accept_run_t *self)
{
    accept_memory_t here, there;

    if (!accept_open(self, ACCEPT_MEMORY, 0) || !accept_memory(&end, &here, &there)) {
        accept_failed("memory");
    } else {
        accept_ok("memory: a connected endpoint takes %.0f KiB, %.0f KiB of it pinned; at the "
                  "other end %.0f KiB, %.0f KiB pinned%s", here.resident / 1024,
                  here.pinned / 1024, there.resident / 1024, there.pinned / 1024,
                  ((here.pinned > 0) && (there.pinned > 0)) ? "" :
                  "; 0: the kernel does not count it");
    }

    accept_end_close(&end);
}

static void accept_steps(const accept_run_t *self)
{
    static void (*const steps[])(const accept_run_t *self) = {
        accept_step_failover, accept_step_bandwidth, accept_step_latency,
        accept_step_memory
    };
    unsigned i;

    if (!accept_step_stream(self)) {
        return;
    }

    for (i = 0; (i < sizeof(steps) / sizeof(steps[0])) && !self->link->ended; ++i) {
        steps[i](self);
    }
}

void accept_run(accept_run_t *self)
{
    unsigned i;
    int peer;

    if (self->is_local) {
        if (accept_connect_local(self)) {
            accept_steps(self);
        }
        return;
    }

    for (i = 0; (i < self->site->num_ports) && !self->link->ended; ++i) {
        peer = accept_match(self, i);
        if (peer < 0) {
            accept_warning("connect: %s: %s has no port for it", self->site->ports[i].dev,
                           self->link->peer.host);
        } else if (accept_try_ports(self, &self->site->ports[i], (uint32_t)peer)) {
            accept_steps(self);
        } else {
            accept_say_not_connected(self);
        }
    }
}
