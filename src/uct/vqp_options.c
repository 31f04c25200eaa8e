/* The configuration table, see vqp_options.h; vqp_settings.c interprets it. */
#include "uct/vqp_options.h"

#include <ucs/config/parser.h>

#include <infiniband/verbs.h>

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

    {"RING_SIZE", "64k",
     "Bytes of the active message ring of each connection, a power of two from\n"
     "4k to 1g. Each endpoint holds two of them, pinned (ring and mirror). Bytes\n"
     "of active messages under way, at most; one message takes up to half. Both\n"
     "sides must have the same size.",
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

    {"TX_QUEUE_LEN", "auto",
     "Length of the send queue of each path, in work requests, 8 to 16384.\n"
     "auto: 128 shared by the paths, 32 to 64 each.",
     UCT_VQP_OPTION(tx_queue_len), UCS_CONFIG_TYPE_ULUNITS},

    {"TX_CQ_MODERATION", "16",
     "Work requests without a completion of their own that a path sends in a row,\n"
     "at most. Lowered where the queues are short.",
     UCT_VQP_OPTION(tx_moderation), UCS_CONFIG_TYPE_UINT},

    {"TX_MIN_INLINE", "60",
     "Bytes that a send queue entry should take inline, at least; less when the\n"
     "device grants less.",
     UCT_VQP_OPTION(tx_min_inline), UCS_CONFIG_TYPE_MEMUNITS},

    {"TX_MIN_SGE", "4",
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
     "fails the endpoint; not if the peer has NOTIFY=spray, whose immediates wait\n"
     "for its next progress. 0: wait for ever.",
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
