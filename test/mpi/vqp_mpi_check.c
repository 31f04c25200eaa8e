/*
 * vqp_mpi_check: an MPI program that sends data in every way the transport has
 * to carry, and looks at each byte that arrives.  Any number of ranks, also
 * one.  Calls MPI and libc only, so that it runs on any transport.
 *
 *   vqp_mpi_check [-s SEED] [-m MAX_SIZE] [-r ROUNDS] [-c CASE]
 *
 * Prints a line per case and "N passed, N failed"; exit status 1 on failure.
 */
#include "vqp_mpi_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_PRINTED_ERRORS = 5 /* of one case on one rank */
};

typedef struct options {
    uint64_t   seed;
    size_t     max_size;
    int        rounds;
    const char *only;
} options_t;

void vqp_mpi_fail(vqp_mpi_t *mpi, const char *format, ...)
{
    va_list args;

    if (mpi->errors++ >= MAX_PRINTED_ERRORS) {
        return;
    }
    fprintf(stderr, "rank %d: ", mpi->rank);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* The mixing step of splitmix64: every bit of x moves every bit of the result */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

uint64_t vqp_mpi_draw(vqp_mpi_t *mpi, uint64_t limit)
{
    mpi->random += 0x9e3779b97f4a7c15ull;
    return mix(mpi->random) % limit;
}

size_t vqp_mpi_draw_size(vqp_mpi_t *mpi)
{
    uint64_t limit = 2;
    int orders     = 1;

    while (limit < mpi->max_size) {
        limit *= 2;
        ++orders;
    }
    limit = 2ull << vqp_mpi_draw(mpi, orders);
    if (limit > mpi->max_size) {
        limit = mpi->max_size;
    }
    return vqp_mpi_draw(mpi, limit + 1);
}

void *vqp_mpi_alloc(size_t length)
{
    void *buffer = malloc(length ? length : 1);

    if (buffer == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", length);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return buffer;
}

/* Word i of a message; the bytes of the last, shorter one are its first */
static uint64_t pattern(uint64_t key, size_t i)
{
    return (key + i) * 0x9e3779b97f4a7c15ull;
}

static uint64_t pattern_key(const vqp_mpi_t *mpi, int src, int dst, int id)
{
    return mix(mpi->seed ^ mix(((uint64_t)src << 48) ^ ((uint64_t)dst << 32) ^
                               (uint32_t)id));
}

void vqp_mpi_fill(const vqp_mpi_t *mpi, void *buffer, size_t length, int src,
                  int dst, int id)
{
    uint64_t key = pattern_key(mpi, src, dst, id);
    uint64_t word;
    size_t i;

    for (i = 0; i < length / 8; ++i) {
        word = pattern(key, i);
        memcpy((char*)buffer + i * 8, &word, 8);
    }
    word = pattern(key, i);
    memcpy((char*)buffer + i * 8, &word, length % 8);
}

void vqp_mpi_check(vqp_mpi_t *mpi, const void *buffer, size_t length, int src,
                   int dst, int id)
{
    uint64_t key = pattern_key(mpi, src, dst, id);
    uint64_t word;
    size_t i, n;

    for (i = 0; i * 8 < length; ++i) {
        n    = length - i * 8 < 8 ? length - i * 8 : 8;
        word = pattern(key, i);
        if (memcmp((const char*)buffer + i * 8, &word, n) != 0) {
            vqp_mpi_fail(mpi,
                         "message %d from %d to %d, %zu bytes: wrong data at "
                         "byte %zu", id, src, dst, length, i * 8);
            return;
        }
    }
}

/* Returns 1 when the case passed on all ranks */
static int run_case(vqp_mpi_t *mpi, const vqp_mpi_case_t *one, int rounds)
{
    double start = MPI_Wtime();
    int round, errors;

    mpi->errors = 0;
    for (round = 0; round < rounds; ++round) {
        one->func(mpi);
    }
    MPI_Allreduce(&mpi->errors, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (mpi->rank == 0) {
        printf("%-4s %-24s %6.0f ms\n", errors ? "FAIL" : "ok", one->name,
               (MPI_Wtime() - start) * 1e3);
        fflush(stdout);
    }
    return errors == 0;
}

static void parse_options(options_t *options, int argc, char **argv)
{
    int c;

    options->seed     = (uint64_t)time(NULL);
    options->max_size = 8 << 20;
    options->rounds   = 1;
    options->only     = NULL;
    while ((c = getopt(argc, argv, "s:m:r:c:")) != -1) {
        switch (c) {
        case 's':
            options->seed = strtoull(optarg, NULL, 0);
            break;
        case 'm':
            options->max_size = strtoull(optarg, NULL, 0);
            break;
        case 'r':
            options->rounds = atoi(optarg);
            break;
        case 'c':
            options->only = optarg;
            break;
        default:
            fprintf(stderr, "usage: %s [-s SEED] [-m MAX_SIZE] [-r ROUNDS] "
                    "[-c CASE]\n", argv[0]);
            exit(126);
        }
    }
    if (options->max_size < 64) {
        options->max_size = 64;
    }
}

int main(int argc, char **argv)
{
    static const vqp_mpi_case_t *const groups[] = {
        vqp_mpi_p2p_cases, vqp_mpi_coll_cases, vqp_mpi_rma_cases
    };
    const vqp_mpi_case_t *one;
    vqp_mpi_t mpi = {0};
    int passed    = 0;
    int failed    = 0;
    options_t options;
    size_t i;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi.size);
    parse_options(&options, argc, argv);
    MPI_Bcast(&options.seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    mpi.seed     = options.seed;
    mpi.random   = options.seed;
    mpi.max_size = options.max_size;
    if (mpi.rank == 0) {
        printf("%d ranks, seed %llu, messages to %zu bytes\n", mpi.size,
               (unsigned long long)mpi.seed, mpi.max_size);
    }

    for (i = 0; i < sizeof(groups) / sizeof(groups[0]); ++i) {
        for (one = groups[i]; one->name != NULL; ++one) {
            if ((options.only != NULL) && strcmp(options.only, one->name)) {
                continue;
            }
            if (run_case(&mpi, one, options.rounds)) {
                ++passed;
            } else {
                ++failed;
            }
        }
    }
    if (mpi.rank == 0) {
        printf("%d passed, %d failed\n", passed, failed);
    }
    MPI_Finalize();
    return failed > 0;
}
