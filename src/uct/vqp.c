/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation and release of a vqp, see vqp.h. */
#include "uct/vqp.h"
#include "uct/vqp_mirror.h"
#include "uct/vqp_qps.h"
#include "uct/vqp_ring.h"
#include "uct/vqp_sample.h"
#include "uct/vqp_stats.h"

#include "core/data/lost.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/vfs/base/vfs_obj.h>

void uct_vqp_layout(const uct_vqp_settings_t *set, uct_vqp_layout_t *layout)
{
    size_t cells = (size_t)set->num_paths * VQP_CELL_STRIDE;

    layout->rx_cells    = set->ring_min;
    layout->remote_size = layout->rx_cells + cells;
    layout->amo         = cells;
    layout->local_size  = layout->amo + (set->num_ops * sizeof(uint64_t));
}

/* Find a free number and its table entry */
static ucs_status_t uct_vqp_enlist(uct_vqp_t *vqp, vqp_ib_log_level_t level)
{
    uct_vqp_iface_t *iface = vqp->iface;
    uint32_t limit         = VQP_IB_WRID_VQP_MAX;
    uint32_t number        = iface->next_vqp;
    uct_vqp_t **chunk;
    uint32_t i;

    for (i = 0; i < limit; ++i, number = (number + 1) % limit) {
        if (uct_vqp_iface_find(iface, number) == NULL) {
            break;
        }
    }

    if (i == limit) {
        vqp_ib_log(level, "all %u connections of an interface are in use", limit);
        return UCS_ERR_EXCEEDS_LIMIT;
    }

    chunk = iface->vqps[number / UCT_VQP_CHUNK];
    if (chunk == NULL) {
        chunk = ucs_calloc(UCT_VQP_CHUNK, sizeof(*chunk), "uct_vqp_chunk");
        if (chunk == NULL) {
            vqp_ib_log(level, "failed to allocate a table of connections");
            return UCS_ERR_NO_MEMORY;
        }
        iface->vqps[number / UCT_VQP_CHUNK] = chunk;
    }

    vqp->number                   = number;
    chunk[number % UCT_VQP_CHUNK] = vqp;
    /* Numbers are reused late: a stale CQE finds no vqp */
    iface->next_vqp               = (number + 1) % limit;
    ucs_list_add_tail(&iface->vqp_list, &vqp->list);
    ++iface->num_vqps;
    return UCS_OK;
}

static void uct_vqp_delist(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;

    iface->vqps[vqp->number / UCT_VQP_CHUNK][vqp->number % UCT_VQP_CHUNK] =
            NULL;
    ucs_list_del(&vqp->list);
    --iface->num_vqps;
}

/* Fill the data about this side for REQ and REP */
static void uct_vqp_fill_local(uct_vqp_t *vqp, const uct_vqp_layout_t *layout)
{
    uct_vqp_iface_t *iface = vqp->iface;
    vqp_wire_info_t *info  = vqp->local;
    vqp_wire_rail_t *wire;
    uct_vqp_rail_t *rail;
    unsigned i;

    info->ring_addr  = (uintptr_t)vqp->chunk.remote;
    info->cell_addr  = (uintptr_t)vqp->chunk.remote + layout->rx_cells;
    info->scratch_addr = (uintptr_t)iface->scratch.target;
    info->ring_size  = iface->set.ring_min;
    info->fsn_window = iface->set.fsn_window;
    info->first_fsn  = (uint32_t)uct_vqp_random_next(&iface->random) &
                       VQP_FSN_MASK;
    info->rx_depth   = iface->set.recv_credit;
    info->max_reads  = UINT8_MAX;
    info->num_rails  = (uint8_t)iface->num_rails;
    info->num_paths  = (uint8_t)iface->set.min_paths;
    info->max_paths  = (uint8_t)iface->set.num_paths;
    info->key_layout = uct_vqp_iface_md(iface)->key_layout;

    for (i = 0; i < iface->num_rails; ++i) {
        rail            = &iface->rails[i];
        wire            = &info->rails[i];
        wire->ud_qpn    = rail->ud.qpn;
        wire->lid       = rail->port.lid;
        wire->mtu       = rail->mtu;
        wire->link      = (rail->port.link == VQP_IB_LINK_ETH) ? VQP_LINK_ETH :
                                                                 VQP_LINK_IB;
        wire->ring_rkey = vqp->chunk.mr.rkey[i];
        if (iface->scratch.target != NULL) {
            wire->scratch_rkey = iface->scratch.target_mr.rkey[i];
        }
        info->max_reads = ucs_min(info->max_reads, rail->serve_reads);
        memcpy(wire->gid, rail->gid.raw, sizeof(wire->gid));
    }

    for (i = 0; i < info->num_paths; ++i) {
        info->paths[i].qpn  = vqp->ib_paths[i].rc.qpn;
        info->paths[i].psn  = (uint32_t)uct_vqp_random_next(&iface->random) &
                              0xffffff;
        info->paths[i].rail = vqp->paths[i].rail;
    }
}

/* Allocate all tables of the data path in one piece, but those that a path gets with its
 * queue pair */
static ucs_status_t uct_vqp_alloc_tables(uct_vqp_t *vqp)
{
    const uct_vqp_settings_t *set = &vqp->iface->set;
    unsigned num                  = set->num_paths;
    size_t keys_offset            = 2ul * set->first_ops * sizeof(vqp_op_t);
    size_t ops_size               = keys_offset +
                                    set->first_ops * sizeof(*vqp->op_rkeys);
    size_t paths_size             = num * sizeof(vqp_path_t);
    size_t ib_size                = num * sizeof(vqp_ib_path_t);
    char *memory;

    ops_size = ucs_align_up_pow2(ops_size, UCS_SYS_CACHE_LINE_SIZE);
    if (ucs_posix_memalign((void**)&memory, UCS_SYS_CACHE_LINE_SIZE,
                           ops_size + paths_size + ib_size + set->fsn_window,
                           "uct_vqp_tables") != 0) {
        return UCS_ERR_NO_MEMORY;
    }

    memset(memory, 0, ops_size + paths_size + ib_size + set->fsn_window);
    vqp->ops        = (vqp_op_t*)memory;
    vqp->op_rkeys   = (uint32_t(*)[VQP_MAX_RAILS])(memory + keys_offset);
    vqp->paths      = (vqp_path_t*)(memory + ops_size);
    vqp->ib_paths   = (vqp_ib_path_t*)((char*)vqp->paths + paths_size);
    vqp->window_map = (uint8_t*)vqp->ib_paths + ib_size;

    vqp->local = ucs_calloc(1, vqp_wire_info_size(num), "uct_vqp_local");
    if (vqp->local == NULL) {
        goto err_free_ops;
    }

    if (set->failover) {
        vqp->inboxes = ucs_calloc(num, sizeof(*vqp->inboxes), "uct_vqp_inboxes");
        if (vqp->inboxes == NULL) {
            goto err_free_local;
        }
    }

    if (vqp->iface->telemetry != NULL) {
        vqp->latency = ucs_calloc(num, sizeof(*vqp->latency), "uct_vqp_latency");
        if (vqp->latency == NULL) {
            goto err_free_inboxes;
        }
    }

    return UCS_OK;

err_free_inboxes:
    ucs_free(vqp->inboxes);
err_free_local:
    ucs_free(vqp->local);
err_free_ops:
    ucs_free(vqp->ops);
    return UCS_ERR_NO_MEMORY;
}

/* What was not to be had is no error: the ring stays as it is. Keys that ops have go on to be
 * in the table before */
static void uct_vqp_grow_ring(uct_vqp_t *vqp, vqp_opring_t *ring)
{
    int is_rma         = ring == &vqp->core.tx.rma;
    size_t keys_offset = ring->most * sizeof(vqp_op_t);
    size_t keys_size   = is_rma ? ring->most * sizeof(*vqp->op_rkeys) : 0;
    void *ops;

    if (ucs_posix_memalign(&ops, UCS_SYS_CACHE_LINE_SIZE, keys_offset + keys_size,
                           "uct_vqp_ops") != 0) {
        ucs_trace("vqp %u: no memory for %u operations, it stays at %u", vqp->number,
                  ring->most, ring->mask + 1);
        ops = NULL;
    } else if (is_rma) {
        vqp->op_rkeys = (uint32_t(*)[VQP_MAX_RAILS])((char*)ops + keys_offset);
    }
    vqp->more_ops[is_rma] = ops;
    vqp_tx_give_ops(&vqp->core.tx, ring, ops);
}

void uct_vqp_grow_ops(uct_vqp_t *vqp)
{
    vqp_opring_t *ring;

    /* While it connects, another thread may be setting up the sender */
    if (!vqp_is_connected(&vqp->core) || vqp_is_failed(&vqp->core)) {
        return;
    }

    while ((ring = vqp_tx_short_ring(&vqp->core.tx)) != NULL) {
        uct_vqp_grow_ring(vqp, ring);
    }
}

static void uct_vqp_free_tables(uct_vqp_t *vqp)
{
    unsigned i;

    ucs_free(vqp->more_ops[0]);
    ucs_free(vqp->more_ops[1]);
    for (i = 0; i < vqp->core.num_paths; ++i) {
        ucs_free(vqp->paths[i].inflight);
    }
    ucs_free(vqp->iov_ext);
    ucs_free(vqp->peer_info);
    ucs_free(vqp->inboxes);
    uct_vqp_end_sample(vqp);
    ucs_free(vqp->latency);
    ucs_free(vqp->balance);
    ucs_free(vqp->local);
    ucs_free(vqp->ops);
}

ucs_status_t uct_vqp_create(uct_vqp_iface_t *iface, vqp_ib_log_level_t level,
                            uct_vqp_t **vqp_p)
{
    uct_vqp_layout_t layout;
    ucs_status_t status;
    unsigned num_qps;
    uct_vqp_t *vqp;

    /* first fsn, cookie, and a PSN for each path */
    status = uct_vqp_random_reserve(&iface->random, iface->set.num_paths + 2);
    if (status != UCS_OK) {
        return status;
    }

    vqp = ucs_calloc(1, sizeof(*vqp), "uct_vqp");
    if (vqp == NULL) {
        vqp_ib_log(level, "failed to allocate a connection");
        return UCS_ERR_NO_MEMORY;
    }

    vqp->iface  = iface;
    vqp->fences = iface->fences;
    status      = uct_vqp_alloc_tables(vqp);
    if (status != UCS_OK) {
        vqp_ib_log(level, "failed to allocate the tables of a connection");
        goto err_free;
    }

    vqp_init(&vqp->core, vqp->paths, iface->set.num_paths, uct_vqp_now());

    status = uct_vqp_enlist(vqp, level);
    if (status != UCS_OK) {
        goto err_free_tables;
    }

    status = uct_vqp_mirrors_reserve(&iface->mirrors, level);
    if (status == UCS_OK) {
        status = uct_vqp_slabs_get(&iface->slabs, &vqp->chunk, level);
    }
    if (status != UCS_OK) {
        goto err_delist;
    }

    for (num_qps = 0; num_qps < vqp->core.num_paths; ++num_qps) {
        status = uct_vqp_init_path(vqp, num_qps);
        if ((status == UCS_OK) && (num_qps < iface->set.min_paths)) {
            status = uct_vqp_renew_qp(vqp, num_qps, iface->set.first_depth, level);
        }
        if (status != UCS_OK) {
            ++num_qps; /* it may have entries of a CQ */
            goto err_destroy_qps;
        }
    }

    uct_vqp_layout(&iface->set, &layout);
    uct_vqp_fill_local(vqp, &layout);
    uct_vqp_stats_vfs_add(vqp);
    *vqp_p = vqp;
    return UCS_OK;

err_destroy_qps:
    uct_vqp_destroy_qps(vqp, num_qps);
    uct_vqp_slabs_put(&iface->slabs, &vqp->chunk);
err_delist:
    uct_vqp_delist(vqp);
err_free_tables:
    uct_vqp_free_tables(vqp);
err_free:
    ucs_free(vqp);
    return status;
}

void uct_vqp_destroy(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;

    iface->lost |= vqp_tx_take_lost(&vqp->core.tx, VQP_LOST_INTERFACE) != 0;
    vqp_conn_release(&vqp->conn);
    ucs_vfs_obj_remove(vqp);
    uct_vqp_stats_collect(vqp);
    uct_vqp_destroy_qps(vqp, vqp->core.num_paths);
    uct_vqp_rings_free(vqp);
    uct_vqp_slabs_put(&iface->slabs, &vqp->chunk);
    uct_vqp_delist(vqp);
    uct_vqp_free_tables(vqp);
    ucs_free(vqp);
}
