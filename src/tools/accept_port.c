/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the transport, and the ports that it offers, see accept_port.h. */
#include "tools/accept_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACCEPT_OPTIONS 8

/* ---- options ---- */

static struct {
    char  name[64];
    char *value; /* of the user; NULL: he has set none */
} accept_saved[ACCEPT_OPTIONS];

/* By the environment: names for uct_config_modify() depend on the version of UCX */
void accept_option(const char *name, const char *value)
{
    const char *before;
    unsigned i;

    for (i = 0; (i < ACCEPT_OPTIONS) && (accept_saved[i].name[0] != '\0'); ++i) {
        if (strcmp(accept_saved[i].name, name) == 0) {
            break;
        }
    }

    if (i == ACCEPT_OPTIONS) {
        abort();
    }

    if (accept_saved[i].name[0] == '\0') {
        before         = getenv(name);
        accept_saved[i].value = (before != NULL) ? strdup(before) : NULL;
        snprintf(accept_saved[i].name, sizeof(accept_saved[i].name), "%s", name);
    }

    value = (value != NULL) ? value : accept_saved[i].value;
    if (value != NULL) {
        (void)setenv(name, value, 1);
    } else {
        (void)unsetenv(name);
    }
}

void accept_options_restore(void)
{
    unsigned i;

    for (i = 0; (i < ACCEPT_OPTIONS) && (accept_saved[i].name[0] != '\0'); ++i) {
        accept_option(accept_saved[i].name, NULL);
    }
}

/* ---- ports ---- */

uct_component_h accept_component(void)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};
    uct_component_h found     = NULL;
    uct_component_h *list;
    unsigned i, count;

    if (uct_query_components(&list, &count) != UCS_OK) {
        return NULL;
    }

    for (i = 0; i < count; ++i) {
        if ((uct_component_query(list[i], &attr) == UCS_OK) &&
            (strcmp(attr.name, ACCEPT_TL) == 0)) {
            found = list[i];
        }
    }

    uct_release_component_list(list);
    return found;
}

/* Is the port in the list UCX_NET_DEVICES, which UCP reads and UCT does not? */
static int accept_is_allowed(const char *dev)
{
    const char *list = getenv("UCX_NET_DEVICES");
    size_t length;

    if ((list == NULL) || (list[0] == '\0') || (strcmp(list, "all") == 0)) {
        return 1;
    }

    for (; *list != '\0'; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if ((length == strlen(dev)) && (strncmp(list, dev, length) == 0)) {
            return 1;
        }
    }

    return 0;
}

uct_md_h accept_md_open(uct_component_h component, const char *name)
{
    uct_md_config_t *config;
    uct_md_h md = NULL;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return NULL;
    }

    if (uct_md_open(component, name, config, &md) != UCS_OK) {
        md = NULL;
    }

    uct_config_release(config);
    return md;
}

static unsigned accept_md_ports(uct_component_h component, const char *md_name,
                                accept_port_t *ports, unsigned num)
{
    uct_md_h md = accept_md_open(component, md_name);
    uct_tl_resource_desc_t *list;
    unsigned i, count;

    if (md == NULL) {
        return num;
    }

    if (uct_md_query_tl_resources(md, &list, &count) == UCS_OK) {
        for (i = 0; (i < count) && (num < ACCEPT_PORTS_MAX); ++i) {
            if (accept_is_allowed(list[i].dev_name)) {
                snprintf(ports[num].md, sizeof(ports[num].md), "%s", md_name);
                snprintf(ports[num].dev, sizeof(ports[num].dev), "%s", list[i].dev_name);
                ++num;
            }
        }
        uct_release_tl_resource_list(list);
    }

    uct_md_close(md);
    return num;
}

unsigned accept_ports(uct_component_h component, accept_port_t *ports)
{
    uct_component_attr_t attr = {
        .field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT
    };
    unsigned num = 0;
    unsigned i;

    if (uct_component_query(component, &attr) != UCS_OK) {
        return 0;
    }

    attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = calloc(attr.md_resource_count + 1, sizeof(*attr.md_resources));
    if ((attr.md_resources != NULL) && (uct_component_query(component, &attr) == UCS_OK)) {
        for (i = 0; i < attr.md_resource_count; ++i) {
            num = accept_md_ports(component, attr.md_resources[i].md_name, ports, num);
        }
    }

    free(attr.md_resources);
    return num;
}
