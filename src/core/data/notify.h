/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the end of an active message of several frags is announced, and which
 * policy auto selects for a message. What each of them costs: docs/notify.md.
 * Pure: libc only.
 */
#ifndef VQP_CORE_DATA_NOTIFY_H
#define VQP_CORE_DATA_NOTIFY_H

#include <stdint.h>

typedef enum {
    VQP_NOTIFY_SPRAY, /* one empty immediate when all frags are confirmed */
    VQP_NOTIFY_DQPLB, /* one with every frag */
    VQP_NOTIFY_TAIL,  /* one with the last frag on each path */
    VQP_NOTIFY_AUTO   /* for each message one of these */
} vqp_notify_t;

/**
 * The policy for one message.
 *
 * Auto: with no more frags than paths, the last frag on a path is every frag,
 * and dqplb does the same as tail with less bookkeeping. With more, the receiver
 * handles a completion per path with tail, instead of one per frag. Never spray:
 * it costs a round trip, and an acknowledgement of one device does not cover the
 * data of another device.
 *
 * @param [in] notify  What was configured.
 * @param [in] frags   Frags that the message would have, above 1.
 */
static inline vqp_notify_t
vqp_notify_choose(vqp_notify_t notify, uint32_t frags, uint32_t num_paths)
{
    return (notify != VQP_NOTIFY_AUTO) ? notify :
           (frags > num_paths)         ? VQP_NOTIFY_TAIL :
                                         VQP_NOTIFY_DQPLB;
}

#endif
