/*
 * Silence: a path brings no completion while other paths of the vqp bring some. RC
 * would retry for seconds before it reports an error. Part of the failover; all
 * times in ns. Pure: libc only.
 *
 * The vqp looks at its paths a few times in failover.silence. What counts is the
 * time in which a path was still, had a CQE under way, and a sibling moved: all
 * paths are still together if the peer or the network pauses, and no path is
 * given up for it. What is in flight may be slow: a path has four times the time
 * that its bytes should take, in addition. A path that was silent for long, and moved
 * then, was not broken: the vqp gets more patient for a while. So it does if the first
 * probe of a path that was given up comes back.
 *
 * Frags without a CQE under way prove nothing: after the time of a silence a nop
 * brings one. Where all siblings are idle, nops on these show whether they work.
 */
#ifndef VQP_CORE_FAILOVER_SILENCE_H
#define VQP_CORE_FAILOVER_SILENCE_H

#include "core/vqp_def.h"

/** Begin: paths that have something in flight are to be looked at from then on. */
void vqp_silence_init(vqp_t *vqp);

/** Something is posted, and nothing was in flight before: look at the paths, at
 *  once for the first time. */
void vqp_silence_start(vqp_t *vqp);

/**
 * Look at the paths if it is time, and give up those that are silent.
 *
 * @param [in] is_drained  All completions that had arrived were handled. If not, the
 *                         time since the last look proves nothing.
 */
void vqp_silence_look(vqp_t *vqp, uint64_t now, int is_drained);

#endif
