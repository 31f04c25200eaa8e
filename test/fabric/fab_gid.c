/*
 * GIDs, LIDs and GUIDs. May call libc, and reads how far the tables have moved.
 */
#include "fab_gid.h"
#include "fab_config.h"
#include "fab_world.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

/* 10.88.PORT.DEVICE+1; the MAC addresses are locally administered */
#define FAB_GID_IPV4(_device, _port) \
    (0x0a580000u | ((_port) << 8) | ((_device) + 1))
#define FAB_GID_GUID_BASE 0x00fab0fffe000000ull
#define FAB_GID_EUI_LOCAL 0x0200000000000000ull

enum fab_gid_kind {
    FAB_GID_KIND_EMPTY,
    FAB_GID_KIND_LINK_LOCAL,
    FAB_GID_KIND_IPV4,
    FAB_GID_KIND_FIXED
};

typedef struct fab_gid_entry {
    enum fab_gid_kind kind;
    enum fab_gid_type type;
    union ibv_gid     fixed;
} fab_gid_entry_t;

static fab_gid_entry_t fab_gid_table[FAB_CONFIG_MAX_GIDS];
static unsigned fab_gid_count; /* entries that are configured */

static void fab_gid_from_ipv4(uint32_t ipv4, union ibv_gid *gid)
{
    memset(gid, 0, sizeof(*gid));
    gid->raw[10] = 0xff;
    gid->raw[11] = 0xff;
    ipv4         = htobe32(ipv4);
    memcpy(&gid->raw[12], &ipv4, sizeof(ipv4));
}

/* text is the entry without its type */
static int fab_gid_parse_address(const char *text, fab_gid_entry_t *entry)
{
    struct in_addr in;

    if (!strcmp(text, "ll")) {
        entry->kind = FAB_GID_KIND_LINK_LOCAL;
    } else if (!strcmp(text, "ip")) {
        entry->kind = FAB_GID_KIND_IPV4;
    } else {
        entry->kind = FAB_GID_KIND_FIXED;
        if (inet_pton(AF_INET, text, &in) == 1) {
            fab_gid_from_ipv4(be32toh(in.s_addr), &entry->fixed);
        } else if (inet_pton(AF_INET6, text, &entry->fixed) != 1) {
            return -1;
        }
    }

    return 0;
}

static int fab_gid_parse_entry(const char *text, fab_gid_entry_t *entry)
{
    if (!strcmp(text, "-")) {
        entry->kind = FAB_GID_KIND_EMPTY;
        entry->type = FAB_GID_EMPTY;
        return 0;
    }

    if (!strncmp(text, "v1/", 3)) {
        entry->type = FAB_GID_ROCE_V1;
    } else if (!strncmp(text, "v2/", 3)) {
        entry->type = FAB_GID_ROCE_V2;
    } else {
        return -1;
    }

    return fab_gid_parse_address(text + 3, entry);
}

static int fab_gid_parse(const char *list, char *error, size_t error_size)
{
    char text[64];
    size_t length;

    fab_gid_count = 0;
    while (*list != '\0') {
        length = strcspn(list, ",");
        snprintf(text, sizeof(text), "%.*s", (int)length, list);
        if ((fab_gid_count == fab_config.gid_tbl_len) ||
            (fab_gid_parse_entry(text, &fab_gid_table[fab_gid_count]) != 0)) {
            snprintf(error, error_size,
                     "VQP_FABRIC_GIDS: no place for, or no sense in, '%s'",
                     text);
            return -1;
        }

        ++fab_gid_count;
        list += length;
        list += (*list == ',');
    }

    return 0;
}

int fab_gid_init(char *error, size_t error_size)
{
    if (fab_config.link == FAB_LINK_INFINIBAND) {
        fab_gid_count         = 1;
        fab_gid_table[0].kind = FAB_GID_KIND_LINK_LOCAL;
        fab_gid_table[0].type = FAB_GID_IB;
        return 0;
    }

    return fab_gid_parse(fab_config.gids, error, error_size);
}

uint64_t fab_gid_guid(unsigned device, unsigned port)
{
    return FAB_GID_GUID_BASE | (device << 8) | port;
}

static uint64_t fab_gid_moved(unsigned device, unsigned port)
{
    return (fab_world == NULL) ? 0 :
           __atomic_load_n(&fab_world->devs[device].ports[port - 1].gids_moved,
                           __ATOMIC_ACQUIRE);
}

int fab_gid_get(unsigned device, unsigned port, int index, union ibv_gid *gid,
                enum fab_gid_type *type)
{
    const fab_gid_entry_t *entry;
    uint64_t eui, place;

    memset(gid, 0, sizeof(*gid));
    *type = FAB_GID_EMPTY;
    if ((index < 0) || ((unsigned)index >= fab_config.gid_tbl_len)) {
        return -1;
    }

    place = (uint64_t)index - fab_gid_moved(device, port); /* wraps: not configured */
    if (place >= fab_gid_count) {
        return 0;
    }

    entry = &fab_gid_table[place];
    *type = entry->type;
    switch (entry->kind) {
    case FAB_GID_KIND_EMPTY:
        break;
    case FAB_GID_KIND_LINK_LOCAL:
        eui = fab_gid_guid(device, port);
        if (entry->type != FAB_GID_IB) {
            eui |= FAB_GID_EUI_LOCAL;
        }
        gid->global.subnet_prefix = htobe64(0xfe80000000000000ull);
        gid->global.interface_id  = htobe64(eui);
        break;
    case FAB_GID_KIND_IPV4:
        fab_gid_from_ipv4(FAB_GID_IPV4(device, port), gid);
        break;
    case FAB_GID_KIND_FIXED:
        *gid = entry->fixed;
        break;
    }

    return 0;
}

const char *fab_gid_type_name(enum fab_gid_type type)
{
    switch (type) {
    case FAB_GID_IB:
    case FAB_GID_ROCE_V1:
        return "IB/RoCE v1";
    case FAB_GID_ROCE_V2:
        return "RoCE v2";
    case FAB_GID_EMPTY:
        break;
    }

    return "";
}

int fab_gid_find(const union ibv_gid *gid, unsigned *device, unsigned *port)
{
    enum fab_gid_type type;
    union ibv_gid entry;
    unsigned d, p, i;

    for (d = 0; d < fab_config.devices; ++d) {
        for (p = 1; p <= fab_config.ports; ++p) {
            for (i = 0; i < fab_config.gid_tbl_len; ++i) {
                if ((fab_gid_get(d, p, (int)i, &entry, &type) == 0) &&
                    (type != FAB_GID_EMPTY) &&
                    !memcmp(entry.raw, gid->raw, sizeof(entry.raw))) {
                    *device = d;
                    *port   = p;
                    return 0;
                }
            }
        }
    }

    return -1;
}

uint32_t fab_gid_ipv4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    uint32_t ipv4;

    if (memcmp(gid->raw, prefix, sizeof(prefix))) {
        return 0;
    }

    memcpy(&ipv4, &gid->raw[12], sizeof(ipv4));
    return be32toh(ipv4);
}

uint16_t fab_gid_lid(unsigned device, unsigned port)
{
    if (fab_config.link == FAB_LINK_ETHERNET) {
        return 0;
    }

    return (uint16_t)(1 + device * fab_config.ports + (port - 1));
}

int fab_gid_find_lid(uint16_t lid, unsigned *device, unsigned *port)
{
    if ((fab_config.link == FAB_LINK_ETHERNET) || (lid == 0) ||
        (lid > fab_config.devices * fab_config.ports)) {
        return -1;
    }

    *device = (lid - 1) / (unsigned)fab_config.ports;
    *port   = (lid - 1) % (unsigned)fab_config.ports + 1;
    return 0;
}
