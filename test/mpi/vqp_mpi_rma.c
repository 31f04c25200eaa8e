/*
 * vqp_mpi_check: one-sided operations on windows, with fence and with locks.
 * Calls MPI and libc only.
 */
#include "vqp_mpi_check.h"

#include <stdlib.h>
#include <string.h>

enum {
    COUNTS = 64, /* integers that accumulate */
    ROUNDS = 25  /* operations of each rank on a counter that all share */
};

/* A window of length bytes on each rank, all zero */
static void *make_window(size_t length, MPI_Win *win)
{
    void *base;

    MPI_Win_allocate(length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, win);
    memset(base, 0, length);
    MPI_Barrier(MPI_COMM_WORLD);
    return base;
}

/* Each rank writes its own slice of each rank's window */
static void put_fence(vqp_mpi_t *mpi)
{
    size_t slice = mpi->max_size / 2 - 3;
    char *out    = vqp_mpi_alloc(slice * mpi->size);
    MPI_Win win;
    char *base;
    int peer;

    base = make_window(slice * mpi->size, &win);
    MPI_Win_fence(0, win);
    for (peer = 0; peer < mpi->size; ++peer) {
        vqp_mpi_fill(mpi, out + peer * slice, slice, mpi->rank, peer, 0);
        MPI_Put(out + peer * slice, slice, MPI_BYTE, peer, mpi->rank * slice,
                slice, MPI_BYTE, win);
    }
    MPI_Win_fence(0, win);
    for (peer = 0; peer < mpi->size; ++peer) {
        vqp_mpi_check(mpi, base + peer * slice, slice, peer, mpi->rank, 0);
    }
    MPI_Win_free(&win);
    free(out);
}

/* Memory that the user brought; sizes and offsets as they come */
static void get_fence(vqp_mpi_t *mpi)
{
    size_t length = mpi->max_size;
    char *base    = vqp_mpi_alloc(length);
    char *in      = vqp_mpi_alloc(length);
    MPI_Win win;
    size_t offset, part;
    int i, peer;

    vqp_mpi_fill(mpi, base, length, mpi->rank, 0, 0);
    MPI_Win_create(base, length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (i = 0; i < 8; ++i) {
        part   = vqp_mpi_draw_size(mpi);
        offset = part / 3;
        peer   = (mpi->rank + i) % mpi->size;
        MPI_Win_fence(0, win);
        MPI_Get(in, offset, MPI_BYTE, peer, 0, offset, MPI_BYTE, win);
        MPI_Get(in + offset, part - offset, MPI_BYTE, peer, offset,
                part - offset, MPI_BYTE, win);
        MPI_Win_fence(0, win);
        vqp_mpi_check(mpi, in, part, peer, 0, 0);
    }
    MPI_Win_free(&win);
    free(in);
    free(base);
}

static void accumulate_fence(vqp_mpi_t *mpi)
{
    int64_t out[COUNTS];
    MPI_Win win;
    int64_t *base, expected;
    int i, peer;

    base = make_window(sizeof(out), &win);
    for (i = 0; i < COUNTS; ++i) {
        out[i] = (int64_t)(mpi->rank + 1) * (i + 1);
    }
    MPI_Win_fence(0, win);
    for (peer = 0; peer < mpi->size; ++peer) {
        MPI_Accumulate(out, COUNTS, MPI_INT64_T, peer, 0, COUNTS, MPI_INT64_T,
                       MPI_SUM, win);
    }
    MPI_Win_fence(0, win);
    for (i = 0; i < COUNTS; ++i) {
        expected = (int64_t)mpi->size * (mpi->size + 1) / 2 * (i + 1);
        if (base[i] != expected) {
            vqp_mpi_fail(mpi, "sum %d is wrong", i);
            break;
        }
    }
    MPI_Win_free(&win);
}

/* Under an exclusive lock: put, flush, and get must see what was put */
static void lock_put_flush_get(vqp_mpi_t *mpi)
{
    char *out = vqp_mpi_alloc(mpi->max_size);
    char *in  = vqp_mpi_alloc(mpi->max_size);
    MPI_Win win;
    size_t length;
    int i, peer;

    make_window(mpi->max_size, &win);
    for (i = 0; i < 8; ++i) {
        length = vqp_mpi_draw_size(mpi);
        peer   = (mpi->rank + i) % mpi->size;
        vqp_mpi_fill(mpi, out, length, mpi->rank, peer, i);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, win);
        MPI_Put(out, length, MPI_BYTE, peer, 0, length, MPI_BYTE, win);
        MPI_Win_flush(peer, win);
        MPI_Get(in, length, MPI_BYTE, peer, 0, length, MPI_BYTE, win);
        MPI_Win_unlock(peer, win);
        vqp_mpi_check(mpi, in, length, mpi->rank, peer, i);
    }
    MPI_Win_free(&win);
    free(in);
    free(out);
}

/*
 * One counter on each rank: all add to all, and each value that is handed out
 * must be handed out once: their sum is known.
 */
static void fetch_and_add(vqp_mpi_t *mpi)
{
    int64_t one = 1, old, mine = 0, sum, expected;
    int64_t total = (int64_t)ROUNDS * mpi->size;
    MPI_Win win;
    int64_t *base;
    int i, peer;

    base = make_window(sizeof(*base), &win);
    MPI_Win_lock_all(0, win);
    for (i = 0; i < ROUNDS; ++i) {
        for (peer = 0; peer < mpi->size; ++peer) {
            MPI_Fetch_and_op(&one, &old, MPI_INT64_T, peer, 0, MPI_SUM, win);
            MPI_Win_flush(peer, win);
            mine += old;
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    expected = mpi->size * (total * (total - 1) / 2);
    if (sum != expected) {
        vqp_mpi_fail(mpi, "the old values add up to %lld instead of %lld",
                     (long long)sum, (long long)expected);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, mpi->rank, 0, win);
    if (*base != total) {
        vqp_mpi_fail(mpi, "the counter is %lld instead of %lld",
                     (long long)*base, (long long)total);
    }
    MPI_Win_unlock(mpi->rank, win);
    MPI_Win_free(&win);
}

/* A counter on rank 0, incremented with compare and swap only */
static void compare_and_swap(vqp_mpi_t *mpi)
{
    int64_t value = 0, next, old;
    int64_t *base;
    MPI_Win win;
    int i;

    base = make_window(sizeof(*base), &win);
    MPI_Win_lock_all(0, win);
    for (i = 0; i < ROUNDS;) {
        next = value + 1;
        MPI_Compare_and_swap(&next, &value, &old, MPI_INT64_T, 0, 0, win);
        MPI_Win_flush(0, win);
        if (old == value) {
            value = next;
            ++i;
        } else {
            value = old;
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, mpi->rank, 0, win);
    if ((mpi->rank == 0) && (*base != (int64_t)ROUNDS * mpi->size)) {
        vqp_mpi_fail(mpi, "the counter is %lld", (long long)*base);
    }
    MPI_Win_unlock(mpi->rank, win);
    MPI_Win_free(&win);
}

/* Accumulates from all ranks to rank 0 under shared locks, element-wise */
static void accumulate_lock(vqp_mpi_t *mpi)
{
    int64_t out[COUNTS];
    int64_t *base;
    MPI_Win win;
    int i;

    base = make_window(sizeof(out), &win);
    for (i = 0; i < COUNTS; ++i) {
        out[i] = mpi->rank + i;
    }
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    for (i = 0; i < 4; ++i) {
        MPI_Accumulate(out, COUNTS, MPI_INT64_T, 0, 0, COUNTS, MPI_INT64_T,
                       MPI_SUM, win);
    }
    MPI_Win_unlock(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, mpi->rank, 0, win);
    for (i = 0; (mpi->rank == 0) && (i < COUNTS); ++i) {
        if (base[i] != 4 * ((int64_t)mpi->size * (mpi->size - 1) / 2 +
                            (int64_t)mpi->size * i)) {
            vqp_mpi_fail(mpi, "sum %d is %lld", i, (long long)base[i]);
            break;
        }
    }
    MPI_Win_unlock(mpi->rank, win);
    MPI_Win_free(&win);
}

const vqp_mpi_case_t vqp_mpi_rma_cases[] = {
    {"put_fence", put_fence},
    {"get_fence", get_fence},
    {"accumulate_fence", accumulate_fence},
    {"lock_put_flush_get", lock_put_flush_get},
    {"fetch_and_add", fetch_and_add},
    {"compare_and_swap", compare_and_swap},
    {"accumulate_lock", accumulate_lock},
    {NULL, NULL}
};
