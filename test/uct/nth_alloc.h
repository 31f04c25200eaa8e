/*
 * The n-th allocation of the transport fails: the allocators of libc, with
 * the transport's calls counted. Allocations of other libraries do not fail,
 * but count as leaks, too: UCX allocates on the transport's behalf.
 */
#ifndef VQP_TEST_NTH_ALLOC_H
#define VQP_TEST_NTH_ALLOC_H

/* Whether this program has them; not where a sanitizer has its own */
bool nth_alloc_possible();

/* From now on the n-th fails, from 1; 0: none */
void nth_alloc_fail(unsigned n);

/* Whether it has failed since then */
bool nth_alloc_failed();

/* Whether UCX makes the allocation for the transport, which is not involved:
 * interfaces, endpoints and pools. Errors of these are UCX's to report. */
bool nth_alloc_failed_in_ucx();

/* Blocks of memory of this process that are allocated and not freed; and bytes
 * that the transport has mapped and not unmapped. 0 with a sanitizer, which
 * replaces the allocators and checks for leaks itself. */
long nth_alloc_live();
long nth_alloc_mapped();

#endif
