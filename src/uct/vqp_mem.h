/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A memory handle, and how a domain registers memory. May use the verbs layer.
 */
#ifndef UCT_VQP_MEM_H
#define UCT_VQP_MEM_H

#include "uct/compat.h"
#include "verbs/mr.h"

/** A memory handle. */
typedef struct uct_vqp_mem {
    vqp_ib_mr_t mr;
    uint8_t     may_invalidate; /* a key was packed for it */
    uint8_t     is_cached;      /* from uct_vqp_rcache_get() */
    uint8_t     is_host;        /* the CPU may read it; else it may be a GPU's */
} uct_vqp_mem_t;

/** The same for all memory of a domain. */
typedef struct uct_vqp_reg {
    vqp_ib_dev_t *const *devs;
    unsigned            num_rails;
    int                 relaxed_ordering;
    int                 is_all_host; /* no address is a GPU's */
    size_t              parallel; /* bytes from which rails register in parallel */
} uct_vqp_reg_t;

/**
 * Register memory on all rails, for all access; for reading, if the mapping is
 * read-only. Any thread.
 *
 * @param params  Where the memory is, and how a failure is logged; the rest is filled
 *                in.
 * @return As vqp_ib_mr_reg(). Deregister by vqp_ib_mr_dereg() of mem->mr.
 */
vqp_status_t uct_vqp_mem_register(uct_vqp_mem_t *mem, const uct_vqp_reg_t *reg,
                                  vqp_ib_mr_params_t *params);

#endif
