/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the verbs layer, and errno in vqp_status_t. libc only.
 */
#include "verbs/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define VQP_IB_LOG_LINE_MAX 512

static void vqp_ib_log_default(vqp_ib_log_level_t level, const char *file,
                               unsigned line, const char *message)
{
    (void)level;
    fprintf(stderr, "vqp: %s:%u %s\n", file, line, message);
}

static vqp_ib_log_func_t vqp_ib_log_func = vqp_ib_log_default;

vqp_ib_log_level_t vqp_ib_log_max_level = VQP_IB_LOG_ERROR;

void vqp_ib_log_set(vqp_ib_log_func_t func, vqp_ib_log_level_t max_level)
{
    if (func == NULL) {
        func      = vqp_ib_log_default;
        max_level = VQP_IB_LOG_ERROR;
    }

    /* NONE suppresses a message: it must stay above the limit */
    max_level = (max_level < VQP_IB_LOG_NONE) ? max_level : VQP_IB_LOG_TRACE;
    __atomic_store_n(&vqp_ib_log_func, func, __ATOMIC_RELAXED);
    __atomic_store_n(&vqp_ib_log_max_level, max_level, __ATOMIC_RELAXED);
}

void vqp_ib_log_emit(vqp_ib_log_level_t level, const char *file, unsigned line,
                     const char *fmt, ...)
{
    int saved_errno = errno;
    char message[VQP_IB_LOG_LINE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);

    __atomic_load_n(&vqp_ib_log_func, __ATOMIC_RELAXED)(level, file, line,
                                                        message);
    errno = saved_errno;
}

vqp_status_t vqp_ib_errno_status(int err)
{
    switch (err) {
    case 0:
        return VQP_OK;
    case EAGAIN:
    case EBUSY:
        return VQP_ERR_NO_RESOURCE;
    case ENOMEM:
        return VQP_ERR_NO_MEMORY;
    case EINVAL:
    case EFAULT:
        return VQP_ERR_INVALID_PARAM;
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
        return VQP_ERR_UNSUPPORTED;
    case ENODEV:
    case ENXIO:
        return VQP_ERR_NO_DEVICE;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
        return VQP_ERR_UNREACHABLE;
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EDQUOT:
        return VQP_ERR_EXCEEDS_LIMIT;
    default:
        return VQP_ERR_IO;
    }
}
