/* SPDX-License-Identifier: BSD-3-Clause */
/* The telemetry file of an end, see accept_tele.h. */
#include "tools/accept_tele.h"

#include "tools/teleset.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TELE_PERIOD 0.05 /* seconds between two looks */

static uint64_t tele_number(const vqp_telemetry_t *tele, vqp_telemetry_level_t level,
                            unsigned path, const char *name)
{
    vqp_telemetry_field_t field;

    return vqp_telemetry_find(tele, level, name, &field) ?
                   vqp_telemetry_number(&field,
                                        vqp_telemetry_record(tele, level, 0, path)) : 0;
}

static void tele_text(const vqp_telemetry_t *tele, vqp_telemetry_level_t level,
                      unsigned path, const char *name, char *text, size_t size)
{
    vqp_telemetry_field_t field;

    text[0] = '\0';
    if (vqp_telemetry_find(tele, level, name, &field)) {
        vqp_telemetry_text(&field, vqp_telemetry_record(tele, level, 0, path), text, size);
    }
}

static void tele_fill(const vqp_telemetry_t *from, accept_tele_t *to)
{
    char state[20];
    unsigned i;

    to->max_paths = from->head.num_paths;
    to->downs     = tele_number(from, VQP_TELEMETRY_CONN, 0, "path_downs");
    to->ups       = tele_number(from, VQP_TELEMETRY_CONN, 0, "path_ups");
    to->replayed  = tele_number(from, VQP_TELEMETRY_CONN, 0, "replayed");
    tele_text(from, VQP_TELEMETRY_PATH, 0, "source", to->source, sizeof(to->source));
    for (i = 0; i < from->head.num_paths; ++i) {
        tele_text(from, VQP_TELEMETRY_PATH, i, "state", state, sizeof(state));
        to->num_paths += (strcmp(state, "UNUSED") != 0);
        to->num_up    += (strcmp(state, "UP") == 0);
        if (i < ACCEPT_TELE_PATHS) {
            to->paths[i].bytes    = tele_number(from, VQP_TELEMETRY_PATH, i, "bytes");
            to->paths[i].lag_port = (unsigned)tele_number(from, VQP_TELEMETRY_PATH, i,
                                                          "lag_port");
        }
    }
}

int accept_tele_read(const char *dir, accept_tele_t *tele)
{
    teleset_t set = {.files = NULL};
    int is_live   = 0;
    char state[20];

    memset(tele, 0, sizeof(*tele));
    (void)teleset_add_dir(&set, dir);
    if ((set.num > 0) && (set.files[0].tele.head.num_conns > 0)) {
        tele_text(&set.files[0].tele, VQP_TELEMETRY_CONN, 0, "state", state, sizeof(state));
        is_live = (strcmp(state, "LIVE") == 0);
        tele_fill(&set.files[0].tele, tele);
    }

    teleset_clear(&set);
    return is_live;
}

int accept_tele_await(accept_end_t *end, const char *dir, accept_tele_t *tele,
                      double seconds, accept_tele_func_t func, const void *arg)
{
    double until = accept_now() + seconds;
    double next  = 0;

    memset(tele, 0, sizeof(*tele));
    while ((accept_now() < until) && accept_progress(end, until + ACCEPT_LIMIT)) {
        if (accept_now() < next) {
            continue;
        }
        if (func(tele, accept_tele_read(dir, tele), arg)) {
            return 1;
        }
        next = accept_now() + TELE_PERIOD;
    }

    return 0;
}

static int tele_is_live(const accept_tele_t *tele, int is_live, const void *arg)
{
    (void)tele;
    (void)arg;
    return is_live;
}

int accept_tele_wait(accept_end_t *end, const char *dir, accept_tele_t *tele)
{
    return accept_tele_await(end, dir, tele, ACCEPT_LIMIT, tele_is_live, NULL) ||
           accept_fail(end, "the telemetry has no live connection", UCS_ERR_TIMED_OUT);
}

int accept_tele_dir_create(char *dir, size_t size)
{
    static const char *const places[] = {"/dev/shm", "/tmp"};
    unsigned i;

    for (i = 0; i < 2; ++i) {
        snprintf(dir, size, "%s/vqp-accept.XXXXXX", places[i]);
        if (mkdtemp(dir) != NULL) {
            return 1;
        }
    }

    return 0;
}

static int tele_remove(const char *name, const struct stat *info, int type,
                       struct FTW *ftw)
{
    (void)info;
    (void)type;
    (void)ftw;
    return remove(name);
}

void accept_tele_dir_remove(const char *dir)
{
    (void)nftw(dir, tele_remove, 8, FTW_DEPTH | FTW_PHYS);
}
