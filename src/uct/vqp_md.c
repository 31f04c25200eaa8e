/* The memory domain, see vqp_md.h. */
#include "uct/vqp_md.h"
#include "uct/vqp_iface.h"
#include "uct/vqp_log.h"

#include "verbs/async.h"
#include "verbs/port.h"

#include <ucs/async/async.h>
#include <ucs/sys/string.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/type/status.h>

#define UCT_VQP_MD_PREFIX "vqp_"

/* Packed remote key: version, number of rails, two reserved bytes, then a key
 * per rail */
#define UCT_VQP_RKEY_VERSION 1

typedef struct uct_vqp_packed_rkey {
    uint8_t  version;
    uint8_t  num_rails;
    uint16_t reserved;
    uint32_t rkeys[];
} UCS_S_PACKED uct_vqp_packed_rkey_t;

static ucs_config_field_t uct_vqp_md_config_table[] = {
    {"", "", NULL, ucs_offsetof(uct_vqp_md_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

    {"RELAXED_ORDERING", "no",
     "Let the HCA write into registered user memory in any order (PCIe relaxed\n"
     "ordering). Active messages and atomics never depend on it. Raises the\n"
     "bandwidth on some CPUs; ignored by devices that do not know it.",
     ucs_offsetof(uct_vqp_md_config_t, relaxed_ordering),
     UCS_CONFIG_TYPE_BOOL},

    {NULL}
};

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
        /* A peer that is gone has one status, however it was noticed: UCP
         * answers what is sent later with it too */
        return UCS_ERR_ENDPOINT_TIMEOUT;
    case VQP_ERR_REMOTE:
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
                                              UCT_VQP_MD_FLAG_INVALIDATE;
    /* nothing is allocated here; who sizes buffers by it needs no limit */
    UCT_VQP_MD_ATTR(attr, max_alloc)        = ULONG_MAX;
    UCT_VQP_MD_ATTR(attr, max_reg)          = max_reg;
    UCT_VQP_MD_ATTR(attr, reg_mem_types)    = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    UCT_VQP_MD_ATTR(attr, access_mem_types) = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    UCT_VQP_MD_ATTR(attr, alloc_mem_types)  = 0;
    UCT_VQP_MD_ATTR(attr, detect_mem_types) = 0;
    attr->rkey_packed_size = uct_vqp_rkey_packed_size(md->num_rails);
    /* A fixed part and a part per byte, as Soft-RoCE showed them */
    attr->reg_cost         = ucs_linear_func_make(15e-6 * md->num_rails,
                                                  6e-12 * md->num_rails);
    memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
    uct_vqp_md_attr_rest(attr);
    return UCS_OK;
}

/* Access that lets somebody write is optional: UCP registers what it sends
 * from with all flags, read-only mappings too, and nobody can write to these */
static void uct_vqp_access(unsigned flags, vqp_ib_mr_params_t *params)
{
    params->access = params->optional = 0;
    if (flags & UCT_MD_MEM_ACCESS_LOCAL_WRITE) {
        params->optional |= VQP_IB_ACCESS_LOCAL_WRITE;
    }
    if (flags & UCT_MD_MEM_ACCESS_REMOTE_PUT) {
        params->optional |= VQP_IB_ACCESS_REMOTE_WRITE;
    }
    if (flags & UCT_MD_MEM_ACCESS_REMOTE_ATOMIC) {
        params->optional |= VQP_IB_ACCESS_REMOTE_ATOMIC;
    }
    if (flags & UCT_MD_MEM_ACCESS_REMOTE_GET) {
        params->access |= VQP_IB_ACCESS_REMOTE_READ;
    }
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
    uct_vqp_mem_t *mem;
    vqp_status_t status;

    uct_vqp_access(flags, &params);
    if (md->relaxed_ordering) {
        params.access |= VQP_IB_ACCESS_RELAXED_ORDERING;
    }

    mem = ucs_malloc(sizeof(*mem), "uct_vqp_mem");
    if (mem == NULL) {
        ucs_error("failed to allocate a memory handle");
        return UCS_ERR_NO_MEMORY;
    }

    status = vqp_ib_mr_reg(&mem->mr, md->dev_ptrs, md->num_rails, &params);
    if (status != VQP_OK) {
        ucs_free(mem);
        /* UCX tells "can not be registered" by this one */
        return (status == VQP_ERR_EXCEEDS_LIMIT) ? UCS_ERR_NO_MEMORY :
                                                   uct_vqp_status(status);
    }

    *memh_p = mem;
    return UCS_OK;
}

static ucs_status_t
uct_vqp_mem_dereg(uct_md_h tl_md, const uct_md_mem_dereg_params_t *params)
{
    uct_vqp_mem_t *mem;
    vqp_status_t status;

    UCT_MD_MEM_DEREG_CHECK_PARAMS(params, 1);

    mem    = params->memh;
    status = vqp_ib_mr_dereg(&mem->mr);
    ucs_free(mem);

    /* Once the registration is gone no peer gets in: invalidated */
    if (UCT_MD_MEM_DEREG_FIELD_VALUE(params, flags, FIELD_FLAGS, 0) &
        UCT_MD_MEM_DEREG_FLAG_INVALIDATE) {
        uct_invoke_completion(params->comp, uct_vqp_status(status));
    }

    return uct_vqp_status(status);
}

static ucs_status_t
uct_vqp_mkey_pack(uct_md_h tl_md, uct_mem_h memh,
                  UCT_VQP_MKEY_PACK_RANGE
                  const uct_md_mkey_pack_params_t *params, void *buffer)
{
    const uct_vqp_mem_t *mem      = memh;
    uct_vqp_packed_rkey_t *packed = buffer;

    packed->version   = UCT_VQP_RKEY_VERSION;
    packed->num_rails = mem->mr.num_rails;
    packed->reserved  = 0;
    memcpy(packed->rkeys, mem->mr.rkey,
           mem->mr.num_rails * sizeof(mem->mr.rkey[0]));
    return UCS_OK;
}

static ucs_status_t
uct_vqp_rkey_unpack(uct_component_t *component, const void *buffer,
                    UCT_VQP_RKEY_UNPACK_PARAMS uct_rkey_t *rkey_p,
                    void **handle_p)
{
    const uct_vqp_packed_rkey_t *packed = buffer;
    uct_vqp_rkey_t *rkey;

    if ((packed->version != UCT_VQP_RKEY_VERSION) || (packed->num_rails == 0) ||
        (packed->num_rails > VQP_MAX_RAILS)) {
        ucs_error("vqp: remote key of version %u with %u rails is not known "
                  "(expected version %u, up to %u rails)", packed->version,
                  packed->num_rails, UCT_VQP_RKEY_VERSION, VQP_MAX_RAILS);
        return UCS_ERR_UNSUPPORTED;
    }

    rkey = ucs_calloc(1, sizeof(*rkey), "uct_vqp_rkey");
    if (rkey == NULL) {
        ucs_error("failed to allocate a remote key");
        return UCS_ERR_NO_MEMORY;
    }

    rkey->num_rails = packed->num_rails;
    memcpy(rkey->rkeys, packed->rkeys, packed->num_rails * sizeof(uint32_t));
    *rkey_p   = (uintptr_t)rkey;
    *handle_p = NULL;
    return UCS_OK;
}

static ucs_status_t uct_vqp_rkey_release(uct_component_t *component,
                                         uct_rkey_t rkey, void *handle)
{
    ucs_free((void*)rkey);
    return UCS_OK;
}

/* Runs in UCX's async thread: leave a mark with the interfaces, they act on it
 * when they progress */
static void
uct_vqp_md_async_handler(int fd, ucs_event_set_types_t events, void *arg)
{
    uct_vqp_md_t *md = arg;
    uct_vqp_iface_t *iface;
    vqp_ib_async_t event;
    unsigned i;

    for (i = 0; i < md->num_rails; ++i) {
        if (vqp_ib_dev_async_fd(&md->devs[i]) != fd) {
            continue;
        }

        while (vqp_ib_async_get(&md->devs[i], &event) == VQP_OK) {
            pthread_mutex_lock(&md->lock);
            ucs_list_for_each(iface, &md->ifaces, md_list) {
                uct_vqp_iface_async_event(iface, i, &event);
            }
            pthread_mutex_unlock(&md->lock);
        }
    }
}

static void uct_vqp_md_cleanup(uct_vqp_md_t *md, unsigned num_open)
{
    while (md->num_async > 0) {
        --md->num_async;
        ucs_async_remove_handler(vqp_ib_dev_async_fd(&md->devs[md->num_async]),
                                 1);
    }

    while (num_open > 0) {
        vqp_ib_dev_close(&md->devs[--num_open]);
    }

    pthread_mutex_destroy(&md->lock);
    ucs_free(md);
}

static void uct_vqp_md_close(uct_md_h tl_md)
{
    uct_vqp_md_t *md = ucs_derived_of(tl_md, uct_vqp_md_t);

    uct_vqp_md_cleanup(md, md->num_rails);
}

static ucs_status_t
uct_vqp_md_detect_memory_type(uct_md_h md, const void *address, size_t length,
                              ucs_memory_type_t *mem_type_p)
{
    return UCS_ERR_UNSUPPORTED;
}

static uct_md_ops_t uct_vqp_md_ops = {
    .close              = uct_vqp_md_close,
    .query              = uct_vqp_md_query,
    .mem_reg            = uct_vqp_mem_reg,
    .mem_dereg          = uct_vqp_mem_dereg,
    .mem_query          = (uct_md_mem_query_func_t)
            ucs_empty_function_return_unsupported,
    /* what is registered is pinned: there is nothing to fetch ahead */
    .mem_advise         = (uct_md_mem_advise_func_t)
            ucs_empty_function_return_success,
    .mkey_pack          = uct_vqp_mkey_pack,
    .detect_memory_type = uct_vqp_md_detect_memory_type,
    UCT_VQP_MD_OPS_REST
};

static ucs_status_t
uct_vqp_md_open(uct_component_t *component, const char *md_name,
                const uct_md_config_t *tl_config, uct_md_h *md_p)
{
    const uct_vqp_md_config_t *config = ucs_derived_of(tl_config,
                                                       uct_vqp_md_config_t);
    const char *dev_name              = md_name;
    ucs_status_t status;
    uct_vqp_md_t *md;

    uct_vqp_log_init();
    if (strncmp(md_name, UCT_VQP_MD_PREFIX, strlen(UCT_VQP_MD_PREFIX)) == 0) {
        dev_name += strlen(UCT_VQP_MD_PREFIX);
    }

    md = ucs_calloc(1, sizeof(*md), "uct_vqp_md");
    if (md == NULL) {
        ucs_error("failed to allocate a memory domain");
        return UCS_ERR_NO_MEMORY;
    }

    md->super.ops        = &uct_vqp_md_ops;
    md->super.component  = component;
    md->relaxed_ordering = config->relaxed_ordering;
    ucs_list_head_init(&md->ifaces);
    pthread_mutex_init(&md->lock, NULL);
    vqp_ib_fork_init();

    /* A bond over several devices opens one after the other here */
    status = uct_vqp_status(vqp_ib_dev_open(&md->devs[0], dev_name));
    if (status != UCS_OK) {
        uct_vqp_md_cleanup(md, 0);
        return status;
    }

    md->dev_ptrs[0] = &md->devs[0];
    md->num_rails   = 1;
    status = ucs_async_set_event_handler(UCS_ASYNC_THREAD_LOCK_TYPE,
                                         vqp_ib_dev_async_fd(&md->devs[0]),
                                         UCS_EVENT_SET_EVREAD,
                                         uct_vqp_md_async_handler, md, NULL);
    if (status != UCS_OK) {
        ucs_error("%s: failed to watch the device's async events: %s",
                  dev_name, ucs_status_string(status));
        uct_vqp_md_cleanup(md, md->num_rails);
        return status;
    }

    md->num_async = 1;
    *md_p         = &md->super;
    return UCS_OK;
}

static ucs_status_t
uct_vqp_query_md_resources(uct_component_t *component,
                           uct_md_resource_desc_t **resources_p,
                           unsigned *num_resources_p)
{
    uct_md_resource_desc_t *resources;
    vqp_ib_dev_list_t list;
    ucs_status_t status;
    unsigned i;

    uct_vqp_log_init();
    status = uct_vqp_status(vqp_ib_dev_list_get(&list));
    if (status != UCS_OK) {
        return status;
    }

    if (list.count == 0) {
        vqp_ib_dev_list_free(&list);
        return uct_md_query_empty_md_resource(resources_p, num_resources_p);
    }

    resources = ucs_calloc(list.count, sizeof(*resources), "vqp resources");
    if (resources == NULL) {
        ucs_error("failed to allocate the list of memory domains");
        vqp_ib_dev_list_free(&list);
        return UCS_ERR_NO_MEMORY;
    }

    for (i = 0; i < list.count; ++i) {
        ucs_snprintf_zero(resources[i].md_name, sizeof(resources[i].md_name),
                          UCT_VQP_MD_PREFIX "%s",
                          vqp_ib_dev_list_name(&list, i));
    }

    *resources_p     = resources;
    *num_resources_p = list.count;
    vqp_ib_dev_list_free(&list);
    return UCS_OK;
}

static ucs_status_t
uct_vqp_rkey_ptr(uct_component_t *component, uct_rkey_t rkey, void *handle,
                 uint64_t remote_address, void **local_address_p)
{
    return UCS_ERR_UNSUPPORTED;
}

static ucs_status_t
uct_vqp_cm_open(uct_component_t *component, uct_worker_h worker,
                const uct_cm_config_t *config, uct_cm_h *cm_p)
{
    return UCS_ERR_UNSUPPORTED;
}

uct_component_t uct_vqp_component = {
    .query_md_resources = uct_vqp_query_md_resources,
    .md_open            = uct_vqp_md_open,
    .cm_open            = uct_vqp_cm_open,
    .rkey_unpack        = uct_vqp_rkey_unpack,
    .rkey_ptr           = uct_vqp_rkey_ptr,
    .rkey_release       = uct_vqp_rkey_release,
    UCT_VQP_COMPONENT_REST
    .name               = "vqp",
    .md_config          = {
        .name           = "vqp memory domain",
        .prefix         = "VQP_",
        .table          = uct_vqp_md_config_table,
        .size           = sizeof(uct_vqp_md_config_t),
    },
    .cm_config          = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list            = UCT_COMPONENT_TL_LIST_INITIALIZER(&uct_vqp_component),
    .flags              = 0,
    .md_vfs_init        = (uct_component_md_vfs_init_func_t)ucs_empty_function
};
