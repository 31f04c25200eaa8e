/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Status codes of the core and verbs layers, and the few macros both share.
 * May be included from anywhere; includes libc headers only.
 */
#ifndef VQP_CORE_STATUS_H
#define VQP_CORE_STATUS_H

#include <stddef.h>
#include <stdint.h>

/**
 * What a core or verbs function reports; negative values are errors. The layer
 * above has one function that maps them to its own.
 */
typedef enum {
    VQP_OK                     = 0,
    VQP_INPROGRESS             = 1,
    VQP_ERR_NO_RESOURCE        = -1,  /* try again after progress */
    VQP_ERR_NO_MEMORY          = -2,  /* malloc or the kernel: ENOMEM */
    VQP_ERR_INVALID_PARAM      = -3,  /* the caller's argument is wrong */
    VQP_ERR_UNSUPPORTED        = -4,  /* the device can not do that */
    VQP_ERR_NO_DEVICE          = -5,  /* no such device, port or GID */
    VQP_ERR_IO                 = -6,  /* a system or verbs call failed */
    VQP_ERR_PROTOCOL           = -7,  /* the peer violated the protocol */
    VQP_ERR_UNREACHABLE        = -8,  /* the peer can not be connected */
    VQP_ERR_TIMEOUT            = -9,  /* the peer did not answer in time */
    VQP_ERR_RESET              = -10, /* the peer closed its side, or it failed */
    VQP_ERR_CANCELED           = -11, /* ended by the local side */
    VQP_ERR_REMOTE             = -12, /* the remote memory was not accessible */
    VQP_ERR_EXCEEDS_LIMIT      = -13, /* a limit of device or system is met */
    VQP_ERR_UNDECIDED          = -14, /* whether it was executed, or its result, is
                                         unknown: the path failed */
    VQP_ERR_RESPONDER          = -15  /* the peer's queue pair could not execute it */
} vqp_status_t;

#define vqp_likely(_x)   __builtin_expect(!!(_x), 1)
#define vqp_unlikely(_x) __builtin_expect(!!(_x), 0)

/* For functions of the hot path: a call would cost as much as the function */
#define VQP_ALWAYS_INLINE inline __attribute__((always_inline))

#define vqp_min(_a, _b) \
    ({ __typeof__(_a) _ma = (_a); __typeof__(_b) _mb = (_b); \
       (_ma < _mb) ? _ma : _mb; })
#define vqp_max(_a, _b) \
    ({ __typeof__(_a) _ma = (_a); __typeof__(_b) _mb = (_b); \
       (_ma > _mb) ? _ma : _mb; })

#define vqp_container_of(_ptr, _type, _member) \
    ((_type*)((char*)(_ptr) - offsetof(_type, _member)))

/* The project's own assert: compiled in by --enable-debug only */
#ifdef VQP_ENABLE_ASSERT
#  include <assert.h>
#  define vqp_assert(_cond) assert(_cond)
#else
#  define vqp_assert(_cond) ((void)sizeof(_cond))
#endif

/* Rails and paths that one vqp can have: the wire format's limits */
#define VQP_MAX_RAILS 4
#define VQP_MAX_PATHS 64

#endif
