/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of the control plane, see vqp_cm_handler.h. */
#include "uct/vqp_cm_handler.h"

#include "uct/vqp_cm.h"
#include "uct/vqp_timers.h"

#include "verbs/pinned.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/time/time.h>

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define UCT_VQP_CM_RETRY      (20ull * 1000 * 1000)   /* ns */
#define UCT_VQP_CM_RETRY_MAX  (1000ull * 1000 * 1000) /* ns */
#define UCT_VQP_CM_CLOSE      (5000ull * 1000 * 1000) /* ns */
#define UCT_VQP_CM_TICK       (900ull * 1000 * 1000)  /* ns */
#define UCT_VQP_CM_RECVS      256u /* buffers of datagrams, on each rail */
#define UCT_VQP_CM_SENDS      64u
#define UCT_VQP_CM_HASH_ORDER 8
#define UCT_VQP_CM_IDLE_PEERS 4096
#define UCT_VQP_CM_UNPROVEN   128 /* limit of passive vqps whose peer has not proven
                                    to receive our messages: bounds the memory that
                                    datagrams can pin */

static void uct_vqp_cm_ud_cb(int fd, ucs_event_set_types_t events, void *arg)
{
    uct_vqp_iface_t *iface = arg;
    const vqp_ib_chan_t *chan;
    unsigned i;

    uct_vqp_cm_poll(iface);
    for (i = 0; i < iface->num_rails; ++i) {
        chan = &iface->rails[i].ud.chan;
        if ((vqp_ib_chan_fd(chan) == fd) && vqp_ib_chan_is_broken(chan)) {
            if (!uct_vqp_rail_is_broken(&iface->rails[i])) {
                ucs_warn("%s: events of the control queue are not waited for any more, it "
                         "is polled once a second", chan->dev_name);
            }
            ucs_async_modify_handler(fd, 0);
        }
    }
}

static void
uct_vqp_cm_left_cb(int fd, ucs_event_set_types_t events, void *arg)
{
    uint64_t value;

    if ((read(fd, &value, sizeof(value)) < 0) && (errno != EAGAIN)) {
        ucs_error("failed to read an eventfd: %m");
    }

    uct_vqp_cm_poll(arg);
}

/* Periodic checks, once a second. Wakes a sleeper only if a check is due. */
static void
uct_vqp_cm_slow_cb(int id, ucs_event_set_types_t events, void *arg)
{
    uct_vqp_iface_t *iface = arg;
    uint64_t now           = uct_vqp_now();
    int wake               = (iface->telemetry != NULL); /* of what it did last */
    int no_event           = 0;
    unsigned i;

    if (now - iface->last_tick < UCT_VQP_CM_TICK) {
        return; /* the async mode "poll" calls at every progress */
    }

    iface->last_tick = now;
    for (i = 0; i < iface->num_rails; ++i) {
        no_event |= !uct_vqp_rail_is_broken(&iface->rails[i]) &&
                    (iface->rails[i].ud.broken || iface->rails[i].ud.no_event);
    }

    if (no_event) {
        uct_vqp_cm_poll(iface); /* rebuilds it, and requests an event */
    }

    wake |= uct_vqp_iface_has_timer(iface, now);
    uct_vqp_cm_run(iface); /* the timer for what is due soon */
    if (wake) {
        uct_vqp_iface_signal(iface, UCT_VQP_EVENT_TICK);
    } else {
        __atomic_fetch_or(&iface->events, UCT_VQP_EVENT_TICK, __ATOMIC_RELAXED);
    }
}

/* Two interfaces of a port never have the same control queue pair at the same time.
 * Later ones differ by the random bits. */
static uint64_t uct_vqp_cm_new_id(uct_vqp_iface_t *iface)
{
    vqp_dev_addr_t addr;

    uct_vqp_local_dev_addr(iface, &addr);
    return vqp_iface_id(&addr, ((uct_vqp_random_next(&iface->random) & 0xffff) << 24) |
                               iface->rails[0].ud.qpn);
}

static ucs_status_t uct_vqp_cm_init_table(uct_vqp_iface_t *iface)
{
    vqp_conntab_config_t config = {
        .retry_first     = UCT_VQP_CM_RETRY,
        .retry_max       = UCT_VQP_CM_RETRY_MAX,
        .connect_timeout = iface->set.connect_timeout,
        .close_timeout   = UCT_VQP_CM_CLOSE,
        .num_rails       = (uint8_t)iface->num_rails,
        .features        = VQP_WIRE_FEATURE_RINGS | VQP_WIRE_FEATURE_PACK |
                           ((iface->set.notify == VQP_NOTIFY_SPRAY) ?
                                    VQP_WIRE_FEATURE_SPRAY : 0) |
                           (iface->set.failover ?
                                    VQP_WIRE_FEATURE_FAILOVER |
                                    VQP_WIRE_FEATURE_ELASTIC : 0) |
                           (iface->set.rail_moves ? VQP_WIRE_FEATURE_RAILS : 0) |
                           (uct_vqp_iface_counts(iface) ?
                                    VQP_WIRE_FEATURE_COUNTS : 0),
        .max_unproven    = UCT_VQP_CM_UNPROVEN,
        .log_states      = ucs_log_is_enabled(UCS_LOG_LEVEL_DEBUG),
        .hash_order      = UCT_VQP_CM_HASH_ORDER,
        .num_idle        = UCT_VQP_CM_IDLE_PEERS
    };
    ucs_status_t status;

    status = uct_vqp_random_reserve(&iface->random, 3);
    if (status != UCS_OK) {
        return status;
    }

    iface->id          = uct_vqp_cm_new_id(iface);
    config.iface_id    = iface->id;
    config.secret[0]   = uct_vqp_random_next(&iface->random);
    config.secret[1]   = uct_vqp_random_next(&iface->random);
    iface->conntab_mem = ucs_calloc(1, vqp_conntab_mem_size(&config),
                                    "uct_vqp_conntab");
    if (iface->conntab_mem == NULL) {
        ucs_error("failed to allocate the table of connections");
        return UCS_ERR_NO_MEMORY;
    }

    status = uct_vqp_status(vqp_conntab_init(&iface->conntab, &config,
                                             iface->conntab_mem));
    if (status != UCS_OK) {
        ucs_free(iface->conntab_mem);
    }
    return status;
}

static ucs_status_t uct_vqp_cm_init_ud(uct_vqp_iface_t *iface, unsigned index)
{
    uct_vqp_rail_t *rail      = &iface->rails[index];
    vqp_ib_ud_params_t params = {
        .dev        = rail->dev,
        .resolver   = &rail->resolver,
        .port       = &rail->port,
        .gid        = &rail->gid,
        .pkey_index = rail->pkey_index,
        .tclass     = rail->tclass,
        .hop_limit  = iface->set.hop_limit,
        .sl         = iface->set.sl,
        .num_recvs  = UCT_VQP_CM_RECVS,
        .num_sends  = UCT_VQP_CM_SENDS,
        .num_ahs    = 256
    };
    vqp_status_t status;

    UCS_STATIC_ASSERT(VQP_IB_PINNED_CONTROL ==
                      (UCT_VQP_CM_RECVS + UCT_VQP_CM_SENDS) * VQP_IB_UD_SLOT_SIZE(4096));

    status = vqp_ib_resolver_init(&rail->resolver, rail->dev,
                                  rail->port.link == VQP_IB_LINK_ETH);
    if (status != VQP_OK) {
        return uct_vqp_status(status);
    }

    status = vqp_ib_ud_init(&rail->ud, &params);
    if (status != VQP_OK) {
        vqp_ib_resolver_cleanup(&rail->resolver);
    }

    return uct_vqp_status(status);
}

static void uct_vqp_cm_cleanup_ud(uct_vqp_iface_t *iface, unsigned index)
{
    vqp_ib_ud_cleanup(&iface->rails[index].ud);
    vqp_ib_resolver_cleanup(&iface->rails[index].resolver);
}

static ucs_status_t
uct_vqp_cm_add_handler(uct_vqp_iface_t *iface, int fd, ucs_async_event_cb_t cb)
{
    ucs_async_context_t *async = iface->super.worker->async;

    return ucs_async_set_event_handler(async->mode, fd, UCS_EVENT_SET_EVREAD,
                                       cb, iface, async);
}

static ucs_status_t uct_vqp_cm_start(uct_vqp_iface_t *iface)
{
    ucs_async_context_t *async = iface->super.worker->async;
    ucs_status_t status;
    unsigned i;

    iface->cm_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (iface->cm_fd < 0) {
        ucs_error("eventfd() failed: %m");
        return UCS_ERR_IO_ERROR;
    }

    status = uct_vqp_cm_add_handler(iface, iface->cm_fd, uct_vqp_cm_left_cb);
    if (status != UCS_OK) {
        goto err_close;
    }

    for (i = 0; i < iface->num_rails; ++i) {
        vqp_ib_ud_arm(&iface->rails[i].ud);
        status = uct_vqp_cm_add_handler(iface,
                                        vqp_ib_ud_fd(&iface->rails[i].ud),
                                        uct_vqp_cm_ud_cb);
        if (status != UCS_OK) {
            goto err_remove;
        }
    }

    status = ucs_async_add_timer(async->mode, ucs_time_from_sec(1.0),
                                 uct_vqp_cm_slow_cb, iface, async,
                                 &iface->tick_timer);
    if (status != UCS_OK) {
        goto err_remove;
    }

    return UCS_OK;

err_remove:
    while (i-- > 0) {
        ucs_async_remove_handler(vqp_ib_ud_fd(&iface->rails[i].ud), 1);
    }
    ucs_async_remove_handler(iface->cm_fd, 1);
err_close:
    ucs_error("failed to start the handler of connections: %s",
              ucs_status_string(status));
    close(iface->cm_fd);
    return status;
}

ucs_status_t uct_vqp_cm_init(uct_vqp_iface_t *iface)
{
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        status = uct_vqp_cm_init_ud(iface, i);
        if (status != UCS_OK) {
            goto err_cleanup_ud;
        }
    }

    status = uct_vqp_cm_init_table(iface);
    if (status != UCS_OK) {
        goto err_cleanup_ud;
    }

    status = uct_vqp_cm_start(iface);
    if (status != UCS_OK) {
        goto err_free;
    }

    return UCS_OK;

err_free:
    ucs_free(iface->conntab_mem);
err_cleanup_ud:
    while (i-- > 0) {
        uct_vqp_cm_cleanup_ud(iface, i);
    }
    return status;
}

void uct_vqp_cm_stop_rail(uct_vqp_iface_t *iface, unsigned rail, int sync)
{
    if (!iface->rails[rail].ud_ignored) {
        iface->rails[rail].ud_ignored = 1;
        ucs_async_remove_handler(vqp_ib_ud_fd(&iface->rails[rail].ud), sync);
    }
}

void uct_vqp_cm_stop(uct_vqp_iface_t *iface)
{
    unsigned i;
    int timer;

    for (i = 0; i < iface->num_rails; ++i) {
        uct_vqp_cm_stop_rail(iface, i, 1);
    }

    ucs_async_remove_handler(iface->cm_fd, 1);
    ucs_async_remove_handler(iface->tick_timer, 1);
    UCS_ASYNC_BLOCK(iface->super.worker->async);
    timer           = iface->cm_timer;
    iface->cm_timer = 0;
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);
    if (timer != 0) {
        ucs_async_remove_handler(timer, 1);
    }
}

void uct_vqp_cm_cleanup(uct_vqp_iface_t *iface)
{
    unsigned i;

    close(iface->cm_fd);
    for (i = 0; i < iface->num_rails; ++i) {
        uct_vqp_cm_cleanup_ud(iface, i);
    }

    ucs_free(iface->conntab_mem);
}
