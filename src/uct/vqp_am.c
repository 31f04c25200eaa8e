/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages: the fast path. */
#include "uct/vqp_desc.h"
#include "uct/vqp_ep.h"
#include "uct/vqp_mirror.h"

#include "core/data/pack.h"
#include "core/mirror.h"

/* If it was the mirror that the message lacked. Where there was none, a timer asks again.
 * @return op is NULL if the message is refused */
static vqp_tx_am_t __attribute__((noinline, cold))
uct_vqp_am_begin_again(uct_vqp_t *vqp, uint32_t max, int may_pack)
{
    vqp_tx_am_t am = {.op = NULL};

    if (vqp_wants_mirror(&vqp->core) && uct_vqp_mirror_get(vqp)) {
        (void)vqp_tx_am_begin(&vqp->core.tx, max, may_pack, &am);
    }
    return am;
}

/* Allocate ring space for a message, or return NO_RESOURCE. _may_pack: it is copied */
#define UCT_VQP_AM_BEGIN(_vqp, _max, _may_pack, _am) \
    vqp_tx_am_t _am; \
    if (vqp_unlikely(!vqp_tx_am_begin(&(_vqp)->core.tx, _max, _may_pack, &_am))) { \
        _am = uct_vqp_am_begin_again(_vqp, _max, _may_pack); \
        if (_am.op == NULL) { \
            return uct_vqp_no_resource(_vqp); \
        } \
    }

/* Accept a message, and post what is allowed. nsge is a constant, see
 * vqp_tx_send_am(). */
static UCS_F_ALWAYS_INLINE void
uct_vqp_am_send(uct_vqp_t *vqp, const vqp_tx_am_t *am, uint8_t id,
                uint32_t length, uint32_t in_mirror, unsigned nsge)
{
    vqp_frag_t frag;
    vqp_sge_t sge[2];

    uct_iface_trace_am(&vqp->iface->super, UCT_AM_TRACE_TYPE_SEND, id,
                       am->record + 1, in_mirror, "TX: vqp %u AM",
                       vqp->number);
    if (vqp_likely(vqp_send_am(&vqp->core, am, id, length, in_mirror, nsge, sge,
                               &frag) == VQP_SEND_FRAG)) {
        (void)uct_vqp_post_frag(vqp, &frag);
    } else {
        uct_vqp_tx_progress(vqp);
    }
}

ucs_status_t uct_vqp_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t header,
                                 const void *payload, unsigned length)
{
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(sizeof(header) + length, 0,
                     ucs_derived_of(tl_ep->iface, uct_vqp_iface_t)->
                             am_max_short, "am_short");
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_AM_BEGIN(vqp, sizeof(header) + length, 1, am);

    am.op->user_kind = UCT_VQP_USER_NONE;
    uct_vqp_am_short_fill(am.record + 1, header, payload, length);
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), AM, SHORT,
                      sizeof(header) + length);
    uct_vqp_am_send(vqp, &am, id, sizeof(header) + length,
                    sizeof(header) + length, 1);
    return UCS_OK;
}

/* A message whose payload, of @a length bytes, is copied */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_vqp_am_copy(uct_vqp_t *vqp, uint8_t id, const void *header, unsigned header_length,
                const uct_iov_t *iov, size_t iovcnt, size_t length)
{
    uint32_t total = (uint32_t)(header_length + length);
    size_t piece, i;
    char *to;

    UCT_VQP_AM_BEGIN(vqp, total, 1, am);

    am.op->user_kind = UCT_VQP_USER_NONE;
    to               = (char*)(am.record + 1);
    if (header_length > 0) {
        memcpy(to, header, header_length);
        to += header_length;
    }
    for (i = 0; i < iovcnt; ++i) { /* uct_iov_to_buffer() ignores count */
        piece = uct_iov_get_length(&iov[i]);
        if (piece > 0) {
            memcpy(to, iov[i].buffer, piece);
            to += piece;
        }
    }
    uct_vqp_am_send(vqp, &am, id, total, total, 1);
    return UCS_OK;
}

ucs_status_t uct_vqp_ep_am_short_iov(uct_ep_h tl_ep, uint8_t id,
                                     const uct_iov_t *iov, size_t iovcnt)
{
    size_t length = uct_iov_total_length(iov, iovcnt);
    ucs_status_t status;

    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(length, 0, ucs_derived_of(tl_ep->iface, uct_vqp_iface_t)->
                             am_max_short, "am_short_iov");
    UCT_VQP_EP_READY(tl_ep, vqp);
    status = uct_vqp_am_copy(vqp, id, NULL, 0, iov, iovcnt, length);
    if (status == UCS_OK) {
        UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), AM, SHORT, length);
    }
    return status;
}

ssize_t uct_vqp_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id,
                            uct_pack_callback_t pack_cb, void *arg,
                            unsigned flags)
{
    size_t length;

    UCT_CHECK_AM_ID(id);
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_AM_BEGIN(vqp, (uint32_t)vqp->iface->am_max_bcopy, 1, am);

    am.op->user_kind = UCT_VQP_USER_NONE;
    length           = pack_cb(am.record + 1, arg);
    UCT_CHECK_LENGTH(length, 0, vqp->iface->am_max_bcopy, "am_bcopy");
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), AM, BCOPY, length);
    uct_vqp_am_send(vqp, &am, id, (uint32_t)length, (uint32_t)length, 1);
    return length;
}

/* Is all of it memory that this process may read? */
static int uct_vqp_iov_is_host(const uct_iov_t *iov, size_t iovcnt)
{
    const uct_vqp_mem_t *mem;
    size_t i;

    for (i = 0; i < iovcnt; ++i) {
        mem = iov[i].memh;
        if ((uct_iov_get_length(&iov[i]) > 0) && !mem->is_host) {
            return 0;
        }
    }

    return 1;
}

ucs_status_t uct_vqp_ep_am_zcopy(uct_ep_h tl_ep, uint8_t id, const void *header,
                                 unsigned header_length, const uct_iov_t *iov,
                                 size_t iovcnt, unsigned flags,
                                 uct_completion_t *comp)
{
    size_t length = uct_vqp_iov_length(iov, iovcnt);
    ucs_status_t status;
    vqp_op_t *op;

    UCT_CHECK_AM_ID(id);
    UCT_CHECK_IOV_SIZE(iovcnt, ucs_derived_of(tl_ep->iface, uct_vqp_iface_t)->
                       max_iov, "uct_vqp_ep_am_zcopy");
    UCT_CHECK_LENGTH(header_length, 0, ucs_derived_of(tl_ep->iface,
                     uct_vqp_iface_t)->set.am_max_hdr, "am_zcopy header");
    UCT_CHECK_LENGTH(header_length + length, 0, ucs_derived_of(tl_ep->iface,
                     uct_vqp_iface_t)->am_max_zcopy, "am_zcopy");
    UCT_VQP_EP_READY(tl_ep, vqp);
    if (vqp_tx_wants_copy(&vqp->core.tx, (uint32_t)(header_length + length)) &&
        uct_vqp_iov_is_host(iov, iovcnt)) {
        status = uct_vqp_am_copy(vqp, id, header, header_length, iov, iovcnt, length);
        if (status == UCS_OK) {
            UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), AM, ZCOPY,
                              header_length + length);
        }
        return status;
    }

    UCT_VQP_AM_BEGIN(vqp, (uint32_t)(header_length + length), 0, am);

    op = am.op;
    if (vqp_likely(iovcnt == 1)) {
        op->niov = 2;
        uct_vqp_set_piece(&op->g.iov[1], iov, length);
    } else {
        status = uct_vqp_set_iov(vqp, op, 1, iov, iovcnt);
        if (ucs_unlikely(status != UCS_OK)) {
            return status;
        }
    }

    op->flags    |= VQP_OP_SIGNAL | VQP_OP_BUFFER;
    op->user      = comp;
    op->user_kind = (comp == NULL) ? UCT_VQP_USER_NONE : UCT_VQP_USER_COMP;
    if (header_length > 0) {
        memcpy(am.record + 1, header, header_length);
    }
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), AM, ZCOPY,
                      header_length + length);
    if (vqp_likely((iovcnt == 1) && (length > 0))) {
        uct_vqp_am_send(vqp, &am, id, (uint32_t)(header_length + length),
                        header_length, 2);
    } else {
        uct_vqp_am_send(vqp, &am, id, (uint32_t)(header_length + length),
                        header_length, 0);
    }

    return UCS_INPROGRESS;
}
