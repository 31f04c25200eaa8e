/*
 * A stream of checked operations from one side to the other: puts, or active
 * messages. The data of each operation are its own. Each is checked: that the peer
 * has its data when it is complete, that it completes once, and that messages come
 * in order. A violation ends the program with a message. One thread.
 */
#ifndef VQP_PERF_OPS_H
#define VQP_PERF_OPS_H

#include "side.h"

typedef struct perf_ops_slot perf_ops_slot_t;

typedef struct perf_ops {
    perf_side_t     *a, *b;
    uct_ep_h        ep;
    int             is_am;
    size_t          size;     /* bytes of an operation */
    unsigned        window;   /* operations at a time */
    perf_ops_slot_t *slots;
    perf_memory_t   source, target;
    double          busy;     /* seconds for which the receiver computes between two
                                 calls of progress; 0: it does not */
    double          busy_end; /* seconds: of that */
    uint64_t        posted;
    uint64_t        done;     /* puts: complete; messages: delivered */
    uint64_t        returned; /* whose slot is free again */
    uint64_t        failed;   /* completed with an error, or refused with one */
    double          last;     /* seconds: when done last grew */
    double          gap;      /* seconds: longest time in which it did not grow,
                                 since the caller set it to 0 */
    uint64_t        marked;   /* operations that were outstanding at the mark, and
                                 still are */
    uint64_t        mark;     /* number of the first one after it */
    double          mark_end; /* seconds: when the last of them was complete */
} perf_ops_t;

/**
 * Allocate the stream; it stays usable for one connection after another.
 *
 * @param kind  "put" or "am".
 */
void perf_ops_init(perf_ops_t *ops, perf_side_t *a, perf_side_t *b,
                   const char *kind, size_t size, unsigned window);

void perf_ops_cleanup(perf_ops_t *ops);

/** Begin on a connection. Nothing is outstanding. */
void perf_ops_start(perf_ops_t *ops, uct_ep_h ep);

/** Post as many as may be, once; then call progress of both sides. */
void perf_ops_turn(perf_ops_t *ops);

/** Call progress of both sides until all are complete, and check the memory. */
void perf_ops_finish(perf_ops_t *ops);

/** From now on, marked counts what is outstanding now. */
void perf_ops_mark(perf_ops_t *ops);

#endif
