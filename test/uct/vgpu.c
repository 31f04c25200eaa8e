/* A GPU that is not one, see vgpu.h. */
#include "vgpu.h"

#include "uct/compat.h"

#include <uct/base/uct_iov.inl>
#include <ucs/config/global_opts.h>
#include <ucs/sys/string.h>
#include <ucs/sys/uid.h>
#include <ucs/type/class.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory ---- */

typedef struct vgpu_memory {
    ucs_list_link_t list;
    char            *device; /* without access */
    char            *host;   /* the same memory, with access */
    size_t          length;  /* whole pages */
    int             fd;
} vgpu_memory_t;

static UCS_LIST_HEAD(vgpu_memories);
static pthread_mutex_t vgpu_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t vgpu_bytes;

static void vgpu_die(const char *what)
{
    perror(what);
    abort();
}

void *vgpu_alloc(size_t length)
{
    vgpu_memory_t *memory = malloc(sizeof(*memory));

    if (memory == NULL) {
        vgpu_die("vgpu: malloc");
    }

    memory->length = ucs_align_up(length, (size_t)sysconf(_SC_PAGESIZE));
    memory->fd     = memfd_create("vgpu", MFD_CLOEXEC);
    if ((memory->fd < 0) || (ftruncate(memory->fd, (off_t)memory->length) != 0)) {
        vgpu_die("vgpu: memfd");
    }

    memory->device = mmap(NULL, memory->length, PROT_NONE, MAP_SHARED, memory->fd, 0);
    memory->host   = mmap(NULL, memory->length, PROT_READ | PROT_WRITE, MAP_SHARED,
                          memory->fd, 0);
    if ((memory->device == MAP_FAILED) || (memory->host == MAP_FAILED)) {
        vgpu_die("vgpu: mmap");
    }

    pthread_mutex_lock(&vgpu_lock);
    ucs_list_add_tail(&vgpu_memories, &memory->list);
    pthread_mutex_unlock(&vgpu_lock);
    return memory->device;
}

/* What an address is in; the caller knows that it is not freed meanwhile */
static vgpu_memory_t *vgpu_find(const void *device)
{
    vgpu_memory_t *memory, *found = NULL;

    pthread_mutex_lock(&vgpu_lock);
    ucs_list_for_each(memory, &vgpu_memories, list) {
        if (((const char*)device >= memory->device) &&
            ((const char*)device < (memory->device + memory->length))) {
            found = memory;
        }
    }
    pthread_mutex_unlock(&vgpu_lock);
    return found;
}

void vgpu_free(void *device)
{
    vgpu_memory_t *memory = vgpu_find(device);

    pthread_mutex_lock(&vgpu_lock);
    ucs_list_del(&memory->list);
    pthread_mutex_unlock(&vgpu_lock);
    munmap(memory->device, memory->length);
    munmap(memory->host, memory->length);
    close(memory->fd);
    free(memory);
}

void *vgpu_host(const void *device)
{
    const vgpu_memory_t *memory = vgpu_find(device);

    return (memory == NULL) ?
                   NULL : memory->host + ((const char*)device - memory->device);
}

int vgpu_fd(const void *device)
{
    return vgpu_find(device)->fd;
}

size_t vgpu_copied(void)
{
    return __atomic_load_n(&vgpu_bytes, __ATOMIC_RELAXED);
}


/* ---- memory domain ---- */

static uct_component_t vgpu_component;
static uct_md_ops_t vgpu_md_ops;

static ucs_status_t vgpu_md_query(uct_md_h md, uct_vqp_md_attr_t *attr)
{
    const uint64_t cuda = UCS_BIT(UCS_MEMORY_TYPE_CUDA);

    UCT_VQP_MD_ATTR(attr, flags)            = UCT_MD_FLAG_REG;
    UCT_VQP_MD_ATTR(attr, max_alloc)        = 0;
    UCT_VQP_MD_ATTR(attr, max_reg)          = ULONG_MAX;
    UCT_VQP_MD_ATTR(attr, reg_mem_types)    = cuda | UCS_BIT(UCS_MEMORY_TYPE_HOST);
    /* UCX 1.22 copies host memory, too, only by what has access to it */
    UCT_VQP_MD_ATTR(attr, access_mem_types) = cuda | UCS_BIT(UCS_MEMORY_TYPE_HOST);
    UCT_VQP_MD_ATTR(attr, alloc_mem_types)  = 0;
    UCT_VQP_MD_ATTR(attr, detect_mem_types) = cuda;
    attr->rkey_packed_size                  = 0;
    attr->reg_cost                          = ucs_linear_func_make(0, 0);
    memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
    uct_vqp_md_attr_rest(attr);
#if UCT_VQP_UCX_SINCE(1, 14)
    attr->dmabuf_mem_types = cuda;
#endif
    return UCS_OK;
}

/* Copies need no registration, but UCP's choice of a transport asks for one */
static ucs_status_t vgpu_mem_reg(uct_md_h md, void *address, size_t length,
                                 uct_vqp_mem_reg_arg_t arg, uct_mem_h *memh_p)
{
    *memh_p = address;
    return UCS_OK;
}

static ucs_status_t vgpu_mkey_pack(uct_md_h md, uct_mem_h memh,
                                   UCT_VQP_MKEY_PACK_RANGE
                                   const uct_md_mkey_pack_params_t *params,
                                   void *buffer)
{
    return UCS_OK;
}

static ucs_status_t vgpu_mem_query(uct_md_h md, const void *address, size_t length,
                                   uct_vqp_mem_attr_t *attr)
{
    const vgpu_memory_t *memory = vgpu_find(address);

    if (memory == NULL) {
        return UCS_ERR_INVALID_ADDR;
    }

    if (attr->field_mask & UCT_MD_MEM_ATTR_FIELD_MEM_TYPE) {
        attr->mem_type = UCS_MEMORY_TYPE_CUDA;
    }
    if (attr->field_mask & UCT_MD_MEM_ATTR_FIELD_SYS_DEV) {
        attr->sys_dev = UCS_SYS_DEVICE_ID_UNKNOWN;
    }
    if (attr->field_mask & UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS) {
        attr->base_address = memory->device;
    }
    if (attr->field_mask & UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH) {
        attr->alloc_length = memory->length;
    }
#if UCT_VQP_UCX_SINCE(1, 14)
    if (attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) {
        attr->dmabuf_fd = dup(memory->fd); /* the caller closes it */
    }
    if (attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET) {
        attr->dmabuf_offset = (const char*)address - memory->device;
    }
#endif
#if UCT_VQP_UCX_SINCE(1, 22)
    if (attr->field_mask & UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS) {
        attr->mem_flags = UCS_MEM_FLAG_REGISTRABLE;
    }
#endif
    return UCS_OK;
}

static ucs_status_t vgpu_detect(uct_md_h md, const void *address, size_t length,
                                ucs_memory_type_t *type)
{
    *type = UCS_MEMORY_TYPE_CUDA;
    return (vgpu_find(address) != NULL) ? UCS_OK : UCS_ERR_INVALID_ADDR;
}

static ucs_status_t vgpu_md_open(uct_component_t *component, const char *name,
                                 const uct_md_config_t *config, uct_md_h *md_p)
{
    static uct_md_t md;

    md.ops       = &vgpu_md_ops;
    md.component = component;
    *md_p        = &md;
    return UCS_OK;
}

static ucs_status_t vgpu_query_mds(uct_component_t *component,
                                   uct_md_resource_desc_t **resources,
                                   unsigned *count)
{
    return uct_md_query_single_md_resource(component, resources, count);
}

static ucs_status_t vgpu_rkey_unpack(uct_component_t *component, const void *buffer,
                                     UCT_VQP_RKEY_UNPACK_PARAMS uct_rkey_t *rkey_p,
                                     void **handle_p)
{
    *rkey_p   = 0;
    *handle_p = NULL;
    return UCS_OK;
}

static uct_md_ops_t vgpu_md_ops = {
    .close              = (uct_md_close_func_t)ucs_empty_function,
    .query              = vgpu_md_query,
    .mem_reg            = vgpu_mem_reg,
    .mem_dereg          = (uct_md_mem_dereg_func_t)
            ucs_empty_function_return_success,
    .mkey_pack          = vgpu_mkey_pack,
    .mem_query          = vgpu_mem_query,
    .detect_memory_type = vgpu_detect,
    UCT_VQP_MD_OPS_REST
};

static uct_component_t vgpu_component = {
    .query_md_resources = vgpu_query_mds,
    .md_open            = vgpu_md_open,
    .cm_open            = (uct_component_cm_open_func_t)
            ucs_empty_function_return_unsupported,
    .rkey_unpack        = vgpu_rkey_unpack,
    .rkey_ptr           = (uct_component_rkey_ptr_func_t)
            ucs_empty_function_return_unsupported,
    .rkey_release       = (uct_component_rkey_release_func_t)
            ucs_empty_function_return_success,
    UCT_VQP_COMPONENT_REST(uct_base_rkey_compare)
    .name               = "vgpu",
    .md_config          = UCT_MD_DEFAULT_CONFIG_INITIALIZER,
    .cm_config          = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list            = UCT_COMPONENT_TL_LIST_INITIALIZER(&vgpu_component),
    .flags              = 0,
    .md_vfs_init        = (uct_component_md_vfs_init_func_t)ucs_empty_function
};


/* ---- transport: copies between host and device memory ---- */

typedef struct vgpu_iface {
    uct_base_iface_t super;
    uint64_t         id;
} vgpu_iface_t;

typedef struct vgpu_ep {
    uct_base_ep_t super;
} vgpu_ep_t;

typedef struct vgpu_iface_config {
    uct_iface_config_t super;
} vgpu_iface_config_t;

static ucs_config_field_t vgpu_iface_config_table[] = {
    {"", "", NULL, ucs_offsetof(vgpu_iface_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},
    {NULL}
};

static uct_iface_ops_t vgpu_iface_ops;
static uct_iface_internal_ops_t vgpu_internal_ops;

/* UCP passes addresses of device memory on either side, or on both */
static void vgpu_copy(void *dest, const void *src, size_t length)
{
    void *dest_host      = vgpu_host(dest);
    const void *src_host = vgpu_host(src);

    memmove((dest_host != NULL) ? dest_host : dest,
            (src_host != NULL) ? src_host : src, length);
    __atomic_fetch_add(&vgpu_bytes, length, __ATOMIC_RELAXED);
}

static ucs_status_t vgpu_put_short(uct_ep_h ep, const void *buffer, unsigned length,
                                   uint64_t remote, uct_rkey_t rkey)
{
    vgpu_copy((void*)remote, buffer, length);
    return UCS_OK;
}

static ucs_status_t vgpu_get_short(uct_ep_h ep, void *buffer, unsigned length,
                                   uint64_t remote, uct_rkey_t rkey)
{
    vgpu_copy(buffer, (const void*)remote, length);
    return UCS_OK;
}

static ucs_status_t vgpu_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                   uint64_t remote, uct_rkey_t rkey,
                                   uct_completion_t *comp)
{
    vgpu_copy((void*)remote, iov[0].buffer, uct_iov_get_length(&iov[0]));
    return UCS_OK;
}

static ucs_status_t vgpu_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                   uint64_t remote, uct_rkey_t rkey,
                                   uct_completion_t *comp)
{
    vgpu_copy(iov[0].buffer, (const void*)remote, uct_iov_get_length(&iov[0]));
    return UCS_OK;
}

static ucs_status_t vgpu_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    uct_base_iface_query(ucs_derived_of(tl_iface, uct_base_iface_t), attr);
    attr->iface_addr_len          = sizeof(uint64_t);
    attr->cap.flags               = UCT_IFACE_FLAG_CONNECT_TO_IFACE |
                                    UCT_IFACE_FLAG_PUT_SHORT |
                                    UCT_IFACE_FLAG_GET_SHORT |
                                    UCT_IFACE_FLAG_PUT_ZCOPY |
                                    UCT_IFACE_FLAG_GET_ZCOPY |
                                    UCT_IFACE_FLAG_PENDING;
    attr->cap.put.max_short       = UINT_MAX;
    attr->cap.put.max_zcopy       = SIZE_MAX;
    attr->cap.put.opt_zcopy_align = 1;
    attr->cap.put.align_mtu       = 1;
    attr->cap.put.max_iov         = 1;
    attr->cap.get.max_short       = UINT_MAX;
    attr->cap.get.max_zcopy       = SIZE_MAX;
    attr->cap.get.opt_zcopy_align = 1;
    attr->cap.get.align_mtu       = 1;
    attr->cap.get.max_iov         = 1;
    attr->latency                 = ucs_linear_func_make(1e-6, 0);
    attr->bandwidth.dedicated     = 0;
    attr->bandwidth.shared        = 1e10;
    attr->overhead                = 0;
    uct_vqp_iface_attr_rest(attr);
    return UCS_OK;
}

static ucs_status_t vgpu_get_address(uct_iface_h iface, uct_iface_addr_t *addr)
{
    uint64_t id = ucs_derived_of(iface, vgpu_iface_t)->id;

    memcpy(addr, &id, sizeof(id)); /* UCP packs addresses without gaps */
    return UCS_OK;
}

/* Only by the own worker: it is no way to others */
static int vgpu_is_reachable(const uct_iface_h iface, const uct_device_addr_t *dev,
                             const uct_iface_addr_t *addr)
{
    return (addr != NULL) &&
           !memcmp(addr, &ucs_derived_of(iface, vgpu_iface_t)->id, sizeof(uint64_t));
}

#if UCT_VQP_UCX_SINCE(1, 15)
static int vgpu_is_reachable_v2(const uct_iface_h iface,
                                const uct_iface_is_reachable_params_t *params)
{
    return (params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR) &&
           vgpu_is_reachable(iface, NULL, params->iface_addr);
}
#endif

static UCS_CLASS_INIT_FUNC(vgpu_iface_t, uct_md_h md, uct_worker_h worker,
                           const uct_iface_params_t *params,
                           const uct_iface_config_t *config)
{
    UCS_CLASS_CALL_SUPER_INIT(uct_base_iface_t, &vgpu_iface_ops, &vgpu_internal_ops,
                              md, worker, params, config UCS_STATS_ARG(NULL)
                              UCS_STATS_ARG("vgpu"));
    self->id = ucs_generate_uuid((uintptr_t)self);
    return UCS_OK;
}

static UCS_CLASS_CLEANUP_FUNC(vgpu_iface_t)
{
    uct_base_iface_progress_disable(&self->super.super,
                                    UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

UCS_CLASS_DEFINE(vgpu_iface_t, uct_base_iface_t);
static UCS_CLASS_DEFINE_NEW_FUNC(vgpu_iface_t, uct_iface_t, uct_md_h, uct_worker_h,
                                 const uct_iface_params_t*,
                                 const uct_iface_config_t*);
static UCS_CLASS_DEFINE_DELETE_FUNC(vgpu_iface_t, uct_iface_t);

static UCS_CLASS_INIT_FUNC(vgpu_ep_t, const uct_ep_params_t *params)
{
    UCS_CLASS_CALL_SUPER_INIT(uct_base_ep_t,
                              ucs_derived_of(params->iface, uct_base_iface_t));
    return UCS_OK;
}

static UCS_CLASS_CLEANUP_FUNC(vgpu_ep_t)
{
}

UCS_CLASS_DEFINE(vgpu_ep_t, uct_base_ep_t);
static UCS_CLASS_DEFINE_NEW_FUNC(vgpu_ep_t, uct_ep_t, const uct_ep_params_t*);
static UCS_CLASS_DEFINE_DELETE_FUNC(vgpu_ep_t, uct_ep_t);

static uct_iface_ops_t vgpu_iface_ops = {
    .ep_put_short             = vgpu_put_short,
    .ep_get_short             = vgpu_get_short,
    .ep_put_zcopy             = vgpu_put_zcopy,
    .ep_get_zcopy             = vgpu_get_zcopy,
    .ep_pending_add           = (uct_ep_pending_add_func_t)
            ucs_empty_function_return_busy,
    .ep_pending_purge         = (uct_ep_pending_purge_func_t)ucs_empty_function,
    .ep_flush                 = uct_base_ep_flush,
    .ep_fence                 = uct_base_ep_fence,
    .ep_create                = UCS_CLASS_NEW_FUNC_NAME(vgpu_ep_t),
    .ep_destroy               = UCS_CLASS_DELETE_FUNC_NAME(vgpu_ep_t),
    .iface_flush              = uct_base_iface_flush,
    .iface_fence              = uct_base_iface_fence,
    .iface_progress_enable    = (uct_iface_progress_enable_func_t)ucs_empty_function,
    .iface_progress_disable   = (uct_iface_progress_disable_func_t)ucs_empty_function,
    .iface_progress           = (uct_iface_progress_func_t)
            ucs_empty_function_return_zero,
    .iface_close              = UCS_CLASS_DELETE_FUNC_NAME(vgpu_iface_t),
    .iface_query              = vgpu_iface_query,
    .iface_get_device_address = (uct_iface_get_device_address_func_t)
            ucs_empty_function_return_success,
    .iface_get_address        = vgpu_get_address,
    .iface_is_reachable       = vgpu_is_reachable
};

static uct_iface_internal_ops_t vgpu_internal_ops = {
    .iface_estimate_perf = uct_base_iface_estimate_perf,
    .iface_vfs_refresh   = (uct_iface_vfs_refresh_func_t)ucs_empty_function,
    .ep_query            = (uct_ep_query_func_t)ucs_empty_function_return_unsupported,
    .ep_invalidate       = (uct_ep_invalidate_func_t)
            ucs_empty_function_return_unsupported,
    UCT_VQP_INTERNAL_OPS_REST(vgpu_is_reachable_v2, uct_base_ep_is_connected)
};

static ucs_status_t vgpu_query_devices(uct_md_h md,
                                       uct_tl_device_resource_t **devices,
                                       unsigned *count)
{
    return uct_single_device_resource(md, "vgpu", UCT_DEVICE_TYPE_ACC,
                                      UCS_SYS_DEVICE_ID_UNKNOWN, devices, count);
}

UCT_TL_DEFINE_ENTRY(&vgpu_component, vgpu, vgpu_query_devices, vgpu_iface_t, "VGPU_",
                    vgpu_iface_config_table, vgpu_iface_config_t);

void vgpu_attach(void)
{
    static int is_known; /* what UCX 1.13 has taken up once it keeps */

    /* UCX learns of allocations from its hooks in CUDA; without its cache it asks each
     * memory domain what an address is */
    (void)ucs_global_opts_set_value("MEMTYPE_CACHE", "n");
    if (!is_known) {
        uct_component_register(&vgpu_component);
        uct_tl_register(&vgpu_component, &UCT_TL_NAME(vgpu));
        is_known = 1;
    }
}

void vgpu_detach(void)
{
    (void)ucs_global_opts_set_value("MEMTYPE_CACHE", "try");
}
