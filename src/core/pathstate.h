/*
 * The failover of paths: what its states and its messages have in common. Private to
 * failover.c and pathmsg.c. Pure: libc only.
 */
#ifndef VQP_CORE_PATHSTATE_H
#define VQP_CORE_PATHSTATE_H

#include "core/failover.h"

/** The owner has to do something, VQP_PATH_TODO_*. */
void vqp_path_post(vqp_t *vqp, vqp_path_t *path, unsigned todo);

/** Go to another state; the owner logs the change. */
void vqp_path_set_state(vqp_t *vqp, vqp_path_t *path, vqp_path_state_t state);

/** Send a message of the present state now, and again until it is answered. */
void vqp_path_say(vqp_t *vqp, vqp_path_t *path);

/** Have both sides ended the old incarnation? Then end what was executed, and go
 *  down when the peer has the local count. */
void vqp_path_agree(vqp_t *vqp, vqp_path_t *path);

/** Are both sides connected? Then a nop probes the path. */
void vqp_path_go_probe(vqp_t *vqp, vqp_path_t *path);

#endif
