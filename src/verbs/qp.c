/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC queue pair: creation, states, zero-length receives.
 * May call libibverbs.
 */
#include "verbs/qp.h"
#include "verbs/gid.h"

#include <errno.h>
#include <string.h>

/* Receives per ibv_post_recv: the chain is built on the stack */
#define VQP_IB_QP_RECV_BATCH 64u

#define VQP_IB_PSN_MASK 0xffffffu

static int vqp_ib_qp_try_create(const vqp_ib_dev_t *dev, struct ibv_cq *cq,
                                const vqp_ib_qp_params_t *params,
                                uint32_t max_inline, vqp_ib_qp_t *qp)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap     = {
            .max_send_wr     = params->send_depth,
            .max_recv_wr     = params->recv_depth,
            .max_send_sge    = params->max_send_sge,
            /* None is used, but not every device accepts 0 */
            .max_recv_sge    = 1,
            .max_inline_data = max_inline
        }
    };

    qp->qp = ibv_create_qp(dev->pd, &attr);
    if (qp->qp == NULL) {
        return (errno != 0) ? errno : EIO;
    }

    qp->qpn                  = qp->qp->qp_num;
    qp->granted.send_depth   = attr.cap.max_send_wr;
    qp->granted.recv_depth   = attr.cap.max_recv_wr;
    qp->granted.max_inline   = attr.cap.max_inline_data;
    qp->granted.max_send_sge = attr.cap.max_send_sge;
    return 0;
}

static vqp_status_t vqp_ib_qp_check(const vqp_ib_dev_t *dev,
                                    const vqp_ib_qp_params_t *params)
{
    const vqp_ib_caps_t *caps = &dev->caps;

    if ((params->send_depth <= caps->max_qp_wr) &&
        (params->recv_depth <= caps->max_qp_wr) &&
        (params->max_send_sge <= caps->max_sge)) {
        return VQP_OK;
    }

    vqp_ib_error("%s: a queue pair with %u sends, %u receives and %u pieces "
                 "per send was requested, the device's limits are %u, %u and "
                 "%u", dev->name, params->send_depth, params->recv_depth,
                 params->max_send_sge, caps->max_qp_wr, caps->max_qp_wr,
                 caps->max_sge);
    return VQP_ERR_EXCEEDS_LIMIT;
}

/* The next lower power of two, or 0: such are the limits of devices */
static uint32_t vqp_ib_qp_less_inline(uint32_t max_inline)
{
    uint32_t lower = 1;

    while (2 * lower < max_inline) {
        lower *= 2;
    }

    return (lower < max_inline) ? lower : 0;
}

vqp_status_t vqp_ib_qp_create(vqp_ib_qp_t *qp, const vqp_ib_dev_t *dev,
                              struct ibv_cq *cq,
                              const vqp_ib_qp_params_t *params)
{
    uint32_t max_inline = params->max_inline;
    vqp_status_t status;
    int err;

    memset(qp, 0, sizeof(*qp));
    qp->dev_name = dev->name;
    qp->state    = IBV_QPS_RESET;
    qp->level    = params->level;

    status = vqp_ib_qp_check(dev, params);
    if (status != VQP_OK) {
        return status;
    }

    /* No verb returns the largest inline size: it depends on the other sizes */
    err = vqp_ib_qp_try_create(dev, cq, params, max_inline, qp);
    while (((err == EINVAL) || (err == ENOMEM)) && (max_inline > params->min_inline)) {
        max_inline = vqp_max(vqp_ib_qp_less_inline(max_inline), params->min_inline);
        err        = vqp_ib_qp_try_create(dev, cq, params, max_inline, qp);
    }

    if (err != 0) {
        vqp_ib_log(params->level, "%s: ibv_create_qp(%u sends, %u receives, %u pieces "
                   "per send, %u inline bytes) failed: %s", dev->name,
                   params->send_depth, params->recv_depth,
                   params->max_send_sge, params->max_inline, strerror(err));
        return vqp_ib_errno_status(err);
    }

    return VQP_OK;
}

void vqp_ib_qp_destroy(vqp_ib_qp_t *qp)
{
    int ret = ibv_destroy_qp(qp->qp);

    if (ret != 0) {
        vqp_ib_error("%s: ibv_destroy_qp(0x%x) failed: %s", qp->dev_name,
                     qp->qpn, strerror(ret));
    }

    qp->qp = NULL;
}

static const char *vqp_ib_qp_state_name(enum ibv_qp_state state)
{
    switch (state) {
    case IBV_QPS_RESET:
        return "RESET";
    case IBV_QPS_INIT:
        return "INIT";
    case IBV_QPS_RTR:
        return "RTR";
    case IBV_QPS_RTS:
        return "RTS";
    case IBV_QPS_SQD:
        return "SQD";
    case IBV_QPS_SQE:
        return "SQE";
    case IBV_QPS_ERR:
        return "ERR";
    default:
        return "UNKNOWN";
    }
}

/* Modify, and keep the state. Returns an errno value, which is not logged. */
static int vqp_ib_qp_modify(vqp_ib_qp_t *qp, struct ibv_qp_attr *attr, int mask)
{
    int ret = ibv_modify_qp(qp->qp, attr, mask | IBV_QP_STATE);

    if (ret != 0) {
        return (ret < 0) ? errno : ret;
    }

    vqp_ib_trace("%s: QP 0x%x %s -> %s", qp->dev_name, qp->qpn,
                 vqp_ib_qp_state_name(qp->state),
                 vqp_ib_qp_state_name(attr->qp_state));
    qp->state = attr->qp_state;
    return 0;
}

static vqp_status_t vqp_ib_qp_modify_failed(const vqp_ib_qp_t *qp,
                                            enum ibv_qp_state state, int err)
{
    vqp_ib_log(qp->level, "%s: failed to move QP 0x%x from %s to %s: %s", qp->dev_name,
               qp->qpn, vqp_ib_qp_state_name(qp->state),
               vqp_ib_qp_state_name(state), strerror(err));
    return vqp_ib_errno_status(err);
}

vqp_status_t vqp_ib_qp_to_init(vqp_ib_qp_t *qp, uint8_t port,
                               uint16_t pkey_index)
{
    struct ibv_qp_attr attr = {
        .qp_state        = IBV_QPS_INIT,
        .port_num        = port,
        .pkey_index      = pkey_index,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC
    };
    int err;

    err = vqp_ib_qp_modify(qp, &attr, IBV_QP_PORT | IBV_QP_PKEY_INDEX |
                                      IBV_QP_ACCESS_FLAGS);
    if (err != 0) {
        vqp_ib_log(qp->level, "%s:%u: failed to move QP 0x%x to INIT with partition key "
                   "index %u: %s", qp->dev_name, port, qp->qpn, pkey_index,
                   strerror(err));
        return vqp_ib_errno_status(err);
    }

    return VQP_OK;
}

vqp_status_t vqp_ib_qp_to_rtr(vqp_ib_qp_t *qp, const vqp_ib_qp_conn_t *conn)
{
    struct ibv_qp_attr attr = {
        .qp_state           = IBV_QPS_RTR,
        .path_mtu           = conn->mtu,
        .dest_qp_num        = conn->dest_qpn,
        .rq_psn             = conn->rq_psn & VQP_IB_PSN_MASK,
        .max_dest_rd_atomic = conn->max_dest_rd_atomic,
        .min_rnr_timer      = conn->min_rnr_timer
    };
    char gid[VQP_IB_GID_STR_MAX];
    vqp_status_t status;
    int err;

    vqp_ib_av_fill(&conn->av, &attr.ah_attr);
    err = vqp_ib_qp_modify(qp, &attr, IBV_QP_AV | IBV_QP_PATH_MTU |
                                      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC |
                                      IBV_QP_MIN_RNR_TIMER);
    if (err != 0) {
        status = vqp_ib_errno_status(err);
        /* An unreachable peer concerns its endpoint only, which says so */
        vqp_ib_log((status == VQP_ERR_UNREACHABLE) ? VQP_IB_LOG_DIAG : qp->level,
                   "%s:%u: failed to connect QP 0x%x to QP 0x%x at %s, LID %u "
                   "(GID index %u, MTU %u, %u reads): %s", qp->dev_name,
                   conn->av.port, qp->qpn, conn->dest_qpn,
                   conn->av.is_global ?
                   vqp_ib_gid_str(conn->av.dgid, gid, sizeof(gid)) : "no GID",
                   conn->av.dlid, conn->av.sgid_index, 128u << conn->mtu,
                   conn->max_dest_rd_atomic, strerror(err));
        return status;
    }

    return VQP_OK;
}

vqp_status_t vqp_ib_qp_to_rts(vqp_ib_qp_t *qp, const vqp_ib_qp_conn_t *conn)
{
    struct ibv_qp_attr attr = {
        .qp_state      = IBV_QPS_RTS,
        .sq_psn        = conn->sq_psn & VQP_IB_PSN_MASK,
        .timeout       = conn->timeout,
        .retry_cnt     = conn->retry_cnt,
        .rnr_retry     = conn->rnr_retry,
        .max_rd_atomic = conn->max_rd_atomic
    };
    int err;

    err = vqp_ib_qp_modify(qp, &attr, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_MAX_QP_RD_ATOMIC);
    if (err != 0) {
        vqp_ib_log(qp->level, "%s: failed to move QP 0x%x to RTS (timeout %u, retries "
                   "%u, RNR retries %u, %u reads): %s", qp->dev_name, qp->qpn,
                   conn->timeout, conn->retry_cnt, conn->rnr_retry,
                   conn->max_rd_atomic, strerror(err));
        return vqp_ib_errno_status(err);
    }

    return VQP_OK;
}

vqp_status_t vqp_ib_qp_to_error(vqp_ib_qp_t *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int err                 = vqp_ib_qp_modify(qp, &attr, 0);

    return (err == 0) ? VQP_OK : vqp_ib_qp_modify_failed(qp, IBV_QPS_ERR, err);
}

vqp_status_t vqp_ib_qp_query(vqp_ib_qp_t *qp, vqp_ib_qp_info_t *info)
{
    struct ibv_qp_init_attr init_attr;
    struct ibv_qp_attr attr;
    int ret;

    ret = ibv_query_qp(qp->qp, &attr,
                       IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN,
                       &init_attr);
    if (ret != 0) {
        ret = (ret < 0) ? errno : ret;
        vqp_ib_log(qp->level, "%s: ibv_query_qp(0x%x) failed: %s", qp->dev_name,
                   qp->qpn, strerror(ret));
        return VQP_ERR_IO;
    }

    info->state  = attr.qp_state;
    info->rq_psn = attr.rq_psn & VQP_IB_PSN_MASK;
    info->sq_psn = attr.sq_psn & VQP_IB_PSN_MASK;
    return VQP_OK;
}

vqp_status_t vqp_ib_qp_post_recvs(vqp_ib_qp_t *qp, uint64_t wr_id,
                                  uint32_t count, uint32_t *posted)
{
    struct ibv_recv_wr wr[VQP_IB_QP_RECV_BATCH];
    uint32_t batch, i;
    struct ibv_recv_wr *bad_wr;
    int ret;

    *posted = 0;
    batch   = vqp_min(count, VQP_IB_QP_RECV_BATCH);
    for (i = 0; i < batch; ++i) {
        wr[i].wr_id   = wr_id;
        wr[i].next    = &wr[i + 1];
        wr[i].sg_list = NULL;
        wr[i].num_sge = 0;
    }

    for (; count > 0; count -= batch) {
        batch              = vqp_min(count, VQP_IB_QP_RECV_BATCH);
        wr[batch - 1].next = NULL;
        ret                = ibv_post_recv(qp->qp, wr, &bad_wr);
        if (vqp_unlikely(ret != 0)) {
            vqp_ib_log(qp->level, "%s: ibv_post_recv(QP 0x%x, %u of depth %u) failed: "
                       "%s", qp->dev_name, qp->qpn, count,
                       qp->granted.recv_depth, strerror(ret));
            *posted += (uint32_t)(bad_wr - wr);
            return VQP_ERR_IO;
        }

        *posted += batch;
    }

    return VQP_OK;
}
