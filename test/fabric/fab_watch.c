/*
 * The hooks of manners: books for the queue pairs and completion queues of this
 * process, and the rules that they can tell. May call libc and look into CQs.
 *
 * The tables are under a lock of their own, taken for writing with signals
 * blocked: a handler may poll. It is held for reading through each hook.
 */
#include "fab_book.h"
#include "fab_content.h"
#include "fab_cq.h"
#include "fab_manners.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_BUCKETS 1024

typedef struct watch_cq watch_cq_t;
struct watch_cq {
    watch_cq_t          *next;
    const struct ibv_cq *cq;
    fab_book_slots_t    slots;
};

typedef struct watch_qp watch_qp_t;
struct watch_qp {
    watch_qp_t               *next;
    const struct ibv_context *context;
    uint32_t                 qpn;
    enum ibv_qp_type         type;
    bool                     sq_sig_all;
    pthread_mutex_t          lock; /* of what follows */
    uint64_t                 cqes;
    fab_book_t               sends;
    fab_book_t               recvs;
};

static struct {
    pthread_rwlock_t lock;
    watch_qp_t       *qps[WATCH_BUCKETS]; /* by QPN */
    watch_cq_t       *cqs[WATCH_BUCKETS]; /* by address */
} watch = {.lock = PTHREAD_RWLOCK_INITIALIZER};

/* Where the post that failed for its depth stopped being entered */
static __thread const void *watch_stopped;

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

static const char *watch_device(const struct ibv_context *context)
{
    return context->device->name;
}

static watch_cq_t **watch_cq_link(const struct ibv_cq *cq)
{
    watch_cq_t **link = &watch.cqs[((uintptr_t)cq >> 6) % WATCH_BUCKETS];

    while ((*link != NULL) && ((*link)->cq != cq)) {
        link = &(*link)->next;
    }

    return link;
}

static watch_qp_t **watch_qp_link(const struct ibv_context *context,
                                  uint32_t qpn)
{
    watch_qp_t **link = &watch.qps[qpn % WATCH_BUCKETS];

    while ((*link != NULL) &&
           (((*link)->qpn != qpn) || ((*link)->context != context))) {
        link = &(*link)->next;
    }

    return link;
}

/* Found: it is locked, and watch_qp_put must follow */
static watch_qp_t *watch_qp_get(const struct ibv_context *context, uint32_t qpn)
{
    watch_qp_t *book;

    pthread_rwlock_rdlock(&watch.lock);
    book = *watch_qp_link(context, qpn);
    if (book == NULL) {
        pthread_rwlock_unlock(&watch.lock);
        return NULL;
    }

    pthread_mutex_lock(&book->lock);
    return book;
}

static void watch_qp_put(watch_qp_t *book)
{
    pthread_mutex_unlock(&book->lock);
    pthread_rwlock_unlock(&watch.lock);
}

/* ---- completion queues ---- */

void fab_manners_create_cq(const struct ibv_cq *cq, int cqe)
{
    watch_cq_t *book = calloc(1, sizeof(*book));
    watch_cq_t **link;
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

void fab_manners_resize_cq(const struct ibv_cq *cq, int cqe)
{
    watch_cq_t *book;

    pthread_rwlock_rdlock(&watch.lock);
    book = *watch_cq_link(cq);
    if (book != NULL) {
        __atomic_store_n(&book->slots.have, cqe, __ATOMIC_RELAXED);
    }
    pthread_rwlock_unlock(&watch.lock);
}

void fab_manners_destroy_cq(const struct ibv_cq *cq, unsigned unacknowledged)
{
    watch_cq_t *book, **link;
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
        fab_manners_report(FAB_RULE_EVENTS, watch_device(cq->context), "cq",
                           cq->handle, "%u", unacknowledged);
    }
}

/* ---- queue pairs ---- */

void fab_manners_create_qp(const struct ibv_qp *qp,
                           const struct ibv_qp_cap *cap, bool sq_sig_all)
{
    watch_qp_t *book = calloc(1, sizeof(*book));
    watch_cq_t *send_cq, *recv_cq;
    watch_qp_t **link;
    sigset_t old;

    if (book == NULL) {
        return; /* it is not watched */
    }

    book->context    = qp->context;
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

void fab_manners_modify_qp(const struct ibv_qp *qp, enum ibv_qp_state state)
{
    watch_qp_t *book;

    if (state != IBV_QPS_RESET) {
        return;
    }

    book = watch_qp_get(qp->context, qp->qp_num);
    if (book != NULL) {
        fab_book_take_back(&book->sends, fab_book_level(&book->sends));
        fab_book_take_back(&book->recvs, fab_book_level(&book->recvs));
        watch_qp_put(book);
    }
}

/* Receives of a QP whose completions were not polled. Those that wait for a
   message may be left: they are the device's to drop. */
static uint32_t watch_unpolled(const struct ibv_qp *qp)
{
    struct fab_cq *cq = fab_cq_of(qp->recv_cq);
    uint32_t count    = 0;
    const struct fab_cqe *cqe;
    uint32_t i;

    fab_lock_take(&cq->cons_lock);
    for (i = cq->tail; i != __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE);
         ++i) {
        cqe    = &fab_ptr(struct fab_cqe, cq->ring)[i & cq->mask];
        count += (cqe->qp_num == qp->qp_num) && !(cqe->flags & FAB_CQE_SEND);
    }
    fab_lock_drop(&cq->cons_lock);
    return count;
}

void fab_manners_destroy_qp(const struct ibv_qp *qp)
{
    uint32_t recvs = watch_unpolled(qp);
    watch_qp_t *book, **link;
    uint32_t sends;
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

    sends = fab_book_level(&book->sends);
    fab_book_cleanup(&book->sends);
    fab_book_cleanup(&book->recvs);
    watch_write_unlock(&old);
    if ((book->type != IBV_QPT_UD) && (sends + recvs > 0)) {
        fab_manners_report(FAB_RULE_QP_LEFT, watch_device(qp->context), "qp",
                           qp->qp_num, "%u sends, %u receives", sends, recvs);
    }

    pthread_mutex_destroy(&book->lock);
    free(book);
}

/* ---- posting ---- */

static bool watch_reads_memory(const struct ibv_send_wr *wr)
{
    return (wr->opcode == IBV_WR_RDMA_WRITE) ||
           (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) ||
           (wr->opcode == IBV_WR_SEND) || (wr->opcode == IBV_WR_SEND_WITH_IMM);
}

static void watch_crowded(const struct ibv_qp *qp, const fab_book_t *book)
{
    fab_manners_report(FAB_RULE_CQ_SLOTS, watch_device(qp->context), "cq",
                       book->slots->id, "%lld slots, posted on qp 0x%x",
                       (long long)book->slots->have, qp->qp_num);
}

/* @return false if the queue is full */
static bool watch_send(const struct ibv_qp *qp, watch_qp_t *book,
                       const struct ibv_send_wr *wr)
{
    bool is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;
    fab_book_wr_t *entry;
    bool crowded;

    entry = fab_book_enter(&book->sends, wr->wr_id, wr->sg_list,
                           is_inline ? 0 : wr->num_sge, &crowded);
    if (entry == NULL) {
        fab_manners_report(FAB_RULE_SQ_DEPTH, watch_device(qp->context), "qp",
                           qp->qp_num, "%u", book->sends.max);
        return false;
    }

    entry->signaled = book->sq_sig_all ||
                      ((wr->send_flags & IBV_SEND_SIGNALED) != 0);
    entry->hashed   = watch_reads_memory(wr) && (entry->num_sge > 0) &&
                      (fab_content_hash(entry->sge, (int)entry->num_sge,
                                        &entry->hash) == 0);
    if (crowded) {
        watch_crowded(qp, &book->sends);
    }

    return true;
}

void fab_manners_post_send(const struct ibv_qp *qp,
                           const struct ibv_send_wr *wr)
{
    watch_qp_t *book = watch_qp_get(qp->context, qp->qp_num);

    watch_stopped = NULL;
    if (book == NULL) {
        return;
    }

    while ((wr != NULL) && watch_send(qp, book, wr)) {
        wr = wr->next;
    }

    watch_stopped = wr;
    watch_qp_put(book);
}

void fab_manners_unpost_send(const struct ibv_qp *qp,
                             const struct ibv_send_wr *bad_wr)
{
    watch_qp_t *book = watch_qp_get(qp->context, qp->qp_num);
    uint32_t count   = 0;

    if (book == NULL) {
        return;
    }

    for (; (bad_wr != NULL) && (bad_wr != watch_stopped);
         bad_wr = bad_wr->next) {
        ++count;
    }

    fab_book_take_back(&book->sends, count);
    watch_qp_put(book);
}

void fab_manners_post_recv(const struct ibv_qp *qp,
                           const struct ibv_recv_wr *wr)
{
    watch_qp_t *book = watch_qp_get(qp->context, qp->qp_num);
    bool crowded;

    watch_stopped = NULL;
    if (book == NULL) {
        return;
    }

    for (; wr != NULL; wr = wr->next) {
        if (fab_book_enter(&book->recvs, wr->wr_id, wr->sg_list, wr->num_sge,
                           &crowded) == NULL) {
            fab_manners_report(FAB_RULE_RQ_DEPTH, watch_device(qp->context),
                               "qp", qp->qp_num, "%u", book->recvs.max);
            break;
        }
        if (crowded) {
            watch_crowded(qp, &book->recvs);
        }
    }

    watch_stopped = wr;
    watch_qp_put(book);
}

void fab_manners_unpost_recv(const struct ibv_qp *qp,
                             const struct ibv_recv_wr *bad_wr)
{
    watch_qp_t *book = watch_qp_get(qp->context, qp->qp_num);
    uint32_t count   = 0;

    if (book == NULL) {
        return;
    }

    for (; (bad_wr != NULL) && (bad_wr != watch_stopped);
         bad_wr = bad_wr->next) {
        ++count;
    }

    fab_book_take_back(&book->recvs, count);
    watch_qp_put(book);
}

/* ---- completing ---- */

/* The oldest send is complete, whether or not it has a completion itself */
static void watch_sent(watch_qp_t *book)
{
    const fab_book_wr_t *entry = fab_book_at(&book->sends, book->sends.tail);
    uint64_t hash;

    if (entry->hashed) {
        if (fab_content_hash(entry->sge, (int)entry->num_sge, &hash) != 0) {
            fab_manners_report(FAB_RULE_UNMAPPED, watch_device(book->context),
                               "qp", book->qpn, "wr_id 0x%llx",
                               (unsigned long long)entry->wr_id);
        } else if (hash != entry->hash) {
            fab_manners_report(FAB_RULE_CHANGED, watch_device(book->context),
                               "qp", book->qpn, "wr_id 0x%llx",
                               (unsigned long long)entry->wr_id);
        }
    }

    fab_book_take_off(&book->sends);
}

static void watch_completed(watch_qp_t *book, const struct ibv_wc *wc)
{
    bool failed = wc->status != IBV_WC_SUCCESS;
    uint32_t index;

    ++book->cqes;
    if (wc->opcode & IBV_WC_RECV) {
        /* Two threads may report what they polled in another order */
        if (fab_book_level(&book->recvs) > 0) {
            fab_book_take_off(&book->recvs);
        }
    } else if (fab_book_find(&book->sends, wc->wr_id, failed, &index)) {
        while (book->sends.tail != index + 1) {
            watch_sent(book);
        }
    }
}

void fab_manners_polled(const struct ibv_cq *cq, const struct ibv_wc *wc,
                        int count)
{
    watch_qp_t *book;
    int i;

    for (i = 0; i < count; ++i) {
        book = watch_qp_get(cq->context, wc[i].qp_num);
        if (book != NULL) {
            watch_completed(book, &wc[i]);
            watch_qp_put(book);
        }
    }
}

/* ---- memory ---- */

void fab_manners_dereg_mr(const struct ibv_mr *mr)
{
    watch_qp_t *book;
    unsigned i;

    pthread_rwlock_rdlock(&watch.lock);
    for (i = 0; i < WATCH_BUCKETS; ++i) {
        for (book = watch.qps[i]; book != NULL; book = book->next) {
            pthread_mutex_lock(&book->lock);
            if ((book->context == mr->context) &&
                (fab_book_uses(&book->sends, mr->lkey) ||
                 fab_book_uses(&book->recvs, mr->lkey))) {
                fab_manners_report(FAB_RULE_DEREG, watch_device(mr->context),
                                   "qp", book->qpn, "lkey 0x%x", mr->lkey);
            }
            pthread_mutex_unlock(&book->lock);
        }
    }
    pthread_rwlock_unlock(&watch.lock);
}

uint64_t fab_manners_cqes(const char *device, uint32_t qpn)
{
    uint64_t cqes = 0;
    watch_qp_t *book;

    pthread_rwlock_rdlock(&watch.lock);
    for (book = watch.qps[qpn % WATCH_BUCKETS]; book != NULL;
         book = book->next) {
        if ((book->qpn == qpn) &&
            !strcmp(watch_device(book->context), device)) {
            cqes += __atomic_load_n(&book->cqes, __ATOMIC_RELAXED);
        }
    }
    pthread_rwlock_unlock(&watch.lock);
    return cqes;
}
