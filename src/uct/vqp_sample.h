/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Samples of the latency of paths, for telemetry: core/telemetry/latency.h decides, here
 * is the clock. The memory is vqp->latency: a vqp has it if its interface has telemetry. The
 * worker's thread calls these; uct_vqp_end_sample() also the async thread, of a vqp that
 * was never connected.
 */
#ifndef UCT_VQP_SAMPLE_H
#define UCT_VQP_SAMPLE_H

#include "uct/vqp_def.h"

/** The interface has telemetry. */
void uct_vqp_iface_start_sampling(uct_vqp_iface_t *iface);

/** The interface has no telemetry any more. */
void uct_vqp_iface_stop_sampling(uct_vqp_iface_t *iface);

/** A batch of a vqp with VQP_TX_SAMPLE was posted. */
void uct_vqp_sample(uct_vqp_t *vqp, const vqp_batch_t *batch);

/** Completions were handled, and UCT_VQP_TODO_SAMPLE is set. */
void uct_vqp_iface_look_at_sample(uct_vqp_iface_t *iface);

/** The vqp fails or is destroyed: no work request of it is sampled any more. */
void uct_vqp_end_sample(uct_vqp_t *vqp);

#endif
