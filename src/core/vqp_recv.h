/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a vqp receives: immediates, AMs, credit, control records. Part of vqp.h, for its
 * owner. Pure: libc only.
 */
#ifndef VQP_CORE_VQP_RECV_H
#define VQP_CORE_VQP_RECV_H

#include "core/vqp_def.h"

/** A receive completed. @return 1 if path->recv_used are to be posted again. Not in ERR:
 *  with Soft-RoCE those that are posted there do not come back. */
static inline int vqp_recv_used(vqp_t *vqp, vqp_path_t *path)
{
    return vqp_unlikely(++path->recv_used >= vqp->recv_batch) &&
           !vqp_is_failed(vqp) && (path->fo.state != VQP_PATH_QUIESCE);
}

/** path->recv_used receives were to be posted again, and @a posted of them were. */
void vqp_recv_posted(vqp_t *vqp, vqp_path_t *path, uint16_t posted);

/** A receive completion with @a status: the path is given up, or the vqp fails. */
void vqp_on_recv_error(vqp_t *vqp, vqp_path_t *path, vqp_status_t status);

/** The peer violated the protocol: its credit and immediates are ignored from now
 *  on. */
void vqp_peer_broken(vqp_t *vqp, const vqp_path_t *path, const char *what);

/* Credit that is new, or wrong. Returns 1, or VQP_ERR_PROTOCOL. */
int vqp_recv_credit(vqp_t *vqp, const vqp_path_t *path, vqp_credit_t credit);

/* The AM that the passed immediate closes, or VQP_ERR_PROTOCOL */
static VQP_ALWAYS_INLINE int
vqp_recv_am(vqp_t *vqp, const vqp_path_t *path, uint32_t flags,
            vqp_rx_am_t *am)
{
    if (vqp_unlikely((vqp_rx_record(&vqp->rx, flags, am) != VQP_OK) ||
                     (am->id >= vqp->am_ids))) {
        vqp_peer_broken(vqp, path, "malformed active message");
        return VQP_ERR_PROTOCOL;
    }

    if (vqp_unlikely(am->has_more)) {
        vqp->rx.slow |= VQP_RX_MORE;
    }

    vqp_cover_if(vqp_tx_knows_credit(&vqp->tx, &am->credit), RX_CREDIT_KNOWN);
    return vqp_likely(vqp_tx_knows_credit(&vqp->tx, &am->credit)) ?
                   1 : vqp_recv_credit(vqp, path, am->credit);
}

/**
 * An immediate arrived on @a path, which may be the next AM with nothing ahead of
 * it: the common case.
 *
 * @return 1: it is; *am is to be delivered, then vqp_recv_done(), and vqp_recv_next() if
 *         am->has_more. 0: it is not; vqp_recv() has to look at it. Below 0: the peer has
 *         broken the protocol, and the vqp has failed.
 */
static VQP_ALWAYS_INLINE int
vqp_recv_fast(vqp_t *vqp, vqp_path_t *path, uint32_t imm, vqp_rx_am_t *am)
{
    ++path->stats.rx_cqes;
    return vqp_likely(vqp_rx_next_am(&vqp->rx, imm)) ?
                   vqp_recv_am(vqp, path, imm, am) : 0;
}

/** *am was delivered. */
static inline void vqp_recv_done(vqp_t *vqp, const vqp_rx_am_t *am)
{
    vqp_rx_consumed(&vqp->rx, am);
}

/**
 * An immediate arrived on @a path, of any kind.
 *
 * @return 1: *am is to be delivered, then vqp_recv_done() and vqp_recv_next(). 0:
 *         nothing is. Below 0: as vqp_recv_fast().
 */
int vqp_recv(vqp_t *vqp, const vqp_path_t *path, uint32_t imm, vqp_rx_am_t *am);

/** The AM behind one that vqp_recv() gave. @return as vqp_recv(). */
int vqp_recv_next(vqp_t *vqp, const vqp_path_t *path, vqp_rx_am_t *am);

#endif
