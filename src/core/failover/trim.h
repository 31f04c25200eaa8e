/*
 * The sender: what the peer has executed of the frags of a path that failed, and
 * how these end. The rest waits in its place for replay.h. Pure: libc only.
 */
#ifndef VQP_CORE_FAILOVER_TRIM_H
#define VQP_CORE_FAILOVER_TRIM_H

#include "core/data/tx.h"

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

#endif
