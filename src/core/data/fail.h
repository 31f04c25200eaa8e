/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: the end without success. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_FAIL_H
#define VQP_CORE_DATA_FAIL_H

#include "core/data/tx.h"

/**
 * Stop posting. Ops without a frag in flight end with @a status. Ops with frags
 * in flight end when these are retired; barriers end when all ops before them
 * have ended.
 */
void vqp_tx_fail(vqp_tx_t *tx, vqp_status_t status);

/** A frag of the path ends with @a status, without a completion of its own. The caller
 *  frees slots of ops by vqp_tx_advance_both(). */
void vqp_tx_end_frag(vqp_tx_t *tx, vqp_path_t *path, vqp_inflight_t *entry,
                     vqp_status_t status);

/**
 * The frags of a path from @a slot on were dispatched, but could not be posted:
 * they end with @a status now, no completion comes for them. After vqp_tx_fail().
 */
void vqp_tx_abandon(vqp_tx_t *tx, vqp_path_t *path, uint16_t slot,
                    vqp_status_t status);

/**
 * The frags of a path before @a end have come back, some of them with an error that
 * was not looked at: they end with @a status. After vqp_tx_fail().
 */
void vqp_tx_end_failed(vqp_tx_t *tx, vqp_path_t *path, uint16_t end,
                       vqp_status_t status);

/** Walks over all ops that were accepted and not reported, by op number. */
typedef struct vqp_tx_iter {
    uint32_t am;
    uint32_t rma;
} vqp_tx_iter_t;

static inline void vqp_tx_iter_init(const vqp_tx_t *tx, vqp_tx_iter_t *iter)
{
    iter->am  = tx->am.head;
    iter->rma = tx->rma.head;
}

/** @return The next op, or NULL. Nothing may be retired while walking. */
vqp_op_t *vqp_tx_iter_next(vqp_tx_t *tx, vqp_tx_iter_t *iter);

/** Does an accepted op refer to memory of the user, or is one waited for? */
int vqp_tx_uses_buffers(vqp_tx_t *tx);

#endif
