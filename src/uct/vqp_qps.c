/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pairs of a vqp, see vqp_qps.h. */
#include "uct/vqp_qps.h"

#include "core/failover/rails.h"
#include "core/failover/replay.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>

void uct_vqp_destroy_qps(uct_vqp_t *vqp, unsigned count)
{
    vqp_ib_path_t *path;
    unsigned i, rail;

    for (i = 0; i < count; ++i) {
        path = &vqp->ib_paths[i];
        if (path->rc.qp != NULL) { /* else it is off, or could not be renewed */
            vqp_ib_qp_destroy(&path->rc);
        }
        for (rail = 0; rail < vqp->iface->num_rails; ++rail) {
            if (path->cq_slots[rail] != 0) {
                vqp_ib_cq_pool_release(&vqp->iface->rails[rail].cqs,
                                       path->cq_index[rail], path->cq_slots[rail]);
            }
        }
    }
}

/* Completions with an older tag are ignored: not every provider removes those of a queue
 * pair that is destroyed */
static void uct_vqp_new_tag(uct_vqp_t *vqp, unsigned index)
{
    vqp->paths[index].qp_tag  = vqp->iface->qp_tag++;
    vqp->ib_paths[index].wrid = vqp_ib_wrid(vqp->number, index,
                                            vqp->paths[index].qp_tag);
}

/* Create a queue pair of the path, in INIT, with a new qp_tag, on its completion queue */
static ucs_status_t
uct_vqp_init_qp(uct_vqp_t *vqp, unsigned index, vqp_ib_log_level_t level)
{
    uct_vqp_iface_t *iface    = vqp->iface;
    vqp_path_t *path          = &vqp->paths[index];
    uct_vqp_rail_t *rail      = &iface->rails[path->rail];
    vqp_ib_path_t *ib         = &vqp->ib_paths[index];
    vqp_ib_qp_params_t params = {
        .send_depth   = path->depth + uct_vqp_spare_slots(&iface->set),
        .recv_depth   = iface->set.recv_depth,
        .max_inline   = (uint32_t)iface->inline_max,
        .min_inline   = (uint32_t)iface->inline_max, /* the trial queue pair had it */
        .max_send_sge = (uint32_t)iface->max_iov + 1,
        .level        = level
    };
    vqp_status_t status;

    status = vqp_ib_qp_create(&ib->rc, rail->dev,
                              rail->cqs.cqs[ib->cq_index[path->rail]].cq, &params);
    if (status != VQP_OK) {
        ib->rc.qp = NULL;
        return uct_vqp_status(status);
    }

    status = vqp_ib_qp_to_init(&ib->rc, rail->port.num, rail->pkey_index);
    if (status != VQP_OK) {
        vqp_ib_qp_destroy(&ib->rc);
        ib->rc.qp  = NULL;
        ib->rc.qpn = 0; /* another one may get the number */
        return uct_vqp_status(status);
    }

    ib->qp = ib->rc.qp;
    uct_vqp_new_tag(vqp, index);
    return UCS_OK;
}

/* Paths take turns on the rails that work */
static ucs_status_t
uct_vqp_pick_rail(const uct_vqp_iface_t *iface, unsigned index, unsigned *rail_p)
{
    unsigned rails[VQP_MAX_RAILS];
    unsigned num = 0;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        if (!uct_vqp_rail_is_broken(&iface->rails[i])) {
            rails[num++] = i;
        }
    }

    if (num == 0) {
        ucs_error("all devices of the interface, %s and others, have failed for "
                  "good", iface->rails[0].dev->name);
        return UCS_ERR_IO_ERROR;
    }

    *rail_p = rails[index % num];
    return UCS_OK;
}

/* The path keeps the entries until it is destroyed, those on rails that it has left too:
 * completions of a queue pair that was destroyed may be polled later. So it stays on that
 * queue, and *depth becomes what the queue has entries for */
static ucs_status_t uct_vqp_reserve_cq(uct_vqp_t *vqp, unsigned index, uint32_t *depth,
                                       vqp_ib_log_level_t level)
{
    uct_vqp_iface_t *iface = vqp->iface;
    unsigned rail          = vqp->paths[index].rail;
    vqp_ib_cq_pool_t *cqs  = &iface->rails[rail].cqs;
    uint32_t slots         = *depth + iface->set.recv_depth;
    vqp_ib_path_t *ib      = &vqp->ib_paths[index];
    unsigned cq_index;
    vqp_status_t status;

    if (ib->cq_slots[rail] == 0) {
        status = vqp_ib_cq_pool_reserve(cqs, slots, level, &cq_index);
        if (status != VQP_OK) {
            return uct_vqp_status(status);
        }

        uct_vqp_iface_add_cqs(iface);
        ib->cq_index[rail] = (uint8_t)cq_index;
        ib->cq_slots[rail] = (uint16_t)slots;
    } else if ((slots > ib->cq_slots[rail]) &&
               (vqp_ib_cq_pool_extend(cqs, ib->cq_index[rail],
                                      slots - ib->cq_slots[rail]) == VQP_OK)) {
        ib->cq_slots[rail] = (uint16_t)slots;
    }

    *depth = ucs_min(*depth, ib->cq_slots[rail] - iface->set.recv_depth);
    return UCS_OK;
}

/* The path keeps the table until the vqp ends, or until a longer queue needs a larger one:
 * frags of earlier queue pairs wait in it for their replay. A path that never had a queue
 * pair needs none */
static ucs_status_t uct_vqp_alloc_inflight(uct_vqp_t *vqp, unsigned index, uint32_t depth,
                                           vqp_ib_log_level_t level)
{
    vqp_path_t *path    = &vqp->paths[index];
    vqp_inflight_t *old = path->inflight;
    uint32_t entries    = uct_vqp_inflight(depth);
    vqp_inflight_t *inflight;

    if ((old != NULL) && (entries <= path->mask + 1u)) {
        return UCS_OK;
    }

    inflight = ucs_calloc(entries, sizeof(*inflight), "uct_vqp_inflight");
    if (inflight == NULL) {
        vqp_ib_log(level, "failed to allocate the frags in flight of a path");
        return UCS_ERR_NO_MEMORY;
    }

    vqp_replay_move(path, inflight, entries);
    ucs_free(old);
    return UCS_OK;
}

ucs_status_t uct_vqp_init_path(uct_vqp_t *vqp, unsigned index)
{
    uct_vqp_iface_t *iface = vqp->iface;
    vqp_path_t *path       = &vqp->paths[index];
    unsigned rail_index    = 0;
    ucs_status_t status;

    status = uct_vqp_pick_rail(iface, index, &rail_index);
    if (status != UCS_OK) {
        return status;
    }

    path->index = (uint8_t)index;
    path->rail  = (uint8_t)rail_index;
    path->up    = 1;
    return UCS_OK;
}

void uct_vqp_drop_qp(uct_vqp_t *vqp, unsigned index)
{
    vqp_ib_path_t *ib = &vqp->ib_paths[index];

    if (ib->rc.qp != NULL) {
        vqp_ib_qp_destroy(&ib->rc);
        ib->rc.qp  = NULL;
        ib->rc.qpn = 0; /* another one may get the number */
        ib->qp     = NULL;
        memset(&ib->lag, 0, sizeof(ib->lag));
        uct_vqp_new_tag(vqp, index);
    }
}

ucs_status_t uct_vqp_renew_qp(uct_vqp_t *vqp, unsigned index, uint32_t depth,
                              vqp_ib_log_level_t level)
{
    ucs_status_t status;

    uct_vqp_drop_qp(vqp, index);
    status = uct_vqp_reserve_cq(vqp, index, &depth, level);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_alloc_inflight(vqp, index, depth, level);
    if (status != UCS_OK) {
        return status;
    }

    vqp->paths[index].depth = (uint16_t)(depth - uct_vqp_spare_slots(&vqp->iface->set));
    return uct_vqp_init_qp(vqp, index, level);
}
