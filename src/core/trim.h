/*
 * The sender: what the peer has executed of the frags of a path that failed, and
 * how these end. The rest waits in its place for replay.h. Pure: libc only.
 */
#ifndef VQP_CORE_TRIM_H
#define VQP_CORE_TRIM_H

#include "core/tx.h"

/**
 * All completions of the path's incarnation have arrived, and the peer has sent
 * its count of executed requests. Executed frags end; READs, and frags that were
 * not executed, wait for their replay.
 *
 * An atomic ends with VQP_ERR_LOST if it was executed and its result is needed,
 * or if it is unknown whether it was executed.
 *
 * @param [out] unknown  Frags of puts and atomics that may have been executed: such
 *                       a put waits for its replay, the same data to the same place.
 *
 * @return The number of such atomics.
 */
unsigned vqp_tx_trim(vqp_tx_t *tx, vqp_path_t *path,
                     const vqp_executed_t *executed, unsigned *unknown);

/** The vqp has failed: what only a replay could have confirmed ends with @a status.
 *  After vqp_tx_fail(). */
void vqp_tx_fail_paths(vqp_tx_t *tx, vqp_status_t status);

/**
 * The credits of its path that a frag takes are given back, with @a sign -1, while it
 * waits. A frag that is sent again on the same path takes them again, with 1.
 */
void vqp_replay_take(vqp_path_t *path, const vqp_inflight_t *entry, int sign);

/**
 * A frag that waits ends without a completion. It takes of its path what it took.
 *
 * @param is_behind_read  READs in front of it go again. If it waited for these, so does
 *                        what comes behind it, on one path: a nop takes its place.
 */
void vqp_replay_end(vqp_tx_t *tx, vqp_path_t *path, vqp_inflight_t *entry,
                    vqp_status_t status, int is_behind_read);

#endif
