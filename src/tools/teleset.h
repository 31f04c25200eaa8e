/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The telemetry files of a host: which there are, copies of their contents, and whether
 * their processes run. Files are not trusted: those of other users, links, and what is
 * not a telemetry file are left out. libc and the format in src/core only.
 */
#ifndef VQP_TOOLS_TELESET_H
#define VQP_TOOLS_TELESET_H

#include "core/telemetry/telemetry.h"

#include <limits.h>

typedef struct teleset_file {
    char            name[PATH_MAX];
    char           *data;
    vqp_telemetry_t tele;       /* of data */
    int             is_torn;    /* the writer stopped in the middle of a snapshot */
    int             is_running; /* its process */
    double          age;        /* seconds since the snapshot, not below 0 */
} teleset_file_t;

typedef struct teleset {
    teleset_file_t *files;      /* sorted by pid, then by name */
    size_t          num;
    int             is_verbose; /* print why a file is left out, to stderr */
} teleset_t;

/**
 * Add a file.
 *
 * @return 1, or 0: it was left out, with a line on stderr if set->is_verbose. If it
 *         does not exist any more, there is no line.
 */
int teleset_add_file(teleset_t *set, const char *name);

/** Add all uct_vqp.PID.N of a directory. @return 0, or an errno: it can not be read. */
int teleset_add_dir(teleset_t *set, const char *dir);

/** Add those of the directories that UCX_VQP_TELEMETRY=on uses: /dev/shm,
 *  $XDG_RUNTIME_DIR, /run/user/UID; as root, of all users. */
void teleset_add_default(teleset_t *set);

/** To be called when all are added. */
void teleset_sort(teleset_t *set);

/** Forget all files. */
void teleset_clear(teleset_t *set);

/** Remove files of this user whose process has ended. @return their number. */
unsigned teleset_clean(const teleset_t *set);

#endif
