/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control queue pair of a rail: unreliable datagrams, with its own CQ and
 * completion channel. Small traffic: connect, close and path messages.
 * May call libibverbs.
 *
 * Threads: one at a time for all functions (the context that runs control
 * messages and timers). Nothing here is on the data path.
 */
#ifndef VQP_IB_UD_H
#define VQP_IB_UD_H

#include "verbs/ah.h"
#include "verbs/cq.h"
#include "verbs/gid.h"
#include "verbs/grh.h"

/*
 * Queue key of all control QPs ("vqp" and a version). The top bit must be
 * clear: it would mean "the QP's own key". Datagrams with another key are
 * dropped by the device, so an incompatible control protocol changes it.
 */
#define VQP_IB_UD_QKEY    0x76717001u

/* Bytes of the buffer of a datagram, with its GRH: of whole cache lines. A datagram that
 * is longer than its buffer moves the QP to ERR */
#define VQP_IB_UD_SLOT_SIZE(_mtu) (((_mtu) + VQP_IB_GRH_LEN + 63u) / 64u * 64u)

typedef struct vqp_ib_ud_params {
    const vqp_ib_dev_t  *dev;
    vqp_ib_resolver_t   *resolver;   /* of the device; outlives the ud */
    const vqp_ib_port_t *port;       /* read during the call only */
    const vqp_ib_gid_t  *gid;        /* source; read during the call only */
    uint16_t            pkey_index;
    uint8_t             tclass;      /* of all sends */
    uint8_t             hop_limit;
    uint8_t             sl;
    uint32_t            num_recvs;   /* receive buffers */
    uint32_t            num_sends;   /* send slots */
    uint32_t            num_ahs;     /* address handles kept at once */
} vqp_ib_ud_params_t;

/* Destination or source of a datagram */
typedef struct vqp_ib_ud_addr {
    uint8_t  gid[16];
    uint32_t qpn;
    uint16_t lid;         /* InfiniBand */
    uint8_t  is_global;   /* use the GID, which is valid */
} vqp_ib_ud_addr_t;

typedef struct vqp_ib_ud_msg {
    const void       *data;   /* behind the GRH; until the next poll */
    uint32_t         length;  /* bytes */
    vqp_ib_ud_addr_t from;    /* source, for the answer */
} vqp_ib_ud_msg_t;

/* Counters, for the statistics of the layer above */
typedef struct vqp_ib_ud_stats {
    uint64_t sent;
    uint64_t received;
    uint64_t send_errors;
    uint64_t recv_errors;
    uint64_t rebuilds;
} vqp_ib_ud_stats_t;

typedef struct vqp_ib_ud {
    const vqp_ib_dev_t *dev;
    vqp_ib_chan_t      chan;
    vqp_ib_cq_t        cq;
    struct ibv_qp      *qp;
    uint32_t           qpn;         /* stays over a rebuild */
    uint32_t           max_msg;     /* payload bytes: the port's active MTU */
    uint8_t            port_num;
    uint8_t            sgid_index;
    uint8_t            sl;
    uint8_t            tclass;
    uint8_t            hop_limit;
    uint8_t            is_eth;
    uint8_t            is_ipv4;     /* RoCEv2 over IPv4 */
    uint8_t            broken;      /* the QP went to ERR: rebuild */
    uint8_t            no_event;    /* none will tell of datagrams: poll now and then */
    vqp_ib_log_level_t level;       /* of messages about the QP: once it is open,
                                       datagrams are sent again, and it is rebuilt */
    uint16_t           pkey_index;

    /* Receive slots [0, num_recvs), then send slots, in one registration */
    uint8_t            *mem;
    struct ibv_mr      *mr;
    size_t             mem_size;
    uint32_t           slot_size;
    uint32_t           num_recvs;
    uint32_t           num_sends;
    uint32_t           held;        /* receive slot that the caller reads, or
                                       num_recvs */
    uint32_t           qp_tag;      /* in wr_ids; CQEs from before a reset are ignored */
    uint64_t           send_head;   /* sends posted, ever */
    uint64_t           send_tail;   /* sends completed, ever */

    vqp_ib_ah_cache_t  ahs;
    vqp_ib_ud_stats_t  stats;
} vqp_ib_ud_t;

/**
 * Create the QP, ready to send and receive. @a ud must stay at its address.
 *
 * @return VQP_OK; errors are logged, nothing is left behind.
 */
vqp_status_t vqp_ib_ud_init(vqp_ib_ud_t *ud, const vqp_ib_ud_params_t *params);

void vqp_ib_ud_cleanup(vqp_ib_ud_t *ud);

/**
 * Send one datagram; the data is copied. The first send to an address may wait 50 ms
 * for it to be resolved, see vqp_ib_resolve().
 *
 * @param length  Bytes, at most ud->max_msg, and at most the receiver's MTU:
 *                a longer one breaks its control QP.
 * @return VQP_OK: posted, delivery is not guaranteed
 *         VQP_ERR_NO_RESOURCE: all slots or address handles are busy: poll,
 *         then try again (control datagrams are repeated)
 *         VQP_INPROGRESS, VQP_ERR_UNREACHABLE: not sent, the address is not resolved:
 *         try again
 *         VQP_ERR_INVALID_PARAM, VQP_ERR_IO
 */
vqp_status_t vqp_ib_ud_send(vqp_ib_ud_t *ud, const vqp_ib_ud_addr_t *to,
                            const void *data, uint32_t length);

/**
 * Take the next datagram. Reposts the buffer of the previous one, retires
 * completed sends, and rebuilds a broken QP.
 *
 * @return VQP_OK: @a msg is filled; VQP_INPROGRESS: none waits;
 *         VQP_ERR_IO: the QP is broken and can not be rebuilt now (logged);
 *         the next call retries.
 */
vqp_status_t vqp_ib_ud_poll(vqp_ib_ud_t *ud, vqp_ib_ud_msg_t *msg);

/** Mark the QP as broken after an async event: the next poll rebuilds it */
static inline void vqp_ib_ud_set_broken(vqp_ib_ud_t *ud)
{
    ud->broken = 1;
}

/** The source GID has another index. Handles with the old one are not used any more:
 *  they may keep the kernel from freeing the old entry. */
static inline void vqp_ib_ud_set_gid_index(vqp_ib_ud_t *ud, uint8_t index)
{
    ud->sgid_index = index;
    vqp_ib_ah_cache_retire(&ud->ahs, ud->send_tail);
}

/** Readable when something completed since the last arm */
static inline int vqp_ib_ud_fd(const vqp_ib_ud_t *ud)
{
    return vqp_ib_chan_fd(&ud->chan);
}

/** Drain the channel and arm again; then poll until nothing is there. If it fails, which is
 *  logged, @a no_event is set until a later call succeeds; that of a broken channel stays. */
void vqp_ib_ud_arm(vqp_ib_ud_t *ud);

#endif
