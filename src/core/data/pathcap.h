/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many bytes a path may have in flight while the process is away. A path is full at
 * limits.path_cap: a small message waits behind that much. But what is in flight must last
 * until the next call of progress, too. While ops wait and all paths are full, the time is
 * taken from then until the first byte of what is in flight is found confirmed, and from
 * there to the last one. If the latter is much shorter, the devices had nothing to do while
 * the process was away: the limit is doubled. So is the largest frag of several paths, since
 * their slots would be the limit otherwise. If it is more than twice as long, again and
 * again, the limit is halved; and if no op has waited for long. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_PATHCAP_H
#define VQP_CORE_DATA_PATHCAP_H

#include "core/data/tx.h"

#define VQP_PATHCAP_CALM 64u /* times in a row, then the limit is halved; fewer if it is large:
                                each time lasts longer then */

/** Does vqp_tx_dispatch() need tx->clock.now, whatever the scheduler? */
static inline int vqp_pathcap_needs_time(const vqp_tx_t *tx)
{
    return tx->cap.is_full;
}

/** Halve the limit if nothing has shown for a second that it is needed. While ops wait, what
 *  is confirmed will show it. */
void vqp_pathcap_age(vqp_tx_t *tx, uint64_t now);

/** See what was confirmed of the bytes in flight. Before ops are dispatched. */
void vqp_pathcap_look(vqp_tx_t *tx);

/** See whether ops wait because all paths are full. After ops were dispatched. */
void vqp_pathcap_note(vqp_tx_t *tx);

/** Begin anew: bytes in flight may be taken from a path without being confirmed. */
static inline void vqp_pathcap_restart(vqp_tx_t *tx)
{
    tx->cap.is_full = 0;
    tx->cap.since   = 0;
}

#endif
