/*
 * The state of a vqp, and its failure: below what decides that it fails. Private to
 * the vqp. Pure: libc only.
 */
#ifndef VQP_CORE_VQPSTATE_H
#define VQP_CORE_VQPSTATE_H

#include "core/vqp.h"

/** Go to another state; the owner logs the change. */
void vqp_set_state(vqp_t *vqp, vqp_state_t state);

#endif
