/*
 * Is a peer there that does not answer on its queue pairs? Its process may have died,
 * or its host can not be reached for a while. A process answers control messages
 * whatever its program does; so it is asked, and so is another process of its host, over
 * the same rails: a witness. If the witness answers and the peer does not, host and
 * link work, and the process is gone; see alive.h. Pure: libc only.
 */
#ifndef VQP_CORE_CONN_CONNPING_H
#define VQP_CORE_CONN_CONNPING_H

#include "core/conn/conndrive.h"

/** What is known of the peer of a connection. */
typedef struct vqp_conn_answers {
    uint64_t heard; /* ns: when the peer sent a control message last; 0: never */
    uint64_t host;  /* ns: when the last witness did, from a rail of the peer; now, if
                       the peer is on the own host; 0: never, or there is none */
    int      host_asked; /* the last question had a witness */
} vqp_conn_answers_t;

/**
 * Ask the peer for an answer, and a witness if there is one: each time over other rails.
 * A witness that does not answer is replaced: it may have died with the peer. The
 * answers are REPs that say nothing new.
 *
 * @param [in]  rails    Bits of the local rails that work.
 * @param [out] answers  What has come in answer to earlier calls.
 * @param [out] actions  SEND, two at most.
 *
 * @return How many actions; 0 if the connection is not set up, or no rail works.
 */
unsigned vqp_conn_ping(vqp_conn_t *conn, uint32_t rails, uint64_t now,
                       vqp_conn_answers_t *answers, vqp_conntab_action_t *actions);

#endif
