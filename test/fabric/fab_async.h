/*
 * Asynchronous events: the verbs that fetch and acknowledge them, and what a
 * context's part in the world begins and ends with. fab_async_raise, which any
 * object calls, is in fab_ctx.h.
 */
#ifndef FAB_ASYNC_H
#define FAB_ASYNC_H

#include <infiniband/verbs.h>

#include "fab_ctx.h"

/**
 * Make the context's part in the world, and its descriptor: sets ctx and
 * async_fd of a context. The process is attached.
 *
 * @return 0 or an errno.
 */
int fab_async_open(struct ibv_context *context);

/** Undo fab_async_open(). */
void fab_async_close(struct ibv_context *context);

/** Raise an event of a port in all contexts of the device, of all processes;
 * takes the lock of the list, then those of the rings. */
void fab_async_raise_port(uint32_t dev, uint32_t port,
                          enum ibv_event_type type);

/* The verbs of that name; errno as there */
int fab_async_get(struct ibv_context *context, struct ibv_async_event *event);
void fab_async_ack(struct ibv_async_event *event);

/**
 * An object goes away: drop its events that were not fetched, and wait until
 * the fetched ones are acknowledged, as the specification has it. Call it with
 * no lock held, when nothing can raise another.
 *
 * @param object  The struct ibv_qp*, ibv_cq* or ibv_srq*.
 */
void fab_async_forget(struct ibv_context *context, const void *object);

/** Unlink the contexts of a process that died; their memory is the caller's. */
void fab_async_reap(uint32_t proc);

#endif
