/*
 * Late packets (timed mode): a request that has left when its QP fails or is
 * reset still arrives, unless the peer's QP has left RTR and RTS. The sender
 * has seen it flushed, and may have destroyed its QP.
 */
#ifndef FAB_LATE_H
#define FAB_LATE_H

#include "fab_qp.h"

/**
 * Keep the requests of the send queue that have left and not arrived, with a
 * copy of their data. Call with sq_lock held, before the queue is emptied. Does
 * nothing in a process that does not own the QP.
 */
void fab_late_make(struct fab_qp *qp, uint64_t now);

/** Whether a QP handle of the engine is a late packet's. */
int fab_late_is(const struct fab_qp_handle *handle);

/**
 * Execute the late packets that are due.
 *
 * @return when to call again (ns); 0: none is left, and @a handle is freed.
 */
uint64_t fab_late_progress(struct fab_qp_handle *handle, uint64_t now);

#endif
