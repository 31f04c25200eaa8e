/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Distinguish a dead peer from an outage. During an outage a vqp waits for its peer for
 * failover.outage, since a port may flap. It does not wait for a process that has died.
 * Part of the failover; all times in ns. Pure: libc only.
 *
 * The wait for a sign of life begins at the last one: a completion, an immediate or a
 * control datagram. Time in which progress was not called does not count.
 *
 * While the peer is silent on all paths, control datagrams ping it at growing intervals,
 * and with it another process of its host, the witness (connping.h). The peer is dead if
 * RC has given up a path to it, and only the witness has answered several pings in a row.
 * A peer that answers is alive. Whether it can be reached is another question: an outage
 * lasts until a path is UP.
 */
#ifndef VQP_CORE_FAILOVER_ALIVE_H
#define VQP_CORE_FAILOVER_ALIVE_H

#include "core/conn/connping.h"
#include "core/vqp_def.h"

/** Initialize, or end the wait: nothing is expected of the peer. */
void vqp_alive_init(vqp_t *vqp);

/** There was a sign of life: end the wait. During an outage the next one begins. */
void vqp_alive_seen(vqp_t *vqp, uint64_t now);

/** A look at the paths (silence.h) found completions, or frags in flight. */
void vqp_alive_look(vqp_t *vqp, uint64_t now, int has_progress, int is_busy);

/** Progress was not called for @a skipped ns: they do not count. */
void vqp_alive_skip(vqp_t *vqp, uint64_t skipped, uint64_t now);

/** Begin to wait for the peer, unless the vqp waits already. */
void vqp_alive_wait(vqp_t *vqp, uint64_t now);

/** Request VQP_EVENT_PING if a ping is due and there was no sign of life. */
void vqp_alive_on_timer(vqp_t *vqp, uint64_t now);

/**
 * In answer to VQP_EVENT_PING: the ping was sent. May fail the vqp with VQP_ERR_TIMEOUT.
 *
 * @param [in] answers  What had arrived before this ping, from vqp_conn_ping().
 */
void vqp_alive_pinged(vqp_t *vqp, const vqp_conn_answers_t *answers, uint64_t now);

#endif
