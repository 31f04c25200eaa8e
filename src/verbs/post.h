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
    uint16_t            recv_posted; /* receives in the queue */
    uint16_t            recv_missing;/* consumed, not posted again yet */
    uint8_t             cq_index;
    vqp_ib_qp_t         rc;
} vqp_ib_path_t;

/** IBV_SEND_* by VQP_FRAG_*. */
extern const unsigned vqp_ib_send_flags[8];

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

/**
 * Post one write from one piece of memory, without and with an immediate.
 *
 * @param [in] flags  VQP_FRAG_*.
 * @param [in] imm    NULL: none.
 *
 * @return 0 or an errno value (logged): it was not posted.
 */
static inline int
vqp_ib_post_write(vqp_ib_path_t *path, uint16_t pos, const vqp_sge_t *sge,
                  uint64_t raddr, uint32_t rkey, unsigned flags,
                  const uint32_t *imm)
{
    struct ibv_send_wr wr, *bad;
    int ret;

    wr.wr_id               = path->wrid | pos;
    wr.next                = NULL;
    wr.sg_list             = (struct ibv_sge*)sge;
    wr.num_sge             = 1;
    wr.opcode              = (imm == NULL) ? IBV_WR_RDMA_WRITE :
                                             IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags          = vqp_ib_send_flags[flags & 7];
    wr.imm_data            = (imm == NULL) ? 0 : htonl(*imm);
    wr.wr.rdma.remote_addr = raddr;
    wr.wr.rdma.rkey        = rkey;
    ret                    = ibv_post_send(path->qp, &wr, &bad);
    if (vqp_unlikely(ret != 0)) {
        vqp_ib_post_error(path, ret);
    }

    return ret;
}

/**
 * Take up to @a max completions. @return how many, or VQP_ERR_IO (logged).
 */
static inline int vqp_ib_poll(vqp_ib_cq_t *cq, struct ibv_wc *wc, int max)
{
    return ibv_poll_cq(cq->cq, max, wc);
}

/** Status of a completion in this project's words. */
vqp_status_t vqp_ib_wc_status(enum ibv_wc_status status);

#endif
