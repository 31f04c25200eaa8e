/* The interface: opening, attributes, addresses, closing. See vqp_iface.h. */
#include "uct/vqp_iface.h"
#include "uct/vqp_cm.h"
#include "uct/vqp_ep.h"
#include "uct/vqp_log.h"
#include "uct/vqp_stats.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/string.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/type/class.h>

/* Time that a close spends on what is still under way, and on the peers'
 * answers to BYE */
#define UCT_VQP_LINGER (500ull * 1000 * 1000) /* ns */

/* Traffic class that UCX's own transports use on RoCEv2 */
#define UCT_VQP_ROCE_V2_TCLASS 106

#define UCT_VQP_PUT_MAX_ZCOPY  (1ul << 40)
#define UCT_VQP_AM_MAX_HDR     256
#define UCT_VQP_AM_MIN_SHORT   128

/* Fixed cost of posting one operation, measured with test/perf */
#define UCT_VQP_OVERHEAD       75e-9

/* ---- rails ---- */

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

static void uct_vqp_rail_fill_addr(uct_vqp_rail_t *rail)
{
    unsigned i;

    rail->addr.mtu = rail->mtu;
    rail->addr.lid = rail->port.lid;
    memcpy(rail->addr.gid, rail->gid.raw, sizeof(rail->addr.gid));
    rail->addr.subnet_prefix = 0;
    for (i = 0; i < 8; ++i) {
        rail->addr.subnet_prefix = (rail->addr.subnet_prefix << 8) |
                                   rail->gid.raw[i];
    }
}

static ucs_status_t
uct_vqp_rail_init(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail,
                  vqp_ib_dev_t *dev, uint8_t port_num,
                  const uct_vqp_iface_config_t *config)
{
    vqp_ib_cq_pool_params_t cq_params = {
        .initial = iface->set.num_paths *
                   (iface->set.send_depth + iface->set.recv_depth)
    };
    int gid_index = (config->gid_index == UCS_ULUNITS_AUTO) ?
                            VQP_IB_GID_AUTO : (int)config->gid_index;
    uint16_t pkey = (config->pkey == UCS_ULUNITS_AUTO) ?
                            VQP_IB_PKEY_ANY : (uint16_t)config->pkey;
    unsigned max_reads;
    vqp_status_t status;

    rail->dev = dev;
    status    = vqp_ib_port_query(dev, port_num, &rail->port);
    if (status != VQP_OK) {
        return uct_vqp_status(status);
    }

    if (!rail->port.active) {
        ucs_error("port %s:%u is not active", dev->name, port_num);
        return UCS_ERR_NO_DEVICE;
    }

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
    uct_vqp_rail_fill_addr(rail);
    return uct_vqp_status(vqp_ib_cq_pool_init(&rail->cqs, dev, &cq_params));
}

/* What a queue pair of this rail will be granted: ask a trial one */
static ucs_status_t
uct_vqp_probe_qp(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail,
                 const uct_vqp_iface_config_t *config)
{
    vqp_ib_qp_params_t params = {
        .send_depth   = iface->set.send_depth,
        .recv_depth   = iface->set.recv_depth,
        .max_inline   = (uint32_t)config->tx_min_inline,
        .max_send_sge = ucs_min(config->tx_min_sge, rail->dev->caps.max_sge)
    };
    vqp_status_t status;
    vqp_ib_qp_t qp;

    status = vqp_ib_qp_create(&qp, rail->dev, rail->cqs.cqs[0].cq, &params);
    if (status != VQP_OK) {
        return uct_vqp_status(status);
    }

    iface->inline_max = ucs_min(qp.granted.max_inline,
                                ucs_max(config->tx_min_inline, 1));
    iface->max_iov    = ucs_min(qp.granted.max_send_sge,
                                params.max_send_sge) - 1;
    vqp_ib_qp_destroy(&qp);
    return UCS_OK;
}

static void uct_vqp_iface_init_limits(uct_vqp_iface_t *iface)
{
    size_t record = vqp_record_max_payload(iface->set.ring_size);

    iface->am_max_short   = ucs_max(iface->inline_max, UCT_VQP_AM_MIN_SHORT) -
                            sizeof(vqp_record_t);
    iface->am_max_bcopy   = ucs_min(iface->set.seg_size, record);
    iface->am_max_zcopy   = record;
    iface->am_max_one_frag = ucs_min((size_t)1 << iface->set.min_shift, record) -
                             sizeof(vqp_record_t);
    iface->set.am_max_hdr = ucs_min(UCT_VQP_AM_MAX_HDR, (uint32_t)record);
}

/* ---- attributes ---- */

static void uct_vqp_local_dev_addr(const uct_vqp_iface_t *iface,
                                   vqp_dev_addr_t *addr)
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

static ucs_status_t
uct_vqp_iface_get_device_address(uct_iface_h tl_iface, uct_device_addr_t *buf)
{
    vqp_dev_addr_t addr;

    uct_vqp_local_dev_addr(ucs_derived_of(tl_iface, uct_vqp_iface_t), &addr);
    vqp_dev_addr_pack(&addr, buf);
    return UCS_OK;
}

static ucs_status_t
uct_vqp_iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t *buf)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);
    vqp_iface_addr_t addr  = {
        .id        = iface->id,
        .num_rails = (uint8_t)iface->num_rails
    };
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        addr.ud_qpn[i] = iface->rails[i].ud.qpn;
    }

    vqp_iface_addr_pack(&addr, buf);
    return UCS_OK;
}

static int uct_vqp_iface_is_reachable(const uct_iface_h tl_iface,
                                      const uct_device_addr_t *dev_buf,
                                      const uct_iface_addr_t *iface_buf)
{
    vqp_dev_addr_t local, remote;
    char why[128];

    if ((dev_buf == NULL) ||
        (vqp_dev_addr_unpack(dev_buf, SIZE_MAX, &remote) != VQP_OK)) {
        return 0;
    }

    uct_vqp_local_dev_addr(ucs_derived_of(tl_iface, uct_vqp_iface_t), &local);
    if (!vqp_dev_addr_reachable(&local, &remote, why, sizeof(why))) {
        ucs_debug("vqp: a device is not reachable: %s", why);
        return 0;
    }

    return 1;
}

static int UCS_V_UNUSED
uct_vqp_iface_is_reachable_v2(const uct_iface_h tl_iface,
                              const uct_iface_is_reachable_params_t *params)
{
    return uct_vqp_iface_is_reachable(tl_iface, params->device_addr,
                                      params->iface_addr) &&
           uct_vqp_iface_scope_is_reachable(tl_iface, params);
}

static void
uct_vqp_query_caps(const uct_vqp_iface_t *iface, uct_iface_attr_t *attr)
{
    const vqp_ib_caps_t *caps = &iface->rails[0].dev->caps;
    uint64_t ops              = UCS_BIT(UCT_ATOMIC_OP_ADD);

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

    if (caps->atomic_hca) {
        attr->cap.flags              |= caps->atomic_glob ?
                                        UCT_IFACE_FLAG_ATOMIC_CPU :
                                        UCT_IFACE_FLAG_ATOMIC_DEVICE;
        attr->cap.atomic64.op_flags  |= ops;
        attr->cap.atomic64.fop_flags |= ops | UCS_BIT(UCT_ATOMIC_OP_CSWAP);
    }
}

static void
uct_vqp_query_limits(const uct_vqp_iface_t *iface, uct_iface_attr_t *attr)
{
    size_t mtu = vqp_wire_mtu_bytes(iface->rails[0].mtu);

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

static ucs_status_t
uct_vqp_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    uct_vqp_iface_t *iface     = ucs_derived_of(tl_iface, uct_vqp_iface_t);
    const uct_vqp_rail_t *rail = &iface->rails[0];
    vqp_dev_addr_t addr;
    unsigned i;

    uct_base_iface_query(&iface->super, attr);
    uct_vqp_local_dev_addr(iface, &addr);
    uct_vqp_query_caps(iface, attr);
    uct_vqp_query_limits(iface, attr);

    attr->device_addr_len     = vqp_dev_addr_len(&addr);
    attr->iface_addr_len      = vqp_iface_addr_len(iface->num_rails);
    attr->ep_addr_len         = 0;
    attr->max_conn_priv       = 0;
    attr->dev_num_paths       = 1; /* the paths are ours, not UCP's lanes */
    attr->overhead            = UCT_VQP_OVERHEAD;
    attr->latency             = ucs_linear_func_make(rail->port.latency, 0);
    attr->bandwidth.shared    = 0;
    attr->bandwidth.dedicated = 0;
    for (i = 0; i < iface->num_rails; ++i) {
        attr->bandwidth.dedicated += vqp_ib_port_payload_bandwidth(
                iface->rails[i].dev, &iface->rails[i].port,
                vqp_wire_mtu_bytes(iface->rails[i].mtu));
    }

    attr->priority = 0;
    uct_vqp_iface_attr_rest(attr);
    return UCS_OK;
}

/* ---- opening and closing ---- */

static uct_iface_ops_t uct_vqp_iface_ops;
static uct_iface_internal_ops_t uct_vqp_iface_internal_ops;

static void
uct_vqp_desc_init(uct_iface_h tl_iface, void *obj, uct_mem_h memh)
{
    uct_vqp_desc_t *desc = obj;

    desc->lkeys = uct_vqp_memh_lkeys(memh);
}

static ucs_mpool_ops_t uct_vqp_flush_mpool_ops = {
    .chunk_alloc   = ucs_mpool_chunk_malloc,
    .chunk_release = ucs_mpool_chunk_free
};

static ucs_status_t
uct_vqp_iface_init_pools(uct_vqp_iface_t *iface,
                         const uct_vqp_iface_config_t *config)
{
    ucs_status_t status;

    status = uct_iface_mpool_init(&iface->super, &iface->tx_mp,
                                  sizeof(uct_vqp_desc_t) + iface->set.seg_size,
                                  sizeof(uct_vqp_desc_t),
                                  UCS_SYS_CACHE_LINE_SIZE, &config->tx_mp, 64,
                                  uct_vqp_desc_init, "vqp_tx");
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_mpool_init(&iface->flush_mp, sizeof(uct_vqp_flush_t),
                                UCS_SYS_CACHE_LINE_SIZE, 32, UINT_MAX,
                                &uct_vqp_flush_mpool_ops, "vqp_flush");
    if (status != UCS_OK) {
        ucs_mpool_cleanup(&iface->tx_mp, 0);
    }

    return status;
}

/* "mlx5_0:1" names a port of the memory domain's device */
static ucs_status_t uct_vqp_parse_device(uct_vqp_md_t *md, const char *name,
                                         uint8_t *port_p)
{
    size_t length = strlen(md->devs[0].name);
    unsigned long port;
    char *end;

    if ((strncmp(name, md->devs[0].name, length) == 0) &&
        (name[length] == ':')) {
        port = strtoul(name + length + 1, &end, 10);
        if ((*end == '\0') && (port >= 1) && (port <= md->devs[0].num_ports)) {
            *port_p = (uint8_t)port;
            return UCS_OK;
        }
    }

    ucs_error("device %s is not a port of %s", name, md->devs[0].name);
    return UCS_ERR_NO_DEVICE;
}

static ucs_status_t
uct_vqp_iface_init_rails(uct_vqp_iface_t *iface, uct_vqp_md_t *md,
                         uint8_t port, const uct_vqp_iface_config_t *config)
{
    ucs_status_t status;

    for (; iface->num_rails < md->num_rails; ++iface->num_rails) {
        status = uct_vqp_rail_init(iface, &iface->rails[iface->num_rails],
                                   &md->devs[iface->num_rails], port, config);
        if (status != UCS_OK) {
            goto err_cleanup;
        }
    }

    status = uct_vqp_probe_qp(iface, &iface->rails[0], config);
    if (status != UCS_OK) {
        goto err_cleanup;
    }

    uct_vqp_iface_init_limits(iface);
    return UCS_OK;

err_cleanup:
    while (iface->num_rails > 0) {
        vqp_ib_cq_pool_cleanup(&iface->rails[--iface->num_rails].cqs);
    }
    return status;
}

static void uct_vqp_iface_cleanup_rails(uct_vqp_iface_t *iface)
{
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        vqp_ib_cq_pool_cleanup(&iface->rails[i].cqs);
    }
}

static ucs_status_t
uct_vqp_iface_init_state(uct_vqp_iface_t *self, uct_vqp_md_t *md,
                         const uct_vqp_iface_config_t *config)
{
    self->vqps = ucs_calloc(VQP_IB_WRID_VQP_MAX / UCT_VQP_CHUNK,
                            sizeof(*self->vqps), "uct_vqp_table");
    if (self->vqps == NULL) {
        ucs_error("failed to allocate the table of connections");
        return UCS_ERR_NO_MEMORY;
    }

    if (config->stats_file[0] != '\0') {
        self->stats_file = ucs_strdup(config->stats_file, "vqp_stats_file");
    }

    ucs_string_buffer_init(&self->vqp_stats);
    ucs_arbiter_init(&self->arbiter);
    ucs_list_head_init(&self->vqp_list);
    uct_vqp_slabs_init(&self->slabs, md, uct_vqp_chunk_size(&self->set));
    return UCS_OK;
}

static void uct_vqp_iface_cleanup_state(uct_vqp_iface_t *self)
{
    unsigned i;

    uct_vqp_slabs_cleanup(&self->slabs);
    ucs_arbiter_cleanup(&self->arbiter);
    ucs_string_buffer_cleanup(&self->vqp_stats);
    ucs_free(self->stats_file);
    for (i = 0; i < VQP_IB_WRID_VQP_MAX / UCT_VQP_CHUNK; ++i) {
        ucs_free(self->vqps[i]);
    }
    ucs_free(self->vqps);
}

/* Alignment is promised for messages in descriptors only, and messages here
 * stay in the ring: a wish is checked, and without effect */
static ucs_status_t
uct_vqp_iface_check_alignment(const uct_iface_params_t *params)
{
    if (!(params->field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT)) {
        UCT_CHECK_PARAM(!(params->field_mask &
                          UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET),
                        "an alignment offset without an alignment");
        return UCS_OK;
    }

    /* the offset may exceed it: UCP passes the length of its header */
    UCT_CHECK_PARAM((params->am_alignment != 0) &&
                    ucs_is_pow2(params->am_alignment),
                    "the alignment of active messages is no power of two");

    return UCS_OK;
}

static UCS_CLASS_INIT_FUNC(uct_vqp_iface_t, uct_md_h tl_md, uct_worker_h worker,
                           const uct_iface_params_t *params,
                           const uct_iface_config_t *tl_config)
{
    uct_vqp_md_t *md               = ucs_derived_of(tl_md, uct_vqp_md_t);
    uct_vqp_iface_config_t *config = ucs_derived_of(tl_config,
                                                    uct_vqp_iface_config_t);
    ucs_status_t status;
    uint8_t port;

    UCT_CHECK_PARAM(params->field_mask & UCT_IFACE_PARAM_FIELD_OPEN_MODE,
                    "UCT_IFACE_PARAM_FIELD_OPEN_MODE is not defined");
    if (!(params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE)) {
        ucs_error("vqp supports only UCT_IFACE_OPEN_MODE_DEVICE");
        return UCS_ERR_UNSUPPORTED;
    }

    status = uct_vqp_iface_check_alignment(params);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_parse_device(md, params->mode.device.dev_name, &port);
    if (status != UCS_OK) {
        return status;
    }

    UCS_CLASS_CALL_SUPER_INIT(uct_base_iface_t, &uct_vqp_iface_ops,
                              &uct_vqp_iface_internal_ops, tl_md, worker,
                              params, tl_config UCS_STATS_ARG(
                                      (params->field_mask &
                                       UCT_IFACE_PARAM_FIELD_STATS_ROOT) ?
                                              params->stats_root : NULL)
                              UCS_STATS_ARG("vqp"));

    memset((char*)self + sizeof(self->super), 0,
           sizeof(*self) - sizeof(self->super));
    status = uct_vqp_settings_init(&self->set, config);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_iface_init_state(self, md, config);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_iface_init_rails(self, md, port, config);
    if (status != UCS_OK) {
        goto err_state;
    }

    status = uct_vqp_iface_init_pools(self, config);
    if (status != UCS_OK) {
        goto err_rails;
    }

    status = uct_vqp_iface_event_init(self);
    if (status != UCS_OK) {
        goto err_pools;
    }

    status = uct_vqp_cm_init(self);
    if (status != UCS_OK) {
        goto err_events;
    }

    pthread_mutex_lock(&md->lock);
    ucs_list_add_tail(&md->ifaces, &self->md_list);
    pthread_mutex_unlock(&md->lock);
    return UCS_OK;

err_events:
    uct_vqp_iface_event_cleanup(self);
err_pools:
    ucs_mpool_cleanup(&self->flush_mp, 0);
    ucs_mpool_cleanup(&self->tx_mp, 0);
err_rails:
    uct_vqp_iface_cleanup_rails(self);
err_state:
    uct_vqp_iface_cleanup_state(self);
    return status;
}

/* Is a connection still to be ended in an orderly way? */
static int uct_vqp_iface_is_closing(uct_vqp_iface_t *iface)
{
    int found = 0;
    uct_vqp_t *vqp;

    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        found |= vqp->closing || (vqp->conn.state == VQP_CONN_CLOSING);
    }

    return found;
}

/* Let BYEs be answered, so that peers do not take the end for a failure */
static void uct_vqp_iface_linger(uct_vqp_iface_t *iface)
{
    ucs_async_context_t *async = iface->super.worker->async;
    uint64_t until             = uct_vqp_now() + UCT_VQP_LINGER;
    int closing;

    do {
        uct_vqp_iface_progress(&iface->super.super);
        UCS_ASYNC_BLOCK(async);
        uct_vqp_cm_tick(iface);
        closing = uct_vqp_iface_is_closing(iface);
        UCS_ASYNC_UNBLOCK(async);
    } while (closing && (uct_vqp_now() < until));
}

static void uct_vqp_iface_end_vqps(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp, *next;
    vqp_ib_ud_msg_t msg;
    unsigned i;

    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if ((vqp->conn.state != VQP_CONN_CLOSED) && !vqp->dying) {
            vqp_conn_abort(&vqp->conn, uct_vqp_now());
        }
    }

    uct_vqp_cm_run(iface);
    for (i = 0; i < iface->num_rails; ++i) {
        (void)vqp_ib_ud_poll(&iface->rails[i].ud, &msg);
    }

    ucs_list_for_each_safe(vqp, next, &iface->vqp_list, list) {
        uct_vqp_cancel_all(vqp);
        uct_vqp_destroy(vqp);
    }
}

static UCS_CLASS_CLEANUP_FUNC(uct_vqp_iface_t)
{
    uct_vqp_md_t *md = uct_vqp_iface_md(self);

    uct_base_iface_progress_disable(&self->super.super,
                                    UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    pthread_mutex_lock(&md->lock);
    ucs_list_del(&self->md_list);
    pthread_mutex_unlock(&md->lock);

    uct_vqp_iface_linger(self);
    uct_vqp_cm_stop(self);
    uct_vqp_iface_end_vqps(self);
    uct_vqp_stats_report(self);
    uct_vqp_cm_cleanup(self);
    uct_vqp_iface_event_cleanup(self);
    ucs_mpool_cleanup(&self->flush_mp, 1);
    ucs_mpool_cleanup(&self->tx_mp, 0);
    uct_vqp_iface_cleanup_rails(self);
    uct_vqp_iface_cleanup_state(self);
}

UCS_CLASS_DEFINE(uct_vqp_iface_t, uct_base_iface_t);
static UCS_CLASS_DEFINE_NEW_FUNC(uct_vqp_iface_t, uct_iface_t, uct_md_h,
                                 uct_worker_h, const uct_iface_params_t*,
                                 const uct_iface_config_t*);
static UCS_CLASS_DEFINE_DELETE_FUNC(uct_vqp_iface_t, uct_iface_t);

static uct_iface_ops_t uct_vqp_iface_ops = {
    .ep_put_short             = uct_vqp_ep_put_short,
    .ep_put_bcopy             = uct_vqp_ep_put_bcopy,
    .ep_put_zcopy             = uct_vqp_ep_put_zcopy,
    .ep_get_bcopy             = uct_vqp_ep_get_bcopy,
    .ep_get_zcopy             = uct_vqp_ep_get_zcopy,
    .ep_am_short              = uct_vqp_ep_am_short,
    .ep_am_short_iov          = uct_vqp_ep_am_short_iov,
    .ep_am_bcopy              = uct_vqp_ep_am_bcopy,
    .ep_am_zcopy              = uct_vqp_ep_am_zcopy,
    .ep_atomic_cswap64        = uct_vqp_ep_atomic_cswap64,
    .ep_atomic64_post         = uct_vqp_ep_atomic64_post,
    .ep_atomic64_fetch        = uct_vqp_ep_atomic64_fetch,
    .ep_pending_add           = uct_vqp_ep_pending_add,
    .ep_pending_purge         = uct_vqp_ep_pending_purge,
    .ep_flush                 = uct_vqp_ep_flush,
    .ep_fence                 = uct_vqp_ep_fence,
    .ep_check                 = uct_vqp_ep_check,
    .ep_create                = UCS_CLASS_NEW_FUNC_NAME(uct_vqp_ep_t),
    .ep_destroy               = UCS_CLASS_DELETE_FUNC_NAME(uct_vqp_ep_t),
    .iface_flush              = uct_vqp_iface_flush,
    .iface_fence              = uct_vqp_iface_fence,
    .iface_progress_enable    = uct_base_iface_progress_enable,
    .iface_progress_disable   = uct_base_iface_progress_disable,
    .iface_progress           = uct_vqp_iface_progress,
    .iface_event_fd_get       = uct_vqp_iface_event_fd_get,
    .iface_event_arm          = uct_vqp_iface_event_arm,
    .iface_close              = UCS_CLASS_DELETE_FUNC_NAME(uct_vqp_iface_t),
    .iface_query              = uct_vqp_iface_query,
    .iface_get_device_address = uct_vqp_iface_get_device_address,
    .iface_get_address        = uct_vqp_iface_get_address,
    .iface_is_reachable       = uct_vqp_iface_is_reachable
};

static uct_iface_internal_ops_t uct_vqp_iface_internal_ops = {
    .iface_estimate_perf = uct_base_iface_estimate_perf,
    .iface_vfs_refresh   = uct_vqp_stats_vfs_refresh,
    .ep_query            = uct_vqp_ep_query,
    .ep_invalidate       = uct_vqp_ep_invalidate,
    UCT_VQP_INTERNAL_OPS_REST(uct_vqp_iface_is_reachable_v2,
                              uct_vqp_ep_is_connected)
};

/* ---- devices ---- */

static ucs_sys_device_t uct_vqp_sys_device(const vqp_ib_dev_t *dev)
{
    ucs_sys_bus_id_t bus_id = {
        .domain   = dev->pci.domain,
        .bus      = dev->pci.bus,
        .slot     = dev->pci.slot,
        .function = dev->pci.function
    };
    ucs_sys_device_t sys_dev;

    if (!dev->has_pci ||
        (ucs_topo_find_device_by_bus_id(&bus_id, &sys_dev) != UCS_OK)) {
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }

    return sys_dev;
}

static ucs_status_t
uct_vqp_query_tl_devices(uct_md_h tl_md, uct_tl_device_resource_t **devices_p,
                         unsigned *num_devices_p)
{
    uct_vqp_md_t *md  = ucs_derived_of(tl_md, uct_vqp_md_t);
    vqp_ib_dev_t *dev = &md->devs[0];
    uct_tl_device_resource_t *devices;
    unsigned count = 0;
    unsigned port;

    devices = ucs_calloc(dev->num_ports, sizeof(*devices), "vqp devices");
    if (devices == NULL) {
        ucs_error("failed to allocate the list of devices");
        return UCS_ERR_NO_MEMORY;
    }

    for (port = 1; port <= dev->num_ports; ++port) {
        if (!vqp_ib_port_is_active(dev, (uint8_t)port)) {
            ucs_debug("%s:%u is not active", dev->name, port);
            continue;
        }

        ucs_snprintf_zero(devices[count].name, sizeof(devices[count].name),
                          "%s:%u", dev->name, port);
        devices[count].type       = UCT_DEVICE_TYPE_NET;
        devices[count].sys_device = uct_vqp_sys_device(dev);
        ++count;
    }

    *devices_p     = devices;
    *num_devices_p = count;
    return UCS_OK;
}

UCT_TL_DEFINE_ENTRY(&uct_vqp_component, vqp, uct_vqp_query_tl_devices,
                    uct_vqp_iface_t, "VQP_", uct_vqp_iface_config_table,
                    uct_vqp_iface_config_t);
