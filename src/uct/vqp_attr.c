/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits, attributes and addresses of the interface. */
#include "uct/vqp_iface.h"

#include <ucs/debug/log.h>

#define UCT_VQP_PUT_MAX_ZCOPY  (1ul << 40)
#define UCT_VQP_AM_MAX_HDR     256
#define UCT_VQP_AM_MIN_SHORT   128

/* Estimates of times, in seconds, for a current host. UCX's IB transports have the
 * same ones, but for the first: 75 ns for rc_verbs, which takes 1/1.23 of the
 * instructions for a short active message (docs/performance.md). UCP compares them. */
#define UCT_VQP_OVERHEAD       92e-9  /* of one operation, at either side */
#define UCT_VQP_TIME_COPY      5e-9   /* to begin a copy to a bounce buffer */
#define UCT_VQP_TIME_DOORBELL  40e-9
#define UCT_VQP_TIME_CQE       20e-9
#define UCT_VQP_TIME_FETCH     350e-9 /* the device reads what is not inline */
#define UCT_VQP_TIME_QP        1e-9   /* for each further queue pair of a device */

/* No frag exceeds the limit of any device */
static void uct_vqp_iface_init_frags(uct_vqp_iface_t *iface)
{
    uct_vqp_settings_t *set = &iface->set;
    uint32_t max_msg        = UCS_GBYTE;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        max_msg = ucs_min(max_msg, iface->rails[i].port.max_msg);
    }

    set->max_shift  = (uint8_t)ucs_ilog2(max_msg);
    set->frag_shift = ucs_min(set->frag_shift, set->max_shift);
    set->single_shift = ucs_min(set->single_shift, set->max_shift);
    set->min_shift  = ucs_min(set->min_shift, set->max_shift);
}

/* Payload of the longest AM: it fits the ring, and its frags fit the device */
static size_t uct_vqp_iface_max_record(const uct_vqp_iface_t *iface)
{
    const uct_vqp_settings_t *set = &iface->set;
    size_t frags = vqp_tx_am_frags_max(set->fsn_window, set->num_paths);

    return ucs_min(vqp_record_max_payload(set->ring_min),
                   (frags << set->max_shift) - sizeof(vqp_record_t));
}

void uct_vqp_iface_init_limits(uct_vqp_iface_t *iface)
{
    size_t inl = ucs_max(iface->inline_max, UCT_VQP_AM_MIN_SHORT);
    size_t record, frag;

    uct_vqp_iface_init_frags(iface);
    record = uct_vqp_iface_max_record(iface);
    frag   = (size_t)1 << iface->set.min_shift;

    iface->am_max_short    = ucs_min(inl - sizeof(vqp_record_t), record);
    iface->am_max_bcopy    = ucs_min(iface->set.seg_size, record);
    iface->am_max_zcopy    = record;
    iface->am_max_one_frag = ucs_min(frag - sizeof(vqp_record_t), record);
    iface->set.am_max_hdr  = ucs_min(UCT_VQP_AM_MAX_HDR, (uint32_t)record);
}

static uint8_t uct_vqp_addr_gid_type(const vqp_ib_gid_t *gid)
{
    switch (gid->type) {
    case VQP_IB_GID_ROCE_V2:
        return gid->is_ipv4 ? VQP_GID_ROCE_V2_IP4 : VQP_GID_ROCE_V2_IP6;
    case VQP_IB_GID_ROCE_V1:
        return VQP_GID_ROCE_V1;
    default:
        return VQP_GID_IB;
    }
}

void uct_vqp_local_dev_addr(const uct_vqp_iface_t *iface, vqp_dev_addr_t *addr)
{
    const uct_vqp_rail_t *rail = &iface->rails[0];
    unsigned i;

    memset(addr, 0, sizeof(*addr));
    addr->link      = (rail->port.link == VQP_IB_LINK_ETH) ? VQP_LINK_ETH :
                                                             VQP_LINK_IB;
    addr->gid_type  = uct_vqp_addr_gid_type(&rail->gid);
    addr->has_gid   = 1;
    addr->num_rails = (uint8_t)iface->num_rails;
    addr->pkey      = rail->pkey;
    for (i = 0; i < iface->num_rails; ++i) {
        addr->rails[i] = iface->rails[i].addr;
    }
}

ucs_status_t
uct_vqp_iface_get_device_address(uct_iface_h tl_iface, uct_device_addr_t *buf)
{
    vqp_dev_addr_t addr;

    uct_vqp_local_dev_addr(ucs_derived_of(tl_iface, uct_vqp_iface_t), &addr);
    vqp_dev_addr_pack(&addr, buf);
    return UCS_OK;
}

ucs_status_t
uct_vqp_iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t *buf)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);
    vqp_iface_addr_t addr  = {.id = iface->id};
    unsigned i;

    uct_vqp_local_dev_addr(iface, &addr.dev);
    for (i = 0; i < iface->num_rails; ++i) {
        addr.ud_qpn[i] = iface->rails[i].ud.qpn;
    }

    vqp_iface_addr_pack(&addr, buf);
    return UCS_OK;
}

/* The device address among those given */
static vqp_status_t
uct_vqp_remote_dev_addr(const uct_iface_is_reachable_params_t *params,
                        vqp_dev_addr_t *addr)
{
    vqp_iface_addr_t iface_addr;
    vqp_status_t status;

    /* The interface address begins with an own device address; UCX may pass another
     * one beside it */
    if ((params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR) &&
        (params->iface_addr != NULL)) {
        status = vqp_iface_addr_unpack(params->iface_addr,
                                       uct_vqp_reachable_iface_len(params),
                                       &iface_addr);
        if (status == VQP_OK) {
            *addr = iface_addr.dev;
        }
        return status;
    }

    if ((params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR) &&
        (params->device_addr != NULL)) {
        return vqp_dev_addr_unpack(params->device_addr,
                                   uct_vqp_reachable_dev_len(params), addr);
    }

    return VQP_ERR_INVALID_PARAM;
}

/* Returns 0 when the peer is not reachable, with the reason in @a why */
static int
uct_vqp_iface_reaches(const uct_iface_h tl_iface,
                      const uct_iface_is_reachable_params_t *params, char *why,
                      size_t size)
{
    vqp_dev_addr_t local, remote;

    switch (uct_vqp_remote_dev_addr(params, &remote)) {
    case VQP_OK:
        break;
    case VQP_ERR_INVALID_PARAM:
        snprintf(why, size, "no address is given");
        return 0;
    default:
        snprintf(why, size, "the address of a vqp peer is malformed or of another "
                 "version");
        return 0;
    }

    uct_vqp_local_dev_addr(ucs_derived_of(tl_iface, uct_vqp_iface_t), &local);
    if (!vqp_dev_addr_reachable(&local, &remote, why, size)) {
        return 0;
    }

    if (!uct_vqp_iface_scope_is_reachable(tl_iface, params,
                                          vqp_dev_addr_len(&local))) {
        snprintf(why, size, "it is another device");
        return 0;
    }

    return 1;
}

int
uct_vqp_iface_is_reachable_v2(const uct_iface_h tl_iface,
                              const uct_iface_is_reachable_params_t *params)
{
    const uint64_t info = UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING |
                          UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING_LENGTH;
    char why[128];

    if (uct_vqp_iface_reaches(tl_iface, params, why, sizeof(why))) {
        return 1;
    }

    ucs_debug("vqp: a device is not reachable: %s", why);
    if (ucs_test_all_flags(params->field_mask, info)) {
        snprintf(params->info_string, params->info_string_length, "%s", why);
    }

    return 0;
}

int uct_vqp_iface_is_reachable(const uct_iface_h tl_iface,
                               const uct_device_addr_t *dev_buf,
                               const uct_iface_addr_t *iface_buf)
{
    const uct_iface_is_reachable_params_t params = {
        .field_mask  = UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR |
                       UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR,
        .device_addr = dev_buf,
        .iface_addr  = iface_buf
    };

    return uct_vqp_iface_is_reachable_v2(tl_iface, &params);
}

static void
uct_vqp_query_caps(const uct_vqp_iface_t *iface, uct_iface_attr_t *attr)
{
    uint64_t ops     = UCS_BIT(UCT_ATOMIC_OP_ADD);
    int atomic_hca   = 1;
    int atomic_glob  = 1;
    unsigned i;

    /* supported by every rail, and executed by one for all */
    for (i = 0; i < iface->num_rails; ++i) {
        atomic_hca  &= iface->rails[i].dev->caps.atomic_hca;
        atomic_glob &= iface->rails[i].dev->caps.atomic_glob;
    }

    attr->cap.flags = UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY |
                      UCT_IFACE_FLAG_AM_ZCOPY | UCT_IFACE_FLAG_PUT_SHORT |
                      UCT_IFACE_FLAG_PUT_BCOPY | UCT_IFACE_FLAG_PUT_ZCOPY |
                      UCT_IFACE_FLAG_GET_BCOPY | UCT_IFACE_FLAG_GET_ZCOPY |
                      UCT_IFACE_FLAG_PENDING | UCT_IFACE_FLAG_CB_SYNC |
                      UCT_IFACE_FLAG_CONNECT_TO_IFACE |
                      UCT_IFACE_FLAG_EP_CHECK |
                      UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE |
                      UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF |
                      UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM |
                      UCT_VQP_IFACE_FLAG_INTER_NODE;
    attr->cap.event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP |
                            UCT_IFACE_FLAG_EVENT_RECV |
                            UCT_IFACE_FLAG_EVENT_FD;

    if (atomic_hca) {
        attr->cap.flags              |= atomic_glob ?
                                        UCT_IFACE_FLAG_ATOMIC_CPU :
                                        UCT_IFACE_FLAG_ATOMIC_DEVICE;
        attr->cap.atomic64.op_flags  |= ops;
        attr->cap.atomic64.fop_flags |= ops | UCS_BIT(UCT_ATOMIC_OP_CSWAP);
    }
}

static void
uct_vqp_query_limits(const uct_vqp_iface_t *iface, uct_iface_attr_t *attr)
{
    /* a hint; UCP expects that it is not below the alignment */
    size_t mtu = ucs_max(vqp_wire_mtu_bytes(iface->rails[0].mtu), UCS_SYS_PCI_MAX_PAYLOAD);

    attr->cap.put.max_short       = ucs_min(iface->inline_max,
                                            VQP_OP_DATA_MAX);
    attr->cap.put.max_bcopy       = iface->set.seg_size;
    attr->cap.put.min_zcopy       = 0;
    attr->cap.put.max_zcopy       = UCT_VQP_PUT_MAX_ZCOPY;
    attr->cap.put.max_iov         = iface->max_iov;
    attr->cap.put.opt_zcopy_align = UCS_SYS_PCI_MAX_PAYLOAD;
    attr->cap.put.align_mtu       = mtu;

    attr->cap.get.max_bcopy       = iface->set.seg_size;
    attr->cap.get.min_zcopy       = 0;
    attr->cap.get.max_zcopy       = UCT_VQP_PUT_MAX_ZCOPY;
    attr->cap.get.max_iov         = iface->max_iov;
    attr->cap.get.opt_zcopy_align = UCS_SYS_PCI_MAX_PAYLOAD;
    attr->cap.get.align_mtu       = mtu;

    attr->cap.am.max_short        = iface->am_max_short;
    attr->cap.am.max_bcopy        = iface->am_max_bcopy;
    attr->cap.am.min_zcopy        = 0;
    attr->cap.am.max_zcopy        = iface->am_max_zcopy;
    attr->cap.am.max_hdr          = iface->set.am_max_hdr;
    attr->cap.am.max_iov          = iface->max_iov;
    attr->cap.am.opt_zcopy_align  = UCS_SYS_PCI_MAX_PAYLOAD;
    attr->cap.am.align_mtu        = mtu;
}

ucs_status_t
uct_vqp_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);
    double latency         = 0;
    vqp_dev_addr_t addr;
    unsigned i;

    uct_base_iface_query(&iface->super, attr);
    uct_vqp_local_dev_addr(iface, &addr);
    uct_vqp_query_caps(iface, attr);
    uct_vqp_query_limits(iface, attr);

    attr->device_addr_len     = vqp_dev_addr_len(&addr);
    attr->iface_addr_len      = vqp_iface_addr_len(&addr);
    attr->ep_addr_len         = 0;
    attr->max_conn_priv       = 0;
    attr->dev_num_paths       = 1; /* UCP's lanes are not the paths */
    attr->overhead            = UCT_VQP_OVERHEAD;
    attr->bandwidth.shared    = 0; /* by the processes of a node (UCX_NUM_PPN) */
    attr->bandwidth.dedicated = 0;
    /* a rail without a path adds nothing */
    for (i = 0; i < ucs_min(iface->num_rails, iface->set.num_paths); ++i) {
        latency = ucs_max(latency, iface->rails[i].port.latency);
        attr->bandwidth.shared += vqp_ib_port_payload_bandwidth(
                iface->rails[i].dev, &iface->rails[i].port,
                vqp_wire_mtu_bytes(iface->rails[i].mtu));
    }

    /* UCP multiplies by the number of endpoints. Most have no further path */
    attr->latency  = ucs_linear_func_make(latency,
                                          iface->set.min_paths * UCT_VQP_TIME_QP);
    attr->priority = 0;
    uct_vqp_iface_attr_rest(attr);
    return UCS_OK;
}

static int uct_vqp_op_is_bcopy(uct_ep_operation_t op)
{
    return (op == UCT_EP_OP_AM_BCOPY) || (op == UCT_EP_OP_PUT_BCOPY) ||
           (op == UCT_EP_OP_GET_BCOPY);
}

static int uct_vqp_op_is_zcopy(uct_ep_operation_t op)
{
    return (op == UCT_EP_OP_AM_ZCOPY) || (op == UCT_EP_OP_PUT_ZCOPY) ||
           (op == UCT_EP_OP_GET_ZCOPY);
}

ucs_status_t
uct_vqp_iface_estimate_perf(uct_iface_h tl_iface, uct_perf_attr_t *attr)
{
    uct_ep_operation_t op = (attr->field_mask & UCT_PERF_ATTR_FIELD_OPERATION) ?
                                    attr->operation : UCT_EP_OP_LAST;
    ucs_status_t status   = uct_base_iface_estimate_perf(tl_iface, attr);

    if (status != UCS_OK) {
        return status;
    }

    if ((attr->field_mask & UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD) &&
        uct_vqp_op_is_bcopy(op)) {
        attr->send_pre_overhead += UCT_VQP_TIME_COPY;
    }

    if (attr->field_mask & UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD) {
        attr->send_post_overhead = UCT_VQP_TIME_DOORBELL +
                                   (uct_vqp_op_is_zcopy(op) ? UCT_VQP_TIME_CQE : 0);
    }

    if ((attr->field_mask & UCT_PERF_ATTR_FIELD_LATENCY) &&
        (uct_vqp_op_is_bcopy(op) || uct_vqp_op_is_zcopy(op))) {
        attr->latency.c += UCT_VQP_TIME_FETCH;
    }

    return UCS_OK;
}
