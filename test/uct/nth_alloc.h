/*
 * The n-th allocation of the transport fails: the allocators of libc, with the
 * transport's calls counted. Those of other libraries are none of its.
 */
#ifndef VQP_TEST_NTH_ALLOC_H
#define VQP_TEST_NTH_ALLOC_H

/* Whether this program has them; not where a sanitizer has its own */
bool nth_alloc_possible();

/* From now on the n-th fails, from 1; 0: none */
void nth_alloc_fail(unsigned n);

/* Whether it has failed since then */
bool nth_alloc_failed();

#endif
