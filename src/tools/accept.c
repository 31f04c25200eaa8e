/* SPDX-License-Identifier: BSD-3-Clause */
/* An interface, an endpoint, memory, and lines of the report, see accept.h. */
#include "tools/accept.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ACCEPT_IDLE 64   /* empty calls of progress, then others get the CPU */
#define ACCEPT_LOOK 1024 /* calls of progress between two looks at the link */

unsigned accept_warnings, accept_problems;

/* ---- lines ---- */

void accept_line(accept_line_t kind, const char *format, ...)
{
    static const char *const prefixes[] = {
        [ACCEPT_OK] = "ok", [ACCEPT_WARNING] = "warning", [ACCEPT_PROBLEM] = "problem"
    };
    va_list ap;

    accept_warnings += (kind == ACCEPT_WARNING);
    accept_problems += (kind == ACCEPT_PROBLEM);
    printf("%s: ", prefixes[kind]);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    printf("\n");
}

double accept_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + ((double)now.tv_nsec * 1e-9);
}

/* Told by the other process, the end is the first error here, and known there */
static int accept_told(accept_end_t *end, const char *failed)
{
    if (end->status == UCS_OK) {
        end->status = UCS_ERR_IO_ERROR;
        end->told   = 1;
        snprintf(end->failed, sizeof(end->failed), "%s", failed);
    }

    return 0;
}

int accept_fail(accept_end_t *end, const char *failed, ucs_status_t status)
{
    if (end->status == UCS_OK) {
        end->status = status;
        snprintf(end->failed, sizeof(end->failed), "%s: %s", failed,
                 ucs_status_string(status));
    }

    return 0;
}

/* ---- the other process ---- */

int accept_send(accept_end_t *end, const void *data, size_t length)
{
    return (end->status == UCS_OK) &&
           (accept_link_send(end->link, ACCEPT_FRAME_DATA, data, length) ||
            accept_told(end, "the other process has ended"));
}

/* Data stays in the link until it is received */
static void accept_look(accept_end_t *end)
{
    char text[200];
    int status;

    if (end->arrived) {
        return;
    }

    status = accept_link_poll(end->link);
    if (status < 0) {
        (void)accept_told(end, "the other process has ended");
    } else if (status == 0) {
        return;
    } else if (end->link->in.head.type == ACCEPT_FRAME_DATA) {
        end->arrived = 1;
    } else if (end->link->in.head.type == ACCEPT_FRAME_FAILED) {
        snprintf(text, sizeof(text), "at the other end: %.170s", end->link->in.data);
        (void)accept_told(end, text);
    } else {
        (void)accept_told(end, "the other process does something else");
    }
}

/* A software device needs the CPU, too */
int accept_progress(accept_end_t *end, double until)
{
    if (uct_worker_progress(end->worker) != 0) {
        end->idle = 0;
    } else if (++end->idle >= ACCEPT_IDLE) {
        end->idle = 0;
        sched_yield();
    }

    if ((++end->calls % ACCEPT_IDLE == 0) && (accept_now() > until)) {
        return accept_fail(end, "what was sent does not arrive", UCS_ERR_TIMED_OUT);
    }
    if (end->calls % ACCEPT_LOOK == 0) {
        accept_look(end);
    }

    return end->status == UCS_OK;
}

int accept_receive_any(accept_end_t *end)
{
    double until = accept_now() + ACCEPT_SILENCE;

    do {
        if (end->calls % ACCEPT_IDLE == 0) {
            accept_look(end);
            if (accept_now() > until) {
                end->link->ended = 1;
                return accept_told(end, "the other process says nothing");
            }
        }
        if (end->arrived) {
            end->arrived = 0;
            return 1;
        }
    } while (accept_progress(end, until + ACCEPT_LIMIT));

    return 0;
}

int accept_receive(accept_end_t *end, void *data, size_t length)
{
    if (!accept_receive_any(end)) {
        return 0;
    } else if (end->link->in.head.length != length) {
        return accept_fail(end, "the other process has sent something else",
                           UCS_ERR_INVALID_PARAM);
    }

    memcpy(data, end->link->in.data, length);
    return 1;
}

/* ---- interface and endpoint ---- */

static ucs_status_t accept_on_error(void *arg, uct_ep_h ep, ucs_status_t status)
{
    (void)ep;
    (void)accept_fail(arg, "the endpoint has failed", status);
    return UCS_OK;
}

static int accept_iface_open(accept_end_t *end, const accept_port_t *port)
{
    uct_iface_params_t params = {
        .field_mask           = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                                UCT_IFACE_PARAM_FIELD_DEVICE |
                                UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                                UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                                UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS,
        .open_mode            = UCT_IFACE_OPEN_MODE_DEVICE,
        .mode.device.tl_name  = ACCEPT_TL,
        .mode.device.dev_name = port->dev,
        .err_handler          = accept_on_error,
        .err_handler_arg      = end
    };
    uct_iface_config_t *config;
    ucs_status_t status;

    end->md = accept_md_open(end->component, port->md);
    if (end->md == NULL) {
        return accept_fail(end, "the memory domain can not be opened", UCS_ERR_NO_DEVICE);
    }

    status = uct_md_query(end->md, &end->md_attr);
    if (status == UCS_OK) {
        status = uct_md_iface_config_read(end->md, ACCEPT_TL, NULL, NULL, &config);
    }
    if (status != UCS_OK) {
        return accept_fail(end, "the configuration can not be read", status);
    }

    status = uct_iface_open(end->md, end->worker, &params, config, &end->iface);
    uct_config_release(config);
    if (status != UCS_OK) {
        end->iface = NULL;
        return accept_fail(end, "the interface can not be opened", status);
    }

    status = uct_iface_query(end->iface, &end->attr);
    if (status != UCS_OK) {
        return accept_fail(end, "the interface can not be queried", status);
    }

    uct_iface_progress_enable(end->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    return 1;
}

/* The peer's may be shorter; what follows is 0 then */
static int accept_exchange_addresses(accept_end_t *end)
{
    char own[sizeof(end->peer_dev) + sizeof(end->peer_iface)] = {0};
    ucs_status_t status = UCS_ERR_BUFFER_TOO_SMALL;

    if ((end->attr.device_addr_len <= sizeof(end->peer_dev)) &&
        (end->attr.iface_addr_len <= sizeof(end->peer_iface))) {
        status = uct_iface_get_device_address(end->iface, (uct_device_addr_t*)own);
    }
    if (status == UCS_OK) {
        status = uct_iface_get_address(end->iface, (uct_iface_addr_t*)
                                                   (own + sizeof(end->peer_dev)));
    }
    if (status != UCS_OK) {
        return accept_fail(end, "the interface has no address", status);
    }

    if (!accept_send(end, own, sizeof(own)) || !accept_receive(end, own, sizeof(own))) {
        return 0;
    }

    memcpy(end->peer_dev, own, sizeof(end->peer_dev));
    memcpy(end->peer_iface, own + sizeof(end->peer_dev), sizeof(end->peer_iface));
    return 1;
}

uct_ep_h accept_ep_create(accept_end_t *end)
{
    uct_ep_params_t params = {
        .field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                      UCT_EP_PARAM_FIELD_IFACE_ADDR,
        .iface      = end->iface,
        .dev_addr   = (const uct_device_addr_t*)end->peer_dev,
        .iface_addr = (const uct_iface_addr_t*)end->peer_iface
    };
    ucs_status_t status    = UCS_ERR_UNREACHABLE;
    uct_ep_h ep            = NULL;

    if (uct_iface_is_reachable(end->iface, params.dev_addr, params.iface_addr)) {
        status = uct_ep_create(&params, &ep);
    }
    if (status != UCS_OK) {
        (void)accept_fail(end, "an endpoint can not be created", status);
        return NULL;
    }

    return ep;
}

int accept_end_open(accept_end_t *end, accept_link_t *link, uct_component_h component,
                    const accept_port_t *port, const char *dir)
{
    ucs_status_t status;

    memset(end, 0, sizeof(*end));
    end->component = component;
    end->link      = link;
    status = ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &end->async);
    if (status != UCS_OK) {
        end->async = NULL;
        return accept_fail(end, "there is no async context", status);
    }

    status = uct_worker_create(end->async, UCS_THREAD_MODE_SINGLE, &end->worker);
    if (status != UCS_OK) {
        end->worker = NULL;
        return accept_fail(end, "there is no worker", status);
    }

    accept_option("UCX_VQP_TELEMETRY", (dir != NULL) ? dir : "off");
    return accept_iface_open(end, port) && accept_exchange_addresses(end);
}

/* ---- completions ---- */

static void accept_comp_func(uct_completion_t *comp)
{
    ++((accept_comp_t*)comp)->calls;
}

void accept_comp_init(accept_comp_t *comp)
{
    comp->super.func   = accept_comp_func;
    comp->super.count  = 1;
    comp->super.status = UCS_OK;
    comp->calls        = 0;
}

/* The completion is static: after an error it may be called when the endpoint is
 * destroyed */
int accept_flush(accept_end_t *end, uct_ep_h ep)
{
    static accept_comp_t comp;
    double until = accept_now() + ACCEPT_LIMIT;
    ucs_status_t status;

    accept_comp_init(&comp);
    while ((status = uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, &comp.super)) ==
           UCS_ERR_NO_RESOURCE) {
        if (!accept_progress(end, until)) {
            return 0;
        }
    }

    if (status == UCS_OK) {
        return 1;
    } else if (status != UCS_INPROGRESS) {
        return accept_fail(end, "a flush has failed", status);
    }

    while (comp.calls == 0) {
        if (!accept_progress(end, until)) {
            return 0;
        }
    }

    return (comp.super.status == UCS_OK) ||
           accept_fail(end, "a flush has ended with an error", comp.super.status);
}

/* ---- memory ---- */

/* What the other end needs to use memory */
typedef struct accept_offer {
    uint64_t address;
    uint32_t key_length;
    char     key[1024];
} accept_offer_t;

accept_mem_t *accept_mem_get(accept_end_t *end, size_t size)
{
    accept_mem_t *mem;
    ucs_status_t status;

    if (end->num_mems == ACCEPT_MEMS_MAX) {
        abort();
    }

    mem       = &end->mems[end->num_mems];
    mem->size = size;
    mem->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0);
    if (mem->data == MAP_FAILED) {
        (void)accept_fail(end, "there is no memory", UCS_ERR_NO_MEMORY);
        return NULL;
    }

    ++end->num_mems;
    status = uct_md_mem_reg(end->md, mem->data, size, UCT_MD_MEM_ACCESS_ALL, &mem->memh);
    if (status != UCS_OK) {
        mem->memh = NULL;
        (void)accept_fail(end, "memory can not be registered", status);
        return NULL;
    }

    return mem;
}

int accept_mem_offer(accept_end_t *end, const accept_mem_t *mem)
{
    accept_offer_t offer = {
        .address    = (uintptr_t)mem->data,
        .key_length = (uint32_t)end->md_attr.rkey_packed_size
    };
    ucs_status_t status  = UCS_ERR_BUFFER_TOO_SMALL;

    if (offer.key_length <= sizeof(offer.key)) {
        status = uct_md_mkey_pack(end->md, mem->memh, offer.key);
    }

    return (status == UCS_OK) ? accept_send(end, &offer, sizeof(offer)) :
           accept_fail(end, "a remote key can not be packed", status);
}

const accept_remote_t *accept_remote_get(accept_end_t *end)
{
    accept_remote_t *remote;
    accept_offer_t offer;
    ucs_status_t status;

    if (end->num_remotes == ACCEPT_MEMS_MAX) {
        abort();
    }

    if (!accept_receive(end, &offer, sizeof(offer))) {
        return NULL;
    }

    remote          = &end->remotes[end->num_remotes];
    remote->address = offer.address;
    status          = uct_rkey_unpack(end->component, offer.key, &remote->rkey);
    if (status != UCS_OK) {
        (void)accept_fail(end, "a remote key can not be used", status);
        return NULL;
    }

    ++end->num_remotes;
    return remote;
}

/* ---- the end ---- */

static void accept_close_memory(accept_end_t *end)
{
    unsigned i;

    for (i = 0; i < end->num_remotes; ++i) {
        uct_rkey_release(end->component, &end->remotes[i].rkey);
    }

    for (i = 0; i < end->num_mems; ++i) {
        if (end->mems[i].memh != NULL) {
            (void)uct_md_mem_dereg(end->md, end->mems[i].memh);
        }
        munmap(end->mems[i].data, end->mems[i].size);
    }
}

void accept_end_close(accept_end_t *end)
{
    if (end->status == UCS_OK) {
        (void)accept_link_send(end->link, ACCEPT_FRAME_DATA, NULL, 0);
    } else if (!end->told) {
        (void)accept_link_send(end->link, ACCEPT_FRAME_FAILED, end->failed,
                               strlen(end->failed));
    }

    if (end->ep != NULL) {
        uct_ep_destroy(end->ep);
    }
    if (end->iface != NULL) {
        uct_iface_close(end->iface);
    }

    accept_close_memory(end);
    if (end->md != NULL) {
        uct_md_close(end->md);
    }
    if (end->worker != NULL) {
        uct_worker_destroy(end->worker);
    }
    if (end->async != NULL) {
        ucs_async_context_destroy(end->async);
    }
}
