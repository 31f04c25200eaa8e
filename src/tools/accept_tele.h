/* SPDX-License-Identifier: BSD-3-Clause */
/* What the telemetry file of an end says of its first connection. libc and teleset.h. */
#ifndef VQP_TOOLS_ACCEPT_TELE_H
#define VQP_TOOLS_ACCEPT_TELE_H

#include "tools/accept.h"

#define ACCEPT_TELE_PATHS 16

typedef struct accept_tele {
    unsigned num_paths; /* that are not UNUSED... */
    unsigned num_up;    /* ...and UP, of these */
    unsigned max_paths;
    char     source[9]; /* what its port counts executed requests by; "-": no failover */
    uint64_t downs;     /* paths that were given up... */
    uint64_t ups;       /* ...and that came back */
    uint64_t replayed;  /* work requests that were sent again */
    struct {
        uint64_t bytes;
        unsigned lag_port; /* member port of a bonded device; 0: none is assigned */
    } paths[ACCEPT_TELE_PATHS];
} accept_tele_t;

/** Create a directory for the files of a run, of this user alone. @return 1, or 0. */
int accept_tele_dir_create(char *dir, size_t size);

/** Remove it with what is in it. */
void accept_tele_dir_remove(const char *dir);

/** Read the last snapshot, which is up to a second old. @return 1, or 0: there is none with
 *  a connection that is live. */
int accept_tele_read(const char *dir, accept_tele_t *tele);

/** @return whether a snapshot is the one that is waited for. @param is_live  It has a live
 *  connection. */
typedef int (*accept_tele_func_t)(const accept_tele_t *tele, int is_live, const void *arg);

/** Progress until there is a snapshot that is waited for. @return 1; 0: see status, if there is
 *  an error, else the seconds are over. */
int accept_tele_await(accept_end_t *end, const char *dir, accept_tele_t *tele,
                      double seconds, accept_tele_func_t func, const void *arg);

/** The same until there is a live connection, at most ACCEPT_LIMIT. @return 1; 0: see status. */
int accept_tele_wait(accept_end_t *end, const char *dir, accept_tele_t *tele);

#endif
