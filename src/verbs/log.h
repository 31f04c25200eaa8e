/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the verbs layer, and errno as text and as vqp_status_t.
 * libc only. The layer above installs one function that prints; without it
 * errors go to stderr. The function that detects a failure logs it; its
 * callers only return the status.
 */
#ifndef VQP_IB_LOG_H
#define VQP_IB_LOG_H

#include "core/status.h"

typedef enum {
    VQP_IB_LOG_ERROR,
    VQP_IB_LOG_FAULT,  /* something else stands in for what has failed, or it is tried
                          again: a warning, of which the printer may lower some */
    VQP_IB_LOG_WARN,
    VQP_IB_LOG_DIAG,   /* a condition that may matter to the user */
    VQP_IB_LOG_INFO,
    VQP_IB_LOG_DEBUG,
    VQP_IB_LOG_TRACE,
    VQP_IB_LOG_NONE    /* as a level of a message: do not print it */
} vqp_ib_log_level_t;

/**
 * Prints one message.
 *
 * @param file, line  Where it was written.
 * @param message     Text without a line end; valid during the call only.
 */
typedef void (*vqp_ib_log_func_t)(vqp_ib_log_level_t level, const char *file,
                                  unsigned line, const char *message);

/**
 * Install the printer of this process. Call it before any other function of
 * this layer; a second call, in any thread, changes it for messages to come.
 *
 * @param func       NULL: back to the default, errors to stderr.
 * @param max_level  Messages beyond this level are not formatted.
 */
void vqp_ib_log_set(vqp_ib_log_func_t func, vqp_ib_log_level_t max_level);

/** Format and print, whatever the level. Keeps errno. Any thread. */
void vqp_ib_log_emit(vqp_ib_log_level_t level, const char *file, unsigned line,
                     const char *fmt, ...)
        __attribute__((format(printf, 4, 5), cold));

/* Written by vqp_ib_log_set only */
extern vqp_ib_log_level_t vqp_ib_log_max_level;

/* Whether a message of this level is printed */
static inline int vqp_ib_log_wanted(vqp_ib_log_level_t level)
{
    return level <= __atomic_load_n(&vqp_ib_log_max_level, __ATOMIC_RELAXED);
}

#define vqp_ib_log(_level, ...) \
    do { \
        if (vqp_unlikely(vqp_ib_log_wanted(_level))) { \
            vqp_ib_log_emit((_level), __FILE__, __LINE__, __VA_ARGS__); \
        } \
    } while (0)

#define vqp_ib_error(...) vqp_ib_log(VQP_IB_LOG_ERROR, __VA_ARGS__)
#define vqp_ib_warn(...)  vqp_ib_log(VQP_IB_LOG_WARN, __VA_ARGS__)
#define vqp_ib_diag(...)  vqp_ib_log(VQP_IB_LOG_DIAG, __VA_ARGS__)
#define vqp_ib_info(...)  vqp_ib_log(VQP_IB_LOG_INFO, __VA_ARGS__)
#define vqp_ib_debug(...) vqp_ib_log(VQP_IB_LOG_DEBUG, __VA_ARGS__)
#define vqp_ib_trace(...) vqp_ib_log(VQP_IB_LOG_TRACE, __VA_ARGS__)

/** The status that stands for an errno value of a verbs call. Any thread. */
vqp_status_t vqp_ib_errno_status(int err);

#endif
