/* SPDX-License-Identifier: BSD-3-Clause */
/* Parse UCX_VQP_RAILS, see bond.h. Pure: libc only. */
#include "core/conn/bond.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define VQP_BOND_ITEM_MAX 80

typedef struct vqp_bond_parser {
    const vqp_bond_port_t *ports;
    unsigned               num_ports;
    vqp_bond_t            *bonds;
    unsigned               num_bonds;
    char                  *why;
    size_t                 size;
} vqp_bond_parser_t;

#define vqp_bond_error(_parser, ...) \
    (snprintf((_parser)->why, (_parser)->size, __VA_ARGS__), \
     VQP_ERR_INVALID_PARAM)

static int vqp_bond_has(const vqp_bond_t *bond, unsigned port)
{
    unsigned i;

    for (i = 0; i < bond->num_rails; ++i) {
        if (bond->rails[i] == port) {
            return 1;
        }
    }

    return 0;
}

static vqp_status_t
vqp_bond_add(vqp_bond_parser_t *parser, vqp_bond_t *bond, unsigned index)
{
    const vqp_bond_port_t *port = &parser->ports[index];
    unsigned i;

    if (vqp_bond_has(bond, index)) {
        return VQP_OK;
    }

    for (i = 0; i < parser->num_bonds; ++i) {
        if (vqp_bond_has(&parser->bonds[i], index)) {
            return vqp_bond_error(parser, "%s:%u is in two bonds", port->dev,
                                  port->num);
        }
    }

    if (bond->num_rails == VQP_MAX_RAILS) {
        return vqp_bond_error(parser, "a bond has more than %u rails",
                              VQP_MAX_RAILS);
    }

    if ((bond->num_rails > 0) &&
        (port->link != parser->ports[bond->rails[0]].link)) {
        return vqp_bond_error(parser, "%s:%u has another link layer than %s:%u",
                              port->dev, port->num,
                              parser->ports[bond->rails[0]].dev,
                              parser->ports[bond->rails[0]].num);
    }

    bond->rails[bond->num_rails++] = index;
    return VQP_OK;
}

/* Match "device:port", or only "device" if the glob has no port */
static int vqp_bond_match(const char *glob, const vqp_bond_port_t *port)
{
    char name[VQP_BOND_ITEM_MAX];

    if (strchr(glob, ':') == NULL) {
        return fnmatch(glob, port->dev, 0) == 0;
    }

    snprintf(name, sizeof(name), "%s:%u", port->dev, port->num);
    return fnmatch(glob, name, 0) == 0;
}

static vqp_status_t vqp_bond_item(vqp_bond_parser_t *parser, vqp_bond_t *bond,
                                  const char *text, size_t length)
{
    char glob[VQP_BOND_ITEM_MAX];
    vqp_status_t status;
    unsigned found = 0, active = 0;
    unsigned i;

    while ((length > 0) && (*text == ' ')) {
        ++text;
        --length;
    }
    while ((length > 0) && (text[length - 1] == ' ')) {
        --length;
    }

    if (length == 0) {
        return vqp_bond_error(parser, "a device name is empty");
    }
    if (length >= sizeof(glob)) {
        return vqp_bond_error(parser, "a device name has more than %zu "
                              "characters", sizeof(glob) - 1);
    }

    memcpy(glob, text, length);
    glob[length] = '\0';
    for (i = 0; i < parser->num_ports; ++i) {
        if (!vqp_bond_match(glob, &parser->ports[i])) {
            continue;
        }

        ++found;
        if (parser->ports[i].is_active) {
            ++active;
            status = vqp_bond_add(parser, bond, i);
            if (status != VQP_OK) {
                return status;
            }
        }
    }

    bond->num_down += (active == 0);
    return (found > 0) ? VQP_OK :
           vqp_bond_error(parser, "'%s' matches no port", glob);
}

static void vqp_bond_close(vqp_bond_parser_t *parser, const vqp_bond_t *bond)
{
    if (bond->num_rails + bond->num_down > 1) {
        parser->bonds[parser->num_bonds++] = *bond;
    }
}

/* Parse one bond, and move @a text behind it */
static vqp_status_t vqp_bond_one(vqp_bond_parser_t *parser, const char **text)
{
    const char *start = *text;
    vqp_bond_t bond   = {0};
    vqp_status_t status;
    size_t length;

    for (;;) {
        length = strcspn(*text, ",;");
        status = vqp_bond_item(parser, &bond, *text, length);
        *text += length;
        if (status != VQP_OK) {
            return status;
        }

        if (**text != ',') {
            break;
        }
        ++*text;
    }

    if (bond.num_rails == 0) {
        return vqp_bond_error(parser, "no port of '%.*s' is active",
                              (int)(*text - start), start);
    }

    vqp_bond_close(parser, &bond);
    return VQP_OK;
}

/* Each bond: ports of one NUMA node and link layer, VQP_MAX_RAILS at most */
static void vqp_bond_auto(vqp_bond_parser_t *parser)
{
    const vqp_bond_port_t *ports = parser->ports;
    vqp_bond_t bond = {0};
    unsigned i, j;

    for (i = 0; i < parser->num_ports; ++i) {
        for (j = 0; j < parser->num_bonds; ++j) {
            if (vqp_bond_has(&parser->bonds[j], i)) {
                break;
            }
        }
        if ((j < parser->num_bonds) || !ports[i].is_active) {
            continue;
        }

        bond.num_rails = 0;
        for (j = i; (j < parser->num_ports) && (bond.num_rails < VQP_MAX_RAILS);
             ++j) {
            if (ports[j].is_active && (ports[j].numa == ports[i].numa) &&
                (ports[j].link == ports[i].link)) {
                bond.rails[bond.num_rails++] = j;
            }
        }
        vqp_bond_close(parser, &bond);
    }
}

vqp_status_t vqp_bond_parse(const char *text, const vqp_bond_port_t *ports,
                            unsigned num_ports, vqp_bond_t *bonds,
                            unsigned *num_bonds, char *why, size_t size)
{
    vqp_bond_parser_t parser = {
        .ports     = ports,
        .num_ports = num_ports,
        .bonds     = bonds,
        .why       = why,
        .size      = size
    };
    vqp_status_t status      = VQP_OK;

    if (strcmp(text, "auto") == 0) {
        vqp_bond_auto(&parser);
    } else if (text[strspn(text, " ")] != '\0') {
        do {
            status = vqp_bond_one(&parser, &text);
        } while ((status == VQP_OK) && (*text++ == ';'));
    }

    *num_bonds = (status == VQP_OK) ? parser.num_bonds : 0;
    return status;
}
