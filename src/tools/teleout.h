/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What vqp-top prints of telemetry files: a table, JSON, and the text format of
 * Prometheus. Names in the files are printable, see vqp_telemetry_parse(). libc and the
 * format in src/core only.
 */
#ifndef VQP_TOOLS_TELEOUT_H
#define VQP_TOOLS_TELEOUT_H

#include "tools/teleset.h"

#include <stdio.h>

typedef enum {
    TELEOUT_SORT_RATE,  /* bytes per second, highest first */
    TELEOUT_SORT_BYTES, /* bytes posted, most first */
    TELEOUT_SORT_DOWNS, /* paths given up, most first */
    TELEOUT_SORT_PID    /* lowest first */
} teleout_sort_t;

/** A line per connection, with a line per path below it. */
void teleout_table(FILE *out, const teleset_t *set, teleout_sort_t sort);

/** One JSON object, with a final newline. All fields of all files. */
void teleout_json(FILE *out, const teleset_t *set);

/**
 * All numbers of the files whose process runs, as metrics uct_vqp_iface_*,
 * uct_vqp_conn_* and uct_vqp_path_*. Files whose labels are not unique are left out: a
 * reader would reject all metrics because of them.
 */
void teleout_prometheus(FILE *out, const teleset_t *set);

#endif
