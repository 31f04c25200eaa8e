/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ops and the ring that holds them. A vqp has two rings, AM and RMA. The slot of
 * an op in its ring is its id until it is reported, so no op is ever looked up.
 *
 * An idle connection has few slots. A ring that is full asks for more, its owner gives
 * memory, and from then on it takes no op of the user until it is empty: no op ever changes
 * its slot. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_OP_H
#define VQP_CORE_DATA_OP_H

#include "core/seq.h"
#include "core/status.h"

typedef enum {
    VQP_KIND_AM,      /* record into the peer's ring */
    VQP_KIND_PUT,
    VQP_KIND_GET,
    VQP_KIND_FADD,    /* atomics: never split */
    VQP_KIND_CSWAP,
    VQP_KIND_BARRIER, /* op only: ends when all ops before it have ended */
    VQP_KIND_NOTIFY,  /* frag only: announces an AM without data */
    VQP_KIND_FENCE,   /* frag only: empty immediate in front of an AM */
    VQP_KIND_CREDIT, /* frag only, no op: a credit update, cell and immediate */
    VQP_KIND_NOP,     /* frag only, no op: empty signaled write */
    VQP_KIND_FREE,    /* op only: the slot is unused, but an older op is there */
    VQP_KIND_DONE     /* frag only, of a path that went down: it needs no replay */
} vqp_kind_t;

enum {
    VQP_OP_FENCE     = 1 << 0, /* waits for ops of the other ring: fence_at */
    VQP_OP_SIGNAL    = 1 << 1, /* needs send completions of its own */
    VQP_OP_INLINE    = 1 << 2, /* its frag goes inline, from op or mirror */
    VQP_OP_WRAP      = 1 << 3, /* AM: the record starts at ring offset 0 */
    VQP_OP_SPRAY     = 1 << 4, /* AM: a notify follows when all frags are
                                  confirmed; they carry no immediate */
    VQP_OP_CONTROL   = 1 << 5, /* AM: the record is for the core of the peer */
    VQP_OP_ANNOUNCED = 1 << 6, /* AM, spray: the notify was posted */
    VQP_OP_DONE      = 1 << 7, /* confirmed, to be reported */
    VQP_OP_BUFFER    = 1 << 8, /* refers to memory of the user, or is awaited */
    VQP_OP_CLOSE     = 1 << 9,  /* barrier: the orderly close waits for it */
    VQP_OP_PROBE     = 1 << 10, /* barrier: if nothing is in flight when it is
                                   dispatched, it sends a nop */
    VQP_OP_ARMED     = 1 << 11, /* barrier: pending counts the credit updates that
                                   it waits for */
    VQP_OP_TAIL      = 1 << 12, /* AM: the last frag on each path carries an
                                   immediate */
    VQP_OP_PACK      = 1 << 13, /* AM: takes further records, see pack.h */
    VQP_OP_HELD      = 1 << 14  /* AM: waits for further records */
};

/** One piece of local memory: keys are indexed by rail. */
typedef struct vqp_iov {
    uint64_t        addr;
    uint64_t        length;
    const uint32_t *lkeys;
} vqp_iov_t;

#define VQP_OP_IOV_INLINE 2  /* pieces that an op holds itself */
#define VQP_OP_DATA_MAX   64 /* bytes of a put_short that an op holds itself */

/* The id of an op in links and in flight: its slot, with this bit if it is in
 * the AM ring */
#define VQP_OP_AM         0x8000u
#define VQP_OP_NONE       UINT16_MAX

/**
 * One accepted call. What a replay needs stays in the op, or where it points to,
 * until the op is confirmed. Two cache lines; test/core/op_test.cc pins the size.
 */
typedef struct vqp_op {
    uint32_t        seq;        /* op number, over both rings */
    uint8_t         kind;       /* vqp_kind_t */
    int8_t          status;     /* vqp_status_t, the first error wins */
    uint16_t        flags;      /* VQP_OP_* */
    uint64_t        length;     /* bytes in all */
    uint64_t        offset;     /* bytes dispatched */
    uint64_t        raddr;
    void           *user;       /* of the layer that is reported to */
    uint8_t         user_kind;  /* type of user; 0: no user to report to */
    uint8_t         niov;
    uint8_t         frag_shift; /* log2 of the fragment size */
    uint16_t        pending;    /* frags that it waits for: dispatched, and not
                                   confirmed */
    uint16_t        next;       /* link in the list that it is in: tx->announce,
                                   later tx->done */
    union {
        struct {
            const uint32_t *rkeys;    /* indexed by the peer's rail */
            uint32_t        fence_at; /* FENCE: AMs before this position come
                                         first */
        } rma;
        struct {
            uint32_t        am_end;   /* waits for the AMs before this position */
        } barrier;
        struct {
            uint32_t        ring_end; /* ring position behind the record */
            uint32_t        fence_at; /* FENCE: RMA ops before this position
                                         come first */
            uint32_t        fsn;      /* spray: given at dispatch */
        } am;
    };
    union {
        struct {
            vqp_iov_t  iov[VQP_OP_IOV_INLINE];
            vqp_iov_t *iov_ext; /* all pieces, where niov is larger */
        } g;
        uint8_t        data[VQP_OP_DATA_MAX];
        struct {
            uint64_t   compare_add;
            uint64_t   swap;
            void      *result;  /* where a fetched value goes, or NULL */
            uint8_t    rail;    /* of the peer, that executes it */
        } amo;
    };
} vqp_op_t;

/** A power of two of ops, and three cursors that only grow. */
typedef struct vqp_opring {
    vqp_op_t *ops;
    uint32_t  mask;
    uint32_t  limit;  /* ops that it takes: all but the reserve, or none */
    uint32_t  head;   /* oldest op not reported */
    uint32_t  post;   /* first op with something undispatched */
    uint32_t  tail;   /* next op to accept */
    uint32_t  most;   /* slots that it may have, a power of two */
    uint8_t   reserve;
    uint8_t   wants;  /* it was full, and has fewer slots than it may have */
    vqp_op_t *more;   /* that it uses as soon as it is empty; NULL: none */
} vqp_opring_t;

/**
 * Prepare an empty ring of @a size slots.
 *
 * @param [in] most     Slots that it may have: those, or a larger power of two.
 * @param [in] reserve  Slots that no op of the user takes; fewer than @a size.
 */
static inline void vqp_opring_init(vqp_opring_t *ring, vqp_op_t *ops, uint32_t size,
                                   uint32_t most, uint8_t reserve)
{
    vqp_assert((size & (size - 1)) == 0);
    vqp_assert(((most & (most - 1)) == 0) && (most >= size) && (size > reserve));
    ring->ops     = ops;
    ring->mask    = size - 1;
    ring->limit   = size - reserve;
    ring->head    = ring->post = ring->tail = 0;
    ring->most    = most;
    ring->reserve = reserve;
    ring->wants   = 0;
    ring->more    = NULL;
}

/**
 * It has taken as many ops as its limit allows: ask for more slots, or use those that were
 * given.
 *
 * @return Does it take an op?
 */
int vqp_opring_grow(vqp_opring_t *ring);

/** It wants more slots, and gets them; see vqp_tx_give_ops(). */
void vqp_opring_give(vqp_opring_t *ring, vqp_op_t *ops);

static inline vqp_op_t *vqp_opring_at(const vqp_opring_t *ring, uint32_t pos)
{
    return &ring->ops[pos & ring->mask];
}

/** Ops that are accepted and not reported. */
static inline uint32_t vqp_opring_count(const vqp_opring_t *ring)
{
    return ring->tail - ring->head;
}

static inline int vqp_opring_is_empty(const vqp_opring_t *ring)
{
    return ring->tail == ring->head;
}

/** Does it take an op of the user? The ring does not change. */
static inline int vqp_opring_takes(const vqp_opring_t *ring)
{
    return (vqp_opring_count(ring) < ring->limit) ||
           ((ring->more != NULL) && vqp_opring_is_empty(ring));
}

/** Does it take an op of the user, which follows? Only now the ring asks for slots, or uses
 *  others: a place that vqp_opring_at() has given before is not valid any more. */
static inline int vqp_opring_make_room(vqp_opring_t *ring)
{
    return vqp_likely(vqp_opring_count(ring) < ring->limit) || vqp_opring_grow(ring);
}

/** Is something from before @a pos not reported? @a pos may be any number of ops
 * old: it is compared with those that are in the ring, not by its distance. */
static inline int
vqp_opring_is_ahead(const vqp_opring_t *ring, uint32_t pos)
{
    return pos - ring->head - 1 < vqp_opring_count(ring);
}

static inline uint16_t
vqp_opring_index(const vqp_opring_t *ring, const vqp_op_t *op)
{
    return (uint16_t)(op - ring->ops);
}

static inline vqp_iov_t *vqp_op_iov(vqp_op_t *op)
{
    return (op->niov <= VQP_OP_IOV_INLINE) ? op->g.iov : op->g.iov_ext;
}

/** Note an error; the first one stays. */
static inline void vqp_op_set_status(vqp_op_t *op, vqp_status_t status)
{
    if (op->status == VQP_OK) {
        op->status = (int8_t)status;
    }
}

#endif
