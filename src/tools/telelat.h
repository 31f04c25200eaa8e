/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The latency histogram of a path in a telemetry file: the fields latency_us_LIMIT, with
 * limits in microseconds, latency_us_more and latency_us_sum. Other versions may have
 * other limits. Any file is accepted. libc and the format in src/core only.
 */
#ifndef VQP_TOOLS_TELELAT_H
#define VQP_TOOLS_TELELAT_H

#include "core/telemetry/telemetry.h"

#include <stddef.h>

#define TELELAT_BUCKETS 64 /* further ones are left out */

/** Samples up to a limit, and above the one before. */
typedef struct telelat_bucket {
    uint64_t limit; /* us */
    uint64_t count;
} telelat_bucket_t;

typedef struct telelat {
    telelat_bucket_t buckets[TELELAT_BUCKETS]; /* by limit */
    unsigned         num;
    uint64_t         more;  /* above the last limit */
    uint64_t         count; /* of all */
    uint64_t         sum;   /* us */
} telelat_t;

/** Is the field one of a histogram? */
int telelat_has(const vqp_telemetry_field_t *field);

/** The histogram of a path. @return 0: the file has none. */
int telelat_read(telelat_t *latency, const vqp_telemetry_t *tele, const char *record);

/**
 * The limit of the bucket that @a percent of the samples do not exceed, as text: "<=16";
 * ">16384" above the last limit; "-" without samples.
 */
const char *telelat_percentile(const telelat_t *latency, unsigned percent, char *text,
                               size_t size);

#endif
