/* SPDX-License-Identifier: BSD-3-Clause */
/* The user pointer of an op. */
#ifndef UCT_VQP_DESC_H
#define UCT_VQP_DESC_H

#include "core/vqp_def.h"
#include "uct/vqp_md.h"

#include <uct/api/uct.h>

/* vqp_op_t::user_kind */
enum {
    UCT_VQP_USER_NONE  = 0, /* no completion; the core uses this value */
    UCT_VQP_USER_COMP  = 1, /* uct_completion_t */
    UCT_VQP_USER_DESC  = 2, /* uct_vqp_desc_t, returned to its pool */
    UCT_VQP_USER_FLUSH = 3  /* uct_completion_t of a flush that reports success even if
                               the connection fails: uct_vqp_flush_status() */
};

/** What a flush reports that ignores failures, and ends with that status: whether an atomic
 *  may be lost, unless an error of the endpoint has said so. */
static inline ucs_status_t uct_vqp_flush_status(const vqp_t *core, int status)
{
    return ((status == VQP_ERR_UNDECIDED) &&
            (!vqp_is_failed(core) || vqp_fails_quietly(core))) ?
                   uct_vqp_status(VQP_ERR_UNDECIDED) : UCS_OK;
}

/** A bounce slot: registered memory behind the descriptor. */
typedef struct uct_vqp_desc {
    const uint32_t       *lkeys;
    uct_completion_t     *comp;   /* or NULL */
    uct_unpack_callback_t unpack; /* get_bcopy, else NULL */
    void                 *arg;
} uct_vqp_desc_t;

#endif
