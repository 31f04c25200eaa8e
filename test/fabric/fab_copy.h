/*
 * Moving data between lists of pieces of memory, in one process or between
 * two; and the way from SGEs to such lists, with their keys checked.
 */
#ifndef FAB_COPY_H
#define FAB_COPY_H

#include <infiniband/verbs.h>

#include "fab_mr.h"

enum {
    FAB_MAX_SGE = 32 /* plus one for the GRH of a datagram */
};

/* Pieces of one process's memory, and the regions held for them */
struct fab_vec {
    uint32_t      proc;
    int           num;
    int           num_mrs;
    uint32_t      has_cuda; /* some of it is in the memory of a real GPU */
    uint64_t      length;
    struct {
        uint64_t addr;
        uint64_t length;
    } piece[FAB_MAX_SGE + 1];
    struct fab_mr *mrs[FAB_MAX_SGE + 1];
};

static inline void fab_vec_init(struct fab_vec *vec, uint32_t proc)
{
    vec->proc     = proc;
    vec->num      = 0;
    vec->num_mrs  = 0;
    vec->has_cuda = 0;
    vec->length   = 0;
}

/** Append memory that needs no key: inline data, the world itself. */
static inline void fab_vec_add(struct fab_vec *vec, uint64_t addr,
                               uint64_t length)
{
    vec->piece[vec->num].addr   = addr;
    vec->piece[vec->num].length = length;
    vec->num                   += 1;
    vec->length                += length;
}

/**
 * Append what SGEs name, holding their regions until fab_vec_release.
 *
 * @param access  IBV_ACCESS_LOCAL_WRITE where data will be put there, else 0.
 * @param bad     The index of the SGE that is wrong.
 */
enum fab_mr_error fab_vec_add_sges(struct fab_vec *vec, uint32_t dev,
                                   uint32_t pd, const struct ibv_sge *sge,
                                   int num_sge, uint32_t access, int *bad);

/** Append a piece that a key names, holding its region. */
enum fab_mr_error fab_vec_add_key(struct fab_vec *vec, uint32_t key,
                                  uint32_t dev, uint32_t pd, uint64_t iova,
                                  uint64_t length, uint32_t access);

static inline void fab_vec_release(struct fab_vec *vec)
{
    int i;

    for (i = 0; i < vec->num_mrs; ++i) {
        fab_mr_unpin(vec->mrs[i]);
    }
    vec->num_mrs = 0;
}

/**
 * Copy the first @a length bytes; one of the two is this process's.
 *
 * @return 0; ESRCH: the other process is gone; EFAULT: memory is not mapped.
 */
int fab_copy(const struct fab_vec *dst, const struct fab_vec *src,
             uint64_t length);

#endif
