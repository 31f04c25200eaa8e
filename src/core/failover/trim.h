/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: end those frags of a failed path that the peer has executed. The others
 * stay in their slots for replay.h. Pure: libc only.
 */
#ifndef VQP_CORE_FAILOVER_TRIM_H
#define VQP_CORE_FAILOVER_TRIM_H

#include "core/data/tx.h"

/**
 * Number of frags in flight that were executed, by a count of requests or packets. The
 * path's own count is up to date, see vqp_path_count_wrs().
 *
 * @return The number, or -1: the count is impossible, so the device does not maintain it.
 */
int vqp_trim_count(vqp_path_t *path, const vqp_executed_t *executed);

/**
 * Split the frags in flight by the peer's executed count, when all completions of the
 * path's epoch have arrived. Executed frags end. READs, and frags that were not
 * executed, wait for their replay.
 *
 * An atomic ends with VQP_ERR_UNDECIDED if it was executed and its result is needed,
 * or if it is unknown whether it was executed. Without a completion it is reported by the
 * next flush, see lost.h.
 *
 * @param [out] unknown  Number of put and atomic frags that may have been executed. Such
 *                       a put waits for its replay: it writes the same data again.
 *
 * @return The number of atomics that ended with VQP_ERR_UNDECIDED.
 */
unsigned vqp_tx_trim(vqp_tx_t *tx, vqp_path_t *path,
                     const vqp_executed_t *executed, unsigned *unknown);

#endif
