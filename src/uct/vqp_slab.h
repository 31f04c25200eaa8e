/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of connections, of one size each, allocated from slabs. A
 * slab has the remote parts, which peers write into, on pages of their own, and
 * behind them the local parts, which the own device uses. The local parts have
 * one registration without remote access. The remote part of a chunk in use has
 * a registration of its own: its key covers nothing else, and ends with the
 * connection. Chunks may have no remote part. May use UCX and the verbs layer. Under the
 * async block.
 */
#ifndef UCT_VQP_SLAB_H
#define UCT_VQP_SLAB_H

#include "uct/vqp_md.h"

#include <ucs/datastruct/list.h>

#define UCT_VQP_SLAB_CHUNKS 4

typedef struct uct_vqp_slab {
    ucs_list_link_t list;
    char           *memory;
    vqp_ib_mr_t     mr;                          /* of the local parts */
    unsigned        used;                        /* chunks in use */
    uint8_t         is_used[UCT_VQP_SLAB_CHUNKS];
} uct_vqp_slab_t;

/** Memory of one connection. */
typedef struct uct_vqp_chunk {
    char           *remote; /* writable by the peer, page-aligned */
    char           *local;  /* aligned to cache lines; keys: slab->mr */
    uct_vqp_slab_t *slab;
    vqp_ib_mr_t     mr;     /* exact size of the remote part, if there is one */
} uct_vqp_chunk_t;

typedef struct uct_vqp_slabs {
    uct_vqp_md_t   *md;
    size_t          remote_size;   /* bytes of a chunk */
    size_t          remote_stride; /* the same, in whole pages */
    size_t          local_size;    /* bytes of a chunk, in whole cache lines */
    unsigned        count;         /* slabs */
    ucs_list_link_t list;          /* those with a free chunk first */
} uct_vqp_slabs_t;

/** @param [in] remote_size, local_size  Bytes of each chunk's parts; remote_size may be 0. */
void uct_vqp_slabs_init(uct_vqp_slabs_t *slabs, uct_vqp_md_t *md,
                        size_t remote_size, size_t local_size);

/** Release all memory; every chunk must have been returned. */
void uct_vqp_slabs_cleanup(uct_vqp_slabs_t *slabs);

/** Make sure that there is a slab, which stays. Errors as those of uct_vqp_slabs_get(). */
ucs_status_t uct_vqp_slabs_reserve(uct_vqp_slabs_t *slabs, vqp_ib_log_level_t level);

/** Is there a chunk that takes no new memory? */
static inline int uct_vqp_slabs_has_chunk(uct_vqp_slabs_t *slabs)
{
    return !ucs_list_is_empty(&slabs->list) &&
           (ucs_list_head(&slabs->list, uct_vqp_slab_t, list)->used < UCT_VQP_SLAB_CHUNKS);
}

/**
 * Get a chunk: zeroed, and with its remote part registered, if it has one.
 *
 * @param level  Of the message that it fails.
 * @return UCS_OK, UCS_ERR_NO_MEMORY or the error of the registration (logged).
 */
ucs_status_t uct_vqp_slabs_get(uct_vqp_slabs_t *slabs, uct_vqp_chunk_t *chunk,
                               vqp_ib_log_level_t level);

/** Return a chunk: its remote key ends. A slab without used chunks is released,
 *  except for one. */
void uct_vqp_slabs_put(uct_vqp_slabs_t *slabs, uct_vqp_chunk_t *chunk);

#endif
