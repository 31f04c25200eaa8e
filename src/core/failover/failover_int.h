/*
 * The failover of paths: what its parts have in common. Private to src/core/failover.
 * Pure: libc only.
 */
#ifndef VQP_CORE_FAILOVER_FAILOVER_INT_H
#define VQP_CORE_FAILOVER_FAILOVER_INT_H

#include "core/failover/failover.h"

/** The owner has to do something, VQP_PATH_TODO_*. */
static inline void vqp_path_post(vqp_t *vqp, vqp_path_t *path, unsigned todo)
{
    path->fo.todo |= (uint8_t)todo;
    vqp->todo     |= VQP_TODO_PATHS;
}

/** Go to another state; the owner logs the change. */
void vqp_path_set_state(vqp_t *vqp, vqp_path_t *path, vqp_path_state_t state);

/** Send a message of the present state now, and again until it is answered. */
void vqp_path_say(vqp_t *vqp, vqp_path_t *path);

/** Answer a message of the peer, unless it is an answer or one is to be sent anyway. */
static inline void vqp_path_answer(vqp_t *vqp, vqp_path_t *path,
                                   const vqp_path_msg_t *msg)
{
    if (!(msg->flags & VQP_WIRE_FLAG_ANSWER) &&
        !(path->fo.messages & VQP_PATH_MSG_REQUEST)) {
        path->fo.messages |= VQP_PATH_MSG_ANSWER;
        vqp_path_post(vqp, path, VQP_PATH_TODO_SEND);
    }
}

/** The vqp connects: what the handshake says of the queue pairs of the paths. */
void vqp_path_init(vqp_t *vqp, const vqp_config_t *config);

/** The vqp is live: connect the paths that were not resolved. */
void vqp_path_set_live(vqp_t *vqp);

/** It has moved, or has another queue pair: it is silent from now on at the earliest. */
static inline void vqp_path_not_silent(vqp_path_t *path)
{
    path->fo.still = path->fo.silent = 0;
    path->fo.seen  = path->head;
}

/** Nops show whether the paths work that are UP and idle. */
void vqp_path_ask_idle(vqp_t *vqp);

/** Have both sides ended the old incarnation? Then end what was executed, and go
 *  down when the peer has the local count. */
void vqp_path_agree(vqp_t *vqp, vqp_path_t *path);

/** Are both sides connected? Then a nop probes the path. */
void vqp_path_go_probe(vqp_t *vqp, vqp_path_t *path);

#endif
