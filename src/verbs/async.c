/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events of a device, as values of this layer.
 * May call libibverbs.
 */
#include "verbs/async.h"

#include <errno.h>
#include <string.h>

static void vqp_ib_async_classify(const struct ibv_async_event *ibv_event,
                                  vqp_ib_async_t *event)
{
    switch (ibv_event->event_type) {
    case IBV_EVENT_PORT_ACTIVE:
        event->type = VQP_IB_ASYNC_PORT_UP;
        break;
    case IBV_EVENT_PORT_ERR:
        event->type = VQP_IB_ASYNC_PORT_DOWN;
        break;
    case IBV_EVENT_LID_CHANGE:
        event->type = VQP_IB_ASYNC_LID_CHANGE;
        break;
    case IBV_EVENT_PKEY_CHANGE:
        event->type = VQP_IB_ASYNC_PKEY_CHANGE;
        break;
    case IBV_EVENT_GID_CHANGE:
        event->type = VQP_IB_ASYNC_GID_CHANGE;
        break;
    case IBV_EVENT_DEVICE_FATAL:
        event->type = VQP_IB_ASYNC_DEVICE_FATAL;
        return;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        event->type = VQP_IB_ASYNC_QP_FATAL;
        event->qpn  = ibv_event->element.qp->qp_num;
        return;
    case IBV_EVENT_CQ_ERR:
        event->type = VQP_IB_ASYNC_CQ_ERROR;
        event->cq   = ibv_event->element.cq;
        return;
    default:
        event->type = VQP_IB_ASYNC_OTHER;
        return;
    }

    event->port = (uint8_t)ibv_event->element.port_num;
}

vqp_status_t vqp_ib_async_get(const vqp_ib_dev_t *dev, vqp_ib_async_t *event)
{
    struct ibv_async_event ibv_event;

    if (ibv_get_async_event(dev->ctx, &ibv_event) != 0) {
        if ((errno == EAGAIN) || (errno == EWOULDBLOCK) || (errno == EINTR)) {
            return VQP_INPROGRESS;
        }

        vqp_ib_log(vqp_ib_dev_is_broken(dev) ? VQP_IB_LOG_DIAG : VQP_IB_LOG_FAULT,
                   "%s: ibv_get_async_event() failed: %s", dev->name, strerror(errno));
        return VQP_ERR_IO;
    }

    memset(event, 0, sizeof(*event));
    vqp_ib_async_classify(&ibv_event, event);
    event->name = ibv_event_type_str(ibv_event.event_type);
    ibv_ack_async_event(&ibv_event);

    vqp_ib_debug("%s: async event '%s', port %u, QP 0x%x", dev->name,
                 event->name, event->port, event->qpn);
    return VQP_OK;
}
