/*
 * Receive queues and SRQs. May call libc, fab_world, the async events and the
 * hooks.
 */
#include "fab_rq.h"

#include <errno.h>
#include <stdlib.h>

#include "fab_ctx.h"
#include "fab_fault.h"
#include "fab_mr.h"

int fab_rq_init(struct fab_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
    uint32_t slots = 1;
    void *ring;

    if (max_wr == 0) {
        return 0;
    }

    while (slots < max_wr) {
        slots *= 2;
    }

    rq->stride = (uint32_t)(sizeof(struct fab_rwr) +
                            (max_sge * sizeof(struct ibv_sge)));
    ring       = fab_heap_alloc((size_t)slots * rq->stride);
    if (ring == NULL) {
        return ENOMEM;
    }

    rq->ring    = fab_off(ring);
    rq->mask    = slots - 1;
    rq->max_wr  = max_wr;
    rq->max_sge = max_sge;
    return 0;
}

void fab_rq_cleanup(struct fab_rq *rq)
{
    if (rq->ring != 0) {
        fab_heap_free(fab_ptr(void, rq->ring));
        rq->ring = 0;
    }
}

int fab_rq_put(struct fab_rq *rq, const struct ibv_recv_wr *wr)
{
    uint64_t length = 0;
    struct fab_rwr *rwr;
    int i;

    if ((wr->num_sge < 0) || ((uint32_t)wr->num_sge > rq->max_sge)) {
        return EINVAL;
    }

    if (fab_rq_used(rq) >= rq->max_wr) {
        return ENOMEM;
    }

    rwr          = fab_ptr(struct fab_rwr,
                           rq->ring + (uint64_t)(rq->head & rq->mask) * rq->stride);
    rwr->wr_id   = wr->wr_id;
    rwr->num_sge = (uint32_t)wr->num_sge;
    for (i = 0; i < wr->num_sge; ++i) {
        rwr->sge[i] = wr->sg_list[i];
        length     += wr->sg_list[i].length;
    }
    rwr->length = (length > UINT32_MAX) ? UINT32_MAX : (uint32_t)length;
    __atomic_store_n(&rq->head, rq->head + 1, __ATOMIC_SEQ_CST);
    return 0;
}

struct ibv_srq *fab_srq_create(struct ibv_pd *pd,
                               struct ibv_srq_init_attr *attr)
{
    struct fab_srq_handle *handle = NULL;
    struct fab_srq *srq;
    int ret = EINVAL;

    if ((attr->attr.max_wr > fab_config.max_srq_wr) ||
        (attr->attr.max_sge > fab_config.max_srq_sge) ||
        (fab_config.max_srq == 0)) {
        goto err;
    }

    ret    = ENOMEM;
    handle = calloc(1, sizeof(*handle));
    srq    = fab_heap_alloc(sizeof(*srq));
    if ((handle == NULL) || (srq == NULL)) {
        goto err_free;
    }

    attr->attr.max_wr  = (attr->attr.max_wr == 0) ? 1 : attr->attr.max_wr;
    attr->attr.max_sge = (attr->attr.max_sge == 0) ? 1 : attr->attr.max_sge;
    if (fab_rq_init(&srq->rq, attr->attr.max_wr, attr->attr.max_sge) != 0) {
        goto err_free;
    }

    srq->proc               = fab_world_self;
    srq->dev                = fab_context_dev(pd->context);
    srq->pd                 = fab_pd_of(pd)->id;
    srq->id                 = __atomic_add_fetch(&fab_world->next_object, 1,
                                                 __ATOMIC_RELAXED);
    srq->ctx                = fab_context_ctx(pd->context);
    srq->user               = (uintptr_t)&handle->ibv;
    handle->srq             = srq;
    handle->ibv.context     = pd->context;
    handle->ibv.srq_context = attr->srq_context;
    handle->ibv.pd          = pd;
    handle->ibv.handle      = srq->id;
    pthread_mutex_init(&handle->ibv.mutex, NULL);
    pthread_cond_init(&handle->ibv.cond, NULL);
    __atomic_fetch_add(&fab_pd_of(pd)->users, 1, __ATOMIC_RELAXED);
    return &handle->ibv;

err_free:
    fab_heap_free(srq);
    free(handle);
err:
    errno = ret;
    return NULL;
}

void fab_srq_check_limit(struct fab_srq *srq)
{
    if ((srq->limit != 0) && ((srq->rq.head - srq->rq.tail) < srq->limit)) {
        srq->limit = 0;
        fab_async_raise(srq->ctx, IBV_EVENT_SRQ_LIMIT_REACHED, srq->user);
    }
}

int fab_srq_modify(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
    struct fab_srq *srq = fab_srq_of(ibv);

    if (((mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR)) != 0) ||
        ((mask & IBV_SRQ_MAX_WR) != 0)) {
        return EINVAL; /* resizing is what neither driver offers */
    }

    if ((mask & IBV_SRQ_LIMIT) == 0) {
        return 0;
    }

    if (attr->srq_limit >= srq->rq.max_wr) {
        return EINVAL;
    }

    fab_lock_take(&srq->lock);
    srq->limit = attr->srq_limit;
    if (fab_config.profile != FAB_PROFILE_RXE) {
        fab_srq_check_limit(srq);
    }
    fab_lock_drop(&srq->lock);
    return 0;
}

int fab_srq_query(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
    const struct fab_srq *srq = fab_srq_of(ibv);

    attr->max_wr    = srq->rq.max_wr;
    attr->max_sge   = srq->rq.max_sge;
    attr->srq_limit = srq->limit;
    return 0;
}

int fab_srq_destroy(struct ibv_srq *ibv)
{
    struct fab_srq *srq = fab_srq_of(ibv);

    if (__atomic_load_n(&srq->users, __ATOMIC_ACQUIRE) != 0) {
        return EBUSY;
    }

    __atomic_fetch_sub(&fab_pd_of(ibv->pd)->users, 1, __ATOMIC_RELAXED);
    fab_rq_cleanup(&srq->rq);
    fab_heap_free(srq);
    free(ibv);
    return 0;
}

int fab_srq_post_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr,
                      struct ibv_recv_wr **bad_wr)
{
    struct fab_srq *srq = fab_srq_of(ibv);
    int ret             = fab_fault_call(FAB_CALL_POST_SRQ_RECV);

    if (ret != 0) {
        *bad_wr = wr;
        return ret;
    }

    fab_lock_take(&srq->rq.post_lock);
    for (; wr != NULL; wr = wr->next) {
        ret = fab_rq_put(&srq->rq, wr);
        if (ret != 0) {
            *bad_wr = wr;
            break;
        }
    }
    fab_lock_drop(&srq->rq.post_lock);
    return ret;
}
