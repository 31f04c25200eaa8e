/* Workers and connections of benchmarks, see ucp.h. */
#include "ucp.h"
#include "side.h"

#include <sys/mman.h>
#include <time.h>

static void check(ucs_status_t status, const char *what)
{
    perf_check(status == UCS_OK, "%s: %s", what, ucs_status_string(status));
}

void perf_ucp_open(perf_ucp_t *end, const char *devices, size_t length)
{
    ucp_params_t params               = {0};
    ucp_worker_params_t worker_params = {0};
    ucp_mem_map_params_t map          = {0};
    ucp_config_t *config;

    check(ucp_config_read(NULL, NULL, &config), "configuration");
    check(ucp_config_modify(config, "NET_DEVICES", devices), devices);
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features   = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
    check(ucp_init(&params, config, &end->context), "context");
    ucp_config_release(config);
    check(ucp_worker_create(end->context, &worker_params, &end->worker),
          "worker");

    end->length = length;
    end->data   = mmap(NULL, length, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    perf_check(end->data != MAP_FAILED, "no memory");
    map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                     UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    map.address    = end->data;
    map.length     = length;
    check(ucp_mem_map(end->context, &map, &end->memh), "memory");
}

void perf_ucp_close(perf_ucp_t *end)
{
    check(ucp_mem_unmap(end->context, end->memh), "unmap");
    ucp_worker_destroy(end->worker);
    ucp_cleanup(end->context);
    munmap(end->data, end->length);
}

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    check(status, "endpoint");
}

static void connect_to(perf_ucp_t *end, perf_ucp_t *peer,
                       ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode       = mode,
                              .err_handler.cb = failed};
    ucp_address_t *address;
    size_t length;
    void *key;

    check(ucp_worker_get_address(peer->worker, &address, &length), "address");
    params.address = address;
    check(ucp_ep_create(end->worker, &params, &end->ep), "endpoint");
    ucp_worker_release_address(peer->worker, address);
    check(ucp_rkey_pack(peer->context, peer->memh, &key, &length), "key");
    check(ucp_ep_rkey_unpack(end->ep, key, &end->rkey), "key");
    ucp_rkey_buffer_release(key);
}

void perf_ucp_connect(perf_ucp_t *a, perf_ucp_t *b, ucp_err_handling_mode_t mode)
{
    connect_to(a, b, mode);
    connect_to(b, a, mode);
}

unsigned perf_ucp_progress(perf_ucp_t *a, perf_ucp_t *b)
{
    return ucp_worker_progress(a->worker) + ucp_worker_progress(b->worker);
}

static void close_ep(perf_ucp_t *end, perf_ucp_t *peer, int force)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS};
    struct timespec nap       = {.tv_nsec = 1000};
    ucs_status_ptr_t request;

    ucp_rkey_destroy(end->rkey);
    param.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    request     = ucp_ep_close_nbx(end->ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        /* a process whose time passes only for sleepers sleeps */
        if (perf_ucp_progress(end, peer) == 0) {
            nanosleep(&nap, NULL);
        }
    }
    ucp_request_free(request);
}

void perf_ucp_disconnect(perf_ucp_t *a, perf_ucp_t *b, int force)
{
    close_ep(a, b, force);
    close_ep(b, a, force);
}
