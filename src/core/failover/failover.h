/*
 * The failover of paths: which state each is in, what is to be done with its queue
 * pair, and the messages between the two sides. Part of the vqp; see replay.h for
 * the frags. Pure: libc only.
 *
 * Both sides give a path up together and bring it back together. Each side
 *
 *     QUIESCE   moves its queue pair to ERR and says PATH_DOWN; the peer does the same
 *     DRAINED   has polled all completions, so that nothing lands any more, and says
 *               how much of the peer's requests was executed
 *     DOWN      when it knows the peer's count, it ends what was executed and sends
 *               the rest on another path; when the peer knows its own count, the
 *               queue pair may go
 *     CONNECT   has a new queue pair, of the next generation, and says PATH_UP
 *     READY     has connected it, when the peer's PATH_UP has come
 *     PROBE     when the peer has connected its own; a nop shows whether it works
 *     UP        when the completion of the nop has come
 *
 * A message is repeated until what it waits for is known. Each but an answer is
 * answered with the same message of the other side, so that either side can get what
 * it lacks from a peer that lacks nothing.
 */
#ifndef VQP_CORE_FAILOVER_FAILOVER_H
#define VQP_CORE_FAILOVER_FAILOVER_H

#include "core/vqp_def.h"
#include "core/conn/wire.h"

#include <string.h>

enum {
    VQP_PATH_TODO_STATE   = 1 << 0,
    VQP_PATH_TODO_QUIESCE = 1 << 1,
    VQP_PATH_TODO_COUNT   = 1 << 2,
    VQP_PATH_TODO_REBUILD = 1 << 3,
    VQP_PATH_TODO_CONNECT = 1 << 4,
    VQP_PATH_TODO_SEND    = 1 << 5
};

enum {
    VQP_PATH_MSG_REQUEST = 1 << 0,
    VQP_PATH_MSG_ANSWER  = 1 << 1
};

/* So many messages of a state do not take the rails of the path, if there are
 * others: these rails may be why it went down */
#define VQP_PATH_EARLY 2

/** A path message: its header's fields that differ, and its body. */
typedef struct vqp_path_msg {
    vqp_wire_type_t          type;       /* PATH_DOWN or PATH_UP */
    uint16_t                 flags;      /* VQP_WIRE_FLAG_* */
    uint32_t                 generation; /* serial */
    int                      is_early;   /* own one: not over the path's rails */
    union {
        vqp_wire_path_down_t down;
        vqp_wire_path_up_t   up;
    };
} vqp_path_msg_t;

const char *vqp_path_state_name(unsigned state);

/** "imm", "psn", ... for a vqp_source_t. */
const char *vqp_source_name(unsigned source);

/**
 * The path is given up, because of @a status: a fault of its queue pair, its port or
 * the network. Without failover the vqp fails.
 */
void vqp_path_down(vqp_t *vqp, vqp_path_t *path, vqp_status_t status);

/**
 * In answer to PATH_QUIESCE.
 *
 * @param [in] is_lost  The queue pair can not be moved to ERR, or is gone: no
 *                      completion comes.
 * @param [in] posted   Receives that were posted to it now.
 */
void vqp_path_quiesced(vqp_t *vqp, vqp_path_t *path, int is_lost,
                       uint16_t posted);

/**
 * In answer to PATH_COUNT.
 *
 * @param [in] source  What @a count was taken from; VQP_SOURCE_IMM if there is no
 *                     count.
 */
void vqp_path_counted(vqp_t *vqp, vqp_path_t *path, vqp_source_t source,
                      uint32_t count);

/**
 * In answer to PATH_REBUILD: there is a new queue pair, or, with @a qpn zero, none
 * could be made; it is tried again later. path->epoch is the new one.
 */
void vqp_path_rebuilt(vqp_t *vqp, vqp_path_t *path, uint32_t qpn, uint32_t psn);

/**
 * In answer to PATH_CONNECT: path->recv_posted receives are posted; or it failed,
 * and the path is given up again. With VQP_INPROGRESS or VQP_ERR_UNREACHABLE the
 * address of the peer is not resolved yet: PATH_CONNECT comes again.
 */
void vqp_path_connected(vqp_t *vqp, vqp_path_t *path, vqp_status_t status);

/** Is the completion with an error one of a path that is given up? Then it is not
 *  the end of the vqp. */
int vqp_path_on_send_error(vqp_t *vqp, vqp_path_t *path, uint16_t slot,
                           vqp_status_t status);

/** Frags from @a slot on were not posted. @return as vqp_path_on_send_error(). */
int vqp_path_on_post_error(vqp_t *vqp, vqp_path_t *path, uint16_t slot);

/** A receive came back with an error. @return as vqp_path_on_send_error(). */
int vqp_path_on_recv_error(vqp_t *vqp, vqp_path_t *path, vqp_status_t status);

/** Nops that bring the last completions of paths in QUIESCE, and that probe paths which
 *  come back. */
void vqp_path_drain(vqp_t *vqp, vqp_batch_t *batch);

/**
 * The message to be sent, after PATH_SEND. To be called until 0.
 *
 * @return 1 if there is one.
 */
int vqp_path_message(vqp_t *vqp, vqp_path_t *path, uint64_t now,
                     vqp_path_msg_t *msg);

/** A path message of the peer. What makes no sense is ignored. */
void vqp_on_path_message(vqp_t *vqp, const vqp_path_msg_t *msg, uint64_t now);

/**
 * The answer to a path message of the peer while the local process does not call
 * progress, which alone may touch the vqp: the peer learns that the process exists.
 * Any thread.
 *
 * @return 1, or 0 if the message is an answer itself.
 */
static inline int
vqp_path_busy_answer(const vqp_path_msg_t *msg, vqp_path_msg_t *answer)
{
    memset(answer, 0, sizeof(*answer));
    answer->type       = VQP_WIRE_PATH_DOWN;
    answer->flags      = VQP_WIRE_FLAG_ANSWER | VQP_WIRE_FLAG_BUSY;
    answer->generation = msg->generation;
    answer->down.path  = (msg->type == VQP_WIRE_PATH_DOWN) ? msg->down.path :
                                                             msg->up.path;
    return !(msg->flags & VQP_WIRE_FLAG_ANSWER);
}

/** The path message in a control message. */
static inline vqp_path_msg_t vqp_path_msg_of(const vqp_wire_msg_t *msg)
{
    vqp_path_msg_t path;

    path.type       = msg->hdr.type;
    path.flags      = msg->hdr.flags;
    path.generation = msg->hdr.serial;
    path.is_early   = 0;
    if (path.type == VQP_WIRE_PATH_DOWN) {
        path.down = msg->path_down;
    } else {
        path.up = msg->path_up;
    }

    return path;
}

/** When vqp_on_path_timer() wants to be called, by vqp_on_time(); UINT64_MAX if all paths
 *  are UP, and nothing is in flight. */
uint64_t vqp_path_next_timeout(const vqp_t *vqp);

/** The part of vqp_on_time() that concerns paths. */
void vqp_on_path_timer(vqp_t *vqp, uint64_t now, int is_drained);

/** The event that is pending for a path, or VQP_EVENT_NONE. */
vqp_event_t vqp_path_next_event(vqp_t *vqp);

#endif
