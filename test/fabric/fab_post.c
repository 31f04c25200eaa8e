/*
 * Posting of send and receive WRs: checks, the way straight to execution, and
 * the ring for what has to wait. May call libc, fab_exec, fab_qp, the engine
 * and the hooks.
 */
#include "fab_exec.h"
#include "fab_ctx.h"

#include <errno.h>
#include <string.h>

#include "fab_config.h"
#include "fab_engine.h"
#include "fab_fault.h"
#include "fab_violations.h"
#include "fab_ud.h"

static int fab_post_check_op(const struct fab_qp *qp, enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return 0;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
        return (qp->type == IBV_QPT_RC) ? 0 : EINVAL;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return ((qp->type == IBV_QPT_RC) &&
                (fab_config.atomics != FAB_ATOMICS_NONE)) ? 0 : EINVAL;
    default:
        return EOPNOTSUPP;
    }
}

/* What a driver refuses; all else is found out at execution */
static int fab_post_check(const struct fab_qp *qp, const struct ibv_send_wr *wr,
                          uint64_t length)
{
    const struct fab_sq *sq = &qp->sq;
    int ret                 = fab_post_check_op(qp, wr->opcode);

    if (ret != 0) {
        return ret;
    }

    if ((qp->state != IBV_QPS_RTS) && (qp->state != IBV_QPS_SQD) &&
        (qp->state != IBV_QPS_ERR)) {
        return EINVAL;
    }

    if ((wr->num_sge < 0) || ((uint32_t)wr->num_sge > sq->max_sge)) {
        return EINVAL;
    }

    if ((wr->send_flags & IBV_SEND_INLINE) &&
        ((length > sq->max_inline) || fab_wr_is_read(wr))) {
        return EINVAL;
    }

    if ((sq->head - __atomic_load_n(&sq->freed, __ATOMIC_RELAXED)) >=
        sq->max_wr) {
        return ENOMEM;
    }
    return 0;
}

/* The address is copied into the WR, as into a WQE: the handle may be destroyed
 * first */
static void fab_post_keep_ah(const struct fab_qp *qp, struct fab_swr *swr)
{
    struct fab_ah_handle *ah;

    ah  = (struct fab_ah_handle*)((char*)swr + qp->sq.stride - sizeof(*ah));
    *ah = *fab_ah_of(swr->wr.wr.ud.ah);
    swr->wr.wr.ud.ah = &ah->ibv;
}

/* Copy a WR into the ring, with its inline data; it can not run now */
static struct fab_swr *fab_post_queue(struct fab_qp *qp,
                                      const struct ibv_send_wr *wr,
                                      uint32_t index, uint32_t length)
{
    struct fab_swr *swr = fab_sq_slot(&qp->sq, index);
    char *data          = (char*)&swr->sge[1];
    int i;

    swr->wr       = *wr;
    swr->wr.next  = NULL;
    swr->length   = length;
    swr->posted   = 0;
    swr->due_send = UINT64_MAX;
    swr->due_exec = 0;
    swr->executed = 0;
    swr->status   = IBV_WC_SUCCESS;
    if (wr->send_flags & IBV_SEND_INLINE) {
        swr->wr.num_sge    = 1;
        swr->sge[0].addr   = (uintptr_t)data;
        swr->sge[0].length = length;
        swr->sge[0].lkey   = 0;
        for (i = 0; i < wr->num_sge; ++i) {
            memcpy(data, (void*)(uintptr_t)wr->sg_list[i].addr,
                   wr->sg_list[i].length);
            data += wr->sg_list[i].length;
        }
    } else if (wr->num_sge > 0) {
        memcpy(swr->sge, wr->sg_list,
               (size_t)wr->num_sge * sizeof(*wr->sg_list));
    }
    if (qp->type == IBV_QPT_UD) {
        fab_post_keep_ah(qp, swr);
    }
    return swr;
}

/* libirdma looks at the list of an empty write, and not at its length: it writes the first
 * element, which the caller has left there */
static const struct ibv_send_wr *
fab_post_left_over(const struct ibv_send_wr *wr, struct ibv_send_wr *copy)
{
    if ((fab_config.profile != FAB_PROFILE_IRDMA) || (wr->num_sge != 0) ||
        (wr->sg_list == NULL) || (wr->opcode != IBV_WR_RDMA_WRITE)) {
        return wr;
    }

    *copy         = *wr;
    copy->num_sge = 1;
    return copy;
}

/* One WR, with sq_lock held; @return an errno if it is not accepted */
static int fab_post_one(struct fab_qp *qp, const struct ibv_send_wr *posted,
                        struct fab_exec_result *result)
{
    struct ibv_send_wr copy;
    const struct ibv_send_wr *wr = fab_post_left_over(posted, &copy);
    struct fab_sq *sq = &qp->sq;
    uint64_t length   = fab_sge_length(wr->sg_list, wr->num_sge);
    uint32_t index    = sq->head;
    struct fab_swr *swr;
    int ret;

    ret = fab_post_check(qp, wr, length);
    if (__builtin_expect(ret != 0, 0)) {
        return ret;
    }

    length = (length > UINT32_MAX) ? UINT32_MAX : length;
    ++sq->head;
    if (__builtin_expect(qp->state == IBV_QPS_ERR, 0)) {
        sq->sent = sq->head;
        sq->exec = sq->head;
        sq->done = sq->head;
        fab_qp_complete_send(qp, wr, index, (uint32_t)length,
                             IBV_WC_WR_FLUSH_ERR);
        return 0;
    }

    if (__builtin_expect((sq->done == index) && (qp->state == IBV_QPS_RTS) &&
                         (fab_config.mode == FAB_MODE_IMMEDIATE), 1)) {
        fab_exec_wr(qp, wr, wr->sg_list, (uint32_t)length, result);
        if (fab_exec_settle(qp, wr, (uint32_t)length, result)) {
            return 0;
        }
        (void)fab_post_queue(qp, wr, index, (uint32_t)length);
        return 0;
    }

    swr = fab_post_queue(qp, wr, index, (uint32_t)length);
    if (__builtin_expect(sq->unacked, 0) &&
        (fab_config.mode == FAB_MODE_IMMEDIATE)) {
        fab_exec_unacked_next(qp, result);
        return 0;
    }
    if ((fab_config.mode == FAB_MODE_TIMED) && (qp->state == IBV_QPS_RTS)) {
        fab_exec_schedule(qp, swr, fab_now());
    }
    return 0;
}

int fab_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr,
                  struct ibv_send_wr **bad_wr)
{
    struct fab_qp *qp             = fab_qp_of(ibv);
    int ret                       = fab_fault_call(FAB_CALL_POST_SEND);
    struct fab_exec_result result = {.broken = NULL};
    const struct ibv_send_wr *refused;
    int error                     = 0;

    ret = (ret != 0) ? ret : fab_context_dead(ibv->context);
    if (ret != 0) {
        *bad_wr = wr;
        return ret;
    }

    refused = fab_fault_chain(qp->dev, qp->qpn, wr, &error);
    if (fab_violations_on()) {
        fab_violations_post_send(ibv, wr);
    }

    fab_clock_on_post();
    fab_lock_take(&qp->sq_lock);
    for (; wr != NULL; wr = wr->next) {
        ret = __builtin_expect(wr == refused, 0) ?
                      error : fab_post_one(qp, wr, &result);
        if (__builtin_expect(ret != 0, 0)) {
            *bad_wr = wr;
            break;
        }
    }
    if (__builtin_expect(qp->sq.due != 0, 0)) {
        fab_engine_at(qp, qp->sq.due);
    }
    fab_lock_drop(&qp->sq_lock);

    if (__builtin_expect(result.broken != NULL, 0)) {
        fab_qp_flush(result.broken);
    }
    if ((ret != 0) && fab_violations_on()) {
        fab_violations_unpost_send(ibv, wr);
    }
    return ret;
}

int fab_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr,
                  struct ibv_recv_wr **bad_wr)
{
    struct fab_qp *qp = fab_qp_of(ibv);
    int ret           = fab_fault_call(FAB_CALL_POST_RECV);

    ret = (ret != 0) ? ret : fab_context_dead(ibv->context);
    if ((ret == 0) && ((qp->state == IBV_QPS_RESET) || (qp->rq.ring == 0))) {
        ret = EINVAL;
    }
    if (ret != 0) {
        *bad_wr = wr;
        return ret;
    }

    if (fab_violations_on()) {
        fab_violations_post_recv(ibv, wr);
    }

    fab_lock_take(&qp->rq.post_lock);
    for (; wr != NULL; wr = wr->next) {
        ret = fab_rq_put(&qp->rq, wr);
        if (ret != 0) {
            *bad_wr = wr;
            break;
        }
    }
    fab_lock_drop(&qp->rq.post_lock);

    /* the flush of a QP that went to ERR meanwhile may have missed them. With Soft-RoCE,
     * whose post is no system call, they wait for the next modify */
    if ((fab_config.profile != FAB_PROFILE_RXE) &&
        (__atomic_load_n(&qp->state, __ATOMIC_SEQ_CST) == IBV_QPS_ERR)) {
        fab_lock_take(&qp->rq_lock);
        if (qp->lingers == 0) {
            fab_qp_flush_rq(qp);
        }
        fab_lock_drop(&qp->rq_lock);
    }
    if ((ret != 0) && fab_violations_on()) {
        fab_violations_unpost_recv(ibv, wr);
    }
    return ret;
}
