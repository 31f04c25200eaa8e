/*
 * What benchmarks through UCX's UCP API share: a worker on one device or several, with
 * registered memory, and connections between two workers of one process. A failure ends
 * the program with a message, see side.h. One thread.
 */
#ifndef VQP_PERF_UCP_H
#define VQP_PERF_UCP_H

#include <ucp/api/ucp.h>

typedef struct perf_ucp {
    ucp_context_h context;
    ucp_worker_h  worker;
    ucp_ep_h      ep;
    ucp_mem_h     memh;
    ucp_rkey_h    rkey; /* of the peer's memory */
    char          *data;
    size_t        length;
} perf_ucp_t;

/**
 * Open a worker, and register memory.
 *
 * @param devices  Its devices, as UCX_NET_DEVICES names them.
 */
void perf_ucp_open(perf_ucp_t *end, const char *devices, size_t length);

void perf_ucp_close(perf_ucp_t *end);

/** Create both endpoints, and unpack the keys of the memory. */
void perf_ucp_connect(perf_ucp_t *a, perf_ucp_t *b, ucp_err_handling_mode_t mode);

/**
 * Close both endpoints.
 *
 * @param force  Do not wait for the peer; not in UCP_ERR_HANDLING_MODE_NONE.
 */
void perf_ucp_disconnect(perf_ucp_t *a, perf_ucp_t *b, int force);

/** Both workers' progress. @return how much was done. */
unsigned perf_ucp_progress(perf_ucp_t *a, perf_ucp_t *b);

#endif
