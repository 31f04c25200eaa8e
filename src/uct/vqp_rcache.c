/* The registration cache, see vqp_rcache.h. */
#include "uct/vqp_rcache.h"

#if UCT_VQP_HAS_RCACHE

#include <ucm/api/ucm.h>
#include <ucs/debug/log.h>

#include <stdio.h>

#define UCT_VQP_RCACHE_LIMIT_PART 8

typedef struct uct_vqp_rcache_region {
    ucs_rcache_region_t super;
    uct_vqp_mem_t       mem;
} uct_vqp_rcache_region_t;

static uct_vqp_rcache_region_t *uct_vqp_rcache_region(ucs_rcache_region_t *super)
{
    return ucs_derived_of(super, uct_vqp_rcache_region_t);
}

/* UCX may have grown the region to all of several that overlap. UCX keeps a region that
 * failed, and its error: who asks then registers by itself, and logs what is wrong */
static ucs_status_t
uct_vqp_rcache_mem_reg(void *context, ucs_rcache_t *rcache, void *arg,
                       ucs_rcache_region_t *super, uint16_t flags)
{
    uct_vqp_rcache_region_t *region = uct_vqp_rcache_region(super);
    vqp_ib_mr_params_t params       = {
        .address   = (void*)super->super.start,
        .length    = super->super.end - super->super.start,
        .log_level = VQP_IB_LOG_NONE
    };

    if (uct_vqp_mem_register(&region->mem, context, &params) != VQP_OK) {
        return UCS_ERR_NO_MEMORY;
    }

    region->mem.is_cached = 1;
    return UCS_OK;
}

static void uct_vqp_rcache_mem_dereg(void *context, ucs_rcache_t *rcache,
                                     ucs_rcache_region_t *super)
{
    (void)vqp_ib_mr_dereg(&uct_vqp_rcache_region(super)->mem.mr);
}

static void uct_vqp_rcache_dump(void *context, ucs_rcache_t *rcache,
                                ucs_rcache_region_t *super, char *buffer, size_t max)
{
    const vqp_ib_mr_t *mr = &uct_vqp_rcache_region(super)->mem.mr;

    snprintf(buffer, max, "%u rails, lkey 0x%x rkey 0x%x", mr->num_rails, mr->lkey[0],
             mr->rkey[0]);
}

static const ucs_rcache_ops_t uct_vqp_rcache_ops = {
    .mem_reg     = uct_vqp_rcache_mem_reg,
    .mem_dereg   = uct_vqp_rcache_mem_dereg,
    .dump_region = uct_vqp_rcache_dump
};

ucs_status_t uct_vqp_rcache_init(uct_vqp_rcache_t *rcache, const uct_vqp_reg_t *reg,
                                 const uct_vqp_rcache_config_t *config,
                                 const char *name, int others)
{
    ucs_rcache_params_t params;
    ucs_status_t status;

    rcache->cache = NULL;
    if (config->enable == UCS_NO) {
        return UCS_OK;
    }

    uct_md_set_rcache_params(&params, &config->ucx);
    params.region_struct_size = sizeof(uct_vqp_rcache_region_t);
    params.max_alignment      = ucs_get_page_size();
    params.ucm_events         = UCM_EVENT_VM_UNMAPPED |
                                (others ? UCM_EVENT_MEM_TYPE_FREE : 0);
    params.context            = (void*)reg;
    params.ops                = &uct_vqp_rcache_ops;
    /* What is only kept takes no more of the lock limit than the rings of busy peers may.
     * Each rail pins for itself */
    params.max_size       = ucs_min(params.max_size,
                                    vqp_ib_mr_limit() /
                                            (UCT_VQP_RCACHE_LIMIT_PART * reg->num_rails));
    /* What was unmapped stays pinned until it is released */
    params.max_unreleased = ucs_min(params.max_unreleased, params.max_size);

    status = ucs_rcache_create(&params, name, NULL, &rcache->cache);
    if (status == UCS_OK) {
        rcache->cost = uct_md_rcache_overhead(&config->ucx);
        return UCS_OK;
    }

    rcache->cache = NULL;
    if (config->enable == UCS_YES) {
        ucs_error("%s: there is no registration cache, and UCX_VQP_RCACHE=y wants one: %s",
                  name, ucs_status_string(status));
        return status;
    }

    ucs_debug("%s: no registration cache: %s", name, ucs_status_string(status));
    return UCS_OK;
}

void uct_vqp_rcache_cleanup(uct_vqp_rcache_t *rcache)
{
    if (rcache->cache != NULL) {
        ucs_rcache_destroy(rcache->cache);
    }
}

static void uct_vqp_rcache_forgotten(void *arg)
{
}

uct_vqp_mem_t *uct_vqp_rcache_get(uct_vqp_rcache_t *rcache, void *address,
                                  size_t length)
{
    ucs_rcache_region_t *super;
    uct_vqp_mem_t *mem;

    if ((rcache->cache == NULL) ||
        (ucs_rcache_get(rcache->cache, address, length, PROT_READ | PROT_WRITE, NULL,
                        &super) != UCS_OK)) {
        return NULL;
    }

    mem = &uct_vqp_rcache_region(super)->mem;
    if (!(mem->mr.access & VQP_IB_ACCESS_REMOTE_WRITE)) {
        /* The mapping may become writable, without an event: for this caller only */
        ucs_rcache_region_invalidate(rcache->cache, super, uct_vqp_rcache_forgotten, NULL);
    }

    return mem;
}

static void uct_vqp_rcache_invalidated(void *arg)
{
    uct_invoke_completion(arg, UCS_OK);
}

void uct_vqp_rcache_put(uct_vqp_rcache_t *rcache, uct_vqp_mem_t *mem,
                        uct_completion_t *invalidated)
{
    ucs_rcache_region_t *super = &ucs_container_of(mem, uct_vqp_rcache_region_t,
                                                   mem)->super;

    if (invalidated != NULL) {
        ucs_rcache_region_invalidate(rcache->cache, super, uct_vqp_rcache_invalidated,
                                     invalidated);
    }
    ucs_rcache_region_put(rcache->cache, super);
}

#else

ucs_status_t uct_vqp_rcache_init(uct_vqp_rcache_t *rcache, const uct_vqp_reg_t *reg,
                                 const uct_vqp_rcache_config_t *config,
                                 const char *name, int others)
{
    rcache->cache = NULL;
    return UCS_OK;
}

void uct_vqp_rcache_cleanup(uct_vqp_rcache_t *rcache)
{
}

uct_vqp_mem_t *uct_vqp_rcache_get(uct_vqp_rcache_t *rcache, void *address,
                                  size_t length)
{
    return NULL;
}

void uct_vqp_rcache_put(uct_vqp_rcache_t *rcache, uct_vqp_mem_t *mem,
                        uct_completion_t *invalidated)
{
}

#endif
