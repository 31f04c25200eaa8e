/* Operations and configurations of the cost benchmark, see cost.h. */
#include "cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AM_ID = 5, FRAG = 256 };

unsigned long cost_completed;
unsigned long cost_received;

static uint32_t pack_length;

static void on_completion(uct_completion_t *comp)
{
    comp->count = 1; /* the same one serves all that is under way */
    ++cost_completed;
    perf_check(comp->status == UCS_OK, "an operation failed: %s",
               ucs_status_string(comp->status));
}

static uct_completion_t completion = {.func = on_completion, .count = 1,
                                      .status = UCS_OK};

static ucs_status_t on_message(void *arg, void *data, size_t length,
                               unsigned flags)
{
    (void)arg;
    (void)data;
    (void)length;
    (void)flags;
    ++cost_received;
    return UCS_OK;
}

static size_t pack(void *dest, void *arg)
{
    memcpy(dest, arg, pack_length);
    return pack_length;
}

static void unpack(void *arg, const void *data, size_t length)
{
    memcpy(arg, data, length);
}

static uct_iov_t iov_of(cost_config_t *config, uint32_t length)
{
    uct_iov_t iov = {.buffer = config->source.data, .length = length,
                     .memh   = config->source.memh, .count = 1};

    return iov;
}

static uint64_t remote(const cost_config_t *config)
{
    return (uintptr_t)config->target.data;
}

/* ---- posting: OK when it was accepted ---- */

static ucs_status_t accepted(ucs_status_t status)
{
    return (status == UCS_INPROGRESS) ? UCS_OK : status;
}

static ucs_status_t put_short(cost_config_t *config, uint32_t length)
{
    return uct_ep_put_short(config->pair.a_to_b, config->source.data, length,
                            remote(config), config->target.key.rkey);
}

static ucs_status_t put_bcopy(cost_config_t *config, uint32_t length)
{
    ssize_t packed;

    pack_length = length;
    packed      = uct_ep_put_bcopy(config->pair.a_to_b, pack,
                                   config->source.data, remote(config),
                                   config->target.key.rkey);
    return (packed < 0) ? (ucs_status_t)packed : UCS_OK;
}

static ucs_status_t put_zcopy(cost_config_t *config, uint32_t length)
{
    uct_iov_t iov = iov_of(config, length);

    return accepted(uct_ep_put_zcopy(config->pair.a_to_b, &iov, 1,
                                     remote(config), config->target.key.rkey,
                                     &completion));
}

static ucs_status_t get_bcopy(cost_config_t *config, uint32_t length)
{
    return accepted(uct_ep_get_bcopy(config->pair.a_to_b, unpack,
                                     config->source.data, length,
                                     remote(config), config->target.key.rkey,
                                     &completion));
}

static ucs_status_t get_zcopy(cost_config_t *config, uint32_t length)
{
    uct_iov_t iov = iov_of(config, length);

    return accepted(uct_ep_get_zcopy(config->pair.a_to_b, &iov, 1,
                                     remote(config), config->target.key.rkey,
                                     &completion));
}

static ucs_status_t am_short(cost_config_t *config, uint32_t length)
{
    return uct_ep_am_short(config->pair.a_to_b, AM_ID, 1,
                           config->source.data,
                           length - (unsigned)sizeof(uint64_t));
}

static ucs_status_t am_bcopy(cost_config_t *config, uint32_t length)
{
    ssize_t packed;

    pack_length = length;
    packed      = uct_ep_am_bcopy(config->pair.a_to_b, AM_ID, pack,
                                  config->source.data, 0);
    return (packed < 0) ? (ucs_status_t)packed : UCS_OK;
}

static ucs_status_t am_zcopy(cost_config_t *config, uint32_t length)
{
    uct_iov_t iov   = iov_of(config, length);
    uint64_t header = 1;

    return accepted(uct_ep_am_zcopy(config->pair.a_to_b, AM_ID, &header,
                                    sizeof(header), &iov, 1, 0, &completion));
}

static ucs_status_t atomic_add(cost_config_t *config, uint32_t length)
{
    (void)length;
    return uct_ep_atomic64_post(config->pair.a_to_b, UCT_ATOMIC_OP_ADD, 1,
                                remote(config), config->target.key.rkey);
}

static ucs_status_t atomic_fadd(cost_config_t *config, uint32_t length)
{
    (void)length;
    return accepted(uct_ep_atomic64_fetch(config->pair.a_to_b,
                                          UCT_ATOMIC_OP_ADD, 1,
                                          (uint64_t*)config->source.data,
                                          remote(config),
                                          config->target.key.rkey,
                                          &completion));
}

static ucs_status_t atomic_cswap(cost_config_t *config, uint32_t length)
{
    (void)length;
    return accepted(uct_ep_atomic_cswap64(config->pair.a_to_b, 0, 1,
                                          remote(config),
                                          config->target.key.rkey,
                                          (uint64_t*)config->source.data,
                                          &completion));
}

const cost_operation_t cost_operations[] = {
    {"put_short 8", put_short, 8, 1, 0, 0, IBV_SEND_INLINE, 1},
    {"put_bcopy 1024", put_bcopy, 1024, 1, 0, 0, 0, 1},
    {"put_zcopy 1024", put_zcopy, 1024, 1, 0, 1, IBV_SEND_SIGNALED, 1},
    {"get_bcopy 1024", get_bcopy, 1024, 1, 0, 1, 0, 0},
    {"get_zcopy 1024", get_zcopy, 1024, 1, 0, 1, 0, 0},
    {"am_short 8", am_short, 8, 1, 1, 0, 0, 0},
    {"am_bcopy 1024", am_bcopy, 1024, 1, 1, 0, 0, 0},
    {"am_zcopy 1024", am_zcopy, 1024, 1, 1, 1, 0, 0},
    {"atomic_add 8", atomic_add, 8, 1, 0, 0, 0, 0},
    {"atomic_fadd 8", atomic_fadd, 8, 1, 0, 1, 0, 0},
    {"atomic_cswap 8", atomic_cswap, 8, 1, 0, 1, 0, 0},
    {"put_zcopy 4 frags", put_zcopy, 4 * FRAG, 4, 0, 1, IBV_SEND_SIGNALED, 1},
    {"put_zcopy 8 frags", put_zcopy, 8 * FRAG, 8, 0, 1, IBV_SEND_SIGNALED, 1},
    {.name = NULL}
};

/* ---- configurations ---- */

void cost_config_open(cost_config_t *config, int small_frags)
{
    const char *gid = getenv("RXE_GID");
    char options[256];

    if (config->tl == NULL) {
        bare_open(&config->bare, perf_device(0), (gid == NULL) ? 0 : atoi(gid),
                  config->paths, COST_MAX_LENGTH);
        return;
    }

    /* the queue has room for all frags between two calls of progress: an endpoint with
     * default options begins with a shorter one, and would add a path */
    snprintf(options, sizeof(options), "%s%s", config->options,
             (small_frags && (strcmp(config->tl, "vqp") == 0)) ?
                     " MIN_FRAG=256 FRAG_SIZE=256 TX_QUEUE_LEN=256" : "");
    perf_side_open(&config->a, config->tl, perf_device(0), options);
    perf_side_open(&config->b, config->tl, perf_device(1), options);
    perf_check(uct_iface_set_am_handler(config->b.iface, AM_ID, on_message,
                                        NULL, 0) == UCS_OK, "AM handler");
    perf_connect(&config->a, &config->b, 0, &config->pair);
    perf_memory_init(&config->source, &config->a, COST_MAX_LENGTH);
    perf_memory_init(&config->target, &config->b, COST_MAX_LENGTH);
}

void cost_config_close(cost_config_t *config)
{
    if (config->tl == NULL) {
        bare_close(&config->bare);
        return;
    }

    perf_flush(&config->a, &config->b, config->pair.a_to_b);
    perf_disconnect(&config->a, &config->b, &config->pair);
    perf_memory_cleanup(&config->source);
    perf_memory_cleanup(&config->target);
    perf_side_close(&config->a);
    perf_side_close(&config->b);
}
