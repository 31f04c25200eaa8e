/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of vqp-accept as both processes know them: the one that commands opens an end for
 * a step, and the one that serves does its half of it.
 */
#ifndef VQP_TOOLS_ACCEPT_SERVE_H
#define VQP_TOOLS_ACCEPT_SERVE_H

#include "tools/accept.h"

typedef enum {
    ACCEPT_CONNECT = 1, /* the telemetry of the serving end is sent */
    ACCEPT_STREAM,
    ACCEPT_BANDWIDTH,
    ACCEPT_LATENCY,
    ACCEPT_MEMORY,
    ACCEPT_VERDICT      /* the last command */
} accept_step_t;

typedef struct accept_command {
    uint32_t step;     /* accept_step_t */
    uint32_t port;     /* of those of the serving process */
    uint32_t paths;    /* so many, fixed; 0: as the user's options say */
    uint32_t problems; /* of the verdict */
} accept_command_t;

/** What a process has for all steps. */
typedef struct accept_site {
    uct_component_h component;
    accept_port_t   ports[ACCEPT_PORTS_MAX];
    unsigned        num_ports;
    char            dir[64]; /* of telemetry files */
} accept_site_t;

/** Find the ports. @return NULL, or what is missing. */
const char *accept_site_find(accept_site_t *site);

/** Create the directory. @return NULL, or what is missing. Close it in any case. */
const char *accept_site_open(accept_site_t *site);
void accept_site_close(accept_site_t *site);

/** Command a step, and connect an endpoint for it. Close the end in any case. @return 1, or
 *  0: see status. */
int accept_step_open(accept_end_t *end, const accept_site_t *site, accept_link_t *link,
                     const accept_port_t *port, const accept_command_t *command);

/** Serve steps. @return the number of problems of the verdict; -1: there was none. */
int accept_serve(const accept_site_t *site, accept_link_t *link);

#endif
