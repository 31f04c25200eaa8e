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
 * Most connections send nothing most of the time. So the mirror of ring 0 is there only while
 * messages are sent: the owner makes it for the first one, and gets it back after rings.idle
 * without any. The peer does not notice.
 *
 * The owner provides memory: VQP_EVENT_RING_GET, RING_PUT, MIRROR_GET, MIRROR_NEEDED,
 * MIRROR_PUT.
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

#endif
