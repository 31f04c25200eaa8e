/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of the transport, and the ports that it offers. UCX's public UCT API and libc.
 */
#ifndef VQP_TOOLS_ACCEPT_PORT_H
#define VQP_TOOLS_ACCEPT_PORT_H

#include <uct/api/uct.h>

#define ACCEPT_TL        "vqp"
#define ACCEPT_PORTS_MAX 64

/** A port that the transport offers. */
typedef struct accept_port {
    char md[64];
    char dev[64]; /* "mlx5_0:1" */
} accept_port_t;

/** An option of vqp for what is opened from now on; NULL: that of the user. */
void accept_option(const char *name, const char *value);

/** All options are those of the user again. */
void accept_options_restore(void);

/** The component of the transport, or NULL. */
uct_component_h accept_component(void);

/** Open a memory domain. @return it, or NULL. */
uct_md_h accept_md_open(uct_component_h component, const char *name);

/** Ports that the transport offers, and UCX_NET_DEVICES allows. @return their number, at most
 *  ACCEPT_PORTS_MAX. */
unsigned accept_ports(uct_component_h component, accept_port_t *ports);

#endif
