/*
 * What a receive completion brings: the part of progress that takes immediates
 * and delivers active messages. Inline, for the loop over completions in
 * vqp_progress.c, which alone includes it.
 */
#ifndef UCT_VQP_RECV_H
#define UCT_VQP_RECV_H

#include "uct/vqp_cm.h"
#include "uct/vqp_log.h"

#include <ucs/debug/log.h>

#include <arpa/inet.h>

static void uct_vqp_bad_peer(uct_vqp_t *vqp, unsigned path, const char *what)
{
    ucs_error("vqp %u: protocol error on path %u from iface 0x%" PRIx64 ": %s",
              vqp->number, path, vqp->conn.peer_id, what);
    vqp->is_broken = 1;
    vqp->tell_imms = 1;
    uct_vqp_fail(vqp, VQP_ERR_PROTOCOL);
}

/* Returns 0 if the peer can not have it */
static inline int
uct_vqp_credit(uct_vqp_t *vqp, unsigned path, const vqp_credit_t *credit)
{
    if (vqp_likely(vqp_tx_knows_credit(&vqp->tx, credit))) {
        return 1;
    }

    if (vqp_unlikely(vqp_tx_credit(&vqp->tx, credit->ring, credit->fsn) < 0)) {
        uct_vqp_bad_peer(vqp, path, "credit for what was never sent");
        return 0;
    }

    return 1;
}

/* The AM that the passed immediate closes. Returns 0 if it is none */
static UCS_F_ALWAYS_INLINE int
uct_vqp_deliver(uct_vqp_t *vqp, unsigned path, uint32_t flags)
{
    vqp_rx_am_t am;

    if (vqp_unlikely((vqp_rx_record(&vqp->rx, flags, &am) != VQP_OK) ||
                     (am.id >= UCT_AM_ID_MAX))) {
        uct_vqp_bad_peer(vqp, path, "malformed active message");
        return 0;
    }

    if (vqp_unlikely(!uct_vqp_credit(vqp, path, &am.credit))) {
        return 0;
    }

    uct_iface_trace_am(&vqp->iface->super, UCT_AM_TRACE_TYPE_RECV, am.id,
                       am.data, am.length, "RX: vqp %u AM", vqp->number);
    uct_iface_invoke_am(&vqp->iface->super, am.id, am.data, am.length, 0);
    vqp_rx_consumed(&vqp->rx, &am);
    ++vqp->iface->reported;
    return 1;
}

/* An immediate proves that the peer is connected, maybe before its REP says so */
static void uct_vqp_first_imm(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;

    UCS_ASYNC_BLOCK(iface->super.worker->async);
    vqp_conn_first_imm(&vqp->conn, uct_vqp_now());
    uct_vqp_cm_run(iface);
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);
}

/* Somebody wants to hear of immediates; or nobody: then it returns 0 */
static int __attribute__((noinline))
uct_vqp_tell_imm(uct_vqp_t *vqp, unsigned path, uint32_t imm)
{
    if (vqp->is_broken) {
        return 0;
    }

    if (!vqp->saw_imm) {
        vqp->saw_imm = 1;
        uct_vqp_first_imm(vqp);
    }

    vqp->tell_imms = vqp->iface->set.trace;
    if (vqp->tell_imms) {
        uct_vqp_trace_rx(vqp, path, imm);
    }

    return 1;
}

/* Post again what was consumed */
static void __attribute__((noinline))
uct_vqp_repost(uct_vqp_t *vqp, vqp_ib_path_t *ib)
{
    uint32_t count = ib->recv_missing;
    vqp_status_t status;
    uint32_t posted;

    if (vqp_unlikely(vqp->failed)) {
        return;
    }

    status           = vqp_ib_qp_post_recvs(&ib->rc,
                                            ib->wrid | VQP_IB_WRID_RECV, count,
                                            &posted);
    ib->recv_missing = 0;
    ib->recv_posted  = (uint16_t)(ib->recv_posted - count + posted);
    if (vqp_unlikely(status != VQP_OK)) {
        uct_vqp_fail(vqp, VQP_ERR_IO);
    }
}

static void __attribute__((noinline))
uct_vqp_recv_failed(uct_vqp_t *vqp, unsigned path, const struct ibv_wc *wc)
{
    if (vqp->failed) {
        return;
    }

    /* A flush: the device moved the QP to ERR, for a request of the peer that
     * it refused; only the peer is told what was wrong with it */
    ucs_diag("vqp %u: receive completion with error on path %u, %s qp 0x%x, "
             "vendor error 0x%x: %s", vqp->number, path,
             vqp->ib_paths[path].rc.dev_name, vqp->ib_paths[path].rc.qpn,
             wc->vendor_err, ibv_wc_status_str(wc->status));
    uct_vqp_fail(vqp, (wc->status == IBV_WC_WR_FLUSH_ERR) ?
                              VQP_ERR_RESET : vqp_ib_wc_status(wc->status));
}

/* Immediates that are not simply the next AM */
static void __attribute__((noinline))
uct_vqp_recv_imm(uct_vqp_t *vqp, unsigned path, uint32_t imm)
{
    int passed     = vqp_rx_imm(&vqp->rx, imm);
    uint32_t flags = imm;
    vqp_credit_t credit;

    if (vqp_unlikely(passed < 0)) {
        uct_vqp_bad_peer(vqp, path, "an immediate outside of the window");
        return;
    }

    if (imm & VQP_IMM_CONTROL) {
        /* credit is cumulative, it need not wait for its order */
        credit = vqp_rx_control(&vqp->rx, path);
        if (!uct_vqp_credit(vqp, path, &credit)) {
            return;
        }
    }

    if (!passed) {
        return;
    }

    do {
        if ((flags & VQP_IMM_LAST) && !uct_vqp_deliver(vqp, path, flags)) {
            return;
        }
    } while (vqp_window_next(&vqp->rx.window, &flags));
}

static UCS_F_ALWAYS_INLINE void
uct_vqp_recv(uct_vqp_t *vqp, unsigned path, vqp_ib_path_t *ib,
             const struct ibv_wc *wc)
{
    uint32_t imm;

    ++ib->recv_missing;
    if (vqp_unlikely(wc->status != IBV_WC_SUCCESS)) {
        uct_vqp_recv_failed(vqp, path, wc);
        return;
    }

    if (vqp_unlikely(wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)) {
        uct_vqp_bad_peer(vqp, path, "a message without an immediate");
        return;
    }

    ++vqp->paths[path].stats.rx_cqes;
    if (vqp_unlikely(ib->recv_missing >= vqp->iface->set.rx_batch)) {
        uct_vqp_repost(vqp, ib);
    }

    imm = ntohl(wc->imm_data);
    if (vqp_unlikely(vqp->tell_imms) && !uct_vqp_tell_imm(vqp, path, imm)) {
        return;
    }

    if (vqp_likely(vqp_rx_next_am(&vqp->rx, imm))) {
        (void)uct_vqp_deliver(vqp, path, imm);
    } else {
        uct_vqp_recv_imm(vqp, path, imm);
    }
}

#endif
