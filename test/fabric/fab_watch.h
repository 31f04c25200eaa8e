/*
 * Records of the queue pairs and completion queues of this process, for the
 * checks of violations. fab_watch.c keeps the tables, and fab_watch_wr.c
 * follows the work requests.
 *
 * The tables have a lock of their own, taken for writing with signals
 * blocked: a handler may poll. It is held for reading through each hook.
 */
#ifndef FAB_WATCH_H
#define FAB_WATCH_H

#include "fab_book.h"

#include <pthread.h>

typedef struct fab_watch_cq fab_watch_cq_t;
struct fab_watch_cq {
    fab_watch_cq_t      *next;
    const struct ibv_cq *cq;
    fab_book_slots_t    slots;
    uint32_t            left;     /* completions of receives of a QP ... */
    uint32_t            left_qpn; /* ... that is destroyed */
};

typedef struct fab_watch_qp fab_watch_qp_t;
struct fab_watch_qp {
    fab_watch_qp_t           *next;
    const struct ibv_context *context;
    const struct ibv_qp      *qp;
    uint32_t                 qpn;
    enum ibv_qp_type         type;
    bool                     sq_sig_all;
    pthread_mutex_t          lock; /* of what follows */
    uint64_t                 cqes;
    fab_book_t               sends;
    fab_book_t               recvs;
};

/**
 * Find and lock a QP's books, and the tables for reading.
 *
 * @return NULL if it is not watched; else fab_watch_qp_put must follow.
 */
fab_watch_qp_t *fab_watch_qp_get(const struct ibv_context *context,
                                 uint32_t qpn);
void fab_watch_qp_put(fab_watch_qp_t *book);

/**
 * Whether the QP is in ERR and through with it: nothing uses the memory of
 * its requests any more, whether or not their completions were polled.
 */
bool fab_watch_is_over(const fab_watch_qp_t *book);

/**
 * Take the count of completions that destroyed QPs have left in a CQ: it is
 * 0 afterwards.
 *
 * @param qpn  Set to the number of the last of these QPs.
 */
uint32_t fab_watch_take_left(const struct ibv_cq *cq, uint32_t *qpn);

static inline const char *fab_watch_device(const struct ibv_context *context)
{
    return context->device->name;
}

#endif
