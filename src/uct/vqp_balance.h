/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Once a second: do the paths of each connection carry what they should? core/telemetry/
 * balance.h judges, the result is for the log and the telemetry file.
 */
#ifndef UCT_VQP_BALANCE_H
#define UCT_VQP_BALANCE_H

#include "uct/vqp_def.h"

/** Look at the paths of all connections with several paths, and with telemetry at those of
 *  all, and log what is new. Progress, under the async block. */
void uct_vqp_iface_look_at_balance(uct_vqp_iface_t *iface, uint64_t now);

#endif
