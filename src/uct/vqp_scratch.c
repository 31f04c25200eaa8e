/* Memory for probes of paths, see vqp_scratch.h. */
#include "uct/vqp_scratch.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/sys.h>

#include <string.h>

ucs_status_t uct_vqp_scratch_init(uct_vqp_scratch_t *scratch, uct_vqp_md_t *md)
{
    vqp_ib_mr_params_t params = {
        .length    = 2 * VQP_SCRATCH_SIZE,
        .access    = VQP_IB_ACCESS_LOCAL_WRITE | VQP_IB_ACCESS_REMOTE_WRITE,
        .log_level = VQP_IB_LOG_ERROR
    };
    void *memory;
    ucs_status_t status;

    if (ucs_posix_memalign(&memory, ucs_get_page_size(), params.length,
                           "uct_vqp_scratch") != 0) {
        ucs_error("failed to allocate the memory for probes of paths");
        return UCS_ERR_NO_MEMORY;
    }

    memset(memory, 0, params.length);
    params.address = memory;
    status         = uct_vqp_status(vqp_ib_mr_reg(&scratch->mr, md->dev_ptrs,
                                                  md->num_rails, &params));
    if (status != UCS_OK) {
        ucs_free(memory);
        return status;
    }

    scratch->memory = memory;
    return UCS_OK;
}

void uct_vqp_scratch_cleanup(uct_vqp_scratch_t *scratch)
{
    if (scratch->memory != NULL) {
        (void)vqp_ib_mr_dereg(&scratch->mr);
        ucs_free(scratch->memory);
        scratch->memory = NULL;
    }
}
