/*
 * The sender: when is all that was accepted so far at the peer, and when can the
 * peer use it? An AM's own frags may be confirmed while a fence or a control
 * message with an earlier number is still on the way, on another path: the AM
 * waits for it in the peer's window. A flush waits for these too, so that nothing
 * is lost when the connection ends behind it. Pure: libc only.
 */
#ifndef VQP_CORE_FLUSH_H
#define VQP_CORE_FLUSH_H

#include "core/tx.h"

/** How far a flush has to wait. */
typedef struct vqp_tx_flush {
    uint32_t seq;                  /* for the ops before this one, */
    uint32_t am_tail;              /* with the AMs before this one; */
    uint8_t  has_tails;            /* they are over, and what follows is set: */
    uint64_t paths;                /* then on these paths */
    uint16_t tails[VQP_MAX_PATHS]; /* for the frags before these places */
} vqp_tx_flush_t;

/** Is there nothing that a flush would have to wait for? */
int vqp_tx_is_flushed(const vqp_tx_t *tx);

/** A flush of all that was accepted so far. */
static inline void
vqp_tx_flush_begin(const vqp_tx_t *tx, vqp_tx_flush_t *flush)
{
    flush->seq       = tx->seq;
    flush->am_tail   = tx->am.tail;
    flush->has_tails = 0;
}

/**
 * Has the flush ended? To be asked after each poll that confirmed something, and
 * before dispatch: it may want CQEs for that.
 */
int vqp_tx_flush_ended(vqp_tx_t *tx, vqp_tx_flush_t *flush);

#endif
