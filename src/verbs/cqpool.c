/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RC completion queues of one rail: one that grows, and further ones where it can
 * not. May call libibverbs.
 */
#include "verbs/cqpool.h"

#include <errno.h>
#include <string.h>

/* Entries of queues that can not grow */
#define VQP_IB_CQ_POOL_FIXED 65535u

/* bnxt_re of rdma-core 47 and newer unmaps the queue in use when the kernel refuses to
 * resize it, and else waits for up to 2 s */
#define VQP_IB_VENDOR_BROADCOM 0x14e4

static uint32_t vqp_ib_cq_pool_room(const vqp_ib_cq_t *cq, uint32_t limit)
{
    return (limit > cq->reserved) ? (limit - cq->reserved) : 0;
}

/* A depth that holds `needed`, within the limit: one below a power of two, since mlx5 and
 * mlx4 take the next power of two above what is requested */
static uint32_t
vqp_ib_cq_pool_depth(const vqp_ib_cq_pool_t *pool, uint32_t needed)
{
    uint64_t size = 2;

    while (size - 1 < needed) {
        size *= 2;
    }

    return (uint32_t)vqp_min(size - 1, (uint64_t)pool->params.max);
}

/* A queue that can not grow is large, or as large as the limit of locked memory allows */
static vqp_status_t vqp_ib_cq_pool_create(vqp_ib_cq_pool_t *pool, vqp_ib_cq_t *cq,
                                          uint32_t count, vqp_ib_log_level_t level)
{
    uint32_t least = vqp_ib_cq_pool_depth(pool, vqp_max(count, pool->params.initial));
    uint32_t depth = least;

    if (pool->no_resize) {
        depth = vqp_max(least, vqp_ib_cq_pool_depth(pool, VQP_IB_CQ_POOL_FIXED));
    }

    for (; depth > least; depth = vqp_max(depth / 2, least)) {
        if (vqp_ib_cq_create(cq, pool->dev, depth, &pool->chan, VQP_IB_LOG_DEBUG) ==
            VQP_OK) {
            return VQP_OK;
        }
    }

    return vqp_ib_cq_create(cq, pool->dev, least, &pool->chan, level);
}

static vqp_status_t vqp_ib_cq_pool_open(vqp_ib_cq_pool_t *pool, uint32_t count,
                                        vqp_ib_log_level_t level)
{
    vqp_ib_cq_t *cq = &pool->cqs[pool->num_cqs];
    vqp_status_t status;

    if (pool->num_cqs == VQP_IB_CQ_POOL_MAX) {
        vqp_ib_log(level, "%s: all %u completion queues are full", pool->dev->name,
                   VQP_IB_CQ_POOL_MAX);
        return VQP_ERR_EXCEEDS_LIMIT;
    }

    status = vqp_ib_cq_pool_create(pool, cq, count, level);
    if (status != VQP_OK) {
        return status;
    }

    /* The polling thread reads up to num_cqs: store the queue before the number */
    __atomic_store_n(&pool->num_cqs, pool->num_cqs + 1, __ATOMIC_RELEASE);
    vqp_ib_debug("%s: completion queue %u with %u entries", pool->dev->name,
                 pool->num_cqs - 1, cq->depth);
    return VQP_OK;
}

static vqp_status_t vqp_ib_cq_pool_grow(vqp_ib_cq_pool_t *pool, vqp_ib_cq_t *cq,
                                        uint32_t needed)
{
    uint32_t depth = vqp_ib_cq_pool_depth(pool, needed);
    int ret;

    if (pool->no_resize) {
        return VQP_ERR_UNSUPPORTED;
    }

    ret = ibv_resize_cq(cq->cq, (int)depth);
    if (ret != 0) {
        ret             = (ret < 0) ? errno : ret;
        pool->no_resize = (ret == EOPNOTSUPP) || (ret == ENOSYS);
        vqp_ib_debug("%s: ibv_resize_cq(%u to %u) failed: %s", pool->dev->name,
                     cq->depth, depth, strerror(ret));
        return VQP_ERR_UNSUPPORTED;
    }

    cq->depth = vqp_ib_cq_usable(cq, depth);
    vqp_ib_debug("%s: completion queue grown to %u entries", pool->dev->name,
                 cq->depth);
    return VQP_OK;
}

/* The first queue decides whether queues grow: it is resized to the size that it has. That
 * changes nothing, and is refused where the provider has no such call, as hns. */
static vqp_status_t vqp_ib_cq_pool_open_first(vqp_ib_cq_pool_t *pool)
{
    vqp_status_t status;

    pool->no_resize = pool->dev->vendor_id == VQP_IB_VENDOR_BROADCOM;
    status          = vqp_ib_cq_pool_open(pool, 1, VQP_IB_LOG_ERROR);
    if ((status != VQP_OK) || pool->no_resize) {
        return status;
    }

    (void)vqp_ib_cq_pool_grow(pool, &pool->cqs[0], pool->cqs[0].depth);
    if (!pool->no_resize) {
        return VQP_OK;
    }

    vqp_ib_cq_destroy(&pool->cqs[--pool->num_cqs]);
    return vqp_ib_cq_pool_open(pool, 1, VQP_IB_LOG_ERROR);
}

vqp_status_t vqp_ib_cq_pool_init(vqp_ib_cq_pool_t *pool,
                                 const vqp_ib_dev_t *dev,
                                 const vqp_ib_cq_pool_params_t *params)
{
    uint32_t max = dev->caps.max_cqe;
    vqp_status_t status;

    memset(pool, 0, sizeof(*pool));
    pool->dev            = dev;
    pool->params.max     = (params->max == 0) ? max : vqp_min(params->max, max);
    pool->params.initial = params->initial;

    status = vqp_ib_chan_open(&pool->chan, dev);
    if (status != VQP_OK) {
        return status;
    }

    status = vqp_ib_cq_pool_open_first(pool);
    if (status != VQP_OK) {
        vqp_ib_chan_close(&pool->chan);
    }

    return status;
}

void vqp_ib_cq_pool_cleanup(vqp_ib_cq_pool_t *pool)
{
    while (pool->num_cqs > 0) {
        vqp_ib_cq_destroy(&pool->cqs[--pool->num_cqs]);
    }

    vqp_ib_chan_close(&pool->chan);
}

vqp_status_t vqp_ib_cq_pool_extend(vqp_ib_cq_pool_t *pool, unsigned index,
                                   uint32_t count)
{
    vqp_ib_cq_t *cq = &pool->cqs[index];
    vqp_status_t status;

    vqp_assert(index < pool->num_cqs);
    if (count > vqp_ib_cq_pool_room(cq, pool->params.max)) {
        return VQP_ERR_EXCEEDS_LIMIT;
    }

    if (count > vqp_ib_cq_pool_room(cq, cq->depth)) {
        status = vqp_ib_cq_pool_grow(pool, cq, cq->reserved + count);
        if (status != VQP_OK) {
            return status;
        }
    }

    cq->reserved += count;
    vqp_assert(cq->reserved <= cq->depth);
    return VQP_OK;
}

/* A path stays on its queue when it needs more: half of one that can not grow is for that */
static int vqp_ib_cq_pool_is_open(const vqp_ib_cq_pool_t *pool, const vqp_ib_cq_t *cq,
                                  uint32_t count)
{
    return !pool->no_resize || (cq->reserved == 0) ||
           (cq->reserved + count <= cq->depth / 2);
}

vqp_status_t vqp_ib_cq_pool_reserve(vqp_ib_cq_pool_t *pool, uint32_t count,
                                    vqp_ib_log_level_t level, unsigned *index_p)
{
    vqp_status_t status;
    unsigned index;

    if (count > pool->params.max) {
        vqp_ib_error("%s: the %u requests of a path do not fit a completion queue of at "
                     "most %u entries", pool->dev->name, count, pool->params.max);
        return VQP_ERR_EXCEEDS_LIMIT;
    }

    for (index = 0; index < pool->num_cqs; ++index) {
        if (vqp_ib_cq_pool_is_open(pool, &pool->cqs[index], count) &&
            (vqp_ib_cq_pool_extend(pool, index, count) == VQP_OK)) {
            *index_p = index;
            return VQP_OK;
        }
    }

    status = vqp_ib_cq_pool_open(pool, count, level);
    if (status != VQP_OK) {
        return status;
    }

    pool->cqs[index].reserved += count;
    vqp_assert(pool->cqs[index].reserved <= pool->cqs[index].depth);
    *index_p = index;
    return VQP_OK;
}

void vqp_ib_cq_pool_release(vqp_ib_cq_pool_t *pool, unsigned index,
                            uint32_t count)
{
    vqp_assert(index < pool->num_cqs);
    vqp_assert(count <= pool->cqs[index].reserved);
    pool->cqs[index].reserved -= count;
}

vqp_status_t vqp_ib_cq_pool_arm(vqp_ib_cq_pool_t *pool)
{
    unsigned num_cqs = vqp_ib_cq_pool_count(pool);
    vqp_status_t status;
    unsigned index;

    for (index = 0; index < num_cqs; ++index) {
        status = vqp_ib_cq_arm(&pool->cqs[index], VQP_IB_LOG_FAULT);
        if (status != VQP_OK) {
            return status;
        }
    }

    return VQP_OK;
}

int vqp_ib_cq_pool_has(const vqp_ib_cq_pool_t *pool, const struct ibv_cq *cq)
{
    unsigned i;

    for (i = 0; i < vqp_ib_cq_pool_count(pool); ++i) {
        if (pool->cqs[i].cq == cq) {
            return 1;
        }
    }

    return 0;
}
