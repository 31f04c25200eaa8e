/* The receiver, see rx.h. Pure: libc only. */
#include "core/rx.h"

#include "core/mark.h"

#include <string.h>

void vqp_rx_init(vqp_rx_t *rx, char *ring, uint32_t ring_size, char *cells,
                 uint8_t *map, uint32_t window, uint32_t first_fsn,
                 vqp_stats_t *stats)
{
    memset(rx, 0, sizeof(*rx));
    vqp_window_init(&rx->window, map, window, first_fsn);
    rx->ring      = ring;
    rx->ring_size = ring_size;
    rx->told_fsn  = rx->window.base;
    rx->cells     = cells;
    rx->stats     = stats;
}

vqp_status_t vqp_rx_record(vqp_rx_t *rx, uint32_t flags, vqp_rx_am_t *am)
{
    uint32_t offset = rx->ring_pos & (rx->ring_size - 1);
    uint32_t pos    = rx->ring_pos;
    const vqp_record_t *record;
    uint32_t length;

    if (flags & VQP_IMM_WRAP) {
        if (vqp_unlikely(offset == 0)) {
            vqp_mark(RX_BAD_WRAP);
            return VQP_ERR_PROTOCOL; /* would skip the whole ring */
        }
        pos   += rx->ring_size - offset;
        offset = 0;
    }

    record = (const vqp_record_t*)(rx->ring + offset);
    length = record->length;
    if (vqp_unlikely((length > vqp_record_max_payload(rx->ring_size)) ||
                     (offset + vqp_record_size(length) > rx->ring_size) ||
                     (record->flags != 0) || (record->reserved != 0))) {
        vqp_mark(RX_BAD_RECORD);
        return VQP_ERR_PROTOCOL;
    }

    am->data        = (void*)(record + 1);
    am->length      = length;
    am->id          = record->am_id;
    am->end         = pos + vqp_record_size(length);
    am->credit.ring = record->credit_ring;
    am->credit.fsn  = record->credit_fsn;
    return VQP_OK;
}

vqp_credit_t vqp_rx_control(vqp_rx_t *rx, uint32_t path)
{
    /* A later message on the same path may be landing: each word is monotonic
     * and read once, so that any mixture is true */
    const volatile vqp_cell_t *cell = (const volatile vqp_cell_t*)(
            rx->cells + ((size_t)path * VQP_CELL_STRIDE));
    vqp_credit_t credit;

    credit.ring = cell->credit_ring;
    credit.fsn  = cell->credit_fsn;
    if (cell->flags & VQP_CELL_STARVE) {
        vqp_mark(RX_STARVES);
        rx->peer_starves = 1;
    }

    ++rx->stats->controls_rx;
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
