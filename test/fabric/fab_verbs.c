/*
 * The functions of libibverbs about memory, completions and queues; see
 * fab_verbs.h.
 */
#include "fab_verbs.h"
#include "fab_async.h"
#include "fab_config.h"
#include "fab_cq.h"
#include "fab_ctx.h"
#include "fab_mr.h"
#include "fab_qp.h"
#include "fab_rq.h"

#include <errno.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define FAB_VERBS_NAME(_upper, _lower) #_lower,

static const char *const fab_verbs_names[] = {FAB_CALLS(FAB_VERBS_NAME)};

int fab_verbs_enter(enum fab_call call)
{
    int err = fab_fault_call(call);

    if (err != 0) {
        errno = err;
    }

    fab_verbose(2, "%s_%s%s",
                (call < FAB_CALL_QUERY_QP_LAG_PORT) ? "ibv" : "mlx5dv",
                fab_verbs_names[call],
                (err != 0) ? " fails" : "");
    return err;
}

int fab_verbs_enter_on(struct ibv_context *context, enum fab_call call)
{
    int err = fab_verbs_enter(call);

    if ((err == 0) && (fab_context_dead(context) != 0)) {
        errno = err = EIO;
    }

    return err;
}

/* ---- memory ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    if (fab_verbs_enter(FAB_CALL_ALLOC_PD) != 0) {
        return NULL;
    }

    return fab_verbs_made(FAB_OBJ_PD, fab_pd_alloc(context));
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    int err = fab_verbs_enter(FAB_CALL_DEALLOC_PD);

    return (err != 0) ? err : fab_verbs_gone(FAB_OBJ_PD, fab_pd_dealloc(pd));
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                uint64_t iova, unsigned int access)
{
    if (fab_verbs_enter_on(pd->context, FAB_CALL_REG_MR) != 0) {
        return NULL;
    }

    return fab_verbs_made(FAB_OBJ_MR,
                          fab_mr_reg(pd, addr, length, iova, access));
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                          int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr,
                            (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
                               uint64_t iova, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
                                 size_t length, uint64_t iova, int fd,
                                 int access)
{
    if (fab_verbs_enter_on(pd->context, FAB_CALL_REG_MR) != 0) {
        return NULL;
    }

    return fab_verbs_made(FAB_OBJ_MR,
                          fab_mr_reg_dmabuf(pd, offset, length, iova, fd,
                                            (unsigned)access));
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
                 size_t length, int access)
{
    (void)mr;
    (void)flags;
    (void)pd;
    (void)addr;
    (void)length;
    (void)access;
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    int err = fab_verbs_enter(FAB_CALL_DEREG_MR);

    return (err != 0) ? err : fab_verbs_gone(FAB_OBJ_MR, fab_mr_dereg(mr));
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
    (void)context;
    (void)pd_handle;
    errno = EOPNOTSUPP;
    return NULL;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
    (void)pd;
    (void)mr_handle;
    errno = EOPNOTSUPP;
    return NULL;
}

/* ---- completions and events ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    if (fab_verbs_enter(FAB_CALL_CREATE_COMP_CHANNEL) != 0) {
        return NULL;
    }

    return fab_verbs_made(FAB_OBJ_CHANNEL, fab_chan_create(context));
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    int err = fab_verbs_enter(FAB_CALL_DESTROY_COMP_CHANNEL);

    return (err != 0) ? err : fab_verbs_gone(FAB_OBJ_CHANNEL,
                                             fab_chan_destroy(channel));
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
                     void **cq_context)
{
    if (fab_verbs_enter(FAB_CALL_GET_CQ_EVENT) != 0) {
        return -1;
    }

    return fab_chan_get_cq_event(channel, cq, cq_context);
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    fab_cq_ack_events(cq, nevents);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe,
                             void *cq_context, struct ibv_comp_channel *channel,
                             int comp_vector)
{
    if (fab_verbs_enter_on(context, FAB_CALL_CREATE_CQ) != 0) {
        return NULL;
    }

    return fab_verbs_made(FAB_OBJ_CQ, fab_cq_create(context, cqe, cq_context,
                                                    channel, comp_vector));
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    int err = fab_verbs_enter_on(cq->context, FAB_CALL_RESIZE_CQ);

    return (err != 0) ? err : fab_cq_resize(cq, cqe);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    int err = fab_verbs_enter(FAB_CALL_DESTROY_CQ);

    return (err != 0) ? err : fab_verbs_gone(FAB_OBJ_CQ, fab_cq_destroy(cq));
}

int ibv_get_async_event(struct ibv_context *context,
                        struct ibv_async_event *event)
{
    if (fab_verbs_enter(FAB_CALL_GET_ASYNC_EVENT) != 0) {
        return -1;
    }

    return fab_async_get(context, event);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    fab_async_ack(event);
}

/* ---- queues ---- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    if (fab_verbs_enter(FAB_CALL_CREATE_SRQ) != 0) {
        return NULL;
    }

    return fab_verbs_made(FAB_OBJ_SRQ, fab_srq_create(pd, attr));
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    int err = fab_verbs_enter(FAB_CALL_MODIFY_SRQ);

    return (err != 0) ? err : fab_srq_modify(srq, attr, mask);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    int err = fab_verbs_enter(FAB_CALL_QUERY_SRQ);

    return (err != 0) ? err : fab_srq_query(srq, attr);
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    int err = fab_verbs_enter(FAB_CALL_DESTROY_SRQ);

    return (err != 0) ? err : fab_verbs_gone(FAB_OBJ_SRQ, fab_srq_destroy(srq));
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    if (fab_verbs_enter_on(pd->context, FAB_CALL_CREATE_QP) != 0) {
        return NULL;
    }

    return fab_verbs_made(FAB_OBJ_QP, fab_qp_create(pd, attr));
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
    int err = fab_verbs_enter_on(qp->context, FAB_CALL_MODIFY_QP);

    return (err != 0) ? err : fab_qp_modify(qp, attr, attr_mask);
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                 struct ibv_qp_init_attr *init_attr)
{
    int err = fab_verbs_enter_on(qp->context, FAB_CALL_QUERY_QP);

    return (err != 0) ? err : fab_qp_query(qp, attr, attr_mask, init_attr);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    int err = fab_verbs_enter(FAB_CALL_DESTROY_QP);

    return (err != 0) ? err : fab_verbs_gone(FAB_OBJ_QP, fab_qp_destroy(qp));
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    (void)qp;
    return NULL; /* none is created with operations for sends */
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
                               uint32_t flags)
{
    (void)qp;
    (void)op;
    (void)flags;
    return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    (void)ece;
    return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    (void)ece;
    return EOPNOTSUPP;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp;
    (void)gid;
    (void)lid;
    return EOPNOTSUPP;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp;
    (void)gid;
    (void)lid;
    return EOPNOTSUPP;
}
