/*
 * The responder of RC: what the peer's HCA does with an arriving message, done
 * by the requester. May call libc, fab_copy, fab_mr, fab_cq, fab_rq.
 */
#include "fab_respond.h"

#include <errno.h>
#include <string.h>

#include "fab_config.h"
#include "fab_copy.h"
#include "fab_cq.h"
#include "fab_ctx.h"
#include "fab_violations.h"

enum {
    PSN_MASK = 0xffffff
};

/* 5.12.2.1 of the specification, in units of 10 us */
static const uint16_t fab_rnr_timer[] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,
    48,  64,  96,  128, 192,  256,  384,  512,  768,  1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152
};

uint64_t fab_rnr_ns(uint8_t code)
{
    uint32_t units = (code == 0) ? 65536 : fab_rnr_timer[code & 31];

    return units * 10000ULL;
}

static void fab_done(struct fab_exec_result *result, enum ibv_wc_status status)
{
    result->end    = FAB_EXEC_DONE;
    result->status = status;
}

/* The responder's QP fails; the caller flushes it */
static void fab_respond_break(struct fab_qp *peer,
                              struct fab_exec_result *result,
                              enum ibv_wc_status status,
                              enum ibv_event_type event)
{
    __atomic_store_n(&peer->state, IBV_QPS_ERR, __ATOMIC_SEQ_CST);
    peer->flush    = 1;
    result->broken = peer;
    fab_done(result, status);
    if (fab_config.profile != FAB_PROFILE_RXE) {
        fab_async_raise(peer->ctx, event, peer->user);
    }
}

int fab_recv_take(struct fab_qp *peer, struct fab_recv *recv)
{
    struct fab_rwr *rwr;
    struct fab_srq *srq;
    uint32_t i;

    if (peer->srq == 0) {
        fab_qp_settle_rq(peer);
        rwr = fab_rq_front(&peer->rq);
        if (rwr == NULL) {
            return 0;
        }
        recv->wr_id   = rwr->wr_id;
        recv->length  = rwr->length;
        recv->num_sge = (int)rwr->num_sge;
        recv->sge     = rwr->sge;
        return 1;
    }

    srq = fab_ptr(struct fab_srq, peer->srq);
    fab_lock_take(&srq->lock);
    rwr = fab_rq_front(&srq->rq);
    if (rwr != NULL) {
        recv->wr_id   = rwr->wr_id;
        recv->length  = rwr->length;
        recv->num_sge = (int)rwr->num_sge;
        recv->sge     = recv->copy;
        for (i = 0; i < rwr->num_sge; ++i) {
            recv->copy[i] = rwr->sge[i];
        }
        fab_rq_pop(&srq->rq);
        fab_srq_check_limit(srq);
    }
    fab_lock_drop(&srq->lock);
    return rwr != NULL;
}

void fab_recv_complete(struct fab_qp *peer, const struct fab_recv *recv,
                       struct fab_cqe *cqe)
{
    cqe->wr_id  = recv->wr_id;
    cqe->qp     = fab_off(peer);
    cqe->qp_num = peer->qpn;
    cqe->flags  = (peer->srq == 0) ? FAB_CQE_RQ : FAB_CQE_SRQ;
    ++peer->messages;
    fab_qp_push_recv(peer, cqe);
}

/* Add the requester's own memory; @return 0 if a key or bound is not valid */
static int fab_local_vec(struct fab_qp *qp, const struct ibv_send_wr *wr,
                         const struct ibv_sge *sge, uint32_t access,
                         struct fab_vec *vec, struct fab_exec_result *result)
{
    int i, bad = 0;
    enum fab_mr_error why;

    if (wr->send_flags & IBV_SEND_INLINE) {
        for (i = 0; i < wr->num_sge; ++i) {
            if (sge[i].length != 0) {
                fab_vec_add(vec, sge[i].addr, sge[i].length);
            }
        }
        return 1;
    }

    why = fab_vec_add_sges(vec, qp->dev, qp->pd, sge, wr->num_sge, access,
                           &bad);
    if (__builtin_expect(why == FAB_MR_OK, 1)) {
        return 1;
    }

    fab_violations_report(FAB_RULE_LOCAL_KEY, fab_dev_name(qp->dev), "qp",
                          qp->qpn, "lkey 0x%x, address 0x%llx, %u bytes: %s",
                          sge[bad].lkey, (unsigned long long)sge[bad].addr,
                          sge[bad].length, fab_mr_error_str(why));
    fab_done(result, (fab_config.profile == FAB_PROFILE_RXE) ?
                             IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR);
    return 0;
}

/* The responder's memory that a rkey names; @return 0 if it must not */
static int fab_remote_vec(struct fab_qp *qp, struct fab_qp *peer, uint32_t rkey,
                          uint64_t addr, uint32_t length, uint32_t access,
                          struct fab_vec *vec, struct fab_exec_result *result)
{
    enum fab_mr_error why;

    if (__builtin_expect((peer->access & access) != access, 0)) {
        fab_respond_break(peer, result, IBV_WC_REM_INV_REQ_ERR,
                          IBV_EVENT_QP_REQ_ERR);
        return 0;
    }

    if (length == 0) {
        return 1;
    }

    why = fab_vec_add_key(vec, rkey, peer->dev, peer->pd, addr, length, access);
    if (__builtin_expect(why == FAB_MR_OK, 1)) {
        return 1;
    }

    fab_violations_report(FAB_RULE_REMOTE_KEY, fab_dev_name(qp->dev), "qp",
                          qp->qpn, "rkey 0x%x, address 0x%llx, %u bytes: %s",
                          rkey, (unsigned long long)addr, length,
                          fab_mr_error_str(why));
    fab_respond_break(peer, result, IBV_WC_REM_ACCESS_ERR,
                      IBV_EVENT_QP_ACCESS_ERR);
    return 0;
}

/* @return 0 if it failed: a dead peer, or memory that is not there */
static int fab_move(struct fab_qp *peer, const struct fab_vec *dst,
                    const struct fab_vec *src, uint64_t length,
                    struct fab_exec_result *result)
{
    int ret = fab_copy(dst, src, length);

    if (__builtin_expect(ret == 0, 1)) {
        return 1;
    }

    if (ret == ESRCH) {
        result->end = FAB_EXEC_LOST;
    } else {
        fab_respond_break(peer, result, IBV_WC_REM_OP_ERR,
                          IBV_EVENT_QP_ACCESS_ERR);
    }
    return 0;
}

static void fab_recv_cqe(struct fab_qp *qp, const struct ibv_send_wr *wr,
                         uint32_t length, struct fab_cqe *cqe)
{
    int is_rxe = (fab_config.profile == FAB_PROFILE_RXE);

    memset(cqe, 0, sizeof(*cqe));
    cqe->byte_len  = length;
    cqe->src_qp    = is_rxe ? 0 : qp->qpn;
    cqe->wc_flags  = is_rxe ? IBV_WC_GRH : 0;
    cqe->solicited = ((wr->send_flags & IBV_SEND_SOLICITED) != 0);
    cqe->opcode    = (uint8_t)IBV_WC_RECV;
    if ((wr->opcode == IBV_WR_SEND_WITH_IMM) ||
        (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)) {
        cqe->imm       = wr->imm_data;
        cqe->wc_flags |= IBV_WC_WITH_IMM;
    }
    if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        cqe->opcode = (uint8_t)IBV_WC_RECV_RDMA_WITH_IMM;
    }
}

/* A receive that can not take its message ends in an error at both ends */
static void fab_recv_fail(struct fab_qp *peer, const struct fab_recv *recv,
                          struct fab_cqe *cqe, enum ibv_wc_status here,
                          struct fab_exec_result *result,
                          enum ibv_wc_status there)
{
    cqe->status     = (uint8_t)here;
    cqe->vendor_err = 0x80u + here;
    fab_recv_complete(peer, recv, cqe);
    fab_respond_break(peer, result, there, IBV_EVENT_QP_REQ_ERR);
}

static void fab_respond_send(struct fab_qp *qp, struct fab_qp *peer,
                             const struct ibv_send_wr *wr,
                             const struct fab_vec *src, uint32_t length,
                             struct fab_exec_result *result)
{
    struct fab_recv recv;
    struct fab_cqe cqe;
    struct fab_vec dst;
    int bad;

    if (!fab_recv_take(peer, &recv)) {
        result->end    = FAB_EXEC_RNR;
        result->rnr_ns = fab_rnr_ns(peer->attr.min_rnr_timer);
        return;
    }

    fab_recv_cqe(qp, wr, length, &cqe);
    fab_vec_init(&dst, peer->proc);
    if (length > recv.length) {
        fab_recv_fail(peer, &recv, &cqe, IBV_WC_LOC_LEN_ERR, result,
                      IBV_WC_REM_INV_REQ_ERR);
    } else if (fab_vec_add_sges(&dst, peer->dev, peer->pd, recv.sge,
                                recv.num_sge, IBV_ACCESS_LOCAL_WRITE, &bad) !=
               FAB_MR_OK) {
        fab_recv_fail(peer, &recv, &cqe, IBV_WC_LOC_PROT_ERR, result,
                      IBV_WC_REM_OP_ERR);
    } else if (fab_move(peer, &dst, src, length, result)) {
        fab_recv_complete(peer, &recv, &cqe);
        fab_done(result, IBV_WC_SUCCESS);
    }
    fab_vec_release(&dst);
}

static void fab_respond_write(struct fab_qp *qp, struct fab_qp *peer,
                              const struct ibv_send_wr *wr,
                              const struct fab_vec *src, uint32_t length,
                              struct fab_exec_result *result)
{
    struct fab_recv recv;
    struct fab_cqe cqe;
    struct fab_vec dst;

    /* the immediate needs a receive: where there is none, nothing is written */
    if ((wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) &&
        !fab_recv_ready(peer)) {
        result->end    = FAB_EXEC_RNR;
        result->rnr_ns = fab_rnr_ns(peer->attr.min_rnr_timer);
        return;
    }

    fab_vec_init(&dst, peer->proc);
    if (fab_remote_vec(qp, peer, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr,
                       length, IBV_ACCESS_REMOTE_WRITE, &dst, result) &&
        fab_move(peer, &dst, src, length, result)) {
        fab_done(result, IBV_WC_SUCCESS);
    }
    fab_vec_release(&dst);

    if ((wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) &&
        (result->end == FAB_EXEC_DONE) && (result->status == IBV_WC_SUCCESS)) {
        if (!fab_recv_take(peer, &recv)) {
            /* others took the SRQ's last one meanwhile: it is written again */
            result->end    = FAB_EXEC_RNR;
            result->rnr_ns = fab_rnr_ns(peer->attr.min_rnr_timer);
            return;
        }
        fab_recv_cqe(qp, wr, length, &cqe);
        fab_recv_complete(peer, &recv, &cqe);
    }
}

static void fab_respond_read(struct fab_qp *qp, struct fab_qp *peer,
                             const struct ibv_send_wr *wr,
                             const struct fab_vec *dst, uint32_t length,
                             struct fab_exec_result *result)
{
    struct fab_vec src;

    if (peer->attr.max_dest_rd_atomic == 0) {
        fab_respond_break(peer, result, IBV_WC_REM_INV_REQ_ERR,
                          IBV_EVENT_QP_REQ_ERR);
        return;
    }

    fab_vec_init(&src, peer->proc);
    if (fab_remote_vec(qp, peer, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr,
                       length, IBV_ACCESS_REMOTE_READ, &src, result) &&
        fab_move(peer, dst, &src, length, result)) {
        fab_done(result, IBV_WC_SUCCESS);
    }
    fab_vec_release(&src);
}

/* Read, compute, write: under a lock that all atomics to this place take */
static int fab_atomic_apply(struct fab_qp *peer, const struct ibv_send_wr *wr,
                            const struct fab_vec *target,
                            const struct fab_vec *local, uint64_t *old,
                            struct fab_exec_result *result)
{
    uint64_t where = target->piece[0].addr >> 3;
    struct fab_lock *lock = &fab_world->atomic_locks[(where ^ peer->proc) % 64];
    struct fab_vec here;
    uint64_t value;
    int ok;

    fab_vec_init(&here, fab_world_self);
    fab_vec_add(&here, (uintptr_t)old, sizeof(*old));
    fab_lock_take(lock);
    ok = fab_move(peer, &here, target, sizeof(*old), result);
    if (ok) {
        value = *old;
        if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            value += wr->wr.atomic.compare_add;
        } else if (value == wr->wr.atomic.compare_add) {
            value = wr->wr.atomic.swap;
        }
        here.piece[0].addr = (uintptr_t)&value;
        ok = fab_move(peer, target, &here, sizeof(value), result);
    }
    fab_lock_drop(lock);

    here.piece[0].addr = (uintptr_t)old;
    return ok && fab_move(peer, local, &here, sizeof(*old), result);
}

static void fab_respond_atomic(struct fab_qp *qp, struct fab_qp *peer,
                               const struct ibv_send_wr *wr,
                               const struct fab_vec *local,
                               struct fab_exec_result *result)
{
    struct fab_vec target;
    uint64_t old;

    if ((peer->attr.max_dest_rd_atomic == 0) ||
        ((wr->wr.atomic.remote_addr % sizeof(uint64_t)) != 0)) {
        fab_respond_break(peer, result, IBV_WC_REM_INV_REQ_ERR,
                          IBV_EVENT_QP_REQ_ERR);
        return;
    }

    fab_vec_init(&target, peer->proc);
    if (fab_remote_vec(qp, peer, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
                       sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC, &target,
                       result) &&
        fab_atomic_apply(peer, wr, &target, local, &old, result)) {
        fab_done(result, IBV_WC_SUCCESS);
    }
    fab_vec_release(&target);
}

/* Whether the peer listens to this QP, and to this PSN: what it waits for.
   There are no retransmissions here, so that another one comes of QPs that do
   not fit, and whatever the peer answered, it would not help. */
static int fab_respond_fits(const struct fab_qp *qp, const struct fab_qp *peer)
{
    return (peer->qpn == qp->dest_qpn) && (peer->type == IBV_QPT_RC) &&
           (peer->rq_psn == qp->sq.psn) && (peer->dest_qpn == qp->qpn) &&
           (peer->peer_dev == qp->dev);
}

static int fab_respond_listens(const struct fab_qp *qp,
                               const struct fab_qp *peer)
{
    return fab_respond_fits(qp, peer) &&
           ((peer->state == IBV_QPS_RTS) || (peer->state == IBV_QPS_RTR) ||
            (peer->state == IBV_QPS_SQD) ||
            ((peer->state == IBV_QPS_ERR) && (peer->lingers != 0)));
}

/* What a device that counts otherwise (RQ_PSN) counts more, or less */
static void fab_respond_miscount(struct fab_qp *peer, const struct ibv_send_wr *wr,
                                 uint32_t packets)
{
    if ((fab_config.rq_psn == FAB_RQ_PSN_MESSAGES) ||
        ((fab_config.rq_psn == FAB_RQ_PSN_READS) &&
         (wr->opcode == IBV_WR_RDMA_READ))) {
        peer->rq_excess += 1 - packets;
    }
}

static void fab_respond(struct fab_qp *qp, struct fab_qp *peer,
                        const struct ibv_send_wr *wr,
                        const struct fab_vec *local, uint32_t length,
                        struct fab_exec_result *result)
{
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        fab_respond_write(qp, peer, wr, local, length, result);
        break;
    case IBV_WR_RDMA_READ:
        fab_respond_read(qp, peer, wr, local, length, result);
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        fab_respond_atomic(qp, peer, wr, local, result);
        break;
    default:
        fab_respond_send(qp, peer, wr, local, length, result);
        break;
    }
}

void fab_exec_read_late(struct fab_qp *qp, const struct ibv_send_wr *wr,
                        const struct ibv_sge *sge, uint32_t length)
{
    struct fab_qp *peer = fab_ptr(struct fab_qp, qp->peer);
    struct fab_vec src, dst;
    int bad;

    fab_vec_init(&dst, fab_world_self);
    fab_vec_init(&src, peer->proc);
    fab_lock_take(&peer->rq_lock);
    if ((peer->qpn == qp->dest_qpn) && (peer->dest_qpn == qp->qpn) &&
        ((peer->state == IBV_QPS_RTS) || (peer->state == IBV_QPS_RTR)) &&
        (length > 0) &&
        (fab_vec_add_sges(&dst, qp->dev, qp->pd, sge, wr->num_sge,
                          IBV_ACCESS_LOCAL_WRITE, &bad) == FAB_MR_OK) &&
        (fab_vec_add_key(&src, wr->wr.rdma.rkey, peer->dev, peer->pd,
                         wr->wr.rdma.remote_addr, length,
                         IBV_ACCESS_REMOTE_READ) == FAB_MR_OK)) {
        (void)fab_copy(&dst, &src, length);
    }
    fab_lock_drop(&peer->rq_lock);
    fab_vec_release(&src);
    fab_vec_release(&dst);
}

void fab_exec_rc(struct fab_qp *qp, const struct ibv_send_wr *wr,
                 const struct ibv_sge *sge, uint32_t length,
                 struct fab_exec_result *result)
{
    struct fab_qp *peer = fab_ptr(struct fab_qp, qp->peer);
    int is_read         = fab_wr_is_read(wr);
    struct fab_vec local;
    uint32_t packets    = fab_packets(length, 128u << qp->attr.path_mtu);

    result->end = FAB_EXEC_LOST;
    if ((length > fab_config.max_msg) ||
        (is_read && (wr->opcode != IBV_WR_RDMA_READ) &&
         (length != sizeof(uint64_t)))) {
        fab_done(result, IBV_WC_LOC_LEN_ERR);
        return;
    }

    fab_vec_init(&local, fab_world_self);
    if (!fab_local_vec(qp, wr, sge, is_read ? IBV_ACCESS_LOCAL_WRITE : 0,
                       &local, result) ||
        ((peer->proc != fab_world_self) && (peer->qpn == qp->dest_qpn) &&
         !fab_proc_alive_cached(peer->proc))) {
        goto out;
    }

    fab_lock_take(&peer->rq_lock);
    if (fab_respond_listens(qp, peer)) {
        fab_respond(qp, peer, wr, &local, length, result);
        if ((result->end == FAB_EXEC_DONE) &&
            (result->status == IBV_WC_SUCCESS)) {
            fab_respond_miscount(peer, wr, packets);
            peer->rq_psn = (peer->rq_psn + packets) & PSN_MASK;
            qp->sq.psn   = (qp->sq.psn + packets) & PSN_MASK;
            fab_exec_count(qp, length);
        }
    } else if ((fab_config.rq_psn == FAB_RQ_PSN_DISCARDED) &&
               (peer->state == IBV_QPS_ERR) && fab_respond_fits(qp, peer)) {
        peer->rq_excess = packets; /* each attempt brings the same ones */
    }
    fab_lock_drop(&peer->rq_lock);
out:
    fab_vec_release(&local);
}
