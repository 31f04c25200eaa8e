/*
 * The configuration of the fabric: the environment variables VQP_FABRIC_*,
 * in one table that is parsed, checked, and printed as help. May call libc.
 */
#ifndef FAB_CONFIG_H
#define FAB_CONFIG_H

#include <stdint.h>
#include <stdio.h>

/** Highest numbers of devices, of ports of each, and of entries of a GID table
 * that the tables of the other objects are made for */
#define FAB_CONFIG_MAX_DEVICES 16
#define FAB_CONFIG_MAX_PORTS   4
#define FAB_CONFIG_MAX_GIDS    256
#define FAB_CONFIG_MAX_LINKS   64

/** Longest list of values */
#define FAB_CONFIG_MAX_LIST 64

enum fab_mode {
    FAB_MODE_IMMEDIATE,
    FAB_MODE_TIMED
};

enum fab_clock {
    FAB_CLOCK_REAL,
    FAB_CLOCK_VIRTUAL
};

enum fab_profile {
    FAB_PROFILE_CONNECTX,
    FAB_PROFILE_RXE,
    FAB_PROFILE_IRDMA,
    FAB_PROFILE_BNXT,
    FAB_PROFILE_SMALL,
    FAB_PROFILE_EFA,
    FAB_PROFILE_MLX5_LAG
};

enum fab_purge {
    FAB_PURGE_YES,
    FAB_PURGE_NO
};

/* What a query of an RC queue pair returns as rq_psn */
enum fab_rq_psn {
    FAB_RQ_PSN_EXACT,
    FAB_RQ_PSN_STALE,
    FAB_RQ_PSN_GARBAGE,
    FAB_RQ_PSN_ABSENT,
    FAB_RQ_PSN_DISCARDED,
    FAB_RQ_PSN_MESSAGES,
    FAB_RQ_PSN_READS
};

enum fab_link {
    FAB_LINK_ETHERNET,
    FAB_LINK_INFINIBAND
};

enum fab_speed {
    FAB_SPEED_SDR,
    FAB_SPEED_DDR,
    FAB_SPEED_QDR,
    FAB_SPEED_FDR,
    FAB_SPEED_EDR,
    FAB_SPEED_HDR,
    FAB_SPEED_NDR
};

enum fab_atomics {
    FAB_ATOMICS_NONE,
    FAB_ATOMICS_HCA,
    FAB_ATOMICS_GLOB
};

enum fab_arm {
    FAB_ARM_SILENT,
    FAB_ARM_EVENT
};

enum fab_retry7 {
    FAB_RETRY7_FINITE,
    FAB_RETRY7_ENDLESS
};

/* How the queue pairs of a bonded device get their ports */
enum fab_lag {
    FAB_LAG_OFF,
    FAB_LAG_HASH,
    FAB_LAG_AFFINITY
};

enum fab_lag_reset {
    FAB_LAG_RESET_NO,
    FAB_LAG_RESET_RTS
};

enum fab_violations_level {
    FAB_VIOLATIONS_OFF,
    FAB_VIOLATIONS_WARN,
    FAB_VIOLATIONS_FAIL,
    FAB_VIOLATIONS_ABORT
};

/* Some numbers, or ranges of them */
struct fab_config_span {
    uint64_t low;
    uint64_t high;
};

struct fab_config_list {
    const char             *text; /* as it was written */
    unsigned               count; /* at least 1 */
    struct fab_config_span spans[FAB_CONFIG_MAX_LIST];
};

/*
 * The table. STR(field, NAME, default, help): the variable is
 * VQP_FABRIC_<NAME>, its field a string.
 * SET(field, NAME, names, default, help): one of the names, its field the index of
 * it.
 * NUM(field, NAME, kind, min, max, default, help): kind COUNT takes k, m and g for
 * powers of 1024; kind TIME is in ns and takes ns, us, ms and s.
 * LST(field, NAME, kind, max, default, help): several of them with commas
 * between, each a number or a range LOW-HIGH.
 */
#define FAB_CONFIG_TABLE(STR, SET, NUM, LST) \
    SET(profile, PROFILE, "connectx|rxe|irdma|bnxt|small|efa|mlx5-lag", 0, \
        "whose limits and habits are the defaults of the options below; " \
        "small has low limits of every kind, efa no RC queue pairs") \
    STR(world, WORLD, "", \
        "name of the fabric: processes of one user that share it reach each " \
        "other (empty: one for the user)") \
    SET(mode, MODE, "immediate|timed", 0, \
        "immediate: a post executes at once; timed: each RC queue pair is a " \
        "path with DELAY, JITTER and PATH_RATE, and queue pairs overtake each " \
        "other. Paths are numbered from 0 in each process and device, and a " \
        "list has the value of path 0, 1 ...; at its end it begins anew. A " \
        "range (2us-50us) is drawn for each path by the seed") \
    SET(clock, CLOCK, "real|virtual", 0, \
        "virtual: time, as all of the process sees it, goes on by STEP with " \
        "each poll and each post, and by nothing else; for one process") \
    NUM(step, STEP, TIME, 1, 1000000, 100, \
        "virtual clock: what a poll takes, and a post") \
    NUM(seed, SEED, COUNT, 0, UINT64_MAX, 1, \
        "of the delays, of the garbage in undefined fields, of faults and of the " \
        "numbers that programs take from getrandom()") \
    LST(delay, DELAY, TIME, 10000000000, "1us", \
        "timed: the way to the peer of one packet, without its transmission, " \
        "by path") \
    LST(jitter, JITTER, TIME, 10000000000, "500ns", \
        "timed: at most so much is added to the delay of a WR, by path") \
    LST(path_mbps, PATH_RATE, COUNT, UINT32_MAX, "0", \
        "timed: Mb/s of a queue pair, by path (0: what the port has)") \
    NUM(links, LINKS, COUNT, 0, FAB_CONFIG_MAX_LINKS, 0, \
        "timed: links between a device and the others. A queue pair takes one " \
        "by a hash of its flow label, and all on a link share its rate: that " \
        "of PATH_RATE, which goes by link then (0: each has a way of its own)") \
    SET(lag, LAG, "off|hash|affinity", 0, \
        "each device is an mlx5 device with bonded ports, and LINKS is the number " \
        "of these. A queue pair takes one by the hash; or in turn, by the queue " \
        "pairs of its context, and the hash has no effect. mlx5dv has the calls") \
    SET(lag_reset, LAG_RESET, "no|rts", 0, \
        "with LAG=affinity: whether a queue pair gets another port in RTS") \
    LST(port_mbps, PORT_RATE, COUNT, UINT32_MAX, "0", \
        "timed: Mb/s that the queue pairs of a port share, by port, through " \
        "all devices (0: its speed x width)") \
    LST(port_delay, PORT_DELAY, TIME, 10000000000, "0", \
        "timed: added to the delay of what leaves a port, by port") \
    NUM(devices, DEVICES, COUNT, 0, FAB_CONFIG_MAX_DEVICES, 1, \
        "number of devices: fab0, fab1, ...") \
    NUM(ports, PORTS, COUNT, 1, FAB_CONFIG_MAX_PORTS, 1, \
        "ports of each device") \
    SET(link, LINK, "ethernet|infiniband", 0, \
        "link layer; ethernet is RoCEv2") \
    SET(speed, SPEED, "sdr|ddr|qdr|fdr|edr|hdr|ndr", 5, \
        "of a lane; hdr is 50 Gb/s") \
    NUM(width, WIDTH, COUNT, 1, 12, 4, "lanes of a port: 1, 2, 4, 8, 12") \
    NUM(mtu, MTU, COUNT, 256, 4096, 4096, \
        "active MTU of the ports: 256, 512, 1024, 2048 or 4096") \
    STR(gids, GIDS, "v2/ll,v2/ip", \
        "GID table of an Ethernet port: v1 or v2, a slash, and ll (the " \
        "link-local address), ip (10.88.PORT.DEVICE+1) or an address; - is " \
        "an empty entry") \
    NUM(gid_tbl_len, GID_TBL_LEN, COUNT, 1, FAB_CONFIG_MAX_GIDS, 16, \
        "length of the GID table, with its empty entries") \
    STR(ndev, NDEV, "lo", "network interface that RoCE GIDs belong to") \
    NUM(numa_node, NUMA_NODE, COUNT, 0, 1023, 0, "of the devices") \
    NUM(max_sge, MAX_SGE, COUNT, 1, 32, 30, \
        "scatter-gather entries of a WR of a queue pair") \
    NUM(max_inline, MAX_INLINE, COUNT, 0, 4096, 956, \
        "most bytes of inline data that a queue pair is given") \
    NUM(max_rd_atomic, MAX_RD_ATOMIC, COUNT, 0, 128, 16, \
        "READs and atomics that a queue pair has under way") \
    NUM(max_qp, MAX_QP, COUNT, 1, 1048560, 131072, \
        "queue pairs of a device") \
    NUM(max_qp_wr, MAX_QP_WR, COUNT, 1, 1048576, 32768, \
        "WRs of a send or receive queue") \
    NUM(max_cq, MAX_CQ, COUNT, 1, 16777216, 16777216, \
        "completion queues of a device") \
    NUM(max_cqe, MAX_CQE, COUNT, 1, 4194303, 4194303, \
        "entries of a completion queue") \
    NUM(max_srq, MAX_SRQ, COUNT, 0, 8388608, 8388608, \
        "shared receive queues of a device; 0: it has none") \
    NUM(max_srq_wr, MAX_SRQ_WR, COUNT, 1, 1048576, 32767, \
        "WRs of a shared receive queue") \
    NUM(max_srq_sge, MAX_SRQ_SGE, COUNT, 1, 32, 31, \
        "scatter-gather entries of such a WR") \
    NUM(max_mr, MAX_MR, COUNT, 1, 16777216, 16777216, \
        "memory regions of a device") \
    NUM(max_msg, MAX_MSG, COUNT, 4096, 1073741824, 1073741824, \
        "bytes of a message") \
    SET(atomics, ATOMICS, "none|hca|glob", 1, \
        "what atomics are atomic with: not offered, those of the same " \
        "device, everything") \
    SET(arm, ARM, "silent|event", 0, \
        "what arming a CQ does that has completions already: nothing, which " \
        "is all that verbs promise, and so with Soft-RoCE; or an event at " \
        "once, as a ConnectX, which stock UCX counts on") \
    SET(dmabuf, DMABUF, "yes|no", 0, \
        "whether memory of a dmabuf descriptor (a memfd) can be registered") \
    SET(peer_mem, PEER_MEM, "no|yes", 0, \
        "whether a driver offers device memory (shared mappings of a memfd " \
        "without access) for registration by address, as nvidia_peermem") \
    SET(retry7, RETRY7, "finite|endless", 0, \
        "whether a retry count of 7 is seven retries or no end of them") \
    SET(rq_psn, RQ_PSN, "exact|stale|garbage|absent|discarded|messages|reads", 0, \
        "rq_psn of ibv_query_qp, for RC: what the responder has executed; what " \
        "modify has set; any number; the query of a queue pair in ERR fails; it " \
        "counts what it discards in ERR, too; or one for each request; or one " \
        "for each READ") \
    SET(purge, PURGE, "yes|no", 0, \
        "whether completions of a queue pair vanish from its CQs, unpolled, " \
        "when it is destroyed or moved to RESET") \
    STR(role, ROLE, "", \
        "what the process is called in scripts of faults: kill role=NAME") \
    STR(faults, FAULTS, "", "script of faults (fab_fault.h)") \
    STR(violations, VIOLATIONS, "warn", \
        "misuse of verbs by the caller: off; warn: a line each; fail: and " \
        "status 86 at the end of the process; abort: at the first") \
    NUM(violation_lines, VIOLATION_LINES, COUNT, 1, UINT32_MAX, 20, \
        "lines of violations for each rule that a process prints at most") \
    NUM(yield, YIELD, COUNT, 0, UINT32_MAX, 256, \
        "empty polls in a row after which a thread gives its CPU away, so " \
        "that processes that poll can share one; 0: never") \
    STR(dir, DIR, "/dev/shm", \
        "where the memory of a world and its sysfs tree are kept") \
    NUM(verbose, VERBOSE, COUNT, 0, 2, 0, \
        "1: devices, errors of QPs, what faults do; 2: each verb")

#define FAB_CONFIG_STR_FIELD(_field, ...) const char *_field;
#define FAB_CONFIG_SET_FIELD(_field, ...) unsigned _field;
#define FAB_CONFIG_NUM_FIELD(_field, ...) uint64_t _field;
#define FAB_CONFIG_LST_FIELD(_field, ...) struct fab_config_list _field;

typedef struct fab_config {
    FAB_CONFIG_TABLE(FAB_CONFIG_STR_FIELD, FAB_CONFIG_SET_FIELD,
                     FAB_CONFIG_NUM_FIELD, FAB_CONFIG_LST_FIELD)
} fab_config_t;

/** The configuration; read only, and valid after fab_config_init(). */
extern fab_config_t fab_config;

/**
 * Read the environment into fab_config; only the first call of a process does
 * so. Any thread. A wrong value or an unknown VQP_FABRIC_ variable ends the
 * process with status 2, after a message: a test that runs on another fabric
 * than it asked for proves nothing.
 */
void fab_config_init(void);

/** Set @a *config from the environment, without side effects: 0, or -1 with
 * the reason in @a error. Strings point into the environment. */
int fab_config_parse(fab_config_t *config, char *error, size_t error_size);

/** Print name, value now, default and help of each option. */
void fab_config_print(FILE *out);

/** The value of the option @a name, as it is printed. @return 0 or ENOENT. */
int fab_config_text(const char *name, char *value, size_t size);

/** Mb/s of a port: what path and port rates of 0 stand for. */
uint64_t fab_config_link_mbps(const fab_config_t *config);

/** A line on stderr that begins with "fabric: ", with a newline added. */
void fab_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** fab_log() when VERBOSE is at least @a _level. */
#define fab_verbose(_level, ...) \
    do { \
        if (fab_config.verbose >= (_level)) { \
            fab_log(__VA_ARGS__); \
        } \
    } while (0)

#endif
