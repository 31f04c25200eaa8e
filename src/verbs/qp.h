/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC queue pair: creation, states, zero-length receives.
 * May call libibverbs. Sends are in the one post site, post.h.
 *
 * Threads: create, the state changes up to RTS and query may run in any thread
 * that owns the QP. From RTS on the caller must not run to_error or
 * destroy concurrently with a post on the same QP.
 */
#ifndef VQP_IB_QP_H
#define VQP_IB_QP_H

#include "verbs/av.h"
#include "verbs/dev.h"

typedef struct vqp_ib_qp_params {
    uint32_t send_depth;   /* WRs */
    uint32_t recv_depth;   /* WRs; they carry no data */
    uint32_t max_inline;   /* bytes; lowered until the device grants it */
    uint32_t max_send_sge;
    uint32_t min_inline;   /* bytes; not lowered below */
    vqp_ib_log_level_t level; /* see vqp_ib_qp_t; 0: error */
} vqp_ib_qp_params_t;

typedef struct vqp_ib_qp {
    struct ibv_qp     *qp;
    const char        *dev_name;
    uint32_t          qpn;
    vqp_ib_qp_params_t granted;  /* what the device gave: depths and SGEs at
                                    least as requested, inline maybe less */
    enum ibv_qp_state state;     /* the last one set from here */
    vqp_ib_log_level_t level;    /* of messages about what fails, but destroying. The
                                    owner changes it when another QP can stand in */
} vqp_ib_qp_t;

/* Attributes of a connected path; both sides set the same values */
typedef struct vqp_ib_qp_conn {
    vqp_ib_av_t  av;
    uint32_t     dest_qpn;
    uint32_t     rq_psn;            /* first PSN from the peer; 24 bits */
    uint32_t     sq_psn;            /* first PSN to the peer; 24 bits */
    enum ibv_mtu mtu;               /* the smaller of both sides' */
    uint8_t      timeout;           /* 4.096 us x 2^n; 0: no limit */
    uint8_t      retry_cnt;         /* 0..7; 7 is endless on some devices */
    uint8_t      rnr_retry;         /* 0..7; 7: no limit */
    uint8_t      min_rnr_timer;     /* code of the InfiniBand table, 0..31 */
    uint8_t      max_rd_atomic;     /* outstanding READs and atomics */
    uint8_t      max_dest_rd_atomic;/* served at once */
} vqp_ib_qp_conn_t;

typedef struct vqp_ib_qp_info {
    enum ibv_qp_state state;
    uint32_t          rq_psn;   /* next PSN expected from the peer */
    uint32_t          sq_psn;
} vqp_ib_qp_info_t;

/**
 * Create a QP in RESET, on one CQ for both queues. A WR is signaled only by its
 * own flag.
 *
 * @return VQP_OK; VQP_ERR_EXCEEDS_LIMIT, VQP_ERR_NO_MEMORY, VQP_ERR_IO: logged
 *         with all values that were requested.
 */
vqp_status_t vqp_ib_qp_create(vqp_ib_qp_t *qp, const vqp_ib_dev_t *dev,
                              struct ibv_cq *cq,
                              const vqp_ib_qp_params_t *params);

/**
 * Destroy it. Its CQEs stay in the CQ. To leave none, move it to ERR first and
 * poll until all its WRs have completed.
 */
void vqp_ib_qp_destroy(vqp_ib_qp_t *qp);

/**
 * RESET -> INIT; the peer may write, read and do atomics. Receives can be
 * posted from here on.
 */
vqp_status_t vqp_ib_qp_to_init(vqp_ib_qp_t *qp, uint8_t port,
                               uint16_t pkey_index);

/**
 * INIT -> RTR. On RoCE the kernel resolves the peer's MAC address in this
 * call: it may block up to some seconds when the peer is not there.
 *
 * @return VQP_OK; VQP_ERR_UNREACHABLE: the address does not resolve;
 *         VQP_ERR_INVALID_PARAM, VQP_ERR_IO. Logged with the peer's address.
 */
vqp_status_t vqp_ib_qp_to_rtr(vqp_ib_qp_t *qp, const vqp_ib_qp_conn_t *conn);

/** RTR -> RTS: sends may be posted */
vqp_status_t vqp_ib_qp_to_rts(vqp_ib_qp_t *qp, const vqp_ib_qp_conn_t *conn);

/** Any state -> ERR: every posted WR completes, with a flush error at the latest */
vqp_status_t vqp_ib_qp_to_error(vqp_ib_qp_t *qp);

/** Read the state and PSNs from the device (a system call). A failure is logged. */
vqp_status_t vqp_ib_qp_query(vqp_ib_qp_t *qp, vqp_ib_qp_info_t *info);

/**
 * Post zero-length receives, chained, all with one wr_id. To be called by the
 * thread that polls the QP's CQ. The caller has reserved CQ slots for them.
 *
 * @param count  WRs; any number that fits the receive queue.
 * @param posted Number of receives posted: @a count, or fewer on an error.
 * @return VQP_OK; VQP_ERR_IO: logged: the path is broken.
 */
vqp_status_t vqp_ib_qp_post_recvs(vqp_ib_qp_t *qp, uint64_t wr_id,
                                  uint32_t count, uint32_t *posted);

#endif
