/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a vqp that fails, with whatever states its paths are in. Pure: libc only.
 */
#ifndef VQP_CORE_FAILOVER_END_H
#define VQP_CORE_FAILOVER_END_H

#include "core/vqp_def.h"

/**
 * The connection is broken: nothing is posted any more. Ops without a frag in flight
 * end with @a status, and so does what only a replay could have confirmed; the others
 * end when their frags come back. No effect on a vqp that has failed.
 */
void vqp_fail(vqp_t *vqp, vqp_status_t status);

#endif
