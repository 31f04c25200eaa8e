/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ping a peer that does not answer on its queue pairs. Its process may have died, or its
 * host may be unreachable for a while. A process answers control datagrams even if its
 * program does not call progress. So the peer is pinged, and with it another process of
 * its host over the same rails, the witness. If only the witness answers, host and link
 * work, and the peer's process has died; see alive.h. Pure: libc only.
 */
#ifndef VQP_CORE_CONN_CONNPING_H
#define VQP_CORE_CONN_CONNPING_H

#include "core/conn/conndrive.h"

/** The last answers of a peer and its host. */
typedef struct vqp_conn_answers {
    uint64_t peer; /* ns: last control datagram of the peer; 0: none */
    uint64_t host; /* ns: last control datagram of the last witness, from a rail of the
                      peer; now, if the peer is on the own host; 0: none */
    int      host_pinged; /* the last ping went to a witness too */
} vqp_conn_answers_t;

/**
 * Ping the peer, and a witness if there is one: each time over other rails. The pings are
 * REQs, and the answers REPs without new information. A witness that does not answer is
 * replaced: it may have died together with the peer.
 *
 * @param [in]  rails    Bits of the local rails that work.
 * @param [out] answers  The answers to earlier pings.
 * @param [out] actions  SEND, two at most.
 *
 * @return Number of actions; 0 if the connection is not set up, or no rail works.
 */
unsigned vqp_conn_ping(vqp_conn_t *conn, uint32_t rails, uint64_t now,
                       vqp_conn_answers_t *answers, vqp_conntab_action_t *actions);

#endif
