/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of vqp-accept share: an interface and an endpoint of this process, whose
 * other end is in another process; registered memory; lines of the report. UCX's public UCT
 * API and libc.
 *
 * Both processes open an end for the same step. A function that says "exchange" is called by
 * both of them.
 */
#ifndef VQP_TOOLS_ACCEPT_H
#define VQP_TOOLS_ACCEPT_H

#include "tools/accept_link.h"
#include "tools/accept_port.h"

#include <stdint.h>

#define ACCEPT_MEMS_MAX 2
#define ACCEPT_LIMIT    20.0 /* seconds that anything may take; what takes longer hangs */
#define ACCEPT_SILENCE  60.0 /* seconds that the other process may say nothing */

/** Memory that this end has registered. */
typedef struct accept_mem {
    char     *data;
    size_t    size;
    uct_mem_h memh;
} accept_mem_t;

/** Memory of the other end. */
typedef struct accept_remote {
    uint64_t          address;
    uct_rkey_bundle_t rkey;
} accept_remote_t;

/** An end of a connection, in one thread. */
typedef struct accept_end {
    accept_link_t       *link;
    uct_component_h      component;
    ucs_async_context_t *async;
    uct_worker_h         worker;
    uct_md_h             md;
    uct_md_attr_t        md_attr;
    uct_iface_h          iface;
    uct_iface_attr_t     attr;
    uct_ep_h             ep;          /* to the other end, or NULL */
    char                 peer_dev[256];   /* addresses of the other end */
    char                 peer_iface[256];
    ucs_status_t         status;      /* the first error of an endpoint, or of a call */
    char                 failed[256]; /* what this was */
    int                  told;        /* the other end knows it */
    int                  arrived;     /* data of the other end is in link->in */
    unsigned             calls;       /* of progress... */
    unsigned             idle;        /* ...and those since the last that brought something */
    accept_mem_t         mems[ACCEPT_MEMS_MAX];
    unsigned             num_mems;
    accept_remote_t      remotes[ACCEPT_MEMS_MAX];
    unsigned             num_remotes;
} accept_end_t;

/** A completion that counts its calls. */
typedef struct accept_comp {
    uct_completion_t super;
    unsigned         calls;
} accept_comp_t;

/**
 * Open an interface and exchange addresses. Close the end in any case.
 *
 * @param [in] dir  An existing directory for the telemetry file, or NULL: none.
 * @return 1, or 0: see status and failed.
 */
int accept_end_open(accept_end_t *end, accept_link_t *link, uct_component_h component,
                    const accept_port_t *port, const char *dir);

/** Tell the other end that the step is over, by empty data, or what has failed, and close
 *  everything. After an error completions may be called here: they must exist. */
void accept_end_close(accept_end_t *end);

/** Create an endpoint to the other end. @return it, or NULL: see status. */
uct_ep_h accept_ep_create(accept_end_t *end);

/** Set status, unless there is an error already. @return 0 */
int accept_fail(accept_end_t *end, const char *failed, ucs_status_t status);

/** Progress once. @return 1, or 0: an endpoint or the other end has failed, or @a until is
 *  over. */
int accept_progress(accept_end_t *end, double until);

/** Wait until all that an endpoint has sent is acknowledged. @return 1, or 0. */
int accept_flush(accept_end_t *end, uct_ep_h ep);

/** Send to the process of the other end. @return 1, or 0. */
int accept_send(accept_end_t *end, const void *data, size_t length);

/** Progress until the other process has sent data of a length. @return 1, or 0. */
int accept_receive(accept_end_t *end, void *data, size_t length);

/** Progress until the other process has sent something. @return 1, it is in end->link->in until
 *  the next progress; or 0. */
int accept_receive_any(accept_end_t *end);

/** Allocate and register memory, which stays until the end is closed. @return it, or NULL:
 *  see status. */
accept_mem_t *accept_mem_get(accept_end_t *end, size_t size);

/** Let the other end use memory: it calls accept_remote_get(). @return 1, or 0. */
int accept_mem_offer(accept_end_t *end, const accept_mem_t *mem);

/** Receive the key of what the other end offers. @return it, or NULL: see status. */
const accept_remote_t *accept_remote_get(accept_end_t *end);

void accept_comp_init(accept_comp_t *comp);

/** Monotonic, in seconds. */
double accept_now(void);

typedef enum {
    ACCEPT_OK,
    ACCEPT_WARNING,
    ACCEPT_PROBLEM
} accept_line_t;

/** Print a line of the report, and count it. */
void accept_line(accept_line_t kind, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

#define accept_ok(...)      accept_line(ACCEPT_OK, __VA_ARGS__)
#define accept_warning(...) accept_line(ACCEPT_WARNING, __VA_ARGS__)
#define accept_problem(...) accept_line(ACCEPT_PROBLEM, __VA_ARGS__)

/** Numbers of such lines. */
extern unsigned accept_warnings, accept_problems;

#endif
