/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport: its table of operations, opening and closing interfaces. */
#include "uct/vqp.h"
#include "uct/vqp_cm.h"
#include "uct/vqp_desc.h"
#include "uct/vqp_cm_handler.h"
#include "uct/vqp_control.h"
#include "uct/vqp_ep.h"
#include "uct/vqp_pending.h"
#include "uct/vqp_log.h"
#include "uct/vqp_mirror.h"
#include "uct/vqp_ring.h"
#include "uct/vqp_stats.h"
#include "uct/vqp_status.h"
#include "uct/vqp_telemetry.h"
#include "uct/vqp_timers.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/string.h>
#include <ucs/type/class.h>

/* Time limit of a close for ops in flight, and for the peers' answers to BYE */
#define UCT_VQP_LINGER (500ull * 1000 * 1000) /* ns */

static uct_iface_ops_t uct_vqp_iface_ops;
static uct_iface_internal_ops_t uct_vqp_iface_internal_ops;

static void
uct_vqp_desc_init(uct_iface_h tl_iface, void *obj, uct_mem_h memh)
{
    uct_vqp_desc_t *desc = obj;

    desc->lkeys = uct_vqp_memh_lkeys(memh);
}

static ucs_status_t
uct_vqp_iface_init_pool(uct_vqp_iface_t *iface,
                        const uct_vqp_iface_config_t *config)
{
    return uct_iface_mpool_init(&iface->super, &iface->tx_mp,
                                sizeof(uct_vqp_desc_t) + iface->set.seg_size,
                                sizeof(uct_vqp_desc_t),
                                UCS_SYS_CACHE_LINE_SIZE, &config->tx_mp, 64,
                                uct_vqp_desc_init, "vqp_tx");
}

/* "mlx5_0:1" names a port of the memory domain's device, or a bond by its first
 * port */
static ucs_status_t uct_vqp_parse_device(uct_vqp_md_t *md, const char *name,
                                         uint8_t *port_p)
{
    size_t length = strlen(md->devs[0].name);
    unsigned long port;
    char *end;

    if ((strncmp(name, md->devs[0].name, length) == 0) &&
        (name[length] == ':')) {
        port = strtoul(name + length + 1, &end, 10);
        if ((*end == '\0') && (port >= 1) && (port <= md->devs[0].num_ports) &&
            ((md->ports[0] == 0) || (port == md->ports[0]))) {
            *port_p = (uint8_t)port;
            return UCS_OK;
        }
    }

    ucs_error("device %s is not a port of %s", name, md->devs[0].name);
    return UCS_ERR_NO_DEVICE;
}

static ucs_status_t
uct_vqp_iface_init_rails(uct_vqp_iface_t *iface, uct_vqp_md_t *md,
                         uint8_t port, const uct_vqp_iface_config_t *config)
{
    uct_vqp_rail_t *rail;
    ucs_status_t status;

    iface->inline_max = iface->max_iov = SIZE_MAX;
    while (iface->num_rails < md->num_rails) {
        rail   = &iface->rails[iface->num_rails];
        status = uct_vqp_rail_init(iface, rail, &md->devs[iface->num_rails],
                                   (md->ports[iface->num_rails] != 0) ?
                                           md->ports[iface->num_rails] : port,
                                   config);
        if (status != UCS_OK) {
            goto err_cleanup;
        }

        ++iface->num_rails;
        if ((rail->gid.type != iface->rails[0].gid.type) ||
            (rail->gid.is_ipv4 != iface->rails[0].gid.is_ipv4) ||
            (rail->pkey != iface->rails[0].pkey)) {
            ucs_error("rails %s:%u and %s:%u of a bond have different types of "
                      "GIDs or partition keys", iface->rails[0].dev->name,
                      iface->rails[0].port.num, rail->dev->name,
                      rail->port.num);
            status = UCS_ERR_UNSUPPORTED;
            goto err_cleanup;
        }

        status = uct_vqp_probe_qp(iface, rail, config);
        if (status != UCS_OK) {
            goto err_cleanup;
        }
    }

    uct_vqp_iface_init_limits(iface);
    return UCS_OK;

err_cleanup:
    while (iface->num_rails > 0) {
        vqp_ib_cq_pool_cleanup(&iface->rails[--iface->num_rails].cqs);
    }
    return status;
}

static void uct_vqp_iface_cleanup_rails(uct_vqp_iface_t *iface)
{
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        vqp_ib_cq_pool_cleanup(&iface->rails[i].cqs);
    }
}

static void uct_vqp_iface_cleanup_state(uct_vqp_iface_t *self)
{
    unsigned i;

    uct_vqp_scratch_cleanup(&self->scratch);
    ucs_assertv(self->ring_bytes == 0, "%zu bytes of rings are still used",
                self->ring_bytes);
    uct_vqp_mirrors_cleanup(&self->mirrors);
    uct_vqp_slabs_cleanup(&self->slabs);
    ucs_arbiter_cleanup(&self->arbiter);
    ucs_string_buffer_cleanup(&self->vqp_stats);
    ucs_free(self->stats_file);
    for (i = 0; i < VQP_IB_WRID_VQP_MAX / UCT_VQP_CHUNK; ++i) {
        ucs_free(self->vqps[i]);
    }
    ucs_free(self->vqps);
}

static ucs_status_t
uct_vqp_iface_init_state(uct_vqp_iface_t *self, uct_vqp_md_t *md,
                         const uct_vqp_iface_config_t *config)
{
    uct_vqp_layout_t layout;
    ucs_status_t status;

    self->vqps = ucs_calloc(VQP_IB_WRID_VQP_MAX / UCT_VQP_CHUNK,
                            sizeof(*self->vqps), "uct_vqp_table");
    if (self->vqps == NULL) {
        ucs_error("failed to allocate the table of connections");
        return UCS_ERR_NO_MEMORY;
    }

    if (config->stats_file[0] != '\0') {
        self->stats_file = ucs_strdup(config->stats_file, "vqp_stats_file");
    }

    ucs_string_buffer_init(&self->vqp_stats);
    ucs_arbiter_init(&self->arbiter);
    ucs_list_head_init(&self->vqp_list);
    self->timer_due = VQP_TIMER_NEVER;
    uct_vqp_layout(&self->set, &layout);
    uct_vqp_slabs_init(&self->slabs, md, layout.remote_size, layout.local_size);
    uct_vqp_mirrors_init(&self->mirrors, md, self->set.ring_min);
    uct_vqp_rings_init(self);
    if (!self->set.failover) {
        return UCS_OK;
    }

    status = uct_vqp_scratch_init(&self->scratch, md);
    if (status != UCS_OK) {
        uct_vqp_iface_cleanup_state(self);
    }
    return status;
}

/* Alignment applies to messages in descriptors only, and messages stay in the ring
 * here: the parameter is checked, and has no effect */
static ucs_status_t
uct_vqp_iface_check_alignment(const uct_iface_params_t *params)
{
    if (!(params->field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT)) {
        if (params->field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET) {
            ucs_error("vqp: an alignment offset without an alignment");
            return UCS_ERR_INVALID_PARAM;
        }
        return UCS_OK;
    }

    /* the offset may exceed it: UCP passes the length of its header */
    if ((params->am_alignment == 0) || !ucs_is_pow2(params->am_alignment)) {
        ucs_error("vqp: an alignment of active messages of %zu, not a power of two",
                  params->am_alignment);
        return UCS_ERR_INVALID_PARAM;
    }

    return UCS_OK;
}

/* Whether the interface can be opened. @a port_p: on which port */
static ucs_status_t
uct_vqp_iface_check_params(uct_vqp_md_t *md, uct_worker_h worker,
                           const uct_iface_params_t *params, uint8_t *port_p)
{
    ucs_status_t status;

    /* not by UCT_CHECK_PARAM, which a release build of UCX compiles to nothing */
    if (!(params->field_mask & UCT_IFACE_PARAM_FIELD_OPEN_MODE)) {
        ucs_error("vqp: UCT_IFACE_PARAM_FIELD_OPEN_MODE is not defined");
        return UCS_ERR_INVALID_PARAM;
    }

    if (!(params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE)) {
        ucs_error("vqp supports only UCT_IFACE_OPEN_MODE_DEVICE");
        return UCS_ERR_UNSUPPORTED;
    }

    status = uct_vqp_iface_check_alignment(params);
    if (status != UCS_OK) {
        return status;
    }

    if (ucs_derived_of(worker, uct_priv_worker_t)->async->mode ==
        UCS_ASYNC_MODE_SIGNAL) {
        ucs_error("vqp does not work in the async mode \"signal\": a handler "
                  "may not take the locks of a verbs provider");
        return UCS_ERR_UNSUPPORTED;
    }

    return uct_vqp_parse_device(md, params->mode.device.dev_name, port_p);
}

/* From now on the events of the devices come to the interface */
static void uct_vqp_iface_watch(uct_vqp_iface_t *iface, uct_vqp_md_t *md)
{
    unsigned i;

    pthread_mutex_lock(&md->lock);
    ucs_list_add_tail(&md->ifaces, &iface->md_list);
    pthread_mutex_unlock(&md->lock);

    /* The event of a device that has failed since its rail was opened has found no
     * interface, and does not come again */
    for (i = 0; i < iface->num_rails; ++i) {
        if (vqp_ib_dev_is_broken(iface->rails[i].dev)) {
            uct_vqp_iface_rail_broken(iface, i);
        }
    }
}

static UCS_CLASS_INIT_FUNC(uct_vqp_iface_t, uct_md_h tl_md, uct_worker_h worker,
                           const uct_iface_params_t *params,
                           const uct_iface_config_t *tl_config)
{
    uct_vqp_md_t *md               = ucs_derived_of(tl_md, uct_vqp_md_t);
    uct_vqp_iface_config_t *config = ucs_derived_of(tl_config,
                                                    uct_vqp_iface_config_t);
    ucs_status_t status;
    uint8_t port;

    status = uct_vqp_iface_check_params(md, worker, params, &port);
    if (status != UCS_OK) {
        return status;
    }

    UCS_CLASS_CALL_SUPER_INIT(uct_base_iface_t, &uct_vqp_iface_ops,
                              &uct_vqp_iface_internal_ops, tl_md, worker,
                              params, tl_config UCS_STATS_ARG(
                                      (params->field_mask &
                                       UCT_IFACE_PARAM_FIELD_STATS_ROOT) ?
                                              params->stats_root : NULL)
                              UCS_STATS_ARG("vqp"));

    memset((char*)self + sizeof(self->super), 0,
           sizeof(*self) - sizeof(self->super));
    self->max_reported = UCT_VQP_MAX_REPORTED;
    vqp_turns_init(&self->turns, UCT_VQP_REBUILD_TIME, UCT_VQP_REBUILDS);
    status = uct_vqp_settings_init(&self->set, config, md->num_rails);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_iface_init_state(self, md, config);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_iface_init_rails(self, md, port, config);
    if (status != UCS_OK) {
        goto err_state;
    }

    status = uct_vqp_iface_init_pool(self, config);
    if (status != UCS_OK) {
        goto err_rails;
    }

    status = uct_vqp_iface_event_init(self);
    if (status != UCS_OK) {
        goto err_pool;
    }

    status = uct_vqp_cm_init(self);
    if (status != UCS_OK) {
        goto err_events;
    }

    uct_vqp_telemetry_open(self, config->telemetry);
    uct_vqp_iface_watch(self, md);
    uct_vqp_status_add(self);
    return UCS_OK;

err_events:
    uct_vqp_iface_event_cleanup(self);
err_pool:
    ucs_mpool_cleanup(&self->tx_mp, 0);
err_rails:
    uct_vqp_iface_cleanup_rails(self);
err_state:
    uct_vqp_iface_cleanup_state(self);
    return status;
}

/* Whether a connection is not yet closed in an orderly way */
static int uct_vqp_iface_is_closing(uct_vqp_iface_t *iface)
{
    int found = 0;
    uct_vqp_t *vqp;

    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        found |= (vqp->core.owner == VQP_OWNER_CLOSING) || (vqp->conn.state == VQP_CONN_CLOSING);
    }

    return found;
}

/* Wait for the answers to BYE, so that peers do not report a failure */
static void uct_vqp_iface_linger(uct_vqp_iface_t *iface)
{
    ucs_async_context_t *async = iface->super.worker->async;
    uint64_t until             = uct_vqp_now() + UCT_VQP_LINGER;
    int closing;

    do {
        uct_vqp_iface_progress(&iface->super.super);
        UCS_ASYNC_BLOCK(async);
        uct_vqp_cm_tick(iface);
        closing = uct_vqp_iface_is_closing(iface);
        UCS_ASYNC_UNBLOCK(async);
    } while (closing && (uct_vqp_now() < until));
}

/* Wait until control datagrams have been sent: without room for a RST it would be
 * lost, and its peer would learn of the end by its next use. Datagrams that
 * arrive are ignored. */
static void uct_vqp_iface_wait_control(uct_vqp_iface_t *iface, uint64_t until)
{
    vqp_ib_ud_msg_t msg;
    vqp_ib_ud_t *ud;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        ud = &iface->rails[i].ud;
        do {
            (void)vqp_ib_ud_poll(ud, &msg);
        } while ((ud->send_head != ud->send_tail) && !ud->broken &&
                 !uct_vqp_rail_is_broken(&iface->rails[i]) &&
                 (uct_vqp_now() < until));
    }
}

static void uct_vqp_iface_end_vqps(uct_vqp_iface_t *iface)
{
    ucs_async_context_t *async = iface->super.worker->async;
    uint64_t until             = uct_vqp_now() + UCT_VQP_LINGER;
    uct_vqp_t *vqp, *next;

    UCS_ASYNC_BLOCK(async); /* after the last action of the async side */
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if (vqp->conn.state != VQP_CONN_CLOSED) {
            vqp_conn_abort(&vqp->conn, !vqp->conn.owned, uct_vqp_now());
            uct_vqp_cm_run(iface);
            uct_vqp_iface_wait_control(iface, until);
        }
    }
    UCS_ASYNC_UNBLOCK(async);

    ucs_list_for_each_safe(vqp, next, &iface->vqp_list, list) {
        uct_vqp_cancel_all(vqp);
        uct_vqp_clear_timer(vqp);
        uct_vqp_destroy(vqp);
    }
}

static UCS_CLASS_CLEANUP_FUNC(uct_vqp_iface_t)
{
    uct_vqp_md_t *md = uct_vqp_iface_md(self);

    uct_base_iface_progress_disable(&self->super.super,
                                    UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    pthread_mutex_lock(&md->lock);
    ucs_list_del(&self->md_list);
    pthread_mutex_unlock(&md->lock);

    UCS_ASYNC_BLOCK(self->super.worker->async);
    self->is_closing = 1;
    UCS_ASYNC_UNBLOCK(self->super.worker->async);
    uct_vqp_iface_linger(self);
    uct_vqp_cm_stop(self);
    uct_vqp_status_remove(self);
    uct_vqp_iface_end_vqps(self);
    uct_vqp_stats_report(self);
    uct_vqp_telemetry_close(self);
    uct_vqp_cm_cleanup(self);
    uct_vqp_iface_event_cleanup(self);
    ucs_mpool_cleanup(&self->tx_mp, 0);
    uct_vqp_iface_cleanup_rails(self);
    uct_vqp_iface_cleanup_state(self);
}

UCS_CLASS_DEFINE(uct_vqp_iface_t, uct_base_iface_t);
static UCS_CLASS_DEFINE_NEW_FUNC(uct_vqp_iface_t, uct_iface_t, uct_md_h,
                                 uct_worker_h, const uct_iface_params_t*,
                                 const uct_iface_config_t*);
static UCS_CLASS_DEFINE_DELETE_FUNC(uct_vqp_iface_t, uct_iface_t);

static uct_iface_ops_t uct_vqp_iface_ops = {
    .ep_put_short             = uct_vqp_ep_put_short,
    .ep_put_bcopy             = uct_vqp_ep_put_bcopy,
    .ep_put_zcopy             = uct_vqp_ep_put_zcopy,
    .ep_get_bcopy             = uct_vqp_ep_get_bcopy,
    .ep_get_zcopy             = uct_vqp_ep_get_zcopy,
    .ep_am_short              = uct_vqp_ep_am_short,
    .ep_am_short_iov          = uct_vqp_ep_am_short_iov,
    .ep_am_bcopy              = uct_vqp_ep_am_bcopy,
    .ep_am_zcopy              = uct_vqp_ep_am_zcopy,
    .ep_atomic_cswap64        = uct_vqp_ep_atomic_cswap64,
    .ep_atomic64_post         = uct_vqp_ep_atomic64_post,
    .ep_atomic64_fetch        = uct_vqp_ep_atomic64_fetch,
    .ep_pending_add           = uct_vqp_ep_pending_add,
    .ep_pending_purge         = uct_vqp_ep_pending_purge,
    .ep_flush                 = uct_vqp_ep_flush,
    .ep_fence                 = uct_vqp_ep_fence,
    .ep_check                 = uct_vqp_ep_check,
    .ep_create                = UCS_CLASS_NEW_FUNC_NAME(uct_vqp_ep_t),
    .ep_destroy               = UCS_CLASS_DELETE_FUNC_NAME(uct_vqp_ep_t),
    .iface_flush              = uct_vqp_iface_flush,
    .iface_fence              = uct_vqp_iface_fence,
    .iface_progress_enable    = uct_base_iface_progress_enable,
    .iface_progress_disable   = uct_base_iface_progress_disable,
    .iface_progress           = uct_vqp_iface_progress,
    .iface_event_fd_get       = uct_vqp_iface_event_fd_get,
    .iface_event_arm          = uct_vqp_iface_event_arm,
    .iface_close              = UCS_CLASS_DELETE_FUNC_NAME(uct_vqp_iface_t),
    .iface_query              = uct_vqp_iface_query,
    .iface_get_device_address = uct_vqp_iface_get_device_address,
    .iface_get_address        = uct_vqp_iface_get_address,
    .iface_is_reachable       = uct_vqp_iface_is_reachable
};

static uct_iface_internal_ops_t uct_vqp_iface_internal_ops = {
    .iface_estimate_perf = uct_vqp_iface_estimate_perf,
    .iface_vfs_refresh   = uct_vqp_stats_vfs_refresh,
    .ep_query            = uct_vqp_ep_query,
    .ep_invalidate       = uct_vqp_ep_invalidate,
    UCT_VQP_INTERNAL_OPS_REST(uct_vqp_iface_is_reachable_v2,
                              uct_vqp_ep_is_connected)
};

UCT_TL_DEFINE_ENTRY(&uct_vqp_component, vqp, uct_vqp_query_tl_devices,
                    uct_vqp_iface_t, "VQP_", uct_vqp_iface_config_table,
                    uct_vqp_iface_config_t);
