/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RC completion queues of one rail: one that grows, and further ones where it can
 * not. A slot is reserved for each WR before it is posted, signaled
 * or not, since it may complete in error. So no CQ overruns.
 * May call libibverbs.
 *
 * Threads: reserve, extend and release may run concurrently with the thread that polls
 * and arms (growing a CQ is safe under ibv_poll_cq), but not with each other.
 * `num_cqs` grows only, and a CQ below it stays until cleanup.
 */
#ifndef VQP_IB_CQPOOL_H
#define VQP_IB_CQPOOL_H

#include "verbs/cq.h"

#define VQP_IB_CQ_POOL_MAX 128

typedef struct vqp_ib_cq_pool_params {
    uint32_t initial;     /* least depth of a new CQ that can grow, CQEs */
    uint32_t max;         /* most CQEs per CQ; 0: the device's limit */
} vqp_ib_cq_pool_params_t;

typedef struct vqp_ib_cq_pool {
    const vqp_ib_dev_t      *dev;
    vqp_ib_chan_t           chan;
    vqp_ib_cq_pool_params_t params;   /* as sanitized */
    unsigned                num_cqs;
    uint8_t                 no_resize; /* the device can not resize */
    vqp_ib_cq_t             cqs[VQP_IB_CQ_POOL_MAX];
} vqp_ib_cq_pool_t;

/**
 * Open the channel and the first CQ. The pool must stay at its address. If the device
 * can not resize CQs, each has 65535 entries from the start, or fewer if that fails.
 *
 * @return As @ref vqp_ib_cq_create. Logged.
 */
vqp_status_t vqp_ib_cq_pool_init(vqp_ib_cq_pool_t *pool,
                                 const vqp_ib_dev_t *dev,
                                 const vqp_ib_cq_pool_params_t *params);

/** Destroy CQs and channel; all QPs on them must be gone */
void vqp_ib_cq_pool_cleanup(vqp_ib_cq_pool_t *pool);

/**
 * Reserve @a count slots, all on one CQ, growing or adding CQs as needed.
 *
 * @param level    Of the message that there is none.
 * @param index_p  Which CQ: create the QP on pool->cqs[*index_p].cq.
 * @return VQP_OK; VQP_ERR_EXCEEDS_LIMIT: more than one CQ can hold, or no
 *         further CQ: request less; VQP_ERR_NO_MEMORY, VQP_ERR_IO. Logged.
 */
vqp_status_t vqp_ib_cq_pool_reserve(vqp_ib_cq_pool_t *pool, uint32_t count,
                                    vqp_ib_log_level_t level, unsigned *index_p);

/**
 * Reserve @a count further slots on CQ @a index, which has some of the same path.
 *
 * @return VQP_OK; VQP_ERR_EXCEEDS_LIMIT, VQP_ERR_UNSUPPORTED: that CQ can not hold
 *         them. Not logged.
 */
vqp_status_t vqp_ib_cq_pool_extend(vqp_ib_cq_pool_t *pool, unsigned index,
                                   uint32_t count);

/**
 * Give slots back: only when no CQE for them can arrive or be in the CQ any
 * more. Queues do not shrink.
 */
void vqp_ib_cq_pool_release(vqp_ib_cq_pool_t *pool, unsigned index,
                            uint32_t count);

/** Arm all CQs, see @ref vqp_ib_cq_arm. A failure is a fault in the log. */
vqp_status_t vqp_ib_cq_pool_arm(vqp_ib_cq_pool_t *pool);

/** Is it a CQ of the pool? Any thread. */
int vqp_ib_cq_pool_has(const vqp_ib_cq_pool_t *pool, const struct ibv_cq *cq);

/** Number of CQs that may be polled. Any thread: all below it are complete. */
static inline unsigned vqp_ib_cq_pool_count(const vqp_ib_cq_pool_t *pool)
{
    return __atomic_load_n(&pool->num_cqs, __ATOMIC_ACQUIRE);
}

#endif
