/* SPDX-License-Identifier: BSD-3-Clause */
/* What a vqp receives, see vqp_recv.h. Pure: libc only. */
#include "core/vqp_recv.h"

#include "core/failover/end.h"
#include "core/failover/failover_int.h"
#include "core/rings.h"

void vqp_peer_broken(vqp_t *vqp, const vqp_path_t *path, const char *what)
{
    vqp->broken.what = what;
    vqp->broken.path = path->index;
    vqp->rx.slow    |= VQP_RX_BROKEN;
    vqp_set_event(vqp, VQP_EVENT_BROKEN);
    vqp_fail(vqp, VQP_ERR_PROTOCOL);
}

int vqp_recv_credit(vqp_t *vqp, const vqp_path_t *path, vqp_credit_t credit)
{
    if (vqp_unlikely(vqp_tx_credit(&vqp->tx, credit.ring, credit.fsn) < 0)) {
        vqp_peer_broken(vqp, path, "credit for what was never sent");
        return VQP_ERR_PROTOCOL;
    }

    return 1;
}

/* A record for the core. Returns as vqp_recv_next(), whose loop goes on after 0 */
static int vqp_recv_control(vqp_t *vqp, const vqp_path_t *path, uint32_t flags)
{
    const char *what;
    vqp_rx_am_t am;

    if (vqp_recv_am(vqp, path, flags, &am) < 0) {
        return VQP_ERR_PROTOCOL;
    }

    if (am.has_more) {
        vqp_peer_broken(vqp, path, "a control record with another one behind it");
        return VQP_ERR_PROTOCOL;
    }

    vqp_rx_free(&vqp->rx, &am);
    if (vqp_rings_recv(vqp, am.data, am.length, &what) != VQP_OK) {
        vqp_peer_broken(vqp, path, what);
        return VQP_ERR_PROTOCOL;
    }

    return 0;
}

/* The immediate with these flags was passed. Returns as vqp_recv_next() */
static int vqp_recv_passed(vqp_t *vqp, const vqp_path_t *path, uint32_t flags,
                           vqp_rx_am_t *am)
{
    return !(flags & VQP_IMM_LAST)   ? 0 :
           (flags & VQP_IMM_CONTROL) ? vqp_recv_control(vqp, path, flags) :
                                       vqp_recv_am(vqp, path, flags, am);
}

/* A record that shares the immediate of the one before it: it brings no credit */
static int vqp_recv_more(vqp_t *vqp, const vqp_path_t *path, vqp_rx_am_t *am)
{
    vqp_cover(RX_MORE);
    if (((vqp->rx.ring_pos & (vqp->rx.ring_size - 1)) == 0) || /* it would never end */
        (vqp_rx_record(&vqp->rx, 0, am) != VQP_OK) || (am->id >= vqp->am_ids) ||
        ((am->credit.ring | am->credit.fsn) != 0)) {
        vqp_peer_broken(vqp, path, "malformed active message behind another one");
        return VQP_ERR_PROTOCOL;
    }

    if (!am->has_more) {
        vqp->rx.slow &= ~(uint32_t)VQP_RX_MORE;
    }
    return 1;
}

int vqp_recv_next(vqp_t *vqp, const vqp_path_t *path, vqp_rx_am_t *am)
{
    int has_am = 0;
    uint32_t flags;

    if (vqp->rx.slow & VQP_RX_BROKEN) {
        return 0;
    }

    if (vqp->rx.slow & VQP_RX_MORE) {
        return vqp_recv_more(vqp, path, am);
    }

    while ((has_am == 0) && vqp_window_next(&vqp->rx.window, &flags)) {
        has_am = vqp_recv_passed(vqp, path, flags, am);
    }

    return has_am;
}

/* An immediate is there, and one before it is not */
static void vqp_start_gap(vqp_t *vqp)
{
    if (vqp_window_has_gap(&vqp->rx.window)) {
        vqp->gap.is_unseen = 0;
        vqp->gap.due       = 0;
        vqp_set_event(vqp, VQP_EVENT_TIMER);
    }
}

int vqp_recv(vqp_t *vqp, const vqp_path_t *path, uint32_t imm, vqp_rx_am_t *am)
{
    vqp_credit_t credit;
    int passed;

    if (vqp->rx.slow & VQP_RX_BROKEN) {
        vqp_cover(VQP_BROKEN_DROPPED);
        return 0;
    }

    if (vqp->rx.slow & VQP_RX_FIRST) {
        vqp->rx.slow &= ~(uint32_t)VQP_RX_FIRST;
        vqp_set_event(vqp, VQP_EVENT_FIRST_IMM);
    }

    passed = vqp_rx_imm(&vqp->rx, imm);
    if (vqp_unlikely(passed < 0)) {
        vqp_peer_broken(vqp, path, "an immediate outside of the window");
        return VQP_ERR_PROTOCOL;
    }

    if (imm & VQP_IMM_CREDIT) {
        /* credit is cumulative, it need not wait for its order */
        credit = vqp_rx_read_cell(&vqp->rx, path->index);
        if (vqp_recv_credit(vqp, path, credit) < 0) {
            return VQP_ERR_PROTOCOL;
        }
    }

    if (!passed) {
        if (vqp_unlikely(vqp->gap.is_unseen)) {
            vqp_start_gap(vqp);
        }
        return 0;
    }

    passed = vqp_recv_passed(vqp, path, imm, am);
    return (passed != 0) ? passed : vqp_recv_next(vqp, path, am);
}

/* ---- receives that failed, or are posted again ---- */

void vqp_on_recv_error(vqp_t *vqp, vqp_path_t *path, vqp_status_t status)
{
    ++path->recv_used;
    if (vqp_ends_quietly(vqp, path) || vqp_path_on_recv_error(vqp, path, status)) {
        return;
    }

    vqp_fail(vqp, vqp_conn_status(status));
}

void vqp_recv_posted(vqp_t *vqp, vqp_path_t *path, uint16_t posted)
{
    uint16_t used = path->recv_used;

    path->recv_used   = 0;
    path->recv_posted = (uint16_t)(path->recv_posted - used + posted);
    if (vqp_unlikely(used != posted)) {
        vqp_cover(VQP_REPOST_FAILED);
        vqp_path_down(vqp, path, VQP_ERR_IO);
    }
}
