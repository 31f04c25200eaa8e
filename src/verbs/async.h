/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events of a device, as values of this layer.
 * May call libibverbs. One thread at a time per device.
 */
#ifndef VQP_IB_ASYNC_H
#define VQP_IB_ASYNC_H

#include "verbs/dev.h"

typedef enum {
    VQP_IB_ASYNC_PORT_UP,      /* port */
    VQP_IB_ASYNC_PORT_DOWN,    /* port */
    VQP_IB_ASYNC_LID_CHANGE,   /* port */
    VQP_IB_ASYNC_PKEY_CHANGE,  /* port */
    VQP_IB_ASYNC_GID_CHANGE,   /* port */
    VQP_IB_ASYNC_DEVICE_FATAL,
    VQP_IB_ASYNC_QP_FATAL,     /* qpn: also request and access errors */
    VQP_IB_ASYNC_CQ_ERROR,     /* cq: it overran or broke */
    VQP_IB_ASYNC_OTHER         /* nothing to do */
} vqp_ib_async_type_t;

typedef struct vqp_ib_async {
    vqp_ib_async_type_t type;
    uint8_t             port;  /* else 0 */
    uint32_t            qpn;   /* else 0 */
    const struct ibv_cq *cq;   /* else NULL; for comparing only */
    const char          *name; /* what verbs call the event; static */
} vqp_ib_async_t;

/**
 * Take the next event; it is acknowledged before the call returns, so the
 * QP that it names may be destroyed at once. Logged at debug level.
 *
 * @return VQP_OK: @a event is filled; VQP_INPROGRESS: none waits;
 *         VQP_ERR_IO: the descriptor is broken (logged).
 */
vqp_status_t vqp_ib_async_get(const vqp_ib_dev_t *dev, vqp_ib_async_t *event);

#endif
