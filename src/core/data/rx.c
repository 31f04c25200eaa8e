/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiver, see rx.h. Pure: libc only. */
#include "core/data/rx.h"

#include "core/cover.h"

#include <string.h>

void vqp_rx_init(vqp_rx_t *rx, char *ring, uint32_t ring_size, char *cells,
                 uint8_t *map, uint32_t window, uint32_t first_fsn,
                 vqp_stats_t *stats)
{
    memset(rx, 0, sizeof(*rx));
    vqp_window_init(&rx->window, map, window, first_fsn);
    rx->ring      = ring;
    rx->ring_size = ring_size;
    rx->record_max     = ring_size / 2;
    rx->slow           = VQP_RX_FIRST;
    rx->advertised.fsn = rx->queued.fsn = rx->window.base;
    rx->cells     = cells;
    rx->stats     = stats;
}

vqp_credit_t vqp_rx_read_cell(vqp_rx_t *rx, uint32_t path)
{
    /* A later message on the same path may be landing: each word is monotonic and
     * read once, so that any mixture is valid */
    const volatile vqp_cell_t *cell = (const volatile vqp_cell_t*)(
            rx->cells + ((size_t)path * VQP_CELL_STRIDE));
    vqp_credit_t credit;

    credit.ring = cell->credit_ring;
    credit.fsn  = cell->credit_fsn;
    if (cell->flags & VQP_CELL_REQUEST) {
        vqp_cover(RX_REQUESTED);
        rx->requested = 1;
    }

    ++rx->stats->credit_updates_rx;
    return credit;
}

uint64_t vqp_rx_gap(vqp_rx_t *rx, uint64_t now)
{
    uint64_t gap;

    if (rx->window.ahead == 0) {
        rx->gap_since = 0;
        return 0;
    }

    if ((rx->gap_since == 0) || (rx->gap_base != rx->window.base)) {
        rx->gap_base  = rx->window.base;
        rx->gap_since = now;
        return 0;
    }

    gap                 = now - rx->gap_since;
    rx->stats->gap_usec = vqp_max(rx->stats->gap_usec, gap / 1000);
    return gap;
}
