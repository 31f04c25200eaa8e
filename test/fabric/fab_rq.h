/*
 * Receive queues: a QP's own and shared ones (SRQ). A ring of receive WRs in
 * the world, that a requester in any process consumes.
 */
#ifndef FAB_RQ_H
#define FAB_RQ_H

#include <infiniband/verbs.h>

#include "fab_world.h"

struct fab_rwr {
    uint64_t       wr_id;
    uint32_t       num_sge;
    uint32_t       length; /* bytes it takes, at most 2^32 - 1 */
    struct ibv_sge sge[];
};

/* Posting takes post_lock, consuming the lock of the object that it is in:
   who posts does not wait for data on its way */
struct fab_rq {
    struct fab_lock post_lock;
    uint32_t        pad;
    fab_off_t ring;    /* (mask + 1) * stride bytes; 0: no queue */
    uint32_t  stride;
    uint32_t  mask;
    uint32_t  max_wr;
    uint32_t  max_sge;
    uint32_t  head;    /* ever posted */
    uint32_t  tail;    /* ever consumed */
    uint32_t  polled;  /* behind the newest one whose CQE was polled */
    uint32_t  is_pushing; /* nonzero from before the CQE is pushed until it is consumed */
    uint32_t  freed;   /* ever given back: a slot is free once its CQE has
                          been polled */
    uint32_t  taken;   /* profile rxe: the same, but free before the CQE is pushed */
};

struct fab_srq {
    struct fab_lock lock;
    struct fab_rq   rq;
    uint32_t        limit;  /* 0: not armed */
    uint32_t        users;  /* QPs */
    uint32_t        proc;
    uint32_t        dev;
    uint32_t        pd;
    uint32_t        id;
    fab_off_t       ctx;
    uint64_t        user;   /* the struct ibv_srq* in its process */
};

struct fab_srq_handle {
    struct ibv_srq ibv; /* first */
    struct fab_srq *srq;
};

#define fab_srq_of(_ibv_srq) (((struct fab_srq_handle*)(_ibv_srq))->srq)

/** Make a ring; @return 0 or ENOMEM. max_wr 0 makes none. */
int fab_rq_init(struct fab_rq *rq, uint32_t max_wr, uint32_t max_sge);
void fab_rq_cleanup(struct fab_rq *rq);

/** Append one WR, with post_lock held. @return 0, ENOMEM (full), EINVAL (too
 * many SGEs). */
int fab_rq_put(struct fab_rq *rq, const struct ibv_recv_wr *wr);

/** WRs that take up slots. */
static inline uint32_t fab_rq_used(const struct fab_rq *rq)
{
    return rq->head - ((fab_config.profile == FAB_PROFILE_RXE) ?
                               __atomic_load_n(&rq->taken, __ATOMIC_ACQUIRE) :
                               __atomic_load_n(&rq->freed, __ATOMIC_RELAXED));
}

/** The oldest WR not consumed, or NULL; consumers only. */
static inline struct fab_rwr *fab_rq_front(struct fab_rq *rq)
{
    if (__atomic_load_n(&rq->head, __ATOMIC_ACQUIRE) == rq->tail) {
        return NULL;
    }

    return fab_ptr(struct fab_rwr,
                   rq->ring + (uint64_t)(rq->tail & rq->mask) * rq->stride);
}

/** The contents of the oldest WR are not needed any more: profile rxe frees its slot. Only who
 *  polls the CQE posts into it; until then it is not overwritten. Consumers only. */
static inline void fab_rq_take(struct fab_rq *rq)
{
    __atomic_store_n(&rq->taken, rq->tail + 1, __ATOMIC_RELEASE);
}

/** Consume the oldest WR; its contents are not valid any more. */
static inline void fab_rq_pop(struct fab_rq *rq)
{
    fab_rq_take(rq);
    __atomic_store_n(&rq->tail, rq->tail + 1, __ATOMIC_RELEASE);
}

/* The verbs of that name; errno and return values as there */
struct ibv_srq *fab_srq_create(struct ibv_pd *pd,
                               struct ibv_srq_init_attr *attr);
int fab_srq_modify(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int fab_srq_query(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int fab_srq_destroy(struct ibv_srq *srq);
int fab_srq_post_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                      struct ibv_recv_wr **bad_wr);

/** Raise the limit event if the level fell below; with the lock held. */
void fab_srq_check_limit(struct fab_srq *srq);

#endif
