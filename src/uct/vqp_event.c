/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping and waking: one descriptor is readable when a completion or an event
 * of the control plane waits. Completions that arrive before the CQ is armed
 * raise no event on some devices. So arming polls once more.
 */
#include "uct/vqp_iface.h"

#include <ucs/debug/log.h>

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

uint64_t uct_vqp_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ((uint64_t)ts.tv_sec * 1000000000ull) + (uint64_t)ts.tv_nsec + 1;
}

void uct_vqp_iface_signal(uct_vqp_iface_t *iface, uint32_t events)
{
    uint64_t one = 1;

    __atomic_fetch_or(&iface->events, events, __ATOMIC_RELEASE);
    /* EAGAIN: it is readable already */
    if ((write(iface->event_fd, &one, sizeof(one)) < 0) && (errno != EAGAIN)) {
        ucs_error("failed to write to an eventfd: %m");
    }
}

void uct_vqp_iface_event_clear(uct_vqp_iface_t *iface)
{
    uint64_t value;

    if ((read(iface->event_fd, &value, sizeof(value)) < 0) &&
        (errno != EAGAIN)) {
        ucs_error("failed to read an eventfd: %m");
    }
}

static ucs_status_t uct_vqp_event_add(uct_vqp_iface_t *iface, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(iface->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        ucs_error("epoll_ctl(ADD, fd=%d) failed: %m", fd);
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

ucs_status_t uct_vqp_iface_event_init(uct_vqp_iface_t *iface)
{
    ucs_status_t status = UCS_ERR_IO_ERROR;
    unsigned i;

    iface->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (iface->event_fd < 0) {
        ucs_error("eventfd() failed: %m");
        return UCS_ERR_IO_ERROR;
    }

    iface->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (iface->epoll_fd < 0) {
        ucs_error("epoll_create1() failed: %m");
        goto err_close_event;
    }

    status = uct_vqp_event_add(iface, iface->event_fd);
    for (i = 0; (i < iface->num_rails) && (status == UCS_OK); ++i) {
        status = uct_vqp_event_add(iface,
                                   vqp_ib_chan_fd(&iface->rails[i].cqs.chan));
    }

    if (status != UCS_OK) {
        goto err_close_epoll;
    }

    return UCS_OK;

err_close_epoll:
    close(iface->epoll_fd);
err_close_event:
    close(iface->event_fd);
    return status;
}

void uct_vqp_iface_event_cleanup(uct_vqp_iface_t *iface)
{
    close(iface->epoll_fd);
    close(iface->event_fd);
}

int uct_vqp_iface_has_rail(const uct_vqp_iface_t *iface, uint64_t rails)
{
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        if ((rails & UCS_BIT(i)) && !uct_vqp_rail_is_broken(&iface->rails[i])) {
            return 1;
        }
    }

    return 0;
}

void uct_vqp_iface_rail_broken(uct_vqp_iface_t *iface, unsigned rail)
{
    ucs_log_level_t level; /* ucs_log() evaluates it twice */

    if (!__atomic_exchange_n(&iface->rails[rail].is_broken, 1, __ATOMIC_ACQ_REL)) {
        level = uct_vqp_iface_has_rail(iface, UINT64_MAX) ? UCS_LOG_LEVEL_WARN :
                                                            UCS_LOG_LEVEL_ERROR;
        ucs_log(level, "%s:%u has failed for good, its paths are given up",
                iface->rails[rail].dev->name, iface->rails[rail].port.num);
    }

    uct_vqp_iface_signal(iface, UCT_VQP_EVENT_DEVICE);
}

void uct_vqp_poll_failed(uct_vqp_iface_t *iface, vqp_ib_cq_t *cq)
{
    unsigned i;

    if (cq->failures < VQP_IB_CQ_MAX_FAILURES) {
        ++cq->failures;
        iface->flush.paths = 0; /* nothing is awaited by polls that fail */
        vqp_ib_log(VQP_IB_LOG_FAULT, "failed to poll a completion queue of %s", cq->dev_name);
        return;
    }

    for (i = 0; i < iface->num_rails; ++i) {
        if (vqp_ib_cq_pool_has(&iface->rails[i].cqs, cq->cq)) {
            vqp_ib_dev_set_broken(iface->rails[i].dev);
            uct_vqp_iface_rail_broken(iface, i);
        }
    }
}

void uct_vqp_iface_event_stop_rail(uct_vqp_iface_t *iface, unsigned rail)
{
    int fd = vqp_ib_chan_fd(&iface->rails[rail].cqs.chan);

    if (epoll_ctl(iface->epoll_fd, EPOLL_CTL_DEL, fd, NULL) < 0) {
        ucs_error("epoll_ctl(DEL, fd=%d) failed: %m", fd);
    }
}

ucs_status_t uct_vqp_iface_event_fd_get(uct_iface_h tl_iface, int *fd_p)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);

    iface->may_sleep   = 1;
    iface->timer_calls = iface->timer_skip = 0;
    iface->todo       |= UCT_VQP_TODO_WAKE;
    *fd_p              = iface->epoll_fd;
    return UCS_OK;
}

/* Poll completions that precede the arming; progress handles them. @return 0 if there are
 * none, and no poll has failed */
static unsigned uct_vqp_event_poll(uct_vqp_iface_t *iface)
{
    unsigned num_failed = 0;
    uct_vqp_rail_t *rail;
    unsigned i, j;
    int count;

    iface->next_deferred_wc = iface->num_deferred_wcs = 0;
    for (i = 0; i < iface->num_rails; ++i) {
        rail = &iface->rails[i];
        if (rail->is_given_up) {
            continue;
        }

        for (j = 0; j < vqp_ib_cq_pool_count(&rail->cqs); ++j) {
            count = vqp_ib_poll(&rail->cqs.cqs[j],
                                iface->deferred_wcs + iface->num_deferred_wcs,
                                UCT_VQP_MAX_POLL - (int)iface->num_deferred_wcs);
            if (count < 0) {
                uct_vqp_poll_failed(iface, &rail->cqs.cqs[j]);
                ++num_failed;
            } else if (count > 0) {
                iface->num_deferred_wcs += (unsigned)count;
                iface->todo             |= UCT_VQP_TODO_WCS;
            }
        }
    }

    return iface->num_deferred_wcs + num_failed;
}

/* A deferred vqp needs progress to look at the clock: it waits for a path that may
 * have stopped, and then no completion comes. So the wait ends by a completion, or
 * when the path is late by its own rate. Until then the application polls. */
static int uct_vqp_event_is_busy(const uct_vqp_iface_t *iface)
{
    return iface->in_progress || /* called from a user callback */
           (iface->todo & (UCT_VQP_TODO_WCS | UCT_VQP_TODO_WAKE)) ||
           uct_vqp_iface_has_events(iface) || (iface->scheduled != NULL) ||
           (iface->deferred != NULL) ||
           !ucs_arbiter_is_empty((ucs_arbiter_t*)&iface->arbiter);
}

/* @return 0 if nobody can be woken by the rail. If it stays so, progress gives the rail up, and
 * ends or moves what uses it. */
static int uct_vqp_event_arm_rail(uct_vqp_iface_t *iface, unsigned index)
{
    uct_vqp_rail_t *rail = &iface->rails[index];
    int is_chan_broken;

    (void)vqp_ib_chan_drain(&rail->cqs.chan);
    is_chan_broken = vqp_ib_chan_is_broken(&rail->cqs.chan);
    if (!is_chan_broken && (vqp_ib_cq_pool_arm(&rail->cqs) == VQP_OK)) {
        rail->arm_failures = 0;
        return 1;
    }

    if (is_chan_broken || (++rail->arm_failures >= VQP_IB_CQ_MAX_FAILURES)) {
        uct_vqp_iface_rail_broken(iface, index);
    }

    return 0;
}

/* UCP ends the process if this returns an error */
ucs_status_t uct_vqp_iface_event_arm(uct_iface_h tl_iface, unsigned events)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);
    unsigned i;

    if (uct_vqp_event_is_busy(iface)) {
        return UCS_ERR_BUSY;
    }

    /* again: a signal may be written after its events were handled */
    uct_vqp_iface_event_clear(iface);
    for (i = 0; i < iface->num_rails; ++i) {
        if (!iface->rails[i].is_given_up && !uct_vqp_event_arm_rail(iface, i)) {
            return UCS_ERR_BUSY;
        }
    }

    return ((uct_vqp_event_poll(iface) > 0) || uct_vqp_event_is_busy(iface)) ?
                   UCS_ERR_BUSY : UCS_OK;
}
