/*
 * What benchmarks through UCX's UCT API share: an interface of any transport
 * of RDMA (vqp, rc_verbs), connections between two of one process, registered
 * memory. vqp is found when the program is started by contrib/vqp-run. A
 * failure ends the program with a message: a benchmark has no caller to return an
 * error to. One thread.
 */
#ifndef VQP_PERF_SIDE_H
#define VQP_PERF_SIDE_H

#include <uct/api/uct.h>
#include <ucs/async/async_fwd.h>
#include <ucs/type/thread_mode.h>

/* One interface, with a worker and a memory domain of its own */
typedef struct perf_side {
    uct_component_h     component;
    ucs_async_context_t *async;
    uct_worker_h        worker;
    uct_md_h            md;
    uct_md_attr_t       md_attr;
    uct_iface_h         iface;
    uct_iface_attr_t    attr;
    int                 may_fail; /* endpoints; set by the caller: their errors
                                     are in errors, and end nothing */
    unsigned            errors;
} perf_side_t;

/* Memory that a side has registered, with the key by which others reach it */
typedef struct perf_memory {
    perf_side_t       *side;
    char              *data;
    size_t            length;
    uct_mem_h         memh;
    uct_rkey_bundle_t key;
} perf_memory_t;

/* Both ends of a connection; of a transport that connects by itself, b_to_a
 * is NULL unless it was requested */
typedef struct perf_pair {
    uct_ep_h a_to_b;
    uct_ep_h b_to_a;
} perf_pair_t;

/* Who handles control datagrams of the sides that are opened from now on: a thread,
 * or, with UCS_ASYNC_MODE_POLL, perf_progress(), every 20 us. A thread wakes up
 * when the machine lets it, so with a virtual clock its answers come at any time. */
extern ucs_async_mode_t perf_async_mode;

/**
 * Print what went wrong, and end the program, unless @a ok.
 */
void perf_check(int ok, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/**
 * Open an interface.
 *
 * @param tl       "vqp", "rc_verbs", ...
 * @param device   Of RDMA, e.g. "fab0", whose port 1 is taken; or of vqp a bond,
 *                 "bond0".
 * @param options  Of the interface, "NAME=VALUE NAME=VALUE", by the names in
 *                 the transport's configuration table; or "".
 */
void perf_side_open(perf_side_t *side, const char *tl, const char *device,
                    const char *options);

/* All endpoints of it are gone, and all memory */
void perf_side_close(perf_side_t *side);

/**
 * Connect two sides, and wait until a put can be posted.
 *
 * @param two_way  Create b_to_a too.
 */
void perf_connect(perf_side_t *a, perf_side_t *b, int two_way,
                  perf_pair_t *pair);

/* The same without waiting: perf_flush does, for each endpoint */
void perf_connect_begin(perf_side_t *a, perf_side_t *b, int two_way,
                        perf_pair_t *pair);

void perf_disconnect(perf_side_t *a, perf_side_t *b, perf_pair_t *pair);

/* Both sides' progress. @return how much was done */
unsigned perf_progress(perf_side_t *a, perf_side_t *b);

/* The same while the program of the second side computes: only its async thread runs */
unsigned perf_progress_first(perf_side_t *a, perf_side_t *b);

/* Until all that was posted on an endpoint of a is complete at b */
void perf_flush(perf_side_t *a, perf_side_t *b, uct_ep_h ep);

/**
 * Register memory, of pages that are written once.
 *
 * @param length  Bytes, rounded up to pages.
 */
void perf_memory_init(perf_memory_t *memory, perf_side_t *side, size_t length);

void perf_memory_cleanup(perf_memory_t *memory);

/** CLOCK_MONOTONIC, in seconds. */
double perf_now(void);

/** Sort @a count values, of which there is one at least. @return The one whose rank is
 *  nearest to the part @a quantile, 0 to 1, of all; the mean of two that are equally near.
 *  0.5: the median. */
double perf_quantile(double *values, unsigned count, double quantile);

/* Devices by RXE_DEVS, as contrib/fabric-run and test/rxe/run set it.
 * @return the one of that index, or the last. The text stays. */
const char *perf_device(unsigned index);

#endif
