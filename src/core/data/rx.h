/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving half of a vqp: immediates go in, AM records come out in order,
 * credit is counted. Receives carry no data: an immediate announces data in the
 * ring. One thread at a time. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_RX_H
#define VQP_CORE_DATA_RX_H

#include "core/cover.h"
#include "core/data/record.h"
#include "core/stats.h"
#include "core/data/tx.h"
#include "core/data/window.h"

/* Why an immediate is not simply the next one */
enum {
    VQP_RX_FIRST  = 1 << 0, /* none has come yet */
    VQP_RX_BROKEN = 1 << 1, /* the peer has broken the protocol: all are dropped */
    VQP_RX_MORE   = 1 << 2  /* another record of the immediate that was passed last comes
                               first */
};

typedef struct vqp_rx {
    vqp_window_t window;
    uint32_t     slow;       /* VQP_RX_* */
    char        *ring;
    uint32_t     ring_size;
    uint32_t     record_max; /* half of the first ring, whatever the ring is: what the
                                user has room for */
    uint32_t     ring_pos;   /* cumulative bytes consumed: handlers returned */
    vqp_credit_t advertised; /* the newest credit that the peer was sent */
    vqp_credit_t queued;     /* in the newest AM that had to wait for a path */
    uint8_t      requested;  /* the peer requests a credit update */
    uint32_t     gap_base;   /* fsn that was missing at the last check */
    uint64_t     gap_since;  /* ns, 0 = no gap */
    char        *cells;      /* credit cells that the peer writes */
    vqp_stats_t *stats;
} vqp_rx_t;

/** An AM to be delivered. */
typedef struct vqp_rx_am {
    void        *data;
    uint32_t     length;
    uint8_t      id;
    uint8_t      has_more;   /* the record behind it belongs to the same immediate */
    uint32_t     end;        /* ring position behind it */
    vqp_credit_t credit;     /* that it brought along */
} vqp_rx_am_t;

/**
 * Start an empty receiver.
 *
 * @param [in] map    @a window bytes for the reorder window.
 * @param [in] cells  VQP_CELL_STRIDE bytes per path.
 */
void vqp_rx_init(vqp_rx_t *rx, char *ring, uint32_t ring_size, char *cells,
                 uint8_t *map, uint32_t window, uint32_t first_fsn,
                 vqp_stats_t *stats);

/**
 * An immediate arrived.
 *
 * @return 1 if it was the next expected one, and is passed: the caller looks
 *         at its flags itself. 0 if it is kept, or was dropped as a duplicate:
 *         nothing new can be passed. VQP_ERR_PROTOCOL: the peer is broken.
 */
static inline int vqp_rx_imm(vqp_rx_t *rx, uint32_t imm)
{
    vqp_status_t status;

    if (vqp_likely(vqp_imm_is_valid(imm) &&
                   vqp_window_in_order(&rx->window, imm))) {
        return 1;
    }

    status = vqp_window_insert(&rx->window, imm);
    if (status == VQP_INPROGRESS) {
        ++rx->stats->duplicates;
        return 0;
    }

    rx->stats->ooo_max = rx->window.ooo_max;
    return status;
}

/**
 * The common case of @ref vqp_rx_imm: the next expected one, with nothing ahead
 * of it, closes an AM.
 *
 * @return 1 if that is so, and it is passed: no other can follow. 0: nothing is
 *         changed, and vqp_rx_imm() has to look at it.
 */
static inline int vqp_rx_next_am(vqp_rx_t *rx, uint32_t imm)
{
    if (vqp_unlikely(((imm & ~(uint32_t)VQP_IMM_WRAP) !=
                      (rx->window.base | VQP_IMM_LAST)) ||
                     ((rx->window.ahead | rx->slow) != 0))) {
        return 0;
    }

    vqp_cover(RX_NEXT_AM);
    rx->window.base = vqp_fsn_add(rx->window.base, 1);
    return 1;
}

/**
 * The AM whose closing immediate, with @a flags, was passed just now.
 *
 * @return VQP_OK or VQP_ERR_PROTOCOL if the record is not one.
 */
static inline vqp_status_t
vqp_rx_record(const vqp_rx_t *rx, uint32_t flags, vqp_rx_am_t *am)
{
    uint32_t offset = rx->ring_pos & (rx->ring_size - 1);
    uint32_t pos    = rx->ring_pos;
    const vqp_record_t *record;
    uint64_t size;

    if (vqp_unlikely(flags & VQP_IMM_WRAP)) {
        if (vqp_unlikely(offset == 0)) {
            vqp_cover(RX_BAD_WRAP);
            return VQP_ERR_PROTOCOL; /* would skip the whole ring */
        }
        pos   += rx->ring_size - offset;
        offset = 0;
    }

    record     = (const vqp_record_t*)(rx->ring + offset);
    am->length = record->length;
    size       = vqp_record_size64(am->length);
    if (vqp_unlikely((size > rx->record_max) ||
                     (offset + size > rx->ring_size) ||
                     (((record->flags & ~VQP_RECORD_MORE) | record->reserved) != 0))) {
        vqp_cover(RX_BAD_RECORD);
        return VQP_ERR_PROTOCOL;
    }

    am->data        = (void*)(record + 1);
    am->id          = record->am_id;
    am->has_more    = record->flags;
    am->end         = pos + (uint32_t)size;
    am->credit.ring = record->credit_ring;
    am->credit.fsn  = record->credit_fsn;
    return VQP_OK;
}

/** The record's bytes may be advertised as credit. */
static inline void vqp_rx_free(vqp_rx_t *rx, const vqp_rx_am_t *am)
{
    rx->ring_pos = am->end;
}

/** The handler has returned. */
static inline void vqp_rx_consumed(vqp_rx_t *rx, const vqp_rx_am_t *am)
{
    vqp_rx_free(rx, am);
    ++rx->stats->ams_rx;
}

/** The credit as it stands now. */
static inline vqp_credit_t vqp_rx_credit(const vqp_rx_t *rx)
{
    vqp_credit_t credit = {rx->ring_pos, rx->window.base};

    return credit;
}

static inline int
vqp_credit_is_equal(const vqp_credit_t *a, const vqp_credit_t *b)
{
    return (a->ring == b->ring) && (a->fsn == b->fsn);
}

/** @a credit goes out, in an AM or in a credit update. */
static inline void vqp_rx_advertise(vqp_rx_t *rx, const vqp_credit_t *credit)
{
    if (vqp_unlikely(rx->requested) &&
        !vqp_credit_is_equal(credit, &rx->advertised) &&
        !vqp_credit_is_equal(credit, &rx->queued)) {
        rx->requested = 0; /* the peer requests again if it is not enough */
    }

    rx->advertised = *credit;
}

/**
 * @a credit is in the AM that was accepted last, and dispatch was called. If the
 * AM waits for a path, the credit does not count as advertised: the AM may wait
 * for credit of the peer, whose AMs may wait for this credit. It is not new
 * credit any more when the AM has been sent.
 */
static inline void
vqp_rx_advertise_in_am(vqp_rx_t *rx, const vqp_tx_t *tx,
                       const vqp_credit_t *credit)
{
    if (tx->am.post == tx->am.tail) {
        vqp_rx_advertise(rx, credit);
    } else {
        vqp_cover(VQP_CREDIT_QUEUED);
        rx->queued = *credit;
    }
}

/** Has so much been consumed since the last update that the peer may run out? */
static inline int vqp_rx_needs_update(const vqp_rx_t *rx)
{
    uint32_t bytes = rx->ring_pos - rx->advertised.ring;
    int32_t fsns   = vqp_fsn_diff(rx->window.base, rx->advertised.fsn);

    if (vqp_likely((bytes | (uint32_t)fsns) == 0)) {
        return 0;
    }

    return (bytes >= rx->ring_size / VQP_CREDIT_SHARE) ||
           (fsns > (int32_t)(rx->window.mask / VQP_CREDIT_SHARE)) ||
           (rx->requested && ((bytes > 0) || (fsns > 0)));
}

/** Read the credit cell of a path on which a CREDIT immediate arrived. */
vqp_credit_t vqp_rx_read_cell(vqp_rx_t *rx, uint32_t path);

/**
 * How long an immediate has been missing although later ones have arrived.
 *
 * @param [in] now  ns of any monotonic clock, not 0.
 *
 * @return ns, 0 if nothing is missing. Precise to the interval between calls.
 */
uint64_t vqp_rx_gap(vqp_rx_t *rx, uint64_t now);

#endif
