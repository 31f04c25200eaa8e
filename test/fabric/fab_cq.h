/*
 * Completion queues. The ring is in the world: the requester of any process
 * pushes into it. Pushing takes the producer's lock, polling the consumer's; an
 * empty poll takes none.
 */
#ifndef FAB_CQ_H
#define FAB_CQ_H

#include <infiniband/verbs.h>

#include "fab_world.h"

struct fab_qp;

enum {
    FAB_CQE_SEND    = 1 << 0, /* of a send queue: retires up to index */
    FAB_CQE_RQ      = 1 << 1, /* consumed a receive of the QP's own queue */
    FAB_CQE_SRQ     = 1 << 2  /* consumed a receive of the SRQ */
};

struct fab_cqe {
    uint64_t wr_id;
    uint64_t qp;        /* offset of the struct fab_qp */
    uint32_t qp_num;
    uint32_t byte_len;
    uint32_t imm;       /* big endian, as posted */
    uint32_t src_qp;
    uint32_t vendor_err;
    uint32_t index;     /* SEND, RQ: number of the WR in its queue, from 0 */
    uint16_t wc_flags;
    uint16_t pkey_index;
    uint16_t slid;
    uint8_t  status;
    uint8_t  opcode;
    uint8_t  sl;
    uint8_t  flags;     /* FAB_CQE_* */
    uint8_t  solicited; /* a receive of a message with the solicited bit */
    uint8_t  pad[11];
};

enum {
    FAB_CQ_IDLE      = 0,
    FAB_CQ_ARMED     = 1,
    FAB_CQ_SOLICITED = 2  /* armed for solicited and error CQEs only */
};

struct fab_cq {
    /* producers */
    struct fab_lock prod_lock;
    uint32_t        armed;      /* FAB_CQ_* */
    uint32_t        head;       /* CQEs ever pushed */
    uint32_t        overrun;    /* CQEs lost: the queue is in error */
    fab_off_t       ring;       /* struct fab_cqe[mask + 1] */
    uint32_t        mask;
    uint32_t        cqe;        /* CQEs it may hold */
    fab_off_t       chan;       /* 0: none */
    fab_off_t       ctx;        /* struct fab_ctx: takes the async events */
    uint64_t        user;       /* the struct ibv_cq* in its process */
    /* consumers */
    struct fab_lock cons_lock __attribute__((aligned(64)));
    uint32_t        tail;       /* CQEs ever polled */
    uint32_t        users;      /* QPs' queues that use it */
    uint32_t        proc;
    uint32_t        dev;
    uint32_t        id;         /* for messages */
    /* the channel's */
    fab_off_t       event_next;
    uint32_t        events;        /* raised, not fetched; chan's lock */
    uint32_t        events_got;    /* fetched */
    uint32_t        events_acked;
};

struct fab_cq_handle {
    union {
        struct ibv_cq    ibv; /* first */
        struct ibv_cq_ex ex;
    };
    struct fab_cq *cq;
    struct ibv_wc wc;         /* start_poll's current one */
};

#define fab_cq_of(_ibv_cq) (((struct fab_cq_handle*)(_ibv_cq))->cq)

/* The verbs of that name; errno and return values as there */
struct ibv_cq *fab_cq_create(struct ibv_context *context, int cqe,
                             void *cq_context, struct ibv_comp_channel *channel,
                             int comp_vector);
struct ibv_cq_ex *fab_cq_create_ex(struct ibv_context *context,
                                   struct ibv_cq_init_attr_ex *attr);
int fab_cq_resize(struct ibv_cq *cq, int cqe);
int fab_cq_destroy(struct ibv_cq *cq);
int fab_cq_poll(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int fab_cq_req_notify(struct ibv_cq *cq, int solicited_only);
void fab_cq_ack_events(struct ibv_cq *cq, unsigned int nevents);

/**
 * Push a CQE and raise the channel where the CQ is armed for it. A full queue
 * loses it, goes into error and raises IBV_EVENT_CQ_ERR. Any process; takes the
 * producer's lock.
 */
void fab_cq_push(struct fab_cq *cq, const struct fab_cqe *cqe);

/** Whether the CQE of the receive with this number was pushed: it may have been
 *  polled meanwhile. Not with the consumer's lock held. */
int fab_cq_has_seen(struct fab_cq *cq, struct fab_qp *qp, uint32_t index);

/** Remove the CQEs of a QP that are still inside, freeing what they retire. */
void fab_cq_purge(struct fab_cq *cq, struct fab_qp *qp);

/** CQEs in the queue, for the checks of violations and for tests. */
static inline uint32_t fab_cq_level(const struct fab_cq *cq)
{
    return __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) -
           __atomic_load_n(&cq->tail, __ATOMIC_RELAXED);
}

#endif
