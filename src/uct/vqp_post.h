/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a vqp posts, and what is done with its queue pairs and its connection when it
 * fails. All by the worker's thread.
 */
#ifndef UCT_VQP_POST_H
#define UCT_VQP_POST_H

#include "uct/vqp_def.h"

/** Post everything the core has to send, if vqp_is_connected(). */
void uct_vqp_tx_progress(uct_vqp_t *vqp);

/** The frag of the fast path in @a slot was not posted: fail the connection. */
void uct_vqp_post_frag_failed(uct_vqp_t *vqp, vqp_path_t *path, uint16_t slot)
        __attribute__((cold));

/**
 * VQP_EVENT_QPS: move the queue pairs to ERR, and abort the connection. Frags in flight
 * get their last completions. Progress reports these, and the failure. The only place
 * where a failure of the core reaches the connection.
 */
void uct_vqp_fail_qps(uct_vqp_t *vqp);

/** Do so if the event is due. */
void uct_vqp_handle_failure(uct_vqp_t *vqp);

/** Fail the connection, because it is broken or canceled. */
void uct_vqp_fail(uct_vqp_t *vqp, vqp_status_t status);

/** Note a use of the connection: see vqp_use(). */
void uct_vqp_use(uct_vqp_t *vqp);

/** A flush with CANCEL: see vqp_cancel(). */
void uct_vqp_cancel(uct_vqp_t *vqp);

/**
 * Move the queue pair of a path to ERR: nothing of it is executed any more.
 *
 * @return 0 if no completion will come of it: it is gone, or its rail is broken.
 */
int uct_vqp_path_to_error(uct_vqp_t *vqp, unsigned path);

/** Probe the peer, unless an op in flight does so. */
void uct_vqp_check(uct_vqp_t *vqp);

#endif
