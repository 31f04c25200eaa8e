/* SPDX-License-Identifier: BSD-3-Clause */
/* The registration cache, see vqp_rcache.h. */
#include "uct/vqp_rcache.h"

#if UCT_VQP_HAS_RCACHE

#include <ucm/api/ucm.h>
#include <ucs/debug/log.h>
#include <ucs/stats/stats.h>

#include <stdio.h>
#include <string.h>

typedef struct uct_vqp_rcache_region {
    ucs_rcache_region_t super;
    uct_vqp_mem_t       mem;
} uct_vqp_rcache_region_t;

static uct_vqp_rcache_region_t *uct_vqp_rcache_region(ucs_rcache_region_t *super)
{
    return ucs_derived_of(super, uct_vqp_rcache_region_t);
}

/* A region that fails is none of UCX's: it would stay, and what overlaps with it would
 * become a part of it. It has no rails instead, and uct_vqp_rcache_get() drops it. But UCX
 * wants an error where it has merged regions (HIDE_ERRORS), also when not all of them can
 * be written: then it registers without the others */
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
    vqp_status_t status;

    status                = uct_vqp_mem_register(&region->mem, context, &params);
    region->mem.is_cached = 1;
    if (status != VQP_OK) {
        memset(&region->mem.mr, 0, sizeof(region->mem.mr));
    }
    if (!(flags & UCS_RCACHE_MEM_REG_HIDE_ERRORS) ||
        (region->mem.mr.access & VQP_IB_ACCESS_REMOTE_WRITE)) {
        return UCS_OK;
    }

    (void)vqp_ib_mr_dereg(&region->mem.mr);
    return UCS_ERR_NO_MEMORY;
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

    /* What is kept would take what the next buffer, or the next peer, needs: the cache
     * evicts for its own limits only */
    if ((config->enable != UCS_YES) && (vqp_ib_mr_limit() != SIZE_MAX)) {
        ucs_debug("%s: no registration cache: locked memory is limited to %zu bytes", name,
                  vqp_ib_mr_limit());
        return UCS_OK;
    }

    uct_md_set_rcache_params(&params, &config->ucx);
    params.region_struct_size = sizeof(uct_vqp_rcache_region_t);
    params.max_alignment      = ucs_get_page_size();
    params.ucm_events         = UCM_EVENT_VM_UNMAPPED |
                                (others ? UCM_EVENT_MEM_TYPE_FREE : 0);
    params.context            = (void*)reg;
    params.ops                = &uct_vqp_rcache_ops;

    status = ucs_rcache_create(&params, name, ucs_stats_get_root(), &rcache->cache);
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

    if ((rcache->cache == NULL) || (length - 1 > UINTPTR_MAX - (uintptr_t)address) ||
        (ucs_rcache_get(rcache->cache, address, length, PROT_READ | PROT_WRITE, NULL,
                        &super) != UCS_OK)) {
        return NULL;
    }

    mem = &uct_vqp_rcache_region(super)->mem;
    if (!(mem->mr.access & VQP_IB_ACCESS_REMOTE_WRITE)) {
        /* The mapping may become writable, without an event: for this caller only */
        ucs_rcache_region_invalidate(rcache->cache, super, uct_vqp_rcache_forgotten, NULL);
    }
    if (mem->mr.num_rails == 0) {
        ucs_rcache_region_put(rcache->cache, super);
        return NULL;
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
