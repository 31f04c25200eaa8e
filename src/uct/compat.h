/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All differences between UCX 1.13.1 and UCX's master (1.23) that this module
 * meets. No other file tests the version of UCX. May include UCX's headers.
 *
 * Item                       changed in  bridge, as the other files write it
 * ------------------------------------------------------------------------
 * md_ops.query               1.14  uct_vqp_md_attr_t *attr;
 *                                  UCT_VQP_MD_ATTR(attr, flags) = ...
 * further MD attributes      1.14  uct_vqp_md_attr_rest(attr)
 * md_ops.mem_reg             1.14  (md, addr, len, uct_vqp_mem_reg_arg_t arg,
 *                                  memh_p); uct_vqp_mem_reg_flags(arg),
 *                                  uct_vqp_mem_reg_dmabuf(arg, &offset)
 * md_ops.mkey_pack           1.16  (md, memh, UCT_VQP_MKEY_PACK_RANGE params,
 *                                  buffer)
 * md_ops.mem_query           1.22  uct_vqp_mem_attr_t
 * md_ops.mem_attach, is_sockaddr_accessible, mem_elem_pack/_release
 *                            1.14, 1.16, 1.21, 1.23  UCT_VQP_MD_OPS_REST
 * component.rkey_unpack      1.19  (component, buffer,
 *                                  UCT_VQP_RKEY_UNPACK_PARAMS rkey_p, handle_p)
 * component.rkey_compare     1.16  (component, rkey1, rkey2,
 *                                  const uct_vqp_rkey_compare_params_t *,
 *                                  result); UCT_VQP_COMPONENT_REST
 * internal_ops.ep_invalidate 1.21  (ep, uct_vqp_ep_invalidate_arg_t arg)
 * internal_ops.ep_is_connected
 *                            1.16  (ep, const uct_vqp_ep_connected_params_t *);
 *                                  uct_vqp_ep_connected_dev_addr(params), ...
 * internal_ops.iface_is_reachable_v2
 *                            1.15  one function for it; see
 *                                  UCT_VQP_INTERNAL_OPS_REST
 * other internal_ops         1.14 - 1.23  UCT_VQP_INTERNAL_OPS_REST
 * reachability scope         1.16  uct_vqp_iface_scope_is_reachable()
 * lengths of addresses       1.18  uct_vqp_reachable_dev_len(params), ...
 * UCT_IFACE_FLAG_INTER_NODE  1.18  UCT_VQP_IFACE_FLAG_INTER_NODE (0 before)
 * iface_attr.ctl_device      1.22  uct_vqp_iface_attr_rest(attr)
 * MD INVALIDATE flag         1.15  UCT_VQP_MD_FLAG_INVALIDATE
 * MD REG_DMABUF flag         1.14  UCT_VQP_MD_FLAG_REG_DMABUF (0 before)
 * mkey INVALIDATE flag       1.15  UCT_VQP_MKEY_PACK_FLAG_INVALIDATE
 * mkey EXPORT flag           1.14  UCT_VQP_MKEY_PACK_FLAG_EXPORT (0 before)
 * registration cache         1.16  UCT_VQP_HAS_RCACHE; UCP uses its own since
 * UCT_FLUSH_FLAG_REMOTE      1.14  UCT_VQP_FLUSH_FLAG_REMOTE
 * ucs_mpool_init             1.14  uct_vqp_mpool_init()
 * UCT_IFACE_MPOOL_CONFIG_FIELDS
 *                            1.14  UCT_VQP_MPOOL_CONFIG_FIELDS
 * ucs_align_up_pow2, ucs_roundup_pow2
 *                            1.17  their header is included here
 * uct_am_short_fill_data     1.18  uct_vqp_am_short_fill()
 * UCT_EP_KEEPALIVE_CHECK_PARAM
 *                            1.22  uct_vqp_ep_check_params()
 *
 * Not bridged, since one spelling serves all versions: uct_iface_ops_t, the
 * arguments of the base classes' constructors, UCT_TL_DEFINE_ENTRY,
 * query_md_resources, md_open, rkey_ptr, rkey_release, mem_dereg, ep_query,
 * iface_estimate_perf, iface_vfs_refresh. is reachable_v2 calls the older
 * function; why a peer is not reachable is logged, at debug level.
 *
 * A pointer to a function that an older libuct lacks must not stand in a table
 * as a strong reference: the loader would refuse the module (and end the program
 * when it came by LD_PRELOAD) before the version guard can report why. Such
 * symbols are made weak below.
 */
#ifndef UCT_VQP_COMPAT_H
#define UCT_VQP_COMPAT_H

#include <uct/base/uct_component.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_md.h>
#include <uct/api/v2/uct_v2.h>
#include <uct/api/version.h>
#include <ucs/datastruct/mpool.h>
#include <ucs/sys/math.h>
#include <ucs/sys/stubs.h>

#ifndef UCT_API
#  error "uct/api/version.h defines no UCT_API"
#endif

/* True when compiled for UCX >= _major._minor */
#define UCT_VQP_UCX_SINCE(_major, _minor) (UCT_API >= UCT_VERSION(_major, _minor))

#if !UCT_VQP_UCX_SINCE(1, 13)
#  error "UCX 1.13 or newer is needed"
#endif

#if UCT_VQP_UCX_SINCE(1, 17)
#  include <ucs/sys/ptr_arith.h>
#endif

#if UCT_VQP_UCX_SINCE(1, 14)
#  pragma weak ucs_mpool_params_reset
#endif
#if UCT_VQP_UCX_SINCE(1, 16)
#  pragma weak uct_iface_scope_is_reachable
#endif
#if UCT_VQP_UCX_SINCE(1, 17)
#  pragma weak ucs_config_doc_nop
#endif

/* ---- memory domain ---- */

#if UCT_VQP_UCX_SINCE(1, 14)
typedef uct_md_attr_v2_t               uct_vqp_md_attr_t;
typedef const uct_md_mem_reg_params_t *uct_vqp_mem_reg_arg_t;
#  define UCT_VQP_MD_ATTR(_attr, _field) ((_attr)->_field)
#  define UCT_VQP_MD_FLAG_REG_DMABUF UCT_MD_FLAG_REG_DMABUF
#else
typedef uct_md_attr_t uct_vqp_md_attr_t;
typedef unsigned      uct_vqp_mem_reg_arg_t;
#  define UCT_VQP_MD_ATTR(_attr, _field) ((_attr)->cap._field)
#  define UCT_VQP_MD_FLAG_REG_DMABUF 0
#endif

/* The UCT_MD_MEM_xx bits that the caller of mem_reg requests */
static inline unsigned uct_vqp_mem_reg_flags(uct_vqp_mem_reg_arg_t arg)
{
#if UCT_VQP_UCX_SINCE(1, 14)
    return (arg->field_mask & UCT_MD_MEM_REG_FIELD_FLAGS) ? arg->flags : 0;
#else
    return arg;
#endif
}

/* The dmabuf descriptor to register, and the offset in it; -1: memory at the address */
static inline int uct_vqp_mem_reg_dmabuf(uct_vqp_mem_reg_arg_t arg, uint64_t *offset)
{
    *offset = 0;
#if UCT_VQP_UCX_SINCE(1, 14)
    if (arg->field_mask & UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET) {
        *offset = arg->dmabuf_offset;
    }
    if ((arg->field_mask & UCT_MD_MEM_REG_FIELD_DMABUF_FD) &&
        (arg->dmabuf_fd != UCT_DMABUF_FD_INVALID)) {
        return arg->dmabuf_fd;
    }
#endif
    return -1;
}

/* Attributes of an MD that allocates nothing, and that uses no memory type of its own;
 * the fields exist from different versions on */
static inline void uct_vqp_md_attr_rest(uct_vqp_md_attr_t *attr)
{
#if UCT_VQP_UCX_SINCE(1, 14)
    attr->dmabuf_mem_types          = 0;
    attr->cache_mem_types           = UCS_MASK(UCS_MEMORY_TYPE_LAST);
    attr->exported_mkey_packed_size = 0;
    memset(attr->global_id, 0, sizeof(attr->global_id));
#endif
#if UCT_VQP_UCX_SINCE(1, 15)
    attr->reg_nonblock_mem_types = 0;
#endif
#if UCT_VQP_UCX_SINCE(1, 16)
    attr->reg_alignment = 1;
#endif
#if UCT_VQP_UCX_SINCE(1, 18)
    attr->gva_mem_types = 0;
#endif
#if UCT_VQP_UCX_SINCE(1, 22)
    attr->required_mem_flags = UCS_MEM_FLAG_REGISTRABLE; /* else UCP stages */
#endif
}

#if UCT_VQP_UCX_SINCE(1, 16)
#  define UCT_VQP_MKEY_PACK_RANGE void *address, size_t length,
#else
#  define UCT_VQP_MKEY_PACK_RANGE
#endif

#if UCT_VQP_UCX_SINCE(1, 19)
#  define UCT_VQP_RKEY_UNPACK_PARAMS const uct_rkey_unpack_params_t *params,
#else
#  define UCT_VQP_RKEY_UNPACK_PARAMS
#endif

#if UCT_VQP_UCX_SINCE(1, 22)
typedef uct_md_mem_attr_v2_t uct_vqp_mem_attr_t;
#else
typedef uct_md_mem_attr_t uct_vqp_mem_attr_t;
#endif

/* For the end of the md_ops initializer: operations that vqp does not have */
#if UCT_VQP_UCX_SINCE(1, 23)
#  define UCT_VQP_MD_OPS_MEM_ELEM \
    .mem_elem_pack    = (uct_md_mem_elem_pack_func_t) \
            ucs_empty_function_return_unsupported, \
    .mem_elem_release = (uct_md_mem_elem_release_func_t)ucs_empty_function,
#elif UCT_VQP_UCX_SINCE(1, 21)
#  define UCT_VQP_MD_OPS_MEM_ELEM \
    .mem_elem_pack = (uct_md_mem_elem_pack_func_t) \
            ucs_empty_function_return_unsupported,
#else
#  define UCT_VQP_MD_OPS_MEM_ELEM
#endif

#if UCT_VQP_UCX_SINCE(1, 14)
#  define UCT_VQP_MD_OPS_ATTACH \
    .mem_attach = (uct_md_mem_attach_func_t)ucs_empty_function_return_unsupported,
#else
#  define UCT_VQP_MD_OPS_ATTACH
#endif

#if UCT_VQP_UCX_SINCE(1, 16)
#  define UCT_VQP_MD_OPS_SOCKADDR
#else
#  define UCT_VQP_MD_OPS_SOCKADDR \
    .is_sockaddr_accessible = (uct_md_is_sockaddr_accessible_func_t) \
            ucs_empty_function_return_zero_int,
#endif

#define UCT_VQP_MD_OPS_REST \
    UCT_VQP_MD_OPS_ATTACH \
    UCT_VQP_MD_OPS_SOCKADDR \
    UCT_VQP_MD_OPS_MEM_ELEM

/* For the component's initializer */
#if UCT_VQP_UCX_SINCE(1, 16)
typedef uct_rkey_compare_params_t uct_vqp_rkey_compare_params_t;
#  define UCT_VQP_COMPONENT_REST(_rkey_compare) .rkey_compare = (_rkey_compare),
#else
typedef struct {
    uint64_t field_mask;
} uct_vqp_rkey_compare_params_t;
#  define UCT_VQP_COMPONENT_REST(_rkey_compare)
#endif

/* Since 1.15 invalidation has separate flags for RMA and AMO keys */
#if UCT_VQP_UCX_SINCE(1, 15)
#  define UCT_VQP_MD_FLAG_INVALIDATE \
    (UCT_MD_FLAG_INVALIDATE | UCT_MD_FLAG_INVALIDATE_RMA | \
     UCT_MD_FLAG_INVALIDATE_AMO)
#  define UCT_VQP_MKEY_PACK_FLAG_INVALIDATE \
    (UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA | \
     UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO)
#else
#  define UCT_VQP_MD_FLAG_INVALIDATE        UCT_MD_FLAG_INVALIDATE
#  define UCT_VQP_MKEY_PACK_FLAG_INVALIDATE UCT_MD_MKEY_PACK_FLAG_INVALIDATE
#endif

/* Before 1.16 UCP registers the memory of each large message */
#define UCT_VQP_HAS_RCACHE (!UCT_VQP_UCX_SINCE(1, 16))

/* Before 1.16 a handle may be invalidated if a key of the same memory, of another
 * handle, was packed for it: UCX's suite does that */
#define UCT_VQP_INVALIDATE_WANTS_PACKED UCT_VQP_UCX_SINCE(1, 16)

#if UCT_VQP_UCX_SINCE(1, 14)
#  define UCT_VQP_MKEY_PACK_FLAG_EXPORT UCT_MD_MKEY_PACK_FLAG_EXPORT
#else
#  define UCT_VQP_MKEY_PACK_FLAG_EXPORT 0u
#endif

/* ---- interface ---- */

/* Without the flag UCX >= 1.18 takes the transport for an intra-node one */
#if UCT_VQP_UCX_SINCE(1, 18)
#  define UCT_VQP_IFACE_FLAG_INTER_NODE UCT_IFACE_FLAG_INTER_NODE
#else
#  define UCT_VQP_IFACE_FLAG_INTER_NODE 0ul
#endif

/* Fields of the interface attributes with fixed values */
static inline void uct_vqp_iface_attr_rest(uct_iface_attr_t *attr)
{
#if UCT_VQP_UCX_SINCE(1, 22)
    attr->ctl_device = UCS_SYS_DEVICE_ID_UNKNOWN;
#endif
}

/* Lengths of the addresses that is_reachable_v2 gets; SIZE_MAX when not given */
static inline size_t
uct_vqp_reachable_dev_len(const uct_iface_is_reachable_params_t *params)
{
#if UCT_VQP_UCX_SINCE(1, 18)
    if (params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR_LENGTH) {
        return params->device_addr_length;
    }
#endif
    return SIZE_MAX;
}

static inline size_t
uct_vqp_reachable_iface_len(const uct_iface_is_reachable_params_t *params)
{
#if UCT_VQP_UCX_SINCE(1, 18)
    if (params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR_LENGTH) {
        return params->iface_addr_length;
    }
#endif
    return SIZE_MAX;
}

/* False when the caller accepts only the own device and this is another.
 * UCX compares as many bytes as the own address has, @a own_len */
static inline int
uct_vqp_iface_scope_is_reachable(const uct_iface_h iface,
                                 const uct_iface_is_reachable_params_t *params,
                                 size_t own_len)
{
#if UCT_VQP_UCX_SINCE(1, 16)
    if (!(params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_SCOPE) ||
        (params->scope == UCT_IFACE_REACHABILITY_SCOPE_NETWORK)) {
        return 1;
    }

    return !(params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR) ||
           ((uct_vqp_reachable_dev_len(params) >= own_len) &&
            uct_iface_scope_is_reachable(iface, params));
#else
    return 1;
#endif
}

#if UCT_VQP_UCX_SINCE(1, 14)
#  define UCT_VQP_FLUSH_FLAG_REMOTE UCT_FLUSH_FLAG_REMOTE
#else
#  define UCT_VQP_FLUSH_FLAG_REMOTE UCS_BIT(1) /* no caller sets it */
#endif

/* What ep_invalidate gets; vqp ignores it */
#if UCT_VQP_UCX_SINCE(1, 21)
typedef const uct_ep_invalidate_params_t *uct_vqp_ep_invalidate_arg_t;
#else
typedef unsigned uct_vqp_ep_invalidate_arg_t;
#endif

#if UCT_VQP_UCX_SINCE(1, 16)
typedef uct_ep_is_connected_params_t uct_vqp_ep_connected_params_t;
#  define UCT_VQP_CONNECTED_PARAM(_params, _field, _flag) \
    (((_params)->field_mask & UCT_EP_IS_CONNECTED_FIELD_##_flag) ? \
             (_params)->_field : NULL)
#else
/* UCX calls it from 1.16 on; it compiles everywhere, and tests call it */
typedef struct {
    const uct_device_addr_t *device_addr;
    const uct_iface_addr_t  *iface_addr;
} uct_vqp_ep_connected_params_t;
#  define UCT_VQP_CONNECTED_PARAM(_params, _field, _flag) ((_params)->_field)
#endif

/* The peer's addresses that ep_is_connected gets; NULL when not given */
static inline const uct_device_addr_t *
uct_vqp_ep_connected_dev_addr(const uct_vqp_ep_connected_params_t *params)
{
    return UCT_VQP_CONNECTED_PARAM(params, device_addr, DEVICE_ADDR);
}

static inline const uct_iface_addr_t *
uct_vqp_ep_connected_iface_addr(const uct_vqp_ep_connected_params_t *params)
{
    return UCT_VQP_CONNECTED_PARAM(params, iface_addr, IFACE_ADDR);
}

/*
 * For the end of the uct_iface_internal_ops_t initializer, behind
 * iface_estimate_perf, iface_vfs_refresh, ep_query and ep_invalidate:
 *
 *   UCT_VQP_INTERNAL_OPS_REST(is_reachable_v2, ep_is_connected)
 *
 * is_reachable_v2: int f(const uct_iface_h,
 *                        const uct_iface_is_reachable_params_t*)
 * ep_is_connected: int f(uct_ep_h, const uct_vqp_ep_connected_params_t*)
 */
#if UCT_VQP_UCX_SINCE(1, 14)
#  define UCT_VQP_IOPS_CONNECT_TO_EP \
    .ep_connect_to_ep_v2 = (uct_ep_connect_to_ep_v2_func_t) \
            ucs_empty_function_return_unsupported,
#else
#  define UCT_VQP_IOPS_CONNECT_TO_EP
#endif

#if UCT_VQP_UCX_SINCE(1, 15)
#  define UCT_VQP_IOPS_REACHABLE(_func) .iface_is_reachable_v2 = (_func),
#else
#  define UCT_VQP_IOPS_REACHABLE(_func)
#endif

#if UCT_VQP_UCX_SINCE(1, 16)
#  define UCT_VQP_IOPS_CONNECTED(_func) .ep_is_connected = (_func),
#else
#  define UCT_VQP_IOPS_CONNECTED(_func)
#endif

/* 1.20 had it, 1.21 dropped it, 1.22 has it again */
#if UCT_VQP_UCX_SINCE(1, 22) || \
    (UCT_VQP_UCX_SINCE(1, 20) && !UCT_VQP_UCX_SINCE(1, 21))
#  pragma weak uct_iface_base_query_v2
#  define UCT_VQP_IOPS_QUERY_V2 .iface_query_v2 = uct_iface_base_query_v2,
#else
#  define UCT_VQP_IOPS_QUERY_V2
#endif

#if UCT_VQP_UCX_SINCE(1, 20) && !UCT_VQP_UCX_SINCE(1, 21)
#  define UCT_VQP_IOPS_MEM_ELEMENT \
    .iface_mem_element_pack = (uct_iface_mem_element_pack_func_t) \
            ucs_empty_function_return_unsupported,
#else
#  define UCT_VQP_IOPS_MEM_ELEMENT
#endif

#if UCT_VQP_UCX_SINCE(1, 20)
#  define UCT_VQP_IOPS_DEVICE_EP \
    .ep_get_device_ep = (uct_ep_get_device_ep_func_t) \
            ucs_empty_function_return_unsupported,
#else
#  define UCT_VQP_IOPS_DEVICE_EP
#endif

#if UCT_VQP_UCX_SINCE(1, 22)
#  define UCT_VQP_IOPS_PUT_SGL \
    .ep_put_sgl_zcopy = (uct_ep_put_sgl_zcopy_func_t) \
            ucs_empty_function_return_unsupported,
#else
#  define UCT_VQP_IOPS_PUT_SGL
#endif

#if UCT_VQP_UCX_SINCE(1, 23)
#  define UCT_VQP_IOPS_1_23 \
    .ep_get_sgl_zcopy     = (uct_ep_get_sgl_zcopy_func_t) \
            ucs_empty_function_return_unsupported, \
    .ep_outstanding_purge = (uct_ep_outstanding_purge_func_t) \
            ucs_empty_function_return_unsupported,
#else
#  define UCT_VQP_IOPS_1_23
#endif

#define UCT_VQP_INTERNAL_OPS_REST(_is_reachable_v2, _ep_is_connected) \
    UCT_VQP_IOPS_QUERY_V2 \
    UCT_VQP_IOPS_MEM_ELEMENT \
    UCT_VQP_IOPS_CONNECT_TO_EP \
    UCT_VQP_IOPS_REACHABLE(_is_reachable_v2) \
    UCT_VQP_IOPS_CONNECTED(_ep_is_connected) \
    UCT_VQP_IOPS_DEVICE_EP \
    UCT_VQP_IOPS_PUT_SGL \
    UCT_VQP_IOPS_1_23

/* ---- helpers ---- */

/* A pool of objects of one size. max_elems: UINT_MAX for no limit */
static inline ucs_status_t
uct_vqp_mpool_init(ucs_mpool_t *mp, size_t elem_size, size_t alignment,
                   unsigned elems_per_chunk, unsigned max_elems,
                   ucs_mpool_ops_t *ops, const char *name)
{
#if UCT_VQP_UCX_SINCE(1, 14)
    ucs_mpool_params_t params;

    ucs_mpool_params_reset(&params);
    params.elem_size       = elem_size;
    params.alignment       = alignment;
    params.elems_per_chunk = elems_per_chunk;
    params.max_elems       = max_elems;
    params.ops             = ops;
    params.name            = name;
    return ucs_mpool_init(&params, mp);
#else
    return ucs_mpool_init(mp, 0, elem_size, 0, alignment, elems_per_chunk,
                          max_elems, ops, name);
#endif
}

/* Option fields of a uct_iface_mpool_config_t: maximum, and first chunk. Later
 * chunks are of the same size and at most 128 MiB */
#if UCT_VQP_UCX_SINCE(1, 14)
#  define UCT_VQP_MPOOL_CONFIG_FIELDS(_prefix, _dfl_max, _dfl_grow, _name, \
                                      _offset, _desc) \
    UCT_IFACE_MPOOL_CONFIG_FIELDS(_prefix, _dfl_max, _dfl_grow, 128m, 1.0, \
                                  _name, _offset, _desc)
#else
#  define UCT_VQP_MPOOL_CONFIG_FIELDS UCT_IFACE_MPOOL_CONFIG_FIELDS
#endif

/* Writes what am_short sends: the 64-bit header, then the payload */
static inline void uct_vqp_am_short_fill(void *buffer, uint64_t header,
                                         const void *payload, size_t length)
{
    memcpy(buffer, &header, sizeof(header));
    if (length > 0) { /* an empty payload may have no address */
        memcpy((char*)buffer + sizeof(header), payload, length);
    }
}

/* ep_check takes no flags; a completion it takes from 1.22 on, when it may be
 * ignored as long as the function returns UCS_OK */
static inline ucs_status_t uct_vqp_ep_check_params(unsigned flags,
                                                   uct_completion_t *comp)
{
#if !UCT_VQP_UCX_SINCE(1, 22)
    if (comp != NULL) {
        ucs_error("ep_check with a completion is not supported");
        return UCS_ERR_INVALID_PARAM;
    }
#endif
    if (flags != 0) {
        ucs_error("ep_check: unsupported flags 0x%x", flags);
        return UCS_ERR_INVALID_PARAM;
    }

    return UCS_OK;
}

#endif
