/*
 * Queue pairs: the object, its state machine, its flush. A QP is in the
 * table of its device in the world, at the slot of its number, and never moves:
 * a peer may look at it at any time, takes the lock and then checks qpn.
 *
 * Two locks: sq_lock is the requester's (the send ring and what the peer is),
 * rq_lock the responder's (receive ring, expected PSN). The state is written
 * with both held; or, when the responder finds an error, with rq_lock alone:
 * then `flush` is set, and who set it calls fab_qp_flush with no lock held.
 */
#ifndef FAB_QP_H
#define FAB_QP_H

#include <infiniband/verbs.h>

#include "fab_rq.h"
#include "fab_world.h"

struct fab_cqe;

/* A send WR that could not be executed when it was posted */
struct fab_swr {
    struct ibv_send_wr wr;       /* sg_list is not used: see sge */
    uint64_t           posted;   /* ns (timed mode, as the next ones) */
    uint64_t           due_send; /* ns: leaves; UINT64_MAX: waits */
    uint64_t           due_exec; /* ns: arrives at the peer */
    uint64_t           due_ack;  /* ns: its ACK arrives */
    uint32_t           length;   /* bytes of data */
    uint8_t            executed;
    uint8_t            status;   /* of the execution: enum ibv_wc_status */
    uint8_t            pad[2];
    struct ibv_sge     sge[];    /* or inline data after one SGE */
};

struct fab_sq {
    fab_off_t ring;     /* (mask + 1) * stride bytes */
    uint32_t  stride;
    uint32_t  mask;
    uint32_t  max_wr;
    uint32_t  max_sge;
    uint32_t  max_inline;
    uint32_t  head;     /* WRs ever posted */
    uint32_t  sent;     /* next to leave (timed mode) */
    uint32_t  exec;     /* next to execute */
    uint32_t  done;     /* next to complete: exec unless in timed mode */
    uint32_t  freed;    /* all before it are free: a later CQE was polled */
    uint32_t  psn;      /* of the next WR to execute */
    uint32_t  reads;    /* READs and atomics that left and are not completed */
    uint32_t  rnrs;     /* RNR NAKs that the next to execute has got */
    uint32_t  losses;   /* its attempts that got no answer */
    uint32_t  failed;   /* timed mode: a WR before exec ended in an error */
    uint32_t  ack_losses; /* timed mode: of the next to complete */
    uint32_t  unacked;        /* acknowledgements are lost from unacked_index on */
    uint32_t  unacked_index;
    uint32_t  unacked_left;   /* number of further WRs that reach the peer */
    uint32_t  unacked_status; /* of the first WR */
    uint64_t  due;      /* ns: when to try again; 0: now */
    uint64_t  wire_free; /* ns: when this QP's path is free (timed mode) */
    uint64_t  last_exec; /* ns: due_exec of the last one queued */
    uint64_t  mbps;      /* the path's rate, 0: the port's (fab_path.h) */
    uint64_t  delay;     /* ns to the peer */
    uint64_t  jitter;    /* ns: at most so much more */
    uint64_t  random;    /* state of its random numbers */
};

struct fab_qp {
    uint32_t        qpn;   /* 0: the slot is free */
    uint16_t        dev;
    uint16_t        proc;
    uint8_t         type;  /* enum ibv_qp_type */
    uint8_t         state; /* enum ibv_qp_state */
    uint8_t         sq_sig_all;
    uint8_t         flush; /* in ERR, and not yet flushed */
    uint32_t        pd;
    uint32_t        taken; /* the slot is in use; the device's lock */
    uint32_t        path;  /* number of the path (RC) */
    uint32_t        link;  /* that it takes, with LINKS */
    uint16_t        udp_sport; /* that was set; 0: that of the flow label */
    uint8_t         lag_port;  /* its member port (fab_lag.h); 0: none */
    fab_off_t       send_cq;
    fab_off_t       recv_cq;
    fab_off_t       srq;
    fab_off_t       ctx;
    uint64_t        user;  /* the struct ibv_qp* in its process */
    /* requester */
    struct fab_lock sq_lock __attribute__((aligned(64)));
    uint32_t        dest_qpn;
    uint32_t        peer_dev;  /* that the AV's address names; ~0u: none */
    uint32_t        peer_port; /* number */
    fab_off_t       peer;      /* slot of dest_qpn on it */
    struct fab_sq   sq;
    /* responder */
    struct fab_lock rq_lock __attribute__((aligned(64)));
    uint32_t        rq_psn;    /* expected */
    uint32_t        rq_excess; /* what a device that counts otherwise counts more */
    uint64_t        lingers;   /* ns: until then it executes in ERR; 0: it does not */
    uint32_t        access;    /* qp_access_flags */
    uint32_t        qkey;
    struct fab_rq   rq;
    uint8_t         last_wqe;  /* the event was raised */
    /* attributes as set, for query_qp; counters */
    struct ibv_qp_attr attr __attribute__((aligned(64)));
    struct ibv_qp_cap  cap;
    uint64_t           wrs;      /* executed as requester */
    uint64_t           bytes;
    uint64_t           messages; /* received */
};

struct fab_qp_handle {
    struct ibv_qp ibv;        /* first */
    struct fab_qp *qp;
    uint64_t      engine_due;  /* due time in the engine; 0: not there */
    uint32_t      engine_pos;  /* in the engine's heap */
    uint32_t      engine_busy; /* threads that are in fab_exec_progress */
};

#define fab_qp_of(_ibv_qp) (((struct fab_qp_handle*)(_ibv_qp))->qp)

/** The slot of a QPN on a device; compare ->qpn before believing it. */
struct fab_qp *fab_qp_slot(uint32_t dev, uint32_t qpn);

/* The verbs of that name; errno and return values as there */
struct ibv_qp *fab_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int fab_qp_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int fab_qp_query(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                 struct ibv_qp_init_attr *init_attr);
int fab_qp_destroy(struct ibv_qp *qp);

/**
 * Move a QP to ERR and complete all it holds with flush errors. With no lock
 * held; any process. A QP that is in RESET or gone is left alone.
 */
void fab_qp_to_error(struct fab_qp *qp);

/** Complete what a QP in ERR holds; with no lock held; any process. */
void fab_qp_flush(struct fab_qp *qp);

/** Same with sq_lock held (and not rq_lock). The receives of one that goes on executing in
 *  ERR remain. */
void fab_qp_flush_locked(struct fab_qp *qp);

/** It is about to go to ERR: does it go on executing there for a while? With both locks
 *  held. */
void fab_qp_linger(struct fab_qp *qp);

/** To ERR, and flush; with sq_lock held (and not rq_lock). */
void fab_qp_fail_locked(struct fab_qp *qp);

/**
 * Push the CQE of the oldest receive, and consume it if it is of the QP's own queue; sets
 * index. In this order, so that a process that is killed here loses no receive. With
 * rq_lock held.
 */
void fab_qp_push_recv(struct fab_qp *qp, struct fab_cqe *cqe);

/** Consume what a process that was killed in fab_qp_push_recv has left; with rq_lock
 *  held. */
void fab_qp_settle_rq(struct fab_qp *qp);

/** Complete the posted receives with flush errors; with rq_lock held. */
void fab_qp_flush_rq(struct fab_qp *qp);

/**
 * Complete a send WR: a CQE if it is signaled or failed.
 *
 * @param [in] index  Its number in the QP.
 */
void fab_qp_complete_send(struct fab_qp *qp, const struct ibv_send_wr *wr,
                          uint32_t index, uint32_t length,
                          enum ibv_wc_status status);

/** The queued WR of this number. */
static inline struct fab_swr *fab_sq_slot(const struct fab_sq *sq, uint32_t index)
{
    return fab_ptr(struct fab_swr,
                   sq->ring + (uint64_t)(index & sq->mask) * sq->stride);
}

/** Give back the send slots up to a WR, or a receive slot: a CQE was polled. */
void fab_qp_retire(const struct fab_cqe *cqe);

/** All QPs of a process that died vanish from their tables. */
void fab_qp_reap(uint32_t proc);

/** Check the modify_qp attribute mask (fab_qp_mask.c). @return 0 or EINVAL. */
int fab_qp_check_mask(enum ibv_qp_type type, enum ibv_qp_state from,
                      enum ibv_qp_state to, int mask);

#endif
