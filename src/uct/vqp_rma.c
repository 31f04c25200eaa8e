/* SPDX-License-Identifier: BSD-3-Clause */
/* put and get: the fast path. */
#include "uct/vqp_desc.h"
#include "uct/vqp_ep.h"

/* Allocate an op of the RMA ring, or return NO_RESOURCE */
#define UCT_VQP_RMA_BEGIN(_vqp, _op) \
    vqp_op_t *_op = vqp_tx_rma_begin(&(_vqp)->core.tx); \
    if (vqp_unlikely(_op == NULL)) { \
        return uct_vqp_no_resource(_vqp); \
    }

static inline void
uct_vqp_rma_fill(uct_vqp_t *vqp, vqp_op_t *op, vqp_kind_t kind, unsigned flags,
                 uint64_t length, uint64_t remote_addr, uct_rkey_t rkey)
{
    op->kind      = (uint8_t)kind;
    op->flags     = (uint16_t)flags;
    op->length    = length;
    op->raddr     = remote_addr;
    op->rma.rkeys = uct_vqp_keep_rkeys(vqp, op, uct_vqp_rkey(rkey)->rkeys);
}

/* Post the frags of a put, each on another path */
static inline void uct_vqp_spread_put(uct_vqp_t *vqp, vqp_op_t *op)
{
    vqp_frag_t frag;
    vqp_sge_t sge;

    while (vqp_tx_spread_next(&vqp->core.tx, op, &sge, &frag)) {
        if (vqp_unlikely(uct_vqp_post_frag(vqp, &frag) != VQP_OK)) {
            return;
        }
    }

    if (vqp_unlikely(op->offset < op->length)) {
        uct_vqp_tx_progress(vqp);
    }
}

/* Accept a filled op, and post what is allowed. @a kind is a constant. */
static UCS_F_ALWAYS_INLINE void
uct_vqp_rma_send(uct_vqp_t *vqp, vqp_op_t *op, vqp_kind_t kind, unsigned flags)
{
    vqp_frag_t frag;
    vqp_sge_t sge;

    ucs_trace_data("TX: vqp %u %s %zu bytes at 0x%" PRIx64, vqp->number,
                   (kind == VQP_KIND_PUT) ? "PUT" : "GET", (size_t)op->length,
                   op->raddr);
    switch (vqp_tx_send_rma(&vqp->core.tx, op, kind, flags, &sge, &frag)) {
    case VQP_SEND_FRAG:
        (void)uct_vqp_post_frag(vqp, &frag);
        break;
    case VQP_SEND_SPREAD:
        uct_vqp_spread_put(vqp, op);
        break;
    default:
        uct_vqp_tx_progress(vqp);
        break;
    }
}

/* Most of these are one word */
static inline void
uct_vqp_copy_short(void *dest, const void *src, unsigned length)
{
    if (length == sizeof(uint64_t)) {
        memcpy(dest, src, sizeof(uint64_t));
    } else {
        memcpy(dest, src, length);
    }
}

ucs_status_t uct_vqp_ep_put_short(uct_ep_h tl_ep, const void *buffer,
                                  unsigned length, uint64_t remote_addr,
                                  uct_rkey_t rkey)
{
    UCT_CHECK_LENGTH(length, 0,
                     ucs_min(ucs_derived_of(tl_ep->iface,
                                            uct_vqp_iface_t)->inline_max,
                             VQP_OP_DATA_MAX), "put_short");
    UCT_SKIP_ZERO_LENGTH(length);
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_CHECK_RKEY(vqp, rkey);
    UCT_VQP_RMA_BEGIN(vqp, op);

    uct_vqp_rma_fill(vqp, op, VQP_KIND_PUT, VQP_OP_INLINE, length, remote_addr,
                     rkey);
    op->user_kind  = UCT_VQP_USER_NONE;
    op->frag_shift = 31;
    uct_vqp_copy_short(op->data, buffer, length);
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), PUT, SHORT, length);

    uct_vqp_rma_send(vqp, op, VQP_KIND_PUT, VQP_FRAG_INLINE);
    return UCS_OK;
}

/* Slots are freed by completions: request one on every connection that may hold
 * slots */
static void uct_vqp_reclaim_all(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp;

    UCS_ASYNC_BLOCK(iface->super.worker->async);
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if (vqp_is_connected(&vqp->core) && !vqp_is_failed(&vqp->core) &&
            !vqp_opring_is_empty(&vqp->core.tx.rma)) {
            vqp_tx_reclaim(&vqp->core.tx);
            uct_vqp_tx_progress(vqp);
        }
    }
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);
}

/* Get a bounce slot of the interface. NULL: the vqp is scheduled when one is
 * back */
static inline uct_vqp_desc_t *uct_vqp_get_desc(uct_vqp_t *vqp)
{
    uct_vqp_desc_t *desc = ucs_mpool_get_inline(&vqp->iface->tx_mp);

    if (ucs_unlikely(desc == NULL)) {
        if (!vqp->iface->tx_mp_empty) {
            vqp->iface->tx_mp_empty = 1;
            uct_vqp_reclaim_all(vqp->iface);
        }
        UCT_TL_IFACE_STAT_TX_NO_DESC(&vqp->iface->super);
    }

    return desc;
}

/* Retry later, unless the pool could not be allocated */
static ucs_status_t __attribute__((noinline)) uct_vqp_no_desc(uct_vqp_t *vqp)
{
    return (vqp->iface->tx_mp.data->chunks == NULL) ? UCS_ERR_NO_MEMORY :
                                                      uct_vqp_no_resource(vqp);
}

static UCS_F_ALWAYS_INLINE void
uct_vqp_bounce(uct_vqp_t *vqp, vqp_op_t *op, vqp_kind_t kind,
               uct_vqp_desc_t *desc, uint64_t length)
{
    op->user           = desc;
    op->user_kind      = UCT_VQP_USER_DESC;
    op->niov           = 1;
    op->g.iov[0].addr  = (uintptr_t)(desc + 1);
    op->g.iov[0].length = length;
    op->g.iov[0].lkeys = desc->lkeys;
    vqp_tx_rma_set_frag_size(&vqp->core.tx, op);
    uct_vqp_rma_send(vqp, op, kind, 0);
}

ssize_t uct_vqp_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb,
                             void *arg, uint64_t remote_addr, uct_rkey_t rkey)
{
    uct_vqp_desc_t *desc;
    size_t length;

    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_RMA_BEGIN(vqp, op);
    desc = uct_vqp_get_desc(vqp);
    if (ucs_unlikely(desc == NULL)) {
        return uct_vqp_no_desc(vqp);
    }

    desc->comp   = NULL;
    desc->unpack = NULL;
    length       = pack_cb(desc + 1, arg);
    if (ucs_unlikely(length == 0)) {
        ucs_mpool_put_inline(desc);
        ucs_trace_data("TX: vqp %u PUT 0 bytes", vqp->number);
        return 0; /* the key is not read: it may be missing */
    }

    if (ucs_unlikely(uct_vqp_rkey(rkey)->layout != vqp->key_layout)) {
        ucs_mpool_put_inline(desc);
        return uct_vqp_ep_bad_rkey(vqp, rkey);
    }

    uct_vqp_rma_fill(vqp, op, VQP_KIND_PUT, 0, length, remote_addr, rkey);
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), PUT, BCOPY, length);
    uct_vqp_bounce(vqp, op, VQP_KIND_PUT, desc, length);
    return length;
}

ucs_status_t uct_vqp_ep_get_bcopy(uct_ep_h tl_ep,
                                  uct_unpack_callback_t unpack_cb, void *arg,
                                  size_t length, uint64_t remote_addr,
                                  uct_rkey_t rkey, uct_completion_t *comp)
{
    uct_vqp_desc_t *desc;

    UCT_CHECK_LENGTH(length, 0, ucs_derived_of(tl_ep->iface,
                                               uct_vqp_iface_t)->set.seg_size,
                     "get_bcopy");
    UCT_SKIP_ZERO_LENGTH(length);
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_CHECK_RKEY(vqp, rkey);
    UCT_VQP_RMA_BEGIN(vqp, op);
    desc = uct_vqp_get_desc(vqp);
    if (ucs_unlikely(desc == NULL)) {
        return uct_vqp_no_desc(vqp);
    }

    desc->comp   = comp;
    desc->unpack = unpack_cb;
    desc->arg    = arg;
    uct_vqp_rma_fill(vqp, op, VQP_KIND_GET, VQP_OP_SIGNAL | VQP_OP_BUFFER, length,
                     remote_addr, rkey);
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), GET, BCOPY, length);
    uct_vqp_bounce(vqp, op, VQP_KIND_GET, desc, length);
    return UCS_INPROGRESS;
}

ucs_status_t uct_vqp_set_iov(uct_vqp_t *vqp, vqp_op_t *op, unsigned first,
                             const uct_iov_t *iov, size_t iovcnt)
{
    vqp_iov_t *dest = vqp_tx_op_iov(&vqp->core.tx, op, (unsigned)iovcnt + first);
    size_t max      = vqp->iface->max_iov + 1;
    size_t i;

    if (vqp_unlikely(dest == NULL)) {
        /* the first use of a long iov on this connection, not in the data
         * path again */
        vqp->iov_ext = ucs_calloc(vqp_tx_iov_ext_count(&vqp->core.tx, (unsigned)max),
                                  sizeof(*vqp->iov_ext), "uct_vqp_iov");
        if (vqp->iov_ext == NULL) {
            ucs_error("failed to allocate scatter-gather lists");
            return UCS_ERR_NO_MEMORY;
        }

        vqp_tx_set_iov_ext(&vqp->core.tx, vqp->iov_ext, (unsigned)max);
        dest = vqp_tx_op_iov(&vqp->core.tx, op, (unsigned)iovcnt + first);
    }

    for (i = 0; i < iovcnt; ++i) {
        uct_vqp_set_piece(&dest[first + i], &iov[i],
                          uct_iov_get_length(&iov[i]));
    }

    return UCS_OK;
}

/* A put or get of user memory, of any length */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_vqp_rma_zcopy(uct_vqp_t *vqp, vqp_kind_t kind, const uct_iov_t *iov,
                  size_t iovcnt, size_t length, uint64_t remote_addr,
                  uct_rkey_t rkey, uct_completion_t *comp)
{
    ucs_status_t status;

    UCT_VQP_CHECK_RKEY(vqp, rkey);
    UCT_VQP_RMA_BEGIN(vqp, op);
    if (vqp_likely(iovcnt == 1)) {
        op->niov = 1;
        uct_vqp_set_piece(op->g.iov, iov, length);
    } else {
        status = uct_vqp_set_iov(vqp, op, 0, iov, iovcnt);
        if (ucs_unlikely(status != UCS_OK)) {
            return status;
        }
    }

    uct_vqp_rma_fill(vqp, op, kind, VQP_OP_SIGNAL | VQP_OP_BUFFER, length,
                     remote_addr, rkey);
    op->user      = comp;
    op->user_kind = (comp == NULL) ? UCT_VQP_USER_NONE : UCT_VQP_USER_COMP;
    vqp_tx_rma_set_frag_size(&vqp->core.tx, op);
    uct_vqp_rma_send(vqp, op, kind, 0);
    return UCS_INPROGRESS;
}

ucs_status_t uct_vqp_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                  size_t iovcnt, uint64_t remote_addr,
                                  uct_rkey_t rkey, uct_completion_t *comp)
{
    size_t length = uct_vqp_iov_length(iov, iovcnt);

    UCT_CHECK_IOV_SIZE(iovcnt, ucs_derived_of(tl_ep->iface,
                                              uct_vqp_iface_t)->max_iov,
                       "uct_vqp_ep_put_zcopy");
    UCT_SKIP_ZERO_LENGTH(length);
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), PUT, ZCOPY, length);
    return uct_vqp_rma_zcopy(vqp, VQP_KIND_PUT, iov, iovcnt, length,
                             remote_addr, rkey, comp);
}

ucs_status_t uct_vqp_ep_get_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                  size_t iovcnt, uint64_t remote_addr,
                                  uct_rkey_t rkey, uct_completion_t *comp)
{
    size_t length = uct_vqp_iov_length(iov, iovcnt);

    UCT_CHECK_IOV_SIZE(iovcnt, ucs_derived_of(tl_ep->iface,
                                              uct_vqp_iface_t)->max_iov,
                       "uct_vqp_ep_get_zcopy");
    UCT_SKIP_ZERO_LENGTH(length);
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), GET, ZCOPY, length);
    return uct_vqp_rma_zcopy(vqp, VQP_KIND_GET, iov, iovcnt, length,
                             remote_addr, rkey, comp);
}
