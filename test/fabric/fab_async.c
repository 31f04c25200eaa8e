/*
 * The rings of asynchronous events. Those that were fetched and not yet
 * acknowledged are in a list of the process: only its owner waits for them.
 */
#include "fab_async.h"
#include "fab_device.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Fetched, not acknowledged: an object, how often */
struct fab_unacked {
    struct fab_unacked *next;
    uint64_t           element;
    unsigned           count;
};

static pthread_mutex_t fab_async_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fab_async_cond   = PTHREAD_COND_INITIALIZER;

/* Events of ports and of the device refer to no object: nothing waits for their
 * acknowledgement */
static int fab_async_has_object(enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return 1;
    default:
        return 0;
    }
}

static int fab_async_is_port(enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
        return 1;
    default:
        return 0;
    }
}

int fab_async_open(struct ibv_context *context)
{
    struct fab_context *fab = fab_context_of(context);
    struct fab_dev *dev     = &fab_world->devs[fab->device];
    struct fab_ctx *ctx;
    int saved;

    ctx = fab_heap_alloc(sizeof(*ctx));
    if (ctx == NULL) {
        return ENOMEM;
    }

    ctx->dev          = fab->device;
    ctx->proc         = fab_world_self;
    context->async_fd = fab_wake_open(&ctx->wake);
    if (context->async_fd < 0) {
        saved = errno;
        fab_heap_free(ctx);
        return saved;
    }

    fab_lock_take(&dev->ctx_lock);
    ctx->next = dev->ctxs;
    dev->ctxs = fab_off(ctx);
    fab_lock_drop(&dev->ctx_lock);

    fab->ctx     = ctx;
    fab->unacked = NULL;
    return 0;
}

/* The list's lock is held */
static void fab_async_unlink(struct fab_dev *dev, struct fab_ctx *ctx)
{
    fab_off_t *link = &dev->ctxs;

    while (*link != 0) {
        if (*link == fab_off(ctx)) {
            *link = ctx->next;
            return;
        }
        link = &fab_ptr(struct fab_ctx, *link)->next;
    }
}

void fab_async_close(struct ibv_context *context)
{
    struct fab_context *fab = fab_context_of(context);
    struct fab_dev *dev     = &fab_world->devs[fab->device];
    struct fab_unacked *unacked;

    fab_lock_take(&dev->ctx_lock);
    fab_async_unlink(dev, fab->ctx);
    fab_lock_drop(&dev->ctx_lock);

    fab_wake_close(&fab->ctx->wake, context->async_fd);
    fab_heap_free(fab->ctx);
    fab->ctx = NULL;
    while ((unacked = fab->unacked) != NULL) {
        fab->unacked = unacked->next;
        free(unacked);
    }
}

void fab_async_reap(uint32_t proc)
{
    struct fab_dev *dev;
    struct fab_ctx *ctx;
    fab_off_t *link;
    unsigned i;

    for (i = 0; i < FAB_MAX_DEVS; ++i) {
        dev = &fab_world->devs[i];
        fab_lock_take(&dev->ctx_lock);
        for (link = &dev->ctxs; *link != 0;) {
            ctx = fab_ptr(struct fab_ctx, *link);
            if (ctx->proc == proc) {
                *link = ctx->next;
            } else {
                link = &ctx->next;
            }
        }
        fab_lock_drop(&dev->ctx_lock);
    }
}

void fab_async_raise(fab_off_t off, enum ibv_event_type type, uint64_t element)
{
    struct fab_ctx_event *event;
    struct fab_ctx *ctx;
    int lost;

    if (off == 0) {
        return;
    }

    ctx = fab_ptr(struct fab_ctx, off);
    fab_lock_take(&ctx->lock);
    lost = (ctx->head - ctx->tail == FAB_CTX_EVENTS);
    if (!lost) {
        event          = &ctx->events[ctx->head % FAB_CTX_EVENTS];
        event->type    = type;
        event->element = element;
        ++ctx->head;
        /* With the lock held: never readable without an event */
        fab_wake_raise(&ctx->wake);
    }
    fab_lock_drop(&ctx->lock);

    if (lost) {
        fab_log("%s: event '%s' lost: %d others wait to be fetched",
                fab_dev_name(ctx->dev), ibv_event_type_str(type),
                FAB_CTX_EVENTS);
        return;
    }

    fab_verbose(1, "%s: event '%s'", fab_dev_name(ctx->dev),
                ibv_event_type_str(type));
}

void fab_async_raise_port(uint32_t index, uint32_t port,
                          enum ibv_event_type type)
{
    struct fab_dev *dev = &fab_world->devs[index];
    struct fab_ctx *ctx;
    fab_off_t off;

    fab_lock_take(&dev->ctx_lock);
    for (off = dev->ctxs; off != 0; off = ctx->next) {
        ctx = fab_ptr(struct fab_ctx, off);
        fab_async_raise(off, type, port);
    }
    fab_lock_drop(&dev->ctx_lock);
}

static struct fab_unacked *fab_async_find(struct fab_context *fab,
                                          uint64_t element)
{
    struct fab_unacked *unacked = fab->unacked;

    while ((unacked != NULL) && (unacked->element != element)) {
        unacked = unacked->next;
    }
    return unacked;
}

/* Takes the oldest event, in one step with the note that it is not
 * acknowledged: else a destroy between the two would not wait for it */
static int fab_async_fetch(struct fab_context *fab, struct fab_ctx_event *event)
{
    struct fab_ctx *ctx = fab->ctx;
    struct fab_unacked *unacked, *spare;
    int found;

    spare = calloc(1, sizeof(*spare));
    if (spare == NULL) {
        return ENOMEM;
    }

    pthread_mutex_lock(&fab_async_mutex);
    fab_lock_take(&ctx->lock);
    found = (ctx->head != ctx->tail);
    if (found) {
        *event = ctx->events[ctx->tail % FAB_CTX_EVENTS];
        ++ctx->tail;
    }

    if (ctx->head == ctx->tail) {
        fab_wake_drain(fab->verbs.context.async_fd);
    }
    fab_lock_drop(&ctx->lock);

    if (found && fab_async_has_object(event->type)) {
        unacked = fab_async_find(fab, event->element);
        if (unacked == NULL) {
            unacked          = spare;
            spare            = NULL;
            unacked->element = event->element;
            unacked->next    = fab->unacked;
            fab->unacked     = unacked;
        }
        ++unacked->count;
    }
    pthread_mutex_unlock(&fab_async_mutex);

    free(spare);
    return found ? 0 : EAGAIN;
}

int fab_async_get(struct ibv_context *context, struct ibv_async_event *event)
{
    struct fab_context *fab = fab_context_of(context);
    struct fab_ctx_event entry;
    int ret;

    while ((ret = fab_async_fetch(fab, &entry)) != 0) {
        if (ret == EAGAIN) {
            ret = fab_wake_wait(context->async_fd);
        }

        if (ret != 0) {
            errno = ret;
            return -1;
        }
    }

    memset(event, 0, sizeof(*event));
    event->event_type = entry.type;
    if (fab_async_has_object(entry.type)) {
        event->element.qp = (struct ibv_qp*)(uintptr_t)entry.element;
    } else if (fab_async_is_port(entry.type)) {
        event->element.port_num = (int)entry.element;
    }

    return 0;
}

static struct ibv_context *fab_async_context(struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return event->element.cq->context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return event->element.srq->context;
    default:
        return event->element.qp->context;
    }
}

void fab_async_ack(struct ibv_async_event *event)
{
    struct fab_unacked *unacked;

    if (!fab_async_has_object(event->event_type)) {
        return;
    }

    pthread_mutex_lock(&fab_async_mutex);
    unacked = fab_async_find(fab_context_of(fab_async_context(event)),
                             (uintptr_t)event->element.qp);
    if ((unacked != NULL) && (unacked->count > 0)) {
        --unacked->count;
        pthread_cond_broadcast(&fab_async_cond);
    } else {
        fab_log("event '%s' acknowledged that was not fetched",
                ibv_event_type_str(event->event_type));
    }
    pthread_mutex_unlock(&fab_async_mutex);
}

static void fab_async_drop(struct fab_context *fab, uint64_t element)
{
    struct fab_ctx *ctx = fab->ctx;
    const struct fab_ctx_event *event;
    uint32_t from, to;

    fab_lock_take(&ctx->lock);
    for (from = to = ctx->tail; from != ctx->head; ++from) {
        event = &ctx->events[from % FAB_CTX_EVENTS];
        if (!fab_async_has_object(event->type) || (event->element != element)) {
            ctx->events[to++ % FAB_CTX_EVENTS] = *event;
        }
    }

    ctx->head = to;
    if (ctx->head == ctx->tail) {
        fab_wake_drain(fab->verbs.context.async_fd);
    }
    fab_lock_drop(&ctx->lock);
}

void fab_async_forget(struct ibv_context *context, const void *object)
{
    struct fab_context *fab = fab_context_of(context);
    struct fab_unacked *unacked, **link;

    pthread_mutex_lock(&fab_async_mutex);
    fab_async_drop(fab, (uintptr_t)object);
    unacked = fab_async_find(fab, (uintptr_t)object);
    if (unacked != NULL) {
        while (unacked->count > 0) {
            pthread_cond_wait(&fab_async_cond, &fab_async_mutex);
        }

        for (link = &fab->unacked; *link != unacked; link = &(*link)->next) {
        }
        *link = unacked->next;
        free(unacked);
    }
    pthread_mutex_unlock(&fab_async_mutex);
}
