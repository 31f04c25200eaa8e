/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory domain: registration and keys, see vqp_md.h. */
#include "uct/vqp_md.h"
#include "uct/vqp_options.h"

#include "verbs/gid.h"
#include "verbs/port.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/string.h>
#include <ucs/sys/topo/base/topo.h>

/* Packed remote key: version (low 4 bits) and rail of atomics, number of rails,
 * layout, then a key per rail */
#define UCT_VQP_RKEY_VERSION      1
#define UCT_VQP_RKEY_VERSION_MASK 0xf

typedef struct uct_vqp_packed_rkey {
    uint8_t  version;
    uint8_t  num_rails;
    uint16_t layout;
    uint32_t rkeys[];
} UCS_S_PACKED uct_vqp_packed_rkey_t;

/* Atomics of two devices are not atomic to each other: one device executes all.
 * Every connection has a path to rail 0. */
#define UCT_VQP_AMO_RAIL 0

ucs_status_t uct_vqp_status(vqp_status_t status)
{
    switch (status) {
    case VQP_OK:
        return UCS_OK;
    case VQP_INPROGRESS:
        return UCS_INPROGRESS;
    case VQP_ERR_NO_RESOURCE:
        return UCS_ERR_NO_RESOURCE;
    case VQP_ERR_NO_MEMORY:
        return UCS_ERR_NO_MEMORY;
    case VQP_ERR_INVALID_PARAM:
        return UCS_ERR_INVALID_PARAM;
    case VQP_ERR_UNSUPPORTED:
        return UCS_ERR_UNSUPPORTED;
    case VQP_ERR_NO_DEVICE:
        return UCS_ERR_NO_DEVICE;
    case VQP_ERR_UNREACHABLE:
        return UCS_ERR_UNREACHABLE;
    case VQP_ERR_TIMEOUT:
    case VQP_ERR_RESET:
        /* An unreachable peer has one status, however it was detected: UCP completes later
         * requests with it, too */
        return UCS_ERR_ENDPOINT_TIMEOUT;
    case VQP_ERR_UNDECIDED:
        return UCS_ERR_IO_ERROR; /* of one operation */
    case VQP_ERR_REMOTE:
    case VQP_ERR_RESPONDER:
    case VQP_ERR_PROTOCOL:
        return UCS_ERR_CONNECTION_RESET;
    case VQP_ERR_CANCELED:
        return UCS_ERR_CANCELED;
    case VQP_ERR_EXCEEDS_LIMIT:
        return UCS_ERR_EXCEEDS_LIMIT;
    case VQP_ERR_IO:
        break;
    }

    return UCS_ERR_IO_ERROR;
}

static size_t uct_vqp_rkey_packed_size(unsigned num_rails)
{
    return sizeof(uct_vqp_packed_rkey_t) + (num_rails * sizeof(uint32_t));
}

static ucs_status_t uct_vqp_md_query(uct_md_h tl_md, uct_vqp_md_attr_t *attr)
{
    uct_vqp_md_t *md = ucs_derived_of(tl_md, uct_vqp_md_t);
    uint64_t max_reg = ULONG_MAX;
    unsigned i;

    for (i = 0; i < md->num_rails; ++i) {
        max_reg = ucs_min(max_reg, md->devs[i].caps.max_mr_size);
    }

    UCT_VQP_MD_ATTR(attr, flags)            = UCT_MD_FLAG_REG |
                                              UCT_MD_FLAG_NEED_MEMH |
                                              UCT_MD_FLAG_NEED_RKEY |
                                              UCT_MD_FLAG_ADVISE |
                                              UCT_VQP_MD_FLAG_INVALIDATE |
                                              (md->memtypes.has_dmabuf ?
                                               UCT_VQP_MD_FLAG_REG_DMABUF : 0);
    /* nothing is allocated here: no limit for callers that size buffers by it */
    UCT_VQP_MD_ATTR(attr, max_alloc)        = ULONG_MAX;
    UCT_VQP_MD_ATTR(attr, max_reg)          = max_reg;
    UCT_VQP_MD_ATTR(attr, reg_mem_types)    = md->memtypes.reg;
    UCT_VQP_MD_ATTR(attr, access_mem_types) = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    UCT_VQP_MD_ATTR(attr, alloc_mem_types)  = 0;
    UCT_VQP_MD_ATTR(attr, detect_mem_types) = 0;
    attr->rkey_packed_size = uct_vqp_rkey_packed_size(md->num_rails);
    /* A lookup; or a fixed part and a part per byte, measured with Soft-RoCE */
    attr->reg_cost         = (md->rcache.cache != NULL) ?
                                     ucs_linear_func_make(md->rcache.cost, 0) :
                                     ucs_linear_func_make(15e-6 * md->num_rails,
                                                          6e-12 * md->num_rails);
    memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
    uct_vqp_md_attr_rest(attr);
    return UCS_OK;
}

static ucs_status_t
uct_vqp_mem_reg(uct_md_h tl_md, void *address, size_t length,
                uct_vqp_mem_reg_arg_t arg, uct_mem_h *memh_p)
{
    uct_vqp_md_t *md              = ucs_derived_of(tl_md, uct_vqp_md_t);
    unsigned flags                = uct_vqp_mem_reg_flags(arg);
    vqp_ib_mr_params_t params     = {
        .address   = address,
        .length    = length,
        .log_level = (flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) ?
                             VQP_IB_LOG_DIAG : VQP_IB_LOG_ERROR
    };
    vqp_ib_dmabuf_t dmabuf;
    vqp_status_t status;
    uct_vqp_mem_t *mem;

    dmabuf.fd = uct_vqp_mem_reg_dmabuf(arg, &dmabuf.offset);
    if (dmabuf.fd >= 0) {
        params.dmabuf = &dmabuf;
    } else {
        mem = uct_vqp_rcache_get(&md->rcache, address, length);
        if (mem != NULL) {
            *memh_p = mem;
            return UCS_OK;
        }
    }

    mem = ucs_malloc(sizeof(*mem), "uct_vqp_mem");
    if (mem == NULL) {
        ucs_error("failed to allocate a memory handle");
        return UCS_ERR_NO_MEMORY;
    }

    status = uct_vqp_mem_register(mem, &md->reg, &params);
    if (status != VQP_OK) {
        ucs_free(mem);
        /* UCX expects this status for memory that can not be registered */
        return (status == VQP_ERR_EXCEEDS_LIMIT) ? UCS_ERR_NO_MEMORY :
                                                   uct_vqp_status(status);
    }

    *memh_p = mem;
    return UCS_OK;
}

static ucs_status_t
uct_vqp_mem_dereg(uct_md_h tl_md, const uct_md_mem_dereg_params_t *params)
{
    uct_completion_t *invalidated = NULL;
    uct_vqp_mem_t *mem;
    vqp_status_t status;

    UCT_MD_MEM_DEREG_CHECK_PARAMS(params, 1);

    mem = params->memh;
    if (UCT_MD_MEM_DEREG_FIELD_VALUE(params, flags, FIELD_FLAGS, 0) &
        UCT_MD_MEM_DEREG_FLAG_INVALIDATE) {
        if (UCT_VQP_INVALIDATE_WANTS_PACKED && !mem->may_invalidate) {
            ucs_diag("vqp: a key was not packed for invalidation");
            return UCS_ERR_INVALID_PARAM;
        }
        invalidated = params->comp;
    }

    if (mem->is_cached) {
        uct_vqp_rcache_put(&ucs_derived_of(tl_md, uct_vqp_md_t)->rcache, mem,
                           invalidated);
        return UCS_OK;
    }

    status = vqp_ib_mr_dereg(&mem->mr);
    ucs_free(mem);

    /* The caller is told of a failure once, by the status */
    if ((invalidated != NULL) && (status == VQP_OK)) {
        uct_invoke_completion(invalidated, UCS_OK);
    }

    return uct_vqp_status(status);
}

static ucs_status_t
uct_vqp_mkey_pack(uct_md_h tl_md, uct_mem_h memh,
                  UCT_VQP_MKEY_PACK_RANGE
                  const uct_md_mkey_pack_params_t *params, void *buffer)
{
    uct_vqp_mem_t *mem            = memh;
    uct_vqp_packed_rkey_t *packed = buffer;
    unsigned flags                = 0;

    if (params->field_mask & UCT_MD_MKEY_PACK_FIELD_FLAGS) {
        flags = params->flags;
    }
    if (flags & UCT_VQP_MKEY_PACK_FLAG_EXPORT) {
        ucs_error("vqp: a key can not be exported to another process");
        return UCS_ERR_UNSUPPORTED;
    }
    if (flags & UCT_VQP_MKEY_PACK_FLAG_INVALIDATE) {
        mem->may_invalidate = 1;
    }

    packed->version   = UCT_VQP_RKEY_VERSION | (UCT_VQP_AMO_RAIL << 4);
    packed->num_rails = mem->mr.num_rails;
    packed->layout    = ucs_derived_of(tl_md, uct_vqp_md_t)->key_layout;
    memcpy(packed->rkeys, mem->mr.rkey,
           mem->mr.num_rails * sizeof(mem->mr.rkey[0]));
    return UCS_OK;
}

ucs_status_t
uct_vqp_rkey_unpack(uct_component_t *component, const void *buffer,
                    UCT_VQP_RKEY_UNPACK_PARAMS uct_rkey_t *rkey_p,
                    void **handle_p)
{
    const uct_vqp_packed_rkey_t *packed = buffer;
    unsigned version  = packed->version & UCT_VQP_RKEY_VERSION_MASK;
    unsigned amo_rail = packed->version >> 4;
    uct_vqp_rkey_t *rkey;

    if ((version != UCT_VQP_RKEY_VERSION) || (packed->num_rails == 0) ||
        (packed->num_rails > VQP_MAX_RAILS) ||
        (amo_rail >= packed->num_rails)) {
        ucs_error("vqp: remote key of version %u with %u rails is not known "
                  "(expected version %u, up to %u rails)", version,
                  packed->num_rails, UCT_VQP_RKEY_VERSION, VQP_MAX_RAILS);
        return UCS_ERR_UNSUPPORTED;
    }

    rkey = ucs_calloc(1, sizeof(*rkey), "uct_vqp_rkey");
    if (rkey == NULL) {
        ucs_error("failed to allocate a remote key");
        return UCS_ERR_NO_MEMORY;
    }

    rkey->layout   = uct_vqp_layout_id(packed->num_rails, packed->layout);
    rkey->amo_rail = (uint8_t)amo_rail;
    memcpy(rkey->rkeys, packed->rkeys, packed->num_rails * sizeof(uint32_t));
    *rkey_p   = (uintptr_t)rkey;
    *handle_p = NULL;
    return UCS_OK;
}

ucs_status_t uct_vqp_rkey_release(uct_component_t *component, uct_rkey_t rkey,
                                  void *handle)
{
    ucs_free((void*)rkey);
    return UCS_OK;
}

ucs_status_t uct_vqp_rkey_compare(uct_component_t *component, uct_rkey_t rkey1,
                                  uct_rkey_t rkey2,
                                  const uct_vqp_rkey_compare_params_t *params,
                                  int *result)
{
    const uct_vqp_rkey_t *a = uct_vqp_rkey(rkey1);
    const uct_vqp_rkey_t *b = uct_vqp_rkey(rkey2);
    int order;

    if ((params->field_mask != 0) || (result == NULL)) {
        ucs_diag("rkey_compare: fields 0x%lx are not supported, or there is no "
                 "result", (unsigned long)params->field_mask);
        return UCS_ERR_INVALID_PARAM;
    }

    order = (a->layout > b->layout) - (a->layout < b->layout);
    if (order == 0) {
        order = (int)a->amo_rail - (int)b->amo_rail;
    }
    if (order == 0) {
        order = memcmp(a->rkeys, b->rkeys, sizeof(a->rkeys));
    }

    *result = order;
    return UCS_OK;
}

static ucs_status_t
uct_vqp_md_detect_memory_type(uct_md_h md, const void *address, size_t length,
                              ucs_memory_type_t *mem_type_p)
{
    return UCS_ERR_UNSUPPORTED;
}

uct_md_ops_t uct_vqp_md_ops = {
    .close              = uct_vqp_md_close,
    .query              = uct_vqp_md_query,
    .mem_reg            = uct_vqp_mem_reg,
    .mem_dereg          = uct_vqp_mem_dereg,
    .mem_query          = (uct_md_mem_query_func_t)
            ucs_empty_function_return_unsupported,
    /* registered memory is pinned: nothing to prefetch */
    .mem_advise         = (uct_md_mem_advise_func_t)
            ucs_empty_function_return_success,
    .mkey_pack          = uct_vqp_mkey_pack,
    .detect_memory_type = uct_vqp_md_detect_memory_type,
    UCT_VQP_MD_OPS_REST
};

ucs_status_t
uct_vqp_rkey_ptr(uct_component_t *component, uct_rkey_t rkey, void *handle,
                 uint64_t remote_address, void **local_address_p)
{
    return UCS_ERR_UNSUPPORTED;
}

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

/* The index that the environment has for all ports: a domain does not see the options of
 * its interfaces */
static int uct_vqp_gid_index(uct_vqp_md_t *md)
{
    int index = VQP_IB_GID_AUTO;
    uct_iface_config_t *config;

    if (uct_md_iface_config_read(&md->super, md->super.component->name, NULL, NULL,
                                 &config) == UCS_OK) {
        index = uct_vqp_config_gid_index(ucs_derived_of(config, uct_vqp_iface_config_t));
        uct_config_release(config);
    }

    return index;
}

/* UCP opens each port that is listed, and fails altogether if one can not be opened */
static int uct_vqp_port_is_usable(const vqp_ib_dev_t *dev, uint8_t num, int gid_index)
{
    vqp_ib_port_t port;
    vqp_ib_gid_t gid;

    if (vqp_ib_port_query(dev, num, &port) != VQP_OK) {
        return 0; /* which was logged */
    }

    if (!port.active) {
        ucs_debug("%s:%u is not active", dev->name, num);
        return 0;
    }

    return (vqp_ib_gid_select(dev, &port, gid_index, &gid) == VQP_OK) &&
           vqp_ib_dev_has_ud(dev);
}

/* The ports of a bond were active when they were chosen, once in a process */
static int uct_vqp_bond_is_usable(const uct_vqp_md_t *md, int gid_index)
{
    const vqp_ib_dev_t *dev;
    unsigned i;

    for (i = 0; i < md->num_rails; ++i) {
        dev = &md->devs[i];
        if (!uct_vqp_port_is_usable(dev, md->ports[i], gid_index)) {
            ucs_warn("%s:%u is not active, or has no usable GID (UCX_VQP_GID_INDEX) or no UD "
                     "queue pairs: its bond, that of %s:%u, is not used", dev->name,
                     md->ports[i], md->devs[0].name, md->ports[0]);
            return 0;
        }
    }

    return 1;
}

static int uct_vqp_port_is_listed(const uct_vqp_md_t *md, uint8_t port, int gid_index)
{
    if (md->ports[0] != 0) { /* the first port of a bond represents all */
        return (port == md->ports[0]) && uct_vqp_bond_is_usable(md, gid_index);
    }

    return !(md->bonded & UCS_BIT(port)) &&
           uct_vqp_port_is_usable(&md->devs[0], port, gid_index);
}

ucs_status_t
uct_vqp_query_tl_devices(uct_md_h tl_md, uct_tl_device_resource_t **devices_p,
                         unsigned *num_devices_p)
{
    uct_vqp_md_t *md  = ucs_derived_of(tl_md, uct_vqp_md_t);
    vqp_ib_dev_t *dev = &md->devs[0];
    int gid_index     = uct_vqp_gid_index(md);
    uct_tl_device_resource_t *devices;
    unsigned count = 0;
    unsigned port;

    devices = ucs_calloc(dev->num_ports, sizeof(*devices), "vqp devices");
    if (devices == NULL) {
        ucs_error("failed to allocate the list of devices");
        return UCS_ERR_NO_MEMORY;
    }

    for (port = 1; port <= dev->num_ports; ++port) {
        if (!uct_vqp_port_is_listed(md, (uint8_t)port, gid_index)) {
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
