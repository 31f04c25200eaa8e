/*
 * The n-th allocation of the transport fails: the allocators of libc, with the
 * transport's calls counted. Those of other libraries fail never; but what is
 * allocated and not freed is counted whoever did it, for UCX does it on the
 * transport's behalf.
 */
#ifndef VQP_TEST_NTH_ALLOC_H
#define VQP_TEST_NTH_ALLOC_H

/* Whether this program has them; not where a sanitizer has its own */
bool nth_alloc_possible();

/* From now on the n-th fails, from 1; 0: none */
void nth_alloc_fail(unsigned n);

/* Whether it has failed since then */
bool nth_alloc_failed();

/* Whether that was one that UCX makes for the transport, which knows nothing of
 * it: of interfaces and endpoints, and of pools. UCX reports those, or nobody. */
bool nth_alloc_failed_in_ucx();

/* Pieces of memory of this process that are allocated and not freed; and bytes
 * that the transport has mapped and not unmapped. 0 where a sanitizer has the
 * allocators: it looks for leaks itself. */
long nth_alloc_live();
long nth_alloc_mapped();

#endif
