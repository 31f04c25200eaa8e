/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded cache of address handles, for the control queue pair. May call
 * libibverbs. One thread at a time.
 */
#ifndef VQP_IB_AH_H
#define VQP_IB_AH_H

#include "verbs/av.h"
#include "verbs/dev.h"
#include "verbs/resolve.h"

typedef struct vqp_ib_ah {
    struct ibv_ah *ah;
    vqp_ib_av_t   av;
    uint64_t      last_send;  /* sequence number of the last send with it */
} vqp_ib_ah_t;

typedef struct vqp_ib_ah_cache {
    const vqp_ib_dev_t *dev;
    vqp_ib_resolver_t  *resolver;
    vqp_ib_ah_t        *entries;
    uint32_t           num;      /* in use; [0, num) */
    uint32_t           max;
    uint64_t           created;  /* ever; a counter */
} vqp_ib_ah_cache_t;

/** @return VQP_OK or VQP_ERR_NO_MEMORY (logged) */
vqp_status_t vqp_ib_ah_cache_init(vqp_ib_ah_cache_t *cache,
                                  const vqp_ib_dev_t *dev,
                                  vqp_ib_resolver_t *resolver, uint32_t max);

/** Destroy all handles; no send that uses one may be outstanding */
void vqp_ib_ah_cache_cleanup(vqp_ib_ah_cache_t *cache);

/**
 * No handle is used any more: each further get creates one. Those that sends may
 * still use are destroyed when their place is taken.
 *
 * @param completed  As of vqp_ib_ah_cache_get().
 */
void vqp_ib_ah_cache_retire(vqp_ib_ah_cache_t *cache, uint64_t completed);

/**
 * Get the handle for an address vector. A missing one is created, in place of the
 * least recently used idle one if the cache is full, when its address is resolved.
 *
 * @param av         All bytes are compared: zero it before filling it.
 * @param send       Sequence number of the send that will use it.
 * @param completed  All sends below this number are complete: handles last
 *                   used by one of them are idle.
 * @return VQP_OK; VQP_ERR_NO_RESOURCE: all are busy; VQP_INPROGRESS,
 *         VQP_ERR_UNREACHABLE: see vqp_ib_resolve(); else logged.
 */
vqp_status_t vqp_ib_ah_cache_get(vqp_ib_ah_cache_t *cache,
                                 const vqp_ib_av_t *av, uint64_t send,
                                 uint64_t completed, struct ibv_ah **ah_p);

#endif
