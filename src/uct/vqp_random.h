/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unpredictable random numbers: cookies, PSNs, first fsns, interface ids. They
 * come from the kernel, several at a time. May call libc and UCS.
 */
#ifndef UCT_VQP_RANDOM_H
#define UCT_VQP_RANDOM_H

#include <ucs/type/status.h>

#include <stdint.h>

#define UCT_VQP_RANDOM_MAX 128 /* numbers that can be reserved at once */

typedef struct uct_vqp_random {
    unsigned left;                       /* values that are left */
    uint64_t values[UCT_VQP_RANDOM_MAX];
} uct_vqp_random_t;

/**
 * Make sure that the next @a count numbers can be taken without an error. Zeroed
 * memory is an empty store.
 *
 * @param count  UCT_VQP_RANDOM_MAX at most.
 *
 * @return UCS_OK; UCS_ERR_IO_ERROR: the kernel has none (logged).
 */
ucs_status_t uct_vqp_random_reserve(uct_vqp_random_t *random, unsigned count);

/** Take a number that was reserved. No number is taken twice. */
uint64_t uct_vqp_random_next(uct_vqp_random_t *random);

#endif
