/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint: a reference to a vqp, and its user's requests. */
#ifndef UCT_VQP_EP_H
#define UCT_VQP_EP_H

#include "uct/vqp.h"
#include "uct/vqp_post.h"

#include <uct/base/uct_iov.inl>

ucs_status_t uct_vqp_ep_put_short(uct_ep_h tl_ep, const void *buffer,
                                  unsigned length, uint64_t remote_addr,
                                  uct_rkey_t rkey);
ssize_t uct_vqp_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb,
                             void *arg, uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t uct_vqp_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                  size_t iovcnt, uint64_t remote_addr,
                                  uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t uct_vqp_ep_get_bcopy(uct_ep_h tl_ep,
                                  uct_unpack_callback_t unpack_cb, void *arg,
                                  size_t length, uint64_t remote_addr,
                                  uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t uct_vqp_ep_get_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                  size_t iovcnt, uint64_t remote_addr,
                                  uct_rkey_t rkey, uct_completion_t *comp);

ucs_status_t uct_vqp_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t header,
                                 const void *payload, unsigned length);
ucs_status_t uct_vqp_ep_am_short_iov(uct_ep_h tl_ep, uint8_t id,
                                     const uct_iov_t *iov, size_t iovcnt);
ssize_t uct_vqp_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id,
                            uct_pack_callback_t pack_cb, void *arg,
                            unsigned flags);
ucs_status_t uct_vqp_ep_am_zcopy(uct_ep_h tl_ep, uint8_t id, const void *header,
                                 unsigned header_length, const uct_iov_t *iov,
                                 size_t iovcnt, unsigned flags,
                                 uct_completion_t *comp);

ucs_status_t uct_vqp_ep_atomic_cswap64(uct_ep_h tl_ep, uint64_t compare,
                                       uint64_t swap, uint64_t remote_addr,
                                       uct_rkey_t rkey, uint64_t *result,
                                       uct_completion_t *comp);
ucs_status_t uct_vqp_ep_atomic64_post(uct_ep_h tl_ep, unsigned opcode,
                                      uint64_t value, uint64_t remote_addr,
                                      uct_rkey_t rkey);
ucs_status_t uct_vqp_ep_atomic64_fetch(uct_ep_h tl_ep, uct_atomic_op_t opcode,
                                       uint64_t value, uint64_t *result,
                                       uint64_t remote_addr, uct_rkey_t rkey,
                                       uct_completion_t *comp);

ucs_status_t uct_vqp_ep_flush(uct_ep_h tl_ep, unsigned flags,
                              uct_completion_t *comp);
ucs_status_t uct_vqp_ep_fence(uct_ep_h tl_ep, unsigned flags);
ucs_status_t uct_vqp_ep_check(uct_ep_h tl_ep, unsigned flags,
                              uct_completion_t *comp);
ucs_status_t uct_vqp_ep_invalidate(uct_ep_h tl_ep,
                                   uct_vqp_ep_invalidate_arg_t arg);
ucs_status_t uct_vqp_ep_query(uct_ep_h tl_ep, uct_ep_attr_t *attr);
int uct_vqp_ep_is_connected(uct_ep_h tl_ep,
                            const uct_vqp_ep_connected_params_t *params);

ucs_status_t uct_vqp_iface_flush(uct_iface_h tl_iface, unsigned flags,
                                 uct_completion_t *comp);
ucs_status_t uct_vqp_iface_fence(uct_iface_h tl_iface, unsigned flags);

UCS_CLASS_DECLARE_NEW_FUNC(uct_vqp_ep_t, uct_ep_t, const uct_ep_params_t*);
UCS_CLASS_DECLARE_DELETE_FUNC(uct_vqp_ep_t, uct_ep_t);

/** Status of an op that is refused because the vqp is not ready. */
ucs_status_t uct_vqp_ep_not_ready(uct_vqp_t *vqp);

/**
 * Copy an iov into an op's pieces from @a first on (0, or 1 for an AM).
 *
 * @return UCS_OK, UCS_ERR_NO_MEMORY (logged).
 */
ucs_status_t uct_vqp_set_iov(uct_vqp_t *vqp, vqp_op_t *op, unsigned first,
                             const uct_iov_t *iov, size_t iovcnt);

/** Fill a piece of an op's source. */
static inline void
uct_vqp_set_piece(vqp_iov_t *piece, const uct_iov_t *iov, size_t length)
{
    piece->addr   = (uintptr_t)iov->buffer;
    piece->length = length;
    piece->lkeys  = (iov->memh == UCT_MEM_HANDLE_NULL) ? NULL :
                    uct_vqp_memh_lkeys(iov->memh);
}

/** Bytes of an iov. */
static inline size_t uct_vqp_iov_length(const uct_iov_t *iov, size_t iovcnt)
{
    return vqp_likely(iovcnt == 1) ? uct_iov_get_length(iov) :
                                     uct_iov_total_length(iov, iovcnt);
}

/** Note a refused op, for pending_add. */
static inline ucs_status_t uct_vqp_no_resource(uct_vqp_t *vqp)
{
    /* While it connects, another thread may be setting up the sender */
    if (vqp_is_connected(&vqp->core) &&
        vqp_unlikely(vqp->core.tx.slow & VQP_TX_WORK)) {
        uct_vqp_tx_progress(vqp); /* may send a credit request */
    }

    vqp_refuse(&vqp->core);
    return UCS_ERR_NO_RESOURCE;
}

/* iface_fence counts, and each endpoint compares the count at its next use. There
 * is no walk over endpoints. */
static inline void uct_vqp_check_fences(uct_vqp_t *vqp)
{
    if (vqp_unlikely(vqp->fences != vqp->iface->fences)) {
        vqp->fences = vqp->iface->fences;
        vqp_tx_fence(&vqp->core.tx);
    }
}

/** Post a frag of the fast path. @return VQP_OK, or VQP_ERR_IO: the vqp failed. */
static UCS_F_ALWAYS_INLINE vqp_status_t
uct_vqp_post_frag(uct_vqp_t *vqp, vqp_frag_t *frag)
{
    vqp_status_t status;

    status = vqp_ib_post_frag(&vqp->ib_paths[frag->path->index], frag);
    if (vqp_unlikely(status != VQP_OK)) {
        /* by value: so the frag can stay in registers */
        uct_vqp_post_frag_failed(vqp, frag->path, frag->slot);
    }

    return status;
}

/** Log a remote key of another bond than the peer's. @return UCS_ERR_INVALID_PARAM.
 *  */
ucs_status_t uct_vqp_ep_bad_rkey(const uct_vqp_t *vqp, uct_rkey_t rkey);

/** Return an error if the rails of the key are not those of the peer. */
#define UCT_VQP_CHECK_RKEY(_vqp, _rkey) \
    if (vqp_unlikely(uct_vqp_rkey(_rkey)->layout != (_vqp)->key_layout)) { \
        return uct_vqp_ep_bad_rkey(_vqp, _rkey); \
    }

/** Get the vqp of an endpoint if it is ready for an op, else return the status. */
#define UCT_VQP_EP_READY(_tl_ep, _vqp) \
    uct_vqp_t *_vqp = ucs_derived_of(_tl_ep, uct_vqp_ep_t)->vqp; \
    if (vqp_unlikely(!_vqp->ready)) { \
        return uct_vqp_ep_not_ready(_vqp); \
    } \
    uct_vqp_check_fences(_vqp)

#endif
