/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender: records that share an immediate. Immediates are few: the peer keeps a
 * receive for each of the window. So an AM that has not been dispatched takes the records
 * of those behind it. While the window is more than half used, a short AM even waits for
 * them, if the user sends on: what is left of the window then carries the rest of the ring.
 *
 * A packed AM is one op and one frag, whose length is that of all its records: failover
 * and rings see nothing of it. Its first record has the newest credit. The receiver finds
 * the others by VQP_RECORD_MORE.
 * Part of am.h, for the sender. Pure: libc only.
 */
#ifndef VQP_CORE_DATA_PACK_H
#define VQP_CORE_DATA_PACK_H

#include "core/data/tx.h"

/** Fsns that short AMs may use without waiting for others. */
static inline uint32_t vqp_tx_pack_fsns(const vqp_tx_t *tx)
{
    return tx->cfg.fsn_window / 2;
}

/** Is so much of the window used that short AMs wait for others? */
static inline int vqp_tx_lacks_fsns(const vqp_tx_t *tx)
{
    return vqp_tx_fsns_out(tx) + tx->fc.fsn_reserved + VQP_CONTROL_RESERVE >=
           vqp_tx_pack_fsns(tx);
}

/** vqp_tx_wants_copy(), when credit has to be looked at. */
int vqp_tx_wants_copy_slow(const vqp_tx_t *tx, uint32_t length);

/**
 * Is an AM of @a length bytes, which could be read from the user's buffer, better copied?
 * Immediates are few then, and only what is in the mirror shares them. It is complete at
 * once: not with COMP_ORDER=post, before older ops are.
 */
static inline int vqp_tx_wants_copy(const vqp_tx_t *tx, uint32_t length)
{
    return vqp_unlikely(tx->fc.am_credits == 0) && vqp_tx_wants_copy_slow(tx, length);
}

/** May a record of up to @a max bytes of payload join the AM that was accepted last? */
int vqp_tx_may_pack(const vqp_tx_t *tx, uint32_t max);

/**
 * It joins that AM: writes its header. The user has written the payload. The source of the
 * op is to be set again.
 *
 * @param [in] record  Where fc.ring_head is in the mirror.
 */
void vqp_tx_pack(vqp_tx_t *tx, vqp_record_t *record, uint8_t am_id, uint32_t length,
                 const vqp_credit_t *credit);

/** The AM of @a record is accepted for dispatch: may others join it, and does it wait for
 *  them? */
void vqp_tx_start_pack(vqp_tx_t *tx, vqp_op_t *op, vqp_record_t *record);

/** An AM was refused: the one that waits for others waits no more. */
void vqp_tx_end_hold(vqp_tx_t *tx);

/**
 * Does the AM at am.post, which has VQP_OP_HELD, wait for records? Then tx->pack.is_held
 * is set: dispatch is to be called again, even if nothing happens.
 */
int vqp_tx_holds(vqp_tx_t *tx, vqp_op_t *op);

#endif
