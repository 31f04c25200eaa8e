/*
 * vqp_mpi_check: collective operations.  Calls MPI and libc only.
 */
#include "vqp_mpi_check.h"

#include <stdlib.h>

/* Sizes of all pairs are drawn by all ranks, each uses its row and column */
static void alltoall_random(vqp_mpi_t *mpi)
{
    int n        = mpi->size;
    int *counts  = vqp_mpi_alloc(4 * n * sizeof(*counts));
    int *scounts = counts, *rcounts = counts + n;
    int *sdispls = counts + 2 * n, *rdispls = counts + 3 * n;
    size_t sent = 0, received = 0;
    char *out, *in;
    int src, dst, length;

    for (src = 0; src < n; ++src) {
        for (dst = 0; dst < n; ++dst) {
            length = vqp_mpi_draw_size(mpi);
            if (src == mpi->rank) {
                scounts[dst] = length;
                sdispls[dst] = sent;
                sent        += length;
            }
            if (dst == mpi->rank) {
                rcounts[src] = length;
                rdispls[src] = received;
                received    += length;
            }
        }
    }
    out = vqp_mpi_alloc(sent);
    in  = vqp_mpi_alloc(received);
    for (dst = 0; dst < n; ++dst) {
        vqp_mpi_fill(mpi, out + sdispls[dst], scounts[dst], mpi->rank, dst, 0);
    }
    MPI_Alltoallv(out, scounts, sdispls, MPI_BYTE, in, rcounts, rdispls,
                  MPI_BYTE, MPI_COMM_WORLD);
    for (src = 0; src < n; ++src) {
        vqp_mpi_check(mpi, in + rdispls[src], rcounts[src], src, mpi->rank, 0);
    }
    free(in);
    free(out);
    free(counts);
}

/* The largest message between all pairs at once */
static void alltoall_largest(vqp_mpi_t *mpi)
{
    size_t length = mpi->max_size;
    char *out     = vqp_mpi_alloc(length * mpi->size);
    char *in      = vqp_mpi_alloc(length * mpi->size);
    int peer;

    for (peer = 0; peer < mpi->size; ++peer) {
        vqp_mpi_fill(mpi, out + peer * length, length, mpi->rank, peer, 1);
    }
    MPI_Alltoall(out, length, MPI_BYTE, in, length, MPI_BYTE, MPI_COMM_WORLD);
    for (peer = 0; peer < mpi->size; ++peer) {
        vqp_mpi_check(mpi, in + peer * length, length, peer, mpi->rank, 1);
    }
    free(in);
    free(out);
}

static void broadcast(vqp_mpi_t *mpi)
{
    size_t length;
    void *buffer;
    int root;

    for (root = 0; root < mpi->size; ++root) {
        length = vqp_mpi_draw_size(mpi);
        buffer = vqp_mpi_alloc(length);
        if (mpi->rank == root) {
            vqp_mpi_fill(mpi, buffer, length, root, 0, root);
        }
        MPI_Bcast(buffer, length, MPI_BYTE, root, MPI_COMM_WORLD);
        vqp_mpi_check(mpi, buffer, length, root, 0, root);
        free(buffer);
    }
}

static void reduce_all(vqp_mpi_t *mpi)
{
    static const int counts[] = {1, 100, 100000};
    int64_t *out, *in, expected;
    size_t i;
    int k;

    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        out = vqp_mpi_alloc(counts[i] * sizeof(*out));
        in  = vqp_mpi_alloc(counts[i] * sizeof(*in));
        for (k = 0; k < counts[i]; ++k) {
            out[k] = (int64_t)(mpi->rank + 1) * (k + 1);
        }
        MPI_Allreduce(out, in, counts[i], MPI_INT64_T, MPI_SUM,
                      MPI_COMM_WORLD);
        for (k = 0; k < counts[i]; ++k) {
            expected = (int64_t)mpi->size * (mpi->size + 1) / 2 * (k + 1);
            if (in[k] != expected) {
                vqp_mpi_fail(mpi, "sum %d of %d is wrong", k, counts[i]);
                break;
            }
        }
        free(in);
        free(out);
    }
}

const vqp_mpi_case_t vqp_mpi_coll_cases[] = {
    {"alltoall_random", alltoall_random},
    {"alltoall_largest", alltoall_largest},
    {"broadcast", broadcast},
    {"reduce_all", reduce_all},
    {NULL, NULL}
};
