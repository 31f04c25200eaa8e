/*
 * Ghosts (timed mode): what was on its way to the peer when its QP failed or
 * was reset arrives all the same, unless the peer has stopped listening. The
 * sender has seen it flushed, and may have destroyed its QP since.
 */
#ifndef FAB_GHOST_H
#define FAB_GHOST_H

#include "fab_qp.h"

/**
 * Keep what of the send queue has left and not arrived: with its data, as it
 * is now. With sq_lock held, before the queue is emptied; does nothing in a
 * process that is not the QP's.
 */
void fab_ghost_make(struct fab_qp *qp, uint64_t now);

/** A QP handle of the engine that is one. */
int fab_ghost_is(const struct fab_qp_handle *handle);

/**
 * What is due arrives.
 *
 * @return when to call again (ns); 0: it has ended, and is freed.
 */
uint64_t fab_ghost_progress(struct fab_qp_handle *handle, uint64_t now);

#endif
