/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending end of a verified stream: rounds of puts, active messages and atomics. After
 * each round it gives an account, and the other end, accept_verify.h, compares: all memory
 * of the target, the number and the order of the messages, and the sum of the atomics must be
 * exact. Completions and results of atomics are checked here.
 */
#ifndef VQP_TOOLS_ACCEPT_STREAM_H
#define VQP_TOOLS_ACCEPT_STREAM_H

#include "tools/accept.h"

typedef struct accept_stream_params {
    double seconds;
    int    ams_only; /* no puts and no atomics */
    /* Called in the middle of each round, while its operations are in flight; or NULL */
    void   (*in_the_middle)(accept_end_t *end, void *arg);
    int    has_faults; /* it makes paths fail */
    void   *arg;
} accept_stream_params_t;

typedef struct accept_stream_result {
    uint64_t puts;
    uint64_t put_bytes;
    uint64_t ams;
    uint64_t atomics;
    uint64_t lost;       /* of these, executed ones whose result was lost with a path that
                            failed; they have ended with an error, see docs/failover.md */
    int      has_atomics;
    char     wrong[256]; /* what was not as it must be; or "" */
} accept_stream_result_t;

/**
 * Run it. To be called once for an end: it registers memory.
 *
 * @return 1, or 0: something was wrong (result->wrong), or the end has failed (status).
 */
int accept_stream(accept_end_t *end, const accept_stream_params_t *params,
                  accept_stream_result_t *result);

#endif
