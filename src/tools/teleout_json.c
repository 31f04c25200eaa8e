/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON of vqp-top, see teleout.h. */
#include "tools/teleout.h"

#include <inttypes.h>

/* A file name in quotes. A directory of the command line may contain anything */
static void teleout_quote(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; ++text) {
        fputc(((*text < ' ') || (*text > '~') || (*text == '"') || (*text == '\\')) ?
                      '?' : *text, out);
    }
    fputc('"', out);
}

/* All fields of a record, as members of an object that has been opened */
static void teleout_json_record(FILE *out, const vqp_telemetry_t *tele,
                                vqp_telemetry_level_t level, const char *record)
{
    vqp_telemetry_field_t field;
    const char *comma = "";
    char text[264];
    uint32_t i;

    for (i = 0; i < tele->head.num_fields; ++i) {
        field = vqp_telemetry_field(tele, i);
        if (field.level != level) {
            continue;
        }

        fprintf(out, "%s\"%s\":", comma, field.name);
        comma = ",";
        if (field.type == VQP_TELEMETRY_TEXT) {
            vqp_telemetry_text(&field, record, text, sizeof(text));
            fprintf(out, "\"%s\"", text);
        } else {
            fprintf(out, (field.type == VQP_TELEMETRY_ID) ? "\"0x%" PRIx64 "\"" :
                                                            "%" PRIu64,
                    vqp_telemetry_number(&field, record));
        }
    }
}

static void teleout_json_conn(FILE *out, const vqp_telemetry_t *tele, uint32_t conn)
{
    uint32_t i;

    fprintf(out, "{\"fields\":{");
    teleout_json_record(out, tele, VQP_TELEMETRY_CONN,
                        vqp_telemetry_record(tele, VQP_TELEMETRY_CONN, conn, 0));
    fprintf(out, "},\"paths\":[");
    for (i = 0; i < tele->head.num_paths; ++i) {
        fprintf(out, "%s{", (i == 0) ? "" : ",");
        teleout_json_record(out, tele, VQP_TELEMETRY_PATH,
                            vqp_telemetry_record(tele, VQP_TELEMETRY_PATH, conn, i));
        fprintf(out, "}");
    }
    fprintf(out, "]}");
}

static void teleout_json_file(FILE *out, const teleset_file_t *file)
{
    const vqp_telemetry_head_t *head = &file->tele.head;
    uint32_t i;

    fprintf(out, "{\"file\":");
    teleout_quote(out, file->name);
    fprintf(out, ",\"pid\":%" PRIu64 ",\"command\":\"%s\",\"host\":\"%s\",\"device\":"
            "\"%s\",\"iface\":\"0x%" PRIx64 "\",\"running\":%s,\"torn\":%s,\"age\":%.3f,"
            "\"created\":%.3f,\"updated\":%.3f,\"fields\":{", head->pid, head->command,
            head->host, head->device, head->iface, file->is_running ? "true" : "false",
            file->is_torn ? "true" : "false", file->age, (double)head->created * 1e-9,
            (double)head->updated * 1e-9);
    teleout_json_record(out, &file->tele, VQP_TELEMETRY_IFACE,
                        vqp_telemetry_record(&file->tele, VQP_TELEMETRY_IFACE, 0, 0));
    fprintf(out, "},\"connections\":[");
    for (i = 0; i < head->num_conns; ++i) {
        fprintf(out, "%s\n", (i == 0) ? "" : ",");
        teleout_json_conn(out, &file->tele, i);
    }
    fprintf(out, "]}");
}

void teleout_json(FILE *out, const teleset_t *set)
{
    size_t i;

    fprintf(out, "{\"interfaces\":[");
    for (i = 0; i < set->num; ++i) {
        fprintf(out, "%s\n", (i == 0) ? "" : ",");
        teleout_json_file(out, &set->files[i]);
    }
    fprintf(out, "]}\n");
}
