/* Memory handles, see vqp_mem.h. */
#include "uct/vqp_mem.h"

/* Remote write access is optional: UCP registers send buffers with all flags, even
 * read-only mappings */
static void uct_vqp_access(unsigned flags, vqp_ib_mr_params_t *params)
{
    params->access = params->optional = 0;
    if (!(flags & UCT_MD_MEM_ACCESS_ALL)) {
        flags |= UCT_MD_MEM_ACCESS_ALL; /* ucp_mem_map of UCX 1.15 and newer */
    }
    if (flags & UCT_MD_MEM_ACCESS_LOCAL_WRITE) {
        params->optional |= VQP_IB_ACCESS_LOCAL_WRITE;
    }
    if (flags & UCT_MD_MEM_ACCESS_REMOTE_PUT) {
        params->optional |= VQP_IB_ACCESS_REMOTE_WRITE;
    }
    if (flags & UCT_MD_MEM_ACCESS_REMOTE_ATOMIC) {
        params->optional |= VQP_IB_ACCESS_REMOTE_ATOMIC;
    }
    if (flags & UCT_MD_MEM_ACCESS_REMOTE_GET) {
        params->access |= VQP_IB_ACCESS_REMOTE_READ;
    }
}

vqp_status_t uct_vqp_mem_register(uct_vqp_mem_t *mem, const uct_vqp_reg_t *reg,
                                  vqp_ib_mr_params_t *params, unsigned flags)
{
    uct_vqp_access(flags, params);
    if (reg->relaxed_ordering) {
        params->access |= VQP_IB_ACCESS_RELAXED_ORDERING;
    }

    params->parallel    = reg->parallel;
    mem->may_invalidate = 0;
    mem->is_cached      = 0;
    return vqp_ib_mr_reg(&mem->mr, reg->devs, reg->num_rails, params);
}
