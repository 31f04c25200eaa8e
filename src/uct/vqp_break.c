/* SPDX-License-Identifier: BSD-3-Clause */
/* A failure on purpose, see vqp_break.h. */
#include "uct/vqp_break.h"

#include "uct/vqp_ep.h"

ucs_status_t uct_vqp_ep_break_path(uct_ep_h tl_ep, unsigned path)
{
    ucs_async_context_t *async;
    uct_vqp_t *vqp;
    int is_broken;

    if (tl_ep->iface->ops.ep_flush != uct_vqp_ep_flush) {
        return UCS_ERR_INVALID_PARAM;
    }

    vqp = ucs_derived_of(tl_ep, uct_vqp_ep_t)->vqp;
    if (!vqp_is_connected(&vqp->core) || vqp_is_failed(&vqp->core) ||
        (path >= vqp->core.tx.paths.count) ||
        (vqp->paths[path].fo.state != VQP_PATH_UP)) {
        return UCS_ERR_NO_ELEM;
    }

    async = vqp->iface->super.worker->async;
    UCS_ASYNC_BLOCK(async);
    is_broken = uct_vqp_path_to_error(vqp, path);
    UCS_ASYNC_UNBLOCK(async);
    return is_broken ? UCS_OK : UCS_ERR_IO_ERROR;
}
