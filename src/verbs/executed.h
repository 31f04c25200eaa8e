/*
 * How much of the peer's requests a queue pair has executed, and whether its
 * device keeps this count. May call libibverbs.
 */
#ifndef VQP_IB_EXECUTED_H
#define VQP_IB_EXECUTED_H

#include "core/data/path.h"
#include "verbs/post.h"

/**
 * Find out whether the device keeps the responder's next PSN up to date, by a few
 * writes from one queue pair of it to another one. Takes some ms; 0.6 s at most if
 * writes are lost.
 *
 * @param [in] conn  How a port reaches itself; QP numbers, PSNs and time-outs
 *                   are set here.
 *
 * @return VQP_SOURCE_PSN, or VQP_SOURCE_IMM if it does not, or if no such writes
 *         came through (logged at level debug).
 */
vqp_source_t vqp_ib_probe_executed(const vqp_ib_dev_t *dev, uint16_t pkey_index,
                                   const vqp_ib_qp_conn_t *conn);

/**
 * Packets of the peer that a queue pair has executed, modulo 2^24. It is in ERR, and
 * all its receives have come back.
 *
 * @param [in]  first_psn  Of the peer, when it was connected.
 *
 * @return VQP_OK, or VQP_ERR_IO (logged): it is unknown.
 */
vqp_status_t vqp_ib_executed(vqp_ib_qp_t *qp, uint32_t first_psn,
                             uint32_t *count);

#endif
