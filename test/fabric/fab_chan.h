/*
 * Completion channels, and the wake-up they are made of: a descriptor in its
 * owner that any process of the world can make readable.
 */
#ifndef FAB_CHAN_H
#define FAB_CHAN_H

#include <infiniband/verbs.h>

#include "fab_world.h"

struct fab_cq;

/* In the world. The descriptor is an abstract datagram socket of this name. */
struct fab_wake {
    uint32_t id;    /* part of the socket's name; 0: closed */
    uint32_t owner; /* process */
};

/**
 * Make the descriptor: blocking, close-on-exec. The owner closes it with
 * fab_wake_close.
 *
 * @return the descriptor, or -1 with errno.
 */
int fab_wake_open(struct fab_wake *wake);

void fab_wake_close(struct fab_wake *wake, int fd);

/** Make it readable; any process, any thread. Never blocks. */
void fab_wake_raise(const struct fab_wake *wake);

/** Take all that was raised: not readable afterwards. Owner only. */
void fab_wake_drain(int fd);

/**
 * Wait until it is readable.
 *
 * @return 0, or an errno: EAGAIN at once when the descriptor is O_NONBLOCK,
 *         EINTR.
 */
int fab_wake_wait(int fd);

/* A channel in the world: a list of the CQs that have events not yet fetched.
   Readable exactly while the list is not empty. */
struct fab_chan {
    struct fab_lock lock;
    struct fab_wake wake;
    fab_off_t       first; /* struct fab_cq, linked by event_next */
    fab_off_t       last;
    uint32_t        num_cqs; /* users */
};

struct fab_chan_handle {
    struct ibv_comp_channel ibv; /* first */
    struct fab_chan         *chan;
};

/* The verbs of that name without their ibv_ prefix; errno as there */
struct ibv_comp_channel *fab_chan_create(struct ibv_context *context);
int fab_chan_destroy(struct ibv_comp_channel *channel);
int fab_chan_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
                          void **cq_context);

/** Queue one event of this CQ and make the channel readable. */
void fab_chan_raise(struct fab_cq *cq);

/** Forget the events of a CQ that goes away. */
void fab_chan_forget(struct fab_cq *cq);

#endif
