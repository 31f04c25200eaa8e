/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Path messages that have arrived and wait for progress, those of one path. Of each type
 * the newest one is kept: it contains the state of the older ones. A copy of a question
 * (see silence.h) may arrive long after it: one that is over never gets to progress. Part
 * of the failover. Pure: libc only.
 *
 * The control plane puts messages in, progress takes them out, and a lock of the owner
 * protects the inbox. Progress may not come for seconds. So the answer to a question that
 * is withdrawn does not wait for it: either progress has agreed to give the path up in this
 * epoch, or it will not do so for this question. Once it has agreed, no withdrawal of the
 * epoch is answered, nor that of a later question: the queue pair may still execute.
 */
#ifndef VQP_CORE_FAILOVER_INBOX_H
#define VQP_CORE_FAILOVER_INBOX_H

#include "core/failover/failover.h"

#define VQP_INBOX_TYPES 2 /* PATH_DOWN, PATH_UP */

typedef struct vqp_inbox {
    vqp_path_msg_t kept[VQP_INBOX_TYPES]; /* VQP_WIRE_TYPE_NONE: nothing */
    uint32_t       over;   /* the peer's questions up to this number, of 24 bits, are over */
    uint32_t       agreed; /* epoch in which this side has agreed to one... */
    int            is_agreed; /* ...if it has */
} vqp_inbox_t;

/** What the owner has to do after vqp_inbox_put(). */
enum {
    VQP_INBOX_ANSWER = 1 << 0, /* send the answer */
    VQP_INBOX_TAKE   = 1 << 1  /* let progress call vqp_inbox_take() */
};

/**
 * A message of this path has arrived. Any thread, with the owner's lock.
 *
 * @param [out] answer  Valid if VQP_INBOX_ANSWER is returned.
 *
 * @return VQP_INBOX_*. VQP_INBOX_TAKE may be set while an older message still waits.
 */
unsigned vqp_inbox_put(vqp_inbox_t *inbox, const vqp_path_msg_t *msg,
                       vqp_path_msg_t *answer);

/**
 * Take a message, which vqp_on_path_message() handles before anything else is done with the
 * vqp. Only progress, with the owner's lock.
 *
 * @param [in]  type  Less than VQP_INBOX_TYPES.
 * @param [out] msg   The message.
 *
 * @return 1 if *msg was filled in, else 0.
 */
int vqp_inbox_take(vqp_inbox_t *inbox, vqp_t *vqp, unsigned type, vqp_path_msg_t *msg);

#endif
