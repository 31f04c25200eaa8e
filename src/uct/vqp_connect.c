/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting a vqp to a peer; see vqp.h. */
#include "uct/vqp.h"
#include "uct/vqp_flow.h"
#include "uct/vqp_qps.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>

/* ns; a peer that polls answers within some us */
#define UCT_VQP_PATH_RETRY     (2ull * 1000 * 1000)
#define UCT_VQP_PATH_RETRY_MAX (200ull * 1000 * 1000)
#define UCT_VQP_PATH_HOLD      (10ull * 1000 * 1000)
#define UCT_VQP_PATH_HOLD_MAX  (500ull * 1000 * 1000)
#define UCT_VQP_SLOW_FIRST     (50ull * 1000 * 1000)
#define UCT_VQP_SLOW_MAX       (60ull * 1000 * 1000 * 1000)
#define UCT_VQP_ELASTIC        (2ull * 1000 * 1000)
#define UCT_VQP_RING_IDLE      (5ull * 1000 * 1000 * 1000)
#define UCT_VQP_PATH_TIMEOUT   (2ull * 1000 * 1000) /* PATH_TIMEOUT=auto */

/* Do both sides' parameters fit? Logs what does not. */
static vqp_status_t
uct_vqp_check_peer(const uct_vqp_t *vqp, const vqp_wire_info_t *peer)
{
    const vqp_wire_info_t *own = vqp->local;

    switch (vqp_peer_fit(own, peer)) {
    case VQP_PEER_FITS:
        return VQP_OK;
    case VQP_PEER_RING_SIZE:
        ucs_error("a peer has UCX_VQP_RING_MIN=%u, here it is %u: it must be "
                  "the same on both sides", peer->ring_size, own->ring_size);
        break;
    case VQP_PEER_FSN_WINDOW:
        ucs_error("a peer has UCX_VQP_FSN_WINDOW=%u, here it is %u: it must "
                  "be the same on both sides", peer->fsn_window,
                  own->fsn_window);
        break;
    case VQP_PEER_RX_DEPTH:
        ucs_error("a peer posts %u receives on a path, a window of %u needs %u",
                  peer->rx_depth, own->fsn_window,
                  own->fsn_window + VQP_CONTROL_RESERVE);
        break;
    case VQP_PEER_READS:
        ucs_error("a peer serves no READs");
        break;
    }

    return VQP_ERR_UNREACHABLE;
}

/* Rails of this side that paths may move between; 0: paths stay on their rails */
static unsigned uct_vqp_count_rails(const uct_vqp_t *vqp)
{
    return (vqp->iface->set.rail_moves && uct_vqp_has_failover(vqp) &&
            (vqp->conn.peer_features & VQP_WIRE_FEATURE_RAILS)) ?
                   vqp->iface->num_rails : 0;
}

/* Paths that the connection may have, and of these those that it begins with */
static unsigned uct_vqp_count_paths(const uct_vqp_t *vqp, const vqp_wire_info_t *peer,
                                    unsigned *num_connected)
{
    unsigned theirs = (peer->max_paths != 0) ? peer->max_paths : peer->num_paths;

    *num_connected = ucs_min(vqp->local->num_paths, peer->num_paths);
    return (uct_vqp_has_failover(vqp) &&
            (vqp->conn.peer_features & VQP_WIRE_FEATURE_ELASTIC)) ?
                   ucs_min(vqp->core.num_paths, theirs) : *num_connected;
}

/* Spray is for one rail: an acknowledgement of one device does not order its data
 * before data of another device */
static uint8_t
uct_vqp_notify(const uct_vqp_iface_t *iface, const vqp_wire_info_t *peer)
{
    if ((iface->set.notify == VQP_NOTIFY_SPRAY) &&
        ((iface->num_rails > 1) || (peer->num_rails > 1))) {
        ucs_debug("UCX_VQP_NOTIFY=spray is tail between several rails");
        return VQP_NOTIFY_TAIL;
    }

    return iface->set.notify;
}

/* Resolve NOTIFY=auto for this connection. A message of up to paths x MIN_FRAG
 * bytes has no more frags than paths. */
static void uct_vqp_log_notify(const uct_vqp_t *vqp, unsigned num_paths)
{
    const vqp_tx_config_t *cfg = &vqp->core.tx.cfg;
    uint64_t limit             = (uint64_t)num_paths << cfg->min_shift;

    if (cfg->notify != VQP_NOTIFY_AUTO) {
        return;
    }

    if ((num_paths == 1) || (cfg->ring_size / 2 <= limit)) {
        ucs_debug("vqp %u: notify auto is %s", vqp->number,
                  (num_paths == 1) ? "none: messages have one frag" : "dqplb");
    } else {
        ucs_debug("vqp %u: notify auto is dqplb for messages of up to %" PRIu64
                  " bytes, tail above", vqp->number,
                  limit - sizeof(vqp_record_t));
    }
}

/* Store the peer's rails and paths */
static ucs_status_t uct_vqp_init_peer(uct_vqp_t *vqp, const vqp_wire_info_t *peer,
                                      unsigned num_paths, unsigned num_connected)
{
    unsigned i;

    vqp->peer_reads = peer->max_reads;
    vqp->peer_info  = ucs_calloc(peer->num_rails, sizeof(*vqp->peer_info),
                                 "uct_vqp_peer_info");
    if (vqp->peer_info == NULL) {
        ucs_error("failed to allocate the rails of a peer");
        return UCS_ERR_NO_MEMORY;
    }

    memcpy(vqp->peer_info, peer->rails,
           peer->num_rails * sizeof(*vqp->peer_info));
    vqp->key_layout = uct_vqp_layout_id(peer->num_rails, peer->key_layout);
    for (i = 0; i < peer->num_rails; ++i) {
        vqp->ring_rkeys[i]    = peer->rails[i].ring_rkey;
        vqp->scratch_rkeys[i] = peer->rails[i].scratch_rkey;
    }

    for (i = 0; i < num_paths; ++i) {
        if (i < num_connected) {
            vqp->paths[i].peer_rail = peer->paths[i].rail;
            vqp->peer_rails        |= (uint8_t)UCS_BIT(peer->paths[i].rail);
        } else { /* it may lead to any of them */
            vqp->peer_rails |= (uint8_t)UCS_MASK(peer->num_rails);
        }
    }

    return UCS_OK;
}

static void
uct_vqp_fill_tx_config(const uct_vqp_t *vqp, const vqp_wire_info_t *peer,
                       vqp_tx_config_t *cfg)
{
    const uct_vqp_iface_t *iface  = vqp->iface;
    const uct_vqp_settings_t *set = &iface->set;
    uct_vqp_layout_t layout;

    uct_vqp_layout(set, &layout);
    cfg->ring_size    = set->ring_min;
    cfg->fsn_window   = set->fsn_window;
    cfg->first_fsn    = vqp->local->first_fsn;
    cfg->path_cap     = set->path_bytes;
    cfg->single_cap   = set->single_bytes;
    cfg->single_shift = set->single_shift;
    cfg->cap_growth   = set->cap_growth;
    cfg->signal_every = set->tx_moderation;
    cfg->inline_max   = (uint32_t)iface->inline_max;
    cfg->min_shift    = set->min_shift;
    cfg->max_shift    = set->max_shift;
    cfg->frag_shift   = set->frag_shift;
    cfg->notify       = uct_vqp_notify(iface, peer);
    cfg->sched        = set->sched;
    cfg->order_all    = set->order_all;
    cfg->comp_post    = set->comp_post;
    cfg->no_fast      = set->trace;
    cfg->most_ops     = set->num_ops;
    cfg->local_lkeys  = vqp->chunk.slab->mr.lkey;
    cfg->ring_raddr   = peer->ring_addr;
    cfg->cells_raddr  = peer->cell_addr;
    cfg->ring_rkeys   = vqp->ring_rkeys;
    cfg->cells        = (vqp_cell_t*)vqp->chunk.local;
    cfg->amo_results  = (uint64_t*)(vqp->chunk.local + layout.amo);
    if (uct_vqp_has_failover(vqp)) {
        cfg->scratch.source = (uintptr_t)vqp->iface->scratch.source;
        cfg->scratch.lkeys  = vqp->iface->scratch.source_mr.lkey;
        cfg->scratch.raddr  = peer->scratch_addr;
        cfg->scratch.rkeys  = vqp->scratch_rkeys;
    }
}

/* A false alarm may cost the result of an atomic, of either side, if the device of the
 * other one does not count what it executes */
static uint64_t uct_vqp_silence(const uct_vqp_t *vqp)
{
    if (vqp->iface->set.path_timeout != UCT_VQP_AUTO) {
        return vqp->iface->set.path_timeout;
    }

    return (uct_vqp_iface_counts(vqp->iface) &&
            (vqp->conn.peer_features & VQP_WIRE_FEATURE_COUNTS)) ?
                   UCT_VQP_PATH_TIMEOUT : 0;
}

static void uct_vqp_init_core(uct_vqp_t *vqp, const vqp_wire_info_t *peer,
                              unsigned num_paths, unsigned num_connected, uint64_t down)
{
    const uct_vqp_settings_t *set = &vqp->iface->set;
    vqp_config_t config;
    uct_vqp_layout_t layout;

    memset(&config, 0, sizeof(config));
    uct_vqp_layout(set, &layout);
    uct_vqp_fill_tx_config(vqp, peer, &config.tx);
    config.am_ops         = vqp->ops;
    config.rma_ops        = vqp->ops + set->first_ops;
    config.num_am_ops     = set->first_ops;
    config.num_rma_ops    = set->first_ops;
    config.num_paths      = num_paths;
    config.num_connected  = num_connected;
    config.min_paths      = set->min_paths;
    config.depth          = set->send_depth - uct_vqp_spare_slots(set);
    config.peer_rails     = peer->num_rails;
    config.peer_first_fsn = peer->first_fsn;
    config.recv_batch     = set->rx_batch;
    config.am_ids         = UCT_AM_ID_MAX;
    config.map            = vqp->window_map;
    config.ring           = vqp->chunk.remote;
    config.tx.pack        = (vqp->conn.peer_features & VQP_WIRE_FEATURE_PACK) != 0;
    config.rings_on       = (vqp->conn.peer_features & VQP_WIRE_FEATURE_RINGS) != 0;
    config.ring_max       = set->ring_max;
    config.ring_idle      = UCT_VQP_RING_IDLE;
    config.rx_cells       = vqp->chunk.remote + layout.rx_cells;
    config.own_paths            = vqp->local->paths;
    config.peer_paths           = peer->paths;
    config.down                 = down;
    config.gap                  = (vqp->conn.peer_features &
                                   VQP_WIRE_FEATURE_SPRAY) ?
                                          0 : set->gap_timeout;
    config.probe                = set->probe_interval;
    config.failover.is_on       = uct_vqp_has_failover(vqp);
    config.failover.is_exact    = set->exact;
    config.failover.retry_first = UCT_VQP_PATH_RETRY;
    config.failover.retry_max   = UCT_VQP_PATH_RETRY_MAX;
    config.failover.hold_first  = UCT_VQP_PATH_HOLD;
    config.failover.hold_max    = UCT_VQP_PATH_HOLD_MAX;
    config.failover.outage      = set->outage_timeout;
    config.failover.silence     = uct_vqp_silence(vqp);
    config.failover.slow        = set->slow_path;
    config.failover.slow_first  = UCT_VQP_SLOW_FIRST;
    config.failover.slow_max    = UCT_VQP_SLOW_MAX;
    config.failover.rehash      = (uint8_t)uct_vqp_iface_can_rehash(vqp->iface);
    config.failover.num_rails   = (uint8_t)uct_vqp_count_rails(vqp);
    config.failover.decides     = (config.failover.num_rails != 0) &&
                                  (vqp->conn.cookie < vqp->conn.peer_cookie);
    config.failover.elastic     = (set->min_paths < num_paths) ? UCT_VQP_ELASTIC : 0;
    /* connections start on different paths */
    config.first_path     = vqp->number % num_connected;
    vqp_connect(&vqp->core, &config);
}

/* Has the rail of a path failed since the path was made? */
static int uct_vqp_has_broken_path(const uct_vqp_t *vqp, unsigned num_paths)
{
    unsigned i;

    for (i = 0; i < num_paths; ++i) {
        if (uct_vqp_rail_is_broken(&vqp->iface->rails[vqp->paths[i].rail])) {
            return 1;
        }
    }

    return 0;
}

/* Which paths lead to an address where no host answers? They begin down. Without failover
 * the endpoint would fail: to wait is better. VQP_INPROGRESS: not known yet, or all of
 * them. VQP_ERR_IO: without failover, a path is on a broken rail */
static vqp_status_t
uct_vqp_find_unresolved(uct_vqp_t *vqp, const vqp_wire_info_t *peer,
                        unsigned num_paths, uint64_t *down)
{
    unsigned good = 0, bad = 0;
    vqp_status_t status;
    unsigned i;

    *down = 0;
    if (!uct_vqp_has_failover(vqp)) {
        return uct_vqp_has_broken_path(vqp, num_paths) ? VQP_ERR_IO : VQP_OK;
    }

    for (i = 0; i < num_paths; ++i) {
        status = uct_vqp_resolve_path(vqp, i, &peer->rails[peer->paths[i].rail]);
        if (status == VQP_OK) {
            ++good;
        } else if (status == VQP_ERR_UNREACHABLE) {
            *down |= UCS_BIT(i);
            ++bad;
        }
    }

    return ((good > 0) && (good + bad == num_paths)) ? VQP_OK : VQP_INPROGRESS;
}

/* Connect the queue pairs of all paths but those in *down. With failover those that can not
 * be connected are added to *down, and get another queue pair when the vqp is live; one
 * path has to work. The peer sends nothing before it knows that this was done. */
static vqp_status_t
uct_vqp_connect_paths(uct_vqp_t *vqp, const vqp_wire_info_t *peer,
                      unsigned num_paths, uint64_t *down)
{
    vqp_status_t error = VQP_ERR_UNREACHABLE;
    unsigned left      = num_paths - ucs_popcount(*down);
    unsigned connected = 0;
    vqp_ib_log_level_t level;
    vqp_status_t status;
    unsigned i;

    for (i = 0; i < num_paths; ++i) {
        if (*down & UCS_BIT(i)) {
            continue;
        }

        --left; /* the last hope? */
        level  = (uct_vqp_has_failover(vqp) && ((connected > 0) || (left > 0))) ?
                         VQP_IB_LOG_FAULT : VQP_IB_LOG_ERROR;
        status = uct_vqp_connect_path(vqp, i, &peer->paths[i], level);
        if (status == VQP_OK) {
            ++connected;
            continue;
        }

        if (!uct_vqp_has_failover(vqp)) {
            return status;
        }

        error = status;
        *down |= UCS_BIT(i);
        uct_vqp_drop_qp(vqp, i);
        vqp->paths[i].recv_posted = 0;
    }

    return (connected == 0) ? error : VQP_OK;
}

vqp_status_t uct_vqp_connect(uct_vqp_t *vqp, const vqp_wire_info_t *peer)
{
    unsigned num_connected;
    unsigned num_paths = uct_vqp_count_paths(vqp, peer, &num_connected);
    vqp_status_t status;
    uint64_t down;
    unsigned i;

    status = uct_vqp_check_peer(vqp, peer);
    if (status != VQP_OK) {
        return status;
    }

    status = uct_vqp_find_unresolved(vqp, peer, num_connected, &down);
    if (status != VQP_OK) {
        return status;
    }

    if (uct_vqp_init_peer(vqp, peer, num_paths, num_connected) != UCS_OK) {
        return VQP_ERR_NO_MEMORY;
    }

    status = uct_vqp_connect_paths(vqp, peer, num_connected, &down);
    if (status != VQP_OK) {
        return status;
    }

    for (i = num_connected; i < num_paths; ++i) {
        uct_vqp_drop_qp(vqp, i); /* the peer begins with fewer paths */
    }

    uct_vqp_init_core(vqp, peer, num_paths, num_connected, down);
    ucs_debug("vqp %u: connected to iface 0x%" PRIx64 " number %u, %u of %u paths",
              vqp->number, vqp->conn.peer_id, vqp->conn.number, num_connected,
              num_paths);
    uct_vqp_log_notify(vqp, num_paths);
    return VQP_OK;
}
