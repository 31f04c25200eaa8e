/* SPDX-License-Identifier: BSD-3-Clause */
/* The post site, see post.h. May call libibverbs. */
#include "verbs/post.h"
#include "verbs/log.h"

#include <string.h>

/* The core's element has the layout of the verbs structure */
_Static_assert((sizeof(vqp_sge_t) == sizeof(struct ibv_sge)) &&
               (offsetof(vqp_sge_t, addr) == offsetof(struct ibv_sge, addr)) &&
               (offsetof(vqp_sge_t, length) ==
                offsetof(struct ibv_sge, length)) &&
               (offsetof(vqp_sge_t, lkey) == offsetof(struct ibv_sge, lkey)),
               "vqp_sge_t is not struct ibv_sge");

_Static_assert(((int)VQP_FRAG_FENCE == (int)IBV_SEND_FENCE) &&
               ((int)VQP_FRAG_SIGNALED == (int)IBV_SEND_SIGNALED) &&
               ((int)VQP_FRAG_INLINE == (int)IBV_SEND_INLINE),
               "VQP_FRAG_* are not IBV_SEND_*");

_Static_assert((VQP_WR_WRITE == 0) && (VQP_WR_WRITE_IMM == 1) &&
               (VQP_WR_READ == 2) && (VQP_WR_FADD == 3) &&
               (VQP_WR_CSWAP == 4), "vqp_ib_opcodes is in another order");

void vqp_ib_post_error(const vqp_ib_path_t *path, int error)
{
    vqp_ib_log(path->rc.level, "ibv_post_send on %s qp 0x%x failed: %s",
               path->rc.dev_name, path->rc.qpn, strerror(error));
}

static vqp_status_t vqp_ib_post_chain(vqp_ib_path_t *path,
                                      struct ibv_send_wr *first,
                                      struct ibv_send_wr **bad)
{
    int ret = ibv_post_send(path->qp, first, bad);

    if (vqp_likely(ret == 0)) {
        return VQP_OK;
    }

    vqp_ib_post_error(path, ret);
    return VQP_ERR_IO;
}

vqp_status_t vqp_ib_post(vqp_ib_path_t *paths, vqp_batch_t *batch)
{
    vqp_status_t status = VQP_OK;
    struct ibv_send_wr wrs[VQP_BATCH_MAX];
    uint8_t first[VQP_BATCH_MAX];
    unsigned num_chains = 0;
    struct ibv_send_wr *bad;
    vqp_ib_path_t *path;
    unsigned i;

    for (i = 0; i < batch->count; ++i) {
        path = &paths[batch->frags[i].path->index];
        vqp_ib_fill_wr(&wrs[i], path, &batch->frags[i]);
        if (path->chain == 0) {
            first[num_chains++] = (uint8_t)i;
        } else {
            wrs[path->chain - 1].next = &wrs[i];
        }
        path->chain = (uint8_t)(i + 1);
    }

    for (i = 0; i < num_chains; ++i) {
        path        = &paths[batch->frags[first[i]].path->index];
        path->chain = 0;
        if (vqp_unlikely(vqp_ib_post_chain(path, &wrs[first[i]], &bad) !=
                         VQP_OK)) {
            status                          = VQP_ERR_IO;
            batch->frags[bad - wrs].flags |= VQP_FRAG_UNPOSTED;
        }
    }

    return status;
}

vqp_status_t vqp_ib_wc_status(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return VQP_OK;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        return VQP_ERR_TIMEOUT;
    case IBV_WC_WR_FLUSH_ERR:
        return VQP_ERR_CANCELED;
    case IBV_WC_REM_ACCESS_ERR:
        return VQP_ERR_REMOTE;
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ABORT_ERR:
        return VQP_ERR_RESPONDER;
    default:
        return VQP_ERR_IO;
    }
}
