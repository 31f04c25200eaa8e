/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings of ops that grow, see op.h. Pure: libc only. */
#include "core/data/op.h"

#include "core/cover.h"

int vqp_opring_grow(vqp_opring_t *ring)
{
    if (ring->more == NULL) {
        ring->wants = ring->mask + 1 < ring->most;
        return 0;
    }

    if (!vqp_opring_is_empty(ring)) {
        vqp_cover(OPS_DRAIN);
        return 0;
    }

    vqp_cover(OPS_GROW); /* no frag in flight names an op that was reported */
    ring->ops   = ring->more;
    ring->more  = NULL;
    ring->mask  = ring->most - 1;
    ring->limit = ring->most - ring->reserve;
    return 1;
}

void vqp_opring_give(vqp_opring_t *ring, vqp_op_t *ops)
{
    ring->wants = 0;
    if (ops != NULL) {
        ring->more  = ops;
        ring->limit = 0;
    }
}
