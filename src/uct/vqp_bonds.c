/* SPDX-License-Identifier: BSD-3-Clause */
/* Bonds of ports, see vqp_bonds.h. */
#include "uct/vqp_bonds.h"
#include "uct/vqp_md.h"

#include "core/conn/wire.h"
#include "verbs/gid.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/string.h>

static void uct_vqp_bonds_release(uct_vqp_bonds_t *bonds)
{
    ucs_free(bonds->bonds);
    ucs_free(bonds->names);
    ucs_free(bonds->ports);
}

static ucs_status_t uct_vqp_bonds_alloc(uct_vqp_bonds_t *bonds, unsigned max)
{
    bonds->ports = ucs_calloc(max, sizeof(*bonds->ports), "vqp_ports");
    bonds->names = ucs_calloc(max, sizeof(*bonds->names), "vqp_port_names");
    bonds->bonds = ucs_calloc(max, sizeof(*bonds->bonds), "vqp_bonds");
    if ((bonds->ports == NULL) || (bonds->names == NULL) ||
        (bonds->bonds == NULL)) {
        ucs_error("failed to allocate the list of ports");
        uct_vqp_bonds_release(bonds);
        return UCS_ERR_NO_MEMORY;
    }

    return UCS_OK;
}

static void uct_vqp_bonds_add_port(uct_vqp_bonds_t *bonds,
                                   const vqp_ib_dev_t *dev, uint8_t num)
{
    vqp_bond_port_t *entry = &bonds->ports[bonds->num_ports];
    vqp_ib_port_t port;
    vqp_ib_gid_t gid;

    if (vqp_ib_port_query(dev, num, &port) != VQP_OK) {
        return;
    }

    ucs_strncpy_zero(bonds->names[bonds->num_ports], dev->name,
                     VQP_IB_NAME_MAX);
    entry->dev  = bonds->names[bonds->num_ports];
    entry->num  = num;
    entry->link = (port.link == VQP_IB_LINK_ETH) ? VQP_LINK_ETH : VQP_LINK_IB;
    entry->numa = dev->numa_node;
    entry->is_active = port.active &&
                       (vqp_ib_gid_select(dev, &port, VQP_IB_GID_AUTO, &gid) == VQP_OK) &&
                       vqp_ib_dev_has_ud(dev);
    ++bonds->num_ports;
}

/* List all ports. A device that can not be opened has none: opening it by
 * name reports the error */
static ucs_status_t
uct_vqp_bonds_list_ports(uct_vqp_bonds_t *bonds, const vqp_ib_dev_list_t *list)
{
    ucs_status_t status;
    vqp_ib_dev_t dev;
    unsigned i, port;

    status = uct_vqp_bonds_alloc(bonds, list->count * UCT_VQP_DEV_MAX_PORTS);
    if (status != UCS_OK) {
        return status;
    }

    for (i = 0; i < list->count; ++i) {
        if (vqp_ib_dev_open(&dev, vqp_ib_dev_list_name(list, i)) != VQP_OK) {
            continue;
        }

        for (port = 1; port <= ucs_min(dev.num_ports, UCT_VQP_DEV_MAX_PORTS);
             ++port) {
            uct_vqp_bonds_add_port(bonds, &dev, (uint8_t)port);
        }
        vqp_ib_dev_close(&dev);
    }

    return UCS_OK;
}

/* A rail that is not there at the start does not join later */
static void uct_vqp_bonds_log_down(const char *text, const uct_vqp_bonds_t *bonds)
{
    const vqp_bond_port_t *port;
    const vqp_bond_t *bond;
    unsigned i;

    for (i = 0; i < bonds->num_bonds; ++i) {
        bond = &bonds->bonds[i];
        port = &bonds->ports[bond->rails[0]];
        if (bond->num_down > 0) {
            ucs_warn("UCX_VQP_RAILS=%s: ports of the bond of %s:%u are not active or have "
                     "no usable GID, they are not used: it has %u rails", text, port->dev,
                     port->num, bond->num_rails);
        }
    }
}

/* Build the bonds of a text */
static ucs_status_t uct_vqp_bonds_make(const char *text, uct_vqp_bonds_t *bonds)
{
    vqp_ib_dev_list_t list;
    ucs_status_t status;
    char why[128];

    status = uct_vqp_status(vqp_ib_dev_list_get(&list));
    if (status != UCS_OK) {
        return status;
    }

    if (list.count > 0) {
        status = uct_vqp_bonds_list_ports(bonds, &list);
    }
    vqp_ib_dev_list_free(&list);
    if (status != UCS_OK) {
        return status;
    }

    if (vqp_bond_parse(text, bonds->ports, bonds->num_ports, bonds->bonds,
                       &bonds->num_bonds, why, sizeof(why)) != VQP_OK) {
        ucs_error("UCX_VQP_RAILS=%s: %s", text, why);
        uct_vqp_bonds_release(bonds);
        return UCS_ERR_INVALID_PARAM;
    }

    uct_vqp_bonds_log_down(text, bonds);
    return UCS_OK;
}

/* All results: never freed, since the same text has to get the same result */
static uct_vqp_bonds_t *uct_vqp_bonds_made;
static pthread_mutex_t uct_vqp_bonds_lock = PTHREAD_MUTEX_INITIALIZER;

static const uct_vqp_bonds_t *uct_vqp_bonds_find(const char *text)
{
    uct_vqp_bonds_t *bonds;

    for (bonds = uct_vqp_bonds_made; bonds != NULL; bonds = bonds->next) {
        if (strcmp(bonds->text, text) == 0) {
            return bonds;
        }
    }

    bonds = ucs_calloc(1, sizeof(*bonds) + strlen(text) + 1, "vqp_bonds_of");
    if (bonds == NULL) {
        ucs_error("failed to allocate the list of bonds");
        return NULL;
    }

    strcpy(bonds->text, text);
    if (uct_vqp_bonds_make(text, bonds) != UCS_OK) {
        ucs_free(bonds);
        return NULL;
    }

    bonds->next        = uct_vqp_bonds_made;
    uct_vqp_bonds_made = bonds;
    return bonds;
}

const uct_vqp_bonds_t *uct_vqp_bonds_get(const char *text)
{
    static const uct_vqp_bonds_t none;
    const uct_vqp_bonds_t *bonds;

    if (text[strspn(text, " ")] == '\0') {
        return &none;
    }

    pthread_mutex_lock(&uct_vqp_bonds_lock);
    bonds = uct_vqp_bonds_find(text);
    pthread_mutex_unlock(&uct_vqp_bonds_lock);
    return bonds;
}

static int uct_vqp_bonds_has(const uct_vqp_bonds_t *bonds, unsigned port)
{
    unsigned i, j;

    for (i = 0; i < bonds->num_bonds; ++i) {
        for (j = 0; j < bonds->bonds[i].num_rails; ++j) {
            if (bonds->bonds[i].rails[j] == port) {
                return 1;
            }
        }
    }

    return 0;
}

unsigned uct_vqp_bonds_free_ports(const uct_vqp_bonds_t *bonds, const char *dev,
                                  uint64_t *bonded)
{
    unsigned count = 0;
    unsigned i;

    *bonded = 0;
    for (i = 0; i < bonds->num_ports; ++i) {
        if (strcmp(bonds->ports[i].dev, dev) != 0) {
            continue;
        }

        /* One that is down may be named by a bond, and be up again when the
         * device is opened */
        if (uct_vqp_bonds_has(bonds, i) ||
            ((bonds->num_bonds > 0) && !bonds->ports[i].is_active)) {
            *bonded |= UCS_BIT(bonds->ports[i].num);
        } else if (bonds->ports[i].is_active) {
            ++count;
        }
    }

    return count;
}
