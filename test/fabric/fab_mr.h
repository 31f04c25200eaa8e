/*
 * Memory regions and protection domains. lkey and rkey are one number {slot in
 * the world's table, 8 bits of tag}; slots are taken in turn, so that a key
 * comes back late.
 */
#ifndef FAB_MR_H
#define FAB_MR_H

#include <infiniband/verbs.h>

#include "fab_world.h"

struct fab_mr {
    uint32_t key;    /* 0: no access */
    uint32_t pins;   /* accesses under way */
    uint32_t proc;
    uint32_t pd;
    uint32_t dev;
    uint32_t access; /* IBV_ACCESS_* */
    uint64_t iova;   /* what WRs name */
    uint64_t addr;   /* where it is in its process */
    uint64_t length;
    uint64_t user;   /* the struct ibv_mr* in its process */
    uint32_t taken;  /* the slot is in use */
    uint32_t tag;    /* of the last key */
    uint32_t is_cuda; /* the memory is a real GPU's */
};

struct fab_pd_handle {
    struct ibv_pd ibv; /* first */
    uint32_t      id;
    uint32_t      users; /* MRs, QPs, AHs, SRQs: not 0 makes dealloc EBUSY */
};

#define fab_pd_of(_ibv_pd) ((struct fab_pd_handle*)(_ibv_pd))

/* The verbs of that name; errno and return values as there */
struct ibv_pd *fab_pd_alloc(struct ibv_context *context);
int fab_pd_dealloc(struct ibv_pd *pd);
struct ibv_mr *fab_mr_reg(struct ibv_pd *pd, void *addr, size_t length,
                          uint64_t iova, unsigned int access);
struct ibv_mr *fab_mr_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
                                 uint64_t iova, int fd, unsigned int access);
int fab_mr_dereg(struct ibv_mr *mr);

enum fab_mr_error {
    FAB_MR_OK = 0,
    FAB_MR_NO_KEY,  /* no such key on this device */
    FAB_MR_PD,      /* of another PD */
    FAB_MR_BOUNDS,
    FAB_MR_ACCESS   /* not registered for this */
};

/**
 * Find the region that a key names and hold it: until fab_mr_unpin dereg_mr
 * waits.
 *
 * @param [in]  proc    Only regions of this process.
 * @param [in]  access  IBV_ACCESS_* that it needs.
 * @param [out] addr    Where @a iova is in that process.
 *
 * @return the region, or NULL with @a why.
 */
struct fab_mr *fab_mr_pin(uint32_t key, uint32_t dev, uint32_t pd,
                          uint32_t proc, uint64_t iova, uint64_t length,
                          uint32_t access, uint64_t *addr,
                          enum fab_mr_error *why);

static inline void fab_mr_unpin(struct fab_mr *mr)
{
    __atomic_fetch_sub(&mr->pins, 1, __ATOMIC_RELEASE);
}

/** The region of a key, or NULL; not held: for messages and violations. */
struct fab_mr *fab_mr_peek(uint32_t key);

/** Keys of a process that died are free. */
void fab_mr_reap(uint32_t proc);

const char *fab_mr_error_str(enum fab_mr_error error);

#endif
