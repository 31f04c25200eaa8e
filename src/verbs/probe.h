/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a device counts what its queue pairs have executed. May call libibverbs.
 */
#ifndef VQP_IB_PROBE_H
#define VQP_IB_PROBE_H

#include "core/data/path.h"
#include "verbs/qp.h"

/**
 * Find out whether the device keeps the responder's next PSN up to date, as a failover
 * relies on it: it is to count the packets of writes and READs that it has executed, and
 * no packet that it discards because its queue pair was moved to ERR meanwhile. One queue
 * pair of the device sends to another one, and the number is compared with what has
 * arrived in memory.
 *
 * Takes some ms. If nothing comes through, three tries of 0.2 s, or of 0.4 s if it ends in
 * ERR only; later calls one try. The device remembers a result; that it does not count only
 * if two probes say so. Any thread.
 *
 * @param [in] conn     How a port reaches itself; QP numbers, PSNs and time-outs
 *                      are set here.
 * @param [in] max_msg  Bytes of the longest message of the port.
 *
 * @return VQP_SOURCE_PSN, or VQP_SOURCE_IMM if it does not, or if nothing came through
 *         (logged at level debug).
 */
vqp_source_t vqp_ib_probe_source(vqp_ib_dev_t *dev, uint16_t pkey_index,
                                 const vqp_ib_qp_conn_t *conn, uint32_t max_msg);

#endif
