/*
 * What the files of vqp_mpi_check share: its groups of cases, the pattern that
 * all data follow, and the seeded source of sizes.  Calls MPI and libc only.
 */
#ifndef VQP_MPI_CHECK_H
#define VQP_MPI_CHECK_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vqp_mpi {
    int      rank;
    int      size;
    uint64_t seed;      /* from the command line, the same on all ranks */
    uint64_t random;    /* state: the same on all ranks as long as all draw */
    size_t   max_size;  /* bytes, of one message */
    int      errors;    /* of the current case on this rank */
} vqp_mpi_t;

/*
 * A case returns nothing: it calls vqp_mpi_fail for what is wrong, on the rank
 * that sees it.  All ranks run all cases in the same order.
 */
typedef void (*vqp_mpi_func_t)(vqp_mpi_t *mpi);

typedef struct vqp_mpi_case {
    const char     *name;
    vqp_mpi_func_t func;
} vqp_mpi_case_t;

/* The groups, each ended by a case without a name. */
extern const vqp_mpi_case_t vqp_mpi_p2p_cases[];
extern const vqp_mpi_case_t vqp_mpi_coll_cases[];
extern const vqp_mpi_case_t vqp_mpi_rma_cases[];

/* Counts an error of the current case and prints the first few of a rank. */
void vqp_mpi_fail(vqp_mpi_t *mpi, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The next number below limit (> 0); the same on every rank. */
uint64_t vqp_mpi_draw(vqp_mpi_t *mpi, uint64_t limit);

/*
 * A size in 0..max_size bytes, spread evenly over the orders of magnitude, so
 * that every protocol gets its share; the same on every rank.
 */
size_t vqp_mpi_draw_size(vqp_mpi_t *mpi);

/* length bytes, or the end of the program; free with free(). */
void *vqp_mpi_alloc(size_t length);

/* Fills the buffer with what the sender src sends to dst in message id. */
void vqp_mpi_fill(const vqp_mpi_t *mpi, void *buffer, size_t length, int src,
                  int dst, int id);

/* Fails when the buffer holds anything else than vqp_mpi_fill makes. */
void vqp_mpi_check(vqp_mpi_t *mpi, const void *buffer, size_t length, int src,
                   int dst, int id);

#endif
