/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channel, and a completion queue with its event accounting.
 * May call libibverbs.
 */
#include "verbs/cq.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Acknowledge events in batches of this size: each acknowledgement takes a lock */
#define VQP_IB_CQ_ACK_BATCH 64

vqp_status_t vqp_ib_chan_open(vqp_ib_chan_t *chan, const vqp_ib_dev_t *dev)
{
    int flags;

    chan->dev_name = dev->name;
    chan->chan     = ibv_create_comp_channel(dev->ctx);
    if (chan->chan == NULL) {
        vqp_ib_error("%s: ibv_create_comp_channel() failed: %s", dev->name,
                     strerror(errno));
        return vqp_ib_errno_status(errno);
    }

    flags = fcntl(chan->chan->fd, F_GETFL);
    if ((flags < 0) ||
        (fcntl(chan->chan->fd, F_SETFL, flags | O_NONBLOCK) < 0)) {
        vqp_ib_error("%s: failed to make the completion channel nonblocking: "
                     "%s", dev->name, strerror(errno));
        vqp_ib_chan_close(chan);
        return VQP_ERR_IO;
    }

    return VQP_OK;
}

void vqp_ib_chan_close(vqp_ib_chan_t *chan)
{
    int ret = ibv_destroy_comp_channel(chan->chan);

    if (ret != 0) {
        vqp_ib_warn("%s: ibv_destroy_comp_channel() failed: %s",
                    chan->dev_name, strerror(ret));
    }

    chan->chan = NULL;
}

static void vqp_ib_cq_ack(vqp_ib_cq_t *cq)
{
    if (cq->unacked > 0) {
        ibv_ack_cq_events(cq->cq, cq->unacked);
        cq->unacked = 0;
    }
}

unsigned vqp_ib_chan_drain(vqp_ib_chan_t *chan)
{
    unsigned count = 0;
    struct ibv_cq *ibv_cq;
    void *context;
    vqp_ib_cq_t *cq;

    while (ibv_get_cq_event(chan->chan, &ibv_cq, &context) == 0) {
        cq = context;
        ++count;
        if (++cq->unacked >= VQP_IB_CQ_ACK_BATCH) {
            vqp_ib_cq_ack(cq);
        }
    }

    if (count > 0) {
        chan->failures = 0;
    }

    if ((errno != EAGAIN) && (errno != EWOULDBLOCK) && (errno != EINTR)) {
        ++chan->failures;
        vqp_ib_log(VQP_IB_LOG_FAULT, "%s: ibv_get_cq_event() failed: %s", chan->dev_name,
                   strerror(errno));
    }

    return count;
}

uint32_t vqp_ib_cq_usable(const vqp_ib_cq_t *cq, uint32_t requested)
{
    return vqp_min(requested, (uint32_t)cq->cq->cqe);
}

vqp_status_t vqp_ib_cq_create(vqp_ib_cq_t *cq, const vqp_ib_dev_t *dev,
                              uint32_t depth, vqp_ib_chan_t *chan,
                              vqp_ib_log_level_t level)
{
    memset(cq, 0, sizeof(*cq));
    cq->dev_name = dev->name;

    if (depth > dev->caps.max_cqe) {
        vqp_ib_error("%s: a completion queue of %u entries was requested, the "
                     "device's limit is %u", dev->name, depth,
                     dev->caps.max_cqe);
        return VQP_ERR_EXCEEDS_LIMIT;
    }

    cq->cq = ibv_create_cq(dev->ctx, (int)depth, cq,
                           (chan == NULL) ? NULL : chan->chan, 0);
    if (cq->cq == NULL) {
        vqp_ib_log(level, "%s: ibv_create_cq(%u) failed: %s", dev->name, depth,
                   strerror(errno));
        return vqp_ib_errno_status(errno);
    }

    cq->depth = vqp_ib_cq_usable(cq, depth);
    return VQP_OK;
}

void vqp_ib_cq_destroy(vqp_ib_cq_t *cq)
{
    int ret;

    /* Destroying waits for the acknowledgement of each event that was read */
    vqp_ib_cq_ack(cq);
    ret = ibv_destroy_cq(cq->cq);
    if (ret != 0) {
        vqp_ib_error("%s: ibv_destroy_cq() failed: %s", cq->dev_name,
                     strerror(ret));
    }

    cq->cq = NULL;
}

vqp_status_t vqp_ib_cq_arm(vqp_ib_cq_t *cq, vqp_ib_log_level_t level)
{
    int ret = ibv_req_notify_cq(cq->cq, 0);

    if (ret != 0) {
        vqp_ib_log(level, "%s: ibv_req_notify_cq() failed: %s", cq->dev_name,
                   strerror(ret));
        return VQP_ERR_IO;
    }

    return VQP_OK;
}
