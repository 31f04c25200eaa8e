/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A failure on purpose, for tools and debuggers: vqp-accept, which vqp-run --accept starts,
 * finds the function by dlsym() in the module. Nothing in the module calls it.
 */
#ifndef UCT_VQP_BREAK_H
#define UCT_VQP_BREAK_H

#include <uct/api/uct.h>

/**
 * Move the queue pair of a path to ERR, as a failure of the network would at last. What is
 * in flight on it is flushed, and progress handles that as any failure of a path: with
 * failover the path is rebuilt, without it the endpoint fails.
 *
 * To be called by the thread that progresses the endpoint's worker, not from within
 * uct_worker_progress(): a queue pair must not be moved while requests are posted to it.
 * In a debugger, stop the thread outside of the module and of UCX first.
 *
 * @param [in] tl_ep  An endpoint of the transport vqp.
 * @param [in] path   From 0 on.
 *
 * @return UCS_OK: its queue pair is in ERR.
 *         UCS_ERR_INVALID_PARAM: it is an endpoint of another transport.
 *         UCS_ERR_NO_ELEM: the endpoint has no such path that is UP now.
 *         UCS_ERR_IO_ERROR: the queue pair can not be moved (logged).
 */
ucs_status_t uct_vqp_ep_break_path(uct_ep_h tl_ep, unsigned path);

#endif
