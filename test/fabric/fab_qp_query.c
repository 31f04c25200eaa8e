/* What a query of a queue pair returns: that depends on the device. May call libc. */
#include "fab_qp.h"

#include <errno.h>

#include "fab_config.h"

#define FAB_PSN_MASK 0xffffffu

/* What the device says of its responder's next PSN; with rq_lock held. @return 0, or
 * the errno value of the query. */
static int fab_qp_query_rq_psn(const struct fab_qp *qp, uint32_t *psn)
{
    *psn = qp->rq_psn;
    if (qp->type != IBV_QPT_RC) {
        return 0;
    }

    switch (fab_config.rq_psn) {
    case FAB_RQ_PSN_STALE:
        *psn = qp->attr.rq_psn & FAB_PSN_MASK;
        return 0;
    case FAB_RQ_PSN_GARBAGE:
        *psn = (qp->rq_psn + (qp->qpn * 2654435761u >> 8) + 1) & FAB_PSN_MASK;
        return 0;
    case FAB_RQ_PSN_ABSENT:
        return (qp->state == IBV_QPS_ERR) ? EIO : 0;
    default:
        *psn = (qp->rq_psn + qp->rq_excess) & FAB_PSN_MASK;
        return 0;
    }
}

int fab_qp_query(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask,
                 struct ibv_qp_init_attr *init_attr)
{
    struct fab_qp *qp = fab_qp_of(ibv);
    int ret;

    fab_lock_take(&qp->sq_lock);
    fab_lock_take(&qp->rq_lock);
    *attr              = qp->attr;
    attr->qp_state     = (enum ibv_qp_state)qp->state;
    attr->cur_qp_state = attr->qp_state;
    attr->sq_psn       = qp->sq.psn;
    attr->cap          = qp->cap;
    ret                = fab_qp_query_rq_psn(qp, &attr->rq_psn);
    fab_lock_drop(&qp->rq_lock);
    fab_lock_drop(&qp->sq_lock);
    if (ret != 0) {
        return ret;
    }

    if (attr_mask & IBV_QP_STATE) { /* without its mask bit the old one stays */
        ibv->state = attr->qp_state;
    }
    init_attr->qp_context  = ibv->qp_context;
    init_attr->send_cq     = ibv->send_cq;
    init_attr->recv_cq     = ibv->recv_cq;
    init_attr->srq         = ibv->srq;
    init_attr->cap         = qp->cap;
    init_attr->qp_type     = ibv->qp_type;
    init_attr->sq_sig_all  = qp->sq_sig_all;
    return 0;
}
