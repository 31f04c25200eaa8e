/*
 * The operations that test/perf/cost measures, and the configurations on which
 * it does; see cost.c.
 */
#ifndef VQP_PERF_COST_H
#define VQP_PERF_COST_H

#include "bare.h"
#include "side.h"

#include <stdint.h>

enum { COST_MAX_LENGTH = 65536 };

typedef struct cost_config {
    const char    *name;
    const char    *tl;       /* NULL: bare verbs */
    const char    *options;  /* of the interface */
    unsigned      paths;
    perf_side_t   a, b;      /* a sends to b */
    perf_pair_t   pair;
    perf_memory_t source, target;
    bare_t        bare;
} cost_config_t;

typedef struct cost_operation {
    const char   *name;
    ucs_status_t (*post)(cost_config_t *config, uint32_t length);
    uint32_t     length;
    unsigned     parts;      /* frags; what has one path posts so many */
    int          is_message; /* arrives at the other side's handler */
    int          completes;  /* with a completion each */
    unsigned     bare_flags; /* of the same work requests in bare verbs */
    int          has_bare;
} cost_operation_t;

extern const cost_operation_t cost_operations[]; /* ends with a name of NULL */

/* Since the program began: completions called, messages delivered */
extern unsigned long cost_completed;
extern unsigned long cost_received;

/* Open, connect, register. @a small_frags: the smallest that can be had, where
 * the transport has frags. */
void cost_config_open(cost_config_t *config, int small_frags);
void cost_config_close(cost_config_t *config);

#endif
