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
#include "vqp_pattern.h"

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

uint64_t vqp_mpi_draw(vqp_mpi_t *mpi, uint64_t limit)
{
    return vqp_draw(&mpi->random, limit);
}

size_t vqp_mpi_draw_size(vqp_mpi_t *mpi)
{
    return vqp_draw_size(&mpi->random, mpi->max_size);
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

void vqp_mpi_fill(const vqp_mpi_t *mpi, void *buffer, size_t length, int src,
                  int dst, int id)
{
    vqp_pattern_fill(vqp_pattern_key(mpi->seed, src, dst, id), buffer, length);
}

void vqp_mpi_check(vqp_mpi_t *mpi, const void *buffer, size_t length, int src,
                   int dst, int id)
{
    uint64_t key = vqp_pattern_key(mpi->seed, src, dst, id);
    size_t wrong = vqp_pattern_check(key, buffer, length);

    if (wrong < length) {
        vqp_mpi_fail(mpi,
                     "message %d from %d to %d, %zu bytes: wrong data at byte "
                     "%zu", id, src, dst, length, wrong);
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
        /* a receive of any source and tag must not see the next round's messages */
        MPI_Barrier(MPI_COMM_WORLD);
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
