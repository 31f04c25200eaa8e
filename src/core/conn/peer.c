/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection numbers of a pair of interfaces. Pure: libc only.
 */
#include "core/conn/peer.h"

#include "core/cover.h"

#include <string.h>

void vqp_peer_init(vqp_peer_t *peer, uint64_t id)
{
    memset(peer, 0, sizeof(*peer));
    peer->id       = id;
    peer->gap_base = 1;
}

int vqp_peer_is_used(const vqp_peer_t *peer, uint32_t number)
{
    uint32_t bit;

    if (number > peer->highest) {
        return 0;
    }

    bit = number - peer->gap_base; /* 64 or more if below gap_base: used */
    return (bit >= 64) || !((peer->gap >> bit) & 1);
}

/* Move gap_base to the lowest number of the gap */
static void vqp_peer_trim_gap(vqp_peer_t *peer)
{
    unsigned shift;

    if (peer->gap == 0) {
        peer->gap_base = peer->highest + 1;
        return;
    }

    shift           = (unsigned)__builtin_ctzll(peer->gap);
    peer->gap     >>= shift;
    peer->gap_base += shift;
}

void vqp_peer_use(vqp_peer_t *peer, uint32_t number)
{
    uint32_t skipped, shift, bit;

    if (number <= peer->highest) {
        bit = number - peer->gap_base;
        if (bit < 64) {
            vqp_cover(PEER_GAP_FILLED);
            peer->gap &= ~(1ull << bit);
        }
        vqp_peer_trim_gap(peer);
        return;
    }

    if (number > (peer->highest + 1)) {
        /* Only a REQ of the peer skips numbers. The peer limits its unanswered
         * REQs, so it has given up numbers that are 64 or more below this one */
        vqp_cover(PEER_GAP);
        if ((number - peer->gap_base) >= 64) {
            vqp_cover(PEER_GAP_SHIFTED);
            shift           = number - peer->gap_base - 63;
            peer->gap       = (shift < 64) ? (peer->gap >> shift) : 0;
            peer->gap_base += shift;
        }

        skipped = vqp_max(peer->highest + 1, peer->gap_base);
        for (; skipped < number; ++skipped) {
            peer->gap |= 1ull << (skipped - peer->gap_base);
        }
    }

    peer->highest = number;
    vqp_peer_trim_gap(peer);
}
