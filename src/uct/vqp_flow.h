/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flows of paths: the flow label of each, which selects its UDP source port, and with it
 * the link of a LAG or ECMP group. May use UCX and the verbs layer.
 */
#ifndef UCT_VQP_FLOW_H
#define UCT_VQP_FLOW_H

#include "uct/vqp_def.h"
#include "uct/vqp_iface.h"

/** The flow label of a path now: another one after the path was rebuilt, or its source
 *  port was changed. Once the connection has its cookie. */
uint32_t uct_vqp_flow_label(const uct_vqp_t *vqp, unsigned index);

/** Can the UDP source port of a queue pair in use be changed on all rails? */
int uct_vqp_iface_can_rehash(const uct_vqp_iface_t *iface);

#endif
