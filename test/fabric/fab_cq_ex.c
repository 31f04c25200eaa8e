/*
 * The extended interface of completion queues: polling by iterator. May call
 * fab_cq.
 */
#include "fab_cq.h"

#include <errno.h>

#define FAB_CQ_EX_FLAGS \
    (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)

static struct fab_cq_handle *fab_cq_ex_handle(struct ibv_cq_ex *cq)
{
    return (struct fab_cq_handle*)cq;
}

static int fab_cq_ex_next(struct ibv_cq_ex *cq)
{
    struct fab_cq_handle *handle = fab_cq_ex_handle(cq);
    int count                    = fab_cq_poll(&handle->ibv, 1, &handle->wc);

    if (count <= 0) {
        return (count == 0) ? ENOENT : -count;
    }

    cq->wr_id  = handle->wc.wr_id;
    cq->status = handle->wc.status;
    return 0;
}

static int fab_cq_ex_start(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
    return (attr->comp_mask != 0) ? EINVAL : fab_cq_ex_next(cq);
}

static void fab_cq_ex_end(struct ibv_cq_ex *cq)
{
    (void)cq;
}

static enum ibv_wc_opcode fab_cq_ex_opcode(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.opcode;
}

static uint32_t fab_cq_ex_vendor_err(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.vendor_err;
}

static uint32_t fab_cq_ex_byte_len(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.byte_len;
}

static __be32 fab_cq_ex_imm_data(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.imm_data;
}

static uint32_t fab_cq_ex_qp_num(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.qp_num;
}

static uint32_t fab_cq_ex_src_qp(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.src_qp;
}

static unsigned int fab_cq_ex_wc_flags(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.wc_flags;
}

static uint32_t fab_cq_ex_slid(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.slid;
}

static uint8_t fab_cq_ex_sl(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.sl;
}

static uint8_t fab_cq_ex_dlid_path_bits(struct ibv_cq_ex *cq)
{
    return fab_cq_ex_handle(cq)->wc.dlid_path_bits;
}

static uint64_t fab_cq_ex_completion_ts(struct ibv_cq_ex *cq)
{
    (void)cq;
    return fab_now();
}

struct ibv_cq_ex *fab_cq_create_ex(struct ibv_context *context,
                                   struct ibv_cq_init_attr_ex *attr)
{
    struct ibv_cq_ex *cq;
    struct ibv_cq *ibv;

    if (((attr->wc_flags & ~(uint64_t)FAB_CQ_EX_FLAGS) != 0) ||
        ((attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0)) {
        errno = EOPNOTSUPP;
        return NULL;
    }

    ibv = fab_cq_create(context, (int)attr->cqe, attr->cq_context,
                        attr->channel, (int)attr->comp_vector);
    if (ibv == NULL) {
        return NULL;
    }

    cq                       = (struct ibv_cq_ex*)ibv;
    cq->start_poll           = fab_cq_ex_start;
    cq->next_poll            = fab_cq_ex_next;
    cq->end_poll             = fab_cq_ex_end;
    cq->read_opcode          = fab_cq_ex_opcode;
    cq->read_vendor_err      = fab_cq_ex_vendor_err;
    cq->read_byte_len        = fab_cq_ex_byte_len;
    cq->read_imm_data        = fab_cq_ex_imm_data;
    cq->read_qp_num          = fab_cq_ex_qp_num;
    cq->read_src_qp          = fab_cq_ex_src_qp;
    cq->read_wc_flags        = fab_cq_ex_wc_flags;
    cq->read_slid            = fab_cq_ex_slid;
    cq->read_sl              = fab_cq_ex_sl;
    cq->read_dlid_path_bits  = fab_cq_ex_dlid_path_bits;
    cq->read_completion_ts   = fab_cq_ex_completion_ts;
    return cq;
}
