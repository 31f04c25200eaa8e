/*
 * Ring memory: chunks of one size carved from slabs, each slab registered once
 * with every rail. May use UCX and the verbs layer. Under the async block.
 */
#ifndef UCT_VQP_SLAB_H
#define UCT_VQP_SLAB_H

#include "uct/vqp_md.h"

#include <ucs/datastruct/list.h>

#define UCT_VQP_SLAB_CHUNKS 4

typedef struct uct_vqp_slab {
    ucs_list_link_t list;
    char           *memory;
    size_t          length;
    vqp_ib_mr_t     mr;
    unsigned        used;                        /* chunks in use */
    uint8_t         is_used[UCT_VQP_SLAB_CHUNKS];
} uct_vqp_slab_t;

typedef struct uct_vqp_slabs {
    uct_vqp_md_t   *md;
    size_t          chunk_size; /* bytes, page-aligned */
    ucs_list_link_t list;
} uct_vqp_slabs_t;

/** @param [in] chunk_size  Bytes; rounded up to whole pages. */
void uct_vqp_slabs_init(uct_vqp_slabs_t *slabs, uct_vqp_md_t *md,
                        size_t chunk_size);

/** Release all memory; every chunk must have been given back. */
void uct_vqp_slabs_cleanup(uct_vqp_slabs_t *slabs);

/**
 * Get a zeroed chunk.
 *
 * @param [out] slab_p  Its slab: has the keys, and takes it back.
 *
 * @return UCS_OK, UCS_ERR_NO_MEMORY or what registration says (logged).
 */
ucs_status_t uct_vqp_slabs_get(uct_vqp_slabs_t *slabs, void **chunk_p,
                               uct_vqp_slab_t **slab_p);

/** Give a chunk back. A slab without used chunks is released, but for one. */
void uct_vqp_slabs_put(uct_vqp_slabs_t *slabs, uct_vqp_slab_t *slab,
                       void *chunk);

#endif
