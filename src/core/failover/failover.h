/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The failover of paths: their states, the work on their queue pairs, and the messages
 * between the two sides. Part of the vqp; see replay.h for the frags. Pure: libc only.
 *
 * Both sides give a path up together and bring it back together. On each side
 *
 *     SILENT    no completion comes: the peer is asked to give the path up, see silence.h
 *     QUIESCE   the queue pair is moved to ERR, and PATH_DOWN is sent
 *     DRAINED   all completions were polled, so no packet can arrive any more;
 *               PATH_DOWN has the executed count of the peer's requests
 *     DOWN      both sides have both counts: executed frags have ended, the others
 *               are replayed on another path; the queue pair may be destroyed
 *     CONNECT   there is a new queue pair, of the next epoch; PATH_UP is sent
 *     READY     the peer's PATH_UP has arrived, and the queue pair is connected
 *     PROBE     the peer has connected its own; a write of a packet shows whether it works
 *     UP        its completion has come
 *
 * A path is off if it is DOWN and neither side rebuilds it by itself: it has no queue pair,
 * no timer and no message. So are the paths beyond those of REQ and REP, and those that
 * were dropped (move.h). Either side adds such a path: it rebuilds it. The peer does the
 * same, or refuses by PATH_DOWN with UNUSED.
 *
 * A request is repeated until its answer is known. Each request is answered by the
 * current message of the receiver, an answer never. So either side gets what it lacks
 * from a peer that lacks nothing.
 */
#ifndef VQP_CORE_FAILOVER_FAILOVER_H
#define VQP_CORE_FAILOVER_FAILOVER_H

#include "core/vqp_def.h"
#include "core/conn/wire.h"
#include "core/turns.h"

#include <string.h>

enum {
    VQP_PATH_TODO_STATE   = 1 << 0,
    VQP_PATH_TODO_QUIESCE = 1 << 1,
    VQP_PATH_TODO_COUNT   = 1 << 2,
    VQP_PATH_TODO_DESTROY = 1 << 3,
    VQP_PATH_TODO_REBUILD = 1 << 4,
    VQP_PATH_TODO_CONNECT = 1 << 5,
    VQP_PATH_TODO_SEND    = 1 << 6,
    VQP_PATH_TODO_REHASH  = 1 << 7
};

enum {
    VQP_PATH_MSG_REQUEST = 1 << 0,
    VQP_PATH_MSG_ANSWER  = 1 << 1
};

/* Messages of a state that avoid the rails of the path, if there are others: these
 * rails may be why it went down */
#define VQP_PATH_EARLY 2

/** A path message: the fields of its header that vary, and its body. */
typedef struct vqp_path_msg {
    vqp_wire_type_t          type;       /* PATH_DOWN or PATH_UP */
    uint16_t                 flags;      /* VQP_WIRE_FLAG_* */
    uint32_t                 epoch;      /* of the path; serial in the header */
    int                      is_early;   /* to be sent: avoid the rails of the path */
    union {
        vqp_wire_path_down_t down;
        vqp_wire_path_up_t   up;
    };
} vqp_path_msg_t;

/** "UP", "LEAVE", ... for a vqp_path_state_t. */
const char *vqp_path_state_name(unsigned state);

/** "imm", "psn", ... for a vqp_source_t. */
const char *vqp_source_name(unsigned source);

/**
 * Give the path up: its queue pair, its port or the network has failed with @a status.
 * Without failover the vqp fails. No effect on a path that is given up already.
 */
void vqp_path_down(vqp_t *vqp, vqp_path_t *path, vqp_status_t status);

/**
 * In answer to PATH_QUIESCE.
 *
 * @param [in] is_destroyed  No completion will come: the queue pair is destroyed, or it
 *                           can not be moved to ERR.
 * @param [in] posted        Receives that the owner has posted to it after that.
 */
void vqp_path_quiesced(vqp_t *vqp, vqp_path_t *path, int is_destroyed,
                       uint16_t posted);

/**
 * In answer to PATH_COUNT.
 *
 * @param [in] source  The source of @a count; VQP_SOURCE_IMM if there is no count.
 * @param [in] count   Executed requests or packets, 24 bits.
 */
void vqp_path_counted(vqp_t *vqp, vqp_path_t *path, vqp_source_t source,
                      uint32_t count);

/**
 * In answer to PATH_REBUILD: there is a new queue pair, and path->qp_tag is that of it.
 * With @a qpn zero it could not be created: PATH_REBUILD comes again later, unless the path
 * is off.
 */
void vqp_path_rebuilt(vqp_t *vqp, vqp_path_t *path, uint32_t qpn, uint32_t psn);

/**
 * In answer to PATH_REBUILD: the owner has too many to do now. PATH_REBUILD comes again at
 * @a when, in ns. This is no failure: the hold gets no longer, a path that is being added
 * is not off, and the peer that adds it is not refused. While such a path waits, it counts
 * as one that comes up.
 */
void vqp_path_rebuild_later(vqp_t *vqp, vqp_path_t *path, uint64_t when);

/** In answer to PATH_REBUILD, before the owner creates a queue pair: is it the turn of the
 *  path? The vqps without a path come first. @return As vqp_turns_take(). */
uint64_t vqp_path_take_turn(vqp_t *vqp, vqp_path_t *path, vqp_turns_t *turns, uint64_t now);

/** Try to add the path. It is off again if that fails, or if the peer refuses. @return 1, or
 *  0 if the path is not off or the vqp is not LIVE. */
int vqp_path_add(vqp_t *vqp, vqp_path_t *path);

/** Paths that are off are needed: no other one works, or leads to a rail that an atomic
 *  waits for. They are rebuilt like paths that have failed, as often as it takes. */
void vqp_paths_turn_on(vqp_t *vqp);

/** What made rebuilds fail may be over, such as a port that was down: try again now.
 *  @return 1 if the path waits for that, else 0. */
int vqp_path_retry(vqp_t *vqp, vqp_path_t *path);

/**
 * In answer to PATH_CONNECT.
 *
 * @param [in] status  VQP_OK: connected, with path->recv_posted receives posted.
 *                     VQP_INPROGRESS, VQP_ERR_UNREACHABLE: the address of the peer is
 *                     not resolved yet; PATH_CONNECT comes again. Another error: the
 *                     path is given up again.
 */
void vqp_path_connected(vqp_t *vqp, vqp_path_t *path, vqp_status_t status);

/**
 * A send completion with an error: give the path up if the path is at fault.
 *
 * @return 1 if the error is handled, 0 if the vqp has to fail.
 */
int vqp_path_on_send_error(vqp_t *vqp, vqp_path_t *path, uint16_t slot,
                           vqp_status_t status);

/** The frags from @a slot on could not be posted: give the path up. @return as
 *  vqp_path_on_send_error(). */
int vqp_path_on_post_error(vqp_t *vqp, vqp_path_t *path, uint16_t slot);

/** A receive completion with an error: give the path up. @return as
 *  vqp_path_on_send_error(). */
int vqp_path_on_recv_error(vqp_t *vqp, vqp_path_t *path, vqp_status_t status);

/** Add nops to @a batch: those that bring the last completions of paths in QUIESCE, and
 *  those that probe paths in PROBE. */
void vqp_path_drain(vqp_t *vqp, vqp_batch_t *batch);

/**
 * Take the next message to be sent, after PATH_SEND. Call it until it returns 0.
 *
 * @return 1 if *msg was filled in, else 0.
 */
int vqp_path_message(vqp_t *vqp, vqp_path_t *path, uint64_t now,
                     vqp_path_msg_t *msg);

/** Handle a path message of the peer, which comes from vqp_inbox_take(). One that does not
 *  fit the state is ignored. */
void vqp_on_path_message(vqp_t *vqp, const vqp_path_msg_t *msg, uint64_t now);

/** Extract the path message from a control datagram, which is PATH_DOWN or PATH_UP. */
static inline vqp_path_msg_t vqp_path_msg_of(const vqp_wire_msg_t *msg)
{
    vqp_path_msg_t path;

    path.type     = msg->hdr.type;
    path.flags    = msg->hdr.flags;
    path.epoch    = msg->hdr.serial;
    path.is_early = 0;
    if (path.type == VQP_WIRE_PATH_DOWN) {
        path.down = msg->path_down;
    } else {
        path.up = msg->path_up;
    }

    return path;
}

/** In an outage: when the vqp fails unless a path is UP before. */
uint64_t vqp_path_outage_end(const vqp_t *vqp);

/** When vqp_on_path_timer() wants to be called, by vqp_on_time(); UINT64_MAX if all paths
 *  are UP on their first rails, and nothing is in flight. */
uint64_t vqp_path_next_timeout(const vqp_t *vqp);

/** The part of vqp_on_time() that concerns paths. */
void vqp_on_path_timer(vqp_t *vqp, uint64_t now, int is_drained);

/** Take the next pending event of a path, of vqp->event_path; else VQP_EVENT_NONE. */
vqp_event_t vqp_path_next_event(vqp_t *vqp);

#endif
