/*
 * vqp_shmem_check: an OpenSHMEM 1.4 program that uses each kind of one-sided
 * operation, and checks each byte and each result. Two or more PEs. Calls OpenSHMEM
 * and libc only, so that it runs on any transport.
 *
 *   vqp_shmem_check [SEED [MAX_SIZE]]
 *
 * Prints a line per case and "N passed, N failed"; exit status 1 on failure.
 */
#include "../mpi/vqp_pattern.h"

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ROUNDS    = 40, /* operations of each PE in a case */
    FLAGS     = 8,
    MAX_ERROR = 5   /* lines of one case on one PE */
};

typedef struct check {
    int      pe;
    int      size;
    int      next;   /* the PE that this one writes to and reads from */
    int      prev;   /* the PE that writes to this one */
    uint64_t seed;
    uint64_t random; /* the same on all PEs as long as all draw */
    size_t   max;    /* bytes of one operation */
    char     *data;  /* symmetric, max bytes */
    long     *words; /* symmetric, COUNT of them */
    int      errors;
} check_t;

enum {
    WORD_FLAG,
    WORD_COUNTER,
    WORD_SUM,
    WORD_SWAP,
    WORD_LOCK,
    WORD_GUARDED,
    WORD_FIRST, /* of FLAGS ones */
    COUNT = WORD_FIRST + FLAGS
};

static void fail(check_t *check, const char *what, long is, long expected)
{
    if (check->errors++ < MAX_ERROR) {
        fprintf(stderr, "PE %d: %s: %ld instead of %ld\n", check->pe, what, is,
                expected);
    }
}

static void expect(check_t *check, const char *what, long is, long expected)
{
    if (is != expected) {
        fail(check, what, is, expected);
    }
}

static void expect_data(check_t *check, const char *what, const void *buffer,
                        size_t length, int src, int dst, int id)
{
    uint64_t key = vqp_pattern_key(check->seed, src, dst, id);

    expect(check, what, (long)vqp_pattern_check(key, buffer, length),
           (long)length);
}

static void fill(const check_t *check, void *buffer, size_t length, int dst,
                 int id)
{
    vqp_pattern_fill(vqp_pattern_key(check->seed, check->pe, dst, id), buffer,
                     length);
}

/* Puts of all sizes, complete after a barrier */
static void put_barrier(check_t *check)
{
    char *source = malloc(check->max);
    size_t length;
    int i;

    for (i = 0; i < ROUNDS; ++i) {
        length = (i == 0) ? check->max : vqp_draw_size(&check->random, check->max);
        fill(check, source, length, check->next, i);
        if (i % 2) {
            shmem_putmem(check->data, source, length, check->next);
        } else {
            shmem_putmem_nbi(check->data, source, length, check->next);
        }
        shmem_barrier_all();
        expect_data(check, "put, barrier", check->data, length, check->prev,
                    check->pe, i);
        shmem_barrier_all();
    }
    free(source);
}

/* Data, a fence, and a flag that the target polls: the flag may not be first */
static void put_fence_flag(check_t *check)
{
    char *source = malloc(check->max);
    size_t length;
    int i;

    for (i = 1; i <= ROUNDS; ++i) {
        length = vqp_draw_size(&check->random, check->max);
        fill(check, source, length, check->next, i);
        shmem_putmem_nbi(check->data, source, length, check->next);
        shmem_fence();
        shmem_long_p(&check->words[WORD_FLAG], i, check->next);
        shmem_long_wait_until(&check->words[WORD_FLAG], SHMEM_CMP_GE, i);
        expect_data(check, "put, fence, flag", check->data, length, check->prev,
                    check->pe, i);
        shmem_quiet();
        shmem_barrier_all();
    }
    check->words[WORD_FLAG] = 0;
    shmem_barrier_all();
    free(source);
}

/* What was put is there for a get after quiet */
static void put_quiet_get(check_t *check)
{
    char *source = malloc(check->max);
    char *sink   = malloc(check->max);
    size_t length;
    int i;

    for (i = 0; i < ROUNDS; ++i) {
        length = vqp_draw_size(&check->random, check->max);
        fill(check, source, length, check->next, i);
        shmem_putmem_nbi(check->data, source, length, check->next);
        shmem_quiet();
        if (i % 2) {
            shmem_getmem(sink, check->data, length, check->next);
        } else {
            shmem_getmem_nbi(sink, check->data, length, check->next);
            shmem_quiet();
        }
        expect_data(check, "put, quiet, get", sink, length, check->pe,
                    check->next, i);
    }
    shmem_barrier_all();
    free(source);
    free(sink);
}

/* Single words, and vectors with strides */
static void words(check_t *check)
{
    long source[FLAGS], sink[FLAGS];
    int i;

    for (i = 0; i < FLAGS; ++i) {
        source[i] = check->pe * 1000 + i;
    }
    shmem_long_iput(&check->words[WORD_FIRST], source, 2, 1, FLAGS / 2,
                    check->next);
    for (i = 0; i < FLAGS / 2; ++i) {
        shmem_long_p(&check->words[WORD_FIRST + 2 * i + 1],
                     source[FLAGS / 2 + i], check->next);
    }
    shmem_barrier_all();
    for (i = 0; i < FLAGS; ++i) {
        expect(check, "iput, p", check->words[WORD_FIRST + i],
               check->prev * 1000 + (i % 2) * FLAGS / 2 + i / 2);
    }
    shmem_long_iget(sink, &check->words[WORD_FIRST], 1, 2, FLAGS / 2,
                    check->next);
    for (i = 0; i < FLAGS / 2; ++i) {
        expect(check, "iget", sink[i], source[i]);
        expect(check, "g",
               shmem_long_g(&check->words[WORD_FIRST + 2 * i + 1], check->next),
               source[FLAGS / 2 + i]);
    }
    shmem_barrier_all();
}

/* All PEs add at each PE: each old value is returned once, which their sum shows */
static void fetch_add(check_t *check)
{
    long adds = (long)check->size * ROUNDS; /* at each PE */
    int i, pe;

    for (i = 0; i < ROUNDS; ++i) {
        for (pe = 0; pe < check->size; ++pe) {
            shmem_long_atomic_add(
                    &check->words[WORD_SUM],
                    shmem_long_atomic_fetch_add(&check->words[WORD_COUNTER], 1,
                                                pe), 0);
        }
    }
    shmem_barrier_all();
    expect(check, "fetch_add", check->words[WORD_COUNTER], adds);
    expect(check, "sum of the old values",
           shmem_long_atomic_fetch(&check->words[WORD_SUM], 0),
           check->size * (adds * (adds - 1) / 2));
    shmem_barrier_all();
    for (pe = 0; pe < check->size; ++pe) {
        shmem_long_atomic_inc(&check->words[WORD_COUNTER], pe);
    }
    shmem_barrier_all();
    expect(check, "inc", check->words[WORD_COUNTER], adds + check->size);
    check->words[WORD_COUNTER] = 0;
    check->words[WORD_SUM]     = 0;
    shmem_barrier_all();
}

/* compare-and-swap at PE 0 until it succeeds, and a ring of swaps */
static void swaps(check_t *check)
{
    long old, seen;
    int i;

    for (i = 0; i < ROUNDS; ++i) {
        seen = shmem_long_atomic_fetch(&check->words[WORD_SWAP], 0);
        do {
            old  = seen;
            seen = shmem_long_atomic_compare_swap(&check->words[WORD_SWAP], old,
                                                  old + 1, 0);
        } while (seen != old);
    }
    shmem_barrier_all();
    if (check->pe == 0) {
        expect(check, "compare_swap", check->words[WORD_SWAP],
               (long)check->size * ROUNDS);
    }
    shmem_barrier_all();
    check->words[WORD_SWAP] = -1 - check->pe;
    shmem_barrier_all();
    expect(check, "swap",
           shmem_long_atomic_swap(&check->words[WORD_SWAP], check->pe,
                                  check->next),
           -1 - check->next);
    shmem_barrier_all();
    expect(check, "swapped", check->words[WORD_SWAP], check->prev);
    shmem_barrier_all();
    check->words[WORD_SWAP] = 0;
    shmem_barrier_all();
}

/* A word that only the holder of the lock changes, by get and put */
static void lock(check_t *check)
{
    long value;
    int i;

    for (i = 0; i < ROUNDS; ++i) {
        shmem_set_lock(&check->words[WORD_LOCK]);
        value = shmem_long_g(&check->words[WORD_GUARDED], 0);
        shmem_long_p(&check->words[WORD_GUARDED], value + 1, 0);
        shmem_quiet();
        shmem_clear_lock(&check->words[WORD_LOCK]);
    }
    shmem_barrier_all();
    if (check->pe == 0) {
        expect(check, "lock", check->words[WORD_GUARDED],
               (long)check->size * ROUNDS);
        check->words[WORD_GUARDED] = 0;
    }
    shmem_barrier_all();
}

/* Broadcast and reduction over all PEs */
static void collectives(check_t *check)
{
    static long sync[SHMEM_REDUCE_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE];
    static long work[SHMEM_REDUCE_MIN_WRKDATA_SIZE + 1];
    static long in[FLAGS], out[FLAGS];
    size_t i;

    for (i = 0; i < sizeof(sync) / sizeof(sync[0]); ++i) {
        sync[i] = SHMEM_SYNC_VALUE;
    }
    for (i = 0; i < FLAGS; ++i) {
        in[i]  = check->pe + (long)i;
        out[i] = -1;
    }
    shmem_barrier_all();
    shmem_long_sum_to_all(out, in, FLAGS, 0, 0, check->size, work, sync);
    for (i = 0; i < FLAGS; ++i) {
        expect(check, "sum_to_all", out[i],
               (long)check->size * (check->size - 1) / 2 +
               (long)i * check->size);
    }
    shmem_barrier_all();
    shmem_broadcast64(out, in, FLAGS, 0, 0, 0, check->size,
                      sync + SHMEM_REDUCE_SYNC_SIZE);
    for (i = 0; (check->pe != 0) && (i < FLAGS); ++i) {
        expect(check, "broadcast64", out[i], (long)i);
    }
    shmem_barrier_all();
}

/* Did the case pass on all PEs? */
static int run_case(check_t *check, const char *name, void (*func)(check_t*))
{
    static long sync[SHMEM_REDUCE_SYNC_SIZE];
    static int work[SHMEM_REDUCE_MIN_WRKDATA_SIZE + 1];
    static int errors, all;
    size_t i;

    check->errors = 0;
    func(check);
    for (i = 0; i < SHMEM_REDUCE_SYNC_SIZE; ++i) {
        sync[i] = SHMEM_SYNC_VALUE;
    }
    errors = check->errors;
    shmem_barrier_all();
    shmem_int_sum_to_all(&all, &errors, 1, 0, 0, check->size, work, sync);
    if (check->pe == 0) {
        printf("%-4s %s\n", all ? "FAIL" : "ok", name);
        fflush(stdout);
    }
    shmem_barrier_all();
    return all == 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void       (*func)(check_t *check);
    } cases[] = {
        {"put_barrier", put_barrier}, {"put_fence_flag", put_fence_flag},
        {"put_quiet_get", put_quiet_get}, {"words", words},
        {"fetch_add", fetch_add}, {"swaps", swaps}, {"lock", lock},
        {"collectives", collectives}
    };
    int passed = 0;
    int failed = 0;
    check_t check;
    size_t i;

    shmem_init();
    memset(&check, 0, sizeof(check));
    check.pe     = shmem_my_pe();
    check.size   = shmem_n_pes();
    check.next   = (check.pe + 1) % check.size;
    check.prev   = (check.pe + check.size - 1) % check.size;
    check.seed   = (argc > 1) ? strtoull(argv[1], NULL, 0) : 1;
    check.random = check.seed;
    check.max    = (argc > 2) ? strtoull(argv[2], NULL, 0) : 1 << 20;
    check.data   = shmem_malloc(check.max);
    check.words  = shmem_calloc(COUNT, sizeof(*check.words));
    if ((check.data == NULL) || (check.words == NULL)) {
        fprintf(stderr, "no symmetric memory\n");
        shmem_global_exit(1);
    }

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        if (run_case(&check, cases[i].name, cases[i].func)) {
            ++passed;
        } else {
            ++failed;
        }
    }
    if (check.pe == 0) {
        printf("%d passed, %d failed\n", passed, failed);
    }
    shmem_free(check.words);
    shmem_free(check.data);
    shmem_finalize();
    return failed > 0;
}
