/*
 * The engine: a thread of each process that continues WRs that could not
 * execute or complete when they were posted. It starts when it is first
 * needed and sleeps until the next due time.
 */
#ifndef FAB_ENGINE_H
#define FAB_ENGINE_H

#include <stdint.h>

struct fab_qp;

/**
 * Have fab_exec_progress called for a QP at a time (ns of fab_now), or earlier;
 * 0: not any more. Any thread of the QP's process, with its sq_lock held or
 * not.
 */
void fab_engine_at(struct fab_qp *qp, uint64_t due);

/**
 * Do now what is due, in the caller: for poll_cq, which would else wait for the
 * thread to be scheduled. Cheap when nothing is.
 */
void fab_engine_poll(void);

/** Forget a QP and wait until the thread has left it; no lock held. */
void fab_engine_forget(struct fab_qp *qp);

/** In a forked child: the thread and the work are the parent's. */
void fab_engine_forked(void);

#endif
