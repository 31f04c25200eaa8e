/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of vqp-accept, and the process that serves them, see accept_serve.h. */
#include "tools/accept_serve.h"

#include "tools/accept_measure.h"
#include "tools/accept_tele.h"
#include "tools/accept_verify.h"

#include <stdio.h>
#include <string.h>

const char *accept_site_find(accept_site_t *site)
{
    site->component = accept_component();
    if (site->component == NULL) {
        return "UCX does not know the transport vqp: run it by vqp-run --accept";
    }

    site->num_ports = accept_ports(site->component, site->ports);
    return (site->num_ports > 0) ? NULL :
           "vqp is offered on no port, or on none of UCX_NET_DEVICES: vqp-run --check names "
           "the reason";
}

const char *accept_site_open(accept_site_t *site)
{
    if (!accept_tele_dir_create(site->dir, sizeof(site->dir))) {
        site->dir[0] = '\0';
        return "no directory can be created in /dev/shm or /tmp";
    }

    return NULL;
}

void accept_site_close(accept_site_t *site)
{
    if (site->dir[0] != '\0') {
        accept_tele_dir_remove(site->dir);
    }
}

/* ---- both processes ---- */

static void step_set_paths(unsigned num)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", num);
    accept_option("UCX_VQP_NUM_PATHS", (num != 0) ? text : NULL);
    accept_option("UCX_VQP_MIN_PATHS", (num != 0) ? text : NULL);
}

int accept_step_open(accept_end_t *end, const accept_site_t *site, accept_link_t *link,
                     const accept_port_t *port, const accept_command_t *command)
{
    ++link->step;
    step_set_paths(command->paths);
    if (!accept_link_send(link, ACCEPT_FRAME_COMMAND, command, sizeof(*command))) {
        memset(end, 0, sizeof(*end));
        end->link = link;
        return accept_fail(end, "the other process has ended", UCS_ERR_CONNECTION_RESET);
    }

    if (!accept_end_open(end, link, site->component, port, site->dir)) {
        return 0;
    }

    end->ep = accept_ep_create(end);
    return (end->ep != NULL) && accept_flush(end, end->ep) &&
           accept_send(end, "connected", 9);
}

/* ---- the process that serves ---- */

static void serve_connect(const accept_site_t *site, accept_end_t *end)
{
    accept_tele_t tele;

    if (accept_tele_wait(end, site->dir, &tele) && accept_send(end, &tele, sizeof(tele))) {
        (void)accept_receive_any(end);
    }
}

static void serve_step(const accept_site_t *site, accept_end_t *end, unsigned step)
{
    switch (step) {
    case ACCEPT_CONNECT:
        serve_connect(site, end);
        break;
    case ACCEPT_STREAM:
        accept_verify(end);
        break;
    case ACCEPT_BANDWIDTH:
        accept_bandwidth_serve(end);
        break;
    case ACCEPT_LATENCY:
        accept_latency_serve(end);
        break;
    case ACCEPT_MEMORY:
        accept_memory_serve(end);
        break;
    default:
        (void)accept_fail(end, "there is no such step", UCS_ERR_UNSUPPORTED);
        break;
    }
}

static void serve_command(const accept_site_t *site, accept_link_t *link,
                          const accept_command_t *command)
{
    static const char no_port[] = "it has no such port";
    static accept_end_t end; /* messages may arrive until it is closed */

    if (command->port >= site->num_ports) {
        (void)accept_link_send(link, ACCEPT_FRAME_FAILED, no_port, strlen(no_port));
        return;
    }

    step_set_paths(command->paths);
    if (accept_end_open(&end, link, site->component, &site->ports[command->port],
                        site->dir) && accept_receive_any(&end)) {
        serve_step(site, &end, command->step);
    }

    accept_end_close(&end);
}

int accept_serve(const accept_site_t *site, accept_link_t *link)
{
    const accept_frame_t *in = &link->in;
    accept_command_t command;

    while (accept_link_wait(link, (int)(ACCEPT_SILENCE * 1000)) == 1) {
        if ((in->head.type != ACCEPT_FRAME_COMMAND) ||
            (in->head.length != sizeof(command))) {
            continue; /* the end of a step */
        }

        memcpy(&command, in->data, sizeof(command));
        if (command.step == ACCEPT_VERDICT) {
            (void)accept_link_send(link, ACCEPT_FRAME_END, NULL, 0);
            return (command.problems <= 1000) ? (int)command.problems : 1000;
        }
        serve_command(site, link, &command);
    }

    return -1;
}
