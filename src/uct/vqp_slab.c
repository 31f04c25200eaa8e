/* Ring memory, see vqp_slab.h. */
#include "uct/vqp_slab.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/sys/sys.h>

#include <sys/mman.h>

void uct_vqp_slabs_init(uct_vqp_slabs_t *slabs, uct_vqp_md_t *md,
                        size_t chunk_size)
{
    slabs->md         = md;
    slabs->chunk_size = ucs_align_up_pow2(chunk_size, ucs_get_page_size());
    ucs_list_head_init(&slabs->list);
}

static void uct_vqp_slab_release(uct_vqp_slab_t *slab)
{
    ucs_list_del(&slab->list);
    (void)vqp_ib_mr_dereg(&slab->mr);
    munmap(slab->memory, slab->length);
    ucs_free(slab);
}

void uct_vqp_slabs_cleanup(uct_vqp_slabs_t *slabs)
{
    uct_vqp_slab_t *slab, *next;

    ucs_list_for_each_safe(slab, next, &slabs->list, list) {
        ucs_assertv(slab->used == 0, "%u ring chunks are still used",
                    slab->used);
        uct_vqp_slab_release(slab);
    }
}

static ucs_status_t
uct_vqp_slab_create(uct_vqp_slabs_t *slabs, uct_vqp_slab_t **slab_p)
{
    vqp_ib_mr_params_t params = {
        .access    = VQP_IB_ACCESS_LOCAL_WRITE | VQP_IB_ACCESS_REMOTE_WRITE,
        .log_level = VQP_IB_LOG_ERROR
    };
    ucs_status_t status;
    uct_vqp_slab_t *slab;

    slab = ucs_calloc(1, sizeof(*slab), "uct_vqp_slab");
    if (slab == NULL) {
        ucs_error("failed to allocate a ring slab");
        return UCS_ERR_NO_MEMORY;
    }

    slab->length = slabs->chunk_size * UCT_VQP_SLAB_CHUNKS;
    slab->memory = mmap(NULL, slab->length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab->memory == MAP_FAILED) {
        ucs_error("failed to map %zu bytes for active message rings: %m",
                  slab->length);
        status = UCS_ERR_NO_MEMORY;
        goto err_free;
    }

    params.address = slab->memory;
    params.length  = slab->length;
    status = uct_vqp_status(vqp_ib_mr_reg(&slab->mr, slabs->md->dev_ptrs,
                                          slabs->md->num_rails, &params));
    if (status != UCS_OK) {
        goto err_unmap;
    }

    ucs_list_add_head(&slabs->list, &slab->list);
    *slab_p = slab;
    return UCS_OK;

err_unmap:
    munmap(slab->memory, slab->length);
err_free:
    ucs_free(slab);
    return status;
}

static uct_vqp_slab_t *uct_vqp_slabs_find(uct_vqp_slabs_t *slabs)
{
    uct_vqp_slab_t *slab;

    ucs_list_for_each(slab, &slabs->list, list) {
        if (slab->used < UCT_VQP_SLAB_CHUNKS) {
            return slab;
        }
    }

    return NULL;
}

ucs_status_t uct_vqp_slabs_get(uct_vqp_slabs_t *slabs, void **chunk_p,
                               uct_vqp_slab_t **slab_p)
{
    uct_vqp_slab_t *slab = uct_vqp_slabs_find(slabs);
    unsigned index       = 0;
    ucs_status_t status;

    if (slab == NULL) {
        status = uct_vqp_slab_create(slabs, &slab);
        if (status != UCS_OK) {
            return status;
        }
    }

    while (slab->is_used[index]) {
        ++index;
    }

    slab->is_used[index] = 1;
    ++slab->used;
    *chunk_p = slab->memory + (index * slabs->chunk_size);
    *slab_p  = slab;
    memset(*chunk_p, 0, slabs->chunk_size);
    return UCS_OK;
}

void uct_vqp_slabs_put(uct_vqp_slabs_t *slabs, uct_vqp_slab_t *slab,
                       void *chunk)
{
    unsigned index = (unsigned)(((char*)chunk - slab->memory) /
                                slabs->chunk_size);

    slab->is_used[index] = 0;
    if ((--slab->used == 0) && !ucs_list_is_only(&slabs->list, &slab->list)) {
        uct_vqp_slab_release(slab);
    }
}
