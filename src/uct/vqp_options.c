/* The configuration table and its interpretation, see vqp_options.h. */
#include "uct/vqp_options.h"

#include "core/entropy.h"

#include <ucs/config/parser.h>
#include <ucs/debug/log.h>
#include <ucs/sys/string.h>
#include <ucs/sys/math.h>

#include <infiniband/verbs.h>
#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

static const char *uct_vqp_notify_names[] = {
    [VQP_NOTIFY_SPRAY] = "spray",
    [VQP_NOTIFY_DQPLB] = "dqplb",
    [VQP_NOTIFY_TAIL]  = "tail",
    [VQP_NOTIFY_AUTO]  = "auto",
    [VQP_NOTIFY_AUTO + 1] = NULL
};

static const char *uct_vqp_sched_names[] = {
    [VQP_SCHED_RR]    = "rr",
    [VQP_SCHED_LEAST] = "least",
    [VQP_SCHED_LEFT]  = "left",
    [VQP_SCHED_FIXED] = "fixed",
    [VQP_SCHED_FIXED + 1] = NULL
};

static const char *uct_vqp_comp_order_names[] = {"any", "post", NULL};

static const char *uct_vqp_am_order_names[] = {"fence", "all", NULL};

static const char *uct_vqp_mtu_names[] = {
    [0] = "default", [IBV_MTU_256] = "256",   [IBV_MTU_512] = "512",
    [IBV_MTU_1024] = "1024", [IBV_MTU_2048] = "2048", [IBV_MTU_4096] = "4096",
    [IBV_MTU_4096 + 1] = NULL
};

#define UCT_VQP_OPTION(_field) ucs_offsetof(uct_vqp_iface_config_t, _field)

ucs_config_field_t uct_vqp_iface_config_table[] = {
    {"", "ALLOC=huge,thp,mmap,heap", NULL, UCT_VQP_OPTION(super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"NUM_PATHS", "4",
     "Number of paths (RC queue pairs) of each endpoint, 1 to 64. More paths use\n"
     "more links of a fabric or bond, and cost queue pair and CQ memory each.\n"
     "The smaller number of both sides counts.",
     UCT_VQP_OPTION(num_paths), UCS_CONFIG_TYPE_UINT},

    {"NOTIFY", "auto",
     "How the end of an active message of several frags is announced:\n"
     " - auto  : for each message what costs least: dqplb if it has no more frags\n"
     "           than there are paths, else tail.\n"
     " - dqplb : every frag carries an immediate, the receiver counts them.\n"
     " - spray : plain frags, and one immediate when all are acknowledged. Fewer\n"
     "           receive completions, one more round trip per message.\n"
     " - tail  : the last frag on each path carries an immediate. As few receive\n"
     "           completions as paths, and no round trip.",
     UCT_VQP_OPTION(notify), UCS_CONFIG_TYPE_ENUM(uct_vqp_notify_names)},

    {"SCHED", "left",
     "Which path takes the next frag:\n"
     " - rr    : in turn, over the paths that have room.\n"
     " - least : the one with the fewest bytes in flight.\n"
     " - left  : the one that would be through with it first, by bytes in flight\n"
     "           and the measured pace of each path. As rr while all paths are\n"
     "           even and have little in flight.\n"
     " - fixed : the first path only, as far as it goes. For comparison.",
     UCT_VQP_OPTION(sched), UCS_CONFIG_TYPE_ENUM(uct_vqp_sched_names)},

    {"COMP_ORDER", "any",
     "Order in which completions of one endpoint are reported:\n"
     " - any  : as soon as all frags of an operation are confirmed.\n"
     " - post : in the order in which the operations were posted.",
     UCT_VQP_OPTION(comp_order),
     UCS_CONFIG_TYPE_ENUM(uct_vqp_comp_order_names)},

    {"AM_ORDER", "fence",
     "What an active message is ordered with:\n"
     " - fence : other active messages; and earlier puts, gets and atomics where\n"
     "           a fence was called between.\n"
     " - all   : everything posted before it, as if each had a fence in front.",
     UCT_VQP_OPTION(am_order), UCS_CONFIG_TYPE_ENUM(uct_vqp_am_order_names)},

    {"FRAG_SIZE", "64k",
     "Largest frag, in bytes, when an endpoint has several paths; rounded down\n"
     "to a power of two. Larger frags cost less CPU, smaller ones spread better.",
     UCT_VQP_OPTION(frag_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"MIN_FRAG", "16k",
     "Smallest frag, in bytes: messages up to this size are not split. Rounded\n"
     "down to a power of two.",
     UCT_VQP_OPTION(min_frag), UCS_CONFIG_TYPE_MEMUNITS},

    {"PATH_BYTES", "auto",
     "Bytes in flight on a path at which it takes no further frag. Bounds the\n"
     "time that a small message waits behind bulk data; should be above the\n"
     "bandwidth-delay product of one path. auto: 512 KiB shared by the paths, but\n"
     "two frags each at least; 1 MiB for a single path.",
     UCT_VQP_OPTION(path_bytes), UCS_CONFIG_TYPE_MEMUNITS},

    {"RING_SIZE", "128k",
     "Bytes of the active message ring of each connection, a power of two from\n"
     "8k to 1g. Each endpoint holds two of them, pinned (ring and mirror). One\n"
     "message takes up to half. Both sides must have the same size.",
     UCT_VQP_OPTION(ring_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"FSN_WINDOW", "128",
     "Frags with an immediate that may be on the way at once in one direction of\n"
     "a connection, a power of two from 16 to 4096. Both sides must agree.",
     UCT_VQP_OPTION(fsn_window), UCS_CONFIG_TYPE_UINT},

    {"MAX_OPS", "128",
     "Operations of an endpoint that may be accepted and not completed, for\n"
     "active messages, and again for RMA and atomics. Rounded up to a power of\n"
     "two, 8 to 4096; each takes 128 bytes.",
     UCT_VQP_OPTION(max_ops), UCS_CONFIG_TYPE_UINT},

    {"TX_QUEUE_LEN", "64",
     "Length of the send queue of each path, in work requests, 8 to 16384.",
     UCT_VQP_OPTION(tx_queue_len), UCS_CONFIG_TYPE_UINT},

    {"TX_CQ_MODERATION", "16",
     "Work requests without a completion of their own that a path sends in a row,\n"
     "at most. Lowered where the queues are short.",
     UCT_VQP_OPTION(tx_moderation), UCS_CONFIG_TYPE_UINT},

    {"TX_MIN_INLINE", "64",
     "Bytes that a send queue entry should take inline, at least; less when the\n"
     "device grants less.",
     UCT_VQP_OPTION(tx_min_inline), UCS_CONFIG_TYPE_MEMUNITS},

    {"TX_MIN_SGE", "5",
     "Scatter-gather elements of a send queue entry, 2 to 16; one less is the\n"
     "number of iov entries of a zero-copy operation.",
     UCT_VQP_OPTION(tx_min_sge), UCS_CONFIG_TYPE_UINT},

    {"RX_BATCH", "16",
     "Receives that are posted with one call. A path holds that many more than\n"
     "the peer may use.",
     UCT_VQP_OPTION(rx_batch), UCS_CONFIG_TYPE_UINT},

    {"POLL_MAX", "16",
     "Completions that one progress call takes, at most, 1 to 64.",
     UCT_VQP_OPTION(poll_max), UCS_CONFIG_TYPE_UINT},

    {"SEG_SIZE", "8256",
     "Bytes of the largest bcopy put, get or active message; the last also has\n"
     "to fit into half the ring.",
     UCT_VQP_OPTION(seg_size), UCS_CONFIG_TYPE_MEMUNITS},

    UCT_VQP_MPOOL_CONFIG_FIELDS("TX_", -1, 64, "send",
                                  UCT_VQP_OPTION(tx_mp),
                                  " They back put_bcopy and get_bcopy."),

    {"GID_INDEX", "auto",
     "Index of the port's GID to send from. auto: on Ethernet the first of\n"
     "RoCEv2/IPv4, RoCEv2/IPv6, RoCEv1; on InfiniBand 0.",
     UCT_VQP_OPTION(gid_index), UCS_CONFIG_TYPE_ULUNITS},

    {"TRAFFIC_CLASS", "auto",
     "Traffic class of all packets (on RoCEv2: DSCP x 4 + ECN), 0 to 255.\n"
     "auto: 106 on RoCEv2, as in UCX, else 0.",
     UCT_VQP_OPTION(traffic_class), UCS_CONFIG_TYPE_ULUNITS},

    {"SL", "0",
     "InfiniBand service level, on RoCE the priority; 0 to 15.",
     UCT_VQP_OPTION(sl), UCS_CONFIG_TYPE_UINT},

    {"HOP_LIMIT", "255",
     "Hop limit (time to live) of packets with a GRH, 0 to 255.",
     UCT_VQP_OPTION(hop_limit), UCS_CONFIG_TYPE_UINT},

    {"PATH_ENTROPY", "on",
     "Which flow each path is to a network that spreads flows over links by a\n"
     "hash. The flow label of a path gives its UDP source port on RoCEv2.\n"
     " - on   : another label for each path of each endpoint of each process.\n"
     " - off  : label 0; most devices then make the port of the queue pair numbers.\n"
     " - LIST : labels of path 0, 1, ... of every endpoint, 0 to 0xfffff, separated\n"
     "          by commas, from the front again when there are more paths. Label N\n"
     "          below 16384 is UDP source port 49152 + N.",
     UCT_VQP_OPTION(path_entropy), UCS_CONFIG_TYPE_STRING_ARRAY},

    {"PKEY", "auto",
     "Partition key to use, in hexadecimal (0x8001), its membership bit ignored.\n"
     "auto: the first valid one of the port.",
     UCT_VQP_OPTION(pkey), UCS_CONFIG_TYPE_HEX},

    {"PATH_MTU", "default",
     "Path MTU in bytes: 256, 512, 1024, 2048, 4096; default: that of the port.\n"
     "The smaller one of both sides counts.",
     UCT_VQP_OPTION(path_mtu), UCS_CONFIG_TYPE_ENUM(uct_vqp_mtu_names)},

    {"TIMEOUT", "268ms",
     "Transport timeout: how long a packet may be unacknowledged before it is\n"
     "sent again. Rounded up to 4.096 us times a power of two.",
     UCT_VQP_OPTION(timeout), UCS_CONFIG_TYPE_TIME},

    {"RETRY_COUNT", "6",
     "How often a packet is sent again before the path fails, 0 to 7. With 7\n"
     "some devices never give up, so that a dead peer is never noticed.",
     UCT_VQP_OPTION(retry_count), UCS_CONFIG_TYPE_UINT},

    {"RNR_TIMEOUT", "1ms",
     "How long a peer waits that met no posted receive. Flow control avoids it.",
     UCT_VQP_OPTION(rnr_timeout), UCS_CONFIG_TYPE_TIME},

    {"RNR_RETRY_COUNT", "6",
     "How often it tries then before the path fails, 0 to 7; 7 means for ever.",
     UCT_VQP_OPTION(rnr_retry_count), UCS_CONFIG_TYPE_UINT},

    {"READ_DEPTH", "16",
     "READs and atomics in flight on each path, at most; lowered to what device\n"
     "and peer can do. 1 to 255.",
     UCT_VQP_OPTION(read_depth), UCS_CONFIG_TYPE_UINT},

    {"CONNECT_TIMEOUT", "15s",
     "Time after which a peer that does not answer counts as unreachable: the\n"
     "endpoint then fails with \"Endpoint timeout\".",
     UCT_VQP_OPTION(connect_timeout), UCS_CONFIG_TYPE_TIME},

    {"PROBE_INTERVAL", "10s",
     "A connection that no local endpoint uses, and that has been silent so long,\n"
     "is probed with an empty write, and released when the peer is gone.\n"
     "0: never.",
     UCT_VQP_OPTION(probe_interval), UCS_CONFIG_TYPE_TIME},

    {"GAP_TIMEOUT", "10s",
     "An immediate that is missing for so long although later ones have arrived\n"
     "fails the endpoint. 0: wait for ever.",
     UCT_VQP_OPTION(gap_timeout), UCS_CONFIG_TYPE_TIME},

    {"TRACE", "n",
     "Log a line for each frag posted and each immediate received, and for each\n"
     "control message, at log level \"debug\". Slow.",
     UCT_VQP_OPTION(trace), UCS_CONFIG_TYPE_BOOL},

    {"STATS_FILE", "",
     "File to which each interface appends its counters when it is closed, one\n"
     "JSON object per line. Empty: none.",
     UCT_VQP_OPTION(stats_file), UCS_CONFIG_TYPE_STRING},

    {NULL}
};

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

#define UCT_VQP_TIME_MAX 1e9 /* seconds: any more does not fit nanoseconds */

/* No time is what UCX's parser takes as well: "inf", "nan", "-1s" */
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

/* For several paths: enough for 200 Gb/s x 20 us, and no more than a message may
 * wait behind on a path. For one, ops are not cut: its wire must not run empty
 * while one of them is confirmed. */
static uint64_t uct_vqp_path_bytes(const uct_vqp_iface_config_t *config)
{
    uint64_t frag = UCS_BIT(ucs_ilog2(config->frag_size));

    return (config->num_paths == 1) ? UCS_MBYTE :
           ucs_max(2 * frag, (512 * UCS_KBYTE) / config->num_paths);
}

static ucs_status_t
uct_vqp_settings_sizes(uct_vqp_settings_t *set,
                       const uct_vqp_iface_config_t *config)
{
    UCT_VQP_CHECK(uct_vqp_in_range(config->num_paths, 1, VQP_MAX_PATHS),
                  "NUM_PATHS", config->num_paths, "must be from 1 to 64");
    UCT_VQP_CHECK(uct_vqp_in_range(config->ring_size, 8 * UCS_KBYTE,
                                   UCS_GBYTE) &&
                  ucs_is_pow2(config->ring_size),
                  "RING_SIZE", config->ring_size,
                  "must be a power of two from 8k to 1g");
    UCT_VQP_CHECK(uct_vqp_in_range(config->fsn_window, 16, 4096) &&
                  ucs_is_pow2(config->fsn_window),
                  "FSN_WINDOW", config->fsn_window,
                  "must be a power of two from 16 to 4096");
    UCT_VQP_CHECK(config->fsn_window >= 2 * config->num_paths, "FSN_WINDOW",
                  config->fsn_window,
                  "must be at least twice UCX_VQP_NUM_PATHS");
    UCT_VQP_CHECK(uct_vqp_in_range(config->max_ops, 8, 4096),
                  "MAX_OPS", config->max_ops, "must be from 8 to 4096");
    UCT_VQP_CHECK(uct_vqp_in_range(config->tx_queue_len, 8, 16384),
                  "TX_QUEUE_LEN", config->tx_queue_len,
                  "must be from 8 to 16384");
    UCT_VQP_CHECK(config->tx_queue_len * config->num_paths < UCS_BIT(16),
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

    set->num_paths  = config->num_paths;
    set->ring_size  = (uint32_t)config->ring_size;
    set->fsn_window = config->fsn_window;
    set->num_ops    = ucs_roundup_pow2((uint32_t)config->max_ops);
    set->send_depth = config->tx_queue_len;
    set->inflight   = ucs_roundup_pow2((uint32_t)config->tx_queue_len);
    set->rx_batch   = ucs_min(config->rx_batch, config->fsn_window / 4);
    set->poll_max   = config->poll_max;
    set->seg_size   = (uint32_t)config->seg_size;
    set->min_shift  = (uint8_t)ucs_ilog2(config->min_frag);
    set->frag_shift = (uint8_t)ucs_ilog2(config->frag_size);
    set->path_bytes = (config->path_bytes != UCS_MEMUNITS_AUTO) ?
                              config->path_bytes : uct_vqp_path_bytes(config);

    /* One path must be able to carry half a window and the control reserve of
     * both directions, so that a receiver that tells its credit by halves never
     * leaves a sender without; see vqp_tx_init */
    set->recv_credit = ucs_min(2 * set->fsn_window / set->num_paths,
                               set->fsn_window + VQP_CONTROL_RESERVE);
    set->recv_credit = ucs_max(set->recv_credit, (set->fsn_window / 2) +
                                                 (2 * VQP_CONTROL_RESERVE));
    set->recv_depth  = set->recv_credit + set->rx_batch;

    /* Unsignaled ops hold places of the op rings: a quarter at most */
    set->tx_moderation = ucs_min(config->tx_moderation,
                                 ucs_min(set->send_depth / 4,
                                         set->num_ops / (4 * set->num_paths)));
    set->tx_moderation = ucs_max(set->tx_moderation, 1);
    return UCS_OK;
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

/* What goes into narrower fields further on, or is a time */
static ucs_status_t
uct_vqp_settings_check(const uct_vqp_iface_config_t *config)
{
    UCT_VQP_CHECK(config->sl <= 15, "SL", config->sl, "must be from 0 to 15");
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
    return UCS_OK;
}

ucs_status_t uct_vqp_settings_init(uct_vqp_settings_t *set,
                                   const uct_vqp_iface_config_t *config)
{
    ucs_status_t status;

    memset(set, 0, sizeof(*set));
    status = uct_vqp_settings_sizes(set, config);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_settings_entropy(set, &config->path_entropy);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_vqp_settings_check(config);
    if (status != UCS_OK) {
        return status;
    }

    set->notify          = (uint8_t)config->notify;
    set->sched           = (uint8_t)config->sched;
    set->comp_post       = (uint8_t)config->comp_order;
    set->order_all       = (uint8_t)config->am_order;
    set->trace           = (uint8_t)config->trace;
    set->timeout         = uct_vqp_timeout_code(config->timeout);
    set->rnr_timer       = uct_vqp_rnr_code(config->rnr_timeout);
    set->retry_count     = (uint8_t)config->retry_count;
    set->rnr_retry       = (uint8_t)config->rnr_retry_count;
    set->sl              = (uint8_t)config->sl;
    set->hop_limit       = (uint8_t)config->hop_limit;
    set->connect_timeout = (uint64_t)(config->connect_timeout * 1e9);
    set->probe_interval  = (uint64_t)(config->probe_interval * 1e9);
    set->gap_timeout     = (uint64_t)(config->gap_timeout * 1e9);
    return UCS_OK;
}
