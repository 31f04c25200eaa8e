/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control queue pair of a rail: unreliable datagrams, with its own CQ and
 * completion channel. May call libibverbs.
 */
#include "verbs/ud.h"
#include "verbs/grh.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static size_t vqp_ib_ud_align(size_t value, size_t alignment)
{
    return (value + alignment - 1) / alignment * alignment;
}

static uint8_t *vqp_ib_ud_slot(const vqp_ib_ud_t *ud, uint32_t slot)
{
    return ud->mem + (size_t)slot * ud->slot_size;
}

static uint64_t vqp_ib_ud_wr_id(const vqp_ib_ud_t *ud, uint32_t slot)
{
    return ((uint64_t)ud->qp_tag << 32) | slot;
}

static vqp_status_t vqp_ib_ud_post_recv(vqp_ib_ud_t *ud, uint32_t slot)
{
    struct ibv_sge sge = {
        .addr   = (uintptr_t)vqp_ib_ud_slot(ud, slot),
        .length = ud->slot_size,
        .lkey   = ud->mr->lkey
    };
    struct ibv_recv_wr wr = {
        .wr_id   = vqp_ib_ud_wr_id(ud, slot),
        .sg_list = &sge,
        .num_sge = 1
    };
    struct ibv_recv_wr *bad_wr;
    int ret;

    ret = ibv_post_recv(ud->qp, &wr, &bad_wr);
    if (ret != 0) {
        vqp_ib_log(ud->level, "%s:%u: ibv_post_recv(control QP 0x%x) failed: %s",
                   ud->dev->name, ud->port_num, ud->qpn, strerror(ret));
        return VQP_ERR_IO;
    }

    return VQP_OK;
}

static vqp_status_t vqp_ib_ud_modify(vqp_ib_ud_t *ud, struct ibv_qp_attr *attr,
                                     int mask, const char *state)
{
    int ret = ibv_modify_qp(ud->qp, attr, mask | IBV_QP_STATE);

    if (ret != 0) {
        ret = (ret < 0) ? errno : ret;
        vqp_ib_log(ud->level, "%s:%u: failed to move control QP 0x%x to %s: %s",
                   ud->dev->name, ud->port_num, ud->qpn, state, strerror(ret));
        return VQP_ERR_IO;
    }

    return VQP_OK;
}

/* RESET -> RTS, with all receives posted */
static vqp_status_t vqp_ib_ud_start(vqp_ib_ud_t *ud)
{
    struct ibv_qp_attr attr = {
        .qp_state   = IBV_QPS_INIT,
        .pkey_index = ud->pkey_index,
        .port_num   = ud->port_num,
        .qkey       = VQP_IB_UD_QKEY
    };
    vqp_status_t status;
    uint32_t slot;

    status = vqp_ib_ud_modify(ud, &attr,
                              IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
                              "INIT");
    if (status != VQP_OK) {
        return status;
    }

    for (slot = 0; slot < ud->num_recvs; ++slot) {
        status = vqp_ib_ud_post_recv(ud, slot);
        if (status != VQP_OK) {
            return status;
        }
    }

    attr.qp_state = IBV_QPS_RTR;
    status        = vqp_ib_ud_modify(ud, &attr, 0, "RTR");
    if (status != VQP_OK) {
        return status;
    }

    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn   = 0;
    return vqp_ib_ud_modify(ud, &attr, IBV_QP_SQ_PSN, "RTS");
}

/* Bring a broken QP back, with the same number, which peers use */
static vqp_status_t vqp_ib_ud_rebuild(vqp_ib_ud_t *ud)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    vqp_status_t status;
    struct ibv_wc wc;

    status = vqp_ib_ud_modify(ud, &attr, 0, "RESET");
    if (status != VQP_OK) {
        return status;
    }

    /* CQEs from before the reset would take slots of the CQ from later ones */
    while (ibv_poll_cq(ud->cq.cq, 1, &wc) > 0) {
    }

    ++ud->qp_tag;
    ud->held      = ud->num_recvs;
    ud->send_tail = ud->send_head;

    status = vqp_ib_ud_start(ud);
    if (status != VQP_OK) {
        return status;
    }

    ud->broken = 0;
    ++ud->stats.rebuilds;
    vqp_ib_diag("%s:%u: control QP 0x%x was in error and is rebuilt",
                ud->dev->name, ud->port_num, ud->qpn);
    return VQP_OK;
}

static vqp_status_t vqp_ib_ud_alloc_slots(vqp_ib_ud_t *ud)
{
    size_t num_slots = (size_t)ud->num_recvs + ud->num_sends;

    /* Own pages: fork handling is per page */
    ud->mem_size = vqp_ib_ud_align(num_slots * ud->slot_size, 4096);
    ud->mem      = mmap(NULL, ud->mem_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ud->mem == MAP_FAILED) {
        vqp_ib_error("%s: failed to allocate %zu bytes for control datagrams: "
                     "%s", ud->dev->name, ud->mem_size, strerror(errno));
        return VQP_ERR_NO_MEMORY;
    }

    ud->mr = ibv_reg_mr(ud->dev->pd, ud->mem, ud->mem_size,
                        IBV_ACCESS_LOCAL_WRITE);
    if (ud->mr == NULL) {
        vqp_ib_error("%s: failed to register %zu bytes for control datagrams: "
                     "%s%s", ud->dev->name, ud->mem_size, strerror(errno),
                     (errno == ENOMEM) ? " (see ulimit -l)" : "");
        munmap(ud->mem, ud->mem_size);
        return vqp_ib_errno_status(errno);
    }

    return VQP_OK;
}

static void vqp_ib_ud_free_slots(vqp_ib_ud_t *ud)
{
    int ret = ibv_dereg_mr(ud->mr);

    if (ret != 0) {
        vqp_ib_error("%s: ibv_dereg_mr(control datagrams) failed: %s",
                     ud->dev->name, strerror(ret));
    }

    munmap(ud->mem, ud->mem_size);
}

static vqp_status_t vqp_ib_ud_create_qp(vqp_ib_ud_t *ud)
{
    struct ibv_qp_init_attr attr = {
        .send_cq    = ud->cq.cq,
        .recv_cq    = ud->cq.cq,
        .qp_type    = IBV_QPT_UD,
        .sq_sig_all = 1,
        .cap        = {
            .max_send_wr  = ud->num_sends,
            .max_recv_wr  = ud->num_recvs,
            .max_send_sge = 1,
            .max_recv_sge = 1
        }
    };

    ud->qp = ibv_create_qp(ud->dev->pd, &attr);
    if (ud->qp == NULL) {
        vqp_ib_error("%s: ibv_create_qp(control, %u sends, %u receives) "
                     "failed: %s", ud->dev->name, ud->num_sends, ud->num_recvs,
                     strerror(errno));
        return vqp_ib_errno_status(errno);
    }

    ud->qpn = ud->qp->qp_num;
    return VQP_OK;
}

static void vqp_ib_ud_destroy_qp(vqp_ib_ud_t *ud)
{
    int ret = ibv_destroy_qp(ud->qp);

    if (ret != 0) {
        vqp_ib_error("%s: ibv_destroy_qp(control, 0x%x) failed: %s",
                     ud->dev->name, ud->qpn, strerror(ret));
    }
}

static void vqp_ib_ud_set_params(vqp_ib_ud_t *ud,
                                 const vqp_ib_ud_params_t *params)
{
    memset(ud, 0, sizeof(*ud));
    ud->dev        = params->dev;
    ud->port_num   = params->port->num;
    ud->is_eth     = (params->port->link == VQP_IB_LINK_ETH);
    ud->is_ipv4    = ud->is_eth && params->gid->is_ipv4 &&
                     (params->gid->type == VQP_IB_GID_ROCE_V2);
    ud->max_msg    = params->port->mtu;
    ud->sgid_index = params->gid->index;
    ud->pkey_index = params->pkey_index;
    ud->tclass     = params->tclass;
    ud->hop_limit  = params->hop_limit;
    ud->sl         = params->sl;
    ud->num_recvs  = vqp_max(params->num_recvs, 1u);
    ud->num_sends  = vqp_max(params->num_sends, 1u);
    ud->held       = ud->num_recvs;
    ud->slot_size  = VQP_IB_UD_SLOT_SIZE(ud->max_msg);
}

vqp_status_t vqp_ib_ud_init(vqp_ib_ud_t *ud, const vqp_ib_ud_params_t *params)
{
    vqp_status_t status;

    vqp_ib_ud_set_params(ud, params);

    status = vqp_ib_ah_cache_init(&ud->ahs, ud->dev, params->resolver,
                                  params->num_ahs);
    if (status != VQP_OK) {
        return status;
    }

    status = vqp_ib_ud_alloc_slots(ud);
    if (status != VQP_OK) {
        goto err_ahs;
    }

    status = vqp_ib_chan_open(&ud->chan, ud->dev);
    if (status != VQP_OK) {
        goto err_slots;
    }

    status = vqp_ib_cq_create(&ud->cq, ud->dev, ud->num_recvs + ud->num_sends,
                              &ud->chan, VQP_IB_LOG_ERROR);
    if (status != VQP_OK) {
        goto err_chan;
    }

    status = vqp_ib_ud_create_qp(ud);
    if (status != VQP_OK) {
        goto err_cq;
    }

    status = vqp_ib_ud_start(ud);
    if (status != VQP_OK) {
        goto err_qp;
    }

    ud->level = VQP_IB_LOG_FAULT;
    return VQP_OK;

err_qp:
    vqp_ib_ud_destroy_qp(ud);
err_cq:
    vqp_ib_cq_destroy(&ud->cq);
err_chan:
    vqp_ib_chan_close(&ud->chan);
err_slots:
    vqp_ib_ud_free_slots(ud);
err_ahs:
    vqp_ib_ah_cache_cleanup(&ud->ahs);
    return status;
}

void vqp_ib_ud_cleanup(vqp_ib_ud_t *ud)
{
    vqp_ib_ud_destroy_qp(ud);
    vqp_ib_ah_cache_cleanup(&ud->ahs);
    vqp_ib_cq_destroy(&ud->cq);
    vqp_ib_chan_close(&ud->chan);
    vqp_ib_ud_free_slots(ud);
}

static vqp_status_t vqp_ib_ud_get_ah(vqp_ib_ud_t *ud,
                                     const vqp_ib_ud_addr_t *to,
                                     struct ibv_ah **ah_p)
{
    vqp_ib_av_t av;

    /* Compared as bytes: no garbage between the fields */
    memset(&av, 0, sizeof(av));
    av.port = ud->port_num;
    av.sl   = ud->sl;
    av.dlid = ud->is_eth ? 0 : to->lid;
    if (ud->is_eth || to->is_global) {
        av.is_global  = 1;
        av.sgid_index = ud->sgid_index;
        av.tclass     = ud->tclass;
        av.hop_limit  = ud->hop_limit;
        memcpy(av.dgid, to->gid, sizeof(av.dgid));
    }

    return vqp_ib_ah_cache_get(&ud->ahs, &av, ud->send_head, ud->send_tail,
                               ah_p);
}

static vqp_status_t vqp_ib_ud_post_send(vqp_ib_ud_t *ud, uint32_t slot,
                                        uint32_t length, struct ibv_ah *ah,
                                        uint32_t qpn)
{
    struct ibv_sge sge = {
        .addr   = (uintptr_t)vqp_ib_ud_slot(ud, slot),
        .length = length,
        .lkey   = ud->mr->lkey
    };
    struct ibv_send_wr wr = {
        .wr_id      = vqp_ib_ud_wr_id(ud, slot),
        .sg_list    = &sge,
        .num_sge    = 1,
        .opcode     = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud      = {
            .ah          = ah,
            .remote_qpn  = qpn,
            .remote_qkey = VQP_IB_UD_QKEY
        }
    };
    struct ibv_send_wr *bad_wr;
    int ret;

    ret = ibv_post_send(ud->qp, &wr, &bad_wr);
    if (ret != 0) {
        vqp_ib_log(ud->level, "%s:%u: ibv_post_send(control QP 0x%x, %u bytes) failed: "
                   "%s", ud->dev->name, ud->port_num, ud->qpn, length, strerror(ret));
        return VQP_ERR_IO;
    }

    return VQP_OK;
}

vqp_status_t vqp_ib_ud_send(vqp_ib_ud_t *ud, const vqp_ib_ud_addr_t *to,
                            const void *data, uint32_t length)
{
    vqp_status_t status;
    struct ibv_ah *ah;
    uint32_t slot;

    if (length > ud->max_msg) {
        vqp_ib_error("%s:%u: a control datagram of %u bytes exceeds the MTU of "
                     "%u", ud->dev->name, ud->port_num, length, ud->max_msg);
        return VQP_ERR_INVALID_PARAM;
    }

    if (ud->broken || (ud->send_head - ud->send_tail >= ud->num_sends)) {
        return VQP_ERR_NO_RESOURCE;
    }

    status = vqp_ib_ud_get_ah(ud, to, &ah);
    if (status != VQP_OK) {
        return status;
    }

    slot = ud->num_recvs + (uint32_t)(ud->send_head % ud->num_sends);
    memcpy(vqp_ib_ud_slot(ud, slot), data, length);
    status = vqp_ib_ud_post_send(ud, slot, length, ah, to->qpn);
    if (status != VQP_OK) {
        return status;
    }

    ++ud->send_head;
    ++ud->stats.sent;
    return VQP_OK;
}

static void vqp_ib_ud_source(const vqp_ib_ud_t *ud, const struct ibv_wc *wc,
                             const uint8_t *grh, vqp_ib_ud_addr_t *from)
{
    memset(from, 0, sizeof(*from));
    from->qpn       = wc->src_qp;
    from->lid       = ud->is_eth ? 0 : wc->slid;
    from->is_global = ud->is_eth || !!(wc->wc_flags & IBV_WC_GRH);
    if (from->is_global) {
        vqp_ib_grh_source(grh, ud->is_ipv4, from->gid);
    }
}

static void vqp_ib_ud_send_done(vqp_ib_ud_t *ud, const struct ibv_wc *wc)
{
    ++ud->send_tail;
    if (vqp_unlikely(wc->status != IBV_WC_SUCCESS)) {
        vqp_ib_diag("%s:%u: a control datagram from QP 0x%x failed: %s "
                    "(vendor error 0x%x)", ud->dev->name, ud->port_num, ud->qpn,
                    ibv_wc_status_str(wc->status), wc->vendor_err);
        ++ud->stats.send_errors;
        ud->broken = 1;
    }
}

/* @return Whether it holds a datagram */
static int vqp_ib_ud_recv_done(vqp_ib_ud_t *ud, const struct ibv_wc *wc,
                               uint32_t slot, vqp_ib_ud_msg_t *msg)
{
    const uint8_t *grh = vqp_ib_ud_slot(ud, slot);

    if (vqp_unlikely(wc->status != IBV_WC_SUCCESS)) {
        vqp_ib_diag("%s:%u: a receive on control QP 0x%x failed: %s (vendor "
                    "error 0x%x)", ud->dev->name, ud->port_num, ud->qpn,
                    ibv_wc_status_str(wc->status), wc->vendor_err);
        ++ud->stats.recv_errors;
        ud->broken = 1;
        return 0;
    }

    if (wc->byte_len < VQP_IB_GRH_LEN) {
        ++ud->stats.recv_errors;
        ud->broken |= (vqp_ib_ud_post_recv(ud, slot) != VQP_OK);
        return 0;
    }

    ++ud->stats.received;
    ud->held    = slot;
    msg->data   = grh + VQP_IB_GRH_LEN;
    msg->length = wc->byte_len - VQP_IB_GRH_LEN;
    vqp_ib_ud_source(ud, wc, grh, &msg->from);
    return 1;
}

vqp_status_t vqp_ib_ud_poll(vqp_ib_ud_t *ud, vqp_ib_ud_msg_t *msg)
{
    vqp_status_t status;
    struct ibv_wc wc;
    uint32_t slot;
    int ret;

    if (!ud->broken && (ud->held < ud->num_recvs)) {
        ud->broken = (vqp_ib_ud_post_recv(ud, ud->held) != VQP_OK);
        ud->held   = ud->num_recvs;
    }

    for (;;) {
        if (vqp_unlikely(ud->broken)) {
            status = vqp_ib_ud_rebuild(ud);
            if (status != VQP_OK) {
                return status;
            }
        }

        ret = ibv_poll_cq(ud->cq.cq, 1, &wc);
        if (ret <= 0) {
            break;
        }

        if ((uint32_t)(wc.wr_id >> 32) != ud->qp_tag) {
            continue;
        }

        /* In an error completion only wr_id identifies the queue */
        slot = (uint32_t)wc.wr_id;
        if (slot >= ud->num_recvs) {
            vqp_ib_ud_send_done(ud, &wc);
        } else if (vqp_ib_ud_recv_done(ud, &wc, slot, msg)) {
            return VQP_OK;
        }
    }

    if (ret < 0) {
        vqp_ib_log(ud->level, "%s: ibv_poll_cq(control) failed: %d", ud->dev->name, ret);
        return VQP_ERR_IO;
    }

    return VQP_INPROGRESS;
}

void vqp_ib_ud_arm(vqp_ib_ud_t *ud)
{
    if (!vqp_ib_chan_is_broken(&ud->chan)) {
        vqp_ib_chan_drain(&ud->chan);
    }

    /* events of a broken channel are not read any more: there shall be none */
    ud->no_event = vqp_ib_chan_is_broken(&ud->chan) ||
                   (vqp_ib_cq_arm(&ud->cq, ud->no_event ? VQP_IB_LOG_DIAG : ud->level) !=
                    VQP_OK);
}
