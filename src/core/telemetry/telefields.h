/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fields of the telemetry file of this version, each defined once with its type
 * and help: the structures of the records and the table of fields in the file are made
 * from these lists. The counters of stats.h and conntab.h are part of them. Pure: libc
 * only.
 *
 * A field is _num(type, name, help) or _text(name, size, help).
 */
#ifndef VQP_CORE_TELEMETRY_TELEFIELDS_H
#define VQP_CORE_TELEMETRY_TELEFIELDS_H

#include "core/conn/conntab.h"
#include "core/stats.h"
#include "core/telemetry/latency.h"
#include "core/telemetry/telemetry.h"

#define VQP_TELEMETRY_IFACE_FIELDS(_num, _text) \
    _num(GAUGE, num_vqps, "connections of the interface")

#define VQP_TELEMETRY_CONN_FIELDS(_num, _text) \
    _num(GAUGE, vqp, "number of the connection in its interface") \
    _num(ID, peer, "interface id of the peer") \
    _num(GAUGE, conn, "number of the connection with this peer") \
    _text(state, 16, "state of the connection") \
    _text(handshake, 16, "state of its handshake") \
    _num(GAUGE, ahead, "immediates that have arrived and wait for a missing one") \
    _num(GAUGE, outage_usec, "microseconds without a path or an answer of the peer, now")

#define VQP_TELEMETRY_PATH_FIELDS(_num, _text) \
    _text(state, 16, "state of the path") \
    _text(device, 32, "device of the path") \
    _num(GAUGE, port, "port of the device") \
    _num(ID, flow_label, "flow label; 0: the device chooses the source port") \
    _num(GAUGE, source_port, "UDP source port that follows from the label, on RoCEv2") \
    _num(GAUGE, lag_port, "member port of a bonded device that the path is assigned to; " \
                          "0: none") \
    _num(ID, qpn, "number of the queue pair") \
    _num(ID, peer_qpn, "number of the peer's queue pair") \
    _num(GAUGE, rate, "bytes per second that were posted, since the last snapshot") \
    _num(GAUGE, low, "1: the path has less than half of its share, see the log") \
    _num(GAUGE, in_flight, "work requests posted and not confirmed") \
    _num(GAUGE, in_flight_bytes, "bytes of these") \
    _num(COUNTER, downs, "times that the path was given up") \
    _text(source, 8, "what the device counts executed requests by; -: no failover")

#define VQP_TELEMETRY_MEMBER_NUM(_type, _name, _help) uint64_t _name;
#define VQP_TELEMETRY_MEMBER_TEXT(_name, _size, _help) char _name[_size];

typedef struct vqp_telemetry_iface {
    VQP_TELEMETRY_IFACE_FIELDS(VQP_TELEMETRY_MEMBER_NUM, VQP_TELEMETRY_MEMBER_TEXT)
    vqp_stats_t         stats;   /* of all connections, also of those that are closed */
    vqp_conntab_stats_t control;
} vqp_telemetry_iface_t;

typedef struct vqp_telemetry_conn {
    VQP_TELEMETRY_CONN_FIELDS(VQP_TELEMETRY_MEMBER_NUM, VQP_TELEMETRY_MEMBER_TEXT)
    vqp_stats_t stats;
} vqp_telemetry_conn_t;

typedef struct vqp_telemetry_path {
    VQP_TELEMETRY_PATH_FIELDS(VQP_TELEMETRY_MEMBER_NUM, VQP_TELEMETRY_MEMBER_TEXT)
    vqp_path_stats_t stats;
    vqp_latency_t    latency;
} vqp_telemetry_path_t;

#undef VQP_TELEMETRY_MEMBER_NUM
#undef VQP_TELEMETRY_MEMBER_TEXT

/** The table of these fields. @return their number, in *num. */
const vqp_telemetry_field_t *vqp_telemetry_fields(uint32_t *num);

/** Fill what follows from the format: all but pid, times, names and num_conns. */
void vqp_telemetry_head_init(vqp_telemetry_head_t *head, uint32_t num_paths);

#endif
