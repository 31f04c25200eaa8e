/*
 * Ops and the ring that holds them. A vqp has two rings, AM and RMA; an op's
 * place in its ring is its identity until it is reported, so nothing is ever
 * looked up. Pure: libc only.
 */
#ifndef VQP_CORE_OP_H
#define VQP_CORE_OP_H

#include "core/seq.h"
#include "core/status.h"

typedef enum {
    VQP_KIND_AM,      /* record into the peer's ring */
    VQP_KIND_PUT,
    VQP_KIND_GET,
    VQP_KIND_FADD,    /* atomics: never split */
    VQP_KIND_CSWAP,
    VQP_KIND_CHECK,   /* zero-length write: is the path alive? */
    VQP_KIND_NOTIFY,  /* frag only: closes a sprayed AM */
    VQP_KIND_CONTROL, /* frag only, no op: credit cell and immediate */
    VQP_KIND_FENCE,   /* frag only, no op: empty immediate */
    VQP_KIND_KICK,    /* frag only, no op: empty signaled write */
    VQP_KIND_FREE     /* no op any more, but an older one is still there */
} vqp_kind_t;

enum {
    VQP_OP_FENCE    = 1 << 0, /* what precedes it comes first */
    VQP_OP_SIGNAL   = 1 << 1, /* needs send completions of its own */
    VQP_OP_INLINE   = 1 << 2, /* a frag of it goes inline, from op or mirror */
    VQP_OP_WRAP     = 1 << 3, /* AM: the record starts at ring offset 0 */
    VQP_OP_BARE     = 1 << 4, /* AM: data frags carry no immediate of their own;
                                 alone (spray): a notify follows when all of them
                                 are confirmed */
    VQP_OP_NOTIFIED = 1 << 5, /* AM, bare: that notify was posted, or (tail) the
                                 end of dispatch announces the message */
    VQP_OP_DONE     = 1 << 6, /* confirmed, on its way to be reported */
    VQP_OP_BUFFER   = 1 << 7  /* refers to memory of the user, or is awaited */
};

/** One piece of local memory: keys are indexed by rail. */
typedef struct vqp_iov {
    uint64_t        addr;
    uint64_t        length;
    const uint32_t *lkeys;
} vqp_iov_t;

#define VQP_OP_IOV_INLINE 2  /* pieces that an op holds itself */
#define VQP_OP_DATA_MAX   64 /* bytes of a put_short that an op holds itself */

/* Of flags: an AM that is announced by the last frag on each path it used */
#define VQP_OP_TAIL       (VQP_OP_BARE | VQP_OP_NOTIFIED)

/* An op's name in links and in flight: its index, and this bit if it is in the
 * AM ring */
#define VQP_OP_AM         0x8000u
#define VQP_OP_NONE       UINT16_MAX

/**
 * One accepted call. Whatever a replay would need stays in here, or where it
 * points to, until the op is confirmed. Two cache lines; test/core/op_test.cc
 * pins the size.
 */
typedef struct vqp_op {
    uint32_t        seq;        /* op number, over both rings */
    uint8_t         kind;       /* vqp_kind_t */
    uint8_t         flags;      /* VQP_OP_* */
    uint8_t         niov;
    uint8_t         iov_idx;    /* cursor: the piece that offset is in */
    uint64_t        length;     /* bytes in all */
    uint64_t        offset;     /* bytes dispatched */
    uint64_t        raddr;
    const uint32_t *rkeys;      /* indexed by the peer's rail */
    void           *user;       /* for the one who reports: not ours */
    union {
        uint32_t    ring_end;   /* AM: ring position behind the record */
        uint32_t    fence_am;   /* RMA behind a fence: the AMs before this
                                   position come first */
    };
    uint32_t        fsn;        /* AM spray: given at dispatch */
    uint16_t        pending;    /* frags posted and not confirmed */
    uint16_t        next;       /* link in the done or the notify list */
    uint8_t         frag_shift; /* log2 of the frag size */
    uint8_t         user_kind;  /* what user is: 0 = nobody to be told */
    int16_t         status;     /* vqp_status_t, the first error wins */
    union {
        struct {
            vqp_iov_t  iov[VQP_OP_IOV_INLINE];
            vqp_iov_t *iov_ext; /* all pieces, where niov is larger */
            uint64_t   iov_off; /* cursor: offset inside of the piece */
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
    uint32_t  head; /* oldest op not reported */
    uint32_t  post; /* first op with something undispatched */
    uint32_t  tail; /* next op to accept */
} vqp_opring_t;

static inline void
vqp_opring_init(vqp_opring_t *ring, vqp_op_t *ops, uint32_t size)
{
    vqp_assert((size & (size - 1)) == 0);
    ring->ops  = ops;
    ring->mask = size - 1;
    ring->head = ring->post = ring->tail = 0;
}

static inline vqp_op_t *vqp_opring_at(vqp_opring_t *ring, uint32_t pos)
{
    return &ring->ops[pos & ring->mask];
}

static inline int vqp_opring_is_full(const vqp_opring_t *ring)
{
    return (ring->tail - ring->head) > ring->mask;
}

static inline int vqp_opring_is_empty(const vqp_opring_t *ring)
{
    return ring->tail == ring->head;
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
        op->status = (int16_t)status;
    }
}

#endif
