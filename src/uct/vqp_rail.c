/* SPDX-License-Identifier: BSD-3-Clause */
/* A rail: one port of a device, and what its queue pairs can do. */
#include "uct/vqp_iface.h"

#include "uct/vqp_lag.h"

#include "core/failover/failover.h"
#include "verbs/probe.h"

#include <ucs/debug/log.h>
#include <ucs/sys/string.h>

/* Traffic class that UCX's own transports use on RoCEv2 */
#define UCT_VQP_ROCE_V2_TCLASS 106
#define UCT_VQP_PORT_CHECK     10000000ul /* ns between two queries of a port, at least */

static void uct_vqp_rail_fill_addr(uct_vqp_rail_t *rail)
{
    unsigned i;

    rail->addr.lid = rail->port.lid;
    memcpy(rail->addr.gid, rail->gid.raw, sizeof(rail->addr.gid));
    rail->addr.subnet_prefix = 0;
    for (i = 0; i < 8; ++i) {
        rail->addr.subnet_prefix = (rail->addr.subnet_prefix << 8) |
                                   rail->gid.raw[i];
    }
}

ucs_status_t
uct_vqp_rail_init(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail,
                  vqp_ib_dev_t *dev, uint8_t port_num,
                  const uct_vqp_iface_config_t *config)
{
    vqp_ib_cq_pool_params_t cq_params = {
        .initial = iface->set.min_paths *
                   (iface->set.first_depth + iface->set.recv_depth)
    };
    int gid_index = uct_vqp_config_gid_index(config);
    uint16_t pkey = ((uint16_t)config->pkey == UCS_HEXUNITS_AUTO) ?
                            VQP_IB_PKEY_ANY : (uint16_t)config->pkey;
    unsigned max_reads;
    vqp_status_t status;

    if (vqp_ib_dev_is_broken(dev)) {
        ucs_error("%s has failed for good since it was opened", dev->name);
        return UCS_ERR_NO_DEVICE;
    }

    rail->dev = dev;
    status    = vqp_ib_port_query(dev, port_num, &rail->port);
    if (status != VQP_OK) {
        return uct_vqp_status(status);
    }

    if (!rail->port.active) {
        ucs_error("port %s:%u is not active", dev->name, port_num);
        return UCS_ERR_NO_DEVICE;
    }
    rail->is_active = 1;

    /* A connection request has to fit one datagram */
    if (vqp_wire_info_len(VQP_MAX_RAILS, iface->set.num_paths) >
        rail->port.mtu) {
        ucs_error("UCX_VQP_NUM_PATHS=%u: too many for the MTU of %s:%u, %u "
                  "bytes", iface->set.num_paths, dev->name, port_num,
                  rail->port.mtu);
        return UCS_ERR_INVALID_PARAM;
    }

    status = vqp_ib_gid_select(dev, &rail->port, gid_index, &rail->gid);
    if (status != VQP_OK) {
        return uct_vqp_status(status);
    }

    status = vqp_ib_port_find_pkey(dev, &rail->port, pkey, &rail->pkey_index,
                                   &rail->pkey);
    if (status != VQP_OK) {
        return uct_vqp_status(status);
    }

    rail->mtu = (uint8_t)vqp_ib_mtu_enum(rail->port.mtu);
    if (config->path_mtu != 0) {
        rail->mtu = ucs_min(rail->mtu, (uint8_t)config->path_mtu);
    }

    rail->tclass = (config->traffic_class != UCS_ULUNITS_AUTO) ?
                           (uint8_t)config->traffic_class :
                   (rail->gid.type == VQP_IB_GID_ROCE_V2) ?
                           UCT_VQP_ROCE_V2_TCLASS : 0;
    max_reads         = ucs_min(config->read_depth, UINT8_MAX);
    rail->max_reads   = (uint8_t)ucs_min(max_reads, dev->caps.max_init_rd_atom);
    rail->serve_reads = (uint8_t)ucs_min(max_reads, dev->caps.max_qp_rd_atom);
    if ((rail->max_reads == 0) || (rail->serve_reads == 0)) {
        ucs_error("%s does no RDMA READs", dev->name);
        return UCS_ERR_UNSUPPORTED;
    }

    uct_vqp_rail_fill_addr(rail);
    return uct_vqp_status(vqp_ib_cq_pool_init(&rail->cqs, dev, &cq_params));
}

/* How a port reaches itself */
static void uct_vqp_rail_own_conn(const uct_vqp_iface_t *iface,
                                  const uct_vqp_rail_t *rail, vqp_ib_qp_conn_t *conn)
{
    *conn = (vqp_ib_qp_conn_t){
        .av = {
            .dlid       = rail->port.lid,
            .port       = rail->port.num,
            .sgid_index = rail->gid.index,
            .is_global  = (rail->port.link == VQP_IB_LINK_ETH) ||
                          rail->port.grh_required,
            .sl         = iface->set.sl,
            .tclass     = rail->tclass,
            .hop_limit  = iface->set.hop_limit
        },
        .mtu                = (enum ibv_mtu)rail->mtu,
        .timeout            = iface->set.timeout,
        .retry_cnt          = iface->set.retry_count,
        .rnr_retry          = iface->set.rnr_retry,
        .min_rnr_timer      = iface->set.rnr_timer,
        .max_rd_atomic      = 1,
        .max_dest_rd_atomic = 1
    };

    memcpy(conn->av.dgid, rail->gid.raw, sizeof(conn->av.dgid));
}

/* Find out whether the device counts what it executes: it writes to itself */
static void uct_vqp_probe_source(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail,
                                 const vqp_ib_qp_conn_t *conn)
{
    rail->source = (uint8_t)vqp_ib_probe_source(rail->dev, rail->pkey_index,
                                                conn, rail->port.max_msg);
    if (rail->source == VQP_SOURCE_IMM) {
        ucs_diag("%s does not count what it executes: after a failure of a path %s",
                 rail->dev->name, iface->set.exact ?
                 "an endpoint fails if puts or atomics were in flight on it" :
                 "puts may be written twice, and atomics end in an error");
    }
}

int uct_vqp_rail_is_active(uct_vqp_rail_t *rail)
{
    uint64_t now = uct_vqp_now();

    if ((rail->checked == 0) || (now - rail->checked >= UCT_VQP_PORT_CHECK)) {
        rail->is_active = (uint8_t)vqp_ib_port_is_active(
                rail->dev, rail->port.num,
                rail->is_active ? VQP_IB_LOG_FAULT : VQP_IB_LOG_DIAG);
        rail->checked   = now;
    }

    return rail->is_active;
}

int uct_vqp_iface_counts(const uct_vqp_iface_t *iface)
{
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        if (iface->rails[i].source == VQP_SOURCE_IMM) {
            return 0;
        }
    }

    return iface->set.failover;
}

const char *uct_vqp_rail_source(const uct_vqp_iface_t *iface, unsigned rail)
{
    return iface->set.failover ? vqp_source_name(iface->rails[rail].source) : "-";
}

/* Find the limits of a queue pair of this rail by a trial one */
ucs_status_t
uct_vqp_probe_qp(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail,
                 const uct_vqp_iface_config_t *config)
{
    /* less would not take an atomic's operand or a credit cell */
    uint32_t inline_min       = (uint32_t)ucs_max(config->tx_min_inline, 16);
    vqp_ib_qp_params_t params = {
        .send_depth   = iface->set.send_depth,
        .recv_depth   = iface->set.recv_depth,
        .max_inline   = inline_min,
        .max_send_sge = ucs_min(config->tx_min_sge, rail->dev->caps.max_sge)
    };
    vqp_ib_qp_conn_t conn;
    vqp_status_t status;
    vqp_ib_qp_t qp;

    status = vqp_ib_qp_create(&qp, rail->dev, rail->cqs.cqs[0].cq, &params);
    if (status != VQP_OK) {
        return uct_vqp_status(status);
    }

    iface->inline_max = ucs_min(iface->inline_max,
                                ucs_min(qp.granted.max_inline, inline_min));
    iface->max_iov    = ucs_min(iface->max_iov,
                                ucs_min(qp.granted.max_send_sge,
                                        params.max_send_sge) - 1);
    vqp_ib_qp_destroy(&qp);
    uct_vqp_rail_own_conn(iface, rail, &conn);
    if (iface->set.failover) {
        uct_vqp_probe_source(iface, rail, &conn);
    }
    uct_vqp_lag_init(iface, rail, &conn);
    return UCS_OK;
}

void uct_vqp_iface_add_cqs(uct_vqp_iface_t *iface)
{
    unsigned num_cqs = iface->num_cqs;
    uct_vqp_rail_t *rail;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        rail = &iface->rails[i];
        while (rail->polled_cqs < vqp_ib_cq_pool_count(&rail->cqs)) {
            iface->cqs[num_cqs++] = &rail->cqs.cqs[rail->polled_cqs++];
        }
    }

    /* The polling thread reads up to it: store the pointers first */
    __atomic_store_n(&iface->num_cqs, num_cqs, __ATOMIC_RELEASE);
}

void uct_vqp_iface_stop_rail(uct_vqp_iface_t *iface, unsigned index)
{
    uct_vqp_rail_t *rail = &iface->rails[index];
    unsigned num_cqs     = 0;
    unsigned i;

    if (rail->is_given_up) {
        return;
    }

    for (i = 0; i < iface->num_cqs; ++i) {
        if (!vqp_ib_cq_pool_has(&rail->cqs, iface->cqs[i]->cq)) {
            iface->cqs[num_cqs++] = iface->cqs[i];
        }
    }

    rail->is_given_up = 1;
    iface->next_cq    = 0;
    __atomic_store_n(&iface->num_cqs, num_cqs, __ATOMIC_RELEASE);
    uct_vqp_iface_event_stop_rail(iface, index);
}
