/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of a path and of a vqp, each defined once with its name and
 * help: the log, the statistics file and the VFS nodes are made from these two
 * lists.
 */
#ifndef VQP_CORE_STATS_H
#define VQP_CORE_STATS_H

#include <stdint.h>

#define VQP_PATH_COUNTERS(_) \
    _(frags, "work requests posted on the path that carry an operation's data") \
    _(bytes, "bytes of these frags") \
    _(imms, "immediates sent on the path, each consumes an fsn") \
    _(tx_cqes, "send completions polled") \
    _(rx_cqes, "receive completions polled") \
    _(replays, "frags that were not executed before the path failed, sent again")

#define VQP_COUNTERS(_) \
    _(ops, "operations accepted") \
    _(ams_rx, "active messages delivered") \
    _(no_resource, "operations refused for lack of a resource") \
    _(credit_stalls, "refusals for lack of ring bytes or fsns at the peer") \
    _(credit_requests, "credit updates that request credit of the peer") \
    _(credit_updates_tx, "credit updates sent") \
    _(credit_updates_rx, "credit updates received") \
    _(packed, "active messages that share the immediate of an earlier one") \
    _(ring_switches, "changes to another ring of the peer") \
    _(fences, "fence immediates sent") \
    _(nops, "empty writes posted to confirm unsignaled frags") \
    _(stale, "completions of an older queue pair of the path, ignored") \
    _(duplicates, "late or duplicate immediates, dropped") \
    _(ooo_max, "largest distance an immediate ran ahead of its order") \
    _(hs_retransmits, "handshake messages that were repeated") \
    _(path_downs, "paths that were given up") \
    _(path_ups, "paths that came back") \
    _(path_adds, "paths that were added while the connection was used") \
    _(path_drops, "paths that were dropped, since they were not needed") \
    _(silences, "paths that were given up because they were silent") \
    _(moves, "paths that worked and were moved: slow ones, or back to their first rails") \
    _(rail_moves, "times that the own end of a path moved to another rail") \
    _(rehashes, "paths that were slow, and got another UDP source port while they were used") \
    _(false_alarms, "silent paths whose next queue pair worked at once") \
    _(outage_ms, "time without any path that was up, milliseconds") \
    _(replayed, "frags that were sent again on another queue pair") \
    _(replayed_bytes, "bytes of these") \
    _(undecided, "atomics that ended in an error because their result is unknown") \
    _(gap_usec, "longest time an immediate was missing, microseconds")

#define VQP_COUNTER_FIELD(_name, _help) uint64_t _name;

typedef struct vqp_path_stats {
    VQP_PATH_COUNTERS(VQP_COUNTER_FIELD)
} vqp_path_stats_t;

typedef struct vqp_stats {
    VQP_COUNTERS(VQP_COUNTER_FIELD)
} vqp_stats_t;

#endif
