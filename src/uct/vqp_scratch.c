/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for probes of paths, see vqp_scratch.h. */
#include "uct/vqp_scratch.h"

#include "verbs/pinned.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/sys/sys.h>

#include <string.h>

static ucs_status_t
uct_vqp_scratch_register(uct_vqp_md_t *md, void *address, unsigned access,
                         vqp_ib_mr_t *mr)
{
    vqp_ib_mr_params_t params = {
        .address   = address,
        .length    = VQP_SCRATCH_SIZE,
        .access    = access,
        .log_level = VQP_IB_LOG_ERROR
    };

    return uct_vqp_status(vqp_ib_mr_reg(mr, md->dev_ptrs, md->num_rails, &params));
}

ucs_status_t uct_vqp_scratch_init(uct_vqp_scratch_t *scratch, uct_vqp_md_t *md)
{
    /* Whole pages: after a fork the child may lack pages that are registered */
    size_t size = ucs_align_up_pow2(2 * VQP_SCRATCH_SIZE, ucs_get_page_size());
    void *memory;
    ucs_status_t status;

    UCS_STATIC_ASSERT(VQP_IB_PINNED_PROBES == 2 * VQP_SCRATCH_SIZE);

    if (ucs_posix_memalign(&memory, ucs_get_page_size(), size, "uct_vqp_scratch") != 0) {
        ucs_error("failed to allocate the memory for probes of paths");
        return UCS_ERR_NO_MEMORY;
    }

    memset(memory, 0, size);
    status = uct_vqp_scratch_register(md, memory,
                                      VQP_IB_ACCESS_LOCAL_WRITE |
                                      VQP_IB_ACCESS_REMOTE_WRITE,
                                      &scratch->target_mr);
    if (status != UCS_OK) {
        goto err_free;
    }

    status = uct_vqp_scratch_register(md, (char*)memory + VQP_SCRATCH_SIZE, 0,
                                      &scratch->source_mr);
    if (status != UCS_OK) {
        goto err_deregister;
    }

    scratch->target = memory;
    scratch->source = scratch->target + VQP_SCRATCH_SIZE;
    return UCS_OK;

err_deregister:
    (void)vqp_ib_mr_dereg(&scratch->target_mr);
err_free:
    ucs_free(memory);
    return status;
}

void uct_vqp_scratch_cleanup(uct_vqp_scratch_t *scratch)
{
    if (scratch->target != NULL) {
        (void)vqp_ib_mr_dereg(&scratch->source_mr);
        (void)vqp_ib_mr_dereg(&scratch->target_mr);
        ucs_free(scratch->target);
        scratch->target = NULL;
    }
}
