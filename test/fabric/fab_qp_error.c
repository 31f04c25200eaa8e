/*
 * How QPs end: completions of sends, errors, flushes, and the slots that come
 * back when a completion is polled. May call fab_cq, fab_rq and the async
 * events.
 */
#include "fab_qp.h"

#include <string.h>

#include "fab_config.h"
#include "fab_cq.h"
#include "fab_ctx.h"
#include "fab_engine.h"
#include "fab_fault.h"
#include "fab_late.h"

static uint8_t fab_wc_opcode(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

/* Some number that is not 0, as of hardware's own */
static uint32_t fab_vendor_err(enum ibv_wc_status status)
{
    return (fab_config.profile == FAB_PROFILE_RXE) ? 0 : (0x80u + status);
}

void fab_qp_complete_send(struct fab_qp *qp, const struct ibv_send_wr *wr,
                          uint32_t index, uint32_t length,
                          enum ibv_wc_status status)
{
    struct fab_cqe cqe;

    if (fab_config.profile == FAB_PROFILE_RXE) {
        __atomic_store_n(&qp->sq.freed, index + 1, __ATOMIC_RELAXED);
    }

    if ((status == IBV_WC_SUCCESS) && !qp->sq_sig_all &&
        !(wr->send_flags & IBV_SEND_SIGNALED)) {
        return;
    }

    memset(&cqe, 0, sizeof(cqe));
    cqe.wr_id    = wr->wr_id;
    cqe.qp       = fab_off(qp);
    cqe.qp_num   = qp->qpn;
    cqe.byte_len = length;
    cqe.index = index;
    cqe.status   = (uint8_t)status;
    cqe.opcode   = fab_wc_opcode(wr->opcode);
    cqe.flags    = FAB_CQE_SEND;
    if (status != IBV_WC_SUCCESS) {
        cqe.vendor_err = fab_vendor_err(status);
    }
    fab_cq_push(fab_ptr(struct fab_cq, qp->send_cq), &cqe);
}

void fab_qp_push_recv(struct fab_qp *qp, struct fab_cqe *cqe)
{
    struct fab_cq *cq = fab_ptr(struct fab_cq, qp->recv_cq);

    if (cqe->flags != FAB_CQE_RQ) {
        fab_cq_push(cq, cqe);
        return;
    }

    cqe->index = qp->rq.tail;
    __atomic_store_n(&qp->rq.is_pushing, 1, __ATOMIC_SEQ_CST);
    fab_rq_take(&qp->rq);
    fab_cq_push(cq, cqe);
    fab_fault_middle();
    fab_rq_pop(&qp->rq);
    __atomic_store_n(&qp->rq.is_pushing, 0, __ATOMIC_RELEASE);
}

void fab_qp_settle_rq(struct fab_qp *qp)
{
    if (__builtin_expect(qp->rq.is_pushing == 0, 1)) {
        return;
    }

    if ((fab_rq_front(&qp->rq) != NULL) &&
        fab_cq_has_seen(fab_ptr(struct fab_cq, qp->recv_cq), qp, qp->rq.tail)) {
        fab_rq_pop(&qp->rq);
    } else {
        __atomic_store_n(&qp->rq.taken, qp->rq.tail, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&qp->rq.is_pushing, 0, __ATOMIC_RELEASE);
}

void fab_qp_flush_rq(struct fab_qp *qp)
{
    const struct fab_rwr *rwr;
    struct fab_cqe cqe;

    if (qp->rq.ring == 0) {
        return;
    }

    memset(&cqe, 0, sizeof(cqe));
    cqe.qp         = fab_off(qp);
    cqe.qp_num     = qp->qpn;
    cqe.status     = IBV_WC_WR_FLUSH_ERR;
    cqe.vendor_err = fab_vendor_err(IBV_WC_WR_FLUSH_ERR);
    cqe.opcode     = (uint8_t)IBV_WC_RECV;
    cqe.flags      = FAB_CQE_RQ;
    fab_qp_settle_rq(qp);
    while ((rwr = fab_rq_front(&qp->rq)) != NULL) {
        cqe.wr_id = rwr->wr_id;
        fab_qp_push_recv(qp, &cqe);
    }
}

void fab_qp_flush_locked(struct fab_qp *qp)
{
    struct fab_sq *sq = &qp->sq;
    const struct fab_swr *swr;

    if ((fab_config.mode == FAB_MODE_TIMED) && (sq->exec != sq->head)) {
        fab_late_make(qp, fab_now());
    }
    for (; sq->done != sq->head; ++sq->done) {
        swr = fab_sq_slot(sq, sq->done);
        fab_qp_complete_send(qp, &swr->wr, sq->done, swr->length,
                             IBV_WC_WR_FLUSH_ERR);
    }
    sq->sent   = sq->head;
    sq->exec   = sq->head;
    sq->reads  = 0;
    sq->failed = 0;
    sq->unacked = 0;

    fab_lock_take(&qp->rq_lock);
    if (qp->lingers != 0) {
        fab_lock_drop(&qp->rq_lock);
        return;
    }

    fab_qp_flush_rq(qp);
    if ((qp->srq != 0) && !qp->last_wqe &&
        (fab_config.profile != FAB_PROFILE_RXE)) {
        qp->last_wqe = 1;
        fab_async_raise(qp->ctx, IBV_EVENT_QP_LAST_WQE_REACHED, qp->user);
    }
    qp->flush = 0;
    fab_lock_drop(&qp->rq_lock);
}

void fab_qp_flush(struct fab_qp *qp)
{
    fab_lock_take(&qp->sq_lock);
    if ((qp->qpn != 0) && qp->flush && (qp->state == IBV_QPS_ERR)) {
        fab_qp_flush_locked(qp);
    }
    fab_lock_drop(&qp->sq_lock);
}

void fab_qp_linger(struct fab_qp *qp)
{
    uint64_t time = 0;

    if ((qp->type == IBV_QPT_RC) && (qp->proc == fab_world_self) &&
        ((qp->state == IBV_QPS_RTR) || (qp->state == IBV_QPS_RTS))) {
        time = fab_fault_linger(qp->dev, qp->qpn);
    }
    if (time != 0) {
        qp->lingers = fab_now() + time;
        fab_engine_at(qp, qp->lingers);
    }
}

void fab_qp_fail_locked(struct fab_qp *qp)
{
    fab_lock_take(&qp->rq_lock);
    fab_qp_linger(qp);
    __atomic_store_n(&qp->state, IBV_QPS_ERR, __ATOMIC_SEQ_CST);
    fab_lock_drop(&qp->rq_lock);
    fab_qp_flush_locked(qp);
}

void fab_qp_to_error(struct fab_qp *qp)
{
    fab_lock_take(&qp->sq_lock);
    if ((qp->qpn != 0) && (qp->state != IBV_QPS_RESET) &&
        (qp->state != IBV_QPS_ERR)) {
        fab_qp_fail_locked(qp);
    }
    fab_lock_drop(&qp->sq_lock);
}

void fab_qp_retire(const struct fab_cqe *cqe)
{
    struct fab_qp *qp = fab_ptr(struct fab_qp, cqe->qp);

    if (qp->qpn != cqe->qp_num) {
        return;
    }

    if (cqe->flags & FAB_CQE_RQ) {
        qp->rq.polled = cqe->index + 1;
    }
    if (fab_config.profile == FAB_PROFILE_RXE) {
        return;
    }

    if (cqe->flags & FAB_CQE_SEND) {
        __atomic_store_n(&qp->sq.freed, cqe->index + 1, __ATOMIC_RELAXED);
    } else if (cqe->flags & FAB_CQE_RQ) {
        __atomic_fetch_add(&qp->rq.freed, 1, __ATOMIC_RELAXED);
    } else if (cqe->flags & FAB_CQE_SRQ) {
        __atomic_fetch_add(&fab_ptr(struct fab_srq, qp->srq)->rq.freed, 1,
                           __ATOMIC_RELAXED);
    }
}
