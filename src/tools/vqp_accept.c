/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vqp-accept: what `vqp-run --accept` tries between two processes, of this host or of two
 * hosts: it connects an interface of each, sends streams whose result is verified, breaks
 * paths meanwhile, and measures. A line for each step, that begins with "ok:", "warning:" or
 * "problem:", then a line "verdict:". UCX's public UCT API, the format of telemetry files, and
 * libc; the module is loaded by the shim. Installed beside it.
 *
 * vqp-accept SECONDS            starts the other process, of this host
 * vqp-accept SECONDS HOST PORT  the other process listens at that host
 * vqp-accept --listen PORT      is the other process
 * vqp-accept --serve FD         the same, started by the first
 */
#include "tools/accept_steps.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ACCEPT_STRANGER 2000 /* milliseconds in which what has connected says what it is */

static void accept_hello(const accept_site_t *site, accept_hello_t *hello)
{
    unsigned i;

    memset(hello, 0, sizeof(*hello));
    for (i = 0; (i < ACCEPT_HELLO_PORTS) && (i < site->num_ports); ++i) {
        snprintf(hello->ports[i], sizeof(hello->ports[i]), "%s", site->ports[i].dev);
    }
    hello->num_ports = i;
}

/* ---- the process that commands ---- */

/* What the user has set, and what is needed in any case */
static void accept_say_options(const accept_run_t *self)
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

/* The other process confirms when it has closed everything: all was read then */
static void accept_tell_verdict(const accept_run_t *self)
{
    const accept_command_t command = {
        .step     = ACCEPT_VERDICT,
        .problems = accept_problems
    };
    accept_link_t *link            = self->link;

    (void)accept_link_send(link, ACCEPT_FRAME_COMMAND, &command, sizeof(command));
    while (accept_link_wait(link, ACCEPT_LINK_PATIENCE) == 1) {
        if (link->in.head.type == ACCEPT_FRAME_END) {
            return;
        }
    }

    if (accept_problems == 0) {
        accept_problem("link: the other process does not confirm the end");
    }
}

static void accept_verdict(const accept_run_t *self)
{
    accept_options_restore();
    if (accept_problems > 0) {
        printf("verdict: not usable: problems: %u, warnings: %u\n", accept_problems,
               accept_warnings);
        return;
    }

    if (self->is_local) {
        printf("verdict: ok on this host, warnings: %u; set: ", accept_warnings);
    } else {
        printf("verdict: ok with %s, warnings: %u; set: ", self->link->peer.host,
               accept_warnings);
    }
    accept_say_options(self);
}

static void accept_with(accept_run_t *self)
{
    accept_hello_t hello;
    const char *failed;

    accept_hello(self->site, &hello);
    failed = accept_link_greet(self->link, &hello, ACCEPT_LINK_PATIENCE);
    if (failed != NULL) {
        accept_problem("link: the other process is of no use: %s", failed);
        return;
    } else if (self->link->peer.num_ports == 0) {
        accept_problem("link: the other process has no port");
        return;
    }

    self->is_same_host = (memcmp(self->link->peer.boot_id, hello.boot_id,
                                       sizeof(hello.boot_id)) == 0);
    if (!self->is_local) {
        accept_ok("link: %s, with uct_vqp %s; here %s, with %s", self->link->peer.host,
                  self->link->peer.version, hello.host, hello.version);
    }

    accept_run(self);
    accept_tell_verdict(self);
}

/* The other process must end by itself, and well */
static void accept_reap(pid_t child)
{
    double until = accept_now() + ACCEPT_LIMIT;
    pid_t ended;
    int status;

    while (((ended = waitpid(child, &status, WNOHANG)) != child) && (accept_now() < until)) {
        usleep(1000);
    }

    if (ended != child) {
        accept_problem("the process of the other end does not end: it is killed; report it");
        (void)kill(child, SIGKILL);
        (void)waitpid(child, &status, 0);
    } else if (WIFSIGNALED(status)) {
        accept_problem("the process of the other end has ended by signal %d: report it",
                       WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        accept_problem("the process of the other end has ended with status %d: report it",
                       WEXITSTATUS(status));
    }
}

static void accept_local(accept_run_t *self)
{
    pid_t child;

    child = accept_link_spawn(self->link);
    if (child == -1) {
        accept_problem("no process can be started: %s", strerror(errno));
        return;
    }

    self->is_local = 1;
    accept_with(self);
    accept_link_close(self->link);
    accept_reap(child);
}

static void accept_remote(accept_run_t *self, const char *host, const char *port)
{
    const char *failed;

    failed = accept_link_connect(self->link, host, port);
    if (failed != NULL) {
        accept_problem("link: %s, port %s: %s; what runs there first is vqp-run --accept "
                       "--listen --port %s", host, port, failed, port);
        return;
    }

    accept_with(self);
    accept_link_close(self->link);
}

static int accept_command(const accept_site_t *site, double seconds, const char *host,
                          const char *port)
{
    static accept_link_t link;
    static accept_run_t run;

    run.site    = site;
    run.link    = &link;
    run.seconds = seconds;
    if (host == NULL) {
        accept_local(&run);
    } else {
        accept_remote(&run, host, port);
    }

    accept_verdict(&run);
    return (accept_problems == 0) ? 0 : 1;
}

/* ---- the process that serves ---- */

/* Something else may connect, such as a scan of ports. @return whether it is the process that
 * commands; then there is a link to it */
static int accept_meet(const accept_site_t *site, accept_link_t *link, int fd)
{
    accept_hello_t hello;
    const char *failed;

    accept_hello(site, &hello);
    accept_link_init(link, fd);
    failed = accept_link_greet(link, &hello, ACCEPT_STRANGER);
    if (failed != NULL) {
        accept_warning("link: what has connected is of no use: %s", failed);
        accept_link_close(link);
    }

    return failed == NULL;
}

/* @return whether there is a link to the process that commands */
static int accept_listen(const accept_site_t *site, accept_link_t *link, unsigned port)
{
    int listener = accept_link_listen(&port);
    int is_met   = 0;
    int fd;

    if (listener == -1) {
        accept_problem("link: port %u: %s; --port chooses another one", port,
                       strerror(errno));
        return 0;
    }

    accept_ok("link: waiting; run at the other host: vqp-run --accept HOST --port %u", port);
    do {
        fd = accept(listener, NULL, NULL);
        if (fd != -1) {
            is_met = accept_meet(site, link, fd);
        } else if ((errno != EINTR) && (errno != ECONNABORTED)) {
            accept_problem("link: no connection can be taken: %s", strerror(errno));
            break;
        }
    } while (!is_met);

    close(listener);
    return is_met;
}

/* @return the number of problems of the verdict; -1: there is none */
static int accept_serve_remote(accept_site_t *site, unsigned port)
{
    static accept_link_t link;
    const char *missing;
    int problems;

    if (!accept_listen(site, &link, port)) {
        return -1;
    }

    accept_ok("link: %s, with uct_vqp %s", link.peer.host, link.peer.version);
    missing = accept_site_open(site);
    if (missing != NULL) {
        accept_problem("%s", missing);
        accept_link_close(&link);
        return -1;
    }

    problems = accept_serve(site, &link);
    if (problems < 0) {
        accept_problem("link: %s has ended without a verdict", link.peer.host);
    }

    accept_link_close(&link);
    return problems;
}

static int accept_serve_host(accept_site_t *site, unsigned port)
{
    int problems = accept_serve_remote(site, port);

    if (problems == 0) {
        printf("verdict: ok, see the report of the other host\n");
    } else if (problems > 0) {
        printf("verdict: not usable: problems: %d, see the report of the other host\n",
               problems);
    } else {
        printf("verdict: not usable: problems: %u\n", accept_problems);
    }

    return (problems == 0) ? 0 : 1;
}

static int accept_serve_child(accept_site_t *site, int fd)
{
    static accept_link_t link;
    accept_hello_t hello;
    int status = 1;

    accept_link_init(&link, fd);
    accept_hello(site, &hello);
    if ((accept_site_open(site) == NULL) &&
        (accept_link_greet(&link, &hello, ACCEPT_LINK_PATIENCE) == NULL)) {
        status = (accept_serve(site, &link) < 0);
    }

    accept_link_close(&link);
    return status;
}

/* ---- arguments ---- */

typedef struct accept_args {
    double      seconds;
    const char *host;   /* NULL: this one */
    const char *port;
    int         listen; /* port; -1: no */
    int         fd;     /* of the process that commands; -1: none */
} accept_args_t;

/* @return whether the text is a number up to a maximum */
static int accept_number(const char *text, long max, int *number)
{
    char *end;
    long value = strtol(text, &end, 10);

    *number = (int)value;
    return (*text != '\0') && (*end == '\0') && (value >= 0) && (value <= max);
}

static int accept_parse(accept_args_t *args, int argc, char **argv)
{
    char *end;
    int port;

    args->listen = args->fd = -1;
    if ((argc == 3) && (strcmp(argv[1], "--listen") == 0)) {
        return accept_number(argv[2], 65535, &args->listen);
    } else if ((argc == 3) && (strcmp(argv[1], "--serve") == 0)) {
        return accept_number(argv[2], 65535, &args->fd);
    } else if ((argc != 2) && (argc != 4)) {
        return 0;
    }

    args->seconds = strtod(argv[1], &end);
    if (argc == 4) {
        args->host = argv[2];
        args->port = argv[3];
        if (!accept_number(argv[3], 65535, &port) || (port == 0)) {
            return 0;
        }
    }

    return (*end == '\0') && (args->seconds > 0) && (args->seconds <= 60);
}

int main(int argc, char **argv)
{
    static accept_args_t args;
    static accept_site_t site;
    const char *missing;
    int status = 1;

    if (!accept_parse(&args, argc, argv)) {
        fprintf(stderr, "Usage: vqp-accept SECONDS [HOST PORT] | --listen PORT\n"
                        "SECONDS is a number above 0, at most 60; see vqp-run --accept\n");
        return 2;
    }

    setvbuf(stdout, NULL, _IOLBF, 0);
    missing = accept_site_find(&site);
    if ((missing == NULL) && (args.fd < 0) && (args.listen < 0)) {
        missing = accept_site_open(&site);
    }

    if (args.fd >= 0) {
        status = accept_serve_child(&site, args.fd);
    } else if (missing != NULL) {
        accept_problem("%s", missing);
        printf("verdict: not usable: problems: 1\n");
    } else if (args.listen >= 0) {
        status = accept_serve_host(&site, (unsigned)args.listen);
    } else {
        status = accept_command(&site, args.seconds, args.host, args.port);
    }

    accept_site_close(&site);
    return status;
}
