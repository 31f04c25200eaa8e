/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of the counters: the log at UCX_LOG_LEVEL=info, the file that
 * UCX_VQP_STATS_FILE names, and UCX's VFS.
 */
#ifndef UCT_VQP_STATS_H
#define UCT_VQP_STATS_H

#include "uct/vqp_def.h"

/** There is another vqp: add it to UCX's virtual file system, if somebody has read that.
 *  Under the async block. */
void uct_vqp_stats_vfs_add(uct_vqp_t *vqp);

/** Add the interface's nodes; called by UCX before they are read. */
void uct_vqp_stats_vfs_refresh(uct_iface_h tl_iface);

/** Add counters of a vqp to a sum; of maxima the larger one stays. */
void uct_vqp_stats_add(vqp_stats_t *sum, const vqp_stats_t *stats);

/** Add the counters of a vqp to the interface before it is released. */
void uct_vqp_stats_collect(uct_vqp_t *vqp);

/** Print and write everything when the interface closes. All vqps are collected. */
void uct_vqp_stats_report(uct_vqp_iface_t *iface);

#endif
