/*
 * A path of the sender: which frag stands in which slot of its send queue, and
 * the credits that a frag on it spends. Pure: libc only.
 *
 * Invariant: tail - head <= depth. The frags in [head, tail) are exactly those
 * that were posted and not confirmed, in posting order. On a failure they are
 * what may have to be replayed.
 */
#ifndef VQP_CORE_PATH_H
#define VQP_CORE_PATH_H

#include "core/op.h"
#include "core/rate.h"
#include "core/stats.h"

enum {
    VQP_INFLIGHT_COMPLETES = 1 << 0, /* all of its op, which ends with it and
                                        may be reported at once */
    VQP_INFLIGHT_BARRIER   = 1 << 1  /* control: the oldest barrier waits */
};

/** Which slice of which op a slot of the send queue carries. */
typedef struct vqp_inflight {
    union {
        uint64_t offset;  /* in the op */
        uint32_t am_post; /* control: position of the first AM behind it */
    };
    uint32_t length;
    uint16_t op;    /* its id (op.h), or VQP_OP_NONE */
    uint8_t  kind;  /* vqp_kind_t */
    uint8_t  flags; /* VQP_INFLIGHT_* */
} vqp_inflight_t;

/* Slots of each send queue, and immediates, that only control may take */
#define VQP_CONTROL_RESERVE 2

/**
 * What the path takes without any further check, see vqp_tx_refill(). The last
 * frag that it covers is signaled. Zero: check.
 */
typedef struct vqp_budget {
    uint32_t frags;
    uint32_t bytes;
} vqp_budget_t;

typedef struct vqp_path {
    vqp_inflight_t  *inflight;
    vqp_budget_t     budget;
    uint64_t         bytes;       /* bytes unconfirmed */
    uint32_t         ring_signaled; /* ring position of the last AM that was
                                     signaled for the mirror's sake */
    uint16_t         mask;        /* entries of inflight - 1, at least depth */
    uint16_t         depth;       /* slots of the send queue, less the one that
                                     the drain nop takes */
    uint16_t         head;        /* oldest unconfirmed */
    uint16_t         tail;        /* next to be posted */
    uint16_t         signaled;    /* slot behind the newest signaled frag */
    uint16_t         reads;       /* READs and atomics unconfirmed */
    uint16_t         reads_max;
    uint16_t         rma;         /* frags of put, get, atomic unconfirmed */
    uint16_t         imms;        /* receives of the peer that are spent */
    uint16_t         imms_max;
    uint16_t         recv_posted; /* own receives in the queue, with those... */
    uint16_t         recv_used;   /* ...consumed and not posted again yet */
    uint16_t         epoch;
    uint8_t          index;
    uint8_t          next;        /* index of the next path in turn */
    uint8_t          rail;        /* local rail */
    uint8_t          peer_rail;
    uint8_t          up;
    vqp_rate_t       rate;        /* measured; for sched left only */
    struct vqp_frag *batch_last;  /* newest frag of the batch on this path */
    vqp_path_stats_t stats;
} vqp_path_t;

static inline uint16_t vqp_path_outstanding(const vqp_path_t *path)
{
    return (uint16_t)(path->tail - path->head);
}

static inline vqp_inflight_t *vqp_path_at(vqp_path_t *path, uint16_t slot)
{
    return &path->inflight[slot & path->mask];
}

/** May a frag of data go out now? @a cap limits the bytes in flight. */
static inline int vqp_path_has_room(const vqp_path_t *path, uint64_t cap)
{
    return (vqp_path_outstanding(path) + VQP_CONTROL_RESERVE < path->depth) &&
           (path->bytes < cap) && path->up;
}

/** May a frag out of the reserve for control go out now? */
static inline int vqp_path_has_reserve(const vqp_path_t *path)
{
    return (vqp_path_outstanding(path) < path->depth) && path->up;
}

static inline int vqp_path_has_imm(const vqp_path_t *path)
{
    return path->imms + VQP_CONTROL_RESERVE < path->imms_max;
}

/** Is a CQE to come that the sender asked for? */
static inline int vqp_path_awaits_cqe(const vqp_path_t *path)
{
    return (uint16_t)(path->signaled - path->head - 1) <
           vqp_path_outstanding(path);
}

/** Is the newest frag of the path without a CQE that would confirm it? */
static inline int vqp_path_lacks_cqe(const vqp_path_t *path)
{
    return (path->signaled != path->tail) && (vqp_path_outstanding(path) != 0);
}

#endif
