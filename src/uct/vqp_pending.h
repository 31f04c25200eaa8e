/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pending requests: they wait for resources of an endpoint, in a queue of it. The arbiter
 * of the interface has one element for each endpoint with requests, and serves the
 * endpoints in turn. So the requests can be purged while one of them runs: UCP does this
 * when a callback of the user closes the endpoint.
 */
#ifndef UCT_VQP_PENDING_H
#define UCT_VQP_PENDING_H

#include "uct/vqp_def.h"

/**
 * Update whether ops are accepted. Ops are refused while requests are pending:
 * an op that needs less than they do would overtake them.
 */
void uct_vqp_update_ready(uct_vqp_t *vqp);

/** A new endpoint: it has no requests. */
void uct_vqp_ep_pending_init(uct_vqp_ep_t *ep);

/** Have progress serve the endpoint's requests, because resources are back. */
void uct_vqp_schedule_pending(uct_vqp_t *vqp);

/** Arbiter callback: try a pending request again. */
ucs_arbiter_cb_result_t
uct_vqp_process_pending(ucs_arbiter_t *arbiter, ucs_arbiter_group_t *group,
                        ucs_arbiter_elem_t *elem, void *arg);

/** UCT's operations. */
ucs_status_t uct_vqp_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req,
                                    unsigned flags);
void uct_vqp_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb,
                              void *arg);

#endif
