/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mirrors of first rings: memory of an interface, which connections have while they send
 * active messages. See core/mirror.h. If there is no more memory, one that has nothing in
 * flight gives its mirror to one that has messages. Their memory is not part of
 * UCX_VQP_MAX_MEM. May use all layers.
 */
#ifndef UCT_VQP_MIRROR_H
#define UCT_VQP_MIRROR_H

#include "uct/vqp_def.h"

void uct_vqp_mirrors_init(uct_vqp_mirrors_t *mirrors, uct_vqp_md_t *md, size_t size);

/** Every mirror must have been returned. */
void uct_vqp_mirrors_cleanup(uct_vqp_mirrors_t *mirrors);

/**
 * Make sure that there is memory for the mirrors of some connections, which others can have
 * in turn. Async block.
 *
 * @param level  Of the message that it fails.
 */
ucs_status_t uct_vqp_mirrors_reserve(uct_vqp_mirrors_t *mirrors, vqp_ib_log_level_t level);

/**
 * A message needs the mirror: vqp_wants_mirror(). The worker's thread, not under the async
 * block.
 *
 * @return 1: the vqp has it. 0: there is no memory, and VQP_EVENT_MIRROR_NEEDED follows.
 */
int uct_vqp_mirror_get(uct_vqp_t *vqp);

/** Return the mirror, if the vqp has one. The device may not read it any more. Async block. */
void uct_vqp_mirror_put(uct_vqp_t *vqp);

#endif
