/*
 * API violations in posts: queue depth, CQ slots, and changes of a send's
 * source before its completion was polled. May call libc.
 */
#include "fab_content.h"
#include "fab_violations.h"
#include "fab_watch.h"

/* Where the post that failed for its depth stopped being entered */
static __thread const void *watch_stopped;

/* ---- posting ---- */

static bool watch_reads_memory(const struct ibv_send_wr *wr)
{
    return (wr->opcode == IBV_WR_RDMA_WRITE) ||
           (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) ||
           (wr->opcode == IBV_WR_SEND) || (wr->opcode == IBV_WR_SEND_WITH_IMM);
}

static void watch_crowded(const struct ibv_qp *qp, const fab_book_t *book)
{
    fab_violations_report(FAB_RULE_CQ_SLOTS, fab_watch_device(qp->context),
                          "cq", book->slots->id,
                          "%lld slots, posted on qp 0x%x",
                          (long long)book->slots->have, qp->qp_num);
}

/* @return false if the queue is full */
static bool watch_send(const struct ibv_qp *qp, fab_watch_qp_t *book,
                       const struct ibv_send_wr *wr)
{
    bool is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;
    fab_book_wr_t *entry;
    bool crowded;

    entry = fab_book_enter(&book->sends, wr->wr_id, wr->sg_list,
                           is_inline ? 0 : wr->num_sge, &crowded);
    if (entry == NULL) {
        fab_violations_report(FAB_RULE_SQ_DEPTH, fab_watch_device(qp->context),
                              "qp", qp->qp_num, "%u", book->sends.max);
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

void fab_violations_post_send(const struct ibv_qp *qp,
                              const struct ibv_send_wr *wr)
{
    fab_watch_qp_t *book = fab_watch_qp_get(qp->context, qp->qp_num);

    watch_stopped = NULL;
    if (book == NULL) {
        return;
    }

    while ((wr != NULL) && watch_send(qp, book, wr)) {
        wr = wr->next;
    }

    watch_stopped = wr;
    fab_watch_qp_put(book);
}

void fab_violations_unpost_send(const struct ibv_qp *qp,
                                const struct ibv_send_wr *bad_wr)
{
    fab_watch_qp_t *book = fab_watch_qp_get(qp->context, qp->qp_num);
    uint32_t count   = 0;

    if (book == NULL) {
        return;
    }

    for (; (bad_wr != NULL) && (bad_wr != watch_stopped);
         bad_wr = bad_wr->next) {
        ++count;
    }

    fab_book_take_back(&book->sends, count);
    fab_watch_qp_put(book);
}

void fab_violations_post_recv(const struct ibv_qp *qp,
                              const struct ibv_recv_wr *wr)
{
    fab_watch_qp_t *book = fab_watch_qp_get(qp->context, qp->qp_num);
    bool crowded;

    watch_stopped = NULL;
    if (book == NULL) {
        return;
    }

    for (; wr != NULL; wr = wr->next) {
        if (fab_book_enter(&book->recvs, wr->wr_id, wr->sg_list, wr->num_sge,
                           &crowded) == NULL) {
            fab_violations_report(FAB_RULE_RQ_DEPTH,
                                  fab_watch_device(qp->context), "qp",
                                  qp->qp_num, "%u", book->recvs.max);
            break;
        }
        if (crowded) {
            watch_crowded(qp, &book->recvs);
        }
    }

    watch_stopped = wr;
    fab_watch_qp_put(book);
}

void fab_violations_unpost_recv(const struct ibv_qp *qp,
                                const struct ibv_recv_wr *bad_wr)
{
    fab_watch_qp_t *book = fab_watch_qp_get(qp->context, qp->qp_num);
    uint32_t count   = 0;

    if (book == NULL) {
        return;
    }

    for (; (bad_wr != NULL) && (bad_wr != watch_stopped);
         bad_wr = bad_wr->next) {
        ++count;
    }

    fab_book_take_back(&book->recvs, count);
    fab_watch_qp_put(book);
}

/* ---- completing ---- */

/* The oldest send is complete, whether or not it has a completion itself */
static void watch_sent(fab_watch_qp_t *book, bool is_flushed)
{
    const fab_book_wr_t *entry = fab_book_at(&book->sends, book->sends.tail);
    const char *device         = fab_watch_device(book->context);
    uint64_t hash;

    if (entry->hashed && !is_flushed && !fab_watch_is_over(book)) {
        if (fab_content_hash(entry->sge, (int)entry->num_sge, &hash) != 0) {
            fab_violations_report(FAB_RULE_UNMAPPED, device, "qp", book->qpn,
                                  "wr_id 0x%llx",
                                  (unsigned long long)entry->wr_id);
        } else if (hash != entry->hash) {
            fab_violations_report(FAB_RULE_CHANGED, device, "qp", book->qpn,
                                  "wr_id 0x%llx",
                                  (unsigned long long)entry->wr_id);
        }
    }

    fab_book_take_off(&book->sends);
}

static void watch_completed(fab_watch_qp_t *book, const struct ibv_wc *wc)
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
            watch_sent(book, wc->status == IBV_WC_WR_FLUSH_ERR);
        }
    }
}

static void watch_left(const struct ibv_cq *cq)
{
    uint32_t qpn;
    uint32_t left = fab_watch_take_left(cq, &qpn);

    if (left > 0) {
        fab_violations_report(FAB_RULE_QP_LEFT, fab_watch_device(cq->context),
                              "qp", qpn, "%u completions, and the CQ is in use",
                              left);
    }
}

void fab_violations_polled(const struct ibv_cq *cq, const struct ibv_wc *wc,
                           int count)
{
    fab_watch_qp_t *book;
    int i;

    if (count > 0) {
        watch_left(cq);
    }

    for (i = 0; i < count; ++i) {
        book = fab_watch_qp_get(cq->context, wc[i].qp_num);
        if (book != NULL) {
            watch_completed(book, &wc[i]);
            fab_watch_qp_put(book);
        }
    }
}
