/*
 * A peer that died told apart from an outage. Without an answer of the peer a vqp waits
 * for failover.outage: a port may flap. A process that has died is not waited for. Part
 * of the failover; all times in ns. Pure: libc only.
 *
 * The time counts from the last sign of life of the peer on: a completion, an immediate,
 * a control message. Time in which nobody looked does not count.
 *
 * While the peer is silent on all paths it is asked by control messages, at growing
 * intervals, and so is another process of its host (connping.h). The peer is dead when
 * RC has given it up on some path, and a few times in a row only the other process has
 * answered. A peer that answers is not dead, whatever its program does: it is waited for.
 */
#ifndef VQP_CORE_FAILOVER_ALIVE_H
#define VQP_CORE_FAILOVER_ALIVE_H

#include "core/conn/connping.h"
#include "core/vqp_def.h"

/** Nothing is missed of the peer. */
void vqp_alive_init(vqp_t *vqp);

/** There was a sign of life. */
void vqp_alive_heard(vqp_t *vqp, uint64_t now);

/** A look at the paths: completions have come, or some are awaited. */
void vqp_alive_look(vqp_t *vqp, uint64_t now, int has_moved, int is_busy);

/** For a time nobody looked: it does not count. */
void vqp_alive_skip(vqp_t *vqp, uint64_t skipped, uint64_t now);

/** No path is left: from now on the peer is missed. */
void vqp_alive_miss(vqp_t *vqp, uint64_t now);

/** Ask the peer if it is time, and nothing has come from it: VQP_EVENT_PING follows. */
void vqp_alive_on_timer(vqp_t *vqp, uint64_t now);

/**
 * In answer to VQP_EVENT_PING: the peer was asked again, and that was known before.
 * May fail the vqp.
 */
void vqp_alive_asked(vqp_t *vqp, const vqp_conn_answers_t *answers, uint64_t now);

#endif
