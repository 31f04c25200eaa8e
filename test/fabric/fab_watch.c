/*
 * Records of the queue pairs and completion queues of this process, and the
 * checks when one of them, or memory, is destroyed. May call libc and read
 * CQs.
 */
#include "fab_watch.h"
#include "fab_ctx.h"
#include "fab_cq.h"
#include "fab_violations.h"
#include "fab_qp.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_BUCKETS 1024

static struct {
    pthread_rwlock_t lock;
    fab_watch_qp_t       *qps[WATCH_BUCKETS]; /* by QPN */
    fab_watch_cq_t       *cqs[WATCH_BUCKETS]; /* by address */
} watch = {.lock = PTHREAD_RWLOCK_INITIALIZER};

static void watch_write_lock(sigset_t *old)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, old);
    pthread_rwlock_wrlock(&watch.lock);
}

static void watch_write_unlock(const sigset_t *old)
{
    pthread_rwlock_unlock(&watch.lock);
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

static fab_watch_cq_t **watch_cq_link(const struct ibv_cq *cq)
{
    fab_watch_cq_t **link = &watch.cqs[((uintptr_t)cq >> 6) % WATCH_BUCKETS];

    while ((*link != NULL) && ((*link)->cq != cq)) {
        link = &(*link)->next;
    }

    return link;
}

static fab_watch_qp_t **watch_qp_link(const struct ibv_context *context,
                                      uint32_t qpn)
{
    fab_watch_qp_t **link = &watch.qps[qpn % WATCH_BUCKETS];

    while ((*link != NULL) &&
           (((*link)->qpn != qpn) || ((*link)->context != context))) {
        link = &(*link)->next;
    }

    return link;
}

fab_watch_qp_t *fab_watch_qp_get(const struct ibv_context *context,
                                 uint32_t qpn)
{
    fab_watch_qp_t *book;

    pthread_rwlock_rdlock(&watch.lock);
    book = *watch_qp_link(context, qpn);
    if (book == NULL) {
        pthread_rwlock_unlock(&watch.lock);
        return NULL;
    }

    pthread_mutex_lock(&book->lock);
    return book;
}

void fab_watch_qp_put(fab_watch_qp_t *book)
{
    pthread_mutex_unlock(&book->lock);
    pthread_rwlock_unlock(&watch.lock);
}

/* ---- completion queues ---- */

void fab_violations_create_cq(const struct ibv_cq *cq, int cqe)
{
    fab_watch_cq_t *book = calloc(1, sizeof(*book));
    fab_watch_cq_t **link;
    sigset_t old;

    if (book == NULL) {
        return; /* it is not watched */
    }

    book->cq         = cq;
    book->slots.have = cqe;
    book->slots.id   = cq->handle;
    watch_write_lock(&old);
    link  = watch_cq_link(cq);
    *link = book;
    watch_write_unlock(&old);
}

void fab_violations_resize_cq(const struct ibv_cq *cq, int cqe)
{
    fab_watch_cq_t *book;

    pthread_rwlock_rdlock(&watch.lock);
    book = *watch_cq_link(cq);
    if (book != NULL) {
        __atomic_store_n(&book->slots.have, cqe, __ATOMIC_RELAXED);
    }
    pthread_rwlock_unlock(&watch.lock);
}

void fab_violations_destroy_cq(const struct ibv_cq *cq, unsigned unacknowledged)
{
    fab_watch_cq_t *book, **link;
    sigset_t old;

    watch_write_lock(&old);
    link = watch_cq_link(cq);
    book = *link;
    if (book != NULL) {
        *link = book->next;
    }
    watch_write_unlock(&old);
    free(book);
    if (unacknowledged > 0) {
        fab_violations_report(FAB_RULE_EVENTS, fab_watch_device(cq->context),
                              "cq", cq->handle, "%u", unacknowledged);
    }
}

uint32_t fab_watch_take_left(const struct ibv_cq *cq, uint32_t *qpn)
{
    uint32_t left = 0;
    fab_watch_cq_t *book;

    *qpn = 0;
    pthread_rwlock_rdlock(&watch.lock);
    book = *watch_cq_link(cq);
    if (book != NULL) {
        left = __atomic_exchange_n(&book->left, 0, __ATOMIC_RELAXED);
        *qpn = book->left_qpn;
    }
    pthread_rwlock_unlock(&watch.lock);
    return left;
}

/* ---- queue pairs ---- */

void fab_violations_create_qp(const struct ibv_qp *qp,
                              const struct ibv_qp_cap *cap, bool sq_sig_all)
{
    fab_watch_qp_t *book = calloc(1, sizeof(*book));
    fab_watch_cq_t *send_cq, *recv_cq;
    fab_watch_qp_t **link;
    sigset_t old;

    if (book == NULL) {
        return; /* it is not watched */
    }

    book->context    = qp->context;
    book->qp         = qp;
    book->qpn        = qp->qp_num;
    book->type       = qp->qp_type;
    book->sq_sig_all = sq_sig_all;
    pthread_mutex_init(&book->lock, NULL);
    watch_write_lock(&old);
    send_cq = (qp->send_cq == NULL) ? NULL : *watch_cq_link(qp->send_cq);
    recv_cq = (qp->recv_cq == NULL) ? NULL : *watch_cq_link(qp->recv_cq);
    if ((fab_book_init(&book->sends, cap->max_send_wr, cap->max_send_sge,
                       (send_cq == NULL) ? NULL : &send_cq->slots) != 0) ||
        (fab_book_init(&book->recvs, (qp->srq == NULL) ? cap->max_recv_wr : 0,
                       cap->max_recv_sge,
                       (recv_cq == NULL) ? NULL : &recv_cq->slots) != 0)) {
        fab_book_cleanup(&book->sends);
        free(book);
    } else {
        link  = watch_qp_link(qp->context, qp->qp_num);
        *link = book;
    }
    watch_write_unlock(&old);
}

void fab_violations_modify_qp(const struct ibv_qp *qp, enum ibv_qp_state state)
{
    fab_watch_qp_t *book;

    if (state != IBV_QPS_RESET) {
        return;
    }

    book = fab_watch_qp_get(qp->context, qp->qp_num);
    if (book != NULL) {
        fab_book_take_back(&book->sends, fab_book_level(&book->sends));
        fab_book_take_back(&book->recvs, fab_book_level(&book->recvs));
        fab_watch_qp_put(book);
    }
}

/* Unpolled completions of a QP. They may be left if the CQ is destroyed, too;
 * polling them later is a violation. Receives that wait for a message may be
 * left: the device drops them. */
static uint32_t watch_unpolled(const struct ibv_qp *qp, struct fab_cq *cq)
{
    uint32_t count = 0;
    const struct fab_cqe *cqe;
    uint32_t i;

    fab_lock_take(&cq->cons_lock);
    for (i = cq->tail; i != __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE);
         ++i) {
        cqe    = &fab_ptr(struct fab_cqe, cq->ring)[i & cq->mask];
        count += (cqe->qp_num == qp->qp_num);
    }
    fab_lock_drop(&cq->cons_lock);
    return count;
}

/* Note what a QP leaves to one of its CQs: completions, and so many sends that
 * will not have any. With the lock of the books. */
static void watch_leave(const struct ibv_qp *qp, struct ibv_cq *ibv_cq,
                        uint32_t sends)
{
    uint32_t left      = watch_unpolled(qp, fab_cq_of(ibv_cq)) + sends;
    fab_watch_cq_t *cq = *watch_cq_link(ibv_cq);

    if ((cq != NULL) && (left > 0)) {
        cq->left     = left;
        cq->left_qpn = qp->qp_num;
    }
}

void fab_violations_destroy_qp(const struct ibv_qp *qp)
{
    /* successful ones without a CQE of their own are complete */
    const struct fab_sq *sq = &fab_qp_of(qp)->sq;
    uint32_t sends          = sq->head - sq->done;
    fab_watch_qp_t *book, **link;
    sigset_t old;

    watch_write_lock(&old);
    link = watch_qp_link(qp->context, qp->qp_num);
    book = *link;
    if (book != NULL) {
        *link = book->next;
    }
    if (book == NULL) {
        watch_write_unlock(&old);
        return;
    }

    watch_leave(qp, qp->recv_cq, 0);
    watch_leave(qp, qp->send_cq, (book->type == IBV_QPT_UD) ? 0 : sends);
    fab_book_cleanup(&book->sends);
    fab_book_cleanup(&book->recvs);
    watch_write_unlock(&old);
    pthread_mutex_destroy(&book->lock);
    free(book);
}

/* ---- memory ---- */

bool fab_watch_is_over(const fab_watch_qp_t *book)
{
    const struct fab_qp *qp = fab_qp_of(book->qp);

    return (fab_context_dead(book->qp->context) != 0) ||
           ((__atomic_load_n(&qp->state, __ATOMIC_ACQUIRE) == IBV_QPS_ERR) &&
            !__atomic_load_n(&qp->flush, __ATOMIC_ACQUIRE));
}

void fab_violations_dereg_mr(const struct ibv_mr *mr)
{
    fab_watch_qp_t *book;
    unsigned i;

    pthread_rwlock_rdlock(&watch.lock);
    for (i = 0; i < WATCH_BUCKETS; ++i) {
        for (book = watch.qps[i]; book != NULL; book = book->next) {
            pthread_mutex_lock(&book->lock);
            /* the state last: a QP that has no part in it may be changing */
            if ((book->context == mr->context) &&
                (fab_book_uses(&book->sends, mr->lkey) ||
                 fab_book_uses(&book->recvs, mr->lkey)) &&
                !fab_watch_is_over(book)) {
                fab_violations_report(FAB_RULE_DEREG,
                                      fab_watch_device(mr->context), "qp",
                                      book->qpn, "lkey 0x%x", mr->lkey);
            }
            pthread_mutex_unlock(&book->lock);
        }
    }
    pthread_rwlock_unlock(&watch.lock);
}

uint64_t fab_violations_cqes(const char *device, uint32_t qpn)
{
    uint64_t cqes = 0;
    fab_watch_qp_t *book;

    pthread_rwlock_rdlock(&watch.lock);
    for (book = watch.qps[qpn % WATCH_BUCKETS]; book != NULL;
         book = book->next) {
        if ((book->qpn == qpn) &&
            !strcmp(fab_watch_device(book->context), device)) {
            cqes += __atomic_load_n(&book->cqes, __ATOMIC_RELAXED);
        }
    }
    pthread_rwlock_unlock(&watch.lock);
    return cqes;
}
