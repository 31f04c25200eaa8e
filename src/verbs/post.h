/*
 * The one place that posts sends of the RC paths, and the one that polls them.
 * May call libibverbs. Progress thread of the vqp only.
 */
#ifndef VQP_IB_POST_H
#define VQP_IB_POST_H

#include "core/tx.h"
#include "verbs/cq.h"
#include "verbs/qp.h"
#include "verbs/wrid.h"

#include <arpa/inet.h>

/** The verbs side of a path; index as in the core's array of paths. */
typedef struct vqp_ib_path {
    struct ibv_qp      *qp;          /* = rc.qp, here for the hot path */
    uint64_t            wrid;        /* of this incarnation, place 0 */
    struct ibv_send_wr *chain;       /* while a batch is posted: last WR */
    uint16_t            recv_posted; /* receives in the queue, with those... */
    uint16_t            recv_missing;/* ...consumed and not posted again yet */
    uint8_t             cq_index;
    vqp_ib_qp_t         rc;
} vqp_ib_path_t;

/** Log that a post failed. */
void vqp_ib_post_error(const vqp_ib_path_t *path, int error)
        __attribute__((cold));

/**
 * Post a batch: the frags of one path are chained and posted by one call.
 *
 * @param [in]    paths  Indexed by vqp_path_t::index.
 * @param [inout] batch  On an error the first frag of each path that was not
 *                       posted gets VQP_FRAG_UNPOSTED; later ones of its path
 *                       were not either. Other paths were posted.
 *
 * @return VQP_OK or VQP_ERR_IO (logged).
 */
vqp_status_t vqp_ib_post(vqp_ib_path_t *paths, vqp_batch_t *batch);

/* The fields that all requests have */
static inline void
vqp_ib_fill_one(const vqp_ib_path_t *path, struct ibv_send_wr *wr,
                enum ibv_wr_opcode opcode, uint16_t pos, const vqp_sge_t *sge,
                int num_sge, unsigned flags)
{
    wr->wr_id      = path->wrid | pos;
    wr->next       = NULL;
    wr->sg_list    = (struct ibv_sge*)sge;
    wr->num_sge    = num_sge;
    wr->opcode     = opcode;
    wr->send_flags = flags & VQP_FRAG_SEND;
}

static inline int
vqp_ib_post_one(const vqp_ib_path_t *path, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    int ret = ibv_post_send(path->qp, wr, &bad);

    if (vqp_unlikely(ret != 0)) {
        vqp_ib_post_error(path, ret);
    }

    return ret;
}

/**
 * Post a write or read.
 *
 * @param [in] opcode  IBV_WR_RDMA_*.
 * @param [in] flags   VQP_FRAG_*.
 * @param [in] imm     For IBV_WR_RDMA_WRITE_WITH_IMM.
 *
 * @return 0 or an errno value (logged): it was not posted.
 */
static inline int
vqp_ib_post_rdma(const vqp_ib_path_t *path, enum ibv_wr_opcode opcode,
                 uint16_t pos, const vqp_sge_t *sge, int num_sge,
                 uint64_t raddr, uint32_t rkey, unsigned flags, uint32_t imm)
{
    struct ibv_send_wr wr;

    vqp_ib_fill_one(path, &wr, opcode, pos, sge, num_sge, flags);
    wr.imm_data            = htonl(imm);
    wr.wr.rdma.remote_addr = raddr;
    wr.wr.rdma.rkey        = rkey;
    return vqp_ib_post_one(path, &wr);
}

/** Post an atomic: @a opcode is IBV_WR_ATOMIC_*, the rest as above. */
static inline int
vqp_ib_post_atomic(const vqp_ib_path_t *path, enum ibv_wr_opcode opcode,
                   uint16_t pos, const vqp_sge_t *sge, uint64_t raddr,
                   uint32_t rkey, unsigned flags, uint64_t compare_add,
                   uint64_t swap)
{
    struct ibv_send_wr wr;

    vqp_ib_fill_one(path, &wr, opcode, pos, sge, 1, flags);
    wr.wr.atomic.remote_addr = raddr;
    wr.wr.atomic.rkey        = rkey;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap        = swap;
    return vqp_ib_post_one(path, &wr);
}

/** Take up to @a max completions. @return How many, or below 0: it failed. */
static inline int vqp_ib_poll(vqp_ib_cq_t *cq, struct ibv_wc *wc, int max)
{
    return ibv_poll_cq(cq->cq, max, wc);
}

/** Status of a completion in this project's words. */
vqp_status_t vqp_ib_wc_status(enum ibv_wc_status status);

#endif
