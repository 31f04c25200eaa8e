/*
 * A path of the sender: which frag stands in which slot of its send queue, and
 * the credits that a frag on it spends. Pure: libc only.
 *
 * Invariant: tail - head <= depth. The frags in [head, tail) are exactly those
 * that were posted and not confirmed, in posting order. On a failure they are
 * what may have to be replayed.
 */
#ifndef VQP_CORE_DATA_PATH_H
#define VQP_CORE_DATA_PATH_H

#include "core/data/op.h"
#include "core/data/rate.h"
#include "core/stats.h"

enum {
    VQP_INFLIGHT_COMPLETES = 1 << 0, /* all of its op, which ends with it and
                                        may be reported at once */
    VQP_INFLIGHT_IMM       = 1 << 1, /* it carries the immediate imm */
    VQP_INFLIGHT_REPLAYED  = 1 << 2, /* another path died with it */
    VQP_INFLIGHT_FENCED    = 1 << 3, /* it waits for READs and atomics before it */
    VQP_INFLIGHT_REFUSED   = 1 << 4  /* a post of it has failed */
};

/** Which slice of which op a slot of the send queue carries. */
typedef struct vqp_inflight {
    union {
        uint64_t         offset;    /* put, get, atomic: in the op */
        struct {
            union {
                uint32_t am_offset; /* AM: in the record */
                uint32_t am_post;   /* control: position of the first AM behind
                                       it */
            };
            uint32_t     imm;       /* with VQP_INFLIGHT_IMM */
        };
    };
    uint32_t length;
    uint16_t op;    /* its id (op.h), or VQP_OP_NONE */
    uint8_t  kind;  /* vqp_kind_t */
    uint8_t  flags; /* VQP_INFLIGHT_* */
} vqp_inflight_t;

/* Slots of each send queue, and fsns of the window, that only control may take */
#define VQP_CONTROL_RESERVE 2

/**
 * What the path takes without any further check, see vqp_tx_refill(). The last
 * frag that it covers is signaled. Zero: check.
 */
typedef struct vqp_budget {
    uint32_t frags;
    uint32_t bytes;
} vqp_budget_t;

#define VQP_PATH_STATES(_) \
    _(UP, "it takes frags") \
    _(LEAVE, "it works and is moved: it takes no frags, what it has comes back") \
    _(QUIESCE, "its queue pair is in ERR: completions come back") \
    _(DRAINED, "nothing comes any more, the peer's executed count is awaited") \
    _(DOWN, "both sides know what was executed; its queue pair waits to be rebuilt") \
    _(CONNECT, "it has a new queue pair, the peer's is awaited") \
    _(READY, "connected to the peer's queue pair, which is not known to be") \
    _(PROBE, "both are connected; a nop shows whether it works")

typedef enum {
#define VQP_PATH_STATE_ENUM(_name, _help) VQP_PATH_##_name,
    VQP_PATH_STATES(VQP_PATH_STATE_ENUM)
#undef VQP_PATH_STATE_ENUM
    VQP_PATH_STATE_LAST
} vqp_path_state_t;

/* IMM: what is in front of the last immediate was executed, of what follows nothing
 * is known */
#define VQP_SOURCES(_) \
    _(IMM, "imm", "immediates that were received") \
    _(PSN, "psn", "packets: the responder's next PSN") \
    _(MSN, "msn", "requests: the responder's MSN")

/** What a number of executed work requests was taken from. */
typedef enum {
#define VQP_SOURCE_ENUM(_upper, _name, _help) VQP_SOURCE_##_upper,
    VQP_SOURCES(VQP_SOURCE_ENUM)
#undef VQP_SOURCE_ENUM
    VQP_SOURCE_LAST
} vqp_source_t;

/** How much of the peer's requests was executed here, in this incarnation. */
typedef struct vqp_executed {
    uint32_t source;  /* vqp_source_t */
    uint32_t count;   /* 24 bits; of SOURCE_IMM the same as imms */
    uint32_t imms;    /* immediates that came; always known */
} vqp_executed_t;

/** Who has a path moved to another flow, see move.h. */
typedef enum {
    VQP_MOVER_NONE,
    VQP_MOVER_ASKS, /* this side: the peer is to be asked */
    VQP_MOVER_OWN,  /* this side, which has asked */
    VQP_MOVER_PEER
} vqp_mover_t;

#define VQP_PATH_NONE UINT8_MAX

/** The failover of a path; nothing of it is used while all paths are UP. */
typedef struct vqp_failover {
    uint8_t        state;       /* vqp_path_state_t */
    uint8_t        logged;      /* the state that was last logged */
    uint8_t        todo;        /* VQP_PATH_TODO_* */
    uint8_t        messages;    /* VQP_PATH_MSG_*: to be sent */
    uint8_t        parked;      /* by the owner: it takes no frags */
    uint8_t        quiesced;    /* its queue pair is in ERR, or lost */
    uint8_t        has_nop;     /* QUIESCE: a nop brings the last send completion */
    uint8_t        has_probe;   /* PROBE: a nop shows whether the path works */
    uint8_t        is_lost;     /* no completion comes, nobody can be asked */
    uint8_t        sends_back;  /* no send completion is to come */
    uint8_t        counted;     /* own is valid */
    uint8_t        peer_counted;/* peer is valid */
    uint8_t        peer_has;    /* the peer has what the messages of this state say */
    uint8_t        peer_is_up;  /* peer_qpn, peer_psn, peer_rail are valid */
    uint8_t        unresolved;  /* the address of peer_rail does not resolve yet */
    uint8_t        peer_rail;
    uint8_t        trimmed;     /* what the peer has executed has ended */
    uint8_t        target;      /* path that the replay goes to, or NONE */
    uint8_t        is_still;    /* at the last look it had not moved, see silence.h */
    uint8_t        is_doubtful; /* it went down by silence, and no probe has failed
                                   since */
    uint8_t        has_moved;   /* a completion had come between the last two looks */
    uint8_t        mover;       /* vqp_mover_t */
    uint8_t        said;        /* messages that were sent in this state, at most
                                   VQP_PATH_EARLY */
    uint16_t       failed;      /* slot behind the newest error completion */
    uint16_t       end;         /* slot behind the newest one that comes back */
    uint16_t       posted;      /* slot behind the newest frag that was posted */
    uint16_t       replay;      /* slots [replay, replay_end): of the last */
    uint16_t       replay_end;  /* incarnation, to be replayed */
    uint16_t       seen;        /* path->head at the last look */
    uint16_t       wrs_seen;    /* path->tail when these were brought up to date: */
    uint32_t       wrs;         /* posted in this incarnation */
    uint32_t       packets;     /* beyond one for each of them */
    uint64_t       imms_sent;   /* stats.imms at its begin */
    uint64_t       imms_came;   /* stats.rx_cqes at its begin */
    uint32_t       generation;  /* of the path, the same on both sides */
    uint32_t       qpn;         /* own, of CONNECT and READY */
    uint32_t       psn;
    uint32_t       peer_qpn;
    uint32_t       peer_psn;
    int            status;      /* vqp_status_t: why it went down */
    vqp_executed_t own;         /* executed here */
    vqp_executed_t peer;        /* executed there */
    uint64_t       due;         /* ns: when the timer of the state expires */
    uint64_t       interval;    /* ns: from the next repetition to the one after it */
    uint64_t       hold;        /* ns from DOWN to the rebuild */
    uint64_t       held_at;     /* ns: when that began */
    uint64_t       still;       /* ns since it moved, as far as somebody looked, and */
    uint64_t       silent;      /* ns of these in which others moved */
    uint64_t       why_silent;  /* silent when the path was given up for it; else 0 */
    uint64_t       slow;        /* ns for which it has been slow, see slow.h */
    uint64_t       slow_next;   /* ns: not to be moved before */
    uint64_t       slow_wait;   /* ns: from when it was moved last until then */
    uint32_t       downs;
    uint64_t       down_at;     /* ns: for the log of the owner */
} vqp_failover_t;

typedef struct vqp_path {
    vqp_inflight_t  *inflight;
    vqp_budget_t     budget;
    uint64_t         bytes;       /* bytes unconfirmed */
    uint32_t         ring_signaled; /* ring position of the last AM that was
                                     signaled for the mirror's sake */
    uint16_t         mask;        /* entries of inflight - 1, at least depth; with
                                     failover twice that */
    uint16_t         depth;       /* slots of the send queue, less the one that
                                     the drain nop takes */
    uint16_t         head;        /* oldest unconfirmed */
    uint16_t         tail;        /* next to be posted */
    uint16_t         signaled;    /* slot behind the newest signaled frag */
    uint16_t         reads;       /* READs and atomics unconfirmed */
    uint16_t         reads_max;
    uint16_t         rma;         /* frags of put, get, atomic unconfirmed */
    uint16_t         recv_posted; /* own receives in the queue, with those... */
    uint16_t         recv_used;   /* ...consumed and not posted again yet */
    uint16_t         epoch;
    uint8_t          index;
    uint8_t          next;        /* index of the next path in turn */
    uint8_t          rail;        /* local rail */
    uint8_t          peer_rail;
    uint8_t          up;          /* it takes new frags */
    uint8_t          mtu_shift;   /* log2 of the bytes of a packet; 0 without
                                     failover, which alone counts packets */
    vqp_rate_t       rate;        /* measured; by sched left always, else see
                                     slow.h */
    struct vqp_frag *batch_last;  /* newest frag of the batch on this path */
    vqp_path_stats_t stats;
    vqp_failover_t   fo;
} vqp_path_t;

static inline uint16_t vqp_path_outstanding(const vqp_path_t *path)
{
    return (uint16_t)(path->tail - path->head);
}

static inline vqp_inflight_t *vqp_path_at(vqp_path_t *path, uint16_t slot)
{
    return &path->inflight[slot & path->mask];
}

/** The frag in @a slot carries an immediate: a replay needs it again. */
static inline void
vqp_path_note_imm(vqp_path_t *path, uint16_t slot, uint32_t imm)
{
    vqp_inflight_t *entry = vqp_path_at(path, slot);

    entry->imm    = imm;
    entry->flags |= VQP_INFLIGHT_IMM;
}

/** The frag in @a slot waits for the READs and atomics before it. */
static inline void vqp_path_note_fence(vqp_path_t *path, uint16_t slot)
{
    vqp_path_at(path, slot)->flags |= VQP_INFLIGHT_FENCED;
}

/** Is there something of an earlier incarnation that waits for its replay? */
static inline int vqp_path_has_replay(const vqp_path_t *path)
{
    return path->fo.replay != path->fo.replay_end;
}

/** Has all that was sent on the path been confirmed, and is no more sent? */
static inline int vqp_path_has_left(const vqp_path_t *path)
{
    return (path->fo.state == VQP_PATH_LEAVE) &&
           (vqp_path_outstanding(path) == 0);
}

/** Does it carry traffic, so that an error of a completion is the first sign of a failure? */
static inline int vqp_path_has_traffic(const vqp_path_t *path)
{
    return (path->fo.state == VQP_PATH_UP) || (path->fo.state == VQP_PATH_LEAVE);
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

/** Does a READ or atomic take the last credit of the path? Then it needs a CQE. */
static inline int vqp_path_is_last_read(const vqp_path_t *path)
{
    return path->reads + 1 >= path->reads_max;
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
