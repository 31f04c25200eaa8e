/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why an endpoint has failed, for its user: what was sent to a peer that could not be
 * connected, and what came back. docs/troubleshooting.md has these lines.
 */
#ifndef UCT_VQP_CONN_LOG_H
#define UCT_VQP_CONN_LOG_H

#include "uct/vqp_def.h"

/** Log that the endpoint of a vqp has failed with @a status. If its connection never was LIVE
 *  the line has the reason, and a second one may say what to look for. The worker's thread. */
void uct_vqp_log_ep_failed(const uct_vqp_t *vqp, ucs_log_level_t level, ucs_status_t status);

#endif
