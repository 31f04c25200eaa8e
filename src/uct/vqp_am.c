/* Active messages: the hot paths. */
#include "uct/vqp_ep.h"

#include "core/fast.h"

/* Take ring space for a message, or return NO_RESOURCE */
#define UCT_VQP_AM_BEGIN(_vqp, _max, _op, _record) \
    vqp_record_t *_record; \
    vqp_op_t *_op = vqp_tx_am_begin(&(_vqp)->tx, _max, &_record); \
    if (vqp_unlikely(_op == NULL)) { \
        return uct_vqp_no_resource(_vqp); \
    }

static inline void uct_vqp_am_send(uct_vqp_t *vqp, vqp_op_t *op, uint8_t id,
                                   uint32_t length, uint32_t in_mirror)
{
    vqp_credit_t credit = vqp_rx_credit(&vqp->rx);

    vqp_tx_am_commit(&vqp->tx, op, id, length, in_mirror, &credit);
    uct_vqp_pump(vqp);
    vqp_rx_told_in_am(&vqp->rx, &vqp->tx, &credit);
}

/* Accept and post an AM of one frag, the source of which is @a sge */
static UCS_F_ALWAYS_INLINE void
uct_vqp_am_post(uct_vqp_t *vqp, vqp_path_t *path, vqp_op_t *op,
                vqp_record_t *record, uint8_t id, uint32_t length,
                const vqp_sge_t *sge, int num_sge, unsigned flags)
{
    vqp_credit_t credit = vqp_rx_credit(&vqp->rx);
    uint32_t imm;
    uint16_t pos;

    pos = vqp_tx_fast_am(&vqp->tx, path, op, record, id, length, &credit, &imm,
                         &flags);
    vqp_rx_told(&vqp->rx, &credit);
    if (vqp_unlikely(vqp_ib_post_rdma(&vqp->ib_paths[path->index],
                                      IBV_WR_RDMA_WRITE_WITH_IMM, pos, sge,
                                      num_sge, op->raddr,
                                      vqp->ring_rkeys[path->peer_rail], flags,
                                      imm) != 0)) {
        uct_vqp_post_one_failed(vqp, path, pos);
    }
}

/* The path of an AM that goes the short way, or NULL */
static inline vqp_path_t *
uct_vqp_am_path(uct_vqp_t *vqp, const vqp_op_t *op, uint32_t length)
{
    return vqp_likely(length <= vqp->iface->am_max_one_frag) ?
                   vqp_tx_fast_am_path(&vqp->tx, op) : NULL;
}

/* The payload is in the mirror: send it the short or the long way */
static UCS_F_ALWAYS_INLINE void
uct_vqp_am_send_mirror(uct_vqp_t *vqp, vqp_op_t *op, vqp_record_t *record,
                       uint8_t id, uint32_t length)
{
    vqp_path_t *path = uct_vqp_am_path(vqp, op, length);
    vqp_sge_t sge;

    uct_iface_trace_am(&vqp->iface->super, UCT_AM_TRACE_TYPE_SEND, id,
                       record + 1, length, "TX: vqp %u AM", vqp->number);
    if (vqp_unlikely(path == NULL)) {
        uct_vqp_am_send(vqp, op, id, length, length);
        return;
    }

    sge.addr   = (uintptr_t)record;
    sge.length = (uint32_t)sizeof(*record) + length;
    sge.lkey   = vqp->tx.cfg.local_lkeys[path->rail];
    uct_vqp_am_post(vqp, path, op, record, id, length, &sge, 1,
                    (sge.length <= vqp->tx.cfg.inline_max) ?
                            VQP_FRAG_INLINE : 0);
}

/* The header is in the mirror, and the payload one piece of the user's */
static inline void
uct_vqp_am_send_piece(uct_vqp_t *vqp, vqp_path_t *path, vqp_op_t *op,
                      vqp_record_t *record, uint8_t id, uint32_t header_length)
{
    const vqp_iov_t *piece = &op->g.iov[1];
    vqp_sge_t sge[2];

    sge[0].addr   = (uintptr_t)record;
    sge[0].length = (uint32_t)sizeof(*record) + header_length;
    sge[0].lkey   = vqp->tx.cfg.local_lkeys[path->rail];
    sge[1].addr   = piece->addr;
    sge[1].length = (uint32_t)piece->length;
    sge[1].lkey   = piece->lkeys[path->rail];
    uct_vqp_am_post(vqp, path, op, record, id,
                    header_length + (uint32_t)piece->length, sge, 2, 0);
}

ucs_status_t uct_vqp_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t header,
                                 const void *payload, unsigned length)
{
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(sizeof(header) + length, 0,
                     ucs_derived_of(tl_ep->iface, uct_vqp_iface_t)->
                             am_max_short, "am_short");
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_AM_BEGIN(vqp, sizeof(header) + length, op, record);

    op->user_kind = 0;
    uct_vqp_am_short_fill(record + 1, header, payload, length);
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), AM, SHORT,
                      sizeof(header) + length);
    uct_vqp_am_send_mirror(vqp, op, record, id, sizeof(header) + length);
    return UCS_OK;
}

ucs_status_t uct_vqp_ep_am_short_iov(uct_ep_h tl_ep, uint8_t id,
                                     const uct_iov_t *iov, size_t iovcnt)
{
    size_t length = uct_iov_total_length(iov, iovcnt);
    ucs_iov_iter_t iter;

    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(length, 0, ucs_derived_of(tl_ep->iface, uct_vqp_iface_t)->
                             am_max_short, "am_short_iov");
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_AM_BEGIN(vqp, (uint32_t)length, op, record);

    op->user_kind = 0;
    ucs_iov_iter_init(&iter);
    uct_iov_to_buffer(iov, iovcnt, &iter, record + 1, SIZE_MAX);
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), AM, SHORT, length);
    uct_vqp_am_send_mirror(vqp, op, record, id, (uint32_t)length);
    return UCS_OK;
}

ssize_t uct_vqp_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id,
                            uct_pack_callback_t pack_cb, void *arg,
                            unsigned flags)
{
    size_t length;

    UCT_CHECK_AM_ID(id);
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_AM_BEGIN(vqp, (uint32_t)vqp->iface->am_max_bcopy, op, record);

    op->user_kind = 0;
    length        = pack_cb(record + 1, arg);
    UCT_CHECK_LENGTH(length, 0, vqp->iface->am_max_bcopy, "am_bcopy");
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), AM, BCOPY, length);
    uct_vqp_am_send_mirror(vqp, op, record, id, (uint32_t)length);
    return length;
}

ucs_status_t uct_vqp_ep_am_zcopy(uct_ep_h tl_ep, uint8_t id, const void *header,
                                 unsigned header_length, const uct_iov_t *iov,
                                 size_t iovcnt, unsigned flags,
                                 uct_completion_t *comp)
{
    size_t length = uct_vqp_iov_length(iov, iovcnt);
    ucs_status_t status;
    vqp_path_t *path;

    UCT_CHECK_AM_ID(id);
    UCT_CHECK_IOV_SIZE(iovcnt, ucs_derived_of(tl_ep->iface, uct_vqp_iface_t)->
                       max_iov, "uct_vqp_ep_am_zcopy");
    UCT_CHECK_LENGTH(header_length, 0, ucs_derived_of(tl_ep->iface,
                     uct_vqp_iface_t)->set.am_max_hdr, "am_zcopy header");
    UCT_CHECK_LENGTH(header_length + length, 0, ucs_derived_of(tl_ep->iface,
                     uct_vqp_iface_t)->am_max_zcopy, "am_zcopy");
    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_AM_BEGIN(vqp, (uint32_t)(header_length + length), op, record);

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
    op->user_kind = (comp == NULL) ? 0 : UCT_VQP_USER_COMP;
    if (header_length > 0) {
        memcpy(record + 1, header, header_length);
    }
    uct_iface_trace_am(&vqp->iface->super, UCT_AM_TRACE_TYPE_SEND, id,
                       record + 1, header_length, "TX: vqp %u AM_ZCOPY",
                       vqp->number);
    UCT_TL_EP_STAT_OP(ucs_derived_of(tl_ep, uct_base_ep_t), AM, ZCOPY,
                      header_length + length);
    path = ((iovcnt == 1) && (length > 0)) ?
                   uct_vqp_am_path(vqp, op, (uint32_t)(header_length +
                                                       length)) : NULL;
    if (vqp_likely(path != NULL)) {
        uct_vqp_am_send_piece(vqp, path, op, record, id, header_length);
    } else {
        uct_vqp_am_send(vqp, op, id, (uint32_t)(header_length + length),
                        header_length);
    }

    return UCS_INPROGRESS;
}
