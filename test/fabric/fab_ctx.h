/*
 * What the world knows of an open device: where its asynchronous events go.
 * fab_async.c fills and empties the ring; it is opened and closed with the
 * context (fab_device.c).
 */
#ifndef FAB_CTX_H
#define FAB_CTX_H

#include "fab_chan.h"
#include "fab_world.h"

#include <errno.h>

enum {
    FAB_CTX_EVENTS = 256 /* that wait to be fetched; more are lost, with a line */
};

struct fab_ctx_event {
    uint32_t type;    /* enum ibv_event_type */
    uint32_t pad;
    uint64_t element; /* the struct ibv_qp*, ibv_cq*, ibv_srq* of the owner
                         process, or a port number */
};

/* In the world, from fab_heap_alloc */
struct fab_ctx {
    struct fab_lock      lock;
    uint32_t             dev;
    uint32_t             proc;
    fab_off_t            next; /* of the device: fab_dev.ctxs */
    uint32_t             lag_turn; /* queue pairs that got a member port (fab_lag.h) */
    uint32_t             pad;
    uint32_t             head; /* ever raised */
    uint32_t             tail; /* ever fetched */
    struct fab_wake      wake; /* async_fd: readable while events wait */
    struct fab_ctx_event events[FAB_CTX_EVENTS];
};

/**
 * Queue an event for the owner of a context; any process, any thread. May be
 * called with the locks of QPs, SRQs and CQs held.
 */
void fab_async_raise(fab_off_t ctx, enum ibv_event_type type,
                     uint64_t element);

/**
 * The offset of the struct fab_ctx of an open device (fab_device.c), and the
 * device's number.
 */
fab_off_t fab_context_ctx(struct ibv_context *context);
unsigned fab_context_dev(struct ibv_context *context);

/* Bits of the devices that have failed for good, in this process */
extern uint32_t fab_dead_devs;

/** @return EIO if the device of the context has failed for good, else 0. */
static inline int fab_context_dead(struct ibv_context *context)
{
    uint32_t dead = __atomic_load_n(&fab_dead_devs, __ATOMIC_RELAXED);

    return __builtin_expect(dead != 0, 0) &&
           (dead & (1u << fab_context_dev(context))) ? EIO : 0;
}

/** Name of a device by its number; a static string. */
const char *fab_dev_name(unsigned dev);

#endif
