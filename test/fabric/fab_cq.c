/*
 * Completion queues. May call libc, fab_world, fab_chan, fab_qp (to give back
 * slots), the engine and the hooks.
 */
#include "fab_cq.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "fab_chan.h"
#include "fab_ctx.h"
#include "fab_engine.h"
#include "fab_fault.h"
#include "fab_violations.h"
#include "fab_qp.h"

static uint32_t fab_cq_slots(uint32_t cqe)
{
    uint32_t slots = 1;

    while (slots < cqe) {
        slots *= 2;
    }
    return slots;
}

static struct fab_cqe *fab_cq_entry(const struct fab_cq *cq, uint32_t index)
{
    return fab_ptr(struct fab_cqe, cq->ring) + (index & cq->mask);
}

struct ibv_cq *fab_cq_create(struct ibv_context *context, int cqe,
                             void *cq_context, struct ibv_comp_channel *channel,
                             int comp_vector)
{
    struct fab_cq_handle *handle = NULL;
    struct fab_cq *cq            = NULL;
    struct fab_cqe *ring;
    int ret = EINVAL;

    if ((cqe < 1) || ((uint64_t)cqe > fab_config.max_cqe) ||
        (comp_vector < 0) || (comp_vector >= context->num_comp_vectors)) {
        goto err;
    }

    ret    = ENOMEM;
    handle = calloc(1, sizeof(*handle));
    cq     = fab_heap_alloc(sizeof(*cq));
    ring   = fab_heap_alloc(sizeof(*ring) * fab_cq_slots((uint32_t)cqe));
    if ((handle == NULL) || (cq == NULL) || (ring == NULL)) {
        fab_heap_free(ring);
        goto err;
    }

    cq->ring = fab_off(ring);
    cq->mask = fab_cq_slots((uint32_t)cqe) - 1;
    cq->cqe  = (uint32_t)cqe;
    cq->ctx  = fab_context_ctx(context);
    cq->user = (uintptr_t)&handle->ibv;
    cq->proc = fab_world_self;
    cq->dev  = fab_context_dev(context);
    cq->id   = __atomic_add_fetch(&fab_world->next_object, 1, __ATOMIC_RELAXED);
    if (channel != NULL) {
        struct fab_chan *chan = ((struct fab_chan_handle*)channel)->chan;

        cq->chan = fab_off(chan);
        __atomic_fetch_add(&chan->num_cqs, 1, __ATOMIC_RELAXED);
        ++channel->refcnt;
    }

    handle->cq             = cq;
    handle->ibv.context    = context;
    handle->ibv.channel    = channel;
    handle->ibv.cq_context = cq_context;
    handle->ibv.handle     = cq->id;
    /* libbnxt_re says that there are twice as many, and needs half of them itself */
    handle->ibv.cqe        = (fab_config.profile == FAB_PROFILE_BNXT) ? 2 * cqe : cqe;
    pthread_mutex_init(&handle->ibv.mutex, NULL);
    pthread_cond_init(&handle->ibv.cond, NULL);
    if (fab_violations_on()) {
        fab_violations_create_cq(&handle->ibv, cqe);
    }
    return &handle->ibv;

err:
    fab_heap_free(cq);
    free(handle);
    errno = ret;
    return NULL;
}

/* The ring changes under both locks, so that neither end is inside */
int fab_cq_resize(struct ibv_cq *ibv, int cqe)
{
    struct fab_cq *cq = fab_cq_of(ibv);
    struct fab_cqe *ring, *old;
    uint32_t i, mask;
    int ret = 0;

    if ((cqe < 1) || ((uint64_t)cqe > fab_config.max_cqe)) {
        return EINVAL;
    }

    mask = fab_cq_slots((uint32_t)cqe) - 1;
    ring = fab_heap_alloc(sizeof(*ring) * ((size_t)mask + 1));
    if (ring == NULL) {
        return ENOMEM;
    }

    fab_lock_take(&cq->cons_lock);
    fab_lock_take(&cq->prod_lock);
    if (fab_cq_level(cq) > (uint32_t)cqe) {
        ret = EINVAL;
        old = ring;
    } else {
        for (i = cq->tail; i != cq->head; ++i) {
            ring[i & mask] = *fab_cq_entry(cq, i);
        }
        old      = fab_ptr(struct fab_cqe, cq->ring);
        cq->ring = fab_off(ring);
        cq->mask = mask;
        cq->cqe  = (uint32_t)cqe;
        ibv->cqe = cqe;
    }
    fab_lock_drop(&cq->prod_lock);
    fab_lock_drop(&cq->cons_lock);

    fab_heap_free(old);
    if ((ret == 0) && fab_violations_on()) {
        fab_violations_resize_cq(ibv, cqe);
    }
    return ret;
}

int fab_cq_destroy(struct ibv_cq *ibv)
{
    struct fab_cq *cq = fab_cq_of(ibv);
    uint32_t unacked;

    if (__atomic_load_n(&cq->users, __ATOMIC_ACQUIRE) != 0) {
        return EBUSY;
    }

    unacked = cq->events_got -
              __atomic_load_n(&cq->events_acked, __ATOMIC_ACQUIRE);
    if (fab_violations_on()) {
        /* hardware's library would wait for them for ever */
        fab_violations_destroy_cq(ibv, unacked);
    }

    if (cq->chan != 0) {
        fab_chan_forget(cq);
        --ibv->channel->refcnt;
    }
    fab_heap_free(fab_ptr(void, cq->ring));
    fab_heap_free(cq);
    free(ibv);
    return 0;
}

static void fab_cq_to_wc(const struct fab_cqe *cqe, struct ibv_wc *wc)
{
    wc->wr_id          = cqe->wr_id;
    wc->status         = (enum ibv_wc_status)cqe->status;
    wc->opcode         = (enum ibv_wc_opcode)cqe->opcode;
    wc->vendor_err     = cqe->vendor_err;
    wc->byte_len       = cqe->byte_len;
    wc->imm_data       = cqe->imm;
    wc->qp_num         = cqe->qp_num;
    wc->src_qp         = cqe->src_qp;
    wc->wc_flags       = cqe->wc_flags;
    wc->pkey_index     = cqe->pkey_index;
    wc->slid           = cqe->slid;
    wc->sl             = cqe->sl;
    wc->dlid_path_bits = 0;
}

/* Of an error only wr_id, status, vendor_err and qp_num are defined */
static void fab_cq_scrub(struct ibv_wc *wc, int count)
{
    struct ibv_wc clean;
    int i;

    for (i = 0; i < count; ++i) {
        if (__builtin_expect(wc[i].status != IBV_WC_SUCCESS, 0)) {
            memset(&clean, 0, sizeof(clean));
            clean.wr_id      = wc[i].wr_id;
            clean.status     = wc[i].status;
            clean.vendor_err = wc[i].vendor_err;
            clean.qp_num     = wc[i].qp_num;
            wc[i]            = clean;
        }
    }
}

/* Up to so many CQEs; the slots that they retire are free from here on */
static int fab_cq_take(struct fab_cq *cq, int num_entries, struct ibv_wc *wc)
{
    int count = 0;
    uint32_t tail, head;

    fab_lock_take(&cq->cons_lock);
    tail = cq->tail;
    head = __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE);
    while ((count < num_entries) && (tail != head)) {
        const struct fab_cqe *cqe = fab_cq_entry(cq, tail);

        fab_cq_to_wc(cqe, &wc[count]);
        fab_qp_retire(cqe);
        ++count;
        ++tail;
    }
    __atomic_store_n(&cq->tail, tail, __ATOMIC_RELEASE);
    fab_lock_drop(&cq->cons_lock);
    return count;
}

/* Yield after many empty polls: on a small machine the peer needs the CPU. With the
 * virtual clock there is no other process, and polls make the time go on */
static void fab_cq_idle(void)
{
    static __thread uint64_t polls;

    if (++polls >= fab_config.yield) {
        polls = 0;
        sched_yield();
    }
}

int fab_cq_poll(struct ibv_cq *ibv, int num_entries, struct ibv_wc *wc)
{
    struct fab_cq *cq = fab_cq_of(ibv);
    int count         = fab_fault_call(FAB_CALL_POLL_CQ);

    if (count != 0) {
        return -count;
    }

    fab_engine_poll();
    if (fab_context_dead(ibv->context) != 0) {
        return 0; /* nothing comes any more */
    }

    if (fab_cq_level(cq) != 0) {
        count = fab_cq_take(cq, num_entries, wc);
        if (fab_violations_on()) {
            fab_violations_polled(ibv, wc, count);
        }
    } else if ((fab_config.yield != 0) && (fab_config.clock != FAB_CLOCK_VIRTUAL)) {
        fab_cq_idle();
    }
    if (fab_fault_is_on()) {
        return fab_fault_polled(ibv, wc, count, num_entries);
    }
    fab_cq_scrub(wc, count);
    return count;
}

/* Whether it is a completion that an armed queue raises an event for */
static int fab_cq_wakes(const struct fab_cq *cq, const struct fab_cqe *cqe)
{
    return (cq->armed == FAB_CQ_ARMED) ||
           ((cq->armed == FAB_CQ_SOLICITED) &&
            (cqe->solicited || (cqe->status != IBV_WC_SUCCESS)));
}

/* The same for what is in the queue now; with prod_lock held */
static int fab_cq_wakes_at_once(const struct fab_cq *cq)
{
    uint32_t i;

    for (i = __atomic_load_n(&cq->tail, __ATOMIC_ACQUIRE); i != cq->head; ++i) {
        if (fab_cq_wakes(cq, fab_cq_entry(cq, i))) {
            return 1;
        }
    }
    return 0;
}

int fab_cq_req_notify(struct ibv_cq *ibv, int solicited_only)
{
    struct fab_cq *cq = fab_cq_of(ibv);
    int ret           = fab_fault_call(FAB_CALL_REQ_NOTIFY_CQ);
    int raise         = 0;

    ret = (ret != 0) ? ret : fab_context_dead(ibv->context);
    if (ret != 0) {
        return ret;
    }

    fab_lock_take(&cq->prod_lock);
    /* being armed for all is not taken back by being armed for some */
    if (!solicited_only) {
        cq->armed = FAB_CQ_ARMED;
    } else if (cq->armed == FAB_CQ_IDLE) {
        cq->armed = FAB_CQ_SOLICITED;
    }
    if ((fab_config.arm == FAB_ARM_EVENT) && fab_cq_wakes_at_once(cq)) {
        cq->armed = FAB_CQ_IDLE;
        raise     = (cq->chan != 0);
    }
    fab_lock_drop(&cq->prod_lock);

    if (raise) {
        fab_chan_raise(cq);
    }
    return 0;
}

void fab_cq_ack_events(struct ibv_cq *ibv, unsigned int nevents)
{
    __atomic_fetch_add(&fab_cq_of(ibv)->events_acked, nevents,
                       __ATOMIC_RELEASE);
}

/* The caller posted more than the CQ holds: hardware's answer, and a line */
static void fab_cq_overrun(struct fab_cq *cq, const struct fab_cqe *cqe)
{
    if (__atomic_fetch_add(&cq->overrun, 1, __ATOMIC_RELAXED) != 0) {
        return;
    }

    fab_log("%s: CQ %u of %u entries is full: completion of QP 0x%x lost",
            fab_dev_name(cq->dev), cq->id, cq->cqe, cqe->qp_num);
    fab_violations_report(
        FAB_RULE_CQ_OVERRUN, fab_dev_name(cq->dev), "cq", cq->id,
        "it has %u entries, completion of QP 0x%x lost", cq->cqe, cqe->qp_num);
    fab_async_raise(cq->ctx, IBV_EVENT_CQ_ERR, cq->user);
}

void fab_cq_push(struct fab_cq *cq, const struct fab_cqe *cqe)
{
    int raise = 0;
    uint32_t head;

    fab_lock_take(&cq->prod_lock);
    head = cq->head;
    if (__builtin_expect((head - __atomic_load_n(&cq->tail, __ATOMIC_ACQUIRE)) >=
                         cq->cqe, 0)) {
        fab_lock_drop(&cq->prod_lock);
        fab_cq_overrun(cq, cqe);
        return;
    }

    *fab_cq_entry(cq, head) = *cqe;
    __atomic_store_n(&cq->head, head + 1, __ATOMIC_RELEASE);
    if (__builtin_expect(cq->armed != FAB_CQ_IDLE, 0) &&
        fab_cq_wakes(cq, cqe)) {
        cq->armed = FAB_CQ_IDLE;
        raise     = (cq->chan != 0);
    }
    fab_lock_drop(&cq->prod_lock);

    if (raise) {
        fab_chan_raise(cq);
    }
}

int fab_cq_has_seen(struct fab_cq *cq, struct fab_qp *qp, uint32_t index)
{
    const struct fab_cqe *cqe;
    int is_inside = 0;
    int is_polled;
    uint32_t i, head;

    fab_lock_take(&cq->cons_lock);
    head = __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE);
    for (i = cq->tail; (i != head) && !is_inside; ++i) {
        cqe       = fab_cq_entry(cq, i);
        is_inside = (cqe->qp == fab_off(qp)) && (cqe->qp_num == qp->qpn) &&
                    (cqe->flags & FAB_CQE_RQ) && (cqe->index == index);
    }
    is_polled = qp->rq.polled == index + 1;
    fab_lock_drop(&cq->cons_lock);
    return is_inside || is_polled;
}

void fab_cq_purge(struct fab_cq *cq, struct fab_qp *qp)
{
    uint32_t from, to;

    fab_lock_take(&cq->cons_lock);
    fab_lock_take(&cq->prod_lock);
    to = cq->tail;
    for (from = cq->tail; from != cq->head; ++from) {
        const struct fab_cqe *cqe = fab_cq_entry(cq, from);

        if (cqe->qp == fab_off(qp)) {
            fab_qp_retire(cqe);
        } else {
            *fab_cq_entry(cq, to++) = *cqe;
        }
    }
    __atomic_store_n(&cq->head, to, __ATOMIC_RELEASE);
    fab_lock_drop(&cq->prod_lock);
    fab_lock_drop(&cq->cons_lock);
}
