/* SPDX-License-Identifier: BSD-3-Clause */
/* Ring memory, see vqp_slab.h. */
#include "uct/vqp_slab.h"

#include <ucs/arch/cpu.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/sys/sys.h>

#include <sys/mman.h>

void uct_vqp_slabs_init(uct_vqp_slabs_t *slabs, uct_vqp_md_t *md,
                        size_t remote_size, size_t local_size)
{
    slabs->md            = md;
    slabs->remote_size   = remote_size;
    slabs->remote_stride = ucs_align_up_pow2(remote_size, ucs_get_page_size());
    slabs->local_size    = ucs_align_up_pow2(local_size,
                                             UCS_SYS_CACHE_LINE_SIZE);
    ucs_list_head_init(&slabs->list);
}

static char *uct_vqp_slab_remote(const uct_vqp_slabs_t *slabs,
                                 const uct_vqp_slab_t *slab, unsigned index)
{
    return slab->memory + (index * slabs->remote_stride);
}

static char *uct_vqp_slab_local(const uct_vqp_slabs_t *slabs,
                                const uct_vqp_slab_t *slab, unsigned index)
{
    return uct_vqp_slab_remote(slabs, slab, UCT_VQP_SLAB_CHUNKS) +
           (index * slabs->local_size);
}

static size_t uct_vqp_slab_length(const uct_vqp_slabs_t *slabs)
{
    return UCT_VQP_SLAB_CHUNKS * (slabs->remote_stride + slabs->local_size);
}

static void
uct_vqp_slab_release(uct_vqp_slabs_t *slabs, uct_vqp_slab_t *slab)
{
    --slabs->count;
    ucs_list_del(&slab->list);
    (void)vqp_ib_mr_dereg(&slab->mr);
    munmap(slab->memory, uct_vqp_slab_length(slabs));
    ucs_free(slab);
}

static ucs_status_t
uct_vqp_slab_register(const uct_vqp_slabs_t *slabs, vqp_ib_mr_t *mr, void *address,
                      size_t length, unsigned access, vqp_ib_log_level_t level)
{
    vqp_ib_mr_params_t params = {
        .address   = address,
        .length    = length,
        .access    = access,
        .log_level = level
    };

    return uct_vqp_status(vqp_ib_mr_reg(mr, slabs->md->dev_ptrs,
                                        slabs->md->num_rails, &params));
}

void uct_vqp_slabs_cleanup(uct_vqp_slabs_t *slabs)
{
    uct_vqp_slab_t *slab, *next;

    ucs_list_for_each_safe(slab, next, &slabs->list, list) {
        ucs_assertv(slab->used == 0, "%u ring chunks are still used",
                    slab->used);
        uct_vqp_slab_release(slabs, slab);
    }
}

static ucs_status_t
uct_vqp_slab_create(uct_vqp_slabs_t *slabs, vqp_ib_log_level_t level,
                    uct_vqp_slab_t **slab_p)
{
    size_t length = uct_vqp_slab_length(slabs);
    ucs_status_t status;
    uct_vqp_slab_t *slab;

    slab = ucs_calloc(1, sizeof(*slab), "uct_vqp_slab");
    if (slab == NULL) {
        vqp_ib_log(level, "failed to allocate a ring slab");
        return UCS_ERR_NO_MEMORY;
    }

    slab->memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab->memory == MAP_FAILED) {
        vqp_ib_log(level, "failed to map %zu bytes for active message rings: %s", length,
                   strerror(errno));
        status = UCS_ERR_NO_MEMORY;
        goto err_free;
    }

    status = uct_vqp_slab_register(slabs, &slab->mr,
                                   uct_vqp_slab_local(slabs, slab, 0),
                                   UCT_VQP_SLAB_CHUNKS * slabs->local_size,
                                   VQP_IB_ACCESS_LOCAL_WRITE, level);
    if (status != UCS_OK) {
        goto err_unmap;
    }

    ++slabs->count;
    ucs_list_add_head(&slabs->list, &slab->list);
    *slab_p = slab;
    return UCS_OK;

err_unmap:
    munmap(slab->memory, length);
err_free:
    ucs_free(slab);
    return status;
}

ucs_status_t uct_vqp_slabs_reserve(uct_vqp_slabs_t *slabs, vqp_ib_log_level_t level)
{
    uct_vqp_slab_t *slab;

    return ucs_list_is_empty(&slabs->list) ?
                   uct_vqp_slab_create(slabs, level, &slab) : UCS_OK;
}

static unsigned uct_vqp_slab_use(uct_vqp_slabs_t *slabs, uct_vqp_slab_t *slab)
{
    unsigned index = 0;

    while (slab->is_used[index]) {
        ++index;
    }

    slab->is_used[index] = 1;
    if (++slab->used == UCT_VQP_SLAB_CHUNKS) {
        ucs_list_del(&slab->list);
        ucs_list_add_tail(&slabs->list, &slab->list);
    }
    return index;
}

static void uct_vqp_slab_unuse(uct_vqp_slabs_t *slabs, uct_vqp_slab_t *slab,
                               unsigned index)
{
    slab->is_used[index] = 0;
    ucs_list_del(&slab->list);
    ucs_list_add_head(&slabs->list, &slab->list);
    if ((--slab->used == 0) && !ucs_list_is_only(&slabs->list, &slab->list)) {
        uct_vqp_slab_release(slabs, slab);
    }
}

ucs_status_t uct_vqp_slabs_get(uct_vqp_slabs_t *slabs, uct_vqp_chunk_t *chunk,
                               vqp_ib_log_level_t level)
{
    uct_vqp_slab_t *slab;
    unsigned index;
    ucs_status_t status;

    if (uct_vqp_slabs_has_chunk(slabs)) {
        slab = ucs_list_head(&slabs->list, uct_vqp_slab_t, list);
    } else {
        status = uct_vqp_slab_create(slabs, level, &slab);
        if (status != UCS_OK) {
            return status;
        }
    }

    index         = uct_vqp_slab_use(slabs, slab);
    chunk->slab   = slab;
    chunk->remote = uct_vqp_slab_remote(slabs, slab, index);
    chunk->local  = uct_vqp_slab_local(slabs, slab, index);
    memset(chunk->local, 0, slabs->local_size);
    if (slabs->remote_size == 0) {
        return UCS_OK;
    }

    memset(chunk->remote, 0, slabs->remote_size);

    status = uct_vqp_slab_register(slabs, &chunk->mr, chunk->remote,
                                   slabs->remote_size,
                                   VQP_IB_ACCESS_LOCAL_WRITE |
                                   VQP_IB_ACCESS_REMOTE_WRITE, level);
    if (status != UCS_OK) {
        uct_vqp_slab_unuse(slabs, slab, index);
    }

    return status;
}

void uct_vqp_slabs_put(uct_vqp_slabs_t *slabs, uct_vqp_chunk_t *chunk)
{
    unsigned index = (unsigned)((chunk->local -
                                 uct_vqp_slab_local(slabs, chunk->slab, 0)) /
                                (ptrdiff_t)slabs->local_size);

    if (slabs->remote_size > 0) {
        (void)vqp_ib_mr_dereg(&chunk->mr);
    }
    uct_vqp_slab_unuse(slabs, chunk->slab, index);
}
