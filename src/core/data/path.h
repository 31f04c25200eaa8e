/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path of the sender: the frags in the slots of its send queue, and the credits that
 * a frag on it takes. Pure: libc only.
 *
 * Invariant: tail - head <= depth. The frags in [head, tail) are exactly those
 * that were posted and not confirmed, in posting order. On a failure these may have
 * to be replayed.
 */
#ifndef VQP_CORE_DATA_PATH_H
#define VQP_CORE_DATA_PATH_H

#include "core/data/op.h"
#include "core/data/rate.h"
#include "core/stats.h"
#include "core/turns.h"

enum {
    VQP_INFLIGHT_COMPLETES = 1 << 0, /* it is all of its op, which ends with it
                                        and may be reported at once */
    VQP_INFLIGHT_IMM       = 1 << 1, /* it carries the immediate imm */
    VQP_INFLIGHT_REPLAYED  = 1 << 2, /* it was sent before, on a path that failed */
    VQP_INFLIGHT_FENCED    = 1 << 3, /* it waits for the READs and atomics before it */
    VQP_INFLIGHT_BLAMED    = 1 << 4  /* it could not be posted, or a device has refused it:
                                        a second time it is at fault, and not the path */
};

/** The frag in a slot of the send queue. */
typedef struct vqp_inflight {
    union {
        uint64_t         offset;    /* put, get, atomic: in the op */
        struct {
            union {
                uint32_t am_offset; /* AM: in the record */
                uint32_t am_post;   /* credit update: position of the first AM
                                       behind it */
            };
            uint32_t     imm;       /* with VQP_INFLIGHT_IMM */
        };
    };
    uint32_t length;
    uint16_t op;    /* its id (op.h), or VQP_OP_NONE */
    uint8_t  kind;  /* vqp_kind_t */
    uint8_t  flags; /* VQP_INFLIGHT_* */
} vqp_inflight_t;

/* Slots of each send queue, and fsns of the window, for control only: credit updates and
 * nops */
#define VQP_CONTROL_RESERVE 2

/**
 * The frags and bytes that may be sent on the path without checking its credits, see
 * vqp_tx_refill(). The last such frag is signaled. Zero: check.
 */
typedef struct vqp_budget {
    uint32_t frags;
    uint32_t bytes;
} vqp_budget_t;

#define VQP_PATH_STATES(_) \
    _(UP, "it takes frags") \
    _(SILENT, "it takes no frags: no completion comes, and the peer may be asked to give it up") \
    _(LEAVE, "it works and is to be moved: it takes no frags, those in flight end") \
    _(QUIESCE, "its queue pair is in ERR: the last completions are polled") \
    _(DRAINED, "no completion will come; it waits for the peer's executed count") \
    _(DOWN, "both sides have both counts; it waits for a new queue pair") \
    _(CONNECT, "it has a new queue pair, and waits for the peer's") \
    _(READY, "it is connected, and waits for the peer to be connected too") \
    _(PROBE, "both are connected; a write of a packet shows whether it works")

typedef enum {
#define VQP_PATH_STATE_ENUM(_name, _help) VQP_PATH_##_name,
    VQP_PATH_STATES(VQP_PATH_STATE_ENUM)
#undef VQP_PATH_STATE_ENUM
    VQP_PATH_STATE_LAST
} vqp_path_state_t;

/* IMM: everything up to the last received immediate was executed; of later requests
 * nothing is known */
#define VQP_SOURCES(_) \
    _(IMM, "imm", "immediates that were received") \
    _(PSN, "psn", "packets: the responder's next PSN") \
    _(MSN, "msn", "requests: the responder's MSN")

/** The source of an executed count. */
typedef enum {
#define VQP_SOURCE_ENUM(_upper, _name, _help) VQP_SOURCE_##_upper,
    VQP_SOURCES(VQP_SOURCE_ENUM)
#undef VQP_SOURCE_ENUM
    VQP_SOURCE_LAST
} vqp_source_t;

/** The executed count of one side, in the current epoch of the path. */
typedef struct vqp_executed {
    uint32_t source;  /* vqp_source_t */
    uint32_t count;   /* 24 bits; of SOURCE_IMM the same as imms */
    uint32_t imms;    /* received immediates, 24 bits; always valid */
} vqp_executed_t;

/** The side that requested the move of a path, see move.h. */
typedef enum {
    VQP_MOVER_NONE,
    VQP_MOVER_REQUEST, /* this side; the request is to be sent */
    VQP_MOVER_OWN,     /* this side; the request was sent */
    VQP_MOVER_PEER
} vqp_mover_t;

/** Is the peer asked to give up a silent path, see silence.h. */
typedef enum {
    VQP_QUESTION_NONE,
    VQP_QUESTION_ASKED,
    VQP_QUESTION_OVER  /* withdrawn; the peer has not answered that */
} vqp_question_t;

/** What the peer, where the path was UP first, has asked for, see move.h. */
typedef enum {
    VQP_PATH_ASKED_NOTHING,
    VQP_PATH_ASKED_MOVE,
    VQP_PATH_ASKED_DROP
} vqp_path_asked_t;

#define VQP_PATH_NONE UINT8_MAX
#define VQP_RAIL_NONE UINT8_MAX /* not known yet */

/** The failover of a path; not accessed by the fast path. */
typedef struct vqp_failover {
    uint8_t        state;       /* vqp_path_state_t */
    uint8_t        logged;      /* the state that was last logged */
    uint8_t        todo;        /* VQP_PATH_TODO_* */
    uint8_t        messages;    /* VQP_PATH_MSG_*: to be sent */
    uint8_t        parked;      /* the owner lets it take no frags */
    uint8_t        quiesced;    /* its queue pair is in ERR, or destroyed */
    uint8_t        has_nop;     /* QUIESCE: a nop for the last completion was posted */
    uint8_t        has_probe;   /* PROBE: the write that probes was posted */
    uint8_t        is_destroyed;/* no completion of its queue pair will come, no
                                   count can be read */
    uint8_t        sends_back;  /* no send completion is outstanding */
    uint8_t        counted;     /* own is valid */
    uint8_t        peer_counted;/* peer is valid */
    uint8_t        peer_has;    /* the peer has the content of this state's messages */
    uint8_t        peer_is_up;  /* peer_qpn, peer_psn, peer_rail are valid */
    uint8_t        unresolved;  /* the address of peer_rail does not resolve yet */
    uint8_t        peer_rail;
    uint8_t        trimmed;     /* the frags that the peer has executed have ended */
    uint8_t        target;      /* path that the replay goes to, or NONE */
    uint8_t        is_stalled;  /* no completion came before the last look, although
                                   something was in flight: see silence.h */
    uint8_t        is_suspect;  /* it went down by silence, and no probe has failed
                                   since */
    uint8_t        has_progress;/* a completion came between the last two looks */
    uint8_t        no_qp;       /* in DOWN: the last rebuild has failed here */
    uint8_t        mover;       /* vqp_mover_t */
    uint8_t        rehashed;    /* its flow was changed since it is UP, see slow.h */
    uint8_t        asked;       /* until the path is UP: vqp_path_asked_t */
    uint8_t        unused;      /* this side does not rebuild it: see failover.h */
    uint8_t        waits;       /* in DOWN: unused, and is to be added later */
    uint8_t        added;       /* it was off before it was rebuilt */
    uint8_t        resume;      /* in SILENT: the state before */
    uint8_t        question;    /* in SILENT: vqp_question_t */
    uint8_t        sent;        /* messages sent in this state, at most VQP_PATH_EARLY */
    uint8_t        fails;       /* failures to come up in a row on these rails, see rails.h */
    uint8_t        peer_fails;  /* those of the peer, as far as it has told */
    uint8_t        decided;     /* this side has chosen next_rail and next_peer anew */
    uint8_t        turn;        /* number of the pair of rails that was chosen last */
    uint8_t        base_rail;   /* local rail that the path was on first */
    uint8_t        base_peer;   /* likewise of the peer; VQP_RAIL_NONE: not known yet */
    uint8_t        next_rail;   /* rail of the next queue pair */
    uint8_t        next_peer;   /* likewise of the peer, as far as this side knows */
    uint8_t        logged_peer; /* the peer_rail that was last logged; VQP_RAIL_NONE: none */
    uint16_t       failed;      /* slot behind the newest error completion */
    uint16_t       end;         /* slot behind the newest frag that gets a completion */
    uint16_t       posted;      /* slot behind the newest frag that was posted */
    uint16_t       replay;      /* slots [replay, replay_end): frags of earlier */
    uint16_t       replay_end;  /* epochs that wait for their replay */
    uint16_t       target_slot; /* of the target: what was sent there before, from this
                                   slot on, is of this path */
    uint16_t       seen;        /* path->head at the last look */
    uint16_t       wrs_seen;    /* path->tail up to which wrs and packets count */
    uint32_t       wrs;         /* work requests posted in this epoch */
    uint32_t       packets;     /* packets of these, less one for each */
    uint64_t       bytes_seen;  /* path->stats.bytes at wrs_seen */
    uint64_t       imms_sent;   /* stats.imms when this epoch began */
    uint64_t       imms_came;   /* stats.rx_cqes then */
    uint32_t       epoch;       /* number of rebuilds, the same on both sides */
    uint32_t       qpn;         /* own, of CONNECT and READY */
    uint32_t       psn;
    uint32_t       peer_qpn;
    uint32_t       peer_psn;
    int            status;      /* vqp_status_t: the reason why it went down */
    vqp_executed_t own;         /* the peer's requests that were executed here */
    vqp_executed_t peer;        /* own requests that the peer has executed */
    uint64_t       due;         /* ns: expiry of the state's timer */
    uint64_t       interval;    /* ns from the next repetition to the one after it */
    uint64_t       hold;        /* ns from DOWN to the rebuild */
    uint64_t       held_at;     /* ns: begin of the last hold */
    uint64_t       stalled;     /* ns without progress, as far as they count */
    uint64_t       silent;      /* ns of these in which other paths made progress */
    uint64_t       why_silent;  /* silent when the path became SILENT; when it goes down, the
                                   time to be reported, or 0 */
    uint32_t       asks;        /* number of the last question, see silence.h; 24 bits */
    uint64_t       slow;        /* ns for which it has been slow, see slow.h */
    uint64_t       slow_next;   /* ns: earliest time of the next move */
    uint64_t       slow_wait;   /* ns from the last move until then */
    vqp_turn_t     spare_turn;  /* to be rebuilt, see turns.h */
    uint32_t       downs;
    uint64_t       down_at;     /* ns: for the log of the owner */
} vqp_failover_t;

typedef struct vqp_path {
    vqp_inflight_t  *inflight;
    vqp_budget_t     budget;
    uint64_t         bytes;       /* bytes unconfirmed */
    uint32_t         ring_signaled; /* ring position of the last AM that was
                                     signaled to free the mirror */
    uint16_t         mask;        /* entries of inflight - 1, at least depth; with
                                     failover one more: see replay.h */
    uint16_t         depth;       /* slots of the send queue, less the one that
                                     the drain nop takes, or less two */
    uint16_t         head;        /* oldest unconfirmed */
    uint16_t         tail;        /* next to be posted */
    uint16_t         signaled;    /* slot behind the newest signaled frag */
    uint16_t         reads;       /* READs and atomics unconfirmed */
    uint16_t         rma;         /* frags of put, get, atomic unconfirmed */
    uint16_t         recv_posted; /* own receives in the queue, with those... */
    uint16_t         recv_used;   /* ...consumed and not posted again yet */
    uint16_t         qp_tag;      /* in its wr_ids: identifies its queue pair, so that
                                     stale completions are ignored */
    uint8_t          index;
    uint8_t          next;        /* index of the next path in turn */
    uint8_t          rail;        /* local rail */
    uint8_t          peer_rail;   /* VQP_RAIL_NONE until the peer has added the path */
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

/** Do frags of an earlier epoch wait for their replay? */
static inline int vqp_path_has_replay(const vqp_path_t *path)
{
    return path->fo.replay != path->fo.replay_end;
}

/** Is the path off: without a queue pair, until either side adds it? See failover.h. */
static inline int vqp_path_is_off(const vqp_path_t *path)
{
    return (path->fo.state == VQP_PATH_DOWN) && path->fo.unused && !path->fo.waits;
}

/** Is it neither about to go down nor to come up? */
static inline int vqp_path_is_settled(const vqp_path_t *path)
{
    return (path->fo.state == VQP_PATH_UP) || vqp_path_is_off(path);
}

/** Does its state end by what progress does? That of the others, and SILENT in part, ends by
 *  events, messages and time. */
static inline int vqp_path_needs_progress(const vqp_path_t *path)
{
    return (path->fo.state == VQP_PATH_SILENT) || (path->fo.state == VQP_PATH_LEAVE) ||
           (path->fo.state == VQP_PATH_QUIESCE) || (path->fo.state == VQP_PATH_PROBE);
}

/** Is the path in LEAVE, with nothing in flight? */
static inline int vqp_path_has_left(const vqp_path_t *path)
{
    return (path->fo.state == VQP_PATH_LEAVE) &&
           (vqp_path_outstanding(path) == 0);
}

/** A completion has come on a silent path. It takes no frags before the peer has answered that
 *  the question is withdrawn: the peer might still give the path up. */
static inline int vqp_path_is_withheld(const vqp_path_t *path)
{
    return (path->fo.state == VQP_PATH_SILENT) &&
           (path->fo.question == VQP_QUESTION_OVER);
}

/** Does it carry traffic, so that an error completion can be the first sign of a failure? */
static inline int vqp_path_has_traffic(const vqp_path_t *path)
{
    return path->fo.state <= VQP_PATH_LEAVE;
}

/** May a frag of data be posted now? @a cap limits the bytes in flight. */
static inline int vqp_path_has_room(const vqp_path_t *path, uint64_t cap)
{
    return (vqp_path_outstanding(path) + VQP_CONTROL_RESERVE < path->depth) &&
           (path->bytes < cap) && path->up;
}

/** May a frag be posted now that uses the reserve for control? */
static inline int vqp_path_has_reserve(const vqp_path_t *path)
{
    return (vqp_path_outstanding(path) < path->depth) && path->up;
}

/** Is a signaled frag in flight? */
static inline int vqp_path_awaits_cqe(const vqp_path_t *path)
{
    return (uint16_t)(path->signaled - path->head - 1) <
           vqp_path_outstanding(path);
}

/** Is the newest frag in flight unsignaled? */
static inline int vqp_path_lacks_cqe(const vqp_path_t *path)
{
    return (path->signaled != path->tail) && (vqp_path_outstanding(path) != 0);
}

#endif
