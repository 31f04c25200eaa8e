/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of silent paths: no completion comes on a path while others of the vqp
 * make progress. RC alone would retry for seconds before it reports an error. Part of
 * the failover; all times in ns. Pure: libc only.
 *
 * The vqp looks at its paths several times within failover.silence. A path makes
 * progress if a completion came since the last look. It is stalled if something is in
 * flight and none came. It is silent for the time in which it was stalled, a CQE was
 * under way, and another path made progress. If the peer or the network pauses, all
 * paths are stalled together and none is given up.
 *
 * When a path has been silent for the silence limit, plus four times the time that its
 * bytes in flight should take, it is SILENT: it takes no frags, and the peer is asked to
 * give it up. A peer that calls progress does so, and its PATH_DOWN binds both sides. Until
 * then RC goes on: if a completion comes, the question is withdrawn. The peer's control plane
 * (inbox.h) answers that, and the path is what it was. So nothing waits for a peer that
 * computes unless RC can not repair the path, or the peer has no thread for its control plane.
 *
 * While a fetching atomic waits for its result on the path, no side gives it up for its
 * silence: the result would be lost if the peer has executed the atomic, and RC may still
 * bring it. So the path takes no frags but nops before the peer has answered the withdrawal:
 * the peer might still agree to the question.
 *
 * The limit is failover.silence or more. It rises when a silent path makes progress again,
 * and when the first probe of a path that was given up succeeds: the path had not failed.
 * It falls back with time.
 *
 * Frags without a CQE under way prove nothing. After failover.silence a nop brings a
 * CQE. If the other paths are idle, nops on them show whether they work. If all that are in
 * use are stalled, as the only one of an endpoint, paths that are off are added for that.
 */
#ifndef VQP_CORE_FAILOVER_SILENCE_H
#define VQP_CORE_FAILOVER_SILENCE_H

#include "core/failover/failover.h"

/** Does a path message ask this side to give the path up? */
static inline int vqp_path_is_question(const vqp_path_msg_t *msg)
{
    return (msg->type == VQP_WIRE_PATH_DOWN) &&
           ((msg->flags & (VQP_WIRE_FLAG_SILENT | VQP_WIRE_FLAG_WITHDRAWN |
                           VQP_WIRE_FLAG_HAVE_YOURS)) == VQP_WIRE_FLAG_SILENT);
}

/** Does it withdraw such a question? */
static inline int vqp_path_is_withdrawal(const vqp_path_msg_t *msg)
{
    return (msg->type == VQP_WIRE_PATH_DOWN) && (msg->flags & VQP_WIRE_FLAG_SILENT) &&
           (msg->flags & VQP_WIRE_FLAG_WITHDRAWN);
}

/** Fill in type and body of the message of SILENT, and add to the flags. @return 0 if there
 *  is no message. */
int vqp_silence_message(const vqp_path_t *path, vqp_path_msg_t *msg);

/** Will vqp_on_path_message() give the path up at this question? */
int vqp_silence_agrees(vqp_t *vqp, const vqp_path_msg_t *msg);

/** Handle a PATH_DOWN with SILENT. */
void vqp_silence_on_message(vqp_t *vqp, vqp_path_t *path, const vqp_path_msg_t *msg);

/** Initialize for a vqp without frags in flight: no look is due. */
void vqp_silence_init(vqp_t *vqp);

/** The first frag was posted while none was in flight: look from now on. The first look
 *  is due at once. VQP_EVENT_TIMER is due. */
void vqp_silence_start(vqp_t *vqp);

/** Use SILENT paths again on which completions have come since the last look. */
void vqp_silence_resume(vqp_t *vqp);

/**
 * Look at the paths if a look is due. Those that are silent go to SILENT, and back if they
 * have made progress.
 *
 * @param [in] is_drained  All completions that had arrived were handled. If not, the
 *                         time since the last look does not count.
 */
void vqp_silence_look(vqp_t *vqp, uint64_t now, int is_drained);

#endif
