/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the verbs layer in UCX's log, and the packet trace. */
#ifndef UCT_VQP_LOG_H
#define UCT_VQP_LOG_H

#include "core/data/frag.h"

struct uct_vqp;

/** Install UCX's log as the printer of the verbs layer. Any thread. May be repeated: the
 *  next faults are told as warnings, however many there were before. */
void uct_vqp_log_init(void);

/** UCX_VQP_TRACE=y: one line per frag that is posted. */
void uct_vqp_trace_tx(const struct uct_vqp *vqp, const vqp_batch_t *batch);

/** One line per immediate that arrives. */
void uct_vqp_trace_rx(const struct uct_vqp *vqp, unsigned path, uint32_t imm);

#endif
