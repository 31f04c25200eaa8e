/*
 * Execution of a WR as requester: faults, ports, the outcome, tries again, and
 * times. May call libc, fab_respond, fab_ud, fab_qp, fab_path, the engine and the
 * hooks.
 */
#include "fab_exec.h"

#include <stdlib.h>

#include "fab_config.h"
#include "fab_ctx.h"
#include "fab_engine.h"
#include "fab_fault.h"
#include "fab_path.h"
#include "fab_ud.h"

/* Which errors the responder finds, so that its QP ends too */
static int fab_status_is_remote(enum ibv_wc_status status)
{
    return (status == IBV_WC_REM_INV_REQ_ERR) ||
           (status == IBV_WC_REM_ACCESS_ERR) || (status == IBV_WC_REM_OP_ERR);
}

/* Move the peer to ERR, as the error it detected requires */
static void fab_exec_break_peer(struct fab_qp *qp,
                                struct fab_exec_result *result)
{
    struct fab_qp *peer;

    if (qp->peer == 0) {
        return;
    }

    peer = fab_ptr(struct fab_qp, qp->peer);
    fab_lock_take(&peer->rq_lock);
    if ((peer->qpn == qp->dest_qpn) && (peer->dest_qpn == qp->qpn) &&
        ((peer->state == IBV_QPS_RTR) || (peer->state == IBV_QPS_RTS))) {
        peer->state    = IBV_QPS_ERR;
        peer->flush    = 1;
        result->broken = peer;
    }
    fab_lock_drop(&peer->rq_lock);
}

void fab_exec_unanswered(struct fab_qp *qp, const struct ibv_send_wr *wr,
                         const struct ibv_sge *sge, uint32_t length,
                         struct fab_exec_result *result)
{
    struct ibv_send_wr read = *wr;
    struct ibv_sge answer   = {.length = length};
    void *data;

    if (!fab_wr_is_read(wr)) {
        fab_exec_rc(qp, wr, sge, length, result);
        return;
    }

    data = malloc(length);
    if (data == NULL) {
        result->end = FAB_EXEC_LOST;
        return;
    }

    answer.addr      = (uintptr_t)data;
    read.num_sge     = (length == 0) ? 0 : 1;
    read.send_flags |= IBV_SEND_INLINE; /* no key is checked */
    fab_exec_rc(qp, &read, &answer, length, result);
    free(data);
}

/* The first packets of a write reach the peer, and never the last one */
static void fab_exec_part(struct fab_qp *qp, const struct ibv_send_wr *wr,
                          const struct ibv_sge *sge, uint32_t length,
                          uint32_t packets, struct fab_exec_result *result)
{
    uint32_t mtu             = 128u << qp->attr.path_mtu;
    uint32_t all             = fab_packets(length, mtu);
    struct ibv_send_wr write = *wr;
    struct ibv_sge pieces[32];
    uint32_t left;
    int i;

    if ((qp->type != IBV_QPT_RC) || (qp->peer == 0) ||
        ((wr->opcode != IBV_WR_RDMA_WRITE) &&
         (wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)) ||
        (packets == 0) || (all == 1)) {
        return;
    }

    packets       = (packets < all) ? packets : (all - 1);
    left          = packets * mtu;
    write.opcode  = IBV_WR_RDMA_WRITE; /* an immediate is in the last one */
    write.num_sge = 0;
    for (i = 0; (i < wr->num_sge) && (left > 0); ++i) {
        pieces[i] = sge[i];
        if (pieces[i].length > left) {
            pieces[i].length = left;
        }
        left          -= pieces[i].length;
        write.num_sge  = i + 1;
    }
    fab_exec_rc(qp, &write, pieces, packets * mtu, result);
}

/* Executed at the peer, and not acknowledged; @return as fab_exec_fault */
static int fab_exec_unacked(struct fab_qp *qp, const struct ibv_send_wr *wr,
                            const struct ibv_sge *sge, uint32_t length,
                            const fab_wr_fault_t *fault,
                            struct fab_exec_result *result)
{
    struct fab_sq *sq = &qp->sq;

    if (qp->type == IBV_QPT_UD) {
        fab_exec_ud(qp, wr, sge, length, result);
    } else if (qp->peer != 0) {
        fab_exec_unanswered(qp, wr, sge, length, result);
    }
    if ((result->end != FAB_EXEC_DONE) ||
        (result->status != IBV_WC_SUCCESS)) {
        return 1;
    }

    if ((qp->type == IBV_QPT_RC) && (fault->more > 0)) {
        sq->unacked        = 1;
        sq->unacked_index  = sq->exec;
        sq->unacked_left   = fault->more;
        sq->unacked_status = fault->status;
        result->end        = FAB_EXEC_UNACKED;
        return 1;
    }

    return 0;
}

/* @return nonzero if the WR has been dealt with */
static int fab_exec_fault(struct fab_qp *qp, const struct ibv_send_wr *wr,
                          const struct ibv_sge *sge, uint32_t length,
                          struct fab_exec_result *result)
{
    fab_fault_send_t send = {
        .dev    = qp->dev,
        .qpn    = qp->qpn,
        .path   = (qp->type == IBV_QPT_RC) ? qp->path : UINT32_MAX,
        .link   = (fab_path_wire(qp) != NULL) ? qp->link : UINT32_MAX,
        .op     = wr->opcode,
        .length = length
    };
    fab_wr_fault_t fault;

    result->end = FAB_EXEC_LOST;
    if (!fab_fault_wr(&send, &fault)) {
        return 0;
    }

    if (fault.kind == FAB_WR_FAULT_RNR) {
        result->end    = FAB_EXEC_RNR;
        result->rnr_ns = 10000;
        return 1;
    }

    if (fault.kind == FAB_WR_FAULT_LOST) {
        if (qp->type == IBV_QPT_UD) { /* nobody misses an answer */
            result->end    = FAB_EXEC_DONE;
            result->status = IBV_WC_SUCCESS;
        }
        return 1;
    }

    if (fault.kind == FAB_WR_FAULT_FAIL) {
        fab_exec_part(qp, wr, sge, length, fault.part, result);
    } else if (fab_exec_unacked(qp, wr, sge, length, &fault, result)) {
        return 1;
    }

    result->end    = FAB_EXEC_DONE;
    result->status = fault.status;
    if (fab_status_is_remote(fault.status)) {
        fab_exec_break_peer(qp, result);
    }
    return 1;
}

/* rxe fails at once when its own port is down; hardware sends without an
 * error */
static void fab_exec_port_down(struct fab_exec_result *result, int is_local)
{
    if (is_local && (fab_config.profile == FAB_PROFILE_RXE)) {
        result->end    = FAB_EXEC_DONE;
        result->status = IBV_WC_LOC_QP_OP_ERR;
    } else {
        result->end = FAB_EXEC_LOST;
    }
}

void fab_exec_wr(struct fab_qp *qp, const struct ibv_send_wr *wr,
                 const struct ibv_sge *sge, uint32_t length,
                 struct fab_exec_result *result)
{
    struct fab_port *port = &fab_world->devs[qp->dev]
                                     .ports[qp->attr.port_num - 1];

    if (fab_fault_is_on() &&
        fab_exec_fault(qp, wr, sge, length, result)) {
        return;
    }

    if (qp->type == IBV_QPT_UD) {
        fab_exec_ud(qp, wr, sge, length, result);
        return;
    }

    if (__builtin_expect(fab_exec_is_down(port), 0)) {
        fab_exec_port_down(result, 1);
    } else if (__builtin_expect(qp->peer == 0, 0) ||
               fab_exec_is_down(&fab_world->devs[qp->peer_dev]
                                         .ports[qp->peer_port - 1])) {
        fab_exec_port_down(result, 0);
    } else {
        fab_exec_rc(qp, wr, sge, length, result);
    }
}

/* When the next attempt comes, or the status if there is none */
enum ibv_wc_status fab_exec_retry(struct fab_qp *qp,
                                  const struct fab_exec_result *result)
{
    const struct ibv_qp_attr *attr = &qp->attr;
    struct fab_sq *sq              = &qp->sq;

    if (result->end == FAB_EXEC_RNR) {
        if ((attr->rnr_retry != 7) && (sq->rnrs++ >= attr->rnr_retry)) {
            return IBV_WC_RNR_RETRY_EXC_ERR;
        }
        sq->due = fab_now() + result->rnr_ns;
        return IBV_WC_SUCCESS;
    }

    if (((attr->retry_cnt != 7) || (fab_config.retry7 == FAB_RETRY7_FINITE)) &&
        (sq->losses++ > attr->retry_cnt)) { /* the first is no retry */
        return IBV_WC_RETRY_EXC_ERR;
    }

    /* without a timer nothing is ever found out; a change of state ends it */
    sq->due = (attr->timeout == 0) ?
                      UINT64_MAX : (fab_now() + (4096ULL << attr->timeout));
    return IBV_WC_SUCCESS;
}

uint64_t fab_exec_unacked_due(const struct fab_qp *qp)
{
    const struct ibv_qp_attr *attr = &qp->attr;

    if ((attr->timeout == 0) ||
        ((attr->retry_cnt == 7) &&
         (fab_config.retry7 == FAB_RETRY7_ENDLESS))) {
        return UINT64_MAX;
    }

    return fab_now() + (attr->retry_cnt + 1) * (4096ULL << attr->timeout);
}

/* The first one that was not acknowledged has its status, others are flushed */
static void fab_exec_unacked_end(struct fab_qp *qp)
{
    struct fab_sq *sq         = &qp->sq;
    const struct fab_swr *swr = fab_sq_slot(sq, sq->done);

    fab_verbose(1, "%s: QP 0x%x: %u WRs executed and not acknowledged",
                fab_dev_name(qp->dev), qp->qpn, sq->exec - sq->done);
    fab_qp_complete_send(qp, &swr->wr, sq->done, swr->length,
                         (enum ibv_wc_status)sq->unacked_status);
    ++sq->done;
    sq->due = 0;
    fab_qp_fail_locked(qp);
}

/* Whether this WR has to wait for an answer that was lost: behind a READ or an
 * atomic with the fence flag, and beyond the depth of READs */
static int fab_exec_waits_for_answer(const struct fab_qp *qp,
                                     const struct fab_swr *swr)
{
    const struct fab_sq *sq = &qp->sq;
    uint32_t depth          = qp->attr.max_rd_atomic;
    uint32_t reads          = 0;
    uint32_t i;

    for (i = sq->done; i != sq->exec; ++i) {
        reads += fab_wr_is_read(&fab_sq_slot(sq, i)->wr) ? 1 : 0;
    }

    return ((swr->wr.send_flags & IBV_SEND_FENCE) && (reads > 0)) ||
           (fab_wr_is_read(&swr->wr) && (depth > 0) && (reads >= depth));
}

void fab_exec_unacked_next(struct fab_qp *qp, struct fab_exec_result *result)
{
    struct fab_sq *sq = &qp->sq;
    struct fab_swr *swr;

    while ((sq->unacked_left > 0) && (sq->exec != sq->head) &&
           (qp->state == IBV_QPS_RTS)) {
        swr = fab_sq_slot(sq, sq->exec);
        if (fab_exec_waits_for_answer(qp, swr)) {
            return; /* it never leaves: the QP fails by the retries */
        }
        fab_exec_unanswered(qp, &swr->wr, swr->sge, swr->length, result);
        if ((result->end != FAB_EXEC_DONE) ||
            (result->status != IBV_WC_SUCCESS)) {
            sq->unacked_left = 0;
            break;
        }
        ++sq->exec;
        --sq->unacked_left;
    }
    if (sq->unacked_left == 0) {
        fab_exec_unacked_end(qp);
    }
}

int fab_exec_settle(struct fab_qp *qp, const struct ibv_send_wr *wr,
                    uint32_t length, const struct fab_exec_result *result)
{
    enum ibv_wc_status status = result->status;
    struct fab_sq *sq         = &qp->sq;
    uint32_t index            = sq->exec;

    if (__builtin_expect(result->end == FAB_EXEC_UNACKED, 0)) {
        sq->exec   = index + 1;
        sq->due    = fab_exec_unacked_due(qp);
        sq->rnrs   = 0;
        sq->losses = 0;
        return 0;
    }
    if (__builtin_expect(result->end != FAB_EXEC_DONE, 0)) {
        status = fab_exec_retry(qp, result);
        if (status == IBV_WC_SUCCESS) {
            return 0;
        }
    }

    sq->exec   = index + 1;
    sq->done   = index + 1;
    sq->due    = 0;
    sq->rnrs   = 0;
    sq->losses = 0;
    fab_qp_complete_send(qp, wr, index, length, status);
    if (__builtin_expect(status != IBV_WC_SUCCESS, 0)) {
        fab_verbose(1, "%s: QP 0x%x: status %d", fab_dev_name(qp->dev), qp->qpn,
                    (int)status);
        fab_qp_fail_locked(qp);
    }
    return 1;
}

/* Continue with the ring in immediate mode: the obstacle may be removed */
static void fab_exec_ring(struct fab_qp *qp, uint64_t now,
                          struct fab_exec_result *result)
{
    struct fab_sq *sq = &qp->sq;
    struct fab_swr *swr;

    while ((sq->done != sq->head) && (qp->state == IBV_QPS_RTS) &&
           (sq->due <= now)) {
        if (sq->unacked) {
            fab_exec_unacked_end(qp);
            return;
        }
        swr     = fab_sq_slot(sq, sq->exec);
        sq->due = 0;
        fab_exec_wr(qp, &swr->wr, swr->sge, swr->length, result);
        if (!fab_exec_settle(qp, &swr->wr, swr->length, result)) {
            if (sq->unacked) {
                fab_exec_unacked_next(qp, result);
            }
            return;
        }
    }
}

/* It is in ERR, with an empty send queue: is it over? @return When; 0: it is */
static uint64_t fab_exec_linger(struct fab_qp *qp, uint64_t now)
{
    if (now < qp->lingers) {
        return qp->lingers;
    }

    fab_lock_take(&qp->rq_lock);
    qp->lingers = 0;
    fab_lock_drop(&qp->rq_lock);
    fab_qp_flush_locked(qp);
    return 0;
}

uint64_t fab_exec_progress(struct fab_qp *qp, uint64_t now)
{
    struct fab_exec_result result = {.broken = NULL};
    uint64_t due                  = 0;

    fab_lock_take(&qp->sq_lock);
    if (qp->lingers != 0) {
        due = fab_exec_linger(qp, now);
    } else if (qp->qpn != 0) {
        if (fab_config.mode == FAB_MODE_TIMED) {
            fab_exec_timed(qp, now, &result);
        } else {
            fab_exec_ring(qp, now, &result);
        }
        due = (qp->sq.done != qp->sq.head) ? qp->sq.due : 0;
    }
    fab_lock_drop(&qp->sq_lock);

    if (result.broken != NULL) {
        fab_qp_flush(result.broken);
    }
    return due;
}
