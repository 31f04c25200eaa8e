/*
 * Counters to the outside: the log at UCX_LOG_LEVEL=info, the file that
 * UCX_VQP_STATS_FILE names, and UCX's VFS.
 */
#ifndef UCT_VQP_STATS_H
#define UCT_VQP_STATS_H

#include "uct/vqp.h"

/** Add the vqp to UCX's virtual file system. */
void uct_vqp_stats_vfs_add(uct_vqp_t *vqp);

/** Add the interface's nodes; called by UCX before they are read. */
void uct_vqp_stats_vfs_refresh(uct_iface_h tl_iface);

/** The vqp goes: keep its counters with the interface. */
void uct_vqp_stats_collect(uct_vqp_t *vqp);

/** The interface closes: print and write everything. All vqps are collected. */
void uct_vqp_stats_report(uct_vqp_iface_t *iface);

#endif
