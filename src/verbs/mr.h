/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration: one handle, one registration per rail.
 * May call libibverbs.
 */
#ifndef VQP_IB_MR_H
#define VQP_IB_MR_H

#include "verbs/dev.h"

/* Access bits of this layer */
enum {
    VQP_IB_ACCESS_LOCAL_WRITE      = 1 << 0,
    VQP_IB_ACCESS_REMOTE_WRITE     = 1 << 1, /* implies LOCAL_WRITE */
    VQP_IB_ACCESS_REMOTE_READ      = 1 << 2,
    VQP_IB_ACCESS_REMOTE_ATOMIC    = 1 << 3, /* implies LOCAL_WRITE */
    VQP_IB_ACCESS_RELAXED_ORDERING = 1 << 4  /* ignored where unknown */
};

/* Memory that a kernel driver shares by a descriptor, such as a GPU's. The caller may
 * close the descriptor after the registration */
typedef struct vqp_ib_dmabuf {
    int      fd;
    uint64_t offset; /* bytes from its begin to the memory's */
} vqp_ib_dmabuf_t;

typedef struct vqp_ib_mr_params {
    void               *address;   /* that WRs name */
    size_t             length;     /* bytes, above 0 */
    unsigned           access;     /* must have */
    unsigned           optional;   /* requested too, but dropped when the mapping
                                      is read-only */
    vqp_ib_log_level_t log_level;  /* of failures; VQP_IB_LOG_NONE: silent */
    size_t             parallel;   /* bytes from which on all rails register at
                                      once, and deregister; 0: never */
    const vqp_ib_dmabuf_t *dmabuf; /* where the memory is; NULL: it is mapped at
                                      address, or a driver knows the address */
} vqp_ib_mr_params_t;

typedef struct vqp_ib_mr {
    struct ibv_mr *mr[VQP_MAX_RAILS];
    uint32_t      lkey[VQP_MAX_RAILS];
    uint32_t      rkey[VQP_MAX_RAILS];
    uint8_t       num_rails;
    uint8_t       access;          /* bits that were granted */
    uint8_t       is_parallel;     /* large: a thread for each rail */
} vqp_ib_mr_t;

/**
 * Register memory on every rail, or on none. Any thread. Large memory is
 * registered on each further rail by a thread, which ends before the return: most
 * of the time is spent on pinning pages, which each device does for itself.
 *
 * @param devs  The rails' devices; a device may occur twice, and then is
 *              registered once per rail.
 * @return VQP_OK
 *         VQP_ERR_INVALID_PARAM: length 0, or beyond the device's maximum, or
 *                 the address range is not mapped or can not be pinned, or the
 *                 descriptor is no dmabuf
 *         VQP_ERR_EXCEEDS_LIMIT: RLIMIT_MEMLOCK; the message names it
 *         VQP_ERR_NO_MEMORY, VQP_ERR_UNSUPPORTED, VQP_ERR_IO
 *         Each error is logged once, at params->log_level.
 */
vqp_status_t vqp_ib_mr_reg(vqp_ib_mr_t *mr, vqp_ib_dev_t *const *devs,
                           unsigned num_rails,
                           const vqp_ib_mr_params_t *params);

/** Can the device register memory of a dmabuf descriptor? Asks libibverbs and the
 *  kernel each time. Any thread. */
int vqp_ib_mr_has_dmabuf(const vqp_ib_dev_t *dev);

/** Bytes that this process may pin in all (RLIMIT_MEMLOCK); SIZE_MAX if nothing limits
 *  it. Any thread. */
size_t vqp_ib_mr_limit(void);

/**
 * Deregister on all rails. After the return no rail accepts the rkey. Any thread.
 * A failure of a rail is logged, and does not stop the others.
 *
 * @return VQP_OK or VQP_ERR_IO.
 */
vqp_status_t vqp_ib_mr_dereg(vqp_ib_mr_t *mr);

#endif
