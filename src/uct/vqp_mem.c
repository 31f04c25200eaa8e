/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles, see vqp_mem.h. */
#include "uct/vqp_mem.h"

/* All access, whatever a caller asks for, as UCX's IB domain gives it: UCP before 1.18
 * keeps a handle for one caller and gives it to the next one, which asks for more. Write
 * access is optional: UCP sends from read-only mappings, too */
vqp_status_t uct_vqp_mem_register(uct_vqp_mem_t *mem, const uct_vqp_reg_t *reg,
                                  vqp_ib_mr_params_t *params)
{
    params->access   = VQP_IB_ACCESS_REMOTE_READ;
    params->optional = VQP_IB_ACCESS_LOCAL_WRITE | VQP_IB_ACCESS_REMOTE_WRITE |
                       VQP_IB_ACCESS_REMOTE_ATOMIC;
    if (reg->relaxed_ordering) {
        params->access |= VQP_IB_ACCESS_RELAXED_ORDERING;
    }

    params->parallel    = reg->parallel;
    mem->may_invalidate = 0;
    mem->is_cached      = 0;
    mem->is_host        = reg->is_all_host && (params->dmabuf == NULL);
    return vqp_ib_mr_reg(&mem->mr, reg->devs, reg->num_rails, params);
}
