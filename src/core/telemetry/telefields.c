/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of fields of a telemetry file, see telefields.h. Pure: libc only. */
#include "core/telemetry/telefields.h"

#include <string.h>

#define VQP_TELEMETRY_ENTRY(_record, _member, _name, _size, _level, _type, _help) \
    {_name, _help, offsetof(_record, _member), _size, VQP_TELEMETRY_##_level, \
     VQP_TELEMETRY_##_type},

#define VQP_IFACE_NUM(_type, _name, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_iface_t, _name, #_name, 8, IFACE, _type, _help)
#define VQP_IFACE_TEXT(_name, _size, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_iface_t, _name, #_name, _size, IFACE, TEXT, _help)
#define VQP_IFACE_STAT(_name, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_iface_t, stats._name, #_name, 8, IFACE, COUNTER, \
                        _help)
#define VQP_IFACE_CONTROL(_name, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_iface_t, control._name, "control_" #_name, 8, \
                        IFACE, COUNTER, _help)
#define VQP_CONN_NUM(_type, _name, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_conn_t, _name, #_name, 8, CONN, _type, _help)
#define VQP_CONN_TEXT(_name, _size, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_conn_t, _name, #_name, _size, CONN, TEXT, _help)
#define VQP_CONN_STAT(_name, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_conn_t, stats._name, #_name, 8, CONN, COUNTER, _help)
#define VQP_PATH_NUM(_type, _name, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_path_t, _name, #_name, 8, PATH, _type, _help)
#define VQP_PATH_TEXT(_name, _size, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_path_t, _name, #_name, _size, PATH, TEXT, _help)
#define VQP_PATH_STAT(_name, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_path_t, stats._name, #_name, 8, PATH, COUNTER, _help)

#define VQP_PATH_LATENCY(_member, _name, _help) \
    VQP_TELEMETRY_ENTRY(vqp_telemetry_path_t, latency._member, "latency_us_" _name, 8, \
                        PATH, COUNTER, _help)
#define VQP_PATH_BUCKET(_limit) \
    VQP_PATH_LATENCY(buckets[__builtin_ctz(_limit)], #_limit, "samples of the latency " \
                     "up to " #_limit " us, and above the limit before")

static const vqp_telemetry_field_t vqp_telemetry_table[] = {
    VQP_TELEMETRY_IFACE_FIELDS(VQP_IFACE_NUM, VQP_IFACE_TEXT)
    VQP_COUNTERS(VQP_IFACE_STAT)
    VQP_CONNTAB_COUNTERS(VQP_IFACE_CONTROL)
    VQP_TELEMETRY_CONN_FIELDS(VQP_CONN_NUM, VQP_CONN_TEXT)
    VQP_COUNTERS(VQP_CONN_STAT)
    VQP_TELEMETRY_PATH_FIELDS(VQP_PATH_NUM, VQP_PATH_TEXT)
    VQP_PATH_COUNTERS(VQP_PATH_STAT)
    VQP_LATENCY_LIMITS(VQP_PATH_BUCKET)
    VQP_PATH_LATENCY(buckets[VQP_LATENCY_BUCKETS - 1], "more", "samples that took longer")
    VQP_PATH_LATENCY(sum, "sum", "microseconds of all samples")
};

_Static_assert(sizeof(vqp_telemetry_table) / sizeof(vqp_telemetry_table[0]) <=
               VQP_TELEMETRY_FIELDS_MAX, "more fields than a reader accepts");

const vqp_telemetry_field_t *vqp_telemetry_fields(uint32_t *num)
{
    *num = sizeof(vqp_telemetry_table) / sizeof(vqp_telemetry_table[0]);
    return vqp_telemetry_table;
}

void vqp_telemetry_head_init(vqp_telemetry_head_t *head, uint32_t num_paths)
{
    memset(head, 0, sizeof(*head));
    memcpy(head->magic, VQP_TELEMETRY_MAGIC, sizeof(head->magic));
    head->endian     = VQP_TELEMETRY_ENDIAN;
    head->version    = VQP_TELEMETRY_VERSION;
    head->head_size  = sizeof(*head);
    head->field_size = sizeof(vqp_telemetry_field_t);
    head->num_paths  = num_paths;
    (void)vqp_telemetry_fields(&head->num_fields);
    head->record_size[VQP_TELEMETRY_IFACE] = sizeof(vqp_telemetry_iface_t);
    head->record_size[VQP_TELEMETRY_CONN]  = sizeof(vqp_telemetry_conn_t);
    head->record_size[VQP_TELEMETRY_PATH]  = sizeof(vqp_telemetry_path_t);
}
