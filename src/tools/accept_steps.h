/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of vqp-accept in the process that commands: what is tried with the other process,
 * and the lines of the report about it.
 */
#ifndef VQP_TOOLS_ACCEPT_STEPS_H
#define VQP_TOOLS_ACCEPT_STEPS_H

#include "tools/accept_serve.h"

typedef struct accept_run {
    const accept_site_t *site;
    accept_link_t       *link;
    double               seconds;      /* of a stream */
    int                  is_local;     /* this process has started the other one */
    int                  is_same_host;
    const accept_port_t *port;
    uint32_t             peer_port;
    int                  counts;       /* both ports count what they execute */
    int                  has_failover;
} accept_run_t;

/** Run all steps, each of which prints a line at least. */
void accept_run(accept_run_t *self);

#endif
