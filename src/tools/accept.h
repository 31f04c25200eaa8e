/*
 * What the files of vqp-accept share: two interfaces of one process with an endpoint
 * between them, registered memory, lines of the report. UCX's public UCT API and libc.
 */
#ifndef VQP_TOOLS_ACCEPT_H
#define VQP_TOOLS_ACCEPT_H

#include "tools/accept_port.h"

#include <stdint.h>

#define ACCEPT_MEMS_MAX  4
#define ACCEPT_LIMIT     20.0 /* seconds that anything may take; what takes longer hangs */

/** One end. */
typedef struct accept_side {
    const accept_port_t *port;
    uct_md_h             md;
    uct_md_attr_t        md_attr;
    uct_iface_h          iface;
    uct_iface_attr_t     attr;
    uct_ep_h             ep;      /* to the other side; or NULL */
    char                 dir[80]; /* of its telemetry file */
} accept_side_t;

/** Memory that a side has registered. */
typedef struct accept_mem {
    uct_md_h          md;
    char             *data;
    size_t            size;
    uct_mem_h         memh;
    int               has_rkey;
    uct_rkey_bundle_t rkey;
} accept_mem_t;

/** Two interfaces on one worker, in one thread. */
typedef struct accept_pair {
    uct_component_h      component;
    ucs_async_context_t *async;
    uct_worker_h         worker;
    accept_side_t        side[2]; /* sender, receiver */
    ucs_status_t         status;  /* the first error of an endpoint, or of a call */
    const char          *failed;  /* what this was */
    unsigned             calls;   /* of progress... */
    unsigned             idle;    /* ...and those since the last that brought something */
    accept_mem_t         mems[ACCEPT_MEMS_MAX];
    unsigned             num_mems;
} accept_pair_t;

/** A completion that counts its calls. */
typedef struct accept_comp {
    uct_completion_t super;
    unsigned         calls;
} accept_comp_t;

/**
 * Open two interfaces and connect the first one to the second one.
 *
 * @param [in] dir  An existing directory for telemetry files, or NULL: none.
 * @return 1, or 0: see status and failed. Close it in both cases.
 */
int accept_pair_open(accept_pair_t *pair, uct_component_h component,
                     const accept_port_t *from, const accept_port_t *to, const char *dir);

/** Close everything. After an error completions may be called here: they must exist. */
void accept_pair_close(accept_pair_t *pair);

/** Create an endpoint of a side to the other one. @return it, or NULL: see status. */
uct_ep_h accept_ep_create(accept_pair_t *pair, unsigned side);

/** Set status, unless there is an error already. @return 0 */
int accept_fail(accept_pair_t *pair, const char *failed, ucs_status_t status);

/** Progress once. @return 1, or 0: an endpoint has failed, or @a end is over. */
int accept_progress(accept_pair_t *pair, double end);

/** Wait until all that an endpoint has sent is acknowledged. @return 1, or 0. */
int accept_flush(accept_pair_t *pair, uct_ep_h ep);

/** Allocate and register memory of a side, which stays until the pair is closed. @return it,
 *  or NULL: see status. */
accept_mem_t *accept_mem_get(accept_pair_t *pair, unsigned side, size_t size);

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
