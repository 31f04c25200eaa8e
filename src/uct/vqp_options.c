/* SPDX-License-Identifier: BSD-3-Clause */
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

static const char *uct_vqp_comp_order_names[] = {"any", "post", NULL};

static const char *uct_vqp_am_order_names[] = {"fence", "all", NULL};

static const char *uct_vqp_lag_names[] = {
    [UCT_VQP_LAG_AUTO]     = "auto",
    [UCT_VQP_LAG_HASH]     = "hash",
    [UCT_VQP_LAG_AFFINITY] = "affinity",
    [UCT_VQP_LAG_LAST]     = NULL
};

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
     "Largest number of paths (RC queue pairs) of each endpoint, 1 to 64. More paths\n"
     "use more links of a fabric or bond. Each path needs memory for its queue pair\n"
     "and for entries of the CQ. The endpoint uses the smaller number of both\n"
     "sides. UCX_VQP_MIN_PATHS has the number that it begins with. auto: 4.",
     UCT_VQP_OPTION(num_paths), UCS_CONFIG_TYPE_ULUNITS},

    {"MIN_PATHS", "auto",
     "Number of paths that an endpoint begins with, and always has, 1 to\n"
     "UCX_VQP_NUM_PATHS. Others are added, and dropped, while it is used: when\n"
     "those in use are full and one more raises the bandwidth, when all have\n"
     "failed, or when an atomic needs a rail that none of them leads to. auto: one\n"
     "for each rail, at most UCX_VQP_NUM_PATHS; without UCX_VQP_FAILOVER always\n"
     "UCX_VQP_NUM_PATHS. If a side has no failover, none is added: the endpoint has\n"
     "the smaller number of those that both sides begin with.",
     UCT_VQP_OPTION(min_paths), UCS_CONFIG_TYPE_ULUNITS},

    {"NOTIFY", "auto",
     "How the end of an active message of several frags is announced:\n"
     " - auto  : chosen for each message: dqplb if the message has no more frags\n"
     "           than the endpoint has paths, else tail.\n"
     " - dqplb : each frag carries an immediate.\n"
     " - spray : the frags carry no immediate; an empty write with an immediate\n"
     "           follows when all of them are acknowledged. One receive completion\n"
     "           and one more round trip per message.\n"
     " - tail  : the last frag on each path carries an immediate. One receive\n"
     "           completion per path, no additional round trip.",
     UCT_VQP_OPTION(notify), UCS_CONFIG_TYPE_ENUM(uct_vqp_notify_names)},

    {"SCHED", "left",
     "Scheduler: which path takes the next frag.\n"
     " - rr   : round robin over the paths that have room.\n"
     " - left : the path with the least expected finish time, by its bytes in\n"
     "          flight and its measured rate. Round robin while the rates of all\n"
     "          paths are about equal and few bytes are in flight.",
     UCT_VQP_OPTION(sched), UCS_CONFIG_TYPE_STRING},

    {"COMP_ORDER", "any",
     "Order in which completions of one endpoint are reported:\n"
     " - any  : each one as soon as all frags of the operation are confirmed.\n"
     " - post : in the order in which the operations were posted.",
     UCT_VQP_OPTION(comp_order),
     UCS_CONFIG_TYPE_ENUM(uct_vqp_comp_order_names)},

    {"AM_ORDER", "fence",
     "Which operations an active message is ordered with:\n"
     " - fence : other active messages; and the puts, gets and atomics that were\n"
     "           posted before the last fence.\n"
     " - all   : all operations posted before it, as if a fence preceded each\n"
     "           active message.",
     UCT_VQP_OPTION(am_order), UCS_CONFIG_TYPE_ENUM(uct_vqp_am_order_names)},

    {"FRAG_SIZE", "64k",
     "Largest frag in bytes, while several paths are in use; PATH_BYTES=auto may\n"
     "need larger ones. Rounded down to a power of two. Larger frags need less CPU\n"
     "time per byte; smaller ones balance the load of the paths better.",
     UCT_VQP_OPTION(frag_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"MIN_FRAG", "16k",
     "Smallest frag in bytes: operations up to this size are not split. Rounded\n"
     "down to a power of two. Not used while one path is in use: then only\n"
     "operations are split that are larger than half of UCX_VQP_PATH_BYTES.",
     UCT_VQP_OPTION(min_frag), UCS_CONFIG_TYPE_MEMUNITS},

    {"PATH_BYTES", "auto",
     "Bytes in flight at which a path takes no further frag. Bounds the time that\n"
     "a small message waits behind bulk data. Should exceed the bandwidth-delay\n"
     "product of one path. auto: 512 KiB, divided by the number of paths if that is\n"
     "fixed, but at least two frags; 2 MiB while one path is in use; up to 256 times\n"
     "as much, and larger frags, while the process calls progress so seldom that paths\n"
     "run empty. 1g at most.",
     UCT_VQP_OPTION(path_bytes), UCS_CONFIG_TYPE_MEMUNITS},

    {"RING_SIZE", "auto",
     "Largest active message ring of a connection: a power of two from 4k to 128m;\n"
     "RING_SIZE x FSN_WINDOW must not exceed 2g. The ring bounds the bytes of active\n"
     "messages in flight. A connection begins with RING_MIN; its ring grows while\n"
     "messages wait for it, and is given back after some seconds without messages.\n"
     "Each side pins its ring and, while it sends, a mirror of the peer's. The smaller\n"
     "value of both sides counts. auto: 4m, or what FSN_WINDOW allows if that is smaller.",
     UCT_VQP_OPTION(ring_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"RING_MIN", "auto",
     "Active message ring that a connection begins with, and keeps: a power of two\n"
     "from 4k to RING_SIZE. One message takes at most half of it. Must be equal on\n"
     "both sides. auto: 32k, or RING_SIZE if that is smaller.",
     UCT_VQP_OPTION(ring_min), UCS_CONFIG_TYPE_MEMUNITS},

    {"MAX_MEM", "64m",
     "Bytes that the rings of an interface which have grown, and their mirrors, take\n"
     "together at most. A ring takes at most a quarter of what is left: beyond that\n"
     "it does not grow, and its sender waits for the receiver.",
     UCT_VQP_OPTION(max_mem), UCS_CONFIG_TYPE_MEMUNITS},

    {"FSN_WINDOW", "128",
     "Immediates that may be in flight in one direction of a connection: a power\n"
     "of two from 16 to 2048, at least 2 x NUM_PATHS. Each path posts a receive\n"
     "for each of them. Must be equal on both sides.",
     UCT_VQP_OPTION(fsn_window), UCS_CONFIG_TYPE_UINT},

    {"MAX_OPS", "256",
     "Operations of an endpoint that may be accepted and not completed: that many\n"
     "active messages, and that many puts, gets, atomics and flushes. 8 to 4096,\n"
     "rounded up to a power of two; each operation takes 128 bytes. Beyond 32 of\n"
     "each the memory is allocated when one is refused for lack of a place; only 8\n"
     "bytes for each of the latter, for results of atomics, are pinned from the start.",
     UCT_VQP_OPTION(max_ops), UCS_CONFIG_TYPE_UINT},

    {"TX_QUEUE_LEN", "auto",
     "Length of the send queue of each path, in work requests, 8 to 16384.\n"
     "auto: if an endpoint may have a path more for each device, 256 divided by the\n"
     "number of paths that it begins with, and those have 32 until they are replaced\n"
     "under load; else 128 divided by that number. At least 32.",
     UCT_VQP_OPTION(tx_queue_len), UCS_CONFIG_TYPE_ULUNITS},

    {"TX_CQ_MODERATION", "16",
     "Largest number of consecutive unsignaled work requests on a path. Lowered if\n"
     "the queues are short.",
     UCT_VQP_OPTION(tx_moderation), UCS_CONFIG_TYPE_UINT},

    {"TX_MIN_INLINE", "60",
     "Bytes of inline data requested for each send queue entry. A device may grant\n"
     "less.",
     UCT_VQP_OPTION(tx_min_inline), UCS_CONFIG_TYPE_MEMUNITS},

    {"TX_MIN_SGE", "4",
     "Scatter-gather elements of a send queue entry, 2 to 16. A zero-copy operation\n"
     "takes one iov entry less.",
     UCT_VQP_OPTION(tx_min_sge), UCS_CONFIG_TYPE_UINT},

    {"RX_BATCH", "16",
     "Receives that are posted with one call. Each path posts that many more than\n"
     "the peer may consume.",
     UCT_VQP_OPTION(rx_batch), UCS_CONFIG_TYPE_UINT},

    {"POLL_MAX", "16",
     "Largest number of completions that one progress call handles, 1 to 64. In\n"
     "front of an event, for example the end of a peer, up to 64 times as many;\n"
     "and if the event gives paths up, twice as many as their queue pairs hold.",
     UCT_VQP_OPTION(poll_max), UCS_CONFIG_TYPE_UINT},

    {"SEG_SIZE", "8256",
     "Largest bcopy put, get or active message in bytes. An active message must\n"
     "also fit into half of RING_MIN.",
     UCT_VQP_OPTION(seg_size), UCS_CONFIG_TYPE_MEMUNITS},

    UCT_VQP_MPOOL_CONFIG_FIELDS("TX_", -1, 64, "send",
                                  UCT_VQP_OPTION(tx_mp),
                                  " put_bcopy and get_bcopy use them."),

    {"GID_INDEX", "auto",
     "Index of the port's GID to use. auto: on Ethernet the first of RoCEv2/IPv4,\n"
     "RoCEv2 with a global IPv6 address, RoCEv2 with a link-local one, RoCEv1; on\n"
     "InfiniBand 0.",
     UCT_VQP_OPTION(gid_index), UCS_CONFIG_TYPE_ULUNITS},

    {"TRAFFIC_CLASS", "auto",
     "Traffic class of all packets (on RoCEv2: DSCP x 4 + ECN), 0 to 255.\n"
     "auto: 106 on RoCEv2, as in UCX, else 0.",
     UCT_VQP_OPTION(traffic_class), UCS_CONFIG_TYPE_ULUNITS},

    {"SL", "0",
     "InfiniBand service level, on RoCE the priority; 0 to 15. auto: 0.",
     UCT_VQP_OPTION(sl), UCS_CONFIG_TYPE_ULUNITS},

    {"HOP_LIMIT", "255",
     "Hop limit (time to live) of packets with a GRH, 0 to 255.",
     UCT_VQP_OPTION(hop_limit), UCS_CONFIG_TYPE_UINT},

    {"PATH_ENTROPY", "on",
     "Flow labels of the paths. The label of a path determines its UDP source port\n"
     "on RoCEv2, which LAG and ECMP hash.\n"
     " - on   : a different random label for each path of each endpoint.\n"
     " - off  : label 0; most devices then derive the port from the queue pair\n"
     "          numbers.\n"
     " - LIST : labels of path 0, 1, ... of every endpoint, 0 to 0xfffff, separated\n"
     "          by commas; repeated if there are more paths. Label N below 16384\n"
     "          gives UDP source port 49152 + N.",
     UCT_VQP_OPTION(path_entropy), UCS_CONFIG_TYPE_STRING_ARRAY},

    {"LAG", "auto",
     "Which member port of a bonded mlx5 device a path sends from. Has no effect on\n"
     "other devices.\n"
     " - auto     : affinity if the device assigns each queue pair to a member port,\n"
     "              whatever its flow label is; else hash.\n"
     " - hash     : what the device chooses: by the hash of the flow, if its bond is in\n"
     "              that mode; else by turns over all queue pairs of the process.\n"
     " - affinity : the paths of an endpoint are assigned to the member ports in turn,\n"
     "              also if no queue pair was found to have one.\n"
     "With more than two member ports none is assigned.",
     UCT_VQP_OPTION(lag), UCS_CONFIG_TYPE_ENUM(uct_vqp_lag_names)},

    {"PKEY", "auto",
     "Partition key to use, in hexadecimal (0x8001), its membership bit ignored.\n"
     "auto: the first valid one of the port.",
     UCT_VQP_OPTION(pkey), UCS_CONFIG_TYPE_HEX},

    {"PATH_MTU", "default",
     "Path MTU in bytes: 256, 512, 1024, 2048, 4096; default: that of the port.\n"
     "The smaller one of both sides is used.",
     UCT_VQP_OPTION(path_mtu), UCS_CONFIG_TYPE_ENUM(uct_vqp_mtu_names)},

    {"TIMEOUT", "268ms",
     "Transport timeout: time without an acknowledgement after which a packet is\n"
     "retransmitted. Rounded up to 4.096 us times a power of two.",
     UCT_VQP_OPTION(timeout), UCS_CONFIG_TYPE_TIME},

    {"RETRY_COUNT", "6",
     "Number of retransmissions of a packet before the path fails, 0 to 7. With 7\n"
     "some devices retry for ever and never detect a dead peer.",
     UCT_VQP_OPTION(retry_count), UCS_CONFIG_TYPE_UINT},

    {"RNR_TIMEOUT", "1ms",
     "Time after which a peer retries if no receive was posted (RNR). Flow control\n"
     "prevents this case.",
     UCT_VQP_OPTION(rnr_timeout), UCS_CONFIG_TYPE_TIME},

    {"RNR_RETRY_COUNT", "6",
     "Number of RNR retries before the path fails, 0 to 7; 7 means for ever.",
     UCT_VQP_OPTION(rnr_retry_count), UCS_CONFIG_TYPE_UINT},

    {"READ_DEPTH", "16",
     "Largest number of READs and atomics that the devices execute at a time on each\n"
     "path, 1 to 255. Further ones wait in its send queue. Lowered to the limits of the\n"
     "device and the peer.",
     UCT_VQP_OPTION(read_depth), UCS_CONFIG_TYPE_UINT},

    {"CONNECT_TIMEOUT", "15s",
     "Time after which an endpoint whose peer does not answer the handshake fails\n"
     "with \"Endpoint timeout\". It counts anew when the peer answers another endpoint of\n"
     "this interface for the first time. Time in which this process is stopped does\n"
     "not count.",
     UCT_VQP_OPTION(connect_timeout), UCS_CONFIG_TYPE_TIME},

    {"PROBE_INTERVAL", "10s",
     "A connection that no local endpoint uses and that had no traffic for this\n"
     "time is probed with an empty write. It is released if the probe fails.\n"
     "0: never.",
     UCT_VQP_OPTION(probe_interval), UCS_CONFIG_TYPE_TIME},

    {"GAP_TIMEOUT", "10s",
     "The endpoint fails if an immediate is missing for this time while later ones\n"
     "have arrived. Does not apply to a peer with NOTIFY=spray, whose immediates\n"
     "depend on its progress calls. 0: wait for ever.",
     UCT_VQP_OPTION(gap_timeout), UCS_CONFIG_TYPE_TIME},

    {"FAILOVER", "auto",
     "An endpoint whose path fails continues on its other paths. What was in flight\n"
     "and not executed by the peer is sent again on one of them, and the path is\n"
     "rebuilt. It is off if one side has \"n\".\n"
     "auto: everything is executed once. If it can not be known whether the peer has\n"
     "      executed a put or an atomic, since its device does not count what it\n"
     "      executes, the endpoint fails.\n"
     "try:  the same.\n"
     "y:    in that case the put is written again, the atomic ends with an error, and\n"
     "      the endpoint continues. docs/failover.md says what this means.\n"
     "n:    the endpoint fails with its first path.",
     UCT_VQP_OPTION(failover), UCS_CONFIG_TYPE_TERNARY_AUTO},

    {"PATH_TIMEOUT", "auto",
     "With failover and several paths: time after which a path takes no more\n"
     "fragments, and the peer is asked to give it up, if it brings no completion\n"
     "while other paths of the endpoint bring some. What its bytes in flight should\n"
     "take is added. The time grows, up to 16 times, when a path that was silent\n"
     "moves again. \"inf\": never. \"auto\" is 2ms; \"inf\" if a device of either side\n"
     "does not count what it executes, since atomics could end in an error without\n"
     "need.",
     UCT_VQP_OPTION(path_timeout), UCS_CONFIG_TYPE_TIME_UNITS},

    {"SLOW_PATH", "auto",
     "With failover and several paths: time for which the rate of a path has been\n"
     "less than a quarter of that of others, after which the path is moved to another\n"
     "flow label. \"inf\": never. \"auto\" is 4ms. Has no effect with PATH_ENTROPY other\n"
     "than \"on\", with PATH_TIMEOUT=inf, and\n"
     "with PATH_TIMEOUT=auto if a device does not count what it executes.",
     UCT_VQP_OPTION(slow_path), UCS_CONFIG_TYPE_TIME_UNITS},

    {"RAIL_MOVES", "y",
     "With failover and several rails: a path that does not come up again moves to\n"
     "other rails, if both sides have \"y\", and back. docs/failover.md says when.",
     UCT_VQP_OPTION(rail_moves), UCS_CONFIG_TYPE_BOOL},

    {"OUTAGE_TIMEOUT", "5s",
     "With failover: time without any path, and without an acknowledgement of the peer,\n"
     "after which the endpoint fails. It fails earlier if the peer has died:\n"
     "docs/failover.md.",
     UCT_VQP_OPTION(outage_timeout), UCS_CONFIG_TYPE_TIME},

    {"TRACE", "n",
     "Log each posted frag, each received immediate and each control datagram, at\n"
     "log level \"debug\". Disables the fast path.",
     UCT_VQP_OPTION(trace), UCS_CONFIG_TYPE_BOOL},

    {"STATS_FILE", "",
     "File to which each interface appends its counters when it is closed, as one\n"
     "JSON object per line. Empty: no file.",
     UCT_VQP_OPTION(stats_file), UCS_CONFIG_TYPE_STRING},

    {"TELEMETRY", "off",
     "Live counters: each interface writes the counters of its connections and paths\n"
     "into a file once a second, while it is progressed. vqp-top shows them. The file\n"
     "is uct_vqp.PID.N, mode 0600. It is removed when the interface is closed, and\n"
     "stays if the process ends otherwise. See docs/telemetry.md.\n"
     " - off : no file.\n"
     " - on  : in the directory XDG_RUNTIME_DIR, or in /dev/shm if that is not usable.\n"
     " - DIR : in this directory.",
     UCT_VQP_OPTION(telemetry), UCS_CONFIG_TYPE_STRING},

    {NULL}
};
