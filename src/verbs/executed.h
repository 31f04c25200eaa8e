/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of the peer's requests a queue pair has executed. May call libibverbs.
 */
#ifndef VQP_IB_EXECUTED_H
#define VQP_IB_EXECUTED_H

#include "verbs/qp.h"

/**
 * Packets of the peer that a queue pair has executed, modulo 2^24. It is in ERR, and
 * all its receives have come back. Only of a device that counts them, see probe.h.
 *
 * @param [in]  first_psn  Of the peer, when it was connected.
 *
 * @return VQP_OK, or VQP_ERR_IO (logged): it is unknown.
 */
vqp_status_t vqp_ib_executed(vqp_ib_qp_t *qp, uint32_t first_psn, uint32_t *count);

#endif
