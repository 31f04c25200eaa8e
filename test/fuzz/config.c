/*
 * Fuzz target: configuration strings. The input is lines of NAME=VALUE without
 * the prefix, as UCX reads them from the environment. What is accepted must be
 * within the documented limits, and what the sender and the handshake demand of
 * their configuration. In C: UCX's internal headers are.
 */
#include "fuzz.h"

#include "core/conn/conntab.h"
#include "core/conn/entropy.h"
#include "uct/vqp_options.h"

#include <ucs/config/parser.h>
#include <ucs/sys/string.h>

#if UCT_VQP_UCX_SINCE(1, 17)
#  define set_value(_config, _name, _value) \
    ucs_config_parser_set_value(_config, uct_vqp_iface_config_table, "VQP_", \
                                _name, _value)
#else
#  define set_value(_config, _name, _value) \
    ucs_config_parser_set_value(_config, uct_vqp_iface_config_table, _name, \
                                _value)
#endif

static int in_range(uint64_t value, uint64_t low, uint64_t high)
{
    return (value >= low) && (value <= high);
}

static int is_pow2(uint64_t value)
{
    return (value != 0) && ((value & (value - 1)) == 0);
}

static void check_sizes(const uct_vqp_settings_t *set)
{
    uint32_t inflight = uct_vqp_inflight(set->send_depth);

    FUZZ_CHECK(in_range(set->num_paths, 1, VQP_MAX_PATHS));
    FUZZ_CHECK(is_pow2(set->ring_min) && is_pow2(set->ring_max) &&
               in_range(set->ring_min, 4096, set->ring_max) &&
               in_range(set->ring_max, 4096, 1u << 30));
    FUZZ_CHECK(is_pow2(set->fsn_window) &&
               in_range(set->fsn_window, 16, VQP_FSN_WINDOW_MAX));
    FUZZ_CHECK((uint64_t)set->ring_max * set->fsn_window <=
               1ull << 31); /* credit positions have 32 bits */
    FUZZ_CHECK(is_pow2(set->num_ops) && in_range(set->num_ops, 8, 4096));
    FUZZ_CHECK(in_range(set->send_depth, 8, 16384));
    FUZZ_CHECK(is_pow2(inflight) && (inflight >= set->send_depth));
    FUZZ_CHECK(inflight <= 1u << 15); /* positions have 16 bits */
    FUZZ_CHECK(in_range(set->recv_depth, set->recv_credit,
                        VQP_WIRE_MAX_RX_DEPTH));
    FUZZ_CHECK(in_range(set->rx_batch, 1, 1024));
    FUZZ_CHECK(in_range(set->poll_max, 1, 64));
    FUZZ_CHECK(in_range(set->tx_moderation, 1, set->send_depth / 2));
    FUZZ_CHECK(in_range(set->seg_size, 256, 1u << 30));
    FUZZ_CHECK(in_range(set->min_shift, 8, set->frag_shift));
    FUZZ_CHECK(set->frag_shift <= 30);
    FUZZ_CHECK(set->path_bytes > 0);
}

static void check_values(const uct_vqp_settings_t *set,
                         const uct_vqp_iface_config_t *config)
{
    unsigned i;

    FUZZ_CHECK(set->notify <= VQP_NOTIFY_AUTO);
    FUZZ_CHECK(set->sched <= VQP_SCHED_LEFT);
    FUZZ_CHECK((set->comp_post <= 1) && (set->order_all <= 1));
    FUZZ_CHECK(in_range(set->timeout, 1, 31) && (set->rnr_timer <= 31));
    FUZZ_CHECK((set->retry_count <= 7) && (set->rnr_retry <= 7));
    FUZZ_CHECK(set->sl <= 15);
    FUZZ_CHECK(in_range(config->read_depth, 1, 255));

    FUZZ_CHECK(set->num_labels <= VQP_MAX_PATHS);
    for (i = 0; i < set->num_labels; ++i) {
        FUZZ_CHECK(set->labels[i] <= VQP_ENTROPY_LABEL_MAX);
    }

    /* Durations are what was said, to the nanosecond or a bit */
    FUZZ_CHECK((double)set->connect_timeout >
               (config->connect_timeout * 1e9 * 0.999) - 1);
    FUZZ_CHECK((double)set->probe_interval >
               (config->probe_interval * 1e9 * 0.999) - 1);
    FUZZ_CHECK((double)set->gap_timeout >
               (config->gap_timeout * 1e9 * 0.999) - 1);

    /* Values that are stored in narrower fields later are not truncated */
    FUZZ_CHECK((config->gid_index == UCS_ULUNITS_AUTO) ||
               (config->gid_index <= UINT8_MAX));
    FUZZ_CHECK((config->traffic_class == UCS_ULUNITS_AUTO) ||
               (config->traffic_class <= UINT8_MAX));
    FUZZ_CHECK((config->num_paths == UCS_ULUNITS_AUTO) ||
               (config->num_paths == set->num_paths));
    FUZZ_CHECK((config->sl == UCS_ULUNITS_AUTO) || (config->sl == set->sl));
    FUZZ_CHECK(config->pkey <= UINT16_MAX);
    FUZZ_CHECK(config->tx_min_inline <= UINT32_MAX);
}

/* The handshake takes these times */
static void check_handshake(const uct_vqp_settings_t *set)
{
    vqp_conntab_config_t config = {
        .iface_id        = 1,
        .retry_first     = 1000,
        .retry_max       = 1000,
        .connect_timeout = set->connect_timeout,
        .close_timeout   = set->connect_timeout,
        .num_rails       = 1,
        .hash_order      = 1,
        .num_idle        = 1,
        .max_unproven    = 1
    };
    uint64_t mem[64];
    vqp_conntab_t tab;

    FUZZ_CHECK(vqp_conntab_mem_size(&config) <= sizeof(mem));
    FUZZ_CHECK(vqp_conntab_init(&tab, &config, mem) == VQP_OK);
}

/* What vqp_tx_init requires: receives and numbers, so that no op waits without
 * end */
static void check_sender(const uct_vqp_settings_t *set)
{
    FUZZ_CHECK(set->recv_credit >= set->fsn_window + VQP_CONTROL_RESERVE);
    FUZZ_CHECK(set->fsn_window > set->num_paths + VQP_CONTROL_RESERVE);
    FUZZ_CHECK(set->send_depth > 2 * VQP_CONTROL_RESERVE);
}

/* The next line, in place; NULL at the end */
static char *next_line(char **pos)
{
    char *line = *pos;

    if (*line == '\0') {
        return NULL;
    }

    *pos += strcspn(line, "\n");
    if (**pos == '\n') {
        *(*pos)++ = '\0';
    }
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *pos = text;
    uct_vqp_iface_config_t config;
    uct_vqp_settings_t set;
    char *line, *value;

    FUZZ_CHECK(text != NULL);
    if (size > 0) {
        memcpy(text, data, size); /* of nothing there is no address */
    }
    text[size] = '\0';

    FUZZ_CHECK(ucs_config_parser_set_default_values(
                       &config, uct_vqp_iface_config_table) == UCS_OK);
    while ((line = next_line(&pos)) != NULL) {
        value = strchr(line, '=');
        if (value != NULL) {
            *value = '\0';
            set_value(&config, line, value + 1);
        }
    }

    if (uct_vqp_settings_init(&set, &config, 1 + size % VQP_MAX_RAILS) == UCS_OK) {
        check_sizes(&set);
        check_values(&set, &config);
        check_handshake(&set);
        check_sender(&set);
    }

    ucs_config_parser_release_opts(&config, uct_vqp_iface_config_table);
    free(text);
    return 0;
}
