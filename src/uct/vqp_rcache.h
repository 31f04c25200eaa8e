/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration cache of a memory domain: memory that its user deregistered stays
 * registered until it is unmapped, so that the next operation on it costs a lookup.
 * The cache is the one of UCX (ucs/memory/rcache.h). Since UCX 1.16 UCP takes all
 * memory from a cache of its own; with these versions a domain has none. May use UCX.
 */
#ifndef UCT_VQP_RCACHE_H
#define UCT_VQP_RCACHE_H

#include "uct/vqp_mem.h"

typedef struct uct_vqp_rcache_config {
    int                    enable; /* ucs_ternary_auto_value_t */
#if UCT_VQP_HAS_RCACHE
    uct_md_rcache_config_t ucx;
#endif
} uct_vqp_rcache_config_t;

typedef struct uct_vqp_rcache {
    struct ucs_rcache *cache; /* NULL: none */
    double            cost;   /* seconds, to register what is in it */
} uct_vqp_rcache_t;

/**
 * Create a cache. Without one (UCX_VQP_RCACHE=n, or try and no memory events or a limit
 * on locked memory) each registration is the devices' own.
 *
 * @param reg     How memory is registered; must outlive the cache.
 * @param name    Of the domain, for messages.
 * @param others  Whether memory of other types than the host's is registered, too.
 * @return UCS_OK
 *         UCX's status, with UCX_VQP_RCACHE=y; it is logged.
 */
ucs_status_t uct_vqp_rcache_init(uct_vqp_rcache_t *rcache, const uct_vqp_reg_t *reg,
                                 const uct_vqp_rcache_config_t *config,
                                 const char *name, int others);

/** Deregister all that is kept. All handles were put back. Also for a cache of zeros. */
void uct_vqp_rcache_cleanup(uct_vqp_rcache_t *rcache);

/**
 * A handle of memory, registered now or before. Any thread.
 *
 * @return The handle, or NULL: there is no cache, or the registration failed. Nothing
 *         was logged; the caller registers by itself.
 */
uct_vqp_mem_t *uct_vqp_rcache_get(uct_vqp_rcache_t *rcache, void *address,
                                  size_t length);

/**
 * Give back a handle of uct_vqp_rcache_get(). Any thread.
 *
 * @param invalidated  NULL: the memory stays registered. Otherwise it is
 *                     deregistered, and this is completed when all who have the
 *                     handle have given it back: from here on no new one gets it.
 */
void uct_vqp_rcache_put(uct_vqp_rcache_t *rcache, uct_vqp_mem_t *mem,
                        uct_completion_t *invalidated);

#endif
