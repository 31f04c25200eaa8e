/*
 * Execution of send WRs: posting, the requester's way to the peer, and the
 * responder's part, which the requester plays too. RC here; datagrams are in
 * fab_ud.c.
 *
 * A WR executes when it is posted where nothing is in its way; else it goes
 * into the QP's ring and the engine goes on with it. Order within a QP is kept
 * always.
 */
#ifndef FAB_EXEC_H
#define FAB_EXEC_H

#include <infiniband/verbs.h>
#include <sys/uio.h>

#include "fab_mr.h"
#include "fab_qp.h"

/* The verbs of that name: also the context's operations */
int fab_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                  struct ibv_send_wr **bad_wr);
int fab_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                  struct ibv_recv_wr **bad_wr);

/* How an attempt to execute a WR ended */
enum fab_exec_end {
    FAB_EXEC_DONE, /* with a status, good or bad */
    FAB_EXEC_RNR,  /* the peer has no receive: again after its timer */
    FAB_EXEC_LOST, /* no answer: again after the timeout */
    FAB_EXEC_UNACKED /* executed; it and all later ones are not acknowledged */
};

struct fab_exec_result {
    enum fab_exec_end  end;
    enum ibv_wc_status status;     /* DONE: the requester's */
    struct fab_qp      *broken;    /* a responder that went to ERR: to be
                                      flushed once sq_lock is dropped */
    uint64_t           rnr_ns;     /* RNR: how long to wait */
};

/**
 * Try to execute one WR of an RC QP at its peer: data, receive, CQE of the
 * receiver, PSNs. The requester's completion is the caller's. With the QP's
 * sq_lock held, in its process.
 *
 * @param [in] sge  The WR's data; inline data where wr->send_flags says so.
 */
void fab_exec_rc(struct fab_qp *qp, const struct ibv_send_wr *wr,
                 const struct ibv_sge *sge, uint32_t length,
                 struct fab_exec_result *result);

/** Same, but the answer is lost: nothing comes back of a READ or an atomic. */
void fab_exec_unanswered(struct fab_qp *qp, const struct ibv_send_wr *wr,
                         const struct ibv_sge *sge, uint32_t length,
                         struct fab_exec_result *result);

/**
 * Immediate mode, behind a WR that ended in FAB_EXEC_UNACKED: what is in the
 * ring reaches the peer as far as it may; then the QP fails. With sq_lock held.
 */
void fab_exec_unacked_next(struct fab_qp *qp, struct fab_exec_result *result);

/** When a QP whose acknowledgements are lost from now on gives up; ns. */
uint64_t fab_exec_unacked_due(const struct fab_qp *qp);

/** Same for any QP: applies faults, checks the ports, then RC or UD. */
void fab_exec_wr(struct fab_qp *qp, const struct ibv_send_wr *wr,
                 const struct ibv_sge *sge, uint32_t length,
                 struct fab_exec_result *result);

/**
 * A READ that was executed: take the data once more, as a responder may that
 * executes it late. Whoever lets something be written behind it without the
 * fence flag gets the new data. What is not there any more stays as it is. With
 * sq_lock held.
 */
void fab_exec_read_late(struct fab_qp *qp, const struct ibv_send_wr *wr,
                        const struct ibv_sge *sge, uint32_t length);

/**
 * Go on with the WRs in a QP's ring, as far as they are due. Takes sq_lock; in
 * the QP's process.
 *
 * @return when to call again (ns), 0: not needed.
 */
uint64_t fab_exec_progress(struct fab_qp *qp, uint64_t now);

/**
 * What an attempt to execute the oldest WR not executed means for its QP in
 * immediate mode: completion, failure and flush, or when to try again. With
 * sq_lock held.
 *
 * @return nonzero if the WR has been completed, or the QP has failed.
 */
int fab_exec_settle(struct fab_qp *qp, const struct ibv_send_wr *wr,
                    uint32_t length, const struct fab_exec_result *result);

/**
 * When the next attempt comes (sets due), for a result that is not DONE.
 *
 * @return the status to complete with when there is none, else SUCCESS.
 */
enum ibv_wc_status fab_exec_retry(struct fab_qp *qp,
                                  const struct fab_exec_result *result);

/** The ring in timed mode: what is due arrives or completes; sq_lock held. */
void fab_exec_timed(struct fab_qp *qp, uint64_t now,
                    struct fab_exec_result *result);

/** Times of a WR that was put into the ring (timed mode); sq_lock held. */
void fab_exec_schedule(struct fab_qp *qp, struct fab_swr *swr, uint64_t now);

/** A READ or an atomic. */
static inline int fab_wr_is_read(const struct ibv_send_wr *wr)
{
    return (wr->opcode == IBV_WR_RDMA_READ) ||
           (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) ||
           (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static inline int fab_exec_is_down(const struct fab_port *port)
{
    return __atomic_load_n(&port->down, __ATOMIC_RELAXED) != 0;
}

/* Not a locked addition, for what that costs */
static inline void fab_exec_add(uint64_t *count, uint64_t value)
{
    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + value,
                     __ATOMIC_RELAXED);
}

/** Count an executed WR; a port's numbers may miss some under contention. */
static inline void fab_exec_count(struct fab_qp *qp, uint64_t length)
{
    struct fab_port *port = &fab_world->devs[qp->dev]
                                     .ports[qp->attr.port_num - 1];

    ++qp->wrs;
    qp->bytes += length;
    fab_exec_add(&port->wrs, 1);
    fab_exec_add(&port->bytes, length);
}

/* Bytes of the WR: of its SGEs. */
static inline uint64_t fab_sge_length(const struct ibv_sge *sge, int num_sge)
{
    uint64_t length = 0;
    int i;

    for (i = 0; i < num_sge; ++i) {
        length += sge[i].length;
    }
    return length;
}

/** Packets of so many bytes: what a message adds to the PSN. */
static inline uint32_t fab_packets(uint64_t length, uint32_t mtu)
{
    return (length <= mtu) ? 1 : (uint32_t)((length + mtu - 1) / mtu);
}

#endif
