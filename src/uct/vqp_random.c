/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers of the kernel, see vqp_random.h. */
#include "uct/vqp_random.h"

#include <ucs/debug/assert.h>
#include <ucs/debug/log.h>

#include <errno.h>
#include <sys/random.h>

ucs_status_t uct_vqp_random_reserve(uct_vqp_random_t *random, unsigned count)
{
    size_t length = sizeof(random->values);
    size_t filled = 0;
    ssize_t ret;

    ucs_assertv_always(count <= UCT_VQP_RANDOM_MAX, "count=%u", count);
    if (random->left >= count) {
        return UCS_OK;
    }

    random->left = 0;
    while (filled < length) {
        ret = getrandom((char*)random->values + filled, length - filled, 0);
        if (ret > 0) {
            filled += (size_t)ret;
        } else if ((ret == 0) || (errno != EINTR)) {
            ucs_error("getrandom(%zu) failed: %m", length - filled);
            return UCS_ERR_IO_ERROR;
        }
    }

    random->left = UCT_VQP_RANDOM_MAX;
    return UCS_OK;
}

uint64_t uct_vqp_random_next(uct_vqp_random_t *random)
{
    ucs_assert_always(random->left > 0);
    return random->values[--random->left];
}
