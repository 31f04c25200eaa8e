/* Interfaces, endpoints, memory and lines of the report, see accept.h. */
#include "tools/accept.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define ACCEPT_IDLE 64 /* empty calls of progress, then others get the CPU */

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

int accept_fail(accept_pair_t *pair, const char *failed, ucs_status_t status)
{
    if (pair->status == UCS_OK) {
        pair->status = status;
        pair->failed = failed;
    }

    return 0;
}

/* ---- interfaces and endpoints ---- */

static ucs_status_t accept_on_error(void *arg, uct_ep_h ep, ucs_status_t status)
{
    (void)ep;
    (void)accept_fail(arg, "the endpoint has failed", status);
    return UCS_OK;
}

static int accept_iface_open(accept_pair_t *pair, accept_side_t *side)
{
    uct_iface_params_t params = {
        .field_mask           = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                                UCT_IFACE_PARAM_FIELD_DEVICE |
                                UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                                UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                                UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS,
        .open_mode            = UCT_IFACE_OPEN_MODE_DEVICE,
        .mode.device.tl_name  = ACCEPT_TL,
        .mode.device.dev_name = side->port->dev,
        .err_handler          = accept_on_error,
        .err_handler_arg      = pair
    };
    uct_iface_config_t *config;
    ucs_status_t status;

    side->md = accept_md_open(pair->component, side->port->md);
    if (side->md == NULL) {
        return accept_fail(pair, "the memory domain can not be opened",
                           UCS_ERR_NO_DEVICE);
    }

    accept_option("UCX_VQP_TELEMETRY", (side->dir[0] != '\0') ? side->dir : "off");
    status = uct_md_query(side->md, &side->md_attr);
    if (status == UCS_OK) {
        status = uct_md_iface_config_read(side->md, ACCEPT_TL, NULL, NULL, &config);
    }
    if (status != UCS_OK) {
        return accept_fail(pair, "the configuration can not be read", status);
    }

    status = uct_iface_open(side->md, pair->worker, &params, config, &side->iface);
    uct_config_release(config);
    if (status != UCS_OK) {
        side->iface = NULL;
        return accept_fail(pair, "the interface can not be opened", status);
    }

    status = uct_iface_query(side->iface, &side->attr);
    if (status != UCS_OK) {
        return accept_fail(pair, "the interface can not be queried", status);
    }

    uct_iface_progress_enable(side->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    return 1;
}

uct_ep_h accept_ep_create(accept_pair_t *pair, unsigned side)
{
    const accept_side_t *to = &pair->side[1 - side];
    uct_ep_params_t params  = {
        .field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                      UCT_EP_PARAM_FIELD_IFACE_ADDR,
        .iface      = pair->side[side].iface
    };
    uct_device_addr_t *dev     = calloc(1, to->attr.device_addr_len + 1);
    uct_iface_addr_t *addr     = calloc(1, to->attr.iface_addr_len + 1);
    ucs_status_t status        = UCS_ERR_NO_MEMORY;
    uct_ep_h ep                = NULL;

    if ((dev != NULL) && (addr != NULL)) {
        status = uct_iface_get_device_address(to->iface, dev);
    }
    if (status == UCS_OK) {
        status = uct_iface_get_address(to->iface, addr);
    }
    if ((status == UCS_OK) && !uct_iface_is_reachable(params.iface, dev, addr)) {
        status = UCS_ERR_UNREACHABLE;
    }
    if (status == UCS_OK) {
        params.dev_addr   = dev;
        params.iface_addr = addr;
        status            = uct_ep_create(&params, &ep);
    }

    free(dev);
    free(addr);
    if (status != UCS_OK) {
        (void)accept_fail(pair, "an endpoint can not be created", status);
        return NULL;
    }

    return ep;
}

int accept_pair_open(accept_pair_t *pair, uct_component_h component,
                     const accept_port_t *from, const accept_port_t *to, const char *dir)
{
    accept_side_t *side;
    ucs_status_t status;
    unsigned i;

    memset(pair, 0, sizeof(*pair));
    pair->component    = component;
    pair->side[0].port = from;
    pair->side[1].port = to;
    status = ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &pair->async);
    if (status != UCS_OK) {
        pair->async = NULL;
        return accept_fail(pair, "there is no async context", status);
    }

    status = uct_worker_create(pair->async, UCS_THREAD_MODE_SINGLE, &pair->worker);
    if (status != UCS_OK) {
        pair->worker = NULL;
        return accept_fail(pair, "there is no worker", status);
    }

    for (i = 0; i < 2; ++i) {
        side = &pair->side[i];
        if (dir != NULL) {
            snprintf(side->dir, sizeof(side->dir), "%s/%u", dir, i);
            (void)mkdir(side->dir, 0700);
        }
        if (!accept_iface_open(pair, side)) {
            return 0;
        }
    }

    pair->side[0].ep = accept_ep_create(pair, 0);
    return (pair->side[0].ep != NULL) && accept_flush(pair, pair->side[0].ep);
}

/* A software device needs the CPU, too */
int accept_progress(accept_pair_t *pair, double end)
{
    if (uct_worker_progress(pair->worker) != 0) {
        pair->idle = 0;
    } else if (++pair->idle >= ACCEPT_IDLE) {
        pair->idle = 0;
        sched_yield();
    }

    if ((++pair->calls % ACCEPT_IDLE == 0) && (accept_now() > end)) {
        return accept_fail(pair, "what was sent does not arrive", UCS_ERR_TIMED_OUT);
    }

    return pair->status == UCS_OK;
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
int accept_flush(accept_pair_t *pair, uct_ep_h ep)
{
    static accept_comp_t comp;
    double end = accept_now() + ACCEPT_LIMIT;
    ucs_status_t status;

    accept_comp_init(&comp);
    while ((status = uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, &comp.super)) ==
           UCS_ERR_NO_RESOURCE) {
        if (!accept_progress(pair, end)) {
            return 0;
        }
    }

    if (status == UCS_OK) {
        return 1;
    } else if (status != UCS_INPROGRESS) {
        return accept_fail(pair, "a flush has failed", status);
    }

    while (comp.calls == 0) {
        if (!accept_progress(pair, end)) {
            return 0;
        }
    }

    return (comp.super.status == UCS_OK) ||
           accept_fail(pair, "a flush has ended with an error", comp.super.status);
}

/* ---- memory ---- */

static int accept_mem_register(accept_pair_t *pair, const accept_side_t *side,
                               accept_mem_t *mem)
{
    ucs_status_t status;
    void *packed;

    status = uct_md_mem_reg(mem->md, mem->data, mem->size, UCT_MD_MEM_ACCESS_ALL,
                            &mem->memh);
    if (status != UCS_OK) {
        mem->memh = NULL;
        return accept_fail(pair, "memory can not be registered", status);
    }

    packed = calloc(1, side->md_attr.rkey_packed_size + 1);
    status = (packed == NULL) ? UCS_ERR_NO_MEMORY :
             uct_md_mkey_pack(mem->md, mem->memh, packed);
    if (status == UCS_OK) {
        status = uct_rkey_unpack(pair->component, packed, &mem->rkey);
    }

    free(packed);
    mem->has_rkey = (status == UCS_OK);
    return mem->has_rkey || accept_fail(pair, "a remote key can not be used", status);
}

accept_mem_t *accept_mem_get(accept_pair_t *pair, unsigned side, size_t size)
{
    accept_mem_t *mem;

    if (pair->num_mems == ACCEPT_MEMS_MAX) {
        abort();
    }

    mem       = &pair->mems[pair->num_mems];
    mem->md   = pair->side[side].md;
    mem->size = size;
    mem->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0);
    if (mem->data == MAP_FAILED) {
        (void)accept_fail(pair, "there is no memory", UCS_ERR_NO_MEMORY);
        return NULL;
    }

    ++pair->num_mems;
    return accept_mem_register(pair, &pair->side[side], mem) ? mem : NULL;
}

static void accept_mem_put(const accept_pair_t *pair, accept_mem_t *mem)
{
    if (mem->has_rkey) {
        uct_rkey_release(pair->component, &mem->rkey);
    }
    if (mem->memh != NULL) {
        (void)uct_md_mem_dereg(mem->md, mem->memh);
    }
    munmap(mem->data, mem->size);
}

/* ---- the end ---- */

void accept_pair_close(accept_pair_t *pair)
{
    unsigned i;

    for (i = 0; i < 2; ++i) {
        if (pair->side[i].ep != NULL) {
            uct_ep_destroy(pair->side[i].ep);
        }
    }

    for (i = 0; i < 2; ++i) {
        if (pair->side[i].iface != NULL) {
            uct_iface_close(pair->side[i].iface);
        }
    }

    for (i = 0; i < pair->num_mems; ++i) {
        accept_mem_put(pair, &pair->mems[i]);
    }

    for (i = 0; i < 2; ++i) {
        if (pair->side[i].md != NULL) {
            uct_md_close(pair->side[i].md);
        }
    }

    if (pair->worker != NULL) {
        uct_worker_destroy(pair->worker);
    }
    if (pair->async != NULL) {
        ucs_async_context_destroy(pair->async);
    }
}
