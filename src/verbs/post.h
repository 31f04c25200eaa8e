/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one place that posts sends of the RC paths, and the one that polls them.
 * May call libibverbs. Progress thread of the vqp only.
 */
#ifndef VQP_IB_POST_H
#define VQP_IB_POST_H

#include "core/data/frag.h"
#include "verbs/cq.h"
#include "verbs/lag.h"
#include "verbs/qp.h"
#include "verbs/wrid.h"

#include <arpa/inet.h>

/** The verbs objects of a path; same index as the core's array of paths. */
typedef struct vqp_ib_path {
    struct ibv_qp *qp;       /* = rc.qp, here for the hot path */
    uint64_t       wrid;     /* of this queue pair, slot 0 */
    uint8_t        cq_index[VQP_MAX_RAILS]; /* completion queue, of each rail */
    uint8_t        chain;    /* while a batch is posted: 1 + index of the last WR */
    uint16_t       cq_slots[VQP_MAX_RAILS]; /* its entries that are reserved; 0: none */
    uint32_t       rq_psn;   /* first one of the peer */
    vqp_ib_lag_port_t lag;   /* member port that it is assigned to, if any */
    uint8_t        rehashed; /* it has another UDP source port than at first */
    uint8_t        lag_tries; /* times that it was assigned to one since it was up */
    vqp_ib_qp_t    rc;
} vqp_ib_path_t;

/** Log that a post failed. */
void vqp_ib_post_error(const vqp_ib_path_t *path, int error)
        __attribute__((cold));

/**
 * Post a batch. The frags of one path are chained and posted by one call.
 *
 * @param [in]    paths  Indexed by vqp_path_t::index.
 * @param [inout] batch  On an error the first unposted frag of each failed
 *                       path gets VQP_FRAG_UNPOSTED; the later frags of that
 *                       path are unposted too. Other paths are posted.
 *
 * @return VQP_OK or VQP_ERR_IO (logged).
 */
vqp_status_t vqp_ib_post(vqp_ib_path_t *paths, vqp_batch_t *batch);

/* By vqp_wr_t, without designators for C++; post.c checks the order */
static const enum ibv_wr_opcode vqp_ib_opcodes[] = {
    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
    IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP
};

/** Fill the work request of a frag. */
static inline void
vqp_ib_fill_wr(struct ibv_send_wr *wr, const vqp_ib_path_t *path,
               const vqp_frag_t *frag)
{
    wr->wr_id      = path->wrid | frag->slot;
    wr->next       = NULL;
    /* irdma writes the first element of an empty write if there is a list */
    wr->sg_list    = (frag->nsge == 0) ? NULL : (struct ibv_sge*)frag->sge;
    wr->num_sge    = frag->nsge;
    wr->opcode     = vqp_ib_opcodes[frag->opcode];
    wr->send_flags = frag->flags & VQP_FRAG_SEND;

    if (vqp_likely(frag->opcode <= VQP_WR_READ)) {
        if (frag->opcode == VQP_WR_WRITE_IMM) {
            wr->imm_data = htonl(frag->imm);
        }
        wr->wr.rdma.remote_addr = frag->raddr;
        wr->wr.rdma.rkey        = frag->rkey;
    } else {
        wr->wr.atomic.remote_addr = frag->raddr;
        wr->wr.atomic.rkey        = frag->rkey;
        wr->wr.atomic.compare_add = frag->op->amo.compare_add;
        wr->wr.atomic.swap        = frag->op->amo.swap;
    }
}

/**
 * Post one frag.
 *
 * @param [in]    path  Of the frag.
 * @param [inout] frag  Gets VQP_FRAG_UNPOSTED on an error.
 *
 * @return VQP_OK or VQP_ERR_IO (logged).
 */
static VQP_ALWAYS_INLINE vqp_status_t
vqp_ib_post_frag(const vqp_ib_path_t *path, vqp_frag_t *frag)
{
    struct ibv_send_wr *bad;
    struct ibv_send_wr wr;
    int ret;

    vqp_ib_fill_wr(&wr, path, frag);
    ret = ibv_post_send(path->qp, &wr, &bad);
    if (vqp_likely(ret == 0)) {
        return VQP_OK;
    }

    vqp_ib_post_error(path, ret);
    frag->flags |= VQP_FRAG_UNPOSTED;
    return VQP_ERR_IO;
}

/** Poll up to @a max completions. @return Their number, or < 0 on failure. */
static inline int vqp_ib_poll(vqp_ib_cq_t *cq, struct ibv_wc *wc, int max)
{
    return ibv_poll_cq(cq->cq, max, wc);
}

/** The vqp_status_t of a completion. */
vqp_status_t vqp_ib_wc_status(enum ibv_wc_status status);

#endif
