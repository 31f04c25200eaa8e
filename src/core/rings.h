/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rings of a vqp grow where active messages stall for lack of ring bytes, and are given
 * back when none come any more. Each direction has the ring of the handshake, which stays,
 * and at times a larger one; the numbers are 0, and 1 or 2 in turn. The receiver owns
 * the ring, the sender a mirror of the same size. (docs/protocol.md, "Rings")
 *
 *     sender                                  receiver
 *     stalls for ring bytes: WANT  --------->
 *                                  <--------- OFFER of a ring
 *     has a mirror: SWITCH         --------->  the records that follow are in that ring
 *     all before it is confirmed:
 *     RELEASE of the ring before   --------->  which is free
 *
 * These are records of the stream of active messages, so they arrive once and in order, and
 * a path that fails changes nothing. A RELEASE of the ring that was offered refuses it.
 * Without messages for rings.idle the receiver offers ring 0.
 *
 * The owner provides memory: VQP_EVENT_RING_GET, RING_PUT, MIRROR_GET, MIRROR_PUT. The mirror
 * of ring 0 comes and goes, see mirror.h.
 * Pure: libc only.
 */
#ifndef VQP_CORE_RINGS_H
#define VQP_CORE_RINGS_H

#include "core/vqp_def.h"

/** Types of the records; bits of rings.send are 1 << type, sent in this order. */
typedef enum {
    VQP_RING_RELEASE = 1,
    VQP_RING_SWITCH  = 2,
    VQP_RING_OFFER   = 3,
    VQP_RING_WANT    = 4
} vqp_ring_type_t;

/** Payload of a control record. */
typedef struct vqp_ring_msg {
    uint8_t  type;      /* vqp_ring_type_t */
    uint8_t  number;    /* of the ring; 0 for WANT */
    uint8_t  num_rkeys; /* OFFER of a ring other than 0: one for each rail of the
                           sender of the message; else 0, as all that follows */
    uint8_t  reserved;  /* zero */
    uint32_t size;      /* bytes, a power of two. WANT: of the largest ring that the
                           sender has a mirror for */
    uint64_t addr;
    uint32_t rkeys[VQP_RING_KEYS_MAX];
} vqp_ring_msg_t;

/** Start with ring 0 in both directions. The sender and the receiver are initialized. */
void vqp_rings_init(vqp_t *vqp, const vqp_config_t *config);

/** tx.slow has VQP_TX_RINGS: accept the control records that are due, as AMs. */
void vqp_rings_send(vqp_t *vqp);

/**
 * A control record has arrived.
 *
 * @return VQP_OK, or VQP_ERR_PROTOCOL with what is wrong in @a what.
 */
vqp_status_t vqp_rings_recv(vqp_t *vqp, const void *data, uint32_t length,
                            const char **what);

/** Give a large ring back that has not been used for some time; after rings.due.
 *  @a is_drained: see vqp_on_time(). */
void vqp_rings_look(vqp_t *vqp, uint64_t now, int is_drained);

/** After VQP_EVENT_RING_GET: bytes of the ring, of number rings.next, that is to be made. */
static inline uint32_t vqp_ring_wanted(const vqp_t *vqp)
{
    return vqp->rings.offer.size;
}

/**
 * The owner has made it.
 *
 * @param [in] base   NULL: it could not; the ring stays as it is.
 * @param [in] rkeys  One for each rail, copied.
 */
void vqp_ring_made(vqp_t *vqp, char *base, const uint32_t *rkeys,
                   unsigned num_rkeys);

/** After VQP_EVENT_MIRROR_GET: bytes of the mirror, of number rings.tx_next. */
static inline uint32_t vqp_mirror_wanted(const vqp_t *vqp)
{
    return vqp->rings.tx_ring.size;
}

/**
 * The owner has made it.
 *
 * @param [in] mirror  NULL: it could not; the ring is refused.
 * @param [in] lkeys   One for each rail. They stay until MIRROR_PUT.
 */
void vqp_mirror_made(vqp_t *vqp, char *mirror, const uint32_t *lkeys);

#endif
