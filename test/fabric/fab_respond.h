/*
 * What a responder does with its receives: for RC (fab_respond.c) and UD
 * (fab_ud.c) alike. With the responder's rq_lock held; any process.
 */
#ifndef FAB_RESPOND_H
#define FAB_RESPOND_H

#include "fab_copy.h"
#include "fab_exec.h"

/* A receive WR that is being consumed */
struct fab_recv {
    uint64_t             wr_id;
    uint32_t             length;
    int                  num_sge;
    const struct ibv_sge *sge;
    struct ibv_sge       copy[FAB_MAX_SGE]; /* of a WR of an SRQ */
};

/**
 * Take the oldest receive. One of an SRQ is gone from there; one of the QP's
 * own queue stays at its front until fab_recv_complete.
 *
 * @return 0: there is none.
 */
int fab_recv_take(struct fab_qp *peer, struct fab_recv *recv);

/** Whether there is one; an SRQ's may be gone at once. */
static inline int fab_recv_ready(struct fab_qp *peer)
{
    struct fab_rq *rq = (peer->srq == 0) ?
                                &peer->rq :
                                &fab_ptr(struct fab_srq, peer->srq)->rq;

    return fab_rq_front(rq) != NULL;
}

/** Push the CQE of a receive; sets its wr_id, QP and flags. */
void fab_recv_complete(struct fab_qp *peer, const struct fab_recv *recv,
                       struct fab_cqe *cqe);

/** ns of a code of min_rnr_timer. */
uint64_t fab_rnr_ns(uint8_t code);

#endif
