/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A frag: one work request to post, as the core describes it to the layer that
 * posts. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_FRAG_H
#define VQP_CORE_DATA_FRAG_H

#include "core/data/path.h"

/** Same layout as the scatter-gather element of the verbs API. */
typedef struct vqp_sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
} vqp_sge_t;

#define VQP_FRAG_MAX_SGE 16
#define VQP_BATCH_MAX    32

typedef enum {
    VQP_WR_WRITE,
    VQP_WR_WRITE_IMM,
    VQP_WR_READ,
    VQP_WR_FADD,
    VQP_WR_CSWAP
} vqp_wr_t;

/* The first three are numbered as the verbs API numbers them: the layer that
 * posts passes them on as they are */
enum {
    VQP_FRAG_FENCE        = 1 << 0, /* wait for READs and atomics before it */
    VQP_FRAG_SIGNALED     = 1 << 1,
    VQP_FRAG_INLINE       = 1 << 3,
    VQP_FRAG_SEND         = VQP_FRAG_FENCE | VQP_FRAG_SIGNALED |
                            VQP_FRAG_INLINE,
    VQP_FRAG_UNPOSTED     = 1 << 4, /* set by the layer that posts: it failed */
    VQP_FRAG_FORCE_SIGNAL = 1 << 5  /* the path needs its CQE: a later one of the
                                       op does not replace it */
};

/** One work request to post. */
typedef struct vqp_frag {
    vqp_path_t *path;
    vqp_op_t   *op;     /* NULL for credit update and nop, unless a barrier waits
                           for it */
    vqp_sge_t  *sge;    /* nsge of them */
    uint16_t    slot;   /* in the path's send queue */
    uint8_t     opcode; /* vqp_wr_t */
    uint8_t     nsge;
    uint32_t    flags;  /* VQP_FRAG_* */
    uint32_t    kind;   /* vqp_kind_t, for the trace */
    uint32_t    imm;
    uint32_t    rkey;
    uint32_t    length;
    uint64_t    raddr;
} vqp_frag_t;

typedef struct vqp_batch {
    unsigned   count;
    vqp_frag_t frags[VQP_BATCH_MAX];
    vqp_sge_t  sge[VQP_BATCH_MAX][VQP_FRAG_MAX_SGE];
} vqp_batch_t;

#endif
