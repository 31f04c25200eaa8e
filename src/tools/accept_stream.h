/*
 * A verified stream: rounds of puts, active messages and atomics from the first side of a
 * pair to the second one. After each round all memory of the target, the number and the
 * order of the messages, and the sums of the atomics must be exact.
 */
#ifndef VQP_TOOLS_ACCEPT_STREAM_H
#define VQP_TOOLS_ACCEPT_STREAM_H

#include "tools/accept.h"

typedef struct accept_stream_params {
    double seconds;
    int    ams_only; /* no puts and no atomics */
    /* Called in the middle of each round, while its operations are in flight; or NULL */
    void   (*in_the_middle)(accept_pair_t *pair, void *arg);
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
 * Run it. To be called once for a pair: it registers memory. Messages may arrive until the
 * pair is closed: @a result must exist until then.
 *
 * @return 1, or 0: something was wrong (result->wrong), or the pair has failed (status).
 */
int accept_stream(accept_pair_t *pair, const accept_stream_params_t *params,
                  accept_stream_result_t *result);

#endif
