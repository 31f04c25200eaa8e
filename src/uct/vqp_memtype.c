/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory a domain can register, see vqp_memtype.h. */
#include "uct/vqp_memtype.h"

#include "verbs/mr.h"

#include <ucs/debug/log.h>

#include <unistd.h>

/* A driver that registers with the kernel's RDMA, so that ibv_reg_mr() takes addresses
 * of its memory. Its path depends on its version. */
static const struct {
    const char        *path;
    ucs_memory_type_t type;
} uct_vqp_peer_drivers[] = {
    {"/sys/kernel/mm/memory_peers/nv_mem/version", UCS_MEMORY_TYPE_CUDA},
    {"/sys/module/nvidia_peermem/version",         UCS_MEMORY_TYPE_CUDA},
    {"/sys/module/nv_peer_mem/version",            UCS_MEMORY_TYPE_CUDA},
    {"/dev/kfd",                                   UCS_MEMORY_TYPE_ROCM}
};

static int
uct_vqp_memtypes_all_have_dmabuf(vqp_ib_dev_t *const *devs, unsigned num_devs)
{
    unsigned i;

    if (UCT_VQP_MD_FLAG_REG_DMABUF == 0) {
        return 0; /* this UCX has no way to pass a descriptor */
    }

    for (i = 0; i < num_devs; ++i) {
        if (!vqp_ib_mr_has_dmabuf(devs[i])) {
            ucs_debug("%s: registers no dmabuf descriptors", devs[i]->name);
            return 0;
        }
    }

    return 1;
}

ucs_status_t uct_vqp_memtypes_init(uct_vqp_memtypes_t *types,
                                   vqp_ib_dev_t *const *devs, unsigned num_devs,
                                   ucs_ternary_auto_value_t setting)
{
    const uint64_t host = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    unsigned i;

    types->reg        = host;
    types->has_dmabuf = 0;
    for (i = 0; i < ucs_static_array_size(uct_vqp_peer_drivers); ++i) {
        if (access(uct_vqp_peer_drivers[i].path, F_OK) == 0) {
            ucs_debug("%s: %s memory can be registered, since there is %s", devs[0]->name,
                      ucs_memory_type_names[uct_vqp_peer_drivers[i].type],
                      uct_vqp_peer_drivers[i].path);
            types->reg |= UCS_BIT(uct_vqp_peer_drivers[i].type);
        }
    }

    types->is_all_host = types->reg == host;
    if (setting == UCS_NO) {
        types->reg = host;
        return UCS_OK;
    }

    types->has_dmabuf = uct_vqp_memtypes_all_have_dmabuf(devs, num_devs);
    if ((setting == UCS_YES) && (types->reg == host) && !types->has_dmabuf) {
        ucs_error("%s: UCX_VQP_GPU_DIRECT_RDMA=y, but neither nvidia_peermem nor "
                  "amdgpu offers GPU memory to RDMA devices, and dmabuf "
                  "descriptors can not be registered", devs[0]->name);
        return UCS_ERR_UNSUPPORTED;
    }

    return UCS_OK;
}
