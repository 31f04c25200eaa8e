/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency histograms of telemetry files, see telelat.h. */
#include "tools/telelat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TELELAT_PREFIX "latency_us_"

int telelat_has(const vqp_telemetry_field_t *field)
{
    return (field->level == VQP_TELEMETRY_PATH) &&
           (field->type == VQP_TELEMETRY_COUNTER) &&
           (strncmp(field->name, TELELAT_PREFIX, strlen(TELELAT_PREFIX)) == 0);
}

/* The limit in a name; 0: there is none. Leading zeros, and more digits than are printed,
 * would make two fields of one limit */
static uint64_t telelat_limit(const char *name)
{
    uint64_t limit = 0;

    if ((name[0] < '1') || (name[0] > '9') || (strlen(name) > 9)) {
        return 0;
    }

    for (; (*name >= '0') && (*name <= '9'); ++name) {
        limit = (10 * limit) + (uint64_t)(*name - '0');
    }

    return (*name == '\0') ? limit : 0;
}

static int telelat_compare(const void *a, const void *b)
{
    const telelat_bucket_t *left = a, *right = b;

    return (left->limit < right->limit) ? -1 : (left->limit > right->limit);
}

int telelat_read(telelat_t *latency, const vqp_telemetry_t *tele, const char *record)
{
    vqp_telemetry_field_t field;
    telelat_bucket_t *bucket;
    const char *name;
    uint64_t number;
    uint32_t i;

    memset(latency, 0, sizeof(*latency));
    for (i = 0; i < tele->head.num_fields; ++i) {
        field = vqp_telemetry_field(tele, i);
        if (!telelat_has(&field)) {
            continue;
        }

        name   = field.name + strlen(TELELAT_PREFIX);
        number = vqp_telemetry_number(&field, record);
        if (strcmp(name, "sum") == 0) {
            latency->sum = number;
        } else if (strcmp(name, "more") == 0) {
            latency->more   = number;
            latency->count += number;
        } else if ((telelat_limit(name) != 0) && (latency->num < TELELAT_BUCKETS)) {
            bucket          = &latency->buckets[latency->num++];
            bucket->limit   = telelat_limit(name);
            bucket->count   = number;
            latency->count += number;
        }
    }

    qsort(latency->buckets, latency->num, sizeof(latency->buckets[0]), telelat_compare);
    return latency->num > 0;
}

const char *telelat_percentile(const telelat_t *latency, unsigned percent, char *text,
                               size_t size)
{
    double wanted = (double)latency->count * percent / 100;
    double below  = 0;
    unsigned i;

    if ((latency->num == 0) || (latency->count == 0)) {
        return "-";
    }

    for (i = 0; i < latency->num; ++i) {
        below += (double)latency->buckets[i].count;
        if (below >= wanted) {
            snprintf(text, size, "<=%" PRIu64, latency->buckets[i].limit);
            return text;
        }
    }

    snprintf(text, size, ">%" PRIu64, latency->buckets[latency->num - 1].limit);
    return text;
}
