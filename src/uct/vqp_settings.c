/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings that follow from the configuration, checked and rounded; see
 * vqp_options.h. */
#include "uct/vqp_options.h"

#include "core/conn/entropy.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>
#include <ucs/sys/string.h>
#include <ucs/time/time.h>

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#define UCT_VQP_CHECK(_cond, _name, _value, _what) \
    if (!(_cond)) { \
        ucs_error("UCX_VQP_%s=%lu: %s", _name, (unsigned long)(_value), \
                  _what); \
        return UCS_ERR_INVALID_PARAM; \
    }

#define UCT_VQP_CHECK_TIME(_value, _name) \
    if (!uct_vqp_is_time(_value)) { \
        ucs_error("UCX_VQP_%s=%g: must be from 0 to %gs", _name, _value, \
                  UCT_VQP_TIME_MAX); \
        return UCS_ERR_INVALID_PARAM; \
    }

#define UCT_VQP_NUM_PATHS        4 /* NUM_PATHS=auto */
#define UCT_VQP_SL               0 /* SL=auto */
#define UCT_VQP_RING_MAX         (4 * UCS_MBYTE)  /* RING_SIZE=auto */
#define UCT_VQP_RING_MIN         (32 * UCS_KBYTE) /* RING_MIN=auto */
#define UCT_VQP_SLOW_PATH        (4ull * 1000 * 1000) /* ns: SLOW_PATH=auto */
#define UCT_VQP_PATH_TIMEOUT_MIN 1e-4 /* seconds: some round trips */
#define UCT_VQP_TIME_MAX 1e9 /* seconds: any more does not fit nanoseconds */

/* UCX's parser also accepts "inf", "nan" and "-1s", which are no valid times */
static inline int uct_vqp_is_time(double seconds)
{
    return (seconds >= 0) && (seconds <= UCT_VQP_TIME_MAX);
}

static inline int uct_vqp_in_range(size_t value, size_t low, size_t high)
{
    return (value >= low) && (value <= high);
}

/* InfiniBand's local ACK timeout: 4.096 us times 2^code, rounded up */
static uint8_t uct_vqp_timeout_code(double seconds)
{
    uint8_t code = 1;

    while ((code < 31) && (4.096e-6 * (double)(1u << code) < seconds)) {
        ++code;
    }

    return code;
}

/* InfiniBand's RNR NAK timer field, rounded up */
static uint8_t uct_vqp_rnr_code(double seconds)
{
    /* in units of 10 us, from code 1 on; code 0 is the longest */
    static const unsigned table[] = {
        1,    2,    3,    4,    6,    8,    12,   16,    24,    32,   48,
        64,   96,   128,  192,  256,  384,  512,  768,   1024,  1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152
    };
    unsigned i;

    for (i = 0; i < ucs_static_array_size(table); ++i) {
        if (table[i] * 1e-5 >= seconds) {
            return (uint8_t)(i + 1);
        }
    }

    return 0;
}

/* While one path is in use: its ops are not split, but those that would fill it alone. Its
 * wire must stay busy until one is confirmed. */
#define UCT_VQP_SINGLE_BYTES (2 * UCS_MBYTE)

/* A process that computes for 10 ms between its calls of progress needs 125 MB in flight on
 * a link of 100 Gb/s, over paths of which each begins with 128 KiB or more */
#define UCT_VQP_CAP_GROWTH 8

/* With a frag of 1 GiB that is posted below this limit, 2^23 packets of 256 bytes: a count of
 * executed packets has 24 bits */
#define UCT_VQP_PATH_BYTES_MAX UCS_GBYTE

/* For several paths: enough for a link of 200 Gb/s x 20 us, and not more than a message may
 * wait behind on it. A fixed number of paths may share a link. Those that are added stay only
 * if they have links of their own. */
static uint64_t uct_vqp_path_bytes(const uct_vqp_settings_t *set,
                                   const uct_vqp_iface_config_t *config)
{
    uint64_t frag   = UCS_BIT(ucs_ilog2(config->frag_size));
    unsigned shared = (set->min_paths == set->num_paths) ? set->num_paths : 1;

    return ucs_max(2 * frag, (512 * UCS_KBYTE) / shared);
}

static void uct_vqp_settings_path_bytes(uct_vqp_settings_t *set,
                                        const uct_vqp_iface_config_t *config)
{
    int is_auto = config->path_bytes == UCS_MEMUNITS_AUTO;

    set->path_bytes   = ucs_min(is_auto ? uct_vqp_path_bytes(set, config) :
                                         config->path_bytes,
                                UCT_VQP_PATH_BYTES_MAX);
    set->single_bytes = is_auto ? UCT_VQP_SINGLE_BYTES : set->path_bytes;
    set->cap_growth   = 0;
    while (is_auto && (set->cap_growth < UCT_VQP_CAP_GROWTH) &&
           (ucs_max(set->path_bytes, set->single_bytes) << (set->cap_growth + 1) <=
            UCT_VQP_PATH_BYTES_MAX)) {
        ++set->cap_growth;
    }
    set->single_shift = (uint8_t)ucs_max(ucs_ilog2(config->frag_size),
                                         ucs_ilog2(set->single_bytes) - 1);
}

/* auto: the rails are links that need no search. Without failover none can be added */
static unsigned uct_vqp_min_paths(const uct_vqp_settings_t *set,
                                  const uct_vqp_iface_config_t *config, unsigned num_rails)
{
    if (config->failover == UCS_NO) {
        return set->num_paths;
    }

    return (config->min_paths == UCS_ULUNITS_AUTO) ?
                   ucs_min(num_rails, set->num_paths) : (unsigned)config->min_paths;
}

/* Slots of each ring of ops, until it is full for the first time */
#define UCT_VQP_FIRST_OPS 32

/* An endpoint without load has short queues: idle endpoints are many. A queue of 32 takes as
 * much as each of four fixed paths. Under load the first path that is added takes the place
 * of a short one, for which each rail has one: see elastic.h */
#define UCT_VQP_FIRST_DEPTH 32

/* Entries of the send queues that an endpoint begins with, together. Where an idle one has
 * short queues instead they hold what MAX_OPS accepts by default: many small operations are
 * spread over the paths. See docs/memory.md for what they cost. */
#define UCT_VQP_DEPTH       256
#define UCT_VQP_FIXED_DEPTH 128

static size_t uct_vqp_send_depth(const uct_vqp_settings_t *set,
                                 const uct_vqp_iface_config_t *config, int may_swap)
{
    unsigned depth = may_swap ? UCT_VQP_DEPTH : UCT_VQP_FIXED_DEPTH;

    return (config->tx_queue_len != UCS_ULUNITS_AUTO) ?
                   config->tx_queue_len :
                   ucs_max(depth / ucs_max(set->min_paths, 1), UCT_VQP_FIRST_DEPTH);
}

static int uct_vqp_may_swap(const uct_vqp_settings_t *set,
                            const uct_vqp_iface_config_t *config, unsigned num_rails)
{
    return set->failover && (config->tx_queue_len == UCS_ULUNITS_AUTO) &&
           (set->num_paths >= set->min_paths + num_rails);
}

uint32_t uct_vqp_inflight(uint32_t send_depth)
{
    return (uint32_t)ucs_roundup_pow2(send_depth);
}

/* The largest ring: auto leaves the window what it is set to */
static size_t uct_vqp_settings_ring_size(const uct_vqp_iface_config_t *config)
{
    unsigned window;

    if (config->ring_size != UCS_MEMUNITS_AUTO) {
        return config->ring_size;
    }

    /* a window that is refused is not the ring's fault */
    window = ucs_min(ucs_max(config->fsn_window, 1u), (unsigned)VQP_FSN_WINDOW_MAX);
    return ucs_min(UCT_VQP_RING_MAX, VQP_RING_WINDOW_MAX / ucs_roundup_pow2(window));
}

/* Delayed credit must be recognized as old, see VQP_RING_WINDOW_MAX */
static ucs_status_t
uct_vqp_settings_check_ring(const uct_vqp_settings_t *set,
                            const uct_vqp_iface_config_t *config)
{
    size_t ring_size = uct_vqp_settings_ring_size(config);

    UCT_VQP_CHECK(uct_vqp_in_range(ring_size, 4 * UCS_KBYTE,
                                   128 * UCS_MBYTE) &&
                  ucs_is_pow2(ring_size),
                  "RING_SIZE", ring_size,
                  "must be a power of two from 4k to 128m");
    UCT_VQP_CHECK((config->ring_min == UCS_MEMUNITS_AUTO) ||
                  (uct_vqp_in_range(config->ring_min, 4 * UCS_KBYTE,
                                    ring_size) &&
                   ucs_is_pow2(config->ring_min)),
                  "RING_MIN", config->ring_min,
                  "must be a power of two from 4k to UCX_VQP_RING_SIZE");
    UCT_VQP_CHECK(config->max_mem != UCS_MEMUNITS_AUTO, "MAX_MEM", config->max_mem,
                  "must be a number of bytes, or inf");
    UCT_VQP_CHECK(uct_vqp_in_range(config->fsn_window, 16,
                                   VQP_FSN_WINDOW_MAX) &&
                  ucs_is_pow2(config->fsn_window),
                  "FSN_WINDOW", config->fsn_window,
                  "must be a power of two from 16 to 2048");
    UCT_VQP_CHECK(config->fsn_window >= 2 * set->num_paths, "FSN_WINDOW",
                  config->fsn_window,
                  "must be at least twice UCX_VQP_NUM_PATHS");
    UCT_VQP_CHECK(ring_size <= VQP_RING_WINDOW_MAX / config->fsn_window,
                  "RING_SIZE", ring_size,
                  "times UCX_VQP_FSN_WINDOW must be at most 2g");
    return UCS_OK;
}

static ucs_status_t
uct_vqp_settings_check_sizes(const uct_vqp_settings_t *set,
                             const uct_vqp_iface_config_t *config)
{
    UCT_VQP_CHECK((config->num_paths == UCS_ULUNITS_AUTO) ||
                  uct_vqp_in_range(config->num_paths, 1, VQP_MAX_PATHS),
                  "NUM_PATHS", config->num_paths, "must be auto, or from 1 to 64");
    UCT_VQP_CHECK((config->min_paths == UCS_ULUNITS_AUTO) ||
                  uct_vqp_in_range(config->min_paths, 1, set->num_paths),
                  "MIN_PATHS", config->min_paths,
                  "must be auto, or from 1 to UCX_VQP_NUM_PATHS");
    UCT_VQP_CHECK(uct_vqp_in_range(config->max_ops, 8, 4096),
                  "MAX_OPS", config->max_ops, "must be from 8 to 4096");
    UCT_VQP_CHECK((config->tx_queue_len == UCS_ULUNITS_AUTO) ||
                  uct_vqp_in_range(config->tx_queue_len, 8, 16384), "TX_QUEUE_LEN",
                  config->tx_queue_len, "must be auto, or from 8 to 16384");
    UCT_VQP_CHECK((config->tx_queue_len == UCS_ULUNITS_AUTO) ||
                  (config->tx_queue_len * set->num_paths < UCS_BIT(16)),
                  "TX_QUEUE_LEN", config->tx_queue_len,
                  "times UCX_VQP_NUM_PATHS must be below 65536");
    UCT_VQP_CHECK(uct_vqp_in_range(config->min_frag, 256, UCS_GBYTE),
                  "MIN_FRAG", config->min_frag, "must be from 256 to 1g");
    UCT_VQP_CHECK(uct_vqp_in_range(config->frag_size, config->min_frag,
                                   UCS_GBYTE),
                  "FRAG_SIZE", config->frag_size,
                  "must be from UCX_VQP_MIN_FRAG to 1g");
    UCT_VQP_CHECK(config->path_bytes > 0, "PATH_BYTES", config->path_bytes,
                  "must not be 0");
    UCT_VQP_CHECK(uct_vqp_in_range(config->rx_batch, 1, 1024), "RX_BATCH",
                  config->rx_batch, "must be from 1 to 1024");
    UCT_VQP_CHECK(uct_vqp_in_range(config->poll_max, 1, 64), "POLL_MAX",
                  config->poll_max, "must be from 1 to 64");
    UCT_VQP_CHECK(uct_vqp_in_range(config->seg_size, 256, UCS_GBYTE),
                  "SEG_SIZE", config->seg_size, "must be from 256 to 1g");
    UCT_VQP_CHECK(uct_vqp_in_range(config->tx_min_sge, 2, VQP_FRAG_MAX_SGE),
                  "TX_MIN_SGE", config->tx_min_sge, "must be from 2 to 16");
    return UCS_OK;
}

/* Round the checked values, and derive further ones */
static void uct_vqp_settings_sizes(uct_vqp_settings_t *set,
                                   const uct_vqp_iface_config_t *config,
                                   unsigned num_rails)
{
    int may_swap;

    set->ring_max   = (uint32_t)uct_vqp_settings_ring_size(config);
    set->ring_min   = (config->ring_min != UCS_MEMUNITS_AUTO) ?
                              (uint32_t)config->ring_min :
                              ucs_min(set->ring_max, (uint32_t)UCT_VQP_RING_MIN);
    set->max_mem    = config->max_mem;
    set->fsn_window = config->fsn_window;
    set->num_ops    = ucs_roundup_pow2((uint32_t)config->max_ops);
    set->first_ops  = ucs_min(set->num_ops, UCT_VQP_FIRST_OPS);
    set->failover   = config->failover != UCS_NO;
    set->exact      = config->failover != UCS_YES;
    set->rail_moves = set->failover && config->rail_moves;
    may_swap         = uct_vqp_may_swap(set, config, num_rails);
    set->send_depth  = (uint32_t)uct_vqp_send_depth(set, config, may_swap);
    set->first_depth = may_swap ? UCT_VQP_FIRST_DEPTH : set->send_depth;
    set->rx_batch   = ucs_min(config->rx_batch, config->fsn_window / 4);
    set->poll_max   = config->poll_max;
    set->seg_size   = (uint32_t)config->seg_size;
    set->min_shift  = (uint8_t)ucs_ilog2(config->min_frag);
    set->frag_shift = (uint8_t)ucs_ilog2(config->frag_size);
    uct_vqp_settings_path_bytes(set, config);

    /* Each path can receive all immediates of a window: after the loss of the other
     * paths, nothing waits for their receives; see vqp_tx_init */
    set->recv_credit = set->fsn_window + VQP_CONTROL_RESERVE;
    set->recv_depth  = set->recv_credit + set->rx_batch;

    /* Unsignaled ops hold places of the op rings: a quarter at most of those that have grown.
     * An op that is refused makes the others signaled */
    set->tx_moderation = ucs_min(config->tx_moderation,
                                 ucs_min(set->first_depth / 4,
                                         set->num_ops / (4 * set->num_paths)));
    set->tx_moderation = ucs_max(set->tx_moderation, 1);
}

/* "on", "off", or flow labels */
static ucs_status_t
uct_vqp_settings_entropy(uct_vqp_settings_t *set,
                         const ucs_config_names_array_t *words)
{
    unsigned long label;
    const char *word;
    unsigned i;
    char *end;

    word = (words->count == 1) ? words->names[0] : "";
    if (!strcasecmp(word, "on")) {
        return UCS_OK; /* no labels: salted ones */
    } else if (!strcasecmp(word, "off")) {
        set->num_labels = 1;
        return UCS_OK;
    }

    if ((words->count < 1) || (words->count > VQP_MAX_PATHS)) {
        ucs_error("UCX_VQP_PATH_ENTROPY: must be on, off, or 1 to %u flow "
                  "labels, here are %u", VQP_MAX_PATHS, words->count);
        return UCS_ERR_INVALID_PARAM;
    }

    for (i = 0; i < words->count; ++i) {
        word  = words->names[i];
        label = strtoul(word, &end, 0);
        if (!isdigit((unsigned char)*word) || (*end != '\0') ||
            (label > VQP_ENTROPY_LABEL_MAX)) {
            ucs_error("UCX_VQP_PATH_ENTROPY: '%s' is neither a flow label from "
                      "0 to 0x%x, nor on or off alone", word,
                      VQP_ENTROPY_LABEL_MAX);
            return UCS_ERR_INVALID_PARAM;
        }
        set->labels[i] = (uint32_t)label;
    }

    set->num_labels = words->count;
    return UCS_OK;
}

static ucs_status_t
uct_vqp_settings_sched(uct_vqp_settings_t *set, const char *name)
{
    if (!strcasecmp(name, "rr")) {
        set->sched = VQP_SCHED_RR;
    } else if (!strcasecmp(name, "left")) {
        set->sched = VQP_SCHED_LEFT;
    } else {
        ucs_error("UCX_VQP_SCHED=%s: must be rr or left; least and fixed were "
                  "removed, use left", name);
        return UCS_ERR_INVALID_PARAM;
    }

    return UCS_OK;
}

static int uct_vqp_is_time_given(ucs_time_t value)
{
    return (value != UCS_TIME_AUTO) && (value != UCS_TIME_INFINITY);
}

static ucs_status_t
uct_vqp_settings_check_path_time(ucs_time_t value, const char *name)
{
    double seconds = ucs_time_to_sec(value);

    if (uct_vqp_is_time_given(value) && ((seconds < UCT_VQP_PATH_TIMEOUT_MIN) ||
                                         (seconds > UCT_VQP_TIME_MAX))) {
        ucs_error("UCX_VQP_%s=%.3gs: must be from %gs to %gs, \"auto\" or \"inf\"",
                  name, seconds, UCT_VQP_PATH_TIMEOUT_MIN, UCT_VQP_TIME_MAX);
        return UCS_ERR_INVALID_PARAM;
    }

    return UCS_OK;
}

static uint64_t uct_vqp_path_time(ucs_time_t value, uint64_t automatic)
{
    return (value == UCS_TIME_INFINITY) ? 0 :
           (value == UCS_TIME_AUTO)     ? automatic :
                                          (uint64_t)ucs_time_to_nsec(value);
}

/* Check values that are stored in narrower fields or are times */
static ucs_status_t
uct_vqp_settings_check(const uct_vqp_iface_config_t *config)
{
    ucs_status_t status;

    UCT_VQP_CHECK((config->sl == UCS_ULUNITS_AUTO) || (config->sl <= 15), "SL",
                  config->sl, "must be auto, or from 0 to 15");
    UCT_VQP_CHECK(config->hop_limit <= 255, "HOP_LIMIT", config->hop_limit,
                  "must be from 0 to 255");
    UCT_VQP_CHECK(config->retry_count <= 7, "RETRY_COUNT", config->retry_count,
                  "must be from 0 to 7");
    UCT_VQP_CHECK(config->rnr_retry_count <= 7, "RNR_RETRY_COUNT",
                  config->rnr_retry_count, "must be from 0 to 7");
    UCT_VQP_CHECK(uct_vqp_in_range(config->read_depth, 1, 255), "READ_DEPTH",
                  config->read_depth, "must be from 1 to 255");
    UCT_VQP_CHECK((config->gid_index == UCS_ULUNITS_AUTO) ||
                  (config->gid_index <= UINT8_MAX),
                  "GID_INDEX", config->gid_index, "must be from 0 to 255");
    UCT_VQP_CHECK((config->traffic_class == UCS_ULUNITS_AUTO) ||
                  (config->traffic_class <= UINT8_MAX),
                  "TRAFFIC_CLASS", config->traffic_class,
                  "must be from 0 to 255");
    UCT_VQP_CHECK(config->pkey <= UINT16_MAX, "PKEY", config->pkey,
                  "must be at most 0xffff");
    UCT_VQP_CHECK(config->tx_min_inline <= UCS_MBYTE, "TX_MIN_INLINE",
                  config->tx_min_inline, "must be at most 1m");
    UCT_VQP_CHECK_TIME(config->timeout, "TIMEOUT");
    UCT_VQP_CHECK_TIME(config->rnr_timeout, "RNR_TIMEOUT");
    UCT_VQP_CHECK_TIME(config->connect_timeout, "CONNECT_TIMEOUT");
    UCT_VQP_CHECK_TIME(config->probe_interval, "PROBE_INTERVAL");
    UCT_VQP_CHECK_TIME(config->gap_timeout, "GAP_TIMEOUT");
    UCT_VQP_CHECK_TIME(config->outage_timeout, "OUTAGE_TIMEOUT");
    status = uct_vqp_settings_check_path_time(config->path_timeout, "PATH_TIMEOUT");
    return (status != UCS_OK) ? status :
           uct_vqp_settings_check_path_time(config->slow_path, "SLOW_PATH");
}

ucs_status_t uct_vqp_settings_init(uct_vqp_settings_t *set,
                                   const uct_vqp_iface_config_t *config,
                                   unsigned num_rails)
{
    ucs_status_t status;

    memset(set, 0, sizeof(*set));
    set->num_paths = (config->num_paths == UCS_ULUNITS_AUTO) ?
                             UCT_VQP_NUM_PATHS : (uint32_t)config->num_paths;
    set->min_paths = uct_vqp_min_paths(set, config, num_rails);
    status         = uct_vqp_settings_check_sizes(set, config);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_settings_check_ring(set, config);
    if (status != UCS_OK) {
        return status;
    }

    uct_vqp_settings_sizes(set, config, num_rails);

    status = uct_vqp_settings_entropy(set, &config->path_entropy);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_settings_sched(set, config->sched);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_settings_check(config);
    if (status != UCS_OK) {
        return status;
    }

    set->notify          = (uint8_t)config->notify;
    set->comp_post       = (uint8_t)config->comp_order;
    set->order_all       = (uint8_t)config->am_order;
    set->lag             = (uint8_t)config->lag;
    set->trace           = (uint8_t)config->trace;
    set->timeout         = uct_vqp_timeout_code(config->timeout);
    set->rnr_timer       = uct_vqp_rnr_code(config->rnr_timeout);
    set->retry_count     = (uint8_t)config->retry_count;
    set->rnr_retry       = (uint8_t)config->rnr_retry_count;
    set->sl              = (config->sl == UCS_ULUNITS_AUTO) ?
                                   UCT_VQP_SL : (uint8_t)config->sl;
    set->hop_limit       = (uint8_t)config->hop_limit;
    set->connect_timeout = (uint64_t)(config->connect_timeout * 1e9);
    set->probe_interval  = (uint64_t)(config->probe_interval * 1e9);
    set->gap_timeout     = (uint64_t)(config->gap_timeout * 1e9);
    set->path_timeout    = uct_vqp_path_time(config->path_timeout, UCT_VQP_AUTO);
    set->slow_path       = (set->num_labels == 0) ?
                                   uct_vqp_path_time(config->slow_path,
                                                     UCT_VQP_SLOW_PATH) : 0;
    set->outage_timeout  = (uint64_t)(config->outage_timeout * 1e9);
    return UCS_OK;
}
