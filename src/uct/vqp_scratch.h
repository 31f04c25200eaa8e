/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of an interface for probes of paths. Peers may write one part of it at
 * any time, and nobody reads that. The other part, which only the own devices access, never
 * changes: it is what own probes send. May use UCX and the verbs layer.
 */
#ifndef UCT_VQP_SCRATCH_H
#define UCT_VQP_SCRATCH_H

#include "core/conn/wire.h"
#include "uct/vqp_md.h"

/** Zeroed: there is none. */
typedef struct uct_vqp_scratch {
    char       *target; /* VQP_SCRATCH_SIZE bytes for peers */
    char       *source; /* as many */
    vqp_ib_mr_t target_mr;
    vqp_ib_mr_t source_mr;
} uct_vqp_scratch_t;

/** @return UCS_OK, UCS_ERR_NO_MEMORY or the error of the registration (logged). */
ucs_status_t uct_vqp_scratch_init(uct_vqp_scratch_t *scratch, uct_vqp_md_t *md);

void uct_vqp_scratch_cleanup(uct_vqp_scratch_t *scratch);

#endif
