/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pairs of a vqp: created, renewed, destroyed. All under the async block.
 */
#ifndef UCT_VQP_QPS_H
#define UCT_VQP_QPS_H

#include "uct/vqp_def.h"

/** Choose the rail of a path, which has no queue pair yet. @return UCS_OK, or an error
 *  (logged). */
ucs_status_t uct_vqp_init_path(uct_vqp_t *vqp, unsigned index);

/** Destroy the queue pair of a path, if there is one. Its completions are ignored from now
 *  on. Under the async block. */
void uct_vqp_drop_qp(uct_vqp_t *vqp, unsigned index);

/**
 * Create the queue pair of a path, in INIT, with a new qp_tag; an older one is destroyed.
 * All work requests of the old one have come back. Under the async block.
 *
 * @param [in] depth  Entries of its send queue. It has fewer, as before, if its completion
 *                    queue has no room for them.
 * @param [in] level  Of the message that it fails, and of later ones about the queue pair.
 * @return UCS_OK, or an error (logged): then the path has no queue pair.
 */
ucs_status_t uct_vqp_renew_qp(uct_vqp_t *vqp, unsigned index, uint32_t depth,
                              vqp_ib_log_level_t level);

/** Destroy those of the first @a count paths. */
void uct_vqp_destroy_qps(uct_vqp_t *vqp, unsigned count);

#endif
