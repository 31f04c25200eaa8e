/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a telemetry file, see telemetry.h. Pure: libc only. */
#include "core/telemetry/telemetry.h"

#include <string.h>

/* What terminals, JSON and Prometheus take as it is */
static void vqp_telemetry_clean(char *text, size_t size)
{
    size_t i;

    text[size - 1] = '\0';
    for (i = 0; text[i] != '\0'; ++i) {
        if ((text[i] < ' ') || (text[i] > '~') || (text[i] == '"') ||
            (text[i] == '\\')) {
            text[i] = '?';
        }
    }
}

static int vqp_telemetry_name_is_valid(const char *name, size_t size)
{
    size_t i;

    if ((name[0] < 'a') || (name[0] > 'z')) {
        return 0;
    }

    for (i = 0; (i < size) && (name[i] != '\0'); ++i) {
        if (((name[i] < 'a') || (name[i] > 'z')) &&
            ((name[i] < '0') || (name[i] > '9')) && (name[i] != '_')) {
            return 0;
        }
    }

    return i < size;
}

static void vqp_telemetry_get_field(const vqp_telemetry_t *tele, uint32_t index,
                                    vqp_telemetry_field_t *field)
{
    memcpy(field, tele->fields + ((size_t)index * tele->head.field_size),
           sizeof(*field));
}

static int vqp_telemetry_field_is_valid(const vqp_telemetry_t *tele, uint32_t index)
{
    vqp_telemetry_field_t field, other;
    uint32_t i;

    vqp_telemetry_get_field(tele, index, &field);
    if (!vqp_telemetry_name_is_valid(field.name, sizeof(field.name)) ||
        (field.level >= VQP_TELEMETRY_LEVELS) ||
        (field.type >= VQP_TELEMETRY_TYPES) || (field.size == 0) ||
        ((field.type != VQP_TELEMETRY_TEXT) && (field.size != sizeof(uint64_t))) ||
        ((uint64_t)field.offset + field.size >
         tele->head.record_size[field.level])) {
        return 0;
    }

    for (i = 0; i < index; ++i) {
        vqp_telemetry_get_field(tele, i, &other);
        if (other.level != field.level) {
            continue;
        }

        /* If fields could overlap, the output of a short file could be endless */
        if ((strcmp(other.name, field.name) == 0) ||
            ((field.offset < (uint64_t)other.offset + other.size) &&
             (other.offset < (uint64_t)field.offset + field.size))) {
            return 0;
        }
    }

    return 1;
}

static int vqp_telemetry_head_is_valid(const vqp_telemetry_head_t *head)
{
    unsigned i;

    for (i = 0; i < VQP_TELEMETRY_LEVELS; ++i) {
        if (head->record_size[i] > VQP_TELEMETRY_RECORD_MAX) {
            return 0;
        }
    }

    /* Of records without bytes a short file could have millions */
    if (((head->num_conns > 0) &&
         (head->record_size[VQP_TELEMETRY_CONN] < sizeof(uint64_t))) ||
        ((head->num_paths > 0) &&
         (head->record_size[VQP_TELEMETRY_PATH] < sizeof(uint64_t)))) {
        return 0;
    }

    return (head->head_size >= sizeof(*head)) &&
           (head->head_size <= VQP_TELEMETRY_RECORD_MAX) &&
           (head->field_size >= sizeof(vqp_telemetry_field_t)) &&
           (head->field_size <= VQP_TELEMETRY_RECORD_MAX) &&
           (head->num_fields <= VQP_TELEMETRY_FIELDS_MAX) &&
           (head->num_paths <= VQP_MAX_PATHS) &&
           (head->num_conns <= VQP_TELEMETRY_CONNS_MAX);
}

vqp_status_t vqp_telemetry_parse(vqp_telemetry_t *tele, const void *data, size_t length)
{
    vqp_telemetry_head_t *head = &tele->head;
    uint64_t before, stride;
    uint32_t i;

    if (length < sizeof(*head)) {
        return VQP_ERR_PROTOCOL;
    }

    memcpy(head, data, sizeof(*head));
    if (memcmp(head->magic, VQP_TELEMETRY_MAGIC, sizeof(head->magic)) != 0) {
        return VQP_ERR_PROTOCOL;
    }

    if ((head->endian != VQP_TELEMETRY_ENDIAN) ||
        (head->version != VQP_TELEMETRY_VERSION)) {
        return VQP_ERR_UNSUPPORTED;
    }

    if (!vqp_telemetry_head_is_valid(head)) {
        return VQP_ERR_PROTOCOL;
    }

    before = head->head_size + ((uint64_t)head->num_fields * head->field_size);
    stride = head->record_size[VQP_TELEMETRY_CONN] +
             ((uint64_t)head->num_paths * head->record_size[VQP_TELEMETRY_PATH]);
    if (before + head->record_size[VQP_TELEMETRY_IFACE] +
        (head->num_conns * stride) > length) {
        return VQP_ERR_PROTOCOL;
    }

    tele->fields  = (const char*)data + head->head_size;
    tele->records = (const char*)data + before;
    tele->stride  = stride;
    for (i = 0; i < head->num_fields; ++i) {
        if (!vqp_telemetry_field_is_valid(tele, i)) {
            return VQP_ERR_PROTOCOL;
        }
    }

    vqp_telemetry_clean(head->host, sizeof(head->host));
    vqp_telemetry_clean(head->command, sizeof(head->command));
    vqp_telemetry_clean(head->device, sizeof(head->device));
    return (head->sequence & 1) ? VQP_INPROGRESS : VQP_OK;
}

vqp_telemetry_field_t vqp_telemetry_field(const vqp_telemetry_t *tele, uint32_t index)
{
    vqp_telemetry_field_t field;

    vqp_telemetry_get_field(tele, index, &field);
    vqp_telemetry_clean(field.help, sizeof(field.help));
    return field;
}

int vqp_telemetry_find(const vqp_telemetry_t *tele, vqp_telemetry_level_t level,
                       const char *name, vqp_telemetry_field_t *field)
{
    uint32_t i;

    for (i = 0; i < tele->head.num_fields; ++i) {
        /* the name is first, and was found to be terminated */
        if (strcmp(tele->fields + ((size_t)i * tele->head.field_size), name) != 0) {
            continue;
        }

        *field = vqp_telemetry_field(tele, i);
        if (field->level == level) {
            return 1;
        }
    }

    return 0;
}

const char *vqp_telemetry_record(const vqp_telemetry_t *tele, vqp_telemetry_level_t level,
                                 uint32_t conn, uint32_t path)
{
    const uint32_t *size = tele->head.record_size;
    const char *record   = tele->records;

    if (level == VQP_TELEMETRY_IFACE) {
        return record;
    }

    record += size[VQP_TELEMETRY_IFACE] + (conn * tele->stride);
    if (level == VQP_TELEMETRY_CONN) {
        return record;
    }

    return record + size[VQP_TELEMETRY_CONN] +
           ((size_t)path * size[VQP_TELEMETRY_PATH]);
}

uint64_t vqp_telemetry_number(const vqp_telemetry_field_t *field, const char *record)
{
    uint64_t number;

    memcpy(&number, record + field->offset, sizeof(number));
    return number;
}

void vqp_telemetry_text(const vqp_telemetry_field_t *field, const char *record,
                        char *text, size_t size)
{
    size_t length = vqp_min((size_t)field->size, size - 1);

    memcpy(text, record + field->offset, length);
    text[length] = '\0';
    vqp_telemetry_clean(text, size);
}
