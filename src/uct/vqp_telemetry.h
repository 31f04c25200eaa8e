/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The telemetry file of an interface (UCX_VQP_TELEMETRY): a snapshot of its counters,
 * once a second. core/telemetry/telemetry.h has the format, core/telemetry/telefields.h the fields.
 *
 * Snapshots are taken by progress, in the worker's thread, which owns the counters. So
 * the age of a snapshot is also the time since the process made progress. The data path
 * does nothing for it, but for samples of the latency (vqp_sample.h). The file is written by
 * pwrite(), not by stores to a mapping: on a full file system, or if somebody truncates the
 * file, a store would end the process.
 */
#ifndef UCT_VQP_TELEMETRY_H
#define UCT_VQP_TELEMETRY_H

#include "uct/vqp.h"

#include "core/telemetry/telefields.h"

#define UCT_VQP_TELEMETRY_PREFIX "uct_vqp." /* of file names: uct_vqp.PID.N */

/**
 * Create the file with a first snapshot. If that is not possible, a warning is logged,
 * and the interface has no telemetry.
 *
 * @param [in] where  "off", "on", or a directory.
 */
void uct_vqp_telemetry_open(uct_vqp_iface_t *iface, const char *where);

/** Write a snapshot. The worker's thread, under the async block. No effect if the
 *  interface has no telemetry. */
void uct_vqp_telemetry_update(uct_vqp_iface_t *iface, uint64_t now);

/** The record of a connection, which the caller has zeroed. The worker's thread, or a debugger
 *  (vqp_status.h). */
void uct_vqp_telemetry_conn(uct_vqp_t *vqp, uint64_t now, vqp_telemetry_conn_t *record);

/** Likewise of path @a index, below the interface's number of paths. */
void uct_vqp_telemetry_path(uct_vqp_t *vqp, unsigned index, vqp_telemetry_path_t *record);

/** The interface closes: remove the file. */
void uct_vqp_telemetry_close(uct_vqp_iface_t *iface);

#endif
