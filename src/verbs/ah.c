/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded cache of address handles, for the control queue pair.
 * May call libibverbs.
 */
#include "verbs/ah.h"
#include "verbs/gid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

vqp_status_t vqp_ib_ah_cache_init(vqp_ib_ah_cache_t *cache,
                                  const vqp_ib_dev_t *dev,
                                  vqp_ib_resolver_t *resolver, uint32_t max)
{
    memset(cache, 0, sizeof(*cache));
    cache->dev      = dev;
    cache->resolver = resolver;
    cache->max      = vqp_max(max, 1u);
    cache->entries  = calloc(cache->max, sizeof(*cache->entries));
    if (cache->entries == NULL) {
        vqp_ib_error("%s: failed to allocate %u address handles", dev->name,
                     cache->max);
        return VQP_ERR_NO_MEMORY;
    }

    return VQP_OK;
}

static void vqp_ib_ah_destroy(const vqp_ib_ah_cache_t *cache, vqp_ib_ah_t *ah)
{
    int ret = ibv_destroy_ah(ah->ah);

    if (ret != 0) {
        vqp_ib_warn("%s: ibv_destroy_ah() failed: %s", cache->dev->name,
                    strerror(ret));
    }

    ah->ah = NULL;
}

void vqp_ib_ah_cache_cleanup(vqp_ib_ah_cache_t *cache)
{
    while (cache->num > 0) {
        vqp_ib_ah_destroy(cache, &cache->entries[--cache->num]);
    }

    free(cache->entries);
    cache->entries = NULL;
}

void vqp_ib_ah_cache_retire(vqp_ib_ah_cache_t *cache, uint64_t completed)
{
    vqp_ib_ah_t *ah;
    uint32_t i;

    for (i = cache->num; i-- > 0;) {
        ah = &cache->entries[i];
        if (ah->last_send < completed) {
            vqp_ib_ah_destroy(cache, ah);
            *ah = cache->entries[--cache->num];
        } else {
            ah->av.port = 0; /* no address vector has it */
        }
    }
}

static vqp_status_t vqp_ib_ah_create(vqp_ib_ah_cache_t *cache, vqp_ib_ah_t *ah,
                                     const vqp_ib_av_t *av)
{
    char gid[VQP_IB_GID_STR_MAX];
    struct ibv_ah_attr attr;
    vqp_status_t status;

    vqp_ib_av_fill(av, &attr);
    ah->ah = ibv_create_ah(cache->dev->pd, &attr);
    if (ah->ah == NULL) {
        status = vqp_ib_errno_status(errno);
        /* What was to be sent is sent again */
        vqp_ib_log((status == VQP_ERR_UNREACHABLE) ? VQP_IB_LOG_DIAG : VQP_IB_LOG_FAULT,
                   "%s:%u: ibv_create_ah(%s, LID %u, GID index %u) failed: %s",
                   cache->dev->name, av->port,
                   av->is_global ? vqp_ib_gid_str(av->dgid, gid, sizeof(gid)) :
                                   "no GID",
                   av->dlid, av->sgid_index, strerror(errno));
        return (status == VQP_OK) ? VQP_ERR_IO : status;
    }

    ah->av = *av;
    ++cache->created;
    return VQP_OK;
}

/* An entry without a handle: a new one, or the least recently used idle one;
 * NULL: all are busy */
static vqp_ib_ah_t *vqp_ib_ah_make_room(vqp_ib_ah_cache_t *cache,
                                        uint64_t completed)
{
    vqp_ib_ah_t *oldest = &cache->entries[0];
    uint32_t i;

    if (cache->num < cache->max) {
        return &cache->entries[cache->num++];
    }

    for (i = 1; i < cache->num; ++i) {
        if (cache->entries[i].last_send < oldest->last_send) {
            oldest = &cache->entries[i];
        }
    }

    if (oldest->last_send >= completed) {
        return NULL;
    }

    vqp_ib_ah_destroy(cache, oldest);
    return oldest;
}

vqp_status_t vqp_ib_ah_cache_get(vqp_ib_ah_cache_t *cache,
                                 const vqp_ib_av_t *av, uint64_t send,
                                 uint64_t completed, struct ibv_ah **ah_p)
{
    vqp_status_t status;
    vqp_ib_ah_t *ah;
    uint32_t i;

    for (i = 0; i < cache->num; ++i) {
        ah = &cache->entries[i];
        if (!memcmp(&ah->av, av, sizeof(*av))) {
            goto out;
        }
    }

    status = vqp_ib_resolve(cache->resolver, av);
    if (status != VQP_OK) {
        return status;
    }

    ah = vqp_ib_ah_make_room(cache, completed);
    if (ah == NULL) {
        return VQP_ERR_NO_RESOURCE;
    }

    status = vqp_ib_ah_create(cache, ah, av);
    if (status != VQP_OK) {
        /* Close the hole with the last entry */
        *ah = cache->entries[--cache->num];
        return status;
    }

out:
    ah->last_send = send;
    *ah_p         = ah->ah;
    return VQP_OK;
}
