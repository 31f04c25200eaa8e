/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channel, and a completion queue with its event accounting.
 * May call libibverbs. Polling is in the one poll site, post.h.
 */
#ifndef VQP_IB_CQ_H
#define VQP_IB_CQ_H

#include "verbs/dev.h"

/* Consecutive failures of reading a channel, or of polling a queue, after which
 * it counts as broken */
#define VQP_IB_CQ_MAX_FAILURES 16

typedef struct vqp_ib_chan {
    struct ibv_comp_channel *chan;
    const char              *dev_name;
    uint32_t                failures; /* reads that failed */
} vqp_ib_chan_t;

typedef struct vqp_ib_cq {
    struct ibv_cq *cq;
    const char    *dev_name;
    uint32_t      depth;     /* CQEs that it holds */
    uint32_t      reserved;  /* slots reserved for posted WRs; <= depth */
    uint32_t      unacked;   /* events read and not yet acknowledged */
    uint32_t      failures;  /* polls that failed */
} vqp_ib_cq_t;

/** Of `requested` CQEs those that may be used. A provider may say that it gave more, and need
 *  them itself: bnxt_re frees entries half a queue at a time, and has twice as many for it */
uint32_t vqp_ib_cq_usable(const vqp_ib_cq_t *cq, uint32_t requested);

/** Open a nonblocking completion channel. @return VQP_OK, VQP_ERR_IO */
vqp_status_t vqp_ib_chan_open(vqp_ib_chan_t *chan, const vqp_ib_dev_t *dev);

/** Close it; all CQs on it must be gone. */
void vqp_ib_chan_close(vqp_ib_chan_t *chan);

static inline int vqp_ib_chan_fd(const vqp_ib_chan_t *chan)
{
    return chan->chan->fd;
}

/**
 * Read all events that wait on the channel, whatever CQ they are of. They are
 * acknowledged in batches, the last ones when the CQ is destroyed.
 * One thread at a time per channel.
 *
 * @return How many there were; 0: none. A failing read is logged and counts
 *         as none.
 */
unsigned vqp_ib_chan_drain(vqp_ib_chan_t *chan);

/** Whether reading failed too often. The channel stays readable then: do not wait
 *  for it. */
static inline int vqp_ib_chan_is_broken(const vqp_ib_chan_t *chan)
{
    return chan->failures >= VQP_IB_CQ_MAX_FAILURES;
}

/**
 * Create a CQ. It must stay at its address, which its events refer to.
 *
 * @param depth  Number of CQEs; so many are used, also if the provider grants more.
 * @param chan   NULL: no events.
 * @param level  Of the message that the device refuses it.
 * @return VQP_OK, VQP_ERR_EXCEEDS_LIMIT, VQP_ERR_NO_MEMORY, VQP_ERR_IO
 */
vqp_status_t vqp_ib_cq_create(vqp_ib_cq_t *cq, const vqp_ib_dev_t *dev,
                              uint32_t depth, vqp_ib_chan_t *chan,
                              vqp_ib_log_level_t level);

/**
 * Acknowledge what is left, then destroy. Its QPs must be gone. Events still
 * in the channel are dropped by the channel.
 */
void vqp_ib_cq_destroy(vqp_ib_cq_t *cq);

/**
 * Request an event for the next completion of any kind. Completions that are
 * already in the CQ raise none: poll once more after this, before sleeping.
 * To be called by the thread that polls the CQ.
 *
 * @param level  Of the message that it fails.
 * @return VQP_OK or VQP_ERR_IO
 */
vqp_status_t vqp_ib_cq_arm(vqp_ib_cq_t *cq, vqp_ib_log_level_t level);

#endif
