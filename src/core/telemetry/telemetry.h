/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of a telemetry file, and its reader. The file describes itself: a table
 * in it has the name, the help, the type and the place of each field. So a reader
 * needs no list of fields, and works with files of other versions of the module, as long
 * as VQP_TELEMETRY_VERSION is the same. The fields of this version are in
 * telefields.h.
 *
 *     vqp_telemetry_head_t            head_size bytes
 *     vqp_telemetry_field_t           field_size bytes each, num_fields of them
 *     record of the interface         record_size[IFACE] bytes
 *     for each of num_conns connections:
 *         record of the connection    record_size[CONN] bytes
 *         records of its paths        record_size[PATH] bytes each, num_paths of them
 *
 * Numbers have the byte order of the host. A number in a record has 8 bytes; a text is
 * padded by zeros and not terminated if it is as long as its field.
 *
 * Consistency: head.sequence is odd while the records are written. A reader takes a
 * copy of the file, then reads sequence again: the copy is consistent if both are
 * the same even number. The writer may end at any time: an odd number then stays.
 *
 * Whoever reads a file must not trust it: every function here accepts any bytes.
 * Pure: libc only.
 */
#ifndef VQP_CORE_TELEMETRY_TELEMETRY_H
#define VQP_CORE_TELEMETRY_TELEMETRY_H

#include "core/status.h"

#define VQP_TELEMETRY_MAGIC       "vqptele" /* and a zero: 8 bytes */
#define VQP_TELEMETRY_VERSION     1
#define VQP_TELEMETRY_ENDIAN      0x01020304u
#define VQP_TELEMETRY_FIELDS_MAX  512        /* what a reader accepts: fields, ... */
#define VQP_TELEMETRY_RECORD_MAX  65536      /* ...bytes of a record, ... */
#define VQP_TELEMETRY_CONNS_MAX   (1u << 20) /* ...and connections */

typedef enum {
    VQP_TELEMETRY_IFACE,
    VQP_TELEMETRY_CONN,
    VQP_TELEMETRY_PATH,
    VQP_TELEMETRY_LEVELS
} vqp_telemetry_level_t;

typedef enum {
    VQP_TELEMETRY_COUNTER, /* a number that only grows while its record exists */
    VQP_TELEMETRY_GAUGE,   /* a number */
    VQP_TELEMETRY_ID,      /* a number that names something: in hexadecimal */
    VQP_TELEMETRY_TEXT,
    VQP_TELEMETRY_TYPES
} vqp_telemetry_type_t;

typedef struct vqp_telemetry_head {
    char     magic[8];
    uint32_t endian;
    uint32_t version;
    uint32_t head_size;
    uint32_t field_size;
    uint32_t num_fields;
    uint32_t record_size[VQP_TELEMETRY_LEVELS];
    uint32_t num_paths;   /* of each connection */
    uint32_t num_conns;
    uint64_t sequence;  /* odd: the records are being written */
    uint64_t pid;
    uint64_t pid_start;   /* field 22 of /proc/PID/stat: distinguishes a process from a later
                             one with the same pid; 0: not known, as of an ended one */
    uint64_t created;     /* Unix time, ns */
    uint64_t updated;     /* likewise */
    uint64_t iface;       /* interface id */
    char     host[64];
    char     command[16];
    char     device[32];  /* "mlx5_0:1", of the first rail */
} vqp_telemetry_head_t;

typedef struct vqp_telemetry_field {
    char     name[32]; /* first; [a-z][a-z0-9_]*, unique in its level */
    char     help[96];
    uint32_t offset;   /* in the record */
    uint16_t size;     /* bytes: 8, or the length of a text */
    uint8_t  level;    /* vqp_telemetry_level_t */
    uint8_t  type;     /* vqp_telemetry_type_t */
} vqp_telemetry_field_t;

/** A file in memory. Points into the bytes that were given to vqp_telemetry_parse(). */
typedef struct vqp_telemetry {
    vqp_telemetry_head_t  head;   /* a copy; its texts are terminated and printable */
    const char           *fields;
    const char           *records;
    size_t                stride; /* bytes of a connection with its paths */
} vqp_telemetry_t;

/**
 * Check a copy of a file. All that is reached by the functions below is inside of it
 * then.
 *
 * @return VQP_OK
 *         VQP_INPROGRESS: valid, but the sequence is odd: records may be torn
 *         VQP_ERR_UNSUPPORTED: of another version or byte order
 *         VQP_ERR_PROTOCOL: not a telemetry file, truncated, or damaged.
 */
vqp_status_t vqp_telemetry_parse(vqp_telemetry_t *tele, const void *data, size_t length);

/** A field by its index, with a terminated and printable help. */
vqp_telemetry_field_t vqp_telemetry_field(const vqp_telemetry_t *tele, uint32_t index);

/** A field by its name. @return 1, or 0: this file has none of this name, and *field is
 *  undefined. */
int vqp_telemetry_find(const vqp_telemetry_t *tele, vqp_telemetry_level_t level,
                       const char *name, vqp_telemetry_field_t *field);

/**
 * The record of the interface, a connection or a path.
 *
 * @param [in] conn  Below num_conns; ignored for the interface.
 * @param [in] path  Below num_paths; ignored but for a path.
 */
const char *vqp_telemetry_record(const vqp_telemetry_t *tele, vqp_telemetry_level_t level,
                                 uint32_t conn, uint32_t path);

/** A number in a record of the field's level. */
uint64_t vqp_telemetry_number(const vqp_telemetry_field_t *field, const char *record);

/** A text in a record of the field's level: terminated, printable ASCII without quotes
 *  and backslashes, which become question marks. */
void vqp_telemetry_text(const vqp_telemetry_field_t *field, const char *record,
                        char *text, size_t size);

#endif
