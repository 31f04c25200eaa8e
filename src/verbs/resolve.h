/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does the address of a peer resolve? On RoCE the kernel looks for the MAC address of a
 * peer in ibv_create_ah(), and in ibv_modify_qp() to RTR. If no host answers, these
 * calls block for about a second. Here a thread waits instead: the kernel keeps the
 * answer, and the call that follows does not block.
 *
 * May call libibverbs. One thread at a time calls the functions for a resolver.
 */
#ifndef VQP_IB_RESOLVE_H
#define VQP_IB_RESOLVE_H

#include "verbs/av.h"
#include "verbs/dev.h"

#include <pthread.h>

/* Addresses that are known, and threads at once. Those that have failed before take
 * half of the threads at most: they must not keep others from being looked for */
#define VQP_IB_RESOLVE_ADDRS   64
#define VQP_IB_RESOLVE_THREADS 16

typedef enum {
    VQP_IB_RESOLVE_FREE,
    VQP_IB_RESOLVE_RUNS,   /* there is a thread, to be joined */
    VQP_IB_RESOLVE_GOOD,   /* it resolved, at since */
    VQP_IB_RESOLVE_FAILED  /* it did not, at since */
} vqp_ib_resolve_state_t;

/* What is known of an address */
typedef struct vqp_ib_resolve_job {
    struct vqp_ib_resolver *resolver;
    vqp_ib_av_t            av;
    pthread_t              thread;
    uint64_t               since;  /* ms */
    int                    err;    /* EINPROGRESS: the thread is at it; atomic */
    uint8_t                state;  /* vqp_ib_resolve_state_t */
    uint8_t                failed; /* RUNS: it did not resolve the last time */
} vqp_ib_resolve_job_t;

typedef struct vqp_ib_resolver {
    const vqp_ib_dev_t   *dev;
    int                  is_eth;
    int                  event_fd;   /* readable when a thread has an answer */
    uint64_t             no_wait;    /* ms; until then a question waits shortly */
    vqp_ib_resolve_job_t jobs[VQP_IB_RESOLVE_ADDRS];
} vqp_ib_resolver_t;

/**
 * @param is_eth  The port is of RoCE. Else each answer is VQP_OK at once.
 * @return VQP_OK; VQP_ERR_IO: no descriptor (logged).
 */
vqp_status_t vqp_ib_resolver_init(vqp_ib_resolver_t *resolver,
                                  const vqp_ib_dev_t *dev, int is_eth);

/** Waits for the threads, about a second at most. */
void vqp_ib_resolver_cleanup(vqp_ib_resolver_t *resolver);

/**
 * Ask whether an address resolves. The first question waits for the answer of a host
 * that is there, 50 ms at most; then, for a second, questions for other addresses wait
 * 2 ms. Repeated questions do not wait. An answer is good for a second.
 *
 * @param av  Its port, GID index and destination GID are looked at.
 * @return VQP_OK: yes; a call that uses it now does not block. Also if no thread can be
 *         created, or if ibv_create_ah() failed for another reason: the call that
 *         follows waits, or has that error.
 *         VQP_INPROGRESS: not known yet, ask again
 *         VQP_ERR_UNREACHABLE: no host has answered (the first time logged at level
 *         diag). It is looked for again: ask again
 */
vqp_status_t vqp_ib_resolve(vqp_ib_resolver_t *resolver, const vqp_ib_av_t *av);

#endif
