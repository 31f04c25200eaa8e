/*
 * What an interface remembers of a peer: which connection numbers of the pair
 * have been used. It outlives the connections, so that no number is used
 * twice and a late duplicate of an old REQ does not create anything.
 * Pure: libc only.
 *
 * Invariant: a number is "used" when it is at most `highest` and not one of the
 * gap (numbers below `highest` that only the peer can have
 * given, and whose REQ has not come yet: it was overtaken).
 */
#ifndef VQP_CORE_CONN_PEER_H
#define VQP_CORE_CONN_PEER_H

#include "core/status.h"

/*
 * REQs to one peer that may be unanswered at once. A sender holds further ones
 * back, so that the numbers which were overtaken fit a 64-bit mask.
 */
#define VQP_PEER_MAX_UNANSWERED 64

struct vqp_conn;

typedef struct vqp_peer {
    uint64_t         id;       /* identity of the peer, see conntab.h; zero: the
                                  record is free */
    uint64_t         gap;      /* bit i: gap_base + i has not been seen */
    uint64_t         answered; /* ns: when a connection got its first answer last;
                                  0: none did */
    uint32_t         gap_base;
    uint32_t         highest;  /* highest number in either direction */
    uint32_t         num_new;  /* connections that wait to send their REQ */
    struct vqp_conn *first;    /* live connections, ascending numbers */
    struct vqp_conn *last;
    struct vqp_peer *next;     /* in its hash chain */
} vqp_peer_t;

/** Start the record of a peer: no number has been used. */
void vqp_peer_init(vqp_peer_t *peer, uint64_t id);

/** Was the connection of that number surely created before? */
int vqp_peer_is_used(const vqp_peer_t *peer, uint32_t number);

/**
 * Note a number as used. What it skips above the highest one becomes the gap;
 * of a longer gap than the mask holds, the lowest numbers count as used.
 */
void vqp_peer_use(vqp_peer_t *peer, uint32_t number);

#endif
