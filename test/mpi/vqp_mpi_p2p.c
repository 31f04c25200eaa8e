/*
 * vqp_mpi_check: messages between two ranks, and from a rank to itself.
 * Calls MPI and libc only.
 */
#include "vqp_mpi_check.h"

#include <stdlib.h>

enum {
    MANY     = 500, /* small messages in flight in one go */
    WILDCARD = 40,  /* messages of each rank to rank 0 */
    RANDOM   = 12   /* messages of each pair of ranks */
};

/* Around the borders of protocols, cells, MTUs and pages */
static const size_t sizes[] = {
    0, 1, 7, 8, 63, 200, 1023, 4095, 4096, 4097, 8193, 32769, 65536, 262145,
    1 << 20, (1 << 20) + 1, 3 << 20, 8 << 20
};

#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int next_rank(const vqp_mpi_t *mpi)
{
    return (mpi->rank + 1) % mpi->size;
}

static int previous_rank(const vqp_mpi_t *mpi)
{
    return (mpi->rank + mpi->size - 1) % mpi->size;
}

static void check_status(vqp_mpi_t *mpi, const MPI_Status *status, int source,
                         int tag, size_t length)
{
    int count;

    MPI_Get_count(status, MPI_BYTE, &count);
    if ((status->MPI_SOURCE != source) || (status->MPI_TAG != tag) ||
        ((size_t)count != length)) {
        vqp_mpi_fail(mpi, "got %d bytes, tag %d from %d; expected %zu, %d, %d",
                     count, status->MPI_TAG, status->MPI_SOURCE, length, tag,
                     source);
    }
}

/* Each rank sends to the next one; with one rank, to itself */
static void ring(vqp_mpi_t *mpi)
{
    int to   = next_rank(mpi);
    int from = previous_rank(mpi);
    MPI_Status status;
    void *out, *in;
    size_t i;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] <= mpi->max_size); ++i) {
        out = vqp_mpi_alloc(sizes[i]);
        in  = vqp_mpi_alloc(sizes[i]);
        vqp_mpi_fill(mpi, out, sizes[i], mpi->rank, to, i);
        MPI_Sendrecv(out, sizes[i], MPI_BYTE, to, i, in, sizes[i], MPI_BYTE,
                     from, i, MPI_COMM_WORLD, &status);
        check_status(mpi, &status, from, i, sizes[i]);
        vqp_mpi_check(mpi, in, sizes[i], from, mpi->rank, i);
        free(in);
        free(out);
    }
}

static void to_self(vqp_mpi_t *mpi)
{
    MPI_Request requests[2];
    MPI_Status status[2];
    void *out, *in;
    size_t i;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] <= mpi->max_size); ++i) {
        out = vqp_mpi_alloc(sizes[i]);
        in  = vqp_mpi_alloc(sizes[i]);
        vqp_mpi_fill(mpi, out, sizes[i], mpi->rank, mpi->rank, i);
        /* half of them arrive before their receives are posted */
        if (i % 2) {
            MPI_Irecv(in, sizes[i], MPI_BYTE, mpi->rank, i, MPI_COMM_WORLD,
                      &requests[1]);
        }
        MPI_Isend(out, sizes[i], MPI_BYTE, mpi->rank, i, MPI_COMM_WORLD,
                  &requests[0]);
        if (!(i % 2)) {
            MPI_Irecv(in, sizes[i], MPI_BYTE, mpi->rank, i, MPI_COMM_WORLD,
                      &requests[1]);
        }
        MPI_Waitall(2, requests, status);
        check_status(mpi, &status[1], mpi->rank, i, sizes[i]);
        vqp_mpi_check(mpi, in, sizes[i], mpi->rank, mpi->rank, i);
        free(in);
        free(out);
    }
}

/* A synchronous send must not complete before its receive was posted */
static void synchronous(vqp_mpi_t *mpi)
{
    int to   = next_rank(mpi);
    int from = previous_rank(mpi);
    MPI_Request request;
    void *out, *in;
    int i, poll, done;
    size_t length;

    for (i = 0; i < 6; ++i) {
        length = vqp_mpi_draw_size(mpi);
        out    = vqp_mpi_alloc(length);
        in     = vqp_mpi_alloc(length);
        vqp_mpi_fill(mpi, out, length, mpi->rank, to, i);
        MPI_Issend(out, length, MPI_BYTE, to, i, MPI_COMM_WORLD, &request);
        for (poll = 0, done = 0; (poll < 20) && !done; ++poll) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        if (done) {
            vqp_mpi_fail(mpi, "a synchronous send of %zu bytes is complete "
                         "without a receive", length);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(in, length, MPI_BYTE, from, i, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        vqp_mpi_check(mpi, in, length, from, mpi->rank, i);
        free(in);
        free(out);
    }
}

/* The receiver learns the size from the message; probe, iprobe, mprobe */
static void probe(vqp_mpi_t *mpi)
{
    int to   = next_rank(mpi);
    int from = previous_rank(mpi);
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    size_t length;
    void *out, *in;
    int i, found;

    for (i = 0; i < 12; ++i) {
        length = vqp_mpi_draw_size(mpi);
        out    = vqp_mpi_alloc(length);
        in     = vqp_mpi_alloc(length);
        vqp_mpi_fill(mpi, out, length, mpi->rank, to, i);
        MPI_Isend(out, length, MPI_BYTE, to, i, MPI_COMM_WORLD, &request);
        if (i % 3 == 0) {
            MPI_Probe(from, i, MPI_COMM_WORLD, &status);
        } else if (i % 3 == 1) {
            do {
                MPI_Iprobe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &found, &status);
            } while (!found);
        } else {
            MPI_Mprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        }
        check_status(mpi, &status, from, i, length);
        if (i % 3 == 2) {
            MPI_Mrecv(in, length, MPI_BYTE, &message, &status);
        } else {
            MPI_Recv(in, length, MPI_BYTE, from, i, MPI_COMM_WORLD, &status);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        vqp_mpi_check(mpi, in, length, from, mpi->rank, i);
        free(in);
        free(out);
    }
}

/*
 * All ranks send to rank 0, which takes what comes; what comes from one rank
 * must come in the order it was sent in.
 */
static void wildcard(vqp_mpi_t *mpi)
{
    int *next = calloc(mpi->size, sizeof(*next));
    size_t lengths[WILDCARD];
    MPI_Request requests[WILDCARD];
    void *out[WILDCARD], *in;
    MPI_Status status;
    int i;

    for (i = 0; i < WILDCARD; ++i) {
        lengths[i] = vqp_mpi_draw_size(mpi) / 8;
        out[i]     = vqp_mpi_alloc(lengths[i]);
        vqp_mpi_fill(mpi, out[i], lengths[i], mpi->rank, 0, i);
        MPI_Isend(out[i], lengths[i], MPI_BYTE, 0, i, MPI_COMM_WORLD,
                  &requests[i]);
    }
    if (mpi->rank == 0) {
        in = vqp_mpi_alloc(mpi->max_size);
        for (i = 0; i < WILDCARD * mpi->size; ++i) {
            MPI_Recv(in, mpi->max_size, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG,
                     MPI_COMM_WORLD, &status);
            check_status(mpi, &status, status.MPI_SOURCE,
                         next[status.MPI_SOURCE],
                         lengths[next[status.MPI_SOURCE]]);
            vqp_mpi_check(mpi, in, lengths[next[status.MPI_SOURCE]],
                          status.MPI_SOURCE, 0, next[status.MPI_SOURCE]);
            ++next[status.MPI_SOURCE];
        }
        free(in);
    }
    MPI_Waitall(WILDCARD, requests, MPI_STATUSES_IGNORE);
    for (i = 0; i < WILDCARD; ++i) {
        free(out[i]);
    }
    free(next);
}

/* Many small messages in flight, received in the reverse order */
static void many_small(vqp_mpi_t *mpi)
{
    int to   = next_rank(mpi);
    int from = previous_rank(mpi);
    MPI_Request requests[2 * MANY];
    char out[MANY][24], in[MANY][24];
    int i;

    for (i = 0; i < MANY; ++i) {
        vqp_mpi_fill(mpi, out[i], sizeof(out[i]), mpi->rank, to, i);
        MPI_Isend(out[i], sizeof(out[i]), MPI_BYTE, to, i, MPI_COMM_WORLD,
                  &requests[i]);
    }
    for (i = MANY - 1; i >= 0; --i) {
        MPI_Irecv(in[i], sizeof(in[i]), MPI_BYTE, from, i, MPI_COMM_WORLD,
                  &requests[MANY + i]);
    }
    MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
    for (i = 0; i < MANY; ++i) {
        vqp_mpi_check(mpi, in[i], sizeof(in[i]), from, mpi->rank, i);
    }
}

/* Every second 8-byte block of a buffer: the transport sees packed pieces */
static void strided(vqp_mpi_t *mpi)
{
    int to         = next_rank(mpi);
    int from       = previous_rank(mpi);
    size_t blocks  = mpi->max_size / 32;
    uint64_t *out  = vqp_mpi_alloc(blocks * 16);
    uint64_t *in   = vqp_mpi_alloc(blocks * 16);
    uint64_t *flat = vqp_mpi_alloc(blocks * 8);
    MPI_Datatype type;
    size_t i;

    MPI_Type_vector(blocks, 1, 2, MPI_UINT64_T, &type);
    MPI_Type_commit(&type);
    vqp_mpi_fill(mpi, flat, blocks * 8, mpi->rank, to, 0);
    for (i = 0; i < blocks; ++i) {
        out[2 * i]     = flat[i];
        out[2 * i + 1] = 1;
        in[2 * i + 1]  = 2;
    }
    MPI_Sendrecv(out, 1, type, to, 0, in, 1, type, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (i = 0; i < blocks; ++i) {
        flat[i] = in[2 * i];
        if (((i + 1) < blocks) && (in[2 * i + 1] != 2)) {
            vqp_mpi_fail(mpi, "the gap after block %zu was written", i);
            break;
        }
    }
    vqp_mpi_check(mpi, flat, blocks * 8, from, mpi->rank, 0);
    MPI_Type_free(&type);
    free(flat);
    free(in);
    free(out);
}

/* All pairs at once, random sizes, to oneself as well */
static void random_pairs(vqp_mpi_t *mpi)
{
    int total             = RANDOM * mpi->size;
    MPI_Request *requests = vqp_mpi_alloc(2 * total * sizeof(*requests));
    size_t *lengths       = vqp_mpi_alloc(total * sizeof(*lengths));
    void **out            = vqp_mpi_alloc(total * sizeof(*out));
    void **in             = vqp_mpi_alloc(total * sizeof(*in));
    int i, peer, id;

    /* message id between any two ranks has the same size in all pairs */
    for (i = 0; i < total; ++i) {
        id         = i % RANDOM;
        peer       = i / RANDOM;
        lengths[i] = i < RANDOM ? vqp_mpi_draw_size(mpi) : lengths[id];
        out[i]     = vqp_mpi_alloc(lengths[i]);
        in[i]      = vqp_mpi_alloc(lengths[i]);
        vqp_mpi_fill(mpi, out[i], lengths[i], mpi->rank, peer, id);
        MPI_Irecv(in[i], lengths[i], MPI_BYTE, peer, id, MPI_COMM_WORLD,
                  &requests[2 * i]);
        MPI_Isend(out[i], lengths[i], MPI_BYTE, peer, id, MPI_COMM_WORLD,
                  &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * total, requests, MPI_STATUSES_IGNORE);
    for (i = 0; i < total; ++i) {
        vqp_mpi_check(mpi, in[i], lengths[i], i / RANDOM, mpi->rank,
                      i % RANDOM);
        free(in[i]);
        free(out[i]);
    }
    free(in);
    free(out);
    free(lengths);
    free(requests);
}

const vqp_mpi_case_t vqp_mpi_p2p_cases[] = {
    {"ring", ring},
    {"to_self", to_self},
    {"synchronous", synchronous},
    {"probe", probe},
    {"wildcard", wildcard},
    {"many_small", many_small},
    {"strided", strided},
    {"random_pairs", random_pairs},
    {NULL, NULL}
};
