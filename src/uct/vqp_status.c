/* SPDX-License-Identifier: BSD-3-Clause */
/* See vqp_status.h. */
#include "uct/vqp_status.h"

#include "uct/vqp_telemetry.h"

#include "core/telemetry/telefields.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define UCT_VQP_STATUS_SIZE (64u << 10) /* bytes of the text */
#define UCT_VQP_STATUS_CUT  "\n(there is more: a telemetry file has all)\n"

static pthread_mutex_t uct_vqp_status_lock = PTHREAD_MUTEX_INITIALIZER;
static UCS_LIST_HEAD(uct_vqp_status_ifaces);

typedef struct uct_vqp_status_text {
    char   chars[UCT_VQP_STATUS_SIZE];
    size_t length;
} uct_vqp_status_text_t;

/* What does not fit is cut off; the last line says so */
static void UCS_F_PRINTF(2, 3)
uct_vqp_status_append(uct_vqp_status_text_t *text, const char *format, ...)
{
    size_t room = sizeof(text->chars) - text->length;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text->chars + text->length, room, format, args);
    va_end(args);
    text->length += ucs_min((size_t)ucs_max(length, 0), room - 1);
}

static int uct_vqp_status_is_full(const uct_vqp_status_text_t *text)
{
    return text->length == sizeof(text->chars) - 1;
}

static void uct_vqp_status_field(uct_vqp_status_text_t *text,
                                 const vqp_telemetry_field_t *field, const char *record)
{
    uint64_t number;
    char value[64];

    if (field->type == VQP_TELEMETRY_TEXT) {
        vqp_telemetry_text(field, record, value, sizeof(value));
        if (value[0] != '\0') {
            uct_vqp_status_append(text, " %s=%s", field->name, value);
        }
        return;
    }

    number = vqp_telemetry_number(field, record);
    if (number != 0) {
        uct_vqp_status_append(text, (field->type == VQP_TELEMETRY_ID) ?
                              " %s=%" PRIx64 : " %s=%" PRIu64, field->name, number);
    }
}

/* The rest of a line: what is not zero in a record */
static void uct_vqp_status_record(uct_vqp_status_text_t *text, vqp_telemetry_level_t level,
                                  const void *record)
{
    uint32_t num, i;
    const vqp_telemetry_field_t *fields = vqp_telemetry_fields(&num);

    for (i = 0; i < num; ++i) {
        if (fields[i].level == level) {
            uct_vqp_status_field(text, &fields[i], record);
        }
    }

    uct_vqp_status_append(text, "\n");
}

static void
uct_vqp_status_iface(uct_vqp_status_text_t *text, uct_vqp_iface_t *iface, uint64_t now)
{
    const uct_vqp_rail_t *rail = &iface->rails[0];
    vqp_telemetry_conn_t conn;
    vqp_telemetry_path_t path;
    uct_vqp_t *vqp;
    unsigned i;

    uct_vqp_status_append(text, "%s:%u interface %016" PRIx64 " connections=%u\n",
                          rail->dev->name, rail->port.num, iface->id, iface->num_vqps);
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if (uct_vqp_status_is_full(text)) {
            return;
        }

        memset(&conn, 0, sizeof(conn));
        uct_vqp_telemetry_conn(vqp, now, &conn);
        uct_vqp_status_append(text, "  connection");
        uct_vqp_status_record(text, VQP_TELEMETRY_CONN, &conn);
        for (i = 0; i < iface->set.num_paths; ++i) {
            memset(&path, 0, sizeof(path));
            uct_vqp_telemetry_path(vqp, i, &path);
            uct_vqp_status_append(text, "    path=%u", i);
            uct_vqp_status_record(text, VQP_TELEMETRY_PATH, &path);
        }
    }
}

const char *vqp_status(void)
{
    static uct_vqp_status_text_t text;
    uint64_t now = uct_vqp_now();
    uct_vqp_iface_t *iface;

    text.length = 0;
    if (pthread_mutex_trylock(&uct_vqp_status_lock) != 0) {
        return "an interface is being opened or closed: continue, and stop again\n";
    }
    if (ucs_list_is_empty(&uct_vqp_status_ifaces)) {
        pthread_mutex_unlock(&uct_vqp_status_lock);
        return "no interface of this copy of the module is open\n";
    }

    uct_vqp_status_append(&text, "uct_vqp interfaces=%lu\n",
                          ucs_list_length(&uct_vqp_status_ifaces));
    ucs_list_for_each(iface, &uct_vqp_status_ifaces, status_list) {
        uct_vqp_status_iface(&text, iface, now);
    }
    pthread_mutex_unlock(&uct_vqp_status_lock);
    if (uct_vqp_status_is_full(&text)) {
        strcpy(&text.chars[text.length - sizeof(UCT_VQP_STATUS_CUT) + 1],
               UCT_VQP_STATUS_CUT);
    }

    return text.chars;
}

void uct_vqp_status_add(uct_vqp_iface_t *iface)
{
    pthread_mutex_lock(&uct_vqp_status_lock);
    ucs_list_add_tail(&uct_vqp_status_ifaces, &iface->status_list);
    pthread_mutex_unlock(&uct_vqp_status_lock);
}

void uct_vqp_status_remove(uct_vqp_iface_t *iface)
{
    pthread_mutex_lock(&uct_vqp_status_lock);
    ucs_list_del(&iface->status_list);
    pthread_mutex_unlock(&uct_vqp_status_lock);
}
