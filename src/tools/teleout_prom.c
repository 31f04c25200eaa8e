/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics of vqp-top, see teleout.h. */
#include "tools/telelat.h"
#include "tools/teleout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TELEOUT_LATENCY "uct_vqp_path_latency_seconds"

static const char *const teleout_levels[] = {
    [VQP_TELEMETRY_IFACE] = "iface",
    [VQP_TELEMETRY_CONN]  = "conn",
    [VQP_TELEMETRY_PATH]  = "path"
};

/* The field of the same name and level. Most files have it at the same index */
static int teleout_same(const vqp_telemetry_t *tele, uint32_t index,
                        const vqp_telemetry_field_t *like, vqp_telemetry_field_t *field)
{
    if (index < tele->head.num_fields) {
        *field = vqp_telemetry_field(tele, index);
        if ((field->level == like->level) && (strcmp(field->name, like->name) == 0)) {
            return 1;
        }
    }

    return vqp_telemetry_find(tele, (vqp_telemetry_level_t)like->level, like->name, field);
}

/* What distinguishes a record from others, without the closing brace */
static void teleout_labels(FILE *out, const vqp_telemetry_t *tele,
                           vqp_telemetry_level_t level, uint32_t conn, uint32_t path)
{
    const vqp_telemetry_head_t *head = &tele->head;
    vqp_telemetry_field_t field;
    uint64_t number = conn;

    fprintf(out, "{pid=\"%" PRIu64 "\",iface=\"%016" PRIx64 "\",command=\"%s\",device="
            "\"%s\"", head->pid, head->iface, head->command, head->device);
    if (level == VQP_TELEMETRY_IFACE) {
        return;
    }

    if (vqp_telemetry_find(tele, VQP_TELEMETRY_CONN, "vqp", &field) &&
        (field.type != VQP_TELEMETRY_TEXT)) {
        number = vqp_telemetry_number(&field, vqp_telemetry_record(tele,
                                      VQP_TELEMETRY_CONN, conn, 0));
    }
    fprintf(out, ",conn=\"%" PRIu64 "\"", number);
    if (level == VQP_TELEMETRY_PATH) {
        fprintf(out, ",path=\"%" PRIu32 "\"", path);
    }
}

/* Prints what follows the labels of a record */
typedef void (*teleout_record_func_t)(FILE *out, const vqp_telemetry_t *tele,
                                      const vqp_telemetry_field_t *field,
                                      const char *record);

static void teleout_samples(FILE *out, const vqp_telemetry_t *tele,
                            const vqp_telemetry_field_t *field, const char *name,
                            teleout_record_func_t value)
{
    vqp_telemetry_level_t level = (vqp_telemetry_level_t)field->level;
    uint32_t conns = (level == VQP_TELEMETRY_IFACE) ? 1 : tele->head.num_conns;
    uint32_t paths = (level == VQP_TELEMETRY_PATH) ? tele->head.num_paths : 1;
    uint32_t conn, path;

    for (conn = 0; conn < conns; ++conn) {
        for (path = 0; path < paths; ++path) {
            fprintf(out, "%s", name);
            teleout_labels(out, tele, level, conn, path);
            value(out, tele, field, vqp_telemetry_record(tele, level, conn, path));
        }
    }
}

static void teleout_value(FILE *out, const vqp_telemetry_t *tele,
                          const vqp_telemetry_field_t *field, const char *record)
{
    (void)tele;
    fprintf(out, "} %" PRIu64 "\n", vqp_telemetry_number(field, record));
}

/* Texts and ids are labels of a metric that is always 1 */
static void teleout_info(FILE *out, const vqp_telemetry_t *tele,
                         const vqp_telemetry_field_t *level, const char *record)
{
    vqp_telemetry_field_t field;
    char text[264];
    uint32_t i;

    for (i = 0; i < tele->head.num_fields; ++i) {
        field = vqp_telemetry_field(tele, i);
        if (field.level != level->level) {
            continue;
        }

        if (field.type == VQP_TELEMETRY_TEXT) {
            vqp_telemetry_text(&field, record, text, sizeof(text));
            fprintf(out, ",info_%s=\"%s\"", field.name, text);
        } else if (field.type == VQP_TELEMETRY_ID) {
            fprintf(out, ",info_%s=\"0x%" PRIx64 "\"", field.name,
                    vqp_telemetry_number(&field, record));
        }
    }
    fprintf(out, "} 1\n");
}

/* Is it a metric? Not if its name could become that of another one: only a forged file
 * has such names */
static int teleout_is_metric(const vqp_telemetry_field_t *field)
{
    const char *end = strstr(field->name, "_total");

    return ((field->type == VQP_TELEMETRY_COUNTER) ||
            (field->type == VQP_TELEMETRY_GAUGE)) &&
           (end == NULL) && (strcmp(field->name, "info") != 0) &&
           (strncmp(field->name, "latency_seconds", 15) != 0) && !telelat_has(field);
}

/* All samples of the metric of @a like, from the file @a first of the set on */
static void teleout_metric(FILE *out, const teleset_t *set, const char *is_used,
                           size_t first, uint32_t index,
                           const vqp_telemetry_field_t *like)
{
    int is_counter = (like->type == VQP_TELEMETRY_COUNTER);
    vqp_telemetry_field_t field;
    char name[96];
    size_t i;

    snprintf(name, sizeof(name), "uct_vqp_%s_%s%s", teleout_levels[like->level],
             like->name, is_counter ? "_total" : "");
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, like->help, name,
            is_counter ? "counter" : "gauge");
    for (i = first; i < set->num; ++i) {
        if (is_used[i] && teleout_same(&set->files[i].tele, index, like, &field) &&
            (field.type == like->type)) {
            teleout_samples(out, &set->files[i].tele, &field, name, teleout_value);
        }
    }
}

static void teleout_metrics(FILE *out, const teleset_t *set, const char *is_used)
{
    vqp_telemetry_field_t field, other;
    uint32_t index;
    size_t i, j;

    for (i = 0; i < set->num; ++i) {
        for (index = 0; is_used[i] && (index < set->files[i].tele.head.num_fields);
             ++index) {
            field = vqp_telemetry_field(&set->files[i].tele, index);
            if (!teleout_is_metric(&field)) {
                continue;
            }

            for (j = 0; j < i; ++j) {
                if (is_used[j] &&
                    teleout_same(&set->files[j].tele, index, &field, &other) &&
                    teleout_is_metric(&other)) {
                    break; /* its metric has been printed */
                }
            }

            if (j == i) {
                teleout_metric(out, set, is_used, i, index, &field);
            }
        }
    }
}

/* A metric of Prometheus' type histogram: each bucket has those below it in it */
static void teleout_histogram(FILE *out, const vqp_telemetry_t *tele, uint32_t conn,
                              uint32_t path)
{
    const char *record = vqp_telemetry_record(tele, VQP_TELEMETRY_PATH, conn, path);
    uint64_t below     = 0;
    telelat_t latency;
    unsigned i;

    if (!telelat_read(&latency, tele, record)) {
        return;
    }

    for (i = 0; i < latency.num; ++i) {
        below += latency.buckets[i].count;
        fprintf(out, TELEOUT_LATENCY "_bucket");
        teleout_labels(out, tele, VQP_TELEMETRY_PATH, conn, path);
        fprintf(out, ",le=\"%.9g\"} %" PRIu64 "\n",
                (double)latency.buckets[i].limit * 1e-6, below);
    }

    fprintf(out, TELEOUT_LATENCY "_bucket");
    teleout_labels(out, tele, VQP_TELEMETRY_PATH, conn, path);
    fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\n" TELEOUT_LATENCY "_sum", latency.count);
    teleout_labels(out, tele, VQP_TELEMETRY_PATH, conn, path);
    fprintf(out, "} %.6f\n" TELEOUT_LATENCY "_count", (double)latency.sum * 1e-6);
    teleout_labels(out, tele, VQP_TELEMETRY_PATH, conn, path);
    fprintf(out, "} %" PRIu64 "\n", latency.count);
}

static void teleout_histograms(FILE *out, const teleset_t *set, const char *is_used)
{
    const vqp_telemetry_t *tele;
    uint32_t conn, path;
    size_t i;

    fprintf(out, "# HELP " TELEOUT_LATENCY " latency of samples of the work requests\n"
            "# TYPE " TELEOUT_LATENCY " histogram\n");
    for (i = 0; i < set->num; ++i) {
        tele = &set->files[i].tele;
        for (conn = 0; is_used[i] && (conn < tele->head.num_conns); ++conn) {
            for (path = 0; path < tele->head.num_paths; ++path) {
                teleout_histogram(out, tele, conn, path);
            }
        }
    }
}

static int teleout_compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t*)a, right = *(const uint64_t*)b;

    return (left < right) ? -1 : (left > right);
}

/* Do two connections of a file have the same number? Only a forged file has that */
static int teleout_has_twins(const vqp_telemetry_t *tele)
{
    uint32_t num = tele->head.num_conns;
    vqp_telemetry_field_t field;
    uint64_t *numbers;
    int found = 0;
    uint32_t i;

    if ((num == 0) || !vqp_telemetry_find(tele, VQP_TELEMETRY_CONN, "vqp", &field) ||
        (field.type == VQP_TELEMETRY_TEXT)) {
        return 0; /* then the label is the index */
    }

    numbers = calloc(num, sizeof(*numbers));
    if (numbers == NULL) {
        return 1;
    }

    for (i = 0; i < num; ++i) {
        numbers[i] = vqp_telemetry_number(&field, vqp_telemetry_record(tele,
                                          VQP_TELEMETRY_CONN, i, 0));
    }
    qsort(numbers, num, sizeof(*numbers), teleout_compare_numbers);
    for (i = 1; i < num; ++i) {
        found |= (numbers[i] == numbers[i - 1]);
    }
    free(numbers);
    return found;
}

static int teleout_is_usable(const teleset_t *set, size_t index, const char *is_used)
{
    const vqp_telemetry_head_t *head = &set->files[index].tele.head;
    size_t i;

    for (i = 0; i < index; ++i) {
        if (is_used[i] && (set->files[i].tele.head.pid == head->pid) &&
            (set->files[i].tele.head.iface == head->iface)) {
            return 0;
        }
    }

    return set->files[index].is_running && !set->files[index].is_torn &&
           !teleout_has_twins(&set->files[index].tele);
}

void teleout_prometheus(FILE *out, const teleset_t *set)
{
    static const vqp_telemetry_field_t levels[] = {
        {.level = VQP_TELEMETRY_CONN}, {.level = VQP_TELEMETRY_PATH}
    };
    char *is_used = calloc(set->num + 1, 1);
    char name[64];
    size_t i, j;

    if (is_used == NULL) {
        return;
    }

    for (i = 0; i < set->num; ++i) {
        is_used[i] = (char)teleout_is_usable(set, i, is_used);
    }

    fprintf(out, "# HELP uct_vqp_snapshot_seconds Unix time of the last snapshot\n"
            "# TYPE uct_vqp_snapshot_seconds gauge\n");
    for (i = 0; i < set->num; ++i) {
        if (is_used[i]) {
            fprintf(out, "uct_vqp_snapshot_seconds");
            teleout_labels(out, &set->files[i].tele, VQP_TELEMETRY_IFACE, 0, 0);
            fprintf(out, "} %.3f\n", (double)set->files[i].tele.head.updated * 1e-9);
        }
    }

    for (j = 0; j < sizeof(levels) / sizeof(levels[0]); ++j) {
        snprintf(name, sizeof(name), "uct_vqp_%s_info", teleout_levels[levels[j].level]);
        fprintf(out, "# HELP %s states and names\n# TYPE %s gauge\n", name, name);
        for (i = 0; i < set->num; ++i) {
            if (is_used[i]) {
                teleout_samples(out, &set->files[i].tele, &levels[j], name, teleout_info);
            }
        }
    }

    teleout_metrics(out, set, is_used);
    teleout_histograms(out, set, is_used);
    free(is_used);
}
