/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of a peer: which connection numbers were used with it. It outlives the
 * connections, so that no number is used twice and a late copy of an old REQ does not
 * create a connection. Pure: libc only.
 *
 * Invariant: a number is "used" if it is at most `highest` and not in the gap. The gap
 * has the numbers below `highest` whose REQ, from the peer, has not arrived yet: later
 * REQs have overtaken it.
 */
#ifndef VQP_CORE_CONN_PEER_H
#define VQP_CORE_CONN_PEER_H

#include "core/status.h"

/*
 * REQs to one peer that may be unanswered at once. Further ones wait, so that the numbers
 * in the gap fit a 64-bit mask.
 */
#define VQP_PEER_MAX_UNANSWERED 64

struct vqp_conn;

typedef struct vqp_peer {
    uint64_t         id;       /* identity of the peer, see conntab.h; zero: the
                                  record is free */
    uint64_t         gap;      /* bit i: gap_base + i is in the gap */
    uint64_t         answered; /* ns: last first answer to a connection; 0: none */
    uint32_t         gap_base;
    uint32_t         highest;  /* highest number in either direction */
    uint32_t         num_new;  /* connections that wait to send their REQ */
    struct vqp_conn *first;    /* live connections, ascending numbers */
    struct vqp_conn *last;
    struct vqp_peer *next;     /* in its hash chain */
} vqp_peer_t;

/** Initialize the record of a peer: no number is used. */
void vqp_peer_init(vqp_peer_t *peer, uint64_t id);

/** Is the number used? */
int vqp_peer_is_used(const vqp_peer_t *peer, uint32_t number);

/**
 * Mark a number as used. The numbers that it skips above the highest one are added to the
 * gap. If the gap exceeds the mask, its lowest numbers count as used.
 */
void vqp_peer_use(vqp_peer_t *peer, uint32_t number);

#endif
