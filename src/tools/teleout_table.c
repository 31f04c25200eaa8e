/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of vqp-top, see teleout.h. */
#include "tools/telelat.h"
#include "tools/teleout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A connection in the table; of an interface without one, only the file */
typedef struct teleout_row {
    const teleset_file_t *file;
    int                   has_conn;
    uint32_t              conn;
    uint64_t              rate;
    uint64_t              bytes;
    uint64_t              downs;
    teleout_sort_t        sort;
} teleout_row_t;

/* Of a field that this version of the file does not have: 0 */
static uint64_t teleout_number(const vqp_telemetry_t *tele, vqp_telemetry_level_t level,
                               const char *name, const char *record)
{
    vqp_telemetry_field_t field;

    return (vqp_telemetry_find(tele, level, name, &field) &&
            (field.type != VQP_TELEMETRY_TEXT)) ?
                   vqp_telemetry_number(&field, record) : 0;
}

/* Likewise: "-" */
static const char *
teleout_text(const vqp_telemetry_t *tele, vqp_telemetry_level_t level, const char *name,
             const char *record, char *text, size_t size)
{
    vqp_telemetry_field_t field;

    if (vqp_telemetry_find(tele, level, name, &field) &&
        (field.type == VQP_TELEMETRY_TEXT)) {
        vqp_telemetry_text(&field, record, text, size);
    } else {
        text[0] = '\0';
    }

    return (text[0] == '\0') ? "-" : text;
}

/* "1.21G": five characters at most */
static const char *teleout_short(uint64_t number, char text[16])
{
    static const char units[] = " kMGTPE";
    double value = (double)number;
    unsigned unit = 0;

    while ((value >= 999.5) && (unit < sizeof(units) - 2)) {
        value /= 1000;
        ++unit;
    }

    if (unit == 0) {
        snprintf(text, 16, "%.0f", value);
    } else {
        snprintf(text, 16, (value < 9.995) ? "%.2f%c" : (value < 99.95) ? "%.1f%c" :
                           "%.0f%c", value, units[unit]);
    }
    return text;
}

static void teleout_fill_row(teleout_row_t *row)
{
    const vqp_telemetry_t *tele = &row->file->tele;
    const char *record;
    uint32_t i;

    for (i = 0; i < tele->head.num_paths; ++i) {
        record      = vqp_telemetry_record(tele, VQP_TELEMETRY_PATH, row->conn, i);
        row->rate  += teleout_number(tele, VQP_TELEMETRY_PATH, "rate", record);
        row->bytes += teleout_number(tele, VQP_TELEMETRY_PATH, "bytes", record);
        row->downs += teleout_number(tele, VQP_TELEMETRY_PATH, "downs", record);
    }
}

static int teleout_compare(const void *a, const void *b)
{
    const teleout_row_t *left = a, *right = b;
    uint64_t x = 0, y = 0;

    if (left->sort == TELEOUT_SORT_RATE) {
        x = left->rate;
        y = right->rate;
    } else if (left->sort == TELEOUT_SORT_BYTES) {
        x = left->bytes;
        y = right->bytes;
    } else if (left->sort == TELEOUT_SORT_DOWNS) {
        x = left->downs;
        y = right->downs;
    }

    if (x != y) {
        return (x > y) ? -1 : 1;
    }

    /* as in the set: by pid and file */
    if (left->file != right->file) {
        return (left->file < right->file) ? -1 : 1;
    }

    return (left->conn < right->conn) ? -1 : (left->conn > right->conn);
}

/* One row per connection. NULL: no memory, or no row */
static teleout_row_t *
teleout_rows(const teleset_t *set, teleout_sort_t sort, size_t *num)
{
    teleout_row_t *rows;
    size_t count = 0;
    uint32_t conn;
    size_t i;

    for (i = 0; i < set->num; ++i) {
        count += vqp_max(set->files[i].tele.head.num_conns, 1u);
    }

    *num = 0;
    rows = calloc(count, sizeof(*rows));
    if ((rows == NULL) || (count == 0)) {
        return rows;
    }

    for (i = 0; i < set->num; ++i) {
        conn = 0;
        do {
            rows[*num].file     = &set->files[i];
            rows[*num].conn     = conn;
            rows[*num].sort     = sort;
            rows[*num].has_conn = (conn < set->files[i].tele.head.num_conns);
            if (rows[*num].has_conn) {
                teleout_fill_row(&rows[*num]);
            }
            ++*num;
        } while (++conn < set->files[i].tele.head.num_conns);
    }

    qsort(rows, *num, sizeof(*rows), teleout_compare);
    return rows;
}

static void teleout_path(FILE *out, const vqp_telemetry_t *tele, uint32_t conn,
                         uint32_t index)
{
    const char *record = vqp_telemetry_record(tele, VQP_TELEMETRY_PATH, conn, index);
    char state[32], device[64], port[96], rate[16], bytes[16], frags[16], flight[16];
    char p50[32], p99[32];
    telelat_t latency;
#define TELEOUT_PATH(_name) teleout_number(tele, VQP_TELEMETRY_PATH, _name, record)

    (void)telelat_read(&latency, tele, record);
    snprintf(port, sizeof(port), "%s:%" PRIu64,
             teleout_text(tele, VQP_TELEMETRY_PATH, "device", record, device,
                          sizeof(device)), TELEOUT_PATH("port"));
    fprintf(out, "%14" PRIu32 " %-8s %-12s %5" PRIu64 " 0x%05" PRIx64 " %8" PRIu64
            " %8" PRIu64 " %6s%s %6s %6s %6" PRIu64 " %6s %5" PRIu64 " %7" PRIu64
            " %7s %7s\n", index, teleout_text(tele, VQP_TELEMETRY_PATH, "state", record, state,
                                sizeof(state)),
            port, TELEOUT_PATH("source_port"), TELEOUT_PATH("flow_label"),
            TELEOUT_PATH("qpn"), TELEOUT_PATH("peer_qpn"),
            teleout_short(TELEOUT_PATH("rate"), rate), TELEOUT_PATH("low") ? "!" : " ",
            teleout_short(TELEOUT_PATH("bytes"), bytes),
            teleout_short(TELEOUT_PATH("frags"), frags), TELEOUT_PATH("in_flight"),
            teleout_short(TELEOUT_PATH("in_flight_bytes"), flight),
            TELEOUT_PATH("downs"), TELEOUT_PATH("replays"),
            telelat_percentile(&latency, 50, p50, sizeof(p50)),
            telelat_percentile(&latency, 99, p99, sizeof(p99)));
#undef TELEOUT_PATH
}

static void teleout_conn(FILE *out, const teleout_row_t *row)
{
    const vqp_telemetry_t *tele = &row->file->tele;
    const char *record = vqp_telemetry_record(tele, VQP_TELEMETRY_CONN, row->conn, 0);
    char state[32], rate[16], ops[16], stalls[16], refused[16];
    uint32_t i;
#define TELEOUT_CONN(_name) teleout_number(tele, VQP_TELEMETRY_CONN, _name, record)

    fprintf(out, "%5" PRIu64 " %016" PRIx64 " %-11s %6s %6s %6s %6s %6" PRIu64 " %5"
            PRIu64 " %8" PRIu64 " %8" PRIu64 " %5" PRIu64 " %6" PRIu64 "\n",
            TELEOUT_CONN("vqp"), TELEOUT_CONN("peer"),
            teleout_text(tele, VQP_TELEMETRY_CONN, "state", record, state, sizeof(state)),
            teleout_short(row->rate, rate), teleout_short(TELEOUT_CONN("ops"), ops),
            teleout_short(TELEOUT_CONN("credit_stalls"), stalls),
            teleout_short(TELEOUT_CONN("no_resource"), refused), TELEOUT_CONN("ooo_max"),
            TELEOUT_CONN("ahead"), TELEOUT_CONN("gap_usec"), TELEOUT_CONN("outage_usec"),
            TELEOUT_CONN("path_downs"), TELEOUT_CONN("replayed"));
#undef TELEOUT_CONN
    for (i = 0; i < tele->head.num_paths; ++i) {
        teleout_path(out, tele, row->conn, i);
    }
}

static void teleout_summary(FILE *out, const teleset_t *set, const teleout_row_t *rows,
                            size_t num)
{
    size_t i, conns = 0, ended = 0;
    uint64_t sum = 0;
    time_t now   = time(NULL);
    char text[32], rate[16];
    struct tm tm;

    for (i = 0; i < num; ++i) {
        conns += rows[i].has_conn ? 1 : 0;
        sum   += rows[i].file->is_running ? rows[i].rate : 0;
    }

    for (i = 0; i < set->num; ++i) {
        ended += set->files[i].is_running ? 0 : 1;
    }

    strftime(text, sizeof(text), "%H:%M:%S", localtime_r(&now, &tm));
    fprintf(out, "vqp-top %s   interfaces: %zu (%zu of ended processes)   connections: "
            "%zu   posted: %sB/s\n", text, set->num, ended, conns,
            teleout_short(sum, rate));
}

void teleout_table(FILE *out, const teleset_t *set, teleout_sort_t sort)
{
    const vqp_telemetry_head_t *head;
    teleout_row_t *rows;
    char status[48];
    size_t num, i;

    rows = teleout_rows(set, sort, &num);
    teleout_summary(out, set, rows, num);
    if (set->num == 0) {
        fprintf(out, "No process of this user runs with UCX_VQP_TELEMETRY=on.\n");
        free(rows);
        return;
    }

    fprintf(out, "\n    PID COMMAND         DEVICE           AGE CONN  PEER             "
            "STATE         RATE    OPS STALLS REFUSE REORDR AHEAD   GAP us OUTAG us DOWNS "
            "REPLAY\n          PATH STATE    PORT         SPORT   LABEL      QPN PEER QPN "
            "  RATE   BYTES  FRAGS FLIGHT  BYTES DOWNS REPLAYS  P50 us  P99 us\n");
    for (i = 0; i < num; ++i) {
        head = &rows[i].file->tele.head;
        if (rows[i].file->is_running) {
            snprintf(status, sizeof(status), "%.1f s", rows[i].file->age);
        } else {
            snprintf(status, sizeof(status), "ended");
        }
        fprintf(out, "%7" PRIu64 " %-15s %-12s %7s%s", head->pid, head->command,
                head->device, status, rows[i].file->is_torn ? "~" : " ");
        if (rows[i].has_conn) {
            teleout_conn(out, &rows[i]);
        } else {
            fprintf(out, "    - no connection\n");
        }
    }

    free(rows);
}
