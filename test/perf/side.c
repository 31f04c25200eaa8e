/* Interfaces, connections and memory of benchmarks, see side.h. */
#include "side.h"

#include "test/lib/option.h"

#include <ucs/async/async.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

ucs_async_mode_t perf_async_mode = UCS_ASYNC_MODE_THREAD_SPINLOCK;

void perf_check(int ok, const char *format, ...)
{
    va_list ap;

    if (!ok) {
        va_start(ap, format);
        vfprintf(stderr, format, ap);
        va_end(ap);
        fputc('\n', stderr);
        exit(1);
    }
}

static void check(ucs_status_t status, const char *what)
{
    perf_check(status == UCS_OK, "%s: %s", what, ucs_status_string(status));
}

double perf_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int perf_compare(const void *a, const void *b)
{
    double x = *(const double*)a, y = *(const double*)b;

    return (x > y) - (x < y);
}

double perf_quantile(double *values, unsigned count, double quantile)
{
    double at      = quantile * (count - 1);
    unsigned upper = (unsigned)(at + 0.5);
    unsigned lower = upper - (((double)upper - 0.5 == at) && (upper > 0));

    qsort(values, count, sizeof(*values), perf_compare);
    return (values[lower] + values[upper]) / 2;
}

const char *perf_device(unsigned index)
{
    static char names[16][32];
    static unsigned count;
    const char *list = getenv("RXE_DEVS");
    int used;

    if (count == 0) {
        perf_check(list != NULL, "RXE_DEVS names no devices: start this by "
                   "contrib/fabric-run or test/rxe/run");
        while ((count < 16) &&
               (sscanf(list, "%31s%n", names[count], &used) == 1)) {
            list += used;
            ++count;
        }
        perf_check(count > 0, "RXE_DEVS is empty");
    }
    return names[(index < count) ? index : (count - 1)];
}

/* ---- a side ---- */

static void open_md(perf_side_t *side, const char *tl, const char *device)
{
    int is_vqp       = (strcmp(tl, "vqp") == 0);
    const char *name = is_vqp ? "vqp" : "ib";
    uct_component_attr_t attr;
    uct_component_h *list;
    uct_md_config_t *config;
    unsigned count, i;
    char md_name[64];

    check(uct_query_components(&list, &count), "components");
    for (i = 0; i < count; ++i) {
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        if ((uct_component_query(list[i], &attr) == UCS_OK) &&
            (strcmp(attr.name, name) == 0)) {
            side->component = list[i];
        }
    }
    uct_release_component_list(list);
    perf_check(side->component != NULL, "UCX has no component %s%s", name,
               is_vqp ? ": start this by contrib/vqp-run" : "");

    snprintf(md_name, sizeof(md_name), "%s%s", is_vqp ? "vqp_" : "", device);
    check(uct_md_config_read(side->component, NULL, NULL, &config),
          "configuration of the memory domain");
    check(uct_md_open(side->component, md_name, config, &side->md), md_name);
    uct_config_release(config);
    check(uct_md_query(side->md, &side->md_attr), "memory domain");
}

/* The domain's first device of the transport: a bond has the name of its first
 * port */
static void find_device(const perf_side_t *side, const char *tl, char *name,
                        size_t size)
{
    uct_tl_resource_desc_t *list;
    unsigned count, i;

    check(uct_md_query_tl_resources(side->md, &list, &count), "devices");
    for (i = 0; (i < count) && (strcmp(list[i].tl_name, tl) != 0); ++i) {
    }
    perf_check(i < count, "no device has %s", tl);
    snprintf(name, size, "%s", list[i].dev_name);
    uct_release_tl_resource_list(list);
}

static ucs_status_t on_error(void *arg, uct_ep_h ep, ucs_status_t status)
{
    perf_side_t *side = arg;

    (void)ep;
    ++side->errors;
    return side->may_fail ? UCS_OK : status;
}

static void modify(uct_iface_config_t *config, int is_vqp, const char *options)
{
    char name[64], value[64];
    int used;

    while (sscanf(options, " %63[^= ]=%63s%n", name, value, &used) == 2) {
        check(is_vqp ? vqp_option_set(config, name, value) :
                       uct_config_modify(config, name, value), name);
        options += used;
    }
}

void perf_side_open(perf_side_t *side, const char *tl, const char *device,
                    const char *options)
{
    uct_iface_params_t params = {0};
    uct_iface_config_t *config;
    char dev_name[64];

    memset(side, 0, sizeof(*side));
    check(ucs_async_context_create(perf_async_mode, &side->async),
          "async context");
    check(uct_worker_create(side->async, UCS_THREAD_MODE_SINGLE,
                            &side->worker), "worker");
    open_md(side, tl, device);

    check(uct_md_iface_config_read(side->md, tl, NULL, NULL, &config), tl);
    modify(config, strcmp(tl, "vqp") == 0, options);
    find_device(side, tl, dev_name, sizeof(dev_name));
    params.field_mask           = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                                  UCT_IFACE_PARAM_FIELD_DEVICE |
                                  UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                                  UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                                  UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS;
    params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name  = tl;
    params.mode.device.dev_name = dev_name;
    params.err_handler          = on_error;
    params.err_handler_arg      = side;
    check(uct_iface_open(side->md, side->worker, &params, config,
                         &side->iface), dev_name);
    uct_config_release(config);
    check(uct_iface_query(side->iface, &side->attr), dev_name);
    uct_iface_progress_enable(side->iface,
                              UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

void perf_side_close(perf_side_t *side)
{
    uct_iface_close(side->iface);
    uct_md_close(side->md);
    uct_worker_destroy(side->worker);
    ucs_async_context_destroy(side->async);
}

static void handle_control(perf_side_t *a, perf_side_t *b)
{
    static double due;
    double now = perf_now();

    if (now >= due) {
        due = now + 20e-6;
        ucs_async_poll(a->async);
        ucs_async_poll(b->async);
    }
}

unsigned perf_progress_first(perf_side_t *a, perf_side_t *b)
{
    if (perf_async_mode == UCS_ASYNC_MODE_POLL) {
        handle_control(a, b);
    }
    return uct_worker_progress(a->worker);
}

unsigned perf_progress(perf_side_t *a, perf_side_t *b)
{
    return perf_progress_first(a, b) + uct_worker_progress(b->worker);
}

/* ---- connections ---- */

static uct_ep_h connect_to_iface(perf_side_t *from, perf_side_t *to)
{
    char dev_addr[256], iface_addr[256];
    uct_ep_params_t params = {0};
    uct_ep_h ep;

    perf_check((to->attr.device_addr_len <= sizeof(dev_addr)) &&
               (to->attr.iface_addr_len <= sizeof(iface_addr)),
               "an address is too long");
    check(uct_iface_get_device_address(to->iface, (uct_device_addr_t*)dev_addr),
          "device address");
    check(uct_iface_get_address(to->iface, (uct_iface_addr_t*)iface_addr),
          "interface address");
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                        UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = from->iface;
    params.dev_addr   = (uct_device_addr_t*)dev_addr;
    params.iface_addr = (uct_iface_addr_t*)iface_addr;
    check(uct_ep_create(&params, &ep), "endpoint");
    return ep;
}

static uct_ep_h half(perf_side_t *side)
{
    uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE,
                              .iface      = side->iface};
    uct_ep_h ep;

    check(uct_ep_create(&params, &ep), "endpoint");
    return ep;
}

static void join(uct_ep_h ep, perf_side_t *peer, uct_ep_h peer_ep)
{
    char dev_addr[256], ep_addr[256];

    perf_check((peer->attr.device_addr_len <= sizeof(dev_addr)) &&
               (peer->attr.ep_addr_len <= sizeof(ep_addr)),
               "an address is too long");
    check(uct_iface_get_device_address(peer->iface,
                                       (uct_device_addr_t*)dev_addr),
          "device address");
    check(uct_ep_get_address(peer_ep, (uct_ep_addr_t*)ep_addr),
          "endpoint address");
    check(uct_ep_connect_to_ep(ep, (uct_device_addr_t*)dev_addr,
                               (uct_ep_addr_t*)ep_addr), "connect");
}

void perf_flush(perf_side_t *a, perf_side_t *b, uct_ep_h ep)
{
    struct timespec nap = {.tv_nsec = 1000};
    uct_completion_t comp = {.func  = (uct_completion_callback_t)ucs_empty_function,
                             .count = 2, .status = UCS_OK};
    ucs_status_t status;

    while ((status = uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, &comp)) ==
           UCS_ERR_NO_RESOURCE) {
        if (perf_progress(a, b) == 0) {
            nanosleep(&nap, NULL);
        }
    }
    if (status == UCS_INPROGRESS) {
        while (comp.count > 1) {
            perf_progress(a, b);
        }
        status = comp.status;
    }
    check(status, "flush");
}

void perf_connect_begin(perf_side_t *a, perf_side_t *b, int two_way,
                        perf_pair_t *pair)
{
    pair->b_to_a = NULL;
    if (a->attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) {
        pair->a_to_b = connect_to_iface(a, b);
        if (two_way) {
            pair->b_to_a = connect_to_iface(b, a);
        }
        return;
    }

    pair->a_to_b = half(a);
    pair->b_to_a = half(b);
    join(pair->a_to_b, b, pair->b_to_a);
    join(pair->b_to_a, a, pair->a_to_b);
}

void perf_connect(perf_side_t *a, perf_side_t *b, int two_way,
                  perf_pair_t *pair)
{
    perf_connect_begin(a, b, two_way, pair);
    /* flush is not OK before an endpoint is connected */
    perf_flush(a, b, pair->a_to_b);
    if (pair->b_to_a != NULL) {
        perf_flush(b, a, pair->b_to_a);
    }
}

void perf_disconnect(perf_side_t *a, perf_side_t *b, perf_pair_t *pair)
{
    uct_ep_destroy(pair->a_to_b);
    if (pair->b_to_a != NULL) {
        uct_ep_destroy(pair->b_to_a);
    }
    while (perf_progress(a, b) > 0) {
    }
}

/* ---- memory ---- */

void perf_memory_init(perf_memory_t *memory, perf_side_t *side, size_t length)
{
    char packed[512];

    perf_check(side->md_attr.rkey_packed_size <= sizeof(packed),
               "a remote key is too long");
    memory->side   = side;
    memory->length = (length + 4095) & ~(size_t)4095;
    memory->data   = mmap(NULL, memory->length, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    perf_check(memory->data != MAP_FAILED, "no memory");
    check(uct_md_mem_reg(side->md, memory->data, memory->length,
                         UCT_MD_MEM_ACCESS_ALL, &memory->memh), "mem_reg");
    check(uct_md_mkey_pack(side->md, memory->memh, packed), "mkey_pack");
    check(uct_rkey_unpack(side->component, packed, &memory->key),
          "rkey_unpack");
}

void perf_memory_cleanup(perf_memory_t *memory)
{
    check(uct_rkey_release(memory->side->component, &memory->key),
          "rkey_release");
    check(uct_md_mem_dereg(memory->side->md, memory->memh), "mem_dereg");
    munmap(memory->data, memory->length);
}
