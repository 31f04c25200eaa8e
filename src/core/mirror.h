/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mirror of ring 0. Most connections send nothing most of the time: so it is there only
 * while active messages are sent. The owner makes it for the first one, and gets it back after
 * rings.idle without any, or when it needs it for another connection. The peer does not notice.
 *
 * The owner provides memory: VQP_EVENT_MIRROR_NEEDED, MIRROR_PUT.
 * Pure: libc only.
 */
#ifndef VQP_CORE_MIRROR_H
#define VQP_CORE_MIRROR_H

#include "core/vqp_def.h"

/** Nothing is in flight from the mirror of this ring any more: the owner gets it back. */
void vqp_mirror_put(vqp_t *vqp, uint8_t number);

/** After VQP_EVENT_MIRROR_PUT: 1 << number of each mirror that the owner gets back. */
static inline unsigned vqp_mirrors_put(vqp_t *vqp)
{
    unsigned numbers = vqp->rings.tx_put;

    vqp->rings.tx_put = 0;
    return numbers;
}

/** Has the ring in use no mirror? Then it is ring 0. It does not need one before there is room
 *  for a message. */
static inline int vqp_lacks_mirror(const vqp_t *vqp)
{
    return vqp->tx.ring.mirror == NULL;
}

/** After vqp_tx_am_begin() has failed: the owner is to make a mirror of ring 0, of
 *  tx.cfg.ring_size bytes, and to try again. If that was not possible the last time,
 *  VQP_EVENT_MIRROR_NEEDED comes first. */
static inline int vqp_wants_mirror(const vqp_t *vqp)
{
    return vqp->tx.needs_mirror && !vqp->rings.is_needed &&
           (vqp->state == VQP_STATE_LIVE);
}

/** After VQP_EVENT_MIRROR_NEEDED: the owner is to make one, unless this is 0. */
static inline int vqp_can_use_mirror(const vqp_t *vqp)
{
    return (vqp->state == VQP_STATE_LIVE) && vqp_lacks_mirror(vqp);
}

/**
 * The owner has made the mirror of ring 0, since vqp_lacks_mirror(). If MIRROR_PUT of number 0
 * was not handed out yet, it is not: then the owner may give that one.
 *
 * @param [in] mirror  NULL: it could not; MIRROR_NEEDED follows until it can.
 * @param [in] lkeys   One for each rail. They stay until MIRROR_PUT, or
 *                     vqp_take_mirror() returns 1.
 */
void vqp_first_mirror_made(vqp_t *vqp, char *mirror, const uint32_t *lkeys);

/**
 * The owner needs the mirror of ring 0 for another connection. If it is there and is not in
 * use it comes back, but for one that is new: a message or a timer comes first, else two
 * connections would take it from each other again and again. Messages may have waited: see
 * vqp_has_events().
 *
 * @return 1: it is the owner's. 0: it stays.
 */
int vqp_take_mirror(vqp_t *vqp);

/**
 * It could not be taken: no message is accepted for some milliseconds, so that nothing is in
 * flight soon. What was posted without a completion gets one: see vqp_has_output().
 *
 * @return 0: nothing is changed. It is new, or was asked for before; or there is none.
 */
int vqp_ask_for_mirror(vqp_t *vqp);

/** After rings.mirror_due: is it used, or needed? In state LIVE. */
void vqp_mirror_look(vqp_t *vqp, uint64_t now);

#endif
