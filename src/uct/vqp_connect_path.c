/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting the queue pair of a path to that of the peer; see vqp.h. */
#include "uct/vqp.h"
#include "uct/vqp_flow.h"
#include "uct/vqp_gid.h"
#include "uct/vqp_lag.h"

#include "core/conn/entropy.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>

static uint32_t uct_vqp_log_flow_label(const uct_vqp_t *vqp, unsigned index)
{
    uint32_t label = uct_vqp_flow_label(vqp, index);

    ucs_debug("vqp %u: path %u has flow label 0x%x, UDP source port %u on "
              "RoCEv2%s", vqp->number, index, label, vqp_entropy_port(label),
              (label == 0) ? " or what the device chooses" : "");
    return label;
}

/* All but the flow label */
static void
uct_vqp_fill_av(const uct_vqp_t *vqp, unsigned index,
                const vqp_wire_rail_t *far_rail, vqp_ib_av_t *av)
{
    const uct_vqp_settings_t *set = &vqp->iface->set;
    uct_vqp_rail_t *rail          = &vqp->iface->rails[vqp->paths[index].rail];

    uct_vqp_gid_refresh(vqp->iface, rail);
    memset(av, 0, sizeof(*av));
    memcpy(av->dgid, far_rail->gid, sizeof(av->dgid));
    av->dlid       = far_rail->lid;
    av->port       = rail->port.num;
    av->sgid_index = rail->gid.index;
    av->is_global  = (rail->port.link == VQP_IB_LINK_ETH) ||
                     rail->port.grh_required;
    av->sl         = set->sl;
    av->tclass     = rail->tclass;
    av->hop_limit  = set->hop_limit;
}

static void uct_vqp_fill_conn(uct_vqp_t *vqp, unsigned index,
                              const vqp_wire_path_t *path,
                              const vqp_wire_rail_t *far_rail,
                              vqp_ib_qp_conn_t *conn)
{
    const uct_vqp_settings_t *set = &vqp->iface->set;
    const uct_vqp_rail_t *rail    = &vqp->iface->rails[vqp->paths[index].rail];

    memset(conn, 0, sizeof(*conn));
    uct_vqp_fill_av(vqp, index, far_rail, &conn->av);
    conn->av.flow_label = uct_vqp_log_flow_label(vqp, index);
    conn->dest_qpn      = path->qpn;
    conn->rq_psn        = path->psn;
    conn->sq_psn        = vqp->local->paths[index].psn;
    conn->mtu           = (enum ibv_mtu)ucs_min(rail->mtu, far_rail->mtu);
    conn->timeout       = set->timeout;
    conn->retry_cnt     = set->retry_count;
    conn->rnr_retry     = set->rnr_retry;
    conn->min_rnr_timer = set->rnr_timer;
    /* mlx5 rounds it up: the peer would refuse the READs beyond what it serves */
    conn->max_rd_atomic = (uint8_t)UCS_BIT(ucs_ilog2(ucs_min(rail->max_reads,
                                                             vqp->peer_reads)));
    conn->max_dest_rd_atomic = rail->serve_reads;
}

vqp_status_t uct_vqp_resolve_path(uct_vqp_t *vqp, unsigned index,
                                  const vqp_wire_rail_t *far_rail)
{
    vqp_ib_av_t av;

    if (uct_vqp_rail_is_broken(&vqp->iface->rails[vqp->paths[index].rail])) {
        return VQP_ERR_UNREACHABLE;
    }

    uct_vqp_fill_av(vqp, index, far_rail, &av);
    return vqp_ib_resolve(&vqp->iface->rails[vqp->paths[index].rail].resolver,
                          &av);
}

/* Does it fail because the GID has moved, and the event is still to come? */
static vqp_status_t
uct_vqp_to_rtr(uct_vqp_t *vqp, unsigned index, vqp_ib_qp_conn_t *conn)
{
    uct_vqp_rail_t *rail = &vqp->iface->rails[vqp->paths[index].rail];
    vqp_ib_qp_t *qp      = &vqp->ib_paths[index].rc;
    vqp_status_t status  = vqp_ib_qp_to_rtr(qp, conn);

    if ((status != VQP_OK) && uct_vqp_gid_look(vqp->iface, rail)) {
        conn->av.sgid_index = rail->gid.index;
        status              = vqp_ib_qp_to_rtr(qp, conn);
    }
    return status;
}

vqp_status_t uct_vqp_connect_path(uct_vqp_t *vqp, unsigned index, const vqp_wire_path_t *peer,
                                  vqp_ib_log_level_t level)
{
    const uct_vqp_settings_t *set = &vqp->iface->set;
    vqp_ib_path_t *ib             = &vqp->ib_paths[index];
    vqp_ib_qp_conn_t conn;
    vqp_status_t status;
    uint32_t posted;

    ib->rehashed = 0;
    ib->rc.level = level;
    uct_vqp_fill_conn(vqp, index, peer, &vqp->peer_info[peer->rail], &conn);
    ib->rq_psn                  = conn.rq_psn;
    vqp->paths[index].fo.peer_qpn = peer->qpn; /* without failover: for telemetry */
    vqp->paths[index].mtu_shift = uct_vqp_has_failover(vqp) ?
                                          (uint8_t)(7 + conn.mtu) : 0;
    status = vqp_ib_qp_post_recvs(&ib->rc, ib->wrid | VQP_IB_WRID_RECV,
                                  set->recv_depth, &posted);
    vqp->paths[index].recv_posted = (uint16_t)posted;
    if (status != VQP_OK) {
        return status;
    }

    status = uct_vqp_to_rtr(vqp, index, &conn);
    if (status != VQP_OK) {
        return status;
    }

    status = vqp_ib_qp_to_rts(&ib->rc, &conn);
    if (status == VQP_OK) {
        uct_vqp_lag_pin(vqp, index);
        ib->rc.level = uct_vqp_has_failover(vqp) ? VQP_IB_LOG_FAULT : VQP_IB_LOG_ERROR;
    }
    return status;
}
