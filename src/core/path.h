/*
 * A path's share of the sender: which frag stands at which place of its send
 * queue, and the credits that a frag on it spends. Pure: libc only.
 *
 * Invariant: tail - head <= depth; the frags in [head, tail) are exactly those
 * that were posted and not confirmed, in posting order. On a failure they are
 * the replay set.
 */
#ifndef VQP_CORE_PATH_H
#define VQP_CORE_PATH_H

#include "core/op.h"
#include "core/pace.h"
#include "core/stats.h"

/** Which slice of which op a place of the send queue carries. */
typedef struct vqp_inflight {
    uint64_t offset; /* of a loose frag: the AM that was to be posted next */
    uint32_t length;
    uint16_t op;   /* its name (op.h), or VQP_OP_NONE */
    uint8_t  kind; /* vqp_kind_t */
    uint8_t  whole;/* all of its op, which ends with it, and may be reported */
} vqp_inflight_t;

/* Places of each send queue, and immediates, that only control may take */
#define VQP_CONTROL_RESERVE 2

typedef struct vqp_path {
    vqp_inflight_t  *inflight;
    uint16_t         mask;       /* entries of inflight - 1, at least depth */
    uint16_t         depth;      /* places of the send queue, less the one that
                                    vqp_tx_last_words takes */
    uint16_t         head;       /* oldest unconfirmed */
    uint16_t         tail;       /* next to be posted */
    uint16_t         unsignaled; /* posted since the last signaled one */
    uint16_t         reads;      /* READs and atomics unconfirmed */
    uint16_t         reads_max;
    uint16_t         rma;        /* frags of put, get, atomic unconfirmed */
    uint16_t         imms;       /* receives of the peer that are spent */
    uint16_t         imms_max;
    uint16_t         epoch;
    uint8_t          index;
    uint8_t          next;       /* index of the one whose turn is next */
    uint8_t          rail;       /* local rail */
    uint8_t          peer_rail;
    uint8_t          up;
    uint32_t         unsignaled_bytes;
    uint64_t         bytes;      /* bytes unconfirmed */
    uint32_t         free_frags; /* so many frags surely find all that they
                                    spend, and get no CQE but on demand: for the
                                    way of fast.h, which counts down. 0: look */
    uint32_t         free_bytes; /* as long as they have no more bytes */
    vqp_pace_t       pace;       /* how fast they go; for sched left only */
    struct vqp_frag *batch_last; /* newest frag of the batch on this path */
    vqp_path_stats_t stats;
} vqp_path_t;

static inline uint16_t vqp_path_outstanding(const vqp_path_t *path)
{
    return (uint16_t)(path->tail - path->head);
}

static inline vqp_inflight_t *vqp_path_at(vqp_path_t *path, uint16_t pos)
{
    return &path->inflight[pos & path->mask];
}

/** May a frag of data go out now? @a cap limits the bytes in flight. */
static inline int vqp_path_has_room(const vqp_path_t *path, uint64_t cap)
{
    return (vqp_path_outstanding(path) + VQP_CONTROL_RESERVE < path->depth) &&
           (path->bytes < cap) && path->up;
}

static inline int vqp_path_has_imm(const vqp_path_t *path)
{
    return path->imms + VQP_CONTROL_RESERVE < path->imms_max;
}

#endif
