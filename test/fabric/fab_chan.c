/*
 * Completion channels and wake-ups. May call libc, fab_cq's structure,
 * fab_world.
 */
#include "fab_chan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fab_cq.h"

static socklen_t fab_wake_name(const struct fab_wake *wake,
                               struct sockaddr_un *name)
{
    int n;

    name->sun_family  = AF_UNIX;
    name->sun_path[0] = '\0'; /* abstract: goes away with its socket */
    n = snprintf(&name->sun_path[1], sizeof(name->sun_path) - 1,
                 "vqp-fabric.%llx.%u", (unsigned long long)fab_world->token,
                 wake->id);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int fab_wake_open(struct fab_wake *wake)
{
    struct sockaddr_un name;
    socklen_t length;
    int fd;

    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }

    wake->id = __atomic_add_fetch(&fab_world->next_wake, 1, __ATOMIC_RELAXED);
    length   = fab_wake_name(wake, &name);
    if (bind(fd, (struct sockaddr*)&name, length) != 0) {
        wake->id = 0;
        close(fd);
        return -1;
    }

    wake->owner = fab_world_self;
    return fd;
}

void fab_wake_close(struct fab_wake *wake, int fd)
{
    wake->id = 0;
    close(fd);
}

/* One socket for all that this process sends */
static int fab_wake_sender(void)
{
    static int sender = -1;
    int fd            = __atomic_load_n(&sender, __ATOMIC_ACQUIRE);
    int none          = -1;

    if (fd >= 0) {
        return fd;
    }

    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if ((fd >= 0) && !__atomic_compare_exchange_n(&sender, &none, fd, 0,
                                                  __ATOMIC_ACQ_REL,
                                                  __ATOMIC_ACQUIRE)) {
        close(fd);
        fd = none;
    }
    return fd;
}

void fab_wake_raise(const struct fab_wake *wake)
{
    struct sockaddr_un name;
    socklen_t length;
    int saved = errno;

    if (wake->id != 0) {
        /* a full queue is readable already; the owner may have closed it */
        length = fab_wake_name(wake, &name);
        (void)sendto(fab_wake_sender(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
                     (struct sockaddr*)&name, length);
        errno = saved;
    }
}

void fab_wake_drain(int fd)
{
    char byte;

    while (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0) {
    }
}

int fab_wake_wait(int fd)
{
    char byte;

    return (recv(fd, &byte, 1, MSG_PEEK) >= 0) ? 0 : errno;
}

struct ibv_comp_channel *fab_chan_create(struct ibv_context *context)
{
    struct fab_chan_handle *handle = calloc(1, sizeof(*handle));

    if (handle == NULL) {
        return NULL;
    }

    handle->chan = fab_heap_alloc(sizeof(*handle->chan));
    if (handle->chan == NULL) {
        goto err_free;
    }

    handle->ibv.context = context;
    handle->ibv.fd      = fab_wake_open(&handle->chan->wake);
    if (handle->ibv.fd < 0) {
        goto err_heap;
    }
    return &handle->ibv;

err_heap:
    fab_heap_free(handle->chan);
err_free:
    free(handle);
    return NULL;
}

int fab_chan_destroy(struct ibv_comp_channel *channel)
{
    struct fab_chan_handle *handle = (struct fab_chan_handle*)channel;

    if (handle->chan->num_cqs != 0) {
        return EBUSY;
    }

    fab_wake_close(&handle->chan->wake, channel->fd);
    fab_heap_free(handle->chan);
    free(handle);
    return 0;
}

/* Append a CQ to the channel's list; with the lock held */
static void fab_chan_append(struct fab_chan *chan, struct fab_cq *cq)
{
    cq->event_next = 0;
    if (chan->first == 0) {
        chan->first = fab_off(cq);
    } else {
        fab_ptr(struct fab_cq, chan->last)->event_next = fab_off(cq);
    }
    chan->last = fab_off(cq);
}

void fab_chan_raise(struct fab_cq *cq)
{
    struct fab_chan *chan = fab_ptr(struct fab_chan, cq->chan);

    fab_lock_take(&chan->lock);
    if (cq->events++ == 0) {
        fab_chan_append(chan, cq);
    }
    fab_wake_raise(&chan->wake);
    fab_lock_drop(&chan->lock);
}

/* Take one event of the first CQ; with the lock held */
static struct fab_cq *fab_chan_take(struct fab_chan *chan, int fd)
{
    struct fab_cq *cq;

    if (chan->first == 0) {
        fab_wake_drain(fd);
        return NULL;
    }

    cq          = fab_ptr(struct fab_cq, chan->first);
    chan->first = cq->event_next;
    --cq->events;
    ++cq->events_got;
    if (cq->events != 0) {
        fab_chan_append(chan, cq);
    } else if (chan->first == 0) {
        fab_wake_drain(fd);
    }
    return cq;
}

int fab_chan_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
                          void **cq_context)
{
    struct fab_chan *chan = ((struct fab_chan_handle*)channel)->chan;
    struct fab_cq *found;
    int ret;

    for (;;) {
        fab_lock_take(&chan->lock);
        found = fab_chan_take(chan, channel->fd);
        fab_lock_drop(&chan->lock);
        if (found != NULL) {
            *cq         = (struct ibv_cq*)(uintptr_t)found->user;
            *cq_context = (*cq)->cq_context;
            return 0;
        }

        ret = fab_wake_wait(channel->fd);
        if (ret != 0) {
            errno = ret;
            return -1;
        }
    }
}

void fab_chan_forget(struct fab_cq *cq)
{
    struct fab_chan *chan = fab_ptr(struct fab_chan, cq->chan);
    fab_off_t *link       = &chan->first;
    struct fab_cq *prev   = NULL;

    fab_lock_take(&chan->lock);
    while ((*link != 0) && (*link != fab_off(cq))) {
        prev = fab_ptr(struct fab_cq, *link);
        link = &prev->event_next;
    }
    if (*link != 0) {
        *link = cq->event_next;
        if (chan->last == fab_off(cq)) {
            chan->last = fab_off(prev);
        }
    }
    cq->events = 0;
    --chan->num_cqs;
    fab_lock_drop(&chan->lock);
}
