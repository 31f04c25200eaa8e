/*
 * Queue pairs: made, changed, destroyed. May call libc, fab_world, fab_cq, fab_rq,
 * fab_gid, fab_path, the engine and the hooks. Queries are in fab_qp_query.c, errors
 * and flushes in fab_qp_error.c.
 */
#include "fab_qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fab_async.h"
#include "fab_cq.h"
#include "fab_engine.h"
#include "fab_fault.h"
#include "fab_lag.h"
#include "fab_late.h"
#include "fab_violations.h"
#include "fab_mr.h"
#include "fab_path.h"
#include "fab_ud.h"

enum {
    FIRST_QPN = 17, /* 0 and 1 are the management's */
    QPN_MASK  = 0xffffff
};

struct fab_qp *fab_qp_slot(uint32_t dev, uint32_t qpn)
{
    return fab_ptr(struct fab_qp, fab_world->devs[dev].qps) +
           (qpn & (FAB_QP_SLOTS - 1));
}

static int fab_qp_check_cap(const struct ibv_qp_init_attr *attr)
{
    const struct ibv_qp_cap *cap = &attr->cap;

    if ((attr->qp_type != IBV_QPT_UD) &&
        ((attr->qp_type != IBV_QPT_RC) ||
         (fab_config.profile == FAB_PROFILE_EFA))) {
        return EOPNOTSUPP;
    }

    if ((attr->send_cq == NULL) || (attr->recv_cq == NULL) ||
        (cap->max_send_wr > fab_config.max_qp_wr) ||
        (cap->max_recv_wr > fab_config.max_qp_wr) ||
        (cap->max_send_sge > fab_config.max_sge) ||
        (cap->max_recv_sge > fab_config.max_sge) ||
        (cap->max_inline_data > fab_config.max_inline)) {
        return EINVAL;
    }
    return 0;
}

/* A number whose slot is free, locked with both locks; QPNs go in turn */
static struct fab_qp *fab_qp_take_slot(uint32_t dev_index, uint32_t *qpn)
{
    struct fab_dev *dev = &fab_world->devs[dev_index];
    struct fab_qp *qp, fresh;
    uint32_t i;

    fab_lock_take(&dev->lock);
    if (dev->num_qps >= fab_config.max_qp) {
        goto err;
    }

    for (i = 0; i < FAB_QP_SLOTS; ++i) {
        *qpn          = dev->next_qpn;
        dev->next_qpn = (*qpn == QPN_MASK) ? FIRST_QPN : (*qpn + 1);
        qp            = fab_qp_slot(dev_index, *qpn);
        if (!qp->taken) {
            break;
        }
    }
    if (i == FAB_QP_SLOTS) {
        goto err;
    }

    qp->taken = 1;
    ++dev->num_qps;
    if ((*qpn % FAB_QP_SLOTS) > dev->high_slot) {
        dev->high_slot = *qpn % FAB_QP_SLOTS;
    }
    fab_lock_drop(&dev->lock);

    /* a late peer may be waiting for a lock: they stay what they are */
    fab_lock_take(&qp->sq_lock);
    fab_lock_take(&qp->rq_lock);
    memset(&fresh, 0, sizeof(fresh));
    fresh.taken   = 1;
    fresh.sq_lock = qp->sq_lock;
    fresh.rq_lock = qp->rq_lock;
    *qp           = fresh;
    return qp;

err:
    fab_lock_drop(&dev->lock);
    return NULL;
}

/* The slot is free again; with both locks held, which it drops */
static void fab_qp_give_slot(struct fab_qp *qp)
{
    struct fab_dev *dev = &fab_world->devs[qp->dev];

    __atomic_store_n(&qp->qpn, 0, __ATOMIC_RELEASE);
    qp->state = IBV_QPS_RESET;
    fab_lock_drop(&qp->rq_lock);
    fab_lock_drop(&qp->sq_lock);

    fab_lock_take(&dev->lock);
    qp->taken = 0;
    --dev->num_qps;
    fab_lock_drop(&dev->lock);
}

static int fab_sq_init(struct fab_qp *qp, const struct ibv_qp_cap *cap)
{
    struct fab_sq *sq = &qp->sq;
    uint32_t slots    = 1;
    size_t data       = cap->max_send_sge * sizeof(struct ibv_sge);
    void *ring;

    /* inline data follows one SGE that describes it */
    if (data < (sizeof(struct ibv_sge) + cap->max_inline_data)) {
        data = sizeof(struct ibv_sge) + cap->max_inline_data;
    }
    if (qp->type == IBV_QPT_UD) {
        data += sizeof(struct fab_ah_handle); /* at the end, see fab_post */
    }
    while (slots < cap->max_send_wr) {
        slots *= 2;
    }

    sq->stride = (uint32_t)((sizeof(struct fab_swr) + data + 7) & ~7UL);
    ring       = fab_heap_alloc((size_t)slots * sq->stride);
    if (ring == NULL) {
        return ENOMEM;
    }

    sq->ring       = fab_off(ring);
    sq->mask       = slots - 1;
    sq->max_wr     = cap->max_send_wr;
    sq->max_sge    = cap->max_send_sge;
    sq->max_inline = cap->max_inline_data;
    return 0;
}

/* The rings, with what was granted written back to the caller */
static int fab_qp_init_rings(struct fab_qp *qp, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_cap *cap = &attr->cap;

    cap->max_send_sge = (cap->max_send_sge == 0) ? 1 : cap->max_send_sge;
    cap->max_recv_sge = (cap->max_recv_sge == 0) ? 1 : cap->max_recv_sge;
    if (attr->srq != NULL) {
        cap->max_recv_wr  = 0;
        cap->max_recv_sge = 0;
    }

    if (fab_sq_init(qp, cap) != 0) {
        return ENOMEM;
    }

    if (fab_rq_init(&qp->rq, cap->max_recv_wr, cap->max_recv_sge) != 0) {
        fab_heap_free(fab_ptr(void, qp->sq.ring));
        return ENOMEM;
    }
    return 0;
}

/* Objects that a QP uses can not be destroyed before it */
static void fab_qp_use(struct fab_qp *qp, struct ibv_pd *pd, uint32_t by)
{
    __atomic_fetch_add(&fab_ptr(struct fab_cq, qp->send_cq)->users, by,
                       __ATOMIC_ACQ_REL);
    __atomic_fetch_add(&fab_ptr(struct fab_cq, qp->recv_cq)->users, by,
                       __ATOMIC_ACQ_REL);
    __atomic_fetch_add(&fab_pd_of(pd)->users, by, __ATOMIC_ACQ_REL);
    if (qp->srq != 0) {
        __atomic_fetch_add(&fab_ptr(struct fab_srq, qp->srq)->users, by,
                           __ATOMIC_ACQ_REL);
    }
}

static void fab_qp_init(struct fab_qp *qp, struct fab_qp_handle *handle,
                        struct ibv_pd *pd, uint32_t qpn,
                        const struct ibv_qp_init_attr *attr)
{
    qp->dev        = (uint16_t)fab_context_dev(pd->context);
    qp->proc       = (uint16_t)fab_world_self;
    qp->type       = (uint8_t)attr->qp_type;
    qp->state      = IBV_QPS_RESET;
    qp->sq_sig_all = (attr->sq_sig_all != 0);
    qp->pd         = fab_pd_of(pd)->id;
    qp->send_cq    = fab_off(fab_cq_of(attr->send_cq));
    qp->recv_cq    = fab_off(fab_cq_of(attr->recv_cq));
    qp->srq        = (attr->srq == NULL) ? 0 : fab_off(fab_srq_of(attr->srq));
    qp->ctx        = fab_context_ctx(pd->context);
    qp->user       = (uintptr_t)&handle->ibv;
    qp->peer_dev   = ~0u;
    qp->cap        = attr->cap;

    handle->qp             = qp;
    handle->ibv.context    = pd->context;
    handle->ibv.qp_context = attr->qp_context;
    handle->ibv.pd         = pd;
    handle->ibv.send_cq    = attr->send_cq;
    handle->ibv.recv_cq    = attr->recv_cq;
    handle->ibv.srq        = attr->srq;
    handle->ibv.handle     = qpn;
    handle->ibv.qp_num     = qpn;
    handle->ibv.state      = IBV_QPS_RESET;
    handle->ibv.qp_type    = attr->qp_type;
    pthread_mutex_init(&handle->ibv.mutex, NULL);
    pthread_cond_init(&handle->ibv.cond, NULL);
}

struct ibv_qp *fab_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct fab_qp_handle *handle = NULL;
    struct fab_qp *qp;
    uint32_t qpn;
    int ret;

    ret = fab_qp_check_cap(attr);
    if (ret != 0) {
        goto err;
    }

    ret    = ENOMEM;
    handle = calloc(1, sizeof(*handle));
    if (handle == NULL) {
        goto err;
    }

    qp = fab_qp_take_slot(fab_context_dev(pd->context), &qpn);
    if (qp == NULL) {
        goto err;
    }

    fab_qp_init(qp, handle, pd, qpn, attr);
    if (fab_qp_init_rings(qp, attr) != 0) {
        fab_qp_give_slot(qp);
        goto err;
    }

    qp->cap = attr->cap;
    fab_path_init(qp);
    fab_qp_use(qp, pd, 1);
    __atomic_store_n(&qp->qpn, qpn, __ATOMIC_RELEASE);
    fab_lock_drop(&qp->rq_lock);
    fab_lock_drop(&qp->sq_lock);
    if (fab_violations_on()) {
        fab_violations_create_qp(&handle->ibv, &attr->cap,
                                 attr->sq_sig_all != 0);
    }
    return &handle->ibv;

err:
    free(handle);
    errno = ret;
    return NULL;
}

static int fab_qp_check_values(const struct fab_qp *qp,
                               const struct ibv_qp_attr *attr, int mask)
{
    if (((mask & IBV_QP_PORT) &&
         ((attr->port_num == 0) || (attr->port_num > fab_config.ports))) ||
        ((mask & IBV_QP_PKEY_INDEX) && (attr->pkey_index != 0)) ||
        ((mask & IBV_QP_PATH_MTU) &&
         ((attr->path_mtu < IBV_MTU_256) || (attr->path_mtu > IBV_MTU_4096) ||
          ((128u << attr->path_mtu) > fab_config.mtu))) ||
        ((mask & IBV_QP_MAX_QP_RD_ATOMIC) &&
         (attr->max_rd_atomic > fab_config.max_rd_atomic)) ||
        ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
         (attr->max_dest_rd_atomic > fab_config.max_rd_atomic)) ||
        ((mask & IBV_QP_TIMEOUT) && (attr->timeout > 31)) ||
        ((mask & IBV_QP_RETRY_CNT) && (attr->retry_cnt > 7)) ||
        ((mask & IBV_QP_RNR_RETRY) && (attr->rnr_retry > 7)) ||
        ((mask & IBV_QP_MIN_RNR_TIMER) && (attr->min_rnr_timer > 31))) {
        return EINVAL;
    }
    return (mask & IBV_QP_AV) ? fab_av_check(qp->dev, &attr->ah_attr) : 0;
}

/* Copy the attributes that the mask names; with both locks held */
static void fab_qp_set_attr(struct fab_qp *qp, const struct ibv_qp_attr *attr,
                            int mask)
{
#define SET(_bit, _field) \
    if (mask & (_bit)) { \
        qp->attr._field = attr->_field; \
    }
    SET(IBV_QP_ACCESS_FLAGS, qp_access_flags)
    SET(IBV_QP_PKEY_INDEX, pkey_index)
    SET(IBV_QP_PORT, port_num)
    SET(IBV_QP_QKEY, qkey)
    SET(IBV_QP_AV, ah_attr)
    SET(IBV_QP_PATH_MTU, path_mtu)
    SET(IBV_QP_TIMEOUT, timeout)
    SET(IBV_QP_RETRY_CNT, retry_cnt)
    SET(IBV_QP_RNR_RETRY, rnr_retry)
    SET(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic)
    SET(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
    SET(IBV_QP_MIN_RNR_TIMER, min_rnr_timer)
    SET(IBV_QP_PATH_MIG_STATE, path_mig_state)
    SET(IBV_QP_DEST_QPN, dest_qp_num)
    SET(IBV_QP_RQ_PSN, rq_psn)
#undef SET

    qp->access   = qp->attr.qp_access_flags;
    qp->qkey     = qp->attr.qkey;
    qp->dest_qpn = qp->attr.dest_qp_num;
    if (mask & IBV_QP_RQ_PSN) {
        qp->rq_psn    = attr->rq_psn & QPN_MASK;
        qp->rq_excess = 0;
    }
    if (mask & IBV_QP_SQ_PSN) {
        qp->sq.psn = attr->sq_psn & QPN_MASK;
    }
    if (mask & (IBV_QP_AV | IBV_QP_DEST_QPN)) {
        fab_route(qp->dev, &qp->attr.ah_attr, &qp->peer_dev, &qp->peer_port);
        fab_path_route(qp);
        qp->peer = (qp->peer_dev == ~0u) ?
                           0 : fab_off(fab_qp_slot(qp->peer_dev, qp->dest_qpn));
    }
}

/* All that is posted vanishes without a trace; with both locks held */
static void fab_qp_reset(struct fab_qp *qp)
{
    fab_lock_take(&qp->rq.post_lock);
    qp->rq.tail  = qp->rq.head;
    qp->rq.freed = qp->rq.head;
    qp->rq.taken = qp->rq.head;
    fab_lock_drop(&qp->rq.post_lock);
    if (fab_config.purge == FAB_PURGE_YES) {
        fab_cq_purge(fab_ptr(struct fab_cq, qp->send_cq), qp);
        fab_cq_purge(fab_ptr(struct fab_cq, qp->recv_cq), qp);
    }
    if ((fab_config.mode == FAB_MODE_TIMED) && (qp->sq.exec != qp->sq.head)) {
        fab_late_make(qp, fab_now());
    }
    qp->sq.sent   = qp->sq.head;
    qp->sq.exec   = qp->sq.head;
    qp->sq.done   = qp->sq.head;
    qp->sq.freed  = qp->sq.head;
    qp->rq.freed  = qp->rq.head;
    qp->sq.reads  = 0;
    qp->sq.rnrs   = 0;
    qp->sq.losses = 0;
    qp->sq.failed = 0;
    qp->sq.unacked = 0;
    qp->sq.due    = 0;
    qp->flush     = 0;
    qp->lingers   = 0;
    qp->last_wqe  = 0;
}

int fab_qp_modify(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask)
{
    struct fab_qp *qp = fab_qp_of(ibv);
    enum ibv_qp_state from, to;
    int ret;

    if ((attr_mask & IBV_QP_AV) && (fab_config.link == FAB_LINK_ETHERNET)) {
        ret = fab_fault_resolve(qp->dev);
        if (ret != 0) {
            return ret;
        }
    }

    fab_lock_take(&qp->sq_lock);
    fab_lock_take(&qp->rq_lock);
    from = (enum ibv_qp_state)qp->state;
    to   = (attr_mask & IBV_QP_STATE) ? attr->qp_state : from;
    ret  = fab_qp_check_mask((enum ibv_qp_type)qp->type, from, to, attr_mask);
    if ((ret == 0) && (attr_mask & IBV_QP_CUR_STATE) &&
        (attr->cur_qp_state != from)) {
        ret = EINVAL;
    }
    if (ret == 0) {
        ret = fab_qp_check_values(qp, attr, attr_mask);
    }
    if (ret == 0) {
        if (to == IBV_QPS_ERR) {
            fab_qp_linger(qp);
        }
        fab_qp_set_attr(qp, attr, attr_mask);
        __atomic_store_n(&qp->state, (uint8_t)to, __ATOMIC_SEQ_CST);
        fab_lag_assign(qp, from, to);
        if (to == IBV_QPS_RESET) {
            fab_qp_reset(qp);
        }
        qp->flush = (to == IBV_QPS_ERR);
    }
    fab_lock_drop(&qp->rq_lock);
    if ((ret == 0) && (to == IBV_QPS_ERR)) {
        fab_qp_flush_locked(qp);
    } else if ((ret == 0) && (to == IBV_QPS_RTS) &&
               (qp->sq.done != qp->sq.head)) {
        fab_engine_at(qp, fab_now());
    }
    fab_lock_drop(&qp->sq_lock);

    if (ret == 0) {
        if (attr_mask & IBV_QP_STATE) {
            ibv->state = to;
        }
        if (fab_violations_on()) {
            fab_violations_modify_qp(ibv, to);
        }
    }
    return ret;
}

int fab_qp_destroy(struct ibv_qp *ibv)
{
    struct fab_qp *qp = fab_qp_of(ibv);

    if (fab_violations_on()) {
        fab_violations_destroy_qp(ibv);
    }

    fab_engine_forget(qp);
    fab_lock_take(&qp->sq_lock);
    fab_lock_take(&qp->rq_lock);
    fab_qp_reset(qp);
    fab_rq_cleanup(&qp->rq);
    fab_heap_free(fab_ptr(void, qp->sq.ring));
    fab_qp_use(qp, ibv->pd, (uint32_t)-1);
    fab_path_release(qp);
    fab_qp_give_slot(qp);
    fab_async_forget(ibv->context, ibv);
    free(ibv);
    return 0;
}

void fab_qp_reap(uint32_t proc)
{
    struct fab_qp *qp;
    uint32_t dev, slot;

    for (dev = 0; dev < FAB_MAX_DEVS; ++dev) {
        /* not all the table: reading a page allocates it */
        for (slot = 0; (fab_world->devs[dev].num_qps > 0) &&
                       (slot <= fab_world->devs[dev].high_slot); ++slot) {
            qp = fab_qp_slot(dev, slot);
            if (qp->taken && (qp->proc == proc)) {
                fab_lock_take(&qp->sq_lock);
                fab_lock_take(&qp->rq_lock);
                fab_qp_give_slot(qp);
            }
        }
    }
}
