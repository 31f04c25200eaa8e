/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The latency of a path: a histogram of samples. A sample is the time from the post of a
 * work request until this process sees its completion. So it has the time in which the
 * process did not poll in it. One work request of an interface is sampled at a time, about
 * one of VQP_LATENCY_SKIP calls of progress with completions. That call chooses the vqp:
 * VQP_TX_SAMPLE has its next op go through dispatch and get a CQE. Without telemetry
 * nobody sets it. Time comes in as a parameter. Pure: libc only.
 */
#ifndef VQP_CORE_TELEMETRY_LATENCY_H
#define VQP_CORE_TELEMETRY_LATENCY_H

#include "core/data/frag.h"
#include "core/data/tx.h"

#include <stdint.h>

#define VQP_LATENCY_SKIP  151 /* calls of progress from a sample to the next one */
#define VQP_LATENCY_TRIES 16  /* batches that have no frag on the path whose turn it is: then
                                 another path is sampled. That one may be down */

/* Upper limits of the buckets, in microseconds: powers of two. What took longer than the
 * last one has a bucket of its own */
#define VQP_LATENCY_LIMITS(_) \
    _(1) _(2) _(4) _(8) _(16) _(32) _(64) _(128) _(256) _(512) _(1024) _(2048) _(4096) \
    _(8192) _(16384)
#define VQP_LATENCY_ONE(_limit) 1 +
#define VQP_LATENCY_BUCKETS (VQP_LATENCY_LIMITS(VQP_LATENCY_ONE) 1)

/** Of a path. Zero at first. */
typedef struct vqp_latency {
    uint64_t buckets[VQP_LATENCY_BUCKETS]; /* samples in each */
    uint64_t sum;                          /* of all samples, in microseconds */
} vqp_latency_t;

/** Of an interface: the work request that is sampled. Zero at first. */
typedef struct vqp_sampler {
    uint32_t    skip;   /* calls of progress before the next sample */
    vqp_path_t *path;   /* of the work request; NULL: none is sampled */
    uint64_t    since;  /* ns: when it was posted */
    uint16_t    slot;
    uint16_t    qp_tag; /* of its queue pair */
    uint8_t     last;   /* index of the path that was sampled last */
    uint8_t     tries;  /* batches without a frag on the next one */
} vqp_sampler_t;

/**
 * Progress has handled completions, and no work request is sampled. If a sample is due,
 * one of the next op of @a tx is. Of a sender that has failed none is: of its queue pairs
 * no completion may come.
 */
void vqp_sampler_choose(vqp_sampler_t *sampler, vqp_tx_t *tx);

/**
 * A batch of a sender with VQP_TX_SAMPLE was posted: sample a work request of it, if none
 * is sampled. The paths take turns: if the batch has no frag on the path that is next, the
 * next batch may. Clears VQP_TX_SAMPLE, unless that is to be tried, or the batch has nothing
 * that can be sampled.
 *
 * @param [in] now  ns, after the batch was posted.
 *
 * @return 1 if one is sampled now that was not before.
 */
int vqp_sampler_begin(vqp_sampler_t *sampler, vqp_tx_t *tx, const vqp_batch_t *batch,
                      uint64_t now);

/**
 * Completions were handled while a work request is sampled. Sampling ends if its
 * completion was among them. It also ends if the path is silent or was given up: how long
 * a failure lasts is no latency, and other paths are not to wait for it.
 *
 * @return 1 if a sample is complete: count it by vqp_latency_add(). 0 if not; then
 *         sampler->path is NULL if none will come.
 */
int vqp_sampler_look(vqp_sampler_t *sampler);

/** Count a sample of @a ns. */
void vqp_latency_add(vqp_latency_t *latency, uint64_t ns);

#endif
