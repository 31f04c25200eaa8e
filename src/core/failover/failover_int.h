/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The failover of paths: declarations that its parts share. Private to
 * src/core/failover. Pure: libc only.
 */
#ifndef VQP_CORE_FAILOVER_FAILOVER_INT_H
#define VQP_CORE_FAILOVER_FAILOVER_INT_H

#include "core/failover/failover.h"

/** Add VQP_PATH_TODO_* to the pending events of the path. */
static inline void vqp_path_post(vqp_t *vqp, vqp_path_t *path, unsigned todo)
{
    path->fo.todo |= (uint8_t)todo;
    vqp_set_event(vqp, VQP_EVENT_PATHS);
}

/** Change the state; the owner logs it. */
void vqp_path_set_state(vqp_t *vqp, vqp_path_t *path, vqp_path_state_t state);

/** Send the message of the current state, and repeat it until it is answered. */
void vqp_path_request(vqp_t *vqp, vqp_path_t *path);

/** Repeat no request any more. One that is to be sent goes out as an answer: the peer may
 *  still need it. */
static inline void vqp_path_stop_requests(vqp_path_t *path)
{
    if (path->fo.messages & VQP_PATH_MSG_REQUEST) {
        path->fo.messages = VQP_PATH_MSG_ANSWER;
    }
}

/** The path goes down with @a status. */
void vqp_path_count_down(vqp_t *vqp, vqp_path_t *path, vqp_status_t status);

/** Answer a message of the peer, unless it is an answer itself, or a request that is to
 *  be sent has the same content. */
static inline void vqp_path_answer(vqp_t *vqp, vqp_path_t *path,
                                   const vqp_path_msg_t *msg)
{
    if (!(msg->flags & VQP_WIRE_FLAG_ANSWER) &&
        !(path->fo.messages & VQP_PATH_MSG_REQUEST)) {
        path->fo.messages |= VQP_PATH_MSG_ANSWER;
        vqp_path_post(vqp, path, VQP_PATH_TODO_SEND);
    }
}

/** Take over the queue pairs of the paths from the handshake, when the vqp connects. */
void vqp_path_init(vqp_t *vqp, const vqp_config_t *config);

/** The vqp is LIVE: connect the paths whose address was not resolved. */
void vqp_path_set_live(vqp_t *vqp);

/** The path made progress, or has a new queue pair: its silent time begins anew. */
static inline void vqp_path_reset_silence(vqp_path_t *path)
{
    path->fo.stalled = path->fo.silent = 0;
    path->fo.seen  = path->head;
}

/** Send a nop on each idle path that is UP, to find out whether it works. */
void vqp_path_nop_idle(vqp_t *vqp);

/** In DRAINED, once the peer's count is known: end the executed frags. Enter DOWN once
 *  the peer has the local count too. May fail the vqp. */
void vqp_path_agree(vqp_t *vqp, vqp_path_t *path);

/** Enter PROBE once both sides are connected. */
void vqp_path_go_probe(vqp_t *vqp, vqp_path_t *path);

#endif
